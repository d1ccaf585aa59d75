"""Kernels of infinitely wide convolutional ReLU networks: filters that keep the size, then flattened or averaged.

Parametrisation. Filters have q x q positions, images are continued by 0. The first layer is
z_1(s) = q^(-1) sum_t W_1(t) x(s + t) + b_1, the next ones z_l+1(s) = q^(-1) m^(-1/2) sum_t W_l+1(t) relu(z_l(s + t)) +
b_l+1, with entries of W and b of variance weight_var and bias_var; b is shared by all positions. The output is
(P m)^(-1/2) sum_s <a_s, relu(z(s))>
over the P positions ("flatten") or m^(-1/2) <a, mean_s relu(z(s))> ("average"), entries of a of variance readout_var.
The trained parameters are W, b and a themselves. Images of one pixel give `deep_nngp` and `deep_ntk`.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import check_number, checked
from featlearn.kernels.blocks import MIB, Report, mirrored
from featlearn.kernels.closed_form import _relu

Axes = Sequence[tuple[int, ...]]
"""The axes that move together with the rows of a filter, and those with its columns."""
READOUTS = ("flatten", "average")
TEMPORARIES = 10  # arrays of one block's size that are alive at once


@checked(mixed=("x", "y"))
def conv_nngp(
    x: Float[Tensor, "n c h w"],
    y: Float[Tensor, "p c h w"] | None = None,
    *,
    layers: int = 3,
    size: int = 3,
    readout: str = "flatten",
    weight_var: float = 1.0,
    bias_var: float = 0.0,
    readout_var: float = 1.0,
    memory_mib: float = 256.0,
    report: Report | None = None,
) -> Float[Tensor, "n p"]:
    """Covariance of the outputs of an infinitely wide random convolutional network (see the module), float64.

    layers: the read-out among them. size: q, odd. readout: "flatten" costs n p P numbers a layer, "average" n p P^2.
    y=None means y = x, and half the work. memory_mib bounds the temporaries of a block, and report is told of them.
    Source: Novak et al., Bayesian deep convolutional networks with many channels are Gaussian processes (2019).

    Errors: SettingError for fewer than 2 layers, an even size, another read-out, variances below 0, a budget below one
    pair of images. NotFiniteInput.

    Example:
        >>> conv_nngp(torch.ones(1, 1, 1, 1), layers=2, size=1).item()
        0.5
    """
    variances = {"weight_var": weight_var, "bias_var": bias_var, "readout_var": readout_var}
    return _blocked(x, y, layers, size, readout, variances, False, memory_mib, report)


@checked(mixed=("x", "y"))
def conv_ntk(
    x: Float[Tensor, "n c h w"],
    y: Float[Tensor, "p c h w"] | None = None,
    *,
    layers: int = 3,
    size: int = 3,
    readout: str = "flatten",
    weight_var: float = 1.0,
    bias_var: float = 0.0,
    readout_var: float = 1.0,
    memory_mib: float = 256.0,
    report: Report | None = None,
) -> Float[Tensor, "n p"]:
    """Neural tangent kernel of an infinitely wide convolutional network, all of its layers trained, float64.

    Between positions s of x and t of y, with B the mean over the q x q displacements of both: T_1 = B[<x(s), y(t)>] + 1
    and T_l+1 = B[E[r r]] + 1 + weight_var B[E[r' r'] T_l]. At the end E[r r] + readout_var E[r' r'] T, averaged over
    s = t ("flatten") or over all pairs ("average").
    Source: Arora et al., On exact computation with an infinitely wide neural net (2019), section 4, with biases.
    Arguments and errors: as `conv_nngp`.
    """
    variances = {"weight_var": weight_var, "bias_var": bias_var, "readout_var": readout_var}
    return _blocked(x, y, layers, size, readout, variances, True, memory_mib, report)


def _blocked(
    x: Tensor,
    y: Tensor | None,
    layers: int,
    size: int,
    readout: str,
    variances: dict[str, float],
    tangent: bool,
    memory_mib: float,
    report: Report | None,
) -> Tensor:
    if layers < 2:
        raise SettingError("layers", layers, "at least 2", "the read-out is a layer too")
    if size < 1 or size % 2 == 0:
        raise SettingError("size", size, "an odd number from 1", "the filter has a middle")
    if readout not in READOUTS:
        raise SettingError("readout", repr(readout), f"one of {READOUTS}", "average is global average pooling")
    for name, value in variances.items():
        check_number(value, name, "a finite number of at least 0", "it is a variance")
    check_number(memory_mib, "memory_mib", "a finite number above 0", "256 is the default", above=True)
    columns = x if y is None else y
    h, w = x.shape[2:]
    each = 8 * TEMPORARIES * (h * w) ** (1 if readout == "flatten" else 2)
    pairs = int(memory_mib * MIB / each)
    if pairs < 1:
        raise SettingError("memory_mib", memory_mib, f"at least {each / MIB:.3g} for one pair of images", "raise it")
    b = min(len(columns), max(1, math.isqrt(pairs)))
    a = min(len(x), pairs // b)
    if report is not None:
        result = 8 * len(x) * len(columns) / MIB
        report(
            f"convolutional kernel of {len(x)} x {len(columns)} images of {h} x {w}: {each * a * b / MIB:.4g} of "
            f"{memory_mib:g} MiB for blocks of {a} x {b}, {result:.4g} MiB on top for the result"
        )
    out = torch.zeros(len(x), len(columns), dtype=torch.float64, device=x.device)
    for i in range(0, len(x), a):
        for j in range(0, len(columns), b):
            if y is None and j + b <= i:
                continue  # below the diagonal
            rows, cols = x[i : i + a].double(), columns[j : j + b].double()
            out[i : i + a, j : j + b] = _pairs(rows, cols, layers - 1, size, readout, variances, tangent)
    if y is None:
        mirrored(out)
    return out


def _pairs(
    x: Tensor, y: Tensor, hidden: int, size: int, readout: str, variances: dict[str, float], tangent: bool
) -> Tensor:
    """(n, p): the recursion over arrays (n, p, h, w), or (n, p, h, w, h, w) for pairs of positions.

    Variances go through the same operations as covariances, so that those of equal patches stay equal to the bit.
    """
    weight_var, bias_var = variances["weight_var"], variances["bias_var"]
    both: Axes = ((2,), (3,)) if readout == "flatten" else ((2, 4), (3, 5))
    own: Axes = ((1,), (2,))
    rows = (slice(None), None, ..., None, None) if readout == "average" else (slice(None), None)
    columns = (None, slice(None), None, None) if readout == "average" else (None,)
    cov = _inner([z[rows] for z in x.unbind(1)], [z[columns] for z in y.unbind(1)])
    var_x, var_y = (_inner(list(z.unbind(1)), list(z.unbind(1))) for z in (x, y))
    slope = known = torch.zeros_like(cov)
    for layer in range(hidden):
        if layer:
            var_x, var_y = (_relu(v, v, v)[0] for v in (var_x, var_y))
        mean = _box(cov, both, size)
        if tangent:
            known = mean + 1 + (weight_var * _box(slope * known, both, size) if layer else 0)
        var_x, var_y = (weight_var * _box(v, own, size) + bias_var for v in (var_x, var_y))
        cov, slope = _relu(var_x[rows], var_y[columns], weight_var * mean + bias_var)
    whole = cov + variances["readout_var"] * slope * known if tangent else variances["readout_var"] * cov
    return whole.flatten(2).mean(2)


def _inner(x: Sequence[Tensor], y: Sequence[Tensor]) -> Tensor:
    """Sum over channels of products, one channel after the other."""
    total = x[0] * y[0]
    for u, v in zip(x[1:], y[1:], strict=True):
        total = total + u * v
    return total


def _box(t: Tensor, axes: Axes, size: int) -> Tensor:
    """Mean over the displacements of a filter, which move all axes of a group at once; 0 outside."""
    for group in axes:
        total = t.clone()
        for far in range(1, size // 2 + 1):
            if far >= t.shape[group[0]]:
                break
            low = tuple(slice(None, -far) if k in group else slice(None) for k in range(t.ndim))
            high = tuple(slice(far, None) if k in group else slice(None) for k in range(t.ndim))
            total[low] += t[high]
            total[high] += t[low]
        t = total
    return t / size**2
