"""Gradient features: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = ("special_cases", "lottery", "kernels")
CLAIMS: tuple[str, ...] = (
    "framework",
    "frozen",
    "dynamics",
    "emergence",
    "bounds",
    "linear",
    "mixtures",
    "xor_mixture",
    "parities",
    "uniform_parity",
    "multi_index",
    "lottery",
    "kernels",
    "trained",
)
