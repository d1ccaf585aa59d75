"""What statements and observations of this work share: drawn networks and samples as plain arrays."""

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key
from featlearn.kernels import cube


@dataclass(frozen=True)
class Net:
    """A bottleneck network as section 6 writes it, biases in the last columns: w (m, d+1), v (m, k+1), a (k, m)."""

    w: np.ndarray
    v: np.ndarray
    a: np.ndarray


@dataclass(frozen=True)
class Sample:
    """A network, inputs x (n, d), targets y (n, k), and directions of change dw, dv of its weights."""

    net: Net
    x: np.ndarray
    y: np.ndarray
    dw: np.ndarray
    dv: np.ndarray


def draw_sample(m: int, d: int, k: int, n: int, key: Key) -> Sample:
    """Gaussian everything: a ~ N(0, 1/m), weights of unit variance."""
    g = key.numpy()
    net = Net(g.normal(size=(m, d + 1)), g.normal(size=(m, k + 1)), g.normal(size=(k, m)) / np.sqrt(m))
    return Sample(
        net, g.normal(size=(n, d)), g.normal(size=(n, k)), g.normal(size=(m, d + 1)), g.normal(size=(m, k + 1))
    )


def with_one(x: np.ndarray) -> np.ndarray:
    """(x, 1)."""
    return np.concatenate([x, np.ones((len(x), 1))], 1)


def cheapest(gain: np.ndarray, cost: np.ndarray, budget: float) -> np.ndarray:
    """Which to take so that the gains sum to most while the costs stay within the budget: by gain over cost."""
    order = np.argsort(-gain / cost)
    order = order[gain[order] > 0]
    return order[np.cumsum(cost[order]) <= budget]


def flipped(g: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """A perturbation that just changes the signs of the chosen entries."""
    change = np.zeros_like(g)
    change[chosen] = -(1 + 1e-6) * g[chosen]
    return change


SMALL = 0.999
"""Share of a budget that perturbations use, so that rounding keeps them within it."""


def taylor(name: str, c: float, n: int) -> np.ndarray:
    """Coefficients c_0 .. c_(n-1) of exp(cz) - 1, sin(cz), cos(cz), tanh(z) and 1/(1 + exp(-z)) at 0."""
    i = np.arange(n)
    if name in ("tanh(z)", "1/(1 + exp(-z))"):
        tan = np.zeros(n)
        for j in range(n - 1):  # tan' = 1 + tan^2
            tan[j + 1] = ((j == 0) + tan[: j + 1] @ tan[j::-1]) / (j + 1)
        tanh = tan * (-1.0) ** (i // 2)
        return tanh if name == "tanh(z)" else 0.5 * tanh / 2.0**i + 0.5 * (i == 0)
    size = c**i / np.array([float(math.factorial(k)) for k in i])
    if name == "exp(cz) - 1":
        return np.where(i == 0, 0.0, size)
    return np.where(i % 2 == (name == "sin(cz)"), size * (-1.0) ** (i // 2), 0.0)


def tensor(x: np.ndarray) -> Tensor:
    """An array as one network's tensor, with the axis e in front."""
    return torch.from_numpy(x)[None]


ALPHA = 0.5
"""The theorems hold for every alpha in (0, 1)."""
GOOD = ALPHA**2 / 16


@dataclass(frozen=True)
class Cube:
    """d signs, targets on k of them, N functions."""

    d: int
    k: int
    n: int


def planted_groups(c: Cube) -> Tensor:
    """x_0 and, for each group of sixteen sets that hold 0, fifteen combinations of its parities: (2^d, n)."""
    points = cube(c.d)
    sets = [(0, *rest) for rest in combinations(range(1, c.d), c.k - 1)]
    simplex = torch.linalg.eigh(torch.eye(16).double() - 1 / 16).eigenvectors[:, 1:]
    columns = [points[:, :1]]
    groups = min(len(sets) // 16, -(-(c.n - 1) // 15))
    for start in range(0, 16 * groups, 16):
        chi = torch.stack([points[:, s].prod(1) for s in map(list, sets[start : start + 16])], 1)
        columns.append(chi @ simplex)
    return torch.cat(columns, 1)[:, : c.n]


def planted_targets(c: Cube) -> Tensor:
    """x_i + alpha chi_S for the first n sets, i the first coordinate of each."""
    points = cube(c.d)
    sets = list(combinations(range(c.d), c.k))[: c.n]
    return torch.stack([points[:, s[0]] + ALPHA * points[:, list(s)].prod(1) for s in sets], 1)


def pivots(columns: Tensor) -> Tensor:
    """As many rows as there are columns, the matrix of which is invertible."""
    return torch.linalg.lu(columns).P.argmax(0)[: columns.shape[1]]


def pairs(matrix: np.ndarray) -> np.ndarray:
    """Entries on and above the diagonal."""
    return matrix[np.triu_indices(len(matrix))]
