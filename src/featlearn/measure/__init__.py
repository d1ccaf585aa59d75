"""Measures of feature learning: pure functions of tensors."""

from featlearn.measure.alignment import closest_cosine as closest_cosine
from featlearn.measure.alignment import cosines as cosines
from featlearn.measure.clusters import best_cosine as best_cosine
from featlearn.measure.clusters import cosine_silhouette as cosine_silhouette
from featlearn.measure.clusters import mds as mds
from featlearn.measure.clusters import spherical_kmeans as spherical_kmeans
from featlearn.measure.neurons import aligned as aligned
from featlearn.measure.neurons import captures as captures
from featlearn.measure.neurons import closest_cluster as closest_cluster
from featlearn.measure.neurons import cluster_cosines as cluster_cosines
from featlearn.measure.neurons import decision_grid as decision_grid
from featlearn.measure.neurons import feature_movement as feature_movement
from featlearn.measure.neurons import gate_shares as gate_shares
from featlearn.measure.neurons import matching_neurons as matching_neurons
from featlearn.measure.neurons import off_class_overlap as off_class_overlap

__all__ = [
    "aligned",
    "best_cosine",
    "captures",
    "closest_cluster",
    "closest_cosine",
    "cluster_cosines",
    "cosine_silhouette",
    "cosines",
    "decision_grid",
    "feature_movement",
    "gate_shares",
    "matching_neurons",
    "mds",
    "off_class_overlap",
    "spherical_kmeans",
]
