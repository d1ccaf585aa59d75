"""GemFilter: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = ("needle", "kinds", "layers", "cost", "minibench", "sparse", "ruler", "target")
CLAIMS: tuple[str, ...] = (
    "attention",
    "algorithm",
    "shipped",
    "complexity",
    "memory",
    "eviction",
    "figures",
    "tables",
    "measured",
    "kinds",
)
