"""Architectures with their hand-written gradients."""

from featlearn.nets.two_layer import Gradients as Gradients
from featlearn.nets.two_layer import TwoLayer as TwoLayer
from featlearn.nets.two_layer import forward as forward
from featlearn.nets.two_layer import gaussian_init as gaussian_init
from featlearn.nets.two_layer import gradients as gradients
from featlearn.nets.two_layer import mirrored as mirrored
from featlearn.nets.two_layer import stack as stack

__all__ = ["Gradients", "TwoLayer", "forward", "gaussian_init", "gradients", "mirrored", "stack"]
