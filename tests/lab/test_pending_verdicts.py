"""Verdicts on disk, and the best rows of an experiment: read back as they were judged."""

import dataclasses
import json

import numpy as np
import pytest

from featlearn.errors import DamagedError, NewerError, TrialError
from featlearn.lab.execute import run
from featlearn.lab.find import latest_complete, origin, stale
from featlearn.lab.pending import Assumption, Case, Claim, Evidence, Verdict, judge
from featlearn.lab.pending_verdicts import SHOWN, mechanism, numbers_of, path_of, read_verdict, to_json, write_verdict
from featlearn.lab.store import Store
from featlearn.lab.verdicts import read as read_typed

CLAIM = Claim("w.c", entries=("w.e1", "w.e2"), says="two is two", check=lambda key, tables: Evidence())


def verdict_of(*cases, **more):
    evidence = Evidence(cases, **more)
    return Verdict(CLAIM, *judge(evidence), evidence, 0.25)


def test_round_trip(tmp_path):
    evidence = {
        "assumptions": [Assumption("n is large", False, "5 < 68.8")],
        "comment": "c",
        "data": {"x": np.arange(5), "y": np.eye(2)},
    }
    cases = [
        Case("a", predict=0.1 + 0.2, observe=0.3, rival=1.0, tolerance=1e-9, rival_says="wrong", unit="%"),
        Case("b", predict=np.eye(2), observe=np.eye(2), rival=np.zeros((2, 2)), relation="at least", vacuous=""),
        Case("c", predict=float("inf"), observe=2.0, rival=None, relation="at most", vacuous="m >= 7e9"),
    ]
    store = Store(tmp_path)
    written = verdict_of(*cases, **evidence)
    path = write_verdict(store, written)
    assert path == tmp_path / "verdicts/w/w.c.json"
    saved = read_verdict(store, CLAIM)
    back = saved.verdict
    assert (back.verdict, back.why, back.seconds) == (written.verdict, written.why, 0.25)
    assert back.claim is CLAIM
    assert judge(back.evidence) == judge(written.evidence)
    assert back.evidence.cases[0].predict == 0.1 + 0.2
    assert np.asarray(back.evidence.cases[1].observe).tolist() == [[1, 0], [0, 1]]
    assert back.evidence.cases[2].predict == float("inf")
    assert back.evidence.assumptions == (Assumption("n is large", False, "5 < 68.8"),)
    assert back.evidence.data["y"].tolist() == [[1, 0], [0, 1]]
    assert saved.mechanism is True
    assert saved.provenance["python"]
    assert read_verdict(store, dataclasses.replace(CLAIM, id="w.other")) is None


@pytest.mark.parametrize("relation, worst", [("equal", -1.0), ("equal", 1.0), ("at most", 1.0), ("at least", -1.0)])
@pytest.mark.parametrize("where", [0, 777, 5431, 9999])
def test_a_long_case_is_thinned_but_judged_alike(relation, worst, where):
    predict = np.linspace(0, 1, 10000)
    observe = predict.copy()
    observe[where] += worst
    rival = observe.copy()
    rival[where] -= worst
    case = Case("long", predict=predict, observe=observe, rival=rival, relation=relation, tolerance=0.5, rival_says="r")
    thin = numbers_of(case)
    assert len(thin["observe"]) <= SHOWN
    assert where in thin["at"]
    assert thin["tolerance"] == 0.5
    again = dataclasses.replace(case, **{k: np.array(thin[k]) for k in ("predict", "observe", "rival")})
    assert (again.ok, again.rival_rejected) == (case.ok, case.rival_rejected) == (False, True)


def test_thinned_rival_stays_rejected():
    predict = np.zeros(1000)
    rival = np.zeros(1000)
    rival[613] = 5.0
    case = Case("long", predict=predict, observe=predict, rival=rival, rival_says="r")
    thin = numbers_of(case)
    again = dataclasses.replace(case, **{k: np.array(thin[k]) for k in ("predict", "observe", "rival")})
    assert again.ok
    assert again.rival_rejected


def test_json_has_no_words_that_are_not_json():
    text = json.dumps(
        to_json(verdict_of(Case("a", predict=float("nan"), observe=float("inf"), rival=-np.inf))), allow_nan=False
    )
    case = json.loads(text)["cases"][0]
    assert (case["predict"], case["observe"], case["rival"]) == ("nan", "inf", "-inf")


def test_mechanism_needs_a_tested_case():
    bite = Case("bound", predict=2.0, observe=1.0, rival=0.5, relation="at most", vacuous="m >= 7e9")
    tested = Case("slope", predict=1.0, observe=1.0, rival=2.0)
    assert not mechanism(Evidence([bite]))
    assert mechanism(Evidence([bite, tested]))
    assert not mechanism(Evidence([dataclasses.replace(tested, rival=1.0)]))


def test_damaged_and_newer_verdicts(tmp_path):
    store = Store(tmp_path)
    path = write_verdict(store, verdict_of(Case("a", predict=1.0, observe=1.0, rival=2.0)))
    path.write_text(path.read_text()[:50])
    with pytest.raises(DamagedError, match=r"w\.c\.json is damaged"):
        read_verdict(store, CLAIM)
    write_verdict(store, verdict_of(Case("a", predict=1.0, observe=1.0, rival=2.0)))
    assert path.with_name("w.c.json.damaged").exists()
    newer = json.dumps({**json.loads(path.read_text()), "format": 7})
    path.write_text(newer)
    for call in (lambda: read_verdict(store, CLAIM), lambda: write_verdict(store, verdict_of())):
        with pytest.raises(NewerError, match="update featlearn"):
            call()
    assert path.read_text() == newer


def test_ids_stay_in_the_folder(tmp_path):
    for bad in ("../up", "w", "w/x", "w.", ".x"):
        with pytest.raises(TrialError, match="not allowed"):
            path_of(tmp_path, bad)


def test_nearest_layer_wins(tmp_path):
    below = Store(tmp_path / "evidence")
    write_verdict(below, verdict_of(Case("a", predict=1.0, observe=1.0, rival=2.0)))
    store = Store(tmp_path / "runs", below=[below.root])
    assert read_verdict(store, CLAIM).verdict.verdict == "holds"
    write_verdict(store, verdict_of(Case("a", predict=1.0, observe=3.0, rival=2.0)))
    assert read_verdict(store, CLAIM).verdict.verdict == "refuted"
    assert read_verdict(below, CLAIM).verdict.verdict == "holds"


def test_best_rows_are_complete_ones_paper_first(tmp_path, toy):
    below, mine = tmp_path / "evidence", tmp_path / "runs"
    store = Store(mine, below=[below])
    assert latest_complete(toy, store) is None
    run(toy, toy.presets["small"], store=mine)
    assert latest_complete(toy, store).preset == "small"
    run(toy, dataclasses.replace(toy.presets["paper"], seeds=(0, 1, 2)), store=below)
    assert latest_complete(toy, store).preset == "small"  # two seeds of paper are missing
    run(toy, dataclasses.replace(toy.presets["paper"], seeds=(3, 4)), store=mine)
    found = latest_complete(toy, store)
    assert (found.preset, len(found.table.rows)) == ("paper", 10)
    assert latest_complete(toy, store, ("smoke",)) is None


def test_stale_means_only_rows_of_another_version(tmp_path, toy):
    store = Store(tmp_path)
    assert not stale(toy, store)
    run(toy, toy.presets["smoke"], store=store)
    assert not stale(toy, store)
    newer = dataclasses.replace(toy, version=2)
    assert stale(newer, store)
    assert latest_complete(newer, store, ("smoke",)) is None
    run(newer, toy.presets["smoke"], store=store)
    assert not stale(newer, store)


def test_origin_joins_records(tmp_path, toy):
    store = Store(tmp_path)
    report = run(toy, toy.presets["small"], store=store)
    hashes = [r["trial"] for r in report.table.rows[::2]]
    o = origin(store, toy.id, hashes)
    assert o.seeds == (0, 1, 2)
    assert o.device == "cpu"
    assert o.versions["numpy"] == np.__version__
    record = store.read(toy.id, hashes[0])
    store.write(dataclasses.replace(record, device="other"))
    assert origin(store, toy.id, hashes).device == "mixed: cpu, other"
    assert origin(store, toy.id, ["0" * 16]) is None


def test_a_verdict_of_the_former_form_is_none_of_a_claim_that_was_converted(tmp_path):
    write_verdict(Store(tmp_path), verdict_of())
    assert read_typed(Store(tmp_path), CLAIM.id) is None
