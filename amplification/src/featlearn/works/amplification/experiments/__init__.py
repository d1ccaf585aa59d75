"""Experiments of the amplification work: weak random features become strong in one step, despite noisy labels."""
