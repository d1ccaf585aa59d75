"""Leading singular values, ranks, the floor of rounding, and shares along directions, against whole decompositions."""

import numpy as np
import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.measure import effective_rank, leading_singular, rounding_floor, share_within, stable_rank

KEY = Key("tests/spectra")


def decaying(m: int, n: int, power: float) -> torch.Tensor:
    """A matrix with singular values i^-power."""
    generator = KEY.torch()
    left = torch.linalg.qr(torch.randn(m, min(m, n), generator=generator)).Q
    right = torch.linalg.qr(torch.randn(n, min(m, n), generator=generator)).Q
    return (left * torch.arange(1, min(m, n) + 1) ** -power) @ right.T


@pytest.mark.parametrize("shape", [(40, 30), (300, 500), (900, 270)])
def test_leading_values_and_subspaces_are_those_of_the_whole_decomposition(shape: tuple[int, int]) -> None:
    matrix = decaying(*shape, power=1.0)
    found = leading_singular(matrix, 8, KEY)
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    torch.testing.assert_close(found.values, values[:8], rtol=1e-4, atol=0)
    # the third value is 1/3, the nearest other subspace is at cosine 0
    assert float((found.left[:, 2] @ left[:, 2]).abs()) > 0.999
    assert float((found.right[:, 2] @ right[2]).abs()) > 0.999
    assert not found.whole
    assert found.left.shape == (shape[0], 8)
    assert found.right.shape == (shape[1], 8)


def test_values_of_a_flat_spectrum_are_never_too_large() -> None:
    matrix = torch.randn(400, 400, generator=KEY.torch())
    found, values = leading_singular(matrix, 16, KEY).values, torch.linalg.svdvals(matrix)[:16]
    assert bool((found <= values * (1 + 1e-5)).all())
    assert float((found / values).min()) > 0.9


def test_no_number_is_drawn_from_the_generators_of_torch() -> None:
    before = torch.random.get_rng_state()
    leading_singular(torch.randn(300, 300, generator=KEY.torch()), 4, KEY)
    assert torch.equal(before, torch.random.get_rng_state())


def test_ranks_of_known_spectra() -> None:
    matrix = decaying(50, 40, power=0.5)
    s = np.linalg.svd(matrix.numpy(), compute_uv=False).astype(float)
    assert stable_rank(matrix, KEY) == pytest.approx((s**2).sum() / s[0] ** 2, rel=1e-5)
    assert effective_rank(matrix) == pytest.approx((s**2).sum() ** 2 / (s**4).sum(), rel=1e-5)
    # sizes at the ends of float32 are scaled first
    assert effective_rank(matrix * 1e-20) == pytest.approx(effective_rank(matrix), rel=1e-5)
    with pytest.raises(SettingError, match="zeros"):
        effective_rank(torch.zeros(3, 3))


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
def test_rounding_leaves_half_of_the_floor(kind: str) -> None:
    matrix = torch.randn(300, 200, generator=KEY.torch(), dtype=torch.float64)
    left = matrix.to(getattr(torch, kind)).double() - matrix
    size = float(torch.linalg.matrix_norm(left, 2))
    assert 0.45 < size / rounding_floor(matrix, kind) < 0.55  # half: spacings are coarsest just above a power of two


def test_shares_along_directions() -> None:
    matrix = torch.randn(2000, 50, generator=KEY.torch())
    basis = torch.linalg.qr(torch.randn(50, 10, generator=(KEY / 1).torch())).Q
    assert share_within(matrix, basis) == pytest.approx(0.2, abs=0.01)
    assert share_within(matrix @ basis @ basis.T, basis) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("k", [0, 4])
def test_more_directions_than_there_are_are_refused(k: int) -> None:
    with pytest.raises(SettingError, match="1 to 3"):
        leading_singular(torch.ones(3, 5), k, KEY)
