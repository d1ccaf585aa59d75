"""Scores of label words with and without a shared prefix, calibration, and attention from a label to sentences."""

import functools
import math

import pytest
import torch
from families import assert_same, build, state_of

from featlearn.core import SettingError
from featlearn.errors import NotFiniteInput
from featlearn.methods.in_context import SpanAttention, calibrated, label_attention, label_scores

SHARED = "one good film: fine; a dull one: poor; "  # longer than the windows of 16
PROMPTS = [SHARED + end for end in ("so so:", "a joy to see:", "x:")]
LABELS = (" fine", " poor", " no idea")


class Letters:
    """A tokenizer of one token a letter, and one for the space that stands before a word together with its letter."""

    is_fast = True

    def __call__(self, text, return_offsets_mapping=False):
        ids, places, i = [], [], 0
        while i < len(text):
            n = 2 if text[i] == " " and i + 1 < len(text) else 1
            ids.append(3 + sum(map(ord, text[i : i + n])) * 7 % 94)
            places.append((i, i + n))
            i += n
        return {"input_ids": ids, "offset_mapping": places} if return_offsets_mapping else {"input_ids": ids}


def counted(model):
    """The shapes of what a model is given from now on."""
    plain, shapes = model.forward, []

    @functools.wraps(plain)
    def seen(ids, **more):
        shapes.append(tuple(ids.shape))
        return plain(ids, **more)

    model.forward = seen
    return shapes


def model_of(family, **more):
    return build(family, max_position_embeddings=512, **more)


def transcribed(model, prompt, labels):
    """log P of each label's tokens, one forward of everything for each, those that all labels begin with left out."""
    ids = [Letters()(prompt + label)["input_ids"] for label in labels]
    start = next(i for i in range(999) if len({tuple(x[: i + 1]) for x in ids}) > 1)
    found = []
    for row in ids:
        with torch.no_grad():
            logs = model(torch.tensor([row])).logits[0].double().log_softmax(-1)
        found.append(sum(float(logs[t - 1, row[t]]) for t in range(start, len(row))))
    return found


@pytest.mark.parametrize("family", ["llama", "gemma2", "gemma3_text", "qwen2", "mistral"])
def test_scores_with_a_shared_prefix_are_those_of_each_prompt_read_alone(family):
    model = model_of(family)
    expected = torch.tensor([transcribed(model, p, LABELS) for p in PROMPTS])
    for share, batch in ((True, 8), (True, 1), (True, 2), (False, 8)):
        found = label_scores(model, Letters(), PROMPTS, LABELS, batch=batch, share=share)
        torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


def test_the_shared_part_is_read_once_and_a_label_of_one_token_costs_no_row():
    model = model_of("llama")
    shapes = counted(model)
    label_scores(model, Letters(), PROMPTS, [" a", " b"])
    (one, n), (rows, width) = shapes
    assert (one, rows) == (1, len(PROMPTS))
    assert n > 20
    assert n + width == max(len(Letters()(p)["input_ids"]) for p in PROMPTS)
    shapes.clear()
    label_scores(model, Letters(), PROMPTS, [" a", " b"], share=False)
    assert shapes == [(len(PROMPTS), n + width)]


def test_a_short_common_beginning_is_not_worth_a_cache():
    model, prompts = model_of("llama"), ["an" + end * 20 for end in ("xy", "zt", "uv")]
    expected = torch.tensor([transcribed(model, p, LABELS) for p in prompts])
    shapes = counted(model)
    found = label_scores(model, Letters(), prompts, LABELS, batch=16)
    assert len(shapes) == 1
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


def test_other_caches_are_not_shared():
    """A state space model keeps no keys: every prompt is read whole."""
    import transformers

    config = transformers.MambaConfig(vocab_size=97, hidden_size=16, num_hidden_layers=2, state_size=4)
    model = transformers.MambaForCausalLM(config).eval()
    expected = torch.tensor([transcribed(model, p, LABELS) for p in PROMPTS])
    torch.testing.assert_close(label_scores(model, Letters(), PROMPTS, LABELS), expected, rtol=2e-4, atol=2e-4)


def test_the_model_is_as_before_training_mode_and_hooks_included():
    model = model_of("gemma3_text").train()
    before, how = state_of(model), model.config._attn_implementation
    label_scores(model, Letters(), PROMPTS, LABELS)
    label_attention(model, Letters(), "a joy to see. It rains.", [(0, 13)])
    assert_same(before, state_of(model))
    assert model.config._attn_implementation == how


@pytest.mark.parametrize(
    "prompts, labels, says",
    [
        ([], LABELS, "prompts"),
        (PROMPTS, [" a"], "labels"),
        (PROMPTS, [" a", " a"], "labels"),
        (PROMPTS, [" fine", " fine day"], "labels = ' fine' .* begin another's"),
        ([""], ["a", "b"], "prompts = ''"),
        (["x" * 600], LABELS, "602 tokens|60. tokens .* 512"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_one_line(prompts, labels, says):
    with pytest.raises(SettingError, match=says) as refused:
        label_scores(model_of("llama"), Letters(), prompts, labels)
    assert "\n" not in str(refused.value)


def test_a_broken_model_is_named():
    model = model_of("llama")
    model.lm_head.weight.data[:] = math.nan
    with pytest.raises(NotFiniteInput, match="logits"):
        label_scores(model, Letters(), PROMPTS, LABELS)


def test_calibration_divides_by_the_mean_of_what_no_content_gets():
    scores, free = torch.tensor([[0.2, -0.3], [1.0, 2.0]]), torch.tensor([[3.0, 1.0], [0.0, 0.5]])
    found = calibrated(scores, free)
    for i in range(2):
        for j in range(2):
            p = math.exp(scores[i, j]) / sum(math.exp(s) for s in scores[i])
            q = sum(math.exp(row[j]) / sum(math.exp(s) for s in row) for row in free) / 2
            assert float(found[i, j]) == pytest.approx(math.log(p / q), abs=1e-6)
    with pytest.raises(SettingError, match="content_free"):
        calibrated(scores, torch.zeros(0, 2))


@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
def test_attention_is_the_norm_over_heads_and_tokens_of_the_last_row(family):
    model, text = model_of(family), "a joy to see. It rains. fine"
    spans = [(0, 13), (14, 23)]
    found = label_attention(model, Letters(), text, spans)
    read = Letters()(text, return_offsets_mapping=True)
    eager = model_of(family, attn_implementation="eager")
    with torch.no_grad():
        weights = eager(torch.tensor([read["input_ids"]]), output_attentions=True).attentions[-1][0]
    for span, one in zip(spans, found, strict=True):
        tokens = [t for t, (_, b) in enumerate(read["offset_mapping"]) if span[0] < b <= span[1]]
        total = sum(float(weights[h, -1, t]) ** 2 for h in range(weights.shape[0]) for t in tokens)
        assert one.tokens == len(tokens)
        assert one.norm == pytest.approx(math.sqrt(total), rel=1e-4)


def test_attention_that_is_equal_everywhere_grows_with_the_root_of_the_tokens():
    model, text = model_of("llama"), "a joy to see. It rains. fine"
    for p in model.parameters():
        p.data.zero_()
    near, far = label_attention(model, Letters(), text, [(0, 13), (14, 23)])
    n = len(Letters()(text)["input_ids"])
    for one in (near, far):
        assert one.norm == pytest.approx(math.sqrt(4 * one.tokens) / n, rel=1e-5)


def test_a_span_without_a_token_is_refused():
    with pytest.raises(SettingError, match="spans"):
        label_attention(model_of("llama"), Letters(), "a joy", [(5, 5)])
    assert SpanAttention(1.0, 2).tokens == 2
