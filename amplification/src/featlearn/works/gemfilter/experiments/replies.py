"""One prefill, many replies: the full cache, evicted caches and GemFilter on the same prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from featlearn.methods import gemfilter, kv_eviction
from featlearn.methods.gemfilter import RAW, SOFTMAX, Scoring, layout_of
from featlearn.methods.gemfilter.generating import greedily
from featlearn.methods.long_context import NO_PENALTIES
from featlearn.works.gemfilter.experiments.prompts import keeping, kept_at
from featlearn.works.gemfilter.rows import FULL, H2O, ONE_RUN, OURS, RAW_ROW, SNAPKV, STREAMING, Method

CACHES: dict[Method, str] = {SNAPKV: "snapkv", H2O: "h2o", STREAMING: "streaming"}
METHODS: tuple[Method, ...] = (FULL, RAW_ROW, OURS, SNAPKV, H2O, STREAMING, ONE_RUN)


@dataclass(frozen=True)
class Reply:
    """A method's text, and the tokens that it kept where it keeps one set of them."""

    text: str
    kept: Tensor | None = None


def chosen_layers(model: Any, layer: int, raw_layer: int) -> tuple[int, Scoring, int]:
    """Filter layer and scoring of GemFilter, and the layer of Algorithm 2 as reported; -1 asks for the known ones."""
    advice = gemfilter.recommended(model) if layer < 0 else None
    found, scoring = (layer, SOFTMAX) if advice is None else (advice.layer, advice.scoring)
    return found, scoring, raw_layer if raw_layer >= 0 else found


def answers(model: Any, tokenizer: Any, ids: Tensor, kept: Sequence[Tensor], max_new_tokens: int) -> list[str]:
    """Greedy replies to a prompt of n tokens cut to each choice of them, which are equally many; one batch."""
    device = model.get_input_embeddings().weight.device
    part = torch.stack([ids[k.to(ids.device)] for k in kept]).to(device)
    new = model.generate(part, attention_mask=torch.ones_like(part), **greedily(model, max_new_tokens), **NO_PENALTIES)
    return tokenizer.batch_decode(new[:, part.shape[1] :], skip_special_tokens=True)


def replies(
    model: Any,
    tokenizer: Any,
    ids: Tensor,
    protected: Tensor,
    *,
    budgets: Sequence[int],
    layer: int,
    scoring: Scoring,
    raw_layer: int,
    max_new_tokens: int,
    rows: Sequence[Method] = METHODS,
) -> dict[tuple[Method, int], Reply]:
    """(method, budget) -> reply; the full cache has the prompt's length as its budget.

    Selections come from what the filter layers received in the one prefill, which a test holds to `select`.
    """
    layout = layout_of(model)
    ids = ids.to(model.get_input_embeddings().weight.device)
    wanted = {row: policy for row, policy in CACHES.items() if row in rows}
    with keeping(layout, model, (layer, raw_layer)) as (seeing, seen):
        scored = [p for p in wanted.values() if p in kv_eviction.SCORED]
        filled = kv_eviction.prefill(seeing, ids, torch.ones_like(ids), want=scored)
    out: dict[tuple[Method, int], Reply] = {}

    def continued(cache: Any) -> list[str]:
        new = kv_eviction.generate(model, filled, cache, max_new_tokens=max_new_tokens)
        return tokenizer.batch_decode(new, skip_special_tokens=True)

    n = ids.shape[1]
    if FULL in rows:
        out[FULL, n] = Reply(continued(kv_eviction.evict(filled, "full", n))[0])
    for budget in budgets:
        ours = kept_at(layout, seen[layer], scoring, budget, protected)
        kept: dict[Method, Tensor] = {OURS: ours, RAW_ROW: kept_at(layout, seen[raw_layer], RAW, budget)}
        kept = {row: k for row, k in kept.items() if row in rows}
        texts = answers(model, tokenizer, ids[0], list(kept.values()), max_new_tokens) if kept else []
        for (row, k), text in zip(kept.items(), texts, strict=True):
            out[row, budget] = Reply(text, k)
        caches = {row: kv_eviction.evict(filled, policy, budget) for row, policy in wanted.items()}
        if ONE_RUN in rows:
            caches[ONE_RUN] = kv_eviction.evict(filled, "one_run", budget, indices=ours)
        texts = continued(kv_eviction.stacked(list(caches.values()))) if caches else []
        for row, text in zip(caches, texts, strict=True):
            out[row, budget] = Reply(text, ours if row == ONE_RUN else None)  # pyright: ignore[reportArgumentType]
    return out
