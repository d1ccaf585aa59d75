"""Pass two: the model's own `generate` on the tokens that pass one kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from featlearn.core import SettingError
from featlearn.errors import brief
from featlearn.methods.gemfilter.given import count_of, plain_number, whole
from featlearn.methods.gemfilter.layouts import layout_of
from featlearn.methods.gemfilter.recommended import recommended
from featlearn.methods.gemfilter.selecting import (
    SOFTMAX,
    Scoring,
    Selection,
    check_prompt,
    check_scoring,
    not_finite,
    select,
)
from featlearn.methods.memory import PassCost, measured

OURS = ("input_ids", "inputs", "inputs_embeds", "attention_mask", "position_ids", "past_key_values", "cache")
"""Arguments of `generate` that pass two sets itself."""


@dataclass(frozen=True)
class Result:
    """What came out, and what it was made from.

    sequences: what the model's `generate` returned for the kept prompt, ids of shape (b, k + t), prompt included;
    output: that return value itself, with scores and the like where return_dict_in_generate was asked for.
    kept_ids, kept_mask: b k, the prompt of pass two, padded on the left to the longest. selection: which tokens and
    why. first, second: seconds and peak memory of the passes; second includes the generation. text: decoded replies,
    kept_text: the kept tokens for people to read, one per prompt, empty without a tokenizer.
    """

    sequences: Tensor
    output: Any
    kept_ids: Int[Tensor, "b k"]
    kept_mask: Bool[Tensor, "b k"]
    selection: Selection
    first: PassCost
    second: PassCost
    text: tuple[str, ...] = ()
    kept_text: tuple[str, ...] = ()

    @property
    def new_tokens(self) -> Tensor:
        """The generated ids alone."""
        return self.sequences[:, self.kept_ids.shape[1] :]


def generate(
    model: Any,
    input_ids: Any,
    attention_mask: Any = None,
    *,
    layer: Any = "auto",
    keep: Any = 1024,
    scoring: Scoring | None = None,
    protect: Any = (0, 0),
    tokenizer: Any = None,
    choose: Callable[..., Selection] = select,
    **generate_kwargs: Any,
) -> Result:
    """Answer a long prompt from its `keep` most attended tokens: GemFilter.

    Pass one is `select`; pass two calls `model.generate` on the kept tokens, which get new positions 0..k-1, with
    every further argument passed on: sampling, beams, assistants, streamers, stopping criteria, stop strings (with the
    tokenizer), kinds of cache. max_length counts kept tokens.
    Prompts that are not longer than `keep` go to pass two as they are, and when all are, there is no pass one. A model
    in training mode keeps its dropout in pass two, as in its own `generate`; pass one has none.

    layer: the filter layer from 0, or "auto": the calibrated one of this model, else one that is known for its
    shape; scoring None goes with it. tokenizer: decodes replies and kept tokens. choose: pass one, called as `select`
    is; `functools.partial(select_chunked, offload=True)` reads very long prompts in little memory.

    Source: Algorithm 2 (gemfilter.algorithm2, gemfilter.rope_positions). The released code has its own greedy loop,
    one token longer than asked, for one prompt and one eos id at a time; here the model generates as it always does.

    Raises SettingError as `select`, for "auto" without a known layer, for arguments that pass two sets itself, and
    for logits that are not finite, which would become a reply without sense.

    Example:
        >>> result = generate(model, ids, layer=13, keep=1024, tokenizer=tokenizer, max_new_tokens=50)
        >>> result.selection.kept
        (1024,)
    """
    for name in OURS:
        if name in generate_kwargs:
            raise SettingError(name, "given", "set by pass two", "give the prompt as input_ids and attention_mask")
    layout = layout_of(model)
    watch, pad = _checked(model, tokenizer, scoring, choose, generate_kwargs)
    input_ids, mask = check_prompt(layout, model, input_ids, attention_mask, generate_kwargs)
    setting = None
    if isinstance(layer, str):
        if layer != "auto":
            raise SettingError("layer", repr(layer), 'a number from 0, or "auto"', "auto takes the calibrated layer")
        setting = recommended(model)
        layer = setting.layer
    scoring = scoring or (setting.scoring if setting else SOFTMAX)
    lengths = tuple(mask.sum(1).tolist())
    if all(count_of(keep, n) >= n for n in lengths):
        chosen = _everything(mask, layer, lengths)
    else:
        chosen = choose(model, input_ids, mask, layer=layer, keep=keep, scoring=scoring, protect=protect)
    kept_ids, kept_mask = gather(input_ids, mask, chosen.indices, pad)
    output, second = measured(
        input_ids.device,
        kept_ids.numel(),
        lambda: model.generate(kept_ids, attention_mask=kept_mask.long(), logits_processor=watch, **generate_kwargs),
    )
    sequences = output if isinstance(output, Tensor) else output.sequences
    text: tuple[str, ...] = ()
    kept_text: tuple[str, ...] = ()
    if tokenizer is not None:
        text = tuple(tokenizer.batch_decode(sequences[:, kept_ids.shape[1] :], skip_special_tokens=True))
        kept_text = tuple(
            readable(tokenizer, input_ids[row][mask[row]], chosen.indices[row].tolist()) for row in range(len(mask))
        )
    return Result(sequences, output, kept_ids, kept_mask, chosen, chosen.cost, second, text, kept_text)


def _checked(
    model: Any, tokenizer: Any, scoring: Any, choose: Any, generate_kwargs: dict[str, Any]
) -> tuple[list[Any], int]:
    """Logits processors and padding token of pass two, with its tokenizer put in; SettingError for what would fail
    only there, after the prompt was read."""
    if not callable(getattr(model, "generate", None)):
        raise SettingError("model", type(model).__name__, "a model with generate", "load it with AutoModelForCausalLM")
    if tokenizer is not None and not (hasattr(tokenizer, "decode") and hasattr(tokenizer, "batch_decode")):
        raise SettingError("tokenizer", brief(tokenizer), "a tokenizer of Transformers", "AutoTokenizer loads one")
    if scoring is not None:
        check_scoring(scoring)
    check_choose(choose)
    config = generate_kwargs.get("generation_config")
    check_config(config)
    if generate_kwargs.get("max_new_tokens") is not None:
        whole("max_new_tokens", generate_kwargs["max_new_tokens"], 1, "64 is enough for short answers")
    found = (generate_kwargs.get("stop_strings"), getattr(config, "stop_strings", None))
    found += (getattr(getattr(model, "generation_config", None), "stop_strings", None),)
    if any(stop is not None for stop in found) and tokenizer is None:
        raise SettingError("stop_strings", "without a tokenizer", "a tokenizer beside them", "give tokenizer=")
    if any(stop is not None for stop in found) or generate_kwargs.get("assistant_tokenizer") is not None:
        generate_kwargs["tokenizer"] = tokenizer  # an assistant with a tokenizer of its own needs both
    processors = generate_kwargs.pop("logits_processor", None)
    if processors is not None and not isinstance(processors, list | tuple):
        raise SettingError("logits_processor", brief(processors), "a list of them", "put it in a list")
    return [Finite(), *(processors or ())], _pad_id(model, generate_kwargs)


def check_choose(choose: Any) -> None:
    """Errors: SettingError for what cannot choose tokens."""
    if not callable(choose):
        raise SettingError("choose", brief(choose), "a function that is called as select", "select, select_chunked")


def check_config(config: Any) -> None:
    """Errors: SettingError for what is neither None nor a configuration of generation."""
    if config is not None and not (hasattr(config, "max_length") and hasattr(config, "max_new_tokens")):
        raise SettingError("generation_config", f"a {type(config).__name__}", "a GenerationConfig", "or give arguments")


class Finite:
    """A logits processor that changes nothing and refuses logits with nan or infinity; -inf bans a token, not all."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """The scores (b, v) as they are. Errors: SettingError."""
        odd = torch.isnan(scores) | torch.isposinf(scores)
        if bool(odd.any()) or bool(torch.isneginf(scores).all(-1).any()):
            raise not_finite("logits", f"after {input_ids.shape[1]} tokens of pass two")
        return scores


def gather(
    input_ids: Int[Tensor, "b n"], mask: Bool[Tensor, "b n"], indices: Sequence[Tensor], pad: int
) -> tuple[Int[Tensor, "b k"], Bool[Tensor, "b k"]]:
    """The kept ids and their mask, padded on the left to the longest."""
    k = max(len(i) for i in indices)
    ids = input_ids.new_full((len(indices), k), pad)
    kept = torch.zeros_like(ids, dtype=torch.bool)
    for row, chosen in enumerate(indices):
        ids[row, k - len(chosen) :] = input_ids[row][mask[row]][chosen]
        kept[row, k - len(chosen) :] = True
    return ids, kept


def readable(tokenizer: Any, ids: Int[Tensor, " n"], indices: Sequence[int], gap: str = " [...] ") -> str:
    """The tokens at ascending indices as text, with `gap` wherever tokens were left out."""
    runs: list[list[int]] = []
    for last, i in zip([-2, *indices], indices, strict=False):
        if i != last + 1:
            runs.append([])
        runs[-1].append(int(ids[i]))
    text = gap.join(tokenizer.decode(run) for run in runs)
    before = gap if indices and indices[0] > 0 else ""
    return before + text + (gap if indices and indices[-1] + 1 < len(ids) else "")


def _everything(mask: Tensor, layer: int, lengths: tuple[int, ...]) -> Selection:
    scores = torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -torch.inf)
    indices = tuple(torch.arange(n, device=mask.device) for n in lengths)
    return Selection(indices, scores, layer, mask, lengths, PassCost(0.0, None, 0))


def greedily(model: Any, max_new_tokens: int) -> dict[str, Any]:
    """Arguments that make `generate` take the most likely token, whatever the model's own settings of sampling are."""
    return {
        "max_new_tokens": max_new_tokens,
        "do_sample": False,
        "num_beams": 1,
        "temperature": None,
        "top_p": None,
        "top_k": None,
        "pad_token_id": _pad_id(model, {}),
    }


def _pad_id(model: Any, generate_kwargs: dict[str, Any]) -> int:
    """Any id does under the mask; the model's own shows best when someone decodes it."""
    config = getattr(model, "generation_config", None)
    candidates = [generate_kwargs.get("pad_token_id")]
    candidates += [getattr(config, "pad_token_id", None), getattr(config, "eos_token_id", None)]
    for found in candidates:
        if isinstance(found, Tensor):
            found = found.flatten().tolist()
        if isinstance(found, list | tuple):
            found = found[0] if found else None
        if found is not None:
            return whole("pad_token_id", plain_number(found), 0, "the tokenizer's pad_token_id is one")
    return 0
