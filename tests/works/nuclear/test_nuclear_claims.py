"""Claims of the nuclear work that need no rows: verdicts, what refutes the refuted ones, planted wrong cells."""

from functools import cache

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.pending import verify
from featlearn.works.nuclear.claims import optima, proposition

MODULES = (optima, proposition)
BY_NAME = {c.id.removeprefix("nuclear."): c for module in MODULES for c in module.CLAIMS}


@cache
def judged(name):
    return verify(BY_NAME[name], Key("verify"), lambda experiment: None)


@pytest.mark.parametrize("name", BY_NAME)
def test_claims_have_the_expected_verdict(name):
    verdict = judged(name)
    assert verdict.as_expected, (verdict.verdict, verdict.why)
    assert all(case.rival_rejected for case in verdict.evidence.cases)


@pytest.mark.parametrize(
    "name, passing",
    [
        ("lemma6_1_any_lambda", [True, True, False]),
        ("prop6_3_e49", [True, True, False]),
    ],
)
def test_what_is_reported_is_refuted_by_its_own_case(name, passing):
    """The cases before it say what is right instead, and hold; the claim says what of the paper it hits."""
    assert [case.ok for case in judged(name).evidence.cases] == passing
    assert BY_NAME[name].hits


def test_no_other_claim_is_refuted():
    assert sum(claim.expected == "refuted" for claim in BY_NAME.values()) == 2


def test_premises_of_the_proposition_are_met_and_named():
    for name in ("lemma6_1", "prop6_3", "prop6_3_proof"):
        found = judged(name).evidence.assumptions
        assert len(found) == 3
        assert all(a.met for a in found)


def test_sufficient_lambda_by_hand():
    """E.31 at alpha = 1 / sqrt(r): r = 40, m = 175, gamma = 0.48."""
    task = optima.least(40, 0.48)
    assert task.d == 215
    terms = 1 / (2 * (1 + np.exp(39 / (4 * np.sqrt(40))))), np.exp(-39 / 8) / 4, np.exp(-175 * 0.48**2 / 2) / 2
    assert optima.sufficient(task) == pytest.approx(np.sqrt(40) * sum(terms), rel=1e-12)
    assert optima.sufficient(task) == pytest.approx(0.570, abs=5e-4)


@pytest.mark.parametrize("name", ["prop6_3_sharp"])
def test_pictures_are_drawn(name, tmp_path):
    figure = BY_NAME[name].draw(judged(name).evidence)
    figure.savefig(tmp_path / "x.png", dpi=40)
    assert (tmp_path / "x.png").stat().st_size > 2000
