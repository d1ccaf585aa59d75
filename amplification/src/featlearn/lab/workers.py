"""One trial in a worker, and a queue of trials over workers that may die.

A worker writes its record and tells how it ended; a worker that dies tells nothing. So the trials that were in flight
are tried again one at a time at the end: the one that takes its worker with it again is recorded as failed, the others
are not charged for it.
"""

import contextlib
import dataclasses
import pickle
import threading
import time
import traceback
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any, NamedTuple

from featlearn.errors import DamagedError, RunError, StoreError
from featlearn.lab.digest import code_digest
from featlearn.lab.experiment import Experiment
from featlearn.lab.files import sync
from featlearn.lab.load import last_line, load_source
from featlearn.lab.provenance import device, fixed_threads, peak_mib, provenance
from featlearn.lab.store import Record, Store, now, plain_rows
from featlearn.lab.submit import Handle, Serial, Submit
from featlearn.lab.trial import fields_of, trial_hash

SYNC_SECONDS = 5.0
"""What a power cut may cost; the death of a process costs what was in flight."""
DEATHS = 10
"""So many trials in a row that end their workers, each alone, and the fault is not theirs."""


class Done(NamedTuple):
    """What a worker tells: the rest is in the store.

    status: ok, diverged, failed; busy (another run is at it) or elsewhere (another run has done it). fatal: further
    trials would fail in the same way.
    """

    hash: str
    status: str
    seconds: float
    message: str = ""
    fatal: bool = False


@dataclasses.dataclass(frozen=True)
class Job:
    """What the trials of a run share. source: from where another process loads the experiment; again: compute also
    what somebody has finished by this very code."""

    experiment: Experiment
    source: str
    root: str
    threads: int = 1
    again: bool = False


# --- one trial --------------------------------------------------------------------------------------------------------


def work(source: str, trial: bytes, root: str, threads: int, again: bool = False, wait: bool = False) -> Done:
    """Entry of a worker: load the experiment, run one pickled trial, write its record."""
    try:
        experiment = load_source(source)
        value = pickle.loads(trial)
    except Exception as e:
        return Done("", "failed", 0.0, f"{source} cannot be loaded: {last_line(e)}", fatal=True)
    return compute(experiment, value, root, threads, again, wait)


def compute(
    experiment: Experiment, trial: Any, root: str | Path, threads: int = 1, again: bool = False, wait: bool = False
) -> Done:
    """Run one trial and write its record, whatever happens; only Ctrl-C passes through.

    again: even if it is finished, by this very code. wait: until another run that is at it has ended.
    """
    hash_ = trial_hash(experiment.id, experiment.version, trial)
    start, store = time.perf_counter(), Store(root)
    try:
        with store.locked(experiment.id, hash_, wait=wait) as mine:
            if not mine:
                return Done(hash_, "busy", 0.0)
            if not again and _done(store, experiment, hash_):
                return Done(hash_, "elsewhere", 0.0)
            return _compute(experiment, trial, store, threads, hash_)
    except StoreError as e:
        return Done(hash_, "failed", time.perf_counter() - start, str(e), fatal=True)


def _done(store: Store, experiment: Experiment, hash_: str) -> bool:
    """Whether somebody has finished a trial by the code as it is now."""
    try:
        record = store.read(experiment.id, hash_)
    except DamagedError:
        return False
    return record is not None and record.status != "failed" and record.code == code_digest(experiment.run_trial)


def _blank(experiment: Experiment, trial: Any, threads: int, hash_: str) -> Record:
    fields = fields_of(trial)
    return Record(
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


def _compute(experiment: Experiment, trial: Any, store: Store, threads: int, hash_: str) -> Done:
    base, start = _blank(experiment, trial, threads, hash_), time.perf_counter()

    def finished(**what: Any) -> Record:
        seconds = time.perf_counter() - start
        return dataclasses.replace(base, seconds=round(seconds, 4), peak_mib=peak_mib(), device=device(), **what)

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


def _seeds(fields: Mapping[str, Any]) -> tuple[int, ...]:
    if isinstance(fields.get("seeds"), list):
        return tuple(fields["seeds"])
    return (fields["seed"],) if type(fields.get("seed")) is int else ()


# --- the queue -------------------------------------------------------------------------------------------------------


def results(job: Job, trials: Sequence[Any], submit: Submit | None) -> Iterator[tuple[int, Done]]:
    """(position, how it ended) of every trial, as they end.

    Errors: StoreError, RunError where further trials would fail in the same way; what is queued is cancelled then, and
    on Ctrl-C.
    """
    if not trials:
        return
    run = _Queue(job, trials, submit or Serial(), here=submit is None)
    with _synced(Store(job.root).folder(job.experiment.id)):
        busy, lost = [], []
        for i, done in run.over(range(len(trials))):
            if done is None:
                lost.append(i)
            elif done.status == "busy":
                busy.append(i)
            else:
                yield i, done
        for i, done in run.over(busy, wait=True):  # the others are at these: they end, or die and leave them to us
            if done is None:
                lost.append(i)
            else:
                yield i, done
        deaths = 0
        for i in lost:
            ((_, done),) = run.over([i], wait=True)
            if done is not None and done.status == "elsewhere":  # it had ended before its worker was taken down
                kept = Store(job.root).read(job.experiment.id, done.hash)
                done = done._replace(status=kept.status, message=kept.error) if kept else done
            deaths = 0 if done is not None else deaths + 1
            yield i, done or _guilty(job, trials[i], run.last_words)
            if deaths == DEATHS:
                raise RunError(
                    f"{DEATHS} trials in a row ended their workers, each alone ({run.last_words}): give them more"
                    " memory, or see what happens with --workers 1"
                )


class _Queue:
    def __init__(self, job: Job, trials: Sequence[Any], submit: Submit, *, here: bool) -> None:
        self.job, self.trials, self.submit, self.here, self.last_words = job, trials, submit, here, ""

    def start(self, i: int, wait: bool) -> Handle:
        job = self.job
        if self.here:
            given = (job.experiment, self.trials[i], job.root, job.threads, job.again, wait)
            return self.submit.submit(compute, *given)
        return self.submit.submit(
            work, job.source, pickle.dumps(self.trials[i]), job.root, job.threads, job.again, wait
        )

    def over(self, positions: Sequence[int] | range, wait: bool = False) -> Iterator[tuple[int, Done | None]]:
        """(position, how it ended, None where its worker was lost)."""
        queue, flying = deque(positions), dict[int, Handle]()
        ahead = 1 if self.here else getattr(self.submit, "ahead", len(queue))
        first = getattr(self.submit, "first", None)
        try:
            while queue or flying:
                broken = False
                while queue and len(flying) < ahead and not broken:
                    try:
                        flying[queue[0]] = self.start(queue[0], wait)
                        queue.popleft()
                    except BrokenExecutor as e:
                        broken, self.last_words = True, last_line(e)
                if not broken:
                    i = first(flying) if first else next(iter(flying))
                    done, broken = self.result(flying[i])
                    del flying[i]  # not before: Ctrl-C while it is waited for cancels it
                    yield i, done
                if broken:  # whatever was in flight is lost with it, but for what had ended
                    for i in list(flying):
                        yield i, self.result(flying.pop(i))[0]
                    renew = getattr(self.submit, "renew", None)
                    if renew is None:
                        raise RunError(f"the executor is broken ({self.last_words}): start it anew and run again")
                    renew()
        except BaseException:
            for handle in flying.values():
                cancel = getattr(handle, "cancel", None)
                if cancel is not None:
                    cancel()
            raise

    def result(self, handle: Handle) -> tuple[Done | None, bool]:
        """(how it ended or None, whether the executor is broken)."""
        try:
            done = Done(*handle.result())
        except Exception as e:  # the worker could not even tell: killed, out of memory, lost connection
            self.last_words = last_line(e)
            return None, isinstance(e, BrokenExecutor)
        if done.fatal:
            raise StoreError(done.message) if done.hash else RunError(done.message)
        return done, False


def _guilty(job: Job, trial: Any, why: str) -> Done:
    """Record, here, a trial that nobody could end: its worker died twice, the second time with this trial alone."""
    message = f"its worker died, a second time with this trial alone ({why}): out of memory? run it on a larger machine"
    hash_ = trial_hash(job.experiment.id, job.experiment.version, trial)
    record = dataclasses.replace(_blank(job.experiment, trial, job.threads, hash_), error=message)
    store = Store(job.root)
    with store.locked(job.experiment.id, hash_, wait=True):
        if not job.again and _done(store, job.experiment, hash_):  # another run could end it: its rows stay
            return Done(hash_, "elsewhere", 0.0)
        store.write(record)
    return Done(hash_, "failed", 0.0, message)


@contextlib.contextmanager
def _synced(folder: Path, every: float = SYNC_SECONDS) -> Generator[None, None, None]:
    """What is written during a block is on the disk some seconds later, and at its end."""
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(every):
            sync(folder)

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        sync(folder)
