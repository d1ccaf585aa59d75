"""Rows that the experiments of this work write and its claims read."""

from dataclasses import dataclass
from typing import Annotated, Literal

from featlearn.lab.quantity import COSINE, COUNT, PERCENT, POINTS, POSITIVE, REAL, SEED, SHARE
from featlearn.lab.row import Row
from featlearn.tasks.xor_clusters import Law, Noise

# amplification/steps
TIGHT, SCALE, REPORTED = "tight clusters", "scale", "reported sigma"
# amplification/theorem1
GRID, REGIME, FEW = "grid", "regime of A1 to A7", "few samples"
OTHERS: dict[str, tuple[Noise, Law]] = {
    "adversarial flips": ("adversarial", "gaussian"),
    "laplace": ("random", "laplace"),
    "uniform": ("random", "uniform"),
    "exponential": ("random", "exponential"),
}
# amplification/figure2
LOW, HIGH, REPORTED_RATE, TWIN, SWEEP = (
    "low dimension",
    "high dimension",
    "reported step size",
    "its twin",
    "sweep",
)


@dataclass(frozen=True, kw_only=True)
class Fit(Row):
    """A network at T, on its training samples and on unseen ones; scale is omega sqrt(m d).

    good: 100 where every clean training label is right and every flipped one wrong, else 0.
    """

    experiment, key = "amplification/theorem1", ("part", "d", "n", "alpha", "scale")
    kind: Literal["fit"] = "fit"
    part: Literal[
        "grid",
        "regime of A1 to A7",
        "few samples",
        "adversarial flips",
        "laplace",
        "uniform",
        "exponential",
    ]
    d: Annotated[int, COUNT]
    n: Annotated[int, COUNT]
    m: Annotated[int, COUNT]
    sigma: Annotated[float, POSITIVE]
    eta: Annotated[float, SHARE]
    scale: Annotated[float, POSITIVE]
    alpha: Annotated[float, POSITIVE]
    steps: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    noisy: Annotated[int, COUNT]
    clean_right: Annotated[float, SHARE]
    noisy_wrong: Annotated[float, SHARE]
    norm: Annotated[float, POSITIVE]
    good: Annotated[float, PERCENT]
    n_test: Annotated[int, COUNT]
    test_flips: Annotated[float, SHARE]
    test_error: Annotated[float, PERCENT]
    clean_acc: Annotated[float, PERCENT]


@dataclass(frozen=True, kw_only=True)
class Step(Row):
    """A network after t steps.

    cos_median, cos_mean: cosine with the closest centre over neurons; cos_own_min: the least over the sets J_mu with
    the own centre. aligned: share of the sets that meets Condition 9; capturing: neurons that capture a cluster; both
    in percent. overlap: largest |<w_j, mu>|/(alpha |a_j|) over the other class; growth: max_j ||w_j|| over its bound.
    """

    experiment, key = "amplification/steps", ("part", "d", "scale", "t")
    kind: Literal["step"] = "step"
    part: Literal["tight clusters", "scale", "reported sigma", "regime of A1 to A7"]
    d: Annotated[int, COUNT]
    scale: Annotated[float, POSITIVE]
    sigma: Annotated[float, POSITIVE]
    alpha: Annotated[float, POSITIVE]
    n: Annotated[int, COUNT]
    m: Annotated[int, COUNT]
    eta: Annotated[float, SHARE]
    c0: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    t: Annotated[int, COUNT]
    cos_median: Annotated[float, COSINE]
    cos_mean: Annotated[float, COSINE]
    cos_own_min: Annotated[float, COSINE]
    aligned: Annotated[float, PERCENT]
    capturing: Annotated[float, PERCENT]
    overlap: Annotated[float, POSITIVE]
    growth: Annotated[float, POSITIVE] | None
    frobenius: Annotated[float, POSITIVE]


@dataclass(frozen=True, kw_only=True)
class Movement(Row):
    """A network at T.

    ratio: least relative movement of the hidden features over samples, movement: the same times omega sqrt(m d); edge:
    that of Lemma 6 at the start; sets: least |J_mu| over m/4; margins of the subnetwork J and of the whole network.
    """

    experiment, key = "amplification/steps", ("part", "d", "scale")
    kind: Literal["movement"] = "movement"
    part: Literal["tight clusters", "scale", "reported sigma", "regime of A1 to A7"]
    d: Annotated[int, COUNT]
    scale: Annotated[float, POSITIVE]
    c0: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    movement: Annotated[float, POSITIVE]
    ratio: Annotated[float, POSITIVE]
    edge: Annotated[float, REAL]
    sets: Annotated[float, POSITIVE]
    in_sets: Annotated[float, SHARE]
    margin_clean: Annotated[float, REAL]
    margin_noisy: Annotated[float, REAL]
    whole_clean: Annotated[float, REAL]
    whole_noisy: Annotated[float, REAL]


@dataclass(frozen=True, kw_only=True)
class Plane(Row):
    """A network in the plane at the end. agree: test points on which it agrees with |<mu_1, x>| - |<mu_2, x>|."""

    experiment, key = "amplification/figure1", ()
    kind: Literal["plane"] = "plane"
    seed: Annotated[int, SEED]
    n: Annotated[int, COUNT]
    m: Annotated[int, COUNT]
    steps: Annotated[int, COUNT]
    alpha: Annotated[float, POSITIVE]
    sigma: Annotated[float, POSITIVE]
    scale: Annotated[float, POSITIVE]
    clean_right: Annotated[float, PERCENT]
    noisy_wrong: Annotated[float, PERCENT]
    test_acc: Annotated[float, PERCENT]
    clean_acc: Annotated[float, PERCENT]
    agree: Annotated[float, PERCENT]
    norm: Annotated[float, POSITIVE]


@dataclass(frozen=True, kw_only=True)
class PlanePoint(Row):
    """Accuracies of a network in the plane after some steps."""

    experiment, key = "amplification/figure1", ("step",)
    kind: Literal["point"] = "point"
    seed: Annotated[int, SEED]
    step: Annotated[int, COUNT]
    train_at: Annotated[float, PERCENT]
    train_clean_at: Annotated[float, PERCENT]
    test_at: Annotated[float, PERCENT]
    test_clean_at: Annotated[float, PERCENT]


Part = Literal["low dimension", "high dimension", "reported step size", "its twin", "sweep"]


@dataclass(frozen=True, kw_only=True)
class Overfit(Row):
    """A run past the step fitted_at at which every label is fitted (None: never); accuracies from alpha t = 10 on."""

    experiment, key = "amplification/figure2", ("part", "d", "n", "alpha")
    kind: Literal["run"] = "run"
    part: Part
    d: Annotated[int, COUNT]
    n: Annotated[int, COUNT]
    alpha: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    train_acc: Annotated[float, PERCENT]
    test_best: Annotated[float, PERCENT]
    test_acc: Annotated[float, PERCENT]
    drop: Annotated[float, POINTS]
    clean_acc: Annotated[float, PERCENT]
    clean_min: Annotated[float, PERCENT]
    fitted_at: Annotated[int, COUNT] | None
    interpolated: Annotated[float, PERCENT]
    steps: Annotated[int, COUNT]


@dataclass(frozen=True, kw_only=True)
class Point(Row):
    """Accuracies of a run after some steps."""

    experiment, key = "amplification/figure2", ("part", "d", "n", "alpha", "step")
    kind: Literal["point"] = "point"
    part: Part
    d: Annotated[int, COUNT]
    n: Annotated[int, COUNT]
    alpha: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    step: Annotated[int, COUNT]
    train: Annotated[float, PERCENT]
    test: Annotated[float, PERCENT]
    clean: Annotated[float, PERCENT]
