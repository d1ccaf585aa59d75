"""Experiments of the gradient-feature work."""
