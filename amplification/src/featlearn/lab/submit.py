"""Submit: anything with `submit(fn, *args)` that returns something with `.result()`.

Serial and a pool of spawned processes are here; `distributed.Client.get_executor()`, a submitit executor and
`concurrent.futures.ThreadPoolExecutor` plug in unchanged: nothing else of them is used, and they are never closed.
This file imports the standard library only, so that a worker can fix its thread count before numpy is loaded.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any, Protocol, runtime_checkable

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@runtime_checkable
class Handle(Protocol):
    """The promise of a result."""

    def result(self) -> Any:
        """Wait for the result; raises what the function raised."""
        ...


@runtime_checkable
class Submit(Protocol):
    """Whatever can run a function elsewhere or later."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Handle:
        """Arrange for fn(*args) and return at once."""
        ...


class _Later:
    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._fn, self._args = fn, args

    def result(self) -> Any:
        return self._fn(*self._args)


class Serial:
    """Runs each function in this process when its result is asked for, so progress is seen between trials."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Handle:
        """Remember the call."""
        return _Later(fn, args)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_thread_variables(threads: int) -> None:
    """Ask libraries that are not loaded yet for `threads` threads."""
    for name in THREAD_VARIABLES:
        os.environ[name] = str(threads)


def _start_worker(lifeline: Any, threads: int) -> None:
    set_thread_variables(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the driver decides
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Any) -> None:
    # The other end closes when the driver stops the pool and also when the driver is killed: no orphans.
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv()
    os._exit(1)


class ProcessPool:
    """A pool of `workers` spawned processes, `threads` threads each, that can be renewed when a process has died.

    Leaving its block by an exception (Ctrl-C too) ends the workers at once, which loses nothing but unfinished work;
    they also end when this process is killed. ahead: how many calls it should hold at once, so that few are in
    flight when a worker dies.

    Example:
        >>> with ProcessPool(1) as pool:
        ...     pool.submit(max, 1, 2).result()
        2
    """

    def __init__(self, workers: int, threads: int = 1) -> None:
        self.workers, self.ahead, self._threads = workers, 2 * workers, threads
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._theirs, self._ours = context.Pipe(duplex=False)
        given = (self._theirs, self._threads)
        self._executor = ProcessPoolExecutor(
            self.workers, mp_context=context, initializer=_start_worker, initargs=given
        )

    def _end(self) -> None:
        self._ours.close()
        self._executor.shutdown(wait=True)  # without cancel_futures: see _Promise
        self._theirs.close()

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Handle:
        """Hand a call to a worker. Errors: BrokenProcessPool after one has died, until `renew`."""
        return _Promise(self._executor.submit(fn, *args))

    def first(self, handles: Mapping[int, Handle]) -> int:
        """Wait until one of these has ended; its key."""
        futures = {h.future: key for key, h in handles.items() if isinstance(h, _Promise)}
        ended, _ = wait(futures, return_when=FIRST_COMPLETED)
        return min(futures[f] for f in ended)

    def renew(self) -> None:
        """Fresh processes in place of these."""
        self._end()
        self._start()

    def __enter__(self) -> "ProcessPool":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._executor.shutdown(wait=True)
        self._end()


class _Promise:
    # It cannot be cancelled: Python 3.11's executor raises InvalidStateError in its own thread when workers die while
    # a cancelled future is queued. Ending the workers ends what is queued all the same.
    def __init__(self, future: Future[Any]) -> None:
        self.future, self.result = future, future.result
