"""Training of k-th power networks: hand-written gradients against autograd, schedules, resting, bad settings."""

import math

import pytest
import torch

from featlearn.core import Diverged, Key, SettingError
from featlearn.learn import PowerSchedule, fit_power
from featlearn.learn import power as room
from featlearn.nets import PowerNetwork, power_init
from featlearn.nets import power as nets_room
from featlearn.tasks.modular_addition import decoder


def reported_loss(net: PowerNetwork, x, y, lam: float) -> torch.Tensor:
    """Definition 4.1 on one-hot inputs."""
    hot = torch.nn.functional.one_hot(x, net.p).to(net.u)
    scores = torch.einsum("nm,mp->np", torch.einsum("njp,mjp->nm", hot, net.u) ** net.k, net.w)
    n = (net.u.square().sum((1, 2)) + net.w.square().sum(1)).sqrt()
    return torch.nn.functional.cross_entropy(scores, y) + lam * (n ** (net.k + 1)).sum() ** (1 / (net.k + 1))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_gradient_equals_autograd_of_the_reported_loss(k, monkeypatch):
    p, lam = 5, 0.3
    monkeypatch.setattr(nets_room, "BLOCK_FLOATS", 7 * 6)  # several blocks, the last one short
    start = power_init(6, k, p, Key("n"), scale=0.7).to(torch.float64)
    u, w = start.u.clone().requires_grad_(), start.w.clone().requires_grad_()
    x, y = decoder(p, k)(torch.arange(min(p**k, 60)))
    loss = reported_loss(PowerNetwork(u, w), x, y, lam)
    loss.backward()
    engine = room._Engine(start)
    total = engine.cross_entropy(x, y, 1 / len(y))
    engine.add_penalty(lam)
    grad = engine.table.grad
    assert grad is not None
    assert u.grad is not None
    assert w.grad is not None
    torch.testing.assert_close(grad[: k * p].view(k, p, -1).permute(2, 0, 1), u.grad, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(grad[k * p :].T, w.grad, rtol=1e-9, atol=1e-12)
    assert float(total) / len(y) + lam * start.norm() == pytest.approx(loss.item(), rel=1e-10)
    assert torch.equal(engine.net().u, start.u)
    assert torch.equal(engine.net().w, start.w)


def test_full_data_training_comes_near_the_least_loss_and_never_below():
    from featlearn.works.fourier.setup import gamma_star, minimum

    p, k, lam = 5, 2, 0.01
    run = fit_power(
        power_init(16, k, p, Key("n"), scale=0.2),
        torch.arange(p**k),
        decoder(p, k),
        Key("t"),
        PowerSchedule(steps=700, batch=None, penalty=lam),
    )
    x, y = decoder(p, k)(torch.arange(p**k))
    net = run.net.to(torch.float64)
    loss = float(reported_loss(net, x, y, lam))
    least = minimum(k, p, lam)[1]
    assert least - 1e-8 <= loss < 1.02 * least
    f = net(x)
    right = f.gather(1, y[:, None])[:, 0]
    f.scatter_(1, y[:, None], -math.inf)
    margin = float((right - f.amax(1)).min()) / net.norm() ** (k + 1)
    assert 0.9 < margin / gamma_star(k, p) <= 1 + 1e-9
    assert run.stalled is None


def test_probes_and_repeatability():
    net, decode = power_init(6, 2, 5, Key("n")), decoder(5, 2)
    schedule = PowerSchedule(steps=6, batch=8)

    def run(key: str):
        return fit_power(
            net, torch.arange(25), decode, Key(key), schedule, probes=[lambda n: {"norm": n.norm()}], probe_at=(0, 3, 6)
        )

    one, two, other = run("a"), run("a"), run("b")
    assert one.steps == (0, 3, 6)
    assert one.trace["norm"][0] == pytest.approx(net.norm(), rel=1e-6)
    assert len(one.trace["norm"]) == 3
    assert torch.equal(one.net.u, two.net.u)
    assert not torch.equal(one.net.u, other.net.u)
    assert torch.equal(net.u, power_init(6, 2, 5, Key("n")).u)  # the start is not changed


def test_one_batch_without_a_loss_does_not_end_training():
    """One point a step: its loss is 0 long before that of every point is."""
    decode, points = decoder(11, 2), torch.arange(121)
    start = power_init(40, 2, 11, Key("n"), scale=0.3)
    schedule = PowerSchedule(steps=400, batch=1, rate=0.3, penalty=0.0)
    ended = fit_power(start, points, decode, Key("t"), schedule)
    x, y = decode(points)
    loss = torch.nn.functional.cross_entropy(ended.net(x), y)
    assert float(loss) > 0
    assert ended.stalled is None


def test_a_loss_of_exactly_zero_ends_training_and_says_so():
    decode = decoder(3, 2)
    start = fit_power(
        power_init(16, 2, 3, Key("n"), scale=0.3),
        torch.arange(9),
        decode,
        Key("t"),
        PowerSchedule(steps=300, batch=None, penalty=1e-3),
    ).net.scaled(6.0)
    schedule = PowerSchedule(steps=400, batch=None, penalty=0.0)
    ended = fit_power(start, torch.arange(9), decode, Key("t"), schedule)
    assert ended.stalled == room.CHECK_EVERY
    evaluated = fit_power(
        start,
        torch.arange(9),
        decode,
        Key("t"),
        schedule,
        probes=[lambda n: {"size": float(n.norm())}],
        probe_at=(0, 400),
    )
    assert evaluated.steps == (0, room.CHECK_EVERY)
    penalised = PowerSchedule(steps=400, batch=None, penalty=1e-3)
    assert fit_power(start, torch.arange(9), decode, Key("t"), penalised).stalled is None


def test_divergence_is_named():
    with pytest.raises(Diverged, match="lower the rate"):
        fit_power(
            power_init(6, 4, 5, Key("n"), scale=1e12),
            torch.arange(625),
            decoder(5, 4),
            Key("t"),
            PowerSchedule(steps=60, batch=None),
        )


def test_schedules():
    s = PowerSchedule(steps=100, penalty=2.0, ramp=0.5, rate=1.0)
    assert [s.penalty_at(t) for t in (0, 25, 50, 99)] == [0.0, 1.0, 2.0, 2.0]
    assert s.rate_at(0) == pytest.approx(0.1)
    assert s.rate_at(50) == pytest.approx(0.5)
    assert PowerSchedule(steps=9, decay="constant").rate_at(100) == PowerSchedule(steps=9).rate
    assert PowerSchedule(steps=9).penalty_at(0) == PowerSchedule(steps=9).penalty


@pytest.mark.parametrize(
    "setting",
    [
        {"steps": 0},
        {"batch": 0},
        {"rate": 0.0},
        {"rate": math.nan},
        {"penalty": -1.0},
        {"weight_decay": math.inf},
        {"warmup": -1},
        {"ramp": 1.5},
        {"decay": "linear"},
        {"betas": (0.9, 1.0)},
    ],
)
def test_refused_settings(setting):
    with pytest.raises(SettingError) as error:
        PowerSchedule(**{"steps": 5, **setting})
    assert error.value.field == next(iter(setting))
    assert "\n" not in str(error.value)


def test_refused_data():
    net = power_init(4, 2, 5, Key("n"))
    with pytest.raises(SettingError, match="train = 0"):
        fit_power(net, torch.arange(0), decoder(5, 2), Key("t"), PowerSchedule(steps=5))
    with pytest.raises(SettingError, match="batch = 26"):
        fit_power(net, torch.arange(25), decoder(5, 2), Key("t"), PowerSchedule(steps=5, batch=26))
