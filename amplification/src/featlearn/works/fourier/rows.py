"""Rows that the experiments of this work write and its claims read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from featlearn.lab.quantity import COUNT, PERCENT, POSITIVE, REAL, SEED, SHARE
from featlearn.lab.row import Row

Weights = Literal["trained", "start", "trained embedding, start of W^KQ"]
TRAINED: Weights = "trained"
START: Weights = "start"
SWAPPED: Weights = "trained embedding, start of W^KQ"
"""Weights of attention matrices; the third is a control: only the embedding moved."""
Variant = Literal["reported", "more decay", "equal data"]
REPORTED: Variant = "reported"
DECAYED: Variant = "more decay"
EQUAL: Variant = "equal data"
"""Variants of grokking."""


@dataclass(frozen=True, kw_only=True)
class Neurons(Row):
    """What the neurons of a trained network of k-th powers look like.

    margin, mean_margin: least and mean over all points, normalised, over gamma*. live: neurons, and held: the summed
    (k+1)-th powers of norms that they hold. Of live neurons: share, share_low: median and 5th percentile of a neuron's
    power at its top frequency, share_vectors: mean over vectors, same: those whose k + 1 vectors have one top
    frequency, phase: median |sum theta_u - theta_w| in radians, cosine_low: 5th percentile of r^2 of the best cosine,
    covered: frequencies that dominate one, most_over_least: counts of them by frequency, None where one has none.
    """

    k: Annotated[int, COUNT]
    p: Annotated[int, COUNT]
    m: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    steps: Annotated[int, COUNT]
    margin: Annotated[float, REAL]
    mean_margin: Annotated[float, REAL]
    live: Annotated[float, PERCENT]
    held: Annotated[float, PERCENT]
    share: Annotated[float, SHARE]
    share_low: Annotated[float, SHARE]
    share_vectors: Annotated[float, SHARE]
    same: Annotated[float, PERCENT]
    phase: Annotated[float, POSITIVE] | None
    covered: Annotated[float, PERCENT]
    most_over_least: Annotated[float, POSITIVE] | None
    cosine_low: Annotated[float, SHARE]


@dataclass(frozen=True, kw_only=True)
class Network(Neurons):
    """A network trained on a share `train` of all points.

    accuracies on all points of either side, None where nothing was held out; share_start: as share_vectors, all vectors
    at the start; test99: step of the first evaluation with 99 % of the sampled test points; stalled: the step at which
    the loss of every training point was 0.
    """

    experiment, key = "fourier/circuits", ("k", "p", "train")
    kind: Literal["network"] = "network"
    train: Annotated[float, SHARE]
    batch: Annotated[int, COUNT]
    train_acc: Annotated[float, PERCENT]
    test_acc: Annotated[float, PERCENT] | None
    share_start: Annotated[float, SHARE]
    test99: Annotated[int, COUNT] | None
    stalled: Annotated[int, COUNT] | None


@dataclass(frozen=True, kw_only=True)
class Evaluation(Row):
    """A network in training, on a sample of points; margin over gamma*."""

    experiment, key = "fourier/circuits", ("k", "p", "train", "step")
    kind: Literal["evaluation"] = "evaluation"
    k: Annotated[int, COUNT]
    p: Annotated[int, COUNT]
    train: Annotated[float, SHARE]
    seed: Annotated[int, SEED]
    step: Annotated[int, COUNT]
    train_acc: Annotated[float, PERCENT]
    test_acc: Annotated[float, PERCENT] | None
    margin: Annotated[float, REAL]


@dataclass(frozen=True, kw_only=True)
class Minimised(Neurons):
    """A network trained on all points at one lambda, with the least loss in closed form."""

    experiment, key = "fourier/margin", ("k", "p", "m", "penalty")
    kind: Literal["minimised"] = "minimised"
    penalty: Annotated[float, POSITIVE]
    loss: Annotated[float, POSITIVE]
    least_loss: Annotated[float, POSITIVE]


@dataclass(frozen=True, kw_only=True)
class Climb(Row):
    """Such a network on the way: margins over gamma*, and the loss."""

    experiment, key = "fourier/margin", ("k", "p", "m", "penalty", "step")
    kind: Literal["climb"] = "climb"
    k: Annotated[int, COUNT]
    p: Annotated[int, COUNT]
    m: Annotated[int, COUNT]
    penalty: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    step: Annotated[int, COUNT]
    margin: Annotated[float, REAL]
    mean_margin: Annotated[float, REAL]
    loss: Annotated[float, POSITIVE]


@dataclass(frozen=True, kw_only=True)
class Heads(Row):
    """Power of the heads' matrices E^T W^KQ E: median over heads of the share in the one and four strongest conjugate
    pairs of bins, and the percent of heads with more than 0.8 in four."""

    experiment, key = "fourier/attention", ("k", "p", "readout", "weights")
    kind: Literal["heads"] = "heads"
    k: Annotated[int, COUNT]
    p: Annotated[int, COUNT]
    readout: Literal["equals", "last"]
    weights: Weights
    heads: Annotated[int, COUNT]
    width: Annotated[int, COUNT]
    batch: Annotated[int, COUNT]
    steps: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    top1: Annotated[float, SHARE]
    top4: Annotated[float, SHARE]
    sparse: Annotated[float, PERCENT]


@dataclass(frozen=True, kw_only=True)
class Learned(Row):
    """What a one-layer transformer has learnt, on all points of either side."""

    experiment, key = "fourier/attention", ("k", "p", "readout")
    kind: Literal["learned"] = "learned"
    k: Annotated[int, COUNT]
    p: Annotated[int, COUNT]
    readout: Literal["equals", "last"]
    heads: Annotated[int, COUNT]
    width: Annotated[int, COUNT]
    batch: Annotated[int, COUNT]
    n_train: Annotated[int, COUNT]
    steps: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    train_acc: Annotated[float, PERCENT]
    test_acc: Annotated[float, PERCENT]


@dataclass(frozen=True, kw_only=True)
class Arrival(Row):
    """When accuracies of a two-layer transformer come: steps of evaluations.

    train95, train99: the first at this percentage on training points; test95, test99: the one from which the accuracy
    on test points stays there to the end of the run, None where it ends below. budget: the most steps; steps: how long
    the run was, which ends a twentieth after both accuracies were first at 99 %. accuracies at the end on all points.
    """

    experiment, key = "fourier/grokking", ("variant", "k", "p")
    kind: Literal["arrival"] = "arrival"
    variant: Variant
    k: Annotated[int, COUNT]
    p: Annotated[int, COUNT]
    heads: Annotated[int, COUNT]
    width: Annotated[int, COUNT]
    batch: Annotated[int, COUNT]
    rate: Annotated[float, POSITIVE]
    decay: Annotated[float, POSITIVE]
    n_train: Annotated[int, COUNT]
    budget: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    steps: Annotated[int, COUNT]
    train95: Annotated[int, COUNT] | None
    train99: Annotated[int, COUNT] | None
    test95: Annotated[int, COUNT] | None
    test99: Annotated[int, COUNT] | None
    train_acc: Annotated[float, PERCENT]
    test_acc: Annotated[float, PERCENT]


@dataclass(frozen=True)
class Delay:
    """From the step where training accuracy came to the one from which test accuracy stayed: the difference and the
    ratio; open: it never stayed, and both are what was waited, so lower bounds."""

    lag: float
    ratio: float
    open: bool


def delays(rows: Sequence[Arrival], level: int) -> dict[int, list[Delay]]:
    """k -> the delay of each seed whose training accuracy came to `level` percent."""
    found: dict[int, list[Delay]] = {k: [] for k in sorted({r.k for r in rows})}
    for r in rows:
        begin, end = getattr(r, f"train{level}"), getattr(r, f"test{level}")
        if begin is not None:
            last = r.steps if end is None else end
            found[r.k].append(Delay(float(last - begin), last / max(begin, 1), end is None))
    return found
