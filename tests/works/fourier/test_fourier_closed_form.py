"""Closed forms of the Fourier work against loops over points, brute force, and hand-checked numbers."""

import itertools
import math

import numpy as np
import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.works.fourier.claims import exact
from featlearn.works.fourier.setup import (
    class_weighted_margin,
    constructed,
    cosine_network,
    cosines,
    cyclic,
    cyclic_phases,
    fewest,
    gamma_star,
    group_phases,
    least_loss,
    logits,
    minimum,
    monomials,
    network_norm,
    neuron_margins,
    neuron_norms,
)

KEY = Key("tests/fourier-closed-form")


def literal_margins(u, w) -> tuple[list[float], list[float]]:
    """Margin and class-weighted margin of every point, by loops as the definitions are written."""
    m, k, p = u.shape
    hard, soft = [], []
    for a in itertools.product(range(p), repeat=k):
        f = [0.0] * p
        for i in range(m):
            inside = sum(float(u[i, j, a[j]]) for j in range(k)) ** k
            f = [f[c] + inside * float(w[i, c]) for c in range(p)]
        y = sum(a) % p
        wrong = [f[c] for c in range(p) if c != y]
        hard.append(f[y] - max(wrong))
        soft.append(f[y] - sum(wrong) / (p - 1))
    return hard, soft


@pytest.mark.parametrize("make", [constructed, cyclic, fewest])
@pytest.mark.parametrize("k, p", [(2, 5), (2, 7), (3, 5)])
def test_constructions_attain_the_best_margin_at_every_point(make, k, p):
    u, w = make(k, p)
    hard, soft = literal_margins(u, w)
    assert np.allclose(np.array(hard) / gamma_star(k, p), 1, rtol=0, atol=1e-12)
    assert np.allclose(np.array(soft) / gamma_star(k, p), 1, rtol=0, atol=1e-12)
    assert network_norm(u, w) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("k, p", [(2, 5), (2, 6), (3, 5), (3, 4)])
def test_class_weighted_margins_by_spectra_are_those_of_all_points(k, p):
    u, w = exact.random_network(3, k, p, KEY)
    u, w = u + 0.1, w - 0.2
    each = [float(np.mean(literal_margins(u[i : i + 1], w[i : i + 1])[1])) for i in range(3)]
    assert np.allclose(neuron_margins(u, w).numpy(), each, rtol=0, atol=1e-13)
    assert class_weighted_margin(u, w) == pytest.approx(sum(each), abs=1e-13)


def test_survey_is_what_loops_find():
    net = exact.random_network(4, 3, 5, KEY / "survey")
    hard, _ = literal_margins(*net)
    found = exact.survey(net)
    assert (found.least, found.most, found.points) == (pytest.approx(min(hard)), pytest.approx(max(hard)), 125)
    a = torch.tensor(list(itertools.product(range(5), repeat=3)))
    f, y = logits(*net, a), a.sum(1) % 5
    spread = max(
        float(max(r[c] for c in range(5) if c != t) - min(r[c] for c in range(5) if c != t))
        for r, t in zip(f, y, strict=True)
    )
    assert found.spread == pytest.approx(spread)
    direct = torch.nn.functional.cross_entropy(f, y) + 0.3 * network_norm(*net)
    assert exact.loss(net, 0.3) == pytest.approx(float(direct))


def test_gamma_star_of_hand_checked_settings():
    assert gamma_star(2, 7) == pytest.approx(0.01714482, abs=5e-9)
    assert gamma_star(3, 97) == pytest.approx(2.0135309e-05, rel=1e-7)
    assert gamma_star(5, 23) == pytest.approx(1.1934086e-05, rel=1e-7)


@pytest.mark.parametrize("k, p, field", [(1, 5, "k"), (0, 5, "k"), (2, 2, "p"), (3, 6, "p"), (2, 1, "p")])
def test_what_the_theory_does_not_cover_is_refused(k, p, field):
    for call in (gamma_star, constructed, cyclic, lambda k, p: minimum(k, p, 0.1)):
        with pytest.raises(SettingError) as refused:
            call(k, p)
        assert refused.value.field == field


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_counts_of_neurons(k):
    n, s = cyclic_phases(k)
    assert len(s) == k
    assert len(constructed(k, 5)[0]) == 2 ** (2 * k - 2) * 4
    assert len(cyclic(k, 5)[0]) == 2 * n
    assert n == {2: 6, 3: 18, 4: 54, 5: 150}[k]


def literal_monomials(k: int) -> set[tuple[int, ...]]:
    """Exponents of (sum_j (z_j + 1/z_j) / 2)^k by choosing a term k times."""
    out = set()
    for terms in itertools.product(itertools.product(range(k), (1, -1)), repeat=k):
        e = [0] * k
        for j, sign in terms:
            e[j] += sign
        out.add(tuple(e))
    return out


@pytest.mark.parametrize("k", [2, 3, 4])
def test_monomials_are_those_of_the_power(k):
    ours = [tuple(e) for e in monomials(k).tolist()]
    assert len(ours) == len(set(ours))
    assert set(ours) == literal_monomials(k)


def separates(n: int, s: tuple[int, ...], e: np.ndarray) -> bool:
    return int((((e - 1) @ np.array(s)) % n == 0).sum()) == 1


@pytest.mark.parametrize("k", [2, 3])
def test_no_smaller_cyclic_network_exists(k):
    """Every n below and every s; for k = 4 and 5 the same search was made outside the tests."""
    best, s = cyclic_phases(k)
    e = monomials(k)
    assert separates(best, tuple(s), e)
    for n in range(1, best):
        assert not any(separates(n, s, e) for s in itertools.combinations_with_replacement(range(n), k))


@pytest.mark.parametrize("k", [4, 5, 6])
def test_cyclic_phases_single_out_the_product(k):
    n, s = cyclic_phases(k)
    assert separates(n, tuple(s), monomials(k))


@pytest.mark.parametrize("k, n", [(4, 40), (5, 120)])
def test_group_phases_single_out_the_product(k, n):
    moduli, s = group_phases(k)
    assert int(np.prod(moduli)) == n
    assert int((((monomials(k) - 1) @ s) % moduli == 0).all(1).sum()) == 1
    found = exact.survey(fewest(k, 5))
    assert (found.least, found.most) == pytest.approx((gamma_star(k, 5),) * 2, rel=1e-12)
    assert len(fewest(k, 5)[0]) == 2 * n


def test_changed_phases_are_taken_and_fail():
    n, s = cyclic_phases(3)
    assert exact.survey(cyclic(3, 5, (n, s))).least == pytest.approx(gamma_star(3, 5), rel=1e-12)
    assert exact.survey(cyclic(3, 5, (n - 1, s))).least < 0.9 * gamma_star(3, 5)


def brute(k, p, lam) -> tuple[float, float]:
    c = np.concatenate([[0], np.geomspace(1e-6, 2 * math.log(p) / lam, 400_000)])
    loss = np.log1p((p - 1) * np.exp(-gamma_star(k, p) * c ** (k + 1))) + lam * c
    return float(c[loss.argmin()]), float(loss.min())


@pytest.mark.parametrize("k, p, lam", [(2, 23, 0.005), (3, 7, 0.005), (5, 23, 0.005), (2, 5, 0.2), (4, 5, 1e-6)])
def test_minimum_against_a_fine_grid(k, p, lam):
    c, value = minimum(k, p, lam)
    at, least = brute(k, p, lam)
    assert c == pytest.approx(at, rel=1e-4)
    assert least * (1 - 1e-6) <= value <= least
    for step in (0.999, 1.001):
        assert least_loss(c * step, k, p, lam) > value


def test_minimum_jumps_to_zero_for_large_lambda():
    assert minimum(2, 23, 10.0) == (0.0, math.log(23))
    assert brute(2, 23, 0.3)[0] == minimum(2, 23, 0.3)[0] == 0.0
    assert minimum(2, 23, 0.01)[0] > 0
    for lam in (0, -1.0, math.nan, math.inf):
        with pytest.raises(SettingError, match="lam"):
            minimum(2, 23, lam)


def test_cosines_keep_their_digits_at_large_frequencies():
    big = cosines(torch.tensor([0.3]).double(), torch.tensor([7 * 10**9 + 2]), 7)
    torch.testing.assert_close(big, cosines(torch.tensor([0.3]).double(), torch.tensor([2]), 7), rtol=0, atol=1e-14)


def test_cosine_networks_lose_the_cosine_of_what_their_phases_miss():
    theta, zeta = torch.tensor([[0.3, 1.1, -0.4]]).double(), torch.tensor([2])
    for off in (0.0, 0.4, 2.0):
        value = class_weighted_margin(*cosine_network(theta, zeta, 7, off)) / gamma_star(3, 7)
        assert value == pytest.approx(math.cos(off), abs=1e-12)


def test_order_of_inputs():
    assert exact.sees_no_order(constructed(3, 5))
    assert exact.sees_no_order(constructed(4, 5))
    assert not exact.sees_no_order(cyclic(3, 5))
    u, w = constructed(3, 5)
    u[3, 1] = -u[3, 1]
    assert not exact.sees_no_order((u, w))
    u, w = constructed(3, 5)
    assert exact.sees_no_order((-u, -w))
    assert not exact.sees_no_order((torch.cat([u, u[3:4]]), torch.cat([w, w[3:4] * 0.5])))
    assert len(exact.sorted_points(5, 3)) == math.comb(7, 3)


@pytest.mark.parametrize("k, p", [(3, 5), (4, 5)])
def test_one_point_of_each_order_finds_the_same(k, p):
    """Neurons that treat all inputs alike, added to the construction, keep it blind to order and spread its margins."""
    u, w = constructed(k, p)
    more, out = exact.random_network(3, k, p, KEY / "alike")
    net = (torch.cat([u, more[:, :1].expand(-1, k, -1)]), torch.cat([w, out]))
    every, some = exact.survey(net), exact.survey(net, exact.sorted_points(p, k))
    assert exact.sees_no_order(net)
    assert every.most > 1.5 * every.least
    assert (some.least, some.most) == (pytest.approx(every.least), pytest.approx(every.most))
    assert some.spread == pytest.approx(every.spread)


def test_distance_from_the_family_names_what_is_off():
    u, w = cosine_network(torch.zeros(4, 2).double(), torch.tensor([1, 1, 2, 2]), 7)
    u[0, 0] *= 1.1
    w[1] = cosines(torch.tensor(0.2, dtype=torch.float64), torch.tensor(1), 7) * w[1].norm() / (7 / 2) ** 0.5
    u[2, 1] += 0.1 * u[0, 1]
    off = exact.off_family((u, w))
    assert (off["balance"] > 1e-2).tolist() == [True, False, False, False]
    assert off["phase"].tolist() == pytest.approx([0, 0.2, 0, 0], abs=1e-9)
    assert (off["share"] > 5e-3).tolist() == [False, False, True, False]


def test_norms_of_networks():
    u, w = exact.random_network(6, 3, 5, KEY / "norm")
    n = [math.sqrt(float(u[i].square().sum() + w[i].square().sum())) for i in range(6)]
    assert neuron_norms(u, w).tolist() == pytest.approx(n)
    assert network_norm(3 * u, 3 * w) == pytest.approx(3 * sum(v**4 for v in n) ** 0.25)
    assert network_norm(*exact.unit((3 * u, 3 * w))) == pytest.approx(1)
    smaller = exact.without((u, w), 2)
    assert len(smaller[0]) == 5
    assert torch.allclose(smaller[0] / smaller[0][0, 0, 0] * u[0, 0, 0], u[[0, 1, 3, 4, 5]])
