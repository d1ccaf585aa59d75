"""Kernel and feature ridge regression in float64: one solve, a whole path of penalties, predictors like any other."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import check_finite, check_number, checked
from featlearn.errors import NotFiniteInput

Kernel = Callable[[Float[Tensor, "n d"], Float[Tensor, "p d"]], Float[Tensor, "n p"]]
TEMPORARIES = 10  # matrices of one block's size that a kernel may hold at once
ASYMMETRY = 1e-5  # of the largest entry: what kernels that work in float32 may leave


def _rows_per_block(columns: int, memory_mib: float) -> int:
    check_number(memory_mib, "memory_mib", "a finite number above 0", "256 is the default", above=True)
    rows = int(memory_mib * 2**20 / (8 * TEMPORARIES * max(columns, 1)))
    if rows < 1:
        need = math.ceil(8 * TEMPORARIES * columns / 2**20)
        raise SettingError("memory_mib", memory_mib, f"at least {need} for one row of {columns} entries", "raise it")
    return rows


def _called(kernel: Kernel, x: Tensor, y: Tensor) -> Tensor:
    """kernel(x, y) in float64, refused where it is no number for each pair, or not finite."""
    out: object = kernel(x, y)
    if not isinstance(out, Tensor) or out.shape != (len(x), len(y)):
        found = f"a tensor of shape {tuple(out.shape)}" if isinstance(out, Tensor) else f"a {type(out).__name__}"
        allowed = f"({len(x)}, {len(y)}) for x {tuple(x.shape)} and y {tuple(y.shape)}"
        raise SettingError("kernel", found, allowed, "return one number for each row of x and each row of y")
    out = out.double()
    bad = (~torch.isfinite(out)).nonzero()
    if len(bad):
        i, j = bad[0].tolist()
        largest = max(float(x.abs().amax()), float(y.abs().amax()))
        allowed = f"finite, as all inputs are (up to {largest:.3g})"
        raise NotFiniteInput(
            f"kernel[{i}, {j}]", float(out[i, j]), allowed, "it overflows or divides by 0: scale the inputs or mend it"
        )
    return out


@checked(empty=("x", "y"), mixed=("x", "y"))
def gram(
    kernel: Kernel, x: Float[Tensor, "n d"], y: Float[Tensor, "p d"] | None = None, *, memory_mib: float = 256.0
) -> Float[Tensor, "n p"]:
    """Gram matrix kernel(x, y), float64, made in blocks of rows.

    memory_mib bounds the temporaries of one block; the result itself takes 8 n p bytes on top. y=None means y = x.

    Errors: an input that is not finite is named by its first bad entry; a kernel that gives no number for each pair,
    or one that is not finite for finite inputs; a budget below one row.
    """
    y = x if y is None else y
    rows = _rows_per_block(len(y), memory_mib)
    out = torch.empty(len(x), len(y), dtype=torch.float64, device=x.device)
    for start in range(0, len(x), rows):
        out[start : start + rows] = _called(kernel, x[start : start + rows], y)
    return out


@dataclass(frozen=True)
class KernelPredictor:
    """x -> kernel(x, centres) @ coefficients, in blocks of rows: a Predictor with scores (n, o).

    centres (c, d), coefficients (c, o) float64, penalty: what it was fitted with.
    Errors: x of another width or not finite, and what `gram` refuses of a kernel.
    """

    kernel: Kernel
    centres: Float[Tensor, "c d"]
    coefficients: Float[Tensor, "c o"]
    penalty: float
    memory_mib: float = 256.0

    @checked(empty=("x",), moves=True)
    def __call__(self, x: Float[Tensor, "n d"], /) -> Float[Tensor, "n o"]:
        rows = _rows_per_block(len(self.centres), self.memory_mib)
        blocks = [_called(self.kernel, part, self.centres) @ self.coefficients for part in x.split(rows) if len(part)]
        return torch.cat(blocks) if blocks else self.coefficients.new_zeros(0, self.coefficients.shape[1])


@dataclass(frozen=True)
class FeaturePredictor:
    """x -> features(x) @ coefficients: a Predictor with scores (n, o). coefficients (f, o) float64.

    Errors: x that is not finite, and features that are not finite or of another number.
    """

    features: Callable[[Tensor], Tensor]
    coefficients: Float[Tensor, "f o"]
    penalty: float

    @checked(empty=("x",), moves=True)
    def __call__(self, x: Float[Tensor, "n d"], /) -> Float[Tensor, "n o"]:
        return _features(self.features, x, len(self.coefficients)) @ self.coefficients


def _features(features: Callable[[Tensor], Tensor], x: Tensor, f: int | None = None) -> Tensor:
    """features(x) in float64, refused where they are no row for each row of x, or not finite."""
    phi: object = features(x)
    if not isinstance(phi, Tensor) or phi.ndim != 2 or len(phi) != len(x) or f not in (None, phi.shape[1]):
        found = f"a tensor of shape {tuple(phi.shape)}" if isinstance(phi, Tensor) else f"a {type(phi).__name__}"
        allowed = f"({len(x)}, {'f' if f is None else f}) for x {tuple(x.shape)}"
        raise SettingError("features", found, allowed, "return one row for each row of x")
    check_finite(phi, "features")
    return phi.double()


def _targets(x: Tensor, y: Tensor) -> Tensor:
    if len(x) != len(y):
        raise SettingError("y", tuple(y.shape), f"{len(x)} rows, one for each row of x", "pass matching samples")
    if not len(x):
        raise SettingError("x", tuple(x.shape), "at least one row", "pass samples")
    return (y[:, None] if y.ndim == 1 else y).double()


def _check_penalties(penalties: Sequence[float]) -> None:
    for value in penalties:
        if not (value >= 0 and math.isfinite(value)):
            raise SettingError("penalty", value, "a finite number of at least 0", "0 interpolates, if the kernel can")


def _check_symmetric(matrix: Tensor) -> None:
    """Refuse a Gram matrix that is not that of a symmetric kernel, with the pair that differs most."""
    worst, where, top = 0.0, (0, 0), 0.0
    for start in range(0, len(matrix), 1024):
        block = matrix[start : start + 1024]
        apart = (block - matrix[:, start : start + 1024].T).abs()
        top = max(top, float(block.abs().amax()))
        if (found := float(apart.amax())) > worst:
            i, j = divmod(int(apart.argmax()), len(matrix))
            worst, where = found, (start + i, j)
    if worst > ASYMMETRY * top:
        i, j = where
        says = f"not symmetric: [{i}, {j}] is {float(matrix[i, j]):.6g} and [{j}, {i}] is {float(matrix[j, i]):.6g},"
        raise SettingError("kernel", says, "k(x, y) = k(y, x)", "take (k(x, y) + k(y, x)) / 2 if it should be one")


def _refused(values: Tensor, penalty: float, name: str) -> SettingError:
    """What is wrong with a matrix of these eigenvalues, ascending, that cannot be inverted with this penalty."""
    least, top = float(values[0]), float(values.abs().amax())
    rounding = 4 * len(values) * torch.finfo(torch.float64).eps * top
    if least < -max(rounding, 1e-9 * top):
        says = f"indefinite: its smallest eigenvalue is {least:.3g}, its largest {float(values[-1]):.3g},"
        remedy = f"mend it (a penalty above {-least:.3g} would hide the fault)"
        return SettingError(name, says, "positive semidefinite", remedy)
    mends = max(1e-10 * top, rounding - least, 2 * penalty) or 1e-10
    return SettingError(
        "penalty",
        penalty,
        f"large enough to invert the matrix, whose smallest eigenvalue is {least:.1e} (singular to working precision)",
        f"try penalty >= {mends:.1e}, or drop repeated inputs",
    )


def _solve(matrix: Tensor, right: Tensor, penalty: float, name: str) -> Tensor:
    """(matrix + penalty I)^-1 right by Cholesky, refusing a matrix singular to working precision."""
    scale = float(matrix.diagonal().max())
    shifted = matrix.clone()
    shifted.diagonal().add_(penalty)
    lower, info = torch.linalg.cholesky_ex(shifted)
    floor = len(matrix) * torch.finfo(torch.float64).eps * (scale + penalty)
    if int(info) or not float(lower.diagonal().square().min()) > floor:
        raise _refused(torch.linalg.eigvalsh(matrix), penalty, name)
    return torch.cholesky_solve(right, lower)


@checked(mixed=("x", "y"), empty=("x", "y"))
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

    Errors (one line, before the factorisation): a non-finite entry by name, a negative penalty, lengths that differ, a
    kernel that gives no number for each pair, overflows or is not symmetric; after it: a kernel that is indefinite,
    with its smallest eigenvalue, and a matrix singular to working precision, with the penalty that would mend it.

    Example:
        >>> x = torch.linspace(0, 1, 5)[:, None]
        >>> f = kernel_ridge(lambda u, v: u @ v.T + 1, x, 2 * x[:, 0], penalty=1e-9)
        >>> round(f(torch.ones(1, 1)).item(), 4)
        2.0
    """
    _check_penalties([penalty])
    targets = _targets(x, y)
    matrix = gram(kernel, x, memory_mib=memory_mib)
    _check_symmetric(matrix)
    return KernelPredictor(kernel, x, _solve(matrix, targets, penalty, "kernel"), penalty, memory_mib)


@checked(mixed=("x", "y"), empty=("x", "y"))
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
    matrix = gram(kernel, x, memory_mib=memory_mib)
    _check_symmetric(matrix)
    values, vectors = torch.linalg.eigh(matrix)
    rotated = vectors.T @ targets
    scale = float(values[-1])
    fits = []
    for penalty in penalties:
        shifted = values + penalty
        if not float(shifted[0]) > len(values) * torch.finfo(torch.float64).eps * (scale + penalty):
            raise _refused(values, penalty, "kernel")
        fits.append(KernelPredictor(kernel, x, vectors @ (rotated / shifted[:, None]), penalty, memory_mib))
    return tuple(fits)


@checked(mixed=("x", "y"), empty=("x", "y"))
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
    phi = _features(features, x)
    if phi.shape[1] <= phi.shape[0]:
        coefficients = _solve(phi.T @ phi, phi.T @ targets, penalty, "features")
    else:
        coefficients = phi.T @ _solve(phi @ phi.T, targets, penalty, "features")
    return FeaturePredictor(features, coefficients, penalty)
