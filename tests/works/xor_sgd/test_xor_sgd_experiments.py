"""Experiments of the XOR work: smoke presets, kernels by nested factors, budgets, settings that are refused."""

import dataclasses

import numpy as np
import pytest
import torch

from featlearn import works
from featlearn.core import Key, SettingError
from featlearn.core.device import resolve
from featlearn.kernels import kernel_ridge
from featlearn.lab.execute import run
from featlearn.lab.store import Store
from featlearn.learn import Stage, fit_one_pass
from featlearn.nets import mean_field_rates, sphere_init
from featlearn.works.xor_sgd.experiments import budgets, limits, phases, samples, time

IDS = tuple(i for i in works.EXPERIMENTS if i.startswith("xor_sgd/"))
NETWORK = budgets.NetworkTrial(
    d=12,
    batch=3,
    share=0.25,
    noise=(0.5, 1.0),
    seeds=(0, 1),
    p=40,
    theta=0.1,
    target=90.0,
    n_test=400,
    most=80.0,
    patience=2.0,
    device="cpu",
)


@pytest.mark.parametrize("id_", IDS)
def test_smoke(id_, tmp_path):
    experiment = works.load_experiment(id_)
    assert {"smoke", "small", "paper"} <= set(experiment.presets)
    report = run(experiment, experiment.presets["smoke"], store=Store(tmp_path), preset="smoke")
    assert report.failed == 0, report.errors
    assert report.ok == len(experiment.trials(experiment.presets["smoke"]))
    assert report.summary
    assert all(np.isfinite(r.value) for r in report.summary)
    assert experiment.draw(report.table)
    for preset in experiment.presets.values():
        assert all(experiment.cost(c).seconds > 0 for c in experiment.trials(preset))


def test_a_budget_is_where_one_long_run_crosses_the_target():
    """The same seed trained alone without pauses for evaluations crosses within the 10 % between two checks."""
    trial = dataclasses.replace(NETWORK, noise=(1.0,), seeds=(0,))
    draw = budgets.boolean(12, "cpu")
    [row] = budgets.network_budgets(trial, draw, Key("budget"))
    assert row.samples > 4 * 12
    test = draw(400, Key("budget") / "test" / 0)
    net = sphere_init(40, 12, Key("budget") / "start" / 0, theta=0.1)
    rate_w, rate_a = mean_field_rates(1.0 * 3 / 12, 40)
    done, evaluation, budget, right = 0, 0, 48.0, []
    while not right or right[-1][1] < 90:
        goal = max(done + 1, round(budget / 3))
        stage = Stage(goal - done, rate_w, 0.0, rate_a, batch=3)
        key = Key("budget") / "data" / evaluation
        net = fit_one_pass(net, lambda n, k: ((b := draw(n, k)).x, b.y), [stage], key, sets=[0]).net
        done, evaluation = goal, evaluation + 1
        right.append((done * 3, 100 * float((net(test.x)[:, 0] * test.y > 0).float().mean())))
        budget = max(budget * 1.1, done * 3)
    assert right[-2][0] <= row.samples <= right[-1][0]


def test_members_are_alone_or_together_alike():
    draw = budgets.boolean(12, "cpu")
    both = budgets.network_budgets(NETWORK, draw, Key("together"))
    trial = dataclasses.replace(NETWORK, noise=(1.0,), seeds=(1,))
    [one] = budgets.network_budgets(trial, draw, Key("together"))
    [same] = [r for r in both if r.noise == 1.0 and r.seed == 1]
    assert one.samples == pytest.approx(same.samples, rel=0.02)


def test_who_does_not_arrive_has_no_budget():
    trial = dataclasses.replace(NETWORK, noise=(1e-3, 30.0), most=20.0)
    rows = budgets.network_budgets(trial, budgets.boolean(12, "cpu"), Key("never"))
    assert [r.samples for r in rows] == [None] * 4
    assert all(r.over >= 4 * 12 for r in rows)
    slow = [r for r in rows if r.noise < 1]
    assert all(r.over >= 20 * 12 for r in slow)


def test_who_needs_twice_the_samples_of_the_first_of_its_seed_gives_up():
    """Evaluations lie 10 % apart, so it is seen at most that much later."""
    rows = budgets.network_budgets(
        dataclasses.replace(NETWORK, noise=(1e-3, 1.0)), budgets.boolean(12, "cpu"), Key("p")
    )
    first = {r.seed: r.samples for r in rows if r.noise == 1.0}
    assert abs(first[0] / first[1] - 1) > 0.1
    for r in rows:
        if r.noise < 1:
            assert (r.samples, first[r.seed] * 2 <= r.over <= 2 * 1.1 * first[r.seed] + 2 * NETWORK.batch) == (
                None,
                True,
            )


@pytest.mark.parametrize("method", samples.KERNELS)
def test_nested_sizes_of_a_kernel_equal_fits_of_their_own(method):
    trial = budgets.KernelTrial(8, method, (1e-3,), (2.0,) if method == "RBF" else (), (0,), 99.9, 300, 1.2)
    draw = budgets.boolean(8, "cpu")
    [row] = budgets.kernel_budgets(trial, draw, Key("kernel"))
    train, test = draw(round(1.2 * 64), Key("kernel") / "train" / 0), draw(300, Key("kernel") / "test" / 0)
    kernel = budgets.kernel_of(method, 8, 2.0)
    sizes, scores, size = [], [], 6.4
    while round(size) <= len(train.x) and (not scores or scores[-1] < 99.9):
        n = round(size)
        penalty = 1e-3 * float(kernel(train.x, train.x).diagonal().mean())
        fit = kernel_ridge(kernel, train.x[:n], train.y[:n], penalty=penalty)
        sizes.append(float(n))
        scores.append(100 * float((fit(test.x)[:, 0] * test.y > 0).double().mean()))
        size *= 1.1
    assert row.samples == budgets.crossing(sizes, scores, 99.9)
    assert row.samples or row.over == sizes[-1]


def test_growth_ratios_recover_a_planted_rate():
    rng = Key("growth").numpy()
    t, p, eta = 6, 50, 0.1
    perp, a = (torch.full((t, p), v, dtype=torch.float64) for v in (0.2, 0.3))
    rate = eta * 0.3 / (0.2 * (2 * np.pi) ** 0.5)
    sig = torch.from_numpy(rng.normal(size=p))[None] * (1 + 0.9 * rate) ** torch.arange(t).double()[:, None]
    opp = torch.from_numpy(rng.normal(size=p))[None] * (1 - 1.2 * rate) ** torch.arange(t).double()[:, None]
    up, down = phases.growth_ratios(sig, opp, perp, a, eta)
    assert up == pytest.approx(0.9, abs=1e-9)
    assert down == pytest.approx(-1.2, abs=1e-9)


def test_gaussian_inputs_have_xor_labels():
    batch = budgets.gaussian(5, "cpu")(300, Key("gauss"))
    assert torch.equal(batch.y, -torch.sign(batch.x[:, 0]) * torch.sign(batch.x[:, 1]))


def test_fixed_set_finds_the_smallest_size():
    trial = limits.FixedTrial(8, 0, 30, 0.1, 75.0, 200, 16.0, 15.0, 0.25, "cpu")
    row = limits.fixed_set(trial)
    assert 4 < row.samples < 128
    harder = limits.fixed_set(dataclasses.replace(trial, target=90.0))
    assert harder.samples is None or harder.samples > row.samples


@pytest.mark.parametrize(
    "make, field",
    [
        (lambda: samples.Config(d=()), "d"),
        (lambda: samples.Config(d=(2,)), "d"),
        (lambda: samples.Config(seeds=(1000,)), "seeds"),
        (lambda: samples.Config(validation_seeds=(3,)), "validation_seeds"),
        (lambda: samples.Config(noise=(1.0, 0.5)), "noise"),
        (lambda: samples.Config(shares=(0.0,)), "shares"),
        (lambda: samples.Config(target=100.0), "target"),
        (lambda: samples.Config(patience=0.5), "patience"),
        (lambda: phases.Config(eta=0.3), "eta"),
        (lambda: phases.Config(time=0.5), "time, early"),
        (lambda: phases.Config(seeds=(1, 1)), "seeds"),
        (lambda: limits.Config(variants=("Minibatch", "Adam")), "variants"),
        (lambda: limits.Config(d=(4,)), "d"),
        (lambda: time.Config(eta=(0.3,), batch=(10.0,)), "eta"),
        (lambda: time.Config(batch=(10.0,)), "eta"),
        (lambda: limits.Config(validation_seeds=()), "validation_seeds"),
        (lambda: resolve("cuda:99x"), "device"),
    ],
)
def test_refused_before_any_work(make, field):
    with pytest.raises(SettingError) as error:
        make()
    assert error.value.field == field
    assert "\n" not in str(error.value)


def test_a_batch_that_several_shares_round_to_is_trained_once():
    trials = [
        c for c in samples.trials(samples.Config(d=(32, 1024), kernel_d=(6,))) if isinstance(c, budgets.NetworkTrial)
    ]
    batches = [(c.d, c.batch, c.seeds) for c in trials]
    assert len(set(batches)) == len(batches)
    assert min(c.batch for c in trials if c.d == 32) == min(c.batch for c in trials if c.d == 1024) == 1


# time ----------------------------------------------------------------------------------------------------------------


def test_starts_are_paired_across_dimensions_and_lie_on_their_spheres():
    one, two, other = (time.paired_start(50, d, 0.2, seed) for d, seed in ((16, 3), (64, 3), (16, 4)))
    for net in (one, two, other):
        torch.testing.assert_close(net.w.norm(dim=2), torch.full((1, 50), 0.2))
        torch.testing.assert_close(net.a.abs(), torch.full((1, 50), 0.2 / 50))
    assert torch.equal(one.a.sign(), two.a.sign())
    assert not torch.equal(one.a.sign(), other.a.sign())
    torch.testing.assert_close(one.w[0, :, 0] / one.w[0, :, 1], two.w[0, :, 0] / two.w[0, :, 1])
    assert not torch.allclose(one.w[0, :, 2] / one.w[0, :, 1], two.w[0, :, 2] / two.w[0, :, 1])


def test_the_time_is_interpolated_in_log_loss():
    assert time.reached([0.0, 1.0, 2.0], [1.0, 0.4, 0.1], 0.2) == pytest.approx(1.5)
    assert time.reached([0.0, 1.0], [1.0, 0.4], 0.2) is None


def test_a_run_in_pieces_ends_where_one_long_run_crosses():
    """Growth and time agree with those of the same seed evaluated at every step, on another stream of samples."""
    [trial, *_] = time.trials(time.Config(d=(16,), eta=(0.2,), batch=(40.0,), p=40, level=0.8, seeds=(0,)))
    [row] = time.run_trial(trial).rows
    again = time.run_trial(dataclasses.replace(trial, every=1)).rows[0]
    assert row.time == pytest.approx(again.time, abs=0.5)
    assert 1.07 < row.growth < 1.09  # 1 + 0.2 / sqrt(2 pi) = 1.0798
    assert row.start == again.start


def test_batches_are_named_by_their_share_of_the_dimension():
    assert [samples.fraction(share) for share in (1.0, 0.125, 2.0)] == ["d", "d/8", "2 d"]
