"""Networks that do better than Theorem 5.5.1's, in fractions and without the library; the error of Theorem 5.5.2."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.works.icl_scale.claims.parity_noise import GAMMA, square_of

TENTH = Fraction(1, 10)
SHARES = {(1, 1): Fraction(1, 4) + TENTH, (1, -1): Fraction(1, 4), (-1, 1): Fraction(1, 4)}
SHARES[-1, -1] = 1 - sum(SHARES.values())


def margin(heads, i, j, a, b):
    """y g of heads [(outer, diagonal in units of 1/(4 gamma))]: the signal 2 gamma halves the sum of two entries."""
    total = sum(outer * max(Fraction(0), (v[i] * a + v[j] * b) * Fraction(1, 2)) for outer, v in heads)
    return a * b * total


def code(nu, bits, positive):
    """The construction of Theorem 5.5.1, by the text."""
    half = [(-1, [Fraction(2 * ((t >> i) & 1) - 1) for t in range(2**nu)]) for i in range(bits)]
    half.append((1, [Fraction(-positive)] * 2**nu))
    return half + [(outer, [-x for x in v]) for outer, v in half]


def subsets(size, of, d, plus, minus):
    chosen = list(itertools.islice(itertools.combinations(range(of), size), d))
    heads = [(-1, [Fraction(1 if h in one else -1) for one in chosen]) for h in range(of)]
    return [*heads, (1, [Fraction(plus)] * d), (1, [Fraction(-minus)] * d)]


def losses(heads, d, k):
    """Expected hinge loss over S_1 and over S_2."""
    found = {True: [], False: []}
    for i, j in itertools.combinations(range(d), 2):
        found[j < k].append(sum(p * max(0, 1 - margin(heads, i, j, *s)) for s, p in SHARES.items()))
    return tuple(sum(found[s]) / len(found[s]) for s in (True, False))


def least(heads, d):
    return min(margin(heads, i, j, *s) for i, j in itertools.combinations(range(d), 2) for s in SHARES)


def norm(heads, d):
    return sum(x * x for _, v in heads for x in v) / d


@pytest.mark.parametrize(
    ("one", "two", "loss"), [(1, 3, Fraction(4, 9)), (2, 3, Fraction(2, 11)), (2, 4, Fraction(4, 19))]
)
def test_larger_positive_heads_halve_the_loss_on_less_important_tasks(one, two, loss):
    assert losses(code(two, one, one), 2**two, 2**one) == (0, loss)
    assert losses(code(two, one, one + 1), 2**two, 2**one) == (0, loss / 2)


def test_eight_heads_solve_all_tasks_of_sixteen_signs():
    heads = subsets(3, 6, 16, 3, 3)
    assert len(heads) == 2 * (3 + 1)  # as many as g_1 has at k = 8
    assert losses(heads, 16, 8) == (0, 0)
    assert losses(code(4, 3, 3), 16, 8)[1] > 0


def test_shorter_networks_than_the_construction_have_no_loss():
    twelfths = [(-9, 5, -7, 11), (9, 7, -5, -11), (-9, 1, 13, -5), (9, -13, -1, 5)]
    six = [(-1, [Fraction(x, 12) for x in v]) for v in twelfths]
    six += [(1, [Fraction(20, 12)] * 4), (1, [Fraction(-20, 12)] * 4)]
    for heads, d, length in ((six, 4, Fraction(269, 36)), (subsets(2, 5, 8, 2, 3), 8, 18)):
        nu = d.bit_length() - 1
        assert least(heads, d) == least(code(nu, nu, nu), d) == 1
        assert norm(heads, d) == length < norm(code(nu, nu, nu), d) == 2 * nu + 2 * nu**2
        assert len(heads) <= 2 * (nu + 1)


@pytest.mark.parametrize("nu", [2, 5])
def test_the_error_of_long_prompts_is_that_of_normal_noise(nu):
    """16 gamma^2 M eps^2 drawn term by term, at the pair (1, 2), label -1, in the limit of M."""
    g, n, d = Key("tests/parity_networks").numpy(), 40_000, 2**nu
    rest = g.normal(size=(n, d - 2))
    cov = np.array([[1 - 4 * GAMMA**2, 4 * GAMMA**2], [4 * GAMMA**2, 1 - 4 * GAMMA**2]])
    own, anew = g.multivariate_normal([0, 0], cov, n), g.normal(size=(n, 2))  # s_i has the other sign's mean
    rows = [np.ones(d)] + [np.array([2 * ((t >> i) & 1) - 1 for t in range(d)]) for i in range(1, nu)]
    total = np.zeros(n)
    for row, weight in zip(rows, [nu] + [-1] * (nu - 1), strict=True):
        there, pair = rest @ row[2:], row[:2]
        total += weight * (np.abs(there + own @ pair) - np.abs(there + anew @ pair))
    total -= (own - anew) @ [1, -1]  # the last digit, whose terms keep their sign
    square = total**2
    assert abs(square.mean() - square_of(nu)) < 5 * square.std() / math.sqrt(n)
