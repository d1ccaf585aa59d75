"""Several processes that train one model, by Accelerate: `accelerate launch -m featlearn.cli domains fit ...`."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from featlearn.core import SettingError


class Accelerated:
    """The processes of `accelerate launch` or torchrun. Each takes rows of its own, and gradients are averaged.

    In training on domains a batch is that of one process, as are a nuclear norm of its features and the shares of
    GroupDRO; `pretrain_across` makes one batch of those of all.

    Errors: SettingError where accelerate is not installed.
    """

    def __init__(self) -> None:
        try:
            from accelerate import Accelerator
        except ModuleNotFoundError as why:
            if why.name != "accelerate":
                raise
            remedy = "pip install 'featlearn[domains]', or leave it out"
            raise SettingError("accelerate", True, "available with accelerate", remedy) from None
        self._accelerator: Any = Accelerator()

    @property
    def device(self) -> torch.device:
        """That of this process."""
        return self._accelerator.device

    @property
    def index(self) -> int:
        """Number of this process, from 0."""
        return self._accelerator.process_index

    @property
    def count(self) -> int:
        """How many processes there are."""
        return self._accelerator.num_processes

    def gradients(self, parameters: Sequence[nn.Parameter], /) -> None:
        """The mean over the processes in place of each gradient; all of them travel as one tensor."""
        if self.count == 1:
            return
        found = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        mean = self._accelerator.reduce(torch.cat([g.flatten() for g in found]), reduction="mean")
        for p, part in zip(parameters, mean.split([p.numel() for p in parameters]), strict=True):
            p.grad = part.view_as(p).clone()

    def gathered(self, values: Sequence[int], /) -> list[list[int]]:
        """Whole numbers of each process, in the order of the processes."""
        found = self._accelerator.gather(torch.tensor([list(values)], device=self.device))
        return found.tolist()

    def wait(self) -> None:
        """Until all processes are here."""
        self._accelerator.wait_for_everyone()
