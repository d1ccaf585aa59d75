"""The rivals of GemFilter: read the whole prompt once, then keep a part of the keys and values (SnapKV, H2O, ...).

One prefill serves any number of policies and budgets. Entries keep the positions they had in the prompt, so the next
token has position n whatever is left; each group of query heads has one set of entries per layer, never repeated.
"""

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featlearn.core import SettingError
from featlearn.methods.gemfilter.given import whole
from featlearn.methods.gemfilter.layout import Layout
from featlearn.methods.gemfilter.layouts import layout_of
from featlearn.methods.gemfilter.selecting import (
    POOLINGS,
    check_prompt,
    check_scores,
    finite_or_nan,
    last_queries,
    not_finite,
    probabilities,
)
from featlearn.methods.gemfilter.views import PLAIN_OUTPUT, undisturbed, watched
from featlearn.methods.memory import device_of_model

POLICIES = ("full", "snapkv", "h2o", "streaming", "one_run")
SCORED = ("snapkv", "h2o")
"""Policies that need scores from the prefill: name them in `want`."""
WINDOW, SINKS, QUERIES = 32, 4, 256
ENTRIES = 1 << 26
"""Attention probabilities held at a time, over all heads: long prompts get blocks of fewer than QUERIES queries."""


@dataclass(frozen=True)
class Prefilled:
    """A prompt that was read once.

    input_ids: 1 n; cache: all keys and values, left intact by `evict`; logits: 1 v, of the first new token; scores:
    policy -> per layer the score of each entry (g n), None for layers with a window, whose caches stay as they are.
    """

    input_ids: Int[Tensor, "1 n"]
    cache: Any
    logits: Float[Tensor, "1 v"]
    scores: Mapping[str, tuple[Tensor | None, ...]] = field(default_factory=dict)


def prefill(
    model: Any, input_ids: Tensor, attention_mask: Tensor | None = None, *, want: Sequence[str] = ()
) -> Prefilled:
    """Run the model over a prompt; collect on the way what the policies in `want` score entries by.

    snapkv: attention probabilities of the last 32 queries, summed over them (gemfilter.snapkv_baseline). h2o: the
    attention that each entry receives from all queries, in blocks of queries so that no n x n matrix is held. Scores
    of the query heads of a group are added, since they share their entry.

    Errors: SettingError for a batch of more than one prompt, for padding, by the mask or as `gemfilter.select` infers
    it, for bad ids as there, and for scores that are not finite.
    """
    layout = layout_of(model)
    for name in want:
        if name not in SCORED:
            raise SettingError("want", name, f"among {', '.join(SCORED)}", "other policies need no scores")
    if input_ids.ndim == 2 and input_ids.shape[0] != 1:
        raise SettingError("input_ids", f"{input_ids.shape[0]} prompts", "one prompt", "evict prompt by prompt")
    input_ids, mask = check_prompt(layout, model, input_ids, attention_mask)
    if not bool(mask.all()):
        remedy = "leave the padding out, or give a mask of ones if these tokens are text"
        raise SettingError("input_ids", "with padding", "one prompt without padding", remedy)
    found: dict[str, list[Tensor | None]] = {name: [None] * len(layout.layers(model)) for name in want}

    def score(layer: int, attn: nn.Module, hidden: Tensor, rotary: tuple[Tensor, Tensor]) -> None:
        keys = layout.keys(attn, hidden, rotary)
        if "snapkv" in found:
            votes = last_queries(layout, attn, hidden, rotary, mask, min(WINDOW, mask.shape[1]))
            by_head = probabilities(votes, keys, mask, layout.scale(attn), layout.softcap(attn))
            found["snapkv"][layer] = by_head[0].unflatten(0, (keys.shape[1], -1)).sum(1)
        if "h2o" in found:
            found["h2o"][layer] = received_attention(layout, attn, layout.queries(attn, hidden, rotary), keys)
        for scores in (values[layer] for values in found.values()):
            if scores is not None:
                check_scores(scores.sum(0, keepdim=True), mask, attn)

    scored = layout.global_layers(model) if want else []
    with watched(layout, model, scored, score) as seeing, undisturbed(seeing) as own:
        out = own(input_ids, use_cache=True, logits_to_keep=1, **PLAIN_OUTPUT)
    scores = {name: tuple(values) for name, values in found.items()}
    return Prefilled(input_ids, cache_of(out), out.logits[:, -1], scores)


def received_attention(
    layout: Layout, attn: nn.Module, queries: Float[Tensor, "1 h n d"], keys: Float[Tensor, "1 g n d"]
) -> Float[Tensor, "g n"]:
    """sum over queries i >= j and over the heads of a group of the attention probability p_ij, by blocks of queries."""
    n, groups, scale, cap = keys.shape[2], keys.shape[1], layout.scale(attn), layout.softcap(attn)
    wide = torch.promote_types(keys.dtype, torch.float32)
    total = torch.zeros(groups, n, dtype=wide, device=keys.device)
    by_group = queries[0].unflatten(0, (groups, -1))
    rows = max(1, min(QUERIES, ENTRIES // (queries.shape[1] * n)))
    for first in range(0, n, rows):
        last = min(first + rows, n)
        logits = (by_group[:, :, first:last] @ keys[0, :, None, :last].transpose(2, 3)).to(wide).mul_(scale)
        logits = finite_or_nan(logits)
        if cap is not None:
            logits = torch.tanh(logits / cap) * cap
        later = torch.ones(last - first, last - first, dtype=torch.bool, device=keys.device).triu(1)
        logits[..., first:].masked_fill_(later, -torch.inf)
        total[:, :last] += torch.softmax(logits, dim=-1).sum((1, 2))
    return total


def evict(
    prefilled: Prefilled,
    policy: str,
    budget: int,
    *,
    window: int = WINDOW,
    sinks: int = SINKS,
    pool: int = 5,
    pooling: str = "avg",
    indices: Tensor | None = None,
) -> Any:
    """A cache with at most `budget` entries per layer and group of heads; `prefilled` stays as it is.

    full: everything. snapkv: the last `window` entries and the best of the others by pooled scores, per group.
    h2o: the last `window` and those that received most attention; evicted once, after the prompt, as the reported
    experiments do. streaming: the first `sinks` and the last entries. one_run: the entries at `indices`, the same in
    every layer (gemfilter.figG_4). Layers with a window of their own stay whole.

    window: entries at the end that stay; the queries that score for snapkv are the last 32 whatever it is. pool: odd.

    Errors: SettingError for an unknown policy, a budget that does not hold the window or the sinks, senseless widths,
    scores that the prefill was not asked for, indices that are no distinct positions of the prompt or above budget.

    Example:
        >>> filled = prefill(model, ids, want=("snapkv",))
        >>> generate(model, filled, evict(filled, "snapkv", 256), max_new_tokens=20).shape[0]
        1
    """
    n = prefilled.input_ids.shape[1]
    check_eviction(policy, budget, n, window=window, sinks=sinks, pool=pool, pooling=pooling)
    if policy in SCORED and policy not in prefilled.scores:
        raise SettingError(
            "policy",
            policy,
            f"among the scored {', '.join(prefilled.scores) or 'none'}",
            f'call prefill with want=("{policy}",)',
        )
    if policy == "one_run":
        _check_indices(indices, budget, n)
    cache = copy.copy(prefilled.cache)
    cache.layers = [copy.copy(layer) for layer in prefilled.cache.layers]
    if policy == "full" or (budget >= n and policy != "one_run"):
        return cache
    for i, layer in enumerate(cache.layers):
        if getattr(layer, "is_sliding", False):
            continue
        groups, device = layer.keys.shape[1], layer.keys.device
        if policy == "one_run":
            assert indices is not None
            kept = indices.to(device).expand(groups, -1)
        elif policy == "streaming":
            first = torch.arange(sinks, device=device)
            kept = torch.cat([first, torch.arange(n - budget + sinks, n, device=device)]).expand(groups, -1)
        else:
            scored = prefilled.scores[policy][i]
            assert scored is not None
            kept = _best(scored, budget, window, pool, pooling if policy == "snapkv" else "none")
        at = kept[None, :, :, None].expand(-1, -1, -1, layer.keys.shape[-1])
        layer.keys = layer.keys.gather(2, at)
        layer.values = layer.values.gather(2, kept[None, :, :, None].expand(-1, -1, -1, layer.values.shape[-1]))
    return cache


def check_eviction(
    policy: str,
    budget: int,
    n: int,
    *,
    window: int = WINDOW,
    sinks: int = SINKS,
    pool: int = 5,
    pooling: str = "avg",
) -> None:
    """SettingError where `evict` would refuse these settings for n tokens: call it before a long prefill."""
    if policy not in POLICIES:
        raise SettingError("policy", policy, f"one of {', '.join(POLICIES)}", "full keeps everything")
    if pooling not in POOLINGS:
        raise SettingError("pooling", pooling, f"one of {', '.join(POOLINGS)}", "avg is what was released")
    pool = whole("pool", pool, 1, "5 is the reported width")
    if pool % 2 == 0:
        raise SettingError("pool", pool, "an odd width of at least 1", "5 is the reported one")
    window, sinks = (whole(n, v, 0, "0 reserves nothing") for n, v in (("window", window), ("sinks", sinks)))
    budget = whole("budget", budget, 1, "1024 is the reported one")
    reserved = {"snapkv": window, "h2o": window, "streaming": sinks}.get(policy, 0)
    if budget <= reserved and budget < n:
        raise SettingError("budget", budget, f"above the {reserved} entries that {policy} always keeps", "raise it")


def _check_indices(indices: Tensor | None, budget: int, n: int) -> None:
    if indices is None:
        raise SettingError("indices", None, "the kept positions", "take them from gemfilter.select")
    if indices.ndim != 1 or indices.is_floating_point() or indices.dtype == torch.bool:
        shown = f"{indices.dtype} {list(indices.shape)}"
        raise SettingError("indices", shown, "whole numbers of shape k", "one set serves all layers and heads")
    if not 1 <= len(indices) <= budget:
        raise SettingError("indices", f"{len(indices)} positions", f"1 to the budget of {budget}", "choose others")
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= n:
        raise SettingError("indices", low if low < 0 else high, f"0 to {n - 1}", "take them from the same prompt")
    if len(indices.unique()) < len(indices):
        raise SettingError("indices", "with repeats", "distinct positions", "an entry kept twice counts twice")


def _best(scored: Float[Tensor, "g n"], budget: int, window: int, pool: int, pooling: str) -> Int[Tensor, "g k"]:
    """The last `window` positions and the best others, ascending; equal scores go to the earlier one."""
    n = scored.shape[1]
    old = scored[:, : n - window]
    if pooling == "avg":
        old = nn.functional.avg_pool1d(old[:, None], pool, 1, pool // 2)[:, 0]
    elif pooling == "max":
        old = nn.functional.max_pool1d(old[:, None], pool, 1, pool // 2)[:, 0]
    best = torch.sort(old, dim=1, descending=True, stable=True).indices[:, : budget - window].sort(1).values
    recent = torch.arange(n - window, n, device=scored.device).expand(len(scored), -1)
    return torch.cat([best, recent], dim=1)


def stacked(caches: Sequence[Any]) -> Any:
    """Evicted caches of one prompt as a batch, so that each step reads the weights once for all of them.

    Errors: SettingError where their layers do not hold equally many entries.
    """
    together = copy.copy(caches[0])
    together.layers = [copy.copy(layer) for layer in caches[0].layers]
    for i, layer in enumerate(together.layers):
        sizes = {c.layers[i].keys.shape[2] for c in caches}
        if len(sizes) > 1:
            raise SettingError("caches", sorted(sizes), "equally many entries", "stack policies of one budget")
        layer.keys = torch.cat([c.layers[i].keys for c in caches])
        layer.values = torch.cat([c.layers[i].values for c in caches])
    return together


def generate(
    model: Any,
    prefilled: Prefilled,
    cache: Any,
    *,
    max_new_tokens: int,
    eos_token_id: int | Sequence[int] | None = None,
) -> Int[Tensor, "b t"]:
    """The most likely tokens after the prompt, at positions n, n + 1, ..., from an evicted cache.

    One row per batch entry of the cache (see `stacked`), which stays as it is. A row ends with a token of eos_token_id
    (by default those of the model's generation config) and repeats it until the others end; t is at most
    max_new_tokens. Logits are used as they are: what a generation config does to them is not applied.
    """
    if isinstance(max_new_tokens, bool) or max_new_tokens < 1:
        raise SettingError("max_new_tokens", max_new_tokens, "at least 1", "50 is the reported one")
    if eos_token_id is None:
        eos_token_id = model.generation_config.eos_token_id
    stop = [eos_token_id] if isinstance(eos_token_id, int) else list(eos_token_id or ())
    device, place = device_of_model(model, prefilled.input_ids.device), prefilled.input_ids.shape[1]
    cache = copy.copy(cache)
    cache.layers = [copy.copy(layer) for layer in cache.layers]  # growing makes new tensors: the caller's stays
    rows = cache.layers[0].keys.shape[0]
    token = _likeliest(prefilled.logits).expand(rows, 1).to(device)
    ends, name, found = torch.tensor(stop, device=device, dtype=token.dtype), cache_name(model), [token]
    with undisturbed(model) as own:
        while len(found) < max_new_tokens and not bool(torch.isin(token, ends).all()):
            places = torch.full((rows, 1), place, device=device)
            step = own(token, position_ids=places, use_cache=True, **{name: cache})
            new = _likeliest(step.logits[:, -1])
            token, place = torch.where(torch.isin(token, ends), token, new), place + 1
            found.append(token)
    return torch.cat(found, dim=1).to(prefilled.input_ids.device)


def _likeliest(logits: Float[Tensor, "b v"]) -> Int[Tensor, "b 1"]:
    if not bool(torch.isfinite(logits).all()):
        raise not_finite("logits", "after the prompt or a new token")
    return logits.argmax(-1, keepdim=True)


def kv_bytes(cache: Any) -> int:
    """Bytes of all keys and values that are alive in a cache."""
    tensors = [t for layer in cache.layers for t in (layer.keys, layer.values)]
    return sum(t.numel() * t.element_size() for t in tensors)


def cache_of(output: Any) -> Any:
    """The cache in a model's output, by its newer or older name."""
    return output["cache"] if "cache" in output else output["past_key_values"]


def cache_name(model: Any) -> str:
    """What the model's forward calls its cache: transformers renamed it in the course of version 5."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
