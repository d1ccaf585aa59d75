"""Exact and finite kernels, ridge and support vector machines on them, and the best norm-bounded linear classifier."""

from featlearn.kernels.closed_form import clip_moments as clip_moments
from featlearn.kernels.closed_form import nngp as nngp
from featlearn.kernels.closed_form import ntk as ntk
from featlearn.kernels.closed_form import polynomial as polynomial
from featlearn.kernels.closed_form import rbf as rbf
from featlearn.kernels.closed_form import relu_moments as relu_moments
from featlearn.kernels.convolutional import conv_nngp as conv_nngp
from featlearn.kernels.convolutional import conv_ntk as conv_ntk
from featlearn.kernels.cube import cube as cube
from featlearn.kernels.cube import cube_gram as cube_gram
from featlearn.kernels.cube import cube_residuals as cube_residuals
from featlearn.kernels.cube import cube_spectrum as cube_spectrum
from featlearn.kernels.cube import fourier_coefficients as fourier_coefficients
from featlearn.kernels.cube import krawtchouk as krawtchouk
from featlearn.kernels.cube import span_residuals as span_residuals
from featlearn.kernels.cube import well_conditioned as well_conditioned
from featlearn.kernels.deep import arcsine as arcsine
from featlearn.kernels.deep import deep_nngp as deep_nngp
from featlearn.kernels.deep import deep_ntk as deep_ntk
from featlearn.kernels.deep import recursive as recursive
from featlearn.kernels.deep import residual_nngp as residual_nngp
from featlearn.kernels.deep import residual_ntk as residual_ntk
from featlearn.kernels.deep_gram import deep_gram as deep_gram
from featlearn.kernels.empirical import conjugate_kernel as conjugate_kernel
from featlearn.kernels.empirical import empirical_ntk as empirical_ntk
from featlearn.kernels.features import FourierFeatures as FourierFeatures
from featlearn.kernels.features import RandomFeatures as RandomFeatures
from featlearn.kernels.features import TangentFeatures as TangentFeatures
from featlearn.kernels.features import fourier_features as fourier_features
from featlearn.kernels.features import gram_of as gram_of
from featlearn.kernels.features import mirror as mirror
from featlearn.kernels.features import random_features as random_features
from featlearn.kernels.machines import GramPredictor as GramPredictor
from featlearn.kernels.machines import KernelMachine as KernelMachine
from featlearn.kernels.machines import Tuned as Tuned
from featlearn.kernels.machines import gram_ridge as gram_ridge
from featlearn.kernels.machines import gram_svm as gram_svm
from featlearn.kernels.machines import kernel_svm as kernel_svm
from featlearn.kernels.machines import tuned as tuned
from featlearn.kernels.machines import tuned_gram as tuned_gram
from featlearn.kernels.margin import HingeFit as HingeFit
from featlearn.kernels.margin import hinge_classifier as hinge_classifier
from featlearn.kernels.ridge import FeaturePredictor as FeaturePredictor
from featlearn.kernels.ridge import KernelPredictor as KernelPredictor
from featlearn.kernels.ridge import feature_ridge as feature_ridge
from featlearn.kernels.ridge import gram as gram
from featlearn.kernels.ridge import kernel_ridge as kernel_ridge
from featlearn.kernels.ridge import ridge_path as ridge_path

__all__ = [
    "FeaturePredictor",
    "FourierFeatures",
    "GramPredictor",
    "HingeFit",
    "KernelMachine",
    "KernelPredictor",
    "RandomFeatures",
    "TangentFeatures",
    "Tuned",
    "arcsine",
    "clip_moments",
    "conjugate_kernel",
    "conv_nngp",
    "conv_ntk",
    "cube",
    "cube_gram",
    "cube_residuals",
    "cube_spectrum",
    "deep_gram",
    "deep_nngp",
    "deep_ntk",
    "empirical_ntk",
    "feature_ridge",
    "fourier_coefficients",
    "fourier_features",
    "gram",
    "gram_of",
    "gram_ridge",
    "gram_svm",
    "hinge_classifier",
    "kernel_ridge",
    "kernel_svm",
    "krawtchouk",
    "mirror",
    "nngp",
    "ntk",
    "polynomial",
    "random_features",
    "rbf",
    "recursive",
    "relu_moments",
    "residual_nngp",
    "residual_ntk",
    "ridge_path",
    "span_residuals",
    "tuned",
    "tuned_gram",
    "well_conditioned",
]
