"""Executable claims of the GemFilter work: the algorithm, its cost, and what its figures and tables say."""

from featlearn.run.claim import Claim
from featlearn.theory.gemfilter import algorithm, attention, complexity, eviction, figures, measured, memory, tables

CLAIMS: tuple[Claim, ...] = (
    *attention.CLAIMS,
    *algorithm.CLAIMS,
    *complexity.CLAIMS,
    *memory.CLAIMS,
    *eviction.CLAIMS,
    *figures.CLAIMS,
    *tables.CLAIMS,
    *measured.CLAIMS,
)
