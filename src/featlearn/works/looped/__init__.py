"""Looped transformers: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = ("figure8_1",)
CLAIMS: tuple[str, ...] = ("transformer", "descent", "bounds", "figure")
