"""Claims of the Fourier work: exact ones with their verdicts, what hand work found wrong in print, those on rows."""

from functools import cache

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.run.claim import verify
from featlearn.theory.fourier import CLAIMS, definitions, networks, neurons

BY_NAME = {c.id.removeprefix("fourier."): c for c in CLAIMS}
EXACT = [c.id.removeprefix("fourier.") for c in (*definitions.CLAIMS, *neurons.CLAIMS, *networks.CLAIMS)]


def nothing(experiment):
    return None


@cache
def judged(name):
    return verify(BY_NAME[name], Key("verify"), nothing)


@pytest.mark.parametrize("name", EXACT)
def test_exact_claims_have_the_expected_verdict(name):
    verdict = judged(name)
    assert verdict.as_expected, (verdict.verdict, verdict.why)


def test_the_printed_count_is_refuted_by_its_count_alone():
    """Attainment and the averaging of monomials hold; only the number of neurons is below what print needs."""
    cases = judged("necessary_neurons").evidence.cases
    assert [c.ok for c in cases] == [True, True, False]
    assert all(c.rival_rejected for c in cases)
    needed, had = (np.array(v) for v in (cases[2].predict, cases[2].observe))
    assert np.all(had < needed)


def test_ascent_arrives_and_stays():
    """To nine digits, which wrong slopes would not allow."""
    k, p = 3, 5
    start = Key("tests/ascent").numpy().standard_normal((k + 1) * p)
    value, end = neurons.ascend(k, p, start)
    assert value == pytest.approx(1, abs=1e-9)
    again, _ = neurons.ascend(k, p, end.ravel())
    assert again == pytest.approx(value, abs=1e-12)


def test_margins_by_orders_only_where_the_network_sees_none(monkeypatch):
    found, enumerated = networks.whole(networks.constructed(2, 5))
    assert enumerated
    assert found.points == 25
    monkeypatch.setattr(networks, "MANY", 1.0)
    found, enumerated = networks.whole(networks.constructed(2, 5))
    assert not enumerated
    assert found.points == 15
    with pytest.raises(ValueError, match="enumerated"):
        networks.whole(networks.cyclic(3, 5))
