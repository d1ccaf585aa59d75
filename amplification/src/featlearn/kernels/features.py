"""Finite kernels: random features, random Fourier features, and the tangent features of a two-layer network.

A feature map is a frozen dataclass that is called on x (n, d) and gives (n, f); its kernel is `gram_of(features)`. A
linear model on one of these is what random-feature, Fourier-feature and tangent-kernel learning do at finite width.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.core.check import check_fields, check_number, checked
from featlearn.kernels.closed_form import ACTIVATIONS

FeatureMap = Callable[[Float[Tensor, "n d"]], Float[Tensor, "n f"]]


def _act(z: Tensor, activation: str) -> Tensor:
    return torch.relu(z) if activation == "relu" else z.clamp(0, 1)


def _slope(z: Tensor, activation: str) -> Tensor:
    return ((z > 0) if activation == "relu" else (z > 0) & (z < 1)).to(z.dtype)


def _check(activation: str, width: int) -> None:
    if activation not in ACTIVATIONS:
        raise SettingError("activation", repr(activation), f"one of {ACTIVATIONS}", "clip is the truncated ReLU")
    if width < 1:
        raise SettingError("width", width, "at least 1", "it is the number of features")


def _check_dimension(d: int) -> None:
    if d < 1:
        raise SettingError("d", d, "at least 1", "it is the dimension of the inputs")


@dataclass(frozen=True)
class RandomFeatures:
    """x -> act(x W^T + b) / sqrt(m): the hidden layer of a random network with NTK scaling.

    w (m, d), b (m). Its kernel tends to `nngp(..., readout_var=1)` as m grows, with error of order m^(-1/2).
    """

    w: Float[Tensor, "m d"]
    b: Float[Tensor, " m"]
    activation: str = "relu"

    def __post_init__(self) -> None:
        check_fields(self)
        _check(self.activation, len(self.b))

    @checked(empty=("x",), moves=True)
    def __call__(self, x: Float[Tensor, "n d"], /) -> Float[Tensor, "n m"]:
        w, b = self.w.to(x), self.b.to(x)
        return _act(x @ w.T + b, self.activation) / math.sqrt(len(b))


def random_features(
    d: int, m: int, key: Key, *, activation: str = "relu", weight_var: float = 1.0, bias_var: float = 0.0
) -> RandomFeatures:
    """m features of inputs in R^d with w ~ N(0, weight_var I) and b ~ N(0, bias_var), float64.

    Example:
        >>> random_features(3, 10, Key("demo"))(torch.ones(2, 3)).shape
        torch.Size([2, 10])
    """
    _check(activation, m)
    _check_dimension(d)
    for name, value in (("weight_var", weight_var), ("bias_var", bias_var)):
        check_number(value, name, "a finite number of at least 0", "it is a variance")
    w = torch.randn(m, d, generator=(key / "w").torch(), dtype=torch.float64) * math.sqrt(weight_var)
    b = torch.randn(m, generator=(key / "b").torch(), dtype=torch.float64) * math.sqrt(bias_var)
    return RandomFeatures(w, b, activation)


@dataclass(frozen=True)
class FourierFeatures:
    """x -> sqrt(2/m) cos(x W^T + b), b uniform on a circle: the kernel is E cos(<w, x - y>) up to O(m^(-1/2)).

    Each feature lies in [-sqrt(2/m), sqrt(2/m)]; multiplied by sqrt(m/2) it lies in [-1, 1], as fixed-feature lower
    bounds ask. Source: Rahimi and Recht (2007), algorithm 1.
    """

    w: Float[Tensor, "m d"]
    b: Float[Tensor, " m"]

    def __post_init__(self) -> None:
        check_fields(self)
        _check("relu", len(self.b))

    @checked(empty=("x",), moves=True)
    def __call__(self, x: Float[Tensor, "n d"], /) -> Float[Tensor, "n m"]:
        return torch.cos(x @ self.w.to(x).T + self.b.to(x)) * math.sqrt(2 / len(self.b))


def fourier_features(d: int, m: int, key: Key, *, bandwidth: float = 1.0) -> FourierFeatures:
    """m random Fourier features of the Gaussian kernel `rbf(..., bandwidth)`, float64.

    Example:
        >>> fourier_features(3, 8, Key("demo"))(torch.ones(2, 3)).shape
        torch.Size([2, 8])
    """
    _check("relu", m)
    _check_dimension(d)
    remedy = "the median distance between inputs is a usual choice"
    check_number(bandwidth, "bandwidth", "a finite number above 0", remedy, above=True)
    w = torch.randn(m, d, generator=(key / "w").torch(), dtype=torch.float64) / bandwidth
    b = torch.rand(m, generator=(key / "b").torch(), dtype=torch.float64) * (2 * math.pi)
    return FourierFeatures(w, b)


@checked()
def mirror(
    w: Float[Tensor, "m d"], b: Float[Tensor, " m"], a: Float[Tensor, " m"]
) -> tuple[Float[Tensor, "m2 d"], Float[Tensor, " m2"], Float[Tensor, " m2"]]:
    """Twice as many neurons, the second half with opposite a, so that the network starts at g = 0.

    Every hidden feature then appears twice and every first-layer gradient twice with opposite signs: the span of the
    tangent features is that of the m neurons, and the Gram matrix is twice theirs (emergence.method_baselines).
    """
    return torch.cat([w, w]), torch.cat([b, b]), torch.cat([a, -a])


@dataclass(frozen=True)
class TangentFeatures:
    """Gradient of g(x) = sum_i a_i act(<w_i, x> + b_i) in (a, b, w) at fixed parameters: x -> (n, m (d + 2)).

    Columns: act(z_i) for the m neurons (gradient of a), a_i act'(z_i) (of b), a_i act'(z_i) x (of w, neuron by neuron),
    z_i = <w_i, x> + b_i. There is no 1/sqrt(m): divide the Gram matrix by m to compare with `ntk`.
    Source: emergence.method_baselines.
    """

    w: Float[Tensor, "m d"]
    b: Float[Tensor, " m"]
    a: Float[Tensor, " m"]
    activation: str = "clip"

    def __post_init__(self) -> None:
        check_fields(self)
        _check(self.activation, len(self.b))

    @checked(empty=("x",), moves=True)
    def __call__(self, x: Float[Tensor, "n d"], /) -> Float[Tensor, "n f"]:
        z = x @ self.w.to(x).T + self.b.to(x)
        gate = _slope(z, self.activation) * self.a.to(x)
        return torch.cat([_act(z, self.activation), gate, (gate[:, :, None] * x[:, None, :]).flatten(1)], 1)

    @checked(empty=("x", "y"), moves=True)
    def gram(self, x: Float[Tensor, "n d"], y: Float[Tensor, "p d"], /) -> Float[Tensor, "n p"]:
        """features(x) @ features(y).T without forming the m (d + 2) columns.

        sum_i act act + (<x, y> + 1) sum_i a_i^2 act' act'.
        """
        zx, zy = (v @ self.w.to(v).T + self.b.to(v) for v in (x, y))
        gx, gy = (_slope(z, self.activation) * self.a.to(z) for z in (zx, zy))
        return _act(zx, self.activation) @ _act(zy, self.activation).T + (x @ y.T + 1) * (gx @ gy.T)


def gram_of(features: FeatureMap) -> Callable[[Tensor, Tensor], Tensor]:
    """The kernel (x, y) -> features(x) @ features(y).T of a feature map."""
    return lambda x, y: features(x) @ features(y).T
