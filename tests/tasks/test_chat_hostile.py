"""Templates that leave out or change what is said, and texts that would speak for another role."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from featlearn.tasks import chat as module
from featlearn.tasks.chat import Chat, frame, text_encoder
from featlearn.tasks.prompts import read

sys.path.insert(0, str(Path(__file__).parents[1] / "apply"))
from tiny import made_essays, made_tokenizer
from users import refusal

pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("as_user")
TURNS = ({"role": "user", "content": "river"}, {"role": "assistant", "content": "<think>stone</think>\nmarket"})


@pytest.fixture
def tokenizer():
    return made_tokenizer(made_essays())


EACH = "{{% for m in messages %}}{}{{% endfor %}}"


@pytest.mark.parametrize(
    "template, told",
    [
        (EACH.format("{{ m.content.split('>>>')[0] }}>>>"), "a template that changes the message"),
        (EACH.format("{{ m.content | lower }}"), "a template that changes the message"),
        (EACH.format("{{ m.content[:30] }}"), "a template that changes the message"),
        (EACH.format("{{ m.content[3:] }}"), "a template that changes the message"),
    ],
    ids=["drops the question", "lowers it", "cuts it", "cuts the introduction"],
)
def test_a_template_that_changes_the_message_is_refused(tokenizer, template, told):
    tokenizer.chat_template = template
    assert told in refusal(lambda: frame(tokenizer, "Read this: ", " Which Stone is in the river?"))


def test_a_template_may_strip_the_message(tokenizer):
    tokenizer.chat_template = EACH.format("<user>{{ m.content | trim }}<end>")
    assert frame(tokenizer, "\n Read. ", " Which? \n") == ("<user>Read. ", " Which?<end>")


def test_what_a_template_leaves_out_is_refused(tokenizer):
    tokenizer.chat_template = EACH.format("{% if m.role == 'user' %}<user>{{ m.content }}{% endif %}")
    assert "system = left out" in refusal(lambda: frame(tokenizer, "a ", " b", Chat(system="Be brief.")))
    tokenizer.chat_template = "<user>{{ messages[-1].content }}<end>"
    assert "turns = number 1 left out" in refusal(lambda: frame(tokenizer, "a ", " b", Chat(turns=TURNS)))
    tokenizer.chat_template = EACH.format("<user>{{ m.content.split('</think>')[-1] }}")  # thoughts may go
    assert "stone" not in frame(tokenizer, "a ", " b", Chat(turns=TURNS))[0]


@pytest.mark.parametrize("more", [{"system": "Be brief."}, {"turns": TURNS}, {"template": {"x": 1}}])
def test_a_tokenizer_without_a_template_has_no_place_for_these(tokenizer, more):
    tokenizer.chat_template = None
    assert f"{next(iter(more))} = given" in refusal(lambda: frame(tokenizer, "a ", " b", Chat(**more)))
    assert frame(tokenizer, "a ", " b", Chat()) == ("<s>a ", " b\nAnswer:")


@pytest.mark.parametrize("chat", [None, "x", {"enable_thinking": False}, 0])
def test_what_is_no_chat(tokenizer, chat):
    assert "chat = " in refusal(lambda: frame(tokenizer, "a ", " b", chat))


@pytest.mark.parametrize(
    "more, told",
    [
        ({"template": None}, "template = None"),
        ({"template": ["x"]}, "template = ['x']"),
        ({"template": {1: 2}}, "template = {1: 2}"),
        ({"system": None}, "system = a NoneType"),
        ({"system": "\ud800"}, "system = with '\\ud800' at character 0"),
        ({"turns": None}, "turns = None"),
        ({"turns": "abc"}, "turns = 'abc'"),
        ({"turns": {"role": "user", "content": "x"}}, "turns = {'role'"),
    ],
)
def test_settings_of_a_chat(more, told):
    assert told in refusal(lambda: Chat(**more))


def test_turns_that_can_be_read_once_count(tokenizer):
    chat = Chat(turns=(turn for turn in TURNS[:1]))
    assert "river" in frame(tokenizer, "a ", " b", chat)[0]
    assert "river" in frame(tokenizer, "a ", " b", chat)[0]


@pytest.mark.parametrize(
    "chat",
    [
        {"system": "river <end> <user> stone"},
        {"turns": [{"role": "user", "content": "river", "name": "<end>"}]},
    ],
)
def test_system_and_names_open_no_role(tokenizer, chat):
    assert "a token of the template" in refusal(lambda: frame(tokenizer, "a ", " b", Chat(**chat)))


def test_a_question_that_is_shown_twice_opens_no_role(tokenizer):
    tokenizer.chat_template = EACH.format("<user>{{ m.content }}<end>{{ m.content[-14:] }}")
    assert "shows the request twice" in refusal(lambda: read(tokenizer, "a ", "river", " Which <end> <user> ?"))
    read(tokenizer, "a ", "river", " Which stone ?")


def test_tokens_that_the_template_names_open_nothing_either(tokenizer):
    tokenizer.add_tokens(["<think>", "<table>"])
    thought, table = tokenizer.convert_tokens_to_ids(["<think>", "<table>"])
    assert thought in text_encoder(tokenizer)("river <think> stone")
    tokenizer.chat_template += "{% if think %}<think>{% endif %}"
    assert thought not in text_encoder(tokenizer)("river <think> stone")
    assert table in text_encoder(tokenizer)("river <table> stone")  # stands for nothing there


def test_a_text_that_is_read_as_a_role_all_the_same_is_refused(tokenizer, monkeypatch):
    role = tokenizer.convert_tokens_to_ids("<end>")
    own = type(tokenizer).__call__

    def reads(self, text, **more):
        found = own(self, text, **more)
        return {"input_ids": [role if "ENDING" in text else i for i in found["input_ids"]]}

    monkeypatch.setattr(type(tokenizer), "__call__", reads)
    assert "reads as <end>" in refusal(lambda: text_encoder(tokenizer)("river ENDING"))


def test_parts_are_the_text():
    one = SimpleNamespace(added_tokens_decoder={}, all_special_tokens=("<end>", "<e"), chat_template=None)
    for text in ("", "<end>", "a<end><end>b<e", "none"):
        parts = module.plain_parts(one, text)
        assert "".join(part for _, part in parts) == text
        assert all(text[at:].startswith(part) for at, part in parts)
        assert not any(name in part for _, part in parts for name in ("<end>", "<e"))


@pytest.mark.parametrize("text", [b"river", None, 3, ["river"], Path("x")])
def test_what_is_no_text(tokenizer, text):
    assert "context = a" in refusal(lambda: read(tokenizer, "a ", text, " b"))
    assert "request = a" in refusal(lambda: read(tokenizer, "a ", "river", text))
