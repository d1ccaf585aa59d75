"""Minibatch SGD learns XOR: names of the modules of its experiments and claims."""

EXPERIMENTS: tuple[str, ...] = ("phases", "samples", "time", "limits")
CLAIMS: tuple[str, ...] = (
    "definitions",
    "notation",
    "phase1",
    "concentration",
    "phase2",
    "phase2_growth",
    "phases",
    "time",
    "samples",
    "limits",
)
