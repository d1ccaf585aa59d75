"""Names of the rows that experiments of this work write and claims read."""

# replies: gemfilter/needle, gemfilter/minibench, gemfilter/cost
FULL, RAW_ROW, OURS, ONE_RUN = "Full cache", "GemFilter raw", "GemFilter", "One run"
SNAPKV, H2O, STREAMING = "SnapKV", "H2O", "Streaming"
# ways of scoring: gemfilter/layers
LAST, BEST = "last row", "16 rows, probabilities, best head"
MIDDLE, QUERY, LOGITS, RANDOM = "middle row", "row of largest query", "row of largest logits", "random tokens"
