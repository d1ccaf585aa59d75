"""The pages of what was run: one per experiment, one per claim."""

import math
import sys
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from featlearn.lab.experiment import SummaryRow
from featlearn.lab.pending import HITS, Case
from featlearn.report import tables
from featlearn.report.cases import SIGN, cases_data, cases_picture
from featlearn.report.context import Site, provenance
from featlearn.report.html import (
    Html,
    badge,
    bullets,
    command,
    document,
    grid_table,
    nested,
    prose,
    seconds,
    table,
    tag,
)
from featlearn.report.model import ClaimPage, ExperimentPage, State, by_work, experiment_state, verdict_state
from featlearn.report.parts import count, home, section, short, verdict_badges
from featlearn.report.plots import Picture


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
        notes.append("These rows come from another version of this experiment; run it again.")
    for n, what in (
        ((len(t.failed), "failed"), (len(t.diverged), "diverged"), (len(t.missing), "are missing")) if t else ()
    ):
        if n:
            notes.append(f"{count(n, 'trial', 'trials')} {what}; the numbers below are without them.")
    run = x.command or f"featlearn run {ex.id}" + (f" --preset {x.preset}" if x.preset else "")
    results: list[Any] = []
    compared, others = _divided(x.summary)
    if x.was_run:
        results += _numbers(compared)
        if not x.summary:
            results.append(tag("p", "No summary was made.", class_="soft"))
        elif not compared:
            results.append(tag("p", "The paper has no numbers for these; ours are below.", class_="soft"))
        if wide := sum(tables.loose(r) for r in x.summary):
            text = f"{count(wide, 'row agrees', 'rows agree')} with the paper only within an interval wider than a"
            text += " tenth of the reported number (marked wide): so few seeds could not tell it from much else."
            results.append(tag("p", text, class_="soft small"))
        if any(r.n == 1 for r in x.summary):
            results.append(tag("p", "A row of one seed has no interval.", class_="soft small"))
        results.append(tag("div", site.attempt(ex.id, lambda: _draw(site, x)), class_="pictures"))
        results += section("Numbers that are not in the paper", _wide(others)) if compared else _wide(others)
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
        tag("h2", "Ours against the reported numbers"),
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


def claim(site: Site, c: ClaimPage) -> str:
    """One claim: statement, what the paper has where it is wrong, assumptions, cases, picture, command."""
    v = c.verdict
    cl, ev = v.claim, v.evidence
    w = next((w for w in site.works if w.id == by_work(cl.id)), None)
    entries = []
    for id_ in cl.entries:
        e = site.entries.get(id_)
        entries.append([site.link("entry", id_), e.kind if e else "", e.where if e else ""])
    reported, box = cl.reported, HITS[cl.hits] if cl.hits else "Remark on the text"
    vacuous = [k for k in ev.cases if k.vacuous]
    assumptions = [
        [a.says, a.detail, badge(State("met", "good") if a.met else State("unmet", "warn"))] for a in ev.assumptions
    ]
    none = "No case was evaluated."
    if v.verdict not in ("data needed", "not run"):
        none = "The cases are not stored with this verdict; the command evaluates them again."
    pictures = site.attempt(cl.id, lambda: _draw_claim(site, c)) if ev.cases else []
    out = [
        tag("p", "claim", class_="kicker"),
        tag("h1", cl.id),
        tag("div", verdict_badges(c), class_="badges"),
        tag("div", prose(cl.says), class_="statement"),
        tag("p", v.why),
        tag("div", tag("p", f"The check itself broke: {c.error}"), class_="note bad", role="note") if c.error else None,
        *([tag("div", tag("p", tag("b", box)), prose(reported), class_="note", role="note")] if reported else []),
        tag("p", ev.comment) if ev.comment else None,
        *section("How far the bound is from biting", bullets([f"{k.name}: {k.vacuous}" for k in vacuous])),
        *pictures,
        *section("Cases", _cases(ev.cases) if ev.cases else tag("p", none, class_="soft")),
        *section(
            "Premises at the sizes used",
            table([("premise", "wide"), ("here", "left"), ("", "left")], assumptions) if assumptions else None,
        ),
        tag("h2", "Covers"),
        table([("entry", "name"), ("kind", "left"), ("where", "wide")], entries, class_="stack"),
        tag("h2", "Command"),
        command(c.command or f"featlearn verify {cl.id}"),
        tag("h2", "Provenance"),
        provenance(c.provenance, [("check", seconds(v.seconds))]),
    ]
    trail = [home(site), site.link("work", w.id, w.title) if w else None, cl.id]
    return document(f"{cl.id} · featlearn", [t for t in trail if t is not None], out, "../")


WIDTH = 5
"""Metrics in one table of those without a reported number."""


def _divided(rows: Sequence[SummaryRow]) -> tuple[list[SummaryRow], list[SummaryRow]]:
    """(rows of metrics that some row has a reported number for, rows of the others)."""
    reported = {r.metric for r in rows if r.reported is not None}
    return [r for r in rows if r.metric in reported], [r for r in rows if r.metric not in reported]


def _numbers(rows: Sequence[SummaryRow]) -> list[Html]:
    """One table, or one a metric where a single one would repeat every row's name."""
    metrics = dict.fromkeys(r.metric for r in rows)
    if len(metrics) <= 1 or len(rows) <= 8:
        return [grid_table(tables.long(rows), verdict_state)] if rows else []
    parts = [[r for r in rows if r.metric == m] for m in metrics]
    return [grid_table(tables.long(p, tables.metric_name(p[0]), metric=False), verdict_state) for p in parts]


def _wide(rows: Sequence[SummaryRow]) -> list[Html]:
    """Metrics side by side that have the same lines, at most WIDTH in a table."""
    groups: dict[tuple, list[str]] = {}
    for metric in dict.fromkeys(r.metric for r in rows):
        lines = tuple((r.setting, r.row) for r in rows if r.metric == metric)
        groups.setdefault(lines, []).append(metric)
    parts = [group[i : i + WIDTH] for group in groups.values() for i in range(0, len(group), WIDTH)]
    return [grid_table(tables.wide([r for r in rows if r.metric in part]), verdict_state) for part in parts]


def _draw(site: Site, x: ExperimentPage) -> list[Html]:
    drawn = (x.experiment.draw(x.table) if x.table is not None else None) or {}
    shared: dict[int, list[str]] = {}
    for id_, picture in drawn.items():  # one picture may stand for several entries: it is saved and shown once
        shared.setdefault(id(picture), []).append(id_)
    out = []
    for ids in shared.values():
        picture, e = drawn[ids[0]], site.entries.get(ids[0].partition("#")[0])
        what = getattr(picture, "caption", "") or (short(e.says, 220) if e else x.experiment.title)
        name = f"experiment.{x.experiment.id}.{ids[0]}"
        out.append(site.picture(name, picture, f"{', '.join(ids)}: {what}"))
        for id_ in ids:
            site.pictures_of.setdefault(id_.partition("#")[0], []).append(out[-1])
    return out


def _draw_claim(site: Site, c: ClaimPage) -> list[Html]:
    cl, ev = c.verdict.claim, c.verdict.evidence
    drawn = cl.draw(ev) if cl.draw else cases_picture(ev)
    if drawn is None:
        return []
    picture = drawn if isinstance(drawn, Picture) else Picture(drawn, data=cases_data(ev))
    return [
        site.picture(
            f"claim.{cl.id}", picture, picture.caption or f"Prediction, observation and rival of {cl.id}.", False
        )
    ]


def _cases(cases: Sequence[Case]) -> Html:
    heads = [("case", "mid"), ("prediction", "right"), ("observed", "right"), ("tolerance", "right")]
    heads += [("rival", "right"), ("how close", "left"), ("state", "left")]
    rows = []
    for c in cases:
        name = [c.name, _small(f"in {c.unit}" if c.unit else "")]
        badges = [badge(State("agrees", "good") if c.ok else State("disagrees", "bad"))]
        if c.rival is not None:
            badges.append(badge(State("rival rejected", "good") if c.rival_rejected else State("rival fits", "odd")))
        if c.vacuous:
            badges.append(badge(State("cannot bite", "warn")))
        cells = [name, _value(c.predict, SIGN[c.relation]), _value(c.observe), _value(c.tolerance, "±")]
        cells += [[_value(c.rival), _small(c.rival_says)], slack(c), tag("div", badges, class_="badges")]
        rows.append(cells)
    return table(heads, rows)


def slack(c: Case) -> str:
    """How close the observation comes to breaking the case: its worst element, in words.

    Example:
        >>> slack(Case("b", 10.0, 0.01, relation="at most", vacuous="m >= 1e9"))
        'reaches 0.1 % of the bound'
    """
    predict, observe, tol = np.broadcast_arrays(
        *(np.asarray(v, np.float64) for v in (c.predict, c.observe, c.tolerance))
    )
    if observe.size == 0 or not (np.isfinite(observe).all() and np.isfinite(predict).all()):
        return "not finite"
    if c.relation == "equal":
        off = np.abs(observe - predict)
        if not np.any(tol > 0):
            return "exact" if not off.any() else f"off by {_digits(off.max())}"
        if np.any(off[tol == 0] > 0):
            return f"off by {_digits(off[tol == 0].max())} where nothing is allowed"
        share = float((off[tol > 0] / tol[tol > 0]).max())
        return f"uses {_percent(share)} of the tolerance" if share <= 1 else f"off by {_digits(share)} tolerances"
    if not (predict > 0).all() or not (observe >= 0).all():
        gap = (predict - observe if c.relation == "at most" else observe - predict).min()
        return f"{_digits(gap)} from the bound" if gap >= 0 else f"{_digits(-gap)} past the bound"
    ratio = observe / predict
    if c.relation == "at most":
        return f"reaches {_percent(float(ratio.max()))} of the bound"
    return f"{_digits(float(ratio.min()))} times the bound"


def _percent(share: float) -> str:
    return f"{_digits(100 * share)} %"


def _digits(v: float) -> str:
    return "∞" if math.isinf(v) else f"{v:.3g}"


def _small(text: str) -> Html | None:
    return tag("div", text, class_="soft small") if text else None


def _value(v: Any, sign: str = "") -> Any:
    if v is None:
        return "–"
    a = np.asarray(v, np.float64)
    if a.ndim == 0:
        return f"{sign} {float(a):.5g}".replace("-", "−").replace("e−", "e-").strip()
    shape = " × ".join(str(n) for n in a.shape)
    return [f"{sign} {a.min():.3g} … {a.max():.3g}" if a.size else "", _small(f"{shape} values")]


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
