"""Executable claims of domain generalisation by the nuclear norm, one module per part of its argument."""

from featlearn.run.claim import Claim
from featlearn.theory.nuclear import definitions, figures, norms, optima, proposition, tables, trained

CLAIMS: tuple[Claim, ...] = (
    *norms.CLAIMS,
    *definitions.CLAIMS,
    *figures.CLAIMS,
    *optima.CLAIMS,
    *proposition.CLAIMS,
    *tables.CLAIMS,
    *trained.CLAIMS,
)
