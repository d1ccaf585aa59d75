"""Pages of runs as their manifests tell them: changed settings, one's own experiments, sweeps.

No code that a manifest names is run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from featlearn.lab.experiment import SummaryRow
from featlearn.lab.find import Run, summary_rows
from featlearn.report.context import Site, provenance
from featlearn.report.html import Html, command, document, nested, table, tag
from featlearn.report.model import origin_of
from featlearn.report.parts import home, note, section
from featlearn.report.pictures import Job
from featlearn.report.plots import Panel, Picture, Series, line_picture
from featlearn.report.results import divided, numbers, side_by_side

METRICS, PANELS, TICKS = 8, 3, 8
"""So many metrics of a sweep are drawn, so many panels stand side by side, so many values are named along an axis."""


def title(run: Run) -> str:
    """A run in one line."""
    return f"{run.manifest.experiment}: {run.words}"


def sweeps(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The members of each sweep by its name, in the order of what was swept."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        for name in run.manifest.sweeps:
            found.setdefault(name, []).append(run)
    return {n: sorted(rs, key=lambda r: [_key(v) for v in swept(r, n).values()]) for n, rs in sorted(found.items())}


def _key(value: Any) -> tuple[int, Any]:
    return (0, value) if isinstance(value, int | float) else (1, str(value))


def swept(run: Run, sweep: str) -> Mapping[str, Any]:
    """The swept settings of a member."""
    return run.manifest.sweeps[sweep]


def sweep_rows(members: Sequence[Run], sweep: str) -> list[SummaryRow]:
    """The summaries of all members, each row with its swept settings."""
    out = []
    for run in members:
        words = ", ".join(f"{k} = {v}" for k, v in swept(run, sweep).items())
        out += [replace(r, setting="; ".join(s for s in (words, r.setting) if s)) for r in summary_rows(run.manifest)]
    return out


def run_page(site: Site, run: Run) -> str:
    """One run: its summary, command and settings."""
    m = run.manifest
    others = [tag("li", site.link("sweep", name, "the sweep it belongs to")) for name in m.sweeps]
    body = [
        tag("p", "run ", tag("span", m.hash, style="text-transform:none"), class_="kicker"),
        tag("h1", title(run)),
        *([note(f"Not complete: {run.state}.")] if run.state != "done" else []),
        *_summary(summary_rows(m)),
        tag("ul", others) if others else None,
        *_made(m),
        tag("h2", "Settings"),
        _settings(m.config, m.changed),
    ]
    return document(f"{title(run)} · featlearn", [home(site), m.hash], body, "../")


def _summary(rows: Sequence[SummaryRow]) -> list[Any]:
    compared, others = divided(rows)
    return [*numbers(compared), *side_by_side(others)] if rows else [tag("p", "No summary was made.", class_="soft")]


def _made(m: Any) -> list[Any]:
    return [
        *(section("Command", command(m.command)) if m.command else []),
        tag("h2", "Provenance"),
        provenance(origin_of(m.provenance, m.started), [("version", m.version), ("trials", len(m.trials))]),
    ]


def _settings(config: Mapping[str, Any], changed: Mapping[str, Any]) -> Html:
    rows = [[tag("code", k), nested(v), "changed" if k in changed else ""] for k, v in config.items()]
    return table([("field", "name"), ("value", "left"), ("", "left")], rows)


def sweep_page(site: Site, name: str, members: Sequence[Run]) -> str:
    """A sweep: every metric over what was swept, and the numbers."""
    first = members[0].manifest
    fields = list(swept(members[0], name))
    links = [
        [site.link("run", r.manifest.hash, ", ".join(f"{k} = {v}" for k, v in swept(r, name).items())), r.state]
        for r in members
    ]
    body = [
        tag("p", "sweep ", tag("span", name, style="text-transform:none"), class_="kicker"),
        tag("h1", f"{first.experiment} over {' and '.join(fields)}"),
        tag("div", site.pictures(f"sweep.{name}"), class_="pictures"),
        *_summary(sweep_rows(members, name)),
        tag("h2", "Runs"),
        table([("settings", "name"), ("state", "left")], links),
        *_made(first),
    ]
    return document(f"{first.experiment} over {', '.join(fields)} · featlearn", [home(site), name], body, "../")


def sweep_job(name: str, members: Sequence[Run], key: str) -> Job:
    """The pictures of a sweep."""
    given = [(dict(swept(r, name)), summary_rows(r.manifest)) for r in members]
    return Job(f"sweep.{name}", f"sweep.{name}", sweep_pictures, given, key)


def sweep_pictures(given: Sequence[tuple[Mapping[str, Any], Sequence[SummaryRow]]]) -> dict[str, Picture]:
    """Small multiples: a metric over the swept field with most values, a panel for each value of the others."""
    names = list(given[0][0])
    across = max(names, key=lambda n: len({str(s[n]) for s, _ in given}))
    rest = [n for n in names if n != across]
    groups: dict[str, list[tuple[Any, Sequence[SummaryRow]]]] = {}
    for settings, rows in given:
        panel = ", ".join(f"{n} = {settings[n]}" for n in rest)
        groups.setdefault(panel, []).append((settings[across], rows))
    values = list(dict.fromkeys(s[across] for s, _ in given)) if _plain(given, across) else []
    places = {v: float(v) for v in values}
    label = across
    if not values:  # tuples and names: their places, told in the label
        texts = list(dict.fromkeys(str(s[across]) for s, _ in given))
        places = {t: float(i) for i, t in enumerate(texts)}
        label = f"{across}: " + ", ".join(f"{i} = {t}" for i, t in enumerate(texts))
    ticks = sorted(places.values()) if len(places) <= TICKS else []
    positive = bool(values) and min(places.values()) > 0 and max(places.values()) >= 10 * min(places.values())
    out: dict[str, Picture] = {}
    metrics = dict.fromkeys(r.metric for _, rows in given for r in rows)
    for metric in islice(metrics, METRICS):
        panels = [
            Panel(_lines(group, metric, places), label, metric if i % PANELS == 0 else "", text, "x" * positive, ticks)
            for i, (text, group) in enumerate(groups.items())
        ]
        panels = [p for p in panels if p.series]
        for start in range(0, len(panels), PANELS):
            part = f"{metric} ({start // PANELS + 1})" if len(panels) > PANELS else metric
            out[part] = line_picture(panels[start : start + PANELS], f"{metric}, with 95 % intervals.", same_y=True)
    return out


def _plain(given: Sequence[tuple[Mapping[str, Any], Any]], name: str) -> bool:
    return all(isinstance(s[name], int | float) and not isinstance(s[name], bool) for s, _ in given)


def _lines(group: Sequence[tuple[Any, Sequence[SummaryRow]]], metric: str, places: Mapping[Any, float]) -> list[Series]:
    lines: dict[str, list[tuple[float, SummaryRow]]] = {}
    for value, rows in group:
        for r in rows:
            if r.metric == metric:
                name = ", ".join(s for s in (r.row, r.setting) if s)
                lines.setdefault(name, []).append((places[value if value in places else str(value)], r))
    out = []
    for name, found in lines.items():
        found.sort(key=lambda f: f[0])
        x, rows = [f[0] for f in found], [f[1] for f in found]
        certain = all(r.low == r.high for r in rows)
        ends = ([r.low for r in rows], [r.high for r in rows])
        out.append(Series(name, x, [r.value for r in rows], *(() if certain else ends)))
    return out


def listed(site: Site, runs: Sequence[Run]) -> list[Any]:
    """The part of the index that leads to them."""
    if not runs:
        return []
    rows = [
        [
            site.link("sweep", name, f"{ms[0].manifest.experiment} over {', '.join(swept(ms[0], name))}", ""),
            f"{len(ms)} runs",
        ]
        for name, ms in sweeps(runs).items()
    ]
    rows += [[site.link("run", r.manifest.hash, title(r), ""), r.state] for r in runs if not r.manifest.sweeps]
    return [tag("h2", "Runs of yours"), table([("run", "wide"), ("state", "left")], rows, class_="stack")]
