"""Rows of the experiment on texts."""

from dataclasses import dataclass
from typing import Annotated, Literal

from featlearn.lab.quantity import PERCENT, POSITIVE, SEED, SHARE
from featlearn.lab.row import Row

REVIEWS = "tradeoff/reviews"
Domain = Literal["movies", "products", "made-up"]
Way = Literal["LP", "FT", "CR"]


@dataclass(frozen=True, kw_only=True)
class Tuned(Row):
    """Accuracy on the target after the encoder was adapted with a share of its labels: on test texts, of validation
    seeds on texts that nothing else of their seed uses. Both classes are equally frequent. Each seed splits the same
    collection anew, so that texts on which one seed is tested are others' to train on, to choose by or to test on.

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
