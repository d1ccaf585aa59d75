"""Executable claims, one package a work; `load` imports only the work that is asked for."""

import importlib

from featlearn.run.claim import Claim

WORKS: tuple[str, ...] = (
    "emergence",
    "gemfilter",
    "gradient_features",
    "xor_sgd",
    "amplification",
    "fourier",
    "nuclear",
)


def load(work: str) -> tuple[Claim, ...]:
    """The claims of a work, from `featlearn.theory.<work>.CLAIMS`; LookupError if it has none."""
    if work not in WORKS:
        raise LookupError(f"no claims for {work!r}: one of {', '.join(WORKS)}")
    claims = tuple(importlib.import_module(f"featlearn.theory.{work}").CLAIMS)
    for claim in claims:
        if not claim.id.startswith(f"{work}."):
            raise LookupError(f"claim {claim.id!r} of {work} is not allowed: its id begins with '{work}.'")
    return claims
