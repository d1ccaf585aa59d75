"""Finite feature maps: tangent features against autograd, Fourier features against the Gaussian kernel."""

import torch

from featlearn.core import Key
from featlearn.kernels import TangentFeatures, fourier_features, mirror, random_features, rbf


def test_tangent_features_are_the_gradient():
    for activation in ("relu", "clip"):
        g = Key("tangent").torch()
        w, b, a = (torch.randn(*s, generator=g, dtype=torch.float64, requires_grad=True) for s in ((7, 3), (7,), (7,)))
        x = torch.randn(5, 3, generator=g, dtype=torch.float64)
        features = TangentFeatures(w.detach(), b.detach(), a.detach(), activation)(x)
        for row, sample in zip(features, x, strict=True):
            z = w @ sample + b
            score = a @ (torch.relu(z) if activation == "relu" else z.clamp(0, 1))
            da, db, dw = torch.autograd.grad(score, (a, b, w))
            assert torch.allclose(row, torch.cat([da, db, dw.flatten()]), rtol=1e-12, atol=1e-14)
        assert torch.allclose(features @ features.T, TangentFeatures(w, b, a, activation).gram(x, x), rtol=1e-12)


def test_mirrored_neurons_start_at_zero_and_double_the_kernel():
    g = Key("mirror").torch()
    w, b, a = torch.randn(6, 4, generator=g), torch.randn(6, generator=g), torch.randn(6, generator=g)
    x = torch.randn(9, 4, generator=g)
    w2, b2, a2 = mirror(w, b, a)
    score = (x @ w2.T + b2).clamp(0, 1) @ a2
    assert score.abs().max() < 1e-6
    once, twice = TangentFeatures(w, b, a), TangentFeatures(w2, b2, a2)
    assert torch.allclose(twice.gram(x, x), 2 * once.gram(x, x), rtol=1e-5)
    assert torch.linalg.matrix_rank(twice(x)[:, :12]) == torch.linalg.matrix_rank(once(x)[:, :6])


def test_fourier_features_average_to_the_gaussian_kernel():
    """m = 50000: each term 2 cos cos has standard deviation <= sqrt(2); 36 entries within 5 standard errors."""
    m = 50_000
    x = torch.randn(6, 3, generator=Key("rff").torch(), dtype=torch.float64)
    phi = fourier_features(3, m, Key("rff/w"), bandwidth=1.3)(x)
    error = (phi @ phi.T - rbf(x, x, bandwidth=1.3)).abs()
    assert error.max() <= 5 * (2 / m) ** 0.5
    assert (phi @ phi.T - rbf(x, x, bandwidth=1.5)).abs().max() > 5 * (2 / m) ** 0.5  # the rival bandwidth
    assert phi.abs().max() <= (2 / m) ** 0.5 * (1 + 1e-12)


def test_equal_keys_give_equal_features():
    x = torch.ones(1, 3)
    assert torch.equal(random_features(3, 4, Key("k"))(x), random_features(3, 4, Key("k"))(x))
    assert not torch.equal(random_features(3, 4, Key("k"))(x), random_features(3, 4, Key("l"))(x))


def test_inputs_of_one_dimension_have_features_too():
    assert fourier_features(1, 4, Key("line"))(torch.linspace(0, 1, 3)[:, None]).shape == (3, 4)
