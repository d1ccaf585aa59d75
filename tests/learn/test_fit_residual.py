"""Training of three-layer networks, against PyTorch's own optimiser and against single runs."""

import math
from dataclasses import replace

import pytest
import torch

from featlearn.core import Diverged, Key
from featlearn.errors import SettingError
from featlearn.learn import ResidualSchedule, fit_residual
from featlearn.learn.residual import HIDDEN
from featlearn.learn.schedules import batches
from featlearn.nets import residual_forward, residual_init, residual_stack
from featlearn.nets.residual import WIRINGS, parameters

KEY = Key("tests/fit_residual")


def data(n=40, d=4, k=2):
    g = (KEY / "data").torch()
    return torch.randn(1, n, d, generator=g).double(), torch.randn(1, n, k, generator=g).double()


def start(wiring="residual bottleneck", members=1):
    net = residual_stack([residual_init(8, 4, 2, KEY / "net" / i, wiring=wiring) for i in range(members)])
    return replace(net, **{n: v.double() for n, v in parameters(net).items()})


@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("trained", ["all", "hidden"])
def test_steps_are_those_of_torch_sgd(wiring, trained):
    net, (x, y) = start(wiring), data()
    schedule = ResidualSchedule(steps=30, rate=0.05, decay=0.02, batch=10, drops=(20,))
    named = HIDDEN if trained == "hidden" else tuple(parameters(net))
    found = fit_residual(net, (x, y), schedule, KEY, trained=named).net
    free = {n: v.clone().requires_grad_(n in named) for n, v in parameters(net).items()}
    optimiser = torch.optim.SGD([v for v in free.values() if v.requires_grad], 0.05, momentum=0.9, weight_decay=0.02)
    for step, rows in enumerate(batches(40, 10, 30, KEY / "batches")):
        for group in optimiser.param_groups:
            group["lr"] = 0.005 if step >= 20 else 0.05
        optimiser.zero_grad()
        ((residual_forward(replace(net, **free), x[:, rows]).out - y[:, rows]).square().sum() / 2 / 10).backward()
        optimiser.step()
    for name, value in parameters(found).items():
        torch.testing.assert_close(value, free[name].detach(), atol=1e-12, rtol=0, msg=name)


def test_an_ensemble_is_a_loop_of_single_runs():
    x, y = data()
    net = start(members=3)
    rates, decays = torch.tensor([0.02, 0.05, 0.1]).double(), torch.tensor([0.0, 0.01, 0.02]).double()
    both = fit_residual(net, (x, y), ResidualSchedule(steps=20, rate=rates, decay=decays, batch=10), KEY).net
    for i in range(3):
        schedule = ResidualSchedule(steps=20, rate=float(rates[i]), decay=float(decays[i]), batch=10)
        alone = fit_residual(net[i : i + 1], (x, y), schedule, KEY).net
        for name, value in parameters(alone).items():
            torch.testing.assert_close(parameters(both)[name][i : i + 1], value, atol=1e-12, rtol=0)


def test_algorithm_1_moves_two_layers_at_two_rates_on_one_sample_a_step():
    """Eq. (6.1): both gradients at the same weights, `a` at rest."""
    net = start()
    seen = []

    def sampler(n, key):
        g = key.torch()
        seen.append((torch.randn(n, 4, generator=g).double(), torch.randn(n, 2, generator=g).double()))
        return seen[-1]

    schedule = ResidualSchedule(
        steps=3, rate=1.0, rates={"w": 0.1, "b1": 0.1, "v": 0.02, "b2": 0.02}, momentum=0.0, batch=1
    )
    run = fit_residual(net, sampler, schedule, KEY, trained=HIDDEN, probes={"w": lambda n: n.w}, probe_at=(0, 3))
    free = {n: v.clone().requires_grad_(n in HIDDEN) for n, v in parameters(net).items()}
    for x, y in seen:
        assert len(x) == 1
        loss = (residual_forward(replace(net, **free), x[None]).out - y).square().sum() / 2
        slopes = dict(zip(HIDDEN, torch.autograd.grad(loss, [free[n] for n in HIDDEN]), strict=True))
        with torch.no_grad():
            for name, slope in slopes.items():
                free[name] -= (0.1 if name in ("w", "b1") else 0.02) * slope
    for name, value in parameters(run.net).items():
        torch.testing.assert_close(value, free[name].detach(), atol=1e-13, rtol=0, msg=name)
    assert run.steps == (0, 3)
    assert torch.equal(run.trace["w"][0], net.w)
    assert torch.equal(run.net.a, net.a)


def test_who_diverges_rests_as_nan_and_the_others_go_on():
    x, y = data()
    net = start(members=2)
    rates = torch.tensor([1e6, 0.05], dtype=torch.float64)
    run = fit_residual(net, (x, y), ResidualSchedule(steps=60, rate=rates, batch=10), KEY)
    alone = fit_residual(net[1:], (x, y), ResidualSchedule(steps=60, rate=0.05, batch=10), KEY).net
    assert run.alive == (False, True)
    assert run.net.w[0].isnan().all()
    torch.testing.assert_close(run.net.w[1:], alone.w, atol=1e-12, rtol=0)
    with pytest.raises(Diverged, match="lower the rate"):
        fit_residual(net[:1], (x, y), ResidualSchedule(steps=60, rate=1e6, batch=10), KEY)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: ResidualSchedule(steps=0, rate=0.1), "steps"),
        (lambda: ResidualSchedule(steps=1, rate=-0.1), "rate"),
        (lambda: ResidualSchedule(steps=1, rate=torch.tensor([0.1, math.inf])), "rate"),
        (lambda: ResidualSchedule(steps=1, rate=0.1, momentum=1.0), "momentum"),
        (lambda: fit_residual(start(), data(), ResidualSchedule(steps=1, rate=torch.ones(3)), KEY), "rate"),
        (lambda: fit_residual(start(), data(), ResidualSchedule(steps=1, rate=0.1, batch=41), KEY), "batch"),
        (lambda: fit_residual(start(), data(), ResidualSchedule(steps=1, rate=0.1), KEY, trained=("u",)), "trained"),
    ],
)
def test_what_does_not_fit_is_named(make, field):
    with pytest.raises(SettingError, match=field):
        make()
