"""stdout and stderr of a command: narrow encodings, closed pipes, full disks and closed descriptors, in one place.

stdout holds what was asked for, so a stdout that cannot take it is an error (OutputError, status 1). Nobody may be
reading, though: behind a pipe whose reader has left and on a closed stdout the work goes on in silence, and its own
status counts. stderr tells of the work and never ends it.
"""

import codecs
import contextlib
import os
import sys
import unicodedata
from collections.abc import Iterator
from typing import Any

from featlearn.errors import OutputError

PLAIN = "featlearn-plain"
"""Error handler of encodings: what an encoding lacks is written in ASCII that can be read."""

_SIGNS = {"±": "+-", "…": "...", "–": "-", "—": "-", "−": "-", "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "·": "*"} | {
    "×": "x", "→": "->", "←": "<-", "∞": "inf", "√": "sqrt", "∑": "sum", "∈": "in", "‖": "||", "‘": "'", "’": "'"
} | {"“": '"', "”": '"', "•": "*", "⋅": "*", "∇": "grad", "∂": "d", "⊙": "*", "⟨": "<", "⟩": ">"}  # fmt: skip


def spelled(sign: str) -> str:
    """One character in ASCII.

    Example:
        >>> spelled("±"), spelled("α"), spelled("é"), spelled("─"), spelled("漢")
        ('+-', 'alpha', 'e', '-', '?')
    """
    if sign in _SIGNS:
        return _SIGNS[sign]
    if "\udc80" <= sign <= "\udcff":  # a byte of a file name that is not UTF-8
        return f"\\x{ord(sign) - 0xDC00:02x}"
    name = unicodedata.name(sign, "")
    if name.startswith("GREEK SMALL LETTER "):
        return name.split()[3].lower()
    if name.startswith("GREEK CAPITAL LETTER "):
        return name.split()[3].capitalize()
    if name.startswith(("BOX DRAWINGS", "BRAILLE")):
        return "-"
    return unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode() or "?"


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Spell the first character that the encoding lacks; spaces behind it make room, so that tables stay straight."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text, at = error.object, error.start
    word, end = spelled(text[at]), at + 1
    for _ in word[1:]:
        if text[end : end + 2] not in ("  ", " |") and not (text[at] == "±" and text[end : end + 1] == " "):
            break
        end += 1
    return word, end


codecs.register_error(PLAIN, _plain)


class _Output:
    """A text stream that is silent once its reader has left, or its disk is full."""

    def __init__(self, stream: Any, needed: bool) -> None:
        self._stream, self._needed, self._lost = stream, needed, False

    def write(self, text: str) -> int:
        """As a text stream."""
        if not self._lost:
            with self._failures():
                self._stream.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """As a text stream."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """As a text stream."""
        if not self._lost:
            with self._failures():
                self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as why:
            self._lost = True
            # what is buffered would fail once more when Python ends
            with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nothing:
                os.dup2(nothing.fileno(), self._stream.fileno())
                self._stream.flush()
            if self._needed and not isinstance(why, BrokenPipeError):
                reason = why.strerror or type(why).__name__
                raise OutputError(
                    f"stdout cannot be written ({reason}): send it elsewhere; what was written to files is kept"
                ) from None


def _occupy_closed() -> None:
    """Give /dev/null the numbers of closed standard descriptors: else the next file that is opened is one of them."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


@contextlib.contextmanager
def safe_streams() -> Iterator[None]:
    """stdout and stderr that nothing breaks; afterwards they are what they were.

    Errors: OutputError for a stdout that cannot be written, when it is written or flushed.
    """
    before = sys.stdout, sys.stderr
    _occupy_closed()
    with contextlib.ExitStack() as stack:
        # None: closed when Python started
        streams = [stack.enter_context(open(os.devnull, "w")) if s is None else s for s in before]
        for stream in streams:
            if hasattr(stream, "reconfigure"):
                stack.callback(_set_errors, stream, stream.errors)
                _set_errors(stream, PLAIN)
        sys.stdout, sys.stderr = _Output(streams[0], needed=True), _Output(streams[1], needed=False)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


def _set_errors(stream: Any, errors: Any) -> None:
    with contextlib.suppress(OSError, ValueError):  # it flushes first; ValueError: it was closed meanwhile
        stream.reconfigure(errors=errors)
