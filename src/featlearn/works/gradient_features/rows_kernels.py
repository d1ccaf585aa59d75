"""Names of the rows that the comparison of networks and kernels writes and claims read, and the sizes they need."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from featlearn.lab.estimate import VALIDATION
from featlearn.lab.experiment import Rows

KERNELS = "gradient_features/kernels"
NETWORK, NTK, RBF, FEW, MANY = "Network", "NTK", "RBF", "RF, N = d", "RF, N = d^2"
LEARNERS = (NETWORK, NTK, RBF, FEW, MANY)
XOR, PARITY, UNIFORM = "XOR mixture", "structured parity", "uniform parity"


def reported(table: Rows, **equal: Any) -> list[Mapping[str, Any]]:
    """Rows with an error, of reported seeds, whose fields equal the given values."""
    rows = (r for r in table.where(**equal).rows if "error" in r)
    return [r for r in rows if r["seed"] < VALIDATION]


def errors(table: Rows, row: str, **equal: Any) -> list[float]:
    """Errors in percent of the reported seeds of one learner, in order of seed."""
    return [r["error"] for r in sorted(reported(table, row=row, **equal), key=lambda r: r["seed"])]


def whole(table: Rows, kind: str) -> float:
    """The largest share of a kind's training set: the n that the work asks for."""
    return max(r["share"] for r in reported(table, kind=kind))


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


def needs_by_dimension(table: Rows, row: str, snr: float | int, target: float | int) -> tuple[list[float], list[float]]:
    """Dimensions and samples needed on the XOR mixture, one pair for each reported seed that crosses the target."""
    runs: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for r in reported(table, row=row, kind=XOR):
        if abs(r["snr"] - snr) < 1e-6:
            runs.setdefault((r["d"], r["seed"]), []).append((r["n"], r["error"]))
    d, n = [], []
    for (dim, _), pairs in sorted(runs.items()):
        at = needed([p[0] for p in pairs], [p[1] for p in pairs], target)
        if at is not None:
            d.append(float(dim))
            n.append(at)
    return d, n
