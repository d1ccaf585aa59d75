"""Executable claims of the amplification work, one module per part of its argument."""
