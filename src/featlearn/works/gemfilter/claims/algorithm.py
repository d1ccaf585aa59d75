"""Algorithm 2 as our method runs it, on tiny random models: selection, second pass, positions, behaviour."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from featlearn.core import Key, SettingError
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import COUNT, REAL
from featlearn.lab.statement import Statement, equal
from featlearn.lab.uncertainty import Observation
from featlearn.methods.gemfilter import RAW, generate, layout_of, select
from featlearn.works.gemfilter.claims import literal
from featlearn.works.gemfilter.setup import FAMILIES, Asked, asked, decoder, prompt

M, R, N, K, T = 5, 2, 120, 16, 8
COUNTS = (1, 7, N - 1, N, N + 50, 0.051)


# --- selection -------------------------------------------------------------------------------------------------------


def draw_families(key: Key) -> tuple[Asked, ...]:
    """A model and a prompt of each family."""
    return tuple(asked(key, N, 4, family) for family in FAMILIES)


def says_selection(settings: tuple[Asked, ...]) -> Sequence[Statement]:
    """The k best by sum_j q_n^j . k_i^j at layer r, pooled over 5, in the order of the prompt."""

    def kept(layer: int, rotary: bool = True) -> np.ndarray:
        each = [literal.raw(*literal.at_filter(a.model, a.ids, layer, rotary=rotary)) for a in settings]
        return np.array([literal.chosen(literal.pooled(scores, 5), K) for scores in each])

    name, source = "tokens kept, in order", "Algorithm 2 with the pooling of G.4.1, layers counted from 0"
    right = kept(R)
    return (
        equal(
            name,
            COUNT,
            right,
            source,
            axis="family and token",
            rival=kept(R, rotary=False),
            rival_says="keys and queries before the rotary embedding",
        ),
        equal(
            f"{name}: layer r",
            COUNT,
            right,
            source,
            of=name,
            axis="family and token",
            rival=kept(R + 1),
            rival_says="layer r + 1",
        ),
        equal(
            "distinct tokens kept for k = 1, 7, n - 1, n, n + 50, and 5.1 % of 120",
            COUNT,
            np.array([1.0, 7.0, N - 1, N, N, 7.0]),
            "Algorithm 2: k <= n; min(k, n) in the released code; shares are rounded up",
            axis="k",
            rival=np.array([1.0, 7.0, N - 1, N, N + 50, 6.0]),
            rival_says="k where k > n, shares rounded down",
        ),
    )


def sees_selection(settings: tuple[Asked, ...], key: Key) -> Mapping[str, Observation]:
    """`select` with the scoring of Algorithm 2."""
    found = [select(a.model, a.ids, layer=R, keep=K, scoring=RAW).indices[0].numpy() for a in settings]
    one = settings[0]
    sizes = [select(one.model, one.ids, layer=R, keep=c, scoring=RAW).indices[0] for c in COUNTS]
    return {
        "tokens kept, in order": np.array(found),
        "distinct tokens kept for k = 1, 7, n - 1, n, n + 50, and 5.1 % of 120": np.array(
            [len(i.unique()) for i in sizes], dtype=float
        ),
    }


# --- second pass -----------------------------------------------------------------------------------------------------

LENGTHS = (70, N, 95)


def draw_prompts(key: Key) -> tuple[Any, list[torch.Tensor]]:
    """A model, and prompts of three lengths."""
    return decoder(key / "model", M), [prompt(key / n, n) for n in LENGTHS]


def kept_of(model: Any, ids: torch.Tensor) -> np.ndarray:
    """The literal T_J as places."""
    return literal.chosen(literal.pooled(literal.raw(*literal.at_filter(model, ids, R)), 5), K)


def says_second_pass(settings: tuple[Any, list[torch.Tensor]]) -> Sequence[Statement]:
    """GEN(F_{1:m}, T_J), greedy, in double precision; the identity for k >= n; layers that run in pass one."""
    model, prompts = settings
    places = [kept_of(model, ids) for ids in prompts]
    pooled = [literal.pooled(literal.raw(*literal.at_filter(model, ids, R)), 5) for ids in prompts]
    scores = [s / np.abs(s).max() for s in pooled]
    replies = [literal.greedy(model, ids[0][p], T) for ids, p in zip(prompts, places, strict=True)]
    one, at = prompts[1][0], places[1]
    turned = literal.greedy(model, one[at[::-1].copy()], T)
    source = "Algorithm 2"
    return (
        equal(
            "(2) reply for k >= n",
            COUNT,
            np.array(literal.greedy(model, one, T)),
            f"{source}: T_J = T, so GEN(F_{{1:m}}, T)",
            axis="token",
            rival=np.array(replies[1]),
            rival_says=f"the reply to {K} kept tokens",
        ),
        equal(
            "(3) reply to T_J",
            COUNT,
            np.array(replies[1]),
            f"{source}, line 8: GEN(F_{{1:m}}, T_J)",
            axis="token",
            rival=np.array(turned),
            rival_says="T_J in another order",
        ),
        equal(
            "(7) times that each layer finishes in pass one",
            COUNT,
            np.array([1.0] * R + [0.0] * (M - R)),
            f"{source}: F_{{1:r}}, layers from 0, of layer r only queries and keys",
            axis="layer",
            rival=np.array([1.0] * (R + 1) + [0.0] * (M - R - 1)),
            rival_says="r + 1 layers, as released",
        ),
        equal(
            "(8) tokens kept of a padded batch",
            COUNT,
            np.array(places),
            f"{source} prompt by prompt",
            axis="prompt and token",
            rival=np.array([p + N - len(ids[0]) for p, ids in zip(places, prompts, strict=True)]),
            rival_says="places that count the padding",
        ),
        equal(
            "(8) scores of a padded batch, over the largest of each prompt",
            REAL,
            np.concatenate(scores),
            f"{source} prompt by prompt, G.4.1 pooling",
            axis="prompt and token",
            margin=2e-5,
            rival=np.concatenate([np.r_[s[:2] / [0.6, 0.8], s[2:]] for s in scores]),
            rival_says="an average over what is there, at the start",
        ),
        equal(
            "(8) how many of each prompt stay, k = 80",
            COUNT,
            np.minimum(LENGTHS, 80),
            f"{source} prompt by prompt",
            axis="prompt",
            rival=np.array(LENGTHS),
            rival_says="all of each, as of the shortest",
        ),
        equal(
            "(8) replies of a padded batch",
            COUNT,
            np.array(replies),
            f"{source} prompt by prompt",
            axis="prompt and token",
            rival=np.array([replies[1]] * 3),
            rival_says="the reply to the longest prompt",
        ),
    )


def sees_second_pass(settings: tuple[Any, list[torch.Tensor]], key: Key) -> Mapping[str, Observation]:
    """`generate` and `select`, alone and on a batch that is padded on the left."""
    model, prompts = settings
    options: dict[str, Any] = {"layer": R, "scoring": RAW, "max_new_tokens": T}
    whole = generate(model, prompts[1], keep=N + 3, **options)
    some = generate(model, prompts[1], keep=K, **options)
    with finished(model) as counts:
        select(model, prompts[1], layer=R, keep=K, scoring=RAW)
    padded, mask = torch.zeros(3, N, dtype=torch.long), torch.zeros(3, N, dtype=torch.long)
    for row, ids in enumerate(prompts):
        padded[row, N - ids.shape[1] :], mask[row, N - ids.shape[1] :] = ids[0], 1
    batch = generate(model, padded, mask, keep=K, **options)
    more = generate(model, padded, mask, keep=80, **options | {"max_new_tokens": 1})  # pyright: ignore[reportArgumentType]
    return {
        "(2) reply for k >= n": whole.new_tokens[0].numpy(),
        "(3) reply to T_J": some.new_tokens[0].numpy(),
        "(7) times that each layer finishes in pass one": np.array(counts, dtype=float),
        "(8) tokens kept of a padded batch": np.stack([i.numpy() for i in batch.selection.indices]),
        "(8) scores of a padded batch, over the largest of each prompt": np.concatenate(
            [(s[m] / s[m].abs().max()).numpy() for s, m in zip(batch.selection.scores, mask.bool(), strict=True)]
        ),
        "(8) how many of each prompt stay, k = 80": np.array(more.selection.kept),
        "(8) replies of a padded batch": batch.new_tokens.numpy(),
    }


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


# --- positions -------------------------------------------------------------------------------------------------------

WINDOW = 64


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


def draw_windowed(key: Key) -> tuple[Asked, Asked]:
    """A model with its prompt, and one whose context ends before its prompt does."""
    short = decoder(key / "window", 3, max_position_embeddings=WINDOW)
    return asked(key, N, M), Asked(short, prompt(key / "long", WINDOW + 16))


def says_positions(settings: tuple[Asked, Asked]) -> Sequence[Statement]:
    """Lengths k + t and n + t; as indices from 0, the last new token never being fed, k + t - 2 and n + t - 2."""
    source = "G.2: GemFilter's positions reach k + t, those of SnapKV and H2O n + t"
    return (
        equal(
            "largest positions of pass one, then of pass two and its reply",
            COUNT,
            np.array([N - 1, K - 1, *range(K, K + T - 1)]),
            source,
            axis="forward pass",
            rival=np.array([N - 1, N - 1, *range(N, N + T - 1)]),
            rival_says="those of the full prompt",
        ),
        equal(
            "longest prompt that a context of 64 takes",
            COUNT,
            float(WINDOW),
            "G.2: pass one runs at n positions",
            rival=float(WINDOW + 16),
            rival_says="longer than the context",
        ),
    )


def sees_positions(settings: tuple[Asked, Asked], key: Key) -> Mapping[str, Observation]:
    """What the rotary embedding is asked for, and which prompts are refused."""
    one, short = settings
    with positions(one.model) as places:
        generate(one.model, one.ids, layer=R, keep=K, scoring=RAW, max_new_tokens=T)
    taken = []
    for n in (WINDOW - 1, WINDOW, WINDOW + 16):
        try:
            taken.append(select(short.model, short.ids[:, :n], layer=1, keep=K, scoring=RAW).lengths[0])
        except SettingError:
            continue
    return {
        "largest positions of pass one, then of pass two and its reply": np.array(places, dtype=float),
        "longest prompt that a context of 64 takes": float(max(taken)),
    }


# --- behaviour -------------------------------------------------------------------------------------------------------


class Broken(Exception):
    """What a failing layer raises below."""


def broken(*_: Any) -> None:
    """A forward hook that fails."""
    raise Broken


def hooks(model: Any) -> int:
    """Hooks on all modules."""
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@dataclass(frozen=True)
class Stopping:
    """A model and prompt, with two end tokens: one that its reply never says, and one first said at place `at`."""

    asked: Asked
    stops: tuple[int, int]
    at: int


def draw_one(key: Key) -> Stopping:
    """End tokens by the reply in double precision."""
    one = asked(key, N, M)
    reply = literal.greedy(one.model, one.ids[0][kept_of(one.model, one.ids)], T)
    at = next(i for i in range(1, T) if reply[i] not in reply[:i])
    unused = next(i for i in range(2, 97) if i not in reply)
    return Stopping(one, (unused, reply[at]), at)


def says_behaviour(settings: Stopping) -> Sequence[Statement]:
    """What a caller of `generate` asks for, in double precision; and raw scores."""
    model, ids = settings.asked.model, settings.asked.ids
    scores = literal.raw(*literal.at_filter(model, ids, R))
    kept = literal.chosen(literal.pooled(scores, 5), K)
    reply = literal.greedy(model, ids[0][kept], T)
    other = literal.greedy(model, ids[0][kept], T, without=[reply[0]])
    q, k = literal.at_filter(model, ids, R)
    rough = np.array([k[j // 2] @ q[j, -1] for j in range(4)]).astype(np.float16).sum(0, dtype=np.float16)
    scale = np.abs(scores).max()
    source = "gemfilter.official_code, what a program should do"
    return (
        equal(
            "tokens for max_new_tokens = 8",
            COUNT,
            float(T),
            f"{source}: as many as asked for",
            rival=float(T + 1),
            rival_says="one too many, as released",
        ),
        equal(
            "tokens until the second of two end tokens",
            COUNT,
            settings.at + 1.0,
            f"{source}: every end token ends a reply",
            rival=float(T),
            rival_says="the first end token alone is looked for",
        ),
        equal(
            "reply with suppress_tokens",
            COUNT,
            np.array(other),
            f"{source}: arguments of generate() are honoured",
            axis="token",
            rival=np.array(reply),
            rival_says="the argument ignored",
        ),
        equal(
            "after an exception in pass one: hooks left, layers, training mode",
            COUNT,
            np.array([0.0, M, 1.0]),
            f"{source}: the model is as it was",
            rival=np.array([1.0, R, 0.0]),
            rival_says="as during the pass",
        ),
        equal(
            "tokens kept after the exception",
            COUNT,
            kept,
            f"{source}: the model is as it was",
            axis="token",
            rival=np.arange(K),
            rival_says="the first k",
        ),
        equal(
            "scores over the largest",
            REAL,
            literal.pooled(scores, 5) / scale,
            f"{source}: sums in float32",
            axis="token",
            margin=2e-5,
            rival=literal.pooled(rough, 5) / scale,
            rival_says="sums in half precision, as released",
        ),
    )


def sees_behaviour(settings: Stopping, key: Key) -> Mapping[str, Observation]:
    """`generate` and `select`, with a layer that fails once."""
    model, ids = settings.asked.model, settings.asked.ids
    options: dict[str, Any] = {"layer": R, "keep": K, "scoring": RAW}
    reply = generate(model, ids, max_new_tokens=T, **options).new_tokens[0].tolist()
    stopped = generate(model, ids, max_new_tokens=T, eos_token_id=list(settings.stops), **options).new_tokens
    other = generate(model, ids, max_new_tokens=T, suppress_tokens=[reply[0]], **options).new_tokens[0]
    model.train()
    before = hooks(model)
    handle = model.get_decoder().layers[1].register_forward_hook(broken)
    state = []
    try:
        select(model, ids, **options)
    except Broken:
        handle.remove()
        state = [hooks(model) - before, len(model.get_decoder().layers), float(model.training)]
    again = select(model, ids, **options)
    model.eval()
    scores = again.scores[0].numpy()
    products = select(model, ids, layer=R, keep=K, scoring=type(RAW)(pooling="none")).scores[0].abs().max()
    return {
        "tokens for max_new_tokens = 8": float(len(reply)),
        "tokens until the second of two end tokens": float(stopped.shape[1]),
        "reply with suppress_tokens": other.numpy(),
        "after an exception in pass one: hooks left, layers, training mode": np.array(state, dtype=float),
        "tokens kept after the exception": again.indices[0].numpy(),
        "scores over the largest": scores / float(products),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gemfilter.algorithm2_selection",
        entries=("gemfilter.algorithm2",),
        says="The k tokens kept are those of sum_j q_n^j . k_i^j, pooled, with rotary embedding, min(k, n) of them, in "
        "the order of the prompt.",
        settings=draw_families,
        statements=says_selection,
        observe=sees_selection,
        remarks="Algorithm 2 counts layers from 1 (r in [m]); how the experiments' layers 13 and 19 are numbered, and "
        "whether scores are taken before or after the rotary embedding, is not said. Both change the selection. The "
        "released code numbers from 0 and scores after it, as here.",
    ),
    Claim(
        id="gemfilter.algorithm2_second_pass",
        entries=("gemfilter.algorithm2",),
        says="k >= n gives plain generation; else generation on T_J; layers from r on do not run in pass one; padded "
        "batches equal single prompts.",
        settings=draw_prompts,
        statements=says_second_pass,
        observe=sees_second_pass,
    ),
    Claim(
        id="gemfilter.rope_positions",
        entries=("gemfilter.rope_positions",),
        says="Pass two runs at positions 0..k+t-2, where methods that keep positions reach n+t-2.",
        settings=draw_windowed,
        statements=says_positions,
        observe=sees_positions,
        remarks="Appendix G.2 gives k + t and n + t, the lengths; these are the same as indices from 0, the last token "
        "not being fed. Pass one runs at n positions, so a prompt beyond the trained context is not rescued.",
    ),
    Claim(
        id="gemfilter.behaviour",
        entries=("gemfilter.official_code",),
        says="Exactly max_new_tokens, several end tokens, arguments of generate(), state after exceptions, float32 "
        "scores.",
        settings=draw_one,
        statements=says_behaviour,
        observe=sees_behaviour,
    ),
)
