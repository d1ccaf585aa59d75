"""Drawn prompts against Theorems 5.4.2 and 5.4.3 in units of their standard errors, over twenty settings together."""

import numpy as np
import pytest
from scipy import stats

from featlearn.core import Key
from featlearn.lab.claim import observed, predict, settle
from featlearn.works.icl_scale.claims import gap, noise, rank

CASES = {
    noise.DRAWN: (noise.CLAIMS[0], noise.LOSS),
    gap.PAIRED: (gap.CLAIMS[0], gap.GAP),
    rank.DRAWN: (rank.CLAIMS[0], rank.LOSS),
}


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    """Statements that were predicted, and the drawn observation of one claim with a key of its own."""
    claim, exact = CASES[request.param]
    key = Key("tests/noise_of_ranks")
    settings = settle(claim, key)
    statements = {s.name: s for s in predict(claim, settings)}
    estimates = observed(claim, settings, key)[request.param]
    return statements, request.param, exact, estimates


def scores(estimates, value):
    return np.array([(e.value - v) / e.error for e, v in zip(estimates, value, strict=True)])


def test_drawn_prompts_lie_within_four_standard_errors_each_and_together(case):
    statements, name, _, estimates = case
    z = scores(estimates, statements[name].value)
    assert np.abs(z).max() < 4
    assert stats.chi2.sf(np.sum(z**2), len(z)) > 0.001


def test_each_rival_of_the_theorems_is_rejected_together(case):
    """In the units of the drawn statement; rivals of Lemma 5.1 are told apart by its exact statements alone."""
    statements, name, exact, estimates = case
    if name == rank.DRAWN:
        return
    drawn = statements[name]
    for s in statements.values():
        if s.observed_as == exact:
            z = scores(estimates, np.asarray(s.rival) * drawn.value / np.asarray(s.value))
            assert stats.chi2.sf(np.sum(z**2), len(z)) < 0.001, s.name
