"""Executable claims of the work on Fourier circuits, one module per part of its argument."""

from featlearn.run.claim import Claim
from featlearn.theory.fourier import definitions, networks, neurons, trained, transformers

CLAIMS: tuple[Claim, ...] = (
    *definitions.CLAIMS,
    *neurons.CLAIMS,
    *networks.CLAIMS,
    *trained.CLAIMS,
    *transformers.CLAIMS,
)
