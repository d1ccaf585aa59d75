"""Names of the rows of `special_cases`, which claims read, and the step size that counts."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from featlearn.lab.estimate import VALIDATION
from featlearn.lab.experiment import Rows

SPECIAL = "gradient_features/special_cases"
LINEAR, MIXTURE, OPPOSITE, SKEWED, XOR = "linear", "mixture", "opposite pairs", "unequal pairs", "XOR mixture"
PARITY, UNIFORM, MULTI = "structured parity", "uniform parity", "multi-index"
CASES = (LINEAR, MIXTURE, OPPOSITE, SKEWED, XOR, PARITY, UNIFORM, MULTI)
NETWORK, FIRST, FIXED, BEST = "network", "first step only", "fixed first layer", "best on true features"
NEURONS, TIME = "neurons", "time"
GAMMAS = (0.03, 0.05, 0.1)
"""Cone widths at which neurons are counted; membership is judged at the first: 14 degrees, below the rival's 20."""
SHARES = (0.4, 0.3, 0.2, 0.1)
"""Probability of each pair of opposite clusters where they differ."""

Row = Mapping[str, Any]


def chosen(table: Rows, setting: str) -> float | None:
    """The step size with the smallest mean loss over the validation seeds, all of which must have stayed finite."""
    found: dict[float, list[float | None]] = {}
    for r in table.rows:
        if r["setting"] == setting and r["row"] == NETWORK and r["seed"] >= VALIDATION:
            found.setdefault(r["eta"], []).append(r["loss"])
    means = {eta: sum(v) / len(v) for eta, v in found.items() if all(x is not None for x in v)}  # type: ignore[arg-type]
    return min(means, key=lambda eta: (means[eta], eta)) if means else None


def reported(table: Rows, setting: str, row: str) -> list[Row]:
    """Rows of the reported seeds, at the chosen step size where rows differ by it."""
    eta = chosen(table, setting)
    return [
        r
        for r in table.rows
        if r["setting"] == setting and r["row"] == row and r["seed"] < VALIDATION and r.get("eta", eta) == eta
    ]


def settings(table: Rows, case: str) -> list[str]:
    """Settings of a case that have a chosen step size and reported rows, in order of size."""
    names = {r["setting"]: (r["d"], r["r"], r["k"]) for r in table.rows if r["case"] == case}
    return [n for n in sorted(names, key=lambda n: names[n]) if reported(table, n, NETWORK)]


def column(rows: list[Row], metric: str) -> np.ndarray:
    """One metric of rows; None, a run that left the finite numbers, counts as infinite."""
    return np.array([np.inf if r[metric] is None else r[metric] for r in rows], dtype=np.float64)
