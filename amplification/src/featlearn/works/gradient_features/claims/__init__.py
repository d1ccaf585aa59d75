"""Executable claims of the gradient-feature work, one module per part of its argument."""
