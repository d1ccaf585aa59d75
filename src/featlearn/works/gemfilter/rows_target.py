"""Rows of `gemfilter/target`, in a file of their own, and the rule by which a candidate is chosen from them.

The unit is the kind of sentence. The rule stood before any row: for each model the candidate with the highest mean
share of right answers over the validation kinds, at the worse of its lengths; of equals the first of CANDIDATES, which
go from the simplest to the dearest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from featlearn.lab.quantity import COUNT, NAME, PERCENT, SEED, SHARE
from featlearn.lab.row import Row
from featlearn.lab.statistics import units_needed
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate
from featlearn.works.gemfilter.rows import FULL, OURS, less, mean_by_unit

HALF, SENTENCES = "Sentences (half)", "Sentences"
LAYERS, QUERIED, ONE_RUN_SENTENCES = "Two layers", "Second query", "One run (sentences)"
Candidate = Literal[
    "GemFilter",
    "Sentences (half)",
    "Sentences",
    "Two layers",
    "Second query",
    "One run",
    "One run (sentences)",
]
Arm = Literal["Full cache", Candidate]
CANDIDATES: tuple[Candidate, ...] = get_args(Candidate)
CHOSEN: Mapping[str, Candidate] = MappingProxyType({"smollm2-135m": OURS, "gemma3-270m": OURS})
"""What the rule gives on the validation rows: as shipped while there are none. A test holds it to them."""
MARGIN = 5.0
"""Points of right answers that count as no loss."""


@dataclass(frozen=True, kw_only=True)
class TargetAnswer(Row):
    """A reply to one prompt with the needle of a reported kind. recall: share of the needle kept, of methods that keep
    one set of tokens; kept: tokens, or entries of each layer and head, that stay."""

    experiment, unit, key = "gemfilter/target", "sentence", ("model", "length", "depth", "method")
    kind: Literal["target answer"] = "target answer"
    model: Annotated[str, NAME]
    length: Annotated[int, COUNT]
    sentence: Annotated[int, SEED]
    depth: Annotated[float, SHARE]
    method: Arm
    accuracy: Annotated[float, PERCENT]
    recall: Annotated[float, PERCENT] | None
    kept: Annotated[int, COUNT]
    reply: Annotated[str, NAME]


@dataclass(frozen=True, kw_only=True)
class ValidationAnswer(TargetAnswer):
    """As TargetAnswer, of a kind to choose on."""

    experiment, unit, key = "gemfilter/target", "sentence", ("model", "length", "depth", "method")
    kind: Literal["validation answer"] = "validation answer"  # pyright: ignore[reportIncompatibleVariableOverride]


def difference(part: Table[Any], method: Arm) -> Estimate:
    """Right answers of a method less those of the full cache on the same prompts, over kinds, of one model and length:
    each kind is the mean over its depths."""
    return less(part, "accuracy", {"method": method}, {"method": FULL})


def worst_share(part: Table[Any], method: Arm) -> float:
    """Percent of right answers of one model, over kinds, at the worse of the lengths."""
    lengths = part.where(method=method).by("length").values()
    return min(round(mean_by_unit(own, "accuracy").value, 9) for own in lengths)  # equal shares are equal numbers


def by_the_rule(table: Table[ValidationAnswer]) -> dict[str, Candidate]:
    """For each model the candidate that the rule chooses from validation rows: see the top of this file."""
    return {model: max(CANDIDATES, key=lambda c: worst_share(part, c)) for model, part in table.by("model").items()}


def kinds_needed(gap: Estimate) -> int | None:
    """Kinds for 80 % power to see that a difference without a loss exceeds -MARGIN, of the spread that was seen over
    validation kinds; None where they do not differ at all, so that nothing is known of it."""
    return units_needed(gap.error * gap.n**0.5, MARGIN) if gap.n > 1 and gap.error > 0 else None
