"""Figures 5.1 to 5.3 on models that two cores run: what rows of a chat model of 135M and a base model of 270M can say.

Both are far smaller than the smallest model of the figures, so that what the source says of small models is what is
asked of each. Two models of two families, one of them tuned to chats, do not make a scale: the statements that compare
them have a premise that is not met. Thresholds are ours and were fixed before any row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import PERCENT, POINTS, REAL
from featlearn.lab.statement import Statement, at_least, order
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, Observation, mean_of
from featlearn.works.icl_scale.rows import Flips, Focus

CHAT, BASE = "smollm2-135m", "gemma3-270m"
ABLE = 60.0
"""Accuracy without inverted labels, in %, below which a model has no skill that noise could take."""
FLAT = 0.25
"""Share of the skill that may turn with the labels of a model whose performance remains flat."""
POINT, NATS, DROP = 1.0, 0.1, 5.0
"""Least differences that count: of accuracies within a model, of log-odds, of drops between models."""
MAINLY = log2(1.5)
"""log2 of how many times as much attention, by token, a model pays that mainly looks at one sentence."""
LABELS = ("correct", "wrong")


@dataclass(frozen=True)
class Asked:
    """A model, and the figure that shows models of its kind."""

    model: str
    figure: str


def other_sizes(settings: object, *tables: object) -> tuple[Premise, ...]:
    """The figures are about Llama from 3B to 70B."""
    return (
        Premise("Llama of 3B to 70B", False, "SmolLM2-135M-Instruct and Gemma 3 270M", size=True),
        Premise("five tasks of GLUE and Subj", False, "four tasks of rated snippets", size=True),
    )


def no_scale(settings: object, *tables: object) -> tuple[Premise, ...]:
    """Sizes of one family are compared in the figures."""
    says = "models of one family, tuned alike, that differ by their size"
    return (Premise(says, False, "two families, one model of each, one of them tuned to chats"),)


# --- one model -------------------------------------------------------------------------------------------------------

START = "accuracy without inverted labels"
QUARTER = "a quarter of the skill less the drop"
STAYS = "log-odds of the true label with all labels inverted"


def says_flat(settings: Asked) -> Sequence[Statement]:
    """Small models remain flat: of the skill 2 A(0) - 100 at most a quarter turns with the labels."""
    source = f"section 5.6.1 on Figure {settings.figure}: the performance of small models remains flat"
    return (
        at_least(
            START,
            PERCENT,
            ABLE,
            f"Figure {settings.figure} at 0 %: in-context abilities that noise can take",
            rival=50.0,
            rival_says="guessing",
            form="criterion",
        ),
        order(
            QUARTER,
            POINTS,
            source,
            delta=POINT,
            form="criterion",
            trivial=0.0,
            trivial_says="guessing: no skill and no drop",
        ),
        at_least(
            STAYS,
            REAL,
            NATS,
            "section 5.6.1: small models may not override pretraining biases; pretraining weighs more than the prompt "
            "exactly where the log-odds stay positive",
            rival=0.0,
            rival_says="guessing, or what turns as much as what stays",
            form="criterion",
        ),
    )


def sees_flat(settings: Asked, table: Table[Flips]) -> Mapping[str, Observation]:
    """Means over tasks within each set, then over sets."""
    mine = table.where(model=settings.model)
    none, every = mine.where(rate=0.0), mine.where(rate=1.0)
    a, b = none.per_unit("calibrated"), every.per_unit("calibrated")
    rest = [FLAT * (2 * a[i] - 100) - (a[i] - b[i]) for i in a]
    return {
        START: none.mean("calibrated", ("task",)),
        QUARTER: mean_of(rest, POINTS, "set"),
        STAYS: every.mean("margin", ("task",)),
    }


# --- two models ------------------------------------------------------------------------------------------------------

MORE = "drop of the larger model less that of the smaller"
ABLER = "accuracy without inverted labels, larger less smaller"


def says_scale(settings: None) -> Sequence[Statement]:
    """Larger models start higher and fall further."""
    source = "section 5.6.1: the performance decrease facing noise is more significant for larger models"
    return (
        order(MORE, POINTS, source, delta=DROP, form="criterion"),
        order(
            ABLER,
            POINTS,
            "section 5.6.1: larger models have better in-context abilities",
            delta=POINT,
            form="criterion",
        ),
    )


def drops(table: Table[Flips], model: str) -> dict[int, float]:
    """A(0) - A(1) by set."""
    mine = table.where(model=model)
    a, b = (mine.where(rate=rate).per_unit("calibrated") for rate in (0.0, 1.0))
    return {i: a[i] - b[i] for i in a}


def sees_scale(settings: None, table: Table[Flips]) -> Mapping[str, Observation]:
    """The same sets for both models."""
    large, small = (drops(table, model) for model in (BASE, CHAT))
    start = table.where(rate=0.0)
    return {
        MORE: mean_of([large[i] - small[i] for i in large], POINTS, "set"),
        ABLER: start.paired("calibrated", {"model": BASE}, {"model": CHAT}, ("task",)),
    }


# --- attention -------------------------------------------------------------------------------------------------------

MAIN = "focus on the relevant sentence"
LESS = "focus of the smaller model less that of the larger"


def says_focus(settings: Asked) -> Sequence[Statement]:
    """A small model mainly looks at the sentence that a label is about, whatever the label."""
    return (
        at_least(
            MAIN,
            REAL,
            np.full(len(LABELS), MAINLY),
            "section 5.6.2 on Figure 5.3: the small model mainly focuses on the relevant part",
            axis="label",
            rival=np.zeros(len(LABELS)),
            rival_says="attention that is equal everywhere",
            form="criterion",
        ),
    )


def by_label(table: Table[Focus]) -> list[Estimate]:
    """Focus over both orders, by label."""
    return [table.where(label=label).mean("focus", ("task", "order")) for label in LABELS]


def sees_focus(settings: Asked, table: Table[Focus]) -> Mapping[str, Observation]:
    """Means over sentences."""
    return {MAIN: by_label(table.where(model=settings.model))}


def says_both(settings: None) -> Sequence[Statement]:
    """A larger model looks at both sentences."""
    source = "section 5.6.2 on Figure 5.3: the large model focuses on both sentences"
    return (order(LESS, REAL, source, delta=NATS, axis="label", form="criterion"),)


def sees_both(settings: None, table: Table[Focus]) -> Mapping[str, Observation]:
    """The same sentences for both models."""
    gaps = []
    for label in LABELS:
        part = table.where(label=label)
        gaps.append(part.paired("focus", {"model": CHAT}, {"model": BASE}, ("task", "order")))
    return {LESS: gaps}


CLAIMS: tuple[Claim, ...] = (
    *(
        Claim(
            id=f"icl_scale.label_noise_{name}",
            entries=(f"icl_scale.figure{asked.figure.replace('.', '_')}",),
            says="A small model has skill without noise, keeps at least three quarters of it when every label in the "
            f"prompt is inverted, and goes on following what it learnt before ({asked.model}).",
            settings=asked,
            statements=says_flat,
            observe=sees_flat,
            premises=other_sizes,
            reads=(Flips,),
        )
        for name, asked in (("chat", Asked(CHAT, "5.1")), ("base", Asked(BASE, "5.2")))
    ),
    Claim(
        id="icl_scale.label_noise_scale",
        entries=("icl_scale.figure5_1", "icl_scale.figure5_2"),
        says="The larger of two models starts higher and falls further.",
        statements=says_scale,
        observe=sees_scale,
        premises=no_scale,
        reads=(Flips,),
        remarks="One model of each size, of two families, tuned unlike: whatever comes out is about these two.",
    ),
    *(
        Claim(
            id=f"icl_scale.attention_{name}",
            entries=("icl_scale.figure5_3",),
            says=f"From a label a small model mainly looks at the sentence that it labels ({asked.model}).",
            settings=asked,
            statements=says_focus,
            observe=sees_focus,
            premises=other_sizes,
            reads=(Focus,),
        )
        for name, asked in (("chat", Asked(CHAT, "5.3")), ("base", Asked(BASE, "5.3")))
    ),
    Claim(
        id="icl_scale.attention_scale",
        entries=("icl_scale.figure5_3",),
        says="The larger of two models looks less at the relevant sentence alone.",
        statements=says_both,
        observe=sees_both,
        premises=no_scale,
        reads=(Focus,),
    ),
)
