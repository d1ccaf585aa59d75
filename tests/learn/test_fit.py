"""The ensemble engine: against plain autograd with torch.optim.SGD, against single runs, and what it leaves alone."""

import sys
import threading
from dataclasses import replace

import pytest
import torch

from featlearn.core import Diverged, Key, SettingError
from featlearn.learn import Stage, fit
from featlearn.learn.schedules import batches
from featlearn.measure.alignment import cosines
from featlearn.nets import TwoLayer, gaussian_init
from featlearn.tasks import ParityMix

ENGINE = sys.modules["featlearn.learn.fit"]  # the module: its name in the package is that of the function
KEY = Key("fit/batches")
ACTIVATIONS = ("relu", "clip")
LOSSES = ("hinge", "logistic", "squared")
D, M = 5, 6


def make(e: int, activation="clip", dtype=torch.float64, m=M, d=D) -> TwoLayer:
    g = Key("fit/net").torch()

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype)

    return TwoLayer(0.6 * draw(e, m, d), 0.3 + 0.5 * draw(e, m), 0.7 * draw(e, m), activation)


def data(e: int | None, n: int, dtype=torch.float64):
    """x, y, weights: shared for e = None, else one set for each of e networks."""
    g = Key("fit/data").torch()
    shape = () if e is None else (e,)
    x = torch.randn(*shape, n, D, generator=g, dtype=torch.float64).to(dtype)
    y = torch.where(x[..., 0] * x[..., 1] + 0.3 * x[..., 2] > 0, 1.0, -1.0).to(dtype)
    weights = (0.5 + torch.rand(*shape, n, generator=g, dtype=torch.float64)).to(dtype)
    return x, y, weights


def pick(rate, i):
    return float(rate[i]) if isinstance(rate, torch.Tensor) else float(rate)


def sgd_loop(net: TwoLayer, i: int, x, y, weights, stages, loss: str, key: Key = KEY) -> TwoLayer:
    """Member i trained by autograd and torch.optim.SGD, step by step, with its own forward pass written out here."""
    w, b, a = (t[i].clone().requires_grad_() for t in (net.w, net.b, net.a))
    x, y, weights = (t if t is None or t.ndim == k else t[i] for t, k in ((x, 2), (y, 1), (weights, 1)))
    for index, stage in enumerate(stages):
        groups = [
            {"params": [p], "lr": pick(getattr(stage, name), i)}
            for p, name in ((w, "rate_w"), (b, "rate_b"), (a, "rate_a"))
        ]
        optimiser = torch.optim.SGD(groups, lr=1.0, momentum=stage.momentum)
        for rows in batches(len(x), stage.batch, stage.steps, key / index):
            rows = torch.arange(len(x)) if rows is None else rows
            z = x[rows] @ w.T + b
            if stage.noise:
                s = stage.noise

                def smooth(u, s=s):
                    return u * torch.special.ndtr(u / s) + s * torch.exp(-((u / s) ** 2) / 2) / (2 * torch.pi) ** 0.5

                act = smooth(z) if net.activation == "relu" else smooth(z) - smooth(z - 1)
            else:
                act = z.relu() if net.activation == "relu" else z.clamp(0, 1)
            score = act @ a
            values = {
                "hinge": (1 - y[rows] * score).relu(),
                "logistic": torch.log1p(torch.exp(-y[rows] * score)),
                "squared": (score - y[rows]) ** 2 / 2,
            }[loss]
            if weights is not None:
                values = values * weights[rows]
            optimiser.zero_grad()
            values.mean().backward()
            with torch.no_grad():
                w.mul_(stage.keep_w)
                a.mul_(stage.keep_a)
            optimiser.step()
    return TwoLayer(w.detach()[None], b.detach()[None], a.detach()[None], net.activation)


def assert_same(got: TwoLayer, expect: TwoLayer, atol: float) -> None:
    for name in ("w", "b", "a"):
        torch.testing.assert_close(
            getattr(got, name), getattr(expect, name), atol=atol, rtol=0, msg=lambda m, name=name: f"{name}: {m}"
        )


# Twelve float64 steps on parameters of size 1: rounding reaches about 1e-14, the nearest wrong answer (one rate off by
# 5 %, a weight dropped, a keep factor left out) more than 1e-4.
ATOL = 1e-11


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("own_data", [False, True])
def test_fit_equals_autograd_with_sgd(activation, loss, noise, weighted, own_data):
    net = make(2, activation)
    x, y, weights = data(2 if own_data else None, 30)
    weights = weights if weighted else None
    stages = [
        Stage(4, rate_w=0.3, rate_b=0.3, rate_a=0.2, noise=noise),
        Stage(8, rate_w=0.2, rate_b=0.1, rate_a=0.1, noise=noise, batch=8),
    ]
    got = fit(net, x, y, stages, KEY, loss=loss, weights=weights).net
    for i in range(2):
        assert_same(got[i : i + 1], sgd_loop(net, i, x, y, weights, stages, loss), ATOL)


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("momentum", [0.0, 0.8])
@pytest.mark.parametrize("rate_w", [0.0, 0.3])
@pytest.mark.parametrize("rate_b", [0.0, 0.2, 0.3])
@pytest.mark.parametrize("rate_a", [0.0, 0.3])
def test_every_choice_of_trained_layers(noise, momentum, rate_w, rate_b, rate_a):
    """Equal and unequal rates of weights and biases take different code; frozen parts must not move at all."""
    net = make(1)
    x, y, _ = data(None, 30)
    stages = [Stage(6, rate_w=rate_w, rate_b=rate_b, rate_a=rate_a, noise=noise, momentum=momentum, batch=10)]
    got = fit(net, x, y, stages, KEY).net
    assert_same(got, sgd_loop(net, 0, x, y, None, stages, "hinge"), ATOL)
    for name, rate in (("w", rate_w), ("b", rate_b), ("a", rate_a)):
        moved = (getattr(got, name) - getattr(net, name)).abs().max()
        assert moved > 1e-3 if rate else moved == 0


def test_keep_factors_momentum_and_stages_together():
    """The recipe of the emergence work: forget the first layer, then both, then small steps; momentum starts anew."""
    net = make(2)
    x, y, weights = data(None, 30)
    stages = [
        Stage(1, rate_w=torch.tensor([2.0, 3.0]), keep_w=0.0, noise=0.2),
        Stage(2, rate_w=0.5, rate_b=0.1, rate_a=0.4, keep_w=0.9, keep_a=0.5, noise=0.2, momentum=0.5),
        Stage(0, rate_w=9.0),
        Stage(
            6, rate_w=0.1, rate_b=0.1, rate_a=torch.tensor([0.0, 0.2]), keep_w=0.99, keep_a=0.98, batch=7, momentum=0.9
        ),
    ]
    got = fit(net, x, y, stages, KEY, weights=weights).net
    for i in range(2):
        assert_same(got[i : i + 1], sgd_loop(net, i, x, y, weights, stages, "hinge"), ATOL)


def test_keep_factors_shrink_weights_and_leave_biases_alone():
    """The reported penalty is on a and w; biases are not penalised."""
    net = make(2)
    x, y, _ = data(None, 20)
    got = fit(net, x, y, [Stage(2, keep_w=0.5, keep_a=0.25)], KEY).net
    assert_same(got, TwoLayer(net.w / 4, net.b, net.a / 16, net.activation), 0.0)


def test_blocks_of_rows_and_groups_of_networks_change_nothing(monkeypatch):
    """With a tiny cache every network trains alone and 600 rows go in blocks of 256, 256 and 88."""
    net = make(3)
    x, y, weights = data(3, 600)
    stages = [Stage(3, rate_w=0.3, rate_b=0.3, rate_a=0.2), Stage(3, rate_w=0.3, rate_a=0.2, batch=500, noise=0.1)]
    whole = fit(net, x, y, stages, KEY, weights=weights).net
    monkeypatch.setattr(ENGINE, "CACHE_FLOATS", 1)
    parts = fit(net, x, y, stages, KEY, weights=weights).net
    assert_same(parts, whole, 1e-13)
    assert_same(parts[1:2], sgd_loop(net, 1, x, y, weights, stages, "hinge"), ATOL)


def test_weights_multiply_the_loss_and_are_not_normalised():
    net = make(1)
    x, y, _ = data(None, 20)
    stages = [Stage(1, rate_w=0.3, rate_b=0.3, rate_a=0.3)]
    doubled = fit(net, x, y, stages, KEY, weights=torch.full((20,), 2.0).double()).net
    twice = fit(net, x, y, [Stage(1, rate_w=0.6, rate_b=0.6, rate_a=0.6)], KEY).net
    assert_same(doubled, twice, 1e-14)


RATES = {
    "rate_w": torch.tensor([0.05, 0.3, 0.1, 0.2, 0.4]),
    "rate_b": torch.tensor([0.1, 0.0, 0.2, 0.1, 0.3]),
    "rate_a": torch.tensor([0.3, 0.1, 0.0, 0.2, 0.05]),
}


def ensemble_stages(i: int | None = None) -> list[Stage]:
    own = {name: rate if i is None else float(rate[i]) for name, rate in RATES.items()}
    return [
        Stage(3, rate_w=own["rate_w"], rate_a=0.2, keep_w=0.9, noise=0.2),
        Stage(20, **own, keep_w=0.99, keep_a=0.98, momentum=0.5, batch=20),
    ]


@pytest.mark.parametrize("own_data", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("cache", [2**18, 240])
def test_ensemble_equals_a_loop_of_single_runs(own_data, loss, cache, monkeypatch):
    """Five networks with their own rates (and data): one group, or groups of 2, 2 and 1.

    A batched product sums in another order than a single one, so float32 results differ by a few units in the last
    place a step: 23 steps on numbers of size 1 give about 1e-6, and 2e-5 is allowed. Members differ from each other
    by more than 0.05, rates off by 5 % show above 1e-3.
    """
    monkeypatch.setattr(ENGINE, "CACHE_FLOATS", cache)
    net = make(5, dtype=torch.float32)
    x, y, weights = data(5 if own_data else None, 60, torch.float32)
    together = fit(net, x, y, ensemble_stages(), KEY, loss=loss, weights=weights).net
    for i in range(5):
        xi, yi, wi = (x[i], y[i], weights[i]) if own_data else (x, y, weights)
        alone = fit(net[i : i + 1], xi, yi, ensemble_stages(i), KEY, loss=loss, weights=wi).net
        assert_same(together[i : i + 1], alone, 2e-5)
    assert (together.w[1:] - together.w[:1]).abs().amax((1, 2)).min() > 0.05


def test_shared_data_equals_the_same_data_given_to_each():
    net = make(3)
    x, y, weights = data(None, 40)
    stages = [Stage(5, rate_w=0.3, rate_b=0.3, rate_a=0.2, batch=8)]
    shared = fit(net, x, y, stages, KEY, weights=weights).net
    own = fit(net, x.expand(3, -1, -1), y.expand(3, -1), stages, KEY, weights=weights.expand(3, -1)).net
    mixed = fit(net, x, y.expand(3, -1), stages, KEY, weights=weights).net
    assert_same(own, shared, 1e-13)
    assert_same(mixed, shared, 1e-13)


def test_labels_may_differ_between_networks_on_shared_inputs(monkeypatch):
    """What runs with random labels need; each network is a group of its own, so labels follow the ensemble's order."""
    monkeypatch.setattr(ENGINE, "CACHE_FLOATS", 1)
    net = make(2)
    x, y, _ = data(None, 40)
    labels = torch.stack([y, -y])
    stages = [Stage(5, rate_w=0.3, rate_b=0.3, rate_a=0.2, batch=8)]
    got = fit(net, x, labels, stages, KEY).net
    for i in range(2):
        assert_same(got[i : i + 1], sgd_loop(net, i, x, labels, None, stages, "hinge"), ATOL)


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr(ENGINE, "CACHE_FLOATS", 240)
    net = make(5, dtype=torch.float32)
    x, y, weights = data(5, 60, torch.float32)
    one, two = (fit(net, x, y, ensemble_stages(), KEY, weights=weights, threads=t).net for t in (1, 2))
    assert all(torch.equal(getattr(one, name), getattr(two, name)) for name in "wba")


def test_probes_see_what_a_shorter_run_ends_with(monkeypatch):
    """At the start, inside a stage, between stages and at the end; groups are put back in order."""
    monkeypatch.setattr(ENGINE, "CACHE_FLOATS", 120)  # two networks a group
    net = make(3, dtype=torch.float32)
    x, y, _ = data(None, 40, torch.float32)
    # one batch size, so that the shorter runs form the same groups and every bit must agree
    first = Stage(3, rate_w=0.3, rate_a=0.2, momentum=0.5, batch=10)
    second = Stage(5, rate_w=0.1, rate_b=0.1, batch=10)
    at = (8, 0, 2, 3, 5)
    run = fit(
        net,
        x,
        y,
        [first, second],
        KEY,
        probe_at=at,
        probes={
            "w": lambda net, members: net.w,
            "a": lambda net, members: net.a,
            "who": lambda net, members: torch.arange(3)[members],
        },
    )
    assert run.steps == (0, 2, 3, 5, 8)
    assert run.trace["w"].shape == (5, 3, M, D)
    assert torch.equal(run.trace["who"], torch.arange(3).expand(5, 3))
    for t, step in enumerate(run.steps):
        short = [replace(first, steps=min(step, 3)), replace(second, steps=max(step - 3, 0))]
        alone = fit(net, x, y, short, KEY).net
        assert torch.equal(run.trace["w"][t], alone.w)
        assert torch.equal(run.trace["a"][t], alone.a)
    assert torch.equal(run.trace["w"][0], net.w)


def test_probes_do_not_change_training_and_cannot_reach_into_it():
    net = make(2, dtype=torch.float32)
    x, y, _ = data(None, 40, torch.float32)
    stages = [Stage(5, rate_w=0.3, rate_b=0.1, rate_a=0.2, batch=10)]

    def vandal(net, members):
        return net.w.mul_(0).sum((1, 2)) + net.a.mul_(0).sum(1)

    plain = fit(net, x, y, stages, KEY).net
    probed = fit(net, x, y, stages, KEY, probes={"vandal": vandal}, probe_at=range(6)).net
    assert all(torch.equal(getattr(plain, name), getattr(probed, name)) for name in "wba")


def test_steps_that_training_never_reaches_are_left_out():
    net = make(2)
    x, y, _ = data(None, 20)
    run = fit(net, x, y, [Stage(2, rate_w=0.1)], KEY, probes={"a": lambda n, m: n.a}, probe_at=(-1, 1, 99))
    assert run.steps == (1,)
    assert run.trace["a"].shape == (1, 2, M)
    assert fit(net, x, y, [Stage(2, rate_w=0.1)], KEY, probes={"a": lambda n, m: n.a}, probe_at=(99,)).trace == {}


def test_no_steps_return_the_start():
    net = make(2)
    x, y, _ = data(None, 20)
    for stages in ([], [Stage(0, rate_w=0.1)]):
        assert_same(fit(net, x, y, stages, KEY).net, net, 0.0)


def everything(net, x, y):
    return [t.clone() for t in (net.w, net.b, net.a, x, y)]


def threads_seen_by_a_new_thread() -> int:
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return seen[0]


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_of_the_callers_changes(fails):
    """Inputs, global random state, threads (of this thread and of threads made later) and grad mode; also on errors."""
    old = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        net = make(3, "relu", torch.float32)
        x, y, _ = data(None, 30, torch.float32)
        before, state = everything(net, x, y), torch.get_rng_state()
        stages = [Stage(50, rate_w=1e9 if fails else 0.1, rate_a=1e9 if fails else 0.1, batch=10)]
        if fails:
            with pytest.raises(Diverged):
                fit(net, x, y, stages, KEY, loss="squared")
        else:
            fit(net, x, y, stages, KEY, loss="squared")
        assert all(torch.equal(a, b) for a, b in zip(before, everything(net, x, y), strict=True))
        assert torch.equal(torch.get_rng_state(), state)
        assert torch.get_num_threads() == 2
        assert threads_seen_by_a_new_thread() == 2
        assert torch.is_grad_enabled()
    finally:
        torch.set_num_threads(old)


@pytest.mark.parametrize("warm", [0, 4])
def test_divergence_names_its_step_and_stage(warm):
    """The run one step shorter still ends in finite numbers, so the step named is the first bad one."""
    net = make(1, "relu", torch.float32)
    x, y, _ = data(None, 30, torch.float32)

    def stages(steps):
        return [Stage(warm, rate_w=0.01), Stage(steps, rate_w=30.0, rate_a=30.0)]

    with pytest.raises(Diverged) as info:
        fit(net, x, y, stages(200), KEY, loss="squared")
    step = int(str(info.value).split("after step ")[1].split(";")[0])
    assert warm + 1 < step < 100
    assert str(info.value) == f"weights are not finite after step {step}; lower the step sizes of stage 2"
    trained = fit(net, x, y, stages(step - warm - 1), KEY, loss="squared").net
    assert torch.isfinite(trained.w).all()
    assert trained.w.abs().max() > 1e6
    with pytest.raises(Diverged, match=f"after step {step};"):
        fit(net, x, y, stages(step - warm), KEY, loss="squared")


def test_weights_too_large_to_sum_are_not_yet_diverged():
    """The sum of finite numbers can overflow; only numbers that are themselves infinite end a run."""
    net = replace(make(1, dtype=torch.float32), w=torch.full((1, M, D), 3e38))
    x, y, _ = data(None, 20, torch.float32)
    assert torch.equal(fit(net, x * 1e-3, y, [Stage(1, rate_a=1e-3)], KEY).net.w, net.w)


def never(net, members):
    raise AssertionError("work had begun")


def refuse(match, *, net=None, x=None, y=None, weights=None, stages=None, error=SettingError):
    base_x, base_y, _ = data(None, 20)
    x, y = base_x if x is None else x, base_y if y is None else y
    with pytest.raises(error, match=match) as info:
        fit(
            make(3) if net is None else net,
            x,
            y,
            stages or [Stage(1, rate_w=0.1)],
            KEY,
            weights=weights,
            probes={"never": never},
            probe_at=(0,),
        )
    assert "\n" not in str(info.value)


def test_batch_above_n_is_refused_before_any_stage_runs():
    refuse(
        r"batch = 21 is not allowed: at most n = 20; lower batch or raise n",
        stages=[Stage(5, rate_w=0.1), Stage(1, rate_w=0.1, batch=21)],
    )


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_refused_by_name(bad):
    x, y, weights = data(None, 20)
    for name, tensor, at in (("x", x, (3, 1)), ("y", y, 3), ("weights", weights, 3)):
        spoiled = tensor.clone()
        spoiled[at] = bad
        total, where = tensor.numel(), ", ".join(map(str, at if isinstance(at, tuple) else (at,)))
        says = rf"^{name} = 1 of {total} values not finite, the first {name}\[{where}\] = {bad}, is not allowed: finite"
        refuse(says, **{name: spoiled})


def test_labels_other_than_signs_are_refused_where_the_loss_is_a_margin():
    x, y, _ = data(None, 20)
    refuse(r"^y = 2 is not allowed: -1 or \+1 for the hinge loss; code the classes", y=torch.where(y > 0, 2.0, y))
    refuse(r"^y = 0 is not allowed: -1 or \+1 for the hinge loss", y=(y > 0).to(y.dtype))
    fit(make(3), x, 2 * y, [Stage(1, rate_w=0.1)], KEY, loss="squared")


def test_data_weights_and_rates_for_another_number_of_networks_are_refused(as_user):
    """Slicing would take the first networks' share and broadcasting would hide the rest."""
    x, y, weights = data(4, 20)
    of = "a tensor of shape"
    one_or_each = "with e = 1 or 3 as in net.w; match them"
    refuse(rf"^x = {of} \(4, 20, 5\) is not allowed: \(e, n, d\) {one_or_each}", x=x, y=y[:1])
    refuse(rf"^y = {of} \(4, 20\) is not allowed: \(e, n\) {one_or_each}", y=y)
    refuse(rf"^weights = {of} \(4, 20\) is not allowed: \(e, n\) {one_or_each}", weights=weights)
    refuse(rf"^y = {of} \(19,\) is not allowed: \(n\) with n = 20 as in x; match them", y=y[0, :19])
    for name in ("rate_w", "rate_b", "rate_a"):
        refuse(
            rf"{name} = \(4,\) is not allowed: a number or one for each of e = 3",
            stages=[Stage(1, **{name: torch.ones(4)})],
        )


def test_data_of_another_width_is_refused():
    refuse(r"^x = .* \(20, 4\) is not allowed: \(n, d\) with d = 5 as in net.w;", x=torch.zeros(20, 4).double())


def test_unknown_loss_is_refused_with_the_choice(as_user):
    x, y, _ = data(None, 20)
    with pytest.raises(SettingError, match=r"loss = huber is not allowed: one of hinge, logistic, squared"):
        fit(make(1), x, y, [Stage(1)], KEY, loss="huber")  # pyright: ignore[reportArgumentType]


def test_one_rate_in_a_tensor_serves_all(monkeypatch):
    """Also the networks of later groups, whose indices start above 0."""
    monkeypatch.setattr(ENGINE, "CACHE_FLOATS", 1)
    net = make(3)
    x, y, _ = data(None, 20)
    got = fit(net, x, y, [Stage(3, rate_w=torch.tensor([0.25]), rate_a=torch.tensor([0.5]))], KEY).net
    assert_same(got, fit(net, x, y, [Stage(3, rate_w=0.25, rate_a=0.5)], KEY).net, 1e-14)


def test_data_in_another_precision_is_cast_to_that_of_the_networks():
    """numpy hands over float64; the result keeps the networks' type."""
    net = make(2, dtype=torch.float32)
    x, y, _ = data(None, 20)
    stages = [Stage(3, rate_w=0.2, rate_b=0.2, rate_a=0.1)]
    got = fit(net, x, y, stages, KEY).net
    assert got.w.dtype == torch.float32
    assert_same(got, fit(net, x.float(), y.float(), stages, KEY).net, 0.0)


@pytest.mark.parametrize("last", [0.0, 0.2])
def test_data_in_a_subspace_is_trained_in_that_subspace(last):
    """Training in the D = 10 pattern coordinates equals training in R^30 with a random orthonormal dictionary.

    Weights correspond as w = M q + outside. Data never touch the outside part, so it only shrinks by the keep factors;
    its norm enters cosines. Tolerances: float32 rounding over 32 steps, about 2e-6 on numbers of size 1; leaving the
    outside part out of the cosine would be off by more than 0.05.
    """
    setting = {"d": 30, "D": 10, "k": 3, "p_o": 0.5}
    inner, outer = ParityMix(**setting), ParityMix(**setting, coordinates="input")
    t_in, t_out = (task.draw(Key("subspace")) for task in (inner, outer))
    assert torch.equal(t_in.relevant, t_out.relevant)
    train = [task.sample(t, 300, Key("subspace/train")) for task, t in ((inner, t_in), (outer, t_out))]
    test = [task.sample(t, 200, Key("subspace/test")) for task, t in ((inner, t_in), (outer, t_out))]
    net = gaussian_init(20, 30, Key("subspace/net"), sigma_w=0.5, sigma_b=0.2, sigma_a=0.5)
    q = net.w @ t_out.dictionary
    outside = (net.w - q @ t_out.dictionary.T).norm(dim=-1)
    stages = [
        Stage(2, rate_w=1.0, rate_b=0.1, keep_w=0.9, noise=0.2),
        Stage(30, rate_w=0.3, rate_b=0.3, rate_a=0.3, keep_w=0.99, batch=50, noise=last),
    ]
    small = fit(replace(net, w=q), train[0].x, train[0].y, stages, KEY).net
    large = fit(net, train[1].x, train[1].y, stages, KEY).net
    torch.testing.assert_close(small(test[0].x), large(test[1].x), atol=5e-5, rtol=0)
    torch.testing.assert_close(small.w, large.w @ t_out.dictionary, atol=5e-5, rtol=0)
    left = outside * 0.9**2 * 0.99**30
    expect = cosines(large.w, t_out.features[0])
    torch.testing.assert_close(cosines(small.w, t_in.features[0], left), expect, atol=5e-5, rtol=0)
    assert (cosines(small.w, t_in.features[0]) - expect).abs().max() > 0.05
    assert (small(test[0].x) - replace(net, w=q)(test[0].x)).abs().max() > 0.1  # something was learned


def test_forgetting_the_first_layer_leaves_nothing_outside_the_span():
    """keep_w = 0 puts every weight into the span of the patterns: the One Step cosine cannot depend on d."""
    task = ParityMix(d=30, D=10, k=3, coordinates="input")
    truth = task.draw(Key("span"))
    batch = task.sample(truth, 500, Key("span/train"))
    net = gaussian_init(20, 30, Key("span/net"), sigma_w=0.5, sigma_b=0.2, sigma_a=0.5)
    w = fit(net, batch.x, batch.y, [Stage(1, rate_w=5.0, keep_w=0.0, noise=0.2)], KEY).net.w
    outside = w - w @ truth.dictionary @ truth.dictionary.T
    assert outside.abs().max() < 1e-6
    assert w.abs().max() > 0.01
