"""`featlearn diff`: two runs side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from featlearn.cli._parse import choose, parse
from featlearn.cli._show import console, print_json, show_table
from featlearn.cli.run import load_experiment
from featlearn.errors import DONE, CommandError


@dataclass(frozen=True)
class DiffOptions:
    one: tyro.conf.Positional[str]
    """A run: the beginning of its name in `list --runs`, the path of a .run.json file, experiment@preset, or
    store:experiment@preset."""
    other: tyro.conf.Positional[str]
    """The run to set beside it."""
    store: str = "runs"
    """Where experiment@preset is looked up; what is not there is taken from the committed evidence."""
    json: bool = False
    """One JSON document on stdout."""


@dataclass(frozen=True)
class Side:
    """One run of two: its name, settings, origin, summary rows and how many of its trials have rows."""

    name: str
    config: dict[str, Any]
    about: dict[str, Any]
    summary: tuple[Any, ...]


def diff_command(args: Sequence[str]) -> int:
    """Set two runs side by side."""
    options = parse(DiffOptions, args, "featlearn diff", "Set two runs side by side.")
    from featlearn.lab.provenance import same_settings

    one, other = (_side(name, options.store) for name in (options.one, options.other))
    settings = same_settings(one.config, other.config)
    about = same_settings(one.about, other.about)
    rows = compared(one.summary, other.summary)
    if options.json:
        print_json({"one": one.name, "other": other.name, "settings": settings, "about": about, "rows": rows})
        return DONE
    out = console()
    for word, side in (("one", one), ("other", other)):  # whole names on their own lines: as headings they were cut
        out.print(f"{word}: {side.name}", markup=False, soft_wrap=True)
    if settings or about:
        differs = ((name, str(a), str(b)) for name, (a, b) in [*settings.items(), *about.items()])
        show_table(out, ("", "one", "other"), differs, "What differs")
    else:
        out.print("same settings, same origin")
    shown = []
    for r in rows:
        numbers = ("–" if r[k] is None else f"{r[k]:.4g}" for k in ("one", "other", "difference"))
        shown.append((r["setting"], r["row"], r["metric"], *numbers, r["intervals"]))
    show_table(out, ("setting", "row", "metric", "one", "other", "difference", "intervals"), shown)
    return DONE


def _side(name: str, default: str) -> Side:
    """A run by its file, by the beginning of its hash, or by preset. Of a file that is given, no code is run."""
    from featlearn import catalog, works
    from featlearn.lab.find import run_named, runs
    from featlearn.lab.store import Store, read_manifest

    if name.endswith(".run.json"):
        return _of_manifest(name, Store(Path(name).resolve().parents[2]), read_manifest(name))
    what, sign, preset = name.rpartition("@")
    if not sign:
        if not set(name) <= set("0123456789abcdef"):
            forms = "the beginning of a name in `list --runs`, a .run.json file, experiment@preset"
            raise CommandError(f"no run {name!r}: {forms} or store:experiment@preset")
        run = run_named(catalog.layers(default), name)
        return _of_manifest(name, Store(run.path.parents[2]), run.manifest)
    root, sign, known = what.rpartition(":")
    store = Store(root) if sign else catalog.layers(default)
    if known not in works.EXPERIMENTS and not known.endswith(".py"):
        mine = [r for r in runs(store, known) if r.manifest.preset == preset and not r.manifest.changed]
        if mine:
            return _of_manifest(name, Store(mine[0].path.parents[2]), mine[0].manifest)
    experiment = load_experiment(known)
    if preset not in experiment.presets:
        raise CommandError(f"no preset {preset!r} of {known}{choose(preset, list(experiment.presets))}")
    return _of_preset(name, store, experiment, experiment.presets[preset])


def _of_preset(name: str, store: Any, experiment: Any, config: Any) -> Side:
    from featlearn.lab.execute import hashes_of, summary_of
    from featlearn.lab.trial import fields_of

    hashes = hashes_of(experiment, experiment.trials(config))
    table = store.table_of(experiment.id, hashes)
    if not table.rows:
        raise CommandError(f"{name} has no rows in {store.root}: run it first, featlearn run {name.rpartition('@')[0]}")
    about = _about(store, experiment.id, hashes, table)
    return Side(name, fields_of(config), about, summary_of(experiment, table))


def _of_manifest(name: str, store: Any, manifest: Any) -> Side:
    from featlearn.lab.find import summary_rows

    summary = summary_rows(manifest)
    if not summary:
        again = f": to end it, {manifest.command}" if manifest.command else ""
        raise CommandError(f"{name} keeps no summary, since it did not end or found no rows{again}")
    table = store.table_of(manifest.experiment, manifest.trials)
    about = _about(store, manifest.experiment, manifest.trials, table)
    return Side(name, dict(manifest.config), about, summary)


def _about(store: Any, experiment: str, hashes: Sequence[str], table: Any) -> dict[str, Any]:
    from featlearn.lab.find import origin

    o = origin(store, experiment, hashes)
    about: dict[str, Any] = {
        "experiment": experiment,
        "trials": len(hashes),
        "trials missing": len(table.missing),
        "trials failed": len(table.failed),
        "trials diverged": len(table.diverged),
    }
    if o is not None:
        about |= {"commit": o.commit, "local changes": o.dirty, "device": o.device, "seconds": o.seconds, **o.versions}
    return about


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
