"""Algorithm 2 as our method runs it, on tiny random models: selection, second pass, positions, behaviour."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.lab.pending import Case, Claim, Evidence
from featlearn.methods.gemfilter import RAW, generate, layout_of, select
from featlearn.works.gemfilter.claims.attention import literal_selection
from featlearn.works.gemfilter.claims.tiny import GROUPS, HEAD_DIM, HEADS, decoder, needs_transformers, prompt

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "phi3")
M, R, N, K, T = 5, 2, 120, 16, 8


def norm_of(x: np.ndarray, module: Any) -> np.ndarray:
    """RMS norm in double precision."""
    weight = module.weight.detach().double().numpy()
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + module.variance_epsilon) * weight


def literal_products(model: Any, ids: Tensor, layer: int, rotary: bool = True) -> np.ndarray:
    """q_n . k_i of every head, h n, in double precision with loops; rotary: turned by position, as the layer does."""
    with torch.no_grad():
        state = model(ids, output_hidden_states=True, use_cache=False).hidden_states[layer][0].double().numpy()
    block = model.get_decoder().layers[layer]
    attn = block.self_attn
    x = norm_of(state, block.input_layernorm)
    n = len(x)
    frequencies = 10000.0 ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)

    def projected(name: str, first: int, heads: int) -> np.ndarray:
        linear = getattr(attn, f"{name}_proj", None)
        rows = slice(None) if linear is not None else slice(first * HEAD_DIM, (first + heads) * HEAD_DIM)
        linear = linear or attn.qkv_proj
        y = x @ linear.weight.detach().double().numpy()[rows].T
        if linear.bias is not None:
            y = y + linear.bias.detach().double().numpy()[rows]
        y = y.reshape(n, heads, HEAD_DIM)
        if hasattr(attn, f"{name}_norm"):
            y = norm_of(y, getattr(attn, f"{name}_norm"))
        if rotary:
            half = HEAD_DIM // 2
            pairs = y[..., :half] + 1j * y[..., half:]  # a rotation is a complex factor
            pairs = pairs * np.exp(1j * np.arange(n)[:, None, None] * frequencies)
            y = np.concatenate([pairs.real, pairs.imag], -1)
        return y

    q, k = projected("q", 0, HEADS), projected("k", HEADS, GROUPS)
    return np.array([[q[-1, j] @ k[i, j * GROUPS // HEADS] for i in range(n)] for j in range(HEADS)])


@needs_transformers
def check_selection(key: Key, tables: Any) -> Evidence:
    """(1) and (6): the kept tokens against loops in double precision; how many, and in which order."""
    literal, found, before, later = [], [], [], []
    for family in FAMILIES:
        model, ids = decoder(key / family, 4, family), prompt(key / "ids" / family, N)
        literal.append(literal_selection(literal_products(model, ids, R), K))
        before.append(literal_selection(literal_products(model, ids, R, rotary=False), K))
        later.append(literal_selection(literal_products(model, ids, R + 1), K))
        found.append(select(model, ids, layer=R, keep=K, scoring=RAW).indices[0].numpy())
    counts = [1, 7, N - 1, N, N + 50]
    model, ids = decoder(key / "llama", 4), prompt(key / "ids" / "llama", N)
    kept = [select(model, ids, layer=R, keep=c, scoring=RAW).indices[0] for c in counts]
    steps = np.array([int(np.diff(i).min()) for i in found])
    return Evidence(
        (
            Case(
                "tokens kept, five families",
                predict=np.array(literal),
                observe=np.array(found),
                rival=np.array(before),
                rival_says="keys and queries before the rotary embedding",
            ),
            Case(
                "the same",
                predict=np.array(literal),
                observe=np.array(found),
                rival=np.array(later),
                rival_says="layer r + 1: whether r counts from 0 matters",
            ),
            Case(
                "distinct tokens: min(k, n)",
                predict=np.minimum(counts, N),
                observe=[len(set(i.tolist())) for i in kept],
                rival=counts,
                rival_says="k where k > n",
            ),
            Case(
                "least step between neighbours: ascending and distinct",
                predict=np.ones(5),
                observe=steps,
                rival=np.full(5, K),
                relation="at least",
                tolerance=0.0,
                rival_says="equal spacing",
            ),
        ),
        comment=f"{', '.join(FAMILIES)}; n = {N}, k = {K}, layer {R} from 0, float32 against double.",
    )


@needs_transformers
def check_second_pass(key: Key, tables: Any) -> Evidence:
    """(2), (3), (7) and (8): identity for k >= n, generation on T_J, layers run, batches with padding."""
    model, ids = decoder(key / "model", M), prompt(key / "ids", N)
    plain = model.generate(ids, max_new_tokens=T)[0, N:]
    whole = generate(model, ids, layer=R, keep=N + 3, scoring=RAW, max_new_tokens=T).new_tokens[0]
    some = generate(model, ids, layer=R, keep=K, scoring=RAW, max_new_tokens=T)
    kept = ids[:, some.selection.indices[0]]
    alone = model.generate(kept, max_new_tokens=T)[0, K:]
    shuffled = model.generate(kept.flip(1), max_new_tokens=T)[0, K:]
    with finished(model) as counts:
        select(model, ids, layer=R, keep=K, scoring=RAW)
    lengths = (70, N, 95)
    padded, mask = torch.zeros(3, N, dtype=torch.long), torch.zeros(3, N, dtype=torch.long)
    each = [prompt(key / "batch" / n, n) for n in lengths]
    for row, (one, n) in enumerate(zip(each, lengths, strict=True)):
        padded[row, N - n :], mask[row, N - n :] = one[0], 1
    single = [generate(model, one, layer=R, keep=K, scoring=RAW, max_new_tokens=T) for one in each]
    batch = generate(model, padded, mask, layer=R, keep=K, scoring=RAW, max_new_tokens=T)
    unmasked = generate(model, padded, torch.ones_like(padded), layer=R, keep=K, scoring=RAW, max_new_tokens=T)
    places = np.stack([s.selection.indices[0].numpy() for s in single])
    return Evidence(
        (
            Case(
                "(2) k >= n: tokens of plain generate()",
                predict=plain.numpy(),
                observe=whole.numpy(),
                rival=some.new_tokens[0].numpy(),
                rival_says=f"the reply to {K} kept tokens",
            ),
            Case(
                "(3) tokens of generate(T_J)",
                predict=alone.numpy(),
                observe=some.new_tokens[0].numpy(),
                rival=shuffled.numpy(),
                rival_says="T_J in another order",
            ),
            Case(
                "(7) layers that finish in pass one, m = 5, r = 2",
                predict=[1, 1, 0, 0, 0],
                observe=counts,
                rival=[1, 1, 1, 0, 0],
                rival_says="r + 1 layers, as released",
            ),
            Case(
                "(8) a padded batch keeps what single prompts keep",
                predict=places,
                observe=np.stack([i.numpy() for i in batch.selection.indices]),
                rival=np.stack([i.numpy() for i in unmasked.selection.indices]),
                rival_says="padding read as text",
            ),
            Case(
                "(8) and replies the same",
                predict=torch.cat([s.new_tokens for s in single]).numpy(),
                observe=batch.new_tokens.numpy(),
                rival=unmasked.new_tokens.numpy(),
                rival_says="padding read as text",
            ),
        ),
        comment=f"A random LLaMA of {M} layers, n = {N}, k = {K}, {T} new tokens; a batch of prompts of {lengths}, "
        "padded on the left.",
    )


@contextmanager
def finished(model: Any) -> Iterator[list[int]]:
    """How often each decoder layer returns while the block runs."""
    layers = layout_of(model).layers(model)
    counts = [0] * len(layers)

    def hook(i: int) -> Callable[..., None]:
        def seen(*_: Any) -> None:
            counts[i] += 1

        return seen

    handles = [layer.register_forward_hook(hook(i)) for i, layer in enumerate(layers)]
    try:
        yield counts
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def positions(model: Any) -> Iterator[list[int]]:
    """The largest position of every forward pass in the block, from what the rotary embedding receives."""
    rotary, largest = model.get_decoder().rotary_emb, []

    def seen(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = kwargs.get("position_ids", args[1] if len(args) > 1 else None)
        assert given is not None
        largest.append(int(given.max()))

    handle = rotary.register_forward_pre_hook(seen, with_kwargs=True)
    try:
        yield largest
    finally:
        handle.remove()


@needs_transformers
def check_positions(key: Key, tables: Any) -> Evidence:
    """Largest positions fed: pass one, pass two, and the full prompt; and what a trained window refuses."""
    model, ids = decoder(key / "model", M), prompt(key / "ids", N)
    with positions(model) as full:
        model.generate(ids, max_new_tokens=T)
    with positions(model) as first:
        select(model, ids, layer=R, keep=K, scoring=RAW)
    with positions(model) as both:
        generate(model, ids, layer=R, keep=K, scoring=RAW, max_new_tokens=T)
    second = both[len(first) :]
    window = decoder(key / "window", 3, max_position_embeddings=64)
    long = prompt(key / "long", 80)
    refused = 0.0
    try:
        select(window, long, layer=1, keep=K, scoring=RAW)
    except SettingError as error:
        refused = float(error.field == "input_ids")
    fits = select(window, long[:, :64], layer=1, keep=K, scoring=RAW).lengths[0]
    return Evidence(
        (
            Case(
                "largest position of pass two, from 0: k + t - 2",
                predict=K + T - 2,
                observe=max(second),
                rival=N + T - 2,
                rival_says="original positions: n + t - 2, as in SnapKV and H2O",
            ),
            Case(
                "largest position of the full prompt and its reply",
                predict=N + T - 2,
                observe=max(full),
                rival=K + T - 2,
                rival_says="k + t - 2",
            ),
            Case(
                "largest position of pass one: n - 1",
                predict=N - 1,
                observe=max(first),
                rival=K - 1,
                rival_says="k - 1",
            ),
            Case(
                "positions of pass two, in order",
                predict=[K - 1, *range(K, K + T - 1)],
                observe=second,
                rival=[N - 1, *range(N, N + T - 1)],
                rival_says="those of the full prompt",
            ),
            Case(
                "a prompt of 80 in a window of 64: refused (1), as pass one would leave it",
                predict=1.0,
                observe=refused,
                rival=0.0,
                rival_says="accepted",
            ),
            Case("longest prompt taken", predict=64, observe=fits, rival=80, rival_says="longer than the window"),
        ),
        comment=f"n = {N}, k = {K}, t = {T}. Pass two re-indexes; k + t and n + t are the lengths, positions count "
        "from 0 and the last generated token is never fed. Pass one still spans n positions, so a prompt longer than "
        "the trained window is not rescued by GemFilter.",
    )


class Broken(Exception):
    """What a failing layer raises in the check below."""


def broken(*_: Any) -> None:
    """A forward hook that fails."""
    raise Broken


def hooks(model: Any) -> int:
    """Hooks on all modules."""
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@needs_transformers
def check_behaviour(key: Key, tables: Any) -> Evidence:
    """Where the released code is known to differ: length, stopping, arguments, state, precision."""
    model, ids = decoder(key / "model", M), prompt(key / "ids", N)

    def ask(**more: Any) -> Any:
        return generate(model, ids, layer=R, keep=K, scoring=RAW, **more)

    some = ask(max_new_tokens=T)
    reply = some.new_tokens[0].tolist()
    kept = ids[:, some.selection.indices[0]]
    second_stop = next(i for i in range(1, T) if reply[i] not in reply[:i])
    unused = next(i for i in range(2, 97) if i not in reply)
    stopped = ask(max_new_tokens=T, eos_token_id=[unused, reply[second_stop]]).new_tokens.shape[1]
    without = {"max_new_tokens": T, "suppress_tokens": [reply[0]]}
    other, asked = model.generate(kept, **without)[0, K:], ask(**without).new_tokens[0]
    model.train()
    before = hooks(model)
    handle = model.get_decoder().layers[1].register_forward_hook(broken)
    state = []
    try:
        select(model, ids, layer=R, keep=K, scoring=RAW)
    except Broken:
        handle.remove()
        state = [hooks(model) - before, len(model.get_decoder().layers), float(model.training)]
    again = select(model, ids, layer=R, keep=K, scoring=RAW).indices[0]
    model.eval()
    truth = literal_products(model, ids, R).sum(0)
    pooled = np.convolve(truth, np.ones(5) / 5, mode="same")
    got = select(model, ids, layer=R, keep=K, scoring=RAW).scores[0].numpy()
    half = literal_products(model, ids, R).astype(np.float16).sum(0, dtype=np.float16)
    rough = np.convolve(half.astype(float), np.ones(5) / 5, mode="same")
    scale = np.abs(pooled).max()
    return Evidence(
        (
            Case(
                "new tokens for max_new_tokens = 8",
                predict=T,
                observe=len(reply),
                rival=T + 1,
                rival_says="one too many, as released",
            ),
            Case(
                "stops at the second of two end tokens, after",
                predict=second_stop + 1,
                observe=stopped,
                rival=T,
                rival_says="a single end token is looked for",
            ),
            Case(
                "suppress_tokens reaches generate()",
                predict=other.numpy(),
                observe=asked.numpy(),
                rival=np.array(reply),
                rival_says="ignored",
            ),
            Case(
                "after an exception inside pass one: hooks left, layers, training mode",
                predict=[0, M, 1],
                observe=state,
                rival=[1, R, 0],
                rival_says="left as during the pass",
            ),
            Case(
                "and the next selection is what it was",
                predict=some.selection.indices[0].numpy(),
                observe=again.numpy(),
                rival=np.arange(K),
                rival_says="the first k tokens",
            ),
            Case(
                "scores in float32, relative to double",
                predict=pooled / scale,
                observe=got / scale,
                rival=rough / scale,
                tolerance=2e-5,
                rival_says="logits summed in half precision",
            ),
        ),
        comment="Released: a loop of its own, one token longer than asked, one end token, greedy only; layers of the "
        "shared model swapped without a finally; float32 inputs cast to half. Read from its source, not run.",
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "gemfilter.algorithm2_selection",
        entries=("gemfilter.algorithm2",),
        says="The k tokens kept are those of sum_j q_n^j . k_i^j, pooled, with rotary embedding, min(k, n) of them, in "
        "the order of the prompt.",
        check=check_selection,
        reported="Algorithm 2 counts layers from 1 (r in [m]); how the experiments' layers 13 and 19 are numbered, "
        "and whether scores are taken before or after the rotary embedding, is not said. Both change the selection. "
        "The released code numbers from 0 and scores after it, as here.",
    ),
    Claim(
        "gemfilter.algorithm2_second_pass",
        entries=("gemfilter.algorithm2",),
        says="k >= n gives plain generation; else generation on T_J; layers from r on do not run in pass one; padded "
        "batches equal single prompts.",
        check=check_second_pass,
    ),
    Claim(
        "gemfilter.rope_positions",
        entries=("gemfilter.rope_positions",),
        says="Pass two runs at positions 0..k+t-2, where methods that keep positions reach n+t-2.",
        check=check_positions,
        reported="Appendix G.2 gives k + t and n + t, the lengths; these are the same as indices from 0, the last "
        "token not being fed. Pass one runs at n positions.",
    ),
    Claim(
        "gemfilter.behaviour",
        entries=("gemfilter.official_code",),
        says="Exactly max_new_tokens, several end tokens, arguments of generate(), state after exceptions, float32 "
        "scores.",
        check=check_behaviour,
    ),
)
