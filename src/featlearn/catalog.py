"""The catalog: what `featlearn list` shows without importing any experiment or claim.

`catalog.json` is made from the code and the committed evidence by `python -m featlearn.catalog`; a test fails when it
is out of date.
"""

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

FORMAT = 1
PATH = Path(__file__).with_name("catalog.json")


def evidence_root() -> Path | None:
    """The folder of committed rows and verdicts, where this package runs from a checkout."""
    from featlearn.lab.provenance import checkout

    root = checkout()
    return root / "evidence" if root and (root / "evidence").is_dir() else None


def layers(store: str | Path) -> Any:
    """The user's store above the committed evidence."""
    from featlearn.lab.store import Store

    below = evidence_root()
    return Store(store, below=[below] if below else [])


def read() -> dict[str, Any]:
    """The catalog that ships with the package."""
    return json.loads(files("featlearn").joinpath("catalog.json").read_text())


def make() -> dict[str, Any]:
    """The catalog from code and committed evidence; imports every experiment and claim."""
    from featlearn import works
    from featlearn.lab import inventory
    from featlearn.lab.find import latest_complete, stale
    from featlearn.lab.pending_verdicts import read_summary
    from featlearn.lab.store import Store

    store = Store(evidence_root() or "evidence")
    made = []
    for id_ in works.EXPERIMENTS:
        e = works.load_experiment(id_)
        state = "ok" if latest_complete(e, store, ("paper", "cpu")) else "stale" if stale(e, store) else "none"
        made.append(
            {
                "id": id_,
                "title": e.title,
                "reproduces": list(e.reproduces),
                "presets": list(e.presets),
                "evidence": state,
            }
        )
    claims = []
    for work in works.WITH_CLAIMS:
        for c in works.load_claims(work):
            last = read_summary(store, c.id) or {}
            claims.append(
                {
                    "id": c.id,
                    "entries": list(c.entries),
                    "says": c.says,
                    "expected": c.expected,
                    "verdict": last.get("verdict", "not run"),
                    "mechanism": last.get("mechanism", False),
                }
            )
    works = [{"id": w.id, "title": w.title, "entries": len(w.entries)} for w in map(inventory.load, inventory.WORKS)]
    return {"format": FORMAT, "works": works, "experiments": made, "claims": claims}


def text(catalog: Mapping[str, Any]) -> str:
    """The catalog as its file holds it."""
    return json.dumps(catalog, indent=1, ensure_ascii=False) + "\n"


def covered(catalog: Mapping[str, Any], work: str) -> set[str]:
    """Entries of a work that are covered: by an experiment with rows, or by a claim that was judged.

    `vacuous` and `assumptions unmet` count only beside a check of the mechanism.
    """
    found: set[str] = set()
    for e in catalog["experiments"]:
        if e["evidence"] == "ok":
            found.update(e["reproduces"])
    for c in catalog["claims"]:
        judged = c["verdict"] in ("holds", "refuted")
        if judged or (c["verdict"] in ("vacuous", "assumptions unmet") and c["mechanism"]):
            found.update(c["entries"])
    return {id_ for id_ in found if id_.split(".")[0] == work}


if __name__ == "__main__":
    PATH.write_text(text(make()))
    print(f"{PATH.name} written")
