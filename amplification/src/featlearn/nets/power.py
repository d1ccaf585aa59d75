"""One-hidden-layer network of k-th powers on k inputs, one-hot inputs as table look-ups.

Neuron i adds up one entry of each of its k embeddings, raises the sum to the k-th power and multiplies an output
vector: f(a) = sum_i (sum_j u_i,j(a_j))^k w_i. It is homogeneous of degree k + 1 in its parameters.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.core.check import check_fields, check_number, checked

BLOCK_FLOATS = 2**18  # of activations that stay in cache on a CPU; GPUs take ALL_FLOATS at once
ALL_FLOATS = 2**28


def whole_power(x: Float[Tensor, "..."], k: int) -> Float[Tensor, "..."]:
    """x^k for whole k >= 1 by products, exact in sign and much faster than a general power. Shapes: x (...) -> (...).

    Example:
        >>> whole_power(torch.tensor([-2.0]), 3)
        tensor([-8.])
    """
    if k == 1:
        return x.clone()
    half = whole_power(x, k // 2) if k > 3 else x
    out = half * half
    return out.mul_(x) if k % 2 else out


def block_rows(m: int, device: torch.device) -> int:
    """Rows of m activations that are worked on at once: as many as stay in cache, on a GPU as many as fit."""
    return max(1, (BLOCK_FLOATS if device.type == "cpu" else ALL_FLOATS) // m)


@dataclass(frozen=True)
class PowerNetwork:
    """m neurons over k inputs of p values each; calling it on indices x (n, k) gives the logits (n, p): a Predictor.

    u: embeddings (m, k, p). w: output vectors (m, p).
    Formula: f(a)[c] = sum_i (sum_j u[i, j, a_j])^k w[i, c]. Source: fourier.eq4_2 (Eq. 4.2).
    Errors: SettingError where the two shapes do not belong together, or an input is outside 0..p-1.

    Example:
        >>> net = power_init(4, 2, 5, Key("start"))
        >>> net(torch.tensor([[0, 3], [4, 4]])).shape
        torch.Size([2, 5])
    """

    u: Float[Tensor, "m k p"]
    w: Float[Tensor, "m p"]

    def __post_init__(self) -> None:
        check_fields(self)

    def __len__(self) -> int:
        return len(self.w)

    @property
    def k(self) -> int:
        return self.u.shape[1]

    @property
    def p(self) -> int:
        return self.u.shape[2]

    @checked(empty=("x",))
    def __call__(self, x: Int[Tensor, "n k"], /) -> Float[Tensor, "n p"]:
        check_inputs(x, self.k, self.p)
        table = self.u.permute(1, 2, 0).reshape(self.k * self.p, -1).contiguous()
        offset = torch.arange(self.k, device=x.device) * self.p
        parts = [
            whole_power(look_up(table, block + offset), self.k) @ self.w
            for block in x.split(block_rows(len(self), x.device))
        ]
        return torch.cat(parts) if parts else self.w.new_zeros(0, self.p)

    def neuron_norms(self) -> Float[Tensor, " m"]:
        """Euclidean length of each neuron's k + 1 vectors together. Shapes: -> (m)."""
        return (self.u.square().sum((1, 2)) + self.w.square().sum(1)).sqrt()

    def norm(self) -> float:
        """(sum_i |neuron_i|^(k+1))^(1/(k+1)), the L_{2,k+1} norm in which margins are measured (Definition C.2)."""
        return float(self.neuron_norms().double().pow(self.k + 1).sum() ** (1 / (self.k + 1)))

    def scaled(self, c: float | int) -> "PowerNetwork":
        """All parameters times c; logits are multiplied by c^(k+1)."""
        return PowerNetwork(self.u * c, self.w * c)

    def to(self, where: str | torch.device | torch.dtype) -> "PowerNetwork":
        """The same network on another device or in another precision."""
        return PowerNetwork(self.u.to(where), self.w.to(where))


def check_inputs(x: Int[Tensor, "n k"], k: int, p: int) -> None:
    """SettingError unless x (n, k) holds k indices in 0..p-1 a row."""
    if x.shape[1] != k:
        raise SettingError("x", tuple(x.shape), f"(n, {k})", f"the network adds {k} inputs")
    if x.numel():
        low, high = (int(v) for v in x.aminmax())
        if low < 0 or high >= p:
            raise SettingError("x", f"{low} to {high}", f"0 to {p - 1}", "inputs are indices modulo p")


def look_up(table: Float[Tensor, "r m"], rows: Int[Tensor, "n k"]) -> Float[Tensor, "n m"]:
    """Sum of k rows of a table for each sample, without the parts. Shapes: table (r, m), rows (n, k) -> (n, m)."""
    return torch.nn.functional.embedding_bag(rows, table, mode="sum")


def power_init(m: int, k: int, p: int, key: Key, *, scale: float | int = 0.1) -> PowerNetwork:
    """Gaussian start: every entry N(0, scale^2).

    Shapes: u (m, k, p), w (m, p). Source: none is reported (fourier.method_nn_training lists it as unstated).
    Errors: SettingError for m or k below 1, p below 2, or a scale that is not positive.

    Example:
        >>> power_init(8, 3, 7, Key("start")).u.shape
        torch.Size([8, 3, 7])
    """
    for field, value, least in (("m", m, 1), ("k", k, 1), ("p", p, 2)):
        if value < least:
            raise SettingError(field, value, f"at least {least}", f"raise {field}")
    remedy = "at 0 every gradient is 0; 0.1 is the default"
    check_number(scale, "scale", "a finite number above 0", remedy, above=True)
    both = torch.randn(m, k + 1, p, generator=key.torch()) * scale
    return PowerNetwork(both[:, :k].contiguous(), both[:, k].contiguous())
