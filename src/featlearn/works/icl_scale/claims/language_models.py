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
from featlearn.lab.quantity import POINTS, REAL
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


def able(settings: Asked, table: Table[Flips]) -> tuple[Premise, ...]:
    """What noise could take: the lower end of the interval on skill without inverted labels."""
    start = table.where(model=settings.model, rate=0.0).mean("calibrated", ("task",))
    low, _ = start.at(0.95)
    says = f"an accuracy of at least {ABLE:.0f} % without inverted labels"
    return (*other_sizes(settings), Premise(says, low >= ABLE, f"{start.value:.1f} %, at least {low:.1f} %"))


# --- one model -------------------------------------------------------------------------------------------------------

QUARTER = "a quarter of the skill less the drop"
STAYS = "log-odds of the true label with all labels inverted"


def says_flat(settings: Asked) -> Sequence[Statement]:
    """Small models remain flat: of the skill 2 A(0) - 100 at most a quarter turns with the labels."""
    source = f"section 5.6.1 on Figure {settings.figure}: the performance of small models remains flat"
    return (
        order(
            QUARTER,
            POINTS,
            source,
            delta=POINT,
            form="criterion",
            expect="inconclusive",  # what the rows of the preset cpu leave open for both models
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
        order(MORE, POINTS, source, delta=DROP, form="derived"),
        order(
            ABLER,
            POINTS,
            "section 5.6.1: larger models have better in-context abilities",
            delta=POINT,
            form="derived",
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
            expect="contradicted",  # rows of the preset cpu: 1.14 times as much, and 0.93 times
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
    return (order(LESS, REAL, source, delta=NATS, axis="label", form="derived"),)


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
            says="At most a quarter of a small model's skill without noise turns with the labels of the prompt when "
            f"all of them are inverted, and it goes on following what it learnt before ({asked.model}).",
            settings=asked,
            statements=says_flat,
            observe=sees_flat,
            premises=able,
            reads=(Flips,),
            remarks="That flat means a quarter of the skill 2 A(0) - 100, and that skill begins at 60 %, are "
            "readings of ours. Rows of preset cpu are asked for: the sets of small are too few for so small a share.",
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
        remarks="A description of these two models, of two families and tuned unlike: no row of them decides the "
        "sentence.",
    ),
    *(
        Claim(
            id=f"icl_scale.attention_{name}",
            entries=("icl_scale.figure5_3",),
            says="From a label a small model pays more attention, by token, to the sentence it labels "
            f"({asked.model}).",
            settings=asked,
            statements=says_focus,
            observe=sees_focus,
            premises=other_sizes,
            reads=(Focus,),
            remarks="That mainly means one and a half times as much by token is ours. The relevant sentences are "
            "snippets on films, the irrelevant ones made from a template with names and digits: content and "
            "relevance are not separated, and attention to kinds of tokens alone would show.",
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
        remarks="A description of these two models, of two families and tuned unlike: no row of them decides the "
        "sentence.",
    ),
)
