"""Architectures with their hand-written gradients, and how they start."""

from featlearn.nets.backbones import ResNet as ResNet
from featlearn.nets.backbones import SmallCnn as SmallCnn
from featlearn.nets.backbones import backbone as backbone
from featlearn.nets.backbones import linear_head as linear_head
from featlearn.nets.backbones import load_weights as load_weights
from featlearn.nets.initial import fixed_signs_init as fixed_signs_init
from featlearn.nets.initial import gaussian_init as gaussian_init
from featlearn.nets.initial import mean_field_rates as mean_field_rates
from featlearn.nets.initial import mirrored as mirrored
from featlearn.nets.initial import neuron_weights as neuron_weights
from featlearn.nets.initial import sign_init as sign_init
from featlearn.nets.initial import sphere_init as sphere_init
from featlearn.nets.initial import symmetric_init as symmetric_init
from featlearn.nets.linear_attention import LinearSelfAttention as LinearSelfAttention
from featlearn.nets.linear_attention import optimal_attention as optimal_attention
from featlearn.nets.linear_attention import optimal_matrix as optimal_matrix
from featlearn.nets.linear_attention import population_loss as population_loss
from featlearn.nets.looped import LoopedTransformer as LoopedTransformer
from featlearn.nets.looped import gradient_descent_weights as gradient_descent_weights
from featlearn.nets.looped import inverse_smoothness as inverse_smoothness
from featlearn.nets.looped import least_squares as least_squares
from featlearn.nets.looped import linear_attention as linear_attention
from featlearn.nets.looped import prompt_matrix as prompt_matrix
from featlearn.nets.looped import smoothness as smoothness
from featlearn.nets.modular_transformer import ModularShape as ModularShape
from featlearn.nets.modular_transformer import ModularTransformer as ModularTransformer
from featlearn.nets.modular_transformer import attention_matrices as attention_matrices
from featlearn.nets.power import PowerNetwork as PowerNetwork
from featlearn.nets.power import power_init as power_init
from featlearn.nets.relu_attention import ReluAttention as ReluAttention
from featlearn.nets.relu_attention import binary_code_heads as binary_code_heads
from featlearn.nets.relu_attention import diagonal_heads as diagonal_heads
from featlearn.nets.residual import Residual as Residual
from featlearn.nets.residual import residual_forward as residual_forward
from featlearn.nets.residual import residual_gradients as residual_gradients
from featlearn.nets.residual import residual_init as residual_init
from featlearn.nets.residual import residual_stack as residual_stack
from featlearn.nets.small_images import SmallEncoder as SmallEncoder
from featlearn.nets.small_images import SmallResNet as SmallResNet
from featlearn.nets.small_images import adapter as adapter
from featlearn.nets.small_transformer import SmallViT as SmallViT
from featlearn.nets.two_layer import Gradients as Gradients
from featlearn.nets.two_layer import TwoLayer as TwoLayer
from featlearn.nets.two_layer import forward as forward
from featlearn.nets.two_layer import gradients as gradients
from featlearn.nets.two_layer import stack as stack

__all__ = [
    "Gradients",
    "LinearSelfAttention",
    "LoopedTransformer",
    "ModularShape",
    "ModularTransformer",
    "PowerNetwork",
    "ReluAttention",
    "ResNet",
    "Residual",
    "SmallCnn",
    "SmallEncoder",
    "SmallResNet",
    "SmallViT",
    "TwoLayer",
    "adapter",
    "attention_matrices",
    "backbone",
    "binary_code_heads",
    "diagonal_heads",
    "fixed_signs_init",
    "forward",
    "gaussian_init",
    "gradient_descent_weights",
    "gradients",
    "inverse_smoothness",
    "least_squares",
    "linear_attention",
    "linear_head",
    "load_weights",
    "mean_field_rates",
    "mirrored",
    "neuron_weights",
    "optimal_attention",
    "optimal_matrix",
    "population_loss",
    "power_init",
    "prompt_matrix",
    "residual_forward",
    "residual_gradients",
    "residual_init",
    "residual_stack",
    "sign_init",
    "smoothness",
    "sphere_init",
    "stack",
    "symmetric_init",
]
