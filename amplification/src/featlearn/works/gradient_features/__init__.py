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
    "mixture_networks",
    "xor_mixture",
    "parities",
    "parity_features",
    "uniform_parity",
    "uniform_samples",
    "multi_index",
    "lottery",
    "kernels",
    "trained",
)
