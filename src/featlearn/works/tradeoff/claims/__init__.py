"""Executable claims of ResNet beyond kernels, one module per part of its argument."""
