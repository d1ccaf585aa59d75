"""What became of mutants: results, their report and file, and the reasons of those that nothing can notice."""

import json
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutate_kinds import KINDS, Mutant


class MutateError(Exception):
    """A run that cannot start or go on: one line."""


@dataclass(frozen=True)
class Result:
    """What became of a mutant. state: killed, survived or explained. by: what noticed it; why: how, or the reason."""

    mutant: Mutant
    state: str
    by: str = ""
    why: str = ""
    seconds: float = 0.0

    def plain(self) -> dict[str, Any]:
        """As the file of results keeps it."""
        m = self.mutant
        return {
            "mutant": m.name,
            "within": m.within,
            "code": m.code,
            "state": self.state,
            "by": self.by,
            "why": self.why,
        }


def reasons(path: Path) -> dict[tuple[str, str, str], str]:
    """(file, label, line of code) -> why nothing can notice it. The line's number is not compared: lines move."""
    if not path.exists():
        return {}
    out = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("survivor", []):
        missing = {"mutant", "code", "reason"} - entry.keys()
        if missing:
            raise MutateError(f"{path.name}: an entry lacks {', '.join(sorted(missing))}: copy it from the report")
        file, _, label = entry["mutant"].split(":", 2)
        out[file, label, entry["code"]] = entry["reason"]
    return out


def key_of(m: Mutant) -> tuple[str, str, str]:
    """By what a reason finds its mutant."""
    return m.file, m.label, m.code


def line_of(r: Result) -> str:
    """One line on a result."""
    return f"{r.state:9} {r.mutant.name}  {r.seconds:.0f} s  {f'{r.by}: {r.why}' if r.by else r.why}".rstrip()


def report(
    found: Sequence[Result],
    sees_edits: Mapping[str, Iterable[str]],
    red: Collection[str],
    seconds: float,
    known: Mapping[Any, str],
) -> str:
    """Counts, and every survivor as an entry for the file of reasons."""
    counts = Counter(r.state for r in found)
    died = counts["killed"]
    by = ", ".join(f"{n} by {k}" for k, n in Counter(r.by for r in found if r.by).most_common())
    lines = [f"{died} of {len(found)} died ({100 * died / max(len(found), 1):.1f} %: {by or 'none'})"]
    lines[0] += f", {counts['survived']} survived, {counts['explained']} survived with a reason; {seconds / 60:.1f} min"
    for kind in KINDS:
        of = [r for r in found if r.mutant.kind == kind]
        if of:
            lines.append(f"  {kind:9} {sum(r.state == 'killed' for r in of)} of {len(of)}")
    for r in found:
        if r.state == "killed" and key_of(r.mutant) in known:
            lines.append(f"has a reason but died, so the reason is wrong: {r.mutant.name}")
    for file, names in sorted((f, n) for f, n in sees_edits.items() if n):
        lines.append(f"not counted for {file}, since any edit turns it red: {', '.join(sorted(names))}")
    if red:
        lines.append(f"left out, red before any edit: {', '.join(sorted(red))}")
    for r in found:
        if r.state == "survived":
            entry = [f"mutant = {_quoted(r.mutant.name)}", f"code = {_quoted(r.mutant.code)}", 'reason = ""']
            lines += ["", "[[survivor]]", *entry]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def write(path: Path, found: Sequence[Result], settings: Mapping[str, Any]) -> None:
    """The file of results: settings, counts, then one line a mutant, sorted by name; no times."""
    counts = Counter(r.state for r in found)
    head = {**settings, "tried": len(found), **{s: counts[s] for s in ("killed", "explained", "survived")}}
    head["by"] = dict(sorted(Counter(r.by for r in found if r.by).items()))
    rows = [json.dumps(r.plain(), ensure_ascii=False) for r in sorted(found, key=lambda r: r.mutant.name)]
    body = (
        json.dumps(head, indent=1, ensure_ascii=False)[:-2] + ',\n "mutants": [\n  ' + ",\n  ".join(rows) + "\n ]\n}\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body, encoding="utf-8")


def difference(before: Any, now: Any, place: str = "") -> str:
    """The first place at which two documents differ, in words."""
    if isinstance(before, dict) and isinstance(now, dict):
        place = f"{place} {before.get('id') or before.get('name') or ''}".strip()
        found = (difference(v, now[k], f"{place} {k}") for k, v in before.items() if k in now and v != now[k])
        return next(found, "")
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return next((difference(a, b, place) for a, b in zip(before, now, strict=True) if a != b), "")
    return f"{place}: {before} -> {now}"[:200]
