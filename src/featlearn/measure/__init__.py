"""Measures of feature learning: pure functions of tensors."""

from featlearn.measure.alignment import closest_cosine as closest_cosine
from featlearn.measure.alignment import cosines as cosines
from featlearn.measure.best_network import BestNetwork as BestNetwork
from featlearn.measure.best_network import best_bounded_network as best_bounded_network
from featlearn.measure.best_network import best_network as best_network
from featlearn.measure.best_network import loss_by_size as loss_by_size
from featlearn.measure.best_network import subnetwork_scores as subnetwork_scores
from featlearn.measure.clusters import best_cosine as best_cosine
from featlearn.measure.clusters import cosine_silhouette as cosine_silhouette
from featlearn.measure.clusters import mds as mds
from featlearn.measure.clusters import spherical_kmeans as spherical_kmeans
from featlearn.measure.complexity import log_complexity as log_complexity
from featlearn.measure.complexity import smooth_complexity as smooth_complexity
from featlearn.measure.fourier import Cosine as Cosine
from featlearn.measure.fourier import Coverage as Coverage
from featlearn.measure.fourier import GrokkingDelay as GrokkingDelay
from featlearn.measure.fourier import coverage as coverage
from featlearn.measure.fourier import fit_cosine as fit_cosine
from featlearn.measure.fourier import frequency_share as frequency_share
from featlearn.measure.fourier import gini as gini
from featlearn.measure.fourier import grokking_delay as grokking_delay
from featlearn.measure.fourier import half_power as half_power
from featlearn.measure.fourier import interpolate as interpolate
from featlearn.measure.fourier import live as live
from featlearn.measure.fourier import participation as participation
from featlearn.measure.fourier import phase_residual as phase_residual
from featlearn.measure.fourier import power_2d as power_2d
from featlearn.measure.fourier import random_share as random_share
from featlearn.measure.fourier import top_frequency as top_frequency
from featlearn.measure.fourier import top_frequency_2d as top_frequency_2d
from featlearn.measure.fourier import top_share_2d as top_share_2d
from featlearn.measure.gradient_features import FeatureSet as FeatureSet
from featlearn.measure.gradient_features import Membership as Membership
from featlearn.measure.gradient_features import draw_in_box as draw_in_box
from featlearn.measure.gradient_features import gaussian_gradients as gaussian_gradients
from featlearn.measure.gradient_features import gradient_feature_set as gradient_feature_set
from featlearn.measure.gradient_features import in_cone as in_cone
from featlearn.measure.gradient_features import in_max_cone as in_max_cone
from featlearn.measure.gradient_features import membership as membership
from featlearn.measure.gradient_features import nice_neurons as nice_neurons
from featlearn.measure.gradient_features import simplified_gradients as simplified_gradients
from featlearn.measure.margins import DataMargin as DataMargin
from featlearn.measure.margins import class_weighted_margins as class_weighted_margins
from featlearn.measure.margins import data_margin as data_margin
from featlearn.measure.margins import margins as margins
from featlearn.measure.neurons import aligned as aligned
from featlearn.measure.neurons import captures as captures
from featlearn.measure.neurons import closest_cluster as closest_cluster
from featlearn.measure.neurons import cluster_cosines as cluster_cosines
from featlearn.measure.neurons import decision_grid as decision_grid
from featlearn.measure.neurons import feature_movement as feature_movement
from featlearn.measure.neurons import gate_shares as gate_shares
from featlearn.measure.neurons import matching_neurons as matching_neurons
from featlearn.measure.neurons import off_class_overlap as off_class_overlap
from featlearn.measure.signal import Parts as Parts
from featlearn.measure.signal import SignalHeavy as SignalHeavy
from featlearn.measure.signal import check_orthogonal_pair as check_orthogonal_pair
from featlearn.measure.signal import cluster_margins as cluster_margins
from featlearn.measure.signal import heavy_mass as heavy_mass
from featlearn.measure.signal import loss_sizes as loss_sizes
from featlearn.measure.signal import signal_heavy as signal_heavy
from featlearn.measure.signal import signal_parts as signal_parts
from featlearn.measure.similarity import knn_accuracy as knn_accuracy
from featlearn.measure.similarity import linear_cka as linear_cka
from featlearn.measure.similarity import source_overlap as source_overlap
from featlearn.measure.similarity import tsne as tsne
from featlearn.measure.spectra import Leading as Leading
from featlearn.measure.spectra import effective_rank as effective_rank
from featlearn.measure.spectra import leading_singular as leading_singular
from featlearn.measure.spectra import rounding_floor as rounding_floor
from featlearn.measure.spectra import share_within as share_within
from featlearn.measure.spectra import stable_rank as stable_rank
from featlearn.measure.tangent import kernel_drift as kernel_drift
from featlearn.measure.tangent import tangent_kernel as tangent_kernel

__all__ = [
    "BestNetwork",
    "Cosine",
    "Coverage",
    "DataMargin",
    "FeatureSet",
    "GrokkingDelay",
    "Leading",
    "Membership",
    "Parts",
    "SignalHeavy",
    "aligned",
    "best_bounded_network",
    "best_cosine",
    "best_network",
    "captures",
    "check_orthogonal_pair",
    "class_weighted_margins",
    "closest_cluster",
    "closest_cosine",
    "cluster_cosines",
    "cluster_margins",
    "cosine_silhouette",
    "cosines",
    "coverage",
    "data_margin",
    "decision_grid",
    "draw_in_box",
    "effective_rank",
    "feature_movement",
    "fit_cosine",
    "frequency_share",
    "gate_shares",
    "gaussian_gradients",
    "gini",
    "gradient_feature_set",
    "grokking_delay",
    "half_power",
    "heavy_mass",
    "in_cone",
    "in_max_cone",
    "interpolate",
    "kernel_drift",
    "knn_accuracy",
    "leading_singular",
    "linear_cka",
    "live",
    "log_complexity",
    "loss_by_size",
    "loss_sizes",
    "margins",
    "matching_neurons",
    "mds",
    "membership",
    "nice_neurons",
    "off_class_overlap",
    "participation",
    "phase_residual",
    "power_2d",
    "random_share",
    "rounding_floor",
    "share_within",
    "signal_heavy",
    "signal_parts",
    "simplified_gradients",
    "smooth_complexity",
    "source_overlap",
    "spherical_kmeans",
    "stable_rank",
    "subnetwork_scores",
    "tangent_kernel",
    "top_frequency",
    "top_frequency_2d",
    "top_share_2d",
    "tsne",
]
