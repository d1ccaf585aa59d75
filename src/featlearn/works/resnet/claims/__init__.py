"""Executable claims of domain generalisation by the nuclear norm, one module per part of its argument."""
