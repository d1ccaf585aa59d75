"""Gram matrices in tiles: equal to the kernels that they stand for, and to 30 digits where inputs are equal."""

import mpmath as mp
import pytest
import torch

from featlearn.core import SettingError
from featlearn.kernels import deep_gram, deep_nngp, deep_ntk

VARIANCES = {"weight_var": 1.7, "bias_var": 0.4, "readout_var": 1.3}


def points(n, d=5, seed=3):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("layers", [2, 3, 5])
@pytest.mark.parametrize("bias_var", [0.0, 0.4])
def test_tiles_give_the_kernels(layers, bias_var):
    """More rows and columns than a tile has; zero vectors, and opposite ones."""
    x, y = points(150), points(1100, seed=4)
    x[3], y[1030], y[7] = 0.0, 0.0, -x[9]
    given = {**VARIANCES, "bias_var": bias_var, "layers": layers}
    for name, kernel in (("ntk", deep_ntk), ("nngp", deep_nngp)):
        close = {"rtol": 1e-9, "atol": 1e-9}
        found, expected = deep_gram(x, y, kernel=name, **given), kernel(x, y, **given)
        assert abs(float(found[9, 7] - expected[9, 7])) < 1e-7  # the arccosine at -1 has half of the digits
        found[9, 7] = expected[9, 7]
        torch.testing.assert_close(found, expected, **close)
        k, whole = deep_gram(y, kernel=name, **given), kernel(y, y, **given)
        apart = ~torch.eye(len(y), dtype=torch.bool)  # identical inputs: the next test
        torch.testing.assert_close(k[apart], whole[apart], **close)
        torch.testing.assert_close(k, whole, rtol=1e-6, atol=1e-6)
        assert torch.equal(k, k.T)


@pytest.mark.parametrize("layers", [2, 3, 4])
def test_equal_inputs_keep_all_digits(layers):
    mp.mp.dps = 30
    x = torch.cat([points(70), points(2)])
    x[71] = x[0]
    found = deep_gram(x, layers=layers, **VARIANCES)
    weight, bias, readout = (mp.mpf(VARIANCES[k]) for k in ("weight_var", "bias_var", "readout_var"))
    for i in (0, 1, 71):
        inner = mp.fsum(mp.mpf(float(v)) ** 2 for v in x[i])
        var, tangent = weight * inner + bias, inner + 1
        for _ in range(layers - 2):
            var, tangent = weight * var / 2 + bias, var / 2 + 1 + weight * tangent / 2
        exact = var / 2 + readout * tangent / 2
        for j in {0: (0, 71), 1: (1,), 71: (0, 71)}[i]:
            assert abs(mp.mpf(float(found[i, j])) - exact) < 1e-14 * exact
    assert abs(float(deep_ntk(x, x, layers=layers, **VARIANCES)[1, 1] - found[1, 1])) < 1e-5


def test_memory_is_told_and_what_is_no_network_is_refused():
    said = []
    deep_gram(points(3), points(2), report=said.append)
    assert said == ["ntk of 3 x 2 inputs: 4 MiB for tiles, 4.578e-05 MiB for the result"]
    wrong = ({"layers": 1}, "layers = 1"), ({"kernel": "rbf"}, "kernel = 'rbf'"), ({"bias_var": -1.0}, "bias_var")
    for given, says in wrong:
        with pytest.raises(SettingError, match=says):
            deep_gram(points(3), **given)
    assert deep_gram(points(3)[:0], points(2)).shape == (0, 2)
