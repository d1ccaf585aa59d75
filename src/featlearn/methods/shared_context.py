"""Several questions to one text: pass one reads the text once, and each question adds only its own tokens.

What the layers before the filter compute for a text does not depend on what follows it. Which tokens are kept does: it
is decided anew for every question, by the queries of its last tokens.
"""

import contextlib
import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featlearn.core import SettingError
from featlearn.methods.gemfilter.layout import Layout
from featlearn.methods.gemfilter.layouts import check_layer, layout_of
from featlearn.methods.gemfilter.recommended import recommended
from featlearn.methods.gemfilter.selecting import (
    SOFTMAX,
    Scoring,
    Selection,
    check_prompt,
    check_request,
    check_scoring,
    last_queries,
    vote,
)
from featlearn.methods.gemfilter.views import LENGTH_DEPENDENT, PLAIN_OUTPUT, undisturbed, watched
from featlearn.methods.kv_eviction import cache_name
from featlearn.methods.memory import PassCost, measured

Rotary = tuple[Tensor, Tensor]
T = TypeVar("T")


@dataclass(frozen=True)
class Context:
    """A text that pass one has read; get it from `read_context`.

    input_ids: 1 p. layer, scoring: of the filter. cache: keys and values (1, g, p, d) of the layers before the filter;
    keys: those of the filter layer; hidden, rotary: what its attention received for the last rows that may vote. cost:
    of the reading. It holds as much memory as the cache of these layers, and is not changed by questions.
    """

    model: Any
    input_ids: Int[Tensor, "1 p"]
    layer: int
    scoring: Scoring
    cache: Any
    keys: Float[Tensor, "1 g p d"]
    hidden: Float[Tensor, "1 w e"]
    rotary: tuple[Tensor, Tensor]
    cost: PassCost

    def select(
        self,
        model: Any,
        input_ids: Any,
        attention_mask: Any = None,
        *,
        layer: Any,
        keep: Any,
        scoring: Scoring = SOFTMAX,
        protect: Any = (0, 0),
    ) -> Selection:
        """As `select`, for prompts that begin with the text; only what follows it is read.

        It is a `choose` for `generate`, `filtered` and `answer`. Scores are those of `select` up to the rounding of
        sums that are taken in two parts.

        Raises SettingError as `select`, and for another model, layer, or number of rows than the text was read for, and
        for prompts that do not begin with it or end with it.

        Example:
            >>> text = read_context(model, ids[:, :1400], layer=13)
            >>> text.select(model, ids, layer=13, keep=1024).kept
            (1024,)
        """
        ask = check_request(model, input_ids, attention_mask, layer, keep, scoring, protect)
        if model is not self.model:
            raise SettingError("model", "another one", "the model that read the text", "read the text with this one")
        if ask.layer != self.layer:
            raise SettingError("layer", ask.layer, f"the {self.layer} that the text was read for", "read it again")
        if scoring.rows > self.scoring.rows:
            told = f"at most the {self.scoring.rows} that the text was read for"
            raise SettingError("rows", scoring.rows, told, "read it again with this scoring")
        p = self.input_ids.shape[1]
        rows = [ids[mask] for ids, mask in zip(ask.input_ids, ask.mask, strict=True)]
        for ids in rows:
            if len(ids) <= p or not torch.equal(ids[:p], self.input_ids[0].to(ids.device)):
                allowed = f"the {p} tokens of the text and then a question"
                raise SettingError("input_ids", f"a prompt of {len(ids)} tokens", allowed, "use select for other texts")

        def work() -> Tensor:
            found = torch.full(ask.mask.shape, -torch.inf, dtype=torch.float32, device=ask.mask.device)
            parts = [self._scores(ask.layout, ids[None, p:], scoring) for ids in rows]
            found = found.to(parts[0].dtype)
            for row, part in enumerate(parts):
                found[row, ask.mask[row]] = part.to(found.device)
            return found

        found, cost = measured(ask.input_ids.device, sum(len(ids) - p for ids in rows), work)
        return ask.selection(found, cost)

    def _scores(self, layout: Layout, ids: Int[Tensor, "1 q"], scoring: Scoring) -> Float[Tensor, " n"]:
        """Scores of all tokens of the text and these after it."""

        def score(attn: nn.Module, hidden: Tensor, rotary: Rotary) -> Tensor:
            keys = torch.cat([self.keys, layout.keys(attn, hidden, rotary)], dim=2)
            tail = torch.cat([self.hidden, hidden], dim=1)
            cos, sin = (torch.cat([old, new], dim=1) for old, new in zip(self.rotary, rotary, strict=True))
            mask = torch.ones(tail.shape[:2], dtype=torch.bool, device=tail.device)
            votes = last_queries(layout, attn, tail, (cos, sin), mask, scoring.rows)
            whole = torch.ones(1, keys.shape[2], dtype=torch.bool, device=tail.device)
            return vote(layout, attn, votes, keys, whole, scoring)[0]

        return _read(layout, self.model, ids, self.layer, copied(self.cache), self.input_ids.shape[1], score)


def read_context(model: Any, input_ids: Any, *, layer: Any = "auto", scoring: Scoring | None = None) -> Context:
    """Read a text once for all questions about it: pass one of GemFilter, as far as no question changes it.

    input_ids: 1 p, how every prompt about the text begins, an introduction and the template's head included. A question
    of q tokens then costs pass one q tokens through the layers before the filter, and one product of its last queries
    with all keys; pass two is that of `generate`.

    Source: Algorithm 2 (gemfilter.algorithm2), whose layers are causal; the released code reads the text again for
    every question. Differs from selecting once without a question (`answer(..., blind=True)`): nothing is lost here.

    Raises SettingError as `select`, for a batch or padding, and for models that read a text otherwise before another
    question: rotary frequencies that follow the length of the prompt, attention in both directions.

    Example:
        >>> from featlearn.methods import gemfilter
        >>> text = read_context(model, ids[:, :1400], layer=13)
        >>> made = gemfilter.generate(model, ids, layer=13, keep=1024, choose=text.select, max_new_tokens=5)
        >>> made.first.tokens
        100
    """
    layout = layout_of(model)
    if isinstance(layer, str) and layer == "auto":
        advice = recommended(model)
        layer, scoring = advice.layer, scoring or advice.scoring
    scoring = SOFTMAX if scoring is None else scoring
    check_scoring(scoring)
    ids, mask = check_prompt(layout, model, input_ids, None)
    if len(ids) != 1 or not bool(mask.all()):
        what = f"{len(ids)} prompts" if len(ids) != 1 else "with padding"
        raise SettingError("input_ids", what, "one text without padding", "read texts one by one")
    layer = check_layer(layout, model, layer, ids.shape[1])
    changes = text_changes(model)
    if changes:
        raise SettingError("model", f"with {changes}", "a text that is read alike before every question", "use select")
    from transformers import DynamicCache

    cache = DynamicCache(config=layout.config(model))

    def keep(attn: nn.Module, hidden: Tensor, rotary: Rotary) -> tuple[Tensor, Tensor, Rotary]:
        cos, sin = (t[:, -scoring.rows :].clone() for t in rotary)
        return layout.keys(attn, hidden, rotary), hidden[:, -scoring.rows :].clone(), (cos, sin)

    (keys, hidden, rotary), cost = measured(
        ids.device, ids.shape[1], lambda: _read(layout, model, ids, layer, cache, 0, keep)
    )
    return Context(model, ids, layer, scoring, cache, keys, hidden, rotary, cost)


def text_changes(model: Any) -> str:
    """What in a model makes its reading of a text depend on what follows; "" for the usual causal decoder."""
    if any(getattr(module, "rope_type", None) in LENGTH_DEPENDENT for module in model.modules()):
        return "rotary frequencies that follow the length of the prompt"
    config = layout_of(model).config(model)
    return "attention in both directions" if getattr(config, "use_bidirectional_attention", False) else ""


def copied(cache: Any) -> Any:
    """A cache with the same entries; what grows it makes new tensors, so that the first stays as it is."""
    own = copy.copy(cache)
    own.layers = [copy.copy(layer) for layer in cache.layers]
    return own


class _ReadError(Exception):
    """Ends the forward pass at the filter layer; not an error of anyone's."""


def _read(
    layout: Layout,
    model: Any,
    ids: Int[Tensor, "1 q"],
    layer: int,
    cache: Any,
    first: int,
    made: Callable[[nn.Module, Tensor, Rotary], T],
) -> T:
    """What `made` gives for the attention of a layer and what it receives for tokens from position `first`, after
    those in the cache, which grows."""
    seen: list[T] = []

    def stop(layer: int, attn: nn.Module, hidden: Tensor, rotary: Rotary) -> None:  # noqa: ARG001
        seen.append(made(attn, hidden, rotary))
        raise _ReadError

    places = torch.arange(first, first + ids.shape[1], device=ids.device)[None]
    with watched(layout, model, [layer], stop) as seeing, undisturbed(seeing) as own, contextlib.suppress(_ReadError):
        decoder = own.get_decoder()
        decoder(input_ids=ids, position_ids=places, use_cache=True, **PLAIN_OUTPUT, **{cache_name(decoder): cache})
    return seen[0]
