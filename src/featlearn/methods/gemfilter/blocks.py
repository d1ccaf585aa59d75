"""GemFilter around any `model.generate`: a block in which the calls of one thread or task are filtered.

While a block is open, `generate` in the model's own dictionary looks up whether the call comes from a block's thread or
task; calls from anywhere else run the model's own `generate`. The last block to close takes it away again.
"""

import contextlib
import copy
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from featlearn.core import SettingError
from featlearn.methods.gemfilter.generating import Result, check_choose, check_config, generate
from featlearn.methods.gemfilter.given import count_of, ends_of
from featlearn.methods.gemfilter.layouts import check_layer, layout_of
from featlearn.methods.gemfilter.recommended import recommended
from featlearn.methods.gemfilter.selecting import SOFTMAX, Scoring, Selection, check_prompt, check_scoring, select
from featlearn.methods.gemfilter.views import uncompiled

Act = Callable[[dict[str, Any]], Any]
"""What a block does with the arguments of a `generate`, by name."""

FILTER, CACHE = 0, 1
"""Order in which blocks of several kinds act, whichever was opened first."""
KINDS = {FILTER: "filtered", CACHE: "evicting"}


@dataclass(eq=False)
class _Block:
    model: Any
    kind: int
    act: Act
    open: bool = True


_BLOCKS: ContextVar[tuple[_Block, ...]] = ContextVar("featlearn_generate_blocks", default=())
_LOCK = threading.Lock()


class _Generate:
    """What stands in place of a model's `generate` while blocks are open."""

    def __init__(self, model: Any) -> None:
        functools.update_wrapper(self, model.generate)
        self.model, self.own, self.blocks = model, model.generate, 0
        self.replaced = "generate" in model.__dict__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        around = _BLOCKS.get()
        mine = [b for b in around if b.open and b.model is self.model]
        if not mine:
            return self.own(*args, **kwargs)
        block = min(mine, key=lambda b: b.kind)
        token = _BLOCKS.set(tuple(b for b in around if b is not block))  # the calls that it makes are for the others
        try:
            return block.act({**dict(zip(inspect.signature(self.own).parameters, args, strict=False)), **kwargs})
        finally:
            _BLOCKS.reset(token)


@contextlib.contextmanager
def acting(model: Any, kind: int, act: Act) -> Iterator[None]:
    """`model.generate(...)` in the block is act(its arguments by name), which may call it for what is left to do."""
    model = uncompiled(model)
    if any(b.open and b.model is model and b.kind == kind for b in _BLOCKS.get()):
        raise SettingError("model", f"in a {KINDS[kind]} block already", "one of a kind", "leave that block first")
    block = _Block(model, kind, act)
    with _LOCK:
        stands = model.__dict__.get("generate")
        if not isinstance(stands, _Generate):
            stands = model.__dict__["generate"] = _Generate(model)
        stands.blocks += 1
    _BLOCKS.set((*(b for b in _BLOCKS.get() if b.open), block))  # one may have been closed elsewhere
    try:
        yield
    finally:
        block.open = False
        _BLOCKS.set(tuple(b for b in _BLOCKS.get() if b is not block))
        with _LOCK:
            stands.blocks -= 1
            if not stands.blocks and model.__dict__.get("generate") is stands:
                if stands.replaced:
                    model.__dict__["generate"] = stands.own
                else:
                    del model.__dict__["generate"]


def prompt_of(given: dict[str, Any]) -> tuple[Any, Any]:
    """Ids and mask, taken out of the arguments of a `generate`."""
    ids = [given.pop(name) for name in ("inputs", "input_ids") if given.get(name) is not None]
    mask = given.pop("attention_mask", None)
    for name in ("inputs", "input_ids"):
        given.pop(name, None)
    if len(ids) != 1:
        told = "without a prompt" if not ids else "with two prompts"
        raise SettingError("generate", told, "one prompt of token ids", "give it as input_ids")
    return ids[0], mask


class Filtered:
    """What the calls in a block were filtered to.

    last: `Result` of the last call, None before the first; its selection says which tokens were kept.
    """

    last: Result | None = None


@contextlib.contextmanager
def filtered(
    model: Any,
    *,
    layer: Any = "auto",
    keep: Any = 1024,
    scoring: Scoring | None = None,
    protect: Any = (0, 0),
    choose: Callable[..., Selection] = select,
) -> Iterator[Filtered]:
    """`model.generate(...)` as always, by GemFilter: within the block it answers from the kept tokens.

    The settings are those of `generate` of the method. What the call returns begins with the whole prompt as it was
    given, so that code which cuts it off works unchanged, a pipeline of Transformers among others; `max_length` and
    `min_length` count the whole prompt too. Streamers, stopping criteria and logits processors see the kept tokens.
    Padding may stand on either side.

    Shapes: prompts (b, n) give sequences (b, n + t), or (b r, n + t) with r sequences to a prompt.

    Only calls of the thread or task that opened the block are filtered, and those of tasks and `asyncio.to_thread` that
    it starts; other threads use the model as they always do, or open blocks of their own. On the way out, also by an
    error, the model is what it was. With `evicting`, opened before or after, the prompt is filtered first.

    Raises SettingError at once for settings that no prompt could have and for a second such block on the same model;
    in a call as `generate` of the method, and for prompts that are no token ids (inputs_embeds, a cache).

    Source: Algorithm 2 (gemfilter.algorithm2).

    Example:
        >>> with filtered(model, layer=13, keep=1024) as block:
        ...     made = model.generate(ids, max_new_tokens=50, do_sample=False)
        >>> made.shape[1] > ids.shape[1], block.last.selection.kept
        (True, (1024,))
    """
    if isinstance(layer, str):
        if layer != "auto":
            raise SettingError("layer", repr(layer), 'a number from 0, or "auto"', "auto takes the calibrated layer")
        advice = recommended(model)
        layer, scoring = advice.layer, scoring or advice.scoring
    layer = check_layer(layout_of(model), model, layer, 1)
    count_of(keep, 1)
    if scoring is not None:
        check_scoring(scoring)
    check_choose(choose)
    if not hasattr(protect, "shape"):
        ends_of(protect)
    block = Filtered()
    how = {"layer": layer, "keep": keep, "scoring": scoring or SOFTMAX, "protect": protect, "choose": choose}

    def act(given: dict[str, Any]) -> Any:
        ids, mask = prompt_of(given)
        ids, mask = check_prompt(layout_of(model), model, ids, mask, given)
        lengths = mask.sum(1).tolist()
        left_out = ids.shape[1] - max(min(count_of(keep, n), n) for n in lengths)
        _shorten(uncompiled(model), given, ids.shape[1], left_out)
        block.last = generate(model, ids, mask, **how, **given)
        return _whole(ids, block.last)

    with acting(model, FILTER, act):
        yield block


def _shorten(model: Any, given: dict[str, Any], n: int, left_out: int) -> None:
    """Lengths that count the whole prompt of n tokens, as those of pass two, in place."""
    config = given.get("generation_config")
    check_config(config)
    own = getattr(model, "generation_config", None)

    def meant(name: str) -> Any:
        found = (given.get(name), getattr(config, name, None), getattr(own, name, None))
        return next((value for value in found if value is not None), None)

    changed: dict[str, int] = {}
    for name, instead in (("max_length", "max_new_tokens"), ("min_length", "min_new_tokens")):
        value = meant(name)
        if value and left_out and meant(instead) is None:
            changed[name] = max(value - left_out, 0)
    if "max_length" in changed and meant("max_length") <= n:
        asked = meant("max_length")
        raise SettingError("max_length", asked, f"above the {n} tokens of the prompt", "give max_new_tokens")
    if config is None:
        given.update(changed)
    elif changed:  # beside a config, arguments are deprecated
        given["generation_config"] = copy.deepcopy(config)
        for name, value in changed.items():
            given.pop(name, None)
            setattr(given["generation_config"], name, value)


def _whole(ids: Tensor, result: Result) -> Any:
    """The output of pass two with the whole prompts before what was generated."""
    made = result.new_tokens
    whole = torch.cat([ids.repeat_interleave(len(made) // len(ids), 0).to(made.device), made], dim=1)
    if isinstance(result.output, Tensor):
        return whole
    output = copy.copy(result.output)
    output.sequences = whole
    return output


def call_on(own: Any, model: Any, given: Mapping[str, Any]) -> Any:
    """The `generate` of a model on a copy of it that a call made, whatever blocks are open.

    Errors: SettingError for a model with a `generate` of the user's, which would run the model and not the copy.
    """
    stands = model.__dict__.get("generate")
    if isinstance(stands, _Generate) and stands.replaced:
        raise SettingError("model", "with a generate of its own", "that of its class", "take it away for this block")
    return type(own).generate(own, **given)
