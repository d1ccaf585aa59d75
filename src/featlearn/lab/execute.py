"""Run an experiment: find what is missing, hand it to whoever can run it, read the table back from the store."""

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from featlearn.errors import DamagedError, RunError, StoreError
from featlearn.lab.digest import code_digest
from featlearn.lab.experiment import Experiment, Rows, SummaryRow
from featlearn.lab.load import source_of, where_raised
from featlearn.lab.provenance import provenance
from featlearn.lab.store import Manifest, Record, Store, manifest_hash, now
from featlearn.lab.submit import Submit
from featlearn.lab.trial import check_id, fields_of, trial_hash
from featlearn.lab.workers import Done, Job, results

Progress = Callable[[int, int, float], None]
Again = Literal["", "changed", "all"]


@dataclass(frozen=True)
class Plan:
    """What a run would do.

    trials, hashes: all, in table order; missing: positions of the trials to compute; damaged: hashes to set aside;
    known: records of the others by hash; other_code: how many of those were made by other code than runs now; again:
    whether trials are computed that this very code has done; seconds: expected, summed over the missing trials, for one
    worker; mib: expected peak of one worker.
    """

    trials: tuple[Any, ...]
    hashes: tuple[str, ...]
    missing: tuple[int, ...]
    damaged: Mapping[str, str]
    costs: tuple[float, ...]
    mib: float
    known: Mapping[str, Record]
    other_code: int = 0
    again: bool = False

    @property
    def seconds(self) -> float:
        return float(sum(self.costs))

    def seconds_with(self, workers: int) -> float:
        """Expected wall clock for this many workers: no less than the longest trial."""
        return max(self.seconds / max(workers, 1), max(self.costs, default=0.0))


@dataclass(frozen=True)
class RunReport:
    """How a run went.

    ok, diverged, failed: trials computed now; skipped: trials done before, or by another run at the same time; errors:
    last line of the traceback by trial hash; table, summary: read back from the store (summary is empty where no row is
    there); warnings: one-liners; broken: why there is no summary, where summarise raised; records: what the table was
    read from, by hash.
    """

    experiment: str
    preset: str
    hash: str
    seconds: float
    ok: int
    diverged: int
    failed: int
    skipped: int
    table: Rows
    summary: tuple[SummaryRow, ...]
    errors: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    manifest: Path | None = None
    broken: str = ""
    records: Mapping[str, Record] = field(default_factory=dict)


# --- a run -----------------------------------------------------------------------------------------------------------


def plan(experiment: Experiment, config: Any, store: Store, *, again: Again = "") -> Plan:
    """What a run would do; reads the store and changes nothing. NewerError before any work for a newer record.

    again: "changed" computes also the trials that were done by other code than runs now, so that it goes on where it
    was interrupted; "all" computes every trial.
    """
    check_id(experiment.id)
    trials = tuple(experiment.trials(config))
    if not trials:
        raise RunError(f"{experiment.id} has no trials at this config: nothing to run; widen its settings")
    hashes = tuple(trial_hash(experiment.id, experiment.version, trial) for trial in trials)
    if len(set(hashes)) < len(hashes):
        first = next(i for i, h in enumerate(hashes) if h in hashes[:i])
        raise RunError(
            f"trials {hashes.index(hashes[first])} and {first} of {experiment.id} are the same: remove the repeated"
            " setting (a seed given twice?)"
        )
    missing, damaged, known = [], {}, {}
    own = Store(store.root)  # committed rows below are for reading; a run makes its own
    for i, hash_ in enumerate(hashes):
        try:
            record = own.read(experiment.id, hash_, arrays=True)
        except DamagedError as e:
            damaged[hash_] = str(e)
            record = None
        if record is None or record.status == "failed":
            missing.append(i)
        else:
            known[hash_] = record
    code = code_digest(experiment.run_trial)
    if again:
        known = {h: r for h, r in known.items() if again == "changed" and r.code == code}
        missing = [i for i, h in enumerate(hashes) if h not in known]
    with contextlib.suppress(DamagedError):
        own.manifest(experiment.id, manifest_hash(experiment, config))  # NewerError passes
    costs = [experiment.cost(trials[i]) for i in missing]
    return Plan(
        trials,
        hashes,
        tuple(missing),
        damaged,
        tuple(float(c.seconds) for c in costs),
        max((float(c.mib) for c in costs), default=0.0),
        known,
        sum(r.code not in ("", code) for r in known.values()),
        again == "all",
    )


def run(
    experiment: Experiment,
    config: Any,
    *,
    store: Store | str | Path,
    submit: Submit | None = None,
    preset: str = "",
    changed: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Any] | None = None,
    group: str = "",
    command: str = "",
    progress: Progress | None = None,
    threads: int = 1,
    again: Again = "",
    todo: Plan | None = None,
) -> RunReport:
    """Compute the missing trials of an experiment and read its table from the store.

    submit: None runs here, one trial after the other; or anything with `submit(fn, *args)` (see lab.submit). Rows are
    the same for all of them: each trial runs with `threads` threads and the table has the order of `trials(config)`.
    group: the name of the sweep that this is a run of.
    Trials that are ok or diverged are skipped, or with `again` computed anew (see `plan`); failed ones are tried again;
    those that another run on this machine is computing are left to it. progress(done, total, seconds left) is called as
    trials finish. Ctrl-C cancels what has not begun, and passes on: every finished trial is in the store. todo: the
    plan, if it was made already.

    Errors, before any work: TrialError (a config that cannot be named), RunError (no trials, the same trial twice, an
    experiment no worker can load), NewerError (a store written by a newer version); StoreError when the disk is full.

    Example:
        >>> report = run(EXPERIMENT, EXPERIMENT.presets["smoke"], store="runs")
        >>> report.skipped, report.failed
        (0, 0)
    """
    store = store if isinstance(store, Store) else Store(store)
    todo = todo or plan(experiment, config, store, again=again)
    try:
        source = source_of(experiment)
    except RunError:
        if submit is not None:
            raise
        source = ""
    name = manifest_hash(experiment, config)
    warnings = [_aside(store, experiment.id, hash_, what) for hash_, what in todo.damaged.items()]
    if todo.other_code:
        warnings.append(
            f"{todo.other_code} of {len(todo.hashes)} trials in the store were made by another version of"
            f" {Path(source).name if source.endswith('.py') else experiment.id}: their rows are shown as they are;"
            " --again computes them anew, a new `version` of the experiment keeps both"
        )
    before = None
    try:
        before = store.manifest(experiment.id, name)
    except DamagedError as e:
        warnings.append(_aside(store, experiment.id, f"{name}.run", str(e)))
    manifest = Manifest(
        experiment.id,
        experiment.version,
        name,
        preset,
        fields_of(config, "config"),
        todo.hashes,
        dict(changed or {}),
        dict(sweep or {}),
        {**(before.sweeps if before else {}), **({group: dict(sweep or {})} if group else {})},
        source,
        command,
        now(),
        None,
        (),
        provenance(),
    )
    path = store.folder(experiment.id) / f"{name}.run.json"
    if todo.missing:
        store.clean(experiment.id)
        store.write_manifest(manifest)
    elif before is not None and before.seconds is not None:
        made = {"started": before.started, "seconds": before.seconds, "provenance": before.provenance}
        manifest = dataclasses.replace(manifest, **made)  # nothing to do: keep what is known of the run that did it
    start = time.perf_counter()
    job = Job(experiment, source, str(store.root.absolute()), threads, todo.again)
    done = list(_collect(job, todo, submit, progress))
    if manifest.seconds is None:
        manifest = dataclasses.replace(manifest, seconds=round(time.perf_counter() - start, 3))
    seconds = time.perf_counter() - start
    count = {status: sum(d.status == status for d in done) for status in ("ok", "diverged", "failed")}
    elsewhere = sum(d.status == "elsewhere" for d in done)
    if elsewhere:
        warnings.append(f"{elsewhere} trials were computed by another run at the same time")
    records = {h: r for h in todo.hashes if (r := todo.known.get(h) or Store(store.root).read(experiment.id, h))}
    table = Store(store.root).table_of(experiment.id, todo.hashes, records)
    summary, broken = (), ""
    try:
        summary = summary_of(experiment, table)
    except Exception as e:  # a mistake in it costs the table, not the run nor the others of a sweep
        broken = f"summarise() of {experiment.id} raised {where_raised(e)}"
    manifest = dataclasses.replace(manifest, summary=[dataclasses.asdict(r) for r in summary])
    try:
        if before is None or dataclasses.asdict(before) != json.loads(json.dumps(dataclasses.asdict(manifest))):
            store.write_manifest(manifest)
    except StoreError as e:
        if todo.missing:
            raise
        warnings.append(str(e))  # what is only looked at may be read-only
    return RunReport(
        experiment.id,
        preset,
        manifest.hash,
        seconds,
        **count,
        skipped=len(todo.trials) - sum(count.values()),
        table=table,
        summary=summary,
        errors={d.hash: d.message for d in done if d.status in ("diverged", "failed")},
        warnings=tuple(warnings),
        manifest=path,
        broken=broken,
        records=records,
    )


def _aside(store: Store, experiment: str, name: str, what: str) -> str:
    moved = ", ".join(str(p) for p in store.set_aside(experiment, name))
    return f"{what.split(': ')[0]}: moved to {moved} and made again"


def summary_of(experiment: Experiment, table: Rows) -> tuple[SummaryRow, ...]:
    """The summary rows of a table; none where there are no rows, or too few for an incomplete table."""
    if not table.rows:
        return ()
    try:
        return tuple(experiment.summarise(table))
    except Exception:
        if table.missing or table.failed or table.diverged:
            return ()
        raise


def _collect(job: Job, todo: Plan, submit: Submit | None, progress: Progress | None) -> Iterator[Done]:
    """How the missing trials ended, with progress: seconds left by what the finished ones took of what was expected."""
    start, total, expected = time.perf_counter(), len(todo.missing), 0.0
    if progress:
        progress(0, total, todo.seconds)
    for n, (i, done) in enumerate(results(job, [todo.trials[i] for i in todo.missing], submit), 1):
        yield done
        expected += todo.costs[i]
        if progress:
            rate = (time.perf_counter() - start) / expected if expected > 0 else 0.0
            progress(n, total, rate * max(todo.seconds - expected, 0.0))


def changes(config: Any, preset: Any) -> dict[str, Any]:
    """The fields of a config that differ from its preset, with the values they have now."""
    ours, theirs = fields_of(config, "config"), fields_of(preset, "config")
    return {name: value for name, value in ours.items() if value != theirs.get(name)}


def hashes_of(experiment: Experiment, trials: Sequence[Any]) -> list[str]:
    """Hashes of trials in order."""
    return [trial_hash(experiment.id, experiment.version, trial) for trial in trials]
