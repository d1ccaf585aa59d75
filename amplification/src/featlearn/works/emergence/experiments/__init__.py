"""Experiments of the emergence work: features emerge from input structure in two gradient steps."""
