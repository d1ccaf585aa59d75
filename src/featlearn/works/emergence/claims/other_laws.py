"""Laws beside the structured parity: the one without structure, and interval labels."""

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import REAL, SHARE
from featlearn.lab.statement import Statement, equal
from featlearn.lab.uncertainty import Observation
from featlearn.tasks import Interval, ParityMix
from featlearn.tasks.patterns import PatternTruth
from featlearn.works.emergence.claims.definitions import EXACT, N, band, flat
from featlearn.works.emergence.setup import fair

Array = np.ndarray

# without structure ---------------------------------------------------------------------------------------------------

FAIR_K = (2, 3, 4, 5, 8)


def draw_fair(key: Key) -> PatternTruth:
    """Parity of fair coins."""
    return ParityMix(d=100, D=100, k=5, structure=False).draw(key)


def fair_statements(truth: PatternTruth) -> tuple[Statement, ...]:
    """Fair coins: st^2 = D/4 and no signal of first order."""
    inside = np.zeros(100, dtype=bool)
    inside[truth.relevant.numpy()] = True
    return (
        equal(
            "gamma of fair parity",
            REAL,
            np.zeros(5),
            "k >= 2",
            axis="k",
            margin=EXACT,
            rival=np.full(5, 0.5),
            rival_says="k = 1",
        ),
        equal(
            "E y of fair parity",
            REAL,
            np.zeros(5),
            "A0",
            axis="k",
            margin=EXACT,
            rival=np.array([2.0 ** (1 - k) for k in FAIR_K]),
            rival_says="the count 0 left out",
        ),
        equal("st^2", REAL, 25.0, "D/4", margin=1e-5, rival=50.0, rival_says="D/2"),
        equal(
            "E[y (phit_j - 1/2)] of the sampler",
            REAL,
            np.zeros(100),
            "gamma = 0",
            axis="pattern",
            margin=band(100, 0.5),
            rival=np.where(inside, 0.25, 0.0),
            rival_says="the signal of the structured set",
        ),
        equal(
            "block covariances of the sampler",
            REAL,
            np.zeros(10),
            "independent coins",
            axis="pair",
            margin=band(10, 0.25),
            rival=np.full(10, 0.125),
            rival_says="the all-or-none block of the structured set",
        ),
        equal(
            "share of labels that are the parity",
            SHARE,
            1.0,
            "y = +1 iff the count is odd",
            rival=0.0,
            rival_says="even parity",
        ),
    )


def fair_observe(truth: PatternTruth, key: Key) -> Mapping[str, Observation]:
    """Enumeration of the block, and 100,000 samples."""
    batch = ParityMix(d=100, D=100, k=5, structure=False).sample(truth, N, key / "data")
    hidden, y = flat(batch.hidden), flat(batch.y)
    block = hidden[:, truth.relevant.numpy()]
    blocks = [fair(k, k, tuple(range(1, k + 1, 2))) for k in FAIR_K]
    return {
        "gamma of fair parity": np.array([np.abs(f.gamma).max() for f in blocks]),
        "E y of fair parity": np.array([float(f.chance[0] @ f.y) for f in blocks]),
        "st^2": truth.scale**2,
        "E[y (phit_j - 1/2)] of the sampler": (y[:, None] * (hidden - 0.5)).mean(0),
        "block covariances of the sampler": ((block - 0.5).T @ (block - 0.5) / N)[np.triu_indices(5, 1)],
        "share of labels that are the parity": float((y == 2 * (block.sum(1) % 2) - 1).mean()),
    }


# interval labels -----------------------------------------------------------------------------------------------------

COINS = (Fraction(2, 3), Fraction(1, 2))
"""Rate of the relevant patterns with and without structure."""


def interval_moments(k: int, low: int, high: int, p: Fraction) -> tuple[float, float]:
    """Pr[y = +1] and gamma for y = +1 iff low <= count <= high, by binomial sums in rational arithmetic."""
    pmf = [math.comb(k, i) * p**i * (1 - p) ** (k - i) for i in range(k + 1)]
    plus = sum(pmf[low : high + 1], Fraction(0))
    signed_count = sum((q if low <= i <= high else -q) * i for i, q in enumerate(pmf))
    return float(plus), float(signed_count / k - (2 * plus - 1) * p)


def interval_statements(settings: None) -> tuple[Statement, ...]:
    """Binomial sums; 20 to 30 of 30."""
    plus, gamma = np.array([interval_moments(30, 20, 30, p) for p in COINS]).T
    inner = np.array([interval_moments(30, 21, 30, p) for p in COINS]).T
    st = np.array([math.sqrt(30 * p * (1 - p) + Fraction(70, 4)) for p in COINS])
    alike = {"axis": "with, without structure"}
    return (
        equal(
            "Pr[y = +1]", SHARE, plus, "binomial sum", margin=1e-9, rival=inner[0], rival_says="count 20 out", **alike
        ),
        equal("gamma", REAL, gamma, "binomial sum", margin=1e-8, rival=inner[1], rival_says="count 20 out", **alike),
        equal(
            "gamma without structure",
            REAL,
            gamma[1],
            "binomial sum: first-order signal remains",
            margin=1e-8,
            rival=0.0,
            rival_says="none, as for parity",
        ),
        equal("st", REAL, st, "30 p (1 - p) + 70/4", margin=1e-6, rival=st[::-1], rival_says="exchanged", **alike),
        equal(
            "share of y = +1 in samples",
            SHARE,
            plus,
            "binomial sum",
            margin=band(2, 0.5),
            rival=np.array([0.5, 0.5]),
            rival_says="balanced classes, A0",
            **alike,
        ),
    )


def interval_observe(settings: None, key: Key) -> Mapping[str, Observation]:
    """The task in float64 and its sampler."""
    seen = []
    for structure in (True, False):
        task = Interval(structure=structure)
        truth = task.draw(key / "task" / int(structure))
        share = float((flat(task.sample(truth, N, key / "data" / int(structure)).y) > 0).mean())
        seen.append((task.positive_rate(), truth.gamma, truth.scale, share))
    plus, gamma, st, share = np.array(seen, dtype=np.float64).T
    return {
        "Pr[y = +1]": plus,
        "gamma": gamma,
        "gamma without structure": float(gamma[1]),
        "st": st,
        "share of y = +1 in samples": share,
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="emergence.definition_no_structure",
        entries=("emergence.definition_no_structure",),
        says="Fair coins: st^2 = D/4, and parity labels correlate with no single pattern.",
        settings=draw_fair,
        statements=fair_statements,
        observe=fair_observe,
    ),
    Claim(
        id="emergence.definition_interval",
        entries=("emergence.definition_interval",),
        says="The interval set: exact binomial Pr[y = +1], gamma and st, with and without structure.",
        statements=interval_statements,
        observe=interval_observe,
        remarks="Classes are not balanced, and the paper does not say that they are: without structure a constant "
        "answer is right on 95 % of the inputs, and first-order signal remains.",
    ),
)
