"""What figures 16 and 17 share: rows of numbers that the paper shows as pictures only, and maps of weight
directions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from featlearn.report import style


@dataclass(frozen=True)
class Layer:
    """Points (n, 2) of one meaning: dots for neurons, stars for directions they may gather at."""

    name: str
    points: Any
    colour: str
    star: bool = False


def direction_maps(panels: Sequence[tuple[str, Sequence[Layer]]], columns: int = 3) -> Any:
    """A Figure with one panel per (title, layers); a legend names each layer once. Axes carry no ticks: only distances
    mean something."""
    from matplotlib.lines import Line2D

    rows = -(-len(panels) // columns)
    fig = style.figure(9.5, 3.2 * rows + 0.5)
    drawn: dict[str, Layer] = {}
    with style.applied(9.5):
        grid = np.ravel(fig.subplots(rows, columns, squeeze=False))
        for axes, (title, layers) in zip(grid, panels, strict=False):
            for layer in layers:
                points = np.asarray(layer.points, float)
                if layer.star:
                    axes.scatter(
                        *points.T, c=layer.colour, marker="*", s=150, edgecolors="white", linewidths=0.8, zorder=5
                    )
                else:
                    size = float(np.clip(4000 / max(len(points), 1), 7, 40))
                    axes.scatter(*points.T, c=layer.colour, s=size, alpha=0.55, linewidths=0, zorder=3)
                drawn.setdefault(layer.name, layer)
            axes.set_title(title, weight="normal")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.grid(False)
            axes.set_aspect("equal", adjustable="datalim")
            for spine in axes.spines.values():
                spine.set_visible(True)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        handles = [
            Line2D([], [], ls="", marker="*" if v.star else "o", color=v.colour, ms=14 if v.star else 8, label=name)
            for name, v in drawn.items()
        ]
        fig.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return fig
