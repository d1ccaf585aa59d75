"""Executable claims of the amplification work, one module per part of its argument."""

from featlearn.run.claim import Claim
from featlearn.theory.amplification import setting

CLAIMS: tuple[Claim, ...] = (*setting.CLAIMS,)
