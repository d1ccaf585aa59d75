"""Scales of the start: Table 1, Gaussian tails (Propositions B.1, B.2), and how many signs change (B.4)."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import optimize, stats

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, equal, exponent
from featlearn.lab.uncertainty import Observation, mean_of, slope
from featlearn.works.resnet.setup import SMALL, cheapest, flipped

Array = np.ndarray

# Table 1 -------------------------------------------------------------------------------------------------------------

WIDTHS_1 = np.array([1e4, 1e6, 1e9])
K_1 = 5


def says_table(settings: None) -> Sequence[Statement]:
    """tau_w from m^(1/8) sigma_w to m^(1/8) sigma_w^(1/4), tau_v from sigma_v (k/m)^(3/8), less the slack 0.001."""
    m, source = WIDTHS_1, "Section 6.1, Table 1"
    powers = np.linspace(-0.006, 0.001, 15)
    sigma = m**-0.3
    return (
        equal(
            "sigma_w = m^p for which the interval of tau_w is not empty, p = -0.006, -0.0055, ..., 0.001",
            SHARE,
            (powers <= -0.002 * 4 / 3).astype(float),
            f"{source}: m^(1/8+0.001) sigma_w <= m^(1/8-0.001) sigma_w^(1/4)",
            margin=0.1,
            axis="p",
            rival=(powers <= -0.002).astype(float),
            rival_says="sigma_w and sigma_w^(1/4) read as one power",
        ),
        equal(
            "least tau_w for which the second term of C.1b's proof is the larger one, over sigma_w k^(3/8)",
            POSITIVE,
            m**0.125,
            f"{source}: m^(1/8+0.001) sigma_w, whose slack holds k^(3/8)",
            margin=1e-6 * m**0.125,
            axis="width",
            rival=m ** (1 / 6),
            rival_says="m^(1/6)",
        ),
        equal(
            "largest tau_w for which C.1b vanishes, tau_w (tau_w/sigma_w)^(1/3) <= m^(1/6), over sigma_w^(1/4)",
            POSITIVE,
            m**0.125,
            f"{source}: m^(1/8-0.001) sigma_w^(1/4)",
            margin=1e-6 * m**0.125,
            axis="width",
            rival=m**0.125 * sigma ** (1 / 3 - 1 / 4),
            rival_says="sigma_w^(1/3)",
        ),
        equal(
            "least tau_v for which the second term of C.1e's proof is the larger one, over sigma_v",
            POSITIVE,
            (K_1 / m) ** 0.375,
            f"{source}: sigma_v (k/m)^(3/8)",
            margin=1e-6 * (K_1 / m) ** 0.375,
            axis="width",
            rival=(K_1 / m) ** 0.5,
            rival_says="sigma_v (k/m)^(1/2)",
        ),
        at_least(
            "upper end of tau_w at the smallest sigma_w, m^(-1/2+0.01)",
            POSITIVE,
            np.ones(len(m)),
            f"{source}: tau_w >= 1",
            axis="width",
            rival=m ** (0.125 - 0.001 - 0.125),
            rival_says="at sigma_w = m^(-1/2)",
        ),
        equal(
            "eta_v tau_w^2 over eta_w tau_v^2 of Theorem 1",
            POSITIVE,
            np.ones(3),
            "Theorem 1 and Table 1, whose constants and logarithms are left out: k cancels",
            margin=1e-12,
            axis="k",
            rival=np.array([2.0, 5.0, 9.0]) ** -2,
            rival_says="k in tau_v and not in tau_w",
            form="derived",
        ),
    )


def sees_table(settings: None, key: Key) -> Mapping[str, Observation]:
    """The constraints themselves, where they change: roots of the inequalities of the proof of Lemma C.1."""
    rng = key.numpy()
    powers = np.linspace(-0.006, 0.001, 15)
    open_at = [all(m ** (0.126) * m**p <= m**0.124 * (m**p) ** 0.25 for m in WIDTHS_1) for p in powers]

    def crossing(scale: float, level: float) -> float:
        """The t at which t (t/scale)^(1/3) = level."""
        found = optimize.root_scalar(lambda u: u + (u - math.log(scale)) / 3 - math.log(level), bracket=(-60, 60))
        return math.exp(float(found.root))

    low, high, second = [], [], []
    for m in WIDTHS_1:
        sigma = m**-0.3
        low.append(crossing(sigma, math.sqrt(K_1) * sigma * m ** (1 / 6)) / sigma / K_1**0.375)
        high.append(crossing(sigma, m ** (1 / 6)) / sigma**0.25)
        second.append(crossing(sigma, math.sqrt(K_1) * sigma / math.sqrt(m)) / sigma)
    rates = []
    for k in (2.0, 5.0, 9.0):
        alpha, p_f, c_f, p_g, c_g = rng.uniform(0.1, 3, 5)
        ratio = (alpha * p_g * c_g / (p_f * c_f)) ** 2
        rates.append(ratio * (k * p_f * c_f) ** 2 / (alpha * k * p_g * c_g) ** 2)
    return {
        "sigma_w = m^p for which the interval of tau_w is not empty, p = -0.006, -0.0055, ..., 0.001": np.array(
            open_at, dtype=float
        ),
        "least tau_w for which the second term of C.1b's proof is the larger one, over sigma_w k^(3/8)": np.array(low),
        "largest tau_w for which C.1b vanishes, tau_w (tau_w/sigma_w)^(1/3) <= m^(1/6), over sigma_w^(1/4)": np.array(
            high
        ),
        "least tau_v for which the second term of C.1e's proof is the larger one, over sigma_v": np.array(second),
        "upper end of tau_w at the smallest sigma_w, m^(-1/2+0.01)": WIDTHS_1**0.124 * (WIDTHS_1**-0.49) ** 0.25,
        "eta_v tau_w^2 over eta_w tau_v^2 of Theorem 1": np.array(rates),
    }


# Propositions B.1 and B.2 --------------------------------------------------------------------------------------------

T = np.array([1.0, 3.0, 10.0, 30.0])


def says_tails(settings: None) -> Sequence[Statement]:
    """Pr[|g|^2 - m >= 2 sqrt(m t) + 2 t] <= exp(-t) for t >= 1; ||M||_2 <= O(sqrt n + sqrt m) + t."""
    source = "Proposition B.1"
    parts = ((1, 2 * np.sqrt(T), "2 t"), (1000, 2 * T, "2 sqrt(m t)"))
    return (
        *(
            at_most(
                f"log Pr[|g|^2 - m >= 2 sqrt(m t) + 2 t] + t, m = {m}, t = 1, 3, 10, 30",
                REAL,
                np.zeros(len(T)),
                source,
                axis="t",
                rival=stats.chi2.logsf(m + rest, m) + T,
                rival_says=f"the deviation without {says}",
            )
            for m, rest, says in parts
        ),
        at_most(
            "mean ||M||_2 / (sqrt n + sqrt m), M of 40 x 40, 10 x 800 and 200 x 400",
            POSITIVE,
            np.ones(3),
            "Proposition B.2, with the constant 1",
            axis="shape",
            rival=np.array([math.sqrt(n * m) / (math.sqrt(n) + math.sqrt(m)) for n, m in SHAPES]),
            rival_says="the Frobenius norm",
            form="criterion",
        ),
    )


SHAPES = ((40, 40), (10, 800), (200, 400))


def sees_tails(settings: None, key: Key) -> Mapping[str, Observation]:
    """The law of |g|^2, exactly, by its integral; singular values of drawn matrices."""
    found: dict[str, Observation] = {
        f"log Pr[|g|^2 - m >= 2 sqrt(m t) + 2 t] + t, m = {m}, t = 1, 3, 10, 30": np.array(
            [stats.gamma(m / 2, scale=2).logsf(m + 2 * math.sqrt(m * t) + 2 * t) + t for t in T]
        )
        for m in (1, 1000)
    }
    rng = key.numpy()
    found["mean ||M||_2 / (sqrt n + sqrt m), M of 40 x 40, 10 x 800 and 200 x 400"] = [
        mean_of(
            [float(np.linalg.norm(rng.normal(size=shape), 2)) / sum(map(math.sqrt, shape)) for _ in range(10)],
            POSITIVE,
            "matrix",
        )
        for shape in SHAPES
    ]
    return found


# signs that change ---------------------------------------------------------------------------------------------------


M_4, DELTAS, DRAWS_4 = 2**14, (0.02, 0.04, 0.08, 0.16), 12


def says_flips(settings: None) -> Sequence[Statement]:
    """||D' g|| <= ||g'|| always, and ||D'||_0 <= O(m delta^(2/3)) for the worst g' of norm delta."""
    source = "Proposition B.4"
    return (
        at_most(
            "||D' g|| / ||g'||, random g' of norm 0.01, 0.1 and 1, and the worst",
            POSITIVE,
            np.ones(4),
            source,
            margin=1e-9,
            axis="perturbation",
        ),
        exponent(
            "growth of the signs that the worst g' changes with delta, m = 2^14",
            "at least",
            2 / 3,
            source,
            margin=0.05,
            rival=0.5,
            rival_says="m delta^(1/2)",
        ),
    )


def sees_flips(settings: None, key: Key) -> Mapping[str, Observation]:
    """g ~ N(0, I/m); the worst g' changes the smallest entries."""
    counts, ratios = [], np.zeros(4)
    for delta in DELTAS:
        for i in range(DRAWS_4):
            rng = (key / int(1000 * delta) / i).numpy()
            g = rng.normal(size=M_4) / math.sqrt(M_4)
            worst = flipped(g, cheapest(np.ones(M_4), g**2, SMALL * delta**2))
            for j, length in enumerate((0.01, 0.1, 1.0, 0.0)):
                change = rng.normal(size=M_4) * length / math.sqrt(M_4) if length else worst
                moved = ((g + change >= 0) != (g >= 0)) * g
                ratios[j] = max(ratios[j], np.linalg.norm(moved) / np.linalg.norm(change))
            counts.append(int(((g + worst >= 0) != (g >= 0)).sum()))
    return {
        "||D' g|| / ||g'||, random g' of norm 0.01, 0.1 and 1, and the worst": ratios,
        "growth of the signs that the worst g' changes with delta, m = 2^14": slope(
            np.repeat(np.log(DELTAS), DRAWS_4), np.log(counts), "draw of g"
        ),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="resnet.table1",
        entries=("resnet.table1",),
        says="Ranges of the scales of the start and of the radii of W and V, which leave room for one another.",
        statements=says_table,
        observe=sees_table,
        remarks="Claim C.6 also uses 1/sigma_v <= tau_v^2, which Table 1 does not list in our text; sigma_v = m^s "
        "with tau_v fixed"
        " meets both.",
    ),
    Claim(
        id="resnet.propB1",
        entries=("resnet.propB1",),
        says="Tails of chi-square, and norms of Gaussian matrices.",
        statements=says_tails,
        observe=sees_tails,
    ),
    Claim(
        id="resnet.propB4",
        entries=("resnet.propB4",),
        says="A perturbation of norm delta changes O(m delta^(2/3)) signs of N(0, I/m), which hold at most its norm.",
        statements=says_flips,
        observe=sees_flips,
    ),
)
