"""Files that are whole or not there: written under another name and renamed, read with their format, and locked.

Nothing here asks the clock. Locks are those of the operating system: they end with the process that holds them, so that
none is ever stale; where a file system has none (some networks), everything still works, only without them.
"""

import contextlib
import ctypes
import errno
import json
import os
import struct
import sys
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import Any

from featlearn.errors import DamagedError, NewerError, OlderError, StoreError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

FORMAT = 2
"""Raised when a name in a file changes: 2 says trial and reported where 1 said cell and reported."""


# --- writing ---------------------------------------------------------------------------------------------------------


def write_atomic(path: Path, data: bytes) -> None:
    """All of `data` under `path`, or StoreError and everything as it was."""
    try:
        write_whole(path, data)
    except OSError as e:
        remedy = "free some space" if e.errno in (errno.ENOSPC, errno.EDQUOT) else "make the folder writable"
        raise StoreError(
            f"{path} cannot be written ({e.strerror or e}): {remedy} or choose another --store, then run again;"
            " what was finished is kept"
        ) from e


def temporary_beside(path: Path) -> Path:
    """A new name in the folder of `path`, shorter than many names of files: whatever is legal there can be written."""
    return path.with_name(f".{uuid.uuid4().hex[:16]}.tmp")


def write_whole(path: Path, data: bytes) -> None:
    """As `write_atomic`, for files outside of a store. Errors: OSError, and everything as it was.

    The data are handed to the operating system, which writes them to the disk in its own time: they outlive this
    process, and a power cut once `sync` has returned.
    """
    for last in (False, True):
        temporary = temporary_beside(path)
        try:
            with contextlib.suppress(FileExistsError):
                path.parent.mkdir(parents=True)
            handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o666)
            try:
                _flock(handle)  # until it is renamed: `sweep` takes no file away that somebody writes
                view = memoryview(data)
                while view:
                    view = view[os.write(handle, view) :]
                os.replace(temporary, path)
            finally:
                os.close(handle)
        except FileNotFoundError:  # swept between its creation and its lock, or the folder was removed
            if last:
                raise
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        else:
            return


def _flock(handle: int) -> bool:
    """Whether this process now holds the file; True also where there are no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        return e.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def sweep(folder: Path) -> None:
    """Remove the temporary files of writers that were killed: those that nobody holds."""
    if fcntl is None:
        return
    for path in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(handle)


def sync(folder: Path) -> None:
    """Wait until all that was written on the file system of a folder is on its disk."""
    with contextlib.suppress(OSError, AttributeError):
        if sys.platform == "linux":
            handle = os.open(folder, os.O_RDONLY)
            try:
                ctypes.CDLL(None).syncfs(handle)  # one call for thousands of files, and only this file system
            finally:
                os.close(handle)
        else:
            os.sync()


# --- locks -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(path: Path, place: int, *, wait: bool = False) -> Generator[bool, None, None]:
    """Hold one place (a number below 2^62) of a lock file for a block; False where another process holds it.

    wait: until it is free. True also where the file system has no locks, or where the file cannot be made.

    Example:
        >>> with locked(Path("/dev/null/locks"), 7) as mine:  # no folder: nothing can be locked
        ...     mine
        True
    """
    try:
        if fcntl is None:
            raise OSError(errno.ENOTSUP, "no locks here")
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        yield True
        return
    try:
        yield _lock_place(handle, place, wait)
    finally:
        os.close(handle)


def _lock_place(handle: int, place: int, wait: bool) -> bool:
    assert fcntl is not None
    try:
        if hasattr(fcntl, "F_OFD_SETLK"):  # held by the open file: two threads of a process exclude each other too
            what = struct.pack("hhqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
            fcntl.fcntl(handle, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, what)
        else:
            fcntl.lockf(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, place)
    except OSError as e:
        return e.errno not in (errno.EAGAIN, errno.EACCES)
    return True


# --- reading ---------------------------------------------------------------------------------------------------------


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """The object in a JSON file of a known format; DamagedError, NewerError, OlderError or StoreError in one line."""
    try:
        data = json.loads(path.read_bytes(), parse_constant=_no_constant)
    except FileNotFoundError as e:
        raise StoreError(f"{path} does not exist: {remedy}") from e
    except OSError as e:
        raise StoreError(f"{path} cannot be read ({e.strerror or e}): make it readable") from e
    except (ValueError, RecursionError) as e:
        raise DamagedError(f"{path} is damaged (not complete JSON): {remedy}") from e
    if not isinstance(data, dict) or type(data.get("format")) is not int:
        raise DamagedError(f"{path} is damaged (no format number): {remedy}")
    if data["format"] > FORMAT:
        raise NewerError(
            f"{path} has format {data['format']}, this featlearn reads up to {FORMAT}: update featlearn or choose"
            " another --store; nothing was changed"
        )
    if data["format"] < FORMAT:
        raise OlderError(
            f"{path} has format {data['format']}, this featlearn reads format {FORMAT}: choose another --store and run"
            " again, or read it with the featlearn that wrote it; nothing was changed"
        )
    return data
