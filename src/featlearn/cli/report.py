"""`featlearn report`: the static site, or the rows as LaTeX, CSV or parquet."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from featlearn.cli._parse import choose, parse
from featlearn.cli._show import bar, console, warn
from featlearn.cli.run import experiment_page
from featlearn.errors import DONE, FAILED, CommandError


@dataclass(frozen=True)
class ReportOptions:
    out: str = "site"
    """Folder to write to."""
    to: Literal["html", "latex", "csv", "parquet"] = "html"
    """html: the site; else the rows and summaries of every experiment that was run."""
    work: str = ""
    """Only this work."""
    run: str = ""
    """With --to: only this run or sweep, by the beginning of its name in `list --runs` or by its .run.json file."""
    store: str = "runs"
    """Folder of your runs; what is not there is taken from the committed evidence."""


def report_command(args: Sequence[str]) -> int:
    """Make the site, or export rows."""
    options = parse(ReportOptions, args, "featlearn report", "Make the static site, or export rows to other tools.")
    from featlearn.lab import inventory

    if options.work and options.work not in inventory.WORKS:
        raise CommandError(f"no work {options.work!r}{choose(options.work, inventory.WORKS)}")
    if options.run and options.to == "html":
        raise CommandError("--run goes with --to csv, latex or parquet: the site has a page for every run")
    return _site(options) if options.to == "html" else _export(options)


def experiment_pages(work: str, store: Any) -> list[Any]:
    """A page value for every experiment: rows of its latest complete run (`lab.find.LARGEST_FIRST`, else smoke), or
    none."""
    from dataclasses import replace

    from featlearn import works
    from featlearn.lab.execute import summary_of
    from featlearn.lab.find import LARGEST_FIRST, latest_complete, stale
    from featlearn.report.model import ExperimentPage

    out = []
    for id_ in works.EXPERIMENTS:
        if work not in ("", id_.split("/")[0]):
            continue
        experiment = works.load_experiment(id_)
        found = latest_complete(experiment, store, (*LARGEST_FIRST, "smoke"))
        if found is None:
            out.append(ExperimentPage(experiment, stale=stale(experiment, store)))
            continue
        command = f"featlearn run {id_} --preset {found.preset}"
        rows = summary_of(experiment, found.table)
        page = experiment_page(experiment, found.config, found.preset, found.table, rows, store, command)
        out.append(replace(page, stale=bool(found.table.other_code)))
    return out


def claim_pages(work: str, store: Any) -> list[Any]:
    """The last verdict on every claim as it was saved, or that it was not run."""
    from featlearn import catalog, works

    tables = catalog.tables_of(store)
    names = [name for name in works.WITH_CLAIMS if work in ("", name)]
    return [claim_page(claim, store, tables) for name in names for claim in works.load_claims(name)]


def claim_page(claim: Any, store: Any, tables: Any) -> Any:
    """The last verdict on a claim, and whether its code or its rows have changed since.

    tables: experiment id -> its rows, or None.
    """
    from dataclasses import replace

    from featlearn.lab.claim import broken
    from featlearn.lab.verdicts import judged, read, stale
    from featlearn.report.model import as_claim_page

    kept = read(store, claim.id)
    if kept is None:
        page, old = as_claim_page(judged(broken(claim, "not run", f"featlearn verify {claim.id}"))), ""
    else:
        page, old = as_claim_page(kept), stale(kept, claim, tables)
    return replace(page, stale=old, draw=claim.draw)


def _site(options: ReportOptions) -> int:
    from featlearn import catalog
    from featlearn.lab import inventory
    from featlearn.report.folder import guard
    from featlearn.report.site import build, unchanged

    guard(Path(options.out))  # before any work: verdicts and rows take their time to read
    inputs = _inputs(options)
    if found := unchanged(options.out, inputs):
        console().print(f"{found.pages} pages, nothing changed: {found.index}", soft_wrap=True, markup=False)
        return DONE
    store = catalog.layers(options.store)
    works = [inventory.load(w) for w in inventory.WORKS if options.work in ("", w)]
    with bar("pages") as progress:
        pages, claims = experiment_pages(options.work, store), claim_pages(options.work, store)
        runs = own_runs(options.store) if not options.work else ()
        built = build(options.out, works, pages, claims, progress, inputs, runs)
    for problem in built.problems:
        warn(problem)
    console().print(f"{built.pages} pages: {built.index}", soft_wrap=True, markup=False)
    return FAILED if built.problems else DONE


def own_runs(folder: str) -> list[Any]:
    """The runs in a store that are no plain preset of an experiment of ours, which has a page anyway."""
    from featlearn import works
    from featlearn.lab.find import runs
    from featlearn.lab.store import Store

    found = runs(Store(folder))
    return [
        r for r in found if r.manifest.changed or r.manifest.sweeps or r.manifest.experiment not in works.EXPERIMENTS
    ]


def _inputs(options: ReportOptions) -> str:
    """A digest of all that a site is made from: code, evidence, the user's store, and what is installed."""
    import hashlib
    import sys
    from importlib.metadata import version

    from featlearn import catalog

    packages = [f"{name} {version(name)}" for name in ("featlearn", "matplotlib", "numpy")]
    parts = (catalog.stamp(Path(options.store)), options.work, sys.version, *packages)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _export(options: ReportOptions) -> int:
    from featlearn.report.export import write

    if Path(options.out).is_file():
        raise CommandError(f"out = {options.out} is not allowed: it is a file; choose a folder")
    tables = _tables(options)
    if not tables:
        raise CommandError("there are no rows to export: run an experiment first (`featlearn list` names them)", FAILED)
    suffix = {"latex": "tex"}.get(options.to, options.to)
    written = []
    for name, title, summary, rows in tables:
        if summary:
            path = Path(options.out) / f"{name}.summary.{suffix}"
            label = f"tab:{name.replace('.', '-')}"
            written.append(write(summary, path, options.to, caption=title, label=label, overwrite=True))
        if options.to != "latex" and rows:
            path = Path(options.out) / f"{name}.rows.{suffix}"
            written.append(write(rows, path, options.to, overwrite=True))
    for path in written:
        console().print(str(path), soft_wrap=True, markup=False)
    return DONE


Tables = list[tuple[str, str, Sequence[Any], Sequence[Any]]]


def _tables(options: ReportOptions) -> Tables:
    """(file name, title, summary, rows) of what is to be exported: one run or sweep, or all there is."""
    from featlearn import catalog
    from featlearn.lab.find import Run, run_named
    from featlearn.lab.store import Store, read_manifest
    from featlearn.report.runs import sweeps

    if options.run.endswith(".run.json"):
        path = Path(options.run)
        return _of_run(Run(path, read_manifest(path), 0))
    own = own_runs(options.store)
    if options.run:
        swept = {
            n: members for n, members in sweeps(own).items() if len(options.run) >= 4 and n.startswith(options.run)
        }
        if len(swept) == 1:
            return [_of_sweep(n, members) for n, members in swept.items()]
        return _of_run(run_named(Store(options.store), options.run))
    pages = [p for p in experiment_pages(options.work, catalog.layers(options.store)) if p.was_run]
    found: Tables = []
    for page in pages:
        name = f"{page.experiment.id.replace('/', '.')}.{page.preset}"
        found.append((name, f"{page.experiment.title} ({page.preset})", page.summary, page.table.rows))
    if not options.work:
        found += [t for run in own for t in _of_run(run)]
        found += [_of_sweep(n, members) for n, members in sweeps(own).items()]
    return found


def _of_run(run: Any) -> Tables:
    from featlearn.lab.find import summary_rows
    from featlearn.lab.store import Store
    from featlearn.report.runs import title

    m = run.manifest
    rows = Store(run.path.resolve().parents[2]).table_of(m.experiment, m.trials).rows
    name = f"{m.experiment.replace('/', '.')}.{m.hash[:8]}"
    return [(name, title(run), summary_rows(m), rows)] if rows else []


def _of_sweep(name: str, members: Sequence[Any]) -> tuple[str, str, Sequence[Any], Sequence[Any]]:
    """The summaries of all members with what was swept, and their rows with it as further columns."""
    from featlearn.report.runs import sweep_rows, swept

    rows: list[Any] = []
    for run in members:
        given = {f"sweep_{k}": v for k, v in swept(run, name).items()}
        for _, _, _, mine in _of_run(run):
            rows += [{**given, **row} for row in mine]
    first = members[0].manifest.experiment
    fields = ", ".join(swept(members[0], name))
    return f"{first.replace('/', '.')}.sweep.{name[:8]}", f"{first} over {fields}", sweep_rows(members, name), rows
