"""Gram matrices of deep ReLU kernels in tiles that stay in cache; of equal inputs all digits are kept."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import check_number, checked
from featlearn.kernels.blocks import MIB, Report, mirrored
from featlearn.kernels.closed_form import _inputs

KERNELS = ("ntk", "nngp")
ROWS, COLUMNS = 64, 1024
"""Of a tile: half a MiB, of which a handful are alive at once."""


@checked(empty=("x", "y"), mixed=("x", "y"))
def deep_gram(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, "p d"] | None = None,
    *,
    kernel: str = "ntk",
    layers: int = 3,
    weight_var: float = 1.0,
    bias_var: float = 0.0,
    readout_var: float = 1.0,
    report: Report | None = None,
) -> Float[Tensor, "n p"]:
    """`deep_ntk` or `deep_nngp` of many inputs, several times faster, float64. y=None means y = x, and half the work.

    It works with correlations, whose recursion needs one arccosine and one root for a pair and a layer, in tiles of a
    few MiB whatever n is. Equal inputs are recognised, so that their entries do not lose half of their digits to the
    arccosine at 1. report is told of the memory before the work.

    Errors: SettingError for another kernel, fewer than 2 layers, variances below 0, entries above 1e150.

    Example:
        >>> deep_gram(torch.eye(2), kernel="nngp", layers=2)[0, 0].item()
        0.5
    """
    if kernel not in KERNELS:
        raise SettingError("kernel", repr(kernel), f"one of {KERNELS}", "nngp is the conjugate kernel")
    if layers < 2:
        raise SettingError("layers", layers, "at least 2", "the read-out is a layer too")
    for name, value in (("weight_var", weight_var), ("bias_var", bias_var), ("readout_var", readout_var)):
        check_number(value, name, "a finite number of at least 0", "it is a variance")
    columns = x if y is None else y
    if report is not None:
        size, tile = (8 * k / MIB for k in (len(x) * len(columns), 8 * ROWS * COLUMNS))
        report(f"{kernel} of {len(x)} x {len(columns)} inputs: {tile:g} MiB for tiles, {size:.4g} MiB for the result")
    x, columns = _inputs(x, columns)
    left, right = (_Side(z, layers - 1, weight_var, bias_var) for z in (x, columns))
    out = torch.zeros(len(x), len(columns), dtype=torch.float64, device=x.device)
    for i in range(0, len(x), ROWS):
        for j in range(0, len(columns), COLUMNS):
            if y is None and j + COLUMNS <= i:
                continue  # below the diagonal
            a, b = left.part(i, i + ROWS), right.part(j, j + COLUMNS)
            out[i : i + ROWS, j : j + COLUMNS] = _tile(a, b, kernel == "ntk", weight_var, bias_var, readout_var)
    if y is None:
        mirrored(out)
    return out


class _Side:
    """Inputs of one side: themselves, their directions before the first layer, their deviations in each layer."""

    def __init__(self, x: Tensor, hidden: int, weight_var: float, bias_var: float) -> None:
        self.x = x
        var, deviations = weight_var * x.square().sum(1) + bias_var, []
        for _ in range(hidden):
            deviations.append(var.sqrt())
            var = weight_var * var / 2 + bias_var
        self.deviations = torch.stack(deviations)
        bias = x.new_full((len(x), 1), math.sqrt(bias_var))
        self.directions = torch.cat([math.sqrt(weight_var) * x, bias], 1) * _inverse(self.deviations[0])[:, None]

    def part(self, start: int, stop: int) -> "_Side":
        """Some of the inputs."""
        part = object.__new__(_Side)
        part.x, part.directions = self.x[start:stop], self.directions[start:stop]
        part.deviations = self.deviations[:, start:stop]
        return part


def _equal(x: Tensor, y: Tensor, correlation: Tensor) -> tuple[Tensor, Tensor]:
    """Indices of the rows of x and y that are equal, found among those that are parallel but for rounding."""
    i, j = (correlation >= 1 - 1e-12).nonzero(as_tuple=True)
    same = (x[i] == y[j]).all(1)
    return i[same], j[same]


def _inverse(deviations: Tensor) -> Tensor:
    """1 / sd, and 0 where there is no variance."""
    return torch.where(deviations > 0, 1 / deviations.clamp_min(1e-300), 0.0)


def _tile(a: _Side, b: _Side, tangent: bool, weight_var: float, bias_var: float, readout_var: float) -> Tensor:
    """One tile, by minus the correlation c of each pair: E[r r] = sd sd' (sqrt(1 - c^2) + acos(-c) c) / (2 pi)."""
    inner = a.x @ b.x.T
    minus = a.directions @ b.directions.T
    i, j = _equal(a.x, b.x, minus)
    minus.neg_()
    known = inner.add_(1)
    last = len(a.deviations) - 1
    for layer, (sd_x, sd_y) in enumerate(zip(a.deviations, b.deviations, strict=True)):
        minus[i, j] = -1.0
        minus.clamp_(-1, 1)
        angle = minus.acos()
        value = (minus * minus).neg_().add_(1).sqrt_().addcmul_(angle, minus, value=-1)
        value.mul_((sd_x / (2 * math.pi))[:, None]).mul_(sd_y)
        if tangent:
            if not bool((sd_x > 0).all() and (sd_y > 0).all()):
                angle = angle * ((sd_x > 0)[:, None] & (sd_y > 0))
            known.mul_(angle)
        if layer == last:
            return value.add_(known, alpha=readout_var / (2 * math.pi)) if tangent else value.mul_(readout_var)
        if tangent:
            known.mul_(weight_var / (2 * math.pi)).add_(value).add_(1)
        minus = value.mul_(-weight_var).sub_(bias_var)
        minus.mul_(_inverse(a.deviations[layer + 1])[:, None]).mul_(_inverse(b.deviations[layer + 1]))
    raise AssertionError
