"""Pass one: the first layers read the long prompt, and the last queries pick the tokens to keep."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from featlearn.core import SettingError
from featlearn.errors import brief
from featlearn.methods.gemfilter.given import as_prompt, count_of, plain_number, protected_tokens, whole
from featlearn.methods.gemfilter.layout import Layout
from featlearn.methods.gemfilter.layouts import check_layer, layout_of
from featlearn.methods.gemfilter.views import PLAIN_OUTPUT, See, undisturbed, watched
from featlearn.methods.memory import PassCost, device_of_model, measured

POOLINGS = ("avg", "max", "none")
BLOCK = 16384
"""Keys scored at a time: bounds the float32 copy of half-precision keys."""


@dataclass(frozen=True)
class Scoring:
    """How the keys of the filter layer are scored.

    rows: how many of the last queries vote. softmax: sum attention probabilities (True) or raw inner products
    without scale (False) over rows and heads. pool, pooling: width and kind of the 1-D smoothing along the prompt,
    stride 1, zeros beyond the ends; "none" turns it off. heads: query heads that vote, all where None. over_heads:
    "sum", or "max" so that a single head which sees the answer is enough (probabilities only).

    `RAW` is Algorithm 2 as released: the last row, raw products, average over 5 tokens.
    """

    rows: int = 1
    softmax: bool = False
    pool: int = 5
    pooling: str = "avg"
    heads: tuple[int, ...] | None = None
    over_heads: str = "sum"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", whole("rows", self.rows, 1, "1 scores with the last query alone"))
        if self.pooling not in POOLINGS:
            raise SettingError(
                "pooling", self.pooling, f"one of {', '.join(POOLINGS)}", "none leaves scores as they are"
            )
        width = plain_number(self.pool)
        if isinstance(width, bool) or not isinstance(width, int) or width < 1 or width % 2 == 0:
            raise SettingError("pool", brief(width), "an odd width of at least 1", "5 is the reported one")
        object.__setattr__(self, "pool", width)
        if not isinstance(plain_number(self.softmax), bool):
            raise SettingError("softmax", brief(self.softmax), "True or False", "False takes raw products")
        object.__setattr__(self, "softmax", plain_number(self.softmax))
        if self.heads is not None:
            try:
                heads = tuple(whole("heads", h, 0, "heads count from 0") for h in self.heads)
            except TypeError:
                heads = ()
            if isinstance(self.heads, str) or not heads or len(set(heads)) < len(heads):
                raise SettingError(
                    "heads", brief(self.heads), "distinct heads, at least one", "None takes all of them"
                ) from None
            object.__setattr__(self, "heads", heads)
        if self.over_heads not in ("sum", "max") or (self.over_heads == "max" and not self.softmax):
            raise SettingError("over_heads", self.over_heads, "sum, or max with softmax", "raw products are summed")


RAW = Scoring()
SOFTMAX = Scoring(rows=16, softmax=True, pool=25, over_heads="max")


@dataclass(frozen=True)
class Selection:
    """Which tokens of each prompt stay.

    indices: per prompt the positions kept, ascending, counted without its padding; scores: b n, -inf at padding, in
    the columns of `input_ids`; layer: the filter layer, from 0; protected: b n, kept whatever their score; lengths:
    tokens of each prompt; cost: seconds and peak memory of pass one.
    """

    indices: tuple[Int[Tensor, " _"], ...]
    scores: Float[Tensor, "b n"]
    layer: int
    protected: Bool[Tensor, "b n"]
    lengths: tuple[int, ...]
    cost: PassCost

    @property
    def kept(self) -> tuple[int, ...]:
        """Tokens kept of each prompt."""
        return tuple(len(i) for i in self.indices)


def select(
    model: Any,
    input_ids: Any,
    attention_mask: Any = None,
    *,
    layer: Any,
    keep: Any,
    scoring: Scoring = SOFTMAX,
    protect: Any = (0, 0),
) -> Selection:
    """The tokens that the filter layer attends to from the end of the prompt.

    Runs the layers before `layer` (counted from 0) and of that layer only the norm, all keys and the last queries.
    The score of token i is sum over heads and rows of q.k_i (or of the attention probability), smoothed along the
    prompt; the `keep` best stay, in the order of the prompt.

    input_ids: b n, padded on either side where attention_mask is 0, as a tensor, an array, lists, or what a tokenizer
    returns; without a mask, where the model's padding token
    stands, as its `generate` takes it. keep: a count of tokens per prompt, or a share
    in (0, 1] of its length, rounded up; prompts no longer than `keep` stay whole. protect: (first, last) tokens of
    every prompt that stay in any case, or a mask of them; they count towards `keep`.

    Source: Algorithm 2 (gemfilter.algorithm2), with gemfilter.listing. Differs from the released code: the layer's own
    attention, output projection and MLP are not run, keys are not repeated for grouped heads, sums are in float32,
    batches and padding are supported, equal scores go to the earlier token, nothing of the model is replaced.

    Raises SettingError, before any work, for a model of unknown layout, a layer that is missing or sees a window
    only, ids outside the vocabulary, a mask of another shape or with holes, a prompt that is all padding or longer
    than the model's context, and a `keep` smaller than what is protected; after it, naming the layer, for queries, keys
    or scores that are not finite: these are never ranked.

    Example:
        >>> chosen = select(model, ids, layer=13, keep=1024)
        >>> ids[0, chosen.indices[0]].shape
        torch.Size([1024])
    """
    ask = check_request(model, input_ids, attention_mask, layer, keep, scoring, protect)
    found, cost = measured(
        ask.input_ids.device,
        ask.input_ids.numel(),
        lambda: scores(ask.layout, model, ask.input_ids, ask.mask, ask.layer, scoring),
    )
    return ask.selection(found, cost)


# --- checks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """What a selection was asked for, checked: ids and mask on the model's device, tokens to keep of each prompt."""

    layout: Layout
    input_ids: Int[Tensor, "b n"]
    mask: Bool[Tensor, "b n"]
    layer: int
    lengths: tuple[int, ...]
    protected: Bool[Tensor, "b n"]
    counts: tuple[int, ...]

    def selection(self, found: Float[Tensor, "b n"], cost: PassCost) -> Selection:
        """The best tokens by scores of shape b n."""
        found = found.clone()  # made in inference mode, it could not take part in anything with gradients
        chosen = best(found, self.mask, self.protected, self.counts)
        return Selection(chosen, found, self.layer, self.protected, self.lengths, cost)


def check_request(
    model: Any,
    input_ids: Any,
    attention_mask: Any,
    layer: Any,
    keep: Any,
    scoring: Scoring,
    protect: Any,
) -> Request:
    """Every setting of `select`, or SettingError before any work."""
    layout = layout_of(model)
    check_scoring(scoring)
    input_ids, mask = check_prompt(layout, model, input_ids, attention_mask)
    layer = check_layer(layout, model, layer, int(mask.sum(1).max()))
    heads = layout.config(model).num_attention_heads
    if scoring.heads is not None and not all(0 <= h < heads for h in scoring.heads):
        raise SettingError("heads", scoring.heads, f"0 to {heads - 1}", "these are the query heads of the model")
    lengths = tuple(mask.sum(1).tolist())
    protected = protected_tokens(protect, mask)
    counts = tuple(count_of(keep, n) for n in lengths)
    for row, (count, length) in enumerate(zip(counts, lengths, strict=True)):
        needed = int(protected[row].sum())
        if needed > min(count, length):
            raise SettingError(
                "keep",
                plain_number(keep),
                f"at least the {needed} protected tokens of prompt {row}",
                "keep more or protect fewer",
            )
    return Request(layout, input_ids, mask, layer, lengths, protected, counts)


def check_scoring(scoring: Any) -> None:
    """Errors: SettingError for what is no Scoring."""
    if not isinstance(scoring, Scoring):
        raise SettingError("scoring", brief(scoring), "a Scoring", "gemfilter.SOFTMAX and gemfilter.RAW are usual")


def check_prompt(
    layout: Layout,
    model: Any,
    input_ids: Any,
    attention_mask: Any,
    special: Mapping[str, Any] | None = None,
) -> tuple[Tensor, Tensor]:
    """Ids on the model's device and a Bool mask of their shape, or SettingError. See `as_prompt` for what is taken.

    Without a mask it is inferred as the model's `generate` does; special: arguments of that `generate`.
    """
    input_ids, attention_mask = as_prompt(input_ids, attention_mask)
    mask = inferred_mask(model, input_ids, special or {}) if attention_mask is None else attention_mask.bool()
    told = "" if attention_mask is not None else ", as the padding token stands in the prompt: give attention_mask"
    if attention_mask is not None and bool(((attention_mask != 0) & (attention_mask != 1)).any()):
        raise SettingError("attention_mask", "with other values", "1 for tokens and 0 for padding", "give such a mask")
    if mask.shape != input_ids.shape:
        raise SettingError(
            "attention_mask", list(mask.shape), f"the shape of input_ids, {list(input_ids.shape)}", "pad both alike"
        )
    mask = mask.to(input_ids.device)
    if not bool(mask.any(1).all()):
        row = int((~mask.any(1)).nonzero()[0])
        raise SettingError(
            "attention_mask", f"all zero{told}", "a token in every row", f"drop row {row}, it is all padding"
        )
    if bool((mask.int().diff(dim=1).abs().sum(1) > 1).any()) and not bool((_spans(mask) == mask.sum(1)).all()):
        raise SettingError(
            "attention_mask", f"with holes{told}", "padding at the ends only", "close the gaps in the prompt"
        )
    vocabulary = model.get_input_embeddings().weight.shape[0]
    real = input_ids[mask]
    low, high = int(real.min()), int(real.max())
    if low < 0 or high >= vocabulary:
        raise SettingError(
            "input_ids", low if low < 0 else high, f"0 to {vocabulary - 1}", "use the tokenizer of this model"
        )
    longest, context = int(mask.sum(1).max()), getattr(layout.config(model), "max_position_embeddings", None)
    if context is not None and longest > context:
        raise SettingError(
            "input_ids",
            f"{longest} tokens",
            f"at most the model's context of {context}",
            "shorten the prompt, or extend the context with rope scaling in the model's config",
        )
    device = device_of_model(model, input_ids.device)
    return input_ids.to(device), mask.to(device)


def inferred_mask(model: Any, input_ids: Tensor, special: Mapping[str, Any]) -> Bool[Tensor, "b n"]:
    """The mask that `generate` of Transformers takes for a prompt without one: padding where the padding token stands,
    unless it is a token that ends replies, too."""
    own = getattr(model, "generation_config", None)
    given = special.get("generation_config")

    def token(name: str) -> Any:
        if name in special:  # None, too
            return special[name]
        found = (getattr(given, name, None), getattr(own, name, None))
        return next((x for x in found if x is not None), None)

    pad, ends = token("pad_token_id"), token("eos_token_id")
    ends = ends.flatten().tolist() if isinstance(ends, Tensor) else ends if isinstance(ends, list | tuple) else [ends]
    if pad is None or int(pad) in ends:
        return torch.ones_like(input_ids, dtype=torch.bool)
    return input_ids != int(pad)


def _spans(mask: Tensor) -> Tensor:
    n = mask.shape[1]
    first = mask.int().argmax(1)
    return n - mask.flip(1).int().argmax(1) - first


# --- scores ----------------------------------------------------------------------------------------------------------


def scores(
    layout: Layout, model: Any, input_ids: Tensor, mask: Tensor, layer: int, scoring: Scoring
) -> Float[Tensor, "b n"]:
    """Smoothed scores of all tokens, -inf at padding; settings are not checked."""
    found: list[Tensor] = []

    def score(layer: int, attn: nn.Module, hidden: Tensor, rotary: tuple[Tensor, Tensor]) -> None:  # noqa: ARG001
        found.append(score_layer(layout, attn, hidden, rotary, mask, scoring))
        raise _ReadError

    _until(layout, model, input_ids, mask, layer, score)
    return found[0]


def score_layer(
    layout: Layout,
    attn: nn.Module,
    hidden: Float[Tensor, "b n e"],
    rotary: tuple[Tensor, Tensor],
    mask: Bool[Tensor, "b n"],
    scoring: Scoring,
) -> Float[Tensor, "b n"]:
    """As `scores`, from what the attention of a layer received: for those who run the model themselves."""
    mask = mask.to(hidden.device)
    votes = last_queries(layout, attn, hidden, rotary, mask, scoring.rows)
    return vote(layout, attn, votes, layout.keys(attn, hidden, rotary), mask, scoring)


def vote(
    layout: Layout,
    attn: nn.Module,
    votes: Float[Tensor, "b h w d"],
    keys: Float[Tensor, "b g n d"],
    mask: Bool[Tensor, "b n"],
    scoring: Scoring,
) -> Float[Tensor, "b n"]:
    """Smoothed scores from the queries that vote and all keys of a layer. Errors: SettingError for any not finite."""
    if scoring.softmax:
        by_head = probabilities(votes, keys, mask, layout.scale(attn), layout.softcap(attn), scoring.heads)
        found = by_head.amax(1) if scoring.over_heads == "max" else by_head.sum(1)
    else:
        found = products(votes, keys, scoring.heads)
    found = smooth(found, mask, scoring)
    check_scores(found, mask, attn)
    return found


def check_scores(found: Float[Tensor, "b n"], mask: Bool[Tensor, "b n"], attn: nn.Module) -> None:
    """SettingError that names the layer and the prompts with scores that are not finite; those of padding may be."""
    odd = ~torch.isfinite(found) & mask
    if bool(odd.any()):
        rows = odd.any(1).nonzero()[:3, 0].tolist()
        raise not_finite("scores", f"layer {getattr(attn, 'layer_idx', '?')}, prompt {', '.join(map(str, rows))}")


def not_finite(what: str, where: str) -> SettingError:
    """The error for a model that computes nan or infinity."""
    remedy = "its weights may hold nan or infinity; float16 overflows: load it in bfloat16 or float32"
    return SettingError("model", f"with {what} that are not finite ({where})", "finite numbers", remedy)


class _ReadError(Exception):
    """Ends the forward pass at the filter layer; not an error of anyone's."""


def observe(
    layout: Layout, model: Any, input_ids: Tensor, mask: Tensor, layer: int
) -> tuple[nn.Module, Float[Tensor, "b n e"], tuple[Tensor, Tensor]]:
    """The attention module of a layer, and the hidden states and rotary (cos, sin) that it receives.

    The model's own forward runs up to the layer's norm and is left there: masks, embeddings and rotary variants are
    the model's, no later layer runs, no cache is filled.
    """
    seen: list[Any] = []

    def stop(layer: int, attn: nn.Module, hidden: Tensor, rotary: tuple[Tensor, Tensor]) -> None:  # noqa: ARG001
        seen.extend((hidden, rotary))
        raise _ReadError

    _until(layout, model, input_ids, mask, layer, stop)
    stack: Any = layout.layers(model)
    return stack[layer].self_attn, seen[0], seen[1]


def _until(layout: Layout, model: Any, input_ids: Tensor, mask: Tensor, layer: int, stop: See) -> None:
    """The model's own forward up to the attention of a layer, where `stop` raises _ReadError."""
    whole = bool(mask.all())
    places = None if whole else (mask.cumsum(1) - 1).clamp(min=0)
    with watched(layout, model, [layer], stop) as seeing, undisturbed(seeing) as own, contextlib.suppress(_ReadError):
        own.get_decoder()(
            input_ids=input_ids,
            attention_mask=None if whole else mask.long(),
            position_ids=places,
            use_cache=False,
            **PLAIN_OUTPUT,
        )


def last_queries(
    layout: Layout,
    attn: nn.Module,
    hidden: Float[Tensor, "b n e"],
    rotary: tuple[Tensor, Tensor],
    mask: Bool[Tensor, "b n"],
    rows: int,
) -> Float[Tensor, "b h w d"]:
    """The last `rows` queries of every prompt; zero where a prompt has fewer tokens."""
    ends = mask.shape[1] - mask.flip(1).int().argmax(1)  # one past the last token
    at = ends[:, None] + torch.arange(-rows, 0, device=hidden.device)
    missing = at < ends[:, None] - mask.sum(1, keepdim=True)
    at = at.clamp(min=0)[..., None]
    cos, sin = (t.to(hidden.device).expand(len(at), -1, -1) for t in rotary)
    turned = cos.gather(1, at.expand(-1, -1, cos.shape[-1])), sin.gather(1, at.expand(-1, -1, sin.shape[-1]))
    votes = layout.queries(attn, hidden.gather(1, at.expand(-1, -1, hidden.shape[-1])), turned)
    return votes.masked_fill(missing[:, None, :, None], 0)


def products(
    votes: Float[Tensor, "b h w d"], keys: Float[Tensor, "b g n d"], heads: tuple[int, ...] | None = None
) -> Float[Tensor, "b n"]:
    """sum over heads and rows of q.k: grouped heads are summed before the product, so keys are never repeated."""
    groups = keys.shape[1]
    wide = torch.promote_types(keys.dtype, torch.float32)
    votes = votes.to(wide).sum(2)
    if heads is not None:
        chosen = votes.new_zeros(votes.shape[1])
        chosen[list(heads)] = 1
        votes = votes * chosen[:, None]
    summed = votes.unflatten(1, (groups, -1)).sum(2)
    with torch.autocast(keys.device.type, enabled=False):  # it would round the sums
        parts = [torch.einsum("bgd,bgnd->bn", summed, part.to(wide)) for part in keys.split(BLOCK, dim=2)]
    return torch.cat(parts, dim=1)


def probabilities(
    votes: Float[Tensor, "b h w d"],
    keys: Float[Tensor, "b g n d"],
    mask: Bool[Tensor, "b n"],
    scale: float,
    softcap: float | None = None,
    heads: tuple[int, ...] | None = None,
) -> Float[Tensor, "b v n"]:
    """By voting head the sum over rows of the causal attention probability."""
    b, h, w, _ = votes.shape
    groups, n = keys.shape[1], keys.shape[2]
    wide = torch.promote_types(keys.dtype, torch.float32)
    by_group = votes.to(wide).unflatten(1, (groups, h // groups))
    with torch.autocast(keys.device.type, enabled=False):  # it would round the logits
        parts = [torch.einsum("bgrwd,bgnd->bgrwn", by_group, part.to(wide)) for part in keys.split(BLOCK, dim=2)]
    logits = torch.cat(parts, dim=-1).view(b, h, w, n)
    if heads is not None:
        logits = logits[:, list(heads)]
    logits = finite_or_nan(logits.mul_(scale))
    if softcap is not None:
        logits = torch.tanh(logits / softcap) * softcap
    place = mask.cumsum(1)  # from 1
    row = place[:, -1:] + torch.arange(1 - w, 1, device=mask.device)  # b w, from 1; below 1: no such row
    visible = mask[:, None, :] & (place[:, None, :] <= row[:, :, None])
    found = torch.softmax(logits.masked_fill_(~visible[:, None], -torch.inf), dim=-1)
    return found.masked_fill_((row < 1)[:, None, :, None], 0).sum(2)


def finite_or_nan(logits: Tensor) -> Tensor:
    """Infinite logits as nan, in place: softmax would make -inf a probability of 0 like any other."""
    for part in logits.split(BLOCK, dim=-1):
        part.masked_fill_(part.isinf(), torch.nan)
    return logits


def smooth(found: Float[Tensor, "b n"], mask: Bool[Tensor, "b n"], scoring: Scoring) -> Float[Tensor, "b n"]:
    """Pool along the prompt, zeros beyond its ends (reported: padding counts into the average); -inf at padding."""
    found = found.masked_fill(~mask, 0)
    wide, half = scoring.pool, scoring.pool // 2
    if scoring.pooling == "avg":
        found = nn.functional.avg_pool1d(found[:, None], wide, 1, half)[:, 0]
    elif scoring.pooling == "max":
        found = nn.functional.max_pool1d(nn.functional.pad(found[:, None], (half, half)), wide, 1)[:, 0]
    return found.masked_fill(~mask, -torch.inf)


def best(
    found: Float[Tensor, "b n"], mask: Bool[Tensor, "b n"], protected: Bool[Tensor, "b n"], counts: Sequence[int]
) -> tuple[Int[Tensor, " _"], ...]:
    """Per prompt the positions of its `count` best tokens, ascending; equal scores go to the earlier token.

    Errors: SettingError for nan, which has no rank.
    """
    if bool((torch.isnan(found) & mask).any()):
        raise SettingError("scores", "with nan", "numbers", "look for nan in the weights of the model")
    chosen = []
    ranked = found.masked_fill(protected, torch.inf)
    for row, count in enumerate(counts):
        own = ranked[row, mask[row]]
        order = torch.sort(own, descending=True, stable=True).indices
        chosen.append(order[:count].sort().values)
    return tuple(chosen)
