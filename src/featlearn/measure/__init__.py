"""Measures of feature learning: pure functions of tensors."""

from featlearn.measure.alignment import closest_cosine as closest_cosine
from featlearn.measure.alignment import cosines as cosines
from featlearn.measure.clusters import best_cosine as best_cosine
from featlearn.measure.clusters import cosine_silhouette as cosine_silhouette
from featlearn.measure.clusters import mds as mds
from featlearn.measure.clusters import spherical_kmeans as spherical_kmeans

__all__ = ["best_cosine", "closest_cosine", "cosine_silhouette", "cosines", "mds", "spherical_kmeans"]
