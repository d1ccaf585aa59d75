"""`featlearn data`: list or fetch real data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tyro

from featlearn.cli._parse import choose, parse
from featlearn.cli._show import console, print_json
from featlearn.errors import DONE, CommandError


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
            rows.append(
                {
                    "name": d.name,
                    "about": d.about,
                    "licence": d.licence,
                    "size_mib": round(d.size_mib, 1),
                    "here": _here(d.name, options.root),
                }
            )
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
    with Progress(*columns, console=console(err=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total or None)
            bar.update(tasks[what], completed=done, total=total or None)

        path = data.fetch(options.name, root=options.root or None, progress=progress)
    if options.json:
        print_json({"name": options.name, "path": str(path)})
    else:
        console().print(f"{options.name}: {path}", soft_wrap=True, markup=False)
    return DONE
