"""Random feature amplification: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = ("figure1", "figure2", "theorem1", "steps")
CLAIMS: tuple[str, ...] = ("data", "setting", "start", "networks", "steps", "measured")
