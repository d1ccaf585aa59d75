"""The page of an experiment: what was run, beside what is reported."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from featlearn.lab.experiment import SummaryRow
from featlearn.report import tables
from featlearn.report.context import Site, provenance
from featlearn.report.entry import reported_table
from featlearn.report.html import Html, badge, command, document, grid_table, inline, nested, prose, table, tag
from featlearn.report.model import ExperimentPage, by_work, experiment_state, verdict_state
from featlearn.report.parts import count, home, section, short
from featlearn.report.pictures import Drawn


def experiment(site: Site, x: ExperimentPage) -> str:
    """One experiment: reported, settings, ours against the reported numbers, pictures, command, deviations,
    provenance."""
    ex, t = x.experiment, x.table
    w = next((w for w in site.works if w.id == by_work(ex.id)), None)
    reported = []
    for id_ in ex.reproduces:
        e = site.entries.get(id_)
        where = tag("div", e.where, class_="soft small") if e else None
        reported.append([site.link("entry", id_), [e.says if e else "", where]])
    doc = (getattr(sys.modules.get(getattr(ex.run_trial, "__module__", "")), "__doc__", None) or "").strip()
    notes = []
    if x.stale:
        notes.append("These rows come from another version of this experiment, or of its code; run it again.")
    for n, what in (
        ((len(t.failed), "failed"), (len(t.diverged), "diverged"), (len(t.missing), "are missing")) if t else ()
    ):
        if n:
            notes.append(f"{count(n, 'trial', 'trials')} {what}; the numbers below are without them.")
    run = x.command or f"featlearn run {ex.id}" + (f" --preset {x.preset}" if x.preset else "")

    def caption(drawn: Drawn) -> str:
        e = site.entries.get(drawn.ids[0].partition("#")[0])
        return f"{', '.join(drawn.ids)}: {drawn.caption or (short(e.says, 220) if e else ex.title)}"

    results: list[Any] = []
    compared, others = divided(x.summary)
    if x.was_run:
        results += numbers(compared)
        if not x.summary:
            results.append(tag("p", "No summary was made.", class_="soft"))
        elif not compared:
            results.append(tag("p", _why_alone(site, ex.reproduces), class_="soft"))
        if wide := sum(tables.loose(r) for r in x.summary):
            text = f"{count(wide, 'row agrees', 'rows agree')} with the paper only within an interval wider than a"
            text += " tenth of the reported number (marked wide): so few seeds could not tell it from much else."
            results.append(tag("p", text, class_="soft small"))
        if any(r.n == 1 for r in x.summary):
            results.append(tag("p", "A row of one seed has no interval.", class_="soft small"))
        results.append(tag("div", site.pictures(ex.id, caption), class_="pictures"))
        results += (
            section("Numbers that are not in the paper", side_by_side(others)) if compared else side_by_side(others)
        )
        results += _incomparable(site, ex.incomparable)
    else:
        results.append(tag("div", tag("p", "Not run. The command below gives this page its numbers."), class_="note"))
    dev = [[d.what, d.reported, d.ours, d.why] for d in ex.deviations]
    cells = [("preset", x.preset), ("rows", len(t.rows) if t and t.rows else None), ("version", ex.version)]
    out = [
        tag("p", ["experiment ", tag("span", ex.id, style="text-transform:none")], class_="kicker"),
        tag("h1", ex.title),
        tag(
            "div",
            badge(experiment_state(x)),
            tag("span", x.preset and f"preset {x.preset}", class_="soft"),
            class_="badges",
        ),
        *[tag("div", tag("p", text), class_="note", role="note") for text in notes],
        tag("h2", "What the work reports"),
        table([("entry", "name"), ("says", "wide")], reported, class_="stack")
        if reported
        else tag("p", "An experiment of its own."),
        tag("details", tag("summary", "About this experiment"), prose(doc)) if doc else None,
        tag("h2", "Ours against the reported numbers" if compared else "Results"),
        *results,
        tag("h2", "Command"),
        command(run),
        *section("Settings", _config(x)),
        tag("h2", "Where we differ from the paper"),
        table([("what", "left"), ("reported", "text"), ("ours", "text"), ("why", "text")], dev, class_="stack")
        if dev
        else tag("p", "Nowhere that we know of.", class_="soft"),
        tag("h2", "Provenance"),
        provenance(x.provenance, cells),
    ]
    trail = [home(site), site.link("work", w.id, w.title) if w else None, ex.id]
    return document(f"{ex.title} · featlearn", [c for c in trail if c is not None], out, "../")


WIDTH = 5
"""Metrics in one table of those without a reported number."""


def divided(rows: Sequence[SummaryRow]) -> tuple[list[SummaryRow], list[SummaryRow]]:
    """(rows of metrics that some row has a reported number for, rows of the others)."""
    reported = {r.metric for r in rows if r.reported is not None}
    return [r for r in rows if r.metric in reported], [r for r in rows if r.metric not in reported]


def numbers(rows: Sequence[SummaryRow]) -> list[Html]:
    """One table, or one a metric where a single one would repeat every row's name."""
    metrics = dict.fromkeys(r.metric for r in rows)
    if len(metrics) <= 1 or len(rows) <= 8:
        return [grid_table(tables.long(rows), verdict_state)] if rows else []
    parts = [[r for r in rows if r.metric == m] for m in metrics]
    return [grid_table(tables.long(p, tables.metric_name(p[0]), metric=False), verdict_state) for p in parts]


def side_by_side(rows: Sequence[SummaryRow]) -> list[Html]:
    """Metrics side by side that have the same lines, at most WIDTH in a table."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for metric in dict.fromkeys(r.metric for r in rows):
        lines = tuple((r.setting, r.row) for r in rows if r.metric == metric)
        groups.setdefault(lines, []).append(metric)
    parts = [group[i : i + WIDTH] for group in groups.values() for i in range(0, len(group), WIDTH)]
    return [grid_table(tables.wide([r for r in rows if r.metric in part]), verdict_state) for part in parts]


def _why_alone(site: Site, entries: Sequence[str]) -> str:
    """Why no reported number stands beside ours."""
    n = sum(len(site.entries[e].reported) for e in entries if e in site.entries)
    if not n:
        return "The paper reports no number for these; ours are below."
    return f"The paper reports {count(n, 'number', 'numbers')} for these entries, and none is of what ours measure."


def _incomparable(site: Site, why: Mapping[str, str]) -> list[Any]:
    """Reported numbers that ours do not stand for, each entry with the reason and its numbers."""
    out: list[Any] = []
    for id_, text in why.items():
        if e := site.entries.get(id_):
            head = tag("summary", f"{id_}: {count(len(e.reported), 'reported number', 'reported numbers')}")
            out.append([tag("p", site.link("entry", id_), ": ", inline(text)), tag("details", head, reported_table(e))])
    return section("Reported, and not comparable with ours", out)


def _config(x: ExperimentPage) -> Html | None:
    if x.config is None or not is_dataclass(x.config):
        return nested(x.config) if x.config else None  # type: ignore[return-value]
    paper = x.experiment.presets.get("paper")
    same = paper is not None and type(paper) is type(x.config) and x.preset != "paper"
    rows = []
    for f in fields(x.config):
        cells = [tag("code", f.name), _setting(getattr(x.config, f.name))]
        if same:
            theirs = getattr(paper, f.name)
            cells.append(
                _setting(theirs) if theirs != getattr(x.config, f.name) else tag("span", "same", class_="soft")
            )
        rows.append(cells)
    heads = [("field", "name"), ("value", "left"), *([("preset paper", "left")] if same else [])]
    return table(heads, rows)


def _setting(v: Any) -> str:
    if isinstance(v, tuple | list):
        return ", ".join(_setting(i) for i in v) or "none"
    return str(nested(v)) if not isinstance(v, str) else v
