"""Claims of in-context learning and model scale that are computed from formulas: verdicts, blind tests, checks."""

import dataclasses
import importlib
import pkgutil

import pytest

from featlearn.core import Key
from featlearn.lab import inventory
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import predict, settle, verdict_of
from featlearn.works.icl_scale import claims as package

MODULES = [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
ALL = {c.id.removeprefix("icl_scale."): c for module in MODULES for c in getattr(module, "CLAIMS", ())}
CLAIMS = [name for name, claim in ALL.items() if not claim.reads]


def measured_once(claim):
    """The claim with a measurement that is made once."""
    found = []

    def observe(settings, key):
        if not found:
            found.append(claim.observe(settings, key))
        return found[0]

    return dataclasses.replace(claim, observe=observe)


@pytest.mark.parametrize("name", CLAIMS)
def test_the_verdict_stands_and_planted_numbers_are_told_apart(name):
    claim = measured_once(ALL[name])
    verdict = verdict_of(claim, Key("verify"))
    assert verdict.as_expected, [(f.statement.name, f.outcome, f.why) for f in verdict.findings if not f.as_expected]
    assert blind(claim, Key("verify")) == []


@pytest.mark.parametrize("name", CLAIMS)
def test_prediction_and_observation_share_no_function(name):
    assert apart(ALL[name], Key("apart")) == []


def test_checks_of_the_inventory_name_statements_or_reasons():
    """Of every entry that has any."""
    names = {c.id: {s.name for s in predict(c, settle(c, Key("verify")))} for c in ALL.values()}
    for entry in inventory.load("icl_scale").entries:
        for words, places in entry.checks.items():
            for place in places:
                claim, _, statement = place.partition(": ")
                if claim == "reason":
                    assert len(statement) > 10, (entry.id, words)
                else:
                    assert statement in names[claim], (entry.id, words, place)


def test_every_entry_of_a_claim_says_where_its_checks_are():
    entries = {e.id: e for e in inventory.load("icl_scale").entries}
    for claim in ALL.values():
        assert all(entries[e].checks for e in claim.entries), claim.id
