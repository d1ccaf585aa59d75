"""Families of learning problems with known truth, one file per family."""

from featlearn.tasks.clusters import GaussianClusters as GaussianClusters
from featlearn.tasks.patterns import HiddenCodes as HiddenCodes
from featlearn.tasks.patterns import Interval as Interval
from featlearn.tasks.patterns import ParityMix as ParityMix

__all__ = ["GaussianClusters", "HiddenCodes", "Interval", "ParityMix"]
