"""Other choices of the tokens to keep than `select`: whole sentences, two filter layers, a second query.

They are candidates of `gemfilter/target`, which chooses between them and reports what was chosen. Each takes scores as
`scores` makes them, so that any pass one serves.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from featlearn.core import SettingError
from featlearn.methods.gemfilter.layout import Layout
from featlearn.methods.gemfilter.selecting import Scoring, vote

GAP = re.compile(r"[.!?][\"')\]]*\s+|\n\s*")
"""What stands between two sentences: a mark that ends one, with quotes or brackets, and space; or the end of a line."""


def sentences_of(tokenizer: Any, input_ids: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The number of the sentence that each token stands in, from 0; a token belongs where its last character does.

    Sentences are those of the text that the tokens show one by one. "Mr. Brown" is two: nothing is known of the
    language.

    Example:
        >>> import types
        >>> words = ["It", " rains", ".", " We", " go", "."]
        >>> tokenizer = types.SimpleNamespace(decode=lambda ids: words[ids[0]])
        >>> sentences_of(tokenizer, torch.arange(6))
        tensor([0, 0, 0, 1, 1, 1])
    """
    pieces = [tokenizer.decode([i]) for i in input_ids.tolist()]
    last = np.cumsum([len(p) for p in pieces]) - 1
    starts = [gap.end() for gap in GAP.finditer("".join(pieces))]
    return torch.from_numpy(np.searchsorted(starts, last, side="right"))


def whole_sentences(
    found: Float[Tensor, " n"], sentence: Int[Tensor, " n"], protected: Bool[Tensor, " n"], keep: int
) -> Int[Tensor, " k"]:
    """Positions of the `keep` tokens that stay of one prompt, ascending: whole sentences, by their best token.

        r(s) = max of the scores of the tokens of s that are not protected

    Protected tokens come first, then sentence after sentence by r, the earlier of equals first. Of the last one, which
    does not fit, the best tokens fill the budget; of equal tokens the earlier ones.

    Shapes: scores, numbers of sentences (ascending, as `sentences_of` gives them) and a mask, one for each token.
    Errors: SettingError for scores with nan, or a `keep` below 1.

    Example:
        >>> scores, sentence = torch.tensor([0.1, 0.3, 0.0, 0.9, 0.2, 0.2]), torch.tensor([0, 0, 1, 1, 2, 2])
        >>> whole_sentences(scores, sentence, torch.zeros(6, dtype=torch.bool), 3)
        tensor([1, 2, 3])
    """
    if keep < 1:
        raise SettingError("keep", keep, "at least 1", "256 is usual")
    if bool(torch.isnan(found).any()):
        raise SettingError("scores", "with nan", "numbers", "look for nan in the weights of the model")
    own, kept, number = found.double().cpu().numpy(), protected.cpu().numpy(), sentence.cpu().numpy()
    best = np.full(number.max() + 1, -np.inf)
    np.maximum.at(best, number[~kept], own[~kept])
    keys = np.where(kept, [[0.0], [0.0], [-np.inf]], [-own, number, -best[number]])
    first = np.lexsort((np.arange(len(own)), *keys))  # the last key decides first
    return torch.from_numpy(np.sort(first[:keep]))


def added(parts: Sequence[Float[Tensor, "b n"]]) -> Float[Tensor, "b n"]:
    """Scores of several layers, or of several looks, on one scale: s = sum over parts of s_p / (sum over i of s_pi).

    Shapes: each part b n, -inf at padding, which stays. Errors: SettingError for scores below 0 (raw products, which
    have no sum to share) and for those that are all 0.

    Example:
        >>> added([torch.tensor([[1.0, 3.0]]), torch.tensor([[30.0, 10.0]])])
        tensor([[1., 1.]])
    """
    shares = []
    for part in parts:
        plain = part.masked_fill(part == -torch.inf, 0)
        total = plain.sum(1, keepdim=True)
        if not bool((plain >= 0).all() and (total > 0).all()):
            raise SettingError("scores", "below 0, or all 0", "attention probabilities", "score with softmax=True")
        shares.append(part / total)
    return torch.stack(shares).sum(0)


def second_query(
    layout: Layout,
    attn: nn.Module,
    prompt: tuple[Float[Tensor, "b n e"], tuple[Tensor, Tensor]],
    token: tuple[Float[Tensor, "b 1 e"], tuple[Tensor, Tensor]],
    scoring: Scoring,
) -> Float[Tensor, "b n"]:
    """Scores of the tokens of a prompt by the query of one further token, the first of an answer.

    prompt, token: hidden states and rotary (cos, sin) that the attention of the filter layer received of the prompt,
    without padding, and of the token behind it; the rows of `scoring` are that one. These are the scores of
    `select(..., scoring=replace(scoring, rows=1))` on prompt and token together, those of the prompt's own tokens.
    Errors: SettingError for scores that are not finite.
    """
    keys = torch.cat([layout.keys(attn, *prompt), layout.keys(attn, *token)], dim=2)
    mask = torch.ones(keys.shape[0], keys.shape[2], dtype=torch.bool, device=keys.device)
    return vote(layout, attn, layout.queries(attn, *token), keys, mask, scoring)[:, :-1]
