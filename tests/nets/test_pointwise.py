"""Activations and losses: values against numerical integration, slopes against autograd, at float64."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from featlearn.core import SettingError
from featlearn.nets import pointwise as pw

KINDS = ("relu", "clip")
LOSSES = ("hinge", "logistic", "squared")
Z = torch.tensor([-3.0, -0.6, -0.02, 0.0, 0.3, 0.5, 0.98, 1.0, 1.4, 4.0], dtype=torch.float64)


def exact(kind: str, z: float) -> float:
    return max(z, 0.0) if kind == "relu" else min(1.0, max(z, 0.0))


def exact_slope(kind: str, z: float) -> float:
    return float(z > 0) if kind == "relu" else float(0 < z < 1)


def mean_over_noise(f, z: float, s: float) -> float:
    """E f(z + s xi) by adaptive quadrature between the kinks, where the integrand is smooth."""
    cuts = np.clip([-10, (0 - z) / s, (1 - z) / s, 10], -10, 10)
    return sum(
        quad(lambda t: f(z + s * t) * norm.pdf(t), lo, hi, epsabs=1e-13, epsrel=1e-12)[0]
        for lo, hi in itertools.pairwise(cuts)
        if hi > lo
    )


@pytest.mark.parametrize("kind", KINDS)
def test_exact_activation_and_slope(kind):
    assert pw.activate(Z, kind).tolist() == [exact(kind, z) for z in Z.tolist()]
    assert pw.slope(Z, kind).tolist() == [exact_slope(kind, z) for z in Z.tolist()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [0.04, 0.3, 1.5])
def test_smoothed_activation_equals_quadrature(kind, noise):
    """1e-11: quadrature is asked for 1e-13, beyond 10 sigma lies 1e-23; the exact activation is 0.015 away."""
    value = [mean_over_noise(lambda t: exact(kind, t), z, noise) for z in Z.tolist()]
    slope = [mean_over_noise(lambda t: exact_slope(kind, t), z, noise) for z in Z.tolist()]
    both = pw.noisy(Z, kind, noise)
    for got in (pw.activate(Z, kind, noise), both[0]):
        np.testing.assert_allclose(got.numpy(), value, atol=1e-11, rtol=0)
    for got in (pw.slope(Z, kind, noise), both[1]):
        np.testing.assert_allclose(got.numpy(), slope, atol=1e-11, rtol=0)
    assert np.abs(pw.activate(Z, kind).numpy() - value).max() > 0.015


@pytest.mark.parametrize("kind", KINDS)
def test_smoothed_activation_equals_a_fine_histogram_of_noise(kind):
    """A second route: 200 001 equal-probability quantiles of the noise; their grid error is below 1e-4."""
    xi = torch.from_numpy(norm.ppf((np.arange(200_001) + 0.5) / 200_001))
    for z in (-0.2, 0.4, 1.1):
        brute = pw.activate(z + 0.25 * xi, kind).mean()
        assert abs(pw.activate(torch.tensor([z]).double(), kind, 0.25).item() - brute.item()) < 1e-4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_slope_is_the_derivative_by_autograd(kind, noise):
    z = (Z + 0.013).clone().requires_grad_()  # off the kinks, where a derivative exists
    (slope,) = torch.autograd.grad(pw.activate(z, kind, noise).sum(), z)
    torch.testing.assert_close(pw.slope(z.detach(), kind, noise), slope, atol=1e-12, rtol=0)


def test_far_from_the_kinks_the_smoothed_forms_are_exact_and_finite_in_float32():
    z = torch.tensor([-1e4, -50.0, 50.0, 1e4])
    act, slope = pw.noisy(z, "relu", 0.01)
    torch.testing.assert_close(act, torch.tensor([0.0, 0.0, 50.0, 1e4]), atol=1e-19, rtol=0)  # e^-40 stands for less
    assert slope.tolist() == [0.0, 0.0, 1.0, 1.0]
    act, slope = pw.noisy(z, "clip", 0.01)
    # z Phi - (z - 1) Phi subtracts numbers of size 1e4, each off by at most half a unit in the last place (5e-4)
    torch.testing.assert_close(act, torch.tensor([0.0, 0.0, 1.0, 1.0]), atol=1e-3, rtol=0)
    assert slope.tolist() == [0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", KINDS)
def test_gated_is_scale_times_slope_and_broadcasts(kind):
    z = torch.stack([Z, Z.flip(0)])  # (2, 10), kinks included
    row, column = torch.arange(10.0).double()[None] - 4, torch.tensor([[2.0], [-3.0]]).double()
    for scale in (row, column):
        out = torch.full_like(z, torch.nan)
        got = pw.gated(scale, z, kind, out=out)
        assert got.data_ptr() == out.data_ptr()
        assert torch.equal(got, scale * pw.slope(z, kind))


@pytest.mark.parametrize("loss", LOSSES)
def test_loss_values(loss):
    literal = {
        "hinge": lambda g, y: max(1 - y * g, 0),
        "logistic": lambda g, y: np.log1p(np.exp(-y * g)),
        "squared": lambda g, y: (g - y) ** 2 / 2,
    }[loss]
    g, y = torch.tensor([-2.0, 0.0, 0.4, 1.5, 3.0]).double(), torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0]).double()
    expect = [literal(a, b) for a, b in zip(g.tolist(), y.tolist(), strict=True)]
    np.testing.assert_allclose(pw.loss_value(g, y, loss).numpy(), expect, rtol=1e-14, atol=1e-15)


def test_slopes_of_saturated_scores_are_no_denormal_numbers():
    """At margins of 100 and more the slope stays at e^-60, so that a step costs what it costs elsewhere."""
    y = torch.tensor([1.0, -1.0, 1.0, -1.0])
    found = pw.loss_slope(torch.tensor([100.0, -1000.0, -1000.0, 59.0]), y, "logistic")
    torch.testing.assert_close(found, torch.tensor([-math.exp(-60), math.exp(-60), -1.0, 1.0]), rtol=1e-5, atol=0)


@pytest.mark.parametrize("loss", LOSSES)
def test_loss_slope_is_the_derivative_by_autograd(loss):
    g = torch.tensor(
        [[-2.0, 0.0, 0.9, 1.5, -1.1], [1.1, 0.3, -0.7, 5.0, -60.0]], dtype=torch.float64, requires_grad=True
    )
    y = torch.tensor([[1.0, -1.0, 1.0, 1.0, -1.0]], dtype=torch.float64)
    (slope,) = torch.autograd.grad(pw.loss_value(g, y, loss).sum(), g)
    torch.testing.assert_close(pw.loss_slope(g.detach(), y, loss), slope, atol=1e-15, rtol=1e-14)


def test_hinge_is_active_at_its_kink_as_reported():
    """Lemma 12 has I[y g <= 1]; torch's clamp takes the other side at equality."""
    assert pw.loss_slope(torch.ones(1), torch.ones(1), "hinge").item() == -1
    assert pw.loss_slope(-torch.ones(1), -torch.ones(1), "hinge").item() == 1
    assert pw.loss_slope(torch.tensor([1.001]), torch.ones(1), "hinge").item() == 0


def test_unknown_names_are_refused_with_the_choice():
    with pytest.raises(SettingError, match=r"loss = huber is not allowed: one of hinge, logistic, squared"):
        pw.check_choice("loss", "huber", pw.Loss)
