"""Networks and margins written out from the weights: what predictions are made of."""

import itertools

import numpy as np

from featlearn.works.fourier.setup import Network

Array = np.ndarray


def neurons_by_hand(net: Network, power: int = 0) -> tuple[Array, Array]:
    """phi_i(a)[c] (m, p^k, p) of Eq. (4.2) at all points, and their labels; power: another one than k."""
    u, w = (t.numpy() for t in net)
    k, p = u.shape[1:]
    a = np.array(list(itertools.product(range(p), repeat=k)))
    inside = np.sum([u[:, j] @ np.eye(p)[a[:, j]].T for j in range(k)], 0)  # one-hot inputs
    return inside[:, :, None] ** (power or k) * w[:, None, :], a.sum(1) % p


def margins_by_hand(f: Array, y: Array) -> Array:
    """Right logit less the largest wrong one."""
    return np.array([row[c] - max(np.delete(row, c)) for row, c in zip(f, y, strict=True)])


def weighted_by_hand(f: Array, y: Array) -> Array:
    """Right logit less the mean of the wrong ones."""
    return np.array([row[c] - np.delete(row, c).mean() for row, c in zip(f, y, strict=True)])


def literal_eta(u: Array, w: Array) -> Array:
    """eta(delta) = E_a (sum_j u_j(a_j))^k w(sum a - delta) for delta = 0..p-1, by a loop over all p^k points."""
    k, p = u.shape
    out = np.zeros(p)
    for a in itertools.product(range(p), repeat=k):
        inside = sum(u[j, a[j]] for j in range(k)) ** k
        out += inside * w[(sum(a) - np.arange(p)) % p]
    return out / p**k
