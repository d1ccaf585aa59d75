"""Experiments of looped transformers, one module each."""
