"""Executable claims of the work on Fourier circuits, one module per part of its argument."""
