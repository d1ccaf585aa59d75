"""Figures 5.1 to 5.3 on models that two cores run: what rows of a chat model of 135M and a base model of 270M can say.

Both are far smaller than the smallest model of the figures, so that what the source says of small models is what is
asked of each. Two models of two families, one of them tuned to chats, do not make a scale: the statements that compare
them have a premise that is not met. Thresholds are ours and were fixed before any row; statements that came after the
rows say so. The figures themselves wait for their models: no row here covers or contradicts them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import PERCENT, POINTS, REAL
from featlearn.lab.statement import Outcome, Statement, at_least, at_most, order
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, Observation, mean_of
from featlearn.works.icl_scale.rows import Flips, Focus
from featlearn.works.icl_scale.setup import FLAT

CHAT, BASE = "smollm2-135m", "gemma3-270m"
ABLE = 60.0
"""Accuracy without inverted labels, in %, below which a model has no skill that noise could take."""
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
    """Figures 5.1 and 5.2 are about Llama from 3B to 70B."""
    return (
        Premise("Llama of 3B to 70B", False, "SmolLM2-135M-Instruct and Gemma 3 270M", size=True),
        Premise("five tasks of GLUE and Subj", False, "four tasks of rated snippets", size=True),
    )


def other_pairs(settings: object, *tables: object) -> tuple[Premise, ...]:
    """Figure 5.3 is about Llama 2 of 13B and 70B, and two sets of sentences."""
    return (
        Premise("Llama 2 of 13B and 70B", False, "SmolLM2-135M-Instruct and Gemma 3 270M", size=True),
        Premise("sentences of SST-2 and GSM-IC", False, "snippets on films, sentences from a template", size=True),
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
ABOVE = "accuracy with all labels inverted"
GUESS = 50.0


def says_flat(settings: Asked) -> Sequence[Statement]:
    """Small models remain flat: of the skill 2 A(0) - 100 less than a quarter turns, by a point, and A(1) >= 50."""
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
        at_least(
            ABOVE,
            PERCENT,
            GUESS + POINT,
            "section 5.6.1: the performance of small models seldom is worse than random guessing; asked after the "
            "rows, of the mean over tasks and by a point, so that guessing is told apart",
            rival=GUESS,
            rival_says="guessing",
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
        ABOVE: every.mean("calibrated", ("task",)),
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
HALF_MORE = "focus on the relevant sentence, against one and a half times as much"
NEAR, FAR = "focus, the relevant sentence nearer to the label", "focus, the irrelevant sentence nearer to the label"
LESS = "focus of the smaller model less that of the larger"


def says_focus(settings: Asked) -> Sequence[Statement]:
    """Where a small model looks from a label, over both orders and in each: a question of ours, beside Figure 5.3."""
    main: dict[str, Outcome] = {CHAT: "confirmed", BASE: "inconclusive"}  # what the rows of the preset cpu leave open
    source = "section 5.6.2 on Figure 5.3: the small model mainly focuses on the relevant part"
    after = "ours, asked after the rows: a label looks at what stands near it"
    none, much = np.zeros(len(LABELS)), np.full(len(LABELS), MAINLY)
    return (
        at_least(
            MAIN,
            REAL,
            none,
            f"{source}; read as more attention by token, and asked of another model",
            axis="label",
            rival=-much,
            rival_says="one and a half times as much to the irrelevant sentence",
            form="derived",
            expect=main[settings.model],
        ),
        at_most(
            HALF_MORE,
            REAL,
            much,
            "ours: what was asked before the rows, that mainly means one and a half times as much by token, is not so",
            of=MAIN,
            axis="label",
            rival=2 * much,
            rival_says="more than twice as much",
            form="derived",
        ),
        at_least(
            NEAR,
            REAL,
            none,
            after,
            axis="label",
            rival=-much,
            rival_says="one and a half times as much to the irrelevant sentence",
            form="derived",
        ),
        at_most(
            FAR,
            REAL,
            none,
            after,
            axis="label",
            rival=much,
            rival_says="one and a half times as much to the relevant sentence, wherever it stands",
            form="derived",
        ),
    )


def by_label(table: Table[Focus], over: tuple[str, ...] = ("task",), meant: str = "") -> list[Estimate]:
    """Focus by label."""
    return [table.where(label=label).mean("focus", over, meant=meant) for label in LABELS]


def sees_focus(settings: Asked, table: Table[Focus]) -> Mapping[str, Observation]:
    """Means over sentences, over both orders and in each."""
    mine = table.where(model=settings.model)
    return {
        MAIN: by_label(
            mine, ("task", "order"), "over both orders of each pair, so that the place of a sentence cancels"
        ),
        NEAR: by_label(mine.where(order="irrelevant first")),
        FAR: by_label(mine.where(order="relevant first")),
    }


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


SPLIT = (
    "That flat means a quarter of the skill 2 A(0) - 100, and that skill begins at 60 %, are readings of ours, fixed "
    "before the rows; that accuracy stays above guessing was added after them. The four tasks are fixed, and the sets "
    "are what is drawn: nothing is said of other tasks. Eight sets would decide no drop at all and half the skill, but "
    "not 3 points around a quarter; 2 points take about 24."
)
FOUND = {
    CHAT: "Read plainly, flat is decided and not met: A(0) - A(1) is 10.8 [4.9, 16.7] points, 0.23 of the skill. The "
    "mean over tasks, 1.0 point, hides editorials, -6.1 [-10.8, -1.5], and tweets, 6.8 [1.6, 12.0]; with the task as "
    "unit it is 1.0 [-7.6, 9.6]. 2 of 32 sets and tasks lie below guessing when all labels are inverted.",
    BASE: "Read plainly, flat is decided and not met: A(0) - A(1) is 21.6 [17.9, 25.3] points, 0.28 of the skill. At "
    "90 %, the level that confirms, the interval of the quarter less the drop lies below its limit of 1 point; it "
    "reaches over it at the level for a contradiction, 98.3 % for three statements. With the task as unit it is -2.5 "
    "[-9.3, 4.2]. By raw accuracies it is -4.8 [-8.8, -0.8], below; that calibrated ones decide was fixed before the "
    "rows. 1 of 32 sets and tasks lies below guessing when all labels are inverted.",
}
QUESTION = (
    "A question of ours, which has no say on the figure: that is about two far larger models. Before "
    "the rows it was whether a small model pays one and a half times as much attention by token, over both orders: it "
    "does not. What followed was asked after the rows. The figure leaves open where the irrelevant sentence stands and "
    "which norm is drawn. "
)
PLAIN = {
    CHAT: "By the plain norm the relevant sentence gets 1.5 and 1.4 times as much over both orders (log2 0.55 "
    "[0.43, 0.67] and 0.53 [0.40, 0.65]), and 2.3 and 2.2 times where it is the nearer one, so that in readings left "
    "open the sentence of the text holds for this model too. ",
    BASE: "Over both orders a wrong label looks less at the relevant sentence, -0.13 [-0.24, -0.02], taken alone; with "
    "four statements the interval for a contradiction reaches over 0. By the plain norm the relevant sentence gets 1.2 "
    "and 1.1 times as much over both orders (log2 0.21 [0.08, 0.34] and 0.17 [0.04, 0.29]), and 1.5 and 1.4 times "
    "where it is the nearer one. ",
}
KINDS = (
    "Equal attention gives a plain log2 of 0.3 already, since relevant sentences are longer. They are snippets on "
    "films, the irrelevant ones made from a template with names and digits: content and relevance are not separated, "
    "and attention to kinds of tokens alone would show."
)

CLAIMS: tuple[Claim, ...] = (
    *(
        Claim(
            id=f"icl_scale.label_noise_{name}",
            entries=(f"icl_scale.figure{asked.figure.replace('.', '_')}",),
            says="When all labels of the prompt are inverted, what a small model loses is less than a quarter of its "
            "skill, by a point or more; it stays above guessing and goes on following what it learnt before, on "
            f"average over these four tasks ({asked.model}).",
            settings=asked,
            statements=says_flat,
            observe=sees_flat,
            premises=able,
            reads=(Flips,),
            remarks=f"{FOUND[asked.model]} {SPLIT}",
        )
        for name, asked in (("chat", Asked(CHAT, "5.1")), ("base", Asked(BASE, "5.2")))
    ),
    Claim(
        id="icl_scale.label_noise_scale",
        entries=("icl_scale.figure5_1", "icl_scale.figure5_2"),
        says="The larger of two models starts higher and falls further, in points.",
        statements=says_scale,
        observe=sees_scale,
        premises=no_scale,
        reads=(Flips,),
        remarks="A description of these two models, of two families and tuned unlike: no row of them decides the "
        "sentence. As a share of the skill the larger one does not fall further by these rows: the difference is 0.07 "
        "[-0.06, 0.20].",
    ),
    *(
        Claim(
            id=f"icl_scale.attention_{name}",
            entries=("icl_scale.figure5_3",),
            says="From a label a small model pays more attention, by token, to the sentence it labels over both "
            "orders, up to one and a half times as much, and in each order more to the sentence that is nearer to the "
            f"label ({asked.model}).",
            settings=asked,
            statements=says_focus,
            observe=sees_focus,
            premises=other_pairs,
            reads=(Focus,),
            remarks=f"{QUESTION}{PLAIN[asked.model]}{KINDS}",
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
