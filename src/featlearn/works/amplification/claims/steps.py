"""Claims on amplification step by step, read from the rows of `amplification/steps`.

What follows exactly where the start is small and no margin has grown: eq. (30) pushes a neuron by alpha |a_j| / 2 times
the mean over samples of label times gate, which along a mean is (1 - 2 eta)/4 (2 Phi(cos/sigma) - 1) (Lemma 6).
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from scipy.stats import norm

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import COSINE, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Outcome, Statement, at_least, at_most, control, equal, exponent
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, Observation, mean_of, slope
from featlearn.works.amplification.rows import REGIME, REPORTED, TIGHT, Movement, Step
from featlearn.works.amplification.setup import C0, DELTA, premises_of

N, SETS = 1000, 10.0
"""Samples and the C0 of the sets J_mu, of the preset "paper" as all settings here."""
WIDE, ALPHA, ETA, RADIUS, T, START = (1400, 2000, 2800), 0.125, 0.05, 0.05, 3, 1e-3
"""Rows in the regime of A1 to A7: dimensions, step size, flips, sigma sqrt(d), steps and omega sqrt(m d)."""
DIMENSIONS, ARMS = (50, 100, 200, 400, 800), ((TIGHT, 1e-3), (REPORTED, 1e-3), (REPORTED, 0.1))
"""The others: dimensions, and part of the rows with omega sqrt(m d), at step size 0.1, 15 % flips and T = 4."""


def push(eta: float) -> float:
    """What a step adds to a neuron along its mean, over alpha |a_j|: 1/2 of the loss, 1/4 of the samples, 1 - 2 eta."""
    return (1 - 2 * eta) / 8


@cache
def first_step(
    d: int, r: float, scale: float, alpha: float, eta: float, *, kept: float = 0.0, other: float = -1.0
) -> tuple[float, float]:
    """Median cosine with the closest centre and ||W||_F after one step, by eq. (30); r = sigma sqrt(d).

    A neuron has Gaussian components g along both means; its own mean gains, and the other loses, the push times the
    share of gates that tell mu from -mu, with the sampling error of the counts; what is left is the start and noise of
    samples. kept: share of the flips that do not push back; other: what the other mean gains.
    """
    g, counts = np.random.default_rng(0).normal(size=(2, 2, 60_000))
    mean = 0.25 * (1 - 2 * eta)
    error = math.sqrt((0.25 - mean**2) / N) / mean
    gain = alpha * (push(eta) + kept * eta / 8) * (2 * norm.cdf(np.abs(g) / r) - 1) * (1 + error * counts)
    along = scale / math.sqrt(d) * np.abs(g) + np.array([[1.0], [other]]) * gain
    rest = scale**2 * (1 - 2 / d) + (alpha / 2 * r) ** 2 / (2 * N)
    length = np.sqrt((along**2).sum(0) + rest)
    return float(np.median(np.abs(along).max(0) / length)), float(np.sqrt((length**2).mean()))


def by_d(table: Table[Step], part: str, scale: float, t: int, column: str) -> list[Estimate]:
    """Means over seeds in every dimension."""
    return [here.mean(column) for here in table.where(part=part, scale=scale, t=t).by("d").values()]


def aligned(table: Table[Step], t: int) -> list[Estimate]:
    """Share of networks whose sets are aligned without exception, in every dimension."""
    parts = table.where(part=REGIME, scale=START, t=t).by("d").values()
    return [mean_of([float(r.aligned == 100) for r in part.rows], SHARE, Step.unit) for part in parts]


def small(settings: None, *tables: Table) -> tuple[Premise, ...]:
    """A1 to A7 at the settings of the rows in their regime, and the C0 of the sets."""
    rows = [r for t in tables if t.kind is Step for r in t.where(part=REGIME).rows]
    names = ("d", "n", "m", "sigma", "eta", "scale", "alpha")
    found = {tuple(getattr(r, n) for n in names) for r in rows}
    c0 = max(r.c0 for r in rows)
    return (
        *premises_of([dict(zip(names, v, strict=True)) for v in sorted(found)]),
        Premise("C0 as in Definition 7", False, f"{c0:g}, not {C0:.2g}, which puts every neuron into a set", size=True),
    )


# Lemma 12 ------------------------------------------------------------------------------------------------------------


def says_lifted(settings: None) -> Sequence[Statement]:
    """After one step every neuron of the sets is aligned, with a cosine of order 1."""
    weakest = 2 * norm.cdf(1 / (3 * SETS * RADIUS)) - 1
    return (
        at_least(
            "share of networks whose sets are aligned, t = 1",
            SHARE,
            np.full(3, 1 - 4 * DELTA),
            "Lemma 12, with probability 1 - 4 delta",
            axis="dimension",
            rival=control("share of networks whose sets are aligned, t = 0"),
            rival_says="the start",
        ),
        at_least(
            "least cosine over the sets, t = 1",
            COSINE,
            np.full(3, 0.5 * weakest / math.sqrt(1 + weakest**2)),
            "Lemma 12: a constant; half of what eq. (30) gives the weakest neuron that the sets admit",
            axis="dimension",
            rival=control("least cosine over the sets, t = 0"),
            rival_says="the start",
            form="criterion",
        ),
        exponent(
            "exponent in d of the median cosine, start",
            "between",
            -0.55,
            "Section 4.1: 1/sqrt(d)",
            upper=-0.45,
            rival=0.0,
            rival_says="a constant",
        ),
        exponent(
            "exponent in d of the median cosine, t = 1",
            "between",
            -0.05,
            "Lemma 12: a constant",
            upper=0.05,
            rival=-0.5,
            rival_says="1/sqrt(d), as at the start",
        ),
    )


def sees_lifted(settings: None, table: Table[Step]) -> Mapping[str, Observation]:
    """In the regime of A1 to A7."""

    def power(t: int) -> Estimate:
        part = table.where(part=REGIME, scale=START, t=t)
        d = np.array([float(r.d) for r in part.rows])
        return slope(np.log(d), np.log(part.column("cos_median")), Step.unit)

    return {
        "share of networks whose sets are aligned, t = 0": aligned(table, 0),
        "share of networks whose sets are aligned, t = 1": aligned(table, 1),
        "least cosine over the sets, t = 0": by_d(table, REGIME, START, 0, "cos_own_min"),
        "least cosine over the sets, t = 1": by_d(table, REGIME, START, 1, "cos_own_min"),
        "exponent in d of the median cosine, start": power(0),
        "exponent in d of the median cosine, t = 1": power(1),
    }


def says_cosines(settings: None) -> Sequence[Statement]:
    """The median cosine after one step by eq. (30), at any start; order 1 at T."""
    radius = {TIGHT: [0.1] * 5, REPORTED: [d**-0.1 for d in DIMENSIONS]}
    value, rival = (
        np.array(
            [
                [first_step(d, r, s, 0.1, 0.15, other=o)[0] for d, r in zip(DIMENSIONS, radius[part], strict=True)]
                for part, s in ARMS
            ]
        )
        for o in (-1.0, 0.0)
    )
    return (
        equal(
            "median cosine after one step",
            COSINE,
            value,
            "eq. (30) with Lemma 6",
            # half of the way to the rival; its ends 0.005 and 0.025 are ours, with the rows in sight
            margin=np.clip(np.abs(rival - value) / 2, 0.005, 0.025),
            axis="tight clusters, sigma of Figure 2, start of Figure 2; dimension",
            rival=rival,
            rival_says="a push along the own mean alone",
            form="derived",
        ),
        at_least(
            "median cosine at T, small start, sigma of Figure 2",
            COSINE,
            np.full(5, 0.9),
            "Section 3: nearly every neuron becomes highly correlated with one of the means",
            axis="dimension",
            rival=control("median cosine after one step, small start, sigma of Figure 2"),
            rival_says="one step",
            form="criterion",
        ),
    )


def sees_cosines(settings: None, table: Table[Step]) -> Mapping[str, Observation]:
    """Both sigma and both starts."""
    one = [by_d(table, part, s, 1, "cos_median") for part, s in ARMS]
    return {
        "median cosine after one step": [e for arm in one for e in arm],
        "median cosine after one step, small start, sigma of Figure 2": one[1],
        "median cosine at T, small start, sigma of Figure 2": by_d(table, REPORTED, 1e-3, 4, "cos_median"),
    }


# Lemmas 13, 14 and 11 ------------------------------------------------------------------------------------------------


def says_kept(settings: None) -> Sequence[Statement]:
    """Alignment stays until 1/(4 alpha), and the component along the other class does not grow."""
    return (
        at_least(
            "share of networks whose sets are aligned, t = 1 to T - 1",
            SHARE,
            np.full((T - 1) * 3, 1 - 4 * DELTA),
            "Lemma 13, with probability 1 - 4 delta",
            axis="step, dimension",
            rival=control("share of networks whose sets are aligned, t = 0"),
            rival_says="the start",
        ),
        equal(
            "overlap at T over overlap at t = 1",
            POSITIVE,
            np.ones(3),
            "eq. (30) on aligned neurons: a share g of the push at t = 1, 1 - g with the other sign after a "
            "step of all of the push, and g again at T = 3",
            margin=0.1,  # ours, with the rows in sight: where g is near 1 the step back meets weak gates
            axis="dimension",
            rival=float(T),
            rival_says="growth with every step, as along the own mean",
            form="derived",
        ),
    )


def sees_kept(settings: None, table: Table[Step]) -> Mapping[str, Observation]:
    """In the regime of A1 to A7."""
    return {
        "share of networks whose sets are aligned, t = 0": aligned(table, 0) * (T - 1),
        "share of networks whose sets are aligned, t = 1 to T - 1": [e for t in range(1, T) for e in aligned(table, t)],
        "overlap at T over overlap at t = 1": grown(table, "overlap"),
    }


def grown(table: Table[Step], column: str) -> list[Estimate]:
    """What T makes of a column at t = 1, run by run, in every dimension."""
    first, last = (table.where(part=REGIME, scale=START, t=t).by("d").values() for t in (1, T))
    each = [(a.per_unit(column), b.per_unit(column)) for a, b in zip(first, last, strict=True)]
    return [mean_of([b[u] / a[u] for u in a], POSITIVE, Step.unit) for a, b in each]


def says_growth(settings: None) -> Sequence[Statement]:
    """||W||_F after one step, and what T makes of it: the component along the other mean only goes to and fro."""
    share = 2 * norm.cdf(np.abs(np.random.default_rng(0).normal(size=60_000)) / RADIUS) - 1
    mean, square = float(share.mean()), float((share**2).mean())
    law = [
        np.array([first_step(d, RADIUS, START, ALPHA, ETA, kept=k)[1] for d in WIDE]) / (2 * ALPHA) for k in (0.0, 1.0)
    ]
    return (
        equal(
            "||W||_F at T over ||W||_F at t = 1",
            POSITIVE,
            np.full(3, math.sqrt((4 + 4 * mean + 2 * square) / (2 * square))),
            "eq. (30) on aligned neurons, T = 3: (g + 2)^2 along the own mean, g^2 along the other, g^2 each at t = 1",
            margin=0.05,
            axis="dimension",
            rival=float(T),
            rival_says="linear growth along both means, which Lemma 14 allows",
            form="derived",
        ),
        equal(
            "||W||_F/(2 alpha) after one step",
            POSITIVE,
            law[0],
            "eq. (30) with Lemma 6, both means",
            margin=0.0015,
            axis="dimension",
            rival=law[1],
            rival_says="flipped samples do not push, in place of pushing back",
            form="derived",
        ),
    )


def sees_growth(settings: None, table: Table[Step]) -> Mapping[str, Observation]:
    """In the regime of A1 to A7."""
    part = table.where(part=REGIME, scale=START)
    return {
        "||W||_F at T over ||W||_F at t = 1": grown(table, "frobenius"),
        "||W||_F/(2 alpha) after one step": [
            mean_of(p.column("frobenius") / (2 * ALPHA), POSITIVE, Step.unit) for p in part.where(t=1).by("d").values()
        ],
    }


def says_margins(settings: None) -> Sequence[Statement]:
    """The subnetwork is right on clean samples and wrong on flipped ones, by at most T pushes of a quarter of m."""
    whole = np.full(3, push(ETA) * ALPHA * T / 4)
    order = "Lemma 11: of order 1; a quarter of T pushes at slope 1/2"
    return (
        at_most(
            "mean over seeds of the least y f^J on clean samples",
            REAL,
            whole,
            "|l'| is at most 1/2 on clean samples of positive margin, and m/4 neurons serve a cluster",
            axis="dimension",
            rival=whole / (1 - 2 * ETA),
            rival_says="flipped samples push as clean ones do",
            form="derived",
        ),
        at_least(
            "least y f^J on clean samples",
            REAL,
            whole / 4,
            order,
            of="mean over seeds of the least y f^J on clean samples",
            axis="dimension",
            rival=0.0,
            rival_says="no margin, as at the start",
            form="criterion",
        ),
        at_most(
            "largest y f^J on flipped samples",
            REAL,
            -whole / 4,
            order,
            axis="dimension",
            rival=whole / 4,
            rival_says="flipped labels are fitted",
            form="criterion",
        ),
    )


def sees_margins(settings: None, table: Table[Movement], steps: Table[Step]) -> Mapping[str, Observation]:
    """In the regime of A1 to A7, at T."""
    parts = table.where(part=REGIME, scale=START).by("d").values()
    return {
        "mean over seeds of the least y f^J on clean samples": [p.mean("margin_clean") for p in parts],
        "largest y f^J on flipped samples": [p.mean("margin_noisy") for p in parts],
    }


# Proposition 2 -------------------------------------------------------------------------------------------------------


def says_movement(settings: None) -> Sequence[Statement]:
    """Hidden features move by a factor 1/(omega sqrt(m d)) or more; where A1 to A7 hold, by about 1/(omega sqrt(m))."""
    return (
        exponent(
            "exponent of the relative movement in omega sqrt(m d)",
            "between",
            -1.05,
            "Proposition 2",
            upper=-0.95,
            rival=-0.5,
            rival_says="the root of it",
        ),
        exponent(
            "exponent of the relative movement in d, omega sqrt(m d) fixed",
            "between",
            0.4,
            "||relu(W_0 x)|| is near omega sqrt(m/2) ||x||, sqrt(d) less than the ||W_0||_F ||x|| of the proof",
            upper=0.6,
            rival=0.0,
            rival_says="no dependence, as the bound has it",
            form="derived",
        ),
    )


def sees_movement(settings: None, table: Table[Movement], steps: Table[Step]) -> Mapping[str, Observation]:
    """In the regime of A1 to A7: three starts, three dimensions."""
    scaled, wide = table.where(part=REGIME, d=WIDE[0]), table.where(part=REGIME, scale=START)
    return {
        "exponent of the relative movement in omega sqrt(m d)": slope(
            np.log(scaled.column("scale")), np.log(scaled.column("ratio")), Movement.unit
        ),
        "exponent of the relative movement in d, omega sqrt(m d) fixed": slope(
            np.log(wide.column("d")), np.log(wide.column("ratio")), Movement.unit
        ),
    }


# the constants of the proofs -----------------------------------------------------------------------------------------


def says_bounds(settings: None) -> Sequence[Statement]:
    """The bounds with the constants of the proofs, far from what is seen."""
    weak: Outcome = "too weak to test"
    c3, edge = 4096 * math.exp(2) / (1 - 1 / SETS) ** 2, (1 - ETA) / 8 * (2 * norm.cdf(1 / (3 * SETS * RADIUS)) - 1)
    return (
        at_least("y f^J on clean samples", REAL, 1 / c3, "Lemma 11: 1/C3", axis="run", expect=weak),
        at_most("y f^J on flipped samples", REAL, -1 / c3, "Lemma 11: -1/C3", axis="run", expect=weak),
        at_least("y f on clean samples", REAL, 0.5 / c3, "Lemmas 8 and 11", axis="run", expect=weak),
        at_most("||W||_F at T", POSITIVE, 1.0, "Lemma 11", axis="run", expect=weak),
        at_least(
            "least cosine over the sets after one step",
            COSINE,
            edge / 16,
            "Lemma 12: 1/(16 C2), n/C2 half of the expected edge of the weakest neuron",
            axis="run",
            expect=weak,
        ),
        at_most("overlap over alpha |a_j|", POSITIVE, 3.0, "Lemma 13, Condition 10", axis="run, step", expect=weak),
        at_most("||w_j|| over 2 |a_j| alpha t", POSITIVE, 1.0, "Lemma 14", axis="run, step", expect=weak),
        at_most("||W||_F over 2 alpha t", POSITIVE, 1.0, "Lemma 14", axis="run, step", expect=weak),
        at_least(
            "omega sqrt(m d) times the movement",
            POSITIVE,
            math.exp(-2) / (16 * 1024),
            "proof of Proposition 2",
            axis="run",
            expect=weak,
        ),
    )


def sees_bounds(settings: None, table: Table[Movement], steps: Table[Step]) -> Mapping[str, Observation]:
    """In the regime of A1 to A7, run by run."""
    end, moving = table.where(part=REGIME), steps.where(part=REGIME).keep(lambda r: r.t > 0, "after the start")
    last, first = moving.where(t=T), moving.where(t=1)
    return {
        "y f^J on clean samples": end.column("margin_clean"),
        "y f^J on flipped samples": end.column("margin_noisy"),
        "y f on clean samples": end.column("whole_clean"),
        "||W||_F at T": last.column("frobenius"),
        "least cosine over the sets after one step": first.column("cos_own_min"),
        "overlap over alpha |a_j|": moving.column("overlap"),
        "||w_j|| over 2 |a_j| alpha t": moving.column("growth"),
        "||W||_F over 2 alpha t": moving.column("frobenius") / (2 * ALPHA * moving.column("t")),
        "omega sqrt(m d) times the movement": end.column("movement"),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="amplification.proposition2",
        entries=("amplification.proposition2",),
        says="Hidden features move by a factor of at least 1/(C omega sqrt(m d)).",
        statements=says_movement,
        observe=sees_movement,
        premises=small,
        reads=(Movement, Step),
        remarks="The right end of the display, a pure constant, is unreadable in our copy; by A6, as we read it, "
        "1/(C omega sqrt(m d)) is at least 1. The bound is a lower one: features move by more, by a factor sqrt(d).",
    ),
    Claim(
        id="amplification.lemma12",
        entries=("amplification.lemma12", "amplification.cond9"),
        says="One step lifts the cosine of every neuron of the sets from 1/sqrt(d) to a constant, and aligns it.",
        statements=says_lifted,
        observe=sees_lifted,
        premises=small,
        reads=(Step,),
    ),
    Claim(
        id="amplification.cosines",
        entries=("amplification.lemma12", "amplification.figure2"),
        says="Closest-cluster cosine of the median neuron after one step, by eq. (30), at a small start and at that of "
        "Figure 2; strong features at T.",
        statements=says_cosines,
        observe=sees_cosines,
        reads=(Step,),
        remarks="Figure 2 starts at omega sqrt(m d) = alpha and does not claim A1 to A7, so Lemma 12 says nothing "
        "about it; eq. (30) holds there as well, and gives a cosine that still falls with d after one step.",
    ),
    Claim(
        id="amplification.lemma13",
        entries=("amplification.lemma13", "amplification.cond9", "amplification.cond10"),
        says="Alignment and almost-orthogonality hold from t = 1 to 1/(4 alpha).",
        statements=says_kept,
        observe=sees_kept,
        premises=small,
        reads=(Step,),
    ),
    Claim(
        id="amplification.lemma14",
        entries=("amplification.lemma14",),
        says="Weights grow at most linearly: what they grow by in one step and in T, by eq. (30).",
        statements=says_growth,
        observe=sees_growth,
        premises=small,
        reads=(Step,),
        remarks="The bounds 2 |a_j| alpha t and 2 alpha t themselves are met by weights that do not move "
        "(amplification.bounds).",
    ),
    Claim(
        id="amplification.lemma11",
        entries=("amplification.lemma11",),
        says="At T the subnetwork has a margin on clean samples and the opposite one on flipped samples.",
        statements=says_margins,
        observe=sees_margins,
        premises=small,
        reads=(Movement, Step),
    ),
    Claim(
        id="amplification.bounds",
        entries=tuple(f"amplification.{name}" for name in ("lemma11", "lemma12", "lemma13", "lemma14", "proposition2")),
        says="The chain of lemmas with the constants of the proofs.",
        statements=says_bounds,
        observe=sees_bounds,
        premises=small,
        reads=(Movement, Step),
        remarks="A step pushes by half of the slope of the loss, a quarter of the samples and 1 - 2 eta of their "
        "labels, (1 - 2 eta)/16 of the bound along a mean; what is seen stands with each lemma's own claim.",
    ),
)
