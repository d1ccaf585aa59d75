"""Replies are those of the method, the question is protected, and a blind selection serves every question."""

from dataclasses import replace

import pytest
import torch

from featlearn.apply.gemfilter import answer as tool
from featlearn.apply.gemfilter.speed import Speed
from featlearn.core import SettingError
from featlearn.methods.gemfilter import SOFTMAX, Scoring, generate, select, select_chunked
from featlearn.tasks.needles import INTRODUCTION
from featlearn.tasks.prompts import read

QUESTIONS = ("Which stone is in the river?", "Which market?")


@pytest.fixture(scope="module")
def text(essays):
    return " ".join(essays[0].text.split()[:300])


def hooks(model):
    return sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.modules())


def test_a_reply_is_that_of_the_method(model, tokenizer, text):
    replies = tool.answer(model, tokenizer, text, QUESTIONS, keep=64, layer=2, max_new_tokens=5, read_once=False)
    assert [r.question for r in replies] == list(QUESTIONS)
    for reply, tokenized in zip(replies, tool.prompts(tokenizer, text, QUESTIONS), strict=True):
        more = {"do_sample": False, "max_new_tokens": 5, "tokenizer": tokenizer}
        ids = tokenized.input_ids
        direct = generate(model, ids, layer=2, keep=64, scoring=SOFTMAX, protect=tokenized.protected(), **more)
        assert (reply.text, reply.kept_text) == (direct.text[0], direct.kept_text[0])
        assert (reply.tokens, reply.kept, reply.layer) == (ids.shape[1], 64, 2)
        assert reply.protected == 1 + tokenized.tail
        assert reply.kept_text.endswith(tokenizer.decode(ids[0, -tokenized.tail :]))
        assert reply.first.tokens == ids.shape[1]
        assert reply.second.tokens == 64
    assert hooks(model) == 0


def test_a_text_is_read_once_for_several_questions_and_replies_are_those_of_separate_calls(model, tokenizer, text):
    lengths = []
    handle = model.model.layers[0].register_forward_pre_hook(lambda m, args: lengths.append(args[0].shape[1]))
    setting = {"keep": 64, "layer": 2, "max_new_tokens": 5}
    replies = tool.answer(model, tokenizer, text, QUESTIONS, **setting)
    handle.remove()
    sizes = [r.input_ids.shape[1] for r in tool.prompts(tokenizer, text, QUESTIONS)]
    read = [n for n in lengths if n not in (1, 64)]  # not pass two
    assert sum(read) == sizes[0] + sizes[1] - read[0]
    assert replies[0].first.tokens == sizes[0]
    assert replies[1].first.tokens == sizes[1] - read[0]
    for question, reply in zip(QUESTIONS, replies, strict=True):
        (alone,) = tool.answer(model, tokenizer, text, [question], **setting)
        assert replace(reply, first=alone.first, second=alone.second) == alone


@pytest.mark.parametrize("more", [{"keep": 2000}, {"choose": select_chunked}, {"read_once": False}, {"blind": True}])
def test_a_text_is_not_read_once_where_that_is_not_asked_for_or_brings_nothing(
    model, tokenizer, text, more, monkeypatch
):
    monkeypatch.setattr(tool, "read_context", lambda *a, **k: pytest.fail("read once"))
    tool.answer(model, tokenizer, text, QUESTIONS, **{"keep": 64, "layer": 2, "max_new_tokens": 2, **more})


def test_scoring_and_template_are_passed_on(model, tokenizer, text):
    def one(**more):
        return tool.answer(model, tokenizer, text, QUESTIONS[:1], keep=64, layer=2, max_new_tokens=3, **more)[0]

    assert one(scoring=Scoring()).kept_text != one().kept_text
    plain = one(chat=False)
    assert plain.kept_text.startswith("<s>")
    assert plain.kept_text.endswith("Answer :")
    loose = one(protect=False)
    assert loose.protected == 0
    assert not loose.kept_text.endswith("<bot>") or loose.kept_text != one().kept_text


@pytest.mark.parametrize("blind", [False, True])
def test_pass_one_is_the_one_that_is_asked_for(model, tokenizer, text, blind):
    """Any function called as `select`: here one that says it was used, and `select_chunked` finds the same."""
    used = []

    def chunked(*args, **settings):
        used.append(settings["layer"])
        return select_chunked(*args, **settings, chunk=16)

    setting = {"keep": 64, "layer": 2, "max_new_tokens": 3, "blind": blind}
    plain = tool.answer(model, tokenizer, text, QUESTIONS[:1], **setting)
    found = tool.answer(model, tokenizer, text, QUESTIONS[:1], **setting, choose=chunked)
    assert used == [2]
    assert found[0].kept_text == plain[0].kept_text


def test_everything_is_kept_of_a_short_prompt(model, tokenizer, text):
    (reply,) = tool.answer(model, tokenizer, text, QUESTIONS[:1], keep=2000, layer=2, max_new_tokens=5)
    (tokenized,) = tool.prompts(tokenizer, text, QUESTIONS[:1])
    plain = tool.greedy(model, tokenized.input_ids, 5)
    assert reply.text == tokenizer.decode(plain[0], skip_special_tokens=True)
    assert reply.kept == reply.tokens
    assert reply.first.seconds == 0


def test_a_question_longer_than_keep_is_not_protected_and_said(model, tokenizer, text):
    (reply,) = tool.answer(model, tokenizer, text, QUESTIONS[:1], keep=8, layer=2, max_new_tokens=2)
    assert reply.kept == 8
    assert reply.protected == 0
    assert reply.warnings == (
        "keep = 8 is less than the 16 tokens of the question and the start: nothing is protected",
    )


def test_a_blind_selection_is_made_once_and_serves_all_questions(model, tokenizer, text):
    replies = tool.answer(model, tokenizer, text, QUESTIONS, keep=64, layer=2, max_new_tokens=4, blind=True)
    blind = read(tokenizer, INTRODUCTION, text, tool.BLIND)
    n = blind.input_ids.shape[1]
    protect = blind.protected()
    chosen = select(model, blind.input_ids, layer=2, keep=64, scoring=SOFTMAX, protect=protect).indices[0]
    shared = blind.input_ids[0, chosen[chosen < n - blind.tail]]
    for reply, tokenized in zip(replies, tool.prompts(tokenizer, text, QUESTIONS), strict=True):
        ids = torch.cat([shared, tokenized.input_ids[0, -tokenized.tail :]])[None]
        assert reply.kept == ids.shape[1]
        assert reply.text == tokenizer.decode(tool.greedy(model, ids, 4)[0], skip_special_tokens=True)
        assert reply.loss is None
    assert replies[0].first.tokens == n
    assert replies[1].first.tokens == 0  # no second pass one
    heads = [
        r.kept_text[: -len(tokenizer.decode(p.input_ids[0, -p.tail :]))]
        for r, p in zip(replies, tool.prompts(tokenizer, text, QUESTIONS), strict=True)
    ]
    assert heads[0] == heads[1]


def test_the_loss_of_a_blind_selection(model, tokenizer, text):
    setting = {"keep": 64, "layer": 2, "max_new_tokens": 4}
    replies = tool.answer(model, tokenizer, text, QUESTIONS, blind=True, measure_loss=True, **setting)
    aware = tool.answer(model, tokenizer, text, QUESTIONS, **setting)
    for reply, known in zip(replies, aware, strict=True):
        assert reply.loss.aware == known.text
        tokenized = tool.prompts(tokenizer, text, (reply.question,))[0]
        more = {"scoring": SOFTMAX, "protect": tokenized.protected(), "do_sample": False, "max_new_tokens": 4}
        direct = generate(model, tokenized.input_ids, layer=2, keep=64, **more)
        under_own = tool.log_likelihood(model, direct.kept_ids, direct.new_tokens).mean()
        assert reply.loss.likelihood_aware == pytest.approx(float(under_own), abs=1e-6)
        assert abs(reply.loss.likelihood_aware - reply.loss.likelihood_blind) > 1e-3
        assert 0 <= reply.loss.agreement <= 1
    (same,) = tool.answer(
        model, tokenizer, text, QUESTIONS[:1], blind=True, measure_loss=True, **{**setting, "keep": 999}
    )
    assert same.loss.likelihood_aware == pytest.approx(same.loss.likelihood_blind, abs=1e-5)
    assert same.loss.agreement in (0, 1)  # 0: an empty reply has no words


def test_log_likelihood_against_a_slow_sum(model, tokenizer):
    ids, reply = torch.tensor([[5, 9, 30, 12]]), torch.tensor([[8, 3, 40]])
    found = tool.log_likelihood(model, ids, reply)
    with torch.inference_mode():
        for i in range(3):
            prefix = torch.cat([ids, reply[:, :i]], dim=1)
            logits = model(prefix).logits[0, -1].double()
            expected = logits[reply[0, i]] - torch.logsumexp(logits, 0)
            assert float(found[i]) == pytest.approx(float(expected), abs=1e-4)


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"questions": ()}, "question = "),
        ({"questions": ("What?", " ")}, "question = "),
        ({"context": " "}, "the prompt is empty"),
        ({"keep": 0}, "keep = 0"),
        ({"keep": float("nan")}, "keep = nan"),
        ({"keep": -3}, "keep = -3"),
        ({"layer": 5}, "layer = 5 is not allowed: 0 to 4"),
        ({"layer": "first"}, "layer = first"),
        ({"layer": "auto"}, "layer = auto"),
        ({"max_new_tokens": 0}, "max-new-tokens = 0"),
        ({"context": "river " * 5000}, "5021 tokens is not allowed: at most the model's context"),
    ],
)
def test_bad_settings_before_any_work(model, tokenizer, changed, said, monkeypatch):
    monkeypatch.setattr(model, "forward", None)
    setting = {"context": "river stone", "questions": QUESTIONS[:1], "layer": 2, **changed}
    with pytest.raises(SettingError, match=said):
        tool.answer(model, tokenizer, setting.pop("context"), setting.pop("questions"), **setting)


# --- what to expect --------------------------------------------------------------------------------------------------


def test_the_estimate_grows_as_stated():
    speed = Speed(100, 2.0, 0.1, 10, linear=1000.0, quadratic=20.0, base=7000, cache=5, working=3.0)
    work = 1000 * 100 + 20 * 100 * 101 / 2
    assert speed.prompt(100) == pytest.approx(2.0)
    assert speed.prompt(200) == pytest.approx(2.0 * (1000 * 200 + 20 * 200 * 201 / 2) / work)
    assert speed.prompt(200, 3) == pytest.approx(0.3 * speed.prompt(200))
    assert speed.filtered(200, 50, 0, layer=2) == pytest.approx(0.3 * speed.prompt(200) + speed.prompt(50))
    assert speed.filtered(200, 200, 5, layer=2) == speed.reply(200, 5)
    assert speed.reply(50, 4) == pytest.approx(speed.prompt(50) + 4 * 0.1 * 2)
    assert speed.peak(10) == 7000 + 10 * 8
    assert speed.peak(10, cached=False) == 7000 + 10 * 3
    chunked = replace(speed, hidden=2)
    assert chunked.chunked_peak(10, chunk=4) == 7000 + 10 * (2 + 5 / 10) + 4 * 3
    assert chunked.chunked_peak(3, chunk=4) == 7000 + 3 * (2 + 5 / 10 + 3)


def test_a_probe_of_a_loaded_model(model):
    from featlearn.apply.gemfilter.speed import speed_of

    speed = speed_of(model, probe=64)
    assert speed.seconds > 0
    assert speed.token_seconds > 0
    assert speed.layers == 5
    assert speed.linear == 32 * (32 + 16 + 16 + 32) + 3 * 32 * 64 + 2 * 32  # projections, MLP, two norms
    assert speed.quadratic == 2 * 32
    assert speed.cache == 2 * 5 * 16 * 4
    assert speed.hidden == 4 * 32
    assert speed.base >= 4 * sum(p.numel() for p in model.parameters())
    assert speed.context == 4096


def test_the_estimate_of_a_blind_run_counts_one_first_pass(model, tokenizer, text):
    speed = Speed(100, 2.0, 0.1, 10, linear=1000.0, quadratic=20.0, base=7000, cache=5, working=3.0)
    tokenized_prompts = tool.prompts(tokenizer, text, QUESTIONS)
    both, _ = tool.expected(speed, tokenized_prompts, 64, 2, 4)
    blind, _ = tool.expected(speed, tokenized_prompts, 64, 2, 4, blind=True)
    compared, _ = tool.expected(speed, tokenized_prompts, 64, 2, 4, blind=True, measure_loss=True)
    assert both - blind == pytest.approx(speed.prompt(tokenized_prompts[1].input_ids.shape[1], 3))
    assert compared == pytest.approx(both + blind)
    once, held = tool.expected(speed, tokenized_prompts, 64, 2, 4, shared=True)
    assert once == pytest.approx(blind)
    longest = max(r.input_ids.shape[1] for r in tokenized_prompts)
    assert held - tool.expected(speed, tokenized_prompts, 64, 2, 4)[1] == pytest.approx(longest * speed.cache * 3 / 10)
