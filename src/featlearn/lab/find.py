"""Finding runs again: the latest complete run of an experiment, and where they came from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from featlearn.errors import ReportError, RunError, StoreError
from featlearn.lab import coverage
from featlearn.lab.coverage import Reproduction
from featlearn.lab.execute import summary_of
from featlearn.lab.experiment import Experiment, Rows, SummaryRow
from featlearn.lab.store import Manifest, Record, Store

NUMBER = (int, float)
LARGEST_FIRST = ("paper", "cpu", "small")
"""`cpu`: the largest sizes that two cores do, of experiments whose reported sizes need a GPU."""


@dataclass(frozen=True)
class Origin:
    """What the records behind a table say together: commit (several: "mixed"), devices, versions, cost and seeds."""

    commit: str
    dirty: bool
    device: str
    versions: Mapping[str, str]
    started: str
    seconds: float
    peak_mib: float | None
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Found:
    """A preset whose rows are all there."""

    preset: str
    config: Any
    table: Rows


def latest_complete(experiment: Experiment, store: Store, presets: Sequence[str] = LARGEST_FIRST) -> Found | None:
    """The first of these presets whose every trial is done (ok or diverged) by today's code; else, by any; or None.

    The rows of every trial come from the nearest layer that has them from today's code; `other_code` of the table says
    where there is none.
    """
    stale = None
    for preset in presets:
        if preset not in experiment.presets:
            continue
        config = experiment.presets[preset]
        table = store.table(experiment, experiment.trials(config))
        if table.rows and not table.missing and not table.failed:
            found = Found(preset, config, table)
            if not table.other_code:
                return found
            stale = stale or found
    return stale


def reproductions(experiment: Experiment, found: Found | None) -> list[Reproduction]:
    """What the rows of an experiment say of each entry it reproduces."""
    return coverage.reproductions(experiment, None if found is None else summary_of(experiment, found.table))


@dataclass(frozen=True)
class Run:
    """A run that was found by its manifest: what was asked, and how many of its trials have a record."""

    path: Path
    manifest: Manifest
    there: int

    @property
    def words(self) -> str:
        """Its settings in words: the preset and what differs from it."""
        m = self.manifest
        return ", ".join([m.preset or "settings", *(f"{k} = {v}" for k, v in m.changed.items())])

    @property
    def state(self) -> str:
        """ "done", or how much of it."""
        n = len(self.manifest.trials)
        return "done" if self.there == n and self.manifest.seconds is not None else f"{self.there} of {n} trials"


def runs(store: Store, experiment: str = "") -> list[Run]:
    """Every run whose manifest is in the store, newest first. Errors: none; damaged manifests are skipped."""
    there: dict[Path, set[str]] = {}
    found = []
    for path, manifest in store.manifests(experiment or None):
        folder = path.parent
        if folder not in there:
            there[folder] = {p.name for p in folder.glob("*.json")}
        found.append(Run(path, manifest, sum(f"{h}.json" in there[folder] for h in manifest.trials)))
    return found


def run_named(store: Store, name: str) -> Run:
    """The run whose hash begins so. Errors: RunError where there is none, or several."""
    fit = [r for r in runs(store) if r.manifest.hash.startswith(name)] if len(name) >= 4 else []
    if len(fit) != 1:
        what = f"{len(fit)} runs in {store.root} have a name that begins" if fit else f"no run in {store.root} begins"
        raise RunError(f"{what} with {name!r}: give more of it; `featlearn list --runs` shows all")
    return fit[0]


def summary_rows(manifest: Manifest) -> tuple[SummaryRow, ...]:
    """The summary that a manifest keeps. Errors: StoreError where it is no summary."""
    kinds = {"value": NUMBER, "low": NUMBER, "high": NUMBER, "n": (int,), "reported": (*NUMBER, type(None))}
    kinds["tolerance"] = kinds["reported"]  # absent from manifests of before it was kept
    names = [f.name for f in fields(SummaryRow)]
    damaged = StoreError(f"the summary of run {manifest.hash} of {manifest.experiment} is damaged: run it again")
    for row in manifest.summary:
        if any(type(row.get(name)) not in kinds.get(name, (str,)) for name in names):
            raise damaged
    try:
        return tuple(SummaryRow(**{n: row[n] for n in names if n in row}) for row in manifest.summary)
    except ReportError as error:
        raise damaged from error


def evidence_state(experiment: Experiment, store: Store, found: Found | None) -> str:
    """ "ok"; "stale" where the rows come from another version, or from code that has changed since; "none".

    Rows without a digest of their code were made before digests were kept: nothing is known of their code.
    """
    if found is None:
        return "stale" if stale(experiment, store) else "none"
    return "stale" if found.table.other_code else "ok"


def stale(experiment: Experiment, store: Store) -> bool:
    """Whether there are rows of another version of this experiment and none of this one."""
    versions = {record.version for record in store.records(experiment.id)}
    return bool(versions) and experiment.version not in versions


def origin(
    store: Store, experiment: str, hashes: Sequence[str], known: Mapping[str, Record] | None = None
) -> Origin | None:
    """The common origin of some trials; None if none of them is there. known: records that were read already."""
    records = [r for h in hashes if (r := (known or {}).get(h) or store.read(experiment, h)) is not None]
    if not records:
        return None
    peaks = [r.peak_mib for r in records if r.peak_mib is not None]
    return Origin(
        _one([str(r.provenance.get("commit") or "") for r in records]),
        any(bool(r.provenance.get("dirty")) for r in records),
        _one([r.device for r in records]),
        {
            name: _one([str(r.provenance[name]) for r in records if r.provenance.get(name)])
            for name in ("python", "featlearn", "torch", "numpy")
        },
        max(r.started for r in records),
        round(sum(r.seconds for r in records), 3),
        max(peaks, default=None),
        tuple(sorted({s for r in records for s in r.seeds})),
    )


def _one(values: Sequence[str]) -> str:
    different = sorted(set(values))
    return different[0] if len(different) == 1 else "mixed: " + ", ".join(different) if different else ""
