"""ResNet beyond kernels: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = ()
CLAIMS: tuple[str, ...] = ()
