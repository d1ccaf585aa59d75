"""Who is taken for whom, how far probabilities are true, and what guessing reaches: against formulas in loops."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score

from featlearn.apply.domains import balance
from featlearn.apply.domains.balance import balanced_minibatches, balanced_rows, class_weights
from featlearn.apply.domains.measures import BINS, Measures, against_majority, evaluated, majority, share_of, total
from featlearn.core import Key, SettingError
from featlearn.data.domains import TensorDomain
from featlearn.methods.domains import (
    VALIDATION,
    Minibatch,
    Part,
    State,
    coral,
    erm,
    evaluate,
    group_dro,
    mixup,
    vrex,
    with_nuclear_norm,
)

KEY = Key("tests/domain_measures")


def drawn(n=200, k=4):
    """Probabilities of k classes, and true classes of very different sizes."""
    g = KEY.torch()
    p = (3 * torch.randn(n, k, generator=g)).softmax(1)
    y = torch.multinomial(torch.tensor([0.7, 0.2, 0.08, 0.02][:k]), n, replacement=True, generator=g)
    return p, y


def ece_by_hand(p, y):
    """In loops: bins ((b-1)/15, b/15]."""
    out = 0.0
    for b in range(BINS):
        inside = [i for i in range(len(y)) if b / BINS < float(p[i].double().max()) <= (b + 1) / BINS]
        if inside:
            sure = sum(float(p[i].double().max()) for i in inside) / len(inside)
            right = sum(int(p[i].argmax()) == int(y[i]) for i in inside) / len(inside)
            out += len(inside) / len(y) * abs(sure - right)
    return out


def test_measures_are_their_formulas():
    p, y = drawn()
    found = Measures.of(p, y)
    guess = p.argmax(1)
    for c in range(4):
        for d in range(4):
            assert found.confusion[c, d] == sum(int(a) == c and int(b) == d for a, b in zip(y, guess, strict=True))
    assert found.accuracy == float((guess == y).double().mean())
    assert found.balanced == pytest.approx(balanced_accuracy_score(y, guess))
    assert found.balanced != pytest.approx(found.accuracy, abs=0.01)
    assert found.ece == pytest.approx(ece_by_hand(p, y), rel=1e-12)
    recalls = [float((guess[y == c] == c).double().mean()) for c in range(4)]
    assert found.recalls == pytest.approx(recalls)
    assert found.worst == (int(np.argmin(recalls)), min(recalls))


def test_probabilities_at_the_edge_of_a_bin():
    p = torch.tensor([[1.0, 0.0], [0.6, 0.4], [0.5, 0.5]], dtype=torch.float64)
    found = Measures.of(p, torch.tensor([0, 0, 1]))
    assert [int(i) for i in found.bins[:, 0].nonzero()[0]] == [7, 8, 14]  # (7/15, 8/15], (8/15, 9/15], (14/15, 1]
    assert found.ece == pytest.approx((0.0 + 0.4 + 0.5) / 3)


def test_a_class_without_images_counts_for_nothing():
    found = Measures.of(torch.tensor([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1]]), torch.tensor([0, 0]))
    assert found.recalls == [0.5, None, None]
    assert found.balanced == 0.5
    assert found.worst == (0, 0.5)


def test_parts_add_up():
    p, y = drawn()
    whole, halves = Measures.of(p, y), [Measures.of(p[:70], y[:70]), Measures.of(p[70:], y[70:])]
    both = total(halves)
    assert (both.confusion == whole.confusion).all()
    np.testing.assert_allclose(both.bins, whole.bins)
    with pytest.raises(SettingError, match="measures"):
        total([])


def domain(name, labels, shift=0.0):
    y = torch.tensor(labels)
    x = torch.randn(len(y), 3, generator=(KEY / name).torch()) + shift
    return TensorDomain(name, x.view(-1, 3, 1, 1), y)


def modules():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 5), torch.nn.Tanh()).requires_grad_(
        False
    ), torch.nn.Linear(5, 3).requires_grad_(False)


def test_evaluations_are_those_of_the_library_to_the_last_bit():
    featurizer, head = modules()
    domains = [domain("a", [0, 1, 2] * 200), domain("b", [0, 0, 1] * 100)]
    watch = {VALIDATION: [Part(d, torch.arange(len(d.y))) for d in domains], "one": [Part(domains[1], torch.arange(7))]}
    found, details = evaluated(featurizer, head, watch, 3, {"loss": 1.0})
    assert found == evaluate(featurizer, head, watch, 3, {"loss": 1.0})
    assert {name: list(by) for name, by in details.items()} == {VALIDATION: ["a", "b"], "one": ["b"]}
    assert details[VALIDATION]["a"].n == 600


def test_levels_of_guessing():
    a, b = domain("a", [0, 0, 0, 1]), domain("b", [1, 1, 2, 0])
    parts = [Part(a, torch.arange(4)), Part(b, torch.tensor([0, 2]))]
    assert majority(parts, 3) == 0  # three of six
    assert share_of([Part(b, torch.arange(4))], 0) == 0.25


def test_a_model_that_guessing_equals_has_a_large_p():
    counts = np.array([[90, 0], [10, 0]])
    level, p = against_majority(Measures(counts, np.zeros((BINS, 3))), 0)
    assert (level, p) == (0.9, 1.0)
    counts = np.array([[88, 2], [2, 8]])  # 8 images are right by the model alone, 2 by the label alone
    level, p = against_majority(Measures(counts, np.zeros((BINS, 3))), 0)
    assert level == 0.9
    assert p == pytest.approx(sum(math.comb(10, i) for i in (8, 9, 10)) / 2**10)


# --- classes of very different sizes ---------------------------------------------------------------------------------


UNEVEN = [0] * 12 + [1] * 3 + [2]


def minibatches():
    return [Minibatch(d.x, d.y) for d in (domain("a", UNEVEN), domain("b", [2, 1] * 8, 1.0))]


def test_weights_of_classes():
    d = domain("a", UNEVEN)
    weights = class_weights([Part(d, torch.arange(16))], 4)
    torch.testing.assert_close(weights, torch.tensor([16 / 36, 16 / 9, 16 / 3, 0.0]))


def risk(featurizer, head, x, y, weights):
    z = head(featurizer(x)).double().log_softmax(1)
    w = [float(weights[int(c)]) for c in y]
    return sum(-w[i] * z[i, int(y[i])] for i in range(len(y))) / sum(w)


def test_weights_stand_in_every_cross_entropy():
    featurizer, head = modules()
    weights, batches = torch.tensor([0.5, 2.0, 5.0]), minibatches()
    state = State(KEY, step=3)
    each = [risk(featurizer, head, b.x, b.y, weights) for b in batches]
    x, y = torch.cat([b.x for b in batches]), torch.cat([b.y for b in batches])

    def outcome(objective):
        return balance.weighted(objective, weights)(featurizer, head, batches, state)

    whole = risk(featurizer, head, x, y, weights)
    assert float(outcome(erm).loss) == pytest.approx(float(whole), rel=1e-5)
    assert float(erm(featurizer, head, batches, state).loss) != pytest.approx(float(whole), rel=0.05)
    assert float(outcome(coral).parts["risk"]) == pytest.approx(float(sum(each)) / 2, rel=1e-5)
    assert float(outcome(vrex).parts["vrex"]) == pytest.approx(float((each[0] - each[1]) ** 2) / 4, rel=1e-4)
    assert float(outcome(group_dro).parts["risk"]) == pytest.approx(float(sum(each)) / 2, rel=1e-5)
    plain, penalised = outcome(erm), outcome(with_nuclear_norm(erm, 0.1, 0))
    norm = penalised.parts["nuclear norm"]
    assert float(penalised.loss) == pytest.approx(float(plain.loss + 0.1 * norm), rel=1e-6)
    assert float(outcome(mixup).loss) != pytest.approx(float(mixup(featurizer, head, batches, state).loss), rel=0.01)


def test_weights_end_with_the_step():
    featurizer, head = modules()
    state, batches = State(KEY), minibatches()
    before = float(erm(featurizer, head, batches, state).loss)
    balance.weighted(erm, torch.tensor([0.5, 2.0, 5.0]))(featurizer, head, batches, state)
    assert float(erm(featurizer, head, batches, state).loss) == before


def test_irm_has_no_weights():
    with pytest.raises(SettingError, match="batches serves every algorithm"):
        balance.check("weights", "irm")
    balance.check("batches", "irm")
    balance.check("weights", "erm")


def test_balanced_batches_hold_all_classes_alike():
    y = torch.tensor(UNEVEN)
    steps = [balanced_rows(y, 6, step, KEY) for step in range(12)]
    for rows in steps:
        assert torch.bincount(y[rows], minlength=3).tolist() == [2, 2, 2]
    often = torch.bincount(torch.cat(steps), minlength=16)
    assert often.tolist() == [2] * 12 + [8] * 3 + [24]  # each row of a class once before any of it is used again
    assert torch.equal(steps[5], balanced_rows(y, 6, 5, KEY))
    assert not torch.equal(steps[0], steps[4])
    others = [balanced_rows(y, 3, 0, KEY, index, 2) for index in (0, 1)]
    assert torch.equal(torch.cat(others), steps[0])  # two processes share what one would take


def test_balanced_minibatches_are_of_their_parts():
    d = domain("a", UNEVEN)
    (found,) = balanced_minibatches([Part(d, torch.tensor([0, 1, 2, 12, 15]))], 9, 0, KEY)
    assert torch.bincount(found.y).tolist() == [3, 3, 3]
    allowed = d.x[[0, 1, 2, 12, 15]]
    assert all(any(torch.equal(row, other) for other in allowed) for row in found.x)
