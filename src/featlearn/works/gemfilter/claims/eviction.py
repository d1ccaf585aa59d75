"""The rivals of GemFilter as identities: which entries SnapKV and H2O keep, what one run shares with two."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key
from featlearn.lab.pending import Case, Claim, Evidence
from featlearn.methods.gemfilter import RAW, layout_of, select
from featlearn.methods.kv_eviction import evict, generate, kv_bytes, prefill
from featlearn.works.gemfilter.claims.algorithm import positions
from featlearn.works.gemfilter.claims.memory import key_value_bytes
from featlearn.works.gemfilter.claims.tiny import (
    GROUPS,
    HEADS,
    continue_from,
    count_bytes,
    count_products,
    decoder,
    needs_transformers,
    prompt,
)

M, N, K, T, WINDOW = 3, 120, 48, 6, 32


def kept_places(whole: Tensor, part: Tensor) -> np.ndarray:
    """g k: where each kept key stands among all keys, by equality."""
    same = (part[0][:, :, None] == whole[0][:, None]).all(-1)
    return same.float().argmax(-1).numpy()


def attention_weights(model: Any, ids: Tensor) -> list[np.ndarray]:
    """h n n of every layer, as the model returns them."""
    with torch.no_grad():
        found = model(ids, output_attentions=True, use_cache=False).attentions
    return [a[0].double().numpy() for a in found]


def of_groups(scores: np.ndarray) -> np.ndarray:
    """h n -> g n: heads of a group added."""
    return scores.reshape(GROUPS, HEADS // GROUPS, -1).sum(1)


def literal_kept(scores: np.ndarray, pool: int) -> np.ndarray:
    """g k: the window and, of the others, the best by scores averaged over `pool` places with zeros beyond the ends."""
    kept = []
    for row in scores:
        old = row[: N - WINDOW]
        half = pool // 2
        mean = [sum(old[max(0, i - half) : i + half + 1]) / pool for i in range(len(old))]
        order = sorted(range(len(old)), key=lambda i: (-mean[i], i))[: K - WINDOW]
        kept.append([*sorted(order), *range(N - WINDOW, N)])
    return np.array(kept)


@needs_transformers
def check_snapkv(key: Key, tables: Any) -> Evidence:
    """Kept entries against the model's own attention matrices; sizes, identity at k >= n, positions."""
    model, ids = decoder(key / "model", M), prompt(key / "ids", N)
    filled = prefill(model, ids, want=("snapkv", "h2o"))
    weights = attention_weights(model, ids)
    window = [literal_kept(of_groups(a[:, -WINDOW:].sum(1)), 5) for a in weights]
    unpooled = [literal_kept(of_groups(a[:, -WINDOW:].sum(1)), 1) for a in weights]
    received = [literal_kept(of_groups(a.sum(1)), 1) for a in weights]
    found = {}
    for policy in ("snapkv", "h2o"):
        cache = evict(filled, policy, K)
        pairs = zip(filled.cache.layers, cache.layers, strict=True)
        found[policy] = np.array([kept_places(a.keys, b.keys) for a, b in pairs])
    cache = evict(filled, "snapkv", K)
    sizes = [evict(filled, "snapkv", k).layers[0].keys.shape[2] for k in (40, K, N, N + 9)]
    sets = {tuple(row) for layer in found["snapkv"] for row in layer.tolist()}
    whole = generate(model, filled, evict(filled, "snapkv", N), max_new_tokens=T)
    some = generate(model, filled, cache, max_new_tokens=T)
    plain = model.generate(ids, max_new_tokens=T)[:, N:]
    with positions(model) as places:
        generate(model, filled, cache, max_new_tokens=T)
    union = [len(set(layer.ravel().tolist())) for layer in found["snapkv"]]
    return Evidence(
        (
            Case(
                "SnapKV: entries kept, all layers and groups",
                predict=np.array(window),
                observe=found["snapkv"],
                rival=np.array(unpooled),
                rival_says="scores that are not pooled",
            ),
            Case(
                "H2O: entries kept",
                predict=np.array(received),
                observe=found["h2o"],
                rival=np.array(unpooled),
                rival_says="attention of the last 32 queries alone",
            ),
            Case(
                "the window stays",
                predict=np.tile(np.arange(N - WINDOW, N), (M, GROUPS, 1)),
                observe=found["snapkv"][..., -WINDOW:],
                rival=found["snapkv"][..., :WINDOW],
                rival_says="the best 32",
            ),
            Case(
                "entries for k = 40, 48, n, n + 9: min(n, k)",
                predict=[40, K, N, N],
                observe=sizes,
                rival=[72, K + WINDOW, N, N],
                rival_says="k and the window beside it",
            ),
            Case(
                "bytes: 2 m h_kv k d",
                predict=key_value_bytes(M, K),
                observe=kv_bytes(cache),
                rival=key_value_bytes(M, K, HEADS),
                rival_says="keys repeated for every query head, as released",
                unit="bytes",
            ),
            Case(
                "k >= n: tokens of plain generate()",
                predict=plain.numpy(),
                observe=whole.numpy(),
                rival=some.numpy(),
                rival_says=f"{K} entries",
            ),
            Case(
                "positions of the reply: n, n + 1, ...",
                predict=np.arange(N, N + T - 1),
                observe=places,
                rival=np.arange(K, K + T - 1),
                rival_says="k, k + 1, ...",
            ),
            Case("index sets", predict=M * GROUPS, observe=len(sets), rival=1, rival_says="one, as GemFilter"),
            Case(
                "distinct positions in the sets of a layer",
                predict=K + 1,
                observe=min(union),
                rival=N,
                relation="at least",
                tolerance=0.0,
                rival_says="all of them",
            ),
        ),
        comment=f"n = {N}, k = {K}, window {WINDOW}. Heads that share keys share their entries here: m h_kv sets, "
        "where the paper counts m h. The paper leaves open pooling, softmax and whether the window counts towards k.",
    )


@needs_transformers
def check_snapkv_memory(key: Key, tables: Any) -> Evidence:
    """Peak against depth when each layer's entries are dropped as soon as the layer is done, and when they are not."""
    from transformers import DynamicCache

    ids, depths = prompt(key / "ids", N), (2, 4, 6)
    dropped, held = [], []
    for m in depths:
        model = decoder(key / m, m)
        for peaks, cut in ((dropped, True), (held, False)):
            cache = DynamicCache()

            def hook(module: Any, args: Any, kwargs: Any, out: Any, cache: Any = cache) -> None:
                layer = cache.layers[module.layer_idx]
                layer.keys, layer.values = (x[:, :, -K:].clone() for x in (layer.keys, layer.values))

            layers = layout_of(model).layers(model) if cut else []
            handles = [x.self_attn.register_forward_hook(hook, with_kwargs=True) for x in layers]  # pyright: ignore
            try:
                with count_bytes(model) as seen:
                    continue_from(model, ids, cache)
            finally:
                for handle in handles:
                    handle.remove()
            peaks.append(seen.peak)
    per_layer = [key_value_bytes(1, K)] * 2
    return Evidence(
        (
            Case(
                "growth of the peak per layer, entries dropped layer by layer: 2 h_kv k d",
                predict=per_layer,
                observe=np.diff(dropped) / 2,
                rival=[key_value_bytes(1, N)] * 2,
                rival_says="2 h_kv n d",
                unit="bytes",
            ),
            Case(
                "dropped after the whole prompt: 2 h_kv n d",
                predict=[key_value_bytes(1, N)] * 2,
                observe=np.diff(held) / 2,
                rival=per_layer,
                rival_says="2 h_kv k d",
                unit="bytes",
            ),
        ),
        comment="The reported m w + 2 h n d + 2 m h k d is reached only by dropping entries inside the forward pass. "
        "`kv_eviction.prefill` keeps them all, to serve several policies and budgets from one pass: its peak is that "
        "of standard attention, and must not be charged to SnapKV.",
    )


@needs_transformers
def check_one_run(key: Key, tables: Any) -> Evidence:
    """One set for all layers, entries as the full run left them, the cost of the full prompt."""
    model, ids, r = decoder(key / "model", M), prompt(key / "ids", N), 1
    with count_products() as full:
        filled = prefill(model, ids)
    chosen = select(model, ids, layer=r, keep=K, scoring=RAW).indices[0]
    cache = evict(filled, "one_run", K, indices=chosen)
    again = prefill(model, ids[:, chosen]).cache
    stacked = [torch.stack([x.keys for x in c.layers]).numpy() for c in (filled.cache, cache, again)]
    with count_products() as early:
        select(model, ids, layer=r, keep=K, scoring=RAW)
    with positions(model) as places:
        generate(model, filled, cache, max_new_tokens=T)
    kept = np.array([kept_places(a.keys, b.keys) for a, b in zip(filled.cache.layers, cache.layers, strict=True)])
    exact = 2 * M * HEADS * 8 * N * N
    return Evidence(
        (
            Case(
                "one index set: that of GemFilter",
                predict=np.tile(chosen.numpy(), (M, GROUPS, 1)),
                observe=kept,
                rival=np.tile(np.arange(N - K, N), (M, GROUPS, 1)),
                rival_says="the last k",
            ),
            Case(
                "keys: those of the full run at J",
                predict=stacked[0][:, :, :, chosen.numpy()],
                observe=stacked[1],
                rival=stacked[2],
                rival_says="computed again on T_J, as GemFilter's",
            ),
            Case(
                "attention of its prompt: 2 m h d n^2",
                predict=exact,
                observe=full.attention,
                rival=early.attention,
                rival_says="r / m of it, GemFilter's pass one",
            ),
            Case(
                "positions of the reply: n, n + 1, ...",
                predict=np.arange(N, N + T - 1),
                observe=places,
                rival=np.arange(K, K + T - 1),
                rival_says="k, k + 1, ..., GemFilter's",
            ),
        ),
        comment=f"n = {N}, k = {K}, m = {M}, r = {r}: the tokens are the same, their keys and positions are not.",
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "gemfilter.snapkv_baseline",
        entries=("gemfilter.snapkv_baseline", "gemfilter.figG_5"),
        says="SnapKV keeps, per group of heads, the last 32 entries and the best others by pooled attention of these "
        "queries; H2O by the attention that they received; k >= n is plain generation.",
        check=check_snapkv,
    ),
    Claim(
        "gemfilter.snapkv_memory",
        entries=("gemfilter.theorem9_3",),
        says="A SnapKV prompt takes 2 h n d and 2 m h k d beside the weights, if each layer drops "
        "its entries when done.",
        check=check_snapkv_memory,
    ),
    Claim(
        "gemfilter.one_run",
        entries=("gemfilter.figG_4",),
        says="One run keeps GemFilter's index set in every layer and head, entries and positions of "
        "the full prompt, and "
        "costs the full prompt.",
        check=check_one_run,
    ),
)
