"""Universality against label efficiency: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = ("mixtures", "curve", "regularised")
CLAIMS: tuple[str, ...] = ()
