"""Closed forms of modular addition with k inputs: the best margin, networks that attain it, the least loss.

A network is u (m, k, p) and w (m, p), float64: f(a)[c] = sum_i (sum_j u_ij(a_j))^k w_i(c). Its norm is
|theta| = (sum_i n_i^(k+1))^(1/(k+1)) with n_i^2 = sum_j |u_ij|^2 + |w_i|^2 (fourier.eq4_2).
"""

import itertools
import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featlearn.core import SettingError
from featlearn.nets.power import PowerNetwork
from featlearn.tasks.modular_addition import check_points

Network = tuple[Tensor, Tensor]


def check_theory(k: int, p: int) -> None:
    """SettingError where the closed forms do not hold: k < 2 and even p. Odd composite p is allowed."""
    check_points(p, 1)
    if k < 2:
        raise SettingError("k", k, "at least 2", "with one input the label is the input and nothing is added")
    if p % 2 == 0:
        why = "p = 2 is parity" if p == 2 else f"frequency {p // 2} is real, its neurons have a larger margin"
        raise SettingError("p", p, f"odd ({why})", f"try {p + 1}")


def gamma_star(k: int, p: int) -> float:
    """The largest margin of a network of norm 1: 2 k! / ((2k + 2)^((k+1)/2) (p - 1) p^((k-1)/2)).

    Source: fourier.theorem4_9; k = 3 gives 3 / (16 p (p - 1)) (fourier.theoremC_21). Proved for odd primes; the value
    and its attainment hold for odd composite p too. Errors: `SettingError` for k < 2 and even p.

    Example:
        >>> gamma_star(3, 5)
        0.009375
    """
    check_theory(k, p)
    return 2 * math.factorial(k) / ((2 * k + 2) ** ((k + 1) / 2) * (p - 1) * p ** ((k - 1) / 2))


def cosines(phase: Float[Tensor, "..."], frequency: Int[Tensor, "..."], p: int) -> Float[Tensor, "... p"]:
    """cos(phase + 2 pi frequency a / p) for a = 0..p-1. Shapes: phase (...), frequency (...) -> (..., p).

    Example:
        >>> cosines(torch.zeros(1).double(), torch.tensor([1]), 2)
        tensor([[ 1., -1.]], dtype=torch.float64)
    """
    # turns are reduced before they are multiplied by 2 pi, so that large frequencies lose no digits
    turns = (frequency[..., None] * torch.arange(p)) % p
    return (phase[..., None] + 2 * math.pi / p * turns.double()).cos()


def cosine_network(
    theta: Float[Tensor, "m k"], frequency: Int[Tensor, " m"], p: int, off: float | int = 0.0
) -> Network:
    """m neurons of the optimal family, scaled to |theta| = 1: one frequency, equal amplitudes, phases that add up.

    u_ij(a) = beta cos(theta_ij + 2 pi zeta_i a / p), w_i(c) = beta cos(sum_j theta_ij - off + 2 pi zeta_i c / p) with
    beta = sqrt(2 / ((k+1) p)) m^(-1/(k+1)). off: how far the phases are from adding up (radians).
    Shapes: theta (m, k), frequency (m) -> u (m, k, p), w (m, p). Source: fourier.lemma4_10.

    Example:
        >>> u, w = cosine_network(torch.zeros(1, 2).double(), torch.tensor([1]), 5)
        >>> round(float(u.square().sum() + w.square().sum()), 12)
        1.0
    """
    m, k = theta.shape
    beta = (2 / ((k + 1) * p)) ** 0.5 * m ** (-1 / (k + 1))
    u = beta * cosines(theta, frequency[:, None].expand(m, k), p)
    return u, beta * cosines(theta.sum(1) - off, frequency, p)


def constructed(k: int, p: int) -> Network:
    """The network of the proof: 2^(2k-2) (p - 1) neurons, |theta| = 1, every margin gamma_star(k, p).

    For each frequency, cos(a_1 + ... + a_k - c) is expanded into products of sines and cosines, of which an even number
    are sines, and each product into signed k-th powers. u (m, k, p), w (m, p).
    Source: fourier.lemma4_11, which leaves the signs for general k open; they are those of fourier.eqC_21 and
    fourier.lemmaC_16. Errors: `SettingError` for k < 2 and even p.

    Example:
        >>> [tuple(t.shape) for t in constructed(3, 5)]
        [(64, 3, 5), (64, 5)]
    """
    check_theory(k, p)
    u, w = [], []
    for zeta in range(1, (p - 1) // 2 + 1):
        at = torch.tensor(zeta)
        cos, minus_sin = (cosines(torch.tensor(x, dtype=torch.float64), at, p) for x in (0.0, math.pi / 2))
        wave = (cos, -minus_sin)
        for sines in itertools.product((0, 1), repeat=k):
            odd = sum(sines) % 2
            sign = (-1) ** ((sum(sines) + odd) // 2) * (-1 if odd else 1)  # sin(-c) = -sin(c)
            for c in itertools.product((1, -1), repeat=k - 1):
                signs = (1, *c)
                u.append(torch.stack([s * wave[b] for s, b in zip(signs, sines, strict=True)]))
                w.append(sign * math.prod(signs) * wave[odd])
    beta = (2 / ((k + 1) * p)) ** 0.5 * len(u) ** (-1 / (k + 1))
    return beta * torch.stack(u), beta * torch.stack(w)


def cyclic_phases(k: int) -> tuple[int, list[int]]:
    """(n, s): neuron t of n has phases 2 pi s_j t / n; n = 2 * 3^(k-1), s = (1, 3, ..., 3^(k-2), 4 * 3^(k-2)).

    What makes it work: with d = e - (1, ..., 1), s.d is no multiple of n for any other monomial e that a k-th power of
    k cosines has (`monomials`), so those average out. The pattern is ours, checked for k = 2 to 8 (the inventory had
    n = 6, 18, 55 for k = 2, 3, 4). An exhaustive search finds no smaller n for k <= 4, and n = 150 for k = 5, where the
    pattern has 162; that one is given.

    Example:
        >>> cyclic_phases(4)
        (54, [1, 3, 9, 36])
    """
    if k == 5:
        return 150, [1, 3, 9, 84, 85]
    return 2 * 3 ** (k - 1), [*(3**j for j in range(k - 1)), 4 * 3 ** (k - 2)]


def monomials(k: int) -> Int[np.ndarray, "n k"]:
    """Exponents e with |e|_1 <= k of the parity of k: what (sum_j cos x_j)^k contains, as exp(i e.x). (n, k).

    Example:
        >>> len(monomials(2))
        9
    """
    axis = np.arange(-k, k + 1)
    e = np.zeros((1, 0), dtype=np.int64)
    for _ in range(k):  # grown input by input, to stay near the size of the answer
        e = np.concatenate([np.repeat(e, len(axis), 0), np.tile(axis, len(e))[:, None]], 1)
        e = e[np.abs(e).sum(1) <= k]
    return e[(np.abs(e).sum(1) - k) % 2 == 0]


def cyclic(k: int, p: int, phases: tuple[int, list[int]] | None = None) -> Network:
    """A max-margin network with fewer neurons than the proof's: at most 3^(k-1) (p - 1) in place of 4^(k-1) (p - 1).

    For each frequency n neurons with phases in arithmetic progression (`cyclic_phases`, or the (n, s) given), together
    |theta| = 1. u (m, k, p), w (m, p). That such networks exist refutes that the count of the proof is necessary; ours,
    after the inventory's note to fourier.theorem4_9. Errors: `SettingError` for k < 2 and even p.

    Example:
        >>> [tuple(t.shape) for t in cyclic(3, 5)]
        [(36, 3, 5), (36, 5)]
    """
    check_theory(k, p)
    n, s = cyclic_phases(k) if phases is None else phases
    frequency = torch.arange(1, (p - 1) // 2 + 1).repeat_interleave(n)
    turns = torch.arange(n)[:, None] * torch.tensor(s) % n
    theta = (2 * math.pi / n * turns.double()).repeat((p - 1) // 2, 1)
    return cosine_network(theta, frequency, p)


def group_phases(k: int) -> tuple[Int[np.ndarray, " g"], Int[np.ndarray, "k g"]]:
    """(moduli, s) of phases on a product of cyclic groups: neuron t = (t_1, t_2, ...) has sum_i 2 pi s_ji t_i / n_i.

    The fewest neurons that exhaustive searches over products of at most three cyclic groups found: 6, 18, 40 and 120
    for each frequency at k = 2, 3, 4, 5, against 2^(2k-1) = 8, 32, 128, 512 of the proof. Beyond k = 5 `cyclic_phases`.
    Shapes: moduli (g), s (k, g).

    Example:
        >>> group_phases(4)[0].tolist()
        [2, 2, 10]
    """
    if k in (4, 5):
        last = [1, 6] if k == 4 else [1, 2, 16]
        return np.array([2, 2, 10 if k == 4 else 30]), np.array([*([0, 0, v] for v in last), [0, 1, 1], [1, 0, 1]])
    n, s = cyclic_phases(k)
    return np.array([n]), np.array(s)[:, None]


def fewest(k: int, p: int) -> Network:
    """The max-margin network with the fewest neurons known here: 3, 9, 20 and 60 times (p - 1) for k = 2, 3, 4, 5.

    |theta| = 1; phases of `group_phases` for each frequency. u (m, k, p), w (m, p). Whether fewer suffice is open.
    Errors: `SettingError` for k < 2 and even p.

    Example:
        >>> [tuple(t.shape) for t in fewest(4, 5)]
        [(80, 4, 5), (80, 5)]
    """
    check_theory(k, p)
    moduli, s = group_phases(k)
    t = np.stack(np.meshgrid(*(np.arange(n) for n in moduli), indexing="ij"), -1).reshape(-1, len(moduli))
    theta = torch.from_numpy(2 * np.pi * ((t[:, None] * s) % moduli / moduli).sum(2))
    frequency = torch.arange(1, (p - 1) // 2 + 1).repeat_interleave(len(t))
    return cosine_network(theta.repeat((p - 1) // 2, 1), frequency, p)


def neuron_norms(u: Float[Tensor, "m k p"], w: Float[Tensor, "m p"]) -> Float[Tensor, " m"]:
    """n_i = sqrt(sum_j |u_ij|^2 + |w_i|^2). Shapes: u (m, k, p), w (m, p) -> (m).

    Example:
        >>> neuron_norms(torch.ones(1, 2, 3), torch.ones(1, 3))
        tensor([3.])
    """
    return PowerNetwork(u, w).neuron_norms()


def network_norm(u: Float[Tensor, "m k p"], w: Float[Tensor, "m p"]) -> float:
    """|theta|_{2, k+1} = (sum_i n_i^(k+1))^(1/(k+1)) (fourier.eq4_2). Shapes: u (m, k, p), w (m, p).

    Example:
        >>> network_norm(torch.ones(1, 2, 3), torch.ones(1, 3))
        3.0
    """
    return PowerNetwork(u, w).norm()


def logits(u: Float[Tensor, "m k p"], w: Float[Tensor, "m p"], x: Int[Tensor, "n k"]) -> Float[Tensor, "n p"]:
    """f(a)[c] = sum_i (sum_j u_ij(a_j))^k w_i(c) at points x. Shapes: u (m, k, p), w (m, p), x (n, k) -> (n, p).

    Example:
        >>> logits(torch.ones(1, 2, 3), torch.ones(1, 3), torch.zeros(1, 2, dtype=torch.int64))
        tensor([[4., 4., 4.]])
    """
    return PowerNetwork(u, w)(x)


def neuron_margins(u: Float[Tensor, "m k p"], w: Float[Tensor, "m p"]) -> Float[Tensor, " m"]:
    """E over all p^k points of phi_i[y] - mean of phi_i over the wrong classes, for each neuron, by spectra.

    k! / ((p - 1) p^k) sum_{j != 0} w^(-j) prod_l u_l^(j), for any real vectors and any p, odd or even; the sum of the k
    inputs never leaves the diagonal of the k-dimensional transform, so p^k points cost k transforms of length p.
    Shapes: u (m, k, p), w (m, p) -> (m). Source: fourier.lemmaC_14, whose factor 1 - 1/(p - 1) should be 1 + 1/(p - 1).

    Example:
        >>> u, w = constructed(2, 5)
        >>> bool(torch.isclose(neuron_margins(u, w).sum(), torch.tensor(gamma_star(2, 5)).double()))
        True
    """
    k, p = u.shape[1:]
    product = torch.fft.rfft(u).prod(1) * torch.fft.rfft(w).conj()
    both = torch.full((p // 2 + 1,), 2.0, dtype=w.dtype, device=w.device)
    both[0] = 0.0
    if p % 2 == 0:
        both[-1] = 1.0
    return math.factorial(k) / ((p - 1) * float(p) ** k) * (product.real * both).sum(1)


def class_weighted_margin(u: Float[Tensor, "m k p"], w: Float[Tensor, "m p"]) -> float:
    """E of the class-weighted margin over all p^k points, additive over neurons (fourier.definition4_6, lemmaC_14).

    An upper bound of the margin of the network, itself at most gamma_star(k, p) |theta|^(k+1). Shapes: u (m, k, p),
    w (m, p).

    Example:
        >>> u, w = constructed(3, 5)
        >>> round(class_weighted_margin(u, w), 12)
        0.009375
    """
    return float(neuron_margins(u, w).sum())


def setting_of(name: str) -> tuple[int, int, float]:
    """(k, p, lambda) of a setting that the inventory names.

    Example:
        >>> setting_of("k2_p23_lam0.005")
        (2, 23, 0.005)
    """
    k, p, lam = name.split("_")
    return int(k[1:]), int(p[1:]), float(lam[3:])


def least_loss(c: float | int, k: int, p: int, lam: float | int) -> float:
    """log(1 + (p - 1) exp(-gamma* c^(k+1))) + lam c: the loss of a max-margin network of norm c.

    Example:
        >>> round(least_loss(0.0, 2, 5, 0.1), 6)
        1.609438
    """
    return float(np.logaddexp(0.0, math.log(p - 1) - gamma_star(k, p) * c ** (k + 1)) + lam * c)


def minimum(k: int, p: int, lam: float | int) -> tuple[float, float]:
    """(c, L): norm and value of the global minimum of mean cross-entropy over all p^k points + lam |theta|_{2, k+1}.

    L = min over c >= 0 of log(1 + (p - 1) exp(-gamma* c^(k+1))) + lam c. No network goes below (Jensen, twice, and
    the bound of the class-weighted margin); c times a max-margin network of norm 1 attains it. Where lam is so large
    that c = 0 is best, L = log p. Source: the inventory's oracle to fourier.definition4_1; the thesis has none.
    Errors: `SettingError` for lam <= 0 (there is no minimum, only an infimum) and what `gamma_star` refuses.

    Example:
        >>> c, L = minimum(2, 23, 0.005)
        >>> round(c, 3), round(L, 7)
        (15.145, 0.0785441)
    """
    g = gamma_star(k, p)
    if not 0 < lam < math.inf:
        raise SettingError("lam", lam, "a positive number", "with 0 the loss falls for ever as weights grow")
    # beyond log p / lam the penalty alone exceeds log p, the value at 0; below 1e-3 unit the margins are still 0
    unit = g ** (-1 / (k + 1))
    grid = np.concatenate([[0.0], np.geomspace(min(1e-3 * unit, math.log(p) / lam), math.log(p) / lam, 20_001)])
    loss = np.logaddexp(0.0, math.log(p - 1) - g * grid ** (k + 1)) + lam * grid
    best = int(loss.argmin())
    if best == 0:
        return 0.0, math.log(p)
    low, high = float(grid[best - 1]), float(grid[min(best + 1, len(grid) - 1)])

    def slope(c: float) -> float:
        z = math.log(p - 1) - g * c ** (k + 1)
        return lam - (k + 1) * g * c**k / (1 + math.exp(-z)) if z < 700 else lam - (k + 1) * g * c**k

    for _ in range(200):  # the slope changes sign once around a minimum of the grid
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    c = (low + high) / 2
    value = least_loss(c, k, p, lam)
    return (c, value) if value < math.log(p) else (0.0, math.log(p))
