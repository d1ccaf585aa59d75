"""Blocks around any `generate`: what comes out, what stays as it was, and whose calls they change."""

import asyncio
import copy
import gc
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest
import torch
from families import FAMILIES, assert_same, build, ids_of, state_of
from transformers import cache_utils

from featlearn import gemfilter
from featlearn.core import SettingError
from featlearn.methods import kv_eviction
from featlearn.methods.eviction_block import evicting
from featlearn.methods.gemfilter import Scoring, filtered, generate, select, select_chunked

GREEDY = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
VOTES = Scoring(rows=4, softmax=True, pool=3, over_heads="max")
HOW = {"layer": 3, "keep": 20, "scoring": VOTES}


@pytest.fixture
def model():
    return build("llama")


def ones(ids):
    return torch.ones_like(ids)


def padded(*lengths, left=True, n=60):
    """Prompts of several lengths, and their mask."""
    ids = ids_of(len(lengths), n)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        mask[row, n - length :] = 1
    if not left:
        mask = mask.flip(1)
    return ids * mask, mask


# --- what comes out --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_a_call_in_a_block_is_the_method_after_the_whole_prompt(family):
    model, ids = build(family), ids_of(2, 60)
    direct = generate(model, ids, **HOW, **GREEDY)
    with filtered(model, **HOW) as block:
        made = model.generate(ids, attention_mask=ones(ids), **GREEDY)
    assert torch.equal(made, torch.cat([ids, direct.new_tokens], 1))
    assert block.last.selection.kept == (20, 20)
    assert not torch.equal(made, model.generate(ids, attention_mask=ones(ids), **GREEDY))


@pytest.mark.parametrize("left", [True, False])
def test_padding_on_either_side_is_that_of_the_method(model, left):
    ids, mask = padded(60, 41, 15, left=left)
    direct = generate(model, ids, mask, **HOW, **GREEDY)
    with filtered(model, **HOW) as block:
        made = model.generate(input_ids=ids, attention_mask=mask, **GREEDY)
    assert torch.equal(made, torch.cat([ids, direct.new_tokens], 1))
    assert block.last.selection.kept == (20, 20, 15)
    for row, length in enumerate((60, 41, 15)):
        alone = generate(model, ids[row][mask[row].bool()][None], **HOW, **GREEDY)
        assert torch.equal(made[row, 60 : 60 + alone.new_tokens.shape[1]], alone.new_tokens[0]), length


def test_prompts_no_longer_than_keep_are_what_they_always_are(model):
    ids = ids_of(2, 20)
    plain = model.generate(ids, attention_mask=ones(ids), **GREEDY)
    with filtered(model, **HOW):
        assert torch.equal(model.generate(ids, attention_mask=ones(ids), **GREEDY), plain)


@pytest.mark.parametrize(
    "how",
    [
        {"num_beams": 3, "num_return_sequences": 2},
        {"do_sample": True, "temperature": 0.7, "num_return_sequences": 3},
        {"prompt_lookup_num_tokens": 3},
        {"cache_implementation": "static"},
        {"repetition_penalty": 1.3},
        {"return_dict_in_generate": True, "output_scores": True},
    ],
    ids=lambda how: next(iter(how)),
)
def test_ways_to_generate_are_those_of_pass_two(model, how):
    ids, more = ids_of(2, 60)[: 1 if "prompt_lookup_num_tokens" in how else 2], {**GREEDY, **how}
    torch.manual_seed(0)
    direct = generate(model, ids, **HOW, **more)
    torch.manual_seed(0)
    with filtered(model, **HOW):
        made = model.generate(ids, attention_mask=ones(ids), **more)
    each = len(direct.sequences) // len(ids)
    expected = torch.cat([ids.repeat_interleave(each, 0), direct.new_tokens], 1)
    if how.get("return_dict_in_generate"):
        assert len(made.scores) == len(direct.output.scores)
        made = made["sequences"]
    assert torch.equal(made, expected)


CACHES = {
    "static": {"cache_implementation": "static"},
    "fp8": {"cache_implementation": "quantized", "cache_config": {"backend": "fp8"}},
}


@pytest.mark.parametrize("kind", CACHES)
def test_kinds_of_cache_are_those_of_pass_two(model, kind):
    """As `model.generate` on the kept tokens with the same cache; quantised keys do differ from plain ones."""
    if kind == "fp8" and not hasattr(cache_utils, "Fp8QuantizedLayer"):
        pytest.skip("this version of transformers has no cache of 8 bits; lift when the lower bound has")
    ids, scores = ids_of(1, 60), {"return_dict_in_generate": True, "output_logits": True}
    made = generate(model, ids, **HOW, **GREEDY, **CACHES[kind], **scores)
    asked = {"attention_mask": ones(made.kept_ids), **GREEDY, **scores}
    direct = model.generate(made.kept_ids, **asked, **CACHES[kind])
    assert all(torch.equal(a, b) for a, b in zip(made.output.logits, direct.logits, strict=True))
    with filtered(model, **HOW):
        inside = model.generate(ids, **{**asked, "attention_mask": ones(ids)}, **CACHES[kind])
    assert all(torch.equal(a, b) for a, b in zip(inside.logits, direct.logits, strict=True))
    plain = model.generate(made.kept_ids, **asked)
    assert torch.allclose(direct.logits[2], plain.logits[2], atol=1e-5) == (kind == "static")


class Recorder:
    """A streamer."""

    def __init__(self):
        self.seen = []

    def put(self, value):
        self.seen.append(value.flatten().tolist())

    def end(self):
        self.seen.append("end")


def test_a_streamer_sees_the_kept_tokens_and_then_the_reply(model):
    streamer = Recorder()
    with filtered(model, **HOW) as block:
        made = model.generate(ids_of(1, 60), attention_mask=ones(ids_of(1, 60)), streamer=streamer, **GREEDY)
    assert streamer.seen[0] == block.last.kept_ids[0].tolist()
    assert [*streamer.seen[1:-1]] == [[t] for t in made[0, 60:].tolist()]


@pytest.mark.parametrize("place", ["argument", "config", "model"])
def test_lengths_count_the_whole_prompt(model, place):
    """max_length and min_length mean as many new tokens as without a block, wherever they are said."""
    ids = ids_of(1, 60)
    more = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    lengths = {"max_length": 69, "min_length": 65}
    if place == "config":
        config = copy.deepcopy(model.generation_config)
        config.update(**lengths, **more)
        before = config.to_dict()
        more = {"generation_config": config}
    elif place == "model":
        model.generation_config.update(**lengths)
    else:
        more.update(lengths)
    plain = model.generate(ids, attention_mask=ones(ids), **more)
    with filtered(model, **HOW) as block:
        made = model.generate(ids, attention_mask=ones(ids), **more)
    assert made.shape == plain.shape == (1, 69)
    assert block.last.sequences.shape == (1, 29)
    if place == "config":
        assert config.to_dict() == before
    with filtered(model, **HOW), pytest.raises(SettingError, match="max_length = 60 is not allowed: above the 60"):
        model.generate(ids, attention_mask=ones(ids), max_length=60, do_sample=False)


def test_new_tokens_count_before_lengths(model):
    model.generation_config.max_length = 70
    with filtered(model, **HOW):
        made = model.generate(ids_of(1, 60), attention_mask=ones(ids_of(1, 60)), **{**GREEDY, "eos_token_id": None})
    assert made.shape == (1, 66)


def test_a_call_without_lengths_adds_as_many_tokens_as_always(model):
    ids, more = ids_of(1, 60), {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    with warnings.catch_warnings(), filtered(model, **HOW):
        warnings.simplefilter("ignore")
        assert model.generate(ids, attention_mask=ones(ids), **more).shape == (1, 80)


def test_pass_one_and_its_settings_are_those_that_are_asked_for(model):
    ids = ids_of(1, 60)
    direct = generate(model, ids, **HOW, **GREEDY)
    with filtered(model, **HOW, choose=partial(select_chunked, chunk=16)):
        assert torch.equal(model.generate(ids, attention_mask=ones(ids), **GREEDY)[:, 60:], direct.new_tokens)
    kept = select(model, ids, **HOW, protect=(2, 5)).indices[0].tolist()
    with filtered(model, **HOW, protect=(2, 5)) as block:
        model.generate(ids, attention_mask=ones(ids), **GREEDY)
    assert block.last.selection.indices[0].tolist() == kept
    assert {0, 1, 55, 59} <= set(kept)


# --- nothing is left behind ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [partial(filtered, **HOW), partial(evicting, budget=36)], ids=["filter", "evict"])
def test_the_model_is_what_it_was(model, block):
    before, own = state_of(model), set(model.__dict__)
    with block(model):
        model.generate(ids_of(1, 60), attention_mask=ones(ids_of(1, 60)), **GREEDY)
        assert model.generate.__doc__ == type(model).generate.__doc__
    with pytest.raises(RuntimeError, match="of a user"), block(model):
        raise RuntimeError("of a user")
    with pytest.raises(SettingError, match="input_ids = 500 is not allowed"), block(model):
        model.generate(torch.full((1, 60), 500), **GREEDY)
    assert set(model.__dict__) == own
    assert_same(before, state_of(model))
    plain = build("llama").generate(ids_of(1, 60), attention_mask=ones(ids_of(1, 60)), **GREEDY)
    assert torch.equal(model.generate(ids_of(1, 60), attention_mask=ones(ids_of(1, 60)), **GREEDY), plain)


def test_an_error_in_a_call_leaves_the_block_usable(model):
    ids = ids_of(1, 60)
    with filtered(model, **HOW):
        with pytest.raises(SettingError, match="inputs_embeds"):
            model.generate(inputs_embeds=torch.zeros(1, 60, 32), input_ids=ids)
        made = model.generate(ids, attention_mask=ones(ids), **GREEDY)
    assert torch.equal(made[:, 60:], generate(model, ids, **HOW, **GREEDY).new_tokens)


def test_a_generate_of_the_users_own_comes_back(model):
    class_one = model.generate
    calls = []

    def counted(*args, **kwargs):
        calls.append(kwargs)
        return class_one(*args, **kwargs)

    model.generate = counted
    with filtered(model, **HOW):
        model.generate(input_ids=ids_of(1, 60), attention_mask=ones(ids_of(1, 60)), **GREEDY)
    assert model.generate is counted
    assert len(calls) == 1  # pass two is the user's
    with evicting(model, budget=36), pytest.raises(SettingError, match="model = with a generate of its own"):
        model.generate(input_ids=ids_of(1, 60), attention_mask=ones(ids_of(1, 60)), **GREEDY)


def test_blocks_of_one_kind_are_not_nested_and_those_of_two_models_are(model):
    other, ids = build("qwen3"), ids_of(1, 60)
    expected = [generate(m, ids, **HOW, **GREEDY).new_tokens for m in (model, other)]
    with filtered(model, **HOW), filtered(other, **HOW):
        with pytest.raises(SettingError, match="model = in a filtered block already"), filtered(model, **HOW):
            pass
        found = [m.generate(ids, attention_mask=ones(ids), **GREEDY)[:, 60:] for m in (model, other)]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert "generate" not in {*model.__dict__, *other.__dict__}


def test_a_block_keeps_no_model_alive():
    model = build("llama")
    with filtered(model, **HOW) as block:
        model.generate(ids_of(1, 60), attention_mask=ones(ids_of(1, 60)), **GREEDY)
    gc.collect()
    assert not [o for o in gc.get_objects() if type(o).__name__ in ("_Block", "_Generate") and o.model is model]
    assert block.last.selection.kept == (20,)


def test_compiled_models_are_filtered_too(model):
    torch._dynamo.reset()
    ids = ids_of(1, 60)
    expected = generate(model, ids, **HOW, **GREEDY).new_tokens
    compiled = torch.compile(model, backend="eager")
    with filtered(compiled, **HOW):
        made = compiled.generate(ids, attention_mask=ones(ids), **GREEDY)
    torch._dynamo.reset()
    assert torch.equal(made[:, 60:], expected)
    assert "generate" not in model.__dict__


# --- other threads and tasks -----------------------------------------------------------------------------------------


def test_other_threads_are_not_filtered_and_may_open_blocks_of_their_own(model):
    asked = [(i, ids_of(1, 60, seed=i)) for i in range(24)]
    settings = [None, HOW, {**HOW, "keep": 12}]
    expected = []
    for i, ids in asked:
        how = settings[i % 3]
        plain = how is None
        made = (
            model.generate(ids, attention_mask=ones(ids), **GREEDY) if plain else generate(model, ids, **how, **GREEDY)
        )
        expected.append(made[:, 60:] if plain else made.new_tokens)

    def one(request):
        i, ids = request
        with ExitStack() as stack:
            if settings[i % 3]:
                stack.enter_context(filtered(model, **settings[i % 3]))
            return model.generate(ids, attention_mask=ones(ids), **GREEDY)[:, 60:]

    with filtered(model, **{**HOW, "keep": 9}), ThreadPoolExecutor(6) as pool:
        found = list(pool.map(one, asked))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert "generate" not in model.__dict__


def test_a_block_that_closes_first_leaves_the_other_open(model):
    ids, entered, leave = ids_of(1, 60), threading.Event(), threading.Event()
    expected, found = generate(model, ids, **HOW, **GREEDY).new_tokens, []

    def longer():
        with filtered(model, **HOW):
            entered.set()
            leave.wait(60)
            found.append(model.generate(ids, attention_mask=ones(ids), **GREEDY)[:, 60:])

    thread = threading.Thread(target=longer)
    with filtered(model, **{**HOW, "keep": 9}):
        thread.start()
        entered.wait(60)
    plain = model.generate(ids, attention_mask=ones(ids), **GREEDY)
    leave.set()
    thread.join()
    assert torch.equal(found[0], expected)
    assert not torch.equal(plain[:, 60:], expected)
    assert "generate" not in model.__dict__


def test_tasks_have_blocks_of_their_own_and_threads_started_for_them_too(model):
    ids = ids_of(1, 60)
    expected = [generate(model, ids, **{**HOW, "keep": k}, **GREEDY).new_tokens for k in (20, 12)]

    async def one(keep):
        with filtered(model, **{**HOW, "keep": keep}):
            await asyncio.sleep(0)
            return (await asyncio.to_thread(model.generate, ids, attention_mask=ones(ids), **GREEDY))[:, 60:]

    async def both():
        return await asyncio.gather(one(20), one(12))

    assert all(torch.equal(a, b) for a, b in zip(asyncio.run(both()), expected, strict=True))


def test_a_task_that_outlives_the_block_is_plain(model):
    ids = ids_of(1, 60)
    plain = model.generate(ids, attention_mask=ones(ids), **GREEDY)

    async def run():
        closed = asyncio.Event()

        async def later():
            await closed.wait()
            return model.generate(ids, attention_mask=ones(ids), **GREEDY)

        with filtered(model, **HOW):
            task = asyncio.create_task(later())
            await asyncio.sleep(0)
        with filtered(model, **{**HOW, "keep": 9}):  # the task belongs to the first block, not to this one
            closed.set()
            return await task

    assert torch.equal(asyncio.run(run()), plain)


# --- eviction --------------------------------------------------------------------------------------------------------


def evicted_by_hand(model, ids, policy="snapkv", budget=36):
    """The replies of `kv_eviction`, prompt by prompt."""
    rows = []
    for row in ids:
        filled = kv_eviction.prefill(model, row[None], want=(policy,) if policy in kv_eviction.SCORED else ())
        cache = kv_eviction.evict(filled, policy, budget)
        rows.append(kv_eviction.generate(model, filled, cache, max_new_tokens=6)[0].tolist())
    return rows


def assert_replies(made, n, rows):
    for found, row in zip(made[:, n:].tolist(), rows, strict=True):
        assert found[: len(row)] == row
        assert not any(found[len(row) :])  # padding


@pytest.mark.parametrize("policy", ["snapkv", "h2o", "streaming"])
@pytest.mark.parametrize("family", FAMILIES)
def test_eviction_around_generate_is_eviction_by_hand(family, policy):
    model, ids = build(family), ids_of(2, 60)
    rows = evicted_by_hand(model, ids, policy)
    with evicting(model, policy, budget=36):
        made = model.generate(ids, attention_mask=ones(ids), **GREEDY)
    assert torch.equal(made[:, :60], ids)
    assert_replies(made, 60, rows)


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_the_filter_comes_first_and_then_the_eviction(family, eager):
    """Both budgets count: 50 of 100 tokens, and 36 entries of the cache of these."""
    model, ids = build(family), ids_of(2, 100)
    if eager:
        model.set_attn_implementation("eager")
    how = {**HOW, "keep": 50}
    chosen = select(model, ids, **how)
    kept = torch.stack([row[at] for row, at in zip(ids, chosen.indices, strict=True)])
    rows = evicted_by_hand(model, kept)
    filtered_alone = generate(model, ids, **how, **GREEDY).new_tokens.tolist()
    if family == "llama":  # the other one repeats itself
        assert rows != evicted_by_hand(model, ids)
        assert rows != filtered_alone
    blocks = (partial(filtered, model, **how), partial(evicting, model, "snapkv", budget=36))
    more = {**GREEDY, "return_dict_in_generate": True}
    for first, second in (blocks, blocks[::-1]):
        with first(), second():
            made = model.generate(ids, attention_mask=ones(ids), **more)
        assert torch.equal(made.sequences[:, :100], ids)
        assert_replies(made.sequences, 100, rows)
        cache = made["cache"] if "cache" in made else made["past_key_values"]
        steps = made.sequences.shape[1] - 101
        assert cache.layers[3].keys.shape[2] == 36 + steps
    assert "generate" not in model.__dict__


def test_a_budget_that_holds_the_prompt_drops_nothing(model):
    ids, more = ids_of(2, 60), {**GREEDY, "num_beams": 3, "num_return_sequences": 2}
    for how in (GREEDY, more):
        plain = model.generate(ids, attention_mask=ones(ids), **how)
        with evicting(model, budget=60):
            assert torch.equal(model.generate(ids, attention_mask=ones(ids), **how), plain)


def test_beams_are_evicted_alike(model):
    """One beam of three that are equal: the best of three is not worse than the greedy reply under the same cache."""
    ids = ids_of(1, 60)
    more = {
        **GREEDY,
        "return_dict_in_generate": True,
        "output_scores": True,
        "eos_token_id": None,
        "length_penalty": 0.0,
    }
    with evicting(model, budget=36):
        greedy = model.generate(ids, attention_mask=ones(ids), **more)
        beams = model.generate(ids, attention_mask=ones(ids), num_beams=8, **more)
    each = model.compute_transition_scores(greedy.sequences, greedy.scores, normalize_logits=True)
    assert float(beams.sequences_scores[0]) >= float(each.sum()) - 1e-4


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"policy": "one_run"}, "policy = one_run is not allowed: one of snapkv, h2o, streaming"),
        ({"budget": 20}, "budget = 20 is not allowed: above the 32 entries"),
        ({"pool": 2}, "pool = 2"),
    ],
)
def test_settings_of_an_eviction_are_refused_at_once(model, settings, told):
    with pytest.raises(SettingError, match=told), evicting(model, **settings):
        pass
    assert "generate" not in model.__dict__


@pytest.mark.parametrize(
    "name", ["assistant_model", "prompt_lookup_num_tokens", "past_key_values", "cache_implementation"]
)
def test_what_does_not_go_with_an_eviction_is_refused(model, name):
    with evicting(model, budget=36), pytest.raises(SettingError, match=f"{name} = given"):
        model.generate(ids_of(1, 60), attention_mask=ones(ids_of(1, 60)), **GREEDY, **{name: 3})


def test_prompts_of_several_lengths_are_not_evicted(model):
    ids, mask = padded(60, 41)
    with evicting(model, budget=36), pytest.raises(SettingError, match="input_ids = with padding"):
        model.generate(ids, attention_mask=mask, **GREEDY)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"keep": 0}, "keep = 0 is not allowed"),
        ({"layer": 9}, "layer = 9 is not allowed: 0 to 3"),
        ({"layer": "auto"}, "layer = auto is not allowed"),
        ({"layer": "last"}, "layer = 'last' is not allowed"),
    ],
)
def test_settings_are_refused_when_a_block_is_opened(model, settings, told):
    with pytest.raises(SettingError, match=told), filtered(model, **{**HOW, **settings}):
        pass
    assert "generate" not in model.__dict__


@pytest.mark.parametrize(
    "given, told",
    [
        ({}, "generate = without a prompt"),
        ({"inputs": ids_of(1, 9), "input_ids": ids_of(1, 9)}, "generate = with two prompts"),
        ({"input_ids": ids_of(1, 60), "past_key_values": 1}, "past_key_values = given"),
        ({"input_ids": ids_of(1, 60), "position_ids": ids_of(1, 60)}, "position_ids = given"),
    ],
)
def test_what_is_no_prompt_of_token_ids_is_refused(model, given, told):
    with filtered(model, **HOW), pytest.raises(SettingError, match=told):
        model.generate(**given)


def test_the_facade_has_the_blocks():
    assert gemfilter.filtered is filtered
    assert gemfilter.evicting is evicting
