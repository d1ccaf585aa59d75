"""Claims of the trade-off work that are computed from its formulas: verdicts, blind tests, planted faults, checks."""

import dataclasses
import importlib
import pkgutil

import numpy as np
import pytest
import torch

from featlearn.core import Key
from featlearn.lab import inventory
from featlearn.lab.claim import predict, settle, verdict_of
from featlearn.works.tradeoff import claims as package
from featlearn.works.tradeoff.claims import (
    bounds,
    definitions,
    example_xor,
    hidden,
    invariance,
    linear_data,
    linear_setting,
    mixtures,
)
from featlearn.works.tradeoff.claims.regularised import TIGHT_CHOSEN
from featlearn.works.tradeoff.setup import Mixture

MODULES = (hidden, invariance, example_xor, linear_setting, linear_data, bounds, definitions)
CLAIMS = {c.id.removeprefix("tradeoff."): c for module in MODULES for c in module.CLAIMS}
ALL = {**CLAIMS, **{c.id.removeprefix("tradeoff."): c for c in mixtures.CLAIMS}}


def test_checks_of_the_inventory_name_statements_or_reasons():
    modules = [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
    there = [c for module in modules for c in getattr(module, "CLAIMS", ())]
    names = {c.id: {s.name for s in predict(c, settle(c, Key("verify")))} for c in there}
    covered = {entry for claim in ALL.values() for entry in claim.entries}
    assert len(covered) == 14
    for entry in inventory.load("tradeoff").entries:
        if entry.id not in covered:
            continue
        assert entry.checks, entry.id
        for words, places in entry.checks.items():
            for place in places:
                claim, _, statement = place.partition(": ")
                if claim == "reason":
                    assert len(statement) > 10, (entry.id, words)
                else:
                    assert statement in names[claim], (entry.id, words, place)


def test_every_statement_is_named_by_a_check():
    named = {
        place for entry in inventory.load("tradeoff").entries for places in entry.checks.values() for place in places
    }
    for claim in ALL.values():
        for s in predict(claim, settle(claim, Key("verify"))):
            assert f"{claim.id}: {s.name}" in named, (claim.id, s.name)


def test_nothing_of_the_paper_is_accused():
    """Each accusation that this work made had a reading in which the paper is right."""
    modules = [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
    there = [c for module in modules for c in getattr(module, "CLAIMS", ())]
    assert [c.id for c in there if c.accuses] == []
    against = [s for c in there for s in predict(c, settle(c, Key("verify"))) if s.expect == "contradicted"]
    # a threshold and a question of ours, about no entry
    assert [(s.name, s.form) for s in against] == [(TIGHT_CHOSEN, "criterion")]


def test_thresholds_of_the_proof_are_those_of_the_inventory():
    wanted = {0.02: 2.229, 0.05: 2.002, 0.1: 1.798, 0.2: 1.534, 0.3: 1.312, 0.4: 1.068, 0.45: 0.914, 0.5: 0.707}
    found = {p: invariance.sufficient_norm(p) for p in wanted}
    assert found == pytest.approx(wanted, abs=1e-3)


def test_exact_losses_are_means_of_samples():
    m = Mixture((0.7, 0.3), (0.5, 1.5), (2.0, 0.7))
    g, n = Key("tests/tradeoff/exact").numpy(), 200_000
    w = g.normal(size=(7, 7)) / 4
    gram, total = w.T @ w, 0.0
    for weight, shared, own, alive in zip(m.weights, m.shared, m.own, ([2, 3], [4, 5]), strict=True):
        z = np.zeros((n, 7))
        z[:, :2], z[:, alive] = shared * g.normal(size=(n, 2)), own * g.normal(size=(n, 2))
        two = z.copy()
        z[:, 6], two[:, 6] = g.normal(size=n), g.normal(size=n)
        total += weight * np.exp(-np.einsum("ni,ij,nj->n", z, gram, two)).mean()
    assert float(linear_data.exact_loss(torch.from_numpy(gram), m)) == pytest.approx(total, abs=0.005)


# faults ---------------------------------------------------------------------------------------------------------------

honest = {
    "enumerated": hidden.enumerated,
    "slope": invariance.Pairs.slope,
    "mixed": invariance.mixed,
    "exact_loss": linear_data.exact_loss,
    "project_gram": linear_data.project_gram,
    "near": bounds.near,
    "leading": bounds.leading,
    "triples": hidden.InvariantFeatures.triples,
    "pairs": linear_setting.TaskMixture.pairs,
    "fine_tune": definitions.fine_tune,
}


def same_spurious(self, truth, n, key):
    x, _, negative = honest["triples"](self, truth, n, key)
    return x, x, negative


def kept_spurious(self, truth, n, key):
    x, _ = honest["pairs"](self, truth, n, key)
    return x, x


def biased(joint, phi):
    """z_U+ of a uniform law."""
    marginal = np.full(joint.shape[1], 1 / joint.shape[1])
    total = 0.0
    for (r, u), p in np.ndenumerate(joint):
        for v, q in enumerate(marginal):
            for (other, w), m in np.ndenumerate(joint):
                total -= p * q * m * float(phi[r, u] @ (phi[r, v] - phi[other, w]))
    return total


def pulled(*data, weight, **rest):
    """The regulariser pulls at the classifier."""
    run = honest["fine_tune"](*data, weight=weight, **rest)
    with torch.no_grad():
        run.head.weight += 0.01 * weight
    return run


def unshared(self, gram):
    """Pairs that share nothing."""
    free = dataclasses.replace(self, kin=np.tile(self.law, (len(self.law), 1)))
    return honest["slope"](free, gram)


FAULTS = {
    "pairs of the library share z_U too": ("def_contrastive", (hidden.InvariantFeatures, "triples", same_spurious)),
    "z_U+ has another law": ("theorem7_1", (hidden, "enumerated", biased)),
    "positive pairs share nothing": ("theorem7_2_1", (invariance.Pairs, "slope", unshared)),
    "(F.29) with half of alpha^2": (
        "theorem7_2_2",
        (invariance, "mixed", lambda norm, share: honest["mixed"](norm, share / 2)),
    ),
    "z_2 turns nothing": (
        "theorem7_2_order",
        (invariance, "turned", lambda norm: norm * np.array([[1.0, 0], [1, 0], [-1, 0], [0, -1]])),
    ),
    "z_1 and z_2 are independent": ("theorem7_2_order", (invariance, "dependent", invariance.independent)),
    "the regulariser pulls at the classifier": ("method_cr", (definitions, "fine_tune", pulled)),
    "another task's features are encoded too": ("prop7_4", (linear_data, "FIRST", linear_data.BOTH)),
    "pairs of the mixture share z_U too": ("linear_setting", (linear_setting.TaskMixture, "pairs", kept_spurious)),
    "the budget is one too large": (
        "lemmaF_3",
        (linear_data, "project_gram", lambda g, budget: honest["project_gram"](g, budget + 0.01)),
    ),
    "one task keeps 0.1 % less": (
        "prop7_4",
        (linear_data, "project_gram", lambda g, budget: 0.999 * honest["project_gram"](g, budget)),
    ),
    "tuning goes 1 % too far": (
        "propF_9",
        (bounds, "near", lambda w, start, gamma: honest["near"](w, start, 1.01 * gamma)),
    ),
    "leading terms of half as many tasks": (
        "propF_8",
        (bounds, "leading", lambda t, s, key: honest["leading"](1 + (t - 1) / 2, s, key)),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(fault, monkeypatch):
    name, (where, what, wrong) = FAULTS[fault]
    monkeypatch.setattr(where, what, wrong)
    assert not verdict_of(CLAIMS[name], Key("verify")).as_expected
