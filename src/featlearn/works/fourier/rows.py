"""Names of the rows that experiments of this work write and claims read."""

# fourier/attention: three rows per seed, shares of power in the heads' (p, p) matrices E^T W^KQ E
ATTENTION = "fourier/attention"
TRAINED, START, SWAPPED = "trained", "start", "trained embedding, start of W^KQ"
"""The third is a control: only the embedding moved. Every row has k, p, readout, heads, seed, top1 and top4 (median
over heads of the share of power in the one and four strongest conjugate pairs of bins), sparse (percent of heads with
top4 above 0.8); the trained one also train_acc and test_acc (percent, all points)."""

# fourier/grokking: one row per seed, pair (k, p) and variant
GROKKING = "fourier/grokking"
REPORTED, DECAYED, EQUAL = "reported", "more decay", "equal data"
"""Variants. Every row has k, p, seed, variant, n_train, rate, decay, batch; train95, test95, train99, test99 (step of
the first evaluation at or above, None where it never came), steps (how long the run was, so a bound where it never
came) and train_acc, test_acc (percent, all points, at the end)."""

# fourier/circuits: a row per evaluation (step, train_at, test_at, margin_at: least margin of a sample of points over
# gamma*), and one per seed and (k, p) at the end
CIRCUITS = "fourier/circuits"
"""The last row of a seed has k, p, m, train_acc, test_acc (percent, all points), margin and mean_margin (least and mean
over all points, normalised, over gamma*), live (percent of neurons), held (percent of the summed (k+1)-th powers of
norms that the live ones hold), share and share_low (median and 5th percentile over live neurons of the share of a
neuron's power at its top frequency), share_start (mean over all vectors at the start), share_vectors (mean over the
vectors of live neurons), same (percent of live neurons whose k + 1 vectors have one top frequency), phase (median
|sum theta_u - theta_w|, radians), covered (percent of the frequencies), most_over_least (counts of neurons by
frequency, None where one has none), test99 (step of the first evaluation with 99 % of the sampled test points, None
where it never came), steps."""

# fourier/margin: full data, with the oracle of the least loss
MARGIN = "fourier/margin"
"""A row per evaluation (step, margin_at) and one at the end of each seed, (k, p) and lambda: k, p, penalty, margin,
mean_margin (over gamma*), loss, least_loss, covered, share, same, phase, cosine_low (5th percentile over live neurons
of r^2 of the best cosine)."""
