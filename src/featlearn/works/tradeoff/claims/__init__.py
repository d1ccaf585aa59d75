"""Executable claims of universality against label efficiency, one module per part of its argument."""
