"""`featlearn.domains`: train on some domains, be right on one never seen; the verbs of the command line."""

from featlearn.apply.domains.measures import Measures as Measures
from featlearn.apply.domains.models import Model as Model
from featlearn.apply.domains.models import Prediction as Prediction
from featlearn.apply.domains.models import fit as fit
from featlearn.apply.domains.models import load as load
from featlearn.apply.domains.models import predict as predict
from featlearn.apply.domains.models import save as save
from featlearn.apply.domains.results import results as results
from featlearn.apply.domains.runs import EXPERIMENT as EXPERIMENT
from featlearn.apply.domains.runs import Config as Config
from featlearn.apply.domains.scores import Score as Score
from featlearn.apply.domains.scores import choices as choices
from featlearn.apply.domains.scores import compare as compare
from featlearn.apply.domains.scores import scores as scores
from featlearn.apply.domains.scoring import score as score
from featlearn.apply.domains.sources import Network as Network
from featlearn.apply.domains.sources import Source as Source
from featlearn.apply.domains.sources import load as load_data
from featlearn.apply.domains.splits import Splitting as Splitting
from featlearn.methods import nuclear_norm as nuclear_norm
from featlearn.methods import stable_rank as stable_rank
from featlearn.methods.domains import Algorithm as Algorithm
from featlearn.methods.domains import Schedule as Schedule
from featlearn.methods.domains import Settings as Settings
from featlearn.methods.domains import algorithm as algorithm

__all__ = [
    "EXPERIMENT",
    "Algorithm",
    "Config",
    "Measures",
    "Model",
    "Network",
    "Prediction",
    "Schedule",
    "Score",
    "Settings",
    "Source",
    "Splitting",
    "algorithm",
    "choices",
    "compare",
    "fit",
    "load",
    "load_data",
    "nuclear_norm",
    "predict",
    "results",
    "save",
    "score",
    "scores",
    "stable_rank",
]
