"""Which claims of a work run which lines, so that a mutant costs the claims that reach it and not all of its work."""

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mutate_kinds import Mutant

ENGINE = ("apply", "core", "data", "kernels", "learn", "measure", "methods", "nets", "tasks")
"""Rooms whose code claims run. The lab that judges, the reports and the commands are not what a claim is about."""
IMPORT = ""
"""In place of a claim: the line ran while modules were imported."""


@dataclass(frozen=True)
class Reach:
    """What `verify` of an unmutated work came to and ran. shown, seconds: by claim; lines: file -> line -> claims."""

    work: str
    shown: Mapping[str, Any]
    seconds: Mapping[str, float]
    lines: Mapping[str, Mapping[int, frozenset[str]]]

    @classmethod
    def of(cls, work: str, found: Mapping[str, Any]) -> "Reach":
        """From the answer to a request to trace."""
        lines: dict[str, dict[int, frozenset[str]]] = {}
        for claim, files in found["ran"].items():
            for file, numbers in files.items():
                here = lines.setdefault(file, {})
                for n in numbers:
                    here[n] = here.get(n, frozenset()) | {claim}
        return cls(work, found["shown"], found["seconds"], lines)

    def near(self, file: str) -> set[str]:
        """The claims that run a line of a file."""
        return set().union(*self.lines.get(file, {}).values()) - {IMPORT}

    def claims(self, file: str, line: int, statement: tuple[int, int]) -> list[str]:
        """The claims that may notice an edit of a line, likely and cheap ones first.

        statement: its first and last line. What ran at import (a constant, a default) may reach any claim: those that
        run the file come first.
        """
        by_line = self.lines.get(file, {})
        here = by_line.get(line) or set().union(*(by_line.get(n, ()) for n in range(statement[0], statement[1] + 1)))
        likely = [here - {IMPORT}]
        if IMPORT in here:
            likely += [self.near(file), set(self.seconds)]
        ordered = [c for some in likely for c in sorted(some, key=lambda c: (self.seconds[c], c))]
        return list(dict.fromkeys(ordered))


def about_claims(file: str, work: str) -> bool:
    """Whether a file is one of those whose mutants `verify` of a work has to notice."""
    room, *rest = file.removeprefix("src/featlearn/").split("/")
    if room == "works":
        return rest[0] == work and rest[1:2] != ["experiments"] and rest[-1] not in ("rows.py", "__init__.py")
    return room in ENGINE


def statements(source: bytes) -> list[tuple[int, int]]:
    """First and last line of every statement; of one with a body, of what stands before it."""
    out = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            out.append((first, max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno))
    return out


def around(line: int, found: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The shortest statement that a line is part of."""
    return min((s for s in found if s[0] <= line <= s[1]), key=lambda s: s[1] - s[0], default=(line, line))


def reached(
    found: Mapping[str, Iterable[tuple[Mutant, ...]]], sources: Mapping[str, bytes], reach: Reach
) -> tuple[dict[str, list[tuple[Mutant, ...]]], dict[Mutant, list[str]]]:
    """Of the places in each file those that claims reach, and for each mutant there the claims in order."""
    places: dict[str, list[tuple[Mutant, ...]]] = {}
    order: dict[Mutant, list[str]] = {}
    for file, all_places in found.items():
        near = reach.near(file)
        spans = statements(sources[file])
        for place in all_places:
            claims = reach.claims(file, place[0].line, around(place[0].line, spans)) if near else []
            if claims:
                places.setdefault(file, []).append(place)
                order.update(dict.fromkeys(place, claims))
    return places, order
