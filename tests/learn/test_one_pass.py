"""Training on new minibatches against a plain loop of single steps, in float64 and in float32."""

import math

import pytest
import torch

from featlearn.core import Diverged, Key, SettingError
from featlearn.learn import Stage, fit_one_pass
from featlearn.learn import one_pass as module
from featlearn.nets import TwoLayer, gradients, stack
from featlearn.tasks.boolean_xor import signs

KEY = Key("tests/fresh")
D, M, E = 6, 5, 4


def sample(n, key):
    x = signs(n, D, key)
    return x, -x[:, 0] * x[:, 1]


def start(activation="relu", bias=False, e=E) -> TwoLayer:
    g = (KEY / "net").torch()

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    b = 0.3 * draw(e, M)
    return TwoLayer(draw(e, M, D) / 2, b if bias else torch.zeros_like(b), draw(e, M), activation)


def literal(net, stages, sets, loss):
    """One network, one step at a time, from the plain gradients; data drawn as the engine's docstring says."""
    ends = []
    for i in range(len(net)):
        one = net[i : i + 1]
        for index, stage in enumerate(stages):
            steps = max(1, module.DRAWN_FLOATS // (stage.batch * D))
            drawn = [
                sample(min(steps, stage.steps - c * steps) * stage.batch, KEY / index / sets[i] / c)
                for c in range(-(-stage.steps // steps))
            ]
            x, y = torch.cat([t[0] for t in drawn]).double(), torch.cat([t[1] for t in drawn]).double()

            def of(rate, i=i):
                return float(rate[i if len(rate) > 1 else 0]) if isinstance(rate, torch.Tensor) else rate

            for t in range(stage.steps):
                part = slice(t * stage.batch, (t + 1) * stage.batch)
                g = gradients(one, x[part], y[part], loss=loss)
                one = TwoLayer(
                    stage.keep_w * one.w - of(stage.rate_w) * g.w,
                    one.b - of(stage.rate_b) * g.b,
                    stage.keep_a * one.a - of(stage.rate_a) * g.a,
                    one.activation,
                )
        ends.append(one)
    return stack(ends)


STAGES = {
    "small batch": [Stage(7, 0.2, 0.0, 0.1, batch=3)],
    "large batch": [Stage(4, 0.2, 0.0, 0.1, batch=40)],  # in blocks the second layer comes by homogeneity
    "rates of members": [
        Stage(5, torch.tensor([0.1, 0.2, 0.3, 0.4]), 0.0, torch.tensor([0.4, 0.3, 0.2, 0.1]), batch=9)
    ],
    "first layer alone": [Stage(5, 0.2, 0.0, 0.0, batch=9)],
    "second layer alone": [Stage(5, 0.0, 0.0, 0.2, batch=9)],
    "decay, then more": [Stage(3, 0.2, 0.0, 0.1, keep_w=0.9, keep_a=0.8, batch=9), Stage(2, 0.1, 0.0, 0.2, batch=4)],
}


@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES)
@pytest.mark.parametrize("sets", [(0, 0, 0, 0), (3, 1, 7, 2), (5, 5, 2, 2), (1, 1, 1, 0)])
@pytest.mark.parametrize("cache", [module.CACHE_FLOATS, 20], ids=["at once", "in blocks"])
def test_an_ensemble_is_a_loop_of_single_runs(stages, sets, cache, monkeypatch):
    monkeypatch.setattr(module, "CACHE_FLOATS", cache)
    net = start()
    got = fit_one_pass(net, sample, stages, KEY, sets=sets).net
    want = literal(net, stages, sets, "logistic")
    for name in ("w", "b", "a"):
        torch.testing.assert_close(getattr(got, name), getattr(want, name), atol=1e-12, rtol=1e-12)
    assert (want.a - net.a).abs().max() + (want.w - net.w).abs().max() > 0.01


@pytest.mark.parametrize("activation", ["relu", "clip"])
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
@pytest.mark.parametrize("rate_b", [0.0, 0.15])
@pytest.mark.parametrize("batch", [4, 50])
def test_activations_losses_and_biases(activation, loss, rate_b, batch):
    net = start(activation, bias=True)
    stages = [Stage(4, 0.05, rate_b, 0.05, batch=batch)]
    got = fit_one_pass(net, sample, stages, KEY, loss=loss, sets=(0, 0, 1, 1)).net
    want = literal(net, stages, (0, 0, 1, 1), loss)
    for name in ("w", "b", "a"):
        torch.testing.assert_close(getattr(got, name), getattr(want, name), atol=1e-12, rtol=1e-12)


def test_blocks_of_rows_chunks_of_data_and_threads_change_nothing(monkeypatch):
    net, stages, sets = start(), [Stage(6, 0.2, 0.0, 0.1, batch=30)], (0, 0, 1, 1)
    whole = fit_one_pass(net, sample, stages, KEY, sets=sets).net
    monkeypatch.setattr(module, "CACHE_FLOATS", 40)
    for threads in (1, 2):
        cut = fit_one_pass(net, sample, stages, KEY, sets=sets, threads=threads).net
        torch.testing.assert_close(cut.w, whole.w, atol=1e-13, rtol=0)
    monkeypatch.setattr(module, "LEAST_WORK", 1)  # every set by itself
    apart = fit_one_pass(net, sample, stages, KEY, sets=sets).net
    torch.testing.assert_close(apart.w, whole.w, atol=1e-13, rtol=0)
    monkeypatch.setattr(module, "DRAWN_FLOATS", 2 * 30 * D)
    torch.testing.assert_close(
        fit_one_pass(net, sample, stages, KEY, sets=sets).net.w,
        literal(net, stages, sets, "logistic").w,
        atol=1e-12,
        rtol=0,
    )


def test_no_sample_is_used_twice_and_sets_have_their_own():
    seen: dict[str, torch.Tensor] = {}

    def spy(n, key):
        x = torch.randn(n, D, generator=key.torch(), dtype=torch.float64)
        seen[key.path] = x
        return x, x[:, 0].sign()

    fit_one_pass(
        start(), spy, [Stage(5, 0.1, 0.0, 0.1, batch=4), Stage(3, 0.1, 0.0, 0.1, batch=4)], KEY, sets=(0, 0, 1, 1)
    )
    rows = torch.cat(list(seen.values()))
    assert len(rows) == 2 * (5 + 3) * 4
    assert len(rows.unique(dim=0)) == len(rows)


def test_probes_see_the_steps_asked_for():
    net = start()
    stage = Stage(6, 0.2, 0.0, 0.1, batch=8)
    run = fit_one_pass(
        net,
        sample,
        [stage],
        KEY,
        sets=(0, 0, 1, 1),
        probe_at=(0, 3, 6, 99),
        probes={"a": lambda n, members: n.a, "who": lambda n, members: torch.arange(E)[members]},
    )
    assert run.steps == (0, 3, 6)
    assert torch.equal(run.trace["a"][0], net.a)
    assert torch.equal(run.trace["a"][2], run.net.a)
    assert torch.equal(run.trace["who"], torch.arange(E).expand(3, E))
    # the data of a longer stage begin as those of a shorter one do
    short = fit_one_pass(net, sample, [Stage(3, 0.2, 0.0, 0.1, batch=8)], KEY, sets=(0, 0, 1, 1))
    torch.testing.assert_close(run.trace["a"][1], short.net.a, atol=1e-13, rtol=0)


def test_global_threads_and_seed_stay():
    before, state = torch.get_num_threads(), torch.get_rng_state()
    fit_one_pass(start(), sample, [Stage(2, 0.1, 0.0, 0.1, batch=4)], KEY)
    assert torch.get_num_threads() == before
    assert torch.equal(torch.get_rng_state(), state)


def test_divergence_is_named_with_its_step():
    with pytest.raises(Diverged, match="after step"):
        fit_one_pass(start(), sample, [Stage(200, 1e30, 0.0, 1e30, batch=4)], KEY, loss="squared")
    frozen = start()
    frozen = TwoLayer(frozen.w, frozen.b, frozen.a * 1e200, "relu")
    with pytest.raises(Diverged):  # the second layer stays finite, the first does not
        fit_one_pass(frozen, sample, [Stage(3, 1e200, 0.0, 0.0, batch=4)], KEY, loss="squared")


@pytest.mark.parametrize("sets", [(0, 0, 0, 0), (0, 0, 1, 1)])
def test_a_member_that_diverges_rests_and_disturbs_nobody(sets):
    net, huge = start(), torch.tensor([0.1, 1e30, 0.3, 0.2])
    run = fit_one_pass(
        net, sample, [Stage(9, huge, 0.0, huge, batch=8)], KEY, sets=sets, diverging="rest", loss="squared"
    )
    assert run.net.w.isnan().flatten(1).all(1).tolist() == [False, True, False, False]
    assert run.net.a.isnan().any(1).tolist() == [False, True, False, False]
    calm = torch.tensor([0.1, 0.0, 0.3, 0.2])
    want = fit_one_pass(net, sample, [Stage(9, calm, 0.0, calm, batch=8)], KEY, sets=sets, loss="squared").net
    for i in (0, 2, 3):
        torch.testing.assert_close(run.net.w[i], want.w[i], atol=1e-12, rtol=0)
    more = fit_one_pass(run.net, sample, [Stage(2, 0.1, 0.0, 0.1, batch=8)], KEY / 1, sets=sets, diverging="rest").net
    assert more.a.isnan().any(1).tolist() == [False, True, False, False]


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e-4])
@pytest.mark.parametrize("rate", [3.0, 30.0, 1e4, 1e20, 1e34])
def test_weights_that_overflow_within_a_step_disturb_nobody(rate, scale):
    """The squared loss grows by the cube of the weights: from what looks calm to infinity in one step."""
    net = TwoLayer(*(t.float() for t in (start().w, start().b * 0, start().a)), "relu")
    rates, zero = torch.tensor([0.1, rate, 0.3, 0.2]), torch.tensor([0.1, 0.0, 0.3, 0.2])
    unequal = torch.tensor([1.0, scale, 1.0, 1.0])  # as the mean-field scaling makes them

    def single(n, key):
        x, y = sample(n, key)
        return x.float(), y.float()

    stage = Stage(40, rates * unequal, 0.0, rates / unequal, batch=8)
    run = fit_one_pass(net, single, [stage], KEY, sets=(0, 0, 0, 0), diverging="rest", loss="squared")
    assert run.net.w.isnan().flatten(1).all(1).tolist() == [False, True, False, False]
    want = fit_one_pass(net, single, [Stage(40, zero, 0.0, zero, batch=8)], KEY, sets=(0, 0, 0, 0), loss="squared").net
    for i in (0, 2, 3):
        torch.testing.assert_close(run.net.w[i], want.w[i], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "field, change",
    [
        ("sets", {"sets": (0, 1)}),
        ("sets", {"sets": (0, 1, 0, 1)}),
        ("batch", {"stages": [Stage(1, 0.1)]}),
        ("noise", {"stages": [Stage(1, 0.1, noise=0.1, batch=4)]}),
        ("momentum", {"stages": [Stage(1, 0.1, momentum=0.5, batch=4)]}),
        ("rate_w", {"stages": [Stage(1, torch.ones(3), batch=4)]}),
        ("rate_a", {"stages": [Stage(1, 0.1, 0.0, torch.ones(E + 1), batch=4)]}),
        ("sample", {"sample": lambda n, key: (torch.ones(n, D + 1), torch.ones(n))}),
        ("sample", {"sample": lambda n, key: (torch.ones(n, D), torch.ones(n + 1))}),
    ],
)
def test_wrong_settings_are_refused(field, change):
    given = {"sample": sample, "stages": [Stage(1, 0.1, batch=4)], **change}
    with pytest.raises(SettingError) as error:
        fit_one_pass(start(), given.pop("sample"), given.pop("stages"), KEY, **given)
    assert error.value.field == field
    assert "\n" not in str(error.value)


def test_float32_stays_near_float64():
    net = start()
    stage = [Stage(20, 0.2, 0.0, 0.1, batch=16)]
    half = TwoLayer(net.w.float(), net.b.float(), net.a.float(), "relu")
    got, want = fit_one_pass(half, sample, stage, KEY).net, fit_one_pass(net, sample, stage, KEY).net
    assert got.w.dtype == torch.float32
    torch.testing.assert_close(got.w.double(), want.w, atol=1e-4, rtol=0)
    assert math.isfinite(float(got.a.sum()))
