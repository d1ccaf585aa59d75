"""The errors of featlearn: one root, each kind with the exit status that the command line gives it."""

DONE, FAILED, BAD, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses: all as expected; something failed or a verdict differs; bad arguments; Ctrl-C."""


class FeatlearnError(Exception):
    """Something the caller can put right: one line that says what, and what to do."""

    status = FAILED


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
