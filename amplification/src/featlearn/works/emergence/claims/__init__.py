"""Executable claims of the emergence work, one module per part of its argument."""
