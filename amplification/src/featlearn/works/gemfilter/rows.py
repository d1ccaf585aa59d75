"""Rows that the experiments of this work write and its claims read.

The unit is the kind of sentence that hides the fact (`sentence`): needles of one kind fail together, and prompts of one
needle share their text, so neither of them is independent. In `Score` it is the item, in `Timing` the repetition.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

import numpy as np

from featlearn.lab.quantity import COUNT, NAME, PERCENT, POSITIVE, SEED, SHARE
from featlearn.lab.row import Row, column
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, mean_of

# replies: gemfilter/needle, gemfilter/kinds, gemfilter/minibench, gemfilter/cost
FULL, RAW_ROW, OURS, ONE_RUN = "Full cache", "GemFilter raw", "GemFilter", "One run"
SNAPKV, H2O, STREAMING = "SnapKV", "H2O", "Streaming"
Method = Literal["Full cache", "GemFilter raw", "GemFilter", "One run", "SnapKV", "H2O", "Streaming"]
# ways of scoring: gemfilter/layers
LAST, BEST = "last row", "16 rows, probabilities, best head"
MIDDLE, QUERY, LOGITS, RANDOM = "middle row", "row of largest query", "row of largest logits", "random tokens"
Rule = Literal[
    "last row",
    "last row, no pooling",
    "last row, max pooling",
    "last row, probabilities",
    "16 rows, probabilities, pooled over 5",
    "16 rows, probabilities",
    "16 rows, probabilities, best head",
    "middle row",
    "row of largest query",
    "row of largest logits",
    "random tokens",
    "SnapKV",
]


@dataclass(frozen=True, kw_only=True)
class Answer(Row):
    """A reply to one prompt. recall: share of the needle kept, of methods that keep one set of tokens."""

    experiment, unit, key = "gemfilter/needle", "sentence", ("length", "needle", "depth", "method")
    kind: Literal["answer"] = "answer"
    length: Annotated[int, COUNT]
    sentence: Annotated[int, SEED]
    needle: Annotated[int, SEED]
    depth: Annotated[float, SHARE]
    method: Method
    accuracy: Annotated[float, PERCENT]
    needle_score: Annotated[float, SHARE]
    recall: Annotated[float, PERCENT] | None
    reply: Annotated[str, NAME]


@dataclass(frozen=True, kw_only=True)
class KindAnswer(Answer):
    """As Answer, of the experiment that has a sentence kind, a needle and a text of its own for each unit."""

    experiment, unit, key = "gemfilter/kinds", "sentence", ("length", "depth", "method")
    kind: Literal["kind answer"] = "kind answer"  # pyright: ignore[reportIncompatibleVariableOverride]


@dataclass(frozen=True, kw_only=True)
class Kept(Row):
    """What a rule keeps of one prompt at one layer.

    recall: share of the needle kept; distance: tokens to the nearest kept one; focus: share of the kept tokens inside
    the needle or the last 32; union: positions that all groups of heads of SnapKV keep together; sees_all: the layer
    has no window.
    """

    experiment, unit, key = "gemfilter/layers", "sentence", ("length", "chat", "needle", "depth", "layer", "rule")
    kind: Literal["kept"] = "kept"
    length: Annotated[int, COUNT]
    chat: bool
    sentence: Annotated[int, SEED]
    needle: Annotated[int, SEED]
    depth: Annotated[float, SHARE]
    layer: Annotated[int, COUNT]
    sees_all: bool
    rule: Rule
    recall: Annotated[float, PERCENT]
    distance: Annotated[float, POSITIVE]
    focus: Annotated[float, PERCENT]
    union: Annotated[float, POSITIVE] | None


@dataclass(frozen=True, kw_only=True)
class Timing(Row):
    """Seconds and bytes of a method at one length.

    prompt: seconds; pass_one: of them those of the filter pass, over the full model's; prompt_ratio: the full model's
    seconds over these; token: ms of a generated token; cache, prompt_peak: MiB; layer_share: layers that pass one
    begins.
    """

    experiment, unit, key = "gemfilter/cost", "repeat", ("length", "method")
    kind: Literal["timing"] = "timing"
    length: Annotated[int, COUNT]
    method: Method
    repeat: Annotated[int, SEED]
    prompt: Annotated[float, POSITIVE]
    pass_one: Annotated[float, POSITIVE]
    token: Annotated[float, POSITIVE]
    cache: Annotated[float, POSITIVE]
    prompt_peak: Annotated[float, POSITIVE] | None
    prompt_ratio: Annotated[float, POSITIVE]
    layer_share: Annotated[float, SHARE]


Task = Literal[
    "single-document QA",
    "multi-document QA",
    "few-shot classification",
    "passage retrieval",
    "passage count",
    "list of topics",
]


@dataclass(frozen=True, kw_only=True)
class Score(Row):
    """A graded reply to one item of a task. budget: tokens or entries that stay, 0 for all; layer: -1 but where several
    filter layers are compared; kept: what stayed of this prompt."""

    experiment, unit, key = "gemfilter/minibench", "item", ("chat", "task", "method", "budget", "layer")
    kind: Literal["score"] = "score"
    chat: bool
    task: Task
    item: Annotated[int, SEED]
    method: Method
    budget: Annotated[int, COUNT]
    layer: Annotated[int, COUNT] | None
    score: Annotated[float, PERCENT]
    tokens: Annotated[int, COUNT]
    kept: Annotated[int, COUNT]
    reply: Annotated[str, NAME]


@dataclass(frozen=True, kw_only=True)
class Sparse(Row):
    """A reply from the tokens that a filter pass of one pattern kept. window: None for the exact pass; products: query
    with key products formed, of those of causal attention."""

    experiment, unit, key = "gemfilter/sparse", "sentence", ("length", "needle", "depth", "window")
    kind: Literal["sparse"] = "sparse"
    length: Annotated[int, COUNT]
    sentence: Annotated[int, SEED]
    needle: Annotated[int, SEED]
    depth: Annotated[float, SHARE]
    window: Annotated[int, COUNT] | None
    accuracy: Annotated[float, PERCENT]
    recall: Annotated[float, PERCENT]
    products: Annotated[float, PERCENT]
    reply: Annotated[str, NAME]


R = TypeVar("R", bound=Row)


def by_unit(table: Table[R], name: str) -> dict[Any, float]:
    """Mean of a column by unit: over the rows of each needle, then over needles, so that none counts for more by having
    more depths, and no kind of sentence by having more needles."""
    found: dict[Any, dict[Any, list[float]]] = {}
    for row, value in zip(table.rows, table.column(name), strict=True):
        needles = found.setdefault(getattr(row, table.kind.unit), {})
        needles.setdefault(getattr(row, "needle", 0), []).append(float(value))
    return {u: float(np.mean([np.mean(v) for v in needles.values()])) for u, needles in found.items()}


def mean_by_unit(table: Table[R], name: str) -> Estimate:
    """Mean of a column with units as what is independent."""
    return mean_of(list(by_unit(table, name).values()), column(table.kind, name).quantity, table.kind.unit)


def less(table: Table[R], name: str, one: Mapping[str, Any], two: Mapping[str, Any]) -> Estimate:
    """Mean over units of a column, arm `one` less arm `two`, both on the same prompts; it knows the level of `two`.

    As `Table.paired`, for kinds of sentence with unlike numbers of needles.
    """
    here, there = (by_unit(table.where(**arm), name) for arm in (one, two))
    quantity = column(table.kind, name).quantity
    span = quantity.high - quantity.low
    difference = replace(quantity, name="difference", low=-span, high=span, chance=None)
    made = mean_of([here[u] - there[u] for u in here], difference, table.kind.unit)
    reference = float(np.mean(list(there.values())))
    return replace(made, reference=reference, room=(quantity.high - reference, reference - quantity.low))


FLOOR = 10.0
OFF_THE_FLOOR = f"tasks in which the full cache scores {FLOOR:g} % or more, twice the margin of 5 points"


def off_the_floor(table: Table[Score]) -> tuple[str, ...]:
    """The tasks that the full cache can do: where it fails, nothing that is left out can show."""
    tasks = table.where(method=FULL).by("task")
    return tuple(t for t, part in tasks.items() if mean_by_unit(part, "score").value >= FLOOR)
