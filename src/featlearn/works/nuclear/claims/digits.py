"""What the rows of `nuclear/digits` say of the nuclear norm, by seed; its criterion stands at the experiment."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import POINTS, REAL
from featlearn.lab.statement import Outcome, Statement, at_least, at_most, equal
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, Observation, mean_of
from featlearn.works.nuclear.rows import Pair, Run, arms, by_seed, pairs

ARMS = "data and algorithm: coloured and turned digits, ERM and SWAD"


def premises(settings: None, table: Table[Run]) -> tuple[Premise, ...]:
    """What the tables and figures are about."""
    return (Premise("the paper's photographs and a pretrained ResNet-50", False, "digits, four convolutions"),)


def of_arms(table: Table[Run], read: Callable[[Pair], float], quantity: object = REAL) -> list[Estimate]:
    """The mean over seeds in every arm."""
    return [mean_of(by_seed(pairs(part), read), quantity, Run.unit) for part in arms(table).values()]  # pyright: ignore[reportArgumentType]


def moved(part: Table[Run], name: str, weight: float) -> list[float]:
    """By seed: how far a weight moves a measure at equal step size, accuracies in points, others as logarithms."""
    rate = next(r.rate for r in part.rows if r.weight > 0)
    one, two = (part.where(rate=rate, weight=w).per_unit(name) for w in (weight, 0.0))
    if name == "test":
        return [100 * (one[s] - two[s]) for s in one]
    return [math.log(one[s] / two[s]) for s in one]


# --- gains -----------------------------------------------------------------------------------------------------------

GAIN = "gain of the chosen weight over the chosen step size"


def gain_said(settings: None) -> tuple[Statement, ...]:
    """Figure 6.4: every bar is above 0. Table 6.1: nothing is lowered."""
    return (
        at_least(
            GAIN,
            POINTS,
            0.0,
            "Figure 6.4, every bar above 0",
            axis=ARMS,
            rival=-1.0,
            rival_says="a loss of a point",
            expect="inconclusive",
        ),
        at_least(
            f"{GAIN}, no loss of a point",
            POINTS,
            -1.0,
            "Table 6.1, in which no column of ERM or SWAD falls",
            of=GAIN,
            axis=ARMS,
            rival=-2.0,
            rival_says="a loss of two points",
            form="criterion",
            expect="inconclusive",
        ),
    )


def gain_observed(settings: None, table: Table[Run]) -> Mapping[str, Observation]:
    """Means over seeds of what validation chooses."""
    return {GAIN: of_arms(table, lambda p: p.gain, POINTS)}


# --- weights ---------------------------------------------------------------------------------------------------------


def weight_said(settings: None) -> tuple[Statement, ...]:
    """The published weight of 0.01, and 1, at equal step size."""
    return tuple(
        equal(
            f"change of the held-out accuracy at weight {weight:g}",
            POINTS,
            0.0,
            "nothing, to within a point",
            axis=ARMS,
            margin=1.0,
            rival=-3.0,
            rival_says="a loss of three points",
            form="criterion",
            expect="inconclusive",
        )
        for weight in (0.01, 1.0)
    )


def weight_observed(settings: None, table: Table[Run]) -> Mapping[str, Observation]:
    """Differences by seed."""
    return {
        f"change of the held-out accuracy at weight {weight:g}": [
            mean_of(moved(part, "test", weight), POINTS, Run.unit) for part in arms(table).values()
        ]
        for weight in (0.01, 1.0)
    }


# --- what the norm acts on -------------------------------------------------------------------------------------------

NORM = "logarithm of the nuclear norm of unseen features at the chosen weight, against none"
STABLE = "logarithm of their stable rank"


def mechanism_said(settings: None) -> tuple[Statement, ...]:
    """With a free head the penalty can act on scale: the norm falls, and the stable rank need not move."""
    return (
        at_most(
            NORM,
            REAL,
            -0.1,
            "equation 6.3: what is penalised falls",
            axis=ARMS,
            rival=0.0,
            rival_says="unchanged",
            form="criterion",
        ),
        equal(
            STABLE,
            REAL,
            0.0,
            "homogeneity (nuclear.method_loophole): a penalty on scale leaves ratios of singular values",
            axis=ARMS,
            margin=0.1,
            rival=-0.5,
            rival_says="a rank that falls as the norm does",
            form="criterion",
            expect="inconclusive",
        ),
    )


def mechanism_observed(settings: None, table: Table[Run]) -> Mapping[str, Observation]:
    """At the weight that validation chooses, against the run without the norm at the same step size."""
    return {
        NORM: of_arms(table, lambda p: math.log(p.with_.norm / p.same.norm)),
        STABLE: of_arms(table, lambda p: math.log(p.with_.rank / p.same.rank)),
    }


FALL = "logarithm of the stable rank of unseen features at the largest weight, against none"
RANK_OUTCOMES: tuple[Outcome, ...] = ("inconclusive", "contradicted", "confirmed")
FORMS = {"rank": FALL, "rank_centred": f"{FALL}, centred", "reported": f"{FALL}, norm not squared"}


def rank_said(settings: None) -> tuple[Statement, ...]:
    """Figure 6.5: the stable rank falls with lambda; which form, and whether centred, is not said."""
    return tuple(
        at_most(
            name,
            REAL,
            -0.1,
            "Figure 6.5, a fall by a tenth",
            axis=ARMS,
            rival=0.0,
            rival_says="unchanged",
            form="criterion",
            expect=expect,
        )
        for name, expect in zip(FORMS.values(), RANK_OUTCOMES, strict=True)
    )


def rank_observed(settings: None, table: Table[Run]) -> Mapping[str, Observation]:
    """By seed, at equal step size."""
    largest = float(np.max([r.weight for r in table.rows]))
    return {
        name: [mean_of(moved(part, metric, largest), REAL, Run.unit) for part in arms(table).values()]
        for metric, name in FORMS.items()
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="nuclear.digits_gain",
        entries=("nuclear.fig6_4", "nuclear.table6_1", "nuclear.table6_2"),
        says="On turned and coloured digits of an unseen domain the nuclear norm adds accuracy to ERM and to SWAD, "
        "both with searches of the same size.",
        statements=gain_said,
        observe=gain_observed,
        premises=premises,
        reads=(Run,),
        remarks="Degenerate runs (predictions that the colour alone gives) are counted in the table of the experiment.",
    ),
    Claim(
        id="nuclear.digits_weight",
        entries=("nuclear.method_ermnu", "nuclear.fig6_5"),
        says="At equal step size weights of 0.01 and of 1 change the held-out accuracy by less than a point.",
        statements=weight_said,
        observe=weight_observed,
        premises=premises,
        reads=(Run,),
    ),
    Claim(
        id="nuclear.digits_mechanism",
        entries=("nuclear.fig6_5", "nuclear.method_ermnu"),
        says="At the weight that validation chooses the nuclear norm of unseen features falls by a tenth or more; "
        "their stable rank moves by less.",
        statements=mechanism_said,
        observe=mechanism_observed,
        premises=premises,
        reads=(Run,),
    ),
    Claim(
        id="nuclear.digits_rank",
        entries=("nuclear.fig6_5", "nuclear.def_stable_rank"),
        says="The stable rank of features of unseen digits is lower at the largest weight than without.",
        statements=rank_said,
        observe=rank_observed,
        premises=premises,
        reads=(Run,),
        remarks="Figure 6.5 is of a ResNet-50 on photographs, which digits cannot contradict: the threshold is ours, "
        "and the figure does not say which form it shows. On coloured digits the centred form rises.",
    ),
)
