"""The task, its reading by angles, the network and its norms, and parity: identities that can fail.

Predictions are written out from the weights by numpy, observations are the engine's.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.inventory import entry
from featlearn.lab.quantity import COUNT, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, equal
from featlearn.lab.uncertainty import Observation
from featlearn.tasks.modular_addition import ModularAddition, labels, points
from featlearn.works.fourier.claims.by_hand import neurons_by_hand
from featlearn.works.fourier.claims.exact import (
    everything,
    random_network,
    scaled,
    unit,
)
from featlearn.works.fourier.setup import (
    Network,
    class_weighted_margin,
    cosine_network,
    cosines,
    logits,
    network_norm,
    neuron_norms,
)

EXACT = 1e-12


# the task ------------------------------------------------------------------------------------------------------------

PRIMES, ODD = (3, 5, 7, 11, 97), (9, 15)
NINE = "the same over all frequencies for p = 9"


def rotation_statements(settings: None) -> Sequence[Statement]:
    """Section 4.1: the angle says the class, for every frequency without a factor in common with p."""
    made = [
        equal(
            f"share of (zeta, sum) whose class is the one maximum, p = {', '.join(map(str, ps))}",
            SHARE,
            np.ones(len(ps)),
            "Section 4.1",
            axis="p",
            rival=0.0,
            rival_says="sine, which is 0 at the right class",
        )
        for ps in (PRIMES, ODD)
    ]
    return (
        *made,
        equal(
            NINE,
            SHARE,
            6 / 8,
            "Section 4.1: 3 and 6 have the factor 3 in common with 9",
            rival=1.0,
            rival_says="as if 9 were prime",
            form="derived",
        ),
    )


def read_off(p: int, coprime: bool = True) -> float:
    """Share of (zeta, sum) whose class is the only maximum of cos(2 pi zeta (sum - c) / p)."""
    zeta, s, c = np.ogrid[1:p, 0:p, 0:p]
    wave = cosines(torch.tensor(0.0, dtype=torch.float64), torch.tensor(1), p).numpy()
    value = wave[zeta * (s - c) % p]
    best = np.sort(value, axis=2)
    right = (value.argmax(2) == np.arange(p)) & (best[..., -1] - best[..., -2] > 1e-9)
    kept = np.array([not coprime or math.gcd(z, p) == 1 for z in range(1, p)])
    return float(right[kept].mean())


def rotation_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Every frequency and sum."""
    seen: dict[str, Observation] = {
        f"share of (zeta, sum) whose class is the one maximum, p = {', '.join(map(str, ps))}": np.array(
            [read_off(p) for p in ps]
        )
        for ps in (PRIMES, ODD)
    }
    return {**seen, NINE: read_off(9, coprime=False)}


SHAPES = ((2, 7), (3, 5), (4, 5))


def task_statements(settings: None) -> Sequence[Statement]:
    """Eq. (4.1): sizes and labels."""
    shapes = [[int(part[1:]) for part in name.split("_")] for name in entry("fourier.eq4_1").derived["dataset_sizes"]]
    each = np.concatenate([np.full(p, float(p ** (k - 1))) for k, p in SHAPES])
    sums = [(sum(a), p) for k, p in SHAPES for a in itertools.product(range(p), repeat=k)]
    return (
        equal(
            "points",
            COUNT,
            np.array([float(p**k) for k, p in shapes]),
            "Eq. (4.1): p^k",
            axis="data set",
            rival=np.array([float(k**p) for k, p in shapes]),
            rival_says="k^p",
        ),
        equal(
            "points of each class",
            COUNT,
            each,
            "Eq. (4.1): p^(k-1), by symmetry",
            axis="class",
            rival=np.concatenate([np.full(p, float(p**k)) / k for k, p in SHAPES]).round(),
            rival_says="p^k / k",
            form="derived",
        ),
        equal(
            "labels",
            COUNT,
            np.array([float(s % p) for s, p in sums]),
            "Eq. (4.1): (a_1 + ... + a_k) mod p",
            axis="point",
            rival=np.array([float((s + 1) % p) for s, p in sums]),
            rival_says="one more",
        ),
    )


def task_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """The data sets of the task."""
    names = entry("fourier.eq4_1").derived["dataset_sizes"]
    shapes = [[int(part[1:]) for part in name.split("_")] for name in names]
    ys = [everything(p, k)[1] for k, p in SHAPES]
    return {
        "points": np.array([float(ModularAddition(p=p, k=k).size) for k, p in shapes]),
        "points of each class": np.concatenate(
            [y.bincount(minlength=p).numpy() for y, (_, p) in zip(ys, SHAPES, strict=True)]
        ),
        "labels": torch.cat(ys).numpy(),
    }


# the network ---------------------------------------------------------------------------------------------------------

SCALE = 1.7


def draw_network(key: Key) -> Network:
    """Five neurons for k = 3, p = 7."""
    return random_network(5, 3, 7, key)


def network_statements(settings: Network) -> Sequence[Statement]:
    """Eq. (4.2): the network, homogeneity, norms."""
    phi, _ = neurons_by_hand(settings)
    f, k = phi.sum(0), settings[0].shape[1]
    lower = neurons_by_hand(settings, k - 1)[0].sum(0)
    u, w = (t.numpy() for t in settings)
    n = np.sqrt((u**2).sum((1, 2)) + (w**2).sum(1))
    c, source = SCALE, "Eq. (4.2)"

    def same(
        name: str, value: np.ndarray | float, rival: np.ndarray | float, says: str, where: str = source
    ) -> Statement:
        return equal(name, REAL, value, where, margin=EXACT, axis="point, class", rival=rival, rival_says=says)

    homogeneous = "Section 4.3.1: homogeneous of degree k + 1"
    return (
        same("f", f, lower, "the power k - 1"),
        same("f(c theta)", c ** (k + 1) * f, c**k * f, "degree k", homogeneous),
        same("change of f, one neuron scaled by c", (c ** (k + 1) - 1) * phi[0], (c**k - 1) * phi[0], "degree k"),
        same("n_i", n, np.sqrt((u**2).sum((1, 2))), "without w", "Definition C.1"),
        same(
            "|theta|_{2, k+1}",
            float((n ** (k + 1)).sum() ** (1 / (k + 1))),
            float(np.sqrt((n**2).sum())),
            "the Euclidean norm",
            "Definition C.2",
        ),
    )


def network_observed(settings: Network, key: Key) -> Mapping[str, Observation]:
    """The engine, which looks rows up in place of one-hot products."""
    m, k, p = settings[0].shape
    x, _ = everything(p, k)
    f = logits(*settings, x)
    some = scaled(settings, torch.tensor([SCALE] + [1.0] * (m - 1), dtype=torch.float64))
    return {
        "f": f.numpy(),
        "f(c theta)": logits(*scaled(settings, SCALE), x).numpy(),
        "change of f, one neuron scaled by c": (logits(*some, x) - f).numpy(),
        "n_i": neuron_norms(*settings).numpy(),
        "|theta|_{2, k+1}": network_norm(*settings),
    }


PARITY = (2, 3, 4, 5)
GAIN = "margin of a neuron at frequency p/2 over one at another, p = 6 and 10"
SIGNS = "(-1)^(sum mod 2)"


def parity_statements(settings: None) -> Sequence[Statement]:
    """Section 4.6: p = 2 is parity; its one frequency is real and beats the cosines of the theorem."""
    product = np.array([math.prod(s) for k in PARITY for s in itertools.product((1.0, -1.0), repeat=k)])
    return (
        equal(
            SIGNS,
            REAL,
            product,
            "Section 4.6: the product of signs",
            axis="point",
            rival=-product,
            rival_says="the other sign",
        ),
        equal(
            GAIN,
            POSITIVE,
            np.array([2.0 ** ((k - 1) / 2) for k in PARITY for _ in (6, 10)]),
            "Lemma 4.10, whose pair of bins +-zeta is a single one at p/2",
            margin=EXACT,
            axis="k, p",
            rival=1.0,
            rival_says="the theorem for odd p",
            form="derived",
        ),
    )


def parity_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Labels at p = 2, and spectra at even p."""
    ours, gain = [], []
    for k in PARITY:
        y = labels(points(torch.arange(2**k), 2, k), 2)
        ours += (1.0 - 2.0 * y.numpy()).tolist()
        for p in (6, 10):
            zero = torch.zeros(1, k, dtype=torch.float64)
            half, pair = (cosine_network(zero, torch.tensor([z]), p) for z in (p // 2, 1))
            gain.append(class_weighted_margin(*unit(half)) / class_weighted_margin(*unit(pair)))
    return {SIGNS: np.array(ours), GAIN: np.array(gain)}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="fourier.rotation",
        entries=("fourier.method_rotation_argmax",),
        says="(a_1 + ... + a_k) mod p is the one class c with the largest cos(2 pi zeta (sum - c) / p), for every zeta "
        "without a factor in common with p.",
        statements=rotation_statements,
        observe=rotation_observed,
    ),
    Claim(
        id="fourier.task",
        entries=("fourier.eq4_1",),
        says="p^k points, p^(k-1) of each class.",
        statements=task_statements,
        observe=task_observed,
    ),
    Claim(
        id="fourier.network",
        entries=("fourier.eq4_2",),
        says="f(a) = sum_i (sum_j u_ij(a_j))^k w_i is homogeneous of degree k + 1 in theta and in every neuron.",
        settings=draw_network,
        statements=network_statements,
        observe=network_observed,
        remarks="R^((k+1) x p) is one neuron; the network has m of them.",
    ),
    Claim(
        id="fourier.parity",
        entries=("fourier.method_parity_limit",),
        says="p = 2 is the parity of k bits.",
        statements=parity_statements,
        observe=parity_observed,
        remarks="Why the theorem stops at odd p: at p/2 sine and cosine collapse into one vector, which needs half the "
        "norm; neurons at p/2 alone tell only parities apart, so for even p > 2 no network attains that bound.",
    ),
)
