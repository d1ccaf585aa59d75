"""The best second layer: against brute force, its own lower bound and planted solutions; sub-networks."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from featlearn.core import Key, SettingError
from featlearn.measure.best_network import (
    best_bounded_network,
    best_network,
    loss_by_size,
    mean_loss,
    subnetwork_scores,
)

KEY = Key("tests/best-network")


def problem(n=120, m=6):
    g = KEY.torch()
    f = torch.relu(torch.randn(n, m, generator=g, dtype=torch.float64))
    y = torch.sign(f[:, 0] - f[:, 1] + 0.7 * torch.randn(n, generator=g, dtype=torch.float64))
    return f, y


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
@pytest.mark.parametrize("norm", [0.2, 1.0, 30.0])
def test_value_is_between_lower_bound_and_every_other_point(loss, norm):
    f, y = problem()
    best = best_network(f, y, norm, loss)
    assert float(best.a.norm()) <= norm * (1 + 1e-9)
    assert best.loss == pytest.approx(mean_loss(f @ best.a, y, loss), abs=1e-12)
    assert best.lower - 1e-9 <= best.loss <= best.lower + 1e-4
    rng = KEY.numpy()
    for size in (1e-3, 1e-1):
        for _ in range(50):
            a = best.a + size * torch.as_tensor(rng.normal(size=6))
            a = a * min(1.0, norm / float(a.norm()))
            assert mean_loss(f @ a, y, loss) >= best.lower - 1e-9
    free = minimize(
        lambda a: mean_loss(f @ torch.as_tensor(a), y, loss),
        best.a.numpy(),
        method="Nelder-Mead",
        options={"maxiter": 3000},
    )
    if norm == 30.0:
        assert best.loss == pytest.approx(free.fun, abs=1e-4)


def test_a_smaller_ball_costs():
    f, y = problem()
    losses = [best_network(f, y, b).loss for b in (0.1, 0.5, 2.0, 10.0)]
    assert losses[0] > losses[1] + 0.05 > losses[2] + 0.05
    assert losses == sorted(losses, reverse=True)


def test_planted_solution_has_no_loss():
    g = KEY.torch()
    f = torch.randn(200, 5, generator=g)
    a = torch.tensor([3.0, 0.0, 0.0, 0.0, 0.0])
    keep = f[:, 0].abs() > 1 / 3
    y = f[:, 0].sign()
    assert best_network(f[keep], y[keep], norm=3.001).loss < 1e-4
    assert best_network(f[keep], y[keep], norm=1.0).lower > 0.1
    assert best_bounded_network(f[keep], y[keep], largest=3.001).loss < 1e-8
    assert best_bounded_network(f[keep], y[keep], largest=1.0).lower > 0.05
    assert best_network(f, f @ a, norm=3.001, loss="squared").loss < 1e-6


def test_weights_are_repeated_rows():
    f, y = problem(40, 3)
    counts = torch.arange(40) % 3
    repeated = torch.repeat_interleave(torch.arange(40), counts)
    weights = counts.double() / counts.sum()
    for loss in ("hinge", "logistic", "squared"):
        one = best_network(f, y, 1.0, loss, weights=weights).loss
        two = best_network(f[repeated], y[repeated], 1.0, loss).loss
        assert one == pytest.approx(two, abs=2e-5)
    one = best_bounded_network(f, y, 1.0, weights=weights).loss
    assert one == pytest.approx(best_bounded_network(f[repeated], y[repeated], 1.0).loss, abs=1e-8)


def test_box_is_looser_than_the_ball_inside_it_and_tighter_than_the_ball_around_it():
    f, y = problem()
    box = best_bounded_network(f, y, 0.3)
    assert float(box.a.abs().max()) <= 0.3
    assert best_network(f, y, 0.3 * math.sqrt(6)).lower - 1e-6 <= box.loss <= best_network(f, y, 0.3).loss + 1e-6
    assert box.loss == pytest.approx(box.lower, abs=1e-8)


def test_subnetworks():
    f, y = problem(30, 4)
    a = torch.tensor([1.0, -1.0, 0.5, 0.0], dtype=torch.float64)
    keep = torch.tensor([True, False, True, False])
    torch.testing.assert_close(subnetwork_scores(f, a, keep), f[:, 0] + 0.5 * f[:, 2])
    order = torch.tensor([2, 0, 1, 3])
    got = loss_by_size(f, y, a, order, torch.tensor([0, 2, 4]))
    expected = [1.0, mean_loss(f[:, 2] * 0.5 + f[:, 0], y, "hinge"), mean_loss(f @ a, y, "hinge")]
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda f, y: best_network(f, y, 0.0), "norm = 0.0"),
        (lambda f, y: best_network(f, 2 * y, 1.0), 'loss="squared"'),
        (lambda f, y: best_network(f * math.nan, y, 1.0), "features"),
        (lambda f, y: best_network(f, y, 1.0, loss="squared", weights=None) and best_network(f, y, math.inf), "norm"),
        (lambda f, y: best_bounded_network(f, y, -1.0), "-1.0"),
        (lambda f, y: loss_by_size(f, y, f[0], torch.zeros(6).long(), torch.tensor([1])), "permutation"),
        (lambda f, y: loss_by_size(f, y, f[0], torch.arange(6), torch.tensor([7])), "within 0..6"),
    ],
)
def test_wrong_input_is_refused(call, said):
    with pytest.raises(SettingError) as error:
        call(*problem())
    assert said in str(error.value)
