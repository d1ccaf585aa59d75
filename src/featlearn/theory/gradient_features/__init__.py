"""Executable claims of the gradient-feature work, one module per part of its argument."""

from featlearn.run.claim import Claim
from featlearn.theory.gradient_features import framework

CLAIMS: tuple[Claim, ...] = (*framework.CLAIMS,)
