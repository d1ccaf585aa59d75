"""What statements and observations of this work share: drawn networks and samples as plain arrays."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key


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


def tensor(x: np.ndarray) -> Tensor:
    """An array as one network's tensor, with the axis e in front."""
    return torch.from_numpy(x)[None]
