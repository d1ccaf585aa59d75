"""Phase 2: what its claims share, observed by the package (above) and transcribed from the work (below).

The two never meet: gradients come from `featlearn.nets`, margins from `featlearn.measure`, and the transcribed half is
written on norms and on the definition of the loss alone.
"""

import math

import numpy as np
import torch

from featlearn.measure.signal import cluster_margins, loss_sizes, signal_heavy
from featlearn.nets.two_layer import TwoLayer, gradients
from featlearn.works.xor_sgd.setup import Array, Net, centres, cube, labels, slope

D = 8
H = 1.0
ZETA = math.exp(-10 * H)
"""Definition 4.2 asks for H >= 1 and zeta <= exp(-10 H)."""
EXACT = 1e-12


# Observation: what the package computes ------------------------------------------------------------------------------


def tensor(x: Array) -> torch.Tensor:
    """As a double tensor."""
    return torch.from_numpy(np.ascontiguousarray(x))


def measured_margins(net: Net) -> Array:
    """gamma at +mu_1, -mu_1, +mu_2, -mu_2 by `featlearn.measure`: (4)."""
    means = tensor(centres(net.w.shape[1])[[0, 2]])
    return cluster_margins(tensor(net.w)[None], tensor(net.a)[None], means, scale=1 / len(net.a))[0].numpy()


def measured_sizes(net: Net) -> Array:
    """g at the same centres by `featlearn.measure`: (4)."""
    return loss_sizes(tensor(measured_margins(net))).numpy()


def gradients_with(net: Net, x: Array, push: Array) -> tuple[Array, Array]:
    """(grad_w, grad_a) of `featlearn.nets` over inputs x where l' is `push`: the squared loss to score - push."""
    two = TwoLayer(tensor(net.w)[None], torch.zeros(1, len(net.a)).double(), tensor(net.a)[None], "relu")
    inputs = tensor(x)
    found = gradients(two, inputs, two(inputs)[:, 0] - tensor(push), loss="squared")
    return found.w[0].numpy(), found.a[0].numpy()


def clean_gradients(net: Net, g: Array) -> tuple[Array, Array]:
    """Clean gradients where |l'| at the four centres is g: l'(z) = -y g."""
    x = cube(net.w.shape[1])
    corner = np.where(x[:, 0] * x[:, 1] < 0, np.where(x[:, 0] > 0, 0, 1), np.where(x[:, 0] > 0, 2, 3))
    return gradients_with(net, x, -labels(x) * g[corner])


def population_gradients(net: Net) -> tuple[Array, Array]:
    """Gradients of the logistic loss of the work, twice the usual one, over the cube, with the factor p of the work."""
    p, x = len(net.a), cube(net.w.shape[1])
    two = TwoLayer(tensor(net.w)[None], torch.zeros(1, p).double(), tensor(net.a)[None] / p, "relu")
    found = gradients(two, tensor(x), tensor(labels(x)), loss="logistic")
    return 2 * p * found.w[0].numpy(), 2 * found.a[0].numpy()


def along(v: Array, grad: Array) -> Array:
    """Neuron by neuron <v, grad>: (p)."""
    return (v * grad).sum(1)


def heavy(net: Net) -> bool:
    """Whether a network is (zeta, H)-signal-heavy, Definition 4.2."""
    means = tensor(centres(net.w.shape[1])[[0, 2]])
    return bool(signal_heavy(tensor(net.w)[None], tensor(net.a)[None], means, zeta=ZETA, H=H).holds)


# Prediction: the transcribed formulas --------------------------------------------------------------------------------


def centre_slopes(net: Net) -> Array:
    """l' at the four centres, from the definition: (4)."""
    mu = centres(net.w.shape[1])
    return slope(net(mu), labels(mu))


def sizes(net: Net) -> Array:
    """g = |l'| at the four centres: (4)."""
    return np.abs(centre_slopes(net))


def own_size(net: Net) -> Array:
    """g at the centre to which the signal of each neuron points: (p)."""
    return sizes(net)[(net.sig @ centres(net.w.shape[1]).T).argmax(1)]


def projections(net: Net) -> Array:
    """w.xi over the 2^(d-2) equally likely xi: (n, p)."""
    return cube(net.w.shape[1] - 2) @ net.w[:, 2:].T
