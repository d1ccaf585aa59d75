"""Linear attention over a prompt of examples and a query, looped: one layer applied again and again."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Diverged, SettingError
from featlearn.core.check import check_fields, checked


@checked()
def prompt_matrix(
    x: Float[Tensor, "b n d"],
    y: Float[Tensor, "b n"],
    query: Float[Tensor, " b"],
    start: Float[Tensor, "b d"] | None = None,
) -> Float[Tensor, "b n1 d1"]:
    """Z of b prompts: examples with their labels, and a last row of what is generated and the query.

        Z = [[X, y], [q^T, alpha]]

    Shapes: x (b, n, d), y (b, n), query alpha (b), start q (b, d), 0 if left out -> (b, n + 1, d + 1).
    Source: thesis Definition 8.5 (looped.definition8_5). Errors: SettingError for a query of 0: every vector orthogonal
    to theta* answers it, and so does q = 0.

    Example:
        >>> prompt_matrix(torch.ones(1, 3, 2), torch.ones(1, 3), torch.tensor([2.0]))[0, -1]
        tensor([0., 0., 2.])
    """
    if bool((query == 0).any()):
        raise SettingError("query", "0", "other than 0", "q = 0 is right for it before any loop")
    q = torch.zeros_like(x[:, 0]) if start is None else start
    return torch.cat([torch.cat([x, y[..., None]], -1), torch.cat([q, query[:, None]], -1)[:, None]], 1)


@checked()
def linear_attention(
    z: Float[Tensor, "b n d"], query_key: Float[Tensor, "d d"], value: Float[Tensor, "d d"]
) -> Float[Tensor, "b n d"]:
    """Attention without softmax in which the last token reads all others and nothing else is read.

        (M o (Z Q Z^T)) Z P,   M = 1 in the last row but for its last entry, else 0

    Shapes: z (b, n, d), query_key Q (d, d), value P (d, d) -> (b, n, d).
    Source: thesis Definition 8.6 (looped.definition8_6). Differs: there Q and P are d x d and Z is n x d, which does
    not fit the mask of n + 1 tokens; Lemma 8.13 has d + 1 and n + 1. The product with the mask is not formed: only the
    last row is computed, in n d^2 operations.

    Example:
        >>> z = torch.tensor([[[1.0, 2.0], [0.0, 3.0]]])
        >>> linear_attention(z, torch.eye(2), torch.eye(2))
        tensor([[[ 0.,  0.],
                 [ 6., 12.]]])
    """
    rest, last = z[:, :-1], z[:, -1:]
    read = (last @ query_key @ rest.mT) @ rest @ value
    return torch.cat([torch.zeros_like(rest), read], 1)


@dataclass(frozen=True)
class LoopedTransformer:
    """The attention layer (Q, P), applied once a loop: Z <- Z - rate Attn(Z; Q, P); what it says is minus q in the end.

    query_key Q, value P: (d + 1, d + 1). They may require gradients: a call is differentiable in them.

    Source: thesis Definition 8.7 (looped.definition8_7); `gradient_descent_weights` are those of Lemma 8.13.
    Errors: SettingError for prompts of another width than Q; Diverged when the loops leave the finite numbers, with the
    largest step that does not.

    Example:
        >>> x, theta = torch.eye(2)[None], torch.tensor([[0.6, 0.8]])
        >>> net = gradient_descent_weights(2)
        >>> net(prompt_matrix(x, (x @ theta[..., None])[..., 0], torch.tensor([2.0])), torch.ones(1, 1))
        tensor([[1.2000, 1.6000]])
    """

    query_key: Float[Tensor, "d1 d1"]
    value: Float[Tensor, "d1 d1"]

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, z: Float[Tensor, "b n d1"], rates: Float[Tensor, "#b t"], /) -> Float[Tensor, "b d"]:
        """What is generated (b, d) after t loops. rates: (b, t), or (1, t) for all prompts."""
        return self.loops(z, rates)[-1]

    @checked()
    def loops(self, z: Float[Tensor, "b n d1"], rates: Float[Tensor, "#b t"]) -> Float[Tensor, "loops b d"]:
        """What would be generated after 0, 1, ..., t loops: (t + 1, b, d).

        Rows of examples and the query stay as they are, so only the last row is carried on.
        """
        examples, last = z[:, :-1], z[:, -1:]
        said = [-last[:, 0, :-1]]
        for step in rates.T:
            read = (last @ self.query_key @ examples.mT) @ examples @ self.value
            last = last - step[:, None, None] * read
            said.append(-last[:, 0, :-1])
        found = torch.stack(said)
        if not bool(torch.isfinite(found.detach()).all()):
            raise Diverged(_why(examples, rates))
        return found


def _why(examples: Tensor, rates: Tensor) -> str:
    most = 2 / _largest(examples[..., :-1].detach()).max()
    return (
        f"the loops left the finite numbers at steps up to {float(rates.max()):.4g}; gradient descent on these "
        f"examples stays bounded below 2/L = {float(most):.4g} (1/L is `inverse_smoothness`)"
    )


def gradient_descent_weights(
    d: int, *, dtype: torch.dtype = torch.float32, device: str | torch.device = "cpu"
) -> LoopedTransformer:
    """Q = I, P = diag(1, ..., 1, 0): a loop is a step of gradient descent on |y - X theta|^2 / 2 at q = -alpha theta.

    Shapes: (d + 1, d + 1) both. Source: thesis Lemma 8.13, Theorem 8.14 (looped.lemma8_13, looped.theorem8_14).
    Errors: SettingError for d < 1.

    Example:
        >>> gradient_descent_weights(2).value.diagonal()
        tensor([1., 1., 0.])
    """
    if d < 1:
        raise SettingError("d", d, "at least 1", "it is the number of features of an example")
    query_key = torch.eye(d + 1, dtype=dtype, device=device)
    value = query_key.clone()
    value[-1, -1] = 0
    return LoopedTransformer(query_key, value)


@checked()
def smoothness(x: Float[Tensor, "b n d"]) -> Float[Tensor, " b"]:
    """L, the largest eigenvalue of X^T X, of b prompts: the gradient of |y - X theta|^2 / 2 is L-Lipschitz.

    Shapes: (b, n, d) -> (b). Source: thesis Lemma 8.20 (looped.lemma8_20).

    Example:
        >>> smoothness(torch.tensor([[[3.0, 0.0], [0.0, 2.0]]]))
        tensor([9.])
    """
    return _largest(x).to(x.dtype)


@checked()
def inverse_smoothness(x: Float[Tensor, "b n d"], loops: int) -> Float[Tensor, "b t"]:
    """The step 1/L of each prompt, for so many loops.

    Shapes: (b, n, d) -> (b, loops). Source: thesis Theorem 8.25 and Figure 8.1; Theorem 8.16 leaves the step out.
    Errors: SettingError for fewer than 0 loops, and for a prompt whose examples are all 0.

    Example:
        >>> inverse_smoothness(torch.tensor([[[2.0, 0.0], [0.0, 1.0]]]), 3)
        tensor([[0.2500, 0.2500, 0.2500]])
    """
    if loops < 0:
        raise SettingError("loops", loops, "0 or more", "0 says the start")
    largest = _largest(x)
    if not bool((largest > 0).all()):
        raise SettingError("x", "0 in all entries of a prompt", "not all 0", "such examples say nothing of theta*")
    return (1 / largest).to(x.dtype)[:, None].expand(-1, loops)


def _wide(x: Tensor) -> Tensor:
    """In float32 at least: singular values are not computed in half precision."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _largest(x: Tensor) -> Tensor:
    """The largest eigenvalue of X^T X (b)."""
    return torch.linalg.matrix_norm(_wide(x), ord=2).square()


@checked()
def least_squares(x: Float[Tensor, "b n d"], y: Float[Tensor, "b n"]) -> Float[Tensor, "b d"]:
    """The minimiser of |y - X theta|^2 of least norm, of b prompts; for n < d, or examples that depend linearly, too.

        theta = X^+ y

    Shapes: x (b, n, d), y (b, n) -> (b, d). By singular values, of which those below max(n, d) eps times the largest
    count as 0: the same on every device, where `torch.linalg.lstsq` has another driver on a GPU, which refuses such X.
    Source: thesis Definition 8.10 (looped.definition8_9), where X^T X is invertible.

    Example:
        >>> least_squares(torch.tensor([[[2.0, 0.0]]]), torch.tensor([[2.0]])).round(decimals=4)
        tensor([[1., 0.]])
    """
    return (torch.linalg.pinv(_wide(x)) @ _wide(y)[..., None])[..., 0].to(x.dtype)
