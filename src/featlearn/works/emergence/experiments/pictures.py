"""Summary and pictures that the tables of the emergence work share."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from featlearn.lab.estimate import Estimate, estimates, interval
from featlearn.lab.experiment import Rows, SummaryRow
from featlearn.report.compare import against_reported
from featlearn.report.plots import NeuronPanel, Picture, Series, bars_against_reported, curves, neuron_map
from featlearn.report.style import figure
from featlearn.works.emergence.rows import KEPT, METHODS, WITHOUT

TOLERANCE = {"train_acc": 1.0, "test_acc": 1.0, "cos": 0.02}  # the paper gives a spread below 0.5 points over seeds
UNITS = {"train_acc": "%", "test_acc": "%", "cos": ""}
BOUNDS = {"train_acc": (0.0, 100.0), "test_acc": (0.0, 100.0), "cos": (-1.0, 1.0)}


def compare(found: Sequence[Estimate], entry: str) -> list[SummaryRow]:
    """Our estimates beside one reported table; both readings of One Step stand beside the reported One Step."""
    ours = []
    for e in found:
        low, high = BOUNDS[e.metric]
        setting, row = e.group
        name = "One Step" if row == KEPT else row
        values = (e.metric, e.value, max(e.low, low), min(e.high, high), e.n)
        ours.append(replace(against_reported([(setting, name, *values)], [entry], TOLERANCE, UNITS)[0], row=row))
    return ours


def summarise(table: Rows, entry: str) -> list[SummaryRow]:
    """Means over seeds with 95 % intervals beside the reported numbers."""
    order = [*METHODS[:4], KEPT, *METHODS[4:]]
    settings = list(dict.fromkeys(r["setting"] for r in table.rows))
    rows = [r for r in table.rows if r["kind"] == "final"]
    rows.sort(key=lambda r: (settings.index(r["setting"]), not r["structure"], order.index(r["row"])))
    made = compare(estimates([{**r, "row": named(r)} for r in rows], metrics=tuple(TOLERANCE)), entry)
    causes = [{**r, "row": f"{named(r)}: {r['cause']}"} for r in table.rows if r["kind"] == "cause"]
    return made + without_reported(causes, UNITS, entry)


def named(row: Mapping[str, Any]) -> str:
    """The row of a table, as reported."""
    return row["row"] + ("" if row["structure"] else WITHOUT)


def without_reported(found: Sequence[Mapping[str, Any]], units: Mapping[str, str], entry: str) -> list[SummaryRow]:
    """Means over seeds of the metrics in `units` with 95 % intervals, cut at the ends of what a percentage ("%") or a
    cosine ("") can be."""
    rows = []
    for e in estimates(found, metrics=tuple(units)):
        (setting, row), unit = e.group, units[e.metric]
        least, most = (0.0, 100.0) if unit == "%" else (-1.0, 1.0)
        low, high = max(e.low, least), min(e.high, most)
        rows.append(
            SummaryRow(
                setting, row=row, metric=e.metric, value=e.value, low=low, high=high, n=e.n, unit=unit, entry=entry
            )
        )
    return rows


def learning_curves(table: Rows, entries: Sequence[str]) -> Mapping[str, Picture]:
    """Test accuracy per step, mean over seeds, one panel per setting and structure."""
    rows = [{**r, "row": named(r)} for r in table.rows if r["kind"] == "curve"]
    settings = list(dict.fromkeys(r["setting"] for r in rows))
    if not rows:
        return {}
    fig = figure(10, 4.1 * len(settings))
    grid = np.atleast_2d(fig.subplots(len(settings), 2, sharey=True))
    data = []
    for axes, setting in zip(grid, settings, strict=True):
        for ax, suffix, title in zip(axes, ("", WITHOUT), ("with input structure", "without"), strict=True):
            series = []
            for name in ("Network", "NTK", "RF"):
                mine = [r for r in rows if r["setting"] == setting and r["row"] == name + suffix]
                if not mine:
                    continue
                steps = sorted({r["step"] for r in mine})
                points = [interval([r["acc"] for r in mine if r["step"] == s]) for s in steps]
                mean, low, high = (np.array(v) for v in zip(*points, strict=True))
                series.append(Series(name + suffix, np.array(steps), mean, np.clip(low, 0, 100), np.clip(high, 0, 100)))
                data += [
                    {"setting": setting, "row": name + suffix, "step": s, "test_acc": m, "low": lo, "high": hi}
                    for s, m, lo, hi in zip(steps, mean, low, high, strict=True)
                ]
            curves(
                ax,
                series,
                "gradient step",
                "test accuracy (%)",
                ylim=(35, 102),
                title=f"{setting}, {title}" if setting else title,
            )
    n = len({r["seed"] for r in rows})
    caption = (
        f"Test accuracy over training; mean and 95 % interval over {n} seeds. The first two steps use all samples."
    )
    return dict.fromkeys(entries, Picture(fig, caption, data=data))


def neuron_maps(table: Rows, entries: Sequence[str]) -> Mapping[str, Picture]:
    """Neurons at the start and after one and two steps, laid out by multidimensional scaling of 1 - cos."""
    shown: dict[str, Mapping[str, np.ndarray]] = {}
    for r in table.rows:
        load = table.arrays.get(r["trial"])
        setting = r.get("setting", "")
        if setting not in shown and load is not None and "step 2/at" in (arrays := load()):
            shown[setting] = arrays
    if not shown:
        return {}
    panels, data = [], []
    for setting, arrays in shown.items():
        for name in ("init", "step 1", "step 2"):
            at, cos = arrays[f"{name}/at"], arrays[f"{name}/cos"]
            title = f"{setting}: {name}" if setting else name
            panels.append(NeuronPanel(title, at[:-2], at[-2], at[-1], cos > 0.95, cos < -0.95))
            data += [
                {"setting": setting, "snapshot": name, "x": float(x), "y": float(y), "cos": float(c)}
                for (x, y), c in zip(at[:-2], cos, strict=True)
            ]
    fig = figure(9.5, 3.4 * len(shown))
    neuron_map(fig, panels)
    caption = (
        "Neuron directions of one seed by metric multidimensional scaling on 1 - cos; coloured where |cos| with the "
        "ground truth (red star; orange: its negative) exceeds 0.95."
    )
    return dict.fromkeys(entries, Picture(fig, caption, data=data))


def bars(summary: Sequence[SummaryRow], entry: str) -> Mapping[str, Picture]:
    """Test accuracy of every method beside the reported numbers."""
    rows = [r for r in summary if r.metric == "test_acc"]
    settings = max(1, len({r.setting for r in rows}))
    fig = figure(8.5, 1.2 + 0.33 * len(rows) + 0.3 * settings)
    bars_against_reported(fig, rows, "test_acc", label="test accuracy (%)", xlim=(0, 100), baseline=50)
    return {entry: Picture(fig, "Test accuracy, ours beside the reported numbers; the dotted line is guessing.")}


def draw(table: Rows, entry: str, curve_entries: Sequence[str], map_entries: Sequence[str]) -> Mapping[str, Picture]:
    """All pictures of one table, by inventory id."""
    summary = summarise(table, entry)
    pictures = dict(bars(summary, entry)) if summary else {}
    return {**pictures, **learning_curves(table, curve_entries), **neuron_maps(table, map_entries)}
