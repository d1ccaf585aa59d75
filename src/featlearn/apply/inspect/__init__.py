"""Whether and how the weights of a network moved between checkpoints."""
