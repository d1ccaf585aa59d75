"""What is not finite is named and never ranked; a prompt without a mask is read as Transformers reads it."""

import math

import pytest
import torch
from families import FAMILIES, build, ids_of, transformers

from featlearn.core import SettingError
from featlearn.methods import kv_eviction, long_context
from featlearn.methods.gemfilter import RAW, SOFTMAX, Scoring, generate, select, select_chunked
from featlearn.methods.gemfilter.generating import Finite
from featlearn.methods.gemfilter.selecting import best, inferred_mask, probabilities

LAYER = 3
GREEDY = {"max_new_tokens": 4, "do_sample": False}
VALUES = {"nan": math.nan, "infinity": math.inf, "minus infinity": -math.inf}


def projection(model, layer):
    attn = model.model.layers[layer].self_attn
    return attn.qkv_proj if hasattr(attn, "qkv_proj") else attn.k_proj


def spoilt(family, value, layer=LAYER, row=-1):
    """A model with one odd number among the weights that make the keys of a layer."""
    model = build(family)
    with torch.no_grad():
        rows = projection(model, layer).weight
        heads = model.config.num_attention_heads * model.model.layers[layer].self_attn.head_dim
        rows[heads if hasattr(model.model.layers[layer].self_attn, "qkv_proj") else row, 0] = value
    return model


def one_infinity(module, args, out):
    """One infinite coordinate of the keys at one token; phi3 has queries, keys and values in one."""
    out = out.clone()
    if out.shape[1] > 5:
        out[:, 5, 0 if out.shape[-1] <= 32 else 32] = math.inf
    return out


@pytest.mark.parametrize("value", [*VALUES, "one infinity"])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_rank_for_what_is_not_finite(family, value):
    """One infinity: softmax gives a key with logit -inf the probability 0, which looks like any other score."""
    if value == "one infinity":
        model = build(family)
        projection(model, LAYER).register_forward_hook(one_infinity)
    else:
        model = spoilt(family, VALUES[value])
    for how in (select, select_chunked):
        for scoring in (RAW, SOFTMAX, Scoring(softmax=True, over_heads="sum")):
            with pytest.raises(SettingError, match=rf"that are not finite \(layer {LAYER}, prompt 0\)") as error:
                how(model, ids_of(1, 20), layer=LAYER, keep=4, scoring=scoring)
            assert "\n" not in str(error.value)
    with pytest.raises(SettingError, match="not finite"):
        generate(model, ids_of(1, 20), layer=LAYER, keep=4, scoring=RAW, **GREEDY)


def test_what_is_odd_before_the_layer_is_named_there_too_and_what_is_odd_after_it_is_not():
    with pytest.raises(SettingError, match="that are not finite"):
        select(spoilt("llama", math.nan, layer=1), ids_of(1, 20), layer=2, keep=4)
    fine, odd = build("llama"), spoilt("llama", math.nan, layer=3)
    ids = ids_of(1, 20)
    assert torch.equal(select(fine, ids, layer=2, keep=4).scores, select(odd, ids, layer=2, keep=4).scores)


def test_the_prompts_at_fault_are_named():
    """A row of the embedding that only the second prompt holds."""
    model, ids = build("llama"), ids_of(3, 20)
    ids[ids == 9] = 8
    ids[1, 7] = 9
    with torch.no_grad():
        model.model.embed_tokens.weight[9] = math.nan
    with pytest.raises(SettingError, match=r"\(layer 2, prompt 1\)"):
        select(model, ids, layer=2, keep=4)
    assert select(model, ids[[0, 2]], layer=2, keep=4).kept == (4, 4)


def test_scores_that_overflow_are_named():
    """Finite queries and keys whose product is not: float32 ends at 3.4e38."""
    model = build("llama")
    for name in ("q_proj", "k_proj"):
        with torch.no_grad():
            getattr(model.model.layers[LAYER].self_attn, name).weight.mul_(1e20)
    with pytest.raises(SettingError, match=rf"scores that are not finite \(layer {LAYER}, prompt 0\)"):
        select(model, ids_of(1, 20), layer=LAYER, keep=4, scoring=RAW)


def test_softmax_does_not_hide_minus_infinity():
    """A key whose every logit is -inf would have probability 0 and rank last, without a word."""
    votes, keys = torch.ones(1, 2, 1, 4), torch.ones(1, 2, 6, 4)
    keys[:, :, 2] = -3e38
    mask = torch.ones(1, 6, dtype=torch.bool)
    assert torch.isnan(probabilities(votes, keys, mask, 0.5)).all()
    assert torch.isfinite(probabilities(votes, keys, mask & (torch.arange(6) > 2), 0.5)[..., 3:]).all()


def test_half_precision_that_overflows_is_named_with_the_remedy():
    model = build("llama", dtype=torch.float16)
    with torch.no_grad():
        projection(model, LAYER).weight.mul_(60000)
    with pytest.raises(SettingError, match="float16 overflows: load it in bfloat16 or float32"):
        select(model, ids_of(1, 20), layer=LAYER, keep=4)


@pytest.mark.parametrize("policy", kv_eviction.SCORED)
def test_evicted_caches_rank_nothing_that_is_not_finite(policy):
    with pytest.raises(SettingError, match=rf"not finite \(layer {LAYER}, prompt 0\)"):
        kv_eviction.prefill(spoilt("llama", math.nan), ids_of(1, 40), want=(policy,))
    with pytest.raises(SettingError, match="not finite"):
        long_context.answer(
            spoilt("llama", math.nan), None, ids_of(1, 60), method=policy, budget=40, max_new_tokens=2, layer=2
        )


def test_replies_are_not_made_of_nan():
    """Where nothing is left out there is no pass one; the model's own generation would go on with nan."""
    model, ids = spoilt("llama", math.nan), ids_of(1, 20)
    assert model.generate(ids, **GREEDY).shape == (1, 24)  # as Transformers does it
    with pytest.raises(SettingError, match=r"logits that are not finite \(after 20 tokens"):
        generate(model, ids, layer=2, keep=20, **GREEDY)
    filled = kv_eviction.prefill(model, ids)
    with pytest.raises(SettingError, match="logits that are not finite"):
        kv_eviction.generate(model, filled, filled.cache, max_new_tokens=2)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_token_is_picked_among_odd_logits(value):
    model, ids = build("llama"), ids_of(1, 20)
    model.lm_head.register_forward_hook(lambda m, args, out: torch.full_like(out, value))
    with pytest.raises(SettingError, match="logits that are not finite"):
        generate(model, ids, layer=2, keep=20, **GREEDY)
    filled = kv_eviction.prefill(model, ids)
    with pytest.raises(SettingError, match="logits that are not finite"):
        kv_eviction.generate(model, filled, filled.cache, max_new_tokens=2)


def test_one_odd_logit_is_enough_and_tokens_may_be_banned():
    ids, banned = torch.zeros(2, 3, dtype=torch.long), torch.tensor([[0.1, -math.inf, 0.3], [-math.inf, 0.2, 0.4]])
    assert Finite()(ids, banned) is banned
    for odd in (math.nan, math.inf):
        logits = torch.tensor([[0.1, 0.2, 0.3], [0.1, odd, 0.3]])
        with pytest.raises(SettingError, match="after 3 tokens"):
            Finite()(ids, logits)
    with pytest.raises(SettingError, match="after 3 tokens"):
        Finite()(ids, torch.tensor([[0.1, 0.2, 0.3], [-math.inf] * 3]))


def test_odd_scores_of_each_policy_are_seen():
    """Logits whose softmax would hide what is odd: one key is infinite for all queries after it."""
    model, ids = build("llama"), ids_of(1, 60)
    projection(model, 1).register_forward_hook(
        lambda m, args, out: out.index_fill(1, torch.tensor([3]), -3e38) if out.shape[1] > 3 else out
    )
    for want in (("h2o",), ("snapkv",), ("snapkv", "h2o")):
        with pytest.raises(SettingError, match=r"not finite \(layer 1"):
            kv_eviction.prefill(model, ids, want=want)


def test_the_users_own_processors_still_run():
    seen = []

    def banned(input_ids, scores):
        seen.append(input_ids.shape[1])
        return scores.index_fill(1, torch.arange(3, 60), -math.inf)

    found = generate(build("llama"), ids_of(1, 20), layer=2, keep=6, logits_processor=[banned], **GREEDY)
    assert seen == [6, 7, 8, 9]
    assert not ((found.new_tokens >= 3) & (found.new_tokens < 60)).any()


def test_nan_has_no_rank():
    scores, mask = torch.tensor([[0.1, math.nan, 0.3]]), torch.ones(1, 3, dtype=torch.bool)
    with pytest.raises(SettingError, match="scores = with nan"):
        best(scores, mask, ~mask, [2])
    assert best(scores, mask & ~scores.isnan(), ~mask, [1])[0].tolist() == [1]  # padding may hold anything


# --- a prompt without a mask -----------------------------------------------------------------------------------------

SPECIAL = {
    "pad": {"pad_token_id": 0, "eos_token_id": 2},
    "pad ends": {"pad_token_id": 2, "eos_token_id": 2},
    "pad is one of the ends": {"pad_token_id": 2, "eos_token_id": [2, 5]},
    "no pad": {"pad_token_id": None, "eos_token_id": 2},
    "no end": {"pad_token_id": 0, "eos_token_id": None},
    "other pad": {"pad_token_id": 7, "eos_token_id": 2},
}


def padded():
    """Two prompts, of which the first has five tokens of padding before it and holds no other 0, 2 or 7."""
    ids = ids_of(2, 24, seed=4)
    ids[ids == 7] = 8
    ids[0, :5] = 0
    return ids


def reading(model, ids, **more):
    """The mask that the model's own generation forms."""
    seen = []
    inner = model._prepare_attention_mask_for_generation

    def look(*args, **kwargs):
        seen.append(inner(*args, **kwargs))
        return seen[-1]

    model._prepare_attention_mask_for_generation = look
    try:
        model.generate(ids, **GREEDY, **more)
    finally:
        del model._prepare_attention_mask_for_generation
    return seen[0]


@pytest.mark.parametrize("special", SPECIAL)
def test_a_prompt_without_a_mask_is_read_as_transformers_reads_it(special):
    model, ids = build("llama"), padded()
    model.generation_config.update(**SPECIAL[special])
    if special == "pad ends" or special == "pad is one of the ends":
        ids[0, :5] = 2
    if special == "other pad":
        ids[0, :5] = 7
    mask = reading(model, ids)
    assert bool(mask.all()) == (special in ("pad ends", "pad is one of the ends", "no pad"))
    ours, given = select(model, ids, layer=2, keep=6), select(model, ids, mask, layer=2, keep=6)
    assert ours.lengths == tuple(mask.sum(1).tolist())
    assert all(torch.equal(a, b) for a, b in zip(ours.indices, given.indices, strict=True))
    whole = generate(model, ids, layer=2, keep=24, **GREEDY)
    assert torch.equal(whole.new_tokens, model.generate(ids, **GREEDY)[:, 24:])


@pytest.mark.parametrize("how", ["argument", "config"])
def test_the_padding_token_of_the_call_counts(how):
    model, ids = build("llama"), padded()
    ids[0, :5] = 7
    more = {"pad_token_id": 7}
    if how == "config":
        more = {"generation_config": transformers.GenerationConfig(pad_token_id=7, eos_token_id=2, **GREEDY)}
    given = {} if how == "config" else GREEDY
    found = generate(model, ids, layer=2, keep=24, **given, **more)
    assert found.selection.lengths == (19, 24)
    assert torch.equal(found.new_tokens, model.generate(ids, **given, **more)[:, 24:])


@pytest.mark.parametrize(
    "more, lengths",
    [
        ({"pad_token_id": None}, (24, 24)),
        ({"pad_token_id": 2}, (24, 24)),
        ({"eos_token_id": None}, (19, 24)),
        ({"eos_token_id": 0}, (24, 24)),
        ({"eos_token_id": [5, 0]}, (24, 24)),
    ],
)
def test_arguments_of_the_call_stand_above_the_config(more, lengths):
    model, ids = build("llama"), padded()
    assert tuple(reading(model, ids, **more).sum(1).tolist()) == lengths
    config = transformers.GenerationConfig(pad_token_id=7, eos_token_id=9)
    for given in (more, more | {"generation_config": config}):
        assert tuple(inferred_mask(model, ids, given).sum(1).tolist()) in (lengths, (24, 24))
    assert generate(model, ids, layer=2, keep=24, **GREEDY, **more).selection.lengths == lengths


def test_a_mask_that_is_added_to_scores_is_refused():
    mask = torch.zeros(1, 20).masked_fill(torch.arange(20) < 3, -math.inf)
    with pytest.raises(SettingError, match="attention_mask = with other values"):
        select(build("llama"), ids_of(1, 20), mask, layer=2, keep=6)


def test_evicted_caches_refuse_padding():
    with pytest.raises(SettingError, match="input_ids = with padding"):
        kv_eviction.prefill(build("llama"), padded()[:1])
    assert kv_eviction.prefill(build("llama"), padded()[:1], torch.ones(1, 24)).cache.get_seq_length() == 24


def test_padding_tokens_inside_a_prompt_are_refused_with_the_remedy():
    ids = padded()
    ids[1, 10] = 0
    with pytest.raises(
        SettingError, match=r"attention_mask = with holes, as the padding token stands.*give attention_mask"
    ):
        select(build("llama"), ids, layer=2, keep=6)
    assert select(build("llama"), ids, torch.ones_like(ids), layer=2, keep=6).lengths == (24, 24)


def test_a_row_of_padding_is_refused():
    with pytest.raises(SettingError, match="all zero, as the padding token stands"):
        select(build("llama"), torch.zeros(1, 9, dtype=torch.long), layer=2, keep=6)


def test_a_hole_in_one_prompt_is_seen_and_padding_at_both_ends_is_none():
    model, ids, mask = build("llama"), ids_of(2, 12), torch.ones(2, 12, dtype=torch.long)
    mask[:, 0], mask[0, -1] = 0, 0
    assert select(model, ids, mask, layer=2, keep=6).lengths == (10, 11)
    mask[0, -1], mask[1, 5] = 1, 0
    with pytest.raises(SettingError, match="attention_mask = with holes"):
        select(model, ids, mask, layer=2, keep=6)
    mask[:, 0] = 1
    with pytest.raises(SettingError, match="attention_mask = with holes"):
        select(model, ids, mask, layer=2, keep=6)
