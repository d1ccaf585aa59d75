"""ResNet beyond kernels: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = ("figure2", "figure3", "figure4", "scaling")
CLAIMS: tuple[str, ...] = ()
