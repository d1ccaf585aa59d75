"""A CSV file of images as rows of (path, label, domain); whatever is wrong with it is named with its line."""

import csv
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from featlearn.data.names import SHOWN, counted, shown
from featlearn.errors import DataError

NEEDED = ("path", "label", "domain")
_OTHERS = (
    (b"PK\3\4", "a .zip or .xlsx file", "unpack it, or save the sheet as CSV"),
    (b"\x1f\x8b", "a .gz file", "unpack it"),
    (b"BZh", "a .bz2 file", "unpack it"),
    (b"\xfd7zXZ", "a .xz file", "unpack it"),
    (b"7z\xbc\xaf", "a .7z file", "unpack it"),
    (b"Rar!", "a .rar file", "unpack it"),
    (b"PAR1", "a parquet file", "save it as CSV"),
    (b"\x93NUMPY", "a NumPy array", "save its pictures as PNG"),
    (b"\x89HDF", "an HDF5 file", "save its pictures as PNG"),
    (b"\x89PNG", "an image", "give the folder of domain/class/image that holds it"),
    (b"\xff\xd8\xff", "an image", "give the folder of domain/class/image that holds it"),
    (b"\xff\xfe", "text in UTF-16", "save it as UTF-8"),
    (b"\xfe\xff", "text in UTF-16", "save it as UTF-8"),
)
_SEPARATORS = ((";", "semicolons"), ("\t", "tabs"), ("|", "bars"))


@dataclass(frozen=True)
class Row:
    """A line of the table; path as it stands there; columns: what the others hold, by name."""

    path: Path
    label: str
    domain: str
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Rows:
    """All lines; remarks: what was read in another way than it is written; hint: why no file may be found."""

    rows: list[Row] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def hint(self, base: Path) -> str:
        """Where relative paths were looked for, and where they would be found instead."""
        relative = [r.path for r in self.rows if not r.path.is_absolute()]
        if not relative:
            return "the table has absolute paths: are they of another machine?"
        tried = [Path.cwd(), base.parent, *(p for p in sorted(base.iterdir()) if p.is_dir())] if base.is_dir() else []
        elsewhere = next((folder for folder in tried if os.path.isfile(folder / relative[0])), None)
        where = f"relative paths count from the folder of the table, {shown(base.resolve())}"
        return f"{where}, but are found from {shown(elsewhere.resolve())}" if elsewhere else where


def rows_of(path: Path) -> Rows:
    """The lines of a CSV file with the columns path, label and domain; others are kept as they are.

    Bytes of a path that are not UTF-8 are kept; white space around values is not.

    Errors: DataError, one line: no CSV file, another separator, a column missing or there twice, a line with too few or
    too many values, or with a label or domain that goes on in the next.
    """
    _is_text(path)
    found = Rows()
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as f:
            rows = csv.reader(_without_nul(f), skipinitialspace=True)
            names = [name.strip() for name in next(rows, [])]
            _has_columns(path, names)
            where = {name: names.index(name) for name in NEEDED}
            line = rows.line_num + 1
            for values in rows:
                if any(v.strip() for v in values):
                    found.rows.append(_row(path, line, names, values, where))
                line = rows.line_num + 1
    except (OSError, csv.Error) as why:
        raise DataError(f"{shown(path)} cannot be read as UTF-8 CSV ({why}); save it anew") from None
    if not found.rows:
        raise DataError(f"{shown(path)} has no line below its names; add one per image")
    return found


def _without_nul(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if "\0" in line:
            raise csv.Error("it holds bytes of value 0")
        yield line


def _is_text(path: Path) -> None:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        raise DataError(
            f"data = {shown(path)!r} does not exist; give a .csv file with the columns path, label, domain"
        ) from None
    if not stat.S_ISREG(mode):
        raise DataError(
            f"data = {shown(path)!r} is neither a folder nor a file; give one of domain/class/image, or a .csv"
        )
    try:
        with open(path, "rb") as f:
            head = f.read(512)
    except OSError as why:
        raise DataError(f"{shown(path)} cannot be read as UTF-8 CSV ({why.strerror}); make it readable") from None
    for start, what, remedy in _OTHERS:
        if head.startswith(start):
            raise DataError(f"data = {shown(path)!r} is {what} and no UTF-8 CSV file; {remedy}")
    if head[257:262] == b"ustar":
        raise DataError(f"data = {shown(path)!r} is a .tar file and no UTF-8 CSV file; unpack it")


def _has_columns(path: Path, names: Sequence[str]) -> None:
    missing = [name for name in NEEDED if name not in names]
    if missing:
        has = ", ".join(shown(n) for n in names)[:200] or "nothing"
        remedy = "name all three"
        whole = ",".join(names)
        other = next(((sign, what) for sign, what in _SEPARATORS if sign in whole), None)
        if other and set(NEEDED) & {n.strip().strip('"').casefold() for n in whole.split(other[0])}:
            remedy = f"it separates values by {other[1]}: save it with commas"
        elif {n.casefold() for n in names} >= set(NEEDED):
            remedy = "write them in lower case"
        raise DataError(f"{shown(path)} has no column {', '.join(missing)} (its first line: {has}); {remedy}")
    twice = [name for name in dict.fromkeys(names) if name and list(names).count(name) > 1]
    if twice:
        raise DataError(f"{shown(path)} has the column {', '.join(map(shown, twice))} more than once; keep one")


def _row(path: Path, line: int, names: Sequence[str], values: Sequence[str], where: dict[str, int]) -> Row:
    if any(v.strip() for v in values[len(names) :]):
        raise DataError(
            f"{shown(path)}, line {line}: {len(values)} values for {len(names)} columns; quote those with commas"
        )
    picked = {name: values[i] if i < len(values) else "" for name, i in where.items()}
    empty = [name for name in NEEDED if not picked[name].strip()]
    if empty:
        raise DataError(f"{shown(path)}, line {line}: no {', '.join(empty)}; fill it or remove the line")
    for name in ("label", "domain"):
        if len(picked[name].strip().splitlines()) > 1:
            raise DataError(
                f"{shown(path)}, line {line}: the {name} goes on in the next line; is a quote not closed? Close it, or "
                "take the line end out"
            )
        if any("\udc80" <= c <= "\udcff" for c in picked[name]):
            raise DataError(
                f"{shown(path)}, line {line}: {name} {shown(picked[name])!r} is not UTF-8; save the table as UTF-8"
            )
    others = {name: i for i, name in enumerate(names) if name and name not in NEEDED}
    columns = {shown(name): values[i].strip() if i < len(values) else "" for name, i in others.items()}
    file, label, domain = (picked[name].strip() for name in NEEDED)
    return Row(Path(os.path.expanduser(file)), label, domain, columns)


def resolved(found: Rows, base: Path) -> list[Path]:
    """Files of the rows: relative paths count from `base`. Where no file is there, backslashes are read as slashes."""
    out, turned = [], []
    for row in found.rows:
        path = base / row.path
        if "\\" in str(row.path) and not os.path.lexists(path):
            other = base / str(row.path).replace("\\", "/")
            if os.path.lexists(other):
                turned.append(row.path)
                path = other
        out.append(path)
    if turned:
        names = ", ".join(shown(p) for p in turned[:SHOWN]) + (", ..." if len(turned) > SHOWN else "")
        found.remarks.append(f"{counted(len(turned), 'path')} with backslashes read as folders: {names}")
    return out
