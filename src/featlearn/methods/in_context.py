"""What a causal language model answers in context: scores of label words, their calibration, attention to sentences.

Any causal model of transformers will do. Prompts that begin alike (the demonstrations they share) are read once up to
where they differ: the cache of that part is copied for every batch of prompts, never cropped, since a layer with a
sliding window has forgotten what cropping would need. What is shared is found in the tokens of the whole prompts, so
that no text is cut where the tokenizer would not cut it.
"""

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError
from featlearn.errors import NotFiniteInput
from featlearn.methods.gemfilter.views import undisturbed
from featlearn.methods.kv_eviction import cache_name
from featlearn.methods.memory import device_of_model

_COPIED = ("DynamicLayer", "DynamicSlidingWindowLayer")
"""Layers of a cache that hold keys and values alone; states of other kinds are not repeated for a batch."""
_WORTH = 0.1
"""Share of the longest prompt below which what all begin with is read with each of them: a copied cache costs, too."""


def label_scores(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    labels: Sequence[str],
    *,
    batch: int = 8,
    share: bool = True,
) -> Float[Tensor, "n l"]:
    """log P(label | prompt), the sum over the label's tokens, for n prompts and l labels of any numbers of tokens.

    labels: continuations of the prompts, with the space that stands before them. Tokens that the labels of a prompt
    have in common count for none of them. batch: prompts read at a time. share: read what all prompts begin with once;
    without it every prompt is read whole, with the same result up to rounding.

    Models whose layers keep another state than keys and values read every prompt whole.

    Errors: SettingError for no prompt, an empty one where the tokenizer adds no first token, fewer than two labels,
    equal labels, a label whose tokens begin another's, a prompt longer than the model's context; NotFiniteInput where
    the model's logits are not finite.

    Example:
        >>> scores = label_scores(model, tokenizer, ["the mill stands at the"], [" river", " bridge"])
        >>> scores.shape
        torch.Size([1, 2])
    """
    if batch < 1:
        raise SettingError("batch", batch, "at least 1", "8 suits a CPU")
    wanted: dict[tuple[int, ...], list[_Wanted]] = {}  # by the tokens that are read: all but the label's last one
    for i, prompt in enumerate(_some(prompts, labels)):
        for one in _wanted(tokenizer, i, prompt, labels):
            wanted.setdefault(one.ids[:-1], []).append(one)
    check_context(model, max(map(len, wanted)) + 1)
    scores = torch.empty(len(prompts), len(labels))
    rows = sorted(wanted, key=len)
    with undisturbed(model) as own:
        cache, n = (
            _prefix(own, rows, min(w.start for some in wanted.values() for w in some) - 1) if share else (None, 0)
        )
        for k in range(0, len(rows), batch):
            part = rows[k : k + batch]
            low = min(w.start for row in part for w in wanted[row]) - 1
            logits = _logits(own, part, cache, n, low)
            for row, mine in zip(part, logits, strict=True):
                for w in wanted[row]:
                    after = mine[w.start - 1 - low : len(row) - low].float().log_softmax(-1).cpu()
                    scores[w.prompt, w.label] = after.gather(1, torch.tensor(w.ids[w.start :])[:, None]).sum()
    if not bool(torch.isfinite(scores).all()):
        raise NotFiniteInput("model", "logits that are not finite", "finite ones", "use float32 or bfloat16 weights")
    return scores


def calibrated(scores: Float[Tensor, "n l"], content_free: Float[Tensor, "m l"]) -> Float[Tensor, "n l"]:
    """Scores less what the labels get from prompts with the same demonstrations about nothing ("N/A", an empty text).

        q_l = mean over content-free prompts of softmax(scores)_l;    calibrated_l = log softmax(scores)_l - log q_l

    Source: contextual calibration (Zhao, Wallace, Feng, Klein and Singh 2021), with a diagonal matrix.
    Errors: SettingError for other numbers of labels, or no content-free prompt.

    Example:
        >>> calibrated(torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0]])).argmax().item()
        1
    """
    if content_free.ndim != 2 or not len(content_free) or content_free.shape[1:] != scores.shape[1:]:
        shape = f"(m, {scores.shape[-1]}) with m >= 1"
        raise SettingError("content_free", tuple(content_free.shape), shape, "score the same labels")
    return scores.log_softmax(-1) - content_free.softmax(-1).mean(0).log()


@dataclass(frozen=True)
class SpanAttention:
    """What the last token pays to the tokens of a span: norm, the root of the sum of squared attention probabilities
    over heads and tokens, and how many tokens there are."""

    norm: float
    tokens: int


def label_attention(
    model: Any, tokenizer: Any, text: str, spans: Sequence[tuple[int, int]]
) -> tuple[SpanAttention, ...]:
    """The attention of the last token of a text to parts of it, in the last layer over all heads.

    spans: (first, past the last) characters of each part; tokens that begin in it count. What computes attention
    eagerly, and keeps it, is a copy of the model's modules with the same weights.

    Source: icl_scale.figure5_3, which leaves the kind of norm open.
    Errors: SettingError for a span without a token, a text longer than the context, a tokenizer that does not know
    where its tokens stand, and a model that does not return attention.

    Example:
        >>> near, far = label_attention(model, tokenizer, "a dull film. It rains. bad", [(0, 12), (13, 22)])
    """
    if not getattr(tokenizer, "is_fast", False):
        raise SettingError("tokenizer", type(tokenizer).__name__, "a fast one", "load it with AutoTokenizer")
    read = tokenizer(text, return_offsets_mapping=True)
    check_context(model, len(read["input_ids"]))
    kinds = read["offset_mapping"]
    inside = [
        [t for t, (a, b) in enumerate(kinds) if b > a and low <= _begin(text, a, b) < high] for low, high in spans
    ]
    for span, tokens in zip(spans, inside, strict=True):
        if not tokens:
            raise SettingError("spans", span, f"characters 0 to {len(text)} with a token", "look where the part stands")
    ids = torch.tensor([read["input_ids"]], device=device_of_model(model))
    own = copy.deepcopy(model, {id(t): t for t in (*model.parameters(), *model.buffers())}).eval()
    own.set_attn_implementation("eager")
    with torch.inference_mode():
        found = own(ids, output_attentions=True, use_cache=False).attentions
    if not found or found[-1] is None:
        raise SettingError("model", type(model).__name__, "one that returns attention", "take a transformer")
    row = found[-1][0, :, -1].float()
    return tuple(SpanAttention(float(row[:, tokens].norm()), len(tokens)) for tokens in inside)


def _begin(text: str, a: int, b: int) -> int:
    """Where the first character of a token stands that is no white space: many tokenizers count the space to it."""
    return a + len(text[a:b]) - len(text[a:b].lstrip())


def check_context(model: Any, tokens: int) -> None:
    """Errors: SettingError for more tokens than the model's context holds."""
    most = context_of(model)
    if most is not None and tokens > most:
        allowed = f"at most the {most} of the model's context"
        raise SettingError("prompt", f"{tokens} tokens", allowed, "show fewer demonstrations, or shorter texts")


def context_of(model: Any) -> int | None:
    """Positions that a model was made for; None where its configuration does not say."""
    config = model.config.get_text_config()
    return next((n for name in ("max_position_embeddings", "n_positions") if (n := getattr(config, name, None))), None)


@dataclass(frozen=True)
class _Wanted:
    """A prompt with a label: its tokens, and the place where those of the prompt's labels begin to differ."""

    prompt: int
    label: int
    ids: tuple[int, ...]
    start: int


def _wanted(tokenizer: Any, i: int, prompt: str, labels: Sequence[str]) -> list[_Wanted]:
    ids = [tuple(tokenizer(prompt + label)["input_ids"]) for label in labels]
    start = _common(ids)
    for label, own in zip(labels, ids, strict=True):
        if len(own) == start:
            raise SettingError("labels", repr(label), "one whose tokens do not begin another's", "use other words")
    if start == 0:
        raise SettingError(
            "prompts", repr(prompt[:40]), "text before the label", "put the label's slot behind some words"
        )
    return [_Wanted(i, j, own, start) for j, own in enumerate(ids)]


def _some(prompts: Sequence[str], labels: Sequence[str]) -> Sequence[str]:
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise SettingError("labels", tuple(labels), "two different words or more", "name each class once")
    if not prompts:
        raise SettingError("prompts", (), "at least one", "give the texts to be classified")
    return prompts


def _common(ids: Sequence[tuple[int, ...]]) -> int:
    """How many tokens all begin with."""
    low, high = min(ids), max(ids)
    return next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))


def _prefix(model: Any, fed: Sequence[tuple[int, ...]], most: int) -> tuple[Any, int]:
    """The cache of what all rows begin with, at most so many tokens, and how many; (None, 0) where none can be."""
    n = min(_common(fed), most)
    if n < max(1.0, _WORTH * max(map(len, fed))):
        return None, 0
    ids = torch.tensor([fed[0][:n]], device=device_of_model(model))
    out = model(ids, use_cache=True, **_keeping(model, 1))
    cache = next((out[name] for name in ("cache", "past_key_values") if name in out), None)
    layers = getattr(cache, "layers", None)
    if not layers or any(type(layer).__name__ not in _COPIED for layer in layers):
        return None, 0
    return cache, n


def _logits(model: Any, rows: Sequence[tuple[int, ...]], cache: Any, n: int, low: int) -> Float[Tensor, "b p v"]:
    """Logits behind the positions low .. end of rows of tokens whose first n are in the cache.

    Shorter rows are filled up behind their ends, which no earlier position sees.
    """
    width = max(map(len, rows))
    ids = torch.tensor([[*row[n:], *[row[-1]] * (width - len(row))] for row in rows], device=device_of_model(model))
    own = copy.deepcopy(cache)
    if own is not None:
        own.batch_repeat_interleave(len(rows))
    where = {} if own is None else {cache_name(model): own}
    return model(ids, use_cache=own is not None, **where, **_keeping(model, width - low)).logits[:, low - width :]


def _keeping(model: Any, last: int) -> dict[str, Any]:
    """The argument that computes logits of the last positions alone, for models that know it."""
    return {"logits_to_keep": last} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}
