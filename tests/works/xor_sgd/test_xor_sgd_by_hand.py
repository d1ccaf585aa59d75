"""What both halves of the claims share, rows and summaries of xor_sgd, against numbers worked out by hand."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from featlearn.core import Key
from featlearn.lab.experiment import Rows
from featlearn.lab.row import columns, plain
from featlearn.lab.table import Table
from featlearn.learn import Stage, fit_one_pass
from featlearn.nets import mean_field_rates, sphere_init
from featlearn.works.xor_sgd import setup
from featlearn.works.xor_sgd.claims.phases import balance_observed
from featlearn.works.xor_sgd.experiments import budgets, limits, phases, samples, time
from featlearn.works.xor_sgd.rows import BOTH, FROZEN, Budget, Crossing, Growth, Phase, Variant

LN2 = math.log(2)

# the cube, networks and gradients ------------------------------------------------------------------------------------

X = np.array([[1.0, 1.0], [-1.0, -1.0]])
NET = setup.Net(np.array([[1.0, 0.0], [0.0, -2.0]]), np.array([3.0, -1.0]))


def test_the_cube_its_labels_and_the_rates_of_growth():
    assert setup.cube(2).tolist() == [[1, 1], [-1, 1], [1, -1], [-1, -1]]
    assert setup.labels(setup.cube(2)).tolist() == [-1, 1, 1, -1]
    assert setup.centres(3).tolist() == [[1, -1, 0], [-1, 1, 0], [1, 1, 0], [-1, -1, 0]]
    assert (setup.TAU1, setup.TAU2, setup.ROOT2) == pytest.approx((0.39894228, 0.35355339, 1.41421356))


def test_a_network_of_two_neurons():
    assert NET(X).tolist() == [1.5, -1.0]
    assert NET.mass == 2.5
    assert NET.norm.tolist() == [1.0, 2.0]
    net = setup.Net(np.array([[3.0, 1.0, 5.0], [3.0, 1.0, 5.0]]), np.array([1.0, -1.0]))
    first, second, rest = [1.0, -1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 5.0]  # along mu_1, along mu_2, beside both
    np.testing.assert_allclose(net.sig, [first, second])
    np.testing.assert_allclose(net.opp, [second, first])
    np.testing.assert_allclose(net.perp, [rest, rest])


def test_slopes_of_the_loss_and_gradients():
    score, y = np.array([0.0, math.log(3), math.log(3)]), np.array([1.0, 1.0, -1.0])
    np.testing.assert_allclose(setup.slope(score, y), [-1.0, -0.5, 1.5])
    w, a = setup.gradients(NET, X, np.array([0.5, -1.0]))
    np.testing.assert_allclose(w, [[0.75, 0.75], [-0.5, -0.5]])
    np.testing.assert_allclose(a, [0.25, -1.0])
    np.testing.assert_allclose(setup.first_order(NET, X)[1], [0.5, 1.0])  # labels -1
    far = np.array([[1.0, 1.0, 7.0]])
    net = setup.Net(np.array([[1.0, 1.0, 1.0]]), np.array([1.0]))
    np.testing.assert_allclose(setup.clean_push(net, far), 2 / (1 + math.exp(-2)))
    np.testing.assert_allclose(setup.true_gradients(net, far)[1], 9 * 2 / (1 + math.exp(-9)))


def test_neurons_of_a_heavy_network_have_the_parts_that_were_asked_for():
    net = setup.heavy_net(8, 6, Key("heavy"), size=3.0, opp=0.3, perp=0.2, balance=2.0)
    sig, opp, perp = (np.linalg.norm(part, axis=1) for part in (net.sig, net.opp, net.perp))
    np.testing.assert_allclose(opp / sig, 0.3)
    np.testing.assert_allclose(perp / sig, 0.2)
    np.testing.assert_allclose(np.abs(net.a) / net.norm, 2.0)
    assert ((sig >= 2.4) & (sig <= 3.6)).all()
    nearest = (net.w @ setup.centres(6).T).argmax(1)
    assert nearest.tolist() == [0, 1, 2, 3] * 2
    assert np.sign(net.a).tolist() == [1, 1, -1, -1] * 2


# rows ----------------------------------------------------------------------------------------------------------------

KINDS = (Budget, Variant, Growth, Phase, Crossing)
QUANTITIES = {
    "COUNT": {"d"},
    "SEED": {"seed"},
    "PERCENT": {"best", "dominated", "least_cluster", "test_accuracy"},
    "REAL": {"margin_min", "margin_max", "imbalance", "excess", "Growth.sig", "Growth.opp"},
    "NAME": {"kind", "learner", "role", "layers"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_columns_hold_what_their_names_say(kind):
    for name, column in columns(kind).items():
        told = {name, f"{kind.__name__}.{name}"}
        expected = [q for q, names in QUANTITIES.items() if told & names] or ["POSITIVE"]
        assert [column.quantity.name.upper()] == expected, name


def rows_of(*made):
    return Rows(tuple(plain(r) | {"trial": str(i)} for i, r in enumerate(made)))


def numbers(rows, *, row=""):
    """(setting, metric) -> (value, units), of one row of the table or of all."""
    return {(r.setting, r.metric): (pytest.approx(r.value), r.n) for r in rows if row in ("", r.row)}


# samples -------------------------------------------------------------------------------------------------------------


def budget(learner, d, share, noise, found, seeds=(1000, 0, 1)):
    """A row a seed; the first seed is a validation seed."""
    return [
        Budget(
            learner=learner,
            d=d,
            share=share,
            noise=noise,
            role="validation" if seed >= 1000 else "reported",
            seed=seed,
            samples=n,
            over=None if n else 500.0,
        )
        for seed, n in zip(seeds, found, strict=True)
    ]


BUDGETS = rows_of(
    *budget("Network", 8, 0.5, 1.0, (40.0, 32.0, 128.0)),
    *budget("Network", 8, 1.0, 1.0, (80.0, 64.0, 64.0)),
    *budget("Network", 16, 0.5, 1.0, (None, 10.0, 10.0)),
    *budget("Network", 16, 1.0, 1.0, (160.0, 128.0, None)),
    *budget("RBF", 8, 1.0, 1e-3, (50.0, 60.0, 60.0)),
    *budget("RBF", 8, 4.0, 1e-3, (40.0, 20.0, 80.0)),
    *budget("RBF", 8, 9.0, 1e-3, (50.0, 60.0, 60.0)),
)


def test_budgets_at_the_selected_points():
    """The exponent is 1: the mean logarithm of 32 and 128 is that of 64, and twice the dimension needs 128."""
    found = samples.summarise(BUDGETS)
    assert {r.row for r in found} == {"Network", "RBF", "Network, batch d/2", "Network, batch d"}
    # in units of log 2 the budgets over d are 2, 4, 3, and over d^2 -1, 1, -1
    wanted = {
        ("", "misfit of d"): (math.sqrt(2 / 3) * LN2, 1),
        ("", "misfit of d^2"): (math.sqrt(8 / 9) * LN2, 1),
        ("", "exponent"): (1.0, 3),
        ("d = 8", "samples"): (64.0, 2),
        ("d = 8", "samples / d"): (8.0, 2),
        ("d = 8", "batch / d"): (0.5, 1),
        ("d = 8", "eta d / batch"): (1.0, 1),
        ("d = 8", "selected step size is inside the grid"): (1.0, 1),
        ("d = 8", "selected batch is inside the grid"): (0.0, 1),
        ("d = 16", "samples"): (128.0, 1),
        ("d = 16", "samples / d"): (8.0, 1),
        ("d = 16", "batch / d"): (1.0, 1),
        ("d = 16", "eta d / batch"): (1.0, 1),
        ("d = 16", "selected step size is inside the grid"): (1.0, 1),
        ("d = 16", "selected batch is inside the grid"): (1.0, 1),
        ("d = 16", "seeds that never arrived"): (1.0, 1),
    }
    network = numbers(found, row="Network")
    assert {k: v for k, v in network.items() if "log" not in k[1]} == wanted
    assert numbers(found, row="RBF") == {
        ("d = 8", "samples"): (40.0, 2),
        ("d = 8", "samples / d"): (5.0, 2),
        ("d = 8", "bandwidth^2 / d"): (4.0, 1),
        ("d = 8", "penalty"): (1e-3, 1),
    }
    inside = {("d = 8", "selected step size is inside the grid"): (1.0, 1)}
    assert numbers(found, row="Network, batch d/2") == inside
    assert numbers(found, row="Network, batch d") == {
        ("", "exponent"): (1.0, 3),
        **inside,
        ("d = 16", "selected step size is inside the grid"): (1.0, 1),
    }
    assert {r.entry for r in found if r.metric == "exponent"} == {"xor_sgd.theorem3_1"}
    assert {r.entry for r in found if r.row == "RBF" and r.metric == "samples"} == {"xor_sgd.prior_rates"}


def test_a_budget_that_grows_by_less_than_a_batch_is_evaluated_after_every_step():
    trial = budgets.NetworkTrial(
        d=12,
        batch=48,
        share=4.0,
        noise=(1e-6,),
        seeds=(0,),
        p=4,
        theta=0.1,
        target=99.0,
        n_test=50,
        most=12.0,
        patience=2.0,
        device="cpu",
    )
    [row] = budgets.network_budgets(trial, budgets.boolean(12, "cpu"), Key("steps"))
    assert row.over == 144.0  # the third step is the first at which 12 d have been seen


# limits --------------------------------------------------------------------------------------------------------------


def test_samples_of_the_variants():
    def variant(learner, d, noise, found, best=90.0):
        return [
            Variant(**dataclasses.asdict(r) | {"kind": "variant", "learner": learner, "best": best})
            for r in budget("Network", d, 0.5, noise, found)
        ]

    fixed = [dataclasses.replace(r, noise=0.0, share=0.0) for r in variant("Fixed set", 8, 1.0, (None, 40.0, None))[1:]]
    found = limits.summarise(
        rows_of(
            *variant("Minibatch", 8, 1.0, (80.0, 80.0, 320.0)),
            *variant("Minibatch", 8, 2.0, (160.0, 10.0, 10.0)),
            *variant("Minibatch", 16, 1.0, (None, 10.0, 10.0)),
            *variant("Minibatch", 16, 2.0, (200.0, 320.0, None)),
            *variant("Batch 1", 8, 1.0, (None, 10.0, 10.0), best=60.0),
            *variant("Batch 1", 8, 2.0, (None, 10.0, 10.0), best=70.5),
            *fixed,
        )
    )
    assert {r.row for r in found} == {"Minibatch", "Batch 1", "Fixed set"}
    assert numbers(found, row="Minibatch") == {
        ("", "exponent"): (1.0, 3),
        ("d = 8", "samples / d"): (20.0, 2),
        ("d = 16", "samples / d"): (20.0, 1),
        ("d = 16", "seeds that never arrived"): (1.0, 1),
        ("d = 8", "eta d / batch"): (1.0, 1),
        ("d = 16", "eta d / batch"): (2.0, 1),
    }
    assert numbers(found, row="Batch 1") == {("d = 8", "never arrived; best accuracy"): (70.5, 1)}
    assert [r.unit for r in found if r.row == "Batch 1"] == ["%"]
    assert numbers(found, row="Fixed set") == {
        ("d = 8", "samples / d"): (5.0, 1),
        ("d = 8", "seeds that never arrived"): (1.0, 1),
    }


def test_descent_on_a_fixed_set_is_evaluated_at_its_start_and_after_its_steps():
    """One step, on sets of 4, 5, 5, 6 and 7 samples; the best accuracy is that before or after it."""
    trial = limits.FixedTrial(8, 0, 30, 0.1, 99.9, 200, 0.9, 2.0, 2.0, "cpu")
    key, draw = Key("xor_sgd/limits") / "Fixed set" / 8 / 0, budgets.boolean(8, "cpu")
    test, pool = draw(200, key / "test"), draw(7, key / "train")
    start = sphere_init(30, 8, key / "start", theta=0.1)
    net = setup.Net(start.w[0].double().numpy(), 30 * start.a[0].double().numpy())
    best = []
    for n in (4, 5, 6, 7):
        w, a = setup.gradients(net, *(v.double().numpy() for v in (pool.x[:n], -pool.y[:n])))
        for moved in (net, setup.Net(net.w - 2 * w, net.a - 2 * a)):
            best.append(100 * float((moved(test.x.double().numpy()) * test.y.numpy() > 0).mean()))
    row = limits.fixed_set(trial)
    assert (row.samples, row.over) == (None, 7.0)
    assert row.best == pytest.approx(max(best), abs=0.5)
    assert max(best) > max(best[::2]) + 1  # the start alone would not do


# phases --------------------------------------------------------------------------------------------------------------


def phase_row(**given):
    made = dict.fromkeys((c for c, q in columns(Phase).items() if q.type is not str), 0.5)
    return Phase(**made | {"layers": BOTH, "d": 8, "seed": 0, "eta": 0.1, "theta": 0.1} | given)


RUN = [
    phase_row(time=0.0, margin_min=-0.1, margin_max=0.2, excess=0.3, loss_size_min=0.9, loss_size_max=1.1),
    phase_row(time=1.0, margin_min=0.2, margin_max=0.8, excess=0.1, loss_size_min=0.8, loss_size_max=0.95),
    phase_row(time=2.0, margin_min=0.5, margin_max=1.0, excess=0.1, loss_size_min=0.6, loss_size_max=0.7),
    phase_row(
        time=4.0,
        margin_min=1.0,
        margin_max=1.5,
        excess=0.2,
        loss_size_min=0.3,
        loss_size_max=0.4,
        test_accuracy=97.0,
        loss=0.12,
        heavy_mass=0.7,
        dominated=88.0,
        least_cluster=21.0,
    ),
]


def test_a_run_at_its_end_and_where_its_smallest_margin_has_left_a_half():
    lost = [dataclasses.replace(r, layers=FROZEN, margin_min=-0.2) for r in RUN]
    growth = [
        Growth(layers=layers, d=8, eta=0.1, theta=0.1, seed=0, sig=sig, opp=-0.9)
        for layers, sig in ((BOTH, 1.1), (FROZEN, 0.8))
    ]
    found = phases.summarise(rows_of(*growth, *RUN, *lost))
    both = {
        ("d = 8", "growth sig"): (1.1, 1),
        ("d = 8", "growth opp"): (-0.9, 1),
        ("d = 8", "largest / smallest margin, smallest at 0.5"): (2.0, 1),
        ("d = 8", "largest / smallest margin, end"): (1.5, 1),
        ("d = 8", "test accuracy, end (%)"): (97.0, 1),
        ("d = 8", "loss, end"): (0.12, 1),
        ("d = 8", "heavy mass, end"): (0.7, 1),
        ("d = 8", "neurons of signal above rest, end (%)"): (88.0, 1),
        ("d = 8", "least cluster of them, end (%)"): (21.0, 1),
        ("d = 8", "largest |a| - ||w||"): (0.3, 1),
    }
    assert numbers(found, row=BOTH) == both
    frozen = {k: v for k, v in both.items() if "smallest margin" not in k[1]} | {("d = 8", "growth sig"): (0.8, 1)}
    assert numbers(found, row=FROZEN) == frozen
    assert {r.entry for r in found if r.row == FROZEN} == {"xor_sgd.phase1_grad", "xor_sgd.remark4_3"}


def test_growth_and_balance_of_the_margins_of_one_run():
    found = balance_observed(None, Table.of(Phase, RUN, allow_absent=True))
    slow, fast = found["growth of the smallest margin"], found["growth of the largest margin"]
    np.testing.assert_allclose(slow.value, [math.log(2.5), LN2 / 2])
    np.testing.assert_allclose(fast.value, [math.log(1.25), math.log(1.5) / 2])
    np.testing.assert_allclose(slow.covariates["g"], [0.7, 0.4])
    np.testing.assert_allclose(fast.covariates["g"], [0.8, 0.6])
    assert found["largest over smallest margin, smallest at 0.5"].tolist() == [2.0]
    assert found["largest over smallest margin, end"].tolist() == [1.5]


def test_the_row_of_four_neurons():
    base = {"layers": BOTH, "d": 8, "seed": 0, "eta": 0.1, "theta": 0.1}
    neurons = torch.tensor(  # sig, opp, ||perp||, a
        [[3.0, -3.0, 0.0, 6.0], [0.0, 0.0, 3.0, 0.0], [0.0, 0.0, 4.0, 8.0], [1.0, -1.0, 2.0, -3.0]], dtype=torch.double
    )
    row = phases.phase(
        base, 2.0, neurons, torch.tensor([0.0, 1.0, 2.0, -1.0, 91.0, 0.4, 0.6, 0.2, -0.1, 0.05], dtype=torch.double)
    )
    g = {margin: 2 / (1 + math.exp(margin)) for margin in (-1, 2)}
    assert dataclasses.asdict(row) == base | {
        "kind": "phase",
        "time": 2.0,
        "sig": pytest.approx(math.sqrt(54 / 4)),
        "opp": pytest.approx(1.5),
        "perp": pytest.approx(math.sqrt(80 / 4)),
        "mass": pytest.approx((3 + 3 + 2 * 5 + 3 * 10) / 4),
        "dominated": 50.0,  # the first two; the last has more beside its signal
        "least_cluster": 0.0,
        "margin_min": -1.0,
        "margin_max": 2.0,
        "loss_size_min": pytest.approx(g[2]),
        "loss_size_max": pytest.approx(g[-1]),
        "test_accuracy": 91.0,
        "loss": 0.4,
        "heavy_mass": 0.6,
        "outside": 0.2,
        "imbalance": -0.1,
        "excess": 0.05,
    }
    one_each = torch.tensor([[1.0, -1.0, 1.0, -1.0], [0.0] * 4, [0.0] * 4, [1.0, 1.0, -1.0, -1.0]]).double()
    assert phases.phase(base, 0.0, one_each, torch.zeros(10).double()).least_cluster == 25.0


def test_the_first_row_is_that_of_the_start():
    trial = phases.Trial(d=4, p=400, theta=0.1, eta=0.25, batch=8, steps=4, early=2, n_test=60, seed=0, device="cpu")
    rows = [r for r in phases.run_trial(trial).rows if isinstance(r, Phase)]
    assert [(r.layers, r.time) for r in rows] == [(layers, t) for layers in (BOTH, FROZEN) for t in (0.0, 1.0)]
    key = Key("xor_sgd/phases") / 4 / 0
    start, test = sphere_init(400, 4, key / "start", theta=0.1), budgets.boolean(4, "cpu")(60, key / "test")
    net = setup.Net(start.w[0].double().numpy(), 400 * start.a[0].double().numpy())
    sig, opp, perp = (np.linalg.norm(part, axis=1) for part in (net.sig, net.opp, net.perp))
    heavy, square = perp + opp <= sig / 2, net.norm**2
    toward = np.maximum(net.w @ setup.centres(4).T, 0) * np.abs(net.a)[:, None]
    right = np.sign(net.a)[:, None] == np.array([1, 1, -1, -1])
    least = (toward * (heavy[:, None] & right)).mean(0).min()
    score = net(test.x.double().numpy()) * test.y.numpy()
    assert heavy.sum() > 10
    for row in rows[::2]:
        found = (row.outside, row.heavy_mass, row.loss, row.test_accuracy, row.sig, row.opp, row.perp)
        wanted = (
            (square * ~heavy).mean() / least,
            square[np.hypot(perp, opp) <= sig].sum() / square.sum(),
            2 * np.log1p(np.exp(-score)).mean(),
            100 * (score > 0).mean(),
            *(math.sqrt((part**2).mean()) for part in (sig, opp, perp)),
        )
        assert found == pytest.approx(wanted, rel=1e-5)
        assert (row.imbalance, row.excess) == pytest.approx((0.0, 0.0), abs=1e-7)
        margins = net(setup.centres(4)) * np.array([1, 1, -1, -1])
        assert (row.margin_min, row.margin_max) == pytest.approx((margins.min(), margins.max()), abs=1e-7)


# time ----------------------------------------------------------------------------------------------------------------


def crossings(eta, batch, times):
    """d = 8 and 16, whose regressors lie 2 log 2 apart; times: by seed."""
    return [
        Crossing(d=d, eta=eta, batch=batch, theta=0.2, seed=seed, start=start, growth=growth, time=t)
        for seed, pair in enumerate(times)
        for (d, start, growth), t in zip(((8, 0.5, 1.1), (16, 0.25, 1.2)), pair, strict=True)
    ]


def test_times_and_their_slope_within_seeds():
    """Slopes of three seeds are 1, 2 and 3 on 2 log(1 / start)."""
    found = time.summarise(
        rows_of(
            *crossings(0.2, 40.0, [(t, t + 2 * LN2 * s) for t, s in ((10.0, 1), (20.0, 2), (30.0, 3))]),
            *crossings(0.1, 20.0, [(10.0, None), (20.0, None), (30.0, 40.0)]),
        )
    )
    assert numbers(found, row="eta = 0.2, batch 40 d") == {
        ("d = 8", "time"): (20.0, 3),
        ("d = 8", "growth a step"): (1.1, 3),
        ("d = 16", "time"): (20.0 + 4 * LN2, 3),
        ("d = 16", "growth a step"): (1.2, 3),
        ("", "slope in log d"): (2.0, 3),
    }
    assert numbers(found, row="eta = 0.1, batch 20 d") == {
        ("d = 8", "time"): (20.0, 3),
        ("d = 8", "growth a step"): (1.1, 3),
        ("d = 16", "seeds that never arrived"): (2, 1),
    }


def test_a_crossing_is_that_of_the_loss_along_one_run():
    """The first piece of training, with the loss and the signal of its networks worked out in float64."""
    trial = time.Trial(8, 0.2, 80, 40, 0.2, 0.0, 24, 2, 9, 200, 0, "cpu")
    draw = budgets.boolean(8, "cpu")
    test = draw(200, Key("xor_sgd/time/test") / 8 / 0)
    rate_w, rate_a = mean_field_rates(0.2, 40)
    run = fit_one_pass(
        time.paired_start(40, 8, 0.2, 0),
        lambda n, key: ((b := draw(n, key)).x, b.y),
        [Stage(24, rate_w, 0.0, rate_a, batch=80)],
        Key("xor_sgd/time") / 8 / 80 / 0 / 0,
        probes={"w": lambda net, _: net.w.clone(), "a": lambda net, _: net.a.clone()},
        probe_at=range(0, 25, 2),
    )
    nets = [
        setup.Net(w[0].double().numpy(), 40 * a[0].double().numpy())
        for w, a in zip(run.trace["w"], run.trace["a"], strict=True)
    ]
    x, y = test.x.double().numpy(), test.y.numpy()
    loss = [2 * float(np.log1p(np.exp(-net(x) * y)).mean()) for net in nets]
    size = [float(np.sqrt((np.linalg.norm(net.sig, axis=1) ** 2).mean())) for net in nets]
    assert loss == sorted(loss, reverse=True)
    level = 0.3 * loss[6] + 0.7 * loss[7]
    share = math.log(loss[6] / level) / math.log(loss[6] / loss[7])
    [row] = time.run_trial(dataclasses.replace(trial, level=level)).rows
    assert row.time == pytest.approx((6 + share) * 2 * 0.2, rel=1e-5)  # rounding in float32; moving biases: 1e-4
    assert row.start == pytest.approx(size[0] / 0.2, rel=1e-5)
    assert row.growth == pytest.approx((size[4] / size[0]) ** (1 / 8), rel=1e-6)  # evaluated up to step 8 of 9
