"""Rows that the comparison of networks and kernels writes and claims read, and the sizes they need."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from featlearn.lab.estimate import VALIDATION
from featlearn.lab.experiment import Rows
from featlearn.lab.quantity import COUNT, NAME, PERCENT, POSITIVE, REAL, SEED
from featlearn.lab.row import Row
from featlearn.lab.table import Table

KERNELS = "gradient_features/kernels"
NETWORK, NTK, RBF, FEW, MANY = "Network", "NTK", "RBF", "RF, N = d", "RF, N = d^2"
LEARNERS = (NETWORK, NTK, RBF, FEW, MANY)
XOR, PARITY, UNIFORM = "XOR mixture", "structured parity", "uniform parity"


Learner = Literal["Network", "NTK", "RBF", "RF, N = d", "RF, N = d^2"]
Task = Literal["XOR mixture", "structured parity", "uniform parity"]


@dataclass(frozen=True, kw_only=True)
class Tried(Row):
    """Mean error on the validation seeds at one grid point of one size (the unit, as there is no seed). level: sigma or
    k; share: of the largest training set; first, second: step size and stop of a network, bandwidth or bias and penalty
    of the others."""

    experiment, unit, key = "gradient_features/kernels", "n", ("task", "row", "d", "level", "first", "second")
    kind: Literal["tried"] = "tried"
    setting: Annotated[str, NAME]
    row: Learner
    task: Task
    d: Annotated[int, COUNT]
    level: Annotated[float, POSITIVE]
    share: Annotated[float, POSITIVE]
    n: Annotated[int, COUNT]
    neurons: Annotated[int, COUNT]
    snr: Annotated[float, POSITIVE] | None
    validation: Annotated[float, PERCENT]
    first: Annotated[float, REAL]
    second: Annotated[float, REAL]


@dataclass(frozen=True, kw_only=True)
class Fit(Row):
    """Test error of a learner on a reported seed at the point chosen for its size; of random features also the hinge
    loss and B, the norm of the second layer. Columns as in Tried."""

    experiment, key = "gradient_features/kernels", ("task", "row", "d", "level", "n")
    kind: Literal["fit"] = "fit"
    setting: Annotated[str, NAME]
    row: Learner
    task: Task
    d: Annotated[int, COUNT]
    level: Annotated[float, POSITIVE]
    share: Annotated[float, POSITIVE]
    n: Annotated[int, COUNT]
    neurons: Annotated[int, COUNT]
    snr: Annotated[float, POSITIVE] | None
    seed: Annotated[int, SEED]
    error: Annotated[float, PERCENT]
    hinge: Annotated[float, POSITIVE] | None = None
    B: Annotated[float, POSITIVE] | None = None
    first: Annotated[float, REAL]
    second: Annotated[float, REAL]


def reported(table: Rows, **equal: Any) -> list[Mapping[str, Any]]:
    """Rows with an error, of reported seeds, whose fields equal the given values."""
    rows = (r for r in table.where(**equal).rows if "error" in r)
    return [r for r in rows if r["seed"] < VALIDATION]


def whole(table: Rows, task: str) -> float:
    """The largest share of a task's training set: the n that the work asks for."""
    return max(r["share"] for r in reported(table, task=task))


def needed(sizes: Sequence[int], found: Sequence[float], target: float) -> float | None:
    """Training samples at which the error last falls to `target`, log-linear between sizes; None: not within them.

    An error that is at the target from the smallest size on is no crossing either.
    """
    pairs = sorted(zip(sizes, found, strict=True))
    for (n0, e0), (n1, e1) in zip(pairs[-2::-1], pairs[:0:-1], strict=True):
        if e0 > target >= e1:
            return math.exp(math.log(n0) + (e0 - target) / (e0 - e1) * math.log(n1 / n0))
        if e1 > target:
            return None
    return None


def samples_needed(fits: Table[Fit], snr: float | int, target: float | int) -> tuple[list[float], list[float]]:
    """Dimensions and samples needed of one learner on the XOR mixture, a pair for each seed that crosses the target."""
    found: list[tuple[float, float]] = []
    here = fits.keep(lambda r: r.snr is not None and abs(r.snr - snr) < 1e-6, f"sqrt(d)/sigma = {snr:g}")
    for (d, _), part in here.by("d", "seed").items():
        at = needed([r.n for r in part.rows], [r.error for r in part.rows], target)
        if at is not None:
            found.append((float(d), at))
    return [v for v, _ in found], [v for _, v in found]


def needs_by_dimension(table: Rows, row: str, snr: float | int, target: float | int) -> tuple[list[float], list[float]]:
    """Dimensions and samples needed on the XOR mixture, one pair for each reported seed that crosses the target."""
    runs: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for r in reported(table, row=row, task=XOR):
        if abs(r["snr"] - snr) < 1e-6:
            runs.setdefault((r["d"], r["seed"]), []).append((r["n"], r["error"]))
    d, n = [], []
    for (dim, _), pairs in sorted(runs.items()):
        at = needed([p[0] for p in pairs], [p[1] for p in pairs], target)
        if at is not None:
            d.append(float(dim))
            n.append(at)
    return d, n
