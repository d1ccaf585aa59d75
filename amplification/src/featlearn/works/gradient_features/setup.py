"""What experiments and claims of the gradient features share."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import ndtr

from featlearn.core import Key
from featlearn.lab.quantity import Quantity
from featlearn.lab.uncertainty import Estimate, mean_of
from featlearn.nets import TwoLayer
from featlearn.tasks import GaussianMixture

Array = np.ndarray


def log_choose(n: float | int, k: float | int) -> float:
    """log of the binomial coefficient."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def log_xi(d: int, k: int) -> float:
    """log |xi_k|, the Fourier coefficient of majority on d (odd) bits at a set of k (odd)."""
    half = (d - 1) / 2
    return log_choose(half, (k - 1) / 2) - log_choose(d - 1, k - 1) - (d - 1) * math.log(2) + log_choose(d - 1, half)


def xi(d: int, k: int) -> float:
    """xi_k with its sign (-1)^((k-1)/2)."""
    return (-1) ** ((k - 1) // 2) * math.exp(log_xi(d, k))


def turned(feature: torch.Tensor, degrees: float | int, key: Key, off: torch.Tensor) -> torch.Tensor:
    """The direction rotated by an angle towards a random direction orthogonal to the rows of `off` and itself."""
    basis = torch.linalg.qr(torch.cat([feature[None], off]).double().T)[0]
    aside = torch.randn(len(feature), generator=key.torch(), dtype=torch.float64)
    aside = aside - basis @ (basis.T @ aside)
    t = math.radians(degrees)
    return math.cos(t) * feature.double() + math.sin(t) * aside / aside.norm()


def double(net: TwoLayer) -> TwoLayer:
    """The same network in float64."""
    return TwoLayer(net.w.double(), net.b.double(), net.a.double(), net.activation)


@dataclass(frozen=True)
class Problem:
    """A network of one member in float64 and a sample. w (m, d), b (m), a (m), X (n, d), Y (n) are the same in numpy,
    with the sign of b as in the work: relu(<w, x> - b)."""

    net: TwoLayer
    x: torch.Tensor
    y: torch.Tensor

    @property
    def w(self) -> Array:
        return self.net.w[0].numpy()

    @property
    def b(self) -> Array:
        return -self.net.b[0].numpy()

    @property
    def a(self) -> Array:
        return self.net.a[0].numpy()

    @property
    def X(self) -> Array:
        return self.x.numpy()

    @property
    def Y(self) -> Array:
        return self.y.numpy()


def xor_sample(d: int, n: int, key: Key) -> tuple[torch.Tensor, torch.Tensor]:
    """n samples of the four-cluster XOR mixture in float64."""
    task = GaussianMixture.xor(d=d)
    batch = task.sample(task.draw(key / "truth"), n, key / "data")
    return batch.x.double(), batch.y.double()


def sample_gradient(w: Array, b: Array, x: Array, y: Array) -> Array:
    """G(w, b) of Definition 3.5 on a sample, (m, d), as a sum over its rows."""
    return ((x @ w.T > b) * y[:, None]).T @ x / len(x)


def mixture_gradient(w: Array, b: Array, means: Array, labels: Array, weights: Array, sigma: float | int) -> Array:
    """G(w, b) of a mixture of Gaussians, (m, d): E 1[<w, x + mu> > b] (x + mu) = mu P + sigma w/||w|| npdf(h)."""
    size = np.linalg.norm(w, axis=1)
    total = np.zeros_like(w)
    for mu, y, p in zip(means, labels, weights, strict=True):
        h = (b - w @ mu) / (sigma * size)
        bell = np.exp(-0.5 * h * h) / math.sqrt(2 * math.pi)
        total += p * y * (ndtr(-h)[:, None] * mu + (sigma * bell / size)[:, None] * w)
    return total


def xor_components(
    u: Array, v: Array, rest: Array, b: Array, sigma: float | int, d: float | int
) -> tuple[Array, Array, Array]:
    """G of XOR neurons along D_1, D_3 and the rest of w: from <w, D_1> = u, <w, D_3> = v and ||rest of w||.

    Means +-sqrt(d) D_1 (label +1) and +-sqrt(d) D_3 (label -1), 1/4 each.
    """
    size, s = np.sqrt(u**2 + v**2 + rest**2), math.sqrt(d)
    h = [(b - s * t) / (sigma * size) for t in (u, -u, v, -v)]
    P = [ndtr(-t) for t in h]
    bell = sum(sign * np.exp(-0.5 * t * t) for sign, t in zip((1, 1, -1, -1), h, strict=True)) / math.sqrt(2 * math.pi)
    along = sigma / 4 * bell / size
    return s / 4 * (P[0] - P[1]) + along * u, -s / 4 * (P[2] - P[3]) + along * v, along * rest


def hinge(score: Array, y: Array) -> float:
    """Mean hinge loss."""
    return float(np.maximum(1 - y * score, 0).mean())


def over_groups(
    values: Array, groups: int, quantity: Quantity, of: Callable[[Array], Array] | None = None
) -> list[Estimate]:
    """Means over independent groups of the rows of `values` (n, ...), one Estimate an element. of: of a group's rows,
    their mean where it is left out."""
    parts = np.array_split(np.asarray(values, dtype=np.float64), groups)
    found = np.array([np.ravel((of or (lambda v: v.mean(0)))(p)) for p in parts])
    return [mean_of(column, quantity, "group of draws") for column in found.T]


def chance(hits: Sequence[bool] | Array, quantity: Quantity) -> Estimate:
    """The share of independent draws that hit."""
    return mean_of(np.asarray(hits, dtype=np.float64), quantity, "draw")


def cube(d: int) -> Array:
    """All sign vectors (2^d, d)."""
    return 1.0 - 2.0 * ((np.arange(2**d)[:, None] >> np.arange(d)) & 1)


def hats(u: Array, k: int, shift: int = 0) -> Array:
    """sum_i (-1)^(i + 1 + shift) sqrt k [relu(u - (2i-k-1)/sqrt k) - 2 relu(u - (2i-k)/sqrt k) + relu(...)]."""
    c, relu, total = 1 / math.sqrt(k), lambda t: np.maximum(t, 0), np.zeros_like(u)
    for i in range(k + 1):
        at = (2 * i - k) * c
        bump = relu(u - at + c) - 2 * relu(u - at) + relu(u - at - c)
        total += (-1) ** (i + 1 + shift) * math.sqrt(k) * bump
    return total
