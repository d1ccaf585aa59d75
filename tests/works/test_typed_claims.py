"""Every claim, on its own measurements or the committed rows: its verdict, and that it can fail."""

import dataclasses
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mutation import CHECKOUT, commit
from users import unchecked

import featlearn
from featlearn import works
from featlearn.core import Key
from featlearn.lab.blind import apart, blind, calls_of
from featlearn.lab.claim import predict, settle, verdict_of
from featlearn.lab.find import latest_complete
from featlearn.lab.inventory import load
from featlearn.lab.store import Store
from featlearn.lab.verdicts import check
from featlearn.works import load_claims, load_experiment

CLAIMS = {c.id: c for work in works.WITH_CLAIMS for c in load_claims(work)}
EVIDENCE = Store("runs-that-are-not-there", below=[CHECKOUT / "evidence"])
PRESETS = ("paper", "cpu")


def chosen(id_):
    """Whether the seed draws it."""
    return hashlib.sha256(f"{SEED} {id_}".encode()).digest()[0] % 3 == 0


TRACED_ELSEWHERE = ("xor_sgd.lower_bound_F1", "xor_sgd.discussion_limits")
"""Traced with fewer draws beside the tests of their own: a trace is slow."""
SEED = os.environ.get("FEATLEARN_CLAIMS") or commit(CHECKOUT)
TRACED = [i for i in CLAIMS if i not in TRACED_ELSEWHERE and (SEED == "all" or chosen(i))]
"""A third of the claims, drawn by the commit, since a trace is slow; `make claims` traces all."""
BOX = tuple(
    f"measure/gradient_features.py:{f}" for f in ("draw_in_box", "log_interval", "log_interval.<locals>.<genexpr>")
)
SETS = (
    "measure/checks.py:unit_rows",
    *(f"measure/neurons.py:{f}" for f in ("_sets", "cluster_cosines", "matching_neurons")),
)
SHARED: dict[str, tuple[str, ...]] = {
    # settings draw signed instances in the box in which the share of features is observed
    "gradient_features.lemma_b32": BOX,
    "gradient_features.lemma3_17_features": BOX,
    # settings hold the sets of neurons of the start, which the lemma is about
    "amplification.captures": SETS,
}
"""Functions that both halves of a claim may call outside of core, lab and setup.py, each with a reason beside it."""


@pytest.fixture(scope="module")
def tables():
    found = {}

    def of(claim):
        for kind in claim.reads:
            if kind not in found:
                done = latest_complete(load_experiment(kind.experiment), EVIDENCE, PRESETS)
                assert done is not None, kind.experiment
                found[kind] = done.table.of(kind, allow_absent=bool(claim.may_lack))
        return tuple(found[kind] for kind in claim.reads)

    return of


WATCHED = {}
"""What observing has called and seen, by claim: a measurement is slow, so that it is traced where it is made anyway."""


def measured_once(claim):
    """The claim with settings and a measurement that are made once: the verdict and its blind tests judge the same
    numbers.

    The blind tests of claims on rows give them other tables; the first ones are the committed ones.
    """
    found = {}
    drawn = {}

    def settings(key):
        if key not in drawn:
            drawn[key] = claim.settings(key)
        return drawn[key]

    def measure(settings, *given):
        if claim.id not in TRACED or claim.id in WATCHED:
            return claim.observe(settings, *given)
        seen = {}
        with unchecked():  # or the trace follows every check; the other two thirds of the claims are checked
            calls = calls_of(lambda: seen.update(claim.observe(settings, *given)), Path(featlearn.__file__).parent)
        WATCHED[claim.id] = calls, seen
        return seen

    def observe(settings, *given):
        if claim.reads:
            return measure(settings, *given)
        (key,) = given
        if key not in found:
            found[key] = measure(settings, key)
        return found[key]

    once = dataclasses.replace(claim, observe=observe)
    return dataclasses.replace(once, settings=settings) if callable(claim.settings) else once


@pytest.mark.parametrize("id_", CLAIMS)
def test_the_verdict_stands_and_planted_numbers_are_told_apart(id_, tables):
    claim = measured_once(CLAIMS[id_])
    # blind first: what it finds changed by observing is changed by the first observation
    assert blind(claim, Key("verify"), tables(claim)) == []
    verdict = verdict_of(claim, Key("verify"), tables(claim))
    assert verdict.as_expected, [(f.statement.name, f.outcome, f.why) for f in verdict.findings if not f.as_expected]


READING = """
from featlearn import works
from featlearn.lab.blind import without_results
with without_results() as wanted:
    for work in works.WITH_CLAIMS:
        works.load_claims(work)
print(sorted(set(wanted) - {"subprocess.Popen"}))  # libraries ask for the machine when they are imported
"""


def test_no_module_of_claims_reads_results_when_it_is_imported():
    """In a process of its own: what is imported already would not be read again."""
    done = subprocess.run([sys.executable, "-c", READING], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("id_", TRACED)
def test_prediction_and_observation_share_no_function(id_, tables):
    claim = CLAIMS[id_]
    assert apart(claim, Key("verify"), tables(claim), SHARED.get(id_, ()), WATCHED.get(id_)) == []


@pytest.mark.parametrize("id_", [i for i, c in CLAIMS.items() if c.reads])
def test_without_rows_a_claim_names_the_command(id_):
    verdict = check(CLAIMS[id_], Key("verify"), lambda experiment: None)
    assert verdict.verdict == "not run"
    assert verdict.why.startswith(f"featlearn run {id_.split('.')[0]}/")
    assert not verdict.covers


@pytest.mark.parametrize("work", works.WITH_CLAIMS)
def test_ids_are_unique_and_every_entry_has_a_claim_or_a_reason(work):
    mine = load_claims(work)
    assert len({c.id for c in mine}) == len(mine)
    named = {entry for c in mine for entry in c.entries}
    ran = {
        entry for id_ in works.EXPERIMENTS if id_.startswith(f"{work}/") for entry in load_experiment(id_).reproduces
    }
    assert {e.id for e in load(work).entries if not e.reasons} <= named | ran


@pytest.mark.parametrize("work", works.WITH_CLAIMS)
def test_every_check_of_the_inventory_names_a_statement_or_a_reason(work):
    names = {}
    for entry in load(work).entries:
        assert entry.checks, entry.id
        for words, places in entry.checks.items():
            for place in places:
                claim, _, statement = place.partition(": ")
                if claim == "reason":
                    assert len(statement) > 10, (entry.id, words)
                    continue
                if claim not in names:
                    c = CLAIMS[claim]
                    names[claim] = {s.name for s in predict(c, settle(c, Key("verify")))}
                assert statement in names[claim], (entry.id, words, place)
