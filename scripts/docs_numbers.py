"""Write the tables of our own results in docs/*.md from committed rows, each number with its interval, n and unit.

    python scripts/docs_numbers.py

A table stands between `<!-- numbers: begin ID METRIC: ROW, ROW -->` and `<!-- numbers: end -->`: that metric of that
experiment's summary, a line for each setting, a column for each row named. A mean in which runs that diverged count as
a guess is marked.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from featlearn import works
from featlearn.catalog import layers
from featlearn.lab.experiment import Experiment, SummaryRow
from featlearn.lab.find import latest_complete
from featlearn.report import tables

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"(<!-- numbers: begin (\S+) ([^:]+): ([^>]+) -->\n).*?(<!-- numbers: end -->)", re.S)

DIVERGED, MARK = "runs that diverged", "†"


def summary(id_: str) -> tuple[Experiment, Sequence[SummaryRow], str]:
    """An experiment, its summary over the committed rows, and the command that makes them."""
    experiment = works.load_experiment(id_)
    found = latest_complete(experiment, layers("runs-that-are-not-there"), ("paper", "cpu"))
    if found is None:
        raise SystemExit(f"{id_} has no committed rows: commit them, or drop its table")
    return experiment, experiment.summarise(found.table), f"featlearn run {id_} --preset {found.preset}"


def table(id_: str, metric: str, names: Sequence[str]) -> str:
    """The Markdown of one table, with how to make it below."""
    experiment, rows, command = summary(id_)
    at = {(r.setting, r.row): r for r in rows if r.metric == metric and r.row in names}
    if missing := [n for n in names if n not in {row for _, row in at}]:
        raise SystemExit(f"{id_}: no row {missing[0]!r} with {metric}: one of {', '.join({r.row for r in rows})}")
    settings = list(dict.fromkeys(s for s, _ in at))
    units = {k.unit for k in experiment.rows}
    lost = {(r.setting, r.row): r.value for r in rows if r.metric == DIVERGED and (r.setting, r.row) in at}
    head = ["", *names, "n"]
    lines = [head, ["---"] * len(head)]
    for s in settings:
        found = [at.get((s, n)) for n in names]
        counts = {r.n for r in found if r is not None}
        marks = [MARK if (s, n) in lost else "" for n in names]
        shown = [_cell(r) + mark for r, mark in zip(found, marks, strict=True)]
        lines.append([s, *shown, " to ".join(map(str, sorted(counts)))])
    said = [f"{metric} in {u}" if u else metric for u in dict.fromkeys(r.unit for r in at.values())]
    what = " or, for paired differences, ".join([said[0], *(u.partition(" in ")[2] for u in said[1:])])
    says = f"Mean {what} with its 95 % interval; n units, each a {' or '.join(sorted(units))}: `{command}`."
    for value, n in dict.fromkeys((value, at[where].n) for where, value in lost.items()):
        says += f" {MARK} {value:g} of {n} runs diverged and count as a guess."
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{says}\n"


def _cell(r: SummaryRow | None) -> str:
    if r is None:
        return "–"
    return tables.value(r) if r.n < 2 else f"{tables.value(r)} {tables.interval(r)}"


def filled(text: str) -> str:
    """A page with its tables as the rows are now."""

    def fill(found: re.Match[str]) -> str:
        return found[1] + table(found[2], found[3], [n.strip() for n in found[4].split(",")]) + found[5]

    return BLOCK.sub(fill, text)


if __name__ == "__main__":
    for path in sorted(DOCS.glob("*.md")):
        before = path.read_text(encoding="utf-8")
        if (after := filled(before)) != before:
            path.write_text(after, encoding="utf-8")
            print(f"docs/{path.name}: tables of numbers written")
