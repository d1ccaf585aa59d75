"""One long prompt answered by any of the methods, at one budget and with one way of measuring."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from featlearn.core import SettingError
from featlearn.methods import kv_eviction
from featlearn.methods.gemfilter.generating import generate, greedily
from featlearn.methods.gemfilter.given import count_of
from featlearn.methods.gemfilter.layouts import layout_of
from featlearn.methods.gemfilter.recommended import recommended
from featlearn.methods.gemfilter.selecting import RAW, SOFTMAX, best, check_prompt, check_request, score_layer
from featlearn.methods.gemfilter.views import watched
from featlearn.methods.memory import measured

METHODS = ("full", "gemfilter", "gemfilter_raw", "snapkv", "h2o", "streaming", "one_run")
# A generation config may punish repetition, which would count for the method that goes through `generate` alone.
NO_PENALTIES: Mapping[str, Any] = MappingProxyType({"repetition_penalty": 1.0, "no_repeat_ngram_size": 0})
_SELECTING = ("gemfilter", "gemfilter_raw", "one_run")

# Rivals of other projects: what they are, and why their last releases (0.2.2, 0.1.6) cannot run beside transformers 5,
# which is the oldest that this package takes. The first was tried, the second read.
PEERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "llmlingua": (
            "prompt compression by a small language model",
            "it unpacks the cache into pairs of keys and values, which transformers 5 no longer gives",
        ),
        "minference": (
            "sparse attention patterns for the prompt phase, on CUDA",
            "its attention takes the cache by an argument name that transformers 5 no longer passes",
        ),
    }
)


@dataclass(frozen=True)
class Answer:
    """A reply and what it took.

    kept: prompt tokens, or cache entries per layer and group of heads, that the reply was made from. seconds_prompt:
    reading the prompt and choosing (GemFilter: pass one); seconds_generate: all that follows (GemFilter: pass two, its
    short prompt included). peak_bytes: the most memory in use over both, None where it cannot be measured. cut: the
    reply has all tokens it was allowed and did not end.
    """

    text: str
    kept: int
    seconds_prompt: float
    seconds_generate: float
    peak_bytes: int | None
    cut: bool = False


def answer(
    model: Any,
    tokenizer: Any,
    input_ids: Tensor,
    *,
    method: str,
    budget: int | float,
    max_new_tokens: int,
    layer: int | str = "auto",
    protect: tuple[int, int] | Tensor = (0, 0),
) -> Answer:
    """Greedy reply to a prompt of shape (1, n) by one of METHODS, keeping `budget` tokens or entries.

    full: everything. gemfilter, gemfilter_raw: two passes, with the scoring of `layer="auto"` and as reported.
    snapkv, h2o, streaming: the whole prompt is read, then entries are evicted. one_run: as they, with the tokens that
    gemfilter chooses, found in the same pass (gemfilter.figG_4). protect counts for gemfilter and one_run only.
    Every method takes the most likely token: penalties on repetition in a generation config are off for all.

    Errors: SettingError for an unknown method and as the method's own function.

    Example:
        >>> answer(model, tokenizer, ids, method="snapkv", budget=256, max_new_tokens=20).text[:0]
        ''
    """
    if method not in METHODS:
        raise SettingError("method", method, f"one of {', '.join(METHODS)}", "full is the model as it is")
    if isinstance(layer, str) and layer != "auto":
        raise SettingError("layer", repr(layer), 'a number from 0, or "auto"', "auto takes the calibrated layer")
    input_ids, mask = check_prompt(layout_of(model), model, input_ids, torch.ones_like(input_ids))
    if len(input_ids) != 1:
        raise SettingError("input_ids", f"{len(input_ids)} prompts", "one prompt", "answer prompt by prompt")
    n, device = input_ids.shape[1], input_ids.device
    count = min(n, count_of(budget, n))
    advice = recommended(model) if layer == "auto" and method in _SELECTING else None
    scoring = RAW if method == "gemfilter_raw" else advice.scoring if advice else SOFTMAX
    at: Any = advice.layer if advice else layer
    if isinstance(max_new_tokens, bool) or max_new_tokens < 1:
        raise SettingError("max_new_tokens", max_new_tokens, "at least 1", "50 is the reported one")
    if method.startswith("gemfilter"):
        kept_anyway = (0, 0) if method == "gemfilter_raw" else protect
        result = generate(
            model,
            input_ids,
            mask,
            layer=at,
            keep=count,
            scoring=scoring,
            protect=kept_anyway,
            tokenizer=tokenizer,
            **greedily(model, max_new_tokens),
            **NO_PENALTIES,
        )
        peaks = [p for p in (result.first.peak_bytes, result.second.peak_bytes) if p is not None]
        return Answer(
            result.text[0],
            result.selection.kept[0],
            result.first.seconds,
            result.second.seconds,
            max(peaks, default=None),
            _is_cut(model, result.new_tokens, max_new_tokens),
        )
    kept = n if method == "full" else count
    kv_eviction.check_eviction(method, kept, n)
    want = (method,) if method in kv_eviction.SCORED else ()
    if method == "one_run":
        try:
            ask = check_request(model, input_ids, mask, at, count, scoring, protect)
        except SettingError as e:  # what it calls keep is the budget here
            raise SettingError("budget", budget, e.allowed, e.remedy) if e.field == "keep" else e from None
        found: list[Tensor] = []

        def score(layer: int, attn: nn.Module, hidden: Tensor, rotary: tuple[Tensor, Tensor]) -> None:  # noqa: ARG001
            found.append(score_layer(ask.layout, attn, hidden, rotary, ask.mask, scoring))

        def read() -> tuple[kv_eviction.Prefilled, Any]:
            with watched(ask.layout, model, [ask.layer], score) as seeing:
                filled = kv_eviction.prefill(seeing, input_ids, mask)
            [chosen] = best(found[0], ask.mask, ask.protected, ask.counts)
            return filled, kv_eviction.evict(filled, method, count, indices=chosen)
    else:

        def read() -> tuple[kv_eviction.Prefilled, Any]:
            filled = kv_eviction.prefill(model, input_ids, mask, want=want)
            return filled, kv_eviction.evict(filled, method, kept)

    (filled, cache), first = measured(device, n, read)
    new, second = measured(
        device, max_new_tokens, lambda: kv_eviction.generate(model, filled, cache, max_new_tokens=max_new_tokens)
    )
    text = tokenizer.decode(new[0], skip_special_tokens=True)
    peaks = [p for p in (first.peak_bytes, second.peak_bytes) if p is not None]
    cut = _is_cut(model, new, max_new_tokens)
    return Answer(text, kept, first.seconds, second.seconds, max(peaks, default=None), cut)


def _is_cut(model: Any, new: Tensor, max_new_tokens: int) -> bool:
    """Whether a reply (1, t) stopped at the limit and not at an end token."""
    ends = model.generation_config.eos_token_id
    stops = [ends] if isinstance(ends, int) else list(ends or ())
    return new.shape[1] >= max_new_tokens and int(new[0, -1]) not in stops


def peers() -> dict[str, str]:
    """Rival packages by name, and why each cannot run here, in one line."""
    return {
        name: f"{'' if importlib.util.find_spec(name) else 'not installed, and '}{why} ({about})"
        for name, (about, why) in PEERS.items()
    }
