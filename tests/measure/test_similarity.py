"""Linear CKA against centred Gram matrices and HSIC by its definition, overlap of sources, neighbours, t-SNE."""

import itertools
import math
import re

import numpy as np
import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.measure import cosine_silhouette, knn_accuracy, linear_cka, source_overlap, tsne

KEY = Key("tests/similarity")


def normal(*shape, name="x"):
    return torch.randn(*shape, generator=(KEY / name).torch(), dtype=torch.float64)


def centred_gram_cka(x, y):
    """tr(K H L H) / sqrt(tr(K H K H) tr(L H L H)) with H = I - 11'/n."""
    x, y, n = x.numpy(), y.numpy(), len(x)
    h = np.eye(n) - np.ones((n, n)) / n
    k, m = h @ x @ x.T @ h, h @ y @ y.T @ h
    return np.trace(k @ m) / math.sqrt(np.trace(k @ k) * np.trace(m @ m))


def unbiased_hsic(k, m):
    """Song et al. 2012, equation 5: the average over all ordered draws of distinct indices,
    E_ij k m + E_ijqr k_ij m_qr - 2 E_ijq k_ij m_iq."""
    n = len(k)
    two = [k[i, j] * m[i, j] for i, j in itertools.permutations(range(n), 2)]
    three = [k[i, j] * m[i, q] for i, j, q in itertools.permutations(range(n), 3)]
    four = [k[i, j] * m[q, r] for i, j, q, r in itertools.permutations(range(n), 4)]
    return sum(two) / len(two) + sum(four) / len(four) - 2 * sum(three) / len(three)


@pytest.mark.parametrize("shift", [0.0, 7.0])
def test_plain_cka_is_that_of_centred_gram_matrices(shift):
    x, y = normal(30, 5) + shift, normal(30, 3, name="y") @ torch.diag(torch.tensor([1.0, 2, 0.1]).double())
    y = y + x[:, :3]
    assert linear_cka(x, y) == pytest.approx(centred_gram_cka(x, y), rel=1e-10)
    assert 0 < linear_cka(x, y) < 1


@pytest.mark.parametrize("n", [4, 5, 8])
def test_unbiased_cka_is_hsic_by_its_definition(n):
    x, y = normal(n, 2) + 3, 0.3 * normal(n, 2, name="y") + normal(n, 2)
    k, m = (x @ x.T).numpy(), (y @ y.T).numpy()
    wanted = unbiased_hsic(k, m) / math.sqrt(unbiased_hsic(k, k) * unbiased_hsic(m, m))
    assert linear_cka(x, y, unbiased=True) == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize("unbiased", [False, True])
def test_cka_knows_neither_rotations_nor_shifts_nor_scales(unbiased):
    x, y = normal(40, 4), normal(40, 6, name="y")
    y[:, :4] += x
    q = torch.linalg.qr(normal(4, 4, name="q")).Q
    found = linear_cka(x, y, unbiased=unbiased)
    assert linear_cka(1e-3 * x @ q + 5, y, unbiased=unbiased) == pytest.approx(found, rel=1e-9)
    assert linear_cka(y, x, unbiased=unbiased) == pytest.approx(found, rel=1e-12)
    assert linear_cka(x, x, unbiased=unbiased) == pytest.approx(1, rel=1e-12)
    stretched = x @ torch.diag(torch.tensor([1.0, 5, 1, 1]).double())
    assert linear_cka(stretched, y, unbiased=unbiased) != pytest.approx(found, rel=1e-2)


def test_only_the_unbiased_cka_of_independent_features_is_near_zero():
    plain, unbiased = [], []
    for i in range(20):
        x, y = normal(60, 30, name=f"x{i}"), normal(60, 30, name=f"y{i}")
        plain.append(linear_cka(x, y))
        unbiased.append(linear_cka(x, y, unbiased=True))
    assert min(plain) > 0.2
    error = np.std(unbiased) / math.sqrt(20)
    assert abs(np.mean(unbiased)) < 4 * error < 0.05


def test_cka_of_the_linear_theory():
    """Shared features of weight 1 and private ones of 1/T against both of weight 1: (s + p/T) / sqrt(r (s + p/T^2))."""
    s, p, n = 3, 3, 200_000
    z = torch.randn(n, s + p, generator=(KEY / "theory").torch())
    for tasks in (2, 16):
        weights = torch.tensor([1.0] * s + [tasks**-0.5] * p)
        wanted = (s + p / tasks) / math.sqrt((s + p) * (s + p / tasks**2))
        assert linear_cka(z * weights, z) == pytest.approx(wanted, abs=0.01)


def test_few_inputs_are_refused_or_warned_of():
    x = normal(3, 2)
    with pytest.raises(SettingError, match=r"^x = of 3 inputs is not allowed: 4 or more"):
        linear_cka(x, x)
    with pytest.warns(UserWarning, match="plain CKA of 10 inputs in 12 and 11 dimensions is near 1"):
        assert linear_cka(normal(10, 12), normal(10, 11, name="y")) > 0.3
    for bad in (torch.ones(9, 2), 1e6 + torch.zeros(9, 2)):
        for unbiased in (False, True):
            with pytest.raises(SettingError, match=r"^y = of equal rows") as e:
                linear_cka(normal(9, 2).float(), bad, unbiased=unbiased)
            assert "\n" not in str(e.value)


def test_overlap_of_sources_is_its_formula_with_projectors():
    x = normal(60, 5) @ torch.diag(torch.tensor([3.0, 2, 1, 0.5, 0.1]).double())
    source = torch.arange(60) % 3
    x[source == 1] = x[source == 1].flip(1) + 4
    found = source_overlap(x, source, k=2)
    for a in range(3):
        c = np.cov(x[source == a].numpy().T)
        for b in range(3):
            w, v = np.linalg.eigh(np.cov(x[source == b].numpy().T))
            p = v[:, np.argsort(w)[-2:]] @ v[:, np.argsort(w)[-2:]].T
            assert float(found[a, b]) == pytest.approx(np.trace(p @ c) / np.sort(np.linalg.eigvalsh(c))[-2:].sum())
    assert float(found[0, 2]) > 0.9 > 0.3 > float(found[0, 1])


@pytest.mark.parametrize(
    "change, said",
    [
        ({"k": 0}, "k = 0"),
        ({"k": 5}, "k = 5 is not allowed: 1 <= k <= d = 4"),
        ({"source": torch.zeros(12).long()}, "source = from 0 to 0 is not allowed: two sources"),
        ({"source": torch.arange(12) - 1}, "source = from -1"),
        ({"source": torch.tensor([0] * 10 + [1, 1])}, "source = with 2 rows of 1 is not allowed: k + 1 = 3"),
    ],
)
def test_sources_that_cannot_be_compared_are_refused(change, said):
    given = {"features": normal(12, 4), "source": torch.arange(12) % 2, "k": 2, **change}
    with pytest.raises(SettingError, match="^" + re.escape(said)):
        source_overlap(**given)


def slow_knn(train, y, test, wanted, k):
    right = 0
    for i, row in enumerate(test):
        near = sorted(
            (
                (float(row @ t / row.norm() / t.norm()), int(c))
                for j, (t, c) in enumerate(zip(train, y, strict=True))
                if test is not train or j != i
            ),
            reverse=True,
        )[:k]
        votes = {c: (sum(1 for _, d in near if d == c), sum(s for s, d in near if d == c)) for _, c in near}
        right += max(votes, key=votes.get) == int(wanted[i])
    return right / len(test)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 20])
def test_neighbours_vote_as_one_would_count_by_hand(k):
    train, y = normal(40, 3), torch.arange(40) % 3
    train = train + torch.eye(3).double()[y]
    test, wanted = normal(25, 3, name="test") + torch.eye(3).double()[torch.arange(25) % 3], torch.arange(25) % 3
    assert knn_accuracy(train, y, test, wanted, k=k) == pytest.approx(slow_knn(train, y, test, wanted, k))
    assert knn_accuracy(train, y, k=k) == pytest.approx(slow_knn(train, y, train, y, k))


def test_no_row_is_its_own_neighbour():
    """Alone on its side, the first row has neighbours of the other class only."""
    x, y = torch.tensor([[1.0, 0], [-1, 0.1], [-1, -0.1]]), torch.tensor([0, 1, 1])
    assert knn_accuracy(x, y, k=1) == pytest.approx(2 / 3)


def test_neighbours_in_blocks_are_the_same(monkeypatch):
    train, y = normal(40, 3), torch.arange(40) % 3
    whole = knn_accuracy(train, y, k=5)
    monkeypatch.setattr("featlearn.measure.similarity.BLOCK", 120)
    assert knn_accuracy(train, y, k=5) == whole


@pytest.mark.parametrize(
    "change, said",
    [
        ({"k": 0}, "k = 0"),
        ({"k": 8}, "k = 8 is not allowed: 1 to 7, the other rows"),
        ({"y_train": torch.arange(8) - 1}, "y_train = -1"),
        ({"test": normal(2, 3)}, "y_test = missing is not allowed: given with test"),
        ({"train": torch.zeros(8, 3).double()}, "train = 8 of 8 rows of length 0"),
    ],
)
def test_neighbours_that_cannot_be_are_refused(change, said):
    with pytest.raises(SettingError, match="^" + re.escape(said)):
        knn_accuracy(**{"train": normal(8, 3), "y_train": torch.arange(8) % 2, "k": 2, **change})


def test_the_picture_is_of_the_key_and_keeps_neighbours():
    y = torch.arange(60) % 3
    x = 5 * torch.eye(4).double()[y] + 0.3 * normal(60, 4)
    one = tsne(x, KEY, perplexity=10.0)
    assert torch.equal(one, tsne(x, KEY, perplexity=10.0))
    assert knn_accuracy(one - one.mean(0), y, k=5) > 0.9
    assert cosine_silhouette(x, y) > 0.8
    with pytest.raises(SettingError, match=r"^perplexity = 60.0"):
        tsne(x, KEY, perplexity=60.0)
    with pytest.raises(SettingError, match=r"^features = "):
        tsne(x[:, :1], KEY)
