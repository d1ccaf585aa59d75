"""Fourier measures against literal sums over a, known vectors, Monte Carlo; zeros, NaN and refused arguments."""

import cmath
import math

import numpy as np
import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.measure import (
    coverage,
    fit_cosine,
    frequency_share,
    gini,
    grokking_delay,
    half_power,
    interpolate,
    live,
    participation,
    phase_residual,
    power_2d,
    random_share,
    top_frequency,
    top_frequency_2d,
    top_share_2d,
)

KEY = Key("tests/fourier")
periods = pytest.mark.parametrize("p", [2, 3, 7, 8])


def normal(*shape, name="x") -> torch.Tensor:
    return torch.randn(*shape, generator=(KEY / name).torch(), dtype=torch.float64)


def literal_power(w) -> list[float]:
    """Squared length of the projection of w on the cosine and the sine of each frequency, by sums."""
    p, out = len(w), []
    for j in range(p // 2 + 1):
        vectors = [[math.cos(2 * math.pi * j * a / p) for a in range(p)]]
        if 0 < 2 * j < p:
            vectors.append([math.sin(2 * math.pi * j * a / p) for a in range(p)])
        out.append(
            sum(
                sum(float(x) * v for x, v in zip(w, vec, strict=True)) ** 2 / sum(v * v for v in vec) for vec in vectors
            )
        )
    return out


def cosine(p, zeta, phase, amplitude=1.0) -> torch.Tensor:
    return amplitude * (phase + 2 * math.pi * zeta * torch.arange(p, dtype=torch.float64) / p).cos()


@periods
def test_power_is_that_of_projections_on_cosines(p):
    w = normal(4, p)
    expected = torch.tensor([literal_power(row) for row in w], dtype=torch.float64)
    torch.testing.assert_close(half_power(w), expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(half_power(w).sum(-1), w.square().sum(-1), atol=1e-12, rtol=0)
    torch.testing.assert_close(half_power(w.T, axis=0), expected, atol=1e-12, rtol=0)
    share = expected.amax(-1) / expected.sum(-1)
    torch.testing.assert_close(frequency_share(w), share, atol=1e-12, rtol=0)
    rest = expected[:, 1:]
    torch.testing.assert_close(frequency_share(w, constant=False), rest.amax(-1) / rest.sum(-1), atol=1e-12, rtol=0)
    assert torch.equal(top_frequency(w), expected.argmax(-1))
    assert torch.equal(top_frequency(w, constant=False), 1 + rest.argmax(-1))


@pytest.mark.parametrize("p", [5, 23, 24])
def test_a_cosine_has_one_frequency(p):
    for zeta in range(1, (p - 1) // 2 + 1):
        w = cosine(p, zeta, 0.7)
        assert float(frequency_share(w)) == pytest.approx(1, abs=1e-12)  # 0.5 over the bins of the full transform
        assert int(top_frequency(w)) == zeta
        assert float(participation(half_power(w))) == pytest.approx(1, abs=1e-12)
        assert float(gini(half_power(w))) == pytest.approx(1 - 1 / (p // 2 + 1), abs=1e-12)


def test_vectors_of_zeros_have_no_share_and_no_frequency():
    w = torch.zeros(2, 5)
    w[0, 1] = 1.0
    assert frequency_share(w).isnan().tolist() == [False, True]
    assert top_frequency(w).tolist()[1] == -1
    assert participation(half_power(w)).isnan().tolist() == [False, True]
    assert gini(half_power(w)).isnan().tolist() == [False, True]
    assert top_share_2d(torch.zeros(3, 3)).isnan()


def test_half_precision_is_widened():
    w = normal(3, 12).to(torch.bfloat16)
    assert torch.equal(half_power(w), half_power(w.float()))


@pytest.mark.parametrize("p, constant", [(2, True), (7, True), (8, False), (23, True), (47, False)])
def test_share_of_noise_against_monte_carlo(p, constant):
    n = 20_000
    shares = frequency_share(torch.randn(n, p, generator=(KEY / "noise" / p).torch()), constant=constant)
    assert abs(float(shares.mean()) - random_share(p, constant=constant)) < 5 * float(shares.std()) / n**0.5


def test_share_of_noise_in_closed_form():
    n = 48
    harmonic = sum(1 / i for i in range(1, n + 1))
    assert random_share(97, constant=False) == pytest.approx(harmonic / n, rel=1e-10)
    assert random_share(2) == pytest.approx(0.5 + 1 / math.pi, rel=1e-10)  # larger of two squared normals
    for p, reported in ((23, 0.265), (47, 0.159), (97, 0.092)):
        assert random_share(p) == pytest.approx(reported, abs=0.0005)


def test_coverage_counts_live_neurons():
    top = torch.tensor([[1, 1, 3, 0, -1], [2, 2, 2, 2, 2]])
    found = coverage(top, 7)
    assert found.counts.tolist() == [[2, 0, 1], [0, 5, 0]]
    torch.testing.assert_close(found.share, torch.tensor([2 / 3, 1 / 3]))
    alive = torch.tensor([[True, False, False, True, True]] * 2)
    assert coverage(top, 7, alive).counts.tolist() == [[1, 0, 0], [0, 3, 0]]
    assert coverage(torch.tensor([1, 4]), 8).counts.tolist() == [1, 0, 0, 1]


def test_live_is_relative_to_the_largest_of_each_network():
    norms = torch.tensor([[1.0, 0.05, 0.049], [0.0, 0.0, 0.0], [20.0, 1.0, 0.5]])
    assert live(norms).tolist() == [[True, True, False], [False] * 3, [True, True, False]]


@pytest.mark.parametrize("p", [7, 8])
def test_phases_of_cosines_add_up(p):
    k, zeta = 3, 2
    for i in range(20):
        theta = normal(k + 1, name=f"phase/{i}") * 3
        u = torch.stack([cosine(p, zeta, t, 0.5 + j) for j, t in enumerate(theta[:k])])
        w = cosine(p, zeta, theta[k]) + 0.1
        wrapped = cmath.phase(cmath.exp(1j * float(theta[:k].sum() - theta[k])))
        assert float(phase_residual(u, w)) == pytest.approx(wrapped, abs=1e-9)
        assert float(phase_residual(u[None], w[None], torch.tensor([zeta]))[0]) == pytest.approx(wrapped, abs=1e-9)
    half = phase_residual(cosine(p, 1, math.pi)[None], cosine(p, 1, 0.0))
    assert abs(float(half)) == pytest.approx(math.pi, abs=1e-9)


def test_phase_is_taken_at_the_given_frequency():
    u, w = (cosine(7, 1, 0.5) + 0.2 * cosine(7, 3, 1.0))[None], cosine(7, 1, 0.1) + 0.2 * cosine(7, 3, 0.8)
    assert float(phase_residual(u, w)) == pytest.approx(0.4, abs=1e-9)
    assert float(phase_residual(u, w, torch.tensor(3))) == pytest.approx(0.2, abs=1e-9)
    assert phase_residual(u, torch.zeros(7, dtype=torch.float64)).isnan()


@pytest.mark.parametrize("p", [7, 8])
def test_cosine_fit_is_least_squares(p):
    w = normal(6, p)
    fit = fit_cosine(w)
    a = np.arange(p)
    for i, row in enumerate(w.numpy()):
        left = []
        for zeta in range(1, p // 2 + 1):
            basis = np.stack([np.ones(p), np.cos(2 * np.pi * zeta * a / p), np.sin(2 * np.pi * zeta * a / p)], 1)
            left.append(np.square(row - basis @ np.linalg.lstsq(basis, row, rcond=None)[0]).sum())
        zeta = int(fit.frequency[i])
        assert zeta == 1 + int(np.argmin(left))
        ours = float(fit.mean[i]) + float(fit.amplitude[i]) * np.cos(float(fit.phase[i]) + 2 * np.pi * zeta * a / p)
        assert np.square(row - ours).sum() == pytest.approx(min(left), abs=1e-12)
        assert float(fit.r2[i]) == pytest.approx(1 - min(left) / np.square(row - row.mean()).sum(), abs=1e-12)


def test_cosine_fit_at_a_frequency_and_of_constants():
    w = cosine(9, 2, 0.4, 3.0) + cosine(9, 4, 1.0)
    fit = fit_cosine(w, torch.tensor(4))
    assert (float(fit.amplitude), float(fit.phase), float(fit.r2)) == pytest.approx((1.0, 1.0, 0.1), abs=1e-9)
    flat = fit_cosine(torch.full((2, 7), 0.1))
    assert flat.frequency.tolist() == [-1, -1]
    assert flat.amplitude.tolist() == [0, 0]
    assert flat.r2.isnan().all()
    assert flat.phase.isnan().all()
    assert flat.mean.tolist() == pytest.approx([0.1, 0.1])


@periods
def test_interpolation_goes_through_the_points_and_repeats(p):
    w = normal(3, p)
    at = torch.arange(p, dtype=torch.float64)
    torch.testing.assert_close(interpolate(w, at), w, atol=1e-12, rtol=0)
    torch.testing.assert_close(interpolate(w, at + 5 * p), w, atol=1e-12, rtol=0)


def test_interpolation_of_a_cosine_is_that_cosine():
    t = torch.linspace(-3, 12, 50, dtype=torch.float64)
    expected = 2.0 + (0.3 + 2 * math.pi * 3 * t / 9).cos()
    torch.testing.assert_close(interpolate(2 + cosine(9, 3, 0.3), t), expected, atol=1e-12, rtol=0)


def literal_power_2d(a) -> dict[tuple[int, int], float]:
    """Power by pair {(i, j), (-i, -j)}, keyed by its smaller member, by sums."""
    q, p = a.shape
    out: dict[tuple[int, int], float] = {}
    for i in range(q):
        for j in range(p):
            wave = np.exp(-2j * np.pi * (i * np.arange(q)[:, None] / q + j * np.arange(p) / p))
            pair = min((j, i), (-j % p, -i % q))
            out[pair] = out.get(pair, 0.0) + float(abs((wave * a.numpy()).sum()) ** 2) / (q * p)
    return out


@pytest.mark.parametrize("q, p", [(5, 5), (4, 4), (3, 4), (6, 5)])
def test_power_in_two_dimensions_is_that_of_pairs(q, p):
    a = normal(q, p)
    expected = literal_power_2d(a)
    found = power_2d(a)
    assert found.shape == (q, p // 2 + 1)
    for (j, i), value in expected.items():
        assert float(found[i, j]) == pytest.approx(value, abs=1e-12)
    assert int((found != 0).sum()) == len(expected)
    assert float(found.sum()) == pytest.approx(float(a.square().sum()), abs=1e-12)
    ordered = sorted(expected.values(), reverse=True)
    for n in (1, 3, q * p // 2 + 1):
        share = sum(ordered[:n]) / sum(ordered)
        assert float(top_share_2d(a, n, centre=False)) == pytest.approx(share, abs=1e-12)


def test_centring_removes_rows_and_columns_and_nothing_else():
    a = normal(2, 6, 7)
    power, centred = power_2d(a), power_2d(a, centre=True)
    assert float(centred[:, 0].abs().max()) < 1e-12
    assert float(centred[:, :, 0].abs().max()) < 1e-12
    torch.testing.assert_close(centred[:, 1:, 1:], power[:, 1:, 1:], atol=1e-12, rtol=0)
    plus = a + 3 * normal(6, 1, name="rows") + 5 * normal(7, name="columns")
    torch.testing.assert_close(top_share_2d(plus, 4), top_share_2d(a, 4), atol=1e-12, rtol=0)


def test_top_frequency_in_two_dimensions():
    i, j = torch.meshgrid(torch.arange(7), torch.arange(9), indexing="ij")
    for f, g in ((3, 2), (-2, 4), (1, 0), (0, 3)):
        wave = (0.4 + 2 * math.pi * (f * i / 7 + g * j / 9)).cos()
        assert top_frequency_2d(wave, centre=False).tolist() == [f, g]
        assert float(top_share_2d(wave, 1, centre=False)) == pytest.approx(1, abs=1e-5)


def test_participation_and_gini_by_their_sums():
    power = normal(4, 6).square()
    for row, effective, g in zip(power, participation(power), gini(power), strict=True):
        assert float(effective) == pytest.approx(float(row.sum() ** 2 / row.square().sum()), abs=1e-12)
        between = (row[:, None] - row).abs().sum() / (2 * 6 * row.sum())
        assert float(g) == pytest.approx(float(between), abs=1e-12)


def test_grokking_delay_with_and_without_an_end():
    steps = torch.tensor([0, 10, 20, 30, 40])
    train = torch.tensor([[0, 1, 1, 1, 1], [0, 0.99, 0.5, 1, 1], [0, 0, 0, 0, 0.5], [0, 0, 1, 1, 1.0], [0.0] * 5])
    test = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0.98], [0, 0, 0, 1, 1.0], [0, 1, 1, 1, 1.0], [0.0] * 5])
    found = grokking_delay(train, test, steps)
    assert found.train[[0, 1, 3]].tolist() == [10, 10, 20]
    assert found.train[2].isnan()
    assert found.censored.tolist() == [False, True, False, False, False]  # in the last nothing began to wait
    assert found.delay[[0, 1, 3]].tolist() == [20, 30, -10]
    assert found.delay[[2, 4]].isnan().all()
    assert found.test[1].isnan()
    assert grokking_delay(train, test, steps, 0.98).delay[1] == 30
    assert not grokking_delay(train, test, steps, 0.98).censored[1]


NAN = torch.tensor([1.0, math.nan, 0.0])
REFUSED = {
    "power of nan": (lambda: half_power(NAN), "1 of 3 values not finite"),
    "frequency of one number": (lambda: frequency_share(torch.ones(4, 1), constant=False), "p = 1"),
    "noise of one number": (lambda: random_share(1), "at least 2"),
    "coverage above": (lambda: coverage(torch.tensor([4]), 7), "up to p//2 = 3"),
    "coverage of one": (lambda: coverage(torch.tensor([0]), 1), "at least 2"),
    "phase above": (lambda: phase_residual(torch.ones(1, 2, 5), torch.ones(1, 5), torch.tensor([3])), "0 to p//2 = 2"),
    "fit at 0": (lambda: fit_cosine(torch.ones(1, 5), torch.tensor([0])), "fitted anyway"),
    "interpolation at nan": (lambda: interpolate(torch.ones(3), NAN), "t = 1 of 3"),
    "too many bins": (lambda: top_share_2d(torch.ones(3, 3), 6), "1 to 5 frequencies"),
    "no bins": (lambda: top_share_2d(torch.ones(3, 3), 0), "1 to 5 frequencies"),
    "share of live": (lambda: live(torch.ones(3), 0), r"in \(0, 1\]"),
    "negative norm": (lambda: live(torch.tensor([-1.0, 1.0])), "norms = -1"),
    "nan norm": (lambda: live(NAN), "1 of 3"),
    "negative power": (lambda: gini(torch.tensor([-1.0, 2.0])), "squares"),
    "threshold": (lambda: grokking_delay(torch.ones(2), torch.ones(2), torch.arange(2), 99), "threshold = 99"),
    "per cent": (lambda: grokking_delay(torch.ones(2), 50 * torch.ones(2), torch.arange(2)), "divide per cent"),
    "steps": (lambda: grokking_delay(torch.ones(2), torch.ones(2), torch.tensor([2, 1])), "not increasing"),
    "no steps": (lambda: grokking_delay(torch.ones(0), torch.ones(0), torch.ones(0)), "at least one"),
}


@pytest.mark.parametrize("call, says", REFUSED.values(), ids=REFUSED)
def test_refused_arguments_are_named(call, says):
    with pytest.raises(SettingError, match=says):
        call()
