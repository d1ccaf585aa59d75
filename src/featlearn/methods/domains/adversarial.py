"""DANN: features from which a discriminator cannot tell the domain."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from featlearn.core import Key
from featlearn.core.check import check_number
from featlearn.methods.domains.objectives import Minibatch, Outcome, State, _each, _next, _risks, _several


class _Reversed(torch.autograd.Function):
    """The identity, whose gradient is turned round and scaled."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor, None]:
        return -ctx.factor * grad[0], None


def domain_discriminator(features: int, domains: int, key: Key, width: int = 256, depth: int = 3) -> nn.Sequential:
    """Logits (n, domains) of features (n, features): `depth` linear layers with ReLU between, as the benchmark has it.

    Example:
        >>> domain_discriminator(4, 2, Key("demo"))(torch.zeros(3, 4)).shape
        torch.Size([3, 2])
    """
    sizes = [features, *[width] * (depth - 1), domains]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key.seed)
        layers = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    between = [m for layer in layers[:-1] for m in (layer, nn.ReLU())]
    return nn.Sequential(*between, layers[-1])


def dann(
    featurizer: nn.Module,
    classifier: nn.Module,
    minibatches: Sequence[Minibatch],
    state: State,
    *,
    discriminator: nn.Module,
    weight: float = 1.0,
) -> Outcome:
    """DANN: the discriminator D learns to tell the domains of the features apart, the featurizer to prevent it.

        (1 / m) sum_e R_e + L,   L = (1 / n) sum_i CE(D(F(x_i)), e_i)
        d / dD = dL / dD,   d / dF = dR / dF - weight * dL / dF

    discriminator: features (n, d) -> logits (n, m), an extra module of `train` that learns (`domain_discriminator`).

    Source: table 6.1 (nuclear.table6_1) names it; Ganin et al. (2016), where the gradient is turned round in one step.
    The benchmark's code takes a step of the discriminator and one of the network in turn, with an optimizer each.
    Errors: SettingError for one domain, a negative weight.
    """
    check_number(weight, "dann weight", "0 or more", "1 is that of the benchmark")
    _several(minibatches, "DANN")
    features, _, logits = _each(featurizer, classifier, minibatches)
    domain = torch.cat([torch.full_like(b.y, e) for e, b in enumerate(minibatches)])
    guess: Float[Tensor, "n m"] = discriminator(_Reversed.apply(features, weight))
    # not cross_entropy: weights of classes are none of domains
    told = functional.nll_loss(guess.log_softmax(1), domain)
    risk = _risks(logits, minibatches).mean()
    return Outcome(risk + told, _next(state), features, {"risk": risk, "dann": told})
