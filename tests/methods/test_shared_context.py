"""Several questions to one text: what is selected is what `select` selects, and the text is read once."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from families import FAMILIES, assert_same, build, ids_of, state_of

from featlearn.core import SettingError
from featlearn.methods.gemfilter import RAW, Scoring, filtered, generate, layout_of, select
from featlearn.methods.shared_context import copied, read_context

GREEDY = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
VOTES = Scoring(rows=16, softmax=True, pool=3, over_heads="max")
TEXT = 50


def prompts(count, *lengths):
    """Prompts that begin with one text of 50 tokens."""
    ids = ids_of(count, 80)
    ids[:, :TEXT] = ids[0, :TEXT].clone()
    return [row[None, : lengths[i % len(lengths)]] for i, row in enumerate(ids)]


@pytest.mark.parametrize("scoring", [VOTES, RAW], ids=["votes", "raw"])
@pytest.mark.parametrize("family", FAMILIES)
def test_questions_select_what_separate_calls_select(family, scoring):
    """In float64, for questions shorter and longer than the rows that vote, and layers that see everything."""
    model = build(family, torch.float64)
    for layer in layout_of(model).global_layers(model):
        text = read_context(model, prompts(1, TEXT)[0], layer=layer, scoring=scoring)
        how = {"layer": layer, "keep": 20, "scoring": scoring}
        for ids in prompts(5, 51, 55, 66, 80):
            alone, found = select(model, ids, **how), text.select(model, ids, **how)
            assert torch.allclose(found.scores, alone.scores, rtol=1e-10, atol=0)
            assert torch.equal(found.indices[0], alone.indices[0])
            assert found.cost.tokens == ids.shape[1] - TEXT
    assert text.cost.tokens == TEXT


def test_a_question_changes_what_is_kept():
    model = build("llama")
    text = read_context(model, prompts(1, TEXT)[0], layer=2, scoring=RAW)
    how = {"layer": 2, "keep": 12, "scoring": RAW}
    kept = {tuple(text.select(model, ids, **how).indices[0].tolist()) for ids in prompts(6, 60)}
    assert len(kept) > 3


@pytest.mark.parametrize("left", [True, False])
def test_a_batch_of_questions_is_a_batch_of_prompts(left):
    model = build("qwen3", torch.float64)
    rows, n = prompts(3, 60, 71, 53), 71
    ids, mask = torch.zeros(3, n, dtype=torch.long), torch.zeros(3, n, dtype=torch.long)
    for i, row in enumerate(rows):
        at = slice(n - row.shape[1], n) if left else slice(0, row.shape[1])
        ids[i, at], mask[i, at] = row[0], 1
    how = {"layer": 2, "keep": 20, "scoring": VOTES, "protect": (1, 3)}
    text = read_context(model, rows[0][:, :TEXT], layer=2, scoring=VOTES)
    alone, found = select(model, ids, mask, **how), text.select(model, ids, mask, **how)
    assert torch.allclose(found.scores, alone.scores, rtol=1e-10, atol=0)
    assert all(torch.equal(a, b) for a, b in zip(found.indices, alone.indices, strict=True))


def test_it_is_a_pass_one_for_generate_and_for_a_block():
    model = build("llama", torch.float64)
    text = read_context(model, prompts(1, TEXT)[0], layer=2, scoring=VOTES)
    how = {"layer": 2, "keep": 20, "scoring": VOTES}
    with filtered(model, **how, choose=text.select) as block:
        for ids in prompts(3, 60, 71):
            alone = generate(model, ids, **how, **GREEDY)
            assert torch.equal(generate(model, ids, **how, choose=text.select, **GREEDY).sequences, alone.sequences)
            made = model.generate(ids, attention_mask=torch.ones_like(ids), **GREEDY)
            assert torch.equal(made[:, ids.shape[1] :], alone.new_tokens)
            assert block.last.first.tokens == ids.shape[1] - TEXT


def test_layers_before_the_filter_read_each_token_once(monkeypatch):
    model, seen = build("llama"), []
    model.model.layers[0].register_forward_pre_hook(lambda m, args: seen.append(args[0].shape[1]))
    model.model.layers[2].mlp.register_forward_pre_hook(lambda m, args: seen.append("behind the filter"))
    text = read_context(model, prompts(1, TEXT)[0], layer=2, scoring=VOTES)
    for ids in prompts(3, 60, 71):
        text.select(model, ids, layer=2, keep=20, scoring=VOTES)
    assert seen == [50, 10, 21, 10]


def test_questions_in_threads_leave_the_text_and_the_model_as_they_were():
    model = build("gemma3_text", torch.float64)
    before = state_of(model)
    text = read_context(model, prompts(1, TEXT)[0], layer=3, scoring=VOTES)
    held = [t.clone() for layer in text.cache.layers[:3] for t in (layer.keys, layer.values)]
    asked = prompts(24, 55, 71, 80)
    how = {"layer": 3, "keep": 20, "scoring": VOTES}
    expected = [select(model, ids, **how).indices[0] for ids in asked]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda ids: text.select(model, ids, **how).indices[0], asked))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    now = [t for layer in text.cache.layers[:3] for t in (layer.keys, layer.values)]
    assert all(torch.equal(a, b) for a, b in zip(held, now, strict=True))
    assert_same(before, state_of(model))


def test_a_copy_of_a_cache_shares_its_entries():
    model = build("llama")
    cache = read_context(model, prompts(1, TEXT)[0], layer=2).cache
    own = copied(cache)
    assert own.layers[1].keys is cache.layers[1].keys
    own.update(cache.layers[1].keys, cache.layers[1].values, 1)
    assert cache.layers[1].keys.shape[2] == TEXT


LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "original_max_position_embeddings": 32,
    "short_factor": [1.0, 1.0],
    "long_factor": [3.0, 3.0],
    "partial_rotary_factor": 0.5,
    "factor": 4.0,
}


@pytest.mark.parametrize(
    "made, told",
    [
        (
            partial(build, "phi3", rope_parameters=LONGROPE, original_max_position_embeddings=32),
            "model = with rotary frequencies that follow the length",
        ),
        (partial(build, "gemma3_text", use_bidirectional_attention=True), "model = with attention in both directions"),
    ],
)
def test_models_that_read_a_text_otherwise_before_another_question_are_refused(made, told):
    with pytest.raises(SettingError, match=told):
        read_context(made(), ids_of(1, TEXT), layer=3)


@pytest.mark.parametrize(
    "given, told",
    [
        ({"input_ids": ids_of(2, TEXT)}, "input_ids = 2 prompts"),
        ({"input_ids": torch.tensor([[0, 0, 5, 6]])}, "input_ids = with padding"),
        ({"layer": 7}, "layer = 7"),
        ({"layer": "auto"}, "layer = auto"),
        ({"layer": "last"}, "layer = 'last'"),
    ],
)
def test_what_is_no_text_is_refused(given, told):
    with pytest.raises(SettingError, match=told):
        read_context(build("llama"), **{"input_ids": ids_of(1, TEXT), "layer": 2, **given})


@pytest.mark.parametrize(
    "change, told",
    [
        ({"model": build("llama")}, "model = another one"),
        ({"layer": 1}, "layer = 1 is not allowed: the 2 that"),
        ({"scoring": Scoring(rows=17, softmax=True)}, "rows = 17 is not allowed: at most the 16"),
        ({"input_ids": ids_of(1, 60, seed=9)}, "input_ids = a prompt of 60 tokens is not allowed: the 50 tokens of"),
        ({"input_ids": ids_of(1, 80)[:, :TEXT]}, "input_ids = a prompt of 50 tokens"),
        ({"keep": 0}, "keep = 0"),
    ],
)
def test_prompts_and_settings_that_the_text_was_not_read_for_are_refused(change, told):
    model = build("llama")
    text = read_context(model, ids_of(1, 80)[:, :TEXT], layer=2, scoring=VOTES)
    asked = {"model": model, "input_ids": ids_of(1, 80), "layer": 2, "keep": 9, "scoring": VOTES, **change}
    with pytest.raises(SettingError, match=told):
        text.select(asked.pop("model"), asked.pop("input_ids"), **asked)
