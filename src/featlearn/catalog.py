"""The catalog: what `featlearn list` shows without importing any experiment or claim.

It is made from the code and the evidence, never committed. A wheel holds the one that was made when it was built
(`catalog.json`, by scripts/build_wheel.py); a checkout keeps one in `__pycache__`, remade when a source or a file of
evidence has changed.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

FORMAT = 3
PACKAGE = Path(__file__).parent
SHIPPED = PACKAGE / "catalog.json"
CACHE = PACKAGE / "__pycache__" / "catalog.json"


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


def read() -> dict[str, Any]:
    """The catalog of this code and this evidence; seconds when they have changed since the last call, else little.

    Where `__pycache__` cannot be written the catalog is made at each call.
    """
    from featlearn.lab.provenance import checkout

    if checkout() is None and SHIPPED.is_file():
        return json.loads(SHIPPED.read_bytes())
    key = stamp()
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(CACHE.read_bytes())
        if kept["stamp"] == key:
            return kept["catalog"]
    from featlearn.lab.files import write_whole

    made = make()
    with contextlib.suppress(OSError):
        write_whole(CACHE, json.dumps({"stamp": key, "catalog": made}).encode())
    return made


def stamp(*more: Path) -> str:
    """A digest of the path, size and time of change of every source, every file of evidence and those of other
    folders."""
    digest = hashlib.sha256()
    for root in (PACKAGE, evidence_root(), *more):
        for path, size, changed in sorted(_files(root)) if root and root.is_dir() else ():
            digest.update(f"{path}\0{size}\0{changed}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _files(folder: str | Path) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files(entry.path)
            else:
                found = entry.stat()
                yield entry.path, found.st_size, found.st_mtime_ns


def make() -> dict[str, Any]:
    """The catalog from code and committed evidence; imports every experiment and claim."""
    from featlearn import works
    from featlearn.lab import inventory
    from featlearn.lab.coverage import entry_state
    from featlearn.lab.find import evidence_state, latest_complete, reproductions

    store = layers("runs-that-are-not-there")
    experiments, runs = [], []
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
        runs += reproductions(e, found)
    loaded = [c for work in works.WITH_CLAIMS for c in works.load_claims(work)]
    claims = [_claim(c, store) for c in loaded]
    kept, entries = [Kept(**{n: c[n] for n in KEPT}) for c in claims], []
    for work in inventory.WORKS:
        for e in inventory.load(work).entries:
            found = entry_state(e.id, kept, runs, reasons=e.reasons, waits=e.waits)
            named = ("id", "verdict", "scope", "why", "covered")
            entries.append({n: getattr(found, n) for n in named})
    found = [{"id": w.id, "title": w.title, "entries": len(w.entries)} for w in map(inventory.load, inventory.WORKS)]
    return {"format": FORMAT, "works": found, "experiments": experiments, "claims": claims, "entries": entries}


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


def _claim(claim: Any, store: Any) -> dict[str, Any]:
    """A claim with its last verdict."""
    from featlearn.lab.verdicts import read as read_verdict
    from featlearn.lab.verdicts import stale

    out = {"id": claim.id, "entries": list(claim.entries), "says": claim.says}
    kept = read_verdict(store, claim.id)
    if kept is None:
        empty = {"verdict": "not run", "scope": "as stated", "corrected": "", "why": f"featlearn verify {claim.id}"}
        return out | empty | {"covers": False, "hits": "", "stale": "", "expected": ""}
    old = stale(kept, claim)
    return out | {
        "verdict": kept.verdict,
        "scope": kept.scope,
        "corrected": kept.corrected,
        "why": kept.why,
        "covers": kept.covers and not old,
        "hits": kept.hits,
        "stale": old,
        "expected": kept.verdict if kept.as_expected else "",
    }


def covered(catalog: Mapping[str, Any], work: str) -> set[str]:
    """Entries of a work that are covered."""
    return {e["id"] for e in catalog["entries"] if e["covered"] and e["id"].split(".")[0] == work}
