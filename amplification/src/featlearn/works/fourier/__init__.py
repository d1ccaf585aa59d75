"""Fourier circuits in modular addition: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = ("attention", "grokking", "margin", "circuits")
CLAIMS: tuple[str, ...] = (
    "definitions",
    "margins",
    "identities",
    "neurons",
    "networks",
    "counting",
    "trained",
    "minimised",
    "transformers",
)
