"""Selection: the best point of a grid on validation seeds, in the middle of a plateau, named if at an edge."""

import itertools
from collections.abc import Callable, Mapping, Sequence
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
    than the best by no more than this tie with it. Of the points that tie the one next to their middle is taken,
    counted in levels of the axes, and of several such the first in ascending order.
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
    levels = [sorted({p[i] for p in means}) for i in range(len(ties[0]))]
    at = np.array([[axis.index(v) for axis, v in zip(levels, p, strict=True)] for p in ties])
    point = ties[int(np.round(((at - at.mean(0)) ** 2).sum(1), 9).argmin())]
    edges = []
    for i, axis in enumerate(axes):
        line = sorted({p[i] for p in means if p[:i] + p[i + 1 :] == point[:i] + point[i + 1 :]})
        if len(line) > 1 and point[i] in (line[0], line[-1]):
            edges.append(axis)
    return Choice(point, means[point] * (1.0 if least else -1.0), tuple(edges), ties, len(ties) == len(means) > 1)


def search(
    measure: Callable[[Sequence[tuple[float, ...]]], Mapping[tuple[float, ...], Sequence[float]]],
    axes: Mapping[str, Sequence[float]],
    *,
    least: bool = True,
    plateau: float = 0.0,
    widenings: int = 2,
    levels: int = 1,
) -> tuple[Choice, Mapping[tuple[float, ...], Sequence[float]]]:
    """Select on a full grid, which is widened where the selected point is at an edge; also the whole grid measured.

    measure: points -> metric of each validation seed at each of them. axes: positive levels by name. A widening adds
    `levels` levels beyond each edge at which the selected point is, in the ratio of the two levels there; there are at
    most `widenings`, and none where all points tie.

    Example:
        >>> choice, grid = search(lambda points: {p: [abs(p[0] - 90)] for p in points}, {"rate": (1.0, 10.0)})
        >>> choice.point, choice.at_edge, sorted(grid)
        ((100.0,), (), [(1.0,), (10.0,), (100.0,), (1000.0,)])
    """
    grown = {name: sorted(values) for name, values in axes.items()}
    grid: dict[tuple[float, ...], Sequence[float]] = {}
    while True:
        grid |= measure([p for p in itertools.product(*grown.values()) if p not in grid])
        choice = select(grid, tuple(grown), least=least, plateau=plateau)
        if choice.tied or not choice.at_edge or not widenings:
            return choice, grid
        widenings -= 1
        for name in choice.at_edge:
            line, low = grown[name], choice.point[tuple(grown).index(name)] == grown[name][0]
            for _ in range(levels):
                if low:
                    line.insert(0, float(f"{line[0] ** 2 / line[1]:.3g}"))
                else:
                    line.append(float(f"{line[-1] ** 2 / line[-2]:.3g}"))
