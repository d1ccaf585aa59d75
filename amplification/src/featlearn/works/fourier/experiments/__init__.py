"""Sums of k numbers modulo p: trained circuits, their margins, attention matrices and grokking."""
