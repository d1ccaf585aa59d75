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
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor
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


class _Pool:
    # Its handles cannot be cancelled: Python 3.11's executor raises InvalidStateError in its own thread when workers
    # die while a cancelled future is queued. Ending the workers ends what is queued all the same.
    def __init__(self, executor: ProcessPoolExecutor) -> None:
        self._executor = executor

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Handle:
        return _Promise(self._executor.submit(fn, *args))


class _Promise:
    def __init__(self, future: Handle) -> None:
        self.result = future.result


@contextlib.contextmanager
def process_pool(workers: int, threads: int = 1) -> Generator[Submit, None, None]:
    """A pool of `workers` spawned processes, `threads` threads each.

    Leaving the block by an exception (Ctrl-C too) ends the workers at once, which loses nothing but unfinished trials;
    they also end when this process is killed.
    """
    context = multiprocessing.get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(theirs, threads))
    try:
        yield _Pool(pool)
    except BaseException:
        ours.close()
        pool.shutdown(wait=True)  # without cancel_futures: see _Pool
        raise
    else:
        pool.shutdown(wait=True)
    finally:
        ours.close()
        theirs.close()
