"""Rows that the experiments of this work write and its claims read, and how settings are chosen."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import numpy as np

from featlearn.lab.quantity import COUNT, POSITIVE, SEED
from featlearn.lab.row import Row
from featlearn.lab.selection import Choice, select
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate

SCALING = "resnet/scaling"
FIGURE2, FIGURE3, FIGURE4, KERNELS = "resnet/figure2", "resnet/figure3", "resnet/figure4", "resnet/kernels"
RESIDUAL, FULL = "residual bottleneck", "residual"
Wiring = Literal["residual", "residual bottleneck", "bottleneck", "two readouts", "three layers", "two layers"]
Role = Literal["validation", "reported"]
Trained = Literal["all", "hidden", "layer by layer"]
RidgeKernel = Literal[
    "conjugate, residual", "conjugate, three layers", "conjugate, two layers",
    "NTK, residual", "NTK, three layers", "NTK, two layers", "Gaussian",
]  # fmt: skip
KernelName = Literal["RBF", "arcsine", "arc-cosine", "conjugate", "NTK", "ResNet NTK", "degrees 1 and k"]


@dataclass(frozen=True, kw_only=True)
class Training(Row):
    """A training at one step size and weight decay. train, validation, test: mean ||out - H||^2 over samples of each
    kind, without 1/2; None where training left the finite numbers."""

    wiring: Wiring
    trained: Trained
    n: Annotated[int, COUNT]
    m: Annotated[int, COUNT]
    alpha: Annotated[float, POSITIVE]
    beta: Annotated[float, POSITIVE]
    rate: Annotated[float, POSITIVE]
    decay: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    train: Annotated[float, POSITIVE] | None
    validation: Annotated[float, POSITIVE] | None
    test: Annotated[float, POSITIVE] | None

    @property
    def threshold(self) -> float:
        """k alpha^2 for k = 15: what is left for whoever knows F and nothing of G."""
        return 15 * self.alpha**2


@dataclass(frozen=True, kw_only=True)
class Run(Training):
    """A training on F + alpha G(F)."""

    experiment, key = FIGURE2, ("wiring", "trained", "n", "m", "rate", "decay")
    kind: Literal["run"] = "run"


@dataclass(frozen=True, kw_only=True)
class Weighted(Training):
    """A training on beta F + alpha G(F)."""

    experiment, key = FIGURE3, ("beta", "trained", "rate", "decay")
    kind: Literal["weighted"] = "weighted"


@dataclass(frozen=True, kw_only=True)
class Path(Row):
    """On the way of a residual network: lower = E ||A h - F||^2, its first layer against the base signal, and whole =
    E ||out - H||^2, after `epoch` epochs."""

    experiment, key = FIGURE2, ("trained", "n", "m", "rate", "decay", "epoch")
    kind: Literal["path"] = "path"
    trained: Trained
    n: Annotated[int, COUNT]
    m: Annotated[int, COUNT]
    rate: Annotated[float, POSITIVE]
    decay: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    epoch: Annotated[int, COUNT]
    lower: Annotated[float, POSITIVE]
    whole: Annotated[float, POSITIVE]


@dataclass(frozen=True, kw_only=True)
class KernelFit(Row):
    """Kernel ridge regression at one bandwidth and penalty; `penalty` over the mean of the Gram matrix's diagonal."""

    experiment, key = FIGURE2, ("kernel", "n", "bandwidth", "penalty")
    kind: Literal["kernel"] = "kernel"
    kernel: RidgeKernel
    n: Annotated[int, COUNT]
    bandwidth: Annotated[float, POSITIVE] | None
    penalty: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    test: Annotated[float, POSITIVE]


@dataclass(frozen=True, kw_only=True)
class Share(Row):
    """Best risks of a kernel with the points of an instance as centres, over target sets drawn with replacement.

    good: of `drawn` sets S, those with min over i in S and over weights of E (K(x) - x_i - alpha chi_S(x))^2 at most
    alpha^2/16; least: the least of these risks. whole: the Gram matrix was well conditioned, so that nothing of the
    span was left out.
    """

    experiment, key = KERNELS, ("kernel",)
    kind: Literal["share"] = "share"
    kernel: KernelName
    d: Annotated[int, COUNT]
    k: Annotated[int, COUNT]
    n: Annotated[int, COUNT]
    alpha: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    drawn: Annotated[int, COUNT]
    good: Annotated[int, COUNT]
    least: Annotated[float, POSITIVE]
    whole: bool


@dataclass(frozen=True, kw_only=True)
class Learned(Row):
    """A residual network trained on the points of an instance for one drawn target set.

    risk: mean ||out(x) - H(x)||^2, all k outputs together, over new samples; start: that of the start. None where
    training left the finite numbers.
    """

    experiment = KERNELS
    kind: Literal["learned"] = "learned"
    d: Annotated[int, COUNT]
    k: Annotated[int, COUNT]
    n: Annotated[int, COUNT]
    m: Annotated[int, COUNT]
    alpha: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    risk: Annotated[float, POSITIVE] | None
    start: Annotated[float, POSITIVE]

    @property
    def good(self) -> bool:
        """Whether its risk is at most alpha^2/16."""
        return self.risk is not None and self.risk <= self.alpha**2 / 16


@dataclass(frozen=True, kw_only=True)
class Searched(Row):
    """A training of the first layer on a parity of six coordinates. train, test: mean squared errors; norm: the
    Frobenius norm of W over sqrt(d); None where training left the finite numbers."""

    experiment, key = FIGURE4, ("d", "n", "m", "rate", "decay")
    kind: Literal["searched"] = "searched"
    d: Annotated[int, COUNT]
    n: Annotated[int, COUNT]
    m: Annotated[int, COUNT]
    rate: Annotated[float, POSITIVE]
    decay: Annotated[float, POSITIVE]
    seed: Annotated[int, SEED]
    train: Annotated[float, POSITIVE] | None
    test: Annotated[float, POSITIVE] | None
    norm: Annotated[float, POSITIVE] | None


@dataclass(frozen=True, kw_only=True)
class Risk(Row):
    """One-pass SGD at one alpha. left: k alpha^2, the risk of F alone. constant: step size over alpha^4. average: mean
    over the steps of E ||H - out||^2; final: its last value; None where training left the finite numbers."""

    experiment, key = SCALING, ("network", "alpha", "constant", "role")
    kind: Literal["risk"] = "risk"
    network: Literal["residual bottleneck", "two layers"]
    alpha: Annotated[float, POSITIVE]
    left: Annotated[float, POSITIVE]
    constant: Annotated[float, POSITIVE]
    steps: Annotated[int, COUNT]
    role: Role
    seed: Annotated[int, SEED]
    average: Annotated[float, POSITIVE] | None
    final: Annotated[float, POSITIVE] | None


@dataclass(frozen=True, kw_only=True)
class Arrival(Row):
    """Samples that one-pass SGD takes until the risk on the Gaussian example is below alpha^2; None within budget."""

    experiment, key = SCALING, ("d", "rate", "role")
    kind: Literal["arrival"] = "arrival"
    d: Annotated[int, COUNT]
    rate: Annotated[float, POSITIVE]
    role: Role
    seed: Annotated[int, SEED]
    samples: Annotated[float, POSITIVE] | None


R = TypeVar("R", bound=Training)
DIVERGED = 1e6
"""What a run that left the finite numbers counts as when settings are compared."""


def chosen(table: Table[R]) -> Choice:
    """The step size and weight decay of the least mean validation error over seeds: one setting for all of them."""
    grid = {
        point: [DIVERGED if r.validation is None else r.validation for r in part.rows]
        for point, part in table.by("rate", "decay").items()
    }
    return select(grid, ("rate", "decay"))


def at_chosen(table: Table[R]) -> Table[R]:
    """The runs at the chosen setting."""
    rate, decay = chosen(table).point
    return table.where(rate=rate, decay=decay)


def test_error(table: Table[R]) -> Estimate:
    """Mean test error at the chosen setting over seeds."""
    return at_chosen(table).mean("test")


def best_kernel(table: Table[KernelFit]) -> Estimate:
    """Mean test error over seeds at the bandwidth and penalty where it is least, chosen on test data in favour of the
    kernel."""
    return min((part.mean("test") for part in table.by("bandwidth", "penalty").values()), key=lambda found: found.value)


def median_seed(table: Table[R]) -> float:
    """Test error of the median seed at the chosen setting; one that diverged is worse than any other."""
    return float(np.median([DIVERGED if r.test is None else r.test for r in at_chosen(table).rows]))


HAND = 32 / 6**0.5
"""||W||_F over sqrt(d) of weights by hand without error: 64 directions of variation norm 1/2 each at d = 6."""
FITS = 0.25
"""Training error below which a run counts as fitting."""


def by_hand(error: float) -> float:
    """||W||_F over sqrt(d) of weights by hand, scaled down until their error is `error` (resnet.minnorm)."""
    return HAND * (1 - error**0.5)


def fitting(table: Table[Searched]) -> list[tuple[float, float, float]]:
    """(train, test, norm) of the runs that fit."""
    return [
        (r.train, r.test, r.norm)
        for r in table.rows
        if r.train is not None and r.test is not None and r.norm is not None and r.train < FITS
    ]


def least_norm(table: Table[Searched]) -> float:
    """The least norm of a run that fits, over that of weights by hand of the same error."""
    return min(norm / by_hand(train) for train, _, norm in fitting(table))


def risks(table: Table[Risk]) -> dict[str, Table[Risk]]:
    """network -> runs of reported seeds at the constant with the least mean of average / left on validation seeds.

    A constant with a run that left the finite numbers, on validation seeds, is out. Errors: EmptyArm where all are.
    """
    found = {}
    for network, part in table.by("network").items():
        grid = {
            (constant,): [r.average / r.left for r in rows.rows if r.average is not None]
            for constant, rows in part.where(role="validation").by("constant").items()
            if all(r.average is not None for r in rows.rows)
        }
        (constant,) = select(grid, ("constant",)).point
        found[network] = part.where(role="reported", constant=constant)
    return found


def log_risks(table: Table[Risk]) -> tuple[list[float], list[float]]:
    """log alpha and log mean risk of the runs that stayed finite."""
    found = [(r.alpha, r.average) for r in table.rows if r.average is not None]
    return [math.log(a) for a, _ in found], [math.log(v) for _, v in found]


def arrivals(table: Table[Arrival]) -> list[tuple[int, float]]:
    """(d, samples) of the reported seeds that arrive, at the step size of each d that validation seeds choose."""
    found = []
    for d, part in table.by("d").items():
        runs = part.where(role="validation")
        most = max((r.samples for r in part.rows if r.samples is not None), default=1.0)
        grid = {
            (rate,): [2 * most if r.samples is None else r.samples for r in rows.rows]
            for rate, rows in runs.by("rate").items()
        }
        (rate,) = select(grid, ("rate",)).point
        found += [(d, r.samples) for r in part.where(role="reported", rate=rate).rows if r.samples is not None]
    return found
