"""Reusable pictures: curves over seeds, bars beside the reported numbers, maps of neurons. Each draws what it is
given."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from featlearn.errors import ReportError
from featlearn.lab.experiment import SummaryRow, ends
from featlearn.lab.uncertainty import Estimate
from featlearn.report import style


@dataclass(frozen=True)
class Picture:
    """A figure with what a page needs beside it.

    caption: one or two sentences under the picture; alt: the same for people who cannot see it (default: the
    caption); data: the plotted numbers, as rows or as columns of one length, saved as CSV beside the picture.
    """

    figure: Any
    caption: str = ""
    alt: str = ""
    data: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Series:
    """One curve: y over x, with its interval over seeds (low, high: same shape as y) where there is one."""

    name: str
    x: Any
    y: Any
    low: Any = None
    high: Any = None

    @staticmethod
    def of(
        name: str, found: Mapping[Any, Estimate | Sequence[float] | np.ndarray | float], *, geometric: bool = False
    ) -> "Series":
        """Estimates, values of independent units, or numbers by x, as `SummaryRow.of` takes them; numbers have no
        interval."""
        y, low, high, _ = zip(*(ends(v, geometric) for v in found.values()), strict=True)
        certain = all(isinstance(v, float | int) for v in found.values())
        return Series(name, list(found), y, *(() if certain else (low, high)))


@dataclass(frozen=True)
class Panel:
    """One axes of curves: its series, labels with units, title, and log: "", "x", "y" or "xy". ticks: the values along
    a logarithmic x axis, if the marks of the scale are not wanted."""

    series: Sequence[Series]
    xlabel: str
    ylabel: str
    title: str = ""
    log: str = ""
    ticks: Sequence[float] | Sequence[int] = ()


@dataclass(frozen=True)
class NeuronPanel:
    """Neurons as points of the plane.

    points: (n, 2); plus, minus: positions (2,) of the ground truth and of its negative in the same map;
    near_plus, near_minus: masks (n,) of the neurons to colour with the star they point to.
    """

    title: str
    points: Any
    plus: Any
    minus: Any
    near_plus: Any = None
    near_minus: Any = None


def curves(
    target: Any,
    series: Sequence[Series],
    xlabel: str,
    ylabel: str,
    *,
    title: str = "",
    log: str = "",
    reported: Mapping[str, Any] | None = None,
    ylim: tuple[float | int, float | int] | None = None,
) -> Any:
    """Lines with their intervals over seeds; the axes that were drawn on.

    target: an Axes, or a Figure without axes. log: "", "x", "y" or "xy". reported: series name -> reported points
    (x, y), drawn as hollow diamonds. Put units into the labels: "test accuracy (%)".
    Errors: ReportError where a series has arrays of different lengths or an interval with one end only.

    Example:
        >>> network = Series("Network", [1, 2], [50, 99], [49, 98], [51, 100])
        >>> axes = curves(style.figure(), [network], "step", "accuracy (%)")
    """
    for s in series:
        lengths = {
            name: len(v) for name, v in (("x", s.x), ("y", s.y), ("low", s.low), ("high", s.high)) if v is not None
        }
        if len(set(lengths.values())) != 1 or (s.low is None) != (s.high is None):
            raise ReportError(f"series {s.name!r} has lengths {lengths}: x, y, low and high must match; give both ends")
    with style.applied(_width(target)):
        axes, own = _axes(target)
        drawn = style.series_styles([s.name for s in series])
        for s in series:
            x, y = np.asarray(s.x, float), np.asarray(s.y, float)
            L = drawn[s.name]
            few = len(x) <= 12
            marks = {"marker": L.marker, "markeredgecolor": "white", "markeredgewidth": 0.8} if few else {}
            axes.plot(x, y, color=L.colour, linestyle=L.dash, label=s.name, zorder=3, **marks)
            if s.low is not None:
                low, high = np.asarray(s.low, float), np.asarray(s.high, float)
                axes.fill_between(x, low, high, color=L.colour, alpha=0.18, linewidth=0, zorder=2)
                if few:  # a band between few points hides where the intervals are
                    axes.vlines(x, low, high, color=L.colour, linewidth=1.3, zorder=2.5)
        for name, points in (reported or {}).items():
            px, py = np.asarray(points, float).T
            colour = drawn[name].colour if name in drawn else style.REPORTED
            axes.plot(px, py, "D", mfc="white", mec=colour, mew=1.8, ms=7.5, zorder=4, label=f"{name}, reported")
        if "x" in log:
            axes.set_xscale("log")
        if "y" in log:
            axes.set_yscale("log")
        if ylim is not None:
            axes.set_ylim(*ylim)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        if title:
            axes.set_title(title, loc="left", fontsize="medium", weight="bold")
        _legend(axes, own, columns=2)
    return axes


def line_picture(
    panels: Sequence[Panel],
    caption: str,
    data: Sequence[Mapping[str, Any]] = (),
    *,
    height: float = 4.4,
    same_y: bool = False,
) -> Picture:
    """A picture of curves, one panel beside the other, four or more two by two. data: what its CSV holds, if not the
    numbers of the curves. same_y: one scale for all panels.

    Errors: as `curves`; ReportError without panels.

    Example:
        >>> rise = Series.of("Network", {1: [49.0, 51.0], 2: [98.0, 99.0]})
        >>> picture = line_picture([Panel([rise], "step", "accuracy (%)")], "Accuracy.")
        >>> picture.data[0]["accuracy (%)"]
        50.0
    """
    if not panels:
        raise ReportError("panels = [] is not allowed: at least one; return no picture where nothing was found")
    width = 6.5 if len(panels) == 1 else 12.0 if len(panels) == 3 else 10.0
    lines = 1 if len(panels) < 4 else math.ceil(len(panels) / 2)
    fig = style.figure(width, lines * height)
    with style.applied(width):
        grid = [fig] if len(panels) == 1 else fig.subplots(lines, math.ceil(len(panels) / lines), sharey=same_y)
        across = list(np.ravel(np.asarray(grid, dtype=object)))
        for empty in across[len(panels) :]:
            empty.remove()
    for target, p in zip(across[: len(panels)], panels, strict=True):
        room = int(TITLE * width / max(math.ceil(len(panels) / lines), 1)) if len(panels) > 1 else len(p.title) + 1
        axes = curves(target, p.series, p.xlabel, p.ylabel, log=p.log, title=textwrap.fill(p.title, room))
        if "x" in p.log and not len(p.ticks):
            _few_ticks(axes)
        if len(p.ticks):
            plain_ticks(axes, p.ticks)
    drawn = [
        {"panel": p.title, "row": s.name, p.xlabel: x, p.ylabel or "value": y}
        for p in panels
        for s in p.series
        for x, y in zip(s.x, s.y, strict=True)
    ]
    return Picture(fig, caption, data=data or drawn)


TITLE = 5.5
"""Letters of a title for an inch of its panel; a longer one goes on in the next line."""


def _few_ticks(axes: Any) -> None:
    """Ticks at 1 and 3, or 1, 2 and 5, along a logarithmic x axis of less than two decades, or one: nine overlap."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axes.get_xlim()
    axes.xaxis.set_minor_formatter(NullFormatter())
    if high < 100 * low:
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0) if high > 10 * low else (1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))


def plain_ticks(axes: Any, values: Sequence[float] | Sequence[int]) -> None:
    """The values themselves along a logarithmic x axis, and no others; the y axis keeps its own."""
    from matplotlib.ticker import NullLocator

    axes.set_xticks(list(values), [f"{v:g}" for v in values])
    axes.xaxis.set_minor_locator(NullLocator())


def bars_against_reported(
    target: Any,
    rows: Sequence[SummaryRow],
    metric: str,
    *,
    label: str = "",
    xlim: tuple[float | int, float | int] | None = None,
    baseline: float | int | None = None,
) -> Any:
    """A horizontal bar per row of a summary: ours with its interval, the reported number as a hollow diamond.

    target: an Axes, or a Figure without axes. Bars begin at zero; several settings make groups. label: the axis
    label (default: metric and unit). baseline: a dotted line, e.g. 50 for guessing.
    Errors: ReportError where no row has that metric.

    Example:
        >>> row = SummaryRow("", "NTK", "test_acc", 85.2, 84.9, 85.5, 5, 86.4, "reproduced", "emergence.table1", "%")
        >>> axes = bars_against_reported(style.figure(), [row], "test_acc", baseline=50)
    """
    rows = [r for r in rows if r.metric == metric]
    if not rows:
        raise ReportError(f"metric = {metric!r} is not allowed: no row of the summary has it; choose one it has")
    settings = list(dict.fromkeys(r.setting for r in rows))
    with style.applied(_width(target)):
        axes, own = _axes(target)
        drawn = style.series_styles([r.row for r in rows])
        y, ticks, names = 0.0, [], []
        for setting in settings:
            if len(settings) > 1:
                axes.text(0.0, y, f" {setting}", weight="bold", va="center", transform=axes.get_yaxis_transform())
                y += 1.0
            for r in (r for r in rows if r.setting == setting):
                L = drawn[r.row]
                axes.barh(y, r.value, 0.66, color=L.colour, hatch=L.hatch, edgecolor="white", linewidth=0, zorder=2)
                if r.n > 1 and np.isfinite([r.low, r.high]).all():
                    axes.errorbar(
                        r.value,
                        y,
                        xerr=[[max(r.value - r.low, 0.0)], [max(r.high - r.value, 0.0)]],
                        fmt="none",
                        ecolor=style.REPORTED,
                        elinewidth=1.5,
                        capsize=4,
                        zorder=3,
                    )
                if r.reported is not None:
                    axes.plot(
                        r.reported, y, "D", mfc="white", mec=style.REPORTED, mew=1.7, ms=8, zorder=4, clip_on=False
                    )
                ticks.append(y)
                names.append(r.row)
                y += 1.0
            y += 0.4
        axes.set_yticks(ticks, names)
        axes.set_ylim(y - 0.75, -0.75)
        axes.grid(False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        if xlim is not None:
            axes.set_xlim(*xlim)
        elif rows[0].unit == "%":
            axes.set_xlim(0, 104)
            axes.set_xticks([0, 25, 50, 75, 100])
        if baseline is not None:
            axes.axvline(baseline, color=style.REPORTED, linestyle=":", linewidth=1.3, zorder=2.5)
        unit = rows[0].unit
        axes.set_xlabel(label or (f"{metric} ({unit})" if unit else metric))
        _reported_legend(axes, own, any(r.reported is not None for r in rows), max(r.n for r in rows))
    return axes


def neuron_map(target: Any, panels: Sequence[NeuronPanel], columns: int = 3) -> list[Any]:
    """Neurons in the plane, one panel per snapshot: neurons grey, those near a star in its colour, the ground truth a
    red star, its negative an orange one. Distances mean what the layout made of them, so the axes have no ticks.

    target: a Figure without axes. Panels: (n, 2) points each, `columns` a line. Returns the axes.
    Errors: ReportError where points are not (n, 2).

    Example:
        >>> panel = NeuronPanel("init", np.zeros((3, 2)), np.ones(2), -np.ones(2))
        >>> len(neuron_map(style.figure(9, 3.2), [panel]))
        1
    """
    if not panels:
        raise ReportError("panels = [] is not allowed: at least one snapshot; compute a layout first")
    for p in panels:
        shape = np.shape(p.points)
        if len(shape) != 2 or shape[1] != 2:
            raise ReportError(
                f"points = array of shape {shape} is not allowed in panel {p.title!r}: (n, 2); lay them out"
            )
    with style.applied(_width(target)):
        columns = min(columns, len(panels))
        all_axes = np.ravel(target.subplots(-(-len(panels) // columns), columns, squeeze=False))
        for axes in all_axes[len(panels) :]:
            axes.set_axis_off()
        all_axes = all_axes[: len(panels)]
        for axes, p in zip(all_axes, panels, strict=True):
            points = np.asarray(p.points, float)
            n = len(points)
            plus = np.zeros(n, bool) if p.near_plus is None else np.asarray(p.near_plus, bool)
            minus = np.zeros(n, bool) if p.near_minus is None else np.asarray(p.near_minus, bool)
            size = float(np.clip(4000 / max(n, 1), 7, 40))
            dots = {"s": size, "linewidths": 0, "rasterized": n > 3000}
            axes.scatter(*points[~(plus | minus)].T, c=style.NEURON, alpha=0.55, zorder=2, **dots)
            axes.scatter(*points[plus].T, c=style.STAR_PLUS, alpha=0.55, zorder=3, **dots)
            axes.scatter(*points[minus].T, c=style.STAR_MINUS, alpha=0.55, zorder=3, **dots)
            star = {"marker": "*", "s": 330, "edgecolors": "white", "linewidths": 1.2, "zorder": 5}
            axes.scatter(*np.asarray(p.plus, float), c=style.STAR_PLUS, **star)
            axes.scatter(*np.asarray(p.minus, float), c=style.STAR_MINUS, **star)
            axes.set_title(p.title, weight="normal")
            if p.near_plus is not None and p.near_minus is not None:  # dots under a star cannot be counted by eye
                axes.set_xlabel(f"{plus.sum()} + {minus.sum()} of {n} near a star")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.grid(False)
            for spine in axes.spines.values():
                spine.set_visible(True)
                spine.set_color("#D5DAE0")
            axes.set_aspect("equal", adjustable="datalim")
            axes.margins(0.12)
        target.legend(handles=_star_handles(), loc="outside lower center", ncols=3)
    return list(all_axes)


def _star_handles() -> list[Any]:
    from matplotlib.lines import Line2D

    drawn = (("neuron", "o", style.NEURON, 8), ("ground truth", "*", style.STAR_PLUS, 19))
    drawn = (*drawn, ("its negative", "*", style.STAR_MINUS, 19))
    return [Line2D([], [], ls="", marker=m, color=c, mec="white", ms=s, label=n) for n, m, c, s in drawn]


def _width(target: Any) -> float:
    return float((target if hasattr(target, "subplots") else target.figure).get_size_inches()[0])


def _axes(target: Any) -> tuple[Any, bool]:
    """Axes to draw on, and whether they have the figure to themselves."""
    if not hasattr(target, "subplots"):
        _dress(target)
        return target, False
    if target.axes:
        raise ReportError(f"target = a figure with {len(target.axes)} axes is not allowed: pass the axes to draw on")
    return target.subplots(), True


def _dress(axes: Any) -> None:
    """The style for axes that were made outside of it."""
    import matplotlib

    rc = matplotlib.rcParams
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(rc["axes.edgecolor"])
    axes.set_axisbelow(True)
    axes.grid(True, color=rc["grid.color"], linewidth=rc["grid.linewidth"])
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set(size=rc["axes.labelsize"], color=rc["axes.labelcolor"])
    axes.tick_params(labelsize=rc["xtick.labelsize"], color=rc["xtick.color"], labelcolor=rc["xtick.color"])


def _legend(axes: Any, own: bool, columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if not handles or (len(handles) == 1 and own and axes.get_title(loc="left")):
        return
    if own:
        axes.figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(handles)))
    else:
        # below its own axes, where it hides no curve, and no wider than they are, since a wide one makes them narrow
        fit = max(1, 36 // (max(map(len, labels)) + 4))
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "ncols": min(columns, len(handles), fit)}
        axes.legend(
            handles, labels, fontsize="x-small", columnspacing=1.0, handlelength=1.5, borderaxespad=5.0, **below
        )


def _reported_legend(axes: Any, own: bool, has_reported: bool, n: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    ours = f"ours, mean of {n} seeds with 95 % interval" if n > 1 else "ours, one seed"
    handles: list[Any] = [Patch(color=style.NEURON, label=ours)]
    if has_reported:
        handles.append(
            Line2D([], [], ls="", marker="D", mfc="white", mec=style.REPORTED, mew=1.7, ms=8, label="reported")
        )
    if own:
        axes.figure.legend(handles=handles, loc="outside lower left", ncols=1)
    else:
        axes.legend(handles=handles, loc="lower right", frameon=True)


@dataclass(frozen=True)
class Heat:
    """One panel of shares in [0, 1]: values (rows, columns), nan where nothing was run."""

    title: str
    values: Any


def heat_maps(
    target: Any,
    panels: Sequence[Heat],
    columns: Sequence[str],
    rows: Sequence[str],
    *,
    xlabel: str,
    ylabel: str,
    label: str,
    across: int = 3,
) -> list[Any]:
    """Shares on a grid, one panel per method, one colour scale from 0 to 1, the number in every cell; the axes.

    target: a Figure without axes. columns, rows: tick labels. Errors: ReportError where a panel has another shape.

    Example:
        >>> panel = Heat("Full cache", [[1.0, 0.5]])
        >>> axes = heat_maps(style.figure(), [panel], ["1k", "2k"], ["50"], xlabel="tokens", ylabel="depth", label="s")
    """
    for p in panels:
        if np.shape(p.values) != (len(rows), len(columns)):
            raise ReportError(
                f"panel {p.title!r} has shape {np.shape(p.values)}: {(len(rows), len(columns))} is needed"
            )
    if not panels:
        raise ReportError("panels = [] is not allowed: at least one; run a method first")
    with style.applied(_width(target)):
        across = min(across, len(panels))
        grid = target.subplots(-(-len(panels) // across), across, squeeze=False, sharex=True, sharey=True)
        flat = list(np.ravel(grid))
        for axes in flat[len(panels) :]:
            axes.set_axis_off()
        image = None
        for i, (axes, p) in enumerate(zip(flat, panels, strict=False)):
            values = np.asarray(p.values, float)
            image = axes.imshow(values, vmin=0, vmax=1, cmap="cividis", aspect="auto")
            for (r, c), v in np.ndenumerate(values):
                if np.isfinite(v):
                    text = f"{v:.2f}".removeprefix("0") if 0 < v < 1 else f"{v:.0f}"
                    drawn = {"ha": "center", "va": "center", "fontsize": "x-small", "color": "w" if v < 0.5 else "k"}
                    axes.text(c, r, text, in_layout=False, **drawn)  # inside its cell: nothing has to make room
            axes.set_title(p.title)
            axes.set_xticks(range(len(columns)), columns)
            axes.set_yticks(range(len(rows)), rows)
            axes.grid(False)
            if i % across == 0:
                axes.set_ylabel(ylabel)
            if i >= len(panels) - across:  # the last of its column
                axes.set_xlabel(xlabel)
                axes.tick_params(labelbottom=True)
        target.colorbar(image, ax=flat[: len(panels)], label=label, shrink=0.8)
    return flat[: len(panels)]
