"""Universality against label efficiency on small images, from the rows of `tradeoff/curve`, paired by seed.

The sentences are about other images, so that a premise of every claim is unmet, and what comes out neither confirms nor
contradicts them. Thresholds, fixed before any row: a tenth of a point, a digit of Figure 7.1, whose effect is twelve
points; a hundredth of log-odds, a tenth of a point at an accuracy of 90 %; and a hundredth of CKA.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import PERCENT, POINTS, REAL, Quantity
from featlearn.lab.statement import Outcome, Statement, order
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, Observation, mean_of
from featlearn.works.tradeoff.rows_images import Alike, Encoded, Mode, Probed, arms

MODES: tuple[Mode, ...] = ("growing", "fixed")
TENTH, HUNDREDTH = 0.1, 0.01
FEW, ALL = 0.01, 1.0
ARMS = "target and method"
IMAGES = Premise("images of the paper (CINIC-10, SVHN, ...), ResNet-18", False, "MNIST and Fashion-MNIST here")
SPREAD = 0.1
"""Below it `learn.contrastive` calls embeddings collapsed."""


def images(settings: object, *tables: Table) -> tuple[Premise, ...]:
    """What the figures are about."""
    return (IMAGES,)


def trained(settings: None, probed: Table[Probed], encoded: Table[Encoded]) -> tuple[Premise, ...]:
    """The images, and that pretraining has not collapsed."""
    least = min(r.spread for r in encoded.rows if r.spread is not None)
    return IMAGES, Premise("no encoder has collapsed", least >= SPREAD, f"least spread {least:.2g}")


def last(table: Table[Probed], mode: Mode) -> int:
    """The number of the mixture of all sources."""
    return max(r.number for r in table.where(mode=mode).rows)


def of_arms(table: Table[Probed], read: Callable[[Table[Probed]], Estimate]) -> list[Estimate]:
    """An estimate of every target and method."""
    return [read(part) for part in arms(table).values()]


def on_target(part: Table[Probed], share: float) -> Table[Probed]:
    """Probes of the target itself."""
    return part.where(task=part.rows[0].target, share=share)


def found(name: str) -> Outcome:
    """The outcome that the rows of the preset cpu gave."""
    return "inconclusive" if name in OPEN else "confirmed"


# --- the trade-off ---------------------------------------------------------------------------------------------------

LOSS = {m: f"accuracy on the target at 1 % of the labels, first less last of {m} mixtures" for m in MODES}
RISE = {m: f"average accuracy over all sources, last less first of {m} mixtures" for m in MODES}
OVERLAP = (
    "Labelled images are among those of pretraining, all of them in growing mixtures and fewer in fixed ones of more "
    "sources. "
)
LEARNT = "accuracy on the target at 1 % of the labels, first source less random start"
DROP = "Figures 7.1 and 7.3: accuracy on the target falls with more sources; a tenth of a point by our criterion"
GAIN = "Figures 7.1 and 7.3: the average over sources rises with more of them; a tenth of a point by our criterion"


def curve_said(settings: None) -> Sequence[Statement]:
    """Less on the target, more on average; and pretraining has learnt something at all."""
    common = {"axis": ARMS, "form": "criterion"}
    return (
        *(order(LOSS[m], PERCENT, DROP, delta=TENTH, rival_says="no trade-off", **common) for m in MODES),
        *(
            order(RISE[m], PERCENT, GAIN, delta=TENTH, rival_says="no gain", **common, expect=found(RISE[m]))
            for m in MODES
        ),
        order(
            LEARNT,
            PERCENT,
            "a control: pretraining on the target's own images is of use",
            delta=TENTH,
            rival_says="as good as a random start",
            **common,
        ),
    )


def curve_observed(settings: None, table: Table[Probed], encoded: Table[Encoded]) -> Mapping[str, Observation]:
    """Paired over seeds."""
    seen: dict[str, Observation] = {}
    for mode in MODES:
        one, end = {"mode": mode, "number": 1}, {"mode": mode, "number": last(table, mode)}
        seen[LOSS[mode]] = of_arms(
            table, lambda part, one=one, end=end: on_target(part, FEW).paired("accuracy", one, end)
        )
        seen[RISE[mode]] = of_arms(
            table,
            lambda part, one=one, end=end: part.where(share=ALL).paired(
                "accuracy", end, one, over=("task",), meant="the average over all sources, as the source has it"
            ),
        )
    one, none = {"mode": "growing", "number": 1}, {"mode": "start", "number": 0}
    seen[LEARNT] = of_arms(table, lambda part: on_target(part, FEW).paired("accuracy", one, none))
    return seen


# --- fewer labels ----------------------------------------------------------------------------------------------------

SHARPER: dict[Mode, str] = {
    m: f"loss on the target at 1 % of the labels less that at 100 %, {m} mixtures" for m in MODES
}
ODDS: dict[Mode, str] = {
    m: f"loss of log-odds on the target at 1 % of the labels less that at 100 %, {m} mixtures" for m in MODES
}


def fewer_said(settings: None) -> Sequence[Statement]:
    """The loss is larger with fewer labels, in points and in log-odds, which a ceiling does not shrink."""
    source = "Appendix F.3.2: with fewer labels the trade-off is more significant; a {} by our criterion"
    return [
        order(
            name,
            quantity,
            source.format(words),
            delta=delta,
            axis=ARMS,
            rival_says="the same loss at all shares",
            form="criterion",
            expect=found(name),
        )
        for names, quantity, words, delta in (
            (SHARPER, POINTS, "tenth of a point", TENTH),
            (ODDS, REAL, "hundredth of log-odds", HUNDREDTH),
        )
        for name in names.values()
    ]


def fewer_observed(settings: None, table: Table[Probed]) -> Mapping[str, Observation]:
    """Differences of differences, by seed."""

    def sharper(part: Table[Probed], mode: Mode, of: Callable[[float], float], quantity: Quantity) -> Estimate:
        def lost(share: float) -> np.ndarray:
            arms_of = (part.where(mode=mode, number=n) for n in (1, last(part, mode)))
            first, end = (on_target(arm, share).per_unit("accuracy") for arm in arms_of)
            return np.array([of(value) - of(end[seed]) for seed, value in first.items()])

        return mean_of(lost(FEW) - lost(ALL), quantity, Probed.unit)

    return {
        names[m]: of_arms(table, lambda part, m=m, of=of, quantity=quantity: sharper(part, m, of, quantity))
        for names, of, quantity in ((SHARPER, float, POINTS), (ODDS, log_odds, REAL))
        for m in MODES
    }


def log_odds(percent: float) -> float:
    """Infinite at 0 and 100."""
    return math.log(percent / (100 - percent)) if 0 < percent < 100 else math.copysign(math.inf, percent - 50)


# --- similarity ------------------------------------------------------------------------------------------------------

TREND = "CKA of the first growing mixture with the second less that with the last"
STEPS = "CKA of a growing mixture with a later one less that with the next, along each row"
APART = "CKA of growing mixtures that follow each other less that of single sources"
ROWS = "Figures 7.5 and F.3, right: similarity falls along each row; a hundredth by our criterion"


def cka_said(settings: None) -> Sequence[Statement]:
    """Further mixtures are less like the first, and single sources less like each other than neighbours are."""
    common = {"form": "criterion", "delta": HUNDREDTH}
    return (
        order(TREND, REAL, ROWS, axis=ARMS, rival_says="level", **common),
        order(STEPS, REAL, ROWS, axis=f"{ARMS}, row and column", rival_says="level", **common, expect=found(STEPS)),
        order(
            APART,
            REAL,
            "Figures 7.5 and F.3, left: features of different sources have low similarities; compared with those of "
            "neighbouring mixtures, and a hundredth, by our criterion",
            axis=ARMS,
            rival_says="sources are as alike as mixtures",
            **common,
        ),
    )


def cka_observed(settings: None, table: Table[Alike]) -> Mapping[str, Observation]:
    """Paired by seed: one start for all encoders of a seed."""
    trend, steps, apart = [], [], []
    for part in arms(table).values():
        growing = part.where(mode="growing")
        end = max(r.two for r in growing.rows)
        trend.append(growing.where(one=1).paired("cka", {"two": 2}, {"two": end}))
        for one, row in growing.by("one").items():
            steps += [row.paired("cka", {"two": k}, {"two": k + 1}) for k in range(one + 1, end)]
        near = part.keep(lambda r: r.mode == "growing" and r.two == r.one + 1, "mixtures that follow each other")
        one, two = near.per_unit("cka"), part.where(mode="single").per_unit("cka")
        apart.append(mean_of([one[seed] - two[seed] for seed in one], REAL, Alike.unit))
    return {TREND: trend, STEPS: steps, APART: apart}


OPEN = (RISE["growing"], SHARPER["growing"], *ODDS.values(), STEPS)
"""Statements that the rows leave open: with growing mixtures the average does not rise, and the loss on MNIST is about
the same at all shares; with fixed ones log-odds tell it on one target of two; one step of six along rows is level."""

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="tradeoff.curve",
        entries=("tradeoff.fig7_1", "tradeoff.fig7_3", "tradeoff.figF_2", "tradeoff.figF_7", "tradeoff.tableF_1"),
        says="From the target's own images alone to all four sources in pretraining the accuracy on the target with "
        "few labels falls and the average over all sources rises, in mixtures that grow and in mixtures of one size.",
        statements=curve_said,
        observe=curve_observed,
        premises=trained,
        reads=(Probed, Encoded),
        remarks="Neither kind of mixture isolates diversity: in fixed ones the target's own images fall to a quarter, "
        "which appendix F.3.3 names as hiding the trade-off (Figure F.5 keeps their number), and growing ones have "
        "four times the steps; both have one first encoder, of the target's own images, as in Figure F.7. "
        + OVERLAP
        + "The average is nearly bound to rise: three of the four tasks are variants of a data set that the first "
        "encoder never saw. It is taken with all labels, the loss with 1 %; Figures F.9 to F.13 use one share for "
        "both. The few features were chosen so that sources compete, which favours the phenomenon; the probe's weight "
        "decay is one for all shares. A tenth of a point is small beside the twelve of Figure 7.1: read the size. "
        "Seeds share test images, and their training images overlap, so that intervals leave out the sampling of data; "
        "there are two targets. The preset paper has neither the paper's data nor its epochs.",
    ),
    Claim(
        id="tradeoff.curve_fewer_labels",
        entries=("tradeoff.figF_2", "tradeoff.tableF_2", "tradeoff.tableF_4"),
        says="The loss of accuracy on the target from one source to all of them is larger with 1 % of its labels than "
        "with all, in points and in log-odds.",
        statements=fewer_said,
        observe=fewer_observed,
        premises=images,
        reads=(Probed,),
        remarks="Near the ceiling a loss in points shrinks by itself, so that points alone say little. Differences of "
        "differences are not checked for room. " + OVERLAP + "Intervals are over seeds of the same data.",
    ),
    Claim(
        id="tradeoff.curve_similarity",
        entries=("tradeoff.fig7_5", "tradeoff.figF_3"),
        says="Features of the target become less alike along each row of growing mixtures, and those of single sources "
        "are less alike than those of mixtures that follow each other.",
        statements=cka_said,
        observe=cka_observed,
        premises=images,
        reads=(Alike,),
        remarks="That sources are less alike than neighbouring mixtures is our comparison: the text says 'low'. Three "
        "of the single sources are one data set as it is, turned and inverted.",
    ),
)
