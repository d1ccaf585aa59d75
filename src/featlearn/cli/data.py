"""`featlearn data`: list or fetch real data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tyro

from featlearn.cli._parse import choose, parse
from featlearn.cli._show import byte_bar, console, print_json, show_table, warn
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
    """List data sets, fetch one, or check a folder of yours."""
    options = parse(DataOptions, args, "featlearn data", "List real data, or fetch and verify it.")
    from featlearn import data

    known = {**data.registry(), **data.folder_sets()}
    if options.name and options.name not in known:
        raise CommandError(f"no data set {options.name!r}{choose(options.name, list(known))}")
    if options.action == "fetch":
        if not options.name:
            raise CommandError(f"fetch what? featlearn data fetch NAME, one of {', '.join(known)}")
        return _check_folder(options) if options.name in data.folder_sets() else _fetch(options)
    rows = []
    for d in known.values():
        if options.name in ("", d.name):
            yours = isinstance(d, data.FolderSet)
            rows.append(
                {
                    "name": d.name,
                    "about": d.about,
                    "licence": d.licence,
                    "size_mib": round(d.size_mib, 1),
                    "here": d.place.is_dir() if yours else _here(d.name, options.root),
                    "source": f"a folder of yours ({d.home})" if yours else "fetched",
                }
            )
    if options.json:
        print_json(rows)
        return DONE
    shown = (
        (r["name"], r["about"], r["licence"], str(r["size_mib"]), "yes" if r["here"] else "no", r["source"])
        for r in rows
    )
    show_table(console(), ("name", "what", "licence", "MiB", "here", "from"), shown)
    return DONE


def _here(name: str, root: str) -> bool:
    from featlearn import data

    try:
        data.find(name, root or None)
    except data.DataError:
        return False
    return True


def bring(experiment: Any, plans: Sequence[Any], fetch: bool) -> None:
    """Refuse a run whose data or models are not here, before any work, or fetch them; trials already done need none."""
    from featlearn.data.needs import check_needs, check_packages, lacking

    trials = [p.trials[i] for p in plans for i in p.missing]
    check_packages(trials, experiment)  # before a download that could not be used
    for name in lacking(trials, experiment) if fetch else ():
        _shown_fetch(name, "")
    check_needs(trials, experiment)


def _shown_fetch(name: str, root: str) -> Any:
    from featlearn import data

    if not root:  # terms are shown before a download; what lies in a root is the user's already
        licence = data.registry()[name].licence
        console(err=True).print(f"{name}: licence: {licence}", soft_wrap=True, markup=False)
    with byte_bar() as progress:
        return data.fetch(name, root=root or None, progress=progress)


def _check_folder(options: DataOptions) -> int:
    """Read every split of a set that comes as a folder of the user's, and say what it holds."""
    from featlearn.data.folder_sets import folder_of
    from featlearn.data.labelled import splits_of

    folder = folder_of(options.name, options.root or None)
    splits = []
    for split, found in splits_of(options.name, options.root or None):
        for remark in found.remarks:
            warn(remark)
        n, channels, height, width = found.values.shape
        splits.append({"split": split, "images": n, "classes": len(found.labels), "shape": [channels, height, width]})
    if options.json:
        print_json({"name": options.name, "path": str(folder), "splits": splits})
        return DONE
    told = ", ".join(f"{s['split']} {s['images']}" for s in splits)
    console().print(f"{options.name}: {folder}: {told} images", soft_wrap=True, markup=False)
    return DONE


def _fetch(options: DataOptions) -> int:
    path = _shown_fetch(options.name, options.root)
    if options.json:
        print_json({"name": options.name, "path": str(path)})
    else:
        console().print(f"{options.name}: {path}", soft_wrap=True, markup=False)
    return DONE
