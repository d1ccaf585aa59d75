"""`featlearn.adapt`: heads on embeddings from few labels; what the command line calls."""

from featlearn.apply.adapt.files import Embeddings as Embeddings
from featlearn.apply.adapt.files import read_embeddings as read_embeddings
from featlearn.apply.adapt.files import read_labels as read_labels
from featlearn.apply.adapt.heads import AdaptSettings as AdaptSettings
from featlearn.apply.adapt.heads import Head as Head
from featlearn.apply.adapt.heads import Result as Result
from featlearn.apply.adapt.heads import Score as Score
from featlearn.apply.adapt.heads import fit as fit
from featlearn.apply.adapt.heads import load as load
from featlearn.apply.adapt.heads import predict as predict
from featlearn.apply.adapt.heads import save as save
from featlearn.apply.domains.distributed import Accelerated as Accelerated
from featlearn.methods import contrastive_regulariser as contrastive_regulariser

__all__ = [
    "Accelerated",
    "AdaptSettings",
    "Embeddings",
    "Head",
    "Result",
    "Score",
    "contrastive_regulariser",
    "fit",
    "load",
    "predict",
    "read_embeddings",
    "read_labels",
    "save",
]
