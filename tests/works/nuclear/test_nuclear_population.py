"""Laws of sums and population optima against exact fractions, quadrature, grids and numbers by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.tasks import Environments
from featlearn.works.nuclear.claims import optima, population, sums
from featlearn.works.nuclear.claims.definitions import irwin_hall
from featlearn.works.nuclear.claims.sums import Part, law, log_tail, quadrature, tail

PAIR = [Part(5, 0.7), Part(4, 0.5, 0.2)]


def tensor(parts, order=10):
    """Points and probabilities of all features of a few parts by the tensor product of Gauss points."""
    x, w = quadrature(order)
    axes, weights, owner = [], [], []
    for i, part in enumerate(parts):
        both = np.concatenate([x, -x]), np.concatenate([(0.5 + part.gamma) * w, (0.5 - part.gamma) * w])
        axes += [both[0]] * part.count
        weights += [both[1]] * part.count
        owner += [i] * part.count
    z = np.stack([v.ravel() for v in np.meshgrid(*axes, indexing="ij")], 1)
    p = np.prod(np.stack([v.ravel() for v in np.meshgrid(*weights, indexing="ij")]), 0)
    plain = np.stack([z[:, [o == i for o in owner]].sum(1) for i in range(len(parts))], 1)
    return plain, p


def test_density_is_that_of_irwin_and_hall():
    found = law([Part(8, 1.0)])
    h = found.x[1] - found.x[0]
    for i in range(0, len(found.x), len(found.x) // 16):
        x = Fraction(float(found.x[i]))
        exact = sum((-1) ** k * math.comb(8, k) * (x - k) ** 7 for k in range(int(x) + 1)) / math.factorial(7)
        assert found.p[i] / h == pytest.approx(float(exact), abs=1e-13)


def test_moments_of_the_parts():
    found = law(PAIR)
    assert found.p.sum() == pytest.approx(1, abs=1e-13)
    assert found.first.sum(1) == pytest.approx([2.5, 0.8], abs=1e-12)
    var = [5 / 12, 4 * (1 / 3 - 0.04)]
    expected = np.outer([2.5, 0.8], [2.5, 0.8]) + np.diag(var)
    assert found.second.sum(2) == pytest.approx(expected, abs=1e-12)
    assert float(found.p @ found.x) == pytest.approx(0.7 * 2.5 + 0.5 * 0.8, abs=1e-12)


def test_expectations_of_the_loss_agree_with_quadrature_in_every_feature():
    parts = [Part(3, 0.9), Part(2, 0.8, 0.3)]
    plain, p = tensor(parts)
    s = plain @ [0.9, 0.8]
    found = law(parts)
    for values, exact in zip(population.logistic(found.x), population.logistic(s), strict=True):
        assert float(found.p @ values) == pytest.approx(float(p @ exact), abs=1e-10)
        for i in (0, 1):
            assert float(found.first[i] @ values) == pytest.approx(float(p @ (exact * plain[:, i])), abs=1e-10)
            for j in (0, 1):
                pair = float(p @ (exact * plain[:, i] * plain[:, j]))
                assert float(found.second[i, j] @ values) == pytest.approx(pair, abs=1e-10)


@pytest.mark.parametrize("n, m", [(4, 12), (10, 30), (25, 75), (30, 10)])
def test_tails_have_their_digits(n, m):
    """u_1 + ... + u_n >= v_1 + ... + v_m is S_(n+m) <= n with 1 - u for u: in exact fractions, down to 1e-19."""
    exact = irwin_hall(n + m, Fraction(n))
    assert log_tail([Part(n, 1.0), Part(m, -1.0)]) == pytest.approx(math.log(exact), abs=1e-8)
    assert tail([Part(n, -1.0), Part(m, 1.0)]) == pytest.approx(1 - float(exact), abs=1e-12)


def test_tails_at_the_ends():
    assert log_tail([Part(16, -1.0)]) == -math.inf
    assert log_tail([Part(16, 1.0)]) == 0.0
    assert tail([Part(16, 1.0, 0.0)]) == pytest.approx(0.5, abs=1e-12)
    assert tail([Part(16, 1.0), Part(16, -1.0)]) == pytest.approx(0.5, abs=1e-12)


def test_tails_agree_with_direct_convolution():
    """Grid of 1/400, midpoints, by repeated convolution; and what finer points change."""
    parts = [Part(12, 1.0), Part(30, 1.0, -0.25)]
    h = 1 / 400
    up, down = np.full(400, h), np.full(400, h)
    one = np.concatenate([0.75 * down, 0.25 * up])
    density = np.ones(1)
    for _ in range(12):
        density = np.convolve(density, up)
    for _ in range(30):
        density = np.convolve(density, one)
    x = -30 + h * (np.arange(len(density)) + 42 / 2)
    exact = density[x > 0].sum() + density[np.abs(x) < h / 4].sum() / 2
    assert tail(parts) == pytest.approx(exact, rel=2e-3)
    assert log_tail(parts, finer=2) == pytest.approx(log_tail(parts), abs=1e-9)
    far = [Part(40, 0.0325), Part(175, 0.0311, -0.48)]
    assert log_tail(far, finer=2) == pytest.approx(log_tail(far), abs=1e-7)
    assert -83 < log_tail(far) < -80


def test_rough_sums_are_refused():
    with pytest.raises(ValueError, match="too rough"):
        law([Part(2, 1.0)])


def test_optimum_by_hand_and_its_gradient():
    """Numbers of the inventory; gradient to 1e-10; the same with twice the points to 1e-10."""
    for (r, gamma, d, lam), (alpha, beta) in {
        (40, 0.48, 215, 0.570): (0.0325, 0.0311),
        (100, 0.31, 1142, 0.388): (0.01729, 0.01066),
    }.items():
        task = Environments(d, r, gamma)
        found = population.decayed(task, lam)
        assert found.alpha == pytest.approx(alpha, abs=5e-5)
        assert found.beta == pytest.approx(beta, abs=5e-5)
        assert found.gradient < 1e-10
        finer = population.decayed(task, lam, 2)
        assert [finer.alpha, finer.beta] == pytest.approx([found.alpha, found.beta], abs=1e-10)


def test_objective_has_the_slopes_it_says():
    objective = population.decayed_objective(Environments(60, 20, 0.3), 0.2)
    w, step = np.array([0.08, 0.05]), 1e-4
    _, gradient, hessian = objective(w)
    for i, e in enumerate(np.eye(2) * step):
        up, down = objective(w + e), objective(w - e)
        assert (up[0] - down[0]) / (2 * step) == pytest.approx(gradient[i], abs=1e-6)
        assert (up[1] - down[1]) / (2 * step) == pytest.approx(hessian[i], abs=1e-4)


def test_optimum_of_few_features_agrees_with_all_weights_free():
    task = Environments(5, 3, 0.3)
    plain, p = tensor([Part(3, 1.0), Part(2, 1.0, 0.3)], 8)

    def objective(w):
        loss, slope, curvature = population.logistic(plain @ w)
        counts = np.array([3, 2])
        value = float(p @ loss) + 0.15 * float(counts @ w**2)
        return (
            value,
            plain.T @ (p * slope) + 0.3 * counts * w,
            (plain.T * (p * curvature)) @ plain + 0.3 * np.diag(counts),
        )

    w = population.newton(objective, np.array([0.1, 0.1]))
    found = population.decayed(task, 0.3)
    assert [found.alpha, found.beta] == pytest.approx(w, abs=1e-9)


@pytest.mark.parametrize("solve, decay, nuclear", [("plane_decayed", 0.1, 0.0), ("plane_nuclear", 0.0, 0.2)])
def test_no_step_improves_the_classifiers_of_the_plane(solve, decay, nuclear):
    w = np.array(getattr(population, solve)(decay or nuclear))
    objective = population.plane_objective(decay, nuclear)
    best, gradient, hessian = objective(w)
    assert np.abs(gradient).max() < 1e-10
    for way in Key("tests/plane").numpy().standard_normal((20, 2)):
        assert objective(w + 1e-3 * way)[0] > best
    e = np.array([1e-5, 0])
    assert (objective(w + e)[1] - objective(w - e)[1]) / 2e-5 == pytest.approx(hessian[0], abs=1e-6)


def test_plane_by_hand():
    """Slopes of the inventory's population runs, made there with 4e5 samples."""
    for lam, b in ((1e-3, 0.090), (1e-2, 0.168), (0.1, 0.286), (1.0, 0.377), (10.0, 0.394)):
        w = population.plane_decayed(lam)
        assert w[1] / w[0] == pytest.approx(b, abs=0.006)
    for mu, b in ((0.001, 0.022), (0.01, 0.062), (0.05, 0.099), (0.1, 0.108), (0.2, 0.112)):
        w = population.plane_nuclear(mu)
        assert w[1] / w[0] == pytest.approx(b, abs=0.004)
    assert population.largest_nuclear() == pytest.approx(0.4354, abs=5e-5)
    assert population.plane_nuclear(0.44) == (0.0, 0.0)
    w = population.matched(population.plane_decayed, 0.4, 1e-6, 1e3)
    assert population.plane_loss(np.array(w)) == pytest.approx(0.4, abs=1e-9)


def test_newton_says_where_it_fails():
    def uphill(w):
        return float(w @ w), 2 * w, -2 * np.eye(1)  # a wrong curvature: every step goes up

    with pytest.raises(ArithmeticError):
        population.newton(uphill, np.ones(1))


def test_quadrature_of_supports_is_as_good_as_it_says():
    for inside, outside in ((1, 0), (0, 1), (1, 2)):
        w = np.full(inside + outside, 5 / math.sqrt(inside + outside))
        values = []
        for order in (8, 20):
            z, p = optima.support_law(inside, outside, 0.3, order)
            values.append(float(p @ population.logistic(z @ w)[0]))
        assert values[0] == pytest.approx(values[1], abs=1e-7)
        assert p.sum() == pytest.approx(1, abs=1e-12)


def test_transforms_of_one_feature():
    t = np.array([0.0, 1e-9, 0.7, 40.0])
    psi = sums.transforms(0.2, t)
    exact = 0.7 * np.exp(0.5j * t) * np.sinc(t / 2 / np.pi) + 0.3 * np.exp(-0.5j * t) * np.sinc(t / 2 / np.pi)
    assert psi[0] == pytest.approx(exact, abs=1e-13)
    assert psi[1, 0] == pytest.approx(0.2, abs=1e-13)
    assert psi[2, 0] == pytest.approx(1 / 3, abs=1e-13)
