"""The balance regulariser against its formula in loops, and its gradients where probabilities vanish."""

import math

import pytest
import torch

from featlearn.core import Key
from featlearn.learn.balance import regulariser


def by_hand(prob):
    """(R1, R2) in loops."""
    n, classes = prob.shape
    mean = [sum(float(prob[i, j]) for i in range(n)) / n for j in range(classes)]
    entropies = [-sum(float(p) * math.log(p) for p in row if p > 0) for row in prob]
    return sum(p * math.log(p) for p in mean if p > 0), sum(entropies) / n


def test_it_is_the_formula():
    prob = torch.randn(7, 4, generator=Key("tests/balance").torch(), dtype=torch.float64).softmax(1)
    one, two = regulariser(prob)
    assert (float(one), float(two)) == pytest.approx(by_hand(prob), rel=1e-12)
    assert float(one) != pytest.approx(-float(two), rel=0.01)  # the entropy of the mean is not the mean entropy


def test_certain_predictions_have_no_entropy_and_finite_gradients():
    logits = torch.tensor([[300.0, 0.0, -300.0], [0.0, 300.0, -300.0]], requires_grad=True)
    one, two = regulariser(logits.softmax(1))
    (one + 0.5 * two).backward()
    assert (one.item(), two.item()) == (pytest.approx(-math.log(2)), pytest.approx(0.0, abs=1e-12))
    assert torch.isfinite(logits.grad).all()


def test_descending_r1_evens_the_mean_and_r2_decides():
    logits = torch.tensor([[2.0, 0.0], [2.0, 0.1]], requires_grad=True)
    one, two = regulariser(logits.softmax(1))
    (g,) = torch.autograd.grad(one, logits, retain_graph=True)
    assert (g[:, 0] > 0).all()  # the frequent class loses
    (g,) = torch.autograd.grad(two, logits)
    assert (g[:, 0] < 0).all()  # the likely class wins
