"""Minibatch SGD learns XOR: phases of training, sample complexity, and the limits that the work states."""
