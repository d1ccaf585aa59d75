"""Kernel predictors on the cube {-1, +1}^d in its Fourier basis: their best risks exactly, without any training.

A kernel that depends on <x, y> alone is sum_T l_|T| chi_T(x) chi_T(y) there, so that the span of K(., x_1), ...,
K(., x_N), which holds every kernel predictor with these centres whatever its weights, has a Gram matrix in L2 that
depends on Hamming distances alone. The best risk on a target is its squared norm less that of its projection. Other
functions (kernels of any kind, features) are handled by enumeration, for d up to about 20.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import checked

Kernel = Callable[[Float[Tensor, "n d"], Float[Tensor, "p d"]], Float[Tensor, "n p"]]
LARGEST = 50  # dimension up to which every Krawtchouk number is a whole number in float64
MOST = 22  # dimension up to which the cube is enumerated


def krawtchouk(d: int) -> Float[Tensor, "j h"]:
    """K_j(h) = sum_i (-1)^i C(h, i) C(d - h, j - i): the sum of chi_T(z) over |T| = j, for a z with h entries -1.

    Shapes: (d + 1, d + 1), float64, exact. Errors: `SettingError` for d outside 1..50.

    Example:
        >>> krawtchouk(2).tolist()
        [[1.0, 1.0, 1.0], [2.0, 0.0, -2.0], [1.0, -1.0, 1.0]]
    """
    if not 1 <= d <= LARGEST:
        raise SettingError("d", d, f"in 1..{LARGEST}", "beyond, the numbers do not fit float64 exactly")

    def number(j: int, h: int) -> float:
        return float(sum((-1) ** i * math.comb(h, i) * math.comb(d - h, j - i) for i in range(j + 1)))

    return torch.tensor([[number(j, h) for h in range(d + 1)] for j in range(d + 1)], dtype=torch.float64)


def cube_spectrum(kernel: Kernel, d: int, scale: float = 1.0) -> Float[Tensor, " j"]:
    """l_j for j = 0..d of a kernel of inner products, at inputs +-scale: K(x, y) = sum_T l_|T| chi_T(x) chi_T(y).

    l_j = 2^-d sum_h K_h(j) f(d - 2 h), f the kernel at inputs that differ in h places. Errors in absolute terms are
    those of f in float64. Errors: as `krawtchouk`.

    Example:
        >>> cube_spectrum(lambda x, y: x @ y.T, 3).tolist()
        [0.0, 1.0, 0.0, 0.0]
    """
    numbers = krawtchouk(d)
    flipped = scale * (1 - 2 * torch.ones(d + 1, d, dtype=torch.float64).tril(-1))
    values = kernel(flipped[:1], flipped)[0].double()
    found = [math.fsum((numbers[:, j] * values).tolist()) / 2.0**d for j in range(d + 1)]
    return torch.tensor(found, dtype=torch.float64)


@checked(signs=("centres",))
def cube_gram(spectrum: Float[Tensor, " j"], centres: Float[Tensor, "n d"]) -> Float[Tensor, "n n"]:
    """E K(x, x_n) K(x, x_m) over the cube: sum_j l_j^2 K_j(h_nm), h the number of places in which centres differ.

    Errors: `SettingError` for a spectrum of another dimension.
    """
    d = centres.shape[1]
    if len(spectrum) != d + 1:
        raise SettingError("spectrum", len(spectrum), f"d + 1 = {d + 1} numbers", "use cube_spectrum")
    x = centres.double()
    by_distance = (spectrum.square()[:, None] * krawtchouk(d)).sum(0)
    return by_distance[((d - x @ x.T) / 2).round().long()]


@checked()
def well_conditioned(gram: Float[Tensor, "n n"], cutoff: float) -> bool:
    """Whether all eigenvalues exceed this share of the largest sum of a row, which no eigenvalue exceeds."""
    floor = cutoff * float(gram.abs().sum(1).amax())
    return int(torch.linalg.cholesky_ex(gram - floor * torch.eye(len(gram)).to(gram)).info) == 0


@checked(signs=("centres",))
def cube_residuals(
    spectrum: Float[Tensor, " j"],
    centres: Float[Tensor, "n d"],
    blocks: Int[Tensor, "s k"],
    *,
    alpha: float,
    cutoff: float = 1e-12,
) -> Float[Tensor, "s k"]:
    """min over weights of E (sum_n w_n K(x, x_n) - x_i - alpha chi_S(x))^2 for each set S (a row of blocks) and i in S.

    Formula: 1 + alpha^2 - b' G^+ b with G_nm = sum_j l_j^2 K_j(h_nm) and b_n = l_1 x_n,i + alpha l_k chi_S(x_n).
    Shapes: spectrum (d + 1), centres (n, d) of signs, blocks (s, k) -> (s, k). cutoff: a G that is `well_conditioned`
    to it is used whole; of another one, eigenvalues below this share of the largest count as 0, which can only raise
    the risks. Source: resnet.theorem2 (section 7.1, D.1).
    Errors: `SettingError` for a spectrum of another dimension and for blocks of one coordinate.
    """
    gram = cube_gram(spectrum, centres)
    if blocks.shape[1] < 2:
        raise SettingError("blocks", tuple(blocks.shape), "sets of at least 2 coordinates", "else the target is linear")
    x = centres.double()
    right = torch.cat([spectrum[1] * x, alpha * spectrum[blocks.shape[1]] * x[:, blocks].prod(-1)], 1)
    if well_conditioned(gram, cutoff):
        found = torch.linalg.solve_triangular(torch.linalg.cholesky(gram), right, upper=False)
    else:
        values, vectors = torch.linalg.eigh(gram)
        kept = values > cutoff * values[-1]
        found = (vectors[:, kept] / values[kept].sqrt()).T @ right
    linear, products = found[:, : x.shape[1]], found[:, x.shape[1] :]
    return torch.stack(
        [1 + alpha**2 - (linear[:, blocks[:, c]] + products).square().sum(0) for c in range(blocks.shape[1])], 1
    )


def cube(d: int) -> Float[Tensor, "p d"]:
    """All 2^d sign vectors in float64: bit c of the index gives entry c, 0 is +1. Errors: `SettingError` above d = 22.

    Example:
        >>> cube(1).tolist()
        [[1.0], [-1.0]]
    """
    if not 1 <= d <= MOST:
        raise SettingError("d", d, f"in 1..{MOST}", "the cube has 2^d points")
    return 1.0 - 2.0 * ((torch.arange(2**d)[:, None] >> torch.arange(d)) & 1).double()


@checked()
def fourier_coefficients(values: Float[Tensor, "p n"]) -> Float[Tensor, "p n"]:
    """E[f(x) chi_T(x)] of functions given on all 2^d points in the order of `cube`; bit c of row T: c is in T.

    A fast Walsh-Hadamard transform along the first axis. Shapes: (2^d, n) -> (2^d, n).
    Errors: `SettingError` for a first axis that is no power of 2.
    """
    total = len(values)
    if total < 1 or total & (total - 1):
        raise SettingError("values", tuple(values.shape), "2^d rows", "evaluate on cube(d)")
    out = values.double().clone()
    width = 1
    while width < total:
        pairs = out.view(-1, 2, width, out.shape[1])
        out = torch.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], 1).view(total, -1)
        width *= 2
    return out / total


@checked()
def span_residuals(
    coefficients: Float[Tensor, "p n"], blocks: Int[Tensor, "s k"], *, alpha: float, cutoff: float = 1e-10
) -> Float[Tensor, "s k"]:
    """As `cube_residuals` for the span of any functions on the cube, given by their Fourier coefficients (2^d, n).

    Source: resnet.theorem3 (section 7.2, D.2): linear regression over any feature map; kernels are the case of the
    functions K(., x_n).
    """
    u, s, _ = torch.linalg.svd(coefficients, full_matrices=False)
    basis = u[:, s > cutoff * s[0]]
    single, whole = 2**blocks, (2**blocks).sum(1)
    return torch.stack(
        [1 + alpha**2 - (basis[single[:, c]] + alpha * basis[whole]).square().sum(1) for c in range(blocks.shape[1])],
        1,
    )
