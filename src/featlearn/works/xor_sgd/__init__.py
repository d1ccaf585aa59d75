"""Minibatch SGD learns XOR: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = ("phases", "samples", "limits")
CLAIMS: tuple[str, ...] = ("definitions", "phase1", "phase2", "trained", "limits")
