"""Files, questions and settings as people have them: taken for what they mean, or one line before any work."""

import importlib
import io
import json
import os
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from users import refusal, unread

from featlearn.apply.gemfilter import answer as tool
from featlearn.apply.gemfilter import calibrate, files, score
from featlearn.methods.gemfilter import SOFTMAX, recommended

pytestmark = pytest.mark.usefixtures("as_user")


@pytest.fixture(name="unread")
def _unread(model):
    with unread(model):
        yield model


@pytest.fixture(scope="module")
def text(essays):
    return " ".join(essays[0].text.split()[:150])


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data, found",
    [
        (b"\xef\xbb\xbfriver", "river"),
        (b"river\r\nstone\rmarket\n", "river\nstone\nmarket\n"),
        ("rivière".encode(), "rivière"),
    ],
)
def test_texts_are_read_without_marks_of_editors(tmp_path, data, found):
    (tmp_path / "t").write_bytes(data)
    assert files.text_of(tmp_path / "t") == found


@pytest.mark.parametrize(
    "data, told",
    [
        ("hé".encode("latin-1"), "byte 1 is none of UTF-8: convert it with iconv"),
        ("river".encode("utf-16"), "byte 0 is none of UTF-8"),
        ("river".encode("utf-16-le"), "it holds NUL bytes"),
        (b"\xef\xbb\xbf", "the prompt is empty"),
    ],
)
def test_what_is_no_text_says_what_it_is(tmp_path, data, told):
    (tmp_path / "t").write_bytes(data)
    assert told in refusal(lambda: files.text_of(tmp_path / "t"))


@pytest.mark.parametrize("path", ["", "a\0b", "a" * 5000, "no\nwhere"])
def test_paths_that_are_none(path):
    assert len(refusal(lambda: files.text_of(path))) < 400


def test_a_folder_is_named(tmp_path):
    assert "it is a folder" in refusal(lambda: files.text_of(tmp_path))


def test_the_standard_input_and_pipes_are_files(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\xef\xbb\xbfriver stone")))
    assert files.text_of("-") == "river stone"
    assert "prompt-file = the standard input" in refusal(lambda: files.text_of("-"))  # it is read up
    monkeypatch.setattr(sys, "stdin", None)
    assert "the standard input" in refusal(lambda: files.text_of("-"))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_text, args=("river",), daemon=True).start()
    assert files.text_of(pipe) == "river"
    line = json.dumps({"context": "a b", "question": "q ?", "answer": "b"}).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\n" + line)))
    assert [q.name for q in score.questions_of("-")] == ["stdin:2"]


@pytest.mark.parametrize(
    "line, told",
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"context": "a \\ud800 b", "question": "q", "answer": "a"}', "half of a surrogate pair"),
        ('{"context": "a b", "question": "q", "answers": ["a", "\\udc00"]}', "half of a surrogate pair"),
        ('{"context": "a b", "question": "q"}', "'answer' is missing among context, question"),
        ('{"context": "a b", "question": "q", "answer": 3}', "'answer' is no text"),
    ],
)
def test_lines_that_are_none(tmp_path, line, told):
    (tmp_path / "q").write_text(line)
    found = refusal(lambda: score.questions_of(tmp_path / "q"))
    assert told in found
    assert f"{tmp_path / 'q'}:1" in found


# --- answers ---------------------------------------------------------------------------------------------------------


def answers(model, tokenizer, text, questions=("Which stone?",), **more):
    how = {"layer": 2, "keep": 40, "max_new_tokens": 2, **more}
    return [r.text for r in tool.answer(model, tokenizer, text, questions, **how)]


def test_settings_of_numpy_and_torch_and_questions_in_any_order(model, tokenizer, text):
    wanted = answers(model, tokenizer, text, ["Which stone?", "Which river?"])
    assert answers(model, tokenizer, text, (q for q in ("Which stone?", "Which river?"))) == wanted
    assert answers(model, tokenizer, np.str_(text), np.array(["Which stone?", "Which river?"])) == wanted
    numbers = {"layer": np.int64(2), "keep": torch.tensor(40), "max_new_tokens": np.int32(2)}
    assert answers(model, tokenizer, text, ["Which stone?", "Which river?"], **numbers) == wanted


@pytest.mark.parametrize(
    "more, told",
    [
        ({"questions": None}, "question = None"),
        ({"questions": [None]}, "question = a NoneType"),
        ({"questions": [b"stone"]}, "question = a bytes"),
        ({"questions": ["\udcff"]}, "question = with '\\udcff' at character 0"),
        ({"context": b"river"}, "context = a bytes"),
        ({"chat": {"enable_thinking": False}}, "chat = {'enable_thinking'"),
        ({"scoring": "softmax"}, "scoring = 'softmax'"),
        ({"choose": "select"}, "choose = 'select'"),
        ({"streamer": print}, "streamer = "),
        ({"progress": 3}, "progress = 3"),
        ({"protect": (1, 2)}, "protect = (1, 2)"),
        ({"measure_loss": True}, "measure_loss = True"),
        ({"max_new_tokens": True}, "max-new-tokens = True"),
        ({"tokenizer": None}, "tokenizer = None"),
        ({"tokenizer": "smollm2"}, "tokenizer = 'smollm2'"),
    ],
)
def test_what_is_no_setting_is_told_before_the_text_is_read(unread, tokenizer, text, more, told):
    given = {"tokenizer": tokenizer, "context": text, "questions": ("Which stone?",), "layer": 2, "keep": 40, **more}
    assert told in refusal(lambda: tool.answer(unread, **given))


# --- scores ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def items(essays):
    parts = [" ".join(essays[0].text.split()[i * 60 : i * 60 + 60]) for i in range(2)]
    return tuple(score.Question("q", "Read. ", c, " Which?", ("river",), name=f"q{i}") for i, c in enumerate(parts))


def test_items_in_any_order_and_numbers_of_numpy(model, tokenizer, items):
    how = {"methods": ("gemfilter",), "layer": 1, "max_new_tokens": 2}
    wanted = [c.likelihood for c in score.score(model, tokenizer, items, keep=24, **how).costs]
    found = score.score(model, tokenizer, (i for i in items), keep=np.int64(24), **{**how, "layer": np.int64(1)})
    assert [c.likelihood for c in found.costs] == wanted


@pytest.mark.parametrize(
    "more, told",
    [
        ({"items": [{"context": "a"}]}, "items = {'context': 'a'}"),
        ({"items": "abc"}, "items = 'abc'"),
        ({"items": [score.Question("q", "", "river", "?", (), name="x")]}, "items = x"),
        ({"methods": "gemfilter"}, "methods = 'gemfilter'"),
        ({"methods": ("gemfilter", "gemfilter")}, "each method once"),
        ({"methods": None}, "methods = None"),
        ({"max_new_tokens": "3"}, "max_new_tokens = '3'"),
        ({"keep": "24"}, "keep = '24'"),
        ({"tokenizer": None}, "tokenizer = None"),
    ],
)
def test_scores_of_what_is_none(unread, tokenizer, items, more, told):
    given = {"tokenizer": tokenizer, "items": items, "methods": ("gemfilter",), "layer": 1, "keep": 24, **more}
    assert told in refusal(lambda: score.score(unread, **given))


def test_a_unit_that_one_line_names_is_that_of_all_lines_about_the_context():
    made = [score.Question("q", "", "river", "?", ("a",), name=f"q{i}", unit=u) for i, u in enumerate(("", "x", ""))]
    made.reverse()
    assert [score.unit_name(item, made[1:]) for item in made] == ["x", "x", "x"]


def test_a_likelihood_that_is_not_finite_is_no_row(items):
    reply = SimpleNamespace(kept=3, text="", cut=False, seconds_prompt=0.0, seconds_generate=0.0)
    tokenized = SimpleNamespace(input_ids=torch.zeros(1, 4))
    assert "likelihoods that are not finite (full, q0)" in refusal(
        lambda: score._row("full", items[0], tokenized, reply, float("-inf"))
    )


# --- calibrations ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def marked(tokenizer, items):
    lines = [(i.name, i.context, "Which?", i.context.split()[30].strip(".")) for i in items]
    return calibrate.marked(tokenizer, lines)


def test_a_calibration_with_numpy_numbers_is_saved(model, tokenizer, marked):
    how = {"tokenizer": tokenizer, "candidates": np.int64(1), "max_new_tokens": np.int64(2)}
    made = calibrate.calibrate(model, (p for p in marked), keep=np.int64(24), **how)
    assert recommended(model).layer == made.layer
    assert [p.suffix for p in made.path.parent.iterdir()] == [".json"]


def test_what_cannot_be_saved_leaves_no_file(model):
    module = importlib.import_module("featlearn.methods.gemfilter.recommended")
    with pytest.raises(TypeError):
        module.save(model, module.Setting(1, SOFTMAX, "here"), evidence=object())
    assert not list(module.folder().iterdir())


@pytest.mark.parametrize(
    "more, told",
    [
        ({"candidates": -1}, "candidates = -1"),
        ({"candidates": 1.5}, "candidates = 1.5"),
        ({"max_new_tokens": 0}, "max_new_tokens = 0"),
        ({"tokenizer": "x"}, "tokenizer = 'x'"),
        ({"keep": "24"}, "keep = '24'"),
        ({"needles": ()}, "needles = () of w"),
        ({"needles": ((3, 50_000),)}, "needles = ((3, 50000),) of w"),
        ({"needles": ((9, 3),)}, "needles = ((9, 3),) of w"),
    ],
)
def test_calibrations_of_what_is_none(unread, tokenizer, marked, more, told):
    prompts = marked
    if "needles" in more:
        prompts = [calibrate.Marked(marked[0].input_ids, more.pop("needles"), 3, "w", "a")]
    given = {"tokenizer": tokenizer, "keep": 24, **more}
    assert told in refusal(lambda: calibrate.calibrate(unread, prompts, **given))


def test_needles_stand_where_they_are_read_also_behind_names_of_special_tokens(tokenizer):
    context = "<end> river <user> stone market <bot> letter winter " * 3 + "harbour engine valley ."
    (found,) = calibrate.marked(tokenizer, [("w", context, "Which?", "engine")])
    ((first, end),) = found.needles
    assert tokenizer.decode(found.input_ids[first:end]) == "engine"
