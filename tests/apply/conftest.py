"""Tiny models, their tokenizer and haystack, and a folder of calibrations for every test."""

import pytest
from tiny import made_essays, made_model, made_tokenizer


@pytest.fixture(scope="session")
def essays():
    return made_essays()


@pytest.fixture(scope="session")
def tokenizer(essays):
    """One token per word or mark, with a chat template; words that it never saw are <unk>."""
    return made_tokenizer(essays)


@pytest.fixture(scope="session")
def model(tokenizer):
    return made_model(len(tokenizer))


@pytest.fixture
def sliding(tokenizer):
    """A Gemma whose layers see 64 tokens only, but for the third and the last."""
    import torch
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    kinds = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention"]
    config = Gemma3TextConfig(
        num_hidden_layers=5,
        hidden_size=32,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=64,
        vocab_size=len(tokenizer),
        max_position_embeddings=4096,
        sliding_window=64,
        layer_types=kinds,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(12)
        return Gemma3ForCausalLM(config).eval()


@pytest.fixture(autouse=True)
def _own_calibrations(monkeypatch, tmp_path):
    monkeypatch.setenv("FEATLEARN_CALIBRATION", str(tmp_path / "calibrations"))
