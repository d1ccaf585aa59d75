"""Rows that the experiments of this work write and its claims read."""

from dataclasses import dataclass
from typing import Annotated, Literal

from featlearn.lab.quantity import COUNT, POSITIVE, SEED, SHARE
from featlearn.lab.row import Row

MIXTURES = "tradeoff/mixtures"
Mixture = Literal["even", "uneven"]
Representation = Literal["closed form", "trained", "tuned on the target"]
EVEN: Mixture = "even"
UNEVEN: Mixture = "uneven"
CLOSED: Representation = "closed form"
TRAINED: Representation = "trained"
TUNED: Representation = "tuned on the target"


@dataclass(frozen=True, kw_only=True)
class Learned(Row):
    """What contrastive pretraining on a mixture of tasks has learned: means of the diagonal of (WM)^T WM over shared
    features, those of the target task, those of all other tasks (None for a single task) and spurious ones.

    weight: of the target task in the mixture. distance: ||W^T W - G|| / ||G|| to the optimum G of an even mixture, None
    for an uneven one.
    """

    experiment, key = MIXTURES, ("tasks", "mixture")
    kind: Literal["learned"] = "learned"
    tasks: Annotated[int, COUNT]
    mixture: Mixture
    weight: Annotated[float, SHARE]
    r: Annotated[int, COUNT]
    s: Annotated[int, COUNT]
    temperature: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    shared: Annotated[float, POSITIVE]
    own: Annotated[float, POSITIVE]
    other: Annotated[float, POSITIVE] | None
    spurious: Annotated[float, POSITIVE]
    distance: Annotated[float, POSITIVE] | None


@dataclass(frozen=True, kw_only=True)
class Probe(Row):
    """Linear probing of the target task with m labels on a representation of so many tasks.

    risk: E |u^T phi(x) - y| of the empirical risk minimiser of least norm, a mean over draws of the m labels; worst: of
    the worst empirical risk minimiser of norm at most B, the least norm of a predictor without error.
    """

    experiment, key = MIXTURES, ("representation", "tasks", "m")
    kind: Literal["probe"] = "probe"
    representation: Representation
    tasks: Annotated[int, COUNT]
    m: Annotated[int, COUNT]
    r: Annotated[int, COUNT]
    s: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    risk: Annotated[float, POSITIVE]
    worst: Annotated[float, POSITIVE]
