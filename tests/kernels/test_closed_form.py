"""Closed-form kernels against literal numerical integration, Monte Carlo, and each other."""

import itertools

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from featlearn.core import Key, SettingError
from featlearn.kernels import (
    TangentFeatures,
    clip_moments,
    gram_of,
    nngp,
    ntk,
    polynomial,
    random_features,
    rbf,
    relu_moments,
)

# (variance of u, variance of v, correlation): moderate, tiny and large variances, and the layers near |correlation| = 1
PAIRS = [
    (1, 1, 0.0),
    (1, 1, 0.3),
    (1, 1, -0.9),
    (1, 1, 0.89),
    (0.04, 0.04, 0.5),
    (4, 0.01, 0.7),
    (25, 9, 0.95),
    (0.3, 9, -0.89),
    (1, 1.002, 0.999),
    (1, 1.01, 0.99999),
    (4, 4, -0.9999),
    (1, 2, 1.0),
    (1, 1, 1.0),
    (1, 1.0001, 1.0),
    (100, 100.1, 0.9999),
]


def literal(var_u: float, var_v: float, cov: float, kind: str) -> tuple[float, float]:
    """E[s(u) s(v)] and E[s'(u) s'(v)]: outer integral over u by adaptive quadrature, v given u is a normal."""
    sd, slope, left = var_u**0.5, cov / var_u, max(var_v - cov * cov / var_u, 0.0) ** 0.5

    def ramp(mean):
        if left < 1e-12:
            return max(mean, 0.0)
        return mean * stats.norm.cdf(mean / left) + left * stats.norm.pdf(mean / left)

    def above(mean):
        return float(mean > 0) if left < 1e-12 else stats.norm.cdf(mean / left)

    def value(u):
        v = ramp(slope * u) - (ramp(slope * u - 1) if kind == "clip" else 0.0)
        return (min(1, u) if kind == "clip" else u) * stats.norm.pdf(u / sd) / sd * v

    def gate(u):
        v = above(slope * u) - (above(slope * u - 1) if kind == "clip" else 0.0)
        return stats.norm.pdf(u / sd) / sd * v

    def quad(f, high):
        cuts = {1.0}
        if slope:
            cuts |= {1 / slope + k * left / abs(slope) for k in (-30, -5, -1, 0, 1, 5, 30)}
            cuts |= {k * left / abs(slope) for k in (1, 5, 30)}
        edges = [0.0, *sorted(c for c in cuts if 0 < c < high), high]
        return sum(
            integrate.quad(f, a, b, epsabs=1e-13, epsrel=1e-12, limit=200)[0] for a, b in itertools.pairwise(edges)
        )

    return quad(value, 12 * sd), quad(gate, 1.0 if kind == "clip" else 12 * sd)


@pytest.mark.parametrize("var_u, var_v, correlation", PAIRS)
@pytest.mark.parametrize("kind", ["relu", "clip"])
def test_moments_equal_literal_integration(var_u, var_v, correlation, kind):
    cov = correlation * (var_u * var_v) ** 0.5
    moments = relu_moments if kind == "relu" else clip_moments
    got = moments(*(torch.tensor([[v]], dtype=torch.float64) for v in (var_u, var_v, cov)))
    for ours, exact in zip(got, literal(var_u, var_v, cov, kind), strict=True):
        # the order-0 arc-cosine kernel has an infinite slope at correlation 1: half the digits remain there
        assert ours.item() == pytest.approx(
            exact, abs=3e-8 if kind == "relu" and correlation == 1 else 1e-8 * max(1, exact)
        )


@pytest.mark.parametrize("activation", ["relu", "clip"])
def test_closed_forms_equal_wide_networks(activation):
    """Monte Carlo over m = 40000 neurons, 6 x 5 pairs, 3 kernels: |error| <= 5 standard errors of the sample itself.

    Two-sided 5 standard errors: false alarm below 90 x 6e-7 = 5e-5. Swapping weight and bias variance moves every entry
    by more than 20 standard errors (asserted below).
    """
    g = Key("kernels/monte-carlo").torch()
    x = torch.randn(6, 4, generator=g, dtype=torch.float64)
    y = torch.randn(5, 4, generator=g, dtype=torch.float64)
    m, weight_var, bias_var, readout_var = 40_000, 0.7, 0.2, 1.5
    rf = random_features(4, m, Key("kernels/rf"), activation=activation, weight_var=weight_var, bias_var=bias_var)
    a = torch.randn(m, generator=g, dtype=torch.float64) * readout_var**0.5
    zx, zy = (v @ rf.w.T + rf.b for v in (x, y))
    act = (lambda z: z.clamp(min=0)) if activation == "relu" else (lambda z: z.clamp(0, 1))
    gate = (lambda z: (z > 0).double()) if activation == "relu" else (lambda z: ((z > 0) & (z < 1)).double())
    second = act(zx)[:, None] * act(zy)[None]
    first = (a**2 * gate(zx)[:, None] * gate(zy)[None]) * ((x @ y.T) + 1)[:, :, None]
    kwargs = {"activation": activation, "weight_var": weight_var, "bias_var": bias_var, "readout_var": readout_var}
    for terms, closed in (
        (second, ntk(x, y, **kwargs, layers=["second"])),
        (first, ntk(x, y, **kwargs, layers=["first"])),
        (first + second, ntk(x, y, **kwargs)),
        (readout_var * second, nngp(x, y, **kwargs)),
    ):
        error = terms.std(-1) / m**0.5
        assert ((terms.mean(-1) - closed).abs() <= 5 * error + 1e-12).all()
    wrong = ntk(x, y, **{**kwargs, "weight_var": bias_var, "bias_var": weight_var})
    assert ((wrong - (first + second).mean(-1)).abs() / ((first + second).std(-1) / m**0.5)).max() > 20
    assert torch.allclose(gram_of(rf)(x, y), second.mean(-1), rtol=1e-10)
    assert torch.allclose(
        TangentFeatures(rf.w, rf.b, a, activation).gram(x, y) / m, (first + second).mean(-1), rtol=1e-10
    )


def test_relu_kernel_scales_with_the_norms_and_clip_tends_to_relu():
    x, y = torch.randn(3, 5, dtype=torch.float64, generator=Key("a").torch()), torch.eye(5, dtype=torch.float64)
    assert torch.allclose(nngp(3 * x, y), 3 * nngp(x, y))
    small = 1e-2  # preactivations of sd 1e-2 |x| never reach the upper kink
    assert torch.allclose(
        ntk(x, y, weight_var=small**2, activation="clip"), ntk(x, y, weight_var=small**2), atol=1e-12, rtol=1e-9
    )
    assert not torch.allclose(ntk(x, y, activation="clip"), ntk(x, y), rtol=0.05)


@pytest.mark.parametrize("activation", ["relu", "clip"])
def test_an_input_of_zero_is_finite(activation):
    x = torch.zeros(1, 3)
    assert torch.isfinite(ntk(x, torch.eye(3), activation=activation)).all()
    assert nngp(x, x, activation=activation).item() == 0.0


def test_rbf_and_polynomial_are_their_formulas():
    g = Key("kernels/plain").torch()
    x, y = torch.randn(4, 3, generator=g), torch.randn(2, 3, generator=g)
    for i in range(4):
        for j in range(2):
            u, v = x[i].double().numpy(), y[j].double().numpy()
            assert rbf(x, y, bandwidth=1.7)[i, j].item() == pytest.approx(
                np.exp(-((u - v) ** 2).sum() / (2 * 1.7**2)), rel=1e-12
            )
            assert polynomial(x, y, degree=3, scale=0.5, offset=2.0)[i, j].item() == pytest.approx(
                (0.5 * u @ v + 2) ** 3
            )


def test_kernels_at_their_defaults_by_hand():
    """Unit inputs, no biases: 1/2 and 0 + 1/(2 pi); and 1/2 * 2 more, 1/4 * 1 more for the first layer."""
    x = torch.eye(2, dtype=torch.float64)
    side = 1 / (2 * np.pi)
    assert nngp(x, x)[0].tolist() == pytest.approx([0.5, side])
    assert ntk(x, x)[0].tolist() == pytest.approx([1.5, side + 0.25])
    far = rbf(x + 2**40, x + 2**40)  # ||x - y||^2 = 2, of inputs whose squares have no digit left for it
    assert far[0].tolist() == pytest.approx([1.0, np.exp(-1)])


@pytest.mark.parametrize("activation", ["relu", "clip"])
def test_kernels_are_positive_semidefinite(activation):
    x = torch.randn(60, 4, generator=Key("psd").torch())
    for kernel in (ntk(x, x, activation=activation), nngp(x, x, activation=activation), rbf(x, x)):
        assert torch.linalg.eigvalsh(kernel)[0] > -1e-10
        assert torch.allclose(kernel, kernel.T, atol=1e-12)


@pytest.mark.parametrize(
    "call, field",
    [
        (lambda x: ntk(x, x, activation="gelu"), "activation"),
        (lambda x: ntk(x, x, layers=["third"]), "layers"),
        (lambda x: nngp(x, x, weight_var=-1.0), "weight_var"),
        (lambda x: rbf(x, x, bandwidth=0.0), "bandwidth"),
        (lambda x: polynomial(x, x, degree=0), "degree"),
    ],
)
def test_wrong_settings_are_refused_by_name(call, field):
    with pytest.raises(SettingError, match=field) as caught:
        call(torch.eye(2))
    assert "\n" not in str(caught.value)
