"""Eviction around any `model.generate`: the prompt is read, then a part of its keys and values is kept."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from featlearn.core import SettingError
from featlearn.methods.gemfilter.blocks import CACHE, acting, call_on, prompt_of
from featlearn.methods.gemfilter.given import plain_number
from featlearn.methods.gemfilter.layout import Layout
from featlearn.methods.gemfilter.layouts import layout_of
from featlearn.methods.gemfilter.selecting import check_prompt, check_scores, last_queries, probabilities
from featlearn.methods.gemfilter.views import uncompiled, watched
from featlearn.methods.kv_eviction import (
    SCORED,
    SINKS,
    WINDOW,
    Prefilled,
    cache_name,
    check_eviction,
    evict,
    received_attention,
    stacked,
)

POLICIES = ("snapkv", "h2o", "streaming")
REFUSED = ("inputs_embeds", "position_ids", "past_key_values", "cache", "cache_implementation")
REFUSED += ("assistant_model", "prompt_lookup_num_tokens", "prefill_chunk_size", "custom_generate")


@contextlib.contextmanager
def evicting(
    model: Any,
    policy: str = "snapkv",
    *,
    budget: int = 1024,
    window: int = WINDOW,
    sinks: int = SINKS,
    pool: int = 5,
    pooling: str = "avg",
) -> Iterator[None]:
    """`model.generate(...)` as always, but once the prompt is read, `budget` entries of each layer's cache are kept.

    The settings are those of `kv_eviction.evict`. What was generated is what `prefill`, `evict` and `generate` of
    `kv_eviction` give, with the sampling, beams, streamers and stopping criteria of the model's own `generate`. Inside
    `featlearn.gemfilter.filtered`, on either side, it acts on the cache of the kept tokens: filter first, then evict.

    Shapes: prompts (b, n) of one length, since entries are counted alike for all; sequences (b, n + t).

    Only calls of the thread or task that opened the block are changed, as for `filtered`.

    Source: gemfilter.snapkv_baseline. As there, an entry is dropped once, after the prompt.

    Raises SettingError at once for settings that `evict` refuses and for a second such block on the same model; in a
    call for padding, for caches of the user's and for drafts (assistants, prompt lookup), whose tokens would be counted
    as the prompt's.

    Example:
        >>> with evicting(model, "snapkv", budget=256):
        ...     made = model.generate(ids, max_new_tokens=20, do_sample=False)
        >>> made.shape[0]
        1
    """
    if policy not in POLICIES:
        raise SettingError("policy", policy, f"one of {', '.join(POLICIES)}", "without a block everything is kept")
    budget = plain_number(budget)
    how: dict[str, Any] = {n: plain_number(v) for n, v in (("window", window), ("sinks", sinks), ("pool", pool))}
    how["pooling"] = pooling
    check_eviction(policy, budget, 1 << 62, **how)
    layout = layout_of(model)

    def act(given: dict[str, Any]) -> Any:
        config = given.get("generation_config")
        for name in REFUSED:
            if given.get(name) is not None or getattr(config, name, None) is not None:
                raise SettingError(
                    name, "given", "none in an evicting block", "leave it out, or call outside the block"
                )
        if given.get("use_cache") is False:
            raise SettingError("use_cache", False, "True in an evicting block", "leave it out")
        ids, mask = prompt_of(given)
        ids, mask = check_prompt(layout, model, ids, mask, given)
        if not bool(mask.all()):
            raise SettingError("input_ids", "with padding", "prompts of one length", "evict prompt by prompt")
        return _generate(layout, uncompiled(model), ids, given, policy, {"budget": budget, **how})

    with acting(model, CACHE, act):
        yield


def _generate(layout: Layout, model: Any, ids: Tensor, given: dict[str, Any], policy: str, how: dict[str, Any]) -> Any:
    from transformers import DynamicCache

    cache = DynamicCache(config=layout.config(model))
    scores: list[Tensor | None] = [None] * len(layout.layers(model))
    n = ids.shape[1]

    def score(layer: int, attn: nn.Module, hidden: Tensor, rotary: tuple[Tensor, Tensor]) -> None:
        if scores[layer] is None and hidden.shape[1] == n:
            scores[layer] = _scores(layout, attn, hidden, rotary, policy)

    dropped = []

    def drop(input_ids: Tensor, logits: Tensor) -> Tensor:
        """The place between the pass over the prompt and the next: a logits processor."""
        if not dropped:
            dropped.append(True)
            _evict(cache, input_ids, scores, policy, how)
        return logits

    watch = [drop, *(given.pop("logits_processor", None) or ())]
    seen = layout.global_layers(model) if policy in SCORED else []
    with watched(layout, model, seen, score) as own:
        more = {**given, cache_name(model): cache, "logits_processor": watch}
        return call_on(own, model, {"input_ids": ids, "attention_mask": torch.ones_like(ids), **more})


def _scores(layout: Layout, attn: nn.Module, hidden: Tensor, rotary: tuple[Tensor, Tensor], policy: str) -> Tensor:
    """Scores (b, g, n) of the entries of one layer, as `kv_eviction.prefill` has them for one prompt."""
    keys = layout.keys(attn, hidden, rotary)
    mask = torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device)
    if policy == "h2o":
        queries = layout.queries(attn, hidden, rotary)
        rows = range(len(hidden))
        found = torch.stack([received_attention(layout, attn, queries[i, None], keys[i, None]) for i in rows])
    else:
        votes = last_queries(layout, attn, hidden, rotary, mask, min(WINDOW, mask.shape[1]))
        by_head = probabilities(votes, keys, mask, layout.scale(attn), layout.softcap(attn))
        found = by_head.unflatten(1, (keys.shape[1], -1)).sum(2)
    check_scores(found.sum(1), mask, attn)
    return found


def _evict(cache: Any, ids: Tensor, scores: list[Tensor | None], policy: str, how: dict[str, Any]) -> None:
    """Drop entries of a cache in place, prompt by prompt."""
    import copy

    budget = how["budget"]
    rest = {name: value for name, value in how.items() if name != "budget"}
    parts = []
    for row in range(len(ids)):
        own = copy.copy(cache)
        own.layers = [copy.copy(layer) for layer in cache.layers]
        for layer in own.layers:
            layer.keys, layer.values = layer.keys[row, None], layer.values[row, None]
        found = {policy: tuple(None if s is None else s[row] for s in scores)} if policy in SCORED else {}
        parts.append(evict(Prefilled(ids[row, None], own, torch.empty(1, 0), found), policy, budget, **rest))
    for layer, kept in zip(cache.layers, stacked(parts).layers, strict=True):
        layer.keys, layer.values = kept.keys, kept.values
