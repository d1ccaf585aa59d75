"""Instances that claims on in-context regression share, and exact moments of Gaussian prompts, in float64."""

import functools
import itertools
from dataclasses import dataclass, replace

import numpy as np

from featlearn.core import Key

Array = np.ndarray

VARIANCES = (3.0, 1.5, 1.0, 0.75, 0.6, 0.5)
"""Eigenvalues of Lambda in the experiment, 3/i."""
LARGE = 10**7
"""Examples in pretraining that stand for N to infinity."""
FLAT = 0.25
"""Share of the skill that may turn with the labels of a language model whose performance remains flat: ours."""


@dataclass(frozen=True)
class Instance:
    """values lambda (d), descending; vectors Q (d, d), as columns; coordinates s + xi (d) of w along them; n: examples
    in pretraining, m: in evaluation; rank r; sigma of the labels."""

    values: Array
    vectors: Array
    coordinates: Array
    n: int
    m: int
    rank: int
    sigma: float

    @property
    def d(self) -> int:
        """Dimension of the inputs."""
        return len(self.values)

    @property
    def covariance(self) -> Array:
        """Lambda = Q D Q^T."""
        return self.vectors * self.values @ self.vectors.T

    @property
    def w(self) -> Array:
        """Q (s + xi)."""
        return self.vectors @ self.coordinates

    def but(self, **changed: int | float | Array) -> "Instance":
        """With other settings."""
        return replace(self, **changed)


SETTINGS = (
    (3, 0.5, 5, 1, 1, 0.0),
    (3, 0.5, 5, 2, 3, 1.0),
    (3, 1.0, 20, 4, 2, 0.5),
    (3, 2.0, 10, 8, 1, 2.0),
    (3, 2.0, 50, 16, 2, 0.0),
    (5, 0.5, 7, 4, 2, 0.5),
    (5, 0.5, 7, 6, 3, 1.0),
    (5, 1.0, 7, 3, 5, 0.0),
    (5, 1.0, 20, 1, 4, 0.3),
    (5, 1.0, 100, 16, 2, 3.0),
    (5, 2.0, 20, 2, 1, 1.0),
    (5, 2.0, 1000, 8, 5, 0.5),
    (5, 2.0, 10, 12, 3, 0.0),
    (8, 0.5, 20, 4, 8, 1.0),
    (8, 0.5, 50, 16, 4, 0.5),
    (8, 1.0, 20, 2, 2, 0.0),
    (8, 1.0, 10, 8, 6, 2.0),
    (8, 1.0, 200, 32, 8, 1.0),
    (8, 2.0, 20, 16, 1, 0.3),
    (8, 2.0, 30, 5, 5, 1.0),
)
"""d, the power with which eigenvalues 3 i^(-power) fall, N, M, r and sigma: twenty, fixed before any was computed."""


def draw_instances(key: Key) -> tuple[Instance, ...]:
    """The twenty settings with random eigenvectors and weights."""
    found = []
    for i, (d, power, n, m, rank, sigma) in enumerate(SETTINGS):
        g = (key / i).numpy()
        values = 3.0 * np.arange(1, d + 1) ** -power
        vectors = np.linalg.qr(g.normal(size=(d, d)))[0]
        found.append(Instance(values, vectors, g.normal(size=d), n, m, rank, sigma))
    return tuple(found)


@functools.cache
def nodes(d: int) -> tuple[Array, Array]:
    """Points (k, d) and weights (k) that average polynomials of degree 5 in d standard normals exactly.

    The Gauss-Hermite rule of three nodes a dimension: nothing is drawn, and no formula for moments is used.
    """
    points = np.array(list(itertools.product((-np.sqrt(3.0), 0.0, np.sqrt(3.0)), repeat=d)))
    return points, np.prod(np.where(points == 0, 2 / 3, 1 / 6), axis=1)


def inputs_of(covariance: Array, further: int = 0) -> tuple[Array, Array, Array]:
    """x ~ N(0, covariance) as points (k, d), further standard normals (k, further), and weights (k)."""
    d = len(covariance)
    points, weights = nodes(d + further)
    values, vectors = np.linalg.eigh(covariance)
    return points[:, :d] * np.sqrt(np.maximum(values, 0.0)) @ vectors.T, points[:, d:], weights


def label_moments(p: Instance) -> tuple[Array, Array]:
    """E y x (d) and E y^2 x x^T (d, d) of one labelled example, by the rule."""
    x, noise, weights = inputs_of(p.covariance, 1)
    y = x @ p.w + p.sigma * noise[:, 0]
    return (weights * y) @ x, (x * (weights * y**2)[:, None]).T @ x


def exact_loss(p: Instance, matrix: Array) -> float:
    """E (y^T X U x_q / M - <w, x_q>)^2 for a matrix U: the mean of M independent y x has 1/M of their covariance."""
    mean, second = label_moments(p)
    spread = (second - np.outer(mean, mean)) / p.m
    miss = mean @ matrix - p.w
    return float(np.trace(matrix.T @ spread @ matrix @ p.covariance) + miss @ p.covariance @ miss)


def one_task() -> Instance:
    """Six directions of variance 3/i^2 with the same weight on all."""
    return Instance(3.0 * np.arange(1, 7) ** -2.0, np.eye(6), np.ones(6), LARGE, 16, 6, 0.0)


def inside(p: Instance) -> tuple[Instance, Instance]:
    """w within the first r directions, at r (1 where the setting has them all) and at r' = d."""
    r = p.rank if p.rank < p.d else 1
    p = p.but(coordinates=p.coordinates * (np.arange(p.d) < r), rank=r)
    return p, p.but(rank=p.d)


def matrix_of(p: Instance, i: int) -> Array:
    """A random U, not symmetric, of the size of the best one."""
    g = (Key("icl_scale/matrices") / i).numpy()
    return g.normal(size=(p.d, p.d)) / (p.values.sum() * np.sqrt(p.d))


def short(settings: tuple[Instance, ...]) -> list[int]:
    """Which settings have prompts of up to 20 examples in pretraining."""
    return [i for i, p in enumerate(settings) if p.n <= 20]


def searched(settings: tuple[Instance, ...]) -> list[Instance]:
    """Settings that a search for the best matrix is made on: six of a rank below d."""
    return [p for p in settings if p.rank < p.d][::2][:6]


def weights(p: Instance, i: int) -> tuple[Array, ...]:
    """W_PV (d + 1, d + 1), W_K and W_Q (r, d + 1), at random."""
    g = (Key("icl_scale/layers") / i).numpy()
    return tuple(g.normal(size=(k, p.d + 1)) / np.sqrt(p.d + 1) for k in (p.d + 1, p.rank, p.rank))


def prompt_of(p: Instance, i: int) -> Array:
    """E with noise in its labels."""
    g = (Key("icl_scale/prompts") / i).numpy()
    x = g.normal(size=(p.m + 1, p.d)) * np.sqrt(p.values) @ p.vectors.T
    y = x @ p.w + p.sigma * g.normal(size=p.m + 1)
    return np.vstack([x.T, np.append(y[:-1], 0.0)])
