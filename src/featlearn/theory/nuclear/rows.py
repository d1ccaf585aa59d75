"""Names of the rows that experiments of this work write and claims read."""

SYNTHETIC, DIGITS, RANK = "nuclear/synthetic", "nuclear/digits", "nuclear/rank"

# nuclear/synthetic: two kinds of rows, both with n (0: the whole law), row, head and seed; id, ood: exact accuracies
ERM, NU = "ERM", "ERM-NU"
FREE, UNIT = "free head", "unit head"
"""Row and head of a path: a row per look (step), with quantiles over starts of ood (ood_low, ood, ood_high: 5, 50 and 95
percent), mean id and train_loss, near (share of starts whose ood is within NEAR of the print's number for that row),
scale (of the start)."""
NEAR = 0.02
DECAY_UNIT, DECAY_FREE = "l2 of the features, unit head", "weight decay of both layers, free head"
NUCLEAR_UNIT, NUCLEAR_FREE = "nuclear norm, unit head", "nuclear norm, free head"
PENALTIES = (DECAY_UNIT, DECAY_FREE, NUCLEAR_UNIT, NUCLEAR_FREE)
"""Row of an end of training with a penalty: weight, slope (b of the direction (1, b)), id, ood, train_loss, spread (of
ood over starts), head_norm, top (largest singular value of A)."""
