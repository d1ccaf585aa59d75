"""Margins over whole data sets by enumeration, random and near-optimal networks: what the claims look at."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key
from featlearn.measure import margins, phase_residual, top_frequency
from featlearn.tasks.modular_addition import labels, points
from featlearn.works.fourier.setup import (
    Network,
    constructed,
    cosine_network,
    cosines,
    cyclic_phases,
    gamma_star,
    logits,
    network_norm,
    neuron_norms,
)


def everything(p: int, k: int) -> tuple[Tensor, Tensor]:
    """All points (p^k, k) and their labels."""
    x = points(torch.arange(p**k), p, k)
    return x, labels(x, p)


BLOCK = 2**20
"""Entries of a block of hidden values: small enough for the cache."""


@dataclass(frozen=True)
class Survey:
    """A network over a set of points: least, most: of the sample margins; spread: the largest difference of two wrong
    logits of one point; points: how many."""

    least: float
    most: float
    spread: float
    points: int


def _blocks(net: Network, x: Tensor | None) -> Iterator[Tensor]:
    m, k, p = net[0].shape
    size = max(1, BLOCK // m)
    if x is not None:
        yield from x.split(size)
    else:
        yield from (points(i, p, k) for i in torch.arange(p**k).split(size))


def survey(net: Network, x: Tensor | None = None) -> Survey:
    """Margins of a network over points x (n, k), by default all p^k of them, which are never stored."""
    least, most, spread, count = math.inf, -math.inf, 0.0, 0
    for block in _blocks(net, x):
        f, y = logits(*net, block), labels(block, net[1].shape[1])
        margin = margins(f, y)
        top, bottom = f.scatter(1, y[:, None], -math.inf).amax(1), f.scatter(1, y[:, None], math.inf).amin(1)
        least, most = min(least, float(margin.min())), max(most, float(margin.max()))
        spread, count = max(spread, float((top - bottom).max())), count + len(block)
    return Survey(least, most, spread, count)


def loss(net: Network, lam: float) -> float:
    """Mean cross-entropy over all p^k points + lam |theta|_{2, k+1} (fourier.definition4_1)."""
    k, p = net[0].shape[1:]
    total = sum(
        float(torch.nn.functional.cross_entropy(logits(*net, x), labels(x, p), reduction="sum"))
        for x in _blocks(net, None)
    )
    return total / p**k + lam * network_norm(*net)


def best_on_ray(net: Network, lam: float) -> float:
    """The least loss along the ray of a network of norm 1, on a grid refined once."""
    k, p = net[0].shape[1:]
    x, y = everything(p, k)
    f = logits(*net, x)
    right = f.gather(1, y[:, None])

    def at(c: float) -> float:
        return float(torch.logsumexp((f - right) * c ** (k + 1), 1).mean()) + lam * c

    grid = np.geomspace(1e-2, math.log(p) / lam, 120)
    values = [at(c) for c in grid]
    best = int(np.argmin(values))
    fine = np.linspace(grid[max(best - 1, 0)], grid[min(best + 1, 119)], 60)
    return min(math.log(p), *values, *(at(c) for c in fine))


def scaled(net: Network, c: float | Tensor = 1.0) -> Network:
    """Every parameter times c, one number or one for each neuron."""
    if isinstance(c, Tensor):
        return net[0] * c[:, None, None], net[1] * c[:, None]
    return net[0] * c, net[1] * c


def unit(net: Network) -> Network:
    """The network of norm 1 in the same direction."""
    return scaled(net, 1 / network_norm(*net))


def chosen(net: Network, which: Tensor | slice) -> Network:
    """Some of the neurons, as they are."""
    return net[0][which], net[1][which]


def without(net: Network, neuron: int) -> Network:
    """The network less one neuron, again of norm 1."""
    return unit(chosen(net, torch.arange(len(net[0])) != neuron))


def random_network(m: int, k: int, p: int, key: Key) -> Network:
    """Gaussian weights, norm 1."""
    g = key.torch()
    u, w = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((m, k, p), (m, p)))
    return unit((u, w))


def random_cosines(m: int, k: int, p: int, key: Key, off: float = 0.0) -> Network:
    """Neurons of the optimal family with random frequencies, phases and shares, norm 1; phases `off` from adding up."""
    g = key.torch()
    theta = 2 * math.pi * torch.rand(m, k, generator=g, dtype=torch.float64)
    frequency = torch.randint(1, (p - 1) // 2 + 1, (m,), generator=g)
    return unit(scaled(cosine_network(theta, frequency, p, off), torch.rand(m, generator=g, dtype=torch.float64) + 0.1))


def sorted_points(p: int, k: int) -> Tensor:
    """Every point up to the order of its inputs (n, k): enough for a network that does not see the order."""
    return torch.tensor(list(itertools.combinations_with_replacement(range(p), k)))


def sees_no_order(net: Network) -> bool:
    """Whether exchanging inputs maps the set of neurons to itself, a neuron (u, w) being the same as (-u, (-1)^k w).

    Checked on the exchange of the first two inputs and on the rotation of all, which generate every order.
    """
    u, w = net
    k = u.shape[1]

    def listed(u: Tensor) -> np.ndarray:
        flat = u.flatten(1)
        first = (flat.abs() > 1e-9 * flat.abs().max()).int().argmax(1)
        sign = flat.gather(1, first[:, None]).sign()
        rows = torch.cat([flat * sign, w * sign**k], 1)
        rows = (rows / rows.abs().max() * 1e6).round().long().numpy()
        return rows[np.lexsort(rows.T[::-1])]

    orders = ([1, 0, *range(2, k)], [*range(1, k), 0])
    return all(np.array_equal(listed(u), listed(u[:, order])) for order in orders)


def off_family(net: Network) -> dict[str, np.ndarray]:
    """How far each neuron is from the optimal family; all 0 within it.

    share: power of the k + 1 vectors outside the common frequency; phase: |sum theta_u - theta_w|; balance: largest
    difference of two of the k + 1 norms over the norm of the neuron.
    """
    u, w = net
    every = torch.cat([u, w[:, None]], 1)
    top = top_frequency(w)
    hat = torch.fft.rfft(every).abs().square()
    at = hat.gather(2, top.clamp_min(0)[:, None, None].expand(-1, every.shape[1], 1))[..., 0] * 2 / every.shape[2]
    lengths = every.norm(dim=2)
    return {
        "share": (1 - at / lengths.square()).amax(1).numpy(),
        "phase": phase_residual(u, w, top).abs().numpy(),
        "balance": ((lengths.amax(1) - lengths.amin(1)) / neuron_norms(u, w)).numpy(),
    }


def phases_off(k: int, p: int, off: float) -> Network:
    """The cyclic network with phases of w turned by `off` (radians), norm 1."""
    n, s = cyclic_phases(k)
    turns = torch.arange(n)[:, None] * torch.tensor(s) % n
    theta = (2 * math.pi / n * turns.double()).repeat((p - 1) // 2, 1)
    frequency = torch.arange(1, (p - 1) // 2 + 1).repeat_interleave(n)
    u = cosines(theta, frequency[:, None].expand(theta.shape), p)
    return unit((u, cosines(theta.sum(1) + off, frequency, p)))


def uneven(k: int, p: int) -> Network:
    """The constructed network with one vector of one neuron 5 % longer."""
    u, w = (t.clone() for t in constructed(k, p))
    u[0, 0] *= 1.05
    return unit((u, w))


def ratio_of(net: Network) -> float:
    """Margin over all points, by gamma* |theta|^(k+1)."""
    k, p = net[0].shape[1:]
    return survey(net).least / (gamma_star(k, p) * network_norm(*net) ** (k + 1))
