"""Names of the rows that experiments of this work write and claims read, and the grid points that count."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from featlearn.lab.estimate import VALIDATION
from featlearn.lab.experiment import Table

PHASES, SAMPLES = "xor_sgd/phases", "xor_sgd/samples"
BOTH, FROZEN = "both layers", "first layer alone"


@dataclass(frozen=True)
class Chosen:
    """The grid point of a learner in one dimension. samples: reported seeds at that point; missed: how many never
    arrived. inner: 1 where the step size has neighbours on both sides in the grid, else 0; first_share: 1 where the
    batch is the smallest of the grid (of one sample, at the defaults)."""

    d: int
    share: float
    noise: float
    samples: tuple[float, ...]
    missed: int
    inner: float
    first_share: float


def choose(table: Table, row: str, share: float | None = None) -> list[Chosen]:
    """For each dimension the grid point of the smallest mean log budget over the validation seeds, all of which must
    have arrived; with a share only that batch size."""
    rows = [r for r in table.rows if r["row"] == row and (share is None or r["share"] == share)]
    found = []
    for d in sorted({r["d"] for r in rows}):
        here = [r for r in rows if r["d"] == d]
        points: dict[tuple[float, float], list[Mapping[str, Any]]] = {}
        for r in here:
            points.setdefault((r["share"], r["noise"]), []).append(r)
        means = {}
        for point, group in points.items():
            budgets = [r["samples"] for r in group if r["seed"] >= VALIDATION]
            if budgets and all(budgets):
                means[point] = sum(math.log(b) for b in budgets) / len(budgets)
        if not means:
            continue
        best = min(means, key=lambda p: (means[p], p))
        budgets = [r["samples"] for r in points[best] if r["seed"] < VALIDATION]
        levels = sorted({noise for s, noise in points if s == best[0]})
        found.append(
            Chosen(
                d,
                best[0],
                best[1],
                tuple(b for b in budgets if b),
                sum(not b for b in budgets),
                float(levels[0] < best[1] < levels[-1]),
                float(best[0] == min(s for s, _ in points)),
            )
        )
    return found


def pairs(points: Sequence[Chosen]) -> tuple[list[float], list[float]]:
    """Dimensions and budgets, one of each a reported seed."""
    found = [(float(p.d), n) for p in points for n in p.samples]
    return [d for d, _ in found], [n for _, n in found]
