"""Three-layer networks with one skip: the pass as the paper writes it, gradients as autograd has them."""

from dataclasses import replace

import jaxtyping
import pytest
import torch

from featlearn.core import Key
from featlearn.errors import SettingError
from featlearn.nets import Residual, residual_forward, residual_gradients, residual_init, residual_stack
from featlearn.nets.residual import WIRINGS, parameters

KEY = Key("tests/residual")


def pair(wiring, m=10, d=5, k=3):
    nets = [residual_init(m, d, k, KEY / i, wiring=wiring, variance=0.3) for i in range(2)]
    both = residual_stack(nets)
    return replace(both, **{n: v.double() for n, v in parameters(both).items()})


def drawn(n, d=5, k=3):
    g = (KEY / "data").torch()
    return torch.randn(n, d, generator=g).double(), torch.randn(n, k, generator=g).double()


def literal(net: Residual, x: torch.Tensor, i: int) -> torch.Tensor:
    """Equation 2.1 and its relatives, one network and one sample at a time."""
    p = {name: value[i] for name, value in parameters(net).items()}
    out = []
    for row in x:
        h = torch.relu(p["w"] @ row + p["b1"])
        if net.wiring == "two layers":
            out.append(p["a"] @ h)
            continue
        inner = {"residual bottleneck": p["a"], "bottleneck": p["a"], "two readouts": p.get("a1")}.get(net.wiring)
        h2 = torch.relu(p["v"] @ (h if inner is None else inner @ h) + p["b2"])
        out.append(p["a"] @ (h + h2 if net.wiring.startswith("residual") else h2))
    return torch.stack(out)


@pytest.mark.parametrize("wiring", WIRINGS)
def test_pass_is_the_formula(wiring):
    net, (x, _) = pair(wiring), drawn(7)
    for i in range(2):
        torch.testing.assert_close(residual_forward(net, x).out[i], literal(net, x, i), atol=1e-13, rtol=0)
    torch.testing.assert_close(net(x), residual_forward(net, x).out.transpose(0, 1))


def test_bottleneck_is_the_full_network_with_u_of_rank_k():
    """resnet.learner_eq2_1: U = V A."""
    net, (x, _) = pair("residual bottleneck"), drawn(7)
    full = replace(net, v=torch.bmm(net.v, net.a), wiring="residual")
    torch.testing.assert_close(net(x), full(x), atol=1e-13, rtol=0)


@pytest.mark.parametrize("wiring", WIRINGS)
def test_gradients_are_those_of_autograd(wiring):
    net, (x, y) = pair(wiring), drawn(20)
    free = replace(net, **{n: v.clone().requires_grad_() for n, v in parameters(net).items()})
    loss = (residual_forward(free, x).out - y).square().sum() / 2 / len(x)
    names = list(parameters(free))
    expected = torch.autograd.grad(loss, [parameters(free)[n] for n in names])
    found = residual_gradients(net, x, y)
    assert sorted(found) == sorted(names)
    for name, wanted in zip(names, expected, strict=True):
        torch.testing.assert_close(found[name], wanted, atol=1e-13, rtol=1e-12, msg=name)


def test_start_has_the_reported_variance():
    net = residual_init(400, 30, 15, KEY)
    for name, value in parameters(net).items():
        assert value.var().item() * 400 == pytest.approx(1, abs=6 * (2 / value.numel()) ** 0.5), name


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: residual_init(0, 3, 2, KEY), "m"),
        (lambda: residual_init(4, 3, 2, KEY, wiring="deep"), "wiring"),
        (lambda: residual_stack([]), "nets"),
        (lambda: residual_stack([residual_init(4, 3, 2, KEY), residual_init(5, 3, 2, KEY)]), "nets"),
        (lambda: replace(residual_init(4, 3, 2, KEY), v=None), "v, b2"),
        (lambda: replace(residual_init(4, 3, 2, KEY), wiring="bottleneck"), "v"),
        (lambda: replace(residual_init(4, 3, 2, KEY), a1=torch.ones(1, 2, 4)), "a1"),
    ],
)
def test_what_does_not_fit_is_named(make, field):
    with pytest.raises((SettingError, jaxtyping.TypeCheckError), match=field):
        make()
