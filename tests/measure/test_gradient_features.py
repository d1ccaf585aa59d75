"""Simplified gradients, cones, estimated feature sets, rare events: against autograd, sampling and closed forms."""

import math

import pytest
import torch
from scipy.stats import norm

from featlearn.core import Key, SettingError
from featlearn.measure.gradient_features import (
    draw_in_box,
    gaussian_gradients,
    gradient_feature_set,
    in_cone,
    in_max_cone,
    log_interval,
    membership,
    nice_neurons,
    simplified_gradients,
    wilson,
)
from featlearn.tasks import BlockParity, GaussianMixture

KEY = Key("tests/gradient-features")
SIGMAS = 5.0


def normal(*shape, name="x"):
    return torch.randn(*shape, generator=(KEY / name).torch(), dtype=torch.float64)


@pytest.mark.parametrize("block", [7, 4096])
def test_simplified_gradient_is_the_gradient_where_the_network_is_zero(block):
    w, b, x = normal(5, 4, name="w"), normal(5, name="b"), normal(60, 4)
    y, a = normal(60, name="y").sign(), normal(5, name="a")
    twin_w = torch.cat([w, w]).requires_grad_()
    score = torch.relu(x @ twin_w.T - torch.cat([b, b])) @ torch.cat([a, -a])
    loss = torch.nn.functional.softplus(-y * score).mean()
    (grad,) = torch.autograd.grad(loss, twin_w)
    got = -0.5 * a[:, None] * simplified_gradients(w, b, x, y, block=block)  # l'(0) = -1/2
    torch.testing.assert_close(grad[:5], got, atol=1e-12, rtol=0)
    weights = torch.full((60,), 1 / 60, dtype=torch.float64)
    torch.testing.assert_close(
        simplified_gradients(w, b, x, y, weights), simplified_gradients(w, b, x, y), atol=1e-12, rtol=0
    )


def test_gaussian_gradients_agree_with_samples():
    task = GaussianMixture(d=6, labels=(1, -1, 1), weights=(0.5, 0.3, 0.2), separation=0.6, sigma=(0.5, 1.0, 1.5))
    truth = task.draw(KEY)
    w, b = normal(8, 6, name="w"), normal(8, name="b")
    n = 200_000
    batch = task.sample(truth, n, KEY / "data")
    exact = gaussian_gradients(w, b, truth.means, truth.labels, truth.weights, truth.sigma)
    got = simplified_gradients(w, b, batch.x.double(), batch.y.double())
    se = batch.x.std(0).double() / n**0.5 * 1.5
    assert ((got - exact).abs() < SIGMAS * se).all()
    assert exact.abs().max() > 20 * se.max()


def test_cones():
    d = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    v = torch.tensor([[1.0, 0.0], [-3.0, 0.1], [0.0, 0.0], [1.0, 1.0]])
    got = in_cone(v, d, torch.tensor([0.01, 0.5]))
    assert got.shape == (4, 2, 2)
    assert got[:, 0, 0].tolist() == [True, True, False, False]
    assert got[:, 0, 1].tolist() == [True, True, False, True]
    assert got[:, 1, 1].tolist() == [False, False, False, True]
    assert torch.equal(in_cone(-7 * v, d, 0.01), in_cone(v, -d, 0.01))
    assert in_max_cone(v, d[0], 0.3).tolist() == [True, False, False, False]
    assert in_max_cone(v, -d[0], 0.04).tolist() == [False, True, False, False]
    with pytest.raises(SettingError, match="directions = 1 of 1 rows of length 0"):
        in_cone(v, torch.zeros(1, 2), 0.1)


def test_wilson_covers():
    low, high = wilson(torch.tensor([0.0, 5.0, 10.0]), 10)
    assert low[0] == 0
    assert high[2] == 1
    assert high[0] == pytest.approx(0.2775, abs=1e-4)
    assert (low[1], high[1]) == (pytest.approx(0.2366, abs=1e-4), pytest.approx(0.7634, abs=1e-4))
    hits = torch.binomial(torch.full((4000,), 50.0), torch.full((4000,), 0.1), generator=KEY.torch())
    low, high = wilson(hits, 50)
    cover = float(((low <= 0.1) & (high >= 0.1)).double().mean())
    assert abs(cover - 0.95) < 0.03


def test_membership_counts_cone_norm_and_sign():
    g = torch.tensor([[2.0, 0.1], [0.5, 0.0], [0.0, 3.0], [-2.0, 0.0]])
    found = membership(
        g, torch.eye(2), torch.tensor([0.05]), 1.0, right_sign=torch.tensor([True, True, True, False]), log_given=-40.0
    )
    assert found.share[:, 0].tolist() == [0.25, 0.25]
    assert found.log_p[0, 0] == pytest.approx(math.log(float(found.low[0, 0])) - 40)


@pytest.mark.parametrize("rotate, inside", [(0.0, True), (20.0, False)])
def test_xor_clusters_are_features_and_rotated_directions_are_not(rotate, inside):
    truth = GaussianMixture.xor(d=400).draw(KEY)
    w = normal(2000, 400, name="w")
    b = torch.full((2000,), 1.4 * 20.0, dtype=torch.float64)
    g = gaussian_gradients(w, b, truth.means, truth.labels, truth.weights, truth.sigma)
    t = math.radians(rotate)
    aside = normal(400, name="aside").float()
    aside = aside - truth.features.T @ (truth.features @ aside) / 2  # features come in opposite pairs
    aside = aside / aside.norm()
    turned = math.cos(t) * truth.features[0] + math.sin(t) * aside
    found = membership(g, turned[None], torch.tensor([0.02]), 1.0)
    assert (float(found.low[0, 0]) > 0.02) == inside
    assert (float(found.high[0, 0]) < 0.02) == (not inside)


def test_features_are_found_without_being_told():
    task = BlockParity(d=60, r=1, k=9, p_A=0.25, p_o=0.1)
    truth = task.draw(KEY)
    batch = task.sample(truth, 20_000, KEY / "data")
    w = normal(600, 60, name="w").float()
    b = torch.full((600,), 5.0)
    g = simplified_gradients(w, b, batch.x, batch.y)
    found = gradient_feature_set(g, b, p=0.02, gamma=0.1, least_norm=0.2)
    assert len(found.directions) >= 1
    assert float((found.directions[0] @ truth.features[0]).abs()) > 0.97
    assert (found.sign == 1).all()
    assert found.low[0] < found.share[0] < found.high[0]
    fewer = gradient_feature_set(g, b, p=0.9, gamma=0.1, least_norm=0.2)
    assert len(fewer.directions) == 0
    other = gradient_feature_set(g, -b, p=0.02, gamma=0.1, least_norm=0.2)
    assert (other.sign == -1).all()


def test_nice_neurons_are_signed():
    w1 = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.1, 0.0], [0.0, 0.0]])
    b = torch.tensor([1.0, 1.0, -1.0, 1.0, 1.0, 1.0])
    a0 = torch.ones(6)
    assert nice_neurons(w1, a0, b, torch.tensor([1.0, 0.0]), 1.0, 0.1, 1.0, 0.5).tolist() == [True] + [False] * 5
    assert nice_neurons(w1, a0, b, torch.tensor([1.0, 0.0]), -1.0, 0.1, 1.0, 0.5)[2]
    assert nice_neurons(w1, 10 * a0, b, torch.tensor([1.0, 0.0]), 1.0, 0.1, 1.0, 0.5).tolist() == [False] * 6


@pytest.mark.parametrize("low, high", [(-1.0, 2.0), (3.0, 3.5), (-9.0, -8.5), (8.0, math.inf), (-math.inf, 0.25)])
def test_log_interval(low, high):
    got = float(log_interval(torch.tensor([low]).double(), torch.tensor([high]).double())[0])
    exact = norm.cdf(high) - norm.cdf(low) if low < 0 else norm.sf(low) - norm.sf(high)
    assert got == pytest.approx(math.log(exact), rel=1e-9)


def test_log_interval_far_away_and_empty():
    got = log_interval(torch.tensor([40.0, 2.0]), torch.tensor([math.inf, 2.0]))
    assert float(got[0]) == pytest.approx(float(norm.logsf(40.0)), rel=1e-9)
    assert float(got[1]) == -math.inf


def test_draws_in_a_box_follow_the_conditional_law():
    u = torch.linalg.qr(normal(7, 2, name="u"))[0].T
    w, log_p = draw_in_box(u, torch.tensor([1.0, -0.5]), torch.tensor([math.inf, 1.5]), 2.0, 20_000, KEY)
    plain = 2.0 * normal(400_000, 7, name="plain")
    keep = ((plain @ u.T) >= torch.tensor([1.0, -0.5])).all(1) & ((plain @ u.T)[:, 1] <= 1.5)
    share = float(keep.double().mean())
    assert abs(math.exp(log_p) - share) < SIGMAS * (share / 400_000) ** 0.5
    kept = plain[keep]
    spread = kept.std(0) * (1 / 20_000 + 1 / len(kept)) ** 0.5
    assert ((w.mean(0) - kept.mean(0)).abs() < SIGMAS * spread).all()
    assert ((w.std(0) / kept.std(0) - 1).abs() < SIGMAS * (1 / 40_000 + 1 / (2 * len(kept))) ** 0.5).all()


def test_draws_beyond_every_sample():
    w, log_p = draw_in_box(
        torch.eye(3)[:2], torch.tensor([30.0, -50.0]), torch.tensor([math.inf, -40.0]), 1.0, 500, KEY
    )
    assert log_p == pytest.approx(float(norm.logsf(30) + norm.logsf(40)), rel=1e-6)
    assert (w[:, 0] >= 30).all()
    assert (w[:, 1] <= -40).all()
    assert float(w[:, 1].mean()) == pytest.approx(-40 - 1 / 40, abs=SIGMAS / 40 / 500**0.5 + 1e-4)
    assert float(w[:, 0].mean()) == pytest.approx(30 + 1 / 30, abs=SIGMAS / 30 / 500**0.5 + 1e-4)


EYE = torch.eye(2)


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: simplified_gradients(EYE, torch.zeros(2), EYE * math.nan, torch.ones(2)), "finite"),
        (
            lambda: gaussian_gradients(EYE * 0, torch.zeros(2), EYE, torch.ones(2), torch.ones(2), torch.ones(2)),
            "norm 0",
        ),
        (lambda: gaussian_gradients(EYE, torch.zeros(2), EYE, torch.ones(2), torch.ones(2), torch.zeros(2)), "sigma"),
        (lambda: wilson(torch.zeros(1), 0), "n = 0"),
        (lambda: wilson(torch.zeros(1), 5, 1.0), "confidence"),
        (lambda: gradient_feature_set(EYE, torch.ones(2), 0.1, 0.1), "at least 4"),
        (lambda: gradient_feature_set(EYE, torch.ones(2), 1.5, 0.1), "p = 1.5"),
        (lambda: draw_in_box(torch.ones(2, 2), torch.zeros(2), torch.ones(2), 1.0, 2, KEY), "orthonormal"),
        (lambda: draw_in_box(EYE, torch.ones(2), torch.zeros(2), 1.0, 2, KEY), "low < high"),
        (lambda: draw_in_box(EYE, torch.zeros(2), torch.ones(2), 0.0, 2, KEY), "sigma_w"),
    ],
)
def test_wrong_input_is_refused(call, said):
    with pytest.raises(SettingError) as error:
        call()
    assert said in str(error.value)
