"""Nuclear-norm regularisation: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = ("synthetic", "digits")
CLAIMS: tuple[str, ...] = (
    "norms",
    "ranks",
    "algorithms",
    "definitions",
    "figures",
    "optima",
    "proposition",
    "tables",
    "trained",
    "digits",
)
