"""Executable claims of the GemFilter work: the algorithm, its cost, and what its figures and tables say."""
