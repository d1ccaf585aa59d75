"""Families of learning problems with known truth, one file per family."""

from featlearn.tasks.boolean_xor import BooleanXor as BooleanXor
from featlearn.tasks.clusters import GaussianClusters as GaussianClusters
from featlearn.tasks.environments import Environments as Environments
from featlearn.tasks.environments import Environments2d as Environments2d
from featlearn.tasks.gaussian_mixture import GaussianMixture as GaussianMixture
from featlearn.tasks.hierarchical import HierarchicalParity as HierarchicalParity
from featlearn.tasks.invariant import InvariantFeatures as InvariantFeatures
from featlearn.tasks.linear import LinearData as LinearData
from featlearn.tasks.linear_regression import LinearRegression as LinearRegression
from featlearn.tasks.modular_addition import ModularAddition as ModularAddition
from featlearn.tasks.multi_index import MultiIndex as MultiIndex
from featlearn.tasks.parities import BlockParity as BlockParity
from featlearn.tasks.parities import UniformParity as UniformParity
from featlearn.tasks.parity_prompts import ParityPrompts as ParityPrompts
from featlearn.tasks.patterns import HiddenCodes as HiddenCodes
from featlearn.tasks.patterns import Interval as Interval
from featlearn.tasks.patterns import ParityMix as ParityMix
from featlearn.tasks.regression_prompts import RegressionPrompts as RegressionPrompts
from featlearn.tasks.smooth_composite import SmoothComposite as SmoothComposite
from featlearn.tasks.task_mixture import TaskMixture as TaskMixture
from featlearn.tasks.xor_clusters import XorClusters as XorClusters

__all__ = [
    "BlockParity",
    "BooleanXor",
    "Environments",
    "Environments2d",
    "GaussianClusters",
    "GaussianMixture",
    "HiddenCodes",
    "HierarchicalParity",
    "Interval",
    "InvariantFeatures",
    "LinearData",
    "LinearRegression",
    "ModularAddition",
    "MultiIndex",
    "ParityMix",
    "ParityPrompts",
    "RegressionPrompts",
    "SmoothComposite",
    "TaskMixture",
    "UniformParity",
    "XorClusters",
]
