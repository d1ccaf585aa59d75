"""Claims about figures and tables that need a model which was really run: they read rows of SmolLM2-135M.

Kinds of sentence are what is independent, of which the committed rows have four: differences are judged length by
length, over kinds, and mostly cannot be told from none. `gemfilter/kinds` has as many as a margin of five points needs.
Where a figure shows one example, the prompts at hand are judged as such, without a word on others.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import COUNT, PERCENT, POINTS, POSITIVE
from featlearn.lab.statement import Statement, at_least, at_most, between, equal, order
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, Observation, mean_of
from featlearn.methods.gemfilter.recommended import KNOWN
from featlearn.tasks.miniset import QUESTIONS
from featlearn.works.gemfilter.rows import (
    BEST,
    FULL,
    LAST,
    LOGITS,
    MIDDLE,
    ONE_RUN,
    OURS,
    QUERY,
    RANDOM,
    RAW_ROW,
    SNAPKV,
    Answer,
    Kept,
    KindAnswer,
    Rule,
    Score,
    Timing,
    by_unit,
    less,
    mean_by_unit,
    off_the_floor,
)

LAYERS, GROUPS, HEAD_DIM, HEADS = 30, 3, 64, 9
"""SmolLM2-135M."""
MIDDLE_HALF = range(LAYERS // 4, 3 * LAYERS // 4 + 1)
MARGIN = 5.0
"""Points that count as no difference."""
LENGTH = 1024
"""The one length at which all four kinds of sentence were asked about everything."""


def another_model(settings: object, *tables: object) -> tuple[Premise, ...]:
    """The figures and tables are about models of 4 to 12 billion weights."""
    reported = "Llama 3.1 8B, Mistral Nemo 12B or Phi 3.5 Mini"
    return (Premise(reported, False, "SmolLM2-135M, prompts up to 7500 tokens, 256 kept", size=True),)


def filter_layer() -> int:
    """The layer that is recommended for SmolLM2-135M."""
    return KNOWN["llama", LAYERS, 576, 49152].layer


def not_below(name: str, source: str, **more: object) -> Statement:
    """A mean difference above -MARGIN: what is lost is less than counts."""
    return at_least(
        name,
        POINTS,
        -MARGIN,
        source,
        **{
            "rival": -2 * MARGIN,
            "rival_says": "a loss of twice the margin",
            "form": "criterion",
            "expect": "inconclusive",
            **more,
        },
    )


# --- gemfilter/layers ------------------------------------------------------------------------------------------------

BY_LAYER = "needle kept, least over kinds of sentence"
AT_LAYER = "needle kept at the recommended layer"
FIRST = "first layer that keeps 90 % of the needle in 90 % of the prompts"
HALVES = "the same, of two kinds of sentence less that of the other two"
ENDS = "recommended layer less the first, and less the last"
NEXT = "layer after the recommended one less that"


def says_layers(settings: None) -> Sequence[Statement]:
    """Figures 9.1 and 9.5, Table 9.2, Figure G.1, by the share of the needle that is kept."""
    return (
        at_least(
            BY_LAYER,
            PERCENT,
            90.0,
            "Figure 9.1, on these prompts",
            axis="layer of the middle half",
            quantifier="some",
            quantifier_says="any of the layers 13 to 19 would do",
            rival=25.0,
            rival_says="random tokens: k / n",
            form="criterion",
        ),
        at_least(
            AT_LAYER,
            PERCENT,
            90.0,
            "Figure 9.1, on 86 kinds of sentence that chose no layer",
            axis="tokens",
            rival=25.0,
            rival_says="random tokens: k / n",
            form="criterion",
        ),
        at_most(
            FIRST,
            COUNT,
            LAYERS // 2 + 3.0,
            "Figure 9.5: reached in early and middle layers",
            rival=float(LAYERS),
            rival_says="no layer",
            form="criterion",
        ),
        at_most(
            HALVES,
            COUNT,
            2.0,
            "Section 9.4.3: the first layer is the same across inputs",
            rival=LAYERS / 2,
            rival_says="half of the layers apart",
            form="criterion",
        ),
        order(
            ENDS,
            PERCENT,
            "Table 9.2: both ends are worse",
            delta=10.0,
            axis="end",
            form="criterion",
            expect="too weak to test",
        ),
        not_below(NEXT, "Figure G.1: layer 14 beside 13, within .05"),
    )


def located(part: Table[Kept]) -> int:
    """The first layer that keeps 90 % of the needle in at least 90 % of the prompts; LAYERS if none does."""
    for layer, rows in part.by("layer").items():
        if np.mean(rows.column("recall") >= 90) >= 0.9:
            return int(layer)
    return LAYERS


def sees_layers(settings: None, table: Table[Kept], others: Table[KindAnswer]) -> Mapping[str, Observation]:
    """The shipped scoring with the chat template; at the layer that it chose on kinds that it did not see."""
    best = table.where(rule=BEST, chat=True)
    kinds = {i: by_unit(part, "recall") for i, part in best.by("layer").items()}
    short = best.where(length=LENGTH)
    at = filter_layer()
    halves = [located(short.keep(lambda r, i=i: r.sentence % 2 == i, f"kinds {i} and {i + 2}")) for i in (0, 1)]
    return {
        BY_LAYER: np.array([min(kinds[i].values()) for i in MIDDLE_HALF]),
        AT_LAYER: [mean_by_unit(part, "recall") for part in others.where(method=OURS).by("length").values()],
        FIRST: float(located(best)),
        HALVES: float(abs(halves[0] - halves[1])),
        ENDS: [less(short, "recall", {"layer": at}, {"layer": i}) for i in (0, LAYERS - 1)],
        NEXT: less(short, "recall", {"layer": at + 1}, {"layer": at}),
    }


ROW_PAIRS: tuple[tuple[Rule, str], ...] = (
    (RANDOM, "random tokens"),
    (MIDDLE, "middle row"),
    (QUERY, "row of largest query"),
    (LOGITS, "row of largest logits"),
)


def says_rows(settings: None) -> Sequence[Statement]:
    """Figure 9.2 and the ablation of Figure G.3: the last row finds the needle, other rows do not."""
    source = "Figures 9.2 and G.3, without a template as there, mean over the middle half of the layers"
    return (
        *(
            order(
                f"needle kept: last row less {words}",
                PERCENT,
                source,
                delta=10.0,
                form="criterion",
                expect="inconclusive",
            )
            for _, words in ROW_PAIRS
        ),
        not_below("needle kept: random tokens less middle row", "Figure G.3: the middle row finds nothing"),
    )


def sees_rows(settings: None, table: Table[Kept]) -> Mapping[str, Observation]:
    """Raw products of single rows, pooled over 5."""
    part = table.where(chat=False, length=LENGTH).keep(
        lambda r: r.layer in MIDDLE_HALF, "the middle half of the layers"
    )
    seen: dict[str, Observation] = {
        f"needle kept: last row less {words}": less(part, "recall", {"rule": LAST}, {"rule": rule})
        for rule, words in ROW_PAIRS
    }
    middle = less(part, "recall", {"rule": RANDOM}, {"rule": MIDDLE})
    return {**seen, "needle kept: random tokens less middle row": middle}


FOCUS: dict[str, tuple[Rule, bool, bool]] = {
    "every layer, shipped scoring": (BEST, True, False),
    "the filter layer, shipped scoring": (BEST, True, True),
    "every layer, raw products of the last row without a template": (LAST, False, False),
}
"""In words: GemFilter's rule, whether prompts have the template, whether one layer is compared and not all."""


def says_focus(settings: None) -> Sequence[Statement]:
    """Figure G.5: one focused set against heads that spread, at the same layers."""
    return (
        *(
            order(
                f"share of the kept tokens in needle or last 32: GemFilter less SnapKV, {words}",
                PERCENT,
                "Figure G.5: GemFilter focuses on needle and recent tokens",
                delta=1.0,
                form="criterion",
                expect="contradicted" if rule == LAST else "inconclusive",
            )
            for words, (rule, _, _) in FOCUS.items()
        ),
        at_least(
            "positions of a layer's groups of heads together, over those of one",
            POSITIVE,
            1.1,
            "Figure G.5: SnapKV spreads",
            axis="kind of sentence",
            rival=1.0,
            rival_says="all groups alike",
            form="criterion",
        ),
    )


def sees_focus(settings: None, table: Table[Kept]) -> Mapping[str, Observation]:
    """Both at the same layers, each set by itself, as the figure shows them."""
    part = table.where(length=LENGTH)
    seen: dict[str, Observation] = {}
    for words, (rule, chat, one) in FOCUS.items():
        where = {"chat": chat, "layer": filter_layer()} if one else {"chat": chat}
        difference = less(part.where(**where), "focus", {"rule": rule}, {"rule": SNAPKV})
        seen[f"share of the kept tokens in needle or last 32: GemFilter less SnapKV, {words}"] = difference
    union = by_unit(part.where(chat=True, rule=SNAPKV), "union")
    return {
        **seen,
        "positions of a layer's groups of heads together, over those of one": np.array(list(union.values())) / 256,
    }


# --- gemfilter/needle ------------------------------------------------------------------------------------------------

LENGTHS = (1024, 2048, 4096, 7500)


def says_answers(settings: tuple[str, ...]) -> Sequence[Statement]:
    """No fewer answers than a rival at each length."""
    rivals = {SNAPKV: "Figure 9.4: above SnapKV", FULL: "Figure 9.4: no loss", ONE_RUN: "Figure G.4: two runs"}
    kept = at_least(
        "needle kept",
        PERCENT,
        90.0,
        "Figure 9.4, on these prompts",
        axis="kind of sentence",
        rival=25.0,
        rival_says="random tokens: k / n at 1024",
        form="criterion",
    )
    gaps = [
        not_below(f"right answers of {n} tokens: GemFilter less {rival}", f"{rivals[rival]}; non-inferiority, by kind")
        for rival in settings
        for n in LENGTHS
    ]
    return (*gaps, *([kept] if SNAPKV in settings else []))


def sees_answers(settings: tuple[str, ...], table: Table[Answer]) -> Mapping[str, Observation]:
    """Differences by length, over kinds of sentence."""
    seen: dict[str, Observation] = {
        f"right answers of {n} tokens: GemFilter less {rival}": less(
            table.where(length=n), "accuracy", {"method": OURS}, {"method": rival}
        )
        for rival in settings
        for n in LENGTHS
    }
    return {**seen, "needle kept": np.array(list(by_unit(table.where(method=OURS), "recall").values()))}


def says_raw(settings: None) -> Sequence[Statement]:
    """The end of a chat prompt is a line feed of its template, whose raw products hardly see the needle."""
    return tuple(
        order(
            f"right answers of {n} tokens: SnapKV less raw products of the last row",
            PERCENT,
            "why the shipped rule is not Algorithm 2 with raw products: a property of chat templates, not of the paper",
            delta=MARGIN,
            form="derived",
            expect="inconclusive",
        )
        for n in LENGTHS[:2]
    )


def sees_raw(settings: None, table: Table[Answer]) -> Mapping[str, Observation]:
    """The two lengths at which all four kinds were asked about."""
    return {
        f"right answers of {n} tokens: SnapKV less raw products of the last row": less(
            table.where(length=n), "accuracy", {"method": SNAPKV}, {"method": RAW_ROW}
        )
        for n in LENGTHS[:2]
    }


# --- gemfilter/minibench, gemfilter/cost -----------------------------------------------------------------------------

FEW = "few-shot classification"
BUDGETS = (128, 256)
QA, SHOTS = "single-document QA: GemFilter less SnapKV", f"{FEW}: SnapKV less GemFilter"
WITH = "without and with template, 128 and 256 kept"


def says_tasks(settings: tuple[bool, ...]) -> Sequence[Statement]:
    """Table 9.1 (plain) and Table G.1 (chat template), in tasks that the full cache can do."""
    return (
        not_below(QA, "Tables 9.1 and G.1: comparable to SnapKV", axis=WITH, expect="too weak to test"),
        order(
            SHOTS,
            PERCENT,
            "Algorithm 2 drops every example that the question does not point at, an evicted cache has read it",
            delta=MARGIN,
            axis=WITH,
            form="derived",
            expect="inconclusive",
        ),
    )


def sees_tasks(settings: tuple[bool, ...], table: Table[Score]) -> Mapping[str, Observation]:
    """Differences over items, in tasks in which the full cache is off the floor."""
    seen: dict[str, list[Estimate]] = {QA: [], SHOTS: []}
    for chat in settings:
        part = table.where(chat=chat)
        able = off_the_floor(part)
        for k in BUDGETS:
            ours, snap = ({"method": m, "budget": k} for m in (OURS, SNAPKV))
            arms = ((QA, "single-document QA", ours, snap, 0.0), (SHOTS, FEW, snap, ours, 100 / len(QUESTIONS)))
            for name, task, one, two, chance in arms:
                if task in able:
                    seen[name].append(part.where(task=task).paired("score", one, two, chance=chance))
    return seen


def says_cost(settings: None) -> Sequence[Statement]:
    """Theorem 9.3 on a clock: r / m of the prompt, bytes of the caches, tokens whose time does not grow with n."""
    layer = filter_layer()
    per_entry = 2 * LAYERS * GROUPS * HEAD_DIM * 4 / 2**20
    entries = np.array([256.0, 256.0, 4096.0])
    return (
        between(
            "seconds of pass one over those of the full prompt, 4096 tokens",
            POSITIVE,
            0.8 * layer / LAYERS,
            1.25 * layer / LAYERS,
            "Theorem 9.3: r / m; within a factor of 1.25, since not all is attention",
            rival=1.0,
            rival_says="no saving",
            form="criterion",
        ),
        equal(
            "MiB of the cache of GemFilter, SnapKV and the full prompt, 4096 tokens",
            POSITIVE,
            entries * per_entry,
            "Theorem 9.3: 2 m h_kv k d, in float32",
            margin=1e-3,
            rival=entries * per_entry * HEADS / GROUPS,
            rival_says="query heads for h_kv",
        ),
        at_most(
            "seconds a token, 4096 over 512 tokens",
            POSITIVE,
            1.25,
            "Theorem 9.3: k t + t^2, without n; a quarter for the clock",
            axis="GemFilter, SnapKV",
            rival=2.0,
            rival_says="twice as slow",
            form="criterion",
        ),
        at_least(
            "the same, full cache",
            POSITIVE,
            1.25,
            "Theorem 9.3: n t + t^2: it grows with n by more than what counts as no growth",
            rival=1.0,
            rival_says="no growth",
            form="criterion",
        ),
    )


def sees_cost(settings: None, table: Table[Timing]) -> Mapping[str, Observation]:
    """Means over repetitions."""
    long, short = table.where(length=4096), table.where(length=512)

    def growth(method: str) -> Estimate:
        one, two = (by_unit(p.where(method=method), "token") for p in (long, short))
        return mean_of([one[i] / two[i] for i in one], POSITIVE, Timing.unit)

    cache = [next(iter(by_unit(long.where(method=m), "cache").values())) for m in (OURS, SNAPKV, FULL)]
    return {
        "seconds of pass one over those of the full prompt, 4096 tokens": long.where(method=OURS).mean("pass_one"),
        "MiB of the cache of GemFilter, SnapKV and the full prompt, 4096 tokens": np.array(cache),
        "seconds a token, 4096 over 512 tokens": [growth(m) for m in (OURS, SNAPKV)],
        "the same, full cache": growth(FULL),
    }


ON = "On SmolLM2-135M"
FOUR = "Four kinds of sentence are too few for this margin: `gemfilter/kinds` has 86, none of which chose a setting."
CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gemfilter.measured_layers",
        entries=("gemfilter.fig9_1", "gemfilter.fig9_5", "gemfilter.table9_2", "gemfilter.figG_1"),
        says=f"{ON}, the recommended layer and others of the middle half keep the needle; the first is an early one.",
        statements=says_layers,
        observe=sees_layers,
        premises=another_model,
        reads=(Kept, KindAnswer),
        remarks="Layer and scoring were chosen on the needles of gemfilter/layers; that the layer keeps needles is "
        "said of those of gemfilter/kinds. The figure's own criterion, distance 0, is met by random tokens, too: see "
        "gemfilter.fig9_5_distance.",
    ),
    Claim(
        id="gemfilter.measured_rows",
        entries=("gemfilter.fig9_2", "gemfilter.figG_3"),
        says=f"{ON}, the last row keeps more of the needle than random tokens, the middle row, and rows of largest "
        "norm.",
        statements=says_rows,
        observe=sees_rows,
        premises=another_model,
        reads=(Kept,),
        remarks="Figure G.3 is about Mistral Nemo 12B at layer 19; another model at other layers does not speak for or "
        "against it. " + FOUR,
    ),
    Claim(
        id="gemfilter.measured_figG_5",
        entries=("gemfilter.figG_5",),
        says=f"{ON}, GemFilter keeps a larger share inside needle and last 32 tokens than SnapKV at the same layers, "
        "whose heads keep different positions.",
        statements=says_focus,
        observe=sees_focus,
        premises=another_model,
        reads=(Kept,),
        remarks="The figure shows both at every layer. At the end of a prompt without a template the work's own rule, "
        "raw products of the last row, is less focused than SnapKV, which looks from the last 32 tokens.",
    ),
    Claim(
        id="gemfilter.measured_fig9_4",
        entries=("gemfilter.fig9_4", "gemfilter.figG_2"),
        says=f"{ON}, GemFilter answers no fewer needles than SnapKV and the full cache, and keeps them.",
        settings=(SNAPKV, FULL),
        statements=says_answers,
        observe=sees_answers,
        premises=another_model,
        reads=(Answer,),
        remarks=FOUR
        + " Lengths are not averaged: their differences have opposite signs, and one kind of sentence makes "
        "most of each.",
    ),
    Claim(
        id="gemfilter.measured_figG_4",
        entries=("gemfilter.figG_4",),
        says=f"{ON}, two runs answer no fewer needles than one run on the same tokens.",
        settings=(ONE_RUN,),
        statements=says_answers,
        observe=sees_answers,
        premises=another_model,
        reads=(Answer,),
        remarks=FOUR,
    ),
    Claim(
        id="gemfilter.measured_fig9_4_raw",
        entries=("gemfilter.fig9_4",),
        says=f"{ON} with its chat template, raw products of the last row (a line feed of the template) answer fewer "
        "needles than SnapKV; the paper's figure has other models and no template.",
        statements=says_raw,
        observe=sees_raw,
        premises=another_model,
        reads=(Answer,),
    ),
    Claim(
        id="gemfilter.measured_tasks",
        entries=("gemfilter.table9_1", "gemfilter.tableG_1"),
        says=f"{ON}, in the tasks that the full cache can do, GemFilter is not below SnapKV where a question points at "
        "its answer, and is below it where all examples count.",
        settings=(False, True),
        statements=says_tasks,
        observe=sees_tasks,
        premises=another_model,
        reads=(Score,),
        remarks="Six generated items of each task. Four of six tasks are left out, in which the full cache itself "
        "scores next to nothing: what is dropped cannot show there.",
    ),
    Claim(
        id="gemfilter.measured_fig9_3",
        entries=("gemfilter.fig9_3", "gemfilter.fig9_6"),
        says=f"{ON}, pass one takes r/m of the full prompt's time within a factor of 1.25, caches take 2 m h_kv k d, "
        "and a token's time depends on n for the full cache alone.",
        statements=says_cost,
        observe=sees_cost,
        premises=another_model,
        reads=(Timing,),
        remarks="Three repetitions on two cores, of a program and not of products. The rows are the second at these "
        "settings, made since the first had no digest and other work beside them; by the first a token's time was "
        "inconclusive.",
    ),
)
