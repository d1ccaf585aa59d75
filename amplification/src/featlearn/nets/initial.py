"""How networks start: Gaussian, mirrored so that the output is 0, with fixed signs, on a sphere, on a grid of signs."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.core.check import check_number, checked
from featlearn.nets.pointwise import Activation
from featlearn.nets.two_layer import TwoLayer


def _check_size(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise SettingError(name, value, "at least 1", "a usual start has 100 neurons in dimension 32")


def _check_spread(**sigmas: float) -> None:
    for name, value in sigmas.items():
        check_number(value, name, "a finite number of at least 0", "it is a standard deviation")


def gaussian_init(
    m: int, d: int, key: Key, *, sigma_w: float, sigma_b: float, sigma_a: float, activation: Activation = "clip"
) -> TwoLayer:
    """One network (e = 1) of m neurons with independent N(0, sigma^2) parameters; the sigmas are standard deviations.

    Shapes: w (1, m, d), b and a (1, m). Errors: `SettingError` for m or d below 1 and a sigma below 0 or not finite.
    """
    _check_size(m=m, d=d)
    _check_spread(sigma_w=sigma_w, sigma_b=sigma_b, sigma_a=sigma_a)
    w = sigma_w * torch.randn(1, m, d, generator=(key / "w").torch())
    b = sigma_b * torch.randn(1, m, generator=(key / "b").torch())
    a = sigma_a * torch.randn(1, m, generator=(key / "a").torch())
    return TwoLayer(w, b, a, activation)


def mirrored(net: TwoLayer) -> TwoLayer:
    """2m neurons whose second half repeats (w, b) with opposite a, so that g = 0 everywhere.

    Shapes: w (e, m, d) -> (e, 2m, d), b and a (e, m) -> (e, 2m). Source: emergence.method_training.
    """
    return replace(net, w=torch.cat([net.w, net.w], 1), b=torch.cat([net.b, net.b], 1), a=torch.cat([net.a, -net.a], 1))


def fixed_signs_init(m: int, d: int, key: Key, *, omega: float) -> TwoLayer:
    """One ReLU network (e = 1) without biases: w_j ~ N(0, omega^2 I), a_j = +1/sqrt(m) for the first half of the
    neurons and -1/sqrt(m) for the rest.

    The second layer is not trained: give `fit` stages with rate_a = rate_b = 0. omega is a standard deviation; what
    matters is omega sqrt(m d), the typical Frobenius norm of the first layer.
    Shapes: w (1, m, d), b and a (1, m). Source: amplification.model (section 2, equation 1).
    Errors: `SettingError` for m odd or below 2 (the source sets one a_j = 0 then; take m - 1), d < 1, omega <= 0.

    Example:
        >>> fixed_signs_init(4, 3, Key("start"), omega=0.1).a
        tensor([[ 0.5000,  0.5000, -0.5000, -0.5000]])
    """
    if m < 2 or m % 2:
        raise SettingError("m", m, "even and at least 2", "half of the neurons are positive: take one neuron less")
    _check_size(d=d)
    if not (omega > 0 and math.isfinite(omega)):
        raise SettingError("omega", omega, "a finite number above 0", "a zero start has no features to amplify")
    w = omega * (2*torch.rand(1, m, d, generator=(key / "w").torch())-1)*3**0.5
    a = torch.full((1, m), 1 / math.sqrt(m))
    a[:, m // 2 :] *= -1
    return TwoLayer(w, torch.zeros(1, m), a, "relu")


def sphere_init(p: int, d: int, key: Key, *, theta: float, mean_field: bool = True) -> TwoLayer:
    """One ReLU network (e = 1) without biases: w_j uniform on the sphere of radius theta, a_j = +-||w_j||, fair signs.

    Formula: f(x) = (1/p) sum_j a_j max(<w_j, x>, 0). The engine has no factor 1/p, so the net returned holds a_j / p in
    its second layer (mean_field=False: a_j itself); `mean_field_rates` gives the step sizes that go with it and
    `neuron_weights` the a_j back.
    Shapes: w (1, p, d), b and a (1, p). Source: xor_sgd.model; section 2.2 (radius theta; Theorem 3.1 states
    theta/sqrt(p) in its place, see the claim xor_sgd.theorem3_1).
    Errors: `SettingError` for p < 1, d < 1 or theta that is not positive.

    Example:
        >>> net = sphere_init(6, 4, Key("demo"), theta=0.5)
        >>> torch.allclose(net.w.norm(dim=2), neuron_weights(net).abs())
        True
    """
    _check_size(p=p, d=d)
    if not (theta > 0 and math.isfinite(theta)):
        raise SettingError("theta", theta, "positive and finite", "0.1 is a usual radius")
    w = torch.randn(1, p, d, generator=(key / "w").torch())
    w = w * (theta / w.norm(dim=2, keepdim=True))
    coins = torch.randint(2, (1, p), generator=(key / "a").torch()).float() * 2 - 1
    return TwoLayer(w, torch.zeros(1, p), coins * theta / (p if mean_field else 1), "relu")


# the mean-field scaling of xor_sgd.model, xor_sgd.loss and xor_sgd.minibatch_sgd


def neuron_weights(net: TwoLayer) -> Float[Tensor, "e p"]:
    """a_j of the reported form f = (1/p) sum_j a_j relu(<w_j, x>), from a net that holds a_j / p: (e, p)."""
    return net.a * net.a.shape[1]


@checked()
def mean_field_rates(eta: float | Float[Tensor, " e"], p: int) -> tuple[float | Tensor, float | Tensor]:
    """(rate_w, rate_a) with which the engine takes the reported step of size eta.

    Reported: w -= eta mean[a l' 1(w.x > 0) x], a -= eta mean[l' relu(w.x)] with l = 2 softplus(-y f), that is the
    gradient times p. The engine holds a / p and descends softplus(-y f) = l / 2, so rate_w = 2 p eta and
    rate_a = 2 eta / p. Shapes: eta a number or (e), results alike. Source: xor_sgd.minibatch_sgd, footnote 3.

    Example:
        >>> mean_field_rates(0.1, 50)
        (10.0, 0.004)
    """
    return 2 * p * eta, 2 * eta / p


# the gradient-feature work writes a neuron as relu(<w, x> - b); TwoLayer adds its bias, so net.b = -b from here on


def symmetric_init(m: int, d: int, key: Key, *, sigma_w: float, sigma_a: float, bias: float) -> TwoLayer:
    """4m ReLU neurons with g = 0: m Gaussian ones, their point mirror, and both again with the opposite a.

    Formula: i <= m: a ~ N(0, sigma_a^2), w ~ N(0, sigma_w^2 I), b = bias > 0; i + m: (-a, -w, -b); i + 2m: (-a, w, b)
    for i <= 2m. Shapes: w (1, 4m, d), b and a (1, 4m); net.b holds -b. Standard deviations, not variances.
    Source: eq. 3.9 (gradient_features.method_init). Errors: `SettingError` for a bias that is not positive, m or d < 1.

    Example:
        >>> net = symmetric_init(2, 3, Key("demo"), sigma_w=1.0, sigma_a=1.0, bias=0.5)
        >>> bool(net(torch.randn(5, 3)).abs().max() < 1e-6)
        True
    """
    _check_size(m=m, d=d)
    _check_spread(sigma_w=sigma_w, sigma_a=sigma_a)
    if not 0 < bias < math.inf:
        raise SettingError(
            "bias", bias, "positive and finite", "the sign of a bias says which half a neuron belongs to"
        )
    w = sigma_w * torch.randn(1, m, d, generator=(key / "w").torch())
    a = sigma_a * torch.randn(1, m, generator=(key / "a").torch())
    b = torch.full((1, m), float(bias))
    half = TwoLayer(torch.cat([w, -w], 1), -torch.cat([b, -b], 1), torch.cat([a, -a], 1), "relu")
    return mirrored(half)


def sign_init(m: int, d: int, k: int, key: Key) -> TwoLayer:
    """m ReLU neurons and their copies with opposite a: w and a fair signs, b from the grid -1 + 1/k, ..., 1 - 1/k.

    The start of Algorithm 6; the paper leaves the spacing of the grid open, it is 1/k here. The copies, which the
    paper does not list, make g = 0, which its analysis assumes. Shapes: w (1, 2m, d), b and a (1, 2m); net.b holds -b.
    Source: eq. B.479 (gradient_features.algorithm6). Errors: `SettingError` for k < 2 or m < 1.
    """
    if k < 2:
        raise SettingError("k", k, "at least 2", "the grid of biases lies inside (-1, 1)")
    _check_size(m=m, d=d)

    def signs(*shape: int, name: str) -> torch.Tensor:
        return (torch.rand(*shape, generator=(key / name).torch()) < 0.5).float() * 2 - 1

    w, a = signs(1, m, d, name="w"), signs(1, m, name="a")
    at = torch.randint(1, 2 * k, (1, m), generator=(key / "b").torch())
    b = -1 + at / k
    return mirrored(TwoLayer(w, -b, a, "relu"))
