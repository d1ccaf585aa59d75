"""What several processes need to be as one: embeddings of all of them together, and batch norm of the whole batch."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm  # pyright: ignore[reportPrivateUsage]


@runtime_checkable
class Together(Protocol):
    """Processes that train one model: the device of this one, its index, how many there are."""

    @property
    def device(self) -> torch.device: ...
    @property
    def index(self) -> int: ...
    @property
    def count(self) -> int: ...
    def gradients(self, parameters: Sequence[nn.Parameter], /) -> None:
        """The mean over the processes in place of each gradient."""
        ...

    def wait(self) -> None:
        """Until all processes are here."""
        ...


class OneProcess:
    """This process alone, on a device."""

    index, count = 0, 1

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def gradients(self, parameters: Sequence[nn.Parameter], /) -> None:
        """They are those of the whole batch already."""

    def wait(self) -> None:
        """For nobody."""


def gathered(z: Tensor) -> Tensor:
    """Rows (n, k) of all processes in their order (count n, k), with gradients, by lightly.

    Each process then has the loss of the whole batch; the gradient that comes back to its rows is the sum over the
    losses of all, so that the mean over processes is that of one process with the whole batch.
    """
    from lightly.utils.dist import gather

    return torch.cat(list(gather(z)))


class _Sum(torch.autograd.Function):
    """The sum over all processes; each loss depends on each summand, so that gradients are summed as well."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        total = value.clone()
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone()
        torch.distributed.all_reduce(total)
        return total


class CpuSyncBatchNorm(_BatchNorm):
    """`torch.nn.SyncBatchNorm`, which there is for GPUs alone, in plain operations for processes on CPUs.

    Mean and variance are those of the rows of all processes, which must be as many in each:

        m = mean_p mean(x_p),   v = mean_p mean((x_p - m)^2)

    Gradients flow through both means. Moving statistics take the variance with n - 1 of all n values, as torch's do.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        pass

    def forward(self, input: Tensor) -> Tensor:
        """Normalised values (n, c, ...)."""
        if not self.training:
            return super().forward(input)
        from torch.distributed import get_world_size

        count, axes = get_world_size(), [0, *range(2, input.ndim)]
        shape = (1, -1, *[1] * (input.ndim - 2))
        mean = _Sum.apply(input.mean(axes)) / count
        centred = input - mean.view(shape)
        variance = _Sum.apply(centred.square().mean(axes)) / count
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            with torch.no_grad():
                self.num_batches_tracked.add_(1)
                share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
                n = count * input.numel() / input.shape[1]
                self.running_mean.lerp_(mean.detach(), share)
                self.running_var.lerp_(variance.detach() * n / (n - 1), share)
        out = centred * (variance + self.eps).rsqrt().view(shape)
        if self.weight is None:
            return out
        return out * self.weight.view(shape) + self.bias.view(shape)


def synchronised(module: nn.Module, device: torch.device) -> nn.Module:
    """The module with batch norm over all processes in place of every one that is training; others are as they were.

    Weights and statistics are the same tensors, under the same names. Batch norm that the module keeps in evaluation
    mode is frozen, and stays.
    """
    if isinstance(module, _BatchNorm) and not isinstance(module, nn.SyncBatchNorm):
        if not module.training:
            return module
        if device.type != "cpu":
            return nn.SyncBatchNorm.convert_sync_batchnorm(module)
        own: Any = CpuSyncBatchNorm(module.num_features, module.eps, module.momentum, affine=False)
        own.affine, own.weight, own.bias = module.affine, module.weight, module.bias
        own.track_running_stats = module.track_running_stats
        own.running_mean, own.running_var = module.running_mean, module.running_var
        own.num_batches_tracked = module.num_batches_tracked
        return own
    for name, child in module.named_children():
        new = synchronised(child, device)
        if new is not child:
            setattr(module, name, new)
    return module
