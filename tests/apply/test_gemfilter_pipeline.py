"""The task of `transformers.pipeline`: replies are those of `answer`, loading is that of all pipelines."""

import pytest
import torch
from transformers import pipeline
from transformers.pipelines import PIPELINE_REGISTRY

from featlearn import gemfilter
from featlearn.apply.gemfilter.pipeline import SETTINGS, TASK
from featlearn.core import SettingError

QUESTIONS = ("Which stone is in the river?", "Which market?", "Which captain is in the garden?")
HOW = {"keep": 64, "layer": 2, "max_new_tokens": 6}


@pytest.fixture
def task(monkeypatch):
    """The name of the task, in a registry of the test's own."""
    monkeypatch.setattr(PIPELINE_REGISTRY, "supported_tasks", dict(PIPELINE_REGISTRY.supported_tasks))
    return gemfilter.register_pipeline()


@pytest.fixture(scope="module")
def texts(essays):
    return [" ".join(e.text.split()[:300]) for e in essays[:2]]


def test_a_question_is_answered_as_by_answer(task, model, tokenizer, texts):
    pipe = pipeline(task, model=model, tokenizer=tokenizer, device="cpu")
    found = pipe(texts[0], question=QUESTIONS[0], **HOW)
    (reply,) = gemfilter.answer(model, tokenizer, texts[0], QUESTIONS[:1], **HOW)
    assert set(found) == {"answer", "reply"}
    assert found["answer"] == found["reply"].text == reply.text
    assert (found["reply"].kept, found["reply"].kept_text) == (64, reply.kept_text)


def test_texts_and_questions_in_lists(task, model, tokenizer, texts):
    pipe = pipeline(task, model=model, tokenizer=tokenizer, device="cpu", **HOW)
    found = pipe(texts, questions=QUESTIONS)
    for one, text in zip(found, texts, strict=True):
        replies = gemfilter.answer(model, tokenizer, text, QUESTIONS, **HOW)
        assert one["answers"] == [r.text for r in replies]
        assert [r.question for r in one["replies"]] == list(QUESTIONS)
    assert found[0]["answers"] != found[1]["answers"]


def test_settings_of_a_call_come_before_those_of_the_pipeline(task, model, tokenizer, texts):
    pipe = pipeline(task, model=model, tokenizer=tokenizer, device="cpu", **HOW)
    assert pipe(texts[0], question=QUESTIONS[0], keep=80)["reply"].kept == 80
    assert pipe(texts[0], question=QUESTIONS[0])["reply"].kept == 64
    plain = pipe(texts[0], question=QUESTIONS[0], chat=False)["reply"]
    assert plain.kept_text.endswith("Answer :")


def test_a_model_is_loaded_as_by_any_pipeline(task, model, tokenizer, texts, tmp_path):
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    more = {"dtype": torch.float32, "device_map": {"": "cpu"}, "model_kwargs": {"attn_implementation": "eager"}}
    pipe = pipeline(task, model=str(tmp_path), **more, **HOW)
    assert pipe.model.config._attn_implementation == "eager"
    (reply,) = gemfilter.answer(model, tokenizer, texts[0], QUESTIONS[:1], **HOW)
    assert pipe(texts[0], question=QUESTIONS[0])["answer"] == reply.text


def test_it_is_registered_once(task, caplog):
    before = PIPELINE_REGISTRY.supported_tasks[TASK]
    assert gemfilter.register_pipeline() == task == TASK
    assert PIPELINE_REGISTRY.supported_tasks[TASK] is before
    assert "already registered" not in caplog.text


def test_it_takes_what_answer_takes():
    import inspect

    names = list(inspect.signature(gemfilter.answer).parameters)
    assert set(SETTINGS) == set(names) - {"model", "tokenizer", "context", "questions", "progress"}


@pytest.mark.parametrize(
    "text, given, told",
    [
        ("a stone", {}, "question = None is not allowed: one of question and questions"),
        ("a stone", {"question": "q", "questions": ["q"]}, "question = beside questions"),
        ("a stone", {"question": "q", "kept": 9}, "kept = 9 is not allowed: question, questions, keep, layer"),
        (7, {"question": "q"}, "context = int is not allowed: a text"),
        ("a stone", {"question": "", "layer": 1}, "question = [''] is not allowed"),
        ("a stone", {"questions": [], "layer": 1}, "question = [] is not allowed"),
        ("a stone", {"question": "q", "layer": 99}, "layer = 99"),
    ],
)
def test_what_is_wrong_is_one_line(task, model, tokenizer, text, given, told):
    pipe = pipeline(task, model=model, tokenizer=tokenizer, device="cpu")
    with pytest.raises(SettingError) as error:
        pipe(text, **given)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_block_filters_the_pipelines_of_others(model, tokenizer, texts):
    """text-generation of Transformers, which knows nothing of filters, cuts the whole prompt off."""
    pipe = pipeline("text-generation", model=model, tokenizer=tokenizer, device="cpu")
    more = {"max_new_tokens": 6, "do_sample": False, "return_full_text": False}
    ids = tokenizer(texts[0], return_tensors="pt").input_ids
    direct = gemfilter.generate(model, ids, layer=2, keep=64, max_new_tokens=6, do_sample=False, tokenizer=tokenizer)
    plain = pipe(texts[0], **more)[0]["generated_text"]
    with gemfilter.filtered(model, layer=2, keep=64) as block:
        found = pipe(texts[0], **more)[0]["generated_text"]
    assert found.split() == direct.text[0].split()
    assert found != plain
    assert block.last.selection.kept == (64,)
    assert pipe(texts[0], **more)[0]["generated_text"] == plain
