"""The papers that the works come from: how a reader finds and cites them.

Example:
    >>> glasgow = papers()["xor_sgd"]
    >>> glasgow.short, glasgow.url
    ('Glasgow (2024)', 'https://arxiv.org/abs/2309.15111')
    >>> readable("xor_sgd.txt section 2.1, lines 410-422")
    'Glasgow (2024), section 2.1'
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_LINES = r"\b(?:thesis )?lines? \d{3,5}(?:\s*[-–]\s*\d{3,5})?(?:(?:, | and )\d{3,5}(?:\s*[-–]\s*\d{3,5})?)*"
_IN_BRACKETS = re.compile(rf" ?\({_LINES}\)")
_LOOSE = re.compile(rf"(?:,| at)? ?{_LINES}")


@dataclass(frozen=True, kw_only=True)
class Paper:
    """One paper. kind: that of its BibTeX record. arxiv: its id there, or "". document: the name of its text file."""

    key: str
    kind: str
    title: str
    authors: tuple[str, ...]
    venue: str
    year: int
    arxiv: str = ""
    document: str = ""

    @property
    def url(self) -> str:
        """Where it can be read, or "" for one that is not on arXiv."""
        return f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else ""

    @property
    def short(self) -> str:
        """Surnames and year."""
        names = [a.split()[-1] for a in self.authors]
        who = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        return f"{who if len(names) < 4 else names[0] + ' et al.'} ({self.year})"

    @property
    def full(self) -> str:
        """Authors, title, venue and year in one line."""
        where = f"{self.venue} {self.year}" if self.venue else str(self.year)
        return f"{', '.join(self.authors)}. {self.title}. {where}."

    @property
    def bibtex(self) -> str:
        """A BibTeX record."""
        home = {"article": "journal", "inproceedings": "booktitle", "phdthesis": "school"}.get(self.kind)
        venue = self.venue.removeprefix("PhD thesis, ")
        fields = {"title": f"{{{self.title}}}", "author": " and ".join(self.authors), "year": str(self.year)}
        fields |= {home: venue} if home and venue else {}
        fields |= {"eprint": self.arxiv, "archiveprefix": "arXiv", "url": self.url} if self.arxiv else {}
        name = re.sub(r"\W|_", "", f"{self.authors[0].split()[-1].lower()}{self.year}{self.key}")
        body = ",\n".join(f"  {k} = {{{v}}}" for k, v in fields.items())
        return f"@{self.kind}{{{name},\n{body}\n}}"


@cache
def papers() -> Mapping[str, Paper]:
    """Every paper by its key: the work that it founds, or `thesis`."""
    data = tomllib.loads(files("featlearn").joinpath("works", "papers.toml").read_text(encoding="utf-8"))
    found: dict[str, Paper] = {}
    for key, raw in data.items():
        authors = tuple(raw.pop("authors"))
        found[key] = Paper(key=key, authors=authors, **raw)
    return found


@cache
def _documents() -> Mapping[str, str]:
    return {p.document: p.short for p in papers().values() if p.document}


def readable(text: str) -> str:
    """A text of the inventory for readers: papers by authors and year in place of files, without the files' lines."""
    for name, said in _documents().items():
        text = re.sub(rf"\b{name}\.txt(?=[,.;:)]|$)", said, text)
        text = re.sub(rf"\b{name}\.txt ", f"{said}, ", text)
    return _LOOSE.sub("", _IN_BRACKETS.sub("", text))


def readable_all(value: Any) -> Any:
    """The same for every text in lists and mappings."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, Mapping):
        return {k: readable_all(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(readable_all(v) for v in value)
    return value
