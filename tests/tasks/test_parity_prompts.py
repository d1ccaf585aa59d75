"""Sparse-parity prompts: the law of the pair, of the other signs and of the tasks, and what cannot be."""

import numpy as np
import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.tasks import ParityPrompts

KEY = Key("tests/parity_prompts")
N = 200_000
SIX_ERRORS = 6 * 0.5 / N**0.5
"""Six standard errors of a share."""


def test_pairs_of_signs_have_the_four_probabilities():
    task = ParityPrompts(d=5, k=3, gamma=0.2, p_T=0.0)
    truth = task.member(torch.tensor([3, 1]), torch.eye(5))
    batch = task.sample(truth, N, KEY / "law")
    phi = batch.hidden.numpy()
    for i, j, share in ((1, 1, 0.45), (1, -1, 0.25), (-1, 1, 0.25), (-1, -1, 0.05)):
        assert abs(np.mean((phi[:, 3] == i) & (phi[:, 1] == j)) - share) < SIX_ERRORS
    assert np.array_equal(batch.y.numpy(), phi[:, 3] * phi[:, 1])
    mean = (batch.y[:, None] * batch.hidden).mean(0).numpy()
    assert np.abs(mean - [0, 0.4, 0, 0.4, 0]).max() < 2 * SIX_ERRORS
    others = phi[:, [0, 2, 4]]
    assert np.abs(others.mean(0)).max() < 2 * SIX_ERRORS
    assert np.abs(np.corrcoef(phi.T) - np.eye(5))[np.ix_([0, 2, 4], range(5))].max() < 2 * SIX_ERRORS


def test_inputs_are_signs_through_an_orthonormal_dictionary():
    task = ParityPrompts(d=6, k=2)
    truth = task.draw(KEY)
    batch = task.sample(truth, 50, KEY / "data")
    g = truth.dictionary
    assert torch.allclose(g.T @ g, torch.eye(6), atol=1e-6)
    assert torch.allclose(batch.x, batch.hidden @ g.T)
    i, j = truth.blocks[0].tolist()
    assert torch.allclose(truth.features[0], (g[:, i] + g[:, j]) / 2**0.5)
    assert {i, j} == {0, 1}


def test_tasks_share_a_dictionary_and_prefer_the_first_signs():
    task = ParityPrompts(d=6, k=3, p_T=0.25)
    tasks = task.tasks(KEY, 8000)
    assert all(torch.equal(t.dictionary, tasks[0].dictionary) for t in tasks)
    pairs = np.array([t.blocks[0].tolist() for t in tasks])
    assert np.all(pairs[:, 0] != pairs[:, 1])
    rare = pairs.max(1) >= 3
    assert abs(rare.mean() - 0.25) < 6 * (0.25 * 0.75 / 8000) ** 0.5
    for group, number in ((pairs[~rare], 6), (pairs[rare], 24)):  # ordered pairs, uniform in each set
        _, counts = np.unique(group, axis=0, return_counts=True)
        expected = len(group) / number
        assert len(counts) == number
        assert np.abs(counts - expected).max() < 6 * expected**0.5
    groups = {bool(r): int(task.sample(t, 1, KEY).group[0]) for r, t in zip(rare, tasks[:50], strict=False)}
    assert groups == {False: 0, True: 1}


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: ParityPrompts(d=4, k=1), "k"),
        (lambda: ParityPrompts(d=4, k=5), "k"),
        (lambda: ParityPrompts(gamma=0.3), "gamma"),
        (lambda: ParityPrompts(gamma=float("nan")), "gamma"),
        (lambda: ParityPrompts(p_T=0.5), "p_T"),
        (lambda: ParityPrompts(p_T=-0.1), "p_T"),
        (lambda: ParityPrompts(d=4, k=4, p_T=0.1), "p_T"),
        (lambda: ParityPrompts().tasks(KEY, 0), "number"),
        (lambda: ParityPrompts().member(torch.tensor([2, 2]), torch.eye(8)), "pair"),
        (lambda: ParityPrompts().member(torch.tensor([2, 8]), torch.eye(8)), "pair"),
    ],
)
def test_what_cannot_be_is_refused(call, field):
    with pytest.raises(SettingError, match=rf"^{field} = .* is not allowed: .*; "):
        call()
