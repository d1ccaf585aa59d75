"""Executable claims of looped transformers, one module per part of its argument."""
