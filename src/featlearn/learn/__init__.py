"""Training: ensembles of two-layer networks, linear models on fixed features, linearised networks, schedules."""

from featlearn.learn.adaptation import Adaptation as Adaptation
from featlearn.learn.adaptation import Adapted as Adapted
from featlearn.learn.adaptation import fine_tune as fine_tune
from featlearn.learn.adaptation import fine_tuning as fine_tuning
from featlearn.learn.adaptation import frozen as frozen
from featlearn.learn.adaptation import linear_probe as linear_probe
from featlearn.learn.adaptation import probing as probing
from featlearn.learn.contrastive import Contrastive as Contrastive
from featlearn.learn.contrastive import ImageViews as ImageViews
from featlearn.learn.contrastive import JointEmbedding as JointEmbedding
from featlearn.learn.contrastive import NoiseViews as NoiseViews
from featlearn.learn.contrastive import Pretrained as Pretrained
from featlearn.learn.contrastive import StoredViews as StoredViews
from featlearn.learn.contrastive import features_of as features_of
from featlearn.learn.contrastive import pretrain as pretrain
from featlearn.learn.contrastive import pretrain_across as pretrain_across
from featlearn.learn.fit import fit as fit
from featlearn.learn.groups import Run as Run
from featlearn.learn.labels import label_share as label_share
from featlearn.learn.labels import label_split as label_split
from featlearn.learn.linear import Linear as Linear
from featlearn.learn.linear import Linearised as Linearised
from featlearn.learn.linear import fit_linear as fit_linear
from featlearn.learn.linear import fit_linearised as fit_linearised
from featlearn.learn.linear_contrastive import fit_linear_contrastive as fit_linear_contrastive
from featlearn.learn.linear_contrastive import project_gram as project_gram
from featlearn.learn.modular import ModularRun as ModularRun
from featlearn.learn.modular import ModularSchedule as ModularSchedule
from featlearn.learn.modular import fit_modular as fit_modular
from featlearn.learn.modular import modular_accuracy as modular_accuracy
from featlearn.learn.one_pass import fit_one_pass as fit_one_pass
from featlearn.learn.power import PowerRun as PowerRun
from featlearn.learn.power import PowerSchedule as PowerSchedule
from featlearn.learn.power import fit_power as fit_power
from featlearn.learn.residual import ResidualRun as ResidualRun
from featlearn.learn.residual import ResidualSchedule as ResidualSchedule
from featlearn.learn.residual import fit_residual as fit_residual
from featlearn.learn.schedules import Stage as Stage

__all__ = [
    "Adaptation",
    "Adapted",
    "Contrastive",
    "ImageViews",
    "JointEmbedding",
    "Linear",
    "Linearised",
    "ModularRun",
    "ModularSchedule",
    "NoiseViews",
    "PowerRun",
    "PowerSchedule",
    "Pretrained",
    "ResidualRun",
    "ResidualSchedule",
    "Run",
    "Stage",
    "StoredViews",
    "features_of",
    "fine_tune",
    "fine_tuning",
    "fit",
    "fit_linear",
    "fit_linear_contrastive",
    "fit_linearised",
    "fit_modular",
    "fit_one_pass",
    "fit_power",
    "fit_residual",
    "frozen",
    "label_share",
    "label_split",
    "linear_probe",
    "modular_accuracy",
    "pretrain",
    "pretrain_across",
    "probing",
    "project_gram",
]
