"""SAM: the loss at the worst weights nearby, around any objective."""

import dataclasses
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from featlearn.core.check import check_number
from featlearn.methods.domains.objectives import Minibatch, Objective, Outcome, State


class _Moved(nn.Module):
    """A module at other weights, through which the gradient reaches its own."""

    def __init__(self, module: nn.Module, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.module, self.weights = module, dict(weights)

    def forward(self, *inputs: Tensor) -> Tensor:
        return functional_call(self.module, self.weights, inputs)


def sharpness_aware(objective: Objective, rho: float = 0.05) -> Objective:
    """Sharpness-aware minimisation of an objective: its gradient where it is largest within rho, applied where we are.

        g = grad L(w),   loss = L(w + rho g / ||g||),   the gradient taken with the shift held fixed

    w: all weights of featurizer and classifier that learn. Every step costs two; batch norm that learns sees both.

    Source: table 6.1 (nuclear.table6_1) names it; Foret et al. (2021), as in the benchmark's code.
    Errors: SettingError for a rho that is negative or not finite.

    Example:
        >>> from featlearn.methods.domains import erm, with_nuclear_norm
        >>> sam = sharpness_aware(with_nuclear_norm(erm, weight=0.01), rho=0.05)
    """
    check_number(rho, "sam rho", "0 or more", "0.05 is that of the benchmark; 0 is the objective itself")

    def sharp(featurizer: nn.Module, classifier: nn.Module, minibatches: Sequence[Minibatch], state: State) -> Outcome:
        here = objective(featurizer, classifier, minibatches, state)
        names = [
            (i, name, p)
            for i, module in enumerate((featurizer, classifier))
            for name, p in module.named_parameters()
            if p.requires_grad
        ]
        found = torch.autograd.grad(here.loss, [p for _, _, p in names], allow_unused=True)
        slopes = [torch.zeros_like(p) if g is None else g for (_, _, p), g in zip(names, found, strict=True)]
        length = torch.stack([g.square().sum() for g in slopes]).sum().sqrt()
        scale = rho / length.clamp_min(torch.finfo(length.dtype).tiny)
        moved: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
        for (i, name, p), g in zip(names, slopes, strict=True):
            moved[i][name] = p + scale * g
        there = objective(_Moved(featurizer, moved[0]), _Moved(classifier, moved[1]), minibatches, state)
        return dataclasses.replace(there, parts={**there.parts, "loss before": here.loss})

    return sharp
