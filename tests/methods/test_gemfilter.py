"""GemFilter: the tokens of a float64 brute force, the model's own generation on them, nothing of the model changed."""

import contextlib
import copy
import math
import sys

import numpy as np
import pytest
import torch
from families import FAMILIES, assert_same, build, ids_of, state_of, transformers

from featlearn.core import SettingError
from featlearn.methods import gemfilter
from featlearn.methods.gemfilter import RAW, SOFTMAX, Scoring, layout_of, recommended, select, select_chunked
from featlearn.methods.gemfilter.generating import gather, readable
from featlearn.methods.gemfilter.given import count_of
from featlearn.methods.gemfilter.recommended import Setting, save
from featlearn.methods.gemfilter.selecting import best, products, smooth


@pytest.fixture(scope="module", params=list(FAMILIES))
def model(request):
    return build(request.param)


@pytest.fixture(scope="module")
def llama():
    return build("llama")


def brute_force(model, ids, layer, scoring):
    """Scores spelled out in float64 from the queries and keys that the model's own attention function was given."""
    layout, seen = layout_of(model), {}
    attn = layout.layers(model)[layer].self_attn
    module = sys.modules[type(attn).__module__]
    original = module.eager_attention_forward

    def record(mod, query, key, *args, **kwargs):
        if mod is attn:
            seen["q"], seen["k"], seen["scale"] = query, key, kwargs["scaling"]
        return original(mod, query, key, *args, **kwargs)

    module.eager_attention_forward = record
    try:
        with torch.no_grad():
            own = model(ids, output_attentions=True).attentions[layer]
    finally:
        module.eager_attention_forward = original
    _, heads, n, _ = seen["q"].shape
    keys = seen["k"].repeat_interleave(heads // seen["k"].shape[1], dim=1)
    logits = seen["q"] @ keys.transpose(2, 3)
    scaled = logits * seen["scale"]
    cap = getattr(model.config, "attn_logit_softcapping", None)
    scaled = scaled if cap is None else cap * torch.tanh(scaled / cap)
    probabilities = torch.softmax(scaled.masked_fill(~torch.ones(n, n).tril().bool(), -math.inf), dim=-1)
    assert torch.allclose(probabilities, own.double(), atol=1e-6)  # what was recorded is what the model attends with
    if scoring.softmax:
        by_head = probabilities[:, :, -scoring.rows :].sum(2)
        found = by_head.amax(1) if scoring.over_heads == "max" else by_head.sum(1)
    else:
        found = logits[:, :, -scoring.rows :].sum((1, 2))
    if scoring.pooling == "none":
        return found
    half, out = scoring.pool // 2, torch.empty_like(found)
    padded = torch.nn.functional.pad(found, (half, half))
    for i in range(n):
        window = padded[:, i : i + scoring.pool]
        out[:, i] = window.mean(1) if scoring.pooling == "avg" else window.amax(1)
    return out


@pytest.mark.parametrize(
    "scoring",
    [
        RAW,
        Scoring(pooling="none"),
        Scoring(pooling="max", pool=3),
        Scoring(rows=6, softmax=True, pool=7),
        Scoring(rows=6, softmax=True, pool=7, over_heads="max"),
    ],
    ids=["raw", "no pooling", "max pooling", "probabilities", "best head"],
)
def test_tokens_are_those_of_a_brute_force(model, scoring):
    ids = ids_of(2, 50)
    double = copy.deepcopy(model).double()
    double.set_attn_implementation("eager")
    for layer in layout_of(model).global_layers(model):
        want = brute_force(double, ids, layer, scoring)
        exact = select(double, ids, layer=layer, keep=12, scoring=scoring)
        assert torch.allclose(exact.scores, want, atol=1e-10, rtol=0)
        chosen = select(model, ids, layer=layer, keep=12, scoring=scoring)
        assert torch.allclose(chosen.scores.double(), want, atol=1e-3, rtol=0)
        for row in range(2):
            order = sorted(range(50), key=lambda i: (-round(float(want[row, i]), 9), i))
            assert exact.indices[row].tolist() == sorted(order[:12])
            if want[row, order[11]] - want[row, order[12]] > 2e-3:  # else float32 may choose otherwise
                assert chosen.indices[row].tolist() == sorted(order[:12])


def test_rows_of_softmax_differ_from_raw_and_agree_for_one_head():
    one = build("llama", num_attention_heads=1, num_key_value_heads=1)
    ids = ids_of(1, 60)
    for model, same in ((one, True), (build("llama"), False)):
        raw, soft = (
            select(model, ids, layer=2, keep=15, scoring=Scoring(softmax=s, pooling="none")).indices[0].tolist()
            for s in (False, True)
        )
        assert (raw == soft) is same


def test_grouped_heads_are_summed_without_repeating_keys():
    generator = torch.Generator().manual_seed(1)
    votes, keys = torch.randn(2, 6, 3, 8, generator=generator), torch.randn(2, 3, 40, 8, generator=generator)
    want = (votes @ keys.repeat_interleave(2, dim=1).transpose(2, 3)).sum((1, 2))
    assert torch.allclose(products(votes, keys), want, atol=1e-5)
    wrong = (votes @ keys.repeat(1, 2, 1, 1).transpose(2, 3)).sum((1, 2))  # groups the other way round
    assert not torch.allclose(want, wrong, atol=1e-2)
    part = (votes[:, [1, 4]] @ keys[:, [0, 2]].transpose(2, 3)).sum((1, 2))
    assert torch.allclose(products(votes, keys, heads=(1, 4)), part, atol=1e-5)


def test_pass_one_leaves_later_layers_alone(model):
    layout, calls = layout_of(model), []
    last = layout.global_layers(model)[-1]
    handles = [
        layer.register_forward_hook(lambda *_, i=i: calls.append(i)) for i, layer in enumerate(layout.layers(model))
    ]
    handles.append(model.lm_head.register_forward_hook(lambda *_: calls.append("head")))
    handles.append(layout.layers(model)[last].mlp.register_forward_hook(lambda *_: calls.append("filter layer's MLP")))
    select(model, ids_of(1, 30), layer=last, keep=5)
    assert calls == list(range(last))
    for handle in handles:
        handle.remove()


def test_batches_with_padding_on_either_side_are_as_one_at_a_time(model):
    layer = layout_of(model).global_layers(model)[-1]
    prompts = [ids_of(1, n, seed=n)[0] for n in (21, 40, 33)]
    for side in ("left", "right"):
        ids, mask = torch.zeros(3, 40, dtype=torch.long), torch.zeros(3, 40, dtype=torch.long)
        for row, p in enumerate(prompts):
            at = slice(40 - len(p), 40) if side == "left" else slice(0, len(p))
            ids[row, at], mask[row, at] = p, 1
        for scoring in (RAW, SOFTMAX):
            together = select(model, ids, mask, layer=layer, keep=9, scoring=scoring, protect=(1, 2))
            assert together.lengths == (21, 40, 33)
            alone = [select(model, p[None], layer=layer, keep=9, scoring=scoring, protect=(1, 2)) for p in prompts]
            for row, (p, a) in enumerate(zip(prompts, alone, strict=True)):
                assert torch.allclose(together.scores[row][mask[row].bool()], a.scores[0], atol=1e-4)
                assert together.indices[row].tolist() == a.indices[0].tolist()
                assert {0, len(p) - 2, len(p) - 1} <= set(together.indices[row].tolist())
            assert torch.isneginf(together.scores[mask == 0]).all()


def test_generation_of_a_padded_batch_is_as_one_at_a_time(llama):
    prompts = [ids_of(1, n, seed=n)[0] for n in (26, 40)]
    ids, mask = torch.zeros(2, 40, dtype=torch.long), torch.zeros(2, 40, dtype=torch.long)
    for row, p in enumerate(prompts):
        ids[row, 40 - len(p) :], mask[row, 40 - len(p) :] = p, 1
    options = {"layer": 2, "scoring": RAW, "max_new_tokens": 6, "do_sample": False, "eos_token_id": 96}
    together = gemfilter.generate(llama, ids, mask, keep=0.3, **options)
    assert together.selection.kept == (8, 12)
    assert together.kept_mask.sum(1).tolist() == [8, 12]
    for row, p in enumerate(prompts):
        alone = gemfilter.generate(llama, p[None], keep=0.3, **options)
        assert together.new_tokens[row].tolist() == alone.new_tokens[0].tolist()


def test_keeping_everything_is_plain_generation(model):
    ids = ids_of(2, 20)
    options = {"max_new_tokens": 8, "do_sample": False}
    plain = model.generate(ids, attention_mask=torch.ones_like(ids), **options)
    for keep in (20, 10**6, 1.0):
        found = gemfilter.generate(model, ids, layer=3, keep=keep, **options)
        assert torch.equal(found.sequences, plain)
        assert found.selection.kept == (20, 20)
        assert found.first.seconds == 0


def test_pass_two_is_the_models_own_generation(model):
    ids, places = ids_of(1, 40), []
    layer = layout_of(model).global_layers(model)[-1]
    handle = model.get_decoder().register_forward_pre_hook(
        lambda m, a, k: places.append(k["position_ids"].max().item()) if k.get("position_ids") is not None else None,
        with_kwargs=True,
    )
    try:
        for options in (
            {"do_sample": False},
            {"do_sample": True, "top_k": 5},
            {"num_beams": 3, "do_sample": False},
            {"num_beams": 2, "num_return_sequences": 2, "do_sample": False},
        ):
            torch.manual_seed(3)
            found = gemfilter.generate(model, ids, layer=layer, keep=11, max_new_tokens=5, **options)
            kept = ids[:, found.selection.indices[0]]
            assert torch.equal(found.kept_ids, kept)
            torch.manual_seed(3)
            want = model.generate(kept, attention_mask=torch.ones_like(kept), max_new_tokens=5, **options)
            assert torch.equal(found.sequences, want)
            assert found.new_tokens.shape[1] <= 5
        assert max(places[-5:]) <= 11 + 5 - 1  # positions begin anew at 0
    finally:
        handle.remove()


def test_pass_one_can_be_any_that_is_called_like_select(llama):
    calls = []

    def choose(*args, **kwargs):
        calls.append(kwargs)
        return select_chunked(*args, chunk=7, **kwargs)

    options = {"layer": 2, "keep": 9, "scoring": SOFTMAX, "protect": (1, 2)}
    found = gemfilter.generate(llama, ids_of(2, 40), choose=choose, max_new_tokens=3, do_sample=False, **options)
    want = gemfilter.generate(llama, ids_of(2, 40), max_new_tokens=3, do_sample=False, **options)
    assert calls == [options]
    assert torch.equal(found.sequences, want.sequences)


def test_streaming_stopping_and_dict_outputs_pass_through(llama):
    seen = []

    class Streamer:
        def put(self, value):
            seen.append(value)

        def end(self):
            seen.append("end")

    class AfterTwo(transformers.StoppingCriteria):
        def __call__(self, input_ids, scores, **kwargs):
            return torch.full((len(input_ids),), input_ids.shape[1] >= 10 + 2)

    found = gemfilter.generate(
        llama,
        ids_of(1, 30),
        layer=1,
        keep=10,
        max_new_tokens=9,
        do_sample=False,
        streamer=Streamer(),
        stopping_criteria=transformers.StoppingCriteriaList([AfterTwo()]),
        return_dict_in_generate=True,
        output_scores=True,
    )
    assert seen[-1] == "end"
    assert found.new_tokens.shape == (1, 2)
    assert len(found.output.scores) == 2


def test_nothing_of_the_model_changes(model, monkeypatch):
    layout = layout_of(model)
    layer = layout.global_layers(model)[-1]
    model.train()
    layout.layers(model)[1].eval()  # a mode of its own
    rng = torch.get_rng_state()
    before = state_of(model)
    select(model, ids_of(1, 30), layer=layer, keep=5)
    assert_same(before, state_of(model))
    handle = layout.layers(model)[1].mlp.register_forward_hook(lambda *_: 1 / 0)
    before = state_of(model)
    with pytest.raises(ZeroDivisionError):
        select(model, ids_of(1, 30), layer=layer, keep=5)
    assert_same(before, state_of(model))
    handle.remove()
    attn = layout.layers(model)[layer].self_attn
    broken = "qkv_proj" if hasattr(attn, "qkv_proj") else "k_proj"
    handle = getattr(attn, broken).register_forward_hook(lambda *_: 1 / 0)
    before = state_of(model)
    with pytest.raises(ZeroDivisionError):
        select(model, ids_of(1, 30), layer=layer, keep=5)
    assert_same(before, state_of(model))
    handle.remove()
    assert torch.equal(torch.get_rng_state(), rng)
    model.eval()


def test_training_mode_does_not_change_the_choice(llama):
    ids = ids_of(1, 40)
    dropping = build("llama", attention_dropout=0.5)
    want = select(dropping.eval(), ids, layer=2, keep=9).scores
    assert torch.equal(select(dropping.train(), ids, layer=2, keep=9).scores, want)
    assert not want.requires_grad


@pytest.mark.parametrize(
    "keep, length, want", [(7, 100, 7), (0.07, 100, 7), (0.071, 100, 8), (1.0, 33, 33), (0.001, 10, 1), (500, 10, 500)]
)
def test_counts_and_shares(keep, length, want):
    assert count_of(keep, length) == want


@pytest.mark.parametrize("keep", [0, -3, -0.1, math.nan, 1.5, True, 0.0, math.inf])
def test_senseless_counts_are_refused(llama, keep):
    with pytest.raises(SettingError, match=r"keep = .* is not allowed: a count of at least 1, or a share"):
        count_of(keep, 10)


def test_equal_scores_go_to_the_earlier_token():
    mask = torch.ones(1, 6, dtype=torch.bool)
    found = torch.tensor([[1.0, 2.0, 2.0, 2.0, 0.0, 2.0]])
    assert best(found, mask, ~mask, [3])[0].tolist() == [1, 2, 3]


def test_pooling_counts_zeros_beyond_the_ends():
    found = torch.ones(1, 6)
    mask = torch.ones(1, 6, dtype=torch.bool)
    pooled = smooth(found, mask, RAW)[0]
    assert torch.allclose(pooled, torch.tensor([0.6, 0.8, 1.0, 1.0, 0.8, 0.6]))
    assert torch.equal(smooth(-found, mask, Scoring(pooling="max"))[0], torch.tensor([0.0, 0, -1, -1, 0, 0]))


def test_raw_scores_do_not_overflow_in_half_precision():
    votes = torch.full((1, 4, 1, 64), 60.0, dtype=torch.float16)
    keys = torch.full((1, 2, 10, 64), 60.0, dtype=torch.float16)
    keys[:, :, 3] = 61.0
    found = products(votes, keys)
    assert torch.isfinite(found).all()
    assert found[0].argmax() == 3
    assert not torch.isfinite((votes.sum((1, 2))[0] * keys[0, 0, 0]).sum())  # in half precision it is lost


@pytest.mark.parametrize(
    "change, says",
    [
        ({"layer": 4}, "layer = 4 is not allowed: 0 to 3"),
        ({"layer": -5}, "layer = -5 is not allowed: 0 to 3"),
        ({"layer": True}, "layer = True is not allowed: 0 to 3"),
        ({"ids": torch.zeros(1, 0, dtype=torch.long)}, "input_ids = .* at least one token; the prompt is empty"),
        ({"ids": torch.tensor([3, 4])}, "input_ids = .* add a batch axis"),
        ({"ids": torch.tensor([[3.0, 4.0]])}, "input_ids = .* whole numbers"),
        ({"ids": torch.tensor([[3, 97]])}, "input_ids = 97 is not allowed: 0 to 96; use the tokenizer"),
        ({"ids": torch.tensor([[-1, 5]])}, "input_ids = -1 is not allowed: 0 to 96"),
        ({"ids": torch.full((1, 129), 5)}, "input_ids = 129 tokens is not allowed: at most the model's context of 128"),
        ({"mask": torch.ones(1, 9)}, "attention_mask = .* the shape of input_ids"),
        ({"mask": torch.zeros(1, 10)}, "attention_mask = all zero .* row 0"),
        ({"mask": torch.tensor([[1, 1, 0, 1, 1, 1, 1, 1, 1, 1]])}, "attention_mask = with holes"),
        ({"mask": torch.tensor([[0, 1, 0, 1, 1, 1, 1, 1, 1, 0]])}, "attention_mask = with holes"),
        ({"protect": (3, 3)}, "keep = 5 is not allowed: at least the 6 protected tokens of prompt 0"),
        ({"protect": (-1, 0)}, "protect = .* neither negative"),
        ({"protect": torch.ones(1, 10)}, "protect = .* bool of the prompt's shape"),
        ({"scoring": Scoring(heads=(0, 4))}, "heads = .* 0 to 3"),
        ({"keep": 0}, "keep = 0 is not allowed"),
    ],
    ids=str,
)
def test_bad_prompts_are_refused_before_any_work(llama, change, says):
    ran = []
    handle = llama.get_input_embeddings().register_forward_hook(lambda *_: ran.append(1))
    given = {"ids": ids_of(1, 10), "mask": None, "layer": 1, "keep": 5, **change}
    ids, mask = given.pop("ids"), given.pop("mask")
    with pytest.raises(SettingError, match=says) as e:
        select(llama, ids, mask, **given)
    assert "\n" not in str(e.value)
    handle.remove()
    assert ran == []


@pytest.mark.parametrize(
    "settings, says",
    [
        ({"rows": 0}, "rows = 0"),
        ({"pool": 4}, "pool = 4 is not allowed: an odd width"),
        ({"pooling": "median"}, "pooling = median is not allowed: one of avg, max, none"),
        ({"heads": ()}, "heads"),
        ({"heads": (1, 1)}, "distinct heads"),
        ({"over_heads": "max"}, "over_heads = max .* with softmax"),
    ],
)
def test_senseless_scorings_are_refused(settings, says):
    with pytest.raises(SettingError, match=says):
        Scoring(**settings)


def test_window_layers_are_refused_with_those_that_see_all():
    gemma = build("gemma3_text")
    with pytest.raises(SettingError, match=r"layer = 1 .* sees all 40 tokens: 2, 3; layer 1 sees the last 16"):
        select(gemma, ids_of(1, 40), layer=1, keep=5)
    mistral = build("mistral", sliding_window=24)
    select(mistral, ids_of(1, 20), layer=1, keep=5)
    with pytest.raises(SettingError, match=r"layer = 1 .* this model has none; layer 1 sees the last 24"):
        select(mistral, ids_of(1, 40), layer=1, keep=5)


def test_unknown_models_are_refused_by_name(llama):
    gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=50))
    with pytest.raises(SettingError, match=r"model = gpt2, which is built otherwise .AttributeError"):
        select(gpt, ids_of(1, 5), layer=0, keep=2)
    t5 = transformers.T5ForConditionalGeneration(
        transformers.T5Config(d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, vocab_size=50)
    )
    with pytest.raises(SettingError, match=r"model = t5 is not allowed: a decoder .*encoder-decoder"):
        select(t5, ids_of(1, 5), layer=0, keep=2)
    mamba = transformers.MambaForCausalLM(
        transformers.MambaConfig(hidden_size=16, num_hidden_layers=1, state_size=4, vocab_size=50)
    )
    with pytest.raises(
        SettingError, match=r"model = mamba with layers of linear_attention is not allowed: a decoder whose"
    ):
        select(mamba, ids_of(1, 5), layer=0, keep=2)
    with pytest.raises(SettingError, match=r"model = Linear is not allowed: a Hugging Face causal language model"):
        select(torch.nn.Linear(2, 2), ids_of(1, 5), layer=0, keep=2)


@pytest.mark.parametrize("name", ["inputs_embeds", "past_key_values", "position_ids"])
def test_arguments_of_pass_two_are_refused(llama, name):
    with pytest.raises(SettingError, match=f"{name} = given is not allowed: set by pass two"):
        gemfilter.generate(llama, ids_of(1, 10), layer=1, keep=5, **{name: 1})


def test_auto_takes_the_calibrated_layer(llama, tmp_path, monkeypatch):
    monkeypatch.setenv("FEATLEARN_CALIBRATION", str(tmp_path))
    with pytest.raises(SettingError, match=r"layer = auto is not allowed: .* 0 to 3; run `featlearn gemfilter calib"):
        gemfilter.generate(llama, ids_of(1, 30), keep=8)
    setting = Setting(1, Scoring(rows=2, softmax=True, pool=3, heads=(0, 2)), "by hand")
    path = save(llama, setting, {"recall": [0.5, 1.0]})
    assert recommended(llama).layer == 1
    assert recommended(llama).scoring == setting.scoring
    assert recommended(copy.deepcopy(llama).to(torch.bfloat16)).layer == 1
    found = gemfilter.generate(llama, ids_of(1, 30), keep=8, max_new_tokens=2, do_sample=False)
    by_hand = select(llama, ids_of(1, 30), layer=1, keep=8, scoring=setting.scoring)
    assert found.selection.indices[0].tolist() == by_hand.indices[0].tolist()
    other = build("llama", intermediate_size=40)
    with torch.no_grad():
        other.get_input_embeddings().weight.mul_(2)  # other weights of the same shape are another model
    with pytest.raises(SettingError, match="layer = auto"):
        recommended(other)
    path.write_text("{")
    with pytest.raises(SettingError, match=r"calibrate again, it is damaged"):
        recommended(llama)
    with pytest.raises(SettingError, match=r"a number from 0, or \"auto\""):
        gemfilter.generate(llama, ids_of(1, 30), layer="middle")


def test_offloaded_models_work(tmp_path):
    accelerate = pytest.importorskip("accelerate", reason="part of the llm extra; lift when it is part of the core")
    model = build("llama")
    ids = ids_of(1, 40)
    want = select(model, ids, layer=2, keep=9)
    with contextlib.redirect_stderr(None):
        accelerate.cpu_offload(model)
    assert select(model, ids, layer=2, keep=9).indices[0].tolist() == want.indices[0].tolist()


def test_kept_text_shows_the_gaps():
    class Letters:
        def decode(self, ids):
            return "".join(chr(96 + i) for i in ids)

    ids = torch.arange(1, 11)
    assert readable(Letters(), ids, [0, 1, 4], "~") == "ab~e~"
    assert readable(Letters(), ids, [3, 8, 9], "~") == "~d~ij"
    assert readable(Letters(), ids, list(range(10)), "~") == "abcdefghij"


def test_gather_pads_on_the_left():
    ids = torch.tensor([[0, 0, 5, 6, 7], [1, 2, 3, 4, 0]])
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]]).bool()
    kept, seen = gather(ids, mask, [torch.tensor([0, 2]), torch.tensor([0, 1, 3])], 9)
    assert kept.tolist() == [[9, 5, 7], [1, 2, 4]]
    assert seen.tolist() == [[False, True, True], [True, True, True]]


# --- what people have in their hands ---------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["array", "rows", "list", "mapping", "numbers"])
def test_prompts_and_numbers_of_other_kinds(llama, form):
    ids = ids_of(1, 30)
    expected = select(llama, ids, layer=1, keep=8, protect=(1, 2))
    how = {"layer": 1, "keep": 8, "protect": (1, 2)}
    given, mask = ids, None
    if form == "array":
        given, mask = ids.numpy(), np.ones((1, 30), dtype=np.int64)
    elif form in ("rows", "list"):
        given = ids.tolist() if form == "rows" else ids[0].tolist()
    elif form == "mapping":
        given = transformers.BatchEncoding({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    else:
        how = {"layer": np.int64(1), "keep": torch.tensor(8), "protect": (np.int32(1), torch.tensor(2))}
    assert torch.equal(select(llama, given, mask, **how).indices[0], expected.indices[0])
    share = select(llama, ids, layer=1, keep=np.float32(0.25))
    assert share.kept == (8,)


def test_a_mask_in_a_mapping_counts(llama):
    ids = ids_of(1, 30)
    mask = torch.ones_like(ids)
    mask[:, :5] = 0
    given = transformers.BatchEncoding({"input_ids": ids, "attention_mask": mask})
    assert select(llama, given, layer=1, keep=8).lengths == (25,)


@pytest.mark.parametrize(
    "given, told",
    [
        ("a text", "input_ids = a text is not allowed: whole numbers"),
        ([[1, 2], [3]], "input_ids = a list is not allowed: .*rows of one length"),
        (["a", "b"], "input_ids = a list is not allowed"),
        ({"ids": [1]}, "input_ids = a mapping of ids is not allowed"),
        (None, "input_ids = a NoneType is not allowed"),
        ([0.5, 1.0], "input_ids = torch.float32"),
    ],
)
def test_what_is_no_prompt_is_refused(llama, given, told):
    with pytest.raises(SettingError, match=told):
        select(llama, given, layer=1, keep=8)


@pytest.mark.parametrize("protect", [4, (1,), (1, 2, 3), (0.5, 1), "ab", (True, 1)])
def test_what_is_no_protection_is_refused(llama, protect):
    with pytest.raises(SettingError, match=r"protect = .* is not allowed: \(first, last\), two counts, or a mask"):
        select(llama, ids_of(1, 30), layer=1, keep=8, protect=protect)


def test_scores_can_take_part_in_training(llama):
    chosen = select(llama, ids_of(1, 30), layer=1, keep=8)
    weight = torch.ones(30, requires_grad=True)
    (chosen.scores[0] * weight).sum().backward()
    assert torch.equal(weight.grad, chosen.scores[0])


def test_stop_strings_stop(llama):
    """The first string of the reply itself, so that one token is generated where there would be six."""
    tokenizer = letters()
    how = {"layer": 1, "keep": 8, "do_sample": False, "max_new_tokens": 6, "min_new_tokens": 6}
    free = gemfilter.generate(llama, ids_of(1, 30), tokenizer=tokenizer, **how)
    first = free.text[0][0]
    how["min_new_tokens"] = None
    stopped = gemfilter.generate(llama, ids_of(1, 30), tokenizer=tokenizer, stop_strings=[first], **how)
    assert stopped.text[0] == first
    with pytest.raises(SettingError, match="stop_strings = without a tokenizer is not allowed"):
        gemfilter.generate(llama, ids_of(1, 30), stop_strings=[first], **how)


def letters():
    """A tokenizer of single characters, one for every id of the small models."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    names = {chr(33 + i): i for i in range(97)}
    words = Tokenizer(models.WordLevel(names, unk_token="!"))
    words.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    words.decoder = decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words)


def test_a_streamer_is_given_every_token(llama):
    seen = []

    class Streamer:
        def put(self, value):
            seen.append(value.tolist())

        def end(self):
            seen.append("end")

    how = {"layer": 1, "keep": 8, "do_sample": False, "max_new_tokens": 4}
    found = gemfilter.generate(llama, ids_of(1, 30), streamer=Streamer(), **how)
    assert seen[-1] == "end"
    assert [t for part in seen[1:-1] for t in part] == found.new_tokens[0].tolist()
