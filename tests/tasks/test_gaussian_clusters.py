"""Gaussian clusters: exact geometry, and the sampler within 5 standard errors (6e-7 a number) with fixed keys."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from featlearn.core import Key, SettingError
from featlearn.tasks import GaussianClusters

KEY = Key("tests/clusters")
REPORTED = [(100, 4, 1.0, 16), (25, 4, 0.7, 16), (100, 5, 1.0, 32)]  # d, k, sigma_r, clusters of the three experiments


@pytest.mark.parametrize("d, k, sigma_r, clusters", REPORTED)
def test_centres_are_all_signed_sums_with_parity_labels(d, k, sigma_r, clusters):
    truth = GaussianClusters(d, k, sigma_r).draw(KEY)
    assert truth.centres.shape == (clusters, d)
    torch.testing.assert_close(truth.dictionary.T @ truth.dictionary, torch.eye(k), atol=1e-6, rtol=0)
    torch.testing.assert_close(truth.centres.norm(dim=1), torch.full((clusters,), k**0.5), atol=1e-5, rtol=0)
    signs = truth.centres @ truth.dictionary
    torch.testing.assert_close(signs.abs(), torch.ones(clusters, k), atol=1e-5, rtol=0)
    assert len(signs.round().unique(dim=0)) == clusters
    torch.testing.assert_close(truth.labels, signs.prod(1), atol=1e-5, rtol=0)
    assert truth.labels.sum() == 0
    torch.testing.assert_close(truth.features * k**0.5, truth.centres)


def test_the_first_experiment_is_what_is_drawn_unasked():
    task = GaussianClusters()
    assert (task.d, task.k, task.sigma_r) == REPORTED[0][:3]


@pytest.mark.parametrize("d, k, sigma_r, clusters", REPORTED)
def test_samples_lie_around_their_centres_with_the_reported_noise(d, k, sigma_r, clusters):
    """E||g||^2 = sigma_r^2 k, no mean, and clusters equally likely (chi-square, p > 1e-6)."""
    task, n = GaussianClusters(d, k, sigma_r), 20_000
    truth = task.draw(KEY)
    batch = task.sample(truth, n, KEY / "sample")
    assert torch.equal(batch.y, truth.labels[batch.group])
    assert torch.equal(batch.y, batch.hidden.prod(1))
    torch.testing.assert_close(batch.hidden @ truth.dictionary.T, truth.centres[batch.group], atol=1e-5, rtol=0)
    assert chisquare(np.bincount(batch.group.numpy(), minlength=clusters)).pvalue > 1e-6
    noise = (batch.x - truth.centres[batch.group]).double()
    energy = noise.square().sum(1)
    assert abs(energy.mean() - sigma_r**2 * k) < 5 * energy.std() / n**0.5
    spread = sigma_r * (k / d) ** 0.5
    assert noise.mean(0).abs().max() < 5 * spread / n**0.5
    covariance = noise.T @ noise / n
    off = covariance - torch.diag(covariance.diagonal())
    assert off.abs().max() < 5.5 * spread**2 / n**0.5  # up to 4950 pairs: 5.5 s.e. keeps the false alarm below 2e-4


def test_no_noise_puts_every_point_on_its_centre():
    task = GaussianClusters(d=6, k=3, sigma_r=0.0)
    truth = task.draw(KEY)
    batch = task.sample(truth, 50, KEY)
    assert torch.equal(batch.x, truth.centres[batch.group])


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"k": 0}, r"k = 0 is not allowed: 1 <= k <= min\(d = 100, 16\); there are 2\^k clusters in R\^d"),
        ({"d": 3, "k": 4}, r"k = 4 is not allowed: 1 <= k <= min\(d = 3, 16\); there are"),
        ({"k": 17}, r"k = 17 is not allowed: 1 <= k <= min\(d = 100, 16\)"),
        ({"sigma_r": -0.1}, r"sigma_r = -0.1 is not allowed: at least 0; 0 puts every point on its centre"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(SettingError, match=f"^{message}") as info:
        GaussianClusters(**settings)
    assert "\n" not in str(info.value)
