"""Filters of a residual network on two classes of images, from the rows of `emergence/filters`, paired by seed.

Figures 20 and 21 and Table 7 are of CIFAR-10 and ResNet(128) and ResNet(256): on other images a premise is unmet, and
what comes out says nothing of them: they wait for their images. Thresholds stand in the experiment, fixed before any
row. Controls, the start and shuffled labels, are ours; the paper has none.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import COSINE, PERCENT, SHARE
from featlearn.lab.statement import Outcome, Statement, at_least, control, order
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, Observation, mean_of
from featlearn.works.emergence.rows_images import Early, Grouped, Moved, Trained

T = TypeVar("T", Early, Grouped, Moved, Trained)
PAIR = "CIFAR-10 airplane/automobile"
WALK = math.sqrt(3) / (math.sqrt(3) + math.sqrt(17))
"""The early share of steps of one length in random directions, 3 epochs and 17."""
FIGURES = ("emergence.figure20", "emergence.figure21")
BLOCKS, NETWORKS = "network and stage", "network"


def form(axis: str, rival_says: str) -> dict[str, Any]:
    """Of a criterion of ours."""
    return {"axis": axis, "rival_says": rival_says, "form": "criterion"}


def images(settings: None, *tables: Table[Any]) -> tuple[Premise, ...]:
    """What the figures are about."""
    pairs, widths = ({getattr(r, name) for r in tables[0].rows} for name in ("pair", "width"))
    return (
        Premise(f"images of the paper ({PAIR})", pairs == {PAIR}, ", ".join(sorted(pairs))),
        Premise("ResNet(128) and ResNet(256)", widths == {128, 256}, ", ".join(map(str, sorted(widths))), size=True),
        Premise(
            "optimiser, step size, batch and augmentation of the paper",
            None,
            "momentum 0.95 if the section's sentence on two layers covers residual networks, 0.9 here; no others given",
        ),
    )


def each(table: Table[T], read: Callable[[Table[T]], Estimate], *by: str) -> list[Estimate]:
    """An estimate of every network, or of every network and stage."""
    return [read(part) for part in table.by("width", *by).values()]


TRUE, SHUFFLED = {"labels": "true"}, {"labels": "shuffled"}
RIGHT = "test accuracy with true labels less with shuffled ones"


def learnt() -> Statement:
    """A control: without it nothing is said of filters."""
    source = "a control: true labels are learnt; ten points by our criterion"
    return order(RIGHT, PERCENT, source, delta=10.0, **form(NETWORKS, "nothing is learnt"))


def sees_learnt(trained: Table[Trained]) -> list[Estimate]:
    """By network."""
    return each(trained, lambda part: part.paired("test_acc", TRUE, SHUFFLED))


def found(name: str) -> Outcome:
    """The outcome that the rows of the preset cpu gave: other images and smaller networks than those of the figures."""
    return "inconclusive" if name in OPEN else "contradicted"


# --- movement --------------------------------------------------------------------------------------------------------

FIRST = "share of the change from epoch 0 to 3 in that and the change from 3 to 20"
LESS = "the same with true labels less with shuffled ones"


def says_moved(settings: None) -> Sequence[Statement]:
    """The early change is the larger one, and labels are what makes it."""
    text = "Section E.4.1: the change between Epoch 0 and Epoch 3 is much more significant than between 3 and 20"
    walk = {"rival": WALK, **form(BLOCKS, "steps of one length in random directions")}
    return [
        at_least(FIRST, SHARE, 0.5, f"{text}; the larger of two norms by our criterion", **walk, expect=found(FIRST)),
        order(
            LESS,
            SHARE,
            f"{text}, which shows that features are learnt then; a twentieth by our criterion",
            delta=0.05,
            **form(BLOCKS, "any labels do"),
            expect=found(LESS),
        ),
        learnt(),
    ]


def sees_moved(settings: None, moved: Table[Moved], trained: Table[Trained]) -> Mapping[str, Observation]:
    """By network and stage."""
    return {
        FIRST: each(moved.where(labels="true"), lambda part: part.mean("early_share"), "stage"),
        LESS: each(moved, lambda part: part.paired("early_share", TRUE, SHUFFLED), "stage"),
        RIGHT: sees_learnt(trained),
    }


# --- groups ----------------------------------------------------------------------------------------------------------

NEAR = {
    "start": "mean cosine with the centre of a group at the end less at the start",
    "shuffled": "mean cosine with the centre of a group at the end less with shuffled labels",
}
APART = {
    "start": "cosine of the two centres at the start less at the end",
    "shuffled": "cosine of the two centres with shuffled labels less with true ones",
}
RIVALS = {"start": "as at the start", "shuffled": "any labels do"}


def says_groups(settings: None) -> Sequence[Statement]:
    """Two groups that are tighter and further apart than the same rule finds in either control."""
    text = "Section E.4.1, captions: cosines with the centres of 0.43 to 0.74, between them of -0.51 to -0.97"
    text += "; a tenth beyond a control by our criterion"
    return [
        *(order(NEAR[c], COSINE, text, delta=0.1, **form(BLOCKS, RIVALS[c]), expect=found(NEAR[c])) for c in RIVALS),
        *(order(APART[c], COSINE, text, delta=0.1, **form(BLOCKS, RIVALS[c]), expect=found(APART[c])) for c in RIVALS),
        learnt(),
    ]


def sees_groups(settings: None, grouped: Table[Grouped], trained: Table[Trained]) -> Mapping[str, Observation]:
    """By network and stage; groups of one rule, chosen anew everywhere."""
    anew = grouped.where(chosen="there")
    true, end = anew.where(labels="true"), anew.where(snapshot="end")
    first, last = {"snapshot": "start"}, {"snapshot": "end"}
    return {
        NEAR["start"]: each(true, lambda part: part.paired("to_centre", last, first), "stage"),
        NEAR["shuffled"]: each(end, lambda part: part.paired("to_centre", TRUE, SHUFFLED), "stage"),
        APART["start"]: each(true, lambda part: part.paired("centres", first, last), "stage"),
        APART["shuffled"]: each(end, lambda part: part.paired("centres", SHUFFLED, TRUE), "stage"),
        RIGHT: sees_learnt(trained),
    }


# --- the larger network ----------------------------------------------------------------------------------------------

TIGHTER = "gain of the mean cosine of two filters of a group over the start, largest network less smallest"
FURTHER = "fall of the cosine of the two centres from the start, largest network less smallest"


def says_larger(settings: None) -> Sequence[Statement]:
    """The larger network clusters more, in every stage."""
    text = "Section E.4.1: ResNet(256) clusters more than ResNet(128); two hundredths by our criterion"
    return [
        order(TIGHTER, COSINE, text, delta=0.02, **form("stage", "alike"), expect=found(TIGHTER)),
        order(FURTHER, COSINE, text, delta=0.02, **form("stage", "alike"), expect=found(FURTHER)),
    ]


def sees_larger(settings: None, grouped: Table[Grouped]) -> Mapping[str, Observation]:
    """Differences of gains over the start of one size, by seed: both sizes of a seed have its images and order."""
    true = grouped.where(chosen="there", labels="true")
    widths = sorted({r.width for r in true.rows})

    def gain(part: Table[Grouped], width: int, column: str) -> dict[Any, float]:
        start, end = (part.where(width=width, snapshot=s).per_unit(column) for s in ("start", "end"))
        return {seed: end[seed] - start[seed] for seed in end}

    def larger(part: Table[Grouped], column: str, sign: float) -> Estimate:
        most, least = (gain(part, w, column) for w in (widths[-1], widths[0]))
        return mean_of([sign * (most[s] - least[s]) for s in most], COSINE_DIFFERENCE, Grouped.unit)

    stages = true.by("stage").values()
    return {
        TIGHTER: [larger(part, "within", 1.0) for part in stages],
        FURTHER: [larger(part, "centres", -1.0) for part in stages],
    }


COSINE_DIFFERENCE = order("", COSINE, "its range", delta=1.0).quantity


# --- early gradients -------------------------------------------------------------------------------------------------

MEANS, PAIRS = ("cos_v1_vbar", "cos_v2_vbar", "cos_v3_vbar"), ("cos_v1_v2", "cos_v1_v3", "cos_v2_v3")
BETWEEN = "three cosines between mean gradients of ten steps, of the chosen filter"
MIXED = "three cosines between mean gradients of ten steps, of different filters"
TO_MEAN = "three cosines with the mean less those of three different filters"
NOT_SHUFFLED = "six cosines with true labels less with shuffled ones, on average"
COLUMNS = "network and column of Table 7"


def says_early(settings: None) -> Sequence[Statement]:
    """Cosines above 0.4 that different filters do not have, and labels make them."""
    text = "Section E.4.1, Table 7: gradients of the early steps point to similar directions"
    return [
        at_least(
            BETWEEN,
            COSINE,
            0.4,
            f"{text}; 0.4 by its check in the inventory",
            rival=control(MIXED),
            **form(COLUMNS, "v1, v2 and v3 of different filters"),
            expect=found(BETWEEN),
        ),
        order(
            TO_MEAN,
            COSINE,
            f"{text}; more than vectors without a common direction have with their mean, a tenth by our criterion",
            delta=0.1,
            **form(COLUMNS, "no common direction"),
            expect=found(TO_MEAN),
        ),
        order(
            NOT_SHUFFLED,
            COSINE,
            f"{text}, which are those of features; a tenth by our criterion",
            delta=0.1,
            **form(NETWORKS, "any labels do"),
            expect=found(NOT_SHUFFLED),
        ),
    ]


def sees_early(settings: None, early: Table[Early]) -> Mapping[str, Observation]:
    """By network and column."""
    true = early.where(labels="true")

    def columns(filters: str) -> list[Estimate]:
        here = true.where(filters=filters)
        return [part.mean(c) for part in here.by("width").values() for c in PAIRS]

    chosen, other = {"filters": "chosen"}, {"filters": "mixed"}
    return {
        BETWEEN: columns("chosen"),
        MIXED: columns("mixed"),
        TO_MEAN: [part.paired(c, chosen, other) for part in true.by("width").values() for c in MEANS],
        NOT_SHUFFLED: [labelled(part.where(**chosen)) for part in early.by("width").values()],
    }


def labelled(part: Table[Early]) -> Estimate:
    """Mean of six differences between true and shuffled labels, by seed."""
    one, two = ([part.where(**a).per_unit(c) for c in (*MEANS, *PAIRS)] for a in (TRUE, SHUFFLED))
    differences = [sum(x[s] - y[s] for x, y in zip(one, two, strict=True)) / len(one) for s in one[0]]
    return mean_of(differences, COSINE_DIFFERENCE, Early.unit)


OURS = (
    "Thresholds and controls are ours. In the preset cpu images and networks are not those of the paper, so that an "
    "outcome says nothing of it; all seeds are tested on the same 2000 images, and train on 2000 of 12000. "
)
OPEN = (LESS, APART["shuffled"], FURTHER, NOT_SHUFFLED)
"""Statements that the rows leave open."""
CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="emergence.early_movement",
        entries=FIGURES,
        says="In every residual block ||W3 - W0|| > ||W20 - W3||: filters change most in the first three epochs of 20.",
        statements=says_moved,
        observe=sees_moved,
        premises=images,
        reads=(Moved, Trained),
        remarks=OURS
        + "The paper shows it as pictures of normalised weights, and gives no measure; the norm of the change is that "
        "of the inventory, and rows have no directions. With norms behind the convolutions only directions count, and "
        "without regularisation their lengths grow, so that later steps turn them less; the step size is constant. In "
        "the rows of the preset cpu the share is 0.50 to 0.64 in the last two stages and 0.39 to 0.47 in the first "
        "two, above the 0.30 of steps in random directions in all eight, and with shuffled labels 0.45 to 0.64. "
        "Per epoch the early change is three times the later one or more everywhere.",
    ),
    Claim(
        id="emergence.filter_groups",
        entries=FIGURES,
        says="Filters of the last convolution of every block have two groups with near centres of their own that lie "
        "apart, beyond what choosing them makes at the start and with shuffled labels.",
        statements=says_groups,
        observe=sees_groups,
        premises=images,
        reads=(Grouped, Trained),
        remarks=OURS
        + "The paper picks its groups by hand and gives no control. A group of k random directions has a mean "
        "cosine of about 1/sqrt(k) with its centre, and two halves of a 2-means split have centres apart, so that "
        "cosines of 0.4, as in the captions, are there at the start where groups have two to five filters. In the rows "
        "of the preset cpu they are 0.74 to 0.17 at the start and 0.77 to 0.18 at the end, by stage and network, those "
        "of the centres -0.13 to -0.20 and -0.05 to -0.22: what a filter gains is 0.01 to 0.03. The running "
        "text has the cosines of green and red of block 1 in ResNet(128) the other way round.",
    ),
    Claim(
        id="emergence.larger_groups",
        entries=("emergence.figure21",),
        says="In every block the groups of the larger network gain more over its start than those of the smaller one.",
        statements=says_larger,
        observe=sees_larger,
        premises=images,
        reads=(Grouped,),
        remarks=OURS
        + "The paper compares cosines at the end of one run each, this gains over the start. The mean cosine of two "
        "members, since that with the centre falls with the number of members, which the larger network has more of. "
        "Colours are arbitrary: of each block's lower and higher cosine in the captions all are larger in ResNet(256) "
        "but for the lower one of block 2. In the rows of the preset cpu neither network has groups to speak of, and "
        "which has more says little.",
    ),
    Claim(
        id="emergence.early_gradients",
        entries=("emergence.table7",),
        says="Mean gradients of a filter over steps 1 to 10, 11 to 20 and 21 to 30 have cosines above 0.4, as "
        "different filters and shuffled labels do not give.",
        statements=says_early,
        observe=sees_early,
        premises=images,
        reads=(Early,),
        remarks=OURS
        + "Cosines with the mean are above 0.4 for three orthogonal vectors of one length, 0.58, so that those "
        "columns are judged against vectors of different filters. The filter is chosen by where it ends, one of each "
        "network. In the rows of the preset cpu the three cosines between means are -0.12 to 0.12 for it and -0.12 to "
        "0.03 on average over all filters of the stage, as much as with shuffled labels: means of ten steps of 32 "
        "images, half an epoch in all, may be noise of batches there, of which larger ones have less; those of the "
        "paper are not given.",
    ),
)
