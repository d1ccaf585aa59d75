"""Committed evidence: of clean trees, without volatile fields where it is compared, and of the code as it stands."""

import json
from pathlib import Path

import pytest

from featlearn import catalog, works
from featlearn.lab.find import evidence_state, latest_complete
from featlearn.lab.store import Store
from featlearn.lab.verdicts import read, stale

ROOT = Path(__file__).resolve().parents[1] / "evidence"
STORE = Store("runs-that-are-not-there", below=[ROOT])
TABLES = catalog.tables_of(STORE)
FILES = sorted(p for p in ROOT.rglob("*.json") if "benchmarks" not in p.parts and "mutants" not in p.parts)


def dirty(data: dict) -> bool:
    """Whether what a file says of its making names a tree with changes that were not committed."""
    made = data.get("provenance") or data.get("made") or {}
    return bool(made.get("dirty"))


def test_evidence_of_a_dirty_tree_is_told():
    assert dirty({"provenance": {"dirty": True}})
    assert dirty({"made": {"dirty": True}})
    assert not dirty({"provenance": {"dirty": False}})


def test_no_evidence_is_of_a_dirty_tree():
    assert len(FILES) > 1000
    assert [str(p.relative_to(ROOT)) for p in FILES if dirty(json.loads(p.read_bytes()))] == []


def test_commands_of_the_evidence_name_no_folder_of_a_machine():
    manifests = [p for p in FILES if p.name.endswith(".run.json")]
    assert manifests
    assert [m.name for m in manifests if "/" in json.loads(m.read_text())["command"].partition("--store ")[2]] == []


@pytest.mark.parametrize("work", works.WITH_CLAIMS)
def test_verdicts_that_are_compared_hold_no_times_and_no_machines(work):
    kept = [p for p in (ROOT / "verdicts" / work).glob("*.json") if not p.name.endswith(".made.json")]
    assert len(kept) == len(works.load_claims(work))
    for path in kept:
        assert not {"when", "seconds", "provenance", "made", "commit"} & json.loads(path.read_bytes()).keys(), path


@pytest.mark.parametrize("work", works.WITH_CLAIMS)
def test_verdicts_are_of_the_code_and_the_rows_as_they_stand(work):
    for claim in works.load_claims(work):
        kept = read(STORE, claim.id)
        assert kept is not None, f"featlearn verify {work} --store evidence"
        assert stale(kept, claim, TABLES) == "", f"{claim.id}: featlearn verify {work} --store evidence"
        assert kept.as_expected, claim.id


WAITING = ("gemfilter/ruler", "gemfilter/target")
"""Experiments whose settings are committed and whose rows are not made yet: hours of two cores."""


@pytest.mark.parametrize("id_", [i for i in works.EXPERIMENTS if i.split("/")[0] in works.WITH_CLAIMS])
def test_rows_are_of_the_code_as_it_stands(id_):
    experiment = works.load_experiment(id_)
    assert evidence_state(experiment, STORE, latest_complete(experiment, STORE, ("paper", "cpu"))) == (
        "none" if id_ in WAITING else "ok"
    )
