"""Whether a layout reads a model right: its scores against the model's own eager attention, on a few tokens.

A family that this package does not name is used when every layer's attention comes out as the model computes it; what
differs is refused with the difference seen. The model runs as one call sees it (`views`), with copies of its attention
modules that return their probabilities; nothing of the model is changed.
"""

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featlearn.core import SettingError
from featlearn.methods.gemfilter.layout import Layout
from featlearn.methods.gemfilter.views import PLAIN_OUTPUT, received, uncompiled, view
from featlearn.methods.memory import device_of_model

TOKENS = 12
TOLERANCE, COARSE = 1e-3, 0.1
"""Of a difference over how far the attention is from uniform: in single precision, and in half precision, whose logits
are rounded before the softmax. A layout that is wrong differs by about 1."""
UNIFORM, NEARLY = 1e-3, 0.05
"""Attention no further from uniform shows nothing, in single and in half precision."""
KINDS = {"full_attention", "sliding_attention"}
"""Kinds of layers whose reach `Layout.window` knows; that of others a few tokens would not show."""
REGISTER = "write a Layout that reads it and register it: gemfilter.register"


def check_layout(layout: Layout, model: Any) -> None:
    """Errors: SettingError for a layout that does not read the model's attention as the model computes it."""
    kind = layout.model_type
    allowed = "a decoder whose attention is read as it is computed"
    try:
        unknown = sorted(set(getattr(layout.config(model), "layer_types", None) or ()) - KINDS)
        if unknown:
            raise SettingError("model", f"{kind} with layers of {', '.join(unknown)}", allowed, REGISTER)
        layer, difference, spread = largest_difference(layout, model)
    except SettingError:
        raise
    except Exception as e:  # whatever a foreign model raises when it is built otherwise
        told = f"{type(e).__name__}: {e}".splitlines()[0][:120]
        raise SettingError("model", f"{kind}, which is built otherwise ({told})", allowed, REGISTER) from None
    half = next(model.parameters()).dtype not in (torch.float32, torch.float64)
    if not difference <= (COARSE if half else TOLERANCE) * spread:
        told = f"{kind}, whose attention at layer {layer} differs by {difference:.2g} from what is read of it"
        raise SettingError("model", told, allowed, REGISTER)
    if spread < (NEARLY if half else UNIFORM):
        told = f"{kind}, whose attention at layer {layer} is uniform, so that nothing can be read from it"
        raise SettingError("model", told, allowed, "load trained weights")


def largest_difference(layout: Layout, model: Any) -> tuple[int, float, float]:
    """(layer, difference, spread) of the layer where the first is the largest share of the second.

    difference: the largest of a probability between the model's eager attention and what the layout reads of it;
    spread: how far the eager attention is from uniform. inf and 0 where one is not finite.
    """
    stack: Any = layout.layers(model)
    eager = copy.deepcopy(layout.config(model))
    eager._attn_implementation = "eager"
    found: dict[int, tuple[float, float]] = {}

    def compared(layer: int) -> Callable[[nn.Module, Callable[..., Any]], Callable[..., Any]]:
        def replace(attn: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
            attn.__dict__["config"] = eager
            return functools.partial(_compared, layout, model, attn, layer, found, forward)

        return replace

    forwards = {id(uncompiled(layer.self_attn)): compared(i) for i, layer in enumerate(stack)}
    vocabulary = model.get_input_embeddings().weight.shape[0]
    ids = 1 + (7 * torch.arange(TOKENS, device=device_of_model(model))) % (vocabulary - 1)
    with torch.inference_mode(), view(model, forwards, evaluating=True) as own:
        decoder = own.get_decoder()
        decoder.__dict__["config"] = eager  # a copy, since its layers are
        decoder(input_ids=ids[None], attention_mask=None, use_cache=False, **PLAIN_OUTPUT)
    if len(found) < len(stack):
        missing = min(set(range(len(stack))) - set(found))
        raise SettingError(
            "model", f"{layout.model_type} with a layer {missing} without attention", "attention everywhere", REGISTER
        )
    layer = max(found, key=lambda i: found[i][0] / max(found[i][1], 1e-30))
    return layer, *found[layer]


def _compared(
    layout: Layout,
    model: Any,
    attn: nn.Module,
    layer: int,
    found: dict[int, tuple[float, float]],
    forward: Callable[..., Any],
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    hidden, rotary = received(args, kwargs)
    out = forward(*args, **kwargs)
    own = out[1]
    if own is None:
        raise SettingError("model", layout.model_type, "eager attention that returns its probabilities", REGISTER)
    read = probabilities(layout, attn, hidden, rotary, layout.window(model, layer))
    finite = own.shape == read.shape and bool(torch.isfinite(own).all() and torch.isfinite(read).all())
    if not finite:
        found[layer] = torch.inf, 0.0
        return out
    seen = read > 0
    uniform = seen / seen.sum(-1, keepdim=True)
    found[layer] = float((own.float() - read.float()).abs().max()), float((own.float() - uniform).abs().max())
    return out


def probabilities(
    layout: Layout, attn: nn.Module, hidden: Tensor, rotary: tuple[Tensor, Tensor], window: int | None
) -> Float[Tensor, "b h n n"]:
    """Attention probabilities as the layout reads them."""
    queries, keys = layout.queries(attn, hidden, rotary), layout.keys(attn, hidden, rotary)
    keys = keys.repeat_interleave(queries.shape[1] // keys.shape[1], dim=1)
    logits = queries @ keys.transpose(2, 3) * layout.scale(attn)
    cap = layout.softcap(attn)
    if cap is not None:
        logits = cap * torch.tanh(logits / cap)
    at = torch.arange(hidden.shape[1], device=hidden.device)
    ago = at[:, None] - at
    seen = (ago >= 0) if window is None else (ago >= 0) & (ago < window)
    wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
    return logits.to(wide).masked_fill(~seen, -torch.inf).softmax(-1)
