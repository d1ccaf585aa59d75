"""What the bounds and the general setting of the emergence work are computed with, against literal sums."""

import math
from itertools import combinations, product

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.tasks import ParityMix
from featlearn.works.emergence.claims import lower_bounds, statistical_queries
from featlearn.works.emergence.setup import GeneralLaw, general_parity, general_terms, near_orthogonal


def test_walsh_transform_is_the_mean_times_each_parity():
    z = lower_bounds.cube(5)
    values = np.random.default_rng(0).normal(size=(32, 3))
    got = lower_bounds.walsh(values)
    for mask in range(32):
        literal = (values * lower_bounds.parity(z, mask)[:, None]).mean(0) if mask else values.mean(0)
        np.testing.assert_allclose(got[mask], literal, atol=1e-15)
    assert sorted(lower_bounds.subsets(5, 2)) == sorted((1 << i) + (1 << j) for i, j in combinations(range(5), 2))


def test_mixture_weights_are_the_sampled_law():
    """n = 200000 samples of the task; 3 statistics within 5 standard errors (at most 0.5 / sqrt(n) each)."""
    D, k, p_o, n = 8, 3, 0.25, 200_000
    task = ParityMix(d=D, D=D, k=k, p_o=p_o)
    truth = task.draw(Key("mixture"))
    batch = task.sample(truth, n, Key("mixture/data"))
    phit = batch.hidden.numpy()
    mask = sum(1 << int(j) for j in truth.relevant)
    z = lower_bounds.cube(D)
    weights = lower_bounds.mixture_weights(z, mask, p_o)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    other = [j for j in range(D) if not mask >> j & 1]
    tied = np.abs(z[:, truth.relevant.numpy()].sum(1)) == k
    seen = np.array(
        [
            np.ptp(phit[:, truth.relevant], axis=1).mean(),
            phit[:, other[0]].mean(),
            (phit[:, other[0]] * phit[:, other[1]]).mean(),
        ]
    )
    law = np.array([weights @ ~tied, weights @ (z[:, other[0]] > 0), weights @ (z[:, other[:2]] > 0).all(1)])
    assert np.abs(seen - law).max() < 5 * 0.5 / math.sqrt(n)
    assert abs(law[2] - law[1] ** 2) > 5 * 0.5 / math.sqrt(n)  # background patterns are dependent at p_o < 1/2


def test_general_parity_is_the_sampled_law():
    """n = 200000 samples; every mean of y, phit, y phit within 5 standard errors of the enumeration."""
    D, k, n = 6, 3, 200_000
    task = ParityMix(d=D, D=D, k=k, p_o=0.4, negative_share=0.8)
    truth = task.draw(Key("general"))
    batch = task.sample(truth, n, Key("general/data"))
    order = np.r_[truth.relevant.numpy(), np.setdiff1d(np.arange(D), truth.relevant.numpy())]
    phit, y = batch.hidden.numpy()[:, order], batch.y.numpy()
    law = general_parity(D, k, np.eye(D), p_o=0.4, negative_share=0.8)
    assert law.prob.sum() == pytest.approx(1, abs=1e-12)
    seen = np.concatenate([[y.mean()], phit.mean(0), (y[:, None] * phit).mean(0), (phit[:, :1] * phit).mean(0)])
    weight = law.prob * law.y
    exact = np.concatenate([[weight.sum()], law.mean, weight @ law.phit, (law.prob * law.phit[:, 0]) @ law.phit])
    assert np.abs(seen - exact).max() < 5 / math.sqrt(n)
    assert law.mean[:k] == pytest.approx(truth.mean[truth.relevant].numpy(), abs=1e-6)


def test_general_terms_are_literal_sums():
    """T_j, T_b, T_a and v of one neuron against a direct sum over inputs and a fine grid over the noise along w."""
    law = general_parity(6, 3, near_orthogonal(6, 7, 0.1, np.random.default_rng(0)), sigma_z=0.4)
    rng = np.random.default_rng(1)
    w, b, noise = rng.normal(size=(1, 7)), np.array([0.2]), 0.3
    t = general_terms(law, w, b, noise)
    node, weight = np.polynomial.hermite_e.hermegauss(60)
    weight = weight / weight.sum()
    length = np.linalg.norm(w)
    T, T_b, v = np.zeros(6), 0.0, 0.0
    for phi, x, y, p, alpha in zip(law.phi, law.x, law.y, law.prob, law.alpha, strict=True):
        for zeta, q in zip(law.sigma_z * node, weight, strict=True):
            u = float(x @ w[0] + b[0] + length * zeta / law.scale)
            inside = 0.5 * (math.erf((1 - u) / noise / math.sqrt(2)) + math.erf(u / noise / math.sqrt(2)))
            T, T_b = T + p * q * alpha * y * inside * phi, T_b + p * q * alpha * y * inside
            v += p * q * alpha * y * inside * zeta / law.scale
    np.testing.assert_allclose(t.T[0], T, atol=1e-9)
    assert t.T_b[0] == pytest.approx(T_b, abs=1e-9)
    np.testing.assert_allclose(t.v[0], v * w[0] / length, atol=1e-9)
    assert abs(v) > 1e-4


def test_advantages_without_queries_are_enumerated():
    D, k = 9, 3
    z, masks = lower_bounds.cube(D), lower_bounds.subsets(D, k)
    vote = np.sign(statistical_queries.all_parities(z, masks, np.ones(len(masks))))
    for mask in masks[:5]:
        right = (vote * lower_bounds.parity(z, int(mask))).mean() / 2
        assert statistical_queries.vote_advantage(D, k) == pytest.approx(right, abs=1e-12)
    most = 2
    guess = np.where((z > 0).sum(1) <= most, -1.0, 1.0)
    count = (z[:, :k] > 0).sum(1)
    worst = math.inf
    for size in range(k + 1):
        for positive in combinations(range(1, k + 1), size):
            y = np.where(np.isin(count, positive), 1.0, -1.0)
            if y.mean() == 0:
                worst = min(worst, (guess * y).mean() / 2)
    assert statistical_queries.few_advantage(D, k, most) == pytest.approx(worst, abs=1e-12)
    assert worst > 0


def test_an_answer_by_the_number_of_present_patterns_is_right_on_every_function_of_the_count():
    D, k = 6, 2
    z = lower_bounds.cube(D)
    total, count = (z > 0).sum(1), (z[:, :k] > 0).sum(1)
    labels = [np.array([-1.0, *y])[count] for y in product((-1.0, 1.0), repeat=k)]
    rng = np.random.default_rng(0)
    tried = rng.uniform(-1, 1, (4000, D + 1))
    best = max(min(float((h[total] * y).mean()) / 2 for y in labels) for h in tried)
    assert statistical_queries.any_advantage(D, k) >= best > 0


def test_adversary_is_consistent_with_every_set_it_keeps():
    D, k, tolerance = 8, 3, 0.3
    z, masks = lower_bounds.cube(D), lower_bounds.subsets(D, k)
    oracle, asked, rng = statistical_queries.Adversary(masks, tolerance), [], np.random.default_rng(0)
    for i in range(60):
        if i % 2:
            positive, negative = rng.choice([-1.0, 1.0], (2, len(z)))
        else:
            probe = np.sign(statistical_queries.all_parities(z, rng.permutation(masks)[:3], np.ones(3)))
            positive, negative = probe, -probe
        asked.append((positive, negative, oracle.ask(positive, negative)))
        assert oracle.alive.any()
        assert oracle.eliminated[-1] <= 1 / tolerance**2 or not oracle.alive.sum() > 1
    pairs = [(1, m) for m in masks[oracle.alive]] + [(-1, m) for m in masks[oracle.flipped]]
    for sign, mask in pairs:
        y = sign * lower_bounds.parity(z, int(mask))
        for positive, negative, answer in asked:
            assert abs(np.where(y > 0, positive, negative).mean() - answer) <= tolerance + 1e-12
    assert oracle.alive.sum() < len(masks)
    with pytest.raises(ValueError, match="-1, 1"):
        oracle.ask(2 * z[:, 0], z[:, 0])


def test_an_adversary_that_can_deny_a_signal_does():
    """0.6 z_0 + 0.2 z_1 + 0.2 z_2 at tolerance 1/2: the answer 0 costs the first set alone."""
    probe = lower_bounds.cube(3) @ np.array([0.6, 0.2, 0.2])
    oracle = statistical_queries.Adversary(lower_bounds.subsets(3, 1), 0.5)
    assert oracle.ask(probe, -probe) == pytest.approx(0, abs=1e-12)
    assert (oracle.alive.tolist(), oracle.eliminated) == ([False, True, True], [1])


def test_near_orthogonal_patterns_have_the_asked_coherence():
    M = near_orthogonal(12, 20, 1 / 100, np.random.default_rng(0))
    gram = M.T @ M
    np.testing.assert_allclose(np.diag(gram), 1, atol=1e-12)
    np.testing.assert_allclose(np.abs(gram - np.eye(12))[~np.eye(12, dtype=bool)], 0.01, atol=1e-12)


def test_class_weights_and_scale_of_a_law_by_hand():
    law = GeneralLaw(
        np.array([[0.0], [1.0]]), np.array([-1.0, 1.0]), np.array([0.8, 0.2]), np.ones((3, 1)) / 3**0.5, 1, 0.5
    )
    assert law.scale == pytest.approx(math.sqrt(0.16 + 0.75))
    np.testing.assert_allclose(law.alpha, [0.625, 2.5])
    assert law.gamma[0] == pytest.approx(0.5)
