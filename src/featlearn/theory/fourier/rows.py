"""Names of the rows that experiments of this work write and claims read."""

# fourier/attention: three rows per seed, shares of power in the heads' (p, p) matrices E^T W^KQ E
ATTENTION = "fourier/attention"
TRAINED, START, SWAPPED = "trained", "start", "trained embedding, start of W^KQ"
"""The third is a control: only the embedding moved. Every row has k, p, readout, heads, seed, top1 and top4 (median
over heads of the share of power in the one and four strongest conjugate pairs of bins), sparse (percent of heads with
top4 above 0.8); the trained one also train_acc and test_acc (percent, all points)."""

# fourier/grokking: one row per seed, pair (k, p) and variant
GROKKING = "fourier/grokking"
PRINTED, DECAYED, EQUAL = "printed", "more decay", "equal data"
"""Variants. Every row has k, p, seed, variant, n_train, rate, decay, batch; train95, test95, train99, test99 (step of
the first look at or above, None where it never came), steps (how long the run was, so a bound where it never came)
and train_acc, test_acc (percent, all points, at the end)."""
