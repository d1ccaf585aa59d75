"""GemFilter on real language models: needles, layers, ablations, task kinds, time and memory."""
