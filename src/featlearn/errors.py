"""The errors of featlearn: one root, each kind with the exit status that the command line gives it.

This table is the only place that says which error ends a command with which status; `featlearn.cli.main` reads it.
Each kind keeps the class of the standard library that fits it as a second base, so that `except ValueError` still
catches a refused setting. Users import `SettingError` and `Diverged` from `featlearn.core` and `DataError` from
`featlearn.data` as well.
"""

from typing import Any

DONE, FAILED, BAD, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
"""Exit statuses: all as expected; something failed or a verdict differs; bad arguments; Ctrl-C; SIGTERM."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, as batch systems send it before they take a machine away: ends things as Ctrl-C does."""


class FeatlearnError(Exception):
    """Something the caller can put right: one line that says what, and what to do.

    status: what the command line exits with.
    """

    status: int = FAILED


# --- settings and training -------------------------------------------------------------------------------------------


def brief(value: object) -> str:
    """A value as a message shows it, in one line of at most 80 characters: numbers as they are, all else as Python
    writes it.

    Example:
        >>> brief([1, 2]), brief(0.5), brief("long" * 40)[-7:]
        ('[1, 2]', '0.5', 'long...')
    """
    number = isinstance(value, int | float | complex)
    told = " ".join((str(value) if number else repr(value)).split())
    return told if len(told) <= 80 else f"{told[:77]}..."


class SettingError(FeatlearnError, ValueError):
    """A setting that is refused before any work: one line with field, value, allowed range and remedy.

    Example:
        >>> raise SettingError("d", 50, "at least D = 100", "raise d or lower D")
        Traceback (most recent call last):
        featlearn.errors.SettingError: d = 50 is not allowed: at least D = 100; raise d or lower D
    """

    status = BAD

    def __init__(self, field: str, value: object, allowed: str, remedy: str) -> None:
        self.field, self.value, self.allowed, self.remedy = field, value, allowed, remedy
        super().__init__(f"{field} = {value} is not allowed: {allowed}; {remedy}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.field, self.value, self.allowed, self.remedy)


class Diverged(FeatlearnError, FloatingPointError):
    """Training left the finite numbers; the message says at which step. A trial that raises it ends as `diverged`."""


class NotFiniteInput(SettingError, FloatingPointError):
    """A tensor that holds nan or infinity; a FloatingPointError too, so that a run that raises it ends as diverged."""


# --- data ------------------------------------------------------------------------------------------------------------


class DataError(FeatlearnError, ValueError):
    """Data or a model that is refused: one line with file, what was found, and the remedy."""

    status = BAD


class DataUnavailable(DataError):
    """Data that was asked for rightly and cannot be had: the network, the disk, a package, or a damaged copy."""

    status = FAILED


class Unreadable(DataError):
    """Why a file is no image, without its name. kind: of the reason, for counts."""

    def __init__(self, kind: str, reason: str = "") -> None:
        super().__init__(reason or kind)
        self.kind = kind

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, str(self))


# --- runs, stores, reports -------------------------------------------------------------------------------------------


class TrialError(FeatlearnError, ValueError):
    """A trial or config that cannot be named: one line with the field, its value and the remedy."""

    status = BAD


class RunError(FeatlearnError):
    """A run that cannot start: one line."""

    status = BAD


class StoreError(FeatlearnError):
    """A store that cannot be read or written: one line with the file, what is wrong and the remedy."""


class DamagedError(StoreError):
    """A file that is there and does not hold what it must."""


class NewerError(StoreError):
    """A file of a format that only a newer featlearn knows."""


class OlderError(StoreError):
    """A file of a format that this featlearn no longer reads."""


class ReportError(FeatlearnError, ValueError):
    """Something a report cannot be made from, or a place it may not be written to; one line with the remedy."""

    status = BAD


class InventoryError(FeatlearnError, KeyError):
    """An id that does not exist, or a file that breaks the format; one line, with the nearest valid name."""

    status = BAD

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the repr


class CommandError(FeatlearnError):
    """Words of the command line that are refused, or a command that cannot go on: one line, and the exit status."""

    status = BAD

    def __init__(self, message: str, status: int = BAD) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.status)


class OutputError(FeatlearnError):
    """A stdout that does not take what was asked for, as on a full disk: one line."""


# --- rows, statements, verdicts --------------------------------------------------------------------------------------


class LabError(FeatlearnError, ValueError):
    """Rows or statements that cannot be judged: refused with a name, never turned into a verdict."""


class UnknownColumn(LabError):
    """A column that the row type does not have."""


class UnknownLevel(LabError):
    """A level that the column does not have."""


class OutOfRange(LabError):
    """A value outside of what its quantity can be."""


class NotFinite(LabError):
    """A value that is nan or infinite where a number is needed."""


class EmptyArm(LabError):
    """A selection that leaves no row."""


class MissingUnit(LabError):
    """A planned trial, or a unit of replication, that is there in one arm and not in another."""


class DuplicateRow(LabError):
    """Two rows of one unit and one key."""


class BadStatement(LabError):
    """A statement that could not fail, or whose parts contradict each other."""
