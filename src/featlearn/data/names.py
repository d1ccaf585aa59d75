"""Names of files in messages: they are bytes, which need not be UTF-8 and may hold line ends."""

import os
import unicodedata
from collections.abc import Sequence

SHOWN = 3
"""How many files or classes an error or remark names."""
_ESCAPED = ("Cc", "Cs", "Zl", "Zp")


def shown(name: str | os.PathLike[str]) -> str:
    r"""A name in one line of text: bytes that are not UTF-8 and control characters as escapes.

    Example:
        >>> shown("caf\udce9\n.png") == r"caf\xe9\n.png"
        True
    """
    text = os.fspath(name).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c.encode("unicode_escape").decode() if unicodedata.category(c) in _ESCAPED else c for c in text)


def some(names: Sequence[str | os.PathLike[str]]) -> str:
    """The first SHOWN of them."""
    return ", ".join(shown(n) for n in names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def matched(name: str, known: Sequence[str], case: bool = True) -> str:
    """The one of the known names that is this one, or is it in another Unicode form, or (without `case`) but for case;
    the name itself where none is."""

    def plain(text: str) -> str:
        return unicodedata.normalize("NFC", text if case else unicodedata.normalize("NFC", text).casefold())

    return name if name in known else next((k for k in known if plain(k) == plain(name)), name)


def counted(n: int, what: str) -> str:
    """The number and the noun: "1 file", "2 files"."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
