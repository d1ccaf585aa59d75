"""What a decoder does between its hidden states and its attention scores.

Scoring a layer needs its queries and keys as the layer itself forms them: projection, norms, rotary embedding, scale.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


@dataclass(frozen=True)
class Layout:
    """How to read queries and keys of one family; get it from `layout_of(model)`."""

    model_type: str

    def layers(self, model: Any) -> nn.ModuleList:
        """The decoder layers, in order; each has `.self_attn`."""
        return model.get_decoder().layers

    def config(self, model: Any) -> Any:
        """The configuration of the text part."""
        return model.config.get_text_config()

    def window(self, model: Any, layer: int) -> int | None:
        """How many tokens back a layer sees; None for all."""
        config = self.config(model)
        kinds = getattr(config, "layer_types", None)
        size = getattr(config, "sliding_window", None)
        if kinds is not None:
            return size if kinds[layer] == "sliding_attention" else None
        return size

    def global_layers(self, model: Any) -> list[int]:
        """Layers that see the whole prompt, whatever its length."""
        return [i for i in range(len(self.layers(model))) if self.window(model, i) is None]

    def scale(self, attn: nn.Module) -> float:
        """The factor on the inner products before the softmax."""
        return float(attn.scaling)  # pyright: ignore[reportArgumentType]

    def softcap(self, attn: nn.Module) -> float | None:
        """c where the layer replaces a logit z by c tanh(z / c); None elsewhere."""
        return getattr(attn, "attn_logit_softcapping", None)

    def queries(
        self,
        attn: nn.Module,
        hidden: Float[Tensor, "b n e"],
        rotary: tuple[Tensor, Tensor],
    ) -> Float[Tensor, "b h n d"]:
        """Queries as the attention uses them; pass the rows of `hidden` and of `rotary` = (cos, sin) that you need."""
        config: Any = attn.config
        return self._project(attn, hidden, rotary, "q", 0, config.num_attention_heads)

    def keys(
        self,
        attn: nn.Module,
        hidden: Float[Tensor, "b n e"],
        rotary: tuple[Tensor, Tensor],
    ) -> Float[Tensor, "b g n d"]:
        """Keys as the attention uses them, one per group of query heads (g key heads, not repeated)."""
        config: Any = attn.config
        return self._project(attn, hidden, rotary, "k", config.num_attention_heads, config.num_key_value_heads)

    def _project(
        self, attn: Any, hidden: Tensor, rotary: tuple[Tensor, Tensor], name: str, first: int, heads: int
    ) -> Tensor:
        d = attn.head_dim
        if hasattr(attn, "qkv_proj"):
            x = attn.qkv_proj(hidden)[..., first * d : (first + heads) * d]
        else:
            x = getattr(attn, f"{name}_proj")(hidden)
        x = x.unflatten(-1, (heads, d))
        norm = getattr(attn, f"{name}_norm", None)
        x = (x if norm is None else norm(x)).transpose(1, 2)
        return rotate(x, *rotary) if getattr(attn, "use_rope", True) else x


def rotate(x: Float[Tensor, "b h n d"], cos: Float[Tensor, "c n r"], sin: Float[Tensor, "c n r"]) -> Tensor:
    """Rotary embedding in halves on the first r of d coordinates; c is b or 1."""
    cos, sin = cos.unsqueeze(1).to(x.device), sin.unsqueeze(1).to(x.device)
    turned, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    a, b = turned.chunk(2, dim=-1)
    return torch.cat([turned * cos + torch.cat([-b, a], dim=-1) * sin, rest], dim=-1)
