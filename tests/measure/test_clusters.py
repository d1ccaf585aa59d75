"""Clusters of directions: against scikit-learn and literal transcriptions, and on planted clusters."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.manifold import smacof

from featlearn.core import Key, SettingError
from featlearn.measure import clusters
from featlearn.measure.clusters import best_cosine, cosine_silhouette, mds, spherical_kmeans

KEY = Key("tests/clusters")


def planted(sizes: tuple[int, ...], d: int, noise: float, key: Key) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Directions around orthonormal centres with lengths from 0.1 to 10, the labels and the centres."""
    g = key.torch()
    centres = torch.eye(d)[: len(sizes)]
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    w = centres[labels] + noise * torch.randn(len(labels), d, generator=g) / d**0.5
    length = 10 ** (2 * torch.rand(len(labels), 1, generator=g) - 1)
    return w * length, labels, centres


def transcribed_silhouette(w: torch.Tensor, labels: torch.Tensor) -> float:
    u = [[float(v) for v in row] for row in (w / w.norm(dim=1, keepdim=True)).double()]
    total = 0.0
    for i in range(len(u)):
        mean = {}
        for c in set(labels.tolist()):
            others = [j for j in range(len(u)) if labels[j] == c and j != i]
            if others:
                mean[c] = sum(1 - sum(a * b for a, b in zip(u[i], u[j], strict=True)) for j in others) / len(others)
        own = int(labels[i])
        if own in mean:
            a, b = mean[own], min(v for c, v in mean.items() if c != own)
            total += (b - a) / max(a, b)
    return total / len(u)


@pytest.mark.parametrize("sizes", [(30, 20), (5, 40), (10, 15, 20, 5)])
def test_kmeans_finds_planted_clusters_whatever_their_lengths(sizes):
    w, labels, centres = planted(sizes, 20, 0.5, KEY / "planted" / len(sizes))
    found = spherical_kmeans(w, len(sizes), KEY)
    match = (found.centres @ centres.double().T).argmax(1)
    assert sorted(match.tolist()) == list(range(len(sizes)))
    assert torch.equal(match[found.labels], labels)
    torch.testing.assert_close(found.centres.norm(dim=1), torch.ones(len(sizes)).double())


def test_kmeans_ends_where_neither_step_improves():
    w = torch.randn(50, 8, generator=KEY.torch())
    found = spherical_kmeans(w, 3, KEY)
    u = (w / w.norm(dim=1, keepdim=True)).double()
    assert torch.equal((u @ found.centres.T).argmax(1), found.labels)
    for c in range(3):
        mean = u[found.labels == c].mean(0)
        torch.testing.assert_close(found.centres[c], mean / mean.norm(), rtol=0, atol=1e-6)
    assert found.mean_cosine == pytest.approx(float((u * found.centres[found.labels]).sum(1).mean()))
    # more restarts cannot be worse, and one restart is not the best here
    assert found.mean_cosine >= max(spherical_kmeans(w, 3, KEY / i, restarts=1).mean_cosine for i in range(5)) - 0.02


def test_kmeans_best_of_all_partitions_of_a_small_set():
    w = torch.randn(10, 3, generator=(KEY / "small").torch())
    u = (w / w.norm(dim=1, keepdim=True)).double()
    value = [
        sum(float(u[mask].sum(0).norm()) for mask in (bits, ~bits)) / 10
        for bits in (torch.tensor([(i >> j) & 1 for j in range(10)]).bool() for i in range(1, 2**9))
    ]
    assert spherical_kmeans(w, 2, KEY).mean_cosine == pytest.approx(
        max(value), abs=1e-6
    )  # lengths are divided out in float32 here


def test_kmeans_with_coincident_directions_fills_every_cluster():
    w = torch.ones(6, 4)
    assert spherical_kmeans(w, 3, KEY).labels.unique().tolist() == [0, 1, 2]
    assert spherical_kmeans(torch.eye(3), 3, KEY).mean_cosine == pytest.approx(1)


def test_same_key_same_clusters():
    w = torch.randn(40, 5, generator=KEY.torch())
    a, b = (spherical_kmeans(w, 4, KEY / "same") for _ in range(2))
    assert torch.equal(a.labels, b.labels)


def test_silhouette_is_its_formula():
    w, labels, _ = planted((6, 4, 1), 5, 1.0, KEY / "silhouette")
    assert cosine_silhouette(w, labels) == pytest.approx(transcribed_silhouette(w, labels), abs=1e-6)
    assert cosine_silhouette(w * 3, labels) == pytest.approx(cosine_silhouette(w, labels), abs=1e-6)


def test_silhouette_tells_tight_from_wrong_clusters():
    w, labels, _ = planted((20, 20), 20, 0.1, KEY / "tight")
    assert cosine_silhouette(w, labels) > 0.95
    assert cosine_silhouette(w, torch.arange(40) % 2) < 0.05


def test_best_cosine_takes_the_best_neuron_of_each_network():
    w = torch.tensor([[[2.0, 0.0], [0.0, -1.0]], [[1.0, 1.0], [0.0, 0.0]]])
    targets = torch.tensor([[3.0, 0.0], [0.0, 5.0], [-1.0, 0.0]])
    half = 0.5**0.5
    torch.testing.assert_close(best_cosine(w, targets), torch.tensor([[1.0, 0.0, 0.0], [half, half, 0.0]]))


def dissimilarity(w: torch.Tensor) -> np.ndarray:
    u = (w / w.norm(dim=1, keepdim=True)).double().numpy()
    out = np.clip(1 - u @ u.T, 0, None)
    np.fill_diagonal(out, 0)
    return (out + out.T) / 2


def stress(apart: np.ndarray, z: np.ndarray) -> float:
    distance = np.linalg.norm(z[:, None] - z[None], axis=2)
    return float(np.square(distance - apart).sum() / 2)


def test_mds_reaches_the_stress_of_scikit_learn_from_the_same_start():
    w = torch.randn(60, 20, generator=(KEY / "mds").torch())
    apart = dissimilarity(w)
    ours = stress(apart, mds(w[:58], w[58:], KEY, steps=400).double().numpy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of coming defaults
        _, theirs = smacof(
            apart, init=clusters._classical(apart), n_init=1, max_iter=400, eps=1e-12, normalized_stress=False
        )
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert stress(apart, clusters._classical(apart)) > 1.05 * ours  # so the comparison can fail


def test_the_classical_start_recovers_a_plane():
    points = np.random.default_rng(0).normal(size=(9, 2))
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    z = clusters._classical(apart)
    np.testing.assert_allclose(np.linalg.norm(z[:, None] - z[None], axis=2), apart, atol=1e-9)
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-9)


def test_mds_is_exact_where_the_plane_suffices():
    """1 - cos of u, -u and two directions at right angles to both, opposite each other: a square of side 1 would need
    diagonals of 1.41, but they are 2; so take three points: u, -u and v are apart 2, 1, 1, a straight line."""
    w = torch.tensor([[3.0, 0.0], [-1.0, 0.0], [0.0, 2.0]])
    z = mds(w, torch.tensor([[1.0, 0.0]]), KEY, steps=2000).double()
    apart = dissimilarity(torch.cat([w, torch.tensor([[1.0, 0.0]])]))
    np.testing.assert_allclose(torch.cdist(z, z).numpy(), apart, atol=5e-3)


def test_mds_puts_clusters_on_their_stars_and_the_first_star_to_the_right():
    w, labels, centres = planted((30, 20), 50, 0.2, KEY / "stars")
    z = mds(w, centres, KEY)
    assert z.shape == (52, 2)
    assert z.mean(0).abs().max() < 1e-5
    assert z[50, 0] > 0
    assert abs(float(z[50, 1])) < 1e-6
    for c in range(2):
        away = (z[:50] - z[50 + c]).norm(dim=1)
        assert away[labels == c].max() < 0.3
        assert away[labels != c].min() > 0.7


@pytest.mark.parametrize("noise", [0.1, 0.01, 0.0])
def test_mds_of_hundreds_of_nearly_equal_neurons_does_not_blow_up(noise):
    """After two steps nearly all neurons coincide: float32 must not turn their tiny distances into large pulls."""
    star = torch.zeros(1, 40)
    star[0, 0] = 1
    g = (KEY / "tight").torch()
    w = torch.cat([star, -star]).repeat_interleave(150, 0) + noise * torch.randn(300, 40, generator=g) / 40**0.5
    z = mds(w, torch.cat([star, -star]), KEY)
    want = torch.cat([torch.ones(150), -torch.ones(150), torch.tensor([1.0, -1.0])])
    torch.testing.assert_close(z[:, 0], want, rtol=0, atol=0.02)
    assert z[:, 1].abs().max() < 0.05


def test_mds_keeps_handedness_when_it_turns_the_picture():
    """Turning must not mirror or stretch: distances to the untouched layout agree."""
    w = torch.randn(12, 4, generator=(KEY / "turn").torch())
    with_star = mds(w[:11], w[11:], KEY).double()
    without = mds(w, w[:0], KEY).double()
    torch.testing.assert_close(torch.cdist(with_star, with_star), torch.cdist(without, without), rtol=0, atol=1e-4)


def test_mds_of_mirrored_neurons_stays_finite():
    w = torch.randn(20, 30, generator=(KEY / "mirror").torch())
    z = mds(torch.cat([w, w]), torch.eye(30)[:1], KEY)
    assert torch.isfinite(z).all()
    assert (z[:20] - z[20:40]).norm(dim=1).max() < 0.02  # equal directions share their place


@pytest.mark.parametrize("bad", [0.0, float("nan"), float("inf")])
def test_rows_without_direction_are_refused(bad):
    w = torch.ones(5, 3)
    w[2] = bad
    with pytest.raises(SettingError, match="1 of 5 rows"):
        mds(w, torch.ones(1, 3), KEY)
    with pytest.raises(SettingError, match="stars = 1 of 5 rows"):
        mds(torch.ones(2, 3), w, KEY)
    with pytest.raises(SettingError, match="1 of 5 rows"):
        spherical_kmeans(w, 2, KEY)
    with pytest.raises(SettingError, match="1 of 5 rows"):
        cosine_silhouette(w, torch.tensor([0, 0, 1, 1, 1]))


def test_impossible_sizes_are_refused():
    w = torch.randn(4, 3, generator=KEY.torch())
    with pytest.raises(SettingError, match="k = 5"):
        spherical_kmeans(w, 5, KEY)
    with pytest.raises(SettingError, match="labels = 1 clusters"):
        cosine_silhouette(w, torch.zeros(4, dtype=torch.long))
    with pytest.raises(SettingError, match="labels = 4 clusters"):
        cosine_silhouette(w, torch.arange(4))
    with pytest.raises(SettingError, match="2 points"):
        mds(w[:1], w[1:2], KEY)
