"""Figure 8.1 from its rows: condition numbers, decay, both readings of the theory line, and the gap between them."""

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.inventory import reported
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, between, control, equal, order
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, Observation, mean_of
from featlearn.works.looped.rows import Conditioning, Decay

N = (16, 32, 64, 128)
NEXT = tuple(itertools.pairwise(N))
SOURCE = "Figure 8.1 and section 8.6"
EARLY = 20
"""Loops before the floor of float64."""
ONE = 1.0
"""In natural logarithms: a factor of e."""

# condition numbers ---------------------------------------------------------------------------------------------------

BELOW, SHIFTED = (
    "share of means of ten below the reported one",
    "the same of means at half as many examples",
)
DRAWS = 1500


def says_kappa(settings: None) -> Sequence[Statement]:
    """Mean condition numbers of ten prompts, as reported."""
    return (
        between(
            BELOW,
            SHARE,
            np.full(len(N), 0.025),
            0.975,
            f"{SOURCE}: mean kappa of ten trials 4.57, 3.13, 2.07, 1.62",
            axis="n",
            rival=control(SHIFTED),
            rival_says="the law at half as many examples",
            form="criterion",
        ),
    )


def sees_kappa(settings: None, key: Key) -> Mapping[str, Observation]:
    """The reported numbers among 1500 simulated means of ten, at their n and at half of it."""
    values = [p.value for p in reported("looped.figure8_1", metric="mean_kappa") if p.value is not None]
    means = {}
    for n in (N[0] // 2, *N):
        x = (key / n).numpy().standard_normal((DRAWS * 10, n, 4))
        spectrum = np.linalg.eigvalsh(np.einsum("bni,bnj->bij", x, x))
        means[n] = (spectrum[:, -1] / spectrum[:, 0]).reshape(DRAWS, 10).mean(1)
    return {
        BELOW: np.array([(means[n] < value).mean() for n, value in zip(N, values, strict=True)]),
        SHIFTED: np.array([(means[n // 2] < value).mean() for n, value in zip(N, values, strict=True)]),
    }


# decay ---------------------------------------------------------------------------------------------------------------

FALLS = "kappa with half as many examples less kappa"
STEEPER = f"log error after {EARLY} loops with half as many examples less log error"
UNDER, SQUARED = "error of the loops less exp(-t/(2 kappa))", "error of the loops less exp(-t/kappa)"
LEVEL, SLOWER = "an error that stays at 1, less exp(-t/(2 kappa))", "exp(-t/(2 kappa)) less exp(-t/kappa)"
ROUNDING = 1e-28
"""Of squared errors of float64, by which a curve may end above a line; the check of the inventory has it."""
FLOOR = -40.0
"""Of logarithms: above it rounding is below 1e-6 of a squared error."""
SAME = "log error of the loops less that of gradient descent, while above -40"
BEHIND = "the same one evaluation later"


def says_decay(settings: None) -> Sequence[Statement]:
    """kappa falls with n, errors fall faster, and stay below the theory lines."""
    return (
        order(FALLS, POSITIVE, SOURCE, delta=0.2, axis="n", form="criterion"),
        order(STEEPER, REAL, f"{SOURCE}: steeper slopes", delta=ONE, axis="n", form="criterion"),
        at_most(
            UNDER,
            REAL,
            0.0,
            f"{SOURCE}: below the theory, read as Theorem 8.16 has it",
            margin=ROUNDING,
            axis="prompt and t",
            rival=control(LEVEL),
            rival_says="an error that does not fall",
        ),
        at_most(
            SQUARED,
            REAL,
            0.0,
            f"{SOURCE}: below the theory, read as Theorem 8.25 has it for squared errors",
            margin=ROUNDING,
            axis="prompt and t",
            rival=control(SLOWER),
            rival_says="an error that falls half as fast",
        ),
        equal(
            SAME,
            REAL,
            0.0,
            "Theorem 8.14, in float64",
            margin=1e-6,
            axis="prompt and t",
            rival=control(BEHIND),
            rival_says="another number of loops",
        ),
    )


def sees_decay(settings: None, prompts: Table[Conditioning], decays: Table[Decay]) -> Mapping[str, Observation]:
    """kappa, and the decay without a floor, by seed; the loops in float64, prompt by prompt."""
    some = [r for r in decays.rows if r.t > 0]
    descent = {(r.n, r.seed, r.t): r.descent for r in decays.rows}
    times = sorted({t for _, _, t in descent})
    before = dict(zip(times[1:], times, strict=False))
    loops = np.array([0.0 if r.looped is None else float(np.exp(r.looped)) for r in some])
    lines = {share: np.exp([-share * r.t / r.kappa for r in some]) for share in (0.5, 1.0)}
    high = [(r, r.looped) for r in some if r.looped is not None and r.exact > FLOOR]

    def behind(evaluation: Callable[[int], int]) -> np.ndarray:
        found = [(looped, descent[r.n, r.seed, evaluation(r.t)]) for r, looped in high]
        return np.array([np.inf if log is None else looped - log for looped, log in found])

    return {
        FALLS: [prompts.paired("kappa", {"n": a}, {"n": b}) for a, b in NEXT],
        STEEPER: [decays.where(t=EARLY).paired("exact", {"n": a}, {"n": b}) for a, b in NEXT],
        UNDER: loops - lines[0.5],
        SQUARED: loops - lines[1.0],
        LEVEL: 1 - lines[0.5],
        SLOWER: lines[0.5] - lines[1.0],
        SAME: behind(lambda t: t),
        BEHIND: behind(lambda t: before[t]),
    }


# the gap -------------------------------------------------------------------------------------------------------------

RATES = "loops for a factor of e, by the theory less measured, with half as many examples less the same"
LINEAR = f"exp(-t/(2 kappa)) less the error after {EARLY} loops with half as many examples, less the same"
GAP = f"gap in the logarithm after {EARLY} loops less that with half as many examples"


def says_gap(settings: None) -> Sequence[Statement]:
    """The gap narrows in loops and in errors; in logarithms, and so in rates by loop, it widens."""
    said = f"{SOURCE}: 'the gap between empirical and theoretical performance narrowing as n increases'"
    ours = {"axis": "n", "form": "criterion"}
    return (
        order(RATES, REAL, f"{said}, read of loops for a factor of e, the reciprocal of a rate", delta=0.2, **ours),
        order(LINEAR, REAL, f"{said}, read of the errors themselves", delta=0.001, **ours),
        at_least(
            GAP,
            REAL,
            ONE,
            "2 log(1 - 1/kappa) falls faster than -1/(2 kappa) as kappa falls to 1; a twentieth of it is the gap of"
            " rates, log error by loop",
            axis="n",
            rival=0.0,
            rival_says="a gap of rates that stays or narrows",
            form="derived",
        ),
    )


def sees_gap(settings: None, decays: Table[Decay]) -> Mapping[str, Observation]:
    """Differences between numbers of examples, by seed."""
    gaps: dict[str, dict[int, dict[int, float]]] = {name: {} for name in (RATES, LINEAR, GAP)}
    for r in decays.rows:
        theory = -r.t / (2 * r.kappa)
        if r.t == EARLY:
            gaps[GAP].setdefault(r.n, {})[r.seed] = theory - r.exact
            gaps[LINEAR].setdefault(r.n, {})[r.seed] = float(np.exp(theory) - np.exp(r.exact))
            gaps[RATES].setdefault(r.n, {})[r.seed] = r.t / -theory - r.t / -r.exact

    def change(name: str, sign: float) -> list[Estimate]:
        found = gaps[name]
        return [
            mean_of([sign * (found[b][s] - found[a][s]) for s in sorted(found[a])], REAL, Decay.unit) for a, b in NEXT
        ]

    return {name: change(name, 1.0 if name == GAP else -1.0) for name in gaps}


def settings_of(settings: None, *tables: Table) -> Sequence[Premise]:
    """Of the figure."""
    return (Premise("n = 16, 32, 64, 128", {r.n for r in tables[-1].rows} == set(N)),)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="looped.figure8_1_kappa",
        entries=("looped.figure8_1",),
        says="Ten Gaussian prompts of d = 4 have mean kappa 4.57, 3.13, 2.07 and 1.62 at n = 16, 32, 64 and 128.",
        statements=says_kappa,
        observe=sees_kappa,
    ),
    Claim(
        id="looped.figure8_1",
        entries=("looped.figure8_1",),
        says="With more examples kappa is smaller and errors fall faster, always below the theory.",
        statements=says_decay,
        observe=sees_decay,
        premises=settings_of,
        reads=(Conditioning, Decay),
        remarks="In float64 the errors end at rounding, so that a line of -t/kappa crosses them within 200 loops where"
        " kappa is small, by less than 1e-28; the table of the experiment counts how often. That the errors lie below"
        " both lines is a theorem for the decay without a floor, so that the loops in float64 are judged, which an"
        " earlier form of the claim did not do. Loops and descent are compared in the logarithm while it is above -40:"
        " the differences of an earlier form were below their margin wherever both errors were.",
    ),
    Claim(
        id="looped.figure8_1_gap",
        entries=("looped.figure8_1",),
        says="The gap between empirical and theoretical performance narrows as n grows, in loops for a factor of e and"
        " in the errors themselves.",
        statements=says_gap,
        observe=sees_gap,
        premises=settings_of,
        reads=(Decay,),
        remarks="The text does not say in what the gap is measured. It narrows in two readings: in the number of loops"
        " for a factor of e, and in the errors themselves, from two loops on (after one loop that gap widens:"
        " .627, .645, .669, .675). It does not in a third: the paragraph speaks of convergence rates, and as log"
        " error by loop the gap widens, .57, .92, 1.34, 1.75 at 20 loops. That is the derived statement, of the"
        " gap of 20 loops; where one reading makes the sentence true, the others accuse nobody. The thresholds .2,"
        " .001 and 1 are ours, and the readings were settled after the rows. An earlier form also judged the right"
        " end of the figure, by logarithms of single float64 errors after 200 loops. That statement is withdrawn:"
        " 6, 22, 53 and 61 of 100 errors are exactly 0 there and have no logarithm. With the logarithm of the mean"
        " error over all prompts and the line of the mean kappa the gap there is 27.4, 36.8, 25.1 and 16.2, wider"
        " at n = 32 than at 16; over groups of ten, as in the figure, it narrows at every step in 6 of 10 groups.",
    ),
)
