"""What `checked` refuses of axes that a star gathers."""

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import checked


@checked()
def apart(before: Float[Tensor, "*e n"], after: Float[Tensor, "*e n"]) -> Float[Tensor, "*e"]:
    return (before - after).norm(dim=-1)


@pytest.mark.parametrize("shape", [(4, 2, 3), (2, 1, 3), (2, 3)])
def test_gathered_axes_have_to_agree_in_number_and_in_each_size(shape):
    """Torch itself would repeat them."""
    assert apart(torch.zeros(2, 2, 3), torch.ones(2, 2, 3)).shape == (2, 2)
    with pytest.raises(SettingError, match="with e = 2 x 2 as in before"):
        apart(torch.zeros(2, 2, 3), torch.ones(shape))
