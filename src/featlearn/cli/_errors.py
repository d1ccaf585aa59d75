"""Errors of commands and exit statuses."""

DONE, FAILED, BAD, INTERRUPTED = 0, 1, 2, 130


class CommandError(Exception):
    """Something the caller can put right: one line, and the exit status."""

    def __init__(self, message: str, status: int = BAD):
        super().__init__(message)
        self.status = status
