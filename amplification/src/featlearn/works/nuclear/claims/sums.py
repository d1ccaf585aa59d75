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
FAST = 6.0
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
    one = waves(t, orders)
    other = one.conj() if np.isrealobj(t) else waves(-t, orders)
    return (0.5 + gamma) * one + (0.5 - gamma) * signs * other


def waves(t: np.ndarray, orders: int) -> np.ndarray:
    """Integral of z^k exp(i t z) over [0, 1]: (orders, N). By parts for fast waves; for |t| <= FAST, where that
    divides rounding by powers of t, by Gauss-Legendre quadrature."""
    found = np.empty((orders, len(t)), dtype=complex)
    fast = np.abs(t) > FAST
    x, w = quadrature(20)
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


def transformed(parts: Sequence[Part], omega: np.ndarray, tilt: float) -> list[np.ndarray]:
    """Transforms of each part's features at the frequencies of the sum, tilted by exp(tilt x)."""
    t = omega - 1j * tilt if tilt else omega
    return [transforms(p.gamma, p.weight * t) for p in parts]


def product(parts: Sequence[Part], each: Sequence[np.ndarray]) -> np.ndarray:
    """Characteristic function of the sum, 1 at frequency 0."""
    return np.prod([(psi[0] / np.real(psi[0, 0])) ** p.count for p, psi in zip(parts, each, strict=True)], axis=0)


def frequencies(parts: Sequence[Part], tilt: float, finer: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Frequencies 2 pi k / L from 0 on and the transforms of each part there, until the sum has no coefficient left."""
    low, high = support(parts)
    n = 256
    while n <= MOST:
        omega = 2 * np.pi * np.arange(n // 2 + 1) / (high - low)
        each = transformed(parts, omega, tilt)
        if np.abs(product(parts, each)[-(n // 8) :]).max() < TINY:
            if finer == 1:
                return omega, each
            omega = 2 * np.pi * np.arange(finer * n // 2 + 1) / (high - low)
            return omega, transformed(parts, omega, tilt)
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
    # transforms of 1, of the plain sum S_i and of its square, for each part
    sums = []
    for part, psi in zip(parts, each, strict=True):
        c = part.count
        square = c * psi[2] * psi[0] ** (c - 1)
        if c > 1:
            square = square + c * (c - 1) * psi[1] ** 2 * psi[0] ** (c - 2)
        sums.append((psi[0] ** c, c * psi[1] * psi[0] ** (c - 1), square))
    k = range(len(parts))
    powers = [[0] * len(parts)]
    powers += [[int(a == i) for a in k] for i in k]
    powers += [[int(a == i) + int(a == j) for a in k] for i in k for j in k]
    products = np.stack([np.prod([sums[i][q] for i, q in enumerate(orders)], axis=0) for orders in powers])
    density = np.fft.irfft(np.conj(products) * shift, n)
    x = low + (high - low) * np.arange(n) / n
    m = len(parts)
    return Law(x, density[0], density[1 : 1 + m], density[1 + m :].reshape(m, m, n))


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
    tilted = product(parts, each)
    decay = s + 1j * omega
    terms = tilted * np.divide(-np.expm1(-decay * high), decay, out=np.full(len(decay), high + 0j), where=decay != 0)
    inside = (2 * np.real(terms).sum() - np.real(terms[0])) / (high - low)
    return log_mean(parts, s)[0] + math.log(inside)


def tail(parts: Sequence[Part]) -> float:
    """P(S >= 0)."""
    return math.exp(log_tail(parts))
