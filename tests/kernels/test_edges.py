"""Kernels at the edges: huge, tiny, identical and far inputs, kernels of users, and a message that fits its cause."""

import functools
import json
import math
import re
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.errors import NotFiniteInput
from featlearn.kernels import (
    clip_moments,
    feature_ridge,
    fourier_features,
    gram,
    hinge_classifier,
    kernel_ridge,
    nngp,
    ntk,
    polynomial,
    random_features,
    rbf,
    relu_moments,
    ridge_path,
)

mp.mp.dps = 30
SIZES = (1e-8, 1e-4, 0.2, 1.0, 3.0, 30.0, 1e4, 1e8)
CORRELATIONS = (1, 1 - 1e-15, 1 - 1e-11, 1 - 1e-6, 0.99, 0.905, 0.895, 0.5, 0, -0.895, -0.95, -1 + 1e-9, -1)


@functools.cache
def gauss_legendre(n: int) -> list[tuple[mp.mpf, mp.mpf]]:
    out = []
    for i in range(1, n + 1):
        x = mp.cos(mp.pi * (i - mp.mpf(1) / 4) / (n + mp.mpf(1) / 2))
        for _ in range(8):
            p0, p1 = mp.mpf(1), x
            for k in range(2, n + 1):
                p0, p1 = p1, ((2 * k - 1) * x * p1 - (k - 1) * p0) / k
            slope = n * (x * p1 - p0) / (x * x - 1)
            x -= p1 / slope
        out.append((x, 2 / ((1 - x * x) * slope * slope)))
    return out


def exact(var_x: float, var_y: float, cov: float) -> tuple[mp.mpf, mp.mpf]:
    """Both moments in 30 digits by the integral over the angle, in pieces that each are five times the one before."""
    vx, vy, c = map(mp.mpf, (var_x, var_y, cov))
    sx, sy = mp.sqrt(vx), mp.sqrt(vy)
    least = mp.atan2(mp.sqrt(max(vx * vy - c * c, 0)), abs(c))
    sign = -1 if c < 0 else 1
    cuts, gap, room = [mp.mpf(0)], mp.mpf(10) ** -20, mp.pi / 2 - least
    while gap < room:
        cuts.append(gap)
        gap *= 5
    slope = rate = mp.mpf(0)
    rule = gauss_legendre(20)
    for low, high in zip(cuts, [*cuts[1:], room], strict=True):
        for node, weight in rule:
            phi = least + (low + high + (high - low) * node) / 2
            square, cos = 2 * mp.sin(phi) ** 2, mp.cos(phi)
            over = 1 + cos if sign > 0 else 2 * mp.sin(phi / 2) ** 2
            both = (1 / sx - 1 / sy) ** 2 / square + 1 / (sx * sy * over)
            part = mp.expm1(-both) - mp.expm1(-1 / (vx * square)) - mp.expm1(-1 / (vy * square))
            part *= (high - low) / 2 * weight * sign / (2 * mp.pi)
            slope += part
            rate += part * (c - sign * sx * sy * cos)
    window = mp.erf(1 / sx / mp.sqrt(2)) * mp.erf(1 / sy / mp.sqrt(2)) / 4
    means = [s * -mp.expm1(-1 / (2 * s * s)) / mp.sqrt(2 * mp.pi) + mp.erfc(1 / s / mp.sqrt(2)) / 2 for s in (sx, sy)]
    return means[0] * means[1] + c * window + rate, window + slope


def identical(sd: float) -> tuple[float, float]:
    """E[s(u)^2] and Pr[0 < u < 1], which need no integral."""
    h = 1 / mp.mpf(sd)
    inside = mp.erf(h / mp.sqrt(2)) / 2
    return float((inside - h * mp.exp(-h * h / 2) / mp.sqrt(2 * mp.pi)) / h**2 + mp.erfc(h / mp.sqrt(2)) / 2), float(
        inside
    )


def column(value: float) -> torch.Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


def cases(sd: float) -> list[tuple[float, float, float, float]]:
    """Variances, covariance and correlation of the grid at one size."""
    found = []
    for other in (1.0, 1.001, 10.0):
        var_x, var_y = sd**2, min((sd * other) ** 2, 1e16)
        for r in CORRELATIONS:
            cov = r * math.sqrt(var_x * var_y)
            if mp.mpf(cov) ** 2 > mp.mpf(var_x) * mp.mpf(var_y):
                cov = math.nextafter(cov, 0)
            found.append((var_x, var_y, cov, r))
    return found


GRID = [case for sd in SIZES for case in cases(sd)]
KEPT = Path(__file__).with_name("clip_moments.json")
"""Both moments at GRID by `exact`, which takes a tenth of a second each: `python tests/kernels/test_edges.py`."""


@functools.cache
def kept() -> dict[tuple[float, float, float, float], tuple[float, float]]:
    return dict(zip(GRID, json.loads(KEPT.read_text()), strict=True))


@pytest.mark.parametrize("sd", SIZES)
def test_clip_moments_keep_the_bound_of_their_docstring(sd):
    assert kept()[cases(sd)[0]] == pytest.approx(identical(sd), rel=1e-12)  # the reference itself
    for var_x, var_y, cov, r in cases(sd):
        found = clip_moments(column(var_x), column(var_y), column(cov))
        for ours, true in zip(found, kept()[var_x, var_y, cov, r], strict=True):
            error = abs(true - ours.item())
            assert error < 1e-10, (var_y, r)
            assert r < 0 or error < 1e-7 * true, (var_y, r)


def test_the_kept_reference_is_what_the_integral_gives():
    drawn = Key("kept moments").numpy().choice(len(GRID), 12, replace=False)
    for i in drawn:
        assert kept()[GRID[i]] == pytest.approx([float(v) for v in exact(*GRID[i][:3])], rel=1e-14, abs=1e-25)


@pytest.mark.parametrize("norm", [1e-8, 1e-3, 1.0, 30.0, 4117.0, 1e8])
def test_kernels_of_identical_inputs_are_their_closed_forms(norm):
    """However the covariance is rounded; at 4117, raw pixels, one in a thousand was lost before."""
    x = torch.randn(20, 37, dtype=torch.float64, generator=Key("clip").torch())
    x = x / x.norm(dim=1, keepdim=True) * norm * 0.999
    value, slope = np.transpose([identical(float(s)) for s in x.norm(dim=1)])
    square = x.square().sum(1).numpy()
    np.testing.assert_allclose(nngp(x, x.clone(), activation="clip").diagonal(), value, rtol=1e-9)
    np.testing.assert_allclose(ntk(x, x, activation="clip").diagonal(), value + slope * (square + 1), rtol=1e-9)


def test_clip_is_refused_beyond_what_was_verified():
    x = torch.full((1, 4), 1e9)
    with pytest.raises(SettingError, match=r"variance of 4e\+18 is not allowed: .* up to 1e\+16, of activation clip"):
        nngp(x, x, activation="clip")
    assert ntk(x, x).isfinite().all()  # relu has no such bound


@pytest.mark.parametrize("moments", [relu_moments, clip_moments])
def test_what_is_no_covariance_is_refused(moments):
    with pytest.raises(SettingError, match=r"^var_x = -1.0"):
        moments(column(-1.0), column(1.0), column(0.0))
    with pytest.raises(SettingError, match=r"^cov = above"):
        moments(column(1.0), column(1.0), column(2.0))


def test_an_offset_common_to_all_inputs_does_not_cancel_their_digits():
    """Inputs whose offset is exact: multiples of 2^-16 below 8, at 2^27 and 1e8."""
    g = Key("offset").torch()
    x, y = (torch.randint(-(2**18), 2**18, (n, 5), generator=g).double() / 2**16 for n in (30, 20))
    for offset in (0.0, 1e3, 2.0**27, 1e8):
        error = (rbf(x + offset, y + offset, bandwidth=3.0) - rbf(x, y, bandwidth=3.0)).abs().max()
        assert error < 1e-13, offset
    fit = kernel_ridge(rbf, x, x[:, 0], penalty=0.1)
    far = kernel_ridge(rbf, x + 1e8, x[:, 0], penalty=0.1)
    assert torch.allclose(far(y + 1e8), fit(y), rtol=1e-10, atol=1e-12)


def test_signs_keep_their_exact_distances():
    """Distances of inputs of -1 and 1 are whole numbers: rows that were computed before are the same bit for bit."""
    s = torch.randint(0, 2, (50, 32), generator=Key("signs").torch()) * 2.0 - 1
    d = 2 * (32 - s.double() @ s.double().T)
    assert torch.equal(rbf(s, s, bandwidth=5.0), (d * (-0.5 / 25.0)).exp())
    assert torch.equal(rbf(s, s[:1], bandwidth=5.0), (d[:, :1] * (-0.5 / 25.0)).exp())


X = torch.randn(8, 3, dtype=torch.float64, generator=Key("edges").torch())
Y = X[:, 0].sign()
WRONG_KERNELS = {
    "a row": (lambda a, b: torch.ones(len(b)), r"\(8,\)"),
    "a column": (lambda a, b: torch.ones(len(a), 1), r"\(8, 1\)"),
    "a scalar": (lambda a, b: torch.tensor(1.0), r"\(\)"),
    "a number": (lambda a, b: 1.0, "a float"),
    "turned round": (lambda a, b: torch.ones(len(b) + 1, len(a)), r"\(9, 8\)"),
}


@pytest.mark.parametrize("kernel, found", WRONG_KERNELS.values(), ids=WRONG_KERNELS)
def test_a_kernel_that_gives_no_number_for_each_pair_is_refused(kernel, found):
    for call in (
        lambda k: gram(k, X),
        lambda k: kernel_ridge(k, X, Y, penalty=1.0),
        lambda k: ridge_path(k, X, Y, penalties=[1.0]),
    ):
        with pytest.raises(SettingError, match=rf"^kernel = .*{found}.* is not allowed: \(8, 8\) for x") as e:
            call(kernel)
        assert "\n" not in str(e.value)
    fit = kernel_ridge(rbf, X, Y, penalty=1.0)
    with pytest.raises(SettingError, match=r"^kernel = "):
        type(fit)(kernel, fit.centres, fit.coefficients, 1.0)(X[:2])


def test_each_cause_of_a_bad_gram_matrix_has_its_own_message():
    def said(kernel, x=X, penalty=0.1):
        found = []
        for call in (
            lambda: kernel_ridge(kernel, x, Y, penalty=penalty),
            lambda: ridge_path(kernel, x, Y, penalties=[penalty]),
        ):
            with pytest.raises(SettingError) as e:
                call()
            assert "\n" not in str(e.value)
            found.append(str(e.value).split(", its largest")[0])  # which may be rounding
        assert found[0] == found[1]
        return found[0]

    asymmetric = said(lambda a, b: a @ b.T + a[:, :1], penalty=1.0)
    assert asymmetric.startswith("kernel = not symmetric: [")
    assert "penalty" not in asymmetric
    assert re.match(r"kernel = indefinite: its smallest eigenvalue is -\d", said(lambda a, b: -(a @ b.T)))
    i_j = said(lambda a, b: (1e200 * a @ b.T) ** 2)
    assert re.match(r"kernel\[\d, \d\] = inf is not allowed: finite, as all inputs are .*overflow", i_j)
    nan = X.clone()
    nan[3, 1] = math.nan
    assert said(rbf, x=nan).startswith("x = 1 of 24 values not finite, the first x[3, 1] = nan,")


def singular(fit, penalty) -> bool:
    try:
        fit(penalty)
    except SettingError:
        return True
    return False


@pytest.mark.parametrize("penalty", [0.0, 1e-16])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6, 0.0])
def test_the_remedy_of_a_singular_matrix_mends_it(scale, penalty):
    twice, y = X[[0, 0, 1, 2]], Y[:4]

    def kernel(a, b):
        return scale * rbf(a, b)

    for fit in (
        lambda p: kernel_ridge(kernel, twice, y, penalty=p),
        lambda p: ridge_path(kernel, twice, y, penalties=[p]),
        lambda p: feature_ridge(lambda a: scale * a[:, [0, 0]], twice, y, penalty=p),
    ):
        if penalty > 0 and not singular(fit, penalty):
            continue  # it is large beside the matrix
        with pytest.raises(SettingError, match=r"^penalty = .*singular") as e:
            fit(penalty)
        mends = float(re.search(r"try penalty >= (\S+),", str(e.value)).group(1))
        assert mends > penalty
        fit(mends)


def test_a_float32_kernel_is_symmetric_enough():
    x = torch.randn(200, 50, generator=Key("float32").torch())
    kernel_ridge(lambda a, b: (a @ b.T / 50 + 1) ** 3, x, x[:, 0], penalty=1.0)


def bad_inputs():
    one = torch.randn(4, 3, dtype=torch.float64)
    for value in (math.nan, math.inf):
        bad = one.clone()
        bad[1, 2] = value
        yield bad, NotFiniteInput, rf"^x = 1 of 12 values not finite, the first x\[1, 2\] = {value}"
    yield one[:, :2], SettingError, r"^x = .*\(4, 2\)"
    yield one[0], SettingError, r"^x = .*\(3,\) is not allowed: \(n, d\)"
    yield one.long(), SettingError, "^x = a tensor of torch.int64 is not allowed: floating point"


def test_predictors_refuse_what_fitting_refuses():
    maps = random_features(3, 20, Key("rf")), fourier_features(3, 20, Key("ff"))
    fits = [kernel_ridge(k, X, Y, penalty=0.1) for k in (rbf, ntk, polynomial)]
    fits += [feature_ridge(m, X, Y, penalty=0.1) for m in maps]
    for predict in (*fits, *maps):
        for x, error, says in bad_inputs():
            with pytest.raises(error, match=says) as e:
                predict(x)
            assert "\n" not in str(e.value)
    narrow = feature_ridge(lambda a: a, X, Y, penalty=0.1)
    with pytest.raises(SettingError, match=r"^features = a tensor of shape \(4, 2\) is not allowed: \(4, 3\)"):
        narrow(torch.ones(4, 2))
    hinge = hinge_classifier(X, Y, 1.0)
    with pytest.raises(SettingError, match=r"^features = .*\(n, f\) with f = 3 as in w"):
        hinge(torch.ones(4, 2))


ONE = torch.eye(3)
PARAMETERS = {
    "weight_var = nan": lambda: ntk(ONE, ONE, weight_var=math.nan),
    "weight_var = inf": lambda: ntk(ONE, ONE, weight_var=math.inf),
    "bias_var = -1.0": lambda: nngp(ONE, ONE, bias_var=-1.0),
    "readout_var = -1.0": lambda: ntk(ONE, ONE, readout_var=-1.0),
    "readout_var = nan": lambda: nngp(ONE, ONE, readout_var=math.nan),
    "weight_var = -1.0": lambda: random_features(3, 4, Key("k"), weight_var=-1.0),
    "bias_var = nan": lambda: random_features(3, 4, Key("k"), bias_var=math.nan),
    "d = 0": lambda: random_features(0, 4, Key("k")),
    "bandwidth = inf": lambda: fourier_features(3, 4, Key("k"), bandwidth=math.inf),
    "bandwidth = nan": lambda: rbf(ONE, ONE, bandwidth=math.nan),
    "degree = -1": lambda: polynomial(ONE, ONE, degree=-1),
    "scale = -1.0": lambda: polynomial(ONE, ONE, scale=-1.0),
    "offset = nan": lambda: polynomial(ONE, ONE, offset=math.nan),
    "x = a tensor of shape (3,)": lambda: polynomial(ONE[0], ONE),
    "y = a tensor of shape (3, 2)": lambda: rbf(ONE, ONE[:, :2]),
    "x = entries up to 1e+160": lambda: rbf(ONE.double() * 1e160, ONE),
    "memory_mib = nan": lambda: gram(rbf, ONE, memory_mib=math.nan),
    "max_norm = inf": lambda: hinge_classifier(ONE, torch.tensor([1.0, -1.0, 1.0]), math.inf),
    "weights = -1 the least": lambda: hinge_classifier(ONE, torch.ones(3), 1.0, weights=-torch.ones(3)),
    "y = 0": lambda: hinge_classifier(ONE, torch.zeros(3), 1.0),
}


@pytest.mark.parametrize("says, call", PARAMETERS.items(), ids=PARAMETERS)
def test_parameters_are_refused_by_name(says, call):
    with pytest.raises(SettingError) as e:
        call()
    assert str(e.value).startswith(f"{says} ") or says in str(e.value)
    assert str(e.value).startswith(says.split(" ")[0])
    assert "\n" not in str(e.value)


if __name__ == "__main__":
    pairs = [json.dumps([float(v) for v in exact(*case[:3])]) for case in GRID]
    KEPT.write_text("[\n" + ",\n".join(pairs) + "\n]\n")
