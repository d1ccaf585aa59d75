"""Coverage: one verdict an entry, and what counts."""

from collections import Counter
from dataclasses import dataclass

import pytest

from featlearn.lab.coverage import Reproduction, entry_state, standing
from featlearn.lab.experiment import SummaryRow
from featlearn.lab.inventory import WORKS, entry, load


@dataclass(frozen=True)
class State:
    id: str
    verdict: str
    scope: str = "as stated"
    covers: bool = True
    entries: tuple[str, ...] = ("w.e",)
    why: str = "because"
    hits: str = ""


def state(*claims, runs=(), **more):
    return entry_state("w.e", claims, runs, **more)


def test_the_worst_outcome_and_the_worst_scope_of_its_claims():
    found = state(State("w.a", "confirmed", "premise unmet"), State("w.b", "inconclusive", covers=False))
    assert (found.verdict, found.scope, found.by) == ("inconclusive", "premise unmet", ("w.a", "w.b"))
    assert found.covered  # by the first


def test_a_contradiction_says_what_of_the_paper_it_hits():
    """The gravest of all that contradict; a claim that holds has no say in it."""
    proof, number = State("w.a", "contradicted", hits="proof"), State("w.b", "contradicted", hits="number")
    whole = State("w.c", "contradicted", hits="statement")
    assert state(proof).why == "Contradicts a step of the proof, not the statement: because"
    assert state(number, proof).why.startswith("Contradicts a step of the proof")
    assert state(number, proof, whole).why.startswith("Contradicts the statement as reported: ")
    other = State("w.d", "contradicted", why="of the proof alone", hits="proof")
    assert (
        state(other, whole).why == "Contradicts the statement as reported: because"
    )  # the reason is that of the gravest
    assert state(proof, State("w.d", "confirmed", hits="statement")).why.startswith("Contradicts a step of the proof")
    ours = state(State("w.a", "contradicted"))
    assert ours.why == "Contradicts a reading or criterion of ours, and shows nothing of the paper wrong: because"
    assert state(State("w.a", "inconclusive", hits="proof")).why == "because"


def test_claims_of_other_entries_do_not_count():
    assert state(State("w.a", "confirmed", entries=("w.other",))).verdict == "not run"


@pytest.mark.parametrize("verdict", ["too weak to test", "inconclusive", "not run"])
def test_an_outcome_that_decides_nothing_covers_nothing(verdict):
    assert not state(State("w.a", verdict, covers=False)).covered


def test_rows_do_not_cover_what_a_claim_says_is_too_weak():
    runs = [Reproduction("w/x", "w.e", True)]
    assert not state(State("w.a", "too weak to test", covers=False), runs=runs).covered


def test_reported_numbers_where_no_claim_is():
    runs = [Reproduction("w/x", "w.e", True, 3, 4), Reproduction("w/y", "w.e", True, 1, 1)]
    assert state(runs=runs).verdict == "4 of 5 reproduced"
    assert state(runs=[Reproduction("w/x", "w.e", True)]).verdict == "run"
    assert state(runs=[Reproduction("w/x", "w.e", False)]).why == "featlearn run w/x"
    assert not state(runs=[Reproduction("w/x", "w.e", False)]).covered


def test_a_reason_stands_where_nothing_can_be_checked():
    found = state(reasons=("prose",))
    assert (found.verdict, found.why, found.covered) == ("no check", "prose", False)


WAITS = "weights of 70B, then featlearn run w/x"


def test_an_entry_whose_data_are_needed_is_not_decided_by_claims_on_other_models():
    for claim in (
        State("w.a", "contradicted", "other size"),
        State("w.a", "confirmed", "other size"),
        State("w.a", "inconclusive", covers=False),
        State("w.a", "confirmed", covers=False),
    ):
        found = state(claim, runs=[Reproduction("w/x", "w.e", True)], waits=WAITS)
        assert (found.verdict, found.scope, found.covered) == ("data needed", "", False)
        assert found.why == WAITS
        assert found.by == ("w.a", "w/x")


def test_rows_on_other_data_do_not_cover_an_entry_that_waits_for_its_own():
    found = state(runs=[Reproduction("w/x", "w.e", True)], waits=WAITS)
    assert (found.verdict, found.why, found.covered, found.by) == ("data needed", WAITS, False, ("w/x",))
    reproduced = state(runs=[Reproduction("w/x", "w.e", True, 3, 4)], waits=WAITS)
    assert (reproduced.verdict, reproduced.covered) == ("3 of 4 reproduced", True)
    assert state(runs=[Reproduction("w/x", "w.e", False)], waits=WAITS).verdict == "not run"


def test_a_claim_at_the_settings_of_the_source_decides_although_other_checks_wait_for_data():
    ours = State("w.b", "inconclusive", "premise unmet", covers=False)
    found = state(State("w.a", "confirmed"), ours, waits=WAITS)
    assert (found.verdict, found.covered) == ("inconclusive", True)
    assert state(State("w.a", "contradicted", "other size")).verdict == "contradicted"


def test_what_an_entry_waits_for_is_told_although_other_checks_of_it_are_made():
    found = entry("icl_scale.figure5_3")
    assert found.waits.startswith("weights of Llama 2 13B and 70B and a GPU, then featlearn run icl_scale/attention")
    assert not found.reasons
    assert not entry("icl_scale.method_label_flip").waits


def test_an_experiment_that_was_not_run_reproduces_nothing():
    assert (Reproduction("w/x", "w.e", False).good, Reproduction("w/x", "w.e", False).reported) == (0, 0)


# reported numbers ----------------------------------------------------------------------------------------------------

ENTRY = "emergence.table1"  # 17 reported numbers; NTK's test accuracy is one of them


def summary(row, metric, reported, verdict, setting=""):
    return SummaryRow(setting, row, metric, 1.0, 1.0, 1.0, 1, reported, verdict, ENTRY)


def states(*rows, **more):
    found = standing(entry(ENTRY), rows, **more)
    return {(p.row, p.metric): n for p, n in zip(entry(ENTRY).reported, found, strict=True)}


def test_every_reported_number_has_one_state():
    found = [n for w in WORKS for e in load(w).entries for n in standing(e, ())]
    assert Counter(found) == {"not compared": 2092}


def test_a_number_is_compared_by_its_own_row():
    found = states(summary("NTK", "test_acc", 86.4, "reproduced"), summary("other", "test_acc", 86.4, "deviates"))
    assert found["NTK", "test_acc"] == "reproduced"
    assert Counter(found.values()) == {"reproduced": 1, "not compared": 16}


def test_variants_stand_for_one_number_and_the_worst_decides():
    variants = [summary(f"NTK, start {i}", "test_acc", 86.4, "reproduced", "law") for i in range(16)]
    assert Counter(states(*variants).values())["reproduced"] == 1
    worse = summary("NTK, start 17", "test_acc", 86.4, "deviates", "law")
    assert states(*variants, worse)["NTK", "test_acc"] == "deviates"


def test_numbers_of_other_models_are_not_comparable():
    assert Counter(states(incomparable=[ENTRY]).values()) == {"not comparable": 17}
    found = states(summary("NTK", "test_acc", 86.4, "not comparable"))
    assert Counter(found.values()) == {"not comparable": 1, "not compared": 16}
