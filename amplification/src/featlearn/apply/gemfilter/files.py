"""Texts and questions of yours, read with the line number of whatever is wrong in them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from featlearn.core import SettingError


def text_of(path: str | Path, field: str = "prompt-file") -> str:
    """The text of a file; SettingError where it is missing, no UTF-8, or without words."""
    path = Path(path)
    if not path.is_file():
        raise SettingError(field, path, "a text file that exists", "check the path")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise SettingError(field, path, "a readable UTF-8 text", f"it is none ({type(e).__name__})") from None
    if not text.strip():
        raise SettingError(field, path, "a text with words in it", "the prompt is empty")
    return text


def lines_of(path: str | Path, field: str = "file") -> Iterator[tuple[str, dict[str, Any]]]:
    """("path:line", object) for every line of a JSONL file that is not blank; SettingError names the line."""
    found = 0
    for number, line in enumerate(text_of(path, field).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            data = json.loads(line)
        except ValueError as e:
            raise SettingError(field, where, "one JSON object a line", f"this line is no JSON ({e})") from None
        if not isinstance(data, dict):
            raise SettingError(field, where, "one JSON object a line", f"this line is a {type(data).__name__}")
        found += 1
        yield where, data


def word(data: dict[str, Any], name: str, where: str, field: str = "file", empty: bool = False) -> str:
    """A text field of an object; SettingError names the line where it is missing, no text, or empty."""
    value = data.get(name)
    if not isinstance(value, str) or (not value.strip() and not empty):
        has = ", ".join(data) or "nothing"
        problem = f"{name!r} is missing among {has}" if name not in data else f"{name!r} is no text with words in it"
        raise SettingError(field, where, f"an object with {name!r}, a text", problem)
    return value


def words(data: dict[str, Any], names: Sequence[str], where: str, field: str = "file") -> tuple[str, ...]:
    """One or several texts under the first of `names` that is there."""
    name = next((n for n in names if n in data), names[0])
    value = data.get(name)
    if isinstance(value, list) and value and all(isinstance(v, str) and v.strip() for v in value):
        return tuple(value)
    return (word(data, name, where, field),)
