"""The rivals of GemFilter as identities: which entries SnapKV, H2O and streaming keep, what one run shares with two."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import COUNT, REAL
from featlearn.lab.statement import Statement, at_least, equal
from featlearn.lab.uncertainty import Observation
from featlearn.methods.gemfilter import RAW, select
from featlearn.methods.kv_eviction import evict, generate, kv_bytes, prefill
from featlearn.works.gemfilter.claims import literal
from featlearn.works.gemfilter.claims.algorithm import positions
from featlearn.works.gemfilter.claims.meters import count_products
from featlearn.works.gemfilter.setup import GROUPS, HEAD_DIM, HEADS, Asked, asked

M, N, K, T, WINDOW, SINKS, R = 3, 270, 48, 6, 32, 4, 1
"""More queries than H2O's scores are summed over at a time."""
BUDGETS = (40, K, N, N + 9)


def draw(key: Key) -> Asked:
    """Three layers in double precision, 270 tokens."""
    return asked(key, N, M, dtype=torch.float64)


def attention_of(one: Asked) -> list[np.ndarray]:
    """g n n of every layer: heads of a group added."""
    found, blocks = [], one.model.get_decoder().layers
    for x, block in zip(literal.states(one.model, one.ids), blocks, strict=False):
        q, k, _ = literal.heads_of(block.self_attn, literal.normed(x, block.input_layernorm))
        found.append(literal.weights(q, k).reshape(GROUPS, HEADS // GROUPS, N, N).sum(1))
    return found


def kept_by(scores: Sequence[np.ndarray], width: int) -> np.ndarray:
    """m g k: the window and, of the others, the best by scores averaged over `width` places."""
    old, recent = N - WINDOW, np.arange(N - WINDOW, N)
    each = [[literal.chosen(literal.pooled(row[:old], width), K - WINDOW) for row in layer] for layer in scores]
    return np.array([[np.concatenate([found, recent]) for found in layer] for layer in each])


def says_rivals(settings: Asked) -> Sequence[Statement]:
    """SnapKV by what the last 32 queries attend to, H2O by what every query does, streaming by places."""
    weights = attention_of(settings)
    window, received = [a[:, -WINDOW:].sum(1) for a in weights], [a.sum(1) for a in weights]
    snap, h2o, bare = kept_by(window, 5), kept_by(received, 1), kept_by(window, 1)
    first = np.concatenate([np.arange(SINKS), np.arange(N - K + SINKS, N)])
    fewer = np.concatenate([np.arange(SINKS - 1), np.arange(N - K + SINKS - 1, N)])
    text = literal.greedy(settings.model, settings.ids, T)
    source = "G.2 and G.4.2, sizes and pooling as released"
    return (
        equal(
            "SnapKV: entries kept",
            COUNT,
            snap,
            f"{source}: the last 32 entries, and the best of the others by their pooled attention",
            axis="layer, group, entry",
            rival=bare,
            rival_says="scores that are not pooled",
        ),
        equal(
            "H2O: entries kept",
            COUNT,
            h2o,
            f"{source}: the last 32, and the best of the others by the attention they received",
            axis="layer, group, entry",
            rival=bare,
            rival_says="attention of the last 32 queries alone",
        ),
        equal(
            "SnapKV: entries whose values are kept",
            COUNT,
            snap[1:],  # in layer 0 equal tokens have equal values
            f"{source}: an entry is a key and its value",
            axis="layer, group, entry",
            rival=snap[1:, ::-1],
            rival_says="those of another group",
        ),
        equal(
            "streaming: entries kept",
            COUNT,
            np.tile(first, (M, GROUPS, 1)),
            "Xiao et al. 2024, attention sinks: the first 4 and the last",
            axis="layer, group, entry",
            form="derived",
            rival=np.tile(fewer, (M, GROUPS, 1)),
            rival_says="a sink less",
        ),
        equal(
            "entries of SnapKV for k = 40, 48, n, n + 9",
            COUNT,
            np.minimum(BUDGETS, N),
            f"{source}: min(n, k), the window included",
            axis="k",
            rival=np.minimum(np.array(BUDGETS) + WINDOW, N + np.arange(4) * 1.0),
            rival_says="the window beside k",
        ),
        equal(
            "bytes of SnapKV's cache",
            COUNT,
            2.0 * M * GROUPS * K * HEAD_DIM * 8,
            "Theorem 9.3: 2 m h k d, once for each group of heads",
            rival=2.0 * M * HEADS * K * HEAD_DIM * 8,
            rival_says="keys repeated for every query head, as released",
        ),
        equal(
            "reply of SnapKV for k >= n",
            COUNT,
            np.array(text),
            f"{source}: nothing is dropped",
            axis="token",
            rival=np.array(literal.greedy(settings.model, settings.ids[0][-K:], T)),
            rival_says="the last k entries alone",
        ),
        equal(
            "positions of SnapKV's reply",
            COUNT,
            np.arange(N, N + T - 1),
            "G.2: positions stay",
            axis="token",
            rival=np.arange(K, K + T - 1),
            rival_says="k, k + 1, ..., GemFilter's",
        ),
        equal(
            "index sets of SnapKV",
            COUNT,
            float(M * GROUPS),
            "G.4.6: one for each layer and head, here for each group that shares its keys",
            rival=1.0,
            rival_says="one, as GemFilter",
        ),
        at_least(
            "distinct positions in SnapKV's sets of a layer",
            COUNT,
            K + 1.0,
            "G.4.6: heads keep different tokens",
            axis="layer",
            rival=float(K),
            rival_says="all heads alike",
        ),
    )


def kept_places(whole: Tensor, part: Tensor) -> np.ndarray:
    """g k: where each kept key stands among all keys, by equality."""
    same = (part[0][:, :, None] == whole[0][:, None]).all(-1)
    return same.float().argmax(-1).numpy()


def places_of(filled: Any, cache: Any, name: str = "keys") -> np.ndarray:
    """m g k, by keys or by values."""
    pairs = zip(filled.cache.layers, cache.layers, strict=True)
    return np.array([kept_places(getattr(a, name), getattr(b, name)) for a, b in pairs])


def sees_rivals(settings: Asked, key: Key) -> Mapping[str, Observation]:
    """`prefill`, `evict` and `generate`."""
    model, ids = settings.model, settings.ids
    filled = prefill(model, ids, want=("snapkv", "h2o"))
    caches = {policy: evict(filled, policy, K) for policy in ("snapkv", "h2o", "streaming")}
    found = {policy: places_of(filled, cache) for policy, cache in caches.items()}
    snap = found["snapkv"]
    with positions(model) as places:
        generate(model, filled, caches["snapkv"], max_new_tokens=T)
    whole = generate(model, filled, evict(filled, "snapkv", N), max_new_tokens=T)
    return {
        "SnapKV: entries kept": snap,
        "SnapKV: entries whose values are kept": places_of(filled, caches["snapkv"], "values")[1:],
        "H2O: entries kept": found["h2o"],
        "streaming: entries kept": found["streaming"],
        "entries of SnapKV for k = 40, 48, n, n + 9": np.array(
            [evict(filled, "snapkv", k).layers[0].keys.shape[2] for k in BUDGETS]
        ),
        "bytes of SnapKV's cache": float(kv_bytes(caches["snapkv"])),
        "reply of SnapKV for k >= n": whole[0].numpy(),
        "positions of SnapKV's reply": np.array(places),
        "index sets of SnapKV": float(len({tuple(row) for layer in snap for row in layer.tolist()})),
        "distinct positions in SnapKV's sets of a layer": np.array([len(np.unique(layer)) for layer in snap]),
    }


def says_one_run(settings: Asked) -> Sequence[Statement]:
    """GemFilter's set in every layer and head, keys of the full prompt at these places, its cost and positions."""
    kept = literal.chosen(literal.pooled(literal.raw(*literal.at_filter(settings.model, settings.ids, R)), 5), K)
    blocks = settings.model.get_decoder().layers

    def keys(ids: Any) -> np.ndarray:
        made = []
        for x, block in zip(literal.states(settings.model, ids), blocks, strict=False):
            made.append(literal.heads_of(block.self_attn, literal.normed(x, block.input_layernorm))[1])
        return np.array(made)

    source = "G.4.5"
    return (
        equal(
            "entries of one run",
            COUNT,
            np.tile(kept, (M, GROUPS, 1)),
            f"{source}: the index set of GemFilter evicts in every layer and head",
            axis="layer, group, entry",
            rival=np.tile(np.arange(N - K, N), (M, GROUPS, 1)),
            rival_says="the last k",
        ),
        equal(
            "keys of one run",
            REAL,
            keys(settings.ids)[:, :, kept],
            f"{source}: entries as the full prompt left them",
            axis="layer, group, entry, coordinate",
            margin=1e-4,
            rival=keys(settings.ids[0][kept]),
            rival_says="computed again on T_J, as GemFilter's",
        ),
        equal(
            "attention of its prompt",
            COUNT,
            2.0 * M * HEADS * HEAD_DIM * N * N,
            f"{source}: no prompt cost is saved: 2 m h d n^2",
            rival=2.0 * R * HEADS * HEAD_DIM * N * N,
            rival_says="r / m of it, as pass one",
        ),
        equal(
            "positions of its reply",
            COUNT,
            np.arange(N, N + T - 1),
            f"{source}: original positions are kept",
            axis="token",
            rival=np.arange(K, K + T - 1),
            rival_says="k, k + 1, ..., GemFilter's",
        ),
    )


def sees_one_run(settings: Asked, key: Key) -> Mapping[str, Observation]:
    """`evict` with the indices of `select`."""
    model, ids = settings.model, settings.ids
    with count_products() as full:
        filled = prefill(model, ids)
    cache = evict(filled, "one_run", K, indices=select(model, ids, layer=R, keep=K, scoring=RAW).indices[0])
    with positions(model) as places:
        generate(model, filled, cache, max_new_tokens=T)
    return {
        "entries of one run": places_of(filled, cache),
        "keys of one run": np.stack([layer.keys[0].numpy() for layer in cache.layers]),
        "attention of its prompt": float(full.attention),
        "positions of its reply": np.array(places),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gemfilter.snapkv_baseline",
        entries=("gemfilter.snapkv_baseline", "gemfilter.figG_5"),
        says="SnapKV keeps, per group of heads, the last 32 entries and the best others by pooled attention of these "
        "queries; H2O by the attention that they received; k >= n is plain generation.",
        settings=draw,
        statements=says_rivals,
        observe=sees_rivals,
        remarks="Heads that share keys share their entries here: m h_kv sets, where the paper counts m h. Pooling "
        "is the average, as in the released code, where Appendix G.4.2 can be read as the maximum; softmax, and "
        "whether the window counts towards k, the paper leaves open. Figure G.5 draws what GemFilter would select at "
        "every layer; Algorithm 2 uses the set of layer r.",
    ),
    Claim(
        id="gemfilter.one_run",
        entries=("gemfilter.figG_4",),
        says="One run keeps GemFilter's index set in every layer and head, entries and positions of the full prompt, "
        "and costs the full prompt.",
        settings=draw,
        statements=says_one_run,
        observe=sees_one_run,
    ),
)
