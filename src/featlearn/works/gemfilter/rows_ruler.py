"""Rows of `gemfilter/ruler`, in a file of their own: the unit is the haystack within a task."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from scipy import special

from featlearn.lab.quantity import COUNT, NAME, PERCENT, SEED
from featlearn.lab.row import Row
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate
from featlearn.works.gemfilter.rows import FULL, Method

Kind = Literal[
    "niah_single_1",
    "niah_single_2",
    "niah_single_3",
    "niah_multikey_1",
    "niah_multikey_2",
    "niah_multikey_3",
    "niah_multivalue",
    "niah_multiquery",
    "vt",
    "cwe",
    "fwe",
    "qa_1",
    "qa_2",
]


@dataclass(frozen=True, kw_only=True)
class RulerScore(Row):
    """A scored reply to one prompt. haystack: which of a task's, no two of which share a text or a fact; budget: tokens
    or entries that stay, 0 for all; score: share of the answers that the reply holds; tokens: of the prompt."""

    experiment, unit, key = "gemfilter/ruler", "haystack", ("model", "task", "method", "budget")
    kind: Literal["ruler"] = "ruler"
    model: Annotated[str, NAME]
    task: Kind
    haystack: Annotated[int, SEED]
    method: Method
    budget: Annotated[int, COUNT]
    score: Annotated[float, PERCENT]
    tokens: Annotated[int, COUNT]
    reply: Annotated[str, NAME]


FLOOR = 20.0
"""Percent: a task in which the full cache is surely below has little to lose, so that no loss there says nothing."""


def at_the_floor(full: Estimate) -> bool:
    """Whether a full cache scores so little on a task that nothing which is left out can show.

    It does where no reply holds anything, and where the upper end of Student's 95 % interval is below FLOOR. The exact
    bound stands for neither: ten replies of ten that hold nothing leave it at 31 %, and it takes a share of ten answers
    for one of one.

    Example:
        >>> from featlearn.lab.uncertainty import mean_of
        >>> [at_the_floor(mean_of([0.0] * 9 + [last], PERCENT, "haystack")) for last in (0.0, 50.0, 100.0)]
        [True, True, False]
    """
    if full.value == 0:
        return True
    return full.n > 1 and full.value + float(special.stdtrit(full.degrees, 0.975)) * full.error < FLOOR


def full_cache(part: Table[RulerScore]) -> Estimate:
    """Mean score of the full cache over the haystacks of one model and task."""
    return part.where(method=FULL).mean("score")


def difference(part: Table[RulerScore], method: Method, budget: int) -> Estimate:
    """Score of a method less that of the full cache on the same prompts: mean over haystacks of one model and task.

    At the floor it has no room, so that no judge takes it for a result. Open answers are not guessed: chance is 0.
    """
    made = part.paired("score", {"method": method, "budget": budget}, {"method": FULL, "budget": 0}, chance=0.0)
    return replace(made, room=(made.room[0], 0.0)) if at_the_floor(full_cache(part)) else made
