"""The norm-bounded hinge classifier: certificates, closed cases, and scikit-learn's support vector machine."""

import numpy as np
import pytest
import torch
from sklearn.svm import LinearSVC

from featlearn.core import Key, SettingError
from featlearn.kernels import hinge_classifier


def problem(n=600, f=12):
    g = Key("margin").torch()
    phi = torch.randn(n, f, generator=g, dtype=torch.float64).clamp(-1, 1)
    y = torch.sign(phi[:, 0] + 0.5 * torch.randn(n, generator=g, dtype=torch.float64))
    return phi, y


@pytest.mark.parametrize("norm", [0.1, 1.0, 2.0, 30.0])
def test_certificate_brackets_the_minimum(norm):
    phi, y = problem()
    fit = hinge_classifier(phi, y, norm)
    loss = (1 - y * (phi @ fit.w)).clamp_min(0).mean().item()
    assert fit.w.norm() <= norm * (1 + 1e-12)
    assert fit.loss == pytest.approx(loss, abs=1e-14)
    assert fit.lower <= fit.loss <= fit.lower + 1e-6
    g = Key("margin/rivals").torch()
    for _ in range(300):  # no feasible neighbour is better than the lower value
        w = fit.w + 0.05 * torch.randn(len(fit.w), generator=g, dtype=torch.float64)
        w = w * min(1.0, norm / float(w.norm()))
        assert (1 - y * (phi @ w)).clamp_min(0).mean().item() >= fit.lower - 1e-12


def test_small_norm_has_a_closed_form():
    phi, y = problem()
    norm = 0.2  # |<w, phi>| <= 0.2 sqrt(12) < 1, so every sample stays active
    direction = (phi * y[:, None]).mean(0).norm().item()
    assert hinge_classifier(phi, y, norm).loss == pytest.approx(1 - norm * direction, abs=1e-10)


def test_weights_count_repeats_and_zero_weights_are_ignored():
    phi, y = problem(60, 4)
    weights = torch.ones(60, dtype=torch.float64)
    weights[:10], weights[10:20] = 3.0, 0.0
    repeated = torch.cat([phi[:10].repeat(3, 1), phi[20:]]), torch.cat([y[:10].repeat(3), y[20:]])
    assert hinge_classifier(phi, y, 1.5, weights=weights).loss == pytest.approx(
        hinge_classifier(*repeated, 1.5).loss, abs=2e-6
    )


def test_equals_a_support_vector_machine():
    phi, y = problem(300, 6)
    svm = LinearSVC(loss="hinge", C=0.05, fit_intercept=False, dual=True, tol=1e-8, max_iter=200_000)
    svm.fit(phi.numpy(), y.numpy())
    norm = float(np.linalg.norm(svm.coef_))
    theirs = float(np.maximum(0, 1 - y.numpy() * (phi.numpy() @ svm.coef_[0])).mean())
    fit = hinge_classifier(phi, y, norm)
    assert fit.loss == pytest.approx(theirs, abs=1e-5)
    assert float(fit.w @ torch.from_numpy(svm.coef_[0])) / norm**2 == pytest.approx(1, abs=1e-3)


def test_separable_data_reach_zero():
    phi, _ = problem(200, 8)
    y = torch.sign(phi[:, 0] + 0.7 * phi[:, 1])
    fit = hinge_classifier(phi, y, 1e5)
    assert fit.loss <= 1e-6
    assert (torch.sign(fit(phi)[:, 0]) == y).all()


@pytest.mark.parametrize(
    "features, y, norm, message",
    [
        (torch.tensor([[float("nan")]]), torch.ones(1), 1.0, r"features\[0, 0\]"),
        (torch.ones(2, 1), torch.tensor([0.0, 1.0]), 1.0, "y = "),
        (torch.ones(1, 1), torch.ones(1), 0.0, "max_norm"),
    ],
)
def test_wrong_inputs_are_refused(features, y, norm, message):
    with pytest.raises(SettingError, match=message):
        hinge_classifier(features, y, norm)
