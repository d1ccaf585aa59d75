"""The decoder and the rules of selection written out in double precision, from the weights alone.

What statements predict comes from here: one prompt, no batches, no caches, loops where a loop is the definition.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray as Array

from featlearn.works.gemfilter.setup import GROUPS, HEAD_DIM, HEADS

Sees = Callable[[Array, Array], Array]
"""(row, key) -> whether the row sees the key."""


def causal(i: Array, j: Array) -> Array:
    """Every row sees itself and all keys before it."""
    return j <= i


def windowed(n: int, sinks: int, window: int, tail: int) -> Sees:
    """Row i sees j <= i where j < sinks or i - j < window; the last `tail` of n rows see all before them."""
    return lambda i, j: (j <= i) & ((j < sinks) | (i - j < window) | (i >= n - tail))


def softmax(z: Array) -> Array:
    """Over the last axis; -inf has probability 0."""
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normed(x: Array, module: Any) -> Array:
    """x / sqrt(mean x^2 + eps), times the weights."""
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + module.variance_epsilon) * array(module.weight)


def array(t: Any) -> Array:
    """A tensor in double precision."""
    return t.detach().double().numpy()


def linear(x: Array, parent: Any, name: str, fused: str, rows: slice) -> Array:
    """x times the weights called `name`, or those rows of the fused ones."""
    module = getattr(parent, name, None)
    rows = slice(None) if module is not None else rows
    module = getattr(parent, fused) if module is None else module
    bias = 0.0 if module.bias is None else array(module.bias)[rows]
    return x @ array(module.weight)[rows].T + bias


def turned(y: Array) -> Array:
    """Rotary embedding of n h d: pairs (i, i + d/2) turned by position times 10000^(-2 i / d)."""
    half = HEAD_DIM // 2
    frequencies = 10000.0 ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    pairs = (y[..., :half] + 1j * y[..., half:]) * np.exp(1j * np.arange(len(y))[:, None, None] * frequencies)
    return np.concatenate([pairs.real, pairs.imag], -1)


def heads_of(attn: Any, x: Array, rotary: bool = True) -> tuple[Array, Array, Array]:
    """Queries (h n d), keys and values (g n d) of normed states x."""
    made = []
    for name, first, count in (("q", 0, HEADS), ("k", HEADS, GROUPS), ("v", HEADS + GROUPS, GROUPS)):
        rows = slice(first * HEAD_DIM, (first + count) * HEAD_DIM)
        y = linear(x, attn, f"{name}_proj", "qkv_proj", rows).reshape(len(x), count, HEAD_DIM)
        if name != "v" and hasattr(attn, f"{name}_norm"):
            y = normed(y, getattr(attn, f"{name}_norm"))
        made.append((turned(y) if rotary and name != "v" else y).transpose(1, 0, 2))
    return made[0], made[1], made[2]


def weights(q: Array, k: Array, sees: Sees = causal) -> Array:
    """h n n: softmax of q.k / sqrt(d) over the keys that a row sees; head j reads the keys of group j g // h."""
    n = q.shape[1]
    visible = sees(np.arange(n)[:, None], np.arange(n)[None])
    logits = np.stack([q[j] @ k[j * GROUPS // HEADS].T for j in range(HEADS)]) / np.sqrt(HEAD_DIM)
    return softmax(np.where(visible, logits, -np.inf))


def states(model: Any, ids: Any, sees: Sees = causal, layers: int | None = None) -> list[Array]:
    """Hidden states (n e) before each layer and after the last of `layers`; without the final norm."""
    stack = model.get_decoder().layers
    x = array(model.get_input_embeddings().weight)[np.asarray(ids).ravel()]
    found = [x]
    for block in stack[: len(stack) if layers is None else layers]:
        q, k, v = heads_of(block.self_attn, normed(x, block.input_layernorm))
        p = weights(q, k, sees)
        mixed = np.concatenate([p[j] @ v[j * GROUPS // HEADS] for j in range(HEADS)], -1)
        x = x + mixed @ array(block.self_attn.o_proj.weight).T
        y, mlp = normed(x, block.post_attention_layernorm), block.mlp
        wide = mlp.down_proj.weight.shape[1]
        gate = linear(y, mlp, "gate_proj", "gate_up_proj", slice(0, wide))
        up = linear(y, mlp, "up_proj", "gate_up_proj", slice(wide, 2 * wide))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ array(mlp.down_proj.weight).T
        found.append(x)
    return found


def logits(model: Any, ids: Any) -> Array:
    """n v."""
    return normed(states(model, ids)[-1], model.get_decoder().norm) @ array(model.lm_head.weight).T


def greedy(model: Any, ids: Any, t: int, without: Sequence[int] = ()) -> list[int]:
    """The t most likely next tokens, one by one, the whole text read anew for each."""
    text = list(np.asarray(ids).ravel())
    for _ in range(t):
        last = logits(model, text)[-1]
        last[list(without)] = -np.inf
        text.append(int(last.argmax()))
    return text[-t:]


# --- selection -------------------------------------------------------------------------------------------------------


def at_filter(model: Any, ids: Any, layer: int, sees: Sees = causal, rotary: bool = True) -> tuple[Array, Array]:
    """Queries h n d and keys g n d of the filter layer, from 0."""
    block = model.get_decoder().layers[layer]
    x = normed(states(model, ids, sees, layer)[layer], block.input_layernorm)
    return heads_of(block.self_attn, x, rotary)[:2]


def raw(q: Array, k: Array) -> Array:
    """n: sum over heads of q_n . k_i, the last row alone."""
    return np.sum([k[j * GROUPS // HEADS] @ q[j, -1] for j in range(HEADS)], axis=0)


def shipped(q: Array, k: Array, over: Callable[..., Array] = np.max) -> Array:
    """n: attention of the last 16 rows summed by head, of which the largest counts."""
    return over(weights(q, k)[:, -16:].sum(1), axis=0)


def pooled(scores: Array, width: int) -> Array:
    """Mean over a window with zeros beyond the ends."""
    half = width // 2
    padded = [0.0] * half + list(scores) + [0.0] * half
    return np.array([sum(padded[i : i + width]) / width for i in range(len(scores))])


def chosen(scores: Array, k: int, protected: Sequence[int] = ()) -> Array:
    """The k best positions, ascending; protected ones first, of equal scores the earlier one."""
    order = sorted(range(len(scores)), key=lambda i: (i not in protected, -scores[i], i))
    return np.array(sorted(order[:k]))
