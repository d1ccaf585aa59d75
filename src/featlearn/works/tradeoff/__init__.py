"""Universality against label efficiency: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = ("mixtures", "curve", "regularised", "reviews")
CLAIMS: tuple[str, ...] = (
    "definitions",
    "hidden",
    "invariance",
    "example_xor",
    "linear_setting",
    "linear_data",
    "bounds",
    "mixtures",
    "tables",
    "tables_data",
    "curve",
    "regularised",
    "reviews",
)
