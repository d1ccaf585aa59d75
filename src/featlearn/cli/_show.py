"""What commands print: the console, JSON, warnings, durations, sizes, bars."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

PIPE_WIDTH = 120


def console(err: bool = False) -> Any:
    """A rich console on stdout, or on stderr; into a file or a pipe it writes wide lines."""
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    wide = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(stderr=err, highlight=False, width=wide)


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(document, indent=1, allow_nan=False))


def warn(message: str) -> None:
    """One line on stderr."""
    print(f"featlearn: {message}", file=sys.stderr)


FEW_SECONDS = 4.0  # below this a second process costs more than it brings


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 1 else "under 1 s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def size(count: float | int | None) -> str:
    """Bytes for people."""
    if count is None:
        return "–"
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


@contextlib.contextmanager
def bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar with the time left, on stderr."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(err=True), transient=True) as shown:
        task = shown.add_task(label, total=None)

        def progress(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total)

        yield progress
