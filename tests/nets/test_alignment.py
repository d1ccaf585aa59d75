"""Cosines of neurons with a known direction."""

import pytest
import torch

from featlearn.core import SettingError
from featlearn.measure.alignment import closest_cosine, cosines

W = torch.tensor([[[3.0, 4.0], [-2.0, 0.0]], [[0.0, 5.0], [0.0, 0.0]]]).double()


def test_cosines_are_signed_and_zero_for_a_zero_weight():
    expect = torch.tensor([[0.6, -1.0], [0.0, 0.0]]).double()
    for length in (1.0, 7.0):  # the feature need not have norm 1
        torch.testing.assert_close(cosines(W, torch.tensor([length, 0.0]).double()), expect)


def test_closest_cosine_is_the_signed_maximum_over_neurons():
    """-1 is not close: the reported metric has no absolute value."""
    assert closest_cosine(W, torch.tensor([1.0, 0.0]).double()).tolist() == pytest.approx([0.6, 0.0])


def test_part_outside_the_coordinates_counts_in_the_norm():
    """A weight in R^3 whose third axis is left out gives the same cosine as the whole weight."""
    g = torch.Generator().manual_seed(1)
    whole = torch.randn(2, 5, 3, generator=g, dtype=torch.float64)
    u = torch.tensor([0.6, -0.8, 0.0]).double()
    torch.testing.assert_close(cosines(whole[..., :2], u[:2], outside=whole[..., 2]), cosines(whole, u))
    assert (cosines(whole[..., :2], u[:2]) - cosines(whole, u)).abs().max() > 0.05
    expect = cosines(whole, u).amax(1)
    torch.testing.assert_close(closest_cosine(whole[..., :2], u[:2], whole[..., 2].abs()), expect)


def test_zero_weight_with_an_outside_part_has_cosine_zero():
    assert cosines(torch.zeros(1, 1, 2), torch.ones(2), torch.ones(1, 1)).item() == 0


@pytest.mark.parametrize("bad", [0.0, float("nan"), float("inf")])
def test_a_feature_without_a_direction_is_refused(bad):
    with pytest.raises(SettingError, match=r"^feature = of length \w+ is not allowed: a direction; give one"):
        cosines(W, torch.tensor([bad, 0.0]).double())


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1.0, 1e25])
def test_cosine_does_not_depend_on_the_scale_of_the_weights(scale):
    """Gradient steps of size 1e-9 and below occur in the reported schedules; squares of tiny float32 numbers vanish."""
    g = torch.Generator().manual_seed(2)
    w, u, outside = torch.randn(1, 50, 8, generator=g), torch.randn(8, generator=g), torch.rand(1, 50, generator=g)
    for out in (None, outside):
        scaled = None if out is None else out * scale
        torch.testing.assert_close(cosines(w * scale, u, scaled), cosines(w, u, out), atol=1e-6, rtol=0)
    assert cosines(w * scale, u).abs().max() <= 1 + 1e-6
