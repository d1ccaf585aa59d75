"""Heads of reduced linear attention with ReLU below a second layer, and the binary-code heads for sparse parities."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import check_fields, checked


@dataclass(frozen=True)
class ReluAttention:
    """m heads that read a prompt of n labelled examples and a query, in one number a prompt.

        g(X, y, x_q) = sum_i a_i relu((y^T X / n) W_i x_q)

    query_key (m, d, d): W; outer (m): a, from -1 to 1. Calling gives g (b) for examples (b, n, d), labels (b, n) and
    queries (b, d); `read` takes the label-weighted mean y^T X / n instead, of which a prompt without end shows
    E[y x]. Source: thesis, section 5.5 (icl_scale.definition_parity_model).

    Errors: SettingError for an `outer` beyond 1 in absolute value.

    Example:
        >>> net = ReluAttention(torch.eye(2)[None], torch.ones(1))
        >>> net(torch.tensor([[[1.0, 2.0], [3.0, 0.0]]]), torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 1.0]]))
        tensor([3.])
    """

    query_key: Float[Tensor, "m d d"]
    outer: Float[Tensor, " m"]

    def __post_init__(self) -> None:
        check_fields(self)
        if not bool((self.outer.abs() <= 1).all()):
            most = float(self.outer.abs().max())
            raise SettingError("outer", most, "from -1 to 1", "move the scale of a head into its query_key")

    @checked()
    def __call__(
        self, x: Float[Tensor, "b n d"], y: Float[Tensor, "b n"], query: Float[Tensor, "b d"], /
    ) -> Float[Tensor, " b"]:
        """g (b)."""
        return self.read((y[..., None] * x).mean(1), query)

    @checked()
    def read(self, mean: Float[Tensor, "b d"], query: Float[Tensor, "b d"]) -> Float[Tensor, " b"]:
        """g (b) of label-weighted means (b, d) and queries (b, d)."""
        heads = torch.einsum("bd,mde,be->bm", mean, self.query_key, query)
        return heads.relu() @ self.outer

    @property
    def penalty(self) -> Tensor:
        """sum_i |W_i|_F^2, which weight decay keeps small; the second layer is not in it."""
        return self.query_key.square().sum()


@checked()
def diagonal_heads(
    diagonals: Float[Tensor, "m d"], outer: Float[Tensor, " m"], dictionary: Float[Tensor, "d d"] | None = None
) -> ReluAttention:
    """Heads W_i = G diag(v_i) G^T.

    Shapes: diagonals v (m, d), outer (m), dictionary G (d, d), the identity if left out -> query_key (m, d, d).
    Source: thesis Theorem 5.5.1 (icl_scale.theorem5_5_1).

    Example:
        >>> diagonal_heads(torch.tensor([[1.0, -1.0]]), torch.ones(1)).query_key
        tensor([[[ 1.,  0.],
                 [ 0., -1.]]])
    """
    heads = torch.diag_embed(diagonals)
    if dictionary is not None:
        heads = dictionary @ heads @ dictionary.T
    return ReluAttention(heads, outer)


def binary_code_heads(
    d: int,
    gamma: float,
    bits: int | None = None,
    positive: float | None = None,
    *,
    dictionary: Float[Tensor, "d d"] | None = None,
    dtype: torch.dtype = torch.float32,
) -> ReluAttention:
    """Heads that tell parities of two signs by the binary numbers 0 to d - 1 of the signs.

        v_(i, t) = (2 digit(t - 1, i) - 1) / (4 gamma), a_i = -1   for i = 1..bits, digits counted from the right
        v_t = -positive / (4 gamma), a = +1                         for one more head
        -v, a                                                       for a mirror of each

    On a prompt without end y g is the number of the `bits` in which the two numbers of a pair differ. bits: all
    log2(d) if left out, which is the larger network of the theorem; fewer give the smaller one, whose heads are those
    of the larger but for `positive`, which is `bits` if left out.
    Shapes: dictionary (d, d), the identity if left out -> query_key (2 (bits + 1), d, d).
    Source: thesis Theorem 5.5.1 (icl_scale.theorem5_5_1), which calls them optimal; see its claims.
    Errors: SettingError for d that is no power of 2, gamma outside (0, 1/4], bits outside 1..log2(d), and positive
    that is not above 0.

    Example:
        >>> binary_code_heads(4, 0.25).query_key.diagonal(dim1=1, dim2=2)[:3]
        tensor([[-1.,  1., -1.,  1.],
                [-1., -1.,  1.,  1.],
                [-2., -2., -2., -2.]])
    """
    most = d.bit_length() - 1
    if d < 2 or d != 2**most:
        raise SettingError("d", d, "a power of 2 from 2 on", "each sign has a binary number of its own")
    if not 0 < gamma <= 0.25:
        raise SettingError("gamma", gamma, "in (0, 1/4]", "it is the correlation of the signs with the label")
    bits = most if bits is None else bits
    if not 1 <= bits <= most:
        raise SettingError("bits", bits, f"in 1..log2(d) = {most}", "leave it out for all of them")
    scale = float(bits) if positive is None else positive
    if not 0 < scale < float("inf"):
        raise SettingError("positive", scale, "a finite number above 0", "leave it out for the number of bits")
    number = torch.arange(d)
    code = torch.stack([(number >> i) % 2 * 2 - 1 for i in range(bits)]).to(dtype)
    half = torch.cat([code, torch.full((1, d), -scale, dtype=dtype)]) / (4 * gamma)
    outer = torch.cat([-torch.ones(bits, dtype=dtype), torch.ones(1, dtype=dtype)])
    return diagonal_heads(torch.cat([half, -half]), torch.cat([outer, outer]), dictionary)
