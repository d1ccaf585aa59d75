"""Claims on trained networks: Theorem 1, the rates of section 3, Figures 1 and 2; they read rows and never train."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import PERCENT, POINTS, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, control, equal, exponent
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, Observation, mean_of, slope
from featlearn.works.amplification.rows import (
    FEW,
    GRID,
    HIGH,
    LOW,
    OTHERS,
    REGIME,
    REPORTED_RATE,
    SWEEP,
    TWIN,
    Fit,
    Overfit,
    Plane,
    Point,
)
from featlearn.works.amplification.setup import DELTA, premises_of

SMALL = 1e-3
"""omega sqrt(m d) of a start that is small against a step."""
SURE = 100 * (1 - 4 * DELTA)


def regime(table: Table[Fit]) -> tuple[Premise, ...]:
    """A1 to A7 at all settings of some rows."""
    names = ("d", "n", "m", "sigma", "eta", "scale", "alpha")
    found = {tuple(getattr(r, n) for n in names) for r in table.rows}
    return premises_of([dict(zip(names, v, strict=True)) for v in sorted(found)])


# Theorem 1 -----------------------------------------------------------------------------------------------------------


GOOD = "runs with every clean label right and every flipped one wrong"
NEAR = "runs with a test error of at most eta + sqrt(log(1/delta)/n)/2"
CLEAN = "runs with every clean test label right"


def hold(part: Table[Fit], test: Callable[[Fit], bool]) -> Estimate:
    """The percentage of runs that meet a test; the unit is a seed."""
    shares = [100 * sum(map(test, runs.rows)) / len(runs.rows) for runs in part.by("seed").values()]
    return mean_of(shares, PERCENT, Fit.unit)


def near(r: Fit) -> bool:
    """Whether the test error of a run is within the rate with C = 1/2."""
    return r.test_error <= 100 * (r.eta + 0.5 * math.sqrt(math.log(1 / DELTA) / r.n))


def clean(r: Fit) -> bool:
    """Whether a run is right on every clean test label."""
    return r.clean_acc >= 100


def says_theorem(settings: None) -> Sequence[Statement]:
    """With probability 1 - 4 delta all clean labels are right and all flipped ones wrong; test error near eta."""
    sure = {"axis": "dimension, n, start", "rival_says": FEW_SAYS}
    return (
        at_least(
            GOOD,
            PERCENT,
            np.full(8, SURE),
            "Theorem 1, with probability 1 - 4 delta",
            rival=control(f"{GOOD}, 40 samples"),
            **sure,
        ),
        at_least(
            NEAR,
            PERCENT,
            np.full(8, SURE),
            "Theorem 1, with probability 1 - 4 delta; C = 1/2 is ours, with the rows in sight",
            rival=control(f"{NEAR}, 40 samples"),
            form="criterion",
            **sure,
        ),
        at_least(
            CLEAN,
            PERCENT,
            np.full(8, SURE),
            "Section 1: correctly classifies every clean test example, with high probability; 1 - 4 delta",
            rival=control(f"{CLEAN}, 40 samples"),
            **sure,
        ),
    )


FEW_SAYS = "n near log(m/delta), where one cluster may have too few samples"


def sees_theorem(settings: None, table: Table[Fit]) -> Mapping[str, Observation]:
    """Rows in the regime of A1 to A7."""
    parts, few_ = table.where(part=REGIME).by("d", "n", "scale").values(), table.where(part=FEW, n=40, scale=SMALL)
    seen: dict[str, Observation] = {GOOD: [p.mean("good") for p in parts]}
    seen[f"{GOOD}, 40 samples"] = few_.mean("good", over=("d",))
    for name, test in ((NEAR, near), (CLEAN, clean)):
        seen |= {name: [hold(p, test) for p in parts], f"{name}, 40 samples": hold(few_, test)}
    return seen


def in_regime(settings: None, table: Table[Fit]) -> tuple[Premise, ...]:
    """Of the rows that are judged."""
    return regime(table.where(part=REGIME))


def says_beyond(settings: None) -> Sequence[Statement]:
    """The same at the settings of Figure 2, with adversarial flips and with other laws, where no C fits A1 to A7."""
    names = ("the grid at two step sizes", *OTHERS)
    return (
        *(
            at_least(
                name,
                PERCENT,
                np.full(1 + len(OTHERS), SURE),
                source,
                axis=", ".join(names),
                rival=control(f"{name}, 40 samples"),
                rival_says=FEW_SAYS,
            )
            for name, source in (
                (GOOD, "Theorem 1, with probability 1 - 4 delta"),
                (CLEAN, "Section 1: correctly classifies every clean test example, with high probability; 1 - 4 delta"),
            )
        ),
    )


def sees_beyond(settings: None, table: Table[Fit]) -> Mapping[str, Observation]:
    """The grid and its variants."""
    parts = [table.where(part=name) for name in (GRID, *OTHERS)]
    few_ = table.where(part=FEW, n=40, scale=SMALL)
    seen: dict[str, Observation] = {}
    for name, test in ((GOOD, lambda r: r.good == 100), (CLEAN, clean)):
        seen |= {name: [hold(p, test) for p in parts], f"{name}, 40 samples": hold(few_, test)}
    return seen


def beyond(settings: None, table: Table[Fit]) -> tuple[Premise, ...]:
    """Of the rows that are judged."""
    return regime(table.where(part=GRID))


# rates ---------------------------------------------------------------------------------------------------------------

ABOVE = "start above a step"
STARTS = {"start below a step": SMALL, ABOVE: 0.1}
"""omega sqrt(m d) of the rows of few samples: a step moves by about 0.05."""
GROUPS = 10
"""Groups of seeds whose mean errors have logarithms; a run alone may have no error at all."""


def growth(table: Table[Fit], over: str, scale: float, **equal_: int) -> Estimate:
    """Exponent of the error on clean labels in d or n; the unit is a group of seeds."""
    x, y = [], []
    for at, part in table.where(part=FEW, scale=scale, **equal_).by(over).items():
        each = list(part.per_unit("clean_acc").values())
        for group in np.array_split(100 - np.array(each), GROUPS):
            x.append(math.log(at))
            y.append(math.log(group.mean()))
    return slope(x, y, "group of seeds")


def says_rate(settings: None) -> Sequence[Statement]:
    """The error does not grow with d at fixed n and sigma^2 d, and falls with n like n^(-1/2) or faster."""
    flat = "Section 3: a rate that does not depend on the dimension, against sqrt(d/n) for isotropic XOR"
    faster = {"rival": 0.0, "rival_says": "no gain from samples"}
    return (
        *(
            exponent(
                f"exponent of the error in d, n = {n}, {start}",
                "at most",
                0.0,
                flat,
                margin=0.2,
                rival=0.5,
                rival_says="sqrt(d)",
                form="criterion",
                expect="inconclusive" if (start, n) == (ABOVE, 100) else "confirmed",
            )
            for start in STARTS
            for n in (40, 100)
        ),
        *(
            exponent(f"exponent of the error in n, {start}", "at most", -0.5, "Theorem 1: sqrt(1/n)", **faster)
            for start in STARTS
        ),
    )


def sees_rate(settings: None, table: Table[Fit]) -> Mapping[str, Observation]:
    """Rows of few samples."""
    seen: dict[str, Observation] = {}
    for start, scale in STARTS.items():
        seen |= {f"exponent of the error in d, n = {n}, {start}": growth(table, "d", scale, n=n) for n in (40, 100)}
        seen[f"exponent of the error in n, {start}"] = growth(table, "n", scale, d=1800)
    return seen


def few(settings: None, table: Table[Fit]) -> tuple[Premise, ...]:
    """Of the rows that are judged."""
    return regime(table.where(part=FEW))


# Figure 1 ------------------------------------------------------------------------------------------------------------


def says_figure1(settings: None) -> Sequence[Statement]:
    """The boundary is that of |<mu_1, x>| - |<mu_2, x>|; clean samples are right and flipped ones wrong."""

    def every(name: str, value: float, margin: float, rival: float, says: str, source: str, **more: str) -> Statement:
        return equal(name, PERCENT, value, source, margin=margin, axis="seed", rival=rival, rival_says=says, **more)

    seen = "Section 3: every noisy sample is incorrectly classified and every clean sample is correctly classified"
    return (
        every(
            "test points on which the network agrees with |<mu_1, x>| - |<mu_2, x>|",
            100.0,
            3.0,
            75.0,
            "a linear classifier with a threshold",
            "Figure 1; section 3: essentially acts as that classifier",
            form="criterion",
        ),
        every("clean training samples that are right", 100.0, 0.1, 85.0, "one error for each flip", seen),
        every("flipped training samples that are wrong", 100.0, 0.1, 0.0, "interpolation", seen),
    )


def sees_figure1(settings: None, table: Table[Plane]) -> Mapping[str, Observation]:
    """Every seed."""
    return {
        "test points on which the network agrees with |<mu_1, x>| - |<mu_2, x>|": table.column("agree"),
        "clean training samples that are right": table.column("clean_right"),
        "flipped training samples that are wrong": table.column("noisy_wrong"),
    }


def size_of_figure1(settings: None, table: Table[Plane]) -> tuple[Premise, ...]:
    """Its settings; scale = omega sqrt(2 m) = 0.25."""
    reported = {"n": 5000, "m": 500, "steps": 3000, "alpha": 0.05, "sigma": math.sqrt(0.02), "scale": 0.25}
    met = all(math.isclose(getattr(r, k), v) for r in table.rows for k, v in reported.items())
    return (Premise("n, m, T, alpha, sigma and omega of Figure 1", met, size=True),)


# Figure 2 ------------------------------------------------------------------------------------------------------------


MORE = "clean accuracy in the largest dimension of the sweep less that of n > d"


def says_figure2(settings: None) -> Sequence[Statement]:
    """Once every label is fitted, test accuracy falls where n > d, and stays at 85 % where d > n."""
    text = "Section 5, Figure 2"
    return (
        equal(
            "runs of both panels that fit every label",
            SHARE,
            1.0,
            f"{text}: the network overfits to the noisy labels",
            axis="run",
            rival=0.0,
            rival_says="no run",
        ),
        at_least(
            "n > d: test accuracy lost from its best",
            POINTS,
            2.0,
            f"{text}: the test accuracy decreases; by two points at least",
            axis="run",
            rival=control("d > n: test accuracy lost from its best"),
            rival_says="that of high dimension",
            form="criterion",
        ),
        equal(
            "d > n: test accuracy at the end",
            PERCENT,
            85.0,
            f"{text}: optimal 85 % after the point of interpolation; within one point",
            margin=1.0,
            axis="run",
            rival=control("n > d: test accuracy at the end"),
            rival_says="that of low dimension",
            form="criterion",
        ),
        at_least(
            MORE,
            POINTS,
            2.0,
            f"{text}: harmful where n > d alone; by two points at least",
            rival=0.0,
            rival_says="no difference",
            form="criterion",
        ),
        at_most(
            "step size 0.1 against 2.0 at equal alpha x steps: mean difference in training accuracy",
            POINTS,
            100 / 60,
            "gradient descent follows the gradient flow: one of the 60 samples, on average over time",
            axis="seed",
            rival=control("the same at equal steps"),
            rival_says="curves that agree at equal steps",
            form="derived",
        ),
    )


def curve(
    points: Table[Point], part: str, seed: int, metric: str, steps: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """log of alpha x steps (or of steps), from 10 on, and a column."""
    rows = [r for r in points.where(part=part, seed=seed).rows if r.step * r.alpha >= 10]
    return np.log([r.step * (1 if steps else r.alpha) for r in rows]), np.array([getattr(r, metric) for r in rows])


def apart(points: Table[Point], seed: int, metric: str, steps: bool = False) -> np.ndarray:
    """Differences between a run at the reported step size and its twin, where both have evaluations."""
    (x, one), (z, two) = (curve(points, part, seed, metric, steps) for part in (REPORTED_RATE, TWIN))
    common = (x >= z[0] - 1e-9) & (x <= z[-1] + 1e-9)
    return np.abs(one[common] - np.interp(x[common], z, two))


def sees_figure2(settings: None, table: Table[Overfit], points: Table[Point]) -> Mapping[str, Observation]:
    """Every run."""
    panels = table.keep(lambda r: r.part not in (SWEEP,), "panels")
    low, high = table.where(part=LOW), table.keep(lambda r: r.part in (HIGH, REPORTED_RATE), "d > n")
    largest = max(r.d for r in table.where(part=SWEEP).rows)
    seeds = points.where(part=TWIN).units()
    return {
        "runs of both panels that fit every label": np.array([float(r.fitted_at is not None) for r in panels.rows]),
        "n > d: test accuracy lost from its best": low.column("drop"),
        "d > n: test accuracy at the end": high.column("test_acc"),
        "n > d: test accuracy at the end": float(low.column("test_acc").mean()),
        "d > n: test accuracy lost from its best": float(high.column("drop").mean()),
        MORE: table.paired("clean_acc", {"part": SWEEP, "d": largest}, {"part": LOW, "d": low.rows[0].d}),
        "step size 0.1 against 2.0 at equal alpha x steps: mean difference in training accuracy": np.array(
            [apart(points, s, "train").mean() for s in seeds]
        ),
        "the same at equal steps": np.array([apart(points, s, "train", True).mean() for s in seeds]),
    }


def size_of_figure2(settings: None, table: Table[Overfit], points: Table[Point]) -> tuple[Premise, ...]:
    """What Appendix E gives, and what it does not."""
    rates = sorted({r.alpha for r in table.rows})
    return (
        Premise("step size 0.1", rates == [0.1], f"{rates}", size=True),
        Premise("n, d and T of both panels", None, "not given"),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="amplification.theorem1",
        entries=("amplification.theorem1",),
        says="At T every clean training point is right and every noisy one wrong, and the test error is eta up to "
        "C sqrt(log(1/delta)/n), under A1 to A7 with one constant C.",
        statements=says_theorem,
        observe=sees_theorem,
        premises=in_regime,
        reads=(Fit,),
    ),
    Claim(
        id="amplification.theorem1_beyond",
        entries=("amplification.theorem1",),
        says="The same at the settings of Figure 2, with adversarial flips and with other laws of the clusters.",
        statements=says_beyond,
        observe=sees_beyond,
        premises=beyond,
        reads=(Fit,),
        remarks="A7 and A4 exclude one another at a step size of 0.1 with 15 % flips, whatever C is.",
    ),
    Claim(
        id="amplification.rate_comparison",
        entries=("amplification.rate_comparison",),
        says="The error falls with n and hardly grows with d, at fixed sigma^2 d, where isotropic XOR has sqrt(d/n).",
        statements=says_rate,
        observe=sees_rate,
        premises=few,
        reads=(Fit,),
        remarks="The premises admit both starts with the same C. From the larger one the error is smaller and grows "
        "with d towards that of the small one, which a bound free of d allows. Whether it grows faster than the "
        "criterion allows is open with 100 samples: 400 seeds had left it open, and were raised to 1,000, all that "
        "are not for choosing.",
    ),
    Claim(
        id="amplification.figure1",
        entries=("amplification.figure1",),
        says="In the plane the boundary after training on noisy labels is |x1| = |x2|.",
        statements=says_figure1,
        observe=sees_figure1,
        premises=size_of_figure1,
        reads=(Plane,),
    ),
    Claim(
        id="amplification.figure2",
        entries=("amplification.figure2",),
        says="Fitting noisy labels lowers the test accuracy where n exceeds d, and not where d exceeds n.",
        statements=says_figure2,
        observe=sees_figure2,
        premises=size_of_figure2,
        reads=(Overfit, Point),
        remarks="The exponent of d in the variance is hardly legible in our copy, in the caption and in Appendix E; it "
        "is read as 1.2. n, d and the number of steps are not given: those here are ours.",
    ),
)
