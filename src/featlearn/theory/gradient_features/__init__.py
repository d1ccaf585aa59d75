"""Executable claims of the gradient-feature work, one module per part of its argument."""

from featlearn.run.claim import Claim
from featlearn.theory.gradient_features import (
    bounds,
    dynamics,
    framework,
    kernels,
    linear,
    lottery,
    mixtures,
    multi_index,
    parities,
    trained,
    uniform_parity,
    xor_mixture,
)

CLAIMS: tuple[Claim, ...] = (
    *framework.CLAIMS,
    *dynamics.CLAIMS,
    *bounds.CLAIMS,
    *linear.CLAIMS,
    *mixtures.CLAIMS,
    *xor_mixture.CLAIMS,
    *parities.CLAIMS,
    *uniform_parity.CLAIMS,
    *multi_index.CLAIMS,
    *lottery.CLAIMS,
    *kernels.CLAIMS,
    *trained.CLAIMS,
)
