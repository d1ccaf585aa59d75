"""In-context learning and model scale: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = ("rank_noise", "label_noise", "attention")
CLAIMS: tuple[str, ...] = (
    "prompts",
    "rank",
    "noise",
    "gap",
    "moments",
    "trained",
    "parity",
    "parity_code",
    "parity_heads",
    "parity_noise",
    "label_flip",
    "language_models",
)
