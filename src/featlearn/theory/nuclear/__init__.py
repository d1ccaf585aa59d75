"""Executable claims of domain generalisation by the nuclear norm, one module per part of its argument."""

from featlearn.run.claim import Claim
from featlearn.theory.nuclear import tables, trained

CLAIMS: tuple[Claim, ...] = (
    *tables.CLAIMS,
    *trained.CLAIMS,
)
