"""Features emerge in two gradient steps: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = (
    "table1",
    "table2",
    "table3",
    "table4",
    "table5",
    "figure15",
    "figure16",
    "figure17",
    "general",
    "rates",
)
CLAIMS: tuple[str, ...] = (
    "definitions",
    "other_laws",
    "training",
    "main_theorem",
    "lower_bounds",
    "statistical_queries",
    "existence",
    "initialisation",
    "first_step",
    "second_step",
    "second_layer",
    "optimisation",
    "regulariser",
    "general",
    "general_network",
    "general_steps",
    "general_second",
    "simulations",
)
