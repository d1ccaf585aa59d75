"""The standard picture of a claim: prediction, observation and rival of every case, on one scale each."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from featlearn.lab.pending import Case, Evidence
from featlearn.report import style

SIGN = {"equal": "=", "at most": "≤", "at least": "≥"}
MAX_ROWS = 40
MAX_PANELS = 10
_LOG_RATIO = 30.0  # all values positive and at least this far apart: a log scale
_APART = 0.03  # share of the axis that must part rival and prediction, else the case gets its own axis


def is_scalar(case: Case) -> bool:
    """Whether prediction, observation, rival and tolerance of the case are single numbers."""
    return all(np.ndim(v) == 0 for v in (case.predict, case.observe, case.tolerance) if v is not None) and (
        case.rival is None or np.ndim(case.rival) == 0
    )


def cases_picture(evidence: Evidence, width: float | int = 7.0) -> Any:
    """The picture of a claim's cases; None where there is no case.

    Scalars: a row each, the prediction a black bar, what the tolerance allows a blue band, the observation a dot, the
    rival a cross. Cases of one unit share an axis (logarithmic where the values are positive and far apart) as long
    as prediction and rival stay apart on it; otherwise each has its own. Arrays: lines over the element, or over the
    rank of the prediction where there are many; `evidence.data["<case name> x"]` gives them an abscissa.
    Cases that fail come first where there are more than fit.

    Example:
        >>> cases_picture(Evidence([Case("trace", 1.0, 1.01, 1.2, tolerance=0.05)])).axes[0].get_xscale()
        'linear'
    """
    cases = list(evidence.cases)
    if not cases:
        return None
    panels = _panels([c for c in cases if is_scalar(c)]) + [[c] for c in _first(cases, is_scalar)]
    left_out = len(cases) - sum(len(p) for p in panels)
    many = len(panels) > MAX_PANELS
    if many:
        panels = sorted(panels, key=lambda p: all(_fine(c) for c in p))[:MAX_PANELS]
        left_out = len(cases) - sum(len(p) for p in panels)
    heights = [1.0 if _strip(p) else 0.9 + 0.36 * len(p) if is_scalar(p[0]) else 2.7 for p in panels]
    with style.applied(width):
        fig = style.figure(width, sum(heights) + 0.75 + (0.3 if left_out else 0.0))
        axes = np.ravel(fig.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": heights}))
        for ax, panel in zip(axes, panels, strict=True):
            if is_scalar(panel[0]):
                _dots(ax, panel)
            else:
                _lines(ax, panel[0], evidence)
        _legend(fig, cases)
        fig.get_layout_engine().set(h_pad=0.1)
        if left_out:
            fig.supxlabel(f"{left_out} more cases are in the table", fontsize="small", x=0.01, ha="left")
    return fig


def cases_data(evidence: Evidence) -> list[dict[str, Any]]:
    """The numbers of the picture as flat rows: case, element, predict, observe, rival, tolerance, relation, unit."""
    rows: list[dict[str, Any]] = []
    for c in evidence.cases:
        predict, observe, rival, tolerance = _arrays(c)
        for i in range(observe.size):
            rows.append(
                {
                    "case": c.name,
                    "element": i,
                    "relation": c.relation,
                    "predict": float(predict[i]),
                    "observe": float(observe[i]),
                    "rival": None if rival is None else float(rival[i]),
                    "tolerance": float(tolerance[i]),
                    "unit": c.unit,
                }
            )
    return rows


def _fine(c: Case) -> bool:
    return c.ok and c.rival_rejected


def _first(cases: Sequence[Case], skip: Any) -> list[Case]:
    return [c for c in cases if not skip(c)]


def _strip(panel: Sequence[Case]) -> bool:
    return len(panel) == 1 and is_scalar(panel[0])


def _arrays(c: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]:
    parts = [np.asarray(v, np.float64) for v in (c.predict, c.observe, c.tolerance)]
    if c.rival is not None:
        parts.append(np.asarray(c.rival, np.float64))
    flat = [np.ravel(v) for v in np.broadcast_arrays(*parts)]
    return flat[0], flat[1], flat[3] if c.rival is not None else None, flat[2]


def _panels(cases: Sequence[Case]) -> list[list[Case]]:
    """Scalar cases in groups that can share an axis: same unit, and every rival visibly apart from its prediction."""
    groups: dict[str, list[Case]] = {}
    for c in cases:
        groups.setdefault(c.unit, []).append(c)
    panels: list[list[Case]] = []
    for group in groups.values():
        if len(group) > MAX_ROWS:
            group = sorted(group, key=_fine)[:MAX_ROWS]
        if len(group) == 1 or all(_apart(c, _range(group)) for c in group):
            panels.append(group)
        else:
            panels += [[c] for c in group]
    return panels


def _marks(c: Case) -> list[float]:
    values = [c.predict, c.observe] + ([] if c.rival is None else [c.rival])
    return [float(v) for v in values if math.isfinite(float(v))]


def _range(group: Sequence[Case]) -> tuple[float, float, bool]:
    """Left end, right end and whether the axis is logarithmic."""
    values = [v for c in group for v in _marks(c)] or [0.0, 1.0]
    low, high = min(values), max(values)
    bands = [float(c.predict) + s * float(c.tolerance) for c in group if c.relation == "equal" for s in (-1, 1)]
    near = [v for v in bands if math.isfinite(v) and low - 0.5 * (high - low) <= v <= high + 0.5 * (high - low)]
    if low <= 0 or high / low <= _LOG_RATIO:  # show a whole tolerance band unless it dwarfs what it is for
        low, high = min([low, *near]), max([high, *near])
    if low > 0 and high / low > _LOG_RATIO:
        pad = (high / low) ** 0.08
        return low / pad, high * pad, True
    finite = [float(c.tolerance) for c in group if math.isfinite(float(c.tolerance))]
    pad = 0.09 * (high - low) or max(2 * max(finite, default=0.0), 0.05 * abs(high), 1e-12)
    return low - pad, high + pad, False


def _apart(c: Case, axis: tuple[float, float, bool]) -> bool:
    other = c.rival if c.rival is not None else c.observe
    a, b = float(c.predict), float(other)
    if not (math.isfinite(a) and math.isfinite(b)) or (c.rival is None and a == b):
        return True
    low, high, log = axis
    if log:
        return abs(math.log(b / a)) >= _APART * math.log(high / low)
    return abs(b - a) >= _APART * (high - low)


def _dots(ax: Any, group: Sequence[Case]) -> None:
    low, high, log = _range(group)
    if log:
        ax.set_xscale("log")
    ax.set_xlim(low, high)
    for y, c in enumerate(group):
        predict, observe, tol = float(c.predict), float(c.observe), float(c.tolerance)
        left = low if c.relation == "at most" else predict - tol
        right = high if c.relation == "at least" else predict + tol
        left, right = max(left, low), min(right, high)
        if right > left:
            ax.barh(y, right - left, 0.62, left, color=style.BAND, alpha=0.16, linewidth=0, zorder=1)
        if math.isfinite(predict):
            ax.vlines(predict, y - 0.46, y + 0.46, color=style.PREDICT, linewidth=2.6, zorder=3)
        if c.rival is not None and math.isfinite(float(c.rival)):
            ax.plot(float(c.rival), y, "X", color=style.RIVAL, mec="white", mew=0.9, ms=10, zorder=4, clip_on=False)
        if math.isfinite(observe):
            ax.plot(observe, y, "o", color=style.OBSERVE, mec="white", mew=0.9, ms=9, zorder=5, clip_on=False)
        lost = [n for n, v in (("prediction", c.predict), ("observation", c.observe), ("rival", c.rival)) if _lost(v)]
        if lost:
            ax.text(
                0.99, y, f"{', '.join(lost)} not finite", transform=ax.get_yaxis_transform(), ha="right", va="center"
            )
    ax.set_ylim(len(group) - 0.4, -0.6)
    ax.grid(False, axis="y")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    unit = group[0].unit
    if len(group) == 1:
        ax.set_yticks([])
        ax.set_title(_label(group[0], 62), fontsize="medium", weight="normal")
        if unit:
            ax.set_xlabel(f"value ({unit})")
    else:
        ax.set_yticks(range(len(group)), [_label(c, 34) for c in group])
        ax.set_xlabel(f"value ({unit})" if unit else "value")
    if not log:
        from matplotlib.ticker import MaxNLocator

        ax.xaxis.set_major_locator(MaxNLocator(5))


def _lost(value: Any) -> bool:
    return value is not None and not math.isfinite(float(value))


def _label(c: Case, limit: int) -> str:
    name = c.name if len(c.name) <= limit else c.name[: limit - 1] + "…"
    bound = "" if c.relation == "equal" else f"  ({SIGN[c.relation]})"
    return f"{'✓' if _fine(c) else '✗'} {name}{bound}".replace("$", r"\$")


def _lines(ax: Any, c: Case, evidence: Evidence) -> None:
    predict, observe, rival, tol = _arrays(c)
    n = observe.size
    x, xlabel = np.arange(n, dtype=float), "element"
    given = (evidence.data or {}).get(f"{c.name} x")
    if given is not None and np.size(given) == n:
        x, xlabel = np.ravel(np.asarray(given, float)), "x"
    elif n > 40:
        order = np.argsort(predict, kind="stable")
        predict, observe, tol = predict[order], observe[order], tol[order]
        rival = None if rival is None else rival[order]
        xlabel = "element, sorted by prediction"
    low = predict - tol if c.relation != "at most" else None
    high = predict + tol if c.relation != "at least" else None
    shown = [v for v in (predict, observe, rival) if v is not None]
    values = np.concatenate([v[np.isfinite(v)] for v in shown])
    if values.size and values.min() > 0 and values.max() / values.min() > _LOG_RATIO:
        ax.set_yscale("log")
    dot = float(np.clip(500 / max(n, 1), 2.0, 6.5))
    ax.plot(x, predict, color=style.PREDICT, linewidth=1.8, zorder=3)
    if rival is not None:
        ax.plot(x, rival, color=style.RIVAL, linewidth=1.6, linestyle="--", zorder=2)
    ax.plot(x, observe, "o", color=style.OBSERVE, ms=dot, mec="white", mew=0.4 if n <= 200 else 0, zorder=4)
    bottom, top = ax.get_ylim()
    below = np.full(n, bottom) if low is None else np.maximum(low, bottom)
    above = np.full(n, top) if high is None else np.minimum(high, top)
    ax.fill_between(x, below, above, color=style.BAND, alpha=0.14, linewidth=0, zorder=1)
    ax.set_ylim(bottom, top)
    ax.set_title(_label(c, 62), fontsize="medium", weight="normal")
    ax.set_xlabel(xlabel)
    ax.set_ylabel(f"value ({c.unit})" if c.unit else "value")


def _legend(fig: Any, cases: Sequence[Case]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    edge: dict[str, Any] = {"mec": "white", "mew": 0.9}
    handles: list[Any] = [
        Line2D([], [], color=style.PREDICT, lw=2.6, label="prediction"),
        Line2D([], [], ls="", marker="o", color=style.OBSERVE, ms=9, label="observed", **edge),
    ]
    if any(c.rival is not None for c in cases):
        dash = "" if all(is_scalar(c) for c in cases) else "--"
        handles.append(Line2D([], [], ls=dash, marker="X", color=style.RIVAL, ms=10, label="rival", **edge))
    handles.append(Patch(color=style.BAND, alpha=0.2, lw=0, label="allowed"))
    fig.legend(handles=handles, loc="outside upper left", ncols=4)
