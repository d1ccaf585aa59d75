"""Regression on polynomials of a few directions of Gaussian inputs (gradient_features.definition_multi_index)."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Batch, Key, SettingError, Truth
from featlearn.core.check import checked
from featlearn.tasks.patterns import orthonormal_dictionary


@dataclass(frozen=True)
class MultiIndexTruth(Truth):
    """features (r, d): orthonormal directions u_i. hessian (d, d): H = E Hess g*, of rank at most r."""

    hessian: Float[Tensor, "d d"]


def hermite(z: Float[Tensor, "*s"], order: int) -> Float[Tensor, "*s"]:
    """Normalised probabilists' Hermite polynomial He_order(z) / sqrt(order!): orthonormal under N(0, 1)."""
    before, now = torch.ones_like(z), z
    if order == 0:
        return before
    for i in range(1, order):
        before, now = now, z * now - i * before
    return now / math.sqrt(math.factorial(order))


@dataclass(frozen=True)
class MultiIndex:
    """x ~ N(0, I_d), y = g(<u_1, x>, ..., <u_r, x>), g a polynomial with E g^2 = 1 (definition_multi_index).

    terms: orders of the products of normalised Hermite polynomials, one tuple of r of them each; coefficients: theirs,
    scaled so that their squares sum to 1. The default is (z_1^2 - z_2^2) / 2. Labels are real numbers.
    `kappa` is ||H^+|| / sqrt(r), the conditioning of the mean Hessian; a Hessian of rank below r is refused where the
    framework needs it (kappa), not here.

    Errors: `SettingError` for no terms, terms of unequal length, r > d, coefficients that are all 0.

    Example:
        >>> task = MultiIndex(d=20)
        >>> round(task.kappa, 4)
        0.7071
    """

    d: int = 50
    terms: tuple[tuple[int, ...], ...] = ((2, 0), (0, 2))
    coefficients: tuple[float, ...] = (1.0, -1.0)

    def __post_init__(self) -> None:
        if not self.terms or not self.terms[0]:
            raise SettingError("terms", self.terms, "at least one term of at least one direction", "try ((2,),)")
        if len({len(term) for term in self.terms}) > 1:
            raise SettingError("terms", self.terms, "one order for each direction in every term", "pad with 0")
        if any(order < 0 for term in self.terms for order in term):
            raise SettingError("terms", self.terms, "orders of at least 0", "0 leaves a direction out")
        if len(self.coefficients) != len(self.terms):
            raise SettingError("coefficients", self.coefficients, f"one for each of {len(self.terms)} terms", "match")
        if not any(self.coefficients) or not all(map(math.isfinite, self.coefficients)):
            raise SettingError("coefficients", self.coefficients, "finite and not all 0", "E g^2 = 1 needs one")
        if len(self.terms[0]) > self.d:
            raise SettingError("r", len(self.terms[0]), f"at most d = {self.d}", "raise d or use fewer directions")

    @property
    def r(self) -> int:
        """Number of directions."""
        return len(self.terms[0])

    @property
    def degree(self) -> int:
        """Degree of the polynomial."""
        return max(map(sum, self.terms))

    @property
    def _scale(self) -> float:
        return math.sqrt(sum(c * c for c in self.coefficients))

    def small_hessian(self) -> Float[Tensor, "r r"]:
        """E Hess g in the coordinates of the directions: only terms of degree 2 have a mean second derivative."""
        h = torch.zeros(self.r, self.r)
        for term, c in zip(self.terms, self.coefficients, strict=True):
            at = [i for i, order in enumerate(term) for _ in range(order)]
            if len(at) == 2:  # d^2/dz^2 of He_2/sqrt(2) is sqrt(2); of z_i z_j it is 1 off the diagonal
                i, j = at
                h[i, j] += (math.sqrt(2) if i == j else 1.0) * c / self._scale
                h[j, i] = h[i, j]
        return h

    @property
    def kappa(self) -> float:
        """||H^+|| / sqrt(r); `SettingError` where H has rank below r."""
        least = float(torch.linalg.eigvalsh(self.small_hessian()).abs().min())
        if least < 1e-6:
            raise SettingError("terms", self.terms, f"a mean Hessian of rank r = {self.r}", "add terms of degree 2")
        return 1 / (least * math.sqrt(self.r))

    @checked()
    def target(self, z: Float[Tensor, "n r"]) -> Float[Tensor, " n"]:
        """g of the projections: (n, r) -> (n)."""
        total = torch.zeros_like(z[:, 0])
        for term, c in zip(self.terms, self.coefficients, strict=True):
            part = torch.full_like(total, c / self._scale)
            for i, order in enumerate(term):
                part = part * hermite(z[:, i], order)
            total = total + part
        return total

    def draw(self, key: Key) -> MultiIndexTruth:
        """Random orthonormal directions."""
        u = orthonormal_dictionary(self.d, self.r, key).T
        return MultiIndexTruth(u, u.T @ self.small_hessian() @ u)

    @checked(sizes=("d",))
    def sample(self, truth: MultiIndexTruth, n: int, key: Key) -> Batch:
        """n independent samples; hidden is the projections (n, r)."""
        x = torch.randn(n, self.d, generator=key.torch())
        z = x @ truth.features.T
        return Batch(x, self.target(z), z, None)
