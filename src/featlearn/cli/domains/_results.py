"""The results of an evaluation: tables of the terminal, the `fit` command of what did best, files by their endings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from featlearn.cli._show import put, show_table
from featlearn.cli.domains._shared import command_of
from featlearn.errors import CommandError

ENDINGS = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".tex": "latex", ".html": "page"}
CHOSEN = 24
"""Choices that the terminal shows."""


def targets(out: Sequence[str], replace: bool, read: Sequence[str]) -> list[tuple[Path, str]]:
    """(file, form) of each that is to be written, checked before any work."""
    from featlearn.apply.files import check_target

    found = []
    for name in out:
        form = ENDINGS.get(Path(name).suffix.lower())
        if form is None:
            raise CommandError(f"out = {name} is not allowed: a name that ends in {', '.join(ENDINGS)}; choose one")
        if form == "parquet":
            _needs_pyarrow(name)
        found.append((check_target(name, replace, [r for r in read if r]), form))
    return found


def _needs_pyarrow(name: str) -> None:
    import importlib.util

    if importlib.util.find_spec("pyarrow") is None:
        raise CommandError(f"out = {name} needs pyarrow, which is not installed: pip install pyarrow, or choose .csv")


def write_results(
    files: Sequence[tuple[Path, str]], found: Any, document: Mapping[str, Any], missing: Sequence[str]
) -> None:
    """Each file, whole or not at all. document: that of --json; missing: runs that are, a line each."""
    import json

    from featlearn.apply.domains.page import evaluation_page
    from featlearn.apply.domains.results import rows_of, summary_rows
    from featlearn.apply.files import keep
    from featlearn.errors import StoreError
    from featlearn.report import export

    for path, form in files:
        if form == "json":
            keep(path, json.dumps(document, indent=1, default=str).encode())
            continue
        if form == "page":
            lines = {name: fit["command"] for name, fit in document["fit"].items()}
            command, remarks = document["command"], document["remarks"]
            keep(path, evaluation_page(found, command, lines, remarks, missing, document["protocol"]).encode())
            continue
        if form == "latex":
            rows: Sequence[Any] = summary_rows(found.scores, found.levels)
            caption = (
                f"Accuracy on the held-out domain of {found.data} in %: mean over seeds and its 95 % interval; "
                f"{found.selection} selection"
            )
        else:
            rows, caption = rows_of(found.chosen, found.labels), ""
        try:
            export.write(rows, path, form, caption=caption, overwrite=True)
        except OSError as why:
            raise StoreError(
                f"{path} cannot be written ({why.strerror or why}); the runs are kept: run it again"
            ) from None


def fits_of(options: Any, best: Sequence[Any], data: Any) -> dict[str, Any]:
    """By algorithm: the settings that did best, how they did, and the command line that trains on all domains."""
    import dataclasses

    from featlearn.cli.domains.fit import FitOptions

    out = {}
    for b in best:
        searched = options.search > 1
        changed = {"batch": b.batch, "rate": b.rate, **b.settings} if searched else {}
        changed = {n: v for n, v in changed.items() if not n.startswith("swad_")}
        told = {**_of_protocol(options, data), **changed}
        command = command_of("fit", _without(options), FitOptions, algorithm=b.algorithm, **told)
        out[b.algorithm] = {**dataclasses.asdict(b), "command": command}
    return out


def _without(options: Any) -> Any:
    """The flags that a fit shares with an evaluation; what it writes and leaves out are its own."""
    import dataclasses

    from featlearn.cli.domains._shared import TrainOptions

    return TrainOptions(**{f.name: getattr(options, f.name) for f in dataclasses.fields(TrainOptions)})


def _of_protocol(options: Any, data: Any) -> dict[str, Any]:
    """The flags that --protocol would set, as they were: one that stands at its default has to be told, too."""
    from featlearn.apply.domains.protocols import benchmark_of, preset

    wanted = preset(options.protocol, benchmark_of(data.names, data.name)) if options.protocol else {}
    return {n: getattr(options, n) for n in wanted if hasattr(_without(options), n)}


def against_of(options: Any, data: Any, scores: Sequence[Any], missing: Sequence[Any] = ()) -> dict[str, Any]:
    """With --protocol: the reported numbers beside the run's, and where its settings or data are others; {} without."""
    if not options.protocol:
        return {}
    import dataclasses

    from featlearn.apply.domains import protocols

    benchmark = protocols.benchmark_of(data.names, data.name)
    flags = {f.name: getattr(options, f.name) for f in dataclasses.fields(options)}
    gone = protocols.departures(options.protocol, benchmark, flags, data)
    without = {(m.algorithm, m.held_out) for m in missing}
    rows = protocols.beside(scores, benchmark, options.protocol, gone, without)
    return {
        "name": options.protocol,
        "benchmark": benchmark.name,
        "entry": benchmark.entry,
        "verdict": protocols.outcome(rows),
        "settings": protocols.preset(options.protocol, benchmark),
        "departures": gone,
        "notes": list(protocols.notes(options.protocol)),
        "reported": [dataclasses.asdict(r) for r in rows],
    }


# --- the terminal ---------------------------------------------------------------------------------------------------


def show_results(out: Any, found: Any, fits: Mapping[str, Any], search: int) -> None:
    """Accuracies with the levels of guessing, other measures, what was chosen, and how to go on."""
    for table in score_tables(found, out):
        put(out, table)
    if found.measured:
        _show_measures(out, found)
    if search > 1:
        _show_chosen(out, found)
    for name, fit in fits.items():
        of = f", the best of {fit['of']} by {found.selection} selection" if fit["of"] > 1 else ""
        out.print(f"to train {name} on all domains{of}:", soft_wrap=True)
        out.print(f"  {fit['command']}", markup=False, emoji=False, soft_wrap=True)


def score_tables(found: Any, out: Any) -> list[Any]:
    """One table, or one a domain where it would be too wide for the console."""
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    scores = found.scores
    algorithms, domains = (list(dict.fromkeys(getattr(s, n) for s in scores)) for n in ("algorithm", "domain"))
    by = {(s.algorithm, s.domain): s for s in scores}
    level = {x.domain: x for x in found.levels}
    title = f"accuracy on the held-out domain in %, mean ± standard error over seeds; {found.selection} selection"
    flat = any(s.without_valley for s in scores)
    caption = "* SWAD found no valley in some runs and averaged their last segment alone" if flat else None

    def make(columns: Sequence[str]) -> Any:
        table = Table("algorithm", title=title, title_justify="left", caption=caption, caption_justify="left")
        for domain in columns:
            table.add_column(Text(domain), justify="right")
        for name in algorithms:
            table.add_row(name, *(_accuracy(by[name, d]) for d in columns))
        for name in ("majority", "chance") if level else ():
            values = [f"{100 * getattr(level[d], name):.1f}" if d in level else "–" for d in columns]
            table.add_row({"majority": "commonest class"}.get(name, name), *values, style="dim")
        return table

    whole = make(domains)
    fits = Measurement.get(out, out.options.update(max_width=10_000), whole).maximum <= out.width
    return [whole] if fits else [make([d]) for d in domains]


def _accuracy(score: Any) -> str:
    if score.mean is None:
        return "–"
    error = "" if score.error is None else f" ± {100 * score.error:.1f}"
    part = f" ({len(score.values)} of {score.expected})" if len(score.values) < score.expected else ""
    return f"{100 * score.mean:.1f}{error}{part}{' *' if score.without_valley else ''}"


def show_reported(out: Any, against: Mapping[str, Any]) -> None:
    """The run beside the tables, what the verdict is, and what is not as in the protocol."""
    from featlearn.apply.domains.page import reported_table

    title = f"beside the reported numbers of {against['benchmark']} ({against['entry']}), in %"
    show_table(out, ("row", "column", "here", "reported", "may be off by", ""), reported_table(against), title)
    for line in (*against["departures"], *against["notes"]):
        out.print(f"not as in {against['name']}: {line}", markup=False, emoji=False, soft_wrap=True)


def _show_measures(out: Any, found: Any) -> None:
    from featlearn.apply.domains.page import spanned

    names = list(dict.fromkeys(m.algorithm for m in found.measured))
    measures = list(dict.fromkeys(m.measure for m in found.measured))
    by = {(m.algorithm, m.measure): m for m in found.measured}
    rows = []
    for measure in measures:
        several = [by[name, measure] for name in names]
        rows.append((measure, *(f"{spanned(m.mean, m.low, m.high)}{m.which and f' ({m.which})'}" for m in several)))
    n = max(m.n for m in found.measured)
    title = f"over all held-out domains in %, mean [95 % interval by seed], {n} seed{'s' * (n > 1)}"
    show_table(out, ("measure", *names), rows, title)


def _show_chosen(out: Any, found: Any) -> None:
    from featlearn.apply.domains.results import own_settings

    names = found.searched
    rows = []
    for c, t in found.chosen[:CHOSEN]:
        own = own_settings(t)
        settings = [f"{own[n]:.3g}" if n in own else "–" for n in names]
        rows.append(
            (c.algorithm, c.held_out, str(c.seed), str(c.draw), str(t.schedule.batch), *settings, str(c.step), c.trial)
        )
    heads = ("algorithm", "held out", "seed", "draw", "batch", *(n.replace("_", " ") for n in names), "step", "run")
    more = f"; {len(found.chosen) - CHOSEN} more with --out FILE.csv" if len(found.chosen) > CHOSEN else ""
    show_table(out, heads, rows, f"chosen by {found.selection} selection{more}")
