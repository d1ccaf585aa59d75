"""RULER made anew: haystacks that share nothing, planted rows with known outcomes, tasks at the floor."""

import dataclasses
import re

import pytest

from featlearn.core import Key
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import verdict_of
from featlearn.lab.experiment import Rows
from featlearn.lab.quantity import PERCENT
from featlearn.lab.row import plain
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import mean_of
from featlearn.tasks.ruler import HIDDEN
from featlearn.tasks.ruler import TASKS as MADE
from featlearn.works import load_experiment
from featlearn.works.gemfilter.claims.ruler import BUDGETS, CLAIMS, MODELS, NAMES, TASKS
from featlearn.works.gemfilter.rows import FULL, OURS, SNAPKV
from featlearn.works.gemfilter.rows_ruler import RulerScore, at_the_floor

EXPERIMENT = load_experiment("gemfilter/ruler")
CLAIM = next(c for c in CLAIMS if c.settings == ("smollm2-135m", 256))


def rows(score, tasks=TASKS, count=10):
    """score: (method, budget, task, haystack) -> percent."""
    return [
        RulerScore(
            model=model,
            task=task,
            haystack=i,
            method=method,
            budget=budget,
            score=score(method, budget, task, i),
            tokens=4000,
            reply="",
        )
        for model in MODELS
        for task in tasks
        for i in range(count)
        for method, budget in ((FULL, 0), *((m, b) for m in (OURS, SNAPKV) for b in BUDGETS))
    ]


def outcomes(score):
    """By task, of the claim on the first model and budget."""
    verdict = verdict_of(CLAIM, Key("test"), (Table.of(RulerScore, rows(score)),))
    return {task: f.outcome for task, f in zip(TASKS, verdict.findings, strict=True)}


def test_tasks_of_rows_are_those_that_are_made():
    assert TASKS == tuple(MADE)


def test_haystacks_of_a_task_share_no_essay(tmp_path, monkeypatch):
    from featlearn.works.gemfilter.experiments import ruler

    for i in range(90):
        (tmp_path / f"e{i}.txt").write_text(" ".join(f"Essay {i} says this as its sentence {j}." for j in range(9)))
    hands = [ruler.sentences_of(str(tmp_path), "niah_single_2", i) for i in range(ruler.HANDS)]
    of = [{re.search(r"Essay (\d+)", s)[1] for s in hand} for hand in hands]
    assert all(of)
    assert sum(map(len, of)) == len(set.union(*of))
    assert hands[0] != ruler.sentences_of(str(tmp_path), "niah_single_3", 0)


def test_trials_are_one_for_each_haystack_model_and_task():
    paper = EXPERIMENT.trials(EXPERIMENT.presets["paper"])
    assert len(paper) == 13 * 10 * 2
    assert len({dataclasses.astuple(t) for t in paper}) == 260
    assert [t.number for t in paper] == sorted(t.number for t in paper)  # an interrupted run has all tasks of some
    assert {t.length for t in paper} == {4096}
    assert {t.keep for t in paper} == {BUDGETS}
    assert {t.model for t in paper} == set(MODELS)
    assert set(HIDDEN) < {t.task for t in paper}


@pytest.mark.parametrize(
    "scores, floor",
    [
        ([0.0] * 10, True),
        ([0.0] * 9 + [100.0], False),  # Student's upper end: 10 + 2.262 * 10 = 32.6
        ([0.0] * 5 + [20.0] * 5, True),  # 10 + 2.262 * 3.33 = 17.5
        ([10.0] * 5 + [20.0] * 5, True),  # 15 + 2.262 * 1.67 = 18.8
        ([10.0] * 4 + [20.0] * 6, True),  # 16 + 2.262 * 1.63 = 19.7
        ([10.0] * 3 + [20.0] * 7, False),  # 17 + 2.262 * 1.53 = 20.5
        ([100.0] * 10, False),
        ([0.0], True),
        ([10.0], False),
    ],
)
def test_the_floor_by_hand(scores, floor):
    assert at_the_floor(mean_of(scores, PERCENT, "haystack")) is floor


def by_task(method, budget, task, i):
    """A case for each outcome: the full cache first."""
    full = method == FULL
    if task == "niah_single_1":  # right in all: no difference, which ten cannot confirm
        return 100.0
    if task == "niah_single_2":  # all lost
        return 100.0 if full else 0.0
    if task == "niah_single_3":  # gained
        return 100.0 * (i < (1 if full else 9))
    if task == "niah_multikey_1":  # at the floor, though nothing is lost
        return 10.0 * (i % 2)
    if task == "niah_multikey_2":  # at the floor, though all gain
        return 0.0 if full else 100.0
    if task == "cwe":  # graded, one point up or down
        return 60.0 + 10 * (i % 3) + (0.0 if full else (-1.0) ** i)
    return 100.0 * (i % 2 == (0 if full else 1))


def test_outcomes_of_planted_rows():
    found = outcomes(by_task)
    assert found["niah_single_1"] == "inconclusive"
    assert found["niah_single_2"] == "contradicted"
    assert found["niah_single_3"] == "confirmed"
    assert found["niah_multikey_1"] == "too weak to test"
    assert found["niah_multikey_2"] == "too weak to test"
    assert found["cwe"] == "confirmed"
    assert found["qa_1"] == "inconclusive"


def test_a_claim_judges_its_own_model_and_budget():
    def other(method, budget, task, i):
        return 50.0 + 20.0 * (i % 2) + (0.5 * (-1.0) ** i if budget else 0.0) - (40.0 if budget == 512 else 0.0)

    found = {c.settings: verdict_of(c, Key("test"), (Table.of(RulerScore, rows(other)),)).reported for c in CLAIMS}
    assert found == {(m, b): "contradicted" if b == 512 else "confirmed" for m in MODELS for b in BUDGETS}


def test_claims_are_about_no_entry_and_out_of_the_scope_of_the_work():
    assert len(CLAIMS) == 6
    verdict = verdict_of(CLAIM, Key("test"), (Table.of(RulerScore, rows(by_task)),))
    assert {c.entries for c in CLAIMS} == {()}
    assert verdict.scope == "premise unmet"
    assert [f.statement.name for f in verdict.findings] == list(NAMES.values())
    assert len(verdict.findings) == 13


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.id)
def test_claims_are_blind_and_their_halves_apart(claim):
    table = Table.of(RulerScore, rows(by_task))
    assert blind(claim, Key("test"), (table,)) == []
    assert apart(claim, Key("test"), (table,)) == []


def test_the_summary_averages_haystacks_and_never_tasks():
    table = Rows(tuple(plain(r) for r in rows(by_task)))
    found = {(r.setting, r.row, r.metric): r for r in EXPERIMENT.summarise(table)}
    lost = found["smollm2-135m, niah_single_2", "GemFilter-256 - full", "difference"]
    assert (lost.value, lost.n) == (-100.0, 10)
    assert found["gemma3-270m, niah_single_3", "Full cache", "score"].value == 10.0
    assert ("smollm2-135m, niah_multikey_2", "GemFilter-256 - full", "difference") not in found
    assert found["smollm2-135m, niah_multikey_2", "Full cache", "at the floor"].value == 1.0
    assert {r.setting for r in found.values()} == {f"{m}, {t}" for m in MODELS for t in TASKS}
    picture = EXPERIMENT.draw(table)["gemfilter.ruler"]
    assert len(picture.data) == 2 * 13 * 7
