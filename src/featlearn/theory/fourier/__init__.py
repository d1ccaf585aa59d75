"""Executable claims of the work on Fourier circuits, one module per part of its argument."""

from featlearn.run.claim import Claim
from featlearn.theory.fourier import definitions, networks, neurons, transformers

CLAIMS: tuple[Claim, ...] = (*definitions.CLAIMS, *neurons.CLAIMS, *networks.CLAIMS, *transformers.CLAIMS)
