"""Finding runs again: the latest complete run of an experiment, and where they came from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from featlearn.lab.coverage import Reproduction
from featlearn.lab.digest import code_digest
from featlearn.lab.execute import hashes_of, summary_of
from featlearn.lab.experiment import Experiment, Rows
from featlearn.lab.store import Record, Store

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
    """The first of these presets whose every trial is done (ok or diverged), or None."""
    for preset in presets:
        if preset not in experiment.presets:
            continue
        config = experiment.presets[preset]
        table = store.table(experiment, experiment.trials(config))
        if table.rows and not table.missing and not table.failed:
            return Found(preset, config, table)
    return None


def reproductions(experiment: Experiment, found: Found | None) -> list[Reproduction]:
    """What the rows of an experiment say of each entry it reproduces."""
    if found is None:
        return [Reproduction(experiment.id, entry, False) for entry in experiment.reproduces]
    summary = summary_of(experiment, found.table)
    out = []
    for entry in experiment.reproduces:
        reported = [r for r in summary if r.entry == entry and r.reported is not None]
        good = sum(r.verdict == "reproduced" for r in reported)
        out.append(Reproduction(experiment.id, entry, True, good, len(reported)))
    return out


def evidence_state(experiment: Experiment, store: Store, found: Found | None) -> str:
    """ "ok"; "stale" where the rows come from another version, or from code that has changed since; "none".

    Rows without a digest of their code were made before digests were kept: nothing is known of their code.
    """
    if found is None:
        return "stale" if stale(experiment, store) else "none"
    now = code_digest(experiment.run_trial)
    records = (store.read(experiment.id, h) for h in hashes_of(experiment, experiment.trials(found.config)))
    return "stale" if any(r is not None and r.code not in ("", now) for r in records) else "ok"


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


__all__ = ["Found", "Origin", "Record", "hashes_of", "latest_complete", "origin", "stale"]
