"""Groups of networks that train together."""

import math

import torch

from featlearn.learn.groups import all_finite


def test_one_layer_that_is_not_finite_is_enough():
    """A sum of finite numbers may overflow."""
    one, large, bad = torch.ones(1, 2), torch.full((1, 2), 3e38), torch.tensor([[1.0, math.inf]])
    assert all_finite(one, one)
    assert all_finite(large, one)
    assert not all_finite(bad, one)
    assert not all_finite(one, bad)
