"""Claims on trained networks, from rows of the experiments."""

from featlearn.run.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
