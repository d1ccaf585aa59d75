"""Kernels in closed form: infinitely wide two-layer networks (NNGP and NTK), Gaussian and polynomial.

Parametrisation. The network is g(x) = m^(-1/2) sum_i a_i act(<w_i, x> + b_i), with w_i ~ N(0, weight_var I),
b_i ~ N(0, bias_var), a_i ~ N(0, readout_var) and x not rescaled, so the preactivation of one neuron has covariance
weight_var <x, y> + bias_var. The factor m^(-1/2) is what the field calls NTK scaling; trained parameters are a, w and b
themselves. Without that factor (the parametrisation of the emergence work) the tangent kernel of m neurons is m times
the one given here.

Everything is computed and returned in float64: the angle between nearly parallel inputs loses half the digits, and a
Gram matrix is about to be factorised.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError

Matrix = Float[Tensor, "n p"]
ACTIVATIONS = ("relu", "clip")


def _tanh_sinh(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the tanh-sinh rule on [0, 1]: they crowd at both ends, where the integrand has layers."""
    t = np.linspace(-3.2, 3.2, nodes)
    s = np.pi / 2 * np.sinh(t)
    return 1 / (1 + np.exp(-2 * s)), (t[1] - t[0]) * np.pi / 4 * np.cosh(t) / np.cosh(s) ** 2


def _gauss(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    node, weight = np.polynomial.legendre.leggauss(nodes)
    return (node + 1) / 2, weight / 2


def relu_moments(
    var_x: Float[Tensor, "n 1"], var_y: Float[Tensor, "1 p"], cov: Matrix
) -> tuple[Float[Tensor, "n p"], Float[Tensor, "n p"]]:
    """E[r(u) r(v)] and E[r'(u) r'(v)] of centred Gaussians (u, v): arc-cosine kernels of order 1 and 0.

    With S = sd(u) sd(v) and cos t = cov / S: S (sin t + (pi - t) cos t) / (2 pi) and (pi - t) / (2 pi).
    A variable without variance contributes 0, as the derivative at 0 is taken to be 0.

    Source: Cho and Saul, Kernel methods for deep learning (2009), equations 3 to 6.
    """
    scale = (var_x * var_y).sqrt()
    cos = torch.where(scale > 0, cov / scale.clamp_min(1e-300), 0.0).clamp(-1, 1)
    angle = torch.arccos(cos)
    first = scale * ((1 - cos * cos).sqrt() + (math.pi - angle) * cos) / (2 * math.pi)
    zeroth = torch.where(scale > 0, (math.pi - angle) / (2 * math.pi), 0.0)
    return first, zeroth


def clip_moments(
    var_x: Float[Tensor, "n 1"], var_y: Float[Tensor, "1 p"], cov: Matrix
) -> tuple[Float[Tensor, "n p"], Float[Tensor, "n p"]]:
    """E[s(u) s(v)] and E[s'(u) s'(v)] for the truncated ReLU s(z) = min(1, max(z, 0)).

    By Price's theorem F(c) = E[s(u) s(v)] at covariance c has F' = G = Pr[u and v in (0, 1)] and
    G' = p(0,0) - p(0,1) - p(1,0) + p(1,1), p the bivariate normal density, because s'' = delta_0 - delta_1. Hence
    G(c) = G(0) + int_0^c G' and F(c) = F(0) + c G(0) + int_0^c (c - t) G'(t) dt: one-dimensional integrals that the
    substitution t = sd(u) sd(v) sin(theta) makes smooth. Gauss-Legendre with 16 nodes; pairs with correlation above
    0.9 have a layer at the end and get 80 tanh-sinh nodes. Absolute error below 1e-8.
    """
    sd_x, sd_y = var_x.sqrt().expand_as(cov), var_y.sqrt().expand_as(cov)
    alive = sd_x * sd_y > 0
    value, slope = torch.zeros_like(cov), torch.zeros_like(cov)
    near = cov.abs() > 0.9 * sd_x * sd_y
    for part, rule in ((alive & ~near, _gauss(16)), (alive & near, _tanh_sinh(80))):
        value[part], slope[part] = _clip_pairs(sd_x[part], sd_y[part], cov[part], rule)
    return value, slope


def _clip_pairs(
    sd_x: Float[Tensor, " q"], sd_y: Float[Tensor, " q"], cov: Float[Tensor, " q"], rule: tuple[np.ndarray, np.ndarray]
) -> tuple[Float[Tensor, " q"], Float[Tensor, " q"]]:
    """Both moments of q pairs with positive variances, in chunks that stay in cache."""
    parts = zip(*(t.split(8192) for t in (sd_x, sd_y, cov)), strict=True)
    values, slopes = [torch.zeros_like(cov[:0])], [torch.zeros_like(cov[:0])]
    for sx, sy, c in parts:
        inv_x, inv_y = 1 / sx, 1 / sy
        top = torch.asin((c / (sx * sy)).clamp(-1, 1))
        curve, rate = torch.zeros_like(c), torch.zeros_like(c)
        for node, weight in zip(*rule, strict=True):
            theta = top * node
            sin = theta.sin()
            half = 0.5 / (1 - sin * sin).clamp_min(1e-300)
            # (1/sx)^2 + (1/sy)^2 - 2 sin/(sx sy) = (1/sx - 1/sy)^2 + 2 (1 - sin)/(sx sy), without cancellation
            both = (inv_x - inv_y) ** 2 * half + inv_x * inv_y / (1 + sin).clamp_min(1e-300)
            density = 1 - torch.exp(-(inv_x**2) * half) - torch.exp(-(inv_y**2) * half) + torch.exp(-both)
            density = density * (top * (weight / (2 * math.pi)))
            curve = curve + density
            rate = rate + (c - sx * sy * sin) * density
        window = _window(inv_x) * _window(inv_y)
        slopes.append(window + curve)
        values.append(_mean_clip(sx) * _mean_clip(sy) + c * window + rate)
    return torch.cat(values), torch.cat(slopes)


def _window(inverse_sd: Tensor) -> Tensor:
    """Pr[0 < u < 1]."""
    return torch.special.ndtr(inverse_sd) - 0.5


def _mean_clip(sd: Tensor) -> Tensor:
    """E[s(u)] = sd (n(0) - n(1/sd)) + Q(1/sd), n the normal density and Q its upper tail."""
    bulk = -torch.expm1(-0.5 / sd**2) * sd / math.sqrt(2 * math.pi)
    return bulk + torch.special.ndtr(-1 / sd)


def _moments(x: Tensor, y: Tensor, activation: str, weight_var: float, bias_var: float) -> tuple[Tensor, ...]:
    if activation not in ACTIVATIONS:
        raise SettingError("activation", repr(activation), f"one of {ACTIVATIONS}", "clip is the truncated ReLU")
    if weight_var < 0 or bias_var < 0:
        raise SettingError("weight_var, bias_var", (weight_var, bias_var), "at least 0", "they are variances")
    x, y = x.double(), y.double()
    inner = x @ y.T
    var_x = (weight_var * (x * x).sum(1) + bias_var)[:, None]
    var_y = (weight_var * (y * y).sum(1) + bias_var)[None]
    cov = weight_var * inner + bias_var
    if activation == "relu":
        return inner, *relu_moments(var_x, var_y, cov)
    return inner, *clip_moments(var_x, var_y, cov)


def nngp(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, "p d"],
    *,
    activation: str = "relu",
    weight_var: float = 1.0,
    bias_var: float = 0.0,
    readout_var: float = 1.0,
) -> Float[Tensor, "n p"]:
    """Covariance of the outputs of an infinitely wide random two-layer network.

    K(x, y) = readout_var E[act(u) act(v)], (u, v) the preactivations of one neuron at x and y (see the module).
    readout_var = 1 gives the kernel of random features, which the trained second layer alone sees.

    Example:
        >>> nngp(torch.eye(2), torch.eye(2))[0, 0].item()
        0.5
    """
    _, value, _ = _moments(x, y, activation, weight_var, bias_var)
    return readout_var * value


def ntk(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, "p d"],
    *,
    activation: str = "relu",
    weight_var: float = 1.0,
    bias_var: float = 0.0,
    readout_var: float = 1.0,
    layers: Sequence[str] = ("first", "second"),
) -> Float[Tensor, "n p"]:
    """Neural tangent kernel of an infinitely wide two-layer network.

    "first":  readout_var E[act'(u) act'(v)] (<x, y> + 1), the gradients of w and of b;
    "second": E[act(u) act(v)], the gradient of a. `layers` says which are trained; both together is their sum.

    Source: Jacot, Gabriel and Hongler (2018); scaling as in the module's first paragraph, hence no 1/d and no
    bias-scale factor, unlike parametrisations that train rescaled parameters.

    Errors: an unknown activation or layer is refused by name.

    Example:
        >>> x = torch.eye(2)
        >>> torch.equal(ntk(x, x, layers=["second"]), nngp(x, x))
        True
    """
    unknown = [name for name in layers if name not in ("first", "second")]
    if unknown or not layers:
        raise SettingError("layers", list(layers), "a choice of 'first' and 'second'", "name at least one of them")
    inner, value, slope = _moments(x, y, activation, weight_var, bias_var)
    kernel = torch.zeros_like(inner)
    if "first" in layers:
        kernel = kernel + readout_var * slope * (inner + 1)
    if "second" in layers:
        kernel = kernel + value
    return kernel


def rbf(x: Float[Tensor, "n d"], y: Float[Tensor, "p d"], *, bandwidth: float | Tensor = 1.0) -> Float[Tensor, "n p"]:
    """Gaussian kernel exp(-||x - y||^2 / (2 bandwidth^2)).

    Example:
        >>> rbf(torch.zeros(1, 3), torch.zeros(1, 3)).item()
        1.0
    """
    if not float(bandwidth) > 0:
        raise SettingError("bandwidth", bandwidth, "above 0", "the median distance between inputs is a usual choice")
    x, y = x.double(), y.double()
    square = (x * x).sum(1)[:, None] + (y * y).sum(1)[None] - 2 * x @ y.T
    return square.clamp_min_(0).mul_(-0.5 / bandwidth**2).exp_()


def polynomial(
    x: Float[Tensor, "n d"], y: Float[Tensor, "p d"], *, degree: int = 3, scale: float = 1.0, offset: float = 1.0
) -> Float[Tensor, "n p"]:
    """Polynomial kernel (scale <x, y> + offset)^degree; degree 1 with offset 0 is the linear kernel."""
    if degree < 1 or int(degree) != degree:
        raise SettingError("degree", degree, "an integer of at least 1", "degree 1 is linear")
    if scale <= 0 or offset < 0:
        raise SettingError("scale, offset", (scale, offset), "scale > 0 and offset >= 0", "else it is no kernel")
    return (scale * (x.double() @ y.double().T) + offset) ** degree
