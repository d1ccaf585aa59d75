"""Prompts that claims share: examples, a hidden unit vector, a query and a start, in float64."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key

Array = np.ndarray


@dataclass(frozen=True)
class Prompt:
    """x (n, d), theta (d) of norm 1, y (n), a query alpha and a start q (d)."""

    x: Array
    theta: Array
    y: Array
    alpha: float
    q: Array

    @property
    def gram(self) -> Array:
        """H = X^T X (d, d)."""
        return self.x.T @ self.x

    @property
    def spectrum(self) -> Array:
        """Eigenvalues of H, ascending."""
        return np.linalg.eigvalsh(self.gram)


def draw_prompts(key: Key, number: int, *, free_labels: bool = False, from_zero: bool = False) -> tuple[Prompt, ...]:
    """d from 1 to 16, n from d + 1 to 10 d, alpha from 0.01 to 100 with either sign, columns of different scales.

    free_labels: y is drawn too, and no linear function of x. from_zero: q = 0.
    """
    found = []
    for i in range(number):
        g = (key / i).numpy()
        d = int(g.integers(1, 17))
        n = int(g.integers(d + 1, 10 * d + 1))
        x = g.normal(size=(n, d)) * np.exp(g.normal(size=d) / 3)
        theta = g.normal(size=d)
        theta /= np.linalg.norm(theta)
        y = g.normal(size=n) if free_labels else x @ theta
        alpha = float(np.exp(g.uniform(np.log(0.01), np.log(100))) * g.choice([-1.0, 1.0]))
        found.append(Prompt(x, theta, y, alpha, np.zeros(d) if from_zero else g.normal(size=d)))
    return tuple(found)


def tensor(value: Array | float) -> Tensor:
    """A batch of one."""
    return torch.from_numpy(np.asarray(value, dtype=np.float64))[None]


def joined(arrays: Sequence[Array]) -> Array:
    """All entries in a row."""
    return np.concatenate([np.ravel(a) for a in arrays])


STEPS, LOOPS = Key("looped/steps"), 50


def steps_of(p: Prompt, i: int) -> Array:
    """(LOOPS) steps of up to 1/L for the i-th prompt."""
    return (STEPS / i).numpy().uniform(0.05, 1, LOOPS) / p.spectrum[-1]


def points_of(p: Prompt, i: int) -> tuple[Array, Array]:
    """Two random thetas for the i-th prompt."""
    g = (Key("looped/points") / i).numpy()
    return g.normal(size=len(p.theta)), g.normal(size=len(p.theta))
