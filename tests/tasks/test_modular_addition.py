"""Addition modulo p: indices and points, labels, splits, what theory covers, refused settings."""

import inspect
import itertools
import math

import numpy as np
import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.tasks import ModularAddition
from featlearn.tasks.modular_addition import check_points, labels, points, split, task_name, theory_covers

KEY = Key("tests/modular-addition")


@pytest.mark.parametrize("p, k", [(2, 3), (3, 1), (5, 3), (6, 2), (7, 2)])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_indices_count_the_points_in_order(p, k, dtype):
    x = points(torch.arange(p**k, dtype=dtype), p, k)
    assert x.dtype == torch.int64
    assert x.tolist() == [list(a) for a in itertools.product(range(p), repeat=k)]
    assert labels(x, p).tolist() == [sum(a) % p for a in itertools.product(range(p), repeat=k)]
    assert labels(x, p).bincount().tolist() == [p ** (k - 1)] * p


def test_the_last_point_of_a_large_task_has_all_digits():
    p, k = 97, 9
    x = points(torch.tensor([p**k - 1, p**k - 2, p ** (k - 1)]), p, k)
    assert x.tolist() == [[96] * 9, [96] * 8 + [95], [1] + [0] * 8]


def test_samples_are_uniform_and_labelled():
    task = ModularAddition(p=5, k=2)
    n = 50_000
    batch = task.sample(task.draw(KEY), n, KEY / "data")
    assert torch.equal(batch.y, batch.x.sum(1) % 5)
    counts = (batch.x[:, 0] * 5 + batch.x[:, 1]).bincount(minlength=25)
    mean, sd = n / 25, (n * 0.04 * 0.96) ** 0.5
    assert (counts - mean).abs().max() < 5 * sd  # 25 cells: fails by chance less than once in 5 * 10^4
    assert task.size == 25


@pytest.mark.parametrize("p", [2, 3, 6, 11])
def test_features_are_the_fourier_basis(p):
    features = ModularAddition(p=p).draw(KEY).features.double()
    assert features.shape == (p - 1, p)
    torch.testing.assert_close(features @ features.T, torch.eye(p - 1).double(), atol=1e-6, rtol=0)
    power = np.abs(np.fft.rfft(features.numpy())) ** 2
    assert np.all((power > 1e-6).sum(1) == 1)
    assert power.argmax(1).tolist() == [1 + i // 2 for i in range(p - 1)]


@pytest.mark.parametrize("share, n", [(0.5, 62), (0.3, 38), (0.99, 124)])
def test_a_split_holds_every_point_once(share, n):
    train, test = split(5, 3, share, KEY)
    assert len(train) == n
    assert train.dtype == test.dtype == torch.int32
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(125))
    again, other = split(5, 3, share, KEY)[0], split(5, 3, share, KEY / "other")[0]
    assert torch.equal(train, again)
    assert not torch.equal(train, other)


def test_a_split_is_random():
    """Each point lands in training with the stated share: 2000 splits, 5 standard deviations."""
    seen = torch.zeros(9)
    for i in range(2000):
        seen[split(3, 2, 4 / 9, KEY / i)[0].long()] += 1
    assert (seen / 2000 - 4 / 9).abs().max() < 5 * (4 / 9 * 5 / 9 / 2000) ** 0.5


@pytest.mark.parametrize(
    "share, says",
    [
        (0.0, "to train on"),
        (1.0, r"torch.arange\(p\*\*k\)"),
        (0.001, "train on"),
        (1.2, "between"),
        (math.nan, "between"),
    ],
)
def test_a_split_with_an_empty_side_is_refused(share, says):
    with pytest.raises(SettingError, match=says):
        split(5, 2, share, KEY)


def test_tasks_outside_the_theory_are_named_so():
    assert task_name(3, 97) == "k = 3, p = 97"
    assert task_name(3, 9) == "k = 3, p = 9 is not prime (outside the theory)"
    assert task_name(2, 8) == "k = 2, p = 8 is even (outside the theory)"
    assert task_name(2, 2) == "k = 2, p = 2 (outside the theory)"


def test_more_points_than_memory_are_refused_with_their_bytes():
    with pytest.raises(SettingError, match=r"760231058654565217 points = 6\.08e\+18 bytes.*lower p = 97 or k = 9"):
        split(97, 9, 0.5, KEY)


@pytest.mark.parametrize(
    "p, k, field",
    [(1, 2, "p"), (-3, 2, "p"), (5, 0, "k"), (2, 64, "p^k"), (97, 10, "p^k"), (True, 2, "p"), (5, True, "k")],
)
def test_wrong_settings_are_refused(p, k, field):
    with pytest.raises(SettingError) as refused:
        theory_covers(p, k)
    assert refused.value.field == field
    with pytest.raises(SettingError):
        ModularAddition(p, k)


@pytest.mark.parametrize("p, k, field", [(5.0, 2, "p"), (5, 2.5, "k")])
def test_fractions_are_refused(p, k, field):
    with pytest.raises(SettingError, match=f"{field} = .* a whole number"):
        inspect.unwrap(check_points)(p, k)  # without the type check of the tests, as users call it


def test_the_largest_task_that_int64_counts_is_allowed():
    assert ModularAddition(2, 62).size == 2**62
    assert 3**39 < 2**63 < 3**40
    assert ModularAddition(3, 39).size == 3**39
    with pytest.raises(SettingError):
        ModularAddition(3, 40)


@pytest.mark.parametrize(
    "p, k, says",
    [(97, 1, "the label is the input"), (2, 4, "parity"), (6, 2, "even"), (9, 2, "such as 3"), (35, 3, "such as 5")],
)
def test_theory_says_what_it_does_not_cover(p, k, says):
    assert says in theory_covers(p, k)
    ModularAddition(p, k).draw(KEY)


def test_theory_covers_odd_primes():
    primes = [q for q in range(3, 200) if all(q % d for d in range(2, q))]
    assert [p for p in range(2, 200) if theory_covers(p, 2) is None] == primes
