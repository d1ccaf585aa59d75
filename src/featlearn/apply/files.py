"""Files that commands write: the place is checked before any work, and what was made is kept after it."""

import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from featlearn.data.names import shown
from featlearn.errors import SettingError, StoreError
from featlearn.lab.files import temporary_beside, write_whole


def check_target(path: str | Path, replace_it: bool, needed: Sequence[str | Path] = (), field: str = "out") -> Path:
    """The path of a file to write, before any work; that its folder takes a file is tried.

    needed: files that must not be written over; field: what the setting is called.
    Errors: SettingError for one of these, a file that is there already, a folder, a folder that is not there, and what
    cannot be written.
    """
    path = Path(os.path.expanduser(path))
    told = shown(path)
    if os.path.isdir(path) or not os.path.isdir(path.parent):
        raise SettingError(field, told, "a file in a folder that exists", "make the folder, or name the file")
    try:
        there = os.path.lexists(path) and (os.path.isfile(path) or os.path.islink(path))
        if os.path.lexists(path) and not there:
            raise SettingError(field, told, "a plain file", "it is a device or a pipe: name another")
        if there and any(_same_file(path, other) for other in needed):
            raise SettingError(field, told, "none of the files that are read", "name another; --replace does not help")
        if there and not replace_it:
            raise SettingError(field, told, "a new file", "it is there already: --replace writes over it")
        with contextlib.suppress(FileNotFoundError):  # a name that is too long is told by looking for it
            os.lstat(path)
        probe = temporary_beside(path)
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        os.unlink(probe)
    except OSError as why:
        reason = why.strerror or type(why).__name__
        raise SettingError(field, told, f"a file that can be written ({reason})", "name another, elsewhere") from None
    return path


def _same_file(path: Path, other: str | Path) -> bool:
    try:
        return os.path.samefile(path, os.path.expanduser(other))
    except (OSError, ValueError):
        return False


def keep(path: Path, data: bytes, field: str = "out") -> None:
    """Write the result of work that is done. Errors: StoreError, which says where it is kept instead."""
    try:
        write_whole(path, data)
    except OSError as why:
        said = f"{shown(path)} cannot be written ({why.strerror or why})"
        name = ""
        try:
            handle, name = tempfile.mkstemp(prefix="featlearn-", suffix=path.suffix[:16])
            with os.fdopen(handle, "wb") as f:
                f.write(data)
        except OSError as also:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise StoreError(
                f"{said}, nor a file in {tempfile.gettempdir()} ({also.strerror or also}): the result is lost; free "
                f"some space, or give --{field} in a folder that can be written, and run it again"
            ) from why
        raise StoreError(f"{said}: the result is kept in {shown(name)}; move it from there") from why
