"""Methods for other people's models."""

from featlearn.methods.contrastive import contrastive_regulariser as contrastive_regulariser
from featlearn.methods.nuclear_norm import nuclear_norm as nuclear_norm
from featlearn.methods.nuclear_norm import stable_rank as stable_rank
