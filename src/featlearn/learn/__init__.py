"""Training: ensembles of two-layer networks, linear models on fixed features, linearised networks, schedules."""

from featlearn.learn.fit import fit as fit
from featlearn.learn.groups import Run as Run
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
    "Linear",
    "Linearised",
    "ModularRun",
    "ModularSchedule",
    "PowerRun",
    "PowerSchedule",
    "ResidualRun",
    "ResidualSchedule",
    "Run",
    "Stage",
    "fit",
    "fit_linear",
    "fit_linear_contrastive",
    "fit_linearised",
    "fit_modular",
    "fit_one_pass",
    "fit_power",
    "fit_residual",
    "modular_accuracy",
    "project_gram",
]
