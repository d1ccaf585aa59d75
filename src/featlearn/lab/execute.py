"""Run an experiment: find what is missing, hand it to whoever can run it, read the table back from the store."""

import contextlib
import dataclasses
import hashlib
import importlib
import importlib.util
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from featlearn.errors import DamagedError, RunError, StoreError, TrialError
from featlearn.lab.digest import code_digest
from featlearn.lab.experiment import Experiment, Rows, SummaryRow
from featlearn.lab.provenance import device, fixed_threads, peak_mib, provenance
from featlearn.lab.store import Manifest, Record, Store, manifest_hash, now, plain_rows
from featlearn.lab.submit import Handle, Serial, Submit
from featlearn.lab.trial import check_id, fields_of, trial_hash

Progress = Callable[[int, int, float], None]


class Done(NamedTuple):
    """What a worker tells: the rest is in the store. fatal: further trials would fail in the same way."""

    hash: str
    status: str
    seconds: float
    message: str = ""
    fatal: bool = False


@dataclass(frozen=True)
class Plan:
    """What a run would do.

    trials, hashes: all, in table order; missing: positions of the trials to compute; damaged: hashes to set aside;
    seconds: expected, summed over the missing trials, for one worker; mib: expected peak of one worker.
    """

    trials: tuple[Any, ...]
    hashes: tuple[str, ...]
    missing: tuple[int, ...]
    damaged: Mapping[str, str]
    costs: tuple[float, ...]
    mib: float

    @property
    def seconds(self) -> float:
        return float(sum(self.costs))

    def seconds_with(self, workers: int) -> float:
        """Expected wall clock for this many workers: no less than the longest trial."""
        return max(self.seconds / max(workers, 1), max(self.costs, default=0.0))


@dataclass(frozen=True)
class RunReport:
    """How a run went.

    ok, diverged, failed: trials computed now; skipped: trials done before; errors: last line of the traceback by trial
    hash; table, summary: read back from the store (summary is empty where no row is there); warnings: one-liners.
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


# --- finding experiments ---------------------------------------------------------------------------------------------


def load_source(source: str) -> Experiment:
    """The EXPERIMENT of a module name or of a Python file.

    A file is loaded once under a name made of its path, in this process and alike in every worker.
    """
    module = _load_file(Path(source)) if source.endswith(".py") else importlib.import_module(source)
    found = getattr(module, "EXPERIMENT", None)
    if not isinstance(found, Experiment):
        raise RunError(f"{source} has no EXPERIMENT of type Experiment: end it with EXPERIMENT = Experiment(...)")
    return found


def _load_file(path: Path) -> Any:
    path = path.resolve()
    if not path.is_file():
        raise RunError(f"{path} does not exist: give the path of a Python file that defines EXPERIMENT")
    name = f"featlearn_file_{path.stem}_{hashlib.blake2b(str(path).encode(), digest_size=6).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before execution: dataclasses and pickle look classes up by it
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def source_of(experiment: Experiment) -> str:
    """The module name or file path from which another process can load this experiment; else RunError."""
    for name in dict.fromkeys((experiment.Config.__module__, experiment.run_trial.__module__)):
        module = sys.modules.get(name)
        if module is None or getattr(module, "EXPERIMENT", None) is not experiment:
            continue
        if name.startswith("featlearn_file_"):
            return str(Path(str(module.__file__)).resolve())
        if name != "__main__":
            return name
    raise RunError(
        f"{experiment.id} cannot be found by other processes: put it into a file of its own as EXPERIMENT and load it"
        " with featlearn.lab.load_source(path), or run it without submit"
    )


# --- one trial --------------------------------------------------------------------------------------------------------


def work(source: str, trial: bytes, root: str, threads: int) -> Done:
    """Entry of a worker: load the experiment, run one pickled trial, write its record."""
    try:
        experiment = load_source(source)
        value = pickle.loads(trial)
    except Exception as e:
        return Done("", "failed", 0.0, f"{source} cannot be loaded: {last_line(e)}", fatal=True)
    return compute(experiment, value, root, threads)


def compute(experiment: Experiment, trial: Any, root: str | Path, threads: int = 1) -> Done:
    """Run one trial and write its record, whatever happens; only Ctrl-C passes through."""
    hash_ = trial_hash(experiment.id, experiment.version, trial)
    fields = fields_of(trial)
    base = Record(
        experiment.id,
        experiment.version,
        hash_,
        fields,
        "failed",
        seeds=_seeds(fields),
        started=now(),
        threads=threads,
        code=code_digest(experiment.run_trial),
        provenance=provenance(),
    )
    start, store = time.perf_counter(), Store(root)

    def finished(**what: Any) -> Record:
        seconds = time.perf_counter() - start
        return dataclasses.replace(base, seconds=round(seconds, 4), peak_mib=peak_mib(), device=device(), **what)

    try:
        try:
            with fixed_threads(threads):
                result = experiment.run_trial(trial)
            record = store.write(finished(status="ok", rows=plain_rows(result.rows)), result.arrays)
            return Done(hash_, "ok", record.seconds)
        except StoreError:
            raise
        except FloatingPointError as e:
            record = store.write(finished(status="diverged", error=str(e)))
            return Done(hash_, "diverged", record.seconds, str(e))
        except (Exception, SystemExit) as e:
            record = store.write(finished(status="failed", error=traceback.format_exc()))
            return Done(hash_, "failed", record.seconds, last_line(e))
    except StoreError as e:
        return Done(hash_, "failed", time.perf_counter() - start, str(e), fatal=True)


def _seeds(fields: Mapping[str, Any]) -> tuple[int, ...]:
    if isinstance(fields.get("seeds"), list):
        return tuple(fields["seeds"])
    return (fields["seed"],) if type(fields.get("seed")) is int else ()


def last_line(error: BaseException) -> str:
    """An exception in one line."""
    return " ".join("".join(traceback.format_exception_only(error)).split())


# --- a run -----------------------------------------------------------------------------------------------------------


def plan(experiment: Experiment, config: Any, store: Store) -> Plan:
    """What a run would do; reads the store and changes nothing. NewerError before any work for a newer record."""
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
    missing, damaged = [], {}
    own = Store(store.root)  # committed rows below are for reading; a run makes its own
    for i, hash_ in enumerate(hashes):
        try:
            record = own.read(experiment.id, hash_)
        except DamagedError as e:
            damaged[hash_] = str(e)
            record = None
        if record is None or record.status == "failed":
            missing.append(i)
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
    command: str = "",
    progress: Progress | None = None,
    threads: int = 1,
) -> RunReport:
    """Compute the missing trials of an experiment and read its table from the store.

    submit: None runs here, one trial after the other; or anything with `submit(fn, *args)` (see run.submit). Rows are
    the same for all of them: each trial runs with `threads` threads and the table has the order of `trials(config)`.
    Trials that are ok or diverged are skipped, failed ones tried again. progress(done, total, seconds left) is called
    as trials finish. Ctrl-C cancels what has not begun, and passes on: every finished trial is in the store.

    Errors, before any work: TrialError (a config that cannot be named), RunError (no trials, the same trial twice, an
    experiment no worker can load), NewerError (a store written by a newer version); StoreError when the disk is full.

    Example:
        >>> report = run(EXPERIMENT, EXPERIMENT.presets["smoke"], store="runs")
        >>> report.skipped, report.failed
        (0, 0)
    """
    store = store if isinstance(store, Store) else Store(store)
    todo = plan(experiment, config, store)
    try:
        source = source_of(experiment)
    except RunError:
        if submit is not None:
            raise
        source = ""
    name = manifest_hash(experiment, config)
    warnings = [_aside(store, experiment.id, hash_, what) for hash_, what in todo.damaged.items()]
    before = None
    try:
        before = store.manifest(experiment.id, name)
    except DamagedError as e:
        warnings.append(_aside(store, experiment.id, f"{name}.run", str(e)))
    store.clean(experiment.id)
    manifest = Manifest(
        experiment.id,
        experiment.version,
        name,
        preset,
        fields_of(config, "config"),
        todo.hashes,
        dict(changed or {}),
        dict(sweep or {}),
        source,
        command,
        now(),
        None,
        provenance(),
    )
    if before is not None and before.seconds is not None and not todo.missing:
        manifest = before  # nothing to do: keep what is known of the run that did it
    path = store.write_manifest(manifest)
    start = time.perf_counter()
    done = list(_collect(experiment, todo, str(store.root.absolute()), source, submit, progress, threads))
    seconds = time.perf_counter() - start
    if manifest.seconds is None:
        store.write_manifest(dataclasses.replace(manifest, seconds=round(seconds, 3)))
    count = {status: sum(d.status == status for d in done) for status in ("ok", "diverged", "failed")}
    table = Store(store.root).table_of(experiment.id, todo.hashes)
    return RunReport(
        experiment.id,
        preset,
        manifest.hash,
        seconds,
        **count,
        skipped=len(todo.trials) - len(done),
        table=table,
        summary=summary_of(experiment, table),
        errors={d.hash: d.message for d in done if d.status != "ok"},
        warnings=tuple(warnings),
        manifest=path,
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


def _collect(
    experiment: Experiment,
    todo: Plan,
    root: str,
    source: str,
    submit: Submit | None,
    progress: Progress | None,
    threads: int,
) -> Iterator[Done]:
    handles: list[Handle] = []
    total, spent = len(todo.missing), time.perf_counter()
    if progress:
        progress(0, total, todo.seconds)
    try:
        for i in todo.missing:
            if submit is None:
                handles.append(Serial().submit(compute, experiment, todo.trials[i], root, threads))
            else:
                handles.append(submit.submit(work, source, pickle.dumps(todo.trials[i]), root, threads))
        for n, handle in enumerate(handles):
            done = _result(handle, todo.hashes[todo.missing[n]])
            if done.fatal:
                raise StoreError(done.message) if done.hash else RunError(done.message)
            yield done
            if progress:
                elapsed, expected = time.perf_counter() - spent, sum(todo.costs[: n + 1])
                rate = elapsed / expected if expected > 0 else 0.0
                progress(n + 1, total, rate * float(sum(todo.costs[n + 1 :])))
    except BaseException:
        for handle in handles:
            cancel = getattr(handle, "cancel", None)
            if cancel is not None:
                cancel()
        raise


def _result(handle: Handle, hash_: str) -> Done:
    try:
        return Done(*handle.result())
    except Exception as e:  # the worker could not even tell: killed, out of memory, lost connection
        return Done(hash_, "failed", 0.0, f"the worker was lost ({last_line(e)}): run again, with fewer workers")


__all__ = ["Done", "Plan", "RunError", "RunReport", "TrialError", "compute", "load_source", "plan", "run", "work"]


def preset_of(experiment: Experiment, name: str) -> Any:
    """A preset by name; RunError with the names there are."""
    if name not in experiment.presets:
        raise RunError(f"preset = {name} is not allowed: one of {', '.join(experiment.presets)}; choose one of them")
    return experiment.presets[name]


def changes(config: Any, preset: Any) -> dict[str, Any]:
    """The fields of a config that differ from its preset, with the values they have now."""
    ours, theirs = fields_of(config, "config"), fields_of(preset, "config")
    return {name: value for name, value in ours.items() if value != theirs.get(name)}


def hashes_of(experiment: Experiment, trials: Sequence[Any]) -> list[str]:
    """Hashes of trials in order."""
    return [trial_hash(experiment.id, experiment.version, trial) for trial in trials]
