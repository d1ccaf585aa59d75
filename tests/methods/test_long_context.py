"""Answers on one footing: settings refused before any work, one-run in one pass, no penalties, bounded blocks."""

import pytest
import torch
from families import assert_same, build, ids_of, state_of
from test_kv_eviction import Numbers

from featlearn.core import SettingError
from featlearn.methods import kv_eviction
from featlearn.methods.gemfilter import select
from featlearn.methods.kv_eviction import evict, generate, prefill
from featlearn.methods.long_context import METHODS, answer


@pytest.fixture(scope="module")
def llama():
    return build("llama")


@pytest.fixture
def calls(llama):
    """How often each layer ran."""
    seen = []
    handles = [
        layer.register_forward_hook(lambda *_, i=i: seen.append(i)) for i, layer in enumerate(llama.model.layers)
    ]
    yield seen
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize(
    "method, changes, says",
    [
        ("snapkv", {"budget": 20}, "budget = 20 is not allowed: above the 32 entries that snapkv always keeps"),
        ("h2o", {"budget": 32}, "budget = 32 is not allowed: above the 32 entries that h2o"),
        ("streaming", {"budget": 4}, "budget = 4 is not allowed: above the 4 entries"),
        ("one_run", {"budget": 3, "protect": (2, 2)}, "budget = 3 is not allowed: at least the 4 protected"),
        ("one_run", {"layer": 4}, "layer = 4 is not allowed: 0 to 3"),
        ("one_run", {"layer": "auto"}, "layer = auto is not allowed"),
        ("one_run", {"layer": "best"}, "layer = 'best' is not allowed: a number from 0"),
        *((m, {"max_new_tokens": 0}, "max_new_tokens = 0 is not allowed: at least 1") for m in METHODS),
    ],
)
def test_settings_are_refused_before_the_prompt_is_read(llama, calls, method, changes, says, monkeypatch, tmp_path):
    monkeypatch.setenv("FEATLEARN_CALIBRATION", str(tmp_path))
    settings = {"budget": 40, "max_new_tokens": 3, "layer": 2, **changes}
    with pytest.raises(SettingError, match=says):
        answer(llama, Numbers(), ids_of(1, 60), method=method, **settings)
    assert calls == []


def test_one_run_reads_the_prompt_once_and_keeps_what_gemfilter_keeps(llama, calls):
    ids, before = ids_of(1, 60), state_of(llama)
    found = answer(llama, Numbers(), ids, method="one_run", budget=20, max_new_tokens=1, layer=2, protect=(3, 2))
    assert calls == [0, 1, 2, 3]
    assert found.kept == 20
    chosen = select(llama, ids, layer=2, keep=20, protect=(3, 2)).indices[0]
    filled = prefill(llama, ids)
    new = generate(llama, filled, evict(filled, "one_run", 20, indices=chosen), max_new_tokens=6)
    longer = answer(llama, Numbers(), ids, method="one_run", budget=20, max_new_tokens=6, layer=2, protect=(3, 2))
    assert longer.text == Numbers().decode(new[0])
    assert_same(before, state_of(llama))


def test_one_run_leaves_no_hook_after_an_error():
    llama = build("llama")
    llama.model.layers[3].mlp.register_forward_hook(lambda *_: 1 / 0)
    before = state_of(llama)
    with pytest.raises(ZeroDivisionError):
        answer(llama, Numbers(), ids_of(1, 60), method="one_run", budget=20, max_new_tokens=3, layer=1)
    assert_same(before, state_of(llama))


def test_no_method_punishes_repetition():
    """Else GemFilter alone would: it generates with the model's generation config."""
    model, ids = build("llama"), ids_of(1, 60)
    plain = [answer(model, Numbers(), ids, method=m, budget=1.0, max_new_tokens=24, layer=2).text for m in METHODS]
    assert len(set(plain)) == 1
    free = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False)
    model.generation_config.repetition_penalty = 9.0
    punished = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False)
    assert free.tolist() != punished.tolist()  # the setting would show
    for method in METHODS:
        found = answer(model, Numbers(), ids, method=method, budget=1.0, max_new_tokens=24, layer=2)
        assert found.text == plain[0]
    assert model.generation_config.repetition_penalty == 9.0


@pytest.mark.parametrize(
    "policy, changes, says",
    [
        ("snapkv", {"pool": 4}, "pool = 4 is not allowed: an odd width"),
        ("snapkv", {"pool": 0}, "pool = 0 is not allowed"),
        ("h2o", {"window": -1}, "window = -1 is not allowed: a count of at least 0"),
        ("streaming", {"sinks": -1}, "sinks = -1 is not allowed: a count of at least 0"),
        ("one_run", {"indices": torch.tensor([0, 60])}, "indices = 60 is not allowed: 0 to 59"),
        ("one_run", {"indices": torch.tensor([-1, 3])}, "indices = -1 is not allowed: 0 to 59"),
        ("one_run", {"indices": torch.tensor([3, 3])}, "indices = with repeats is not allowed"),
        ("one_run", {"indices": torch.arange(41)}, "indices = 41 positions is not allowed: 1 to the budget of 40"),
        ("one_run", {"indices": torch.arange(0)}, "indices = 0 positions is not allowed"),
        ("one_run", {"indices": torch.tensor([0.0, 1.0])}, "is not allowed: whole numbers of shape k"),
        ("one_run", {"indices": torch.tensor([[0, 1]])}, "is not allowed: whole numbers of shape k"),
    ],
)
def test_senseless_widths_and_indices_are_refused(llama, policy, changes, says):
    filled = prefill(llama, ids_of(1, 60), want=("snapkv", "h2o"))
    with pytest.raises(SettingError, match=says):
        evict(filled, policy, 40, **changes)


def test_the_attention_of_h2o_is_held_in_blocks_of_bounded_size(llama, monkeypatch):
    ids = ids_of(1, 60)
    whole = prefill(llama, ids, want=("h2o",)).scores["h2o"]
    sizes, softmax = [], torch.softmax

    def recording(x, dim):
        sizes.append(x.numel())
        return softmax(x, dim=dim)

    monkeypatch.setattr(kv_eviction, "ENTRIES", 4 * 60 * 7)
    monkeypatch.setattr(torch, "softmax", recording)
    parts = prefill(llama, ids, want=("h2o",)).scores["h2o"]
    assert max(sizes) <= 4 * 60 * 7
    assert len(sizes) == 4 * 9  # 60 rows by 7, in each of 4 layers
    for a, b in zip(whole, parts, strict=True):
        assert torch.allclose(a, b, atol=1e-4)


def test_scores_of_a_float64_model_are_float64():
    model = build("llama").double()
    filled = prefill(model, ids_of(1, 60), want=("h2o", "snapkv"))
    for policy in ("h2o", "snapkv"):
        assert filled.scores[policy][0].dtype == torch.float64
    assert torch.allclose(filled.scores["h2o"][1].sum(), torch.tensor(4 * 60.0).double(), atol=1e-9, rtol=0)
