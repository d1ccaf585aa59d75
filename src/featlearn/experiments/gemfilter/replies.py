"""One prefill, many replies: the full cache, evicted caches and GemFilter on the same prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from featlearn.experiments.gemfilter.prompts import kept_at, watching
from featlearn.methods import gemfilter, kv_eviction
from featlearn.methods.gemfilter import RAW, SOFTMAX, Scoring, layout_of

FULL, RAW_ROW, OURS, ONE_RUN = "Full cache", "GemFilter raw", "GemFilter", "One run"
CACHES = {"SnapKV": "snapkv", "H2O": "h2o", "Streaming": "streaming"}
ROWS = (FULL, RAW_ROW, OURS, *CACHES, ONE_RUN)


@dataclass(frozen=True)
class Reply:
    """A method's text, and the tokens that it kept where it keeps one set of them."""

    text: str
    kept: Tensor | None = None


def chosen_layers(model: Any, layer: int, raw_layer: int) -> tuple[int, Scoring, int]:
    """Filter layer and scoring of GemFilter, and the layer of Algorithm 2 as printed; -1 asks for the known ones."""
    advice = gemfilter.recommended(model) if layer < 0 else None
    found, scoring = (layer, SOFTMAX) if advice is None else (advice.layer, advice.scoring)
    return found, scoring, raw_layer if raw_layer >= 0 else found


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
    rows: Sequence[str] = ROWS,
) -> dict[tuple[str, int], Reply]:
    """(method, budget) -> reply; the full cache has the prompt's length as its budget.

    Selections come from what the filter layers received in the one prefill, which a test holds to `select`.
    """
    layout = layout_of(model)
    ids = ids.to(model.get_input_embeddings().weight.device)
    wanted = {row: policy for row, policy in CACHES.items() if row in rows}
    with watching(layout, model, (layer, raw_layer)) as seen:
        filled = kv_eviction.prefill(model, ids, want=tuple(wanted.values()))
    out: dict[tuple[str, int], Reply] = {}

    def decode(new: Tensor) -> str:
        return tokenizer.decode(new[0], skip_special_tokens=True)

    def continued(policy: str, budget: int, **more: Any) -> str:
        cache = kv_eviction.evict(filled, policy, budget, **more)
        return decode(kv_eviction.generate(model, filled, cache, max_new_tokens=max_new_tokens))

    def again(kept: Tensor) -> str:
        part = ids[:, kept.to(ids.device)]
        new = model.generate(part, attention_mask=torch.ones_like(part), max_new_tokens=max_new_tokens, do_sample=False)
        return decode(new[:, part.shape[1] :])

    n = ids.shape[1]
    if FULL in rows:
        out[FULL, n] = Reply(continued("full", n))
    for budget in budgets:
        ours = kept_at(layout, seen[layer], scoring, budget, protected)
        if RAW_ROW in rows:
            raw = kept_at(layout, seen[raw_layer], RAW, budget)
            out[RAW_ROW, budget] = Reply(again(raw), raw)
        if OURS in rows:
            out[OURS, budget] = Reply(again(ours), ours)
        for row, policy in wanted.items():
            out[row, budget] = Reply(continued(policy, budget))
        if ONE_RUN in rows:
            out[ONE_RUN, budget] = Reply(continued("one_run", budget, indices=ours), ours)
    return out
