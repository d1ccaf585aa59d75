"""Heads on embeddings of a model that stays as it is, from few labels: linear probe, adapter, regularised adapter."""
