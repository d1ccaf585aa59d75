"""Random models of every family that GemFilter knows, and what must not change about them."""

import math

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="needs the llm extra; lift when it is part of the core")

SMALL = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
KINDS = ["sliding_attention", "sliding_attention", "full_attention", "full_attention"]
FAMILIES = {
    "llama": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "mistral": ("Mistral", {"sliding_window": None, "head_dim": 16}),
    "qwen2": ("Qwen2", {"use_sliding_window": True, "sliding_window": 16, "layer_types": KINDS}),
    "qwen3": ("Qwen3", {"head_dim": 8}),
    "phi3": ("Phi3", {"partial_rotary_factor": 0.5}),
    "gemma": ("Gemma", {"head_dim": 8}),
    # transformers before 5.21 runs it with sdpa, which caps no logits
    "gemma2": (
        "Gemma2",
        {"head_dim": 8, "sliding_window": 16, "attn_logit_softcapping": 2.0, "attn_implementation": "eager"},
    ),
    "gemma3_text": ("Gemma3", {"head_dim": 8, "sliding_window": 16, "layer_types": KINDS}),
    "smollm3": ("SmolLM3", {"no_rope_layers": [1, 0, 1, 1]}),
}


def build(family, dtype=torch.float32, **more):
    """A random model whose attention is far from uniform and whose norms and biases are no identities."""
    name, changes = FAMILIES[family]
    config_class = getattr(transformers, f"{name}TextConfig" if family == "gemma3_text" else f"{name}Config")
    model = getattr(transformers, f"{name}ForCausalLM")(config_class(**{**SMALL, **changes, **more}))
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for p in model.parameters():
            noise = torch.randn(p.shape, generator=generator)
            p.copy_(noise * 1.5 / math.sqrt(p.shape[-1]) if p.ndim > 1 else p + 0.3 * noise)
    return model.to(dtype).eval()


def ids_of(*shape, seed=0):
    return torch.randint(3, 97, shape, generator=torch.Generator().manual_seed(seed))


def state_of(model):
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks), m.training) for m in model.modules()]
    objects = [(id(p), p.device, p.dtype, p.stride(), p.is_inference()) for p in model.parameters()]
    values = [t.clone() for t in (*model.parameters(), *model.buffers())]
    return hooks, [m.forward.__func__ for m in model.modules()], objects, values


def assert_same(before, after):
    assert before[:3] == after[:3]
    assert len(before[3]) == len(after[3])
    assert all(torch.equal(a, b) for a, b in zip(before[3], after[3], strict=True))
