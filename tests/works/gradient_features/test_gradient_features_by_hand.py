"""Bounds and premises of the gradient-feature work that no observation comes near, with numbers worked out by hand."""

import math

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.works import load_claims
from featlearn.works.gradient_features.claims import bounds, mixture_networks

BY_NAME = {c.id.removeprefix("gradient_features."): c for c in load_claims("gradient_features")}


def said(name: str):
    """Settings of a claim, and what it states of them by name."""
    claim = BY_NAME[name]
    settings = claim.settings(Key("by hand"))
    return settings, {s.name: s for s in claim.statements(settings)}


def test_numbers_of_lemma_b41():
    """d = 100, C = 5: sqrt(tau log d) sigma = 2, so 1/2, 1, 4; (1 + 1) 10 = 20, its square and twice it; 1/log 100."""
    found = bounds.xor_numbers(100, C=5)
    assert tuple(vars(found).values()) == pytest.approx((4, 0.5, 1, 4, 20, 400, 40, 0.217147, 0.1, 2), rel=1e-5)


def test_bound_of_lemma_b8_at_the_first_step():
    """0.4 (||w|| B_x1 + 0.4) for each neuron, and 0.4 (0.5 + 0.2) for the planted one."""
    settings, statements = said("lemma_b8")
    value = np.asarray(statements["|a_i^(1)|"].value)
    size = np.sqrt((settings.w**2).sum(1))
    assert value[-1] == pytest.approx(0.28)
    mean = np.linalg.norm(settings.X, axis=1).mean()
    assert (value[:-1] / 0.4 - 0.4) / mean == pytest.approx(size)


def test_cosines_of_lemma_b47():
    """1/sqrt(1 + 4 (r - 1)) at r = 3 and 5: 1/3 and 1/sqrt(17)."""
    _, statements = said("lemma3_21_sign")
    found = [s for name, s in statements.items() if name.startswith("cos(G, D_1) of mirrored sure neurons")]
    assert [pytest.approx([1 / 3, 17**-0.5]) == np.asarray(s.value) for s in found].count(True) == 1


def test_premises_of_lemma_b54():
    """k^4 log(k d/eps) = 16 log 1020 = 110.8 is more than d = 51; 8 log 20 = 24 is less than m = 40."""
    claim = BY_NAME["lemma_b54"]
    premises = {p.says: p for p in claim.premises(None)}
    dimension = premises["d >= k^4 log(k d/eps)"]
    assert (dimension.met, dimension.detail) == (False, "51 against 111")
    assert premises["m >= k 2^k log(k/delta)"].met


def test_one_cluster_is_part_of_the_hinge_loss():
    """The loss over four clusters at C = 4, d = 1000 is that of its own and three times that of another."""
    seen = mixture_networks.sees_network(None, Key("unused"))
    s = math.sqrt(mixture_networks.TAU * math.log(1000))
    rest = 3 * mixture_networks.other_loss(s)
    own = seen["hinge loss of one cluster at C = 4, d = 1000"]
    assert seen["log of the hinge loss of g* at C = 4"][1] == pytest.approx(math.log(own + rest), rel=1e-12)
