"""`featlearn report`, `diff`, `data`, `bench`: what is done with results, and around them."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from featlearn.cli import DONE, FAILED, CommandError, choose, console, parse, print_json, warn
from featlearn.cli_run import experiment_page, load_experiment

# --- report ----------------------------------------------------------------------------------------------------------


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
    from featlearn import inventory
    from featlearn.report.compare import ReportError
    from featlearn.run.store import StoreError

    if options.work and options.work not in inventory.WORKS:
        raise CommandError(f"no work {options.work!r}{choose(options.work, inventory.WORKS)}")
    try:
        return _site(options) if options.to == "html" else _export(options)
    except ReportError as e:
        raise CommandError(str(e)) from e
    except StoreError as e:
        raise CommandError(str(e), FAILED) from e


def experiment_pages(work: str, store: Any) -> list[Any]:
    """A page value for every experiment: its best rows of a preset (`run.find.BEST_FIRST`, else smoke), or none."""
    from featlearn import experiments
    from featlearn.report.model import ExperimentPage
    from featlearn.run.execute import summary_of
    from featlearn.run.find import BEST_FIRST, best, stale

    out = []
    for id_ in experiments.EXPERIMENTS:
        if work not in ("", id_.split("/")[0]):
            continue
        experiment = experiments.load(id_)
        found = best(experiment, store, (*BEST_FIRST, "smoke"))
        if found is None:
            out.append(ExperimentPage(experiment, stale=stale(experiment, store)))
            continue
        command = f"featlearn run {id_} --preset {found.preset}"
        rows = summary_of(experiment, found.table)
        out.append(experiment_page(experiment, found.config, found.preset, found.table, rows, store, command))
    return out


def claim_pages(work: str, store: Any) -> list[Any]:
    """The last verdict on every claim as it was saved, or that it was not run."""
    from featlearn import theory
    from featlearn.run.claim import Evidence, Verdict
    from featlearn.run.verdicts import read_verdict

    out = []
    for name in theory.WORKS:
        if work in ("", name):
            for claim in theory.load(name):
                saved = read_verdict(store, claim)
                command = f"featlearn verify {claim.id}"
                out.append(saved or Verdict(claim, "not run", command, Evidence(not_run=command), 0.0))
    return out


def _site(options: ReportOptions) -> int:
    from rich.progress import Progress

    from featlearn import catalog, inventory
    from featlearn.report.site import build

    store = catalog.layers(options.store)
    works = [inventory.load(w) for w in inventory.WORKS if options.work in ("", w)]
    with Progress(console=console(err=True), transient=True) as bar:
        task = bar.add_task("pages", total=None)
        built = build(
            options.out,
            works,
            experiment_pages(options.work, store),
            claim_pages(options.work, store),
            lambda done, total: bar.update(task, completed=done, total=total),
        )
    for problem in built.problems:
        warn(problem)
    console().print(f"{built.pages} pages: {built.index}", soft_wrap=True, markup=False)
    return FAILED if built.problems else DONE


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


# --- diff ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DiffOptions:
    one: tyro.conf.Positional[str]
    """A run: the path of a .run.json file, or experiment@preset, or store:experiment@preset."""
    other: tyro.conf.Positional[str]
    """The run to set beside it."""
    store: str = "runs"
    """Where experiment@preset is looked up; what is not there is taken from the committed evidence."""
    json: bool = False
    """One JSON document on stdout."""


@dataclass(frozen=True)
class Side:
    """One run of two: its name, settings, origin, summary rows and how many of its cells have rows."""

    name: str
    config: dict[str, Any]
    about: dict[str, Any]
    summary: tuple[Any, ...]


def diff_command(args: Sequence[str]) -> int:
    """Set two runs side by side."""
    options = parse(DiffOptions, args, "featlearn diff", "Set two runs side by side.")
    from featlearn.run.store import StoreError

    try:
        one, other = (_side(name, options.store) for name in (options.one, options.other))
    except StoreError as e:
        raise CommandError(str(e)) from e
    from featlearn.run.provenance import same_settings

    settings = same_settings(one.config, other.config)
    about = same_settings(one.about, other.about)
    rows = compared(one.summary, other.summary)
    if options.json:
        print_json({"one": one.name, "other": other.name, "settings": settings, "about": about, "rows": rows})
        return DONE
    from rich.table import Table

    out = console()
    if settings or about:
        table = Table("", one.name, other.name, title="What differs", title_justify="left")
        for name, (a, b) in [*settings.items(), *about.items()]:
            table.add_row(name, str(a), str(b))
        out.print(table)
    else:
        out.print("same settings, same origin")
    table = Table("setting", "row", "metric", one.name, other.name, "difference", "intervals", title_justify="left")
    for r in rows:
        numbers = ("–" if r[k] is None else f"{r[k]:.4g}" for k in ("one", "other", "difference"))
        table.add_row(r["setting"], r["row"], r["metric"], *numbers, r["intervals"])
    out.print(table)
    return DONE


def _side(name: str, default: str) -> Side:
    from featlearn import catalog
    from featlearn.run.cells import fields_of
    from featlearn.run.execute import hashes_of, summary_of
    from featlearn.run.find import origin
    from featlearn.run.store import Store, read_manifest

    if name.endswith(".run.json"):
        manifest = read_manifest(name)
        store = Store(Path(name).resolve().parents[2])
        known = manifest.source if manifest.source.endswith(".py") else manifest.experiment
        experiment, hashes = load_experiment(known), list(manifest.cells)
        if experiment.version != manifest.version:
            warn(f"{name} is of version {manifest.version} of {experiment.id}, summarised here by {experiment.version}")
        config = dict(manifest.config)
    else:
        what, sign, preset = name.rpartition("@")
        if not sign:
            raise CommandError(f"no run {name!r}: a .run.json file, experiment@preset or store:experiment@preset")
        root, sign, known = what.rpartition(":")
        store = Store(root) if sign else catalog.layers(default)
        experiment = load_experiment(known)
        if preset not in experiment.presets:
            raise CommandError(f"no preset {preset!r} of {known}{choose(preset, list(experiment.presets))}")
        config = fields_of(experiment.presets[preset])
        hashes = hashes_of(experiment, experiment.cells(experiment.presets[preset]))
    table = store.table_of(experiment.id, hashes)
    if not table.rows:
        raise CommandError(f"{name} has no rows in {store.root}: run it first, featlearn run {known}")
    o = origin(store, experiment.id, hashes)
    about: dict[str, Any] = {"experiment": experiment.id, "cells": len(hashes), "cells missing": len(table.missing),
                             "cells failed": len(table.failed), "cells diverged": len(table.diverged)}  # fmt: skip
    if o is not None:
        about |= {"commit": o.commit, "local changes": o.dirty, "device": o.device, "seconds": o.seconds, **o.versions}
    return Side(name, config, about, summary_of(experiment, table))


def compared(one: Sequence[Any], other: Sequence[Any]) -> list[dict[str, Any]]:
    """The numbers of two summaries by (setting, row, metric): both, other minus one, and whether intervals overlap."""

    def key(r: Any) -> tuple[str, str, str]:
        return r.setting, r.row, r.metric

    a, b = ({key(r): r for r in side} for side in (one, other))
    out = []
    for k in dict.fromkeys([*a, *b]):
        x, y = a.get(k), b.get(k)
        difference, intervals = None, ""
        if x is not None and y is not None:
            difference = y.value - x.value
            intervals = "apart" if x.high < y.low or y.high < x.low else "overlap"
        out.append(
            {
                "setting": k[0],
                "row": k[1],
                "metric": k[2],
                "one": None if x is None else x.value,
                "other": None if y is None else y.value,
                "difference": difference,
                "intervals": intervals,
            }
        )
    return out


# --- data and bench --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DataOptions:
    action: tyro.conf.Positional[Literal["list", "fetch"]] = "list"
    """list what there is, or fetch one."""
    name: tyro.conf.Positional[str] = ""
    """Which data set."""
    root: str = ""
    """A folder with files that you have already: they are verified and left as they are."""
    json: bool = False
    """One JSON document on stdout."""


def data_command(args: Sequence[str]) -> int:
    """List or fetch data sets."""
    options = parse(DataOptions, args, "featlearn data", "List real data, or fetch and verify it.")
    from featlearn import data

    known = data.registry()
    if options.name and options.name not in known:
        raise CommandError(f"no data set {options.name!r}{choose(options.name, list(known))}")
    if options.action == "fetch":
        if not options.name:
            raise CommandError(f"fetch what? featlearn data fetch NAME, one of {', '.join(known)}")
        return _fetch(options)
    rows = []
    for d in known.values():
        if options.name in ("", d.name):
            rows.append({"name": d.name, "about": d.about, "licence": d.licence, "size_mib": round(d.size_mib, 1),
                         "here": _here(d.name, options.root)})  # fmt: skip
    if options.json:
        print_json(rows)
        return DONE
    from rich.table import Table

    table = Table("name", "what", "licence", "MiB", "here")
    for r in rows:
        table.add_row(r["name"], r["about"], r["licence"], str(r["size_mib"]), "yes" if r["here"] else "no")
    console().print(table)
    return DONE


def _here(name: str, root: str) -> bool:
    from featlearn import data

    try:
        data.find(name, root or None)
    except data.DataError:
        return False
    return True


def _fetch(options: DataOptions) -> int:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from featlearn import data

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    if not options.root:  # terms are shown before a download; what lies in a root is the user's already
        licence = data.registry()[options.name].licence
        console(err=True).print(f"{options.name}: licence: {licence}", soft_wrap=True, markup=False)
    try:
        with Progress(*columns, console=console(err=True), transient=True) as bar:
            tasks: dict[str, Any] = {}

            def progress(what: str, done: int, total: int) -> None:
                if what not in tasks:
                    tasks[what] = bar.add_task(what, total=total or None)
                bar.update(tasks[what], completed=done, total=total or None)

            path = data.fetch(options.name, root=options.root or None, progress=progress)
    except data.DataError as e:
        raise CommandError(str(e), FAILED) from e
    if options.json:
        print_json({"name": options.name, "path": str(path)})
    else:
        console().print(f"{options.name}: {path}", soft_wrap=True, markup=False)
    return DONE


def bench_command(args: Sequence[str]) -> int:
    """Run a script of benchmarks/, with its own flags."""
    from featlearn.run.provenance import checkout

    root = checkout()
    folder = root / "benchmarks" if root else None
    known = sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_")) if folder else []
    if args and args[0] in ("-h", "--help"):
        print(f"usage: featlearn bench NAME [its flags]\n\nbenchmarks: {', '.join(known) or 'none here'}")
        return DONE
    if folder is None or not known:
        raise CommandError("benchmarks are part of a source checkout, which this is not: clone the repository")
    if not args or args[0] not in known:
        word = args[0] if args else ""
        raise CommandError(f"no benchmark {word!r}{choose(word, known)}")
    return DONE if subprocess.call([sys.executable, str(folder / f"{args[0]}.py"), *args[1:]]) == 0 else FAILED
