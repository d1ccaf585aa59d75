"""Spectra of weight matrices and of their changes: leading singular values, ranks, and directions that moved."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.core.check import checked

EXACT = 256
"""Smaller matrices are decomposed whole."""
MORE, ROUNDS = 10, 3
"""Directions beyond those asked for, and rounds of subspace iteration."""


@dataclass(frozen=True)
class Leading:
    """The leading part of a singular value decomposition: left (m, k), values (k), right (n, k).

    whole: all min(m, n) singular values are there.
    """

    left: Float[Tensor, "m k"]
    values: Float[Tensor, " k"]
    right: Float[Tensor, "n k"]
    whole: bool


@checked()
def leading_singular(matrix: Float[Tensor, "m n"], k: int, key: Key) -> Leading:
    """The k leading singular values and vectors.

    Formula: the whole decomposition for matrices with a side of at most 256, else subspace iteration from k + 10 random
    directions of `key` (Halko, Martinsson and Tropp 2011, algorithm 4.4), three rounds: values are never too large, and
    the largest are right to about 1e-6 where they stand out; those of a flat spectrum may be some per cent too small.
    Shapes: (m, n) -> `Leading`. Errors: `SettingError` for k outside 1 to min(m, n).

    Example:
        >>> leading_singular(torch.diag(torch.tensor([3.0, 2.0, 1.0])), 2, Key("demo")).values
        tensor([3., 2.])
    """
    least = min(matrix.shape)
    if not 1 <= k <= least:
        raise SettingError("k", k, f"1 to {least}, the smaller side", "ask for fewer")
    if least <= max(EXACT, k + MORE):
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
        return Leading(left[:, :k], values[:k], right[:k].T, k == least)
    start = torch.randn(matrix.shape[1], k + MORE, generator=key.torch()).to(matrix)
    basis, _ = torch.linalg.qr(matrix @ start)
    for _ in range(ROUNDS):
        back, _ = torch.linalg.qr(matrix.T @ basis)
        basis, _ = torch.linalg.qr(matrix @ back)
    inner, values, right = torch.linalg.svd(basis.T @ matrix, full_matrices=False)
    return Leading((basis @ inner)[:, :k], values[:k], right[:k].T, False)


@checked()
def stable_rank(matrix: Float[Tensor, "m n"], key: Key) -> float:
    """||W||_F^2 / ||W||_2^2: between 1 and the rank, and not moved by small singular values.

    Shapes: (m, n) -> a number. Errors: `SettingError` for a matrix of zeros.

    Example:
        >>> stable_rank(torch.eye(4), Key("demo"))
        4.0
    """
    return _ratio(matrix.double().square().sum(), leading_singular(matrix, 1, key).values[0].double().square())


@checked()
def effective_rank(matrix: Float[Tensor, "m n"]) -> float:
    """(sum_i s_i^2)^2 / sum_i s_i^4: how many equal singular values would spread the squares as these do.

    Formula: ||W||_F^4 / ||W^T W||_F^2, so that nothing is decomposed. Between the stable rank and the rank.
    Shapes: (m, n) -> a number. Errors: `SettingError` for a matrix of zeros.

    Example:
        >>> effective_rank(torch.diag(torch.tensor([1.0, 1.0, 0.0])))
        2.0
    """
    size = float(matrix.abs().max())
    scaled = matrix / size if size > 0 else matrix
    gram = scaled @ scaled.T if matrix.shape[0] <= matrix.shape[1] else scaled.T @ scaled
    return _ratio(gram.diagonal().double().sum().square(), gram.double().square().sum())


def _ratio(top: Tensor, bottom: Tensor) -> float:
    if not float(bottom) > 0:
        raise SettingError("matrix", "zeros", "one with a size", "a layer of zeros has no rank to speak of")
    return float(top / bottom)


@checked()
def rounding_floor(matrix: Float[Tensor, "m n"], kind: str) -> float:
    """The largest singular value that rounding the entries of a matrix to a type of numbers leaves in a difference.

    Formula: rms(W) eps / sqrt(12) (sqrt m + sqrt n) 1.5, the edge of the spectrum of independent errors that are
    uniform over one spacing, half as much again for safety. kind: float64, float32, float16 or bfloat16.
    Shapes: (m, n) -> a number.

    Example:
        >>> 1e-8 < rounding_floor(torch.ones(4, 4), "float32") < 1e-6
        True
    """
    m, n = matrix.shape
    rms = float(matrix.double().square().mean().sqrt())
    return 1.5 * rms * torch.finfo(getattr(torch, kind)).eps / math.sqrt(12) * (math.sqrt(m) + math.sqrt(n))


@checked()
def share_within(change: Float[Tensor, "m n"], directions: Float[Tensor, "n k"]) -> float:
    """The share of a matrix's squares that its rows have along orthonormal directions; k/n for a random matrix.

    Formula: ||D V||_F^2 / ||D||_F^2. Shapes: (m, n), (n, k) -> between 0 and 1. Errors: `SettingError` for zeros.

    Example:
        >>> share_within(torch.eye(2), torch.tensor([[1.0], [0.0]]))
        0.5
    """
    return min(_ratio((change @ directions).double().square().sum(), change.double().square().sum()), 1.0)
