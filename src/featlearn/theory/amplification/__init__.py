"""Executable claims of the amplification work, one module per part of its argument."""

from featlearn.run.claim import Claim
from featlearn.theory.amplification import measured, networks, setting, start

CLAIMS: tuple[Claim, ...] = (*setting.CLAIMS, *start.CLAIMS, *networks.CLAIMS, *measured.CLAIMS)
