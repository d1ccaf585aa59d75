"""Pass one for very long prompts: an own loop over layers and chunks of rows, in little memory.

The model's own forward holds several activations of all n rows. Here one buffer of n x e is updated in place, keys and
values of one layer are alive at a time, and everything else is as long as a chunk. Bytes on the device for the shape of
Llama 3.1 8B in bf16 (e 4096, MLP 14336, 32 query and 8 key heads of 128), layer 13, n = 131072, chunk 8192:

    13 layers of weights        13 * 218 112 000 * 2         5.28 GiB
    norm, queries, keys of 13   (4096 + 5120 * 4096) * 2     0.04
    embedding                   128 256 * 4096 * 2           0.98
    hidden states               n * 4096 * 2                 1.00
    keys and values             n * 2 * 1024 * 2             0.50
    rotary cos and sin          n * 2 * 128 * 2              0.06
    chunk                       8192 * (3 * 14336 + 3 * 4096) * 2      0.84  (gate, up, product; residual, norm, output)
    or scores                   32 heads * 16 rows * n * 4 * 3         0.75  (after the last chunk)
                                                             8.7  GiB with offload; + 8.74 GiB of weights without

`benchmarks/gemfilter.py` measures it.
"""

import time
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featlearn.core import SettingError
from featlearn.methods.gemfilter.chunked_attention import SinksAndWindow as SinksAndWindow
from featlearn.methods.gemfilter.chunked_attention import attend
from featlearn.methods.gemfilter.given import ends_of, whole
from featlearn.methods.gemfilter.layout import Layout, rotate
from featlearn.methods.gemfilter.offload import offloaded_for_filter as offloaded_for_filter
from featlearn.methods.gemfilter.offload import read_by_filter
from featlearn.methods.gemfilter.selecting import (
    SOFTMAX,
    Scoring,
    Selection,
    check_request,
    last_queries,
    vote,
)
from featlearn.methods.gemfilter.views import uncompiled, undisturbed
from featlearn.methods.memory import PassCost, measured

PLAIN = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
SANDWICH = PLAIN | {"pre_feedforward_layernorm", "post_feedforward_layernorm"}
LAYERS = {
    "gemma": PLAIN,
    "gemma2": SANDWICH,
    "gemma3": SANDWICH,
    "gemma3_text": SANDWICH,
    "llama": PLAIN,
    "mistral": PLAIN,
    "phi3": PLAIN,
    "qwen2": PLAIN,
    "qwen3": PLAIN,
    "smollm3": PLAIN,
}
"""The parts of a decoder layer that the loop runs: norms before attention and MLP, or before and after them."""
ATTENTION = {"q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj", "q_norm", "k_norm"}


def select_chunked(
    model: Any,
    input_ids: Any,
    attention_mask: Any = None,
    *,
    layer: Any,
    keep: Any,
    scoring: Scoring = SOFTMAX,
    protect: Any = (0, 0),
    chunk: int = 8192,
    attention: str | SinksAndWindow = "full",
    offload: bool = False,
) -> Selection:
    """As `select`, in the memory of a chunk and one layer's keys and values; for prompts of many thousand tokens.

    The same scores to rounding, from an own loop over the layers before `layer`: prompts of a batch go one by one,
    without their padding. Forward hooks on whole layers are not called; those on their linear maps and norms are.

    chunk: rows at a time through projections and MLP. attention: "full", as the model attends, or a SinksAndWindow,
    which approximates it in time linear in n; its tail is widened to the rows that vote and to the tokens that
    `protect` = (first, last) keeps at the end. offload: weights that pass one does not read wait in CPU memory
    meanwhile (see `offloaded_for_filter`; nothing to gain where the model is on the CPU); cost.seconds includes
    moving them, cost.peak_bytes is that of the pass between.

    Source: as `select`; memory: Theorem 9.3 (gemfilter.complexity). The window is not in the paper.

    Raises SettingError as `select`, for layers that are built otherwise than this loop knows, layers of pass one on
    several devices, attention that is not causal, a chunk below 1, and as `offloaded_for_filter`.

    Example:
        >>> select_chunked(model, ids, layer=13, keep=1024, offload=True).cost.peak_bytes > 0
        True
    """
    ask = check_request(model, input_ids, attention_mask, layer, keep, scoring, protect)
    chunk = whole("chunk", chunk, 1, "rows at a time; 8192 is the default")
    if attention != "full" and not isinstance(attention, SinksAndWindow):
        raise SettingError("attention", attention, '"full" or a SinksAndWindow', "SinksAndWindow() has usual settings")
    home = check_layers(ask.layout, model, ask.layer)
    if torch.is_autocast_enabled(home.type):
        raise SettingError("autocast", "on", "off for chunked prefill", "use select, or load the model in that type")
    last = ends_of(protect)[1] if isinstance(protect, tuple | list) and len(protect) == 2 else 0

    def work() -> Tensor:
        found = torch.full(ask.mask.shape, -torch.inf, device=home)
        for row, own in enumerate(ask.mask):
            scores = chunked_scores(
                ask.layout,
                model,
                ask.input_ids[row : row + 1, own],
                ask.layer,
                scoring,
                chunk=chunk,
                attention=attention,
                tail=last,
            )
            found = found.to(torch.promote_types(found.dtype, scores.dtype))
            found[row, own.to(home)] = scores[0]
        return found

    start = time.perf_counter()
    if offload:
        with offloaded_for_filter(model, ask.layer):
            found, cost = measured(home, ask.input_ids.numel(), work)
        cost = PassCost(time.perf_counter() - start, cost.peak_bytes, cost.tokens)
    else:
        found, cost = measured(home, ask.input_ids.numel(), work)
    return ask.selection(found.to(ask.mask.device), cost)


def check_layers(layout: Layout, model: Any, layer: int) -> torch.device:
    """The one device of the layers of pass one; SettingError for layers that the loop would run wrongly."""
    use = "use select, which runs the model's own forward"
    known = LAYERS.get(layout.model_type)
    if known is None:
        raise SettingError("model", layout.model_type, f"one of {', '.join(LAYERS)}", use)
    layers: Any = layout.layers(model)
    for i in range(layer + 1):
        parts = {name for name, part in uncompiled(layers[i]).named_children() if not isinstance(part, nn.Dropout)}
        inner = {name for name, _ in uncompiled(layers[i].self_attn).named_children()}
        if parts != known or not inner <= ATTENTION:
            names = ", ".join(sorted((parts ^ known) | (inner - ATTENTION)))
            raise SettingError("model", f"{layout.model_type} with {names}", ", ".join(sorted(known)), use)
        changed = _changed(uncompiled(layers[i].self_attn))
        if changed:
            raise SettingError("model", f"{layout.model_type} with {changed} at layer {i}", "its own attention", use)
        if not getattr(layers[i].self_attn, "is_causal", True):
            raise SettingError("model", "attention in both directions", "causal attention", use)
    embedding = {id(p) for p in model.get_input_embeddings().parameters()}
    devices = {p.device for p in read_by_filter(model, layer) if id(p) not in embedding}
    if len(devices) != 1 or next(iter(devices)).type == "meta":
        found = ", ".join(sorted(map(str, devices)))
        raise SettingError("model", f"layers on {found}", "the layers up to the filter on one device", use)
    return devices.pop()


def _changed(attn: Any) -> str:
    """What of an attention module is not the library's own, and would be left out by the loop; "" for nothing."""
    if not type(attn).__module__.startswith("transformers."):
        return f"the attention {type(attn).__name__}"
    if "forward" in attn.__dict__:
        return "a replaced forward of its attention"
    return "hooks on its attention" if attn._forward_hooks or attn._forward_pre_hooks else ""


# --- the loop --------------------------------------------------------------------------------------------------------


def chunked_scores(
    layout: Layout,
    model: Any,
    input_ids: Int[Tensor, "1 n"],
    layer: int,
    scoring: Scoring,
    *,
    chunk: int = 8192,
    attention: str | SinksAndWindow = "full",
    tail: int = 0,
) -> Float[Tensor, "1 n"]:
    """Smoothed scores of one prompt without padding; settings are not checked. tail: dense rows at least."""
    with undisturbed(model) as own:
        hidden, rotary = chunked_hidden(
            layout, own, input_ids, layer, chunk=chunk, attention=attention, tail=max(tail, scoring.rows)
        )
        return _score(layout, layout.layers(own)[layer].self_attn, hidden, rotary, scoring, chunk)


def chunked_hidden(
    layout: Layout,
    model: Any,
    input_ids: Int[Tensor, "1 n"],
    layer: int,
    *,
    chunk: int = 8192,
    attention: str | SinksAndWindow = "full",
    tail: int = 0,
) -> tuple[Float[Tensor, "1 n e"], tuple[Tensor, Tensor]]:
    """What the attention of `layer` receives: normed hidden states and its rotary (cos, sin), as `observe` gives them.

    Call it with what `undisturbed` gives.
    """
    layers: Any = layout.layers(model)
    home = next(layers[layer].input_layernorm.parameters()).device
    hidden = _embedded(model, input_ids, chunk, home)
    rotary = _rotary(layout, model, hidden, layer)
    store = _store(layers[layer].self_attn, hidden) if layer else None
    for i in range(layer):
        _run_layer(layout, layers[i], hidden, rotary[i], store, layout.window(model, i), attention, tail, chunk)
    for a in range(0, hidden.shape[1], chunk):
        hidden[:, a : a + chunk] = layers[layer].input_layernorm(hidden[:, a : a + chunk])
    return hidden, rotary[layer]


def _embedded(model: Any, input_ids: Tensor, chunk: int, home: torch.device) -> Tensor:
    embedding = model.get_input_embeddings()
    input_ids = input_ids.to(embedding.weight.device)
    hidden: Tensor | None = None
    for a in range(0, input_ids.shape[1], chunk):
        part = embedding(input_ids[:, a : a + chunk])
        if hidden is None:
            hidden = torch.empty(1, input_ids.shape[1], part.shape[-1], dtype=part.dtype, device=home)
        hidden[:, a : a + chunk] = part
    assert hidden is not None
    return hidden


def _rotary(layout: Layout, model: Any, hidden: Tensor, layer: int) -> list[tuple[Tensor, Tensor]]:
    """(cos, sin) of each layer, in one call for all places: some variants depend on the longest."""
    turn = model.get_decoder().rotary_emb
    at = torch.arange(hidden.shape[1], device=hidden.device)[None]
    if layout.model_type in ("gemma3", "gemma3_text"):
        kinds = layout.config(model).layer_types[: layer + 1]
        found = {kind: turn(hidden, at, kind) for kind in set(kinds)}
        return [found[kind] for kind in kinds]
    return [turn(hidden, at)] * (layer + 1)


def _store(attn: Any, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Room for the keys and values of one layer, used again by the next."""
    shape = 1, attn.config.num_key_value_heads, hidden.shape[1], attn.head_dim
    return hidden.new_empty(shape), hidden.new_empty(shape)


def _run_layer(
    layout: Layout,
    layer: Any,
    hidden: Tensor,
    rotary: tuple[Tensor, Tensor],
    store: Any,
    window: int | None,
    attention: str | SinksAndWindow,
    tail: int,
    chunk: int,
) -> None:
    """One decoder layer, in place: rows attend to keys and values of their own chunk and of those before it."""
    n, sandwich = hidden.shape[1], LAYERS[layout.model_type] is SANDWICH
    attn = layer.self_attn
    for a in range(0, n, chunk):
        b = min(a + chunk, n)
        rows = hidden[:, a:b]
        mixed = _attended(
            layout,
            attn,
            layer.input_layernorm(rows),
            a,
            tuple(t[:, a:b] for t in rotary),
            store,
            window,
            attention,
            n - max(tail, attention.dense_tail) if isinstance(attention, SinksAndWindow) else 0,
        )
        rows += layer.post_attention_layernorm(mixed) if sandwich else mixed
        del mixed
        if sandwich:
            rows += layer.post_feedforward_layernorm(layer.mlp(layer.pre_feedforward_layernorm(rows)))
        else:
            rows += layer.mlp(layer.post_attention_layernorm(rows))


def _attended(
    layout: Layout,
    attn: Any,
    x: Tensor,
    a: int,
    rotary: Any,
    store: Any,
    window: int | None,
    attention: Any,
    dense: int,
) -> Tensor:
    """The output of a layer's attention for the rows from a on; rows before `dense` follow the pattern."""
    keys, values = store
    queries, keys[:, :, a : a + x.shape[1]], values[:, :, a : a + x.shape[1]] = _projected(attn, x, rotary)
    how = {"scale": layout.scale(attn), "softcap": layout.softcap(attn)}
    if window is not None or attention == "full":
        out = attend(queries, keys, values, a, window=window, **how)
    else:
        near = min(max(dense - a, 0), x.shape[1])
        parts = []
        if near:
            pattern = {"window": attention.window, "sinks": attention.sinks}
            parts.append(attend(queries[:, :, :near], keys, values, a, **pattern, **how))
        if near < x.shape[1]:
            parts.append(attend(queries[:, :, near:], keys, values, a + near, **how))
        out = torch.cat(parts, dim=2)
    del queries
    return attn.o_proj(out.transpose(1, 2).reshape(1, x.shape[1], -1))


def _projected(attn: Any, x: Tensor, rotary: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of some rows, as the layer's own attention forms them."""
    config, d = attn.config, attn.head_dim
    if hasattr(attn, "qkv_proj"):
        sizes = [config.num_attention_heads * d] + 2 * [config.num_key_value_heads * d]
        q, k, v = attn.qkv_proj(x).split(sizes, dim=-1)
    else:
        q, k, v = attn.q_proj(x), attn.k_proj(x), attn.v_proj(x)
    q, k, v = (t.unflatten(-1, (-1, d)) for t in (q, k, v))
    if hasattr(attn, "q_norm"):
        q, k = attn.q_norm(q), attn.k_norm(k)
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    if getattr(attn, "use_rope", True):
        q, k = rotate(q, *rotary), rotate(k, *rotary)
    return q, k, v


def _score(
    layout: Layout, attn: Any, hidden: Tensor, rotary: tuple[Tensor, Tensor], scoring: Scoring, chunk: int
) -> Tensor:
    """As `score_layer` for one prompt without padding, with keys formed by chunk."""
    n, cos, sin = hidden.shape[1], *rotary
    mask = torch.ones(1, n, dtype=torch.bool, device=hidden.device)
    w = min(scoring.rows, n)
    votes = last_queries(layout, attn, hidden[:, -w:], (cos[:, -w:], sin[:, -w:]), mask[:, -w:], scoring.rows)
    keys = hidden.new_empty(1, attn.config.num_key_value_heads, n, attn.head_dim)
    for a in range(0, n, chunk):
        b = min(a + chunk, n)
        keys[:, :, a:b] = layout.keys(attn, hidden[:, a:b], (cos[:, a:b], sin[:, a:b]))
    return vote(layout, attn, votes, keys, mask, scoring)
