"""Tasks that share features, and hidden features that a transformation draws anew: laws and what they refuse."""

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.tasks import InvariantFeatures, TaskMixture

KEY = Key("tests/tradeoff")


def test_features_of_each_task_are_shared_ones_and_a_block_of_its_own():
    task = TaskMixture(tasks=3, r=4, s=2, spurious=1)
    assert [task.of_task(t).tolist() for t in range(3)] == [[0, 1, 2, 3], [0, 1, 4, 5], [0, 1, 6, 7]]
    assert (task.k, task.d) == (8, 9)


def test_inputs_and_labels_are_written_out():
    task = TaskMixture(tasks=3, r=4, s=2, spurious=2)
    truth = task.draw(KEY)
    batch = task.sample(truth, 50, KEY / "x")
    assert batch.hidden is not None
    torch.testing.assert_close(batch.x, batch.hidden @ truth.dictionary.T)
    torch.testing.assert_close(batch.x @ truth.features.T @ truth.label, batch.y)
    assert (batch.hidden[:, 4:8] == 0).all()
    torch.testing.assert_close(truth.dictionary.T @ truth.dictionary, torch.eye(10), atol=1e-5, rtol=0)
    torch.testing.assert_close(truth.label.view(2, 2).square().sum(1), torch.full((2,), 0.5))


def test_pairs_share_the_features_of_one_task_and_nothing_else():
    task = TaskMixture(tasks=3, r=4, s=2, spurious=2, weights=(0.6, 0.3, 0.1))
    truth = task.draw(KEY)
    one, two = (x @ truth.dictionary for x in task.pairs(truth, 4000, KEY / "pairs"))
    torch.testing.assert_close(one[:, :8], two[:, :8], atol=1e-5, rtol=0)
    alive = (one[:, 2:8].abs() > 1e-4).view(-1, 3, 2).any(2)
    assert (alive.sum(1) == 1).all()
    torch.testing.assert_close(alive.float().mean(0), torch.tensor([0.6, 0.3, 0.1]), atol=0.03, rtol=0)
    assert abs(float((one[:, 8] * two[:, 8]).mean())) < 0.06


def test_triples_share_what_they_should():
    task = InvariantFeatures(invariant=(0.7, 0.2, 0.1), spurious=(0.4, 0.6), d=5)
    truth = task.draw(KEY)
    x, positive, negative = task.triples(truth, 6000, KEY / "triples")
    for batch in (x, positive, negative):
        assert batch.hidden is not None
        torch.testing.assert_close(batch.x, truth.inputs[batch.hidden[:, 0], batch.hidden[:, 1]])
    assert x.hidden is not None
    assert positive.hidden is not None
    assert negative.hidden is not None
    assert (x.hidden[:, 0] == positive.hidden[:, 0]).all()
    assert float((x.hidden[:, 1] == positive.hidden[:, 1]).float().mean()) == pytest.approx(0.52, abs=0.03)
    assert float((x.hidden[:, 0] == negative.hidden[:, 0]).float().mean()) == pytest.approx(0.54, abs=0.03)
    assert set(zip(x.hidden[:, 0].tolist(), x.y.tolist(), strict=True)) == {(0, -1.0), (1, -1.0), (2, 1.0)}


@pytest.mark.parametrize(
    "settings, field",
    [
        ({"tasks": 0}, "tasks"),
        ({"s": 6}, "s"),
        ({"s": 0}, "s"),
        ({"spurious": 0}, "spurious"),
        ({"weights": (0.5, 0.5)}, "weights"),
        ({"tasks": 2, "weights": (0.5, 0.6)}, "weights"),
    ],
)
def test_mixtures_that_cannot_be_are_refused(settings, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        TaskMixture(**settings)


@pytest.mark.parametrize(
    "settings, field",
    [
        ({"invariant": (1.0,)}, "invariant"),
        ({"spurious": (0.5, 0.6)}, "spurious"),
        ({"invariant": (1.2, -0.2)}, "invariant"),
        ({"d": 1}, "d"),
    ],
)
def test_laws_that_cannot_be_are_refused(settings, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        InvariantFeatures(**settings)


def test_truths_of_another_size_are_refused():
    task = TaskMixture(tasks=2, r=4, s=2)
    with pytest.raises(SettingError, match=r"^truth"):
        task.sample(TaskMixture(tasks=3, r=4, s=2).draw(KEY), 3, KEY)
