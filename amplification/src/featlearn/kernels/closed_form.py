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
from featlearn.core.check import check_number, checked

Matrix = Float[Tensor, "n p"]
ACTIVATIONS = ("relu", "clip")
LARGEST = 1e16
"""Variance up to which the bounds of `clip_moments` were verified, and above which it is refused."""
FAR = 100
"""Inputs whose centre is sqrt(FAR) times as far as they are spread are centred by `rbf`."""


def _gauss(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    node, weight = np.polynomial.legendre.leggauss(nodes)
    return (node + 1) / 2, weight / 2


@checked(mixed=("var_x", "var_y", "cov"))
def relu_moments(
    var_x: Float[Tensor, "n 1"], var_y: Float[Tensor, "1 p"], cov: Matrix
) -> tuple[Float[Tensor, "n p"], Float[Tensor, "n p"]]:
    """E[r(u) r(v)] and E[r'(u) r'(v)] of centred Gaussians (u, v): arc-cosine kernels of order 1 and 0.

    With S = sd(u) sd(v) and cos t = cov / S: S (sin t + (pi - t) cos t) / (2 pi) and (pi - t) / (2 pi).
    A variable without variance contributes 0, as the derivative at 0 is taken to be 0.

    Source: Cho and Saul, Kernel methods for deep learning (2009), equations 3 to 6.
    Errors: SettingError for what is no covariance.
    """
    _check_covariance(var_x, var_y, cov)
    return _relu(var_x, var_y, cov)


def _check_covariance(var_x: Tensor, var_y: Tensor, cov: Tensor) -> None:
    for name, var in (("var_x", var_x), ("var_y", var_y)):
        if bool((var < 0).any()):
            raise SettingError(name, float(var.min()), "at least 0", "it is a variance")
    if bool((cov.abs() > (var_x * var_y).sqrt() * (1 + 1e-6)).any()):
        raise SettingError("cov", "above sd(u) sd(v) somewhere", "at most it", "a correlation lies in [-1, 1]")


def _relu(var_x: Tensor, var_y: Tensor, cov: Tensor) -> tuple[Tensor, Tensor]:
    scale = (var_x * var_y).sqrt()
    cos = torch.where(scale > 0, cov / scale.clamp_min(1e-300), 0.0).clamp(-1, 1)
    angle = torch.arccos(cos)
    first = scale * ((1 - cos * cos).sqrt() + (math.pi - angle) * cos) / (2 * math.pi)
    zeroth = torch.where(scale > 0, (math.pi - angle) / (2 * math.pi), 0.0)
    return first, zeroth


@checked(mixed=("var_x", "var_y", "cov"))
def clip_moments(
    var_x: Float[Tensor, "n 1"], var_y: Float[Tensor, "1 p"], cov: Matrix
) -> tuple[Float[Tensor, "n p"], Float[Tensor, "n p"]]:
    """E[s(u) s(v)] and E[s'(u) s'(v)] for the truncated ReLU s(z) = min(1, max(z, 0)).

    By Price's theorem F(c) = E[s(u) s(v)] at covariance c has F' = G = Pr[u and v in (0, 1)] and
    G' = p(0,0) - p(0,1) - p(1,0) + p(1,1), p the bivariate normal density, because s'' = delta_0 - delta_1. Hence
    G(c) = G(0) + int_0^c G' and F(c) = F(0) + c G(0) + int_0^c (c - t) G'(t) dt: one-dimensional integrals, smooth in
    phi = arccos |t| / (sd(u) sd(v)) but for a layer near phi = 0 as thin as 1 / sd. Gauss-Legendre with 16 nodes; pairs
    with correlation above 0.9 take 128 nodes that are spread evenly in the logarithm of phi.

    Errors of the two numbers, for standard deviations from 1e-8 to 1e8 and all correlations, of the covariances as
    given: below 1e-10, and for correlations from 0 also below 1e-7 of themselves (verified against mpmath). Covariances
    of nearly parallel inputs come with rounding: by 1e-16 of cov the second moment of such a pair moves by up to
    2e-8 sd of itself. Identical inputs have none of it: `nngp` and `ntk` recognise them, and Pr[0 < u < 1] is exact.
    Errors: SettingError for what is no covariance, and for variances above 1e16.
    """
    var_x, var_y, cov = var_x.double(), var_y.double(), cov.double()
    _check_covariance(var_x, var_y, cov)
    return _clip(var_x.expand_as(cov), var_y.expand_as(cov), cov)


def _clip(var_x: Matrix, var_y: Matrix, cov: Matrix) -> tuple[Tensor, Tensor]:
    """Both moments of each pair."""
    largest = float(torch.maximum(var_x.amax(), var_y.amax())) if cov.numel() else 0.0
    if largest > LARGEST * (1 + 1e-9):
        allowed = f"preactivations of variance up to {LARGEST:.0e}, of activation clip"
        raise SettingError("x, y", f"inputs with a variance of {largest:.3g}", allowed, "scale the inputs")
    alive = (var_x > 0) & (var_y > 0)
    value, slope = torch.zeros_like(cov), torch.zeros_like(cov)
    near = cov.abs() > 0.9 * (var_x * var_y).sqrt()
    for part, rule, layered in ((alive & ~near, _gauss(16), False), (alive & near, _gauss(128), True)):
        value[part], slope[part] = _clip_pairs(var_x[part], var_y[part], cov[part], rule, layered)
    same = alive & (var_x == var_y) & (cov == var_x)
    slope[same] = _window(1 / var_x[same].sqrt())
    return value, slope


def _clip_pairs(
    var_x: Float[Tensor, " q"],
    var_y: Float[Tensor, " q"],
    cov: Float[Tensor, " q"],
    rule: tuple[np.ndarray, np.ndarray],
    layered: bool,
) -> tuple[Float[Tensor, " q"], Float[Tensor, " q"]]:
    """Both moments of q pairs with positive variances, in chunks that stay in cache."""
    parts = zip(*(t.split(8192) for t in (var_x, var_y, cov)), strict=True)
    values, slopes = [torch.zeros_like(cov[:0])], [torch.zeros_like(cov[:0])]
    for vx, vy, c in parts:
        sx, sy = vx.sqrt(), vy.sqrt()
        inv_x, inv_y = 1 / sx, 1 / sy
        sign = torch.where(c < 0, -1.0, 1.0).to(c)
        least = torch.atan2(_minor(vx, vy, c).clamp_min(0).sqrt(), c.abs())
        room = math.pi / 2 - least
        # the layer begins where the first of these lengths ends; below, the integrand is flat
        thin = torch.minimum(inv_x, inv_y).clamp_max(1.0)
        layer = torch.minimum(torch.maximum(torch.maximum((inv_x - inv_y).abs(), least), 1e-4 * thin), thin)
        reach = torch.asinh(room / layer)
        curve, rate = torch.zeros_like(c), torch.zeros_like(c)
        for node, weight in zip(*rule, strict=True):
            if layered:  # gap = layer sinh(reach t), t in [0, 1]
                gap, step = layer * torch.sinh(reach * node), layer * reach * torch.cosh(reach * node)
            else:
                gap, step = room * node, room
            phi = least + gap
            half = 0.5 / phi.sin().square().clamp_min(1e-300)
            # 1/sx^2 + 1/sy^2 - 2 cos(phi)/(sx sy) = (1/sx - 1/sy)^2 + 2 (1 - cos(phi))/(sx sy), without cancellation
            over = torch.where(sign > 0, 1 + phi.cos(), 2 * (phi / 2).sin().square().clamp_min(1e-300))
            both = (inv_x - inv_y) ** 2 * half + inv_x * inv_y / over
            density = torch.expm1(-both) - torch.expm1(-(inv_x**2) * half) - torch.expm1(-(inv_y**2) * half)
            density = density * (sign * step * (weight / (2 * math.pi)))
            curve = curve + density
            # c - t = +-sx sy (cos(least) - cos(phi))
            rate = rate + sign * sx * sy * 2 * ((phi + least) / 2).sin() * (gap / 2).sin() * density
        window = _window(inv_x) * _window(inv_y)
        slopes.append(window + curve)
        values.append(_mean_clip(sx) * _mean_clip(sy) + c * window + rate)
    return torch.cat(values), torch.cat(slopes)


def _minor(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """a b - c^2 without cancellation: of each product also what rounding took (Dekker 1971)."""

    def product(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        (u_high, u_low), (v_high, v_low) = split(u), split(v)
        whole = u * v
        return whole, ((u_high * v_high - whole) + u_high * v_low + u_low * v_high) + u_low * v_low

    def split(u: Tensor) -> tuple[Tensor, Tensor]:
        wide = 134217729.0 * u  # 2^27 + 1
        high = wide - (wide - u)
        return high, u - high

    (p, p_lost), (q, q_lost) = product(a, b), product(c, c)
    return (p - q) + (p_lost - q_lost)


def _window(inverse_sd: Tensor) -> Tensor:
    """Pr[0 < u < 1]."""
    return 0.5 * torch.erf(inverse_sd * math.sqrt(0.5))  # as ndtr - 1/2, without its cancellation


def _mean_clip(sd: Tensor) -> Tensor:
    """E[s(u)] = sd (n(0) - n(1/sd)) + Q(1/sd), n the normal density and Q its upper tail."""
    bulk = -torch.expm1(-0.5 / sd**2) * sd / math.sqrt(2 * math.pi)
    return bulk + torch.special.ndtr(-1 / sd)


def _inputs(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both in float64. Errors: SettingError for numbers whose squares are not finite."""
    x, y = x.double(), y.double()
    for name, z in (("x", x), ("y", y)):
        if z.numel() and float(z.abs().amax()) > 1e150:
            raise SettingError(name, f"entries up to {float(z.abs().amax()):.3g}", "up to 1e150", "scale the inputs")
    return x, y


def _moments(
    x: Tensor, y: Tensor, activation: str, weight_var: float, bias_var: float, readout_var: float
) -> tuple[Tensor, ...]:
    if activation not in ACTIVATIONS:
        raise SettingError("activation", repr(activation), f"one of {ACTIVATIONS}", "clip is the truncated ReLU")
    for name, value in (("weight_var", weight_var), ("bias_var", bias_var), ("readout_var", readout_var)):
        check_number(value, name, "a finite number of at least 0", "it is a variance")
    x, y = _inputs(x, y)
    inner = x @ y.T
    var_x = (weight_var * (x * x).sum(1) + bias_var)[:, None]
    var_y = (weight_var * (y * y).sum(1) + bias_var)[None]
    cov = weight_var * inner + bias_var
    if activation == "relu":
        return inner, *_relu(var_x, var_y, cov)
    var_x, var_y = var_x.expand_as(cov), var_y.expand_as(cov).clone()
    i, j = _identical(x, y, inner)
    # the layer of a pair is as thin as rounding of its covariance; identical inputs are spared it
    var_y[i, j] = cov[i, j] = var_x[i, j]
    return inner, *_clip(var_x, var_y, cov)


def _identical(x: Tensor, y: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
    """Indices of the rows of x and y that are equal, found among those whose squared distance may be 0."""
    size_x, size_y = (x * x).sum(1)[:, None], (y * y).sum(1)[None]
    i, j = (size_x + size_y - 2 * inner <= 1e-12 * (size_x + size_y)).nonzero(as_tuple=True)
    step = max(1, 2**22 // max(1, x.shape[1]))
    equal = [(x[a] == y[b]).all(1) for a, b in zip(i.split(step), j.split(step), strict=True)]
    kept = torch.cat([i.new_zeros(0, dtype=torch.bool), *equal])
    return i[kept], j[kept]


@checked(empty=("x", "y"), mixed=("x", "y"))
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
    Errors: SettingError for an unknown activation, a variance below 0 or not finite, and with activation clip for
    preactivations of a standard deviation above 1e8 (see `clip_moments` for the error up to there).

    Example:
        >>> nngp(torch.eye(2), torch.eye(2))[0, 0].item()
        0.5
    """
    _, value, _ = _moments(x, y, activation, weight_var, bias_var, readout_var)
    return readout_var * value


@checked(empty=("x", "y"), mixed=("x", "y"))
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

    Errors: as `nngp`, and an unknown layer is refused by name. With activation clip the error of "first" is that of the
    second number of `clip_moments` times <x, y> + 1.

    Example:
        >>> x = torch.eye(2)
        >>> torch.equal(ntk(x, x, layers=["second"]), nngp(x, x))
        True
    """
    unknown = [name for name in layers if name not in ("first", "second")]
    if unknown or not layers:
        raise SettingError("layers", list(layers), "a choice of 'first' and 'second'", "name at least one of them")
    inner, value, slope = _moments(x, y, activation, weight_var, bias_var, readout_var)
    kernel = torch.zeros_like(inner)
    if "first" in layers:
        kernel = kernel + readout_var * slope * (inner + 1)
    if "second" in layers:
        kernel = kernel + value
    return kernel


@checked(empty=("x", "y"), mixed=("x", "y"))
def rbf(x: Float[Tensor, "n d"], y: Float[Tensor, "p d"], *, bandwidth: float | Tensor = 1.0) -> Float[Tensor, "n p"]:
    """Gaussian kernel exp(-||x - y||^2 / (2 bandwidth^2)).

    Distances come from one matrix product. Inputs far from the origin, compared with how they are spread, are centred
    first (by the mean of y), so that an offset common to all does not cancel their digits.

    Errors: SettingError for a bandwidth that is not positive and finite.

    Example:
        >>> rbf(torch.zeros(1, 3), torch.zeros(1, 3)).item()
        1.0
    """
    remedy = "the median distance between inputs is a usual choice"
    check_number(float(bandwidth), "bandwidth", "a finite number above 0", remedy, above=True)
    x, y = _inputs(x, y)
    if len(y):
        centre = y.mean(0)
        # not always: where it gains nothing it would only round, as the exact distances of inputs of -1 and 1
        if float(centre @ centre) > FAR * float((y - centre).square().sum(1).amax()):
            x, y = x - centre, y - centre
    square = (x * x).sum(1)[:, None] + (y * y).sum(1)[None] - 2 * x @ y.T
    return square.clamp_min_(0).mul_(-0.5 / bandwidth**2).exp_()


@checked(empty=("x", "y"), mixed=("x", "y"))
def polynomial(
    x: Float[Tensor, "n d"], y: Float[Tensor, "p d"], *, degree: int = 3, scale: float = 1.0, offset: float = 1.0
) -> Float[Tensor, "n p"]:
    """Polynomial kernel (scale <x, y> + offset)^degree; degree 1 with offset 0 is the linear kernel.

    Errors: SettingError for a degree that is no whole number from 1, scale <= 0, offset < 0, and what is not finite.
    """
    if not (1 <= degree < math.inf) or int(degree) != degree:
        raise SettingError("degree", degree, "an integer of at least 1", "degree 1 is linear")
    check_number(scale, "scale", "a finite number above 0", "else it is no kernel", above=True)
    check_number(offset, "offset", "a finite number of at least 0", "else it is no kernel")
    x, y = _inputs(x, y)
    return (scale * (x @ y.T) + offset) ** degree
