"""Neuron measures against slow literal counts, on weights and data of no particular origin."""

import math

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.measure import (
    aligned,
    captures,
    closest_cluster,
    cluster_cosines,
    decision_grid,
    feature_movement,
    gate_shares,
    matching_neurons,
    neurons,
    off_class_overlap,
)

KEY = Key("tests/neurons")
E, M, D, N, C = 2, 9, 4, 60, 3


def make(name: str, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=(KEY / name).torch())


W, A, B, X = make("w", E, M, D), make("a", E, M), make("b", E, M), make("x", N, D)
CENTRES, LABELS = make("c", C, D), torch.tensor([1.0, -1.0, 1.0])
GROUP = torch.arange(N) % C


def test_cosines_and_closest_cluster():
    found = cluster_cosines(W, CENTRES)
    for e in range(E):
        for j in range(M):
            slow = [float(W[e, j] @ c / (W[e, j].norm() * c.norm())) for c in CENTRES]
            assert found[e, j].tolist() == pytest.approx(slow, abs=1e-6)
            value, which = closest_cluster(W, CENTRES)
            assert float(value[e, j]) == pytest.approx(max(slow), abs=1e-6)
            assert int(which[e, j]) == slow.index(max(slow))


def test_cosines_of_very_small_and_large_weights():
    for scale in (1e-30, 1e30):
        torch.testing.assert_close(cluster_cosines(W * scale, CENTRES), cluster_cosines(W, CENTRES))


def test_one_set_each():
    own = torch.stack([CENTRES, 2 - CENTRES])
    found = cluster_cosines(W, own)
    for e in range(E):
        torch.testing.assert_close(found[e], cluster_cosines(W[e : e + 1], own[e])[0])
    x, group = torch.stack([X, -X]), torch.stack([GROUP, GROUP.flip(0)])
    share = gate_shares(W, x, group, C)
    for e in range(E):
        torch.testing.assert_close(share[e], gate_shares(W[e : e + 1], x[e], group[e], C)[0])


def test_matching_neurons_by_hand():
    cos = cluster_cosines(W, CENTRES)
    found = matching_neurons(W, A, CENTRES, LABELS, 0.3)
    seen = set()
    for e in range(E):
        for j in range(M):
            fits = [c for c in range(C) if A[e, j] * LABELS[c] > 0 and cos[e, j, c] >= 0.3]
            best = max(fits, key=lambda c: float(cos[e, j, c])) if fits else -1
            assert int(found[e, j]) == best
            seen.add(best)
    assert seen == {-1, 0, 1, 2}
    assert matching_neurons(W, torch.zeros(E, M), CENTRES, LABELS, 0.0).max() == -1


@pytest.mark.parametrize("bias", [None, B])
@pytest.mark.parametrize("block", [2**24, M * 7])
def test_shares_and_captures_by_hand(bias, block, monkeypatch):
    monkeypatch.setattr(neurons, "BLOCK", block)
    found, held = gate_shares(W, X, GROUP, C, bias), captures(W, X, GROUP, C, bias)
    for e in range(E):
        for j in range(M):
            z = X @ W[e, j] + (0 if bias is None else bias[e, j])
            for c in range(C):
                active = z[GROUP == c] > 0
                assert float(found[e, j, c]) == pytest.approx(float(active.float().mean()), abs=1e-6)
                assert bool(held[e, j, c]) == bool(active.all())


def test_captures_one_missing_sample():
    w, x = torch.ones(1, 1, 1), torch.ones(1000, 1)
    group = torch.zeros(1000, dtype=torch.long)
    assert captures(w, x, group, 1).item()
    x[17] = 0.0  # on the kink: not active
    assert not captures(w, x, group, 1).item()


def test_an_empty_cluster_is_captured_by_none():
    share = gate_shares(W, X, GROUP, C + 1)
    assert share[..., C].isnan().all()
    assert not captures(W, X, GROUP, C + 1)[..., C].any()


def test_alignment_needs_both_halves():
    x = torch.tensor([[1.0, 0.0], [1.0, 0.2], [-1.0, 0.0], [-1.0, 0.5]])
    group, opposite = torch.tensor([0, 0, 1, 1]), torch.tensor([1, 0])
    w = torch.tensor([[[1.0, 0.0], [1.0, 3.0], [-1.0, 0.0], [0.1, -1.0], [1.0, 0.0]]])
    own = torch.tensor([[0, 0, 1, 0, -1]])
    # on and off; fires on one opposite sample; its own cluster is the other; misses a sample; in no set
    assert aligned(w, x, group, own, opposite).tolist() == [[True, False, True, False, False]]


def test_overlap_is_over_the_other_class():
    found = off_class_overlap(W, A, CENTRES, LABELS)
    for e in range(E):
        for j in range(M):
            other = [abs(float(W[e, j] @ CENTRES[c])) for c in range(C) if A[e, j] * LABELS[c] < 0]
            assert float(found[e, j]) == pytest.approx(max(other) / abs(float(A[e, j])), rel=1e-5)


@pytest.mark.parametrize("block", [2**24, M * 7])
def test_movement_by_hand(block, monkeypatch):
    monkeypatch.setattr(neurons, "BLOCK", block)
    after, ones = make("after", E, M, D), torch.full((E, M), 0.5)
    found = feature_movement(W, after, X, ones, B)
    for e in range(E):
        old, new = torch.relu(X @ W[e].T + 0.5), torch.relu(X @ after[e].T + B[e])
        torch.testing.assert_close(found[e], (new - old).norm(dim=1) / old.norm(dim=1))
    assert feature_movement(W, W, X, ones, ones).max() == 0


def test_grid_follows_the_plane():
    plane = torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, -1.0]])
    grid = decision_grid(lambda x: x, plane, reach=1, points=5)
    assert grid.across.tolist() == [-1, -0.5, 0, 0.5, 1]
    assert grid.score.shape == (5, 5, 3)
    assert grid.score[1, 4].tolist() == [0.0, 2.0, 0.5]  # up -0.5, across 1


ZERO = W.clone()
ZERO[1, 3] = 0
NAN = X.clone()
NAN[5, 1] = math.nan


@pytest.mark.parametrize(
    "call, field, says",
    [
        (lambda: cluster_cosines(ZERO, CENTRES), "w", "1 of 18 rows of length 0"),
        (lambda: closest_cluster(W * math.nan, CENTRES), "w", "18 of 18 rows"),
        (lambda: cluster_cosines(W, CENTRES * 0), "centres", "rows of length 0"),
        (lambda: list(neurons._sets(E, CENTRES.expand(3, C, D), 2, "centres")), "centres", "one for each of e = 2"),
        (lambda: gate_shares(W, NAN, GROUP, C), "x", "1 of 240 values not finite"),
        (lambda: captures(W, NAN, GROUP, C), "x", "not finite"),
        (lambda: aligned(W, NAN, GROUP, torch.zeros(E, M).long(), torch.tensor([1, 0, 2])), "x", "not finite"),
        (lambda: feature_movement(W, W, NAN), "x", "not finite"),
        (lambda: gate_shares(W, X, GROUP, C - 1), "group", "0 to 1"),
        (lambda: neurons._same_length(X, GROUP[:-1]), "group", "n = 60"),
        (lambda: feature_movement(W, W, X * 0), "x", "60 samples on which no neuron is active"),
        (lambda: off_class_overlap(W, A * 0, CENTRES, LABELS), "a", "18 zeros"),
        (lambda: decision_grid(lambda x: x, torch.eye(2), points=1), "points", "at least 2"),
        (lambda: decision_grid(lambda x: x, torch.eye(2), reach=0), "reach", "above 0"),
        (lambda: decision_grid(lambda x: x, torch.ones(2, 3)), "plane", "parallel"),
    ],
)
def test_refused_in_one_line(call, field, says):
    with pytest.raises(SettingError) as e:
        call()
    assert e.value.field == field
    assert says in str(e.value)
    assert "\n" not in str(e.value)
