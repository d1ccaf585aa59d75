"""Environments: laws against formulas by hand and against samples, and what is refused."""

import math

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.tasks import Environments, Environments2d

KEY = Key("tests/environments")


def by_hand(b: float, agree: float) -> float:
    """P(u + b s v > 0) from areas of the unit square, b >= 0."""
    lost = b / 2 if b <= 1 else 1 - 1 / (2 * b)
    return agree + (1 - agree) * (1 - lost)


@pytest.mark.parametrize("agree", [0.7, 0.3, 1.0, 0.5])
def test_accuracy_is_the_area_that_a_direction_gets_right(agree):
    task = Environments2d(agree)
    slopes = [0.0, 0.2, 0.686, 1.0, 1.7, 30.0]
    ways = torch.tensor([[1.0, b] for b in slopes], dtype=torch.float64)
    expected = torch.tensor([by_hand(b, agree) for b in slopes], dtype=torch.float64)
    torch.testing.assert_close(task.accuracy(ways), expected, atol=1e-12, rtol=0)
    mirrored = torch.tensor([by_hand(b, 1 - agree) for b in slopes], dtype=torch.float64)
    torch.testing.assert_close(task.accuracy(ways * torch.tensor([1, -1])), mirrored, atol=1e-12, rtol=0)
    torch.testing.assert_close(task.accuracy(-3 * ways), 1 - expected, atol=1e-12, rtol=0)
    assert task.shifted.accuracy(ways[3]) == pytest.approx(by_hand(1.0, 1 - agree), abs=1e-12)


def test_accuracy_of_directions_on_the_axes():
    axes = torch.tensor([[0.0, 2.0], [0.0, -2.0], [-1.0, 0.0], [0.0, 0.0]])
    torch.testing.assert_close(Environments2d(0.7).accuracy(axes), torch.tensor([0.7, 0.3, 0.0, 0.0]))


@pytest.mark.parametrize("task", [Environments2d(0.7), Environments2d(0.3)])
def test_the_plane_is_sampled_as_its_law_says(task):
    n = 100_000
    batch = task.sample(task.draw(KEY), n, KEY / "plane")
    ways = torch.tensor([[1.0, 0.5], [1.0, 2.0], [0.3, -1.0]])
    found = (batch.y[:, None] * (batch.x @ ways.T) > 0).double().mean(0)
    exact = task.accuracy(ways.double())
    assert torch.all((found - exact).abs() < 4 * (exact * (1 - exact) / n).sqrt())
    moments = batch.x.double().T @ batch.x.double() / n
    torch.testing.assert_close(moments, task.second_moments, atol=4 * 0.34 / math.sqrt(n), rtol=0)
    signed = (batch.y[:, None] * batch.x).double()
    torch.testing.assert_close(signed.mean(0), task.mean, atol=4 * 0.58 / math.sqrt(n), rtol=0)
    assert torch.equal(signed[:, 1] > 0, batch.group == 1)
    assert torch.all(signed[:, 0] >= 0)


def test_features_follow_their_two_laws():
    task = Environments(d=30, r=12, gamma=0.3)
    for where, n in ((task, 20_000), (task.shifted, 20_000)):
        truth = where.draw(KEY)
        batch = where.sample(truth, n, KEY / where.gamma.hex())
        inside = truth.features.sum(0) > 0.5
        assert int(inside.sum()) == 12
        z = (batch.y[:, None] * batch.x).double()
        assert torch.equal(z, batch.hidden.double())
        for part, mean, variance in zip((z[:, inside], z[:, ~inside]), where.mean, where.variance, strict=True):
            size = part.numel()
            assert float(part.mean()) == pytest.approx(mean, abs=4 * math.sqrt(variance / size))
            assert float(part.var()) == pytest.approx(variance, abs=4 * math.sqrt(0.1 / size))
        assert bool((z[:, inside] >= 0).all())
        share = float((z[:, ~inside] > 0).double().mean())
        assert share == pytest.approx(0.5 + where.gamma, abs=4 * math.sqrt(0.25 / (18 * n)))


def test_density_and_the_range_of_theory():
    task = Environments(d=215, r=40, gamma=0.48)
    z = torch.tensor([-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5], dtype=torch.float64)
    expected = torch.tensor([0, 0.02, 0.02, 0.98, 0.98, 0.98, 0], dtype=torch.float64)
    torch.testing.assert_close(task.density(z), expected, atol=1e-12, rtol=0)
    assert task.in_theory
    assert task.shifted.in_theory
    assert not Environments(d=215, r=36, gamma=0.49).in_theory
    assert not Environments(d=215, r=40, gamma=0.47).in_theory
    assert not Environments(d=215, r=40, gamma=0.5).in_theory


@pytest.mark.parametrize(
    "make, field",
    [
        (lambda: Environments2d(1.2), "agree"),
        (lambda: Environments2d(float("nan")), "agree"),
        (lambda: Environments(d=4, r=5), "r"),
        (lambda: Environments(d=4, r=0), "r"),
        (lambda: Environments(d=9, r=5, gamma=0.6), "gamma"),
    ],
)
def test_wrong_settings_are_named(make, field):
    with pytest.raises(SettingError) as error:
        make()
    assert str(error.value).startswith(f"{field} = ")
    assert "\n" not in str(error.value)
