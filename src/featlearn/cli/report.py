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
    store: str = "runs"
    """Folder of your runs; what is not there is taken from the committed evidence."""


def report_command(args: Sequence[str]) -> int:
    """Make the site, or export rows."""
    options = parse(ReportOptions, args, "featlearn report", "Make the static site, or export rows to other tools.")
    from featlearn.lab import inventory

    if options.work and options.work not in inventory.WORKS:
        raise CommandError(f"no work {options.work!r}{choose(options.work, inventory.WORKS)}")
    return _site(options) if options.to == "html" else _export(options)


def experiment_pages(work: str, store: Any) -> list[Any]:
    """A page value for every experiment: rows of its latest complete run (`lab.find.LARGEST_FIRST`, else smoke), or
    none."""
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
        out.append(experiment_page(experiment, found.config, found.preset, found.table, rows, store, command))
    return out


def claim_pages(work: str, store: Any) -> list[Any]:
    """The last verdict on every claim as it was saved, or that it was not run; claims in the former form are
    pending."""
    from functools import cache

    from featlearn import works
    from featlearn.cli.verify import tables_of
    from featlearn.lab import pending
    from featlearn.lab.pending_verdicts import read_verdict

    tables, out = cache(tables_of(store)), []
    for name in works.WITH_CLAIMS:
        for claim in works.load_claims(name) if work in ("", name) else ():
            if not isinstance(claim, pending.Claim):
                out.append(typed_page(claim, store, tables))
                continue
            command = f"featlearn verify {claim.id}"
            never = pending.Verdict(claim, "not run", command, pending.Evidence(not_run=command), 0.0)
            out.append(read_verdict(store, claim) or never)
    return out


def typed_page(claim: Any, store: Any, tables: Any) -> Any:
    """The last verdict on a claim in the typed form, and whether its code or its rows have changed since.

    tables: experiment id -> its rows, or None.
    """
    from dataclasses import replace

    from featlearn.lab.claim import broken
    from featlearn.lab.verdicts import judged, read, stale
    from featlearn.report.model import as_claim_page

    kept = read(store, claim.id)
    if kept is None:
        return as_claim_page(judged(broken(claim, "not run", f"featlearn verify {claim.id}")))
    return replace(as_claim_page(kept), stale=stale(kept, claim, _rows(claim, tables) if kept.rows else None))


def _rows(claim: Any, tables: Any) -> str | None:
    """The digest of the rows that a claim reads now; None where some are not there, "" where they cannot be read."""
    from featlearn.errors import LabError
    from featlearn.lab.digest import rows_digest

    found = [(tables(kind.experiment), kind) for kind in claim.reads]
    if any(rows is None for rows, _ in found):
        return None
    try:
        read = [rows.of(kind, allow_absent=bool(claim.may_lack)) for rows, kind in found]
    except LabError:
        return ""
    return rows_digest(r for table in read for r in table.rows)


def _site(options: ReportOptions) -> int:
    from featlearn import catalog
    from featlearn.lab import inventory
    from featlearn.report.site import build, unchanged

    inputs = _inputs(options)
    if found := unchanged(options.out, inputs):
        console().print(f"{found.pages} pages, nothing changed: {found.index}", soft_wrap=True, markup=False)
        return DONE
    store = catalog.layers(options.store)
    works = [inventory.load(w) for w in inventory.WORKS if options.work in ("", w)]
    with bar("pages") as progress:
        pages, claims = experiment_pages(options.work, store), claim_pages(options.work, store)
        built = build(options.out, works, pages, claims, progress, inputs)
    for problem in built.problems:
        warn(problem)
    console().print(f"{built.pages} pages: {built.index}", soft_wrap=True, markup=False)
    return FAILED if built.problems else DONE


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
    from featlearn import catalog
    from featlearn.report.export import write

    pages = [p for p in experiment_pages(options.work, catalog.layers(options.store)) if p.was_run]
    if not pages:
        raise CommandError("there are no rows to export: run an experiment first (`featlearn list` names them)", FAILED)
    suffix = {"latex": "tex"}.get(options.to, options.to)
    written = []
    for page in pages:
        id_, name = page.experiment.id, f"{page.experiment.id.replace('/', '.')}.{page.preset}"
        label = f"tab:{id_.replace('/', '-')}"
        if page.summary:
            path = Path(options.out) / f"{name}.summary.{suffix}"
            title = f"{page.experiment.title} ({page.preset})"
            written.append(write(page.summary, path, options.to, caption=title, label=label, overwrite=True))
        if options.to != "latex" and page.table.rows:
            path = Path(options.out) / f"{name}.rows.{suffix}"
            written.append(write(page.table.rows, path, options.to, overwrite=True))
    for path in written:
        console().print(str(path), soft_wrap=True, markup=False)
    return DONE
