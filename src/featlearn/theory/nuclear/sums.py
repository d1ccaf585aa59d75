"""Exact laws of weighted sums of independent uniform features: expectations and tails from characteristic functions.

A sum of n features is n - 2 times differentiable, so that its Fourier coefficients fall like k^-n: a few hundred of
them give its density to rounding, and the trapezoidal rule on that density integrates a smooth function to rounding
too. Nothing is cut off but coefficients below `TINY`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

TINY = 1e-17
"""Fourier coefficients that are left out are smaller than this (the one of frequency 0 is 1)."""
MOST = 2**15
"""Points of a law, at most."""
FAST = 20.0
"""Waves faster than this are integrated in closed form."""


@dataclass(frozen=True)
class Part:
    """`count` independent features of law D_gamma, each times `weight`; gamma = 1/2 is U[0, 1]."""

    count: int
    weight: float
    gamma: float = 0.5


@dataclass(frozen=True)
class Law:
    """The law of a sum S of parts: points x (N) and probabilities p (N).

    first[i] (N): p times the mean of the i-th part's plain sum given S = x; second[i, j] (N): of the product of two.
    E[g(S) S_i] = sum g(x) first[i] for smooth g, with S_i the sum of the features of part i without their weight.
    """

    x: np.ndarray
    p: np.ndarray
    first: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    second: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 0)))


@lru_cache(maxsize=256)
def quadrature(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre points and weights on [0, 1], exact for polynomials of degree 2 order - 1."""
    x, w = np.polynomial.legendre.leggauss(order)
    return (x + 1) / 2, w / 2


def transforms(gamma: float, t: np.ndarray, orders: int = 3) -> np.ndarray:
    """E[z^k exp(i t z)] of one feature for k = 0 .. orders - 1: (orders, N); t (N) may be complex."""
    signs = (-1.0) ** np.arange(orders)[:, None]
    return (0.5 + gamma) * waves(t, orders) + (0.5 - gamma) * signs * waves(-t, orders)


def waves(t: np.ndarray, orders: int) -> np.ndarray:
    """Integral of z^k exp(i t z) over [0, 1]: (orders, N). By parts for fast waves; for |t| <= FAST, where that
    divides rounding by powers of t, by Gauss-Legendre quadrature."""
    found = np.empty((orders, len(t)), dtype=complex)
    fast = np.abs(t) > FAST
    x, w = quadrature(40)
    slow = np.exp(1j * np.multiply.outer(x, t[~fast]))
    found[:, ~fast] = np.stack([w * x**k for k in range(orders)]) @ slow
    rate = 1j * t[fast]
    end = np.exp(rate)
    found[0, fast] = (end - 1) / rate
    for k in range(1, orders):
        found[k, fast] = (end - k * found[k - 1, fast]) / rate
    return found


def support(parts: Sequence[Part]) -> tuple[float, float]:
    """Smallest and largest value of the sum."""
    ends = np.zeros(2)
    for part in parts:
        span = np.array([0.0 if part.gamma == 0.5 else -1.0, 0.0 if part.gamma == -0.5 else 1.0])
        ends += np.sort(part.count * part.weight * span)
    return float(ends[0]), float(ends[1])


def frequencies(parts: Sequence[Part], tilt: float, finer: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Frequencies 2 pi k / L from 0 on and the transforms of each part there, until the sum has no coefficient left."""
    low, high = support(parts)
    n = 256
    while n <= MOST:
        omega = 2 * np.pi * np.arange(n // 2 + 1) / (high - low)
        each = [transforms(p.gamma, p.weight * (omega - 1j * tilt)) for p in parts]
        size = np.abs(np.prod([(psi[0] / psi[0, 0].real) ** p.count for p, psi in zip(parts, each, strict=True)], 0))
        if size[-(n // 8) :].max() < TINY:
            if finer == 1:
                return omega, each
            omega = 2 * np.pi * np.arange(finer * n // 2 + 1) / (high - low)
            return omega, [transforms(p.gamma, p.weight * (omega - 1j * tilt)) for p in parts]
        n *= 2
    raise ValueError(f"a sum of {sum(p.count for p in parts)} features is too rough: give it more of like weight")


def law(parts: Sequence[Part], finer: int = 1) -> Law:
    """The law of the sum, with first and second moments of its parts; finer: that many times the points.

    Errors: ValueError for sums so rough (few features, or weights far apart) that MOST points are not enough.
    """
    low, high = support(parts)
    omega, each = frequencies(parts, 0.0, finer)
    n = 2 * (len(omega) - 1)
    shift = np.exp(1j * omega * low)  # conjugate of exp(-i omega low), as irfft wants it
    base = [psi[0] ** p.count for p, psi in zip(parts, each, strict=True)]

    def density(factors: Sequence[np.ndarray]) -> np.ndarray:
        return np.fft.irfft(np.conj(np.prod(factors, axis=0)) * shift, n)

    def once(i: int) -> np.ndarray:
        return parts[i].count * each[i][1] * each[i][0] ** (parts[i].count - 1)

    def twice(i: int) -> np.ndarray:
        c, psi = parts[i].count, each[i]
        same = c * psi[2] * psi[0] ** (c - 1)
        return same + c * (c - 1) * psi[1] ** 2 * psi[0] ** (c - 2) if c > 1 else same

    def with_(replaced: dict[int, np.ndarray]) -> np.ndarray:
        return density([replaced[i] if i in replaced else b for i, b in enumerate(base)])

    k = range(len(parts))
    second = [[with_({i: twice(i)} if i == j else {i: once(i), j: once(j)}) for j in k] for i in k]
    x = low + (high - low) * np.arange(n) / n
    return Law(x, density(base), np.array([with_({i: once(i)}) for i in k]), np.array(second))


def log_mean(parts: Sequence[Part], s: float) -> tuple[float, float]:
    """log E[exp(s S)] and its slope in s."""
    value = slope = 0.0
    for part in parts:
        psi = np.real(transforms(part.gamma, np.array([-1j * part.weight * s]), 2))[:, 0]
        value += part.count * math.log(psi[0])
        slope += part.count * part.weight * psi[1] / psi[0]
    return value, slope


def log_tail(parts: Sequence[Part], finer: int = 1) -> float:
    """log P(S >= 0), with its leading digits however small it is.

    P(S >= 0) = M(s) E_s[exp(-s S); S >= 0] with M(s) = E exp(s S) and the law E_s tilted by exp(s x), whose mean is 0
    at the s that minimises M. The integral over x >= 0 is done coefficient by coefficient. -inf where no value is
    above 0.
    """
    low, high = support(parts)
    if high <= 0:
        return -math.inf
    if low >= 0:
        return 0.0
    if log_mean(parts, 0.0)[1] > 0:
        opposite = [Part(p.count, -p.weight, p.gamma) for p in parts]
        return math.log1p(-math.exp(log_tail(opposite, finer)))
    left, right = 0.0, 1.0 / (high - low)
    while log_mean(parts, right)[1] < 0:
        left, right = right, 2 * right
    for _ in range(60):
        middle = (left + right) / 2
        left, right = (middle, right) if log_mean(parts, middle)[1] < 0 else (left, middle)
    s = (left + right) / 2
    omega, each = frequencies(parts, s, finer)
    tilted = np.prod([(psi[0] / psi[0, 0].real) ** p.count for p, psi in zip(parts, each, strict=True)], 0)
    decay = s + 1j * omega
    terms = tilted * np.divide(-np.expm1(-decay * high), decay, out=np.full(len(decay), high + 0j), where=decay != 0)
    inside = (terms[0].real + 2 * terms[1:].real.sum()) / (high - low)
    return log_mean(parts, s)[0] + math.log(inside)


def tail(parts: Sequence[Part]) -> float:
    """P(S >= 0)."""
    return math.exp(log_tail(parts))
