"""Executable claims of the work on minibatch SGD and XOR, one module per part of its argument."""

from featlearn.run.claim import Claim
from featlearn.theory.xor_sgd import definitions, limits, phase1, phase2, trained

CLAIMS: tuple[Claim, ...] = (
    *definitions.CLAIMS,
    *phase1.CLAIMS,
    *phase2.CLAIMS,
    *trained.CLAIMS,
    *limits.CLAIMS,
)
