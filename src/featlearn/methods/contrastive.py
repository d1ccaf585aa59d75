"""Contrastive regularisation: a contrastive loss on two views of a batch, to be added to any fine-tuning loss."""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from featlearn.core import SettingError
from featlearn.core.check import checked

Loss = Literal["nt-xent", "simcse", "logistic", "linear"]
SHORTEST = {torch.float16: 1e-3}
"""By precision, a length under which a row is divided by this instead of its own: the gradient of a direction grows as
one over the length, and half precision ends at 65504. 1e-8 for the others."""


@checked()
def contrastive_regulariser(
    first: Float[Tensor, "n d"],
    second: Float[Tensor, "n d"],
    *,
    temperature: float = 0.5,
    loss: Loss = "nt-xent",
    queue: Float[Tensor, "q d"] | None = None,
) -> Float[Tensor, ""]:
    """A contrastive loss of the features of two views of a batch, row i of both of the same input.

        total = task_loss(f(phi(v1)), y) + weight * contrastive_regulariser(phi(v1), phi(v2))

    loss, with s_ij the cosine of row i of one view and row j of the other, t the temperature:

        nt-xent   - (1/2n) sum over all 2n rows i of log exp(s_i,i+ / t) / sum_{j != i} exp(s_ij / t), j in both views
        simcse    - (1/n) sum_i log exp(s_ii / t) / sum_j exp(s_ij / t), j in the second view
        logistic  mean over i and j != i of log(1 + exp(-phi_i . (phi_i+ - phi_j+)))
        linear    mean over i and j != i of -phi_i . (phi_i+ - phi_j+)

    The first two are those of SimCLR and SimCSE; the last two are equation 7.9 as it stands, with the features as they
    are and the other rows' second views as negatives; they have no temperature. queue: embeddings (q, d) of earlier
    batches, which are then the only negatives, as in MoCo: nt-xent is one way then, and its gradient enters neither the
    queue nor `second`.

    Shapes: first, second (n, d), queue (q, d) -> (). It is computed and returned in float32, in float64 for such
    features, also inside autocast. Collapsed features have the loss of chance, log(2n - 1), and a finite gradient, also
    in float16; a row of zeros has the cosine 0 with all.

    The regulariser has no gradient in the classifier: it enters only through the features. Weights of the thesis are
    0.1 for ResNet-18 with moco's loss and 1.0 for foundation models; choose yours by validation, 0 among them.

    Source: thesis equation 7.9 and F.3.4, tradeoff.method_cr. Differs: the released code puts a projector before the
    loss for SimCLR (apply yours before the call) and sums both ways of MoCo, which doubles the weight.
    Errors: SettingError for a temperature that is not above 0, one row without a queue, and rows that do not match;
    NotFiniteInput.

    Example:
        >>> alike = contrastive_regulariser(torch.eye(4), torch.eye(4))
        >>> bool(alike < contrastive_regulariser(torch.eye(4), torch.eye(4).flip(0)))
        True
    """
    if loss not in get_args(Loss):
        raise SettingError("loss", repr(loss), f"one of {', '.join(get_args(Loss))}", "nt-xent is usual")
    if not 0 < temperature < float("inf"):
        raise SettingError("temperature", temperature, "above 0 and finite", "it divides cosines: 0.5 is usual")
    if queue is not None and loss != "nt-xent":
        raise SettingError("queue", f"of {len(queue)} rows", f"none for loss = {loss!r}", "nt-xent takes one")
    n = len(first)
    if n < 2 and queue is None:
        raise SettingError("first", "of one row", "two rows or more", "a view alone has no negatives: drop_last=True")
    shortest = SHORTEST.get(first.dtype, 1e-8)
    with torch.autocast(first.device.type, enabled=False):
        exact = torch.float64 if first.dtype == torch.float64 else torch.float32
        one, two = first.to(exact), second.to(exact)
        if loss in ("logistic", "linear"):
            products = one @ two.T
            gaps = (products.diagonal()[:, None] - products)[~torch.eye(n, dtype=torch.bool, device=one.device)]
            return functional.softplus(-gaps).mean() if loss == "logistic" else -gaps.mean()
        one, two = _unit(one, shortest), _unit(two, shortest)
        own = torch.arange(n, device=one.device)
        if queue is not None:
            two, bank = two.detach(), _unit(queue.detach().to(exact), shortest)
            logits = torch.cat([(one * two).sum(1, keepdim=True), one @ bank.T], 1) / temperature
            return functional.cross_entropy(logits, torch.zeros_like(own))
        if loss == "simcse":
            return functional.cross_entropy(one @ two.T / temperature, own)
        both = torch.cat([one, two])
        logits = both @ both.T / temperature
        logits = logits.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=one.device), float("-inf"))
        return functional.cross_entropy(logits, torch.cat([own + n, own]))


def _unit(x: Tensor, shortest: float) -> Tensor:
    return x / x.norm(dim=1, keepdim=True).clamp_min(shortest)
