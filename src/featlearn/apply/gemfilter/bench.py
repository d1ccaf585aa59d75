"""Seconds and memory of each pass of GemFilter against the plain model, at several prompt lengths."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from featlearn.apply.gemfilter.compare import Progress
from featlearn.apply.gemfilter.speed import Speed, random_ids
from featlearn.apply.gemfilter.speed import speed_of as speed_of
from featlearn.core import Key, SettingError
from featlearn.methods.gemfilter.given import count_of
from featlearn.methods.gemfilter.layouts import check_layer, layout_of
from featlearn.methods.gemfilter.selecting import SOFTMAX, Scoring, check_prompt, select
from featlearn.methods.gemfilter.views import undisturbed
from featlearn.methods.memory import PassCost, device_of_model, measured

# name -> configuration with the sizes of a published model; weights are random
SHAPES: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": {
        "layers": 32,
        "width": 4096,
        "heads": 32,
        "groups": 8,
        "inner": 14336,
        "vocabulary": 128256,
        "context": 131072,
    },
    "smollm2-135m": {
        "layers": 30,
        "width": 576,
        "heads": 9,
        "groups": 3,
        "inner": 1536,
        "vocabulary": 49152,
        "context": 8192,
    },
    "tiny": {
        "layers": 8,
        "width": 64,
        "heads": 4,
        "groups": 2,
        "inner": 192,
        "vocabulary": 512,
        "context": 8192,
    },
}


@dataclass(frozen=True)
class Timing:
    """One prompt length.

    plain, first, second: the whole model on the prompt, pass one on it, the whole model on what is kept; medians over
    repeats of seconds, largest peak. ratio: plain / (first + second). share: layers that pass one begins / layers, so
    that 1 / share is the most that leaving layers out can bring; reported_bound: m / r of Theorem 9.3 with r counted
    from 0 as reported.
    """

    tokens: int
    keep: int
    plain: PassCost
    first: PassCost
    second: PassCost
    share: float
    reported_bound: float | None

    @property
    def ratio(self) -> float:
        """How many times faster both passes together are."""
        return self.plain.seconds / (self.first.seconds + self.second.seconds)

    @property
    def first_share(self) -> float:
        """Pass one over plain, to be set beside `share`."""
        return self.first.seconds / self.plain.seconds


def random_model(shape: str, *, dtype: str = "float32", device: str = "cpu", key: Key | None = None) -> Any:
    """A Llama of a shape in SHAPES with random weights."""
    check_shape(shape)
    from transformers import LlamaConfig, LlamaForCausalLM

    s = SHAPES[shape]
    config = LlamaConfig(
        num_hidden_layers=s["layers"],
        hidden_size=s["width"],
        num_attention_heads=s["heads"],
        num_key_value_heads=s["groups"],
        intermediate_size=s["inner"],
        vocab_size=s["vocabulary"],
        max_position_embeddings=s["context"],
        dtype=dtype,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model = model.to(getattr(torch, dtype)).to_empty(device=device)
    generator = (key or Key("tools/gemfilter/bench")).torch(device)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.02, generator=generator)
    rotary: Any = type(model.model.rotary_emb)  # its frequencies are no parameters and were left empty
    model.model.rotary_emb = rotary(config=config).to(device)
    model.tie_weights()
    return model.eval()


def check_shape(shape: str) -> None:
    """Refuse a shape that is not known."""
    if shape not in SHAPES:
        raise SettingError("shape", shape, f"one of {', '.join(SHAPES)}", "or name a model instead")


def bench(
    model: Any,
    lengths: Sequence[int],
    *,
    keep: int | float = 256,
    layer: int,
    scoring: Scoring = SOFTMAX,
    repeats: int = 3,
    progress: Progress | None = None,
) -> tuple[Timing, ...]:
    """Time random prompts through the plain model and through both passes, in turns so that a busy machine is fair.

    Raises SettingError, before any work, for lengths that are empty, beyond the context or not above `keep`, and for
    a layer that cannot filter.

    Example:
        >>> [t.ratio > 0 for t in bench(model, (512, 1024), keep=256, layer=18)]
        [True, True]
    """
    layout = layout_of(model)
    check_lengths(lengths, keep, repeats)
    layer = check_layer(layout, model, layer, max(lengths))
    prompts = [random_ids(model, n, Key("tools/gemfilter/bench") / n) for n in lengths]
    for ids in prompts:
        check_prompt(layout, model, ids, torch.ones_like(ids))
    total, out = len(layout.layers(model)), []
    with undisturbed(model) as own:
        own(prompts[0][:, :16], use_cache=False)
    for i, ids in enumerate(prompts):
        costs: tuple[list[PassCost], ...] = ([], [], [])
        for repeat in range(repeats):
            costs[0].append(prefill(model, ids))
            chosen = select(model, ids, torch.ones_like(ids), layer=layer, keep=keep, scoring=scoring)
            costs[1].append(chosen.cost)
            costs[2].append(prefill(model, ids[:, chosen.indices[0]]))
            if progress:
                progress(i * repeats + repeat + 1, len(prompts) * repeats)
        plain, first, second = map(_middle, costs)
        bound = total / layer if layer else None
        out.append(Timing(ids.shape[1], count_of(keep, ids.shape[1]), plain, first, second, (layer + 1) / total, bound))
    return tuple(out)


def check_lengths(lengths: Sequence[int], keep: int | float, repeats: int = 1) -> None:
    """Refuse lengths that nothing can be measured at."""
    if not lengths or min(lengths) < 32:
        raise SettingError("lengths", tuple(lengths), "token counts of at least 32", "1024,2048,4096 is usual")
    if count_of(keep, min(lengths)) >= min(lengths):
        raise SettingError("keep", keep, f"less than the shortest length {min(lengths)}", "keep fewer tokens")
    if repeats < 1:
        raise SettingError("repeats", repeats, "at least 1", "3 is the default")


def prefill(model: Any, ids: Tensor) -> PassCost:
    """What reading a prompt (1, n) takes: all layers, the cache filled, logits of the last token."""
    with undisturbed(model) as own:
        _, cost = measured(device_of_model(model), ids.shape[1], lambda: own(ids, use_cache=True, logits_to_keep=1))
    return cost


def _middle(costs: Sequence[PassCost]) -> PassCost:
    peaks = [c.peak_bytes for c in costs if c.peak_bytes is not None]
    return PassCost(statistics.median(c.seconds for c in costs), max(peaks, default=None), costs[0].tokens)


def expected(speed: Speed, lengths: Sequence[int], keep: int | float, layer: int, repeats: int) -> tuple[float, float]:
    """Seconds and bytes at the peak that `bench` will need."""
    seconds = sum(speed.prompt(n) + speed.prompt(n, layer + 1) + speed.prompt(count_of(keep, n)) for n in lengths)
    return repeats * seconds, speed.peak(max(lengths))
