"""The catalog: what `featlearn list` shows without importing any experiment or claim.

It is made from the code and the evidence, never committed. A wheel holds the one that was made when it was built
(`catalog.json`, by scripts/build_wheel.py); a checkout keeps one in `__pycache__`, remade when a source or a file of
evidence has changed.
"""

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

FORMAT = 4
PACKAGE = Path(__file__).parent
SHIPPED = PACKAGE / "catalog.json"
CACHE = PACKAGE / "__pycache__" / "catalog.json"
KEPT_AS = ".catalog.json"
"""How a store keeps the catalog with its verdicts."""


def evidence_root() -> Path | None:
    """The folder of committed rows and verdicts: of the checkout, or of the installed package."""
    from featlearn.lab.provenance import checkout

    root = checkout()
    found = (root or PACKAGE) / "evidence"
    return found if found.is_dir() else None


def layers(store: str | Path) -> Any:
    """The user's store above the committed evidence."""
    from featlearn.lab.store import Store

    below = evidence_root()
    return Store(store, below=[below] if below else [])


def tables_of(store: Any, known: Mapping[str, Any] | None = None) -> Any:
    """Experiment id -> rows of its latest complete run: preset paper, else cpu, else small; or None. Each is read once.

    Rows of today's code come first, from any layer; see `lab.find.latest_complete`. known: rows that were read already.
    """
    from featlearn import works
    from featlearn.lab.find import latest_complete

    @functools.cache
    def tables(id_: str) -> Any:
        if known and id_ in known:
            return known[id_]
        found = latest_complete(works.load_experiment(id_), store)
        return None if found is None else found.table

    return tables


def read(store: str | Path = "") -> dict[str, Any]:
    """The catalog of this code and this evidence, with the verdicts of the user's store, where it has some, in place of
    those that shipped; seconds when any of them has changed since the last call, else little.

    Where `__pycache__` or the store cannot be written the catalog is made at each call.
    """
    from featlearn.lab.provenance import checkout

    shipped = checkout() is None and SHIPPED.is_file()
    mine = Path(store) / "verdicts" if store else None
    here = mine is not None and mine.is_dir()
    key = stamp() if here or not shipped else ""
    found = json.loads(SHIPPED.read_bytes()) if shipped else _kept(CACHE, key, make)
    if not here:
        return found
    return _kept(Path(store) / KEPT_AS, key + stamp_of(Path(store)), lambda: with_verdicts(found, store))


def _kept(path: Path, key: str, made_by: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a file keeps for this key, else what is made now, kept from now on."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(path.read_bytes())
        if kept["stamp"] == key:
            return kept["catalog"]
    from featlearn.lab.files import write_whole

    made = made_by()
    with contextlib.suppress(OSError):
        write_whole(path, json.dumps({"stamp": key, "catalog": made}).encode())
    return made


def stamp(*more: Path) -> str:
    """A digest of the path, size and time of change of every source, every file of evidence and those of other
    folders."""
    return stamp_of(PACKAGE, evidence_root(), *more)


def stamp_of(*folders: Path | None) -> str:
    """The same of these folders alone."""
    digest = hashlib.sha256()
    for root in folders:
        for path, size, changed in sorted(_files(root)) if root and root.is_dir() else ():
            digest.update(f"{path}\0{size}\0{changed}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _files(folder: str | Path) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files(entry.path)
            elif entry.name != KEPT_AS:
                found = entry.stat()
                yield entry.path, found.st_size, found.st_mtime_ns


def make() -> dict[str, Any]:
    """The catalog from code and committed evidence; imports every experiment and claim."""
    from featlearn import works
    from featlearn.lab import inventory
    from featlearn.lab.find import evidence_state, latest_complete, reproductions

    store = layers("runs-that-are-not-there")
    experiments, runs, known = [], [], {}
    for id_ in works.EXPERIMENTS:
        e = works.load_experiment(id_)
        found = latest_complete(e, store, ("paper", "cpu"))
        experiments.append(
            {
                "id": id_,
                "title": e.title,
                "reproduces": list(e.reproduces),
                "presets": list(e.presets),
                "evidence": evidence_state(e, store, found),
            }
        )
        runs += [asdict(r) for r in reproductions(e, found)]
        if found is not None and not found.table.other_code:
            known[id_] = found.table
    tables = tables_of(store, known)
    claims = [_claim(c, store, tables) for work in works.WITH_CLAIMS for c in works.load_claims(work)]
    found = [{"id": w.id, "title": w.title, "entries": len(w.entries)} for w in map(inventory.load, inventory.WORKS)]
    entries = _entries(inventory.WORKS, claims, runs)
    made = {"format": FORMAT, "works": found, "experiments": experiments, "claims": claims, "entries": entries}
    return made | {"runs": runs}


def with_verdicts(found: Mapping[str, Any], store: str | Path) -> dict[str, Any]:
    """A catalog with the verdicts of the user's store, judged against the code and the rows as they are, and with what
    they make of the entries of their works."""
    from featlearn import works

    mine = {p.stem for p in Path(store).glob("verdicts/*/*.json")}
    changed = sorted({c["id"].split(".")[0] for c in found["claims"] if c["id"] in mine})
    known = {c.id: c for work in changed for c in works.load_claims(work)}
    layered = layers(store)
    tables = tables_of(layered)
    claims = [_claim(known[c["id"]], layered, tables) if c["id"] in mine else c for c in found["claims"]]
    new = {e["id"]: e for e in _entries(changed, claims, found["runs"])}
    return {**found, "claims": claims, "entries": [new.get(e["id"], e) for e in found["entries"]]}


def _entries(
    works: Iterable[str], claims: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What became of every entry of some works, by the verdicts on claims and by runs."""
    from featlearn.lab import inventory
    from featlearn.lab.coverage import Reproduction, entry_state

    kept = [Kept(**{n: c[n] for n in KEPT}) for c in claims]
    rows = [Reproduction(**r) for r in runs]
    out = []
    for e in (e for work in works for e in inventory.load(work).entries):
        found = entry_state(e.id, kept, rows, reasons=e.reasons, waits=e.waits)
        out.append({n: getattr(found, n) for n in ("id", "verdict", "scope", "why", "covered")})
    return out


@dataclass(frozen=True)
class Kept:
    """What coverage needs of a claim's last verdict."""

    id: str
    entries: Sequence[str]
    verdict: str
    scope: str
    why: str
    covers: bool
    hits: str


KEPT = tuple(f.name for f in fields(Kept))


def _claim(claim: Any, store: Any, tables: Any) -> dict[str, Any]:
    """A claim with its last verdict, which is none where its file is refused."""
    from featlearn.errors import StoreError
    from featlearn.lab.verdicts import read as read_verdict
    from featlearn.lab.verdicts import stale

    out = {"id": claim.id, "entries": list(claim.entries), "says": claim.says}
    kept, damaged = None, ""
    try:
        kept = read_verdict(store, claim.id)
    except StoreError as e:
        damaged = str(e)
    if kept is None:
        why = damaged or f"featlearn verify {claim.id}"
        empty = {"verdict": "not run", "scope": "as stated", "corrected": "", "why": why}
        return out | empty | {"covers": False, "hits": "", "stale": "", "expected": "", "damaged": bool(damaged)}
    old = stale(kept, claim, tables)
    return out | {
        "verdict": kept.verdict,
        "scope": kept.scope,
        "corrected": kept.corrected,
        "why": kept.why,
        "covers": kept.covers and not old,
        "hits": kept.hits,
        "stale": old,
        "expected": kept.verdict if kept.as_expected else "",
        "damaged": False,
    }


def covered(catalog: Mapping[str, Any], work: str) -> set[str]:
    """Entries of a work that are covered."""
    return {e["id"] for e in catalog["entries"] if e["covered"] and e["id"].split(".")[0] == work}
