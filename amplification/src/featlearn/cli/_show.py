"""What commands print: the console, tables, JSON, warnings, durations, sizes, progress."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

PIPE_WIDTH = 120


def console(err: bool = False) -> Any:
    """A rich console on stdout, or on stderr; into a file or a pipe it writes wide lines."""
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    wide = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(stderr=err, highlight=False, width=wide)


def show_table(out: Any, headings: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    """A table of plain text or of rich Texts, brackets and all."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, title=title or None, title_justify="left")
    for row in rows:
        table.add_row(*(Text(v) if isinstance(v, str) else v for v in row))
    put(out, table)


def put(out: Any, table: Any) -> None:
    """Print a rich Table so that every word can be copied: cells are folded between words alone, and where that is not
    narrow enough every row becomes some lines, its first text on a line of its own."""
    columns = table.columns
    spans = [[_span(out, text) for text in (c.header, *c.cells)] for c in columns]
    most = [max(high for _, high in column) for column in spans]
    least = [
        high if c.no_wrap else max(low for low, _ in column)
        for c, high, column in zip(columns, most, spans, strict=True)
    ]
    room = out.width - sum(least) - 3 * len(columns) - 1
    if room >= 0:
        wanting = sorted(range(len(columns)), key=lambda i: most[i] - least[i])
        for n, i in enumerate(wanting):  # what the easily satisfied leave goes to the others
            more = min(most[i] - least[i], room // (len(columns) - n))
            columns[i].width, room = least[i] + more, room - more
        out.print(table)
        return
    if table.title:
        out.print(table.title, style="italic", soft_wrap=True)
    for first, *others in zip(*(c.cells for c in columns), strict=True):
        out.print(first, soft_wrap=True)
        for column, text in zip(columns[1:], others, strict=True):
            out.print("  ", column.header, ": ", text, sep="", soft_wrap=True)
    if table.caption:
        out.print(table.caption, style="dim", soft_wrap=True)


def _span(out: Any, text: Any) -> tuple[int, int]:
    """Widths of the longest word and of the whole."""
    from rich.measure import Measurement

    return Measurement.get(out, out.options.update(max_width=100_000), text)


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(document, indent=1, allow_nan=False))


def warn(message: str) -> None:
    """One line on stderr."""
    print(f"featlearn: {message}", file=sys.stderr)


FEW = 8


def few(values: Sequence[object]) -> str:
    """Values in one line, many of them by the first, the last and their number.

    Example:
        >>> few((1, 2)), few(range(2000))
        ('1 2', '0 1 2 ... 1999, 2000 values')
    """
    if len(values) <= FEW:
        return " ".join(map(str, values))
    return f"{values[0]} {values[1]} {values[2]} ... {values[-1]}, {len(values)} values"


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


EVERY = 30.0
"""Seconds between lines of progress where no bar can be drawn."""


def draws() -> bool:
    """Whether stderr is a terminal on which a bar can be drawn; into files and pipes go plain lines."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def now_and_then() -> Callable[[str], None]:
    """Prints a line on stderr if none was in the last EVERY seconds; what is done sooner prints nothing."""
    last = time.monotonic()

    def say(line: str) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            print(line, file=sys.stderr, flush=True)

    return say


@contextlib.contextmanager
def bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar with the time left, on stderr; without a terminal a line now and then."""
    if not draws():
        say = now_and_then()
        yield lambda done, total: say(f"{label}: {done}/{total}")
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(err=True), transient=True) as shown:
        task = shown.add_task(label, total=None)

        def progress(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total)

        yield progress


@contextlib.contextmanager
def trial_bar(label: str) -> Iterator[Callable[[int, int, str], None]]:
    """As `bar`, with the time left as the caller knows it; the bar stays."""
    if not draws():
        say = now_and_then()
        ended = ""

        def tell(done: int, total: int, left: str) -> None:
            nonlocal ended
            ended = f"{label}: {done}/{total}"
            say(f"{ended}{left and ', '}{left}")

        yield tell
        print(ended or label, file=sys.stderr)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[left]}"), console=console(err=True)) as shown:
        task = shown.add_task(label, total=None, left="")

        def progress(done: int, total: int, left: str) -> None:
            shown.update(task, completed=done, total=total, left=left)

        yield progress


@contextlib.contextmanager
def byte_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Progress of downloads: what, bytes so far, bytes in all or 0 where that is unknown."""
    if not draws():
        say = now_and_then()
        yield lambda what, done, total: say(f"{what}: {size(done)}{' of ' * bool(total)}{size(total) if total else ''}")
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(err=True), transient=True) as shown:
        tasks: dict[str, Any] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(what, total=total or None)
            shown.update(tasks[what], completed=done, total=total or None)

        yield progress


@contextlib.contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """What is being done, on one line of stderr that goes away; without a terminal a line now and then."""
    if not draws():
        yield now_and_then()
        return
    with console(err=True).status("") as shown:
        yield lambda line: shown.update(line)
