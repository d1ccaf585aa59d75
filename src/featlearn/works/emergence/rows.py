"""Rows that the experiments of this work write and its claims read. The unit is a seed: a draw of task, data and start
in the simulations, of a start and an order of samples on images."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, TypeVar, cast

from featlearn.lab.quantity import COSINE, COUNT, NAME, PERCENT, POSITIVE, SEED
from featlearn.lab.row import Row

METHODS = ("Network", "NTK", "RF", "One Step", "Two Step", "Linear")
WITHOUT = " w/o structure"
KEPT = "One Step + start"
Method = Literal["Network", "NTK", "RF", "One Step", "One Step + start", "Two Step", "Linear"]
ALONE = "Network w/o structure"
Tuned = Literal["Network", "NTK", "RF", "One Step", "One Step + start", "Two Step", "Linear", "Network w/o structure"]
Snapshot = Literal["init", "step 1", "step 2"]
ALIGNED = 0.95
R = TypeVar("R", bound=Row)


@dataclass(frozen=True, kw_only=True)
class Cell(Row):
    """A row of Tables A.1 to A.5.

    setting: what the table varies, "" where it varies nothing. structure: whether the data have it. cos: the largest
    cosine of a neuron with the effective feature; None for NTK, which has no neurons of its own.
    """

    kind: Literal["final", "cause"]
    setting: Annotated[str, NAME]
    structure: bool
    row: Method
    seed: Annotated[int, SEED]
    train_acc: Annotated[float, PERCENT]
    test_acc: Annotated[float, PERCENT]
    cos: Annotated[float, COSINE] | None


@dataclass(frozen=True, kw_only=True)
class Final(Cell):
    """The end of a row."""

    key = ("setting", "structure", "row")
    kind: Literal["final"] = "final"


@dataclass(frozen=True, kw_only=True)
class Cause(Cell):
    """The same after one change that may be why a cell is not as reported; cause: the change, in words."""

    key = ("setting", "structure", "row", "cause")
    kind: Literal["cause"] = "cause"
    cause: Annotated[str, NAME]


@dataclass(frozen=True, kw_only=True)
class Curve(Row):
    """Accuracy on part of the test set after a step of Network, NTK or RF."""

    key = ("setting", "structure", "row", "step")
    kind: Literal["curve"] = "curve"
    setting: Annotated[str, NAME]
    structure: bool
    row: Method
    step: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    acc: Annotated[float, PERCENT]


@dataclass(frozen=True, kw_only=True)
class Gathered(Row):
    """Neurons of Network, with structure, around the effective feature: share: percent of them whose |cos| with it
    exceeds ALIGNED; cos: the largest cosine."""

    key = ("setting", "snapshot")
    kind: Literal["gathered"] = "gathered"
    setting: Annotated[str, NAME]
    snapshot: Snapshot
    seed: Annotated[int, SEED]
    share: Annotated[float, PERCENT]
    cos: Annotated[float, COSINE]


class Written(NamedTuple):
    """The types of rows that the experiment on one table writes."""

    final: type[Final]
    cause: type[Cause]
    curve: type[Curve]
    gathered: type[Gathered]


def _of(kind: type[R], number: int) -> type[R]:
    """A type of rows, of the experiment on Table A.`number`."""
    body = {"experiment": f"emergence/table{number}", "__module__": __name__, "__doc__": kind.__doc__}
    return cast(type[R], type(f"{kind.__name__}{number}", (kind,), body))


TABLES: Mapping[int, Written] = {
    n: Written(_of(Final, n), _of(Cause, n), _of(Curve, n), _of(Gathered, n)) for n in range(1, 6)
}


@dataclass(frozen=True, kw_only=True)
class Point(Row):
    """Accuracy of a tuned row at a point of its grid; what the row does not have is None.

    scale: of the first-layer step that is tuned, in units of st / (gamma sigma_a). width: of the start, as a multiple
    of that of Network. rate_w: step size of the first layer. rate: of the second layer or a linear read-out, in units
    of 1 / mean ||features||^2, or of Adam. train_acc: where it is the metric.
    """

    experiment, key = "emergence/rates", ("setting", "row", "scale", "width", "rate_w", "rate")
    kind: Literal["point"] = "point"
    setting: Annotated[str, NAME]
    row: Tuned
    seed: Annotated[int, SEED]
    scale: Annotated[float, POSITIVE] | None = None
    width: Annotated[float, POSITIVE] | None = None
    rate_w: Annotated[float, POSITIVE] | None = None
    rate: Annotated[float, POSITIVE]
    train_acc: Annotated[float, PERCENT] | None = None
    val_acc: Annotated[float, PERCENT]


@dataclass(frozen=True, kw_only=True)
class Codes(Row):
    """Percent of neurons with |cos| > 0.9 to E[y x] at the start and after one and two steps; cos: the largest
    cosine after two."""

    experiment = "emergence/figure15"
    kind: Literal["codes"] = "codes"
    seed: Annotated[int, SEED]
    share_init: Annotated[float, PERCENT]
    share_step1: Annotated[float, PERCENT]
    share_step2: Annotated[float, PERCENT]
    cos: Annotated[float, COSINE]


Mixture = Literal["Experiment 1", "Experiment 2", "Experiment 3"]


@dataclass(frozen=True, kw_only=True)
class Cover(Row):
    """Cosine of the nearest neuron of the centre that is covered worst, at three epochs, and of the median centre;
    covered_end: percent of the centres whose nearest neuron has a cosine of 0.8 or more."""

    experiment, key = "emergence/figure16", ("setting",)
    kind: Literal["cover"] = "cover"
    setting: Mixture
    seed: Annotated[int, SEED]
    train_acc: Annotated[float, PERCENT]
    test_acc: Annotated[float, PERCENT]
    cover_init: Annotated[float, COSINE]
    cover_middle: Annotated[float, COSINE]
    cover_end: Annotated[float, COSINE]
    cover_median_end: Annotated[float, COSINE]
    covered_end: Annotated[float, PERCENT]


@dataclass(frozen=True, kw_only=True)
class Sizes(Row):
    """Of a sample of a mixture: d and k, clusters that occur, and sigma_r from E ||noise||^2 = sigma_r^2 k."""

    experiment, key = "emergence/figure16", ("setting",)
    kind: Literal["sizes"] = "sizes"
    setting: Mixture
    seed: Annotated[int, SEED]
    d: Annotated[int, COUNT]
    k: Annotated[int, COUNT]
    clusters: Annotated[int, COUNT]
    sigma_r: Annotated[float, POSITIVE]


Images = Literal["digits", "mnist"]


@dataclass(frozen=True, kw_only=True)
class Split(Row):
    """Two clusters of neuron directions: cosine silhouette and cosine of the two centres at the start and at the end;
    sign_share: percent of neurons whose cluster agrees with the sign of their output weight."""

    experiment, key = "emergence/figure17", ("setting",)
    kind: Literal["split"] = "split"
    setting: Images
    seed: Annotated[int, SEED]
    train_acc: Annotated[float, PERCENT]
    test_acc: Annotated[float, PERCENT]
    silhouette_init: Annotated[float, COSINE]
    silhouette_end: Annotated[float, COSINE]
    centre_cos_init: Annotated[float, COSINE]
    centre_cos: Annotated[float, COSINE]
    sign_share: Annotated[float, PERCENT]


@dataclass(frozen=True, kw_only=True)
class Tightening(Row):
    """The same at an epoch; between: cosine of the two centres."""

    experiment, key = "emergence/figure17", ("setting", "epoch")
    kind: Literal["tightening"] = "tightening"
    setting: Images
    seed: Annotated[int, SEED]
    epoch: Annotated[float, POSITIVE]
    silhouette: Annotated[float, COSINE]
    between: Annotated[float, COSINE]


@dataclass(frozen=True, kw_only=True)
class General(Row):
    """Network in the general setting; setting: the dictionary. cos: as in Final."""

    experiment, key = "emergence/general", ("setting",)
    kind: Literal["general"] = "general"
    setting: Literal["tilted", "incoherent"]
    seed: Annotated[int, SEED]
    train_acc: Annotated[float, PERCENT]
    test_acc: Annotated[float, PERCENT]
    cos: Annotated[float, COSINE]
