"""How long a prompt will take and how much memory, from a short one that was measured."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from featlearn.core import Key
from featlearn.methods.gemfilter.layouts import layout_of
from featlearn.methods.gemfilter.views import undisturbed
from featlearn.methods.kv_eviction import cache_name
from featlearn.methods.memory import device_of_model, measured

PROBE = 384
STEPS = 4


@dataclass(frozen=True)
class Speed:
    """What a probe of `probe` tokens took, and how that grows.

    seconds: its prompt; token_seconds: one generated token after it. linear: multiply-adds per token of a layer (its
    parameters); quadratic: those per pair of tokens. base: bytes that are in use whatever the prompt, the model's
    weights above all; cache: bytes per token of keys and values; working: bytes per token beyond both while the prompt
    is read; hidden: bytes per token of hidden states. The growth assumes that all multiply-adds cost the same: an
    estimate, not a promise.
    """

    probe: int
    seconds: float
    token_seconds: float
    layers: int
    linear: float
    quadratic: float
    base: int
    cache: int
    working: float
    hidden: int = 0
    context: int | None = None

    def _work(self, tokens: int) -> float:
        return self.linear * tokens + self.quadratic * tokens * (tokens + 1) / 2

    def prompt(self, tokens: int, layers: int | None = None) -> float:
        """Seconds to read a prompt with the whole model, or with the first `layers` of it."""
        share = 1.0 if layers is None else layers / self.layers
        return share * self.seconds * self._work(tokens) / self._work(self.probe)

    def reply(self, prompt: int, tokens: int) -> float:
        """Seconds to read a prompt and write a reply of `tokens`."""
        slower = 1 + self.quadratic * prompt / self.linear
        return self.prompt(prompt) + tokens * self.token_seconds * slower

    def filtered(self, prompt: int, keep: int, tokens: int, layer: int) -> float:
        """Seconds of both passes of GemFilter, filter layer `layer` from 0."""
        if keep >= prompt:
            return self.reply(prompt, tokens)
        return self.prompt(prompt, layer + 1) + self.reply(keep, tokens)

    def peak(self, tokens: int, cached: bool = True) -> float:
        """Bytes at the peak of a prompt of this length: what is there anyway, cache and working memory."""
        return self.base + tokens * (self.working + (self.cache if cached else 0))

    def chunked_peak(self, tokens: int, chunk: int = 8192) -> float:
        """Bytes at the peak of `select_chunked`: hidden states, one layer's keys and values, working memory of a
        chunk."""
        return self.base + tokens * (self.hidden + self.cache / self.layers) + min(tokens, chunk) * self.working


def speed_of(model: Any, probe: int = PROBE) -> Speed:
    """Time a short random prompt and a few generated tokens on a loaded model."""
    from transformers import DynamicCache

    layout = layout_of(model)
    config, layers = layout.config(model), layout.layers(model)
    context = getattr(config, "max_position_embeddings", None)
    probe = min(probe, (context or probe + STEPS) - STEPS)
    device = device_of_model(model)
    ids = random_ids(model, probe, Key("tools/gemfilter/speed"))
    with undisturbed(model) as own:
        own(ids[:, :16], use_cache=False)  # the first call of all loads kernels
        cache = {cache_name(model): DynamicCache(config=config)}
        read, cost = measured(device, probe, lambda: own(ids, use_cache=True, logits_to_keep=1, **cache))

        def write() -> None:
            token = read.logits[:, -1:].argmax(-1)
            for _ in range(STEPS):
                token = own(token, use_cache=True, **cache).logits[:, -1:].argmax(-1)

        _, steps = measured(device, STEPS, write)
    per_layer = sum(p.numel() for p in layers.parameters()) / len(layers)
    attn: Any = layers[0].self_attn
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    size = model.get_input_embeddings().weight.element_size()
    heads = config.num_attention_heads
    cached = 2 * len(layers) * config.num_key_value_heads * attn.head_dim * size
    width = max(config.hidden_size + 2 * config.intermediate_size, heads * attn.head_dim * 4)
    working = float(2 * width * size)
    base = max(weights, round((cost.peak_bytes or 0) - probe * (cached + working)))
    return Speed(
        probe,
        cost.seconds,
        steps.seconds / STEPS,
        len(layers),
        per_layer,
        2.0 * heads * attn.head_dim,
        base,
        cached,
        working,
        config.hidden_size * size,
        context,
    )


def random_ids(model: Any, length: int, key: Key) -> Tensor:
    """1 n: random ids of the model's vocabulary, on its device."""
    vocabulary = model.get_input_embeddings().weight.shape[0]
    ids = torch.randint(0, vocabulary, (1, length), generator=key.torch())
    return ids.to(device_of_model(model))
