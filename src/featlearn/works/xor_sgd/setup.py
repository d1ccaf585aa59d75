"""What both halves of the claims share: the cube, networks and exact expectations on it, in float64.

The target is the XOR of the first two coordinates. A network is (w, a): w (p, d), a (p),
f(x) = mean_j a_j relu(<w_j, x>), relu'(0) = 0. Gradients carry the factor p of the work, so they are those of one
neuron: grad_w = a E[l'(x) 1(w.x > 0) x], grad_a = E[l'(x) relu(w.x)].
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from featlearn.core import Key
from featlearn.learn import Stage, fit_one_pass
from featlearn.nets import TwoLayer, mean_field_rates, neuron_weights

Array = np.ndarray
TAU1, TAU2 = (2 * np.pi) ** -0.5, 2**0.5 / 4
"""Growth rates of the two phases: 1/sqrt(2 pi) and sqrt(2)/4."""
ROOT2 = 2**0.5


def cube(d: int) -> Float[Array, "n d"]:
    """All 2^d sign vectors."""
    return 1.0 - 2.0 * ((np.arange(2**d)[:, None] >> np.arange(d)) & 1)


def labels(x: Float[Array, "n d"]) -> Float[Array, " n"]:
    """y = -x_1 x_2."""
    return -x[:, 0] * x[:, 1]


def centres(d: int) -> Float[Array, "4 d"]:
    """+mu_1, -mu_1, +mu_2, -mu_2."""
    mu = np.zeros((4, d))
    mu[:, :2] = [[1, -1], [-1, 1], [1, 1], [-1, -1]]
    return mu


@dataclass(frozen=True)
class Net:
    """w (p, d) and a (p)."""

    w: Float[Array, "p d"]
    a: Float[Array, " p"]

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        return np.maximum(x @ self.w.T, 0) @ self.a / len(self.a)

    @property
    def mass(self) -> float:
        """H_rho = E ||a w||."""
        return float(np.mean(np.abs(self.a) * np.linalg.norm(self.w, axis=1)))

    @property
    def norm(self) -> Float[Array, " p"]:
        return np.linalg.norm(self.w, axis=1)

    @property
    def unit(self) -> tuple[Array, Array]:
        """Directions of w_sig and w_opp (p, d), signed so that both coordinates are positive."""
        d = self.w.shape[1]
        first, second = centres(d)[0] / ROOT2, centres(d)[2] / ROOT2
        own = np.where((self.a >= 0)[:, None], first, second)
        other = np.where((self.a >= 0)[:, None], second, first)
        return tuple(u * np.where((self.w * u).sum(1) < 0, -1.0, 1.0)[:, None] for u in (own, other))  # type: ignore[return-value]

    @property
    def sig(self) -> Float[Array, "p d"]:
        u = self.unit[0]
        return (self.w * u).sum(1, keepdims=True) * u

    @property
    def opp(self) -> Float[Array, "p d"]:
        u = self.unit[1]
        return (self.w * u).sum(1, keepdims=True) * u

    @property
    def perp(self) -> Float[Array, "p d"]:
        return np.concatenate([np.zeros((len(self.w), 2)), self.w[:, 2:]], 1)


def slope(score: Array, y: Array) -> Array:
    """dl/df of l = 2 softplus(-y f): -2 y / (1 + exp(y f))."""
    return -2 * y / (1 + np.exp(y * score))


def gradients(net: Net, x: Array, push: Array) -> tuple[Float[Array, "p d"], Float[Array, " p"]]:
    """(grad_w, grad_a) over the equally likely inputs x when l' at them is `push`."""
    z = x @ net.w.T
    weight = (z > 0) * push[:, None]
    return net.a[:, None] * (weight.T @ x) / len(x), (np.maximum(z, 0) * push[:, None]).mean(0)


def true_gradients(net: Net, x: Array) -> tuple[Array, Array]:
    """Of the population loss (x the cube) or of a minibatch."""
    return gradients(net, x, slope(net(x), labels(x)))


def first_order(net: Net, x: Array) -> tuple[Array, Array]:
    """Of the loss L0, where l' = -y."""
    return gradients(net, x, -labels(x))


def clean_push(net: Net, x: Array) -> Array:
    """l'(z): the loss derivative at the centre of the cluster of x."""
    z = x.copy()
    z[:, 2:] = 0
    return slope(net(z), labels(x))


def random_net(p: int, d: int, key: Key, size: float = 1.0) -> Net:
    """Gaussian weights, sizes spread over a factor of ten."""
    rng = key.numpy()
    w = rng.normal(size=(p, d)) * size * 10 ** rng.uniform(-0.5, 0.5, size=(p, 1))
    return Net(w, rng.normal(size=p) * size)


def heavy_net(
    p: int, d: int, key: Key, *, size: float = 1.0, opp: float = 0.0, perp: float = 0.0, balance: float = 1.0
) -> Net:
    """p neurons on the four clusters in turn: ||sig|| about `size`, ||opp|| = opp ||sig||, ||perp|| = perp ||sig||.

    |a| = balance ||w||.
    """
    rng = key.numpy()
    mu = centres(d) / ROOT2
    which = np.arange(p) % 4
    length = size * rng.uniform(0.8, 1.2, size=(p, 1))
    side = mu[(which + 2) % 4] * rng.choice([-1.0, 1.0], (p, 1))
    rest = np.concatenate([np.zeros((p, 2)), rng.normal(size=(p, d - 2))], 1)
    rest /= np.linalg.norm(rest, axis=1, keepdims=True)
    w = length * (mu[which] + opp * side + perp * rest)
    return Net(w, np.where(which < 2, 1.0, -1.0) * np.linalg.norm(w, axis=1) * balance)


def engine(net: Net) -> TwoLayer:
    """The network as the engine holds it, in float64: (1, p, d), with a_j / p in the second layer."""
    w, a = torch.from_numpy(net.w.copy())[None], torch.from_numpy(net.a / len(net.a))[None]
    return TwoLayer(w, torch.zeros_like(a), a, "relu")


def engine_step(net: Net, x: Float[Array, "n d"], y: Float[Array, " n"], eta: float) -> Net:
    """The network after one step of the engine's SGD on the minibatch (x, y), both layers moving."""
    rate_w, rate_a = mean_field_rates(eta, len(net.a))

    def given(n: int, key: Key) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: ARG001
        return torch.from_numpy(x), torch.from_numpy(y)

    stage = Stage(1, rate_w, 0.0, rate_a, batch=len(x))
    end = fit_one_pass(engine(net), given, [stage], Key("given")).net
    return Net(end.w[0].numpy(), neuron_weights(end)[0].numpy())


def tensors(net: Net) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """w (1, p, d), a (1, p) and the means (2, d), as the measures take them."""
    means = torch.from_numpy(centres(net.w.shape[1])[[0, 2]])
    return torch.from_numpy(net.w)[None], torch.from_numpy(net.a)[None], means
