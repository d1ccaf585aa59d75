"""Transformers that add k numbers modulo p: an ensemble of them as one module, the first layer by table look-ups.

Source: fourier.figure4_3 and the attention formula above it, fourier.figure4_4, fourier.method_transformer_training.
A sequence holds the k numbers and, with readout = "equals", one more token that asks for the sum. What enters the
first layer is one of k p + 1 vectors (a number at a position, or the last token), so keys, queries, values and scores
of that layer are computed once for these and looked up: a batch of any size costs no product there but the last one.
Attention is causal, and a last layer computes its last position alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from featlearn.core import Key, SettingError
from featlearn.core.check import checked

READOUTS = ("equals", "last")


@dataclass(frozen=True, kw_only=True)
class ModularShape:
    """Sizes of a transformer for the sum of k numbers modulo p; heads need not divide the width.

    mlp: hidden neurons after each attention, 0 for none. norm: whether attention, MLP and read-out see normalised
    vectors. readout: "equals" appends a token that stands for "=" and reads there, "last" reads at the last number.
    Defaults: sizes of the paper; width of heads and MLP are those of the base code that it names.

    Errors: `SettingError` for sizes below 1, another number of layers than one or two, an unknown read-out.
    """

    k: int
    p: int
    layers: int = 1
    heads: int = 160
    width: int = 128
    head_dim: int = 32
    mlp: int = 512
    norm: bool = True
    readout: str = "equals"

    def __post_init__(self) -> None:
        least = {"k": 1, "p": 2, "layers": 1, "heads": 1, "width": 2, "head_dim": 1, "mlp": 0}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise SettingError(name, getattr(self, name), f"at least {low}", "see the default")
        if self.layers > 2:
            raise SettingError("layers", self.layers, "1 or 2", "the paper has no more")
        if self.readout not in READOUTS:
            raise SettingError("readout", self.readout, f"one of {READOUTS}", "equals is the default")

    @property
    def length(self) -> int:
        """Tokens of a sequence."""
        return self.k + (self.readout == "equals")

    @property
    def rows(self) -> int:
        """Different vectors that enter the first layer."""
        return self.k * self.p + (self.readout == "equals")


def _shapes(shape: ModularShape) -> dict[str, tuple[tuple[int, ...], int]]:
    """Parameters of one network: size, and the number of inputs that sets the scale of its start (0: starts at 0)."""
    s, inner = shape, shape.heads * shape.head_dim
    found = {"token": ((s.p, s.width), s.width), "position": ((s.k, s.width), s.width)}
    if s.readout == "equals":
        found["equals"] = ((1, s.width), s.width)
    for i in range(s.layers):
        for name in ("query", "key", "value"):
            found[f"{name}{i}"] = ((s.width, inner), s.width)
        found[f"out{i}"] = ((inner, s.width), inner)
        if s.mlp:
            found |= {
                f"in{i}": ((s.width, s.mlp), s.width),
                f"bias{i}": ((1, s.mlp), 0),
                f"back{i}": ((s.mlp, s.width), s.mlp),
            }
    return found | {"read": ((s.width, s.p), s.width)}


class ModularTransformer(nn.Module):
    """e transformers of one shape, each started by its own key; parameters have e in front.

    Formula: x <- x + concat_h(softmax_j(q_h . k_hj / sqrt(head_dim)) v_hj) W_out, then x <- x + relu(n(x) W_in + b)
    W_back, with q, k, v linear in n(x); scores of the classes are n(x) W_read at the last position. n normalises to
    mean 0 and variance 1 without gain and shift, which the linear map behind it absorbs; n(x) = x where norm = False.
    Start: N(0, 1/inputs) for every map, N(0, 1/width) for tokens and positions, 0 for the bias.

    Shapes: inputs (e, n, k) of integers in 0..p-1 -> scores (e, n, p). Members do not touch each other: an ensemble
    equals a loop of single networks with the same keys.
    Errors: `SettingError` for inputs of another shape or kind. That they lie in 0..p-1 is checked by `fit_modular` and
    `modular_accuracy` once, not here at every step, where a GPU would have to wait.
    Code and paper: the paper's formula has no position, normalisation, MLP or scale of the scores; the base code that
    it names has all four, biases everywhere and gelu.

    Example:
        >>> net = ModularTransformer(ModularShape(k=2, p=5, heads=2, width=8, head_dim=4, mlp=0), [Key("a"), Key("b")])
        >>> net(torch.zeros(2, 3, 2, dtype=torch.long)).shape
        torch.Size([2, 3, 5])
    """

    start: Tensor
    offset: Tensor
    allowed: Tensor

    def __init__(self, shape: ModularShape, keys: Sequence[Key], *, device: str | torch.device = "cpu") -> None:
        super().__init__()
        if not keys:
            raise SettingError("keys", "()", "one key per network", "Key('seed') / 0 is one")
        self.shape, self.members = shape, len(keys)
        for name, (size, fan) in _shapes(shape).items():
            draws = [
                torch.randn(size, generator=(key / name).torch()) / math.sqrt(fan) if fan else torch.zeros(size)
                for key in keys
            ]
            self.register_parameter(name, nn.Parameter(torch.stack(draws).to(device)))
        # where the k numbers of a sequence stand in the table, and where the rows of each member begin
        start = torch.arange(shape.k, device=device) * shape.p
        self.register_buffer("start", start, persistent=False)
        self.register_buffer("offset", torch.arange(len(keys), device=device)[:, None, None], persistent=False)
        allowed = torch.ones(shape.length, shape.length, dtype=torch.bool, device=device).tril()
        self.register_buffer("allowed", allowed, persistent=False)

    def forward(self, x: Int[Tensor, "e n k"]) -> Float[Tensor, "e n p"]:
        """Scores of the p classes: (e, n, k) -> (e, n, p)."""
        s = self.shape
        if not isinstance(x, Tensor):
            raise SettingError("x", f"a {type(x).__name__}", "a torch tensor", "torch.as_tensor makes one")
        if x.ndim != 3 or x.shape[0] != self.members or x.shape[2] != s.k:
            allowed = f"(e, n, k) with e = {self.members}, k = {s.k} as in the networks"
            raise SettingError("x", f"a tensor of shape {tuple(x.shape)}", allowed, "stack one set of inputs a network")
        if x.is_floating_point():
            raise SettingError("x", f"a tensor of {x.dtype}", "whole numbers", "inputs are numbers modulo p: .long()")
        rows = x + self.start
        if s.readout == "equals":
            rows = F.pad(rows, (0, 1), value=s.rows - 1)
        table = stream = self._table()
        for i in range(s.layers):
            last = i == s.layers - 1
            stream = self._first(table, rows, last) if i == 0 else self._second(stream)
            if s.mlp:
                inner = torch.matmul(self._normed(stream).flatten(1, 2), self[f"in{i}"]) + self[f"bias{i}"]
                stream = stream + torch.matmul(F.relu(inner), self[f"back{i}"]).view_as(stream)
        return torch.matmul(self._normed(stream[:, :, 0]), self["read"])

    def __getitem__(self, name: str) -> Tensor:
        return self.get_parameter(name)

    def _normed(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:]) if self.shape.norm else x

    def _table(self) -> Tensor:
        """What enters the first layer: (e, rows, width)."""
        both = (self["position"][:, :, None] + self["token"][:, None]).flatten(1, 2)
        return torch.cat([both, self["equals"]], 1) if self.shape.readout == "equals" else both

    def _split(self, x: Tensor) -> Tensor:
        """(..., heads head_dim) -> (..., heads, head_dim)."""
        return x.unflatten(-1, (self.shape.heads, self.shape.head_dim))

    def _look_up(self, table: Tensor, rows: Tensor) -> Tensor:
        """Rows of a table of each member: (e, r, c) and (e, n, t) -> (e, n, t, c)."""
        return F.embedding(rows + self.offset * table.shape[1], table.flatten(0, 1))

    def _first(self, table: Tensor, rows: Tensor, last: bool) -> Tensor:
        """The stream after attention of the first layer: (e, n, t, width); of the last position only, t = 1."""
        s, normed = self.shape, self._normed(table)
        asking = normed
        if last:  # those rows that can stand at the last position
            asking = normed[:, -1:] if s.readout == "equals" else normed[:, -s.p :]
        query = self._split(torch.matmul(asking, self["query0"])).transpose(1, 2)
        key = self._split(torch.matmul(normed, self["key0"])).permute(0, 2, 3, 1)
        scores = torch.matmul(query, key) / math.sqrt(s.head_dim)  # (e, h, asking, rows)
        scores = scores.permute(0, 2, 3, 1).flatten(1, 2)
        if last:
            shift = 0 if s.readout == "equals" else (rows[..., -1:] - (s.rows - s.p)) * s.rows
            found = self._look_up(scores, rows + shift)[:, :, None]
        else:
            pairs = (rows[..., :, None] * s.rows + rows[..., None, :]).flatten(2)
            found = self._look_up(scores, pairs).unflatten(2, (s.length, s.length))
            found = found.masked_fill(~self.allowed[..., None], -math.inf)
        value = self._split(self._look_up(torch.matmul(normed, self["value0"]), rows))
        mixed = _mixed(found.softmax(3), value)
        return self._look_up(table, rows[..., -1:] if last else rows) + self._out(mixed, 0)

    def _out(self, mixed: Tensor, layer: int) -> Tensor:
        return torch.matmul(mixed.flatten(1, 2), self[f"out{layer}"]).unflatten(1, mixed.shape[1:3])

    def _second(self, x: Tensor) -> Tensor:
        """The stream after attention of the second and last layer, at the last position: (e, n, 1, width)."""
        normed = self._normed(x)
        query = self._split(torch.matmul(normed[:, :, -1], self["query1"]))
        both = torch.matmul(normed.flatten(1, 2), torch.cat([self["key1"], self["value1"]], 2))
        key, value = (self._split(h) for h in both.view(*x.shape[:3], -1).chunk(2, -1))
        # with one query and a handful of keys, products of matrices cost more than what they replace
        scores = (query[:, :, None] * key).sum(-1) / math.sqrt(self.shape.head_dim)
        return x[:, :, -1:] + self._out(_mixed(scores.softmax(2)[:, :, None], value), 1)


def _mixed(weights: Tensor, value: Tensor) -> Tensor:
    """Values weighted and added up: (e, n, t, length, h) and (e, n, length, h, c) -> (e, n, t, h c)."""
    if weights.shape[2] == 1:
        return (weights[:, :, 0, ..., None] * value).sum(2, keepdim=True).flatten(3)
    mixed = torch.matmul(weights.permute(0, 1, 4, 2, 3), value.transpose(2, 3))
    return mixed.transpose(2, 3).flatten(3)


@checked()
@torch.no_grad()
def attention_matrices(
    net: ModularTransformer, layer: int = 0, tokens: Float[Tensor, "e p d"] | None = None
) -> Float[Tensor, "e h p p"]:
    """What numbers say to each other in every head: entry (a, b) is the score that key a gives to query b.

    Formula: E^T W_h^K W_h^Q^T E with E the token embeddings, no position and no normalisation; products go through
    head_dim, so no (width, width) matrix is formed. tokens (e, p, d): other embeddings in the place of E, for controls.
    Shapes: (e, heads, p, p). Source: W^KQ of fourier.figure4_3. The paper does not say whether its pictures are this
    matrix or W^K W^Q^T itself; only this one has the p values of a number on its axes.
    Errors: `SettingError` for a layer that the network does not have, and tokens that do not fit it.

    Example:
        >>> net = ModularTransformer(ModularShape(k=2, p=5, heads=3, width=8, head_dim=4, mlp=0), [Key("a")])
        >>> attention_matrices(net).shape
        torch.Size([1, 3, 5, 5])
    """
    s = net.shape
    if not 0 <= layer < s.layers:
        raise SettingError("layer", layer, f"0 to {s.layers - 1}", "the first layer is 0")
    embedded = net["token"] if tokens is None else tokens
    if embedded.shape[0] != net.members or embedded.shape[2] != s.width:
        allowed = f"(e, p, d) with e = {net.members}, d = {s.width} as in net"
        raise SettingError(
            "tokens", f"a tensor of shape {tuple(embedded.shape)}", allowed, "give embeddings of the width"
        )
    if embedded.dtype != net["token"].dtype:
        allowed = f"{net['token'].dtype} as net"
        raise SettingError("tokens", f"a tensor of {embedded.dtype}", allowed, "convert them with .to(dtype)")
    key, query = (
        torch.matmul(embedded, net[f"{name}{layer}"]).unflatten(-1, (s.heads, s.head_dim)).transpose(1, 2)
        for name in ("key", "query")
    )
    return torch.matmul(key, query.transpose(2, 3))
