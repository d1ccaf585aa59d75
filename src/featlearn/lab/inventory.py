"""Every entry and every reported number of the eleven works: the reader of `works/<work>/work.toml`.

    >>> from featlearn.lab import inventory
    >>> inventory.entry("emergence.table1").says[:13]
    'Parity labels'
    >>> inventory.reported("emergence.table1", row="NTK", metric="test_acc")[0].value
    86.4

`numbers` keeps the paper as it stands; `reported` holds the same values as rows (setting, row, metric, value).
"""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from featlearn.errors import InventoryError
from featlearn.lab.citation import Paper, papers, readable, readable_all

__all__ = ["CHECK_KINDS", "WORKS", "Entry", "InventoryError", "Reported", "Work", "entry", "known", "load", "reported"]

WORKS: tuple[str, ...] = (
    "emergence",
    "gradient_features",
    "amplification",
    "xor_sgd",
    "resnet",
    "fourier",
    "icl_scale",
    "looped",
    "nuclear",
    "tradeoff",
    "gemfilter",
)

KINDS: tuple[str, ...] = (
    "algorithm",
    "corollary",
    "definition",
    "figure",
    "lemma",
    "method",
    "proposition",
    "table",
    "theorem",
)

CHECK_KINDS: tuple[str, ...] = ("exact", "statistical", "figure", "data-needed", "prose")
"""How an entry can be checked.

exact: an equality or inequality, decided without sampling. statistical: sampling or training, with a tolerance.
figure: a picture whose qualitative content is checked. data-needed: data or weights that nobody can bundle.
prose: nothing to compute.
"""


WAITS = "reason: data needed: "
"""How a reason begins that names data or weights which nobody can bundle."""


@dataclass(frozen=True, slots=True)
class Reported:
    """One reported number.

    `value` is in `unit`: "%" means percent (86.4, not 0.864), "" a pure number. `spread` is the reported deviation in
    the same unit, None where the paper has none. `setting` is "" where the entry has only one.
    """

    setting: str
    row: str
    metric: str
    value: float
    unit: str = ""
    spread: float | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One table, figure, statement or method of a work.

    `unstated`: what the paper leaves open. `ambiguities`, `ocr_or_source_issue`, `verified_by_hand`: errors and open
    readings found in it, and what checks by hand gave. `setting` and `numbers` are as reported, nested freely;
    `derived`: values that follow from what is reported but are not in the text; `own_runs`: results of runs of our
    own; `from_code`: what the released code does. `checks`: each single check, in words, with the statements that make
    it ("claim id: statement name") or "reason: ..." why none does. The mappings are shared by all callers: do not
    change them.
    """

    id: str
    work: str
    kind: str
    check_kind: str
    where: str
    says: str
    check: str
    cost: str
    unstated: tuple[str, ...]
    ambiguities: tuple[str, ...] = ()
    ocr_or_source_issue: str = ""
    setting: Mapping[str, Any] = field(default_factory=dict, hash=False)
    numbers: Mapping[str, Any] = field(default_factory=dict, hash=False)
    derived: Mapping[str, Any] = field(default_factory=dict, hash=False)
    own_runs: Mapping[str, Any] = field(default_factory=dict, hash=False)
    verified_by_hand: Mapping[str, Any] = field(default_factory=dict, hash=False)
    from_code: Mapping[str, Any] = field(default_factory=dict, hash=False)
    reported: tuple[Reported, ...] = ()
    checks: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why checks of it are not made, where none is."""
        found = [where for places in self.checks.values() for where in places]
        return tuple(w.removeprefix("reason: ") for w in found if all(f.startswith("reason: ") for f in found))

    @property
    def waits(self) -> str:
        """The data or weights that some check of it needs and nobody can bundle, with the command, or ""."""
        found = (where for places in self.checks.values() for where in places)
        return next((w.removeprefix(WAITS) for w in found if w.startswith(WAITS)), "")


@dataclass(frozen=True, slots=True)
class Work:
    """One body of work and its entries, in the order of the inventory.

    papers: those it comes from, its own first; read_in: the chapter of the thesis that holds it, or "". `notes`:
    notation and sources that entries share.
    """

    id: str
    title: str
    papers: tuple[Paper, ...]
    read_in: str
    about: str
    entries: tuple[Entry, ...]
    notes: str = ""


def load(work: str) -> Work:
    """The work called `work`, one of `WORKS`; read once per process.

    InventoryError: no such work, or its file breaks the format.

        >>> load("emergence").title
        'Features emerge in two gradient steps'
    """
    if work not in WORKS:
        raise InventoryError(f"no work {work!r}{_nearest(work, WORKS)}")
    return _index(work)[0]


def entry(id: str) -> Entry:
    """The entry `id`, for example "emergence.table1".

    InventoryError: no such entry; the message names the nearest one.
    """
    work = id.partition(".")[0]
    found = _index(work)[1].get(id) if work in WORKS else None
    if found is None:
        known = [e.id for w in ([work] if work in WORKS else WORKS) for e in load(w).entries]
        raise InventoryError(f"no entry {id!r}{_nearest(id, known)}")
    return found


def known(id: str) -> bool:
    """Whether there is an entry of this id."""
    work = id.partition(".")[0]
    return work in WORKS and id in _index(work)[1]


def reported(
    entry_id: str, *, row: str | None = None, metric: str | None = None, setting: str | None = None
) -> tuple[Reported, ...]:
    """The reported numbers of an entry, in the order of the paper, kept where they equal every filter given.

    Empty where nothing is reported: a cell shown as NA, or an entry without numbers. InventoryError: no such entry.

        >>> [p.value for p in reported("emergence.table3", row="NTK", metric="test_acc")]
        [81.5, 75.4]
    """
    return tuple(
        p
        for p in entry(entry_id).reported
        if row in (None, p.row) and metric in (None, p.metric) and setting in (None, p.setting)
    )


@cache
def _index(work: str) -> tuple[Work, dict[str, Entry]]:
    text = files("featlearn").joinpath("works", work, "work.toml").read_text(encoding="utf-8")
    parsed = _parse(text, work)
    return parsed, {e.id: e for e in parsed.entries}


_TEXT = ("where", "says", "check", "cost")
_TABLES = ("setting", "numbers", "derived", "own_runs", "verified_by_hand", "from_code")
_ENTRY_KEYS = frozenset(("id", "kind", "check_kind", "unstated", *_TEXT))
_ENTRY_OPTIONAL = frozenset(("ambiguities", "ocr_or_source_issue", "reported", "checks", *_TABLES))
_WORK_KEYS = frozenset(("id", "title", "papers", "about"))
_REPORTED_KEYS = frozenset(("row", "metric", "value"))
_REPORTED_OPTIONAL = frozenset(("setting", "unit", "spread"))


def _parse(text: str, work: str) -> Work:
    """The inventory file of `work`, checked key by key."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InventoryError(f"{work}.toml: {error}") from error
    _keys(data, frozenset(("work",)), frozenset(("entry",)), f"{work}.toml")
    head = data["work"]
    _keys(head, _WORK_KEYS, frozenset(("notes", "read_in")), f"{work}.toml: [work]")
    if head["id"] != work:
        raise InventoryError(f"{work}.toml: [work] has id {head['id']!r}, expected {work!r}")
    entries: dict[str, Entry] = {}
    for raw in data.get("entry", []):
        e = _entry(raw, work)
        if e.id in entries:
            raise InventoryError(f"{work}.toml: duplicate id {e.id!r}")
        entries[e.id] = e
    return Work(
        id=work,
        title=head["title"],
        papers=tuple(_paper(k, work) for k in _strings(head["papers"], f"{work}.toml: papers")),
        read_in=head.get("read_in", ""),
        about=head["about"],
        entries=tuple(entries.values()),
        notes=readable(head.get("notes", "")),
    )


def _paper(key: str, work: str) -> Paper:
    if key not in papers():
        raise InventoryError(f"{work}.toml: no paper {key!r} in papers.toml{_nearest(key, papers())}")
    return papers()[key]


def _entry(raw: dict[str, Any], work: str) -> Entry:
    where = f"{work}.toml: entry {raw.get('id')!r}"
    _keys(raw, _ENTRY_KEYS, _ENTRY_OPTIONAL, where)
    if not isinstance(raw["id"], str) or not raw["id"].startswith(f"{work}."):
        raise InventoryError(f"{where}: the id must start with {work + '.'!r}")
    _one_of(raw["kind"], KINDS, f"{where}: kind")
    _one_of(raw["check_kind"], CHECK_KINDS, f"{where}: check_kind")
    for key in (*_TEXT, "ocr_or_source_issue"):
        if not isinstance(raw.get(key, ""), str):
            raise InventoryError(f"{where}: {key} must be text")
    for key in _TABLES:
        if not isinstance(raw.get(key, {}), dict):
            raise InventoryError(f"{where}: {key} must be a table")
    return Entry(
        work=work,
        **{k: raw[k] for k in ("id", "kind", "check_kind")},
        **{k: readable(raw[k]) for k in _TEXT},
        **{k: readable_all(raw[k]) for k in ("ocr_or_source_issue", *_TABLES) if k in raw},
        unstated=readable_all(_strings(raw["unstated"], f"{where}: unstated")),
        ambiguities=readable_all(_strings(raw.get("ambiguities", []), f"{where}: ambiguities")),
        reported=_reported(raw.get("reported", []), where),
        checks=_checks(raw.get("checks", {}), where),
    )


def _checks(raw: object, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(raw, dict):
        raise InventoryError(f"{where}: checks must be a table")
    found = {k: (v,) if isinstance(v, str) else _strings(v, f"{where}: checks.{k}") for k, v in raw.items()}
    for words, places in found.items():
        for place in places:
            if ": " not in place:
                raise InventoryError(
                    f"{where}: checks.{words} is {place!r}, expected 'claim id: statement' or 'reason: ...'"
                )
    return found


def _reported(raw: list[dict[str, Any]], where: str) -> tuple[Reported, ...]:
    cells: dict[tuple[str, str, str], Reported] = {}
    for r in raw:
        _keys(r, _REPORTED_KEYS, _REPORTED_OPTIONAL, f"{where}: reported")
        key = (r.get("setting", ""), r["row"], r["metric"])
        for name in ("value", "spread"):
            if type(r.get(name, 0.0)) not in (int, float):  # bool is an int
                raise InventoryError(f"{where}: reported {key}: {name} must be a number")
        if key in cells:
            raise InventoryError(f"{where}: reported {key} occurs twice")
        spread = r.get("spread")
        cells[key] = Reported(*key, float(r["value"]), r.get("unit", ""), None if spread is None else float(spread))
    return tuple(cells.values())


def _keys(table: Mapping[str, Any], required: frozenset[str], optional: frozenset[str], where: str) -> None:
    for key in table:
        if key not in required and key not in optional:
            raise InventoryError(f"{where}: unknown key {key!r}{_nearest(key, required | optional)}")
    if missing := sorted(required.difference(table)):
        raise InventoryError(f"{where}: missing key {missing[0]!r}")


def _one_of(value: object, allowed: tuple[str, ...], where: str) -> None:
    if value not in allowed:
        raise InventoryError(f"{where} is {value!r}, expected one of {', '.join(allowed)}")


def _strings(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise InventoryError(f"{where} must be a list of text")
    return tuple(value)


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
