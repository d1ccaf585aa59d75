"""Rows that the experiments of this work write and its claims read, and the grid points that are selected."""

import math
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypeVar

import numpy as np

from featlearn.errors import EmptyArm
from featlearn.lab.quantity import COUNT, PERCENT, POSITIVE, REAL, SEED
from featlearn.lab.row import Row
from featlearn.lab.selection import Choice, select
from featlearn.lab.table import Table

Role = Literal["reported", "validation"]
Layers = Literal["both layers", "first layer alone"]
BOTH, FROZEN = "both layers", "first layer alone"


@dataclass(frozen=True, kw_only=True)
class Budget(Row):
    """Samples until the target accuracy at one grid point: None where they did not suffice `over` samples.

    share: batch over d; for the RBF kernel its squared bandwidth over d. noise: eta d / batch, the growth of ||w||^2
    by minibatch noise in unit time; for kernels the ridge penalty over the kernel's diagonal.
    """

    experiment, key = "xor_sgd/samples", ("learner", "d", "share", "noise")
    kind: Literal["budget"] = "budget"
    learner: Literal["Network", "NTK", "RBF"]
    d: Annotated[int, COUNT]
    share: Annotated[float, POSITIVE]
    noise: Annotated[float, POSITIVE]
    role: Role
    seed: Annotated[int, SEED]
    samples: Annotated[float, POSITIVE] | None
    over: Annotated[float, POSITIVE] | None


@dataclass(frozen=True, kw_only=True)
class Variant(Row):
    """As Budget, for what the work leaves open. best: the best test accuracy on the way, in percent."""

    experiment, key = "xor_sgd/limits", ("learner", "d", "share", "noise")
    kind: Literal["variant"] = "variant"
    learner: Literal["Minibatch", "Batch 1", "Gaussian inputs", "Squared loss", "Fixed set"]
    d: Annotated[int, COUNT]
    share: Annotated[float, POSITIVE]
    noise: Annotated[float, POSITIVE]
    role: Role
    seed: Annotated[int, SEED]
    samples: Annotated[float, POSITIVE] | None
    over: Annotated[float, POSITIVE] | None
    best: Annotated[float, PERCENT]


@dataclass(frozen=True, kw_only=True)
class Growth(Row):
    """What a step of the first unit of time adds to the signal and to the opposite signal, over eq. (4.3)."""

    experiment, key = "xor_sgd/phases", ("layers", "d")
    kind: Literal["growth"] = "growth"
    layers: Layers
    d: Annotated[int, COUNT]
    eta: Annotated[float, POSITIVE]
    theta: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    sig: Annotated[float, REAL]
    opp: Annotated[float, REAL]


@dataclass(frozen=True, kw_only=True)
class Phase(Row):
    """A network at one time (steps times eta).

    sig, opp, perp: root mean squares over neurons; mass: E ||a w||; dominated: neurons whose signal is above the rest,
    and least_cluster the share of them in the smallest of the four clusters, in percent; margin_min, margin_max: over
    clusters, with loss_size_min and loss_size_max the sizes of the loss derivative there; outside: mass of neurons that
    are not heavy over the least heavy margin; imbalance: E ||w||^2 - E a^2; excess: the largest |a| - ||w||.
    """

    experiment, key = "xor_sgd/phases", ("layers", "d", "time")
    kind: Literal["phase"] = "phase"
    layers: Layers
    d: Annotated[int, COUNT]
    eta: Annotated[float, POSITIVE]
    theta: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    time: Annotated[float, POSITIVE]
    sig: Annotated[float, POSITIVE]
    opp: Annotated[float, POSITIVE]
    perp: Annotated[float, POSITIVE]
    mass: Annotated[float, POSITIVE]
    dominated: Annotated[float, PERCENT]
    least_cluster: Annotated[float, PERCENT]
    margin_min: Annotated[float, REAL]
    margin_max: Annotated[float, REAL]
    loss_size_min: Annotated[float, POSITIVE]
    loss_size_max: Annotated[float, POSITIVE]
    test_accuracy: Annotated[float, PERCENT]
    loss: Annotated[float, POSITIVE]
    heavy_mass: Annotated[float, POSITIVE]
    outside: Annotated[float, POSITIVE]
    imbalance: Annotated[float, REAL]
    excess: Annotated[float, REAL]


@dataclass(frozen=True, kw_only=True)
class Crossing(Row):
    """When a network of one dimension reaches its loss (steps times eta); None where it was not waited for long enough.

    batch: in units of d. start: root mean square of the signal at the start, over theta. growth: the factor a step by
    which it grows early on.
    """

    experiment, key = "xor_sgd/time", ("eta", "batch", "d")
    kind: Literal["crossing"] = "crossing"
    d: Annotated[int, COUNT]
    eta: Annotated[float, POSITIVE]
    batch: Annotated[float, POSITIVE]
    theta: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    start: Annotated[float, POSITIVE]
    growth: Annotated[float, POSITIVE]
    time: Annotated[float, POSITIVE] | None


def by_seed(table: Table[Crossing]) -> tuple[np.ndarray, np.ndarray]:
    """Regressor 2 log(1 / start) and times, both (seeds, dimensions), of one step size and batch."""
    seeds = list(table.by("seed").values())
    x = np.array([[2 * math.log(1 / r.start) for r in part.rows] for part in seeds])
    return x, np.array([part.column("time") for part in seeds])


R = TypeVar("R", Budget, Variant)


@dataclass(frozen=True)
class Selected(Generic[R]):
    """The grid point of a learner in one dimension: the choice on validation seeds, and its rows of reported seeds."""

    d: int
    choice: Choice
    reported: Table[R]

    @property
    def samples(self) -> tuple[float, ...]:
        """Budgets of the reported seeds that arrived."""
        return tuple(r.samples for r in self.reported.rows if r.samples is not None)

    @property
    def missed(self) -> int:
        """How many reported seeds never arrived."""
        return len(self.reported) - len(self.samples)


def grid_of(table: Table[R]) -> dict[tuple[float, float], list[float]]:
    """(share, noise) -> log budgets of the validation seeds, of the points at which all of them arrived."""
    points = table.where(role="validation").by("share", "noise")
    budgets = {point: [r.samples for r in part.rows] for point, part in points.items()}
    return {p: [math.log(b) for b in found if b] for p, found in budgets.items() if all(found)}


def chosen(table: Table[R], learner: str, share: float | None = None) -> list[Selected[R]]:
    """For each dimension the selected grid point of a learner; with a share only that batch size."""
    part = table.where(learner=learner) if share is None else table.where(learner=learner, share=share)
    found: list[Selected[R]] = []
    for d, here in part.by("d").items():
        try:
            choice = select(grid_of(here), ("batch", "step size"))
        except EmptyArm:  # no grid point brought every validation seed to the target
            continue
        at = dict(zip(("share", "noise"), choice.point, strict=True))
        found.append(Selected(d, choice, here.where(role="reported", **at)))
    return found


def saved_at_edges(table: Table[Budget], learner: str) -> list[float]:
    """For each d the largest share of the samples that the last step of an axis saves before the grid ends.

    From the validation seeds, at the other axis as it was selected. 0 inside; 1 for a grid of one or two points, which
    has no inside.
    """
    shares: list[float] = []
    for p in chosen(table, learner):
        means = {k: float(np.mean(v)) for k, v in grid_of(table.where(learner=learner, d=p.d)).items()}
        saved = 0.0 if len(means) > 2 else 1.0
        for i in range(2):
            line = sorted(k for k in means if k[1 - i] == p.choice.point[1 - i])
            if len(line) > 1 and p.choice.point in (line[0], line[-1]):
                before = line[1] if p.choice.point == line[0] else line[-2]
                saved = max(saved, 1 - math.exp(means[p.choice.point] - means[before]))
        shares.append(saved)
    return shares
