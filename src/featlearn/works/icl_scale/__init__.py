"""In-context learning and model scale: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = ("label_noise", "attention")
CLAIMS: tuple[str, ...] = ()
