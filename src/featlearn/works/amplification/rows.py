"""Names of the rows that experiments of this work write and claims read."""

from typing import Any

import numpy as np

from featlearn.lab.experiment import Rows
from featlearn.tasks.xor_clusters import Law, Noise

# amplification/steps
TIGHT, SCALE, REPORTED = "tight clusters", "scale", "reported sigma"
# amplification/theorem1
GRID, FEW = "grid", "few samples"
OTHERS: dict[str, tuple[Noise, Law]] = {
    "adversarial flips": ("adversarial", "gaussian"),
    "laplace": ("random", "laplace"),
    "uniform": ("random", "uniform"),
    "exponential": ("random", "exponential"),
}
# amplification/figure2
LOW, HIGH, REPORTED_RATE, SWEEP = "low dimension", "high dimension", "reported step size", "sweep"


def by(table: Rows, kind: str, over: str, row: str, metric: str, **equal: float | int) -> dict[Any, np.ndarray]:
    """Values by seed of one metric, at each d or scale of one part of the experiment."""
    out: dict[Any, list[float]] = {}
    for r in table.rows:
        if r["kind"] == kind and r["row"] == row and all(r[k] == v for k, v in equal.items()):
            out.setdefault(r[over], []).append(r[metric])
    return {at: np.array(out[at], dtype=np.float64) for at in sorted(out)}


def last_row(table: Rows) -> str:
    """The name of the rows at T."""
    return f"t={max(r['t'] for r in table.rows if 't' in r)}"
