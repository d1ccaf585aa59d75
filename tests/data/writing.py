"""A tiny language model, its GGUF file as llama.cpp's converter lays it out, and its folder."""

import numpy as np
import pytest
import torch

gguf = pytest.importorskip("gguf", reason="pip install 'featlearn[llm]' brings gguf and transformers")
pytest.importorskip("transformers", reason="pip install 'featlearn[llm]' brings transformers")
pytest.importorskip("accelerate", reason="pip install 'featlearn[llm]' brings accelerate")

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


def reference():
    """A two-layer network whose every setting differs from the defaults of its type."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=260,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=64,
        rms_norm_eps=1e-3,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 123.0},
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    generator = torch.Generator().manual_seed(0)
    network = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3 + (weight.dim() == 1))
    return network


def write_gguf(network, path, change=lambda name, weight: {name: weight}, merges=("Ċ Ċ",)) -> None:
    """The file as llama.cpp's converter lays it out: queries and keys with interleaved rotary pairs.

    change: (name, weight) -> the tensors that stand in its place.
    """
    from tokenizers.pre_tokenizers import ByteLevel

    def interleaved(weight, heads):
        return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)

    c = network.config
    w = gguf.GGUFWriter(path, "llama")
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(64)
    w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_rope_freq_base(123.0)
    w.add_rope_dimension_count(8)
    w.add_layer_norm_rms_eps(1e-3)
    w.add_vocab_size(260)
    tokens = [*SPECIAL, *sorted(ByteLevel.alphabet()), "ĊĊ"]
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("smollm")
    w.add_token_list(tokens)
    w.add_token_types([3 if t in SPECIAL else 1 for t in tokens])
    w.add_token_merges(list(merges))
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_pad_token_id(2)
    w.add_unk_token_id(0)
    w.add_chat_template(TEMPLATE)

    def add(name, weight):
        for changed, value in change(name, weight).items():
            w.add_tensor(changed, value)

    names = {
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    state = {k: v.numpy() for k, v in network.state_dict().items()}
    add("token_embd.weight", state["model.embed_tokens.weight"])
    add("output_norm.weight", state["model.norm.weight"])
    for i in range(c.num_hidden_layers):
        for ours, theirs in names.items():
            weight = state[f"model.layers.{i}.{ours}.weight"]
            heads = {"attn_q": c.num_attention_heads, "attn_k": c.num_key_value_heads}.get(theirs)
            weight = interleaved(weight, heads) if heads else weight
            add(f"blk.{i}.{theirs}.weight", np.ascontiguousarray(weight))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
