"""ResNet beyond kernels: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = ("figure2", "figure3", "figure4", "kernels", "scaling")
CLAIMS: tuple[str, ...] = (
    "targets",
    "network",
    "initialisation",
    "complexity",
    "existence",
    "coupling",
    "rates",
    "kernels",
    "every_set",
    "lower_bounds",
    "minimum_norm",
    "figures",
)
