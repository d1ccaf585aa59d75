"""Domain generalisation: objectives, weight averaging, training on several domains, algorithms by name."""

from featlearn.methods.domains.adversarial import dann as dann
from featlearn.methods.domains.adversarial import domain_discriminator as domain_discriminator
from featlearn.methods.domains.algorithms import BASES as BASES
from featlearn.methods.domains.algorithms import Algorithm as Algorithm
from featlearn.methods.domains.algorithms import Method as Method
from featlearn.methods.domains.algorithms import SearchDraw as SearchDraw
from featlearn.methods.domains.algorithms import Settings as Settings
from featlearn.methods.domains.algorithms import algorithm as algorithm
from featlearn.methods.domains.algorithms import build as build
from featlearn.methods.domains.algorithms import sample as sample
from featlearn.methods.domains.averaging import Mean as Mean
from featlearn.methods.domains.averaging import Swad as Swad
from featlearn.methods.domains.averaging import SwadRule as SwadRule
from featlearn.methods.domains.averaging import Window as Window
from featlearn.methods.domains.averaging import window as window
from featlearn.methods.domains.objectives import ChannelScales as ChannelScales
from featlearn.methods.domains.objectives import Minibatch as Minibatch
from featlearn.methods.domains.objectives import Objective as Objective
from featlearn.methods.domains.objectives import Outcome as Outcome
from featlearn.methods.domains.objectives import State as State
from featlearn.methods.domains.objectives import coral as coral
from featlearn.methods.domains.objectives import erm as erm
from featlearn.methods.domains.objectives import group_dro as group_dro
from featlearn.methods.domains.objectives import irm as irm
from featlearn.methods.domains.objectives import miro as miro
from featlearn.methods.domains.objectives import mixup as mixup
from featlearn.methods.domains.objectives import vrex as vrex
from featlearn.methods.domains.objectives import with_nuclear_norm as with_nuclear_norm
from featlearn.methods.domains.sharpness import sharpness_aware as sharpness_aware
from featlearn.methods.domains.training import VALIDATION as VALIDATION
from featlearn.methods.domains.training import Domain as Domain
from featlearn.methods.domains.training import Evaluation as Evaluation
from featlearn.methods.domains.training import Part as Part
from featlearn.methods.domains.training import Schedule as Schedule
from featlearn.methods.domains.training import Trained as Trained
from featlearn.methods.domains.training import evaluate as evaluate
from featlearn.methods.domains.training import features_of as features_of
from featlearn.methods.domains.training import split as split
from featlearn.methods.domains.training import train as train
from featlearn.methods.domains.valleys import PaperSwad as PaperSwad
from featlearn.methods.domains.valleys import ReleasedSwad as ReleasedSwad
from featlearn.methods.domains.valleys import swad_of as swad_of

__all__ = [
    "BASES",
    "VALIDATION",
    "Algorithm",
    "ChannelScales",
    "Domain",
    "Evaluation",
    "Mean",
    "Method",
    "Minibatch",
    "Objective",
    "Outcome",
    "PaperSwad",
    "Part",
    "ReleasedSwad",
    "Schedule",
    "SearchDraw",
    "Settings",
    "State",
    "Swad",
    "SwadRule",
    "Trained",
    "Window",
    "algorithm",
    "build",
    "coral",
    "dann",
    "domain_discriminator",
    "erm",
    "evaluate",
    "features_of",
    "group_dro",
    "irm",
    "miro",
    "mixup",
    "sample",
    "sharpness_aware",
    "split",
    "swad_of",
    "train",
    "vrex",
    "window",
    "with_nuclear_norm",
]
