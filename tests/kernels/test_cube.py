"""Kernels on the cube in its Fourier basis, against the cube itself."""

import math
from itertools import combinations

import pytest
import torch

from featlearn.errors import SettingError
from featlearn.kernels import (
    cube,
    cube_gram,
    cube_residuals,
    cube_spectrum,
    fourier_coefficients,
    krawtchouk,
    ntk,
    rbf,
    span_residuals,
    well_conditioned,
)


def signs(n: int, d: int, seed: int) -> torch.Tensor:
    return (torch.randint(0, 2, (n, d), generator=torch.Generator().manual_seed(seed)) * 2 - 1).double()


def residuals(length=6, block=((0, 1),), scale=1.0) -> torch.Tensor:
    centres = signs(3, 5, 0) * scale
    return cube_residuals(torch.ones(length).double(), centres, torch.tensor(block), alpha=0.5)


def arcsine(x, y):
    return torch.arcsin((x @ y.T / x.shape[1]).clamp(-1, 1))


KERNELS = {"rbf": lambda x, y: rbf(x, y, bandwidth=2.0), "ntk": ntk, "arcsine": arcsine}


def test_krawtchouk_numbers_are_sums_of_parities():
    points, d = cube(5), 5
    for h in range(d + 1):
        z = torch.tensor([-1.0] * h + [1.0] * (d - h)).double()
        for j in range(d + 1):
            total = sum(float(z[list(s)].prod()) for s in combinations(range(d), j))
            assert krawtchouk(d)[j, h] == total
    assert points.unique(dim=0).shape == (32, 5)
    assert cube(1).tolist() == [[1.0], [-1.0]]


@pytest.mark.parametrize("name", KERNELS)
def test_spectrum_and_gram_are_those_of_the_cube(name):
    d, kernel = 8, KERNELS[name]
    centres = signs(7, d, seed=1)
    found = fourier_coefficients(kernel(cube(d), centres))
    sizes = ((torch.arange(2**d)[:, None] >> torch.arange(d)) & 1).sum(1)
    products = fourier_coefficients(torch.eye(2**d).double())[:, [0]]  # chi_T at the point of index 0, all +1
    assert torch.allclose(products, torch.full_like(products, 2.0**-d))
    chi = torch.stack(
        [torch.stack([c[((t >> torch.arange(d)) & 1).bool()].prod() for c in centres]) for t in torch.arange(2**d)]
    )
    spectrum = cube_spectrum(kernel, d)
    torch.testing.assert_close(found, spectrum[sizes][:, None] * chi, atol=2e-15, rtol=0)
    columns = kernel(cube(d), centres)
    torch.testing.assert_close(cube_gram(spectrum, centres), columns.T @ columns / 2**d, atol=1e-13, rtol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_best_risks_agree_with_least_squares_on_all_points(name):
    d, k, alpha, kernel = 8, 3, 0.5, KERNELS[name]
    centres, points = signs(20, d, seed=2), cube(d)
    blocks = torch.tensor(list(combinations(range(d), k)))[:9]
    quick = cube_residuals(cube_spectrum(kernel, d), centres, blocks, alpha=alpha)
    spans = span_residuals(fourier_coefficients(kernel(points, centres)), blocks, alpha=alpha)
    columns = kernel(points, centres)
    for s, block in enumerate(blocks):
        for c, i in enumerate(block):
            target = points[:, i] + alpha * points[:, block].prod(1)
            best = torch.linalg.lstsq(columns, target[:, None], driver="gelsd").solution
            risk = float((columns @ best - target[:, None]).square().mean())
            assert quick[s, c] == pytest.approx(risk, abs=1e-9)
            assert spans[s, c] == pytest.approx(risk, abs=1e-9)


def test_planted_monomials_are_learned_and_others_are_not():
    d, alpha = 7, 0.5
    planted = torch.tensor([[0, 1, 2], [2, 3, 4]])
    points = cube(d)
    columns = torch.cat([points, points[:, planted].prod(-1)], 1)
    blocks = torch.cat([planted, torch.tensor([[0, 1, 3]])])
    risks = span_residuals(fourier_coefficients(columns), blocks, alpha=alpha)
    assert risks[:2].abs().max() < 1e-12
    torch.testing.assert_close(risks[2], torch.full((3,), alpha**2).double(), atol=1e-12, rtol=0)


def test_no_centre_that_helps_leaves_the_whole_target():
    spectrum = torch.zeros(6).double()
    spectrum[2] = 1.0
    risks = cube_residuals(spectrum, signs(4, 5, seed=3), torch.tensor([[0, 1, 2]]), alpha=0.3)
    assert risks.tolist() == [[pytest.approx(1.09)] * 3]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: krawtchouk(51), "d"),
        (lambda: cube(23), "d"),
        (lambda: fourier_coefficients(torch.ones(6, 1)), "values"),
        (lambda: residuals(length=5), "spectrum"),
        (lambda: residuals(block=[[0]]), "blocks"),
        (lambda: residuals(scale=math.pi), "centres"),
    ],
)
def test_what_does_not_fit_is_named(call, field):
    with pytest.raises(SettingError, match=field):
        call()


def test_a_centre_that_comes_twice_changes_no_risk():
    d, blocks = 8, torch.tensor(list(combinations(range(8), 3)))[:9]
    spectrum, centres = cube_spectrum(KERNELS["rbf"], d), cube(d)[::13]
    twice = torch.cat([centres, centres[:1]])
    assert well_conditioned(cube_gram(spectrum, centres), 1e-12)
    assert not well_conditioned(cube_gram(spectrum, twice), 1e-12)
    once = cube_residuals(spectrum, centres, blocks, alpha=0.5)
    torch.testing.assert_close(cube_residuals(spectrum, twice, blocks, alpha=0.5), once, atol=1e-9, rtol=0)
    with pytest.raises(SettingError, match="spectrum = 4"):
        cube_gram(spectrum[:4], centres)
