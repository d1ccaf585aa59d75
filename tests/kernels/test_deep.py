"""Kernels by recursion, against finite networks and by hand."""

import math

import pytest
import torch

from featlearn.errors import SettingError
from featlearn.kernels import (
    arcsine,
    deep_nngp,
    deep_ntk,
    nngp,
    ntk,
    recursive,
    relu_moments,
    residual_nngp,
    residual_ntk,
)

VARIANCES = {"weight_var": 1.7, "bias_var": 0.4, "readout_var": 1.3}


def points(n: int = 6, d: int = 4) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def network(m: int, d: int, hidden: int, g: torch.Generator) -> list[torch.Tensor]:
    def normal(var: float, *shape: int) -> torch.Tensor:
        return math.sqrt(var) * torch.randn(*shape, generator=g, dtype=torch.float64)

    theta = []
    for layer in range(hidden):
        theta += [normal(1.7, m, d if layer == 0 else m), normal(0.4, m)]
    return [*theta, normal(1.3, m)]


def output(theta: list[torch.Tensor], x: torch.Tensor, skip: bool) -> torch.Tensor:
    m, h, first = len(theta[-1]), x, None
    for layer in range(0, len(theta) - 1, 2):
        h = torch.relu(h @ theta[layer].T / (1 if layer == 0 else math.sqrt(m)) + theta[layer + 1])
        first = h if first is None else first
    return (h + first if skip else h) @ theta[-1] / math.sqrt(m)


def finite(hidden: int, skip: bool, nets: int = 60) -> list[torch.Tensor]:
    """Inner products of the read-out's inputs, and tangent kernels, of single networks: two of (nets, 6, 6)."""
    x, g, found = points(), torch.Generator().manual_seed(1), []
    for _ in range(nets):
        theta = [t.requires_grad_() for t in network(400, 4, hidden, g)]
        rows = [torch.autograd.grad(output(theta, x[i : i + 1], skip)[0], theta) for i in range(len(x))]
        grams = [z @ z.T for z in (torch.stack([r[j].flatten() for r in rows]) for j in range(len(theta)))]
        found.append(torch.stack([1.3 * grams[-1], sum(grams, torch.zeros_like(grams[0]))]))
    return list(torch.stack(found).transpose(0, 1))


def errors_off(found: torch.Tensor, kernel: torch.Tensor) -> float:
    """The largest distance of an entry from the mean over networks, in standard errors."""
    return float(((found.mean(0) - kernel).abs() / (found.std(0) / math.sqrt(len(found)))).amax())


@pytest.mark.parametrize("hidden", [2, 3])
def test_deep_kernels_are_the_limits_of_wide_networks(hidden):
    x = points()
    for found, kernel in zip(finite(hidden, False), (deep_nngp, deep_ntk), strict=True):
        assert errors_off(found, kernel(x, x, layers=hidden + 1, **VARIANCES)) < 4
        assert errors_off(found, kernel(x, x, layers=hidden, **VARIANCES)) > 8


def test_kernels_of_the_residual_network_are_the_limits_of_wide_ones():
    x = points()
    pairs = (residual_nngp, deep_nngp), (residual_ntk, deep_ntk)
    for found, (kernel, without) in zip(finite(2, True), pairs, strict=True):
        assert errors_off(found, kernel(x, x, **VARIANCES)) < 4
        assert errors_off(found, without(x, x, **VARIANCES)) > 8


def test_two_layers_are_the_closed_forms_and_the_conjugate_is_a_recursion():
    x, y = points(), points(3)
    torch.testing.assert_close(deep_nngp(x, y, layers=2, **VARIANCES), nngp(x, y, **VARIANCES), atol=1e-12, rtol=0)
    torch.testing.assert_close(deep_ntk(x, y, layers=2, **VARIANCES), ntk(x, y, **VARIANCES), atol=1e-12, rtol=0)

    torch.testing.assert_close(deep_ntk(x, y, layers=2), ntk(x, y), atol=1e-12, rtol=0)
    for kernel in (residual_nngp, residual_ntk):
        assert torch.equal(kernel(x, y), kernel(x, y, weight_var=1.0, bias_var=0.0, readout_var=1.0))

    def step(var_x, var_y, cov):
        return var_x / 2 if var_x is cov else relu_moments(var_x, var_y, cov)[0]

    found = recursive(x, y, step, times=3)
    torch.testing.assert_close(found, deep_nngp(x, y, layers=4), atol=1e-12, rtol=0)


def test_the_arcsine_by_hand():
    x = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    expected = torch.tensor([math.pi / 2, math.pi / 4, 0.0]).double()
    torch.testing.assert_close(arcsine(x, x)[0], expected)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: deep_nngp(x, x, layers=1), "layers = 1"),
        (lambda x: deep_ntk(x, x, readout_var=-1.0), "readout_var"),
        (lambda x: residual_ntk(x, x, weight_var=-1.0), "weight_var"),
        (lambda x: recursive(x, x, lambda u, v, c: c, times=-1), "times = -1"),
    ],
)
def test_what_is_no_network_is_refused(call, says):
    with pytest.raises(SettingError, match=says):
        call(points())
