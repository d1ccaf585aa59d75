"""Kernels by recursion: the arcsine, and infinitely wide ReLU networks of any depth, with and without one skip.

Parametrisation as in `closed_form`: z_1 = W_1 x + b_1, z_l+1 = m^(-1/2) W_l+1 relu(z_l) + b_l+1 and the output
m^(-1/2) <a, relu(z)> of the last hidden layer, with entries of W, b and a of variance weight_var, bias_var and
readout_var; the trained parameters are W, b and a themselves. With two layers the kernels are `nngp` and `ntk`.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import check_number, checked
from featlearn.kernels.closed_form import relu_moments

Step = Callable[[Tensor, Tensor, Tensor], Tensor]


@checked(empty=("x", "y"), mixed=("x", "y"))
def arcsine(x: Float[Tensor, "n d"], y: Float[Tensor, "p d"]) -> Float[Tensor, "n p"]:
    """arcsin(<x, y> / (||x|| ||y||)); 0 where an input is 0. Source: resnet.kernels (section 3.1, kernel 2).

    Example:
        >>> arcsine(torch.eye(2), torch.eye(2))[0, 1].item()
        0.0
    """
    x, y = (z.double() / z.double().norm(dim=1, keepdim=True).clamp_min(1e-300) for z in (x, y))
    return torch.arcsin((x @ y.T).clamp(-1, 1))


@checked(empty=("x", "y"), mixed=("x", "y"))
def recursive(x: Float[Tensor, "n d"], y: Float[Tensor, "p d"], step: Step, *, times: int = 1) -> Float[Tensor, "n p"]:
    """K_0 = <x, y> and K_l+1(x, y) = step(K_l(x, x), K_l(y, y), K_l(x, y)), `times` steps.

    step: a function of arrays that can be broadcast, (n, 1), (1, p) and (n, p), that keeps kernels kernels.
    Source: resnet.kernels (section 3.1, kernel 3, "with any recursive function").
    Errors: `SettingError` for times below 0.

    Example:
        >>> recursive(torch.eye(2), torch.eye(2), lambda u, v, c: c**2 + 1, times=2)[0].tolist()
        [5.0, 2.0]
    """
    if times < 0:
        raise SettingError("times", times, "at least 0", "0 is the inner product")
    x, y = x.double(), y.double()
    var_x, var_y, cov = x.square().sum(1)[:, None], y.square().sum(1)[None], x @ y.T
    for _ in range(times):
        var_x, var_y, cov = step(var_x, var_x, var_x), step(var_y, var_y, var_y), step(var_x, var_y, cov)
    return cov


def _hidden(x: Tensor, y: Tensor, hidden: int, weight_var: float, bias_var: float) -> tuple[Tensor, ...]:
    """Of the last hidden layer: var_x, var_y of z, E[r r], E[r' r'] and the tangent kernel of z."""
    for name, value in (("weight_var", weight_var), ("bias_var", bias_var)):
        check_number(value, name, "a finite number of at least 0", "it is a variance")
    x, y = x.double(), y.double()
    inner = x @ y.T
    var_x, var_y = (weight_var * z.square().sum(1) + bias_var for z in (x, y))
    cov, tangent = weight_var * inner + bias_var, inner + 1
    value, slope = relu_moments(var_x[:, None], var_y[None], cov)
    for _ in range(hidden - 1):
        var_x, var_y, cov = weight_var * var_x / 2 + bias_var, weight_var * var_y / 2 + bias_var, value
        tangent = value + 1 + weight_var * slope * tangent
        value, slope = relu_moments(var_x[:, None], var_y[None], weight_var * cov + bias_var)
    return var_x, var_y, value, slope, tangent


def _check_layers(layers: int, readout_var: float) -> None:
    if layers < 2:
        raise SettingError("layers", layers, "at least 2", "the read-out is a layer too")
    check_number(readout_var, "readout_var", "a finite number of at least 0", "it is a variance")


@checked(empty=("x", "y"), mixed=("x", "y"))
def deep_nngp(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, "p d"],
    *,
    layers: int = 3,
    weight_var: float = 1.0,
    bias_var: float = 0.0,
    readout_var: float = 1.0,
) -> Float[Tensor, "n p"]:
    """Conjugate kernel of an infinitely wide ReLU network of `layers` layers, the read-out among them.

    It is `recursive` with the first moment of the ReLU as step. Source: resnet.kernels (section 3.1, kernel 5).
    Errors: `SettingError` for fewer than 2 layers and for variances below 0.
    """
    _check_layers(layers, readout_var)
    return readout_var * _hidden(x, y, layers - 1, weight_var, bias_var)[2]


@checked(empty=("x", "y"), mixed=("x", "y"))
def deep_ntk(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, "p d"],
    *,
    layers: int = 3,
    weight_var: float = 1.0,
    bias_var: float = 0.0,
    readout_var: float = 1.0,
) -> Float[Tensor, "n p"]:
    """Neural tangent kernel of an infinitely wide fully connected ReLU network of `layers` layers, all trained.

    T_1 = <x, y> + 1, T_l+1 = E[r r] + 1 + weight_var E[r' r'] T_l, and E[r r] + readout_var E[r' r'] T at the end.
    Source: Jacot, Gabriel and Hongler (2018); resnet.kernels (section 3.1, kernel 6). Errors: as `deep_nngp`.
    """
    _check_layers(layers, readout_var)
    _, _, value, slope, tangent = _hidden(x, y, layers - 1, weight_var, bias_var)
    return value + readout_var * slope * tangent


def _skipped(x: Tensor, y: Tensor, weight_var: float, bias_var: float) -> tuple[Tensor, ...]:
    """E[(h + r)(h + r)] and, of both layers, E[r r] and E[r' r'] of a network whose read-out sees both."""
    var_x, var_y, value, slope, _ = _hidden(x, y, 1, weight_var, bias_var)
    next_x, next_y, value2, slope2, _ = _hidden(x, y, 2, weight_var, bias_var)
    (mean_x, mean_y), (over_x, over_y) = (
        ((u / (2 * math.pi)).sqrt()[:, None], (v / (2 * math.pi)).sqrt()[None])
        for u, v in ((var_x, var_y), (next_x, next_y))
    )
    return value + value2 + mean_x * over_y + over_x * mean_y, value, slope, value2, slope2


@checked(empty=("x", "y"), mixed=("x", "y"))
def residual_nngp(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, "p d"],
    *,
    weight_var: float = 1.0,
    bias_var: float = 0.0,
    readout_var: float = 1.0,
) -> Float[Tensor, "n p"]:
    """Conjugate kernel of m^(-1/2) <a, h + relu(m^(-1/2) U h + b_2)>, h = relu(W x + b_1), infinitely wide.

    A neuron of the second layer reads all of the first one and none of it much, so h_i and its partner are independent:
    E[(h + r)(h' + r')] = E[h h'] + E[r r'] + E[h] E[r'] + E[r] E[h'], with E[relu(z)] = sd(z) / sqrt(2 pi).
    Source: resnet.learner_eq2_1 (eq. 2.1), whose U is full; a bottleneck of k values has no such limit.
    Errors: `SettingError` for variances below 0.
    """
    _check_layers(3, readout_var)
    return readout_var * _skipped(x, y, weight_var, bias_var)[0]


@checked(empty=("x", "y"), mixed=("x", "y"))
def residual_ntk(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, "p d"],
    *,
    weight_var: float = 1.0,
    bias_var: float = 0.0,
    readout_var: float = 1.0,
) -> Float[Tensor, "n p"]:
    """Neural tangent kernel of the network of `residual_nngp`, all of a, U, b_2, W, b_1 trained.

    E[(h + r)(h' + r')] + readout_var S_2 (E[h h'] + 1) + readout_var S_1 (1 + weight_var S_2) (<x, y> + 1), with S_l =
    E[r' r'] of layer l: what reaches the first layer through the skip and what reaches it through U do not correlate.
    Errors: as `residual_nngp`.
    """
    _check_layers(3, readout_var)
    whole, value, slope, _, slope2 = _skipped(x, y, weight_var, bias_var)
    first = slope * (1 + weight_var * slope2) * (x.double() @ y.double().T + 1)
    return whole + readout_var * (slope2 * (value + 1) + first)
