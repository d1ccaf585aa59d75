"""Executable claims of in-context learning and model scale, one module per part of its argument."""
