"""Universality against label efficiency on small images, from the rows of `tradeoff/curve`, paired by seed.

The sentences are about other images, so that a premise of every claim is unmet, and what comes out neither confirms nor
contradicts them. Thresholds, fixed before any row: a tenth of a point, a digit of Figure 7.1, and a hundredth of CKA.
"""

from collections.abc import Callable, Mapping, Sequence

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import PERCENT, POINTS, REAL
from featlearn.lab.statement import Statement, order
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, Observation, mean_of
from featlearn.works.tradeoff.rows_images import Alike, Encoded, Mode, Probed, arms, gaps

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


# --- the trade-off ---------------------------------------------------------------------------------------------------

LOSS = {m: f"accuracy on the target at 1 % of the labels, first less last of {m} mixtures" for m in MODES}
RISE = {m: f"average accuracy over all sources, last less first of {m} mixtures" for m in MODES}
LEARNT = "accuracy on the target at 1 % of the labels, first source less random start"
DROP = "Figures 7.1 and 7.3: accuracy on the target falls with more sources; a tenth of a point by our criterion"
GAIN = "Figures 7.1 and 7.3: the average over sources rises with more of them; a tenth of a point by our criterion"


def curve_said(settings: None) -> Sequence[Statement]:
    """Less on the target, more on average; and pretraining has learnt something at all."""
    common = {"axis": ARMS, "form": "criterion"}
    return (
        *(order(LOSS[m], PERCENT, DROP, delta=TENTH, rival_says="no trade-off", **common) for m in MODES),
        *(order(RISE[m], PERCENT, GAIN, delta=TENTH, rival_says="no gain", **common) for m in MODES),
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
            lambda part, one=one, end=end: part.where(share=ALL).paired("accuracy", end, one, over=("task",)),
        )
    one, none = {"mode": "growing", "number": 1}, {"mode": "start", "number": 0}
    seen[LEARNT] = of_arms(table, lambda part: on_target(part, FEW).paired("accuracy", one, none))
    return seen


# --- fewer labels ----------------------------------------------------------------------------------------------------

SHARPER: dict[Mode, str] = {
    m: f"loss on the target at 1 % of the labels less that at 100 %, {m} mixtures" for m in MODES
}


def fewer_said(settings: None) -> Sequence[Statement]:
    """The loss is larger with fewer labels."""
    return [
        order(
            name,
            POINTS,
            "Appendix F.3.2: with fewer labels the trade-off is more significant; a tenth of a point by our criterion",
            delta=TENTH,
            axis=ARMS,
            rival_says="the same loss at all shares",
            form="criterion",
        )
        for name in SHARPER.values()
    ]


def fewer_observed(settings: None, table: Table[Probed]) -> Mapping[str, Observation]:
    """Differences of differences, by seed."""

    def sharper(part: Table[Probed], mode: Mode) -> Estimate:
        arms_of = {"mode": mode, "number": 1}, {"mode": mode, "number": last(part, mode)}
        few, every = (gaps(on_target(part, share), "accuracy", *arms_of) for share in (FEW, ALL))
        return mean_of([few[seed] - every[seed] for seed in few], POINTS, Probed.unit)

    return {name: of_arms(table, lambda part, m=m: sharper(part, m)) for m, name in SHARPER.items()}


# --- similarity ------------------------------------------------------------------------------------------------------

TREND = "CKA of the first growing mixture with the second less that with the last"
STEPS = "CKA of the first growing mixture with the k-th less that with the next, k from 2"
APART = "CKA of growing mixtures that follow each other less that of single sources"
ROWS = "Figures 7.5 and F.3, right: similarity falls along each row; a hundredth by our criterion"


def cka_said(settings: None) -> Sequence[Statement]:
    """Further mixtures are less like the first, and single sources less like each other than neighbours are."""
    common = {"form": "criterion", "delta": HUNDREDTH}
    return (
        order(TREND, REAL, ROWS, axis=ARMS, rival_says="level", **common),
        order(STEPS, REAL, ROWS, axis=f"{ARMS}, k", rival_says="level", **common),
        order(
            APART,
            REAL,
            "Figures 7.5 and F.3, left: features of different sources have low similarities; a hundredth below those "
            "of neighbouring mixtures by our criterion",
            axis=ARMS,
            rival_says="sources are as alike as mixtures",
            **common,
        ),
    )


def cka_observed(settings: None, table: Table[Alike]) -> Mapping[str, Observation]:
    """Paired by seed: one start for all encoders of a seed."""
    trend, steps, apart = [], [], []
    for part in arms(table).values():
        first = part.where(mode="growing", one=1)
        end = max(r.two for r in first.rows)
        trend.append(first.paired("cka", {"two": 2}, {"two": end}))
        steps += [first.paired("cka", {"two": k}, {"two": k + 1}) for k in range(2, end)]
        near = part.keep(lambda r: r.mode == "growing" and r.two == r.one + 1, "mixtures that follow each other")
        one, two = near.per_unit("cka"), part.where(mode="single").per_unit("cka")
        apart.append(mean_of([one[seed] - two[seed] for seed in one], REAL, Alike.unit))
    return {TREND: trend, STEPS: steps, APART: apart}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="tradeoff.curve",
        entries=("tradeoff.fig7_1", "tradeoff.fig7_3", "tradeoff.figF_2", "tradeoff.figF_7", "tradeoff.tableF_1"),
        says="With more sources in pretraining the accuracy on the target with few labels falls and the average over "
        "all sources rises, in mixtures that grow and in mixtures of one size.",
        statements=curve_said,
        observe=curve_observed,
        premises=trained,
        reads=(Probed, Encoded),
        remarks="The first source is the target's own images, as in Figure F.7.",
    ),
    Claim(
        id="tradeoff.curve_fewer_labels",
        entries=("tradeoff.figF_2", "tradeoff.tableF_2", "tradeoff.tableF_4"),
        says="The loss of accuracy on the target from one source to all of them is larger with 1 % of its labels than "
        "with all.",
        statements=fewer_said,
        observe=fewer_observed,
        premises=images,
        reads=(Probed,),
    ),
    Claim(
        id="tradeoff.curve_similarity",
        entries=("tradeoff.fig7_5", "tradeoff.figF_3"),
        says="Features of the target become less like those of the first source with every source that is added, and "
        "features of single sources are less alike than those of mixtures that follow each other.",
        statements=cka_said,
        observe=cka_observed,
        premises=images,
        reads=(Alike,),
    ),
)
