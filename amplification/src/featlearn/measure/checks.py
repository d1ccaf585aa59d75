"""What measures refuse by name: values that are not finite, and vectors without a direction."""

import torch
from torch import Tensor

from featlearn.core import SettingError


def unit_rows(x: Tensor, name: str) -> Tensor:
    """Rows of x (n, ..., d) divided by their length; SettingError where there is none."""
    peak = x.abs().amax(-1, keepdim=True)
    bad = ~((peak > 0) & torch.isfinite(peak))
    if bool(bad.any()):
        says = f"{int(bad.sum())} of {bad.numel()} rows of length 0 or not finite"
        raise SettingError(name, says, "rows with a direction", "drop them: a cosine needs a direction")
    x = x / peak  # keeps squares of very small or large values representable
    return x / x.norm(dim=-1, keepdim=True)
