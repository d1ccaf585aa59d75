"""Decoders of families that are not listed are used where their attention is read right, and refused by name else."""

import math
import threading

import pytest
import torch
from families import FAMILIES, SMALL, build, ids_of, state_of, transformers

from featlearn.core import SettingError
from featlearn.methods.gemfilter import Layout, Scoring, layout_of, layouts, proof, register, select

ACCEPTED = {
    "mixtral": ("Mixtral", {"num_local_experts": 4}),
    "qwen2_moe": ("Qwen2Moe", {"num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}),
    "qwen3_moe": ("Qwen3Moe", {"num_experts": 8, "moe_intermediate_size": 16, "head_dim": 8}),
    "granite": ("Granite", {"attention_multiplier": 0.3}),
    "starcoder2": ("Starcoder2", {"sliding_window": None}),
    "stablelm": ("StableLm", {"partial_rotary_factor": 0.5}),
    "phi": ("Phi", {"partial_rotary_factor": 0.5}),
    "nemotron": ("Nemotron", {"partial_rotary_factor": 0.5}),
    "olmo": ("Olmo", {"clip_qkv": None}),
    "ministral3": ("Ministral3", {}),
    "arcee": ("Arcee", {}),
    "seed_oss": ("SeedOss", {"head_dim": 8}),
}
REFUSED = {
    "cohere": ("Cohere", {}, "attention at layer . differs by 0."),
    "glm4": ("Glm4", {"head_dim": 8}, "attention at layer . differs by 0."),
    "gpt_oss": ("GptOss", {"num_local_experts": 4, "head_dim": 8}, "attention at layer . differs by"),
    "olmo2": ("Olmo2", {}, r"built otherwise \(RuntimeError: The size of tensor"),
    "gpt_neox": ("GPTNeoX", {}, "built otherwise .*has no attribute 'self_attn'"),
    "deepseek_v3": ("DeepseekV3", {}, "built otherwise"),
    "llama4_text": ("Llama4", {}, " with layers of chunked_attention"),
}
EXPERTS = ("mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss")
LISTED = [f for f in FAMILIES if f not in ("gemma2", "mistral", "smollm3")]
"""Six of the nine that are known without a proof, so that the named list has 25."""


def made(family, dtype=None):
    """A random model with attention that is far from uniform, in float64 unless it has experts."""
    if family in FAMILIES:
        return build(family, dtype or torch.float64)
    name, changes, *_ = {**ACCEPTED, **REFUSED}[family]
    config = getattr(transformers, f"{name}{'Text' * family.endswith('_text')}Config")(**{**SMALL, **changes})
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = getattr(transformers, f"{name}ForCausalLM")(config)
        with torch.no_grad():
            for p in model.parameters():
                noise = torch.randn(p.shape)
                p.copy_(noise * 1.5 / math.sqrt(p.shape[-1]) if p.ndim > 1 else p + 0.3 * noise)
    return model.to(dtype or (torch.float32 if family in EXPERTS else torch.float64)).eval()


UNSMOOTHED = Scoring(softmax=True, pooling="none")


def test_the_named_list():
    assert len(ACCEPTED) + len(LISTED) >= 18
    assert len(ACCEPTED) + len(LISTED) + len(REFUSED) == 25
    assert not set(ACCEPTED) & set(layouts.FAMILIES)


@pytest.mark.parametrize("family", [*ACCEPTED, *LISTED])
def test_attention_is_read_as_it_is_computed(family):
    model = made(family)
    before = state_of(model)
    assert layout_of(model).model_type == model.config.model_type
    _, difference, spread = proof.largest_difference(Layout(model.config.model_type), model)
    assert difference < 1e-6
    assert spread > 0.1
    after = state_of(model)
    assert after[:3] == before[:3]
    assert all(torch.equal(a, b) for a, b in zip(after[3], before[3], strict=True))


@pytest.mark.parametrize("family", list(ACCEPTED))
def test_what_is_selected_is_what_eager_attention_sees_most(family):
    """The score of a token without smoothing: the sum over heads of the last row of the model's own attention."""
    model, ids = made(family), ids_of(1, 40)
    layer = 2
    chosen = select(model, ids, layer=layer, keep=10, scoring=UNSMOOTHED)
    model.set_attn_implementation("eager")
    eager = model(ids, output_attentions=True).attentions[layer][0, :, -1].sum(0)
    torch.testing.assert_close(chosen.scores[0].double(), eager.double(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", list(REFUSED))
def test_what_is_computed_otherwise_is_refused_by_name(family):
    model = made(family)
    with pytest.raises(SettingError, match=rf"^model = {model.config.model_type}.*{REFUSED[family][2]}"):
        layout_of(model)
    with pytest.raises(SettingError, match=r"gemfilter\.register"):
        layout_of(model)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_precisions(dtype):
    assert layout_of(made("granite", dtype)).model_type == "granite"
    with pytest.raises(SettingError, match=r"cohere, whose attention"):
        layout_of(made("cohere", dtype))


def test_attention_that_is_uniform_proves_nothing():
    model = made("granite")
    for layer in model.model.layers:
        torch.nn.init.zeros_(layer.self_attn.q_proj.weight)
    with pytest.raises(SettingError, match=r"granite, whose attention at layer . is uniform"):
        layout_of(model)
    wrong = made("cohere")  # differs by little where it is nearly uniform, and is refused all the same
    for layer in wrong.model.layers:
        with torch.no_grad():
            layer.self_attn.q_proj.weight *= 1e-4
    _, difference, spread = proof.largest_difference(Layout("cohere"), wrong)
    assert difference < proof.TOLERANCE
    assert difference > 0.1 * spread
    with pytest.raises(SettingError, match=r"cohere, whose attention at layer . differs"):
        layout_of(wrong)


def test_weights_that_are_not_finite_prove_nothing():
    model = made("granite")
    model.model.layers[1].self_attn.k_proj.weight.data[0, 0] = torch.nan
    with pytest.raises(SettingError, match=r"granite, whose attention at layer 1 differs by inf"):
        layout_of(model)


def test_a_model_is_proved_once(monkeypatch):
    model, calls = made("granite"), []
    check = proof.check_layout
    monkeypatch.setattr(layouts, "check_layout", lambda *a: (calls.append(1), check(*a)))
    for _ in range(3):
        layout_of(model)
    layout_of(made("granite"))  # another model is another matter
    layout_of(build("llama"))
    assert len(calls) == 2


def test_a_proof_beside_requests_of_others():
    """Plain requests in other threads come out as they do alone, and hooks see none of the proof."""
    model, ids = made("granite"), ids_of(1, 30)
    alone, seen, stop = model(ids).logits, [], threading.Event()
    handle = model.model.layers[0].self_attn.register_forward_hook(lambda m, a, o: seen.append(o[1] is None))

    def ask():
        while not stop.is_set():
            same.append(torch.equal(model(ids).logits, alone))

    same = []
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for _ in range(20):
            proof.check_layout(Layout("granite"), model)
    finally:
        stop.set()
        thread.join()
        handle.remove()
    assert same
    assert all(same)
    assert model.config._attn_implementation == "sdpa"


class Interleaved(Layout):
    """Cohere turns neighbouring coordinates, not halves."""

    def _project(self, attn, hidden, rotary, name, first, heads):
        x = getattr(attn, f"{name}_proj")(hidden).unflatten(-1, (heads, attn.head_dim)).transpose(1, 2)
        cos, sin = (t.unsqueeze(1) for t in rotary)
        turned = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)
        return x * cos + turned * sin


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(layouts, "_REGISTERED", {})


def test_a_layout_of_the_users(registry):
    model, ids = made("cohere"), ids_of(1, 40)
    with pytest.raises(SettingError):
        layout_of(model)
    register(Interleaved("cohere"))
    assert isinstance(layout_of(model), Interleaved)
    chosen = select(model, ids, layer=1, keep=10, scoring=UNSMOOTHED)
    model.set_attn_implementation("eager")
    eager = model(ids, output_attentions=True).attentions[1][0, :, -1].sum(0)
    torch.testing.assert_close(chosen.scores[0].double(), eager.double(), atol=1e-5, rtol=0)


def test_a_layout_of_the_users_that_is_wrong_is_refused_also_for_known_families(registry):
    register(Interleaved("llama"))
    with pytest.raises(SettingError, match=r"llama, whose attention at layer"):
        layout_of(build("llama"))
    register(Layout("llama"))
    assert layout_of(build("llama")).model_type == "llama"
    with pytest.raises(SettingError, match=r"layout = .* a Layout with a model_type"):
        register(Layout(""))
