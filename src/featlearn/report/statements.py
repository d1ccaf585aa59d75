"""The standard picture of a claim: each statement a strip, what it predicts against what was observed and the rival."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from featlearn.lab.verdicts import JudgedStatement
from featlearn.report import style
from featlearn.report.plots import Picture

MOST = 12
"""Strips in one picture; those that are not confirmed come first where there are more."""
LINE = 58
"""Letters in a line of a title."""
ROWS = 16
"""Up to so many elements have a row each, with their interval."""
_LOG_RATIO = 30.0  # all numbers positive and at least this far apart: a log scale
_SAME = 0.012  # elements within this share of the axis are drawn in one row
_NEAR = 0.35  # an end of the domain within this share of the axis is shown


def exact(s: JudgedStatement, i: int) -> bool:
    """Whether an element was observed without an interval."""
    return s.low[i] == s.high[i] == s.observed[i]


def limits(s: JudgedStatement, i: int) -> tuple[float, float]:
    """Least and largest number that agrees at one element, margin included.

    Example:
        >>> limits(statement, 0)  # doctest: +SKIP
        (0.9, 1.1)
    """
    v = s.value[i]
    low = -math.inf if s.relation == "at most" else v - s.margin
    if s.relation == "at least":
        return low, math.inf
    return low, (s.upper if s.relation == "between" and s.upper is not None else v) + s.margin


def statements_picture(statements: Sequence[JudgedStatement], width: float = 7.0) -> Picture | None:
    """The picture of a claim's statements; None where nothing was observed.

    One limit for all elements: a strip along the quantity, the limits a band, every observation a dot with its
    interval, the rival a cross. Limits that differ: the elements side by side, sorted by the predicted value. An end of
    what the quantity can be is a grey bar where it is near.
    """
    every = [s for s in statements if s.observed]
    if not every:
        return None
    shown = every
    if len(every) > MOST:
        shown = sorted(every, key=lambda s: s.outcome == "confirmed" and s.as_expected)[:MOST]
    titles = [_title(s) for s in shown]
    bodies = [_body(s) for s in shown]
    size = style.settings(width)["font.size"] / 72
    left_out = len(every) - len(shown)
    height = (
        sum(bodies) + sum((1.3 * (t.count("\n") + 1) + 3.4) * size for t in titles) + (5.0 if left_out else 3.0) * size
    )
    with style.applied(width):
        figure = style.figure(width, height)
        axes = np.ravel(figure.subplots(len(shown), 1, squeeze=False, gridspec_kw={"height_ratios": bodies}))
        walls = False
        for ax, s, title in zip(axes, shown, titles, strict=True):
            walls |= _strip(ax, s) if _one_limit(s) else _sorted(ax, s)
            ax.set_title(title, fontsize="medium", weight="normal", color="#1F2328")
            ax.tick_params(labelsize="medium")  # at 390 pixels smaller ones could not be read
        _legend(figure, any(s.rival for s in shown), walls)
        figure.get_layout_engine().set(h_pad=0.09, w_pad=0.12)
        if left_out:
            figure.supxlabel(f"{left_out} more statements are in the table", fontsize="medium", x=0.02, ha="left")
    caption = "What each statement predicts (its limits), what was observed, and the rival."
    return Picture(figure, caption, " ".join(map(_in_words, every)), _data(every))


def _title(s: JudgedStatement) -> str:
    text = f"{s.name}: {s.outcome}" + ("" if s.as_expected else f" (expected: {s.expect})")
    return "\n".join(
        textwrap.wrap(text.replace("$", r"\$"), LINE, break_long_words=True, max_lines=4, placeholder=" …")
    )


def _one_limit(s: JudgedStatement) -> bool:
    return len(set(s.value)) == 1


def _body(s: JudgedStatement) -> float:
    """Inches of a strip without its labels."""
    n = len(s.observed)
    if not _one_limit(s):
        return min(1.7, 0.9 + 0.1 * n)
    return 0.36 if _together(s) else 0.26 + 0.1 * n if n <= ROWS else 1.1


def _together(s: JudgedStatement) -> bool:
    """Whether all elements lie so near to each other that a row each would show nothing: they share one."""
    low, high, log = _span(s)
    if log or len(s.observed) == 1:
        return len(s.observed) == 1
    parts = [np.concatenate([s.observed, *_ends(s)]), np.asarray(s.rival or (0.0,))]
    return all(float(np.ptp(p)) <= _SAME * (high - low) for p in parts)


def _rival(s: JudgedStatement) -> np.ndarray | None:
    return np.asarray(s.rival, dtype=float) if s.rival else None


def _ends(s: JudgedStatement) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the intervals; an open end is where the observation is."""
    seen = np.asarray(s.observed, dtype=float)
    low, high = (np.array([math.nan if e is None else e for e in v], dtype=float) for v in (s.low, s.high))
    return np.where(np.isfinite(low), low, seen), np.where(np.isfinite(high), high, seen)


def _span(s: JudgedStatement) -> tuple[float, float, bool]:
    """Ends of the axis of the quantity, and whether it is logarithmic."""
    edges = [e for i in range(len(s.observed)) for e in limits(s, i)]
    parts = [np.asarray(v, dtype=float) for v in (edges, s.observed, *_ends(s), s.rival)]
    values = np.concatenate([p[np.isfinite(p)] for p in parts])
    low, high = float(values.min()), float(values.max())
    if low > 0 and high / low > _LOG_RATIO:
        pad = (high / low) ** 0.08
        return low / pad, high * pad, True
    wide = high - low
    for end in s.domain:
        if end is not None and wide > 0 and min(abs(end - low), abs(end - high)) <= _NEAR * wide:
            low, high = min(low, end), max(high, end)
    pad = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    return low - pad, high + pad, False


def _axis(s: JudgedStatement) -> str:
    what = s.quantity if s.quantity not in ("real", "positive") else ""
    return f"{what} ({s.unit})" if what and s.unit else what or s.unit


def _scale(axis: Any, log: bool, most: int) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    axis.set_major_locator(LogLocator(numticks=most) if log else MaxNLocator(most))
    if not log:
        axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.4g}".replace("-", "−")))
    axis.set_minor_formatter(NullFormatter())


def _strip(ax: Any, s: JudgedStatement) -> bool:
    """Elements from top to bottom along the quantity; whether an end of the domain is drawn."""
    low, high, log = _span(s)
    if log:
        ax.set_xscale("log")
    n = len(s.observed)
    y = np.zeros(n) if _together(s) else -np.arange(n, dtype=float)
    bottom, top = y[-1] * 1.04 - 0.7, 0.7 - y[-1] * 0.04
    ax.set_xlim(low, high)  # before anything is drawn, so that nothing moves the ends
    ax.set_ylim(bottom, top)
    least, largest = limits(s, 0)
    ax.axvspan(max(least, low), min(largest, high), color=style.BAND, alpha=0.18, linewidth=0, zorder=1)
    for edge in {e for e in (least, largest) if math.isfinite(e)}:
        ax.axvline(edge, color=style.PREDICT, linewidth=1.4, zorder=2)
    rival = _rival(s)
    small = n > ROWS and not _together(s)
    if rival is not None:
        _crosses(ax, rival, y, small, 8.5)
    ends, wide = _ends(s), 1.0 if small else 2.2
    ax.hlines(y, *ends, color=style.OBSERVE, linewidth=wide, alpha=0.7, zorder=4)
    ax.plot(
        s.observed, y, "o", color=style.OBSERVE, mec="white", mew=0 if small else 0.7, ms=3 if small else 7, zorder=5
    )
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    _scale(ax.xaxis, log, 5)
    if label := _axis(s):
        ax.set_xlabel(label)
    return _walls(s, low, high, ax.axvline)


def _sorted(ax: Any, s: JudgedStatement) -> bool:
    """Elements side by side by predicted value; whether an end of the domain is drawn."""
    low, high, log = _span(s)
    if log:
        ax.set_yscale("log")
    n = len(s.observed)
    ax.set_xlim(-0.5 - 0.01 * n, n - 0.5 + 0.01 * n)
    ax.set_ylim(low, high)
    order = np.argsort(np.asarray(s.value), kind="stable")
    least, largest = (np.array(v)[order] for v in zip(*(limits(s, i) for i in range(n)), strict=True))
    least, largest = np.maximum(least, low), np.minimum(largest, high)
    edges = np.arange(n + 1) - 0.5
    ax.stairs(largest, edges, baseline=least, fill=True, color=style.BAND, alpha=0.18, linewidth=0, zorder=1)
    ax.hlines(np.asarray(s.value)[order], edges[:-1], edges[1:], color=style.PREDICT, linewidth=1.4, zorder=2)
    small, rival, x = n > 40, _rival(s), np.arange(n)
    if rival is not None:
        _crosses(ax, x, rival[order], small, 7.0)
    ends = [e[order] for e in _ends(s)]
    ax.vlines(x, *ends, color=style.OBSERVE, linewidth=1 if small else 2, alpha=0.7, zorder=4)
    seen = np.asarray(s.observed)[order]
    ax.plot(x, seen, "o", color=style.OBSERVE, mec="white", mew=0 if small else 0.6, ms=3 if small else 6, zorder=5)
    ax.set_xticks([])
    _scale(ax.yaxis, log, 4)
    ax.set_xlabel(f"{s.axis or 'element'}, sorted by predicted value")
    if label := _axis(s):
        ax.set_ylabel(label)
    return _walls(s, low, high, ax.axhline)


def _crosses(ax: Any, x: Any, y: Any, small: bool, size: float) -> None:
    if small:
        ax.plot(x, y, "x", color=style.RIVAL, ms=3.5, mew=1.1, zorder=3)
    else:
        ax.plot(x, y, "X", color=style.RIVAL, mec="white", mew=0.7, ms=size, zorder=3)


def _walls(s: JudgedStatement, low: float, high: float, line: Any) -> bool:
    ends = [e for e in s.domain if e is not None and low <= e <= high]
    for e in ends:
        line(e, color="#9AA3AD", linewidth=4, zorder=0, solid_capstyle="butt")
    return bool(ends)


def _legend(figure: Any, rival: bool, walls: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    white: dict[str, Any] = {"mec": "white", "mew": 0.7}
    band: dict[str, Any] = {"facecolor": style.BAND + "2E", "edgecolor": style.PREDICT, "linewidth": 1.2}
    handles: list[Any] = [Patch(label="predicted (limits)", **band)]
    handles.append(Line2D([], [], color=style.OBSERVE, marker="o", ms=7.5, lw=2.2, label="observed", **white))
    if rival:
        handles.append(Line2D([], [], ls="", marker="X", color=style.RIVAL, ms=8.5, label="rival", **white))
    if walls:
        handles.append(Line2D([], [], color="#9AA3AD", lw=4, label="domain end"))
    figure.legend(
        handles=handles, loc="outside upper left", ncols=4, fontsize="medium", handlelength=1.2, columnspacing=0.9
    )


def _in_words(s: JudgedStatement) -> str:
    """A statement for people who cannot see the picture."""
    low, high = limits(s, 0) if _one_limit(s) else (math.nan, math.nan)
    said = f"{low:.4g} to {high:.4g}" if math.isfinite(low + high) else f"{s.relation} {_range(s.value)}"
    rival = f", rival {_range(s.rival)}" if s.rival else ""
    return f"{s.name}: predicted {said}, observed {_range(s.observed)}{rival}; {s.outcome}."


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.4g}", f"{max(values):.4g}"
    return low if low == high else f"{low} to {high}"


def _data(statements: Sequence[JudgedStatement]) -> list[dict[str, Any]]:
    """The numbers of the picture: a row for each element."""
    rows = []
    for s in statements:
        for i, at in enumerate(s.at):
            least, largest = (e if math.isfinite(e) else None for e in limits(s, i))
            rows.append(
                {
                    "statement": s.name,
                    "element": at,
                    "relation": s.relation,
                    "value": s.value[i],
                    "least": least,
                    "largest": largest,
                    "observed": s.observed[i],
                    "low": s.low[i],
                    "high": s.high[i],
                    "rival": s.rival[i] if s.rival else None,
                    "outcome": s.outcome,
                    "unit": s.unit,
                }
            )
    return rows
