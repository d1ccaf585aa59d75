"""Mixtures of Gaussians, parities in blocks, linear data, multi-index polynomials: laws, truth and refused settings."""

import itertools

import numpy as np
import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.tasks import BlockParity, GaussianMixture, LinearData, MultiIndex, UniformParity
from featlearn.tasks.multi_index import hermite

KEY = Key("tests/gradient-feature-tasks")
SIGMAS = 5.0  # each comparison fails by chance less than once in 10^6


def test_mixture_means_and_labels_follow_components():
    task = GaussianMixture(
        d=12, labels=(1, -1, -1), weights=(0.5, 0.2, 0.3), separation=(2.0, 1.0, 3.0), sigma=(0.1, 0.5, 1.0)
    )
    truth = task.draw(KEY)
    n = 40_000
    batch = task.sample(truth, n, KEY / "data")
    assert torch.equal(batch.y, truth.labels[batch.group])
    for j in range(3):
        own = batch.x[batch.group == j]
        share = len(own) / n
        assert abs(share - task.weights[j]) < SIGMAS * (0.25 / n) ** 0.5
        scale = task.sigma[j] / len(own) ** 0.5
        assert (own.mean(0) - truth.means[j]).abs().max() < SIGMAS * scale
        assert abs(float((own - truth.means[j]).std()) / task.sigma[j] - 1) < SIGMAS / (2 * 12 * len(own)) ** 0.5
    torch.testing.assert_close(truth.means.norm(dim=1), torch.tensor([2.0, 1.0, 3.0]) * 12**0.5)
    gram = truth.features @ truth.features.T
    torch.testing.assert_close(gram, torch.eye(3), atol=1e-5, rtol=0)


def test_xor_mixture_is_two_opposite_pairs():
    truth = GaussianMixture.xor(d=30).draw(KEY)
    gram = truth.features @ truth.features.T
    expected = torch.tensor([[1.0, -1, 0, 0], [-1, 1, 0, 0], [0, 0, 1, -1], [0, 0, -1, 1]])
    torch.testing.assert_close(gram, expected, atol=1e-5, rtol=0)
    assert truth.labels.tolist() == [1, 1, -1, -1]
    torch.testing.assert_close(truth.means.norm(dim=1), torch.full((4,), 30**0.5))


def test_given_means_stay_as_they_are():
    means = ((3.0, 4.0), (1.0, 0.0))
    truth = GaussianMixture(d=2, labels=(1, -1), arrangement="given", means=means).draw(KEY)
    assert torch.equal(truth.means, torch.tensor(means))
    torch.testing.assert_close(truth.features[0], torch.tensor([0.6, 0.8]))


@pytest.mark.parametrize("coordinates", ["pattern", "input"])
def test_block_parity_law(coordinates):
    task = BlockParity(d=20, r=3, k=3, p_A=0.1, p_o=0.2, coordinates=coordinates)
    truth = task.draw(KEY)
    n = 40_000
    batch = task.sample(truth, n, KEY / "data")
    phi = batch.hidden
    torch.testing.assert_close(batch.x @ truth.dictionary, phi, atol=1e-4, rtol=0)
    blocks = phi[:, truth.blocks]
    assert torch.equal(batch.y, blocks.prod(2).sum(1).sign())
    for group in range(7):
        own = batch.group == group
        wanted = 0.4 if group == 0 else 0.1
        assert abs(float(own.float().mean()) - wanted) < SIGMAS * (0.25 / n) ** 0.5
        if group:
            j, sign = (group - 1) // 2, 1 - 2 * ((group - 1) % 2)
            assert (blocks[own][:, j] == sign).all()
            assert (blocks[own][:, [i for i in range(3) if i != j]] == 0).all()
            assert (batch.y[own] == sign).all()
        else:
            assert (blocks[own].abs() == 1).all()
            assert blocks[own].mean((0,)).abs().max() < SIGMAS / own.sum() ** 0.5
    rest = phi[:, sorted(set(range(20)) - set(truth.blocks.flatten().tolist()))]
    for value in (-1.0, 1.0):
        share = (rest == value).float().mean(0)
        assert (share - 0.2).abs().max() < SIGMAS * (0.16 / n) ** 0.5
    signal = (batch.y[:, None] * phi).mean(0)
    expected = torch.zeros(20)
    expected[truth.blocks.flatten()] = 0.2  # 2 p_A, where the paper says 0
    assert (signal - expected).abs().max() < SIGMAS / n**0.5
    torch.testing.assert_close(truth.features @ truth.features.T, torch.eye(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        truth.features[1], truth.dictionary[:, truth.blocks[1]].sum(1) / 3**0.5, atol=1e-5, rtol=0
    )


def test_block_parity_without_uniform_part():
    task = BlockParity(d=9, r=1, k=3, p_A=0.5)
    batch = task.sample(task.draw(KEY), 2000, KEY)
    assert set(batch.group.tolist()) == {1, 2}
    plain = BlockParity(d=9, r=1, k=3, p_A=0.0, p_o=0.5)
    assert not plain.sample(plain.draw(KEY), 500, KEY).group.any()


def test_uniform_parity_is_the_product():
    task = UniformParity(d=7, k=4)
    truth = task.draw(KEY)
    batch = task.sample(truth, 20_000, KEY)
    assert torch.equal(batch.y, batch.x[:, truth.blocks[0]].prod(1))
    counts = torch.stack([(batch.x == torch.tensor(c)).all(1).sum() for c in itertools.product((-1.0, 1.0), repeat=7)])
    assert (counts / 20_000 - 1 / 128).abs().max() < SIGMAS * (1 / 128 / 20_000) ** 0.5


def test_linear_data_has_its_margin_and_mean():
    task = LinearData(d=15, margin=0.3, rho=1.2, sigma=2.0)
    truth = task.draw(KEY)
    n = 40_000
    batch = task.sample(truth, n, KEY)
    signal = batch.y * (batch.x @ truth.features[0])
    assert 0.3 <= float(signal.min()) + 1e-5
    assert float(signal.min()) < 0.31
    torch.testing.assert_close(signal, batch.hidden[:, 0], atol=1e-4, rtol=0)
    assert abs(float(signal.mean()) - 1.2) < SIGMAS * 0.9 / 3**0.5 / n**0.5
    off = (batch.y[:, None] * batch.x).mean(0) - 1.2 * truth.features[0]
    assert off.norm() < SIGMAS * 2 * 15**0.5 / n**0.5
    assert 1.9 < float((batch.x - signal[:, None] * batch.y[:, None] * truth.features).norm(dim=1).mean()) / 14**0.5


def test_hermite_polynomials_are_orthonormal():
    z, w = (torch.as_tensor(v) for v in np.polynomial.hermite_e.hermegauss(30))
    basis = torch.stack([hermite(z, i) for i in range(6)])
    torch.testing.assert_close((basis * w / w.sum()) @ basis.T, torch.eye(6, dtype=basis.dtype), atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    "task",
    [MultiIndex(d=6), MultiIndex(d=6, terms=((1, 1, 0), (0, 0, 2), (3, 0, 0)), coefficients=(1.0, 2.0, 0.5))],
)
def test_multi_index_moments(task):
    truth = task.draw(KEY)
    n = 200_000
    batch = task.sample(truth, n, KEY)
    y, x = batch.y.double(), batch.x.double()
    assert abs(float(y.square().mean()) - 1) < SIGMAS * float(y.square().std()) / n**0.5
    stein = (y[:, None, None] * (x[:, :, None] * x[:, None, :] - torch.eye(6))).mean(0)  # E Hess g = E y (x x^T - I)
    spread = float((y.square().mean() * 8).sqrt()) * 3
    assert (stein - truth.hessian).abs().max() < SIGMAS * spread / n**0.5
    assert float(truth.hessian.abs().max()) > 0.3
    assert torch.linalg.matrix_rank(truth.hessian, tol=1e-4) == task.r


def test_multi_index_kappa():
    assert MultiIndex().kappa == pytest.approx(0.5**0.5)
    assert MultiIndex().degree == 2
    with pytest.raises(SettingError, match="rank r = 2"):
        _ = MultiIndex(terms=((2, 0), (0, 3))).kappa


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: BlockParity(d=14, r=3, k=5, p_A=0.1), "r * k = 15 is not allowed: at most d = 14"),
        (lambda: BlockParity(r=2), "r = 2"),
        (lambda: BlockParity(k=4), "k = 4"),
        (lambda: BlockParity(r=3, p_A=0.2), "p_A = 0.2"),
        (lambda: BlockParity(p_o=0.6), "p_o = 0.6"),
        (lambda: BlockParity(p_A=-0.1), "p_A = -0.1"),
        (lambda: UniformParity(d=3, k=4), "r * k = 4"),
        (lambda: UniformParity(k=0), "k = 0"),
        (lambda: GaussianMixture(labels=(1, 0)), "labels[1] = 0 is not allowed: -1 or +1"),
        (lambda: GaussianMixture(labels=()), "labels"),
        (lambda: GaussianMixture(d=3), "4 components"),
        (lambda: GaussianMixture(labels=(1, -1, 1), arrangement="antipodal"), "even number"),
        (lambda: GaussianMixture(weights=(0.5, 0.5, 0.5, 0.5)), "sum 1"),
        (lambda: GaussianMixture(weights=(0.5, 0.5)), "one for each of 4"),
        (lambda: GaussianMixture(sigma=-1.0), "sigma = -1.0"),
        (lambda: GaussianMixture(separation=(1.0, 2.0)), "separation"),
        (lambda: GaussianMixture(separation=0.0), "separation = 0.0"),
        (lambda: GaussianMixture(arrangement="given"), "means"),
        (lambda: GaussianMixture(d=2, labels=(1, -1), means=((1.0, 0.0), (1.0, 1.0))), "cosine 0.707"),
        (lambda: GaussianMixture(d=2, labels=(1, -1), means=((1.0, 0.0), (-1.0, 0.0))), "cosine -1"),
        (lambda: GaussianMixture(d=2, labels=(1, -1), means=((1.0, 0.0), (0.0, 0.0))), "not zero"),
        (lambda: GaussianMixture(d=2, labels=(1, -1), means=((1.0, 0.0), (0.0, float("nan")))), "finite"),
        (lambda: GaussianMixture(d=3, labels=(1, -1), means=((1.0, 0.0), (0.0, 1.0))), "length 3"),
        (lambda: LinearData(margin=2.0), "margin = 2.0"),
        (lambda: LinearData(margin=0.0), "margin = 0.0"),
        (lambda: LinearData(sigma=-1.0), "sigma"),
        (lambda: MultiIndex(d=1), "r = 2 is not allowed: at most d = 1"),
        (lambda: MultiIndex(coefficients=(0.0, 0.0)), "coefficients"),
        (lambda: MultiIndex(terms=((2,), (1, 1))), "terms"),
        (lambda: MultiIndex(terms=()), "terms"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(make, said):
    with pytest.raises(SettingError) as error:
        make()
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_opposite_means_are_fine_where_they_are_meant():
    GaussianMixture(d=2, labels=(1, -1), means=((1.0, 0.0), (-1.0, 0.0)), arrangement="antipodal")
    with pytest.raises(SettingError, match="or opposite"):
        GaussianMixture(d=2, labels=(1, -1), means=((1.0, 0.0), (-1.0, 0.5)), arrangement="antipodal")
