"""Rows of the experiment on texts, and what its claim and summary read from them."""

from dataclasses import dataclass
from typing import Annotated, Literal

from featlearn.lab.quantity import PERCENT, POSITIVE, SEED, SHARE
from featlearn.lab.row import Row
from featlearn.lab.selection import Choice, select
from featlearn.lab.table import Table

REVIEWS = "tradeoff/reviews"
Domain = Literal["movies", "products", "made-up"]
Way = Literal["LP", "FT", "CR"]


@dataclass(frozen=True, kw_only=True)
class Tuned(Row):
    """Accuracy on the target after the encoder was adapted with a share of its labels: on test texts, of validation
    seeds on texts that nothing else uses. Both classes are equally frequent.

    rate, weight: of fine-tuning, None for a probe, whose penalty is `decay`. accuracy: None where training left the
    finite numbers.
    """

    experiment, key = REVIEWS, ("target", "how", "share", "rate", "decay", "weight", "role")
    kind: Literal["tuned"] = "tuned"
    target: Domain
    how: Way
    share: Annotated[float, SHARE]
    rate: Annotated[float, POSITIVE] | None
    decay: Annotated[float, POSITIVE]
    weight: Annotated[float, POSITIVE] | None
    role: Literal["validation", "reported"]
    seed: Annotated[int, SEED]
    accuracy: Annotated[float, PERCENT.at_chance(50.0)] | None


def chosen(table: Table[Tuned]) -> Choice:
    """The step size, decay and weight of the best mean accuracy of validation seeds, of one way at one share; a run
    that diverged counts as 0."""
    grid = {
        point: [0.0 if r.accuracy is None else r.accuracy for r in part.rows]
        for point, part in table.where(role="validation").by("rate", "decay", "weight").items()
    }
    return select(grid, ("rate", "decay", "weight"), least=False)


def at_chosen(table: Table[Tuned]) -> dict[int, float]:
    """Seed -> accuracy of the reported rows at the chosen setting; a run that diverged is a guess, 50."""
    rate, decay, weight = chosen(table).point
    found = table.where(role="reported", rate=rate, decay=decay, weight=weight)
    return {r.seed: 50.0 if r.accuracy is None else r.accuracy for r in found.rows}
