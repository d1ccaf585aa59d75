"""What both halves of the claims share: tiny random decoders, prompts for them, and the sizes of the case study."""

import importlib.util
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from featlearn.core import Key
from featlearn.errors import DataUnavailable

INSTALL = "pip install 'featlearn[llm]'"
VOCABULARY = 97
HEADS, GROUPS, HEAD_DIM = 4, 2, 8
WIDTH = HEADS * HEAD_DIM
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "phi3")
N_CASE, K_CASE, R_CASE = 131072, 1024, 13
"""Prompt, tokens kept (and generated) and filter layer of the case study."""


def decoder(key: Key, layers: int = 4, family: str = "llama", dtype: torch.dtype = torch.float32, **config: Any) -> Any:
    """A random causal language model of a family: 4 query heads in 2 groups, no special tokens end a reply.

    Weights are drawn wider than usual, so that greedy replies depend on the prompt; norms are not all one.
    Errors: DataUnavailable without transformers.
    """
    if importlib.util.find_spec("transformers") is None:
        raise DataUnavailable(f"random decoders need transformers: {INSTALL}")
    from transformers import AutoConfig, AutoModelForCausalLM

    shape = {
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "intermediate_size": 48,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": GROUPS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": 4096,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": None,
        "attn_implementation": "eager",
    } | config
    if family == "mistral":
        shape.setdefault("sliding_window", None)
    with torch.random.fork_rng(devices=[]):  # building draws from the global generator
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **shape))
    generator = key.torch()
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data = noise * 0.3 if parameter.ndim > 1 else 1 + 0.3 * noise
    return model.to(dtype).eval()


def prompt(key: Key, n: int, b: int = 1) -> Tensor:
    """Random ids of shape b n, special ones left out."""
    return torch.randint(2, VOCABULARY, (b, n), generator=key.torch())


@dataclass(frozen=True)
class Asked:
    """A random model and a prompt for it."""

    model: Any
    ids: Tensor


def asked(key: Key, n: int = 120, layers: int = 5, family: str = "llama", dtype: torch.dtype = torch.float32) -> Asked:
    """A model of `layers` layers and a prompt of n tokens."""
    return Asked(decoder(key / "model" / family, layers, family, dtype), prompt(key / "ids" / family, n))
