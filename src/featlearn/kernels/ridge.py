"""Kernel and feature ridge regression in float64: one solve, a whole path of penalties, predictors like any other."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError

Kernel = Callable[[Float[Tensor, "n d"], Float[Tensor, "p d"]], Float[Tensor, "n p"]]
TEMPORARIES = 10  # matrices of one block's size that a kernel may hold at once


def refuse_non_finite(name: str, x: Tensor) -> None:
    """SettingError naming the first entry that is not a finite number."""
    bad = (~torch.isfinite(x)).nonzero()
    if len(bad):
        where = tuple(bad[0].tolist())
        at = ", ".join(map(str, where))
        raise SettingError(
            f"{name}[{at}]", float(x[where]), "finite numbers only", f"remove or fill the {len(bad)} such entries"
        )


def _rows_per_block(columns: int, memory_mib: float) -> int:
    rows = int(memory_mib * 2**20 / (8 * TEMPORARIES * max(columns, 1)))
    if rows < 1:
        need = math.ceil(8 * TEMPORARIES * columns / 2**20)
        raise SettingError("memory_mib", memory_mib, f"at least {need} for one row of {columns} entries", "raise it")
    return rows


def gram(
    kernel: Kernel, x: Float[Tensor, "n d"], y: Float[Tensor, "p d"] | None = None, *, memory_mib: float = 256.0
) -> Float[Tensor, "n p"]:
    """Gram matrix kernel(x, y), float64, made in blocks of rows.

    memory_mib bounds the temporaries of one block; the result itself takes 8 n p bytes on top. y=None means y = x.

    Errors: an input that is not finite is named by its first bad entry; a budget below one row is refused.
    """
    y = x if y is None else y
    refuse_non_finite("x", x)
    refuse_non_finite("y", y)
    rows = _rows_per_block(len(y), memory_mib)
    out = torch.empty(len(x), len(y), dtype=torch.float64, device=x.device)
    for start in range(0, len(x), rows):
        out[start : start + rows] = kernel(x[start : start + rows], y)
    refuse_non_finite("kernel", out)
    return out


@dataclass(frozen=True)
class KernelPredictor:
    """x -> kernel(x, centres) @ coefficients, in blocks of rows: a Predictor with scores (n, o).

    centres (c, d), coefficients (c, o) float64, penalty: what it was fitted with.
    """

    kernel: Kernel
    centres: Float[Tensor, "c d"]
    coefficients: Float[Tensor, "c o"]
    penalty: float
    memory_mib: float = 256.0

    def __call__(self, x: Float[Tensor, "n d"], /) -> Float[Tensor, "n o"]:
        rows = _rows_per_block(len(self.centres), self.memory_mib)
        blocks = [self.kernel(part, self.centres).double() @ self.coefficients for part in x.split(rows)]
        return torch.cat(blocks) if blocks else self.coefficients.new_zeros(0, self.coefficients.shape[1])


@dataclass(frozen=True)
class FeaturePredictor:
    """x -> features(x) @ coefficients: a Predictor with scores (n, o). coefficients (f, o) float64."""

    features: Callable[[Tensor], Tensor]
    coefficients: Float[Tensor, "f o"]
    penalty: float

    def __call__(self, x: Float[Tensor, "n d"], /) -> Float[Tensor, "n o"]:
        return self.features(x).double() @ self.coefficients


def _targets(x: Tensor, y: Tensor) -> Tensor:
    if len(x) != len(y):
        raise SettingError("y", tuple(y.shape), f"{len(x)} rows, one for each row of x", "pass matching samples")
    if not len(x):
        raise SettingError("x", tuple(x.shape), "at least one row", "pass samples")
    refuse_non_finite("y", y)
    return (y[:, None] if y.ndim == 1 else y).double()


def _check_penalties(penalties: Sequence[float]) -> None:
    for value in penalties:
        if not (value >= 0 and math.isfinite(value)):
            raise SettingError("penalty", value, "a finite number of at least 0", "0 interpolates, if the kernel can")


def _singular(penalty: float, scale: float) -> SettingError:
    return SettingError(
        "penalty",
        penalty,
        "large enough that the matrix can be inverted (it is singular to working precision)",
        f"try penalty >= {1e-10 * scale:.1e}, or drop repeated inputs",
    )


def _solve(matrix: Tensor, right: Tensor, penalty: float) -> Tensor:
    """(matrix + penalty I)^-1 right by Cholesky, refusing a matrix singular to working precision."""
    scale = float(matrix.diagonal().max())
    shifted = matrix.clone()
    shifted.diagonal().add_(penalty)
    lower, info = torch.linalg.cholesky_ex(shifted)
    floor = len(matrix) * torch.finfo(torch.float64).eps * (scale + penalty)
    if int(info) or not float(lower.diagonal().square().min()) > floor:
        raise _singular(penalty, scale)
    return torch.cholesky_solve(right, lower)


def kernel_ridge(
    kernel: Kernel,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " k"] | Float[Tensor, "k o"],
    *,
    penalty: float,
    memory_mib: float = 256.0,
) -> KernelPredictor:
    """Minimise sum_s (f(x_s) - y_s)^2 + penalty ||f||^2 over the space of the kernel.

    Coefficients (K + penalty I)^-1 y by a float64 Cholesky factorisation; time n^3 / 3, memory 16 n^2 bytes. The
    penalty is on the sum, not on the mean of squares (as scikit-learn's `alpha`).

    Errors (one line, before the factorisation): a non-finite entry by name, a negative penalty, lengths that differ;
    after it: a matrix singular to working precision, with the penalty that would mend it.

    Example:
        >>> x = torch.linspace(0, 1, 5)[:, None]
        >>> f = kernel_ridge(lambda u, v: u @ v.T + 1, x, 2 * x[:, 0], penalty=1e-9)
        >>> round(f(torch.ones(1, 1)).item(), 4)
        2.0
    """
    _check_penalties([penalty])
    targets = _targets(x, y)
    return KernelPredictor(
        kernel, x, _solve(gram(kernel, x, memory_mib=memory_mib), targets, penalty), penalty, memory_mib
    )


def ridge_path(
    kernel: Kernel,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " k"] | Float[Tensor, "k o"],
    *,
    penalties: Sequence[float],
    memory_mib: float = 256.0,
) -> tuple[KernelPredictor, ...]:
    """`kernel_ridge` at several penalties from one eigendecomposition K = Q diag(l) Q^T.

    Coefficients Q diag(1 / (l + penalty)) Q^T y: every further penalty costs one product with Q.

    Errors: as `kernel_ridge`, and an empty list.
    """
    if not penalties:
        raise SettingError("penalties", list(penalties), "at least one value", "e.g. [1e-3, 1e-2, 1e-1]")
    _check_penalties(penalties)
    targets = _targets(x, y)
    values, vectors = torch.linalg.eigh(gram(kernel, x, memory_mib=memory_mib))
    rotated = vectors.T @ targets
    scale = float(values[-1])
    fits = []
    for penalty in penalties:
        shifted = values + penalty
        if not float(shifted[0]) > len(values) * torch.finfo(torch.float64).eps * (scale + penalty):
            raise _singular(penalty, scale)
        fits.append(KernelPredictor(kernel, x, vectors @ (rotated / shifted[:, None]), penalty, memory_mib))
    return tuple(fits)


def feature_ridge(
    features: Callable[[Tensor], Tensor],
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " k"] | Float[Tensor, "k o"],
    *,
    penalty: float,
) -> FeaturePredictor:
    """Minimise sum_s (<features(x_s), c> - y_s)^2 + penalty ||c||^2; the same function as `kernel_ridge` on its Gram.

    Solves in the smaller of the two dimensions, samples or features.

    Errors: as `kernel_ridge`.
    """
    _check_penalties([penalty])
    targets = _targets(x, y)
    refuse_non_finite("x", x)
    phi = features(x).double()
    refuse_non_finite("features", phi)
    if phi.shape[1] <= phi.shape[0]:
        coefficients = _solve(phi.T @ phi, phi.T @ targets, penalty)
    else:
        coefficients = phi.T @ _solve(phi @ phi.T, targets, penalty)
    return FeaturePredictor(features, coefficients, penalty)
