"""Rows of the experiments on in-context regression: gradient training under a rank limit, and rank against noise."""

RANK_NOISE = "icl_scale/rank_noise"
