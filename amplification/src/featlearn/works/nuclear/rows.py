"""Rows that the experiments of this work write and its claims read, and how settings are chosen on digits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from featlearn.errors import MissingUnit
from featlearn.lab.quantity import COUNT, NAME, POSITIVE, REAL, SEED, SHARE
from featlearn.lab.row import Row
from featlearn.lab.table import Table

SYNTHETIC, DIGITS = "nuclear/synthetic", "nuclear/digits"

ERM, NU = "ERM", "ERM-NU"
FREE, UNIT = "free head", "unit head"
NEAR = 0.02
DECAY_UNIT, DECAY_FREE = "l2 of the features, unit head", "weight decay of both layers, free head"
NUCLEAR_UNIT, NUCLEAR_FREE = "nuclear norm, unit head", "nuclear norm, free head"
PENALTIES = (DECAY_UNIT, DECAY_FREE, NUCLEAR_UNIT, NUCLEAR_FREE)


@dataclass(frozen=True, kw_only=True)
class Path(Row):
    """Training on two inputs at one step, over the starts of one sample; n = 0 is the whole law.

    ood_low, ood, ood_high: 5, 50 and 95 percent of the exact accuracies out of distribution; id, train_loss: means;
    near: share of starts whose ood is within NEAR of the number reported for the method. scale: of the start.
    """

    experiment, key = SYNTHETIC, ("n", "row", "head", "scale", "step")
    kind: Literal["path"] = "path"
    n: Annotated[int, COUNT]
    row: Literal["ERM", "ERM-NU"]
    head: Literal["free head", "unit head"]
    scale: Annotated[float, POSITIVE]
    step: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    ood_low: Annotated[float, SHARE]
    ood: Annotated[float, SHARE]
    ood_high: Annotated[float, SHARE]
    id: Annotated[float, SHARE]
    train_loss: Annotated[float, POSITIVE]
    near: Annotated[float, SHARE]


@dataclass(frozen=True, kw_only=True)
class End(Row):
    """The end of long training with a penalty: means over starts.

    slope: b of the direction (1, b); spread: of ood over starts; top: largest singular value of A.
    """

    experiment, key = SYNTHETIC, ("n", "row", "weight")
    kind: Literal["end"] = "end"
    n: Annotated[int, COUNT]
    row: Literal[
        "l2 of the features, unit head",
        "weight decay of both layers, free head",
        "nuclear norm, unit head",
        "nuclear norm, free head",
    ]
    weight: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    slope: Annotated[float, REAL]
    id: Annotated[float, SHARE]
    ood: Annotated[float, SHARE]
    train_loss: Annotated[float, POSITIVE]
    spread: Annotated[float, SHARE]
    head_norm: Annotated[float, POSITIVE]
    top: Annotated[float, POSITIVE]


def place(n: int) -> str:
    """What was trained on, in words."""
    return f"n = {n}" if n else "the law itself"


# --- digits ----------------------------------------------------------------------------------------------------------

BASES = {"erm": "ERM", "mixup": "Mixup", "swad": "SWAD"}
"""Algorithms that the paper regularises, as rows name them (without "-nu") and as it does."""
RANKS = {"rank": "stable rank", "rank_centred": "stable rank, centred", "reported": "stable rank, norm not squared"}
DEGENERATE = 0.99


@dataclass(frozen=True, kw_only=True)
class Run(Row):
    """A training on digits with one domain held out, of one step size and weight of the nuclear norm by the rows of a
    step: the weights of the best validation accuracy, or (swad) the mean over a flat part of the same training.

    validation, test: accuracies on a fifth of the training domains and on the held-out one, at `step`; rule: largest
    share of held-out predictions that a rule gives which sees the colour alone (without colours: one class). Of the
    held-out features: norm (nuclear, by rows), rank and rank_centred (stable rank, usual form), reported (|F|_F^2 /
    |F|_2).
    """

    experiment, key = DIGITS, ("data", "held_out", "row", "rate", "weight")
    kind: Literal["run"] = "run"
    data: Literal["rotated mnist", "colored mnist", "rotated digits", "colored digits"]
    held_out: Annotated[str, NAME]
    row: Literal["erm", "swad", "mixup", "swad-mixup", "coral", "swad-coral"]
    rate: Annotated[float, POSITIVE]
    weight: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    step: Annotated[int, COUNT]
    validation: Annotated[float, SHARE]
    test: Annotated[float, SHARE]
    rule: Annotated[float, SHARE]
    norm: Annotated[float, POSITIVE]
    rank: Annotated[float, POSITIVE]
    rank_centred: Annotated[float, POSITIVE]
    reported: Annotated[float, POSITIVE]

    @property
    def degenerate(self) -> bool:
        """Whether its predictions on the held-out domain say next to nothing but the colour, or are one class."""
        return self.rule >= DEGENERATE


@dataclass(frozen=True)
class Pair:
    """What validation chooses for one seed and held-out domain: among runs without the norm, among those with it, and
    the run without it at the step size of the latter."""

    without: Run
    with_: Run
    same: Run

    @property
    def gain(self) -> float:
        """Held-out accuracy with the norm less that without, in points."""
        return 100 * (self.with_.test - self.without.test)


def pairs(table: Table[Run]) -> list[Pair]:
    """The choices of each seed and held-out domain in the runs of one algorithm on one kind of data; no test accuracy
    is looked at in choosing, and of equals the smallest weight and step size is taken. Errors: MissingUnit."""
    out = []
    for (held_out, seed), part in table.by("held_out", "seed").items():
        ordered = sorted(part.rows, key=lambda r: (-r.validation, r.weight, r.rate))
        without, with_ = ([r for r in ordered if (r.weight > 0) == nuclear] for nuclear in (False, True))
        same = [r for r in without if with_ and r.rate == with_[0].rate]
        if not same:
            raise MissingUnit(f"seed {seed}, {held_out} held out: runs with and without the nuclear norm are needed")
        out.append(Pair(without[0], with_[0], same[0]))
    return out


def by_seed(found: Sequence[Pair], read: Callable[[Pair], float]) -> list[float]:
    """Means over held-out domains, in the order of seeds."""
    seeds = sorted({p.with_.seed for p in found})
    return [float(np.mean([read(p) for p in found if p.with_.seed == s])) for s in seeds]


def arms(table: Table[Run]) -> dict[tuple[str, str], Table[Run]]:
    """(data, algorithm) -> its runs, of algorithms that ran with and without the nuclear norm."""
    groups = table.by("data", "row")
    return {k: part for k, part in groups.items() if {r.weight > 0 for r in part.rows} == {False, True}}
