"""Rows for other tools: LaTeX, CSV, parquet."""

import csv
import importlib
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from featlearn.errors import ReportError
from featlearn.lab.experiment import SummaryRow
from featlearn.report import tables

FORMATS = ("latex", "csv", "parquet")
_TEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "∞": r"$\infty$",
}


def tex(text: str) -> str:
    """Text made safe for LaTeX."""
    return "".join(_TEX.get(c, c) for c in text)


def latex(rows: Sequence[SummaryRow], caption: str = "", label: str = "") -> str:
    r"""A booktabs table: one line per row, for every metric ours and the reported number side by side.

    Needs `\usepackage{booktabs}`. A dagger marks numbers that deviate from the paper.
    """
    grid = tables.wide(rows)
    sides = "".join("r" if side == "right" else "l" for _, side in grid.columns)
    body = [
        " & ".join(tex(c.removesuffix(" !")) + (r"$^\dagger$" if c.endswith(" !") else "") for c in r)
        for r in grid.rows
    ]
    out = [r"\begin{table}", r"  \centering"]
    if caption:
        out.append(rf"  \caption{{{tex(caption)}}}")
    if label:
        out.append(rf"  \label{{{label}}}")
    out += [rf"  \begin{{tabular}}{{{sides}}}", r"    \toprule"]
    out.append("    " + " & ".join(tex(name) for name, _ in grid.columns) + r" \\")
    out.append(r"    \midrule")
    out += [f"    {line} \\\\" for line in body]
    out += [r"    \bottomrule", r"  \end{tabular}"]
    if grid.note:
        out.append(r"  \par\smallskip\footnotesize $^\dagger$ deviates from the paper")
    out.append(r"\end{table}")
    return "\n".join(out) + "\n"


def csv_text(rows: Sequence[SummaryRow | Mapping[str, Any]]) -> str:
    """Rows as CSV: a header, an empty field for None, floats to their last bit so that reading gives them back."""
    records = [_record(r) for r in rows]
    names = list(dict.fromkeys(k for r in records for k in r))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for r in records:
        writer.writerow(["" if r.get(k) is None else _exact(r[k]) for k in names])
    return out.getvalue()


def read_summary(text: str) -> list[SummaryRow]:
    """Summary rows from the CSV that `csv_text` wrote.

    Errors: ReportError where a column is missing or a field is not a number.
    """
    types = {f.name: f.type for f in fields(SummaryRow)}
    rows = []
    for i, record in enumerate(csv.DictReader(io.StringIO(text)), start=2):
        if missing := [k for k in types if record.get(k) is None]:
            raise ReportError(f"column {missing[0]!r} is missing in line {i}: export the summary again with --to csv")
        try:
            rows.append(SummaryRow(**{k: _read(k, record[k]) for k in types}))
        except ValueError as error:
            raise ReportError(
                f"line {i} of the CSV is not a summary row: {error}; export it again with --to csv"
            ) from error
    return rows


def write(
    rows: Sequence[SummaryRow | Mapping[str, Any]],
    path: Path | str,
    to: str,
    *,
    caption: str = "",
    label: str = "",
    overwrite: bool = False,
) -> Path:
    """Write rows to one file, whole or not at all.

    to: "latex" (summary rows only), "csv" or "parquet".
    Errors, before anything is written: ReportError for an unknown format, no rows, an existing file without
    `overwrite`, rows that LaTeX cannot show, or parquet without pyarrow.
    """
    path = Path(path)
    if to not in FORMATS:
        raise ReportError(f"to = {to!r} is not allowed: one of {', '.join(FORMATS)}; choose one of them")
    if not rows:
        raise ReportError("rows = [] is not allowed: at least one row; run the experiment first")
    if path.exists() and not overwrite:
        raise ReportError(f"path = {path} is not allowed: it exists; choose another name or pass overwrite")
    if to == "latex":
        summary = [r for r in rows if isinstance(r, SummaryRow)]
        if len(summary) != len(rows):
            raise ReportError("to = 'latex' is not allowed: only summary rows have a table; choose csv or parquet")
        data = latex(summary, caption, label).encode()
    elif to == "csv":
        data = csv_text(rows).encode()
    else:
        data = _parquet(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, data)
    return path


def replace(path: Path, data: bytes) -> None:
    """Write beside the file and rename, so that a reader never sees half of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _parquet(rows: Sequence[SummaryRow | Mapping[str, Any]]) -> bytes:
    try:
        pyarrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ReportError(
            "to = 'parquet' needs pyarrow, which is not installed: pip install pyarrow, or choose csv"
        ) from error
    records = [_record(r) for r in rows]
    columns: dict[str, list[Any]] = {
        k: [r.get(k) for r in records] for k in dict.fromkeys(k for r in records for k in r)
    }
    for name, column in columns.items():
        if len({type(v) if not isinstance(v, int | float) else float for v in column if v is not None}) > 1:
            columns[name] = [None if v is None else str(v) for v in column]  # a column of one file has one type
    out = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), out)
    return out.getvalue()


def _record(row: SummaryRow | Mapping[str, Any]) -> dict[str, Any]:
    return asdict(row) if isinstance(row, SummaryRow) else dict(row)


def _exact(value: Any) -> Any:
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()  # numpy scalars print as np.float64(…) under repr
    return repr(value) if isinstance(value, float) else value


def _read(name: str, text: str) -> Any:
    if name == "n":
        return int(text)
    if name in ("reported", "tolerance"):
        return float(text) if text else None
    return float(text) if name in ("value", "low", "high") else text
