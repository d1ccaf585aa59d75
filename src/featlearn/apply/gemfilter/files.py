"""Texts and questions of yours, read with the line number of whatever is wrong in them."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from featlearn.core import SettingError

STDIN = "-"
"""The path that means the standard input."""


def text_of(path: str | Path, field: str = "prompt-file") -> str:
    """The text of a file, a pipe, or "-", the standard input; SettingError where it is missing or no UTF-8 text with
    words. The mark that some editors put before UTF-8 is no part of it."""
    name = "the standard input" if str(path) == STDIN else shown_path(path)
    try:
        if str(path) == STDIN:
            data = sys.stdin.buffer.read()
        elif not Path(path).exists() or not str(path):
            raise SettingError(field, name, "a text file that exists", "check the path")
        elif Path(path).is_dir():
            raise SettingError(field, name, "a text file that exists", "it is a folder")
        else:
            data = Path(path).read_bytes()
    except (OSError, ValueError, AttributeError) as e:  # AttributeError: no standard input at all
        if isinstance(e, SettingError):
            raise
        why = getattr(e, "strerror", None) or str(e) or type(e).__name__
        raise SettingError(field, name, "a text file that can be read", why) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        told = f"byte {e.start} is none of UTF-8: convert it with iconv -f latin1 -t utf-8, or what it is written in"
        raise SettingError(field, name, "a readable UTF-8 text", told) from None
    if "\0" in text:
        told = "it holds NUL bytes: it is UTF-16 without a mark, or no text"
        raise SettingError(field, name, "a readable UTF-8 text", told)
    if not text.strip():
        raise SettingError(field, name, "a text with words in it", "the prompt is empty")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def shown_path(path: str | Path) -> str:
    """A path in one short line."""
    told = str(path)
    told = told if told.isprintable() else ascii(told)
    return told if len(told) <= 200 else f"{told[:80]}...{told[-80:]}"


def lines_of(path: str | Path, field: str = "file") -> Iterator[tuple[str, dict[str, Any]]]:
    """("path:line", object) for every line of a JSONL file that is not blank; SettingError names the line."""
    name = "stdin" if str(path) == STDIN else path
    for number, line in enumerate(text_of(path, field).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        try:
            data = json.loads(line)
        except ValueError as e:
            raise SettingError(field, where, "one JSON object a line", f"this line is no JSON ({e})") from None
        except RecursionError:
            raise SettingError(field, where, "one JSON object a line", "this line is nested too deeply") from None
        if not isinstance(data, dict):
            raise SettingError(field, where, "one JSON object a line", f"this line is a {type(data).__name__}")
        yield where, data


def word(data: dict[str, Any], name: str, where: str, field: str = "file", empty: bool = False) -> str:
    """A text field of an object; SettingError names the line where it is missing, no text, or empty."""
    value = data.get(name)
    if not isinstance(value, str) or (not value.strip() and not empty):
        has = ", ".join(data) or "nothing"
        problem = f"{name!r} is missing among {has}" if name not in data else f"{name!r} is no text with words in it"
        raise SettingError(field, where, f"an object with {name!r}, a text", problem)
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise SettingError(field, where, f"whole characters in {name!r}", "it holds half of a surrogate pair")
    return value


def words(data: dict[str, Any], names: Sequence[str], where: str, field: str = "file") -> tuple[str, ...]:
    """One or several texts under the first of `names` that is there; the last is the one that messages ask for."""
    name = next((n for n in names if n in data), names[-1])
    value = data.get(name)
    if isinstance(value, list) and value and all(isinstance(v, str) and v.strip() for v in value):
        return tuple(word({name: v}, name, where, field) for v in value)
    return (word(data, name, where, field),)
