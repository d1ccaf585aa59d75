"""KV eviction: entries of a brute force, plain generation at full budget, positions, bytes, nothing changed."""

import math

import pytest
import torch
from families import assert_same, build, ids_of, state_of

from featlearn.core import SettingError
from featlearn.methods import kv_eviction
from featlearn.methods.gemfilter import layout_of, select
from featlearn.methods.kv_eviction import evict, generate, kv_bytes, prefill, stacked
from featlearn.methods.long_context import METHODS, answer, peers

FAMILIES = ("llama", "mistral", "qwen3", "phi3", "gemma2", "gemma3_text", "smollm3")


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return build(request.param)


@pytest.fixture(scope="module")
def llama():
    return build("llama")


def attentions(model, ids):
    """Probabilities of all layers, float64, each (h, n, n)."""
    model = build(model.config.model_type).double()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        return [a[0] for a in model(ids, output_attentions=True).attentions]


def best_of(scored, count):
    return sorted(sorted(range(len(scored)), key=lambda i: (-round(float(scored[i]), 6), i))[:count])


def positions_of(cache, filled, layer):
    """Which prompt positions a layer kept, per group, found by comparing keys."""
    full, kept = filled.cache.layers[layer].keys[0], cache.layers[layer].keys[0]
    out = []
    for group in range(full.shape[0]):
        same = (kept[group][:, None] == full[group][None]).all(-1)
        assert (same.sum(1) == 1).all()
        out.append(same.int().argmax(1).tolist())
    return out


def test_snapkv_keeps_what_a_brute_force_keeps(model):
    n, budget, window = 70, 44, 32
    ids = ids_of(1, n)
    filled = prefill(model, ids, want=("snapkv",))
    layout, probabilities = layout_of(model), attentions(model, ids)
    for pooling in ("avg", "max", "none"):
        cache = evict(filled, "snapkv", budget, pooling=pooling)
        for layer in layout.global_layers(model):
            per_head = probabilities[layer][:, -window:, : n - window].sum(1)
            for group, kept in enumerate(positions_of(cache, filled, layer)):
                scored = per_head[2 * group : 2 * group + 2].sum(0)
                fill = -math.inf if pooling == "max" else 0.0
                padded = torch.nn.functional.pad(scored, (2, 2), value=fill)
                windows = padded.unfold(0, 5, 1)
                pooled = {"avg": windows.mean(1), "max": windows.amax(1), "none": scored}[pooling]
                assert kept == best_of(pooled, budget - window) + list(range(n - window, n))


def test_h2o_keeps_what_received_most_attention(model, monkeypatch):
    monkeypatch.setattr(kv_eviction, "QUERIES", 17)  # blocks that do not divide the length
    n, budget, window = 60, 41, 32
    ids = ids_of(1, n)
    filled = prefill(model, ids, want=("h2o",))
    cache, probabilities = evict(filled, "h2o", budget), attentions(model, ids)
    for layer in layout_of(model).global_layers(model):
        for group, kept in enumerate(positions_of(cache, filled, layer)):
            received = probabilities[layer][2 * group : 2 * group + 2].sum((0, 1))
            assert torch.allclose(filled.scores["h2o"][layer][group].double(), received, atol=1e-4)
            assert kept == best_of(received[: n - window], budget - window) + list(range(n - window, n))


def test_streaming_keeps_both_ends_and_one_run_a_given_set(llama):
    filled = prefill(llama, ids_of(1, 50))
    for layer in range(4):
        for kept in positions_of(evict(filled, "streaming", 20), filled, layer):
            assert kept == [*range(4), *range(34, 50)]
        chosen = torch.tensor([0, 7, 9, 48])
        for kept in positions_of(evict(filled, "one_run", 4, indices=chosen), filled, layer):
            assert kept == chosen.tolist()


def test_a_full_budget_is_plain_generation(model):
    ids = ids_of(1, 40)
    plain = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=9, do_sample=False)[:, 40:]
    filled = prefill(model, ids, want=("snapkv", "h2o"))
    for policy in ("full", "snapkv", "h2o", "streaming"):
        assert generate(model, filled, evict(filled, policy, 40), max_new_tokens=9).tolist() == plain.tolist()
    everything = evict(filled, "one_run", 40, indices=torch.arange(40))
    assert generate(model, filled, everything, max_new_tokens=9).tolist() == plain.tolist()


def test_generation_from_a_part_is_that_of_masked_attention(llama):
    """Evicted entries are as masked ones: one layer's worth of difference would show in the logits."""
    ids, kept = ids_of(1, 40), torch.tensor([0, 3, 4, 11, 25, 38, 39])
    filled = prefill(llama, ids)
    new = generate(llama, filled, evict(filled, "one_run", 7, indices=kept), max_new_tokens=4, eos_token_id=())
    whole = torch.cat([ids, new], dim=1)
    mask = torch.ones(44, 44).tril().bool()
    hidden = [i for i in range(40) if i not in kept.tolist()]
    mask[40:, hidden] = False
    with torch.no_grad():
        logits = llama(whole, attention_mask=mask[None, None]).logits[0]
    assert logits[39:43].argmax(-1).tolist() == new[0].tolist()


def test_new_tokens_have_the_positions_after_the_prompt(llama):
    seen = []
    filled = prefill(llama, ids_of(1, 50))
    handle = llama.get_decoder().register_forward_pre_hook(
        lambda m, a, k: seen.append(k["position_ids"].tolist()), with_kwargs=True
    )
    new = generate(llama, filled, evict(filled, "streaming", 12), max_new_tokens=4, eos_token_id=())
    handle.remove()
    assert new.shape == (1, 4)
    assert seen == [[[50]], [[51]], [[52]]]


def test_every_end_token_ends(llama):
    filled = prefill(llama, ids_of(1, 30))
    cache = evict(filled, "full", 30)
    free = generate(llama, filled, cache, max_new_tokens=8, eos_token_id=())[0].tolist()
    end = next(t for t in free[1:] if t != free[0])
    at = free.index(end)
    assert generate(llama, filled, cache, max_new_tokens=8, eos_token_id=[96, end])[0].tolist() == free[: at + 1]


def test_batches_of_caches_are_as_one_at_a_time(llama):
    filled = prefill(llama, ids_of(1, 60), want=("snapkv", "h2o"))
    caches = [evict(filled, p, 40) for p in ("snapkv", "h2o", "streaming")]
    together = generate(llama, filled, stacked(caches), max_new_tokens=6, eos_token_id=())
    for row, cache in zip(together, caches, strict=True):
        assert generate(llama, filled, cache, max_new_tokens=6, eos_token_id=())[0].tolist() == row.tolist()
    with pytest.raises(SettingError, match=r"caches = \[40, 60\] is not allowed: equally many"):
        stacked([caches[0], evict(filled, "full", 60)])


def test_the_prefilled_cache_and_the_model_stay_as_they_are(model):
    before = state_of(model)
    filled = prefill(model, ids_of(1, 50), want=("snapkv", "h2o"))
    kept = [(layer.keys.clone(), layer.values.clone()) for layer in filled.cache.layers]
    cache = evict(filled, "snapkv", 40)
    generate(model, filled, cache, max_new_tokens=3)
    for layer, (keys, values) in zip(filled.cache.layers, kept, strict=True):
        assert torch.equal(layer.keys, keys)
        assert torch.equal(layer.values, values)
    assert_same(before, state_of(model))
    handle = layout_of(model).layers(model)[2].mlp.register_forward_hook(lambda *_: 1 / 0)
    before = state_of(model)
    with pytest.raises(ZeroDivisionError):
        prefill(model, ids_of(1, 50), want=("snapkv", "h2o"))
    assert_same(before, state_of(model))
    handle.remove()


def test_bytes_are_those_of_the_formula(llama):
    n, layers, groups, d = 60, 4, 2, 8
    filled = prefill(llama, ids_of(1, n), want=("snapkv",))
    assert kv_bytes(filled.cache) == 2 * layers * groups * n * d * 4
    assert kv_bytes(evict(filled, "snapkv", 40)) == 2 * layers * groups * 40 * d * 4  # not of all 4 query heads
    assert kv_bytes(evict(filled, "snapkv", 400)) == kv_bytes(filled.cache)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda f: evict(f, "best", 40), "policy = best is not allowed: one of full, snapkv"),
        (
            lambda f: evict(f, "h2o", 40),
            r"policy = h2o is not allowed: among the scored snapkv; call prefill with want",
        ),
        (lambda f: evict(f, "snapkv", 32), "budget = 32 is not allowed: above the 32 entries that snapkv always"),
        (lambda f: evict(f, "streaming", 4), "budget = 4 is not allowed: above the 4 entries"),
        (lambda f: evict(f, "snapkv", 0), "budget = 0 is not allowed"),
        (lambda f: evict(f, "one_run", 40), "indices = None is not allowed"),
        (lambda f: evict(f, "one_run", 40, indices=torch.ones(3)), "indices = torch.float32"),
        (lambda f: evict(f, "one_run", 40, indices=torch.ones(3) > 0), "indices = torch.bool"),
        (lambda f: evict(f, "snapkv", 40, pooling="sum"), "pooling = sum is not allowed"),
    ],
)
def test_senseless_evictions_are_refused(llama, call, says):
    filled = prefill(llama, ids_of(1, 60), want=("snapkv",))
    with pytest.raises(SettingError, match=says):
        call(filled)


def test_senseless_prefills_are_refused(llama):
    with pytest.raises(SettingError, match="input_ids = 2 prompts is not allowed: one prompt"):
        prefill(llama, ids_of(2, 10))
    with pytest.raises(SettingError, match="want = streaming is not allowed"):
        prefill(llama, ids_of(1, 10), want=("streaming",))
    filled = prefill(llama, ids_of(1, 10))
    with pytest.raises(SettingError, match="max_new_tokens = 0"):
        generate(llama, filled, filled.cache, max_new_tokens=0)


class Numbers:
    """Decodes ids to numbers, so that replies can be compared."""

    def decode(self, ids, skip_special_tokens=False):
        return " ".join(str(int(i)) for i in ids)

    def batch_decode(self, rows, skip_special_tokens=False):
        return [self.decode(row) for row in rows]


@pytest.mark.parametrize("method", METHODS)
def test_any_method_answers(llama, method):
    ids = ids_of(1, 60)
    found = answer(llama, Numbers(), ids, method=method, budget=40, max_new_tokens=5, layer=2, protect=(1, 3))
    assert found.kept == (60 if method == "full" else 40)
    assert found.seconds_prompt > 0
    assert found.seconds_generate > 0
    plain = llama.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=5, do_sample=False)[0, 60:]
    all_of_it = answer(llama, Numbers(), ids, method=method, budget=1.0, max_new_tokens=5, layer=2)
    assert all_of_it.text == Numbers().decode(plain)
    if method == "gemfilter":
        chosen = select(llama, ids, layer=2, keep=40, protect=(1, 3)).indices[0]
        part = ids[:, chosen]
        new = llama.generate(part, attention_mask=torch.ones_like(part), max_new_tokens=5, do_sample=False)[0, 40:]
        assert found.text == Numbers().decode(new)


def test_unknown_methods_and_batches_are_refused(llama):
    with pytest.raises(SettingError, match="method = best is not allowed: one of full, gemfilter"):
        answer(llama, Numbers(), ids_of(1, 60), method="best", budget=40, max_new_tokens=5)
    with pytest.raises(SettingError, match="input_ids = 2 prompts is not allowed"):
        answer(llama, Numbers(), ids_of(2, 60), method="full", budget=40, max_new_tokens=5)


def test_peers_say_why_they_do_not_run(monkeypatch):
    found = peers()
    assert set(found) == {"llmlingua", "minference"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    for name, reason in peers().items():
        assert "transformers 5" in reason
        assert "\n" not in reason
        assert found[name] in (reason, f"not installed, and {reason}")
