"""The server of the examples under mixed requests: every reply is what it is alone, errors are one line."""

import importlib.util
import json
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from featlearn import gemfilter

SOURCE = Path(__file__).parents[2] / "docs/examples/long_prompt_server.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("long_prompt_server", SOURCE)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def ask(example, model, tokenizer):
    """Posts to a running server: (path, object or bytes) -> (status, object)."""
    running = example.server(model, tokenizer, 0)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def post(path, asked):
        data = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
        try:
            with opener.open(f"http://127.0.0.1:{running.server_address[1]}{path}", data, timeout=120) as found:
                return found.status, json.loads(found.read())
        except urllib.error.HTTPError as e:
            return e.code, json.loads(e.read())

    yield post
    running.shutdown()
    thread.join()
    running.server_close()


def test_mixed_requests_get_what_they_get_alone(ask, example, model, tokenizer, essays):
    """40 requests, eight at a time: filtered ones of several texts and layers, plain ones, and faulty ones between."""
    texts = [" ".join(e.text.split()[: 150 + 40 * i]) for i, e in enumerate(essays)]
    wanted = []
    for i in range(40):
        text = texts[i % len(texts)]
        if i % 5 == 4:
            wanted.append(("/answer", {"text": text}, 400))
        elif i % 2:
            more = {"keep": 20 + i, "layer": 2} if i % 3 else {}
            wanted.append(("/generate", {"text": text[:400], "max_new_tokens": 4, **more}, 200))
        else:
            asked = {"text": text, "question": "Which stone?", "keep": 40 + i, "layer": 1 + i % 3, "max_new_tokens": 4}
            wanted.append(("/answer", asked, 200))
    alone = []
    for path, asked, status in wanted:
        alone.append(example.DOES[path](model, tokenizer, asked) if status == 200 else None)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda w: ask(w[0], w[1]), wanted))
    assert [status for status, _ in found] == [status for _, _, status in wanted]
    for (_, told), own in zip(found, alone, strict=True):
        if own is None:
            assert told == {"error": "question is missing"}
        else:
            assert {k: v for k, v in told.items() if k != "seconds"} == {k: v for k, v in own.items() if k != "seconds"}
    assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()) == 0


def test_a_reply_is_that_of_the_function(ask, model, tokenizer, essays):
    text = " ".join(essays[0].text.split()[:200])
    (reply,) = gemfilter.answer(model, tokenizer, text, ["Which stone?"], keep=50, layer=2, max_new_tokens=3)
    asked = {"text": text, "question": "Which stone?", "keep": 50, "layer": 2, "max_new_tokens": 3}
    status, told = ask("/answer", asked)
    assert (status, told["reply"], told["tokens"], told["kept"]) == (200, reply.text, reply.tokens, 50)


def test_several_questions_have_a_reply_each(ask, model, tokenizer, essays):
    text, questions = " ".join(essays[0].text.split()[:200]), ["Which stone?", "Which market?"]
    replies = gemfilter.answer(model, tokenizer, text, questions, keep=50, layer=2, max_new_tokens=3)
    status, told = ask("/answer", {"text": text, "questions": questions, "keep": 50, "layer": 2, "max_new_tokens": 3})
    assert status == 200
    assert [(r["reply"], r["kept"]) for r in told["replies"]] == [(r.text, 50) for r in replies]


def test_generate_with_keep_is_a_block_around_it(ask, model, tokenizer, essays):
    asked = {"text": " ".join(essays[0].text.split()[:100]), "max_new_tokens": 4}
    ids = tokenizer(asked["text"], return_tensors="pt").input_ids
    how = {"layer": 2, "keep": 30, "max_new_tokens": 4, "do_sample": False}
    direct = gemfilter.generate(model, ids, **how, tokenizer=tokenizer)
    _, told = ask("/generate", {**asked, "keep": 30, "layer": 2})
    assert told["reply"] == direct.text[0]
    assert ask("/generate", asked)[1]["reply"] != told["reply"]


@pytest.mark.parametrize(
    "path, asked, told",
    [
        ("/other", {}, "POST a JSON object of at most"),
        ("/answer", b"{", "Expecting property name"),
        ("/answer", b"[1]", "a JSON object is expected, not a list"),
        ("/answer", {"text": " ", "question": "q", "layer": 1}, "context = "),
        ("/answer", {"text": "a", "question": "q", "layer": 99}, "layer = 99 is not allowed: 0 to 4"),
        ("/answer", {"text": "a", "question": "q", "layer": 1, "keep": -1}, "keep = -1 is not allowed"),
        ("/answer", {"text": "a", "questions": "q", "layer": 1}, "question = 'q' is not allowed: a list of texts"),
        ("/generate", {"text": "a b c", "keep": 0, "layer": 1}, "keep = 0 is not allowed"),
        ("/answer", {"text": "a", "question": "q", "layer": 1, "turns": [{"role": "me"}]}, "turns = number 1"),
    ],
)
def test_what_is_wrong_is_one_line(ask, path, asked, told):
    status, found = ask(path, asked)
    assert status == 400
    assert told in found["error"]
    assert "\n" not in found["error"]


@pytest.mark.parametrize(
    "error, status, told",
    [
        (RuntimeError("first\nsecond"), 500, "first"),
        (IndexError(), 500, "IndexError"),
        (ValueError(), 400, "ValueError"),
    ],
)
def test_a_request_that_fails_has_a_line_and_the_next_is_served(ask, example, monkeypatch, error, status, told):
    def fail(*_):
        raise error

    monkeypatch.setitem(example.DOES, "/answer", fail)
    assert ask("/answer", {"text": "a"}) == (status, {"error": told})
    assert ask("/generate", {"text": "a b c", "max_new_tokens": 2})[0] == 200
