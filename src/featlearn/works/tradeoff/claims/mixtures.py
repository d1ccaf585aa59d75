"""What pretraining on mixtures learns and what linear probing on one of their tasks loses, read from rows.

Seeds draw samples of one law, so that intervals are the error of a simulation and not the spread of data sets.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import roots_genlaguerre

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import EXPONENT, POSITIVE, REAL
from featlearn.lab.statement import Statement, at_most, equal, exponent, order
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.works.tradeoff.rows import CLOSED, EVEN, TRAINED, TUNED, UNEVEN, Learned, Probe

TASKS, FAR, LABELS = (1, 2, 4, 8, 16), (16, 64, 256), (5, 10, 15)
R, S, SPURIOUS, WEIGHT = 20, 10, 10, 0.55
CLOSE = 0.01
DELTA = 0.004
"""Half a per cent of sqrt(2/pi), the risk of the zero predictor at ||u|| = 1."""
FAILURE = 0.05
"""The delta of the bound."""


def features(t: int) -> int:
    """Invariant features of t tasks."""
    return S + t * (R - S)


# what is learned -----------------------------------------------------------------------------------------------------


def program() -> tuple[float, float]:
    """(alpha_1, alpha_2) of program (F.40) for two tasks of weights 0.55 and 0.45 at alpha = 1, where the budget leaves
    alpha_1 + alpha_2 = 1: chi-square variables by Gauss-Laguerre nodes, logistic loss at temperature r."""
    x, w = roots_genlaguerre(60, S / 2 - 1)
    z, p = 2 * x, np.outer(w, w) / w.sum() ** 2

    def loss(one: float) -> float:
        means = [(p * np.logaddexp(0, -(z[:, None] + a * z[None]) / R)).sum() for a in (one, 1 - one)]
        return float(WEIGHT * means[0] + (1 - WEIGHT) * means[1])

    found = float(minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-10}).x)
    return found, 1 - found


def says_learned(settings: None) -> Sequence[Statement]:
    """1 on S, 1/T on P, 0 on U for even mixtures (Proposition F.8); the optimum of (F.40) for an uneven one."""
    t, several = np.array(TASKS), np.array(TASKS[1:])
    even = R / np.array([features(v) for v in TASKS])
    start = R / np.array([features(v) + SPURIOUS for v in TASKS])
    same = "the budget shared evenly by all invariant features"
    source, axis = "Proposition F.8, Lemma F.3", "tasks"
    return (
        equal("shared", POSITIVE, 0 * t + 1.0, source, margin=CLOSE, axis=axis, rival=even, rival_says=same),
        equal("the target's own", POSITIVE, 1 / t, source, margin=CLOSE, axis=axis, rival=even, rival_says=same),
        equal(
            "other tasks' own", POSITIVE, 1 / several, source, margin=CLOSE, axis=axis, rival=even[1:], rival_says=same
        ),
        equal("spurious", POSITIVE, 0 * t + 0.0, source, margin=CLOSE, axis=axis, rival=start, rival_says="the start"),
        equal(
            "the target's and the other's own, weights 0.55 and 0.45",
            POSITIVE,
            np.array(program()),
            "Lemma F.3, program (F.40)-(F.42)",
            margin=CLOSE,
            axis="task",
            rival=np.array([WEIGHT, 1 - WEIGHT]),
            rival_says="weights of the mixture",
        ),
    )


def sees_learned(settings: None, table: Table[Learned]) -> Mapping[str, Observation]:
    """Means over seeds of the diagonal of (WM)^T WM."""
    even = [table.where(mixture=EVEN, tasks=t) for t in TASKS]
    uneven = table.where(mixture=UNEVEN, tasks=2, weight=WEIGHT)
    return {
        "shared": [p.mean("shared") for p in even],
        "the target's own": [p.mean("own") for p in even],
        "other tasks' own": [p.mean("other") for p in even[1:]],
        "spurious": [p.mean("spurious") for p in even],
        "the target's and the other's own, weights 0.55 and 0.45": [uneven.mean("own"), uneven.mean("other")],
    }


def example(settings: None, table: Table[Learned] | Table[Probe]) -> Sequence[Premise]:
    """The example of section 7.2.2."""
    sizes = {(r.r, r.s) for r in table.rows}
    return (
        Premise("r = 2s", all(r == 2 * s for r, s in sizes)),
        Premise("r = 20 and s = 10, as the statements have them", sizes == {(R, S)}, str(sorted(sizes))),
    )


# measured risk -------------------------------------------------------------------------------------------------------


def says_worse(settings: None) -> Sequence[Statement]:
    """phi* "has worse performance on the specific task" than phi_t*, for every T >= 2 and m < r."""
    source, axis = "Section 7.2.2, 'Difference in Learned Features Leads to the Trade-off'", "labels and tasks"
    return tuple(
        order(f"risk on {what} of T = 2, 4, 8, 16 less that of T = 1", POSITIVE, source, delta=DELTA, axis=axis)
        for what in ("closed forms", "trained representations")
    )


def sees_worse(settings: None, table: Table[Probe]) -> Mapping[str, Observation]:
    """Differences by seed."""
    return {
        f"risk on {what} of T = 2, 4, 8, 16 less that of T = 1": [
            table.where(representation=name, m=m).paired("risk", {"tasks": t}, {"tasks": 1})
            for m in LABELS
            for t in TASKS[1:]
        ]
        for what, name in (("closed forms", CLOSED), ("trained representations", TRAINED))
    }


GROWTH = {
    CLOSED: "exponent of the risk in T from each T to the next, closed forms, T = 1 to 256",
    TRAINED: "exponent of the risk in T from each T to the next, trained representations, T = 1 to 16",
}
SLOWER = 0.4
"""1/2 less the margin of 0.1 within which a rate counted as sqrt(T) before any row."""


def says_rate(settings: None) -> Sequence[Statement]:
    """The risk of the minimiser of least norm grows by less than sqrt(T)."""
    return [
        exponent(
            name,
            "at most",
            SLOWER,
            "our reading of section 7.2.2, 'O(sqrt(T)) worse': the rate of measured risk, minimiser of least norm",
            axis="labels and T",
            rival=0.5,
            rival_says="a rate of sqrt(T)",
            form="derived",
        )
        for name in GROWTH.values()
    ]


def grid(table: Table[Probe], name: str, column: str, m: int, tasks: Sequence[int]) -> np.ndarray:
    """(seeds, tasks)."""
    arms = [table.where(representation=name, m=m, tasks=t).per_unit(column) for t in tasks]
    return np.array([[arm[unit] for arm in arms] for unit in sorted(arms[0])])


def sees_rate(settings: None, table: Table[Probe]) -> Mapping[str, Observation]:
    """Slopes of log risk by seed, for each number of labels."""
    found: dict[str, Observation] = {}
    for name, tasks in ((CLOSED, TASKS + FAR[1:]), (TRAINED, TASKS)):
        risks = np.log([grid(table, name, "risk", m, tasks) for m in LABELS])
        slopes = np.diff(risks, axis=2) / np.diff(np.log(tasks))
        found[GROWTH[name]] = [mean_of(v, EXPONENT, Probe.unit) for each in slopes for v in each.T]
    return found


FEW, MANY = (
    "worst risk at T = 256 over that at T = 16, m = 5 < s",
    "worst risk at T = 256 over that at T = 16, m = 15 > s",
)


def says_worst(settings: None) -> Sequence[Statement]:
    """Of all empirical risk minimisers in F the worst loses sqrt(T) where m < s: then a direction of shared features is
    free, along which predictors of norm B = sqrt((1 + T)/2) differ by up to 2B. For m > s none is, and they differ by
    B/sqrt(T) times a constant."""
    return (
        equal(
            FEW,
            POSITIVE,
            4.0,
            "Section 7.2.2: O(sqrt(T)), for the worst empirical risk minimiser in F",
            margin=0.6,
            rival=2.0,
            rival_says="the fourth root of T",
            form="criterion",
        ),
        at_most(
            MANY,
            POSITIVE,
            2.0,
            "m > s samples fix shared features up to terms of order 1/sqrt(T)",
            rival=4.0,
            rival_says="sqrt(T), as where m < s",
            form="derived",
        ),
    )


def sees_worst(settings: None, table: Table[Probe]) -> Mapping[str, Observation]:
    """Ratios by seed."""
    found = {}
    for name, m in ((FEW, 5), (MANY, 15)):
        worst = grid(table, CLOSED, "worst", m, (16, 256))
        found[name] = mean_of(worst[:, 1] / worst[:, 0], POSITIVE, Probe.unit)
    return found


BETTER, STILL = "risk at T = 16 less that at the optimum of F.9", "risk at the optimum of F.9 less that at T = 1"


def says_tuned(settings: None) -> Sequence[Statement]:
    """The optimum of Proposition F.9 within gamma = 1 has a larger weight of the target's features and so a lower risk;
    below 1 it does not reach the specific representation."""
    return (
        order(
            BETTER,
            POSITIVE,
            "Section 7.2.2, 'Improving the Trade-off': better prediction; F.2.4",
            delta=DELTA,
            axis="labels",
        ),
        order(STILL, POSITIVE, "Proposition F.9: sqrt(beta) < 1", delta=DELTA, axis="labels", form="derived"),
    )


def sees_tuned(settings: None, table: Table[Probe]) -> Mapping[str, Observation]:
    """Differences by seed."""
    arms = [table.where(m=m) for m in LABELS]
    universal, specific = {"representation": CLOSED, "tasks": 16}, {"representation": CLOSED, "tasks": 1}
    tuned = {"representation": TUNED, "tasks": 16}
    return {
        BETTER: [part.paired("risk", universal, tuned) for part in arms],
        STILL: [part.paired("risk", tuned, specific) for part in arms],
    }


BOUND = "worst risk over the bound of Proposition 7.3, delta = 0.05"


def says_bound(settings: None) -> Sequence[Statement]:
    """4 L sqrt((v1 + T v2)/m) sqrt(s + (r - s)/T) + 8 sqrt(2 ln(4/delta)/m) bounds the risk of every minimiser in F."""
    bounds = [
        4 * math.sqrt((1 + t) / 2 / m * (S + (R - S) / t)) + 8 * math.sqrt(2 * math.log(4 / FAILURE) / m)
        for m in LABELS
        for t in TASKS
    ]
    return (
        at_most(
            BOUND,
            REAL,
            np.ones(len(bounds)),
            "Proposition 7.3 without its O()",
            axis="labels and tasks",
            trivial=math.sqrt(2 / math.pi) / np.array(bounds),
            trivial_says="the zero predictor",
            expect="too weak to test",
        ),
    )


def sees_bound(settings: None, table: Table[Probe]) -> Mapping[str, Observation]:
    """Of closed forms."""
    found = []
    for m in LABELS:
        rest = 8 * math.sqrt(2 * math.log(4 / FAILURE) / m)
        for t in TASKS:
            mean = math.sqrt((S + (R - S) / t) * (1 + t) / (2 * m))
            worst = grid(table, CLOSED, "worst", m, (t,))[:, 0]
            found.append(mean_of(worst / (4 * mean + rest), REAL, Probe.unit))
    return {BOUND: found}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="tradeoff.pretraining",
        entries=("tradeoff.propF_8", "tradeoff.lemmaF_3", "tradeoff.prop7_3", "tradeoff.prop7_4"),
        says="Projected SGD on samples of a mixture finds the weights of Lemma F.3 and Proposition F.8.",
        statements=says_learned,
        observe=sees_learned,
        premises=example,
        reads=(Learned,),
    ),
    Claim(
        id="tradeoff.risk_worse",
        entries=("tradeoff.propF_8", "tradeoff.prop7_4"),
        says="A representation of more tasks has worse performance on each of them.",
        statements=says_worse,
        observe=sees_worse,
        premises=example,
        reads=(Probe,),
    ),
    Claim(
        id="tradeoff.sqrt_T",
        entries=("tradeoff.propF_8",),
        says="The measured risk of the minimiser of least norm grows with T by less than sqrt(T).",
        statements=says_rate,
        observe=sees_rate,
        premises=example,
        reads=(Probe,),
        remarks="'O(sqrt(T)) worse' compares bounds in the text and is an upper bound: as that it stands, and no risk "
        "tests it, since the zero predictor stays below it too. That the risk of least norm grows more slowly follows "
        "from its limit as T grows, sample by sample, and takes nothing from the sentence; the worst empirical risk "
        "minimiser grows as sqrt(T) for m < s (tradeoff.worst_risk).",
    ),
    Claim(
        id="tradeoff.worst_risk",
        entries=("tradeoff.propF_8", "tradeoff.prop7_3"),
        says="The worst empirical risk minimiser of norm at most B loses sqrt(T) where there are fewer labels than "
        "shared features.",
        statements=says_worst,
        observe=sees_worst,
        premises=example,
        reads=(Probe,),
        remarks="4 is the limit for large T: B alone makes sqrt(257/17) = 3.89 of T = 16 and 256, and what else falls "
        "with T takes the measured ratio near to the lower end of the limits, which were set before the rows. For "
        "m = s = 10, where neither argument applies, nothing is predicted.",
    ),
    Claim(
        id="tradeoff.risk_bound",
        entries=("tradeoff.prop7_3", "tradeoff.lemmaF_5"),
        says="Risks of empirical risk minimisers are below the bound of Proposition 7.3.",
        statements=says_bound,
        observe=sees_bound,
        premises=example,
        reads=(Probe,),
        remarks="With labels that are linear and have no noise no m tests the bound: below r its first term alone is "
        "at least 4 ||u||, five times the risk of the zero predictor, and from r on the risk is 0.",
    ),
    Claim(
        id="tradeoff.risk_tuned",
        entries=("tradeoff.propF_9",),
        says="The optimum of contrastive fine-tuning on the target (Proposition F.9) has a lower risk of linear "
        "probing on it than the universal representation, and a higher one than the specific.",
        statements=says_tuned,
        observe=sees_tuned,
        premises=example,
        reads=(Probe,),
        remarks="Weights are those of the proposition; nothing is trained here.",
    ),
)
