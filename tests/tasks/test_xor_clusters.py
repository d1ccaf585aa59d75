"""XOR clusters: laws, moments, flips of exact mean, means of one's own, settings that are refused."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from featlearn.core import Key, SettingError
from featlearn.tasks import XorClusters
from featlearn.tasks.xor_clusters import XorTruth, lower_quantile, turn_to, unit_noise

KEY = Key("tests/xor_clusters")
LAWS = {
    "gaussian": stats.norm(),
    "laplace": stats.laplace(scale=1 / math.sqrt(2)),
    "uniform": stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)),
    "exponential": stats.expon(loc=-1),
}


@pytest.mark.parametrize("law", LAWS)
def test_laws_by_kolmogorov_smirnov(law):
    """100 000 numbers of a fixed key: the 1e-6 quantile of the statistic is 0.0085; a scale wrong by 10 % has 0.015."""
    z = unit_noise(law, (100_000, 1), (KEY / law).torch())[:, 0].numpy()
    assert stats.kstest(z, LAWS[law].cdf).statistic < 0.0085
    assert stats.kstest(1.1 * z, LAWS[law].cdf).statistic > 0.0085


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("share", [0.01, 0.15, 0.4, 0.5, 0.7, 0.99])
def test_quantiles_equal_scipy(law, share):
    assert lower_quantile(law, share) == pytest.approx(LAWS[law].ppf(share), abs=1e-6)
    assert lower_quantile(law, 0.0) == -math.inf


@pytest.mark.parametrize("d", [2, 3, 40])
def test_turning_takes_the_first_axes_to_the_means_and_keeps_lengths(d):
    truth = XorClusters(d).draw(KEY / d)
    z = turn_to(torch.eye(d), truth.features)
    torch.testing.assert_close(z[:2], truth.features, atol=1e-5, rtol=0)
    torch.testing.assert_close(z @ z.T, torch.eye(d), atol=1e-5, rtol=0)


def test_turning_to_the_axes_themselves_changes_nothing():
    z = torch.randn(10, 4, generator=KEY.torch())
    torch.testing.assert_close(turn_to(z.clone(), torch.eye(4)[:2]), z)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("noise", ["random", "adversarial"])
def test_moments_and_flips(law, noise):
    """n = 100 000: standard errors are below 0.01 sigma^2 and 0.0011; the bounds stand at more than 4.5 of them."""
    d, sigma, eta = 5, 0.4, 0.15
    task = XorClusters(d, sigma, eta, noise, law)
    truth = task.draw(KEY / "means")
    batch = task.sample(truth, 100_000, KEY / law / noise)
    z = batch.x - truth.centres[batch.group]
    cov = z.T @ z / len(z)
    assert (z.mean(0).abs() < 0.006).all()
    assert (cov - sigma**2 * torch.eye(d)).abs().max() < 0.05 * sigma**2
    assert torch.equal(batch.hidden, torch.where(batch.group < 2, 1.0, -1.0))
    flipped = batch.y != batch.hidden
    for c in range(4):
        assert float(flipped[batch.group == c].float().mean()) == pytest.approx(eta, abs=0.012)
    outward = (z @ truth.features[0] * torch.where(batch.group == 0, 1.0, -1.0))[batch.group < 2]
    bad = flipped[batch.group < 2]
    gap = float(outward[~bad].mean() - outward[bad].mean())
    assert gap > 0.9 * sigma if noise == "adversarial" else abs(gap) < 0.03  # nearest to the origin, or anywhere


def test_adversarial_flips_of_a_skewed_law_are_the_lower_tail_of_each_cluster():
    task = XorClusters(3, 0.2, 0.2, "adversarial", "exponential")
    truth = XorTruth(torch.eye(3)[:2])
    batch = task.sample(truth, 40_000, KEY / "skewed")
    for c in range(4):
        mine = batch.group == c
        along = batch.x[mine] @ truth.centres[c]
        bad = (batch.y != batch.hidden)[mine]
        assert along[bad].max() <= along[~bad].min() + 1e-5
        assert float(bad.float().mean()) == pytest.approx(0.2, abs=0.02)  # 10 000 samples: 5 standard errors


def test_no_variance_and_no_noise():
    task = XorClusters(4, 0.0, 0.0, "adversarial")
    truth = task.draw(KEY)
    batch = task.sample(truth, 100, KEY)
    torch.testing.assert_close(batch.x, truth.centres[batch.group])
    assert torch.equal(batch.y, batch.hidden)
    assert float((batch.x @ truth.features[0]).abs().max()) == pytest.approx(1, abs=1e-5)


def test_truth_orders_its_centres():
    truth = XorTruth(torch.eye(3)[:2])
    assert truth.labels.tolist() == [1, 1, -1, -1]
    torch.testing.assert_close(truth.centres[truth.opposite], -truth.centres)
    torch.testing.assert_close(truth.centres[::2], torch.eye(3)[:2])


def test_means_are_random_directions():
    found = np.array([XorClusters(3).draw(KEY / i).features.numpy() for i in range(200)])
    assert np.abs(found.mean(0)).max() < 0.2  # 5 standard errors of 1/sqrt(3 * 200)


@pytest.mark.parametrize(
    "make, field",
    [
        (lambda: XorClusters(d=1), "d"),
        (lambda: XorClusters(sigma=-0.1), "sigma"),
        (lambda: XorClusters(sigma=math.nan), "sigma"),
        (lambda: XorClusters(eta=0.5), "eta"),
        (lambda: XorClusters(eta=-0.01), "eta"),
        (lambda: XorTruth(torch.tensor([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0]])), "features"),
        (lambda: XorTruth(2 * torch.eye(3)[:2]), "features"),
        (lambda: XorTruth(torch.eye(3)), "features"),
        (lambda: XorTruth(torch.full((2, 3), math.nan)), "features"),
        (lambda: XorClusters(d=5).sample(XorTruth(torch.eye(4)[:2]), 3, KEY), "truth"),
    ],
)
def test_refused_in_one_line(make, field):
    with pytest.raises(SettingError) as e:
        make()
    assert e.value.field == field
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("field, value", [("law", "cauchy"), ("noise", "mean")])
def test_unknown_names_are_refused(field, value):
    task = XorClusters()
    object.__setattr__(task, field, value)  # past the annotation, which only the tests enforce
    with pytest.raises(SettingError, match=f"{field} = {value} is not allowed: one of "):
        task.__post_init__()
