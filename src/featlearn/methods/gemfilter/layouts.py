"""Which layout reads a model: known families, layouts that users register, and any that proves itself.

A family that is not listed, and a layout that a user registers, are held against the model's own attention at first use
(`proof`) and refused by name where they differ, rather than scored wrongly.
"""

import threading
import weakref
from typing import Any

from torch import nn

from featlearn.core import SettingError
from featlearn.errors import brief
from featlearn.methods.gemfilter.given import plain_number
from featlearn.methods.gemfilter.layout import Layout
from featlearn.methods.gemfilter.proof import check_layout

# model_type: whether each family's layers may use a window, and the one thing it does differently. All have layers
# with .self_attn that receives `hidden_states` and `position_embeddings`.
FAMILIES = (
    "gemma",
    "gemma2",  # softcap on the logits
    "gemma3",  # text part of the multimodal model
    "gemma3_text",  # norms on queries and keys, rotary base by kind of layer
    "llama",
    "mistral",
    "phi3",  # queries, keys and values from one matrix; rotary embedding on a part of the head
    "qwen2",
    "qwen3",  # norms on queries and keys
    "smollm3",  # some layers without rotary embedding
)

OTHER_KINDS = "a decoder with causal softmax attention"


_REGISTERED: dict[str, Layout] = {}
_PROVED: "weakref.WeakKeyDictionary[Any, Layout]" = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def register(layout: Layout) -> None:
    """Let models of `layout.model_type` be read by a layout of yours; the last one counts.

    Derive it from `Layout` and override what differs, such as `queries` and `keys`. At the first use on a model it is
    held against the model's own attention.

    Errors: SettingError for anything else, or a layout without a model_type.

    Example:
        >>> class Interleaved(Layout):
        ...     def queries(self, attn, hidden, rotary): ...
        >>> Interleaved("mine").model_type  # `register(Interleaved("mine"))` lets it read such models
        'mine'
    """
    if not isinstance(layout, Layout) or not layout.model_type:
        raise SettingError("layout", repr(layout), "a Layout with a model_type", "derive a class from gemfilter.Layout")
    with _LOCK:
        _REGISTERED[layout.model_type] = layout
        _PROVED.clear()


def layout_of(model: Any) -> Layout:
    """The layout of a Hugging Face causal language model.

    Families in FAMILIES are known; any other decoder is run once on a few tokens, and its layout holds where every
    layer's attention is read as the model computes it.

    Raises SettingError for encoder-decoders, state-space models, and decoders whose attention is computed otherwise,
    with the difference seen.

    Example:
        >>> layout_of(model).model_type
        'llama'
    """
    config = getattr(model, "config", None)
    kind = getattr(config, "model_type", None)
    if config is None or kind is None or not hasattr(model, "get_decoder"):
        raise SettingError(
            "model", type(model).__name__, "a Hugging Face causal language model", "load it with AutoModelForCausalLM"
        )
    if getattr(config, "is_encoder_decoder", False):
        raise SettingError("model", kind, OTHER_KINDS, "encoder-decoder models have no last query to score with")
    if kind in FAMILIES and kind not in _REGISTERED:
        return Layout(kind)
    with _LOCK:
        found = _PROVED.get(model) if isinstance(model, nn.Module) else None
    if found is None:
        found = _REGISTERED.get(kind, Layout(kind))
        check_layout(found, model)
        with _LOCK:
            _PROVED[model] = found
    return found


def check_layer(layout: Layout, model: Any, layer: Any, length: int) -> int:
    """A filter layer that exists and sees the whole prompt, counted from 0; negative ones count from the end."""
    layers = len(layout.layers(model))
    layer = plain_number(layer)
    if isinstance(layer, bool) or not isinstance(layer, int) or not -layers <= layer < layers:
        told = f"this {layout.model_type} has {layers} layers"
        raise SettingError("layer", brief(layer), f"0 to {layers - 1}", told)
    layer %= layers
    window = layout.window(model, layer)
    everywhere = layout.global_layers(model)
    if window is not None and (everywhere or window < length):
        raise SettingError(
            "layer",
            layer,
            f"a layer that sees all {length} tokens: {', '.join(map(str, everywhere)) or 'this model has none'}",
            f"layer {layer} sees the last {window} tokens only",
        )
    return layer
