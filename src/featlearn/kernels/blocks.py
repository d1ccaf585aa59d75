"""What kernels that are made in blocks share: how they tell their plan, and the half below the diagonal."""

from collections.abc import Callable

import torch
from torch import Tensor

Report = Callable[[str], None]
"""Is told in one line, before the work, what memory and how many blocks it will take."""
MIB = 2**20


def mirrored(out: Tensor) -> None:
    """Copy what lies above the diagonal of (n, n, ...) below it, in place; two more axes, of outputs, change places."""
    step = 512
    for i in range(0, len(out), step):
        for j in range(i, len(out), step):
            above = out[i : i + step, j : j + step]
            below = above.transpose(0, 1) if out.ndim < 4 else above.transpose(0, 1).transpose(2, 3)
            if i == j:
                size = len(above)
                upper = torch.ones(size, size, dtype=torch.bool, device=out.device).triu()
                below = torch.where(upper.reshape(size, size, *[1] * (out.ndim - 2)), above, below)
            out[j : j + step, i : i + step] = below
