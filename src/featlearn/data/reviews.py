"""Short texts of two classes: rated snippets that `featlearn data` brings, or a two-column file of the user's."""

import csv
import html
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from featlearn.data.download import fetch, find
from featlearn.data.names import shown
from featlearn.errors import DataError, DataUnavailable

COLLECTION = "reviews"
NAMES = {
    "movies": "movieReviewSnippets_GroundTruth.txt",
    "products": "amazonReviewSnippets_GroundTruth.txt",
    "editorials": "nytEditorialSnippets_GroundTruth.txt",
    "tweets": "tweets_GroundTruth.txt",
}
WORDS = ("negative", "positive")
NEUTRAL = 1.0
"""Snippets whose mean rating lies nearer to 0 than this, of -4 to 4, are left out: the neutral middle."""
TEXT_COLUMNS, LABEL_COLUMN = ("text", "sentence"), "label"


@dataclass(frozen=True)
class Labelled:
    """Different texts of two classes. labels: 0 or 1, one a text; words: what the classes are called, in that order.

    Errors: DataError for a class without a text.
    """

    name: str
    texts: tuple[str, ...]
    labels: tuple[int, ...]
    words: tuple[str, str]

    def __post_init__(self) -> None:
        counts = Counter(self.labels)
        if set(counts) != {0, 1} or len(self.texts) != len(self.labels):
            raise DataError(f"{self.name}: {len(counts)} classes are not allowed: two; keep the lines of two of them")


def labelled(name: str | Path) -> tuple[Labelled, ...]:
    """The four tasks of `reviews` (fetched when they are not here yet), or the one task of a file of the user's.

    The file is UTF-8 with values separated by commas or tabs; its first line names the columns `text` (or `sentence`)
    and `label`, in either order, and its labels have two values, which are the words of the classes in sorted order.
    White space within a text, line ends too, becomes one space; of equal texts the first one counts.

    Errors: DataError, one line, for a file that is not there, has other columns, an empty value (with its line), more
    or fewer than two labels; what `fetch` raises.

    Example:
        >>> [task.name for task in labelled("reviews")]
        ['movies', 'products', 'editorials', 'tweets']
    """
    check_dataset(name)
    if name == COLLECTION:
        return _reviews()
    return (_of_file(Path(name).expanduser()),)


def check_dataset(name: str | Path) -> None:
    """DataError for a name that is neither `reviews` nor a file. Reads nothing."""
    if name != COLLECTION and not Path(name).expanduser().is_file():
        raise DataError(
            f"dataset = {shown(str(name))!r} is not allowed: {COLLECTION}, or a .csv or .tsv file with the columns text"
            " and label; check the path"
        )


@lru_cache(maxsize=1)
def _reviews() -> tuple[Labelled, ...]:
    try:
        files = find(COLLECTION)
    except DataError:
        fetch(COLLECTION)
        files = find(COLLECTION)
    found = []
    for name, file in NAMES.items():
        try:
            lines = files[file].read_text(encoding="utf-8-sig").split("\n")
            rows = [line.split("\t") for line in lines if line.strip()]
            rated = [(html.unescape(html.unescape(text)), float(rating)) for _, rating, text in rows]
        except (OSError, ValueError) as why:
            raise DataUnavailable(
                f"{files[file]} is damaged ({why}); run `featlearn data fetch {COLLECTION}` to replace it"
            ) from None
        clear = [(text, int(rating > 0)) for text, rating in rated if abs(rating) >= NEUTRAL]
        found.append(_task(name, clear, WORDS))
    return tuple(found)


def _task(name: str, rows: Iterable[tuple[str, int]], words: tuple[str, str]) -> Labelled:
    unique: dict[str, tuple[str, int]] = {}
    for text, label in rows:
        plain = " ".join(text.split())
        unique.setdefault(plain.casefold(), (plain, label))
    return Labelled(name, tuple(t for t, _ in unique.values()), tuple(y for _, y in unique.values()), words)


def _of_file(path: Path) -> Labelled:
    where = shown(path)
    try:
        with open(path, encoding="utf-8-sig", newline="") as f:
            first = f.readline()
            f.seek(0)
            tabs = "\t" in first
            reader = csv.reader(f, delimiter="\t", quoting=csv.QUOTE_NONE) if tabs else csv.reader(f, strict=True)
            lines = [(reader.line_num, values) for values in reader if any(v.strip() for v in values)]
    except (OSError, UnicodeDecodeError, csv.Error) as why:
        raise DataError(f"{where} cannot be read as UTF-8 with commas or tabs ({why}); save it anew") from None
    names = [v.strip().casefold() for v in lines[0][1]] if lines else []
    texts = [i for i, n in enumerate(names) if n in TEXT_COLUMNS]
    labels = [i for i, n in enumerate(names) if n == LABEL_COLUMN]
    if len(texts) != 1 or len(labels) != 1:
        raise DataError(
            f"{where} has no columns text and label, each once, but {shown(', '.join(names))[:80] or 'nothing'}; name "
            "them in its first line"
        )
    rows = [
        (line, _value(where, line, values, texts[0]), _value(where, line, values, labels[0]))
        for line, values in lines[1:]
    ]
    known = sorted({label for _, _, label in rows})
    if len(known) != 2:
        many = f"{len(known)} labels ({', '.join(map(shown, known[:4]))})" if known else "no labels"
        raise DataError(f"{where} has {many}, which is not allowed: two; keep the lines of two of them")
    return _task(path.stem, ((text, known.index(label)) for _, text, label in rows), (known[0], known[1]))


def _value(where: str, line: int, values: Sequence[str], i: int) -> str:
    value = " ".join(values[i].split()) if i < len(values) else ""
    if not value:
        raise DataError(f"{where}, line {line}: an empty text or label; fill it or remove the line")
    return value
