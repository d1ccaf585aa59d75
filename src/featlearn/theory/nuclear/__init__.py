"""Executable claims of domain generalisation by the nuclear norm, one module per part of its argument."""

from featlearn.run.claim import Claim
from featlearn.theory.nuclear.trained import CLAIMS as TRAINED

CLAIMS: tuple[Claim, ...] = (*TRAINED,)
