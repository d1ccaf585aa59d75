"""Selection: the best point of a grid on validation seeds, in the middle of a plateau, named if at an edge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from featlearn.errors import EmptyArm


@dataclass(frozen=True)
class Choice:
    """What was selected. point; value: its mean metric on validation; at_edge: names of the axes on which it is the
    first or last of several levels; plateau: the points that tie with the best; tied: every point of the grid does."""

    point: tuple[Any, ...]
    value: float
    at_edge: tuple[str, ...]
    plateau: tuple[tuple[Any, ...], ...]
    tied: bool


def select(
    grid: Mapping[tuple[Any, ...], Sequence[float]], axes: Sequence[str], *, least: bool = True, plateau: float = 0.0
) -> Choice:
    """The point of the best mean.

    grid: point -> metric of each validation seed; points are tuples along `axes`. plateau: points whose mean is worse
    than the best by no more than this tie with it. Of the points that tie the middle one in ascending order is taken.
    Errors: EmptyArm for an empty grid or a point without seeds.

    Example:
        >>> select({(0.1,): [3.0], (0.2,): [1.0], (0.4,): [1.0], (0.8,): [1.0]}, ["rate"]).point
        (0.4,)
    """
    if not grid or any(len(v) == 0 for v in grid.values()):
        raise EmptyArm("a grid without points, or a point without validation seeds, selects nothing")
    means = {point: float(np.mean(values)) * (1.0 if least else -1.0) for point, values in grid.items()}
    best = min(means.values())
    ties = tuple(sorted(p for p, v in means.items() if v <= best + plateau))
    point = ties[(len(ties) - 1) // 2] if len(ties) < len(means) else sorted(means)[(len(means) - 1) // 2]
    edges = []
    for i, axis in enumerate(axes):
        levels = sorted({p[i] for p in means if p[:i] + p[i + 1 :] == point[:i] + point[i + 1 :]})
        if len(levels) > 1 and point[i] in (levels[0], levels[-1]):
            edges.append(axis)
    return Choice(point, means[point] * (1.0 if least else -1.0), tuple(edges), ties, len(ties) == len(means) > 1)
