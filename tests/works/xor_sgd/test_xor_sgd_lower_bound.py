"""Claims on limits: what no rotation-invariant learner can do, and uniform convergence of gradients."""

import dataclasses
import math
from collections import Counter, defaultdict
from itertools import combinations, product

import numpy as np
import pytest
import torch

from featlearn.core import Key
from featlearn.lab.blind import apart
from featlearn.lab.claim import verdict_of
from featlearn.lab.quantity import SHARE
from featlearn.lab.uncertainty import mean_of
from featlearn.works.xor_sgd.claims import limits

BY_NAME = {c.id.removeprefix("xor_sgd."): c for c in limits.CLAIMS}


def quick(claim):
    """The same claim with few draws: which functions run does not depend on them."""
    if isinstance(claim.settings, limits.Uniform):
        return dataclasses.replace(claim, settings=limits.Uniform(d=(16, 32), draws=2, neurons=20, samples=100))
    plan = limits.LowerBound(draws=2, quick_draws=3, small=((3, 1), (3, 2)), ample=(3, 2))
    return dataclasses.replace(claim, settings=lambda key: dataclasses.replace(limits.draw_lower_bound(key), plan=plan))


@pytest.mark.parametrize("name", BY_NAME)
def test_the_verdict_is_as_expected(name):
    verdict = verdict_of(BY_NAME[name], Key("verify"))
    assert verdict.as_expected, [(f.statement.name, f.outcome, f.why) for f in verdict.findings if not f.as_expected]
    assert verdict.covers
    assert verdict.scope == {"lower_bound_F1": "premise not decidable", "discussion_limits": "as stated"}[name]
    assert [p.says for p in verdict.premises if p.met is False] == []


@pytest.mark.parametrize("name", BY_NAME)
def test_prediction_and_observation_share_no_function(name):
    assert apart(quick(BY_NAME[name]), Key("apart")) == []


def slow_best_error(d, n):
    """Over all inputs, samples and pairs: records of inner products and labels, and the rarer label of each."""
    points = list(product((-1, 1), repeat=d))
    records = defaultdict(Counter)
    for chosen in product(points, repeat=n + 1):
        gram = tuple(int(np.dot(u, v)) for u, v in combinations(chosen, 2))
        for i, j in combinations(range(d), 2):
            y = [-v[i] * v[j] for v in chosen]
            records[gram, tuple(y[:-1])][y[-1]] += 1
    return sum(min(c[1], c[-1]) for c in records.values()) / sum(c.total() for c in records.values())


@pytest.mark.parametrize(("d", "n"), [(2, 1), (3, 1), (4, 1), (3, 2)])
def test_the_best_learner_is_that_of_all_records(d, n):
    assert limits.best_error(d, n) == pytest.approx(slow_best_error(d, n), abs=1e-14)


def test_more_samples_help_the_best_learner():
    errors = [limits.best_error(3, n) for n in range(1, 6)]
    assert errors == sorted(errors, reverse=True)
    assert limits.best_error(2, 1) == 0.0  # one pair alone: the bound is about large d


def test_pairs_in_doubt_counts_pairs_whose_label_is_not_settled():
    free = np.array(list(product((-1.0, 1.0), repeat=4)))
    assert limits.pairs_in_doubt(free) == 1.0
    assert limits.pairs_in_doubt(free[:2]) == 0.5  # one coordinate is free: three pairs of six
    ninety = np.concatenate([np.ones((9, 2)), [[1.0, -1.0]]])
    assert limits.pairs_in_doubt(ninety) == 0.0  # an error of 0.1
    at_the_limit = np.array([[1.0, 1.0]] * 17 + [[1.0, -1.0]] * 3)
    assert limits.pairs_in_doubt(at_the_limit) == 1.0  # an error of exactly 0.15


def test_large_cells_are_all_cells_of_64_points_and_more():
    found = limits.large_cells(Key("test/cells"))
    assert min(map(len, found)) >= 64
    of_one_sample = [math.comb(12, h) for h in range(13) if math.comb(12, h) >= 64]
    assert sorted(of_one_sample) == sorted(map(len, found[2 : 2 + len(of_one_sample)]))
    assert len(found) > 2 + len(of_one_sample)


def test_cells_are_products_with_all_samples():
    x = np.array([[1.0, 1, 1], [1, 1, -1], [1, -1, 1]])
    assert limits.cells_of(x, np.array([[1.0, 1, 1]])).tolist() == [1, 0, 0]
    assert len(set(limits.cells_of(x, np.array([[1.0, 1, 1], [1.0, 1, -1]])))) == 3


def test_the_learner_that_knows_the_axes_finds_the_pair():
    x, y, new, truth = limits.drawn_task(256, 40, 100, Key("axes"))
    assert torch.equal(limits.axes_scores(x, y, new), truth)


def test_learners_without_errors_contradict_the_bound(monkeypatch):
    none = mean_of(np.zeros(300), SHARE, "draw")
    names = (*limits.KERNELS, "network", "axes")
    monkeypatch.setattr(limits, "trained_errors", lambda plan, key: dict.fromkeys(names, none))
    assert verdict_of(quick(BY_NAME["lower_bound_F1"]), Key("verify")).findings[0].outcome == "contradicted"


def test_only_learners_that_do_not_know_the_axes_are_rotation_invariant(monkeypatch):
    drawn = limits.draw_lower_bound(Key("s"))
    assert limits.lower_premises(drawn)[1].met is True
    monkeypatch.setattr(limits, "kernel_scores", lambda name, *data: limits.axes_scores(*data))
    assert limits.lower_premises(drawn)[1].met is False


def test_the_error_of_the_gradient_is_of_the_size_that_section_5_says():
    """d = 64: pi/2 d^2 samples."""
    plan = limits.Uniform(draws=1, neurons=2000, samples=1000)
    assert limits.resolving_samples(plan, 64, Key("one")) / 64**2 == pytest.approx(np.pi / 2, rel=0.08)


def test_a_signal_of_another_power_is_told_apart(monkeypatch):
    honest = limits.resolving_samples
    monkeypatch.setattr(limits, "resolving_samples", lambda plan, d, key: honest(plan, d, key) / d**0.3)
    claim = dataclasses.replace(
        BY_NAME["discussion_limits"], settings=limits.Uniform(d=(16, 64), draws=4, neurons=300, samples=800)
    )
    assert verdict_of(claim, Key("verify")).findings[0].outcome == "contradicted"
