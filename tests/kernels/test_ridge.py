"""Kernel ridge regression: equal to a direct solve, to scikit-learn and to its own limits; errors name their cause."""

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge

from featlearn.core import Key, SettingError
from featlearn.kernels import feature_ridge, gram, gram_of, kernel_ridge, ntk, random_features, rbf, ridge_path


def data(n=40, d=3, o=2):
    g = Key("ridge").torch()
    return (torch.randn(k, dim, generator=g, dtype=torch.float64) for k, dim in ((n, d), (n, o), (15, d)))


def test_ridge_equals_direct_solve_and_scikit_learn():
    x, y, new = data()
    fit = kernel_ridge(rbf, x, y, penalty=0.3)
    direct = rbf(new, x) @ torch.linalg.inv(rbf(x, x) + 0.3 * torch.eye(len(x), dtype=torch.float64)) @ y
    theirs = KernelRidge(alpha=0.3, kernel="rbf", gamma=0.5).fit(x.numpy(), y.numpy()).predict(new.numpy())
    assert torch.allclose(fit(new), direct, rtol=1e-9)
    np.testing.assert_allclose(fit(new).numpy(), theirs, rtol=1e-8)
    assert not np.allclose(kernel_ridge(rbf, x, y, penalty=0.3 * len(x))(new).numpy(), theirs, rtol=0.05)  # mean or sum


def test_path_equals_single_fits_and_accepts_one_column():
    x, y, new = data()
    penalties = [1e-6, 1e-2, 1.0, 100.0]
    for fit, penalty in zip(ridge_path(ntk, x, y[:, 0], penalties=penalties), penalties, strict=True):
        assert fit.penalty == penalty
        # a penalty of 1e-6 leaves a condition number of about 1e7: five digits fewer
        assert torch.allclose(fit(new), kernel_ridge(ntk, x, y[:, :1], penalty=penalty)(new), rtol=1e-7, atol=1e-8)


def test_blocks_change_nothing():
    x, y, new = data()
    row = 8 * 10 * len(x) / 2**20  # one row of the Gram matrix
    for rows in (1, 7, 40):
        assert torch.allclose(gram(ntk, x, memory_mib=row * rows), ntk(x, x), rtol=1e-13)
        fit = kernel_ridge(ntk, x, y, penalty=0.1, memory_mib=row * rows)
        assert torch.allclose(fit(new), kernel_ridge(ntk, x, y, penalty=0.1)(new), rtol=1e-8)


def test_no_block_is_empty():
    """Forty rows in blocks of ten: kernels of users need not be able to take none."""
    x, _, _ = data()
    rows = []

    def counting(a, b):
        rows.append(len(a))
        return rbf(a, b)

    gram(counting, x, memory_mib=10 * 8 * 10 * len(x) / 2**20)
    assert rows == [10] * 4


def test_a_last_pivot_of_rounding_is_refused_although_cholesky_ends():
    """[[1, 1], [1, 1 + eps]] has pivots 1 and eps, below the floor 2 eps."""
    x, y = torch.tensor([[0.0], [1.0]]).double(), torch.tensor([1.0, -1.0]).double()
    with pytest.raises(SettingError, match="singular to working precision"):
        kernel_ridge(lambda a, b: 1 + torch.finfo(torch.float64).eps * a @ b.T, x, y, penalty=0.0)
    assert kernel_ridge(lambda a, b: 1 + 1e-10 * a @ b.T, x, y, penalty=0.0)(x)[:, 0] == pytest.approx(y, abs=1e-3)


def test_no_penalty_interpolates_and_a_huge_one_gives_zero():
    x, y, new = data()
    assert torch.allclose(kernel_ridge(rbf, x, y, penalty=0.0)(x), y, atol=1e-6)
    assert kernel_ridge(rbf, x, y, penalty=1e12)(new).abs().max() < 1e-9
    assert not torch.allclose(kernel_ridge(rbf, x, y, penalty=0.1)(x), y, atol=1e-2)


@pytest.mark.parametrize("m", [10, 200])
def test_primal_and_dual_are_one_function(m):
    x, y, new = data()
    features = random_features(3, m, Key("rf"), bias_var=1.0)
    primal, dual = feature_ridge(features, x, y, penalty=0.05), kernel_ridge(gram_of(features), x, y, penalty=0.05)
    assert torch.allclose(primal(new), dual(new), rtol=1e-7, atol=1e-9)
    assert primal.coefficients.shape == (m, 2)


def test_float32_inputs_and_no_rows():
    x, y, new = data()
    low = kernel_ridge(rbf, x.float(), y.float(), penalty=0.3)(new.float())
    assert low.dtype == torch.float64
    assert torch.allclose(low, kernel_ridge(rbf, x, y, penalty=0.3)(new), atol=1e-5)
    assert kernel_ridge(rbf, x, y, penalty=0.3)(new[:0]).shape == (0, 2)


def broken(x, value):
    x = x.clone()
    x[3, 1] = value
    return x


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x, y: kernel_ridge(rbf, broken(x, float("nan")), y, penalty=1.0), r"x\[3, 1\] = nan"),
        (lambda x, y: kernel_ridge(rbf, x, broken(y, float("inf")), penalty=1.0), r"y\[3, 1\] = inf"),
        (lambda x, y: ridge_path(rbf, broken(x, float("nan")), y, penalties=[1.0]), r"x\[3, 1\] = nan"),
        (lambda x, y: kernel_ridge(rbf, x[[0, 0, 1]], y[:3], penalty=0.0), r"penalty = 0.0 .*singular.*try penalty >="),
        (
            lambda x, y: ridge_path(rbf, x[[0, 0, 1]], y[:3], penalties=[0.0]),
            r"penalty = 0.0 .*singular.*try penalty >=",
        ),
        (lambda x, y: kernel_ridge(rbf, x, y, penalty=-1.0), "penalty = -1.0"),
        (lambda x, y: ridge_path(rbf, x, y, penalties=[]), "penalties"),
        (lambda x, y: kernel_ridge(rbf, x, y[:5], penalty=1.0), "y = .*40 rows"),
        (lambda x, y: kernel_ridge(rbf, x[:0], y[:0], penalty=1.0), "at least one row"),
        (lambda x, y: gram(rbf, x, memory_mib=1e-4), "memory_mib"),
        (lambda x, y: kernel_ridge(lambda u, v: rbf(u, v) / 0, x, y, penalty=1.0), r"kernel\[0, 0\]"),
    ],
)
def test_each_wrong_input_has_one_line_naming_it(call, message):
    x, y, _ = data()
    before = x.clone()
    with pytest.raises(SettingError, match=message) as caught:
        call(x, y)
    assert "\n" not in str(caught.value)
    assert torch.equal(x, before)
