"""Causal attention of a run of rows on all keys before them, without repeating keys and without a matrix of n x n."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featlearn.methods.gemfilter.given import whole

ENTRIES = 2**26
"""Mask or logit entries alive at a time where no fused causal kernel applies."""
ALIGN = 16
"""Key blocks under a mask have a multiple of this many keys, or the masked CUDA kernel copies the mask to pad it."""


@dataclass(frozen=True)
class SinksAndWindow:
    """A pattern whose work grows as n * window: who attends to whom in the layers before the filter layer.

    Row i sees key j <= i where j < sinks (start of the prompt) or i - j < window (itself and the window - 1 tokens
    before it); each of the last `dense_tail` rows sees every key before it. The tail should hold the question: only
    its rows can gather from afar, and they vote at the filter layer, which is scored over all keys. Layers that have
    a window of their own keep it as it is. On a CPU a prompt shorter than about three windows is not read faster than
    exactly: leave the pattern out there.

    Raises SettingError for negative sinks, a window below 1, a tail below 1.

    Example:
        >>> SinksAndWindow(sinks=64, window=1024)  # attention=... of select_chunked
        SinksAndWindow(sinks=64, window=1024, ...)
    """

    sinks: int = 64
    window: int = 1024
    dense_tail: int = 256

    def __post_init__(self) -> None:
        for name, least in (("sinks", 0), ("window", 1), ("dense_tail", 1)):
            value = whole(name, getattr(self, name), least, "64, 1024 and 256 are the defaults")
            object.__setattr__(self, name, value)


def attend(
    queries: Float[Tensor, "1 h w d"],
    keys: Float[Tensor, "1 g n d"],
    values: Float[Tensor, "1 g n d"],
    start: int,
    *,
    scale: float,
    softcap: float | None = None,
    window: int | None = None,
    sinks: int = 0,
) -> Float[Tensor, "1 h w d"]:
    """softmax(scale q.k) v for rows start .. start+w-1 of a prompt, each on the keys up to its own place.

    keys, values: at least start + w of them; head i of the queries reads head i // (h / g). softcap: c, where a logit
    z becomes c tanh(z / c). window: a row sees itself and the window - 1 keys before it, and the first `sinks` keys;
    None: everything. Time h w (sinks + 2 window) d with a window, h w n d without.

    Example:
        >>> q = k = v = torch.ones(1, 2, 120, 8)
        >>> attend(q[:, :, 100:], k, v, 100, scale=8**-0.5).shape
        torch.Size([1, 2, 20, 8])
    """
    h, w = queries.shape[1:3]
    stop, groups = start + w, keys.shape[1]
    share = h // groups
    if window is not None and stop <= window:
        window = None
    if window is not None and start < window and not queries.is_cuda:  # rows before `window` see all before them
        how: dict[str, Any] = {"scale": scale, "softcap": softcap}
        near = attend(queries[:, :, : window - start], keys, values, start, **how)
        rest = attend(queries[:, :, window - start :], keys, values, window, window=window, sinks=sinks, **how)
        return torch.cat([near, rest], dim=2)
    if window is None and softcap is None:
        if start == 0 and not queries.is_cuda:
            return nn.functional.scaled_dot_product_attention(
                queries, keys[:, :, :w], values[:, :, :w], is_causal=True, scale=scale, enable_gqa=share > 1
            )
        if _fused_from_the_end(queries):
            from torch.nn.attention.bias import causal_lower_right

            edge, k, v = causal_lower_right(w, stop), keys[:, :, :stop], values[:, :, :stop]
            return nn.functional.scaled_dot_product_attention(queries, k, v, edge, scale=scale, enable_gqa=share > 1)
    step = _rows(h if softcap is not None else share, stop, window, sinks, queries.is_cuda)
    out, masks = torch.empty_like(queries), _Masks()
    for a in range(start, stop, step):
        b = min(a + step, stop)
        first, head = _span(a, b, window, sinks)
        k, v = (torch.cat([t[:, :, :head], t[:, :, first:b]], 2) if head else t[:, :, first:b] for t in (keys, values))
        q = queries[:, :, a - start : b - start].reshape(1, groups, share * (b - a), -1)  # keys are read, not repeated
        mask = masks.of(a, b, first, head, window, sinks, share, q)
        if softcap is None:
            part = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        else:
            part = _capped(q, k, v, mask, scale, softcap)
        out[:, :, a - start : b - start] = part.view(1, h, b - a, -1)
    return out


def _fused_from_the_end(queries: Tensor) -> bool:
    """Whether a kernel takes grouped heads, and fewer queries than keys with the causal edge at the end."""
    return queries.is_cuda and queries.dtype in (torch.float16, torch.bfloat16) and queries.shape[-1] <= 256


def _rows(share: int, stop: int, window: int | None, sinks: int, cuda: bool) -> int:
    """Rows of a block. With as many as the window half of the products are masked and few kernels start, which counts
    on a GPU; on a CPU the products count, and blocks of an eighth leave one in nine masked."""
    if window is None:
        return max(1, ENTRIES // (share * stop))
    step = min(max(window, 128), 2048) if cuda else min(max(window // 8, 64), 256)
    return max(1, min(step, ENTRIES // (share * (sinks + window + step + ALIGN))))


def _span(a: int, b: int, window: int | None, sinks: int) -> tuple[int, int]:
    """(first, head): rows a .. b-1 need keys 0 .. head-1 and first .. b-1."""
    first = 0 if window is None else max(0, a - window + 1)
    first -= (first - b - sinks) % ALIGN
    return (first, sinks) if first > sinks else (0, 0)


class _Masks:
    """The additive mask of the last block: away from the start all blocks have the same one."""

    def __init__(self) -> None:
        self._known: tuple[tuple[int, ...], Tensor] | None = None

    def of(
        self, a: int, b: int, first: int, head: int, window: int | None, sinks: int, share: int, like: Tensor
    ) -> Tensor:
        shape = (b - a, a - first, head)
        if self._known is None or self._known[0] != shape:
            at = torch.arange(first, b, device=like.device)
            at = torch.cat([torch.arange(head, device=like.device), at])
            row = torch.arange(a, b, device=like.device)[:, None]
            visible = at <= row
            if window is not None:
                visible &= (row - at < window) | (at < sinks)
            mask = torch.zeros(visible.shape, dtype=like.dtype, device=like.device)
            self._known = shape, mask.masked_fill_(~visible, -torch.inf).repeat(share, 1)
        return self._known[1]


def _capped(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float, softcap: float) -> Tensor:
    """Spelled out: no fused kernel bends the logits."""
    wide = torch.promote_types(q.dtype, torch.float32)
    logits = (q @ k.transpose(2, 3)).to(wide).mul_(scale / softcap).tanh_().mul_(softcap).add_(mask)
    return torch.softmax(logits, dim=-1).to(v.dtype) @ v
