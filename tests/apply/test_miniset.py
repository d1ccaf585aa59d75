"""The generated set: lengths, answers that the text supports, keys."""

import re

import pytest

from featlearn.core import Key, SettingError
from featlearn.tasks.miniset import KINDS, QUESTIONS, TOPICS, miniset
from featlearn.tasks.needles import REPORTED, VALIDATION
from featlearn.tasks.prompts import Item, grade, kinds, prompt, read

KEY = Key("tests/miniset")


@pytest.fixture(scope="module")
def items(essays, tokenizer):
    return miniset(essays, 3, 640, tokenizer, KEY)


def test_every_kind_has_its_count_and_the_length_is_nearly_reached(items, tokenizer):
    by_kind = kinds(items)
    assert len(by_kind) == len(KINDS) == 6
    assert [len(v) for v in by_kind.values()] == [3] * 6
    for item in items:
        assert 560 <= prompt(tokenizer, item).input_ids.shape[1] <= 640, item.kind


def test_the_right_answer_scores_one_and_another_does_not(items):
    for item in items:
        assert grade(item, item.answers[0]) == 1
        assert grade(item, "Zanzibar 77") == 0


def test_answers_follow_from_the_texts(items):
    by_kind = kinds(items)
    for item in by_kind["single-document QA"]:
        assert item.answers[0] in item.context
        assert any(name in item.context for kind in REPORTED for name in kind.names)
    for item in by_kind["multi-document QA"]:
        lives = dict(re.findall(r"(\w+) lives in (\w+)\.", item.context))
        festival = dict(re.findall(r"festival of (\w+) is held in (\w+)\.", item.context))
        who = re.search(r"where (\w+) lives\?", item.request)[1]
        assert item.answers == (festival[lives[who]],)
        assert len(lives) == len(festival) == 3
    for item in by_kind["list of topics"]:
        told = re.findall(r"The next part is about (\w+)\.", item.context)
        assert item.answers == (", ".join(told),)
        assert len(set(told) & set(TOPICS)) == 5
    for item in by_kind["few-shot classification"]:
        asked = re.search(r"Question: (.*)\nType:$", item.request)[1]
        openings = {name: [form.split(" {")[0] for form in forms] for name, forms in QUESTIONS.items()}
        assert any(asked.startswith(o) for o in openings[item.answers[0]])
        assert asked not in item.context
    for item in by_kind["passage count"]:
        texts = re.findall(r"^Paragraph \d+: (.*)$", item.context, re.MULTILINE)
        assert len(texts) == 8
        assert item.answers == (str(len(set(texts))),)
        assert len(set(texts)) < 8
    for item in by_kind["passage retrieval"]:
        quoted = re.search(r'quotation\? "(.*)"', item.request)[1]
        (place,) = re.findall(rf"^Paragraph (\d+): .*{re.escape(quoted)}", item.context, re.MULTILINE)
        assert item.answers == (f"Paragraph {place}",)


def test_the_key_decides(essays, tokenizer, items):
    assert miniset(essays, 3, 640, tokenizer, KEY) == items
    other = miniset(essays, 3, 640, tokenizer, Key("tests/other"))
    assert all(a.context != b.context for a, b in zip(items, other, strict=True))


def test_more_items_do_not_change_the_first_ones_texts(essays, tokenizer, items):
    fewer = miniset(essays, 1, 640, tokenizer, KEY)
    assert [i.context for i in fewer] == [v[0].context for v in kinds(items).values()]


def test_the_sets_for_choosing_and_reporting_share_no_name(essays, tokenizer):
    validation = miniset(essays, 2, 640, tokenizer, KEY, which="validation")
    text = " ".join(i.context + i.request for i in validation)
    assert any(name in text for kind in VALIDATION for name in kind.names)
    assert not any(re.search(rf"\b{name}\b", text) for kind in REPORTED for name in kind.names)


@pytest.mark.parametrize(
    "count, length, said",
    [(0, 640, "count = 0"), (True, 640, "count = True"), (1, 511, "length = 511"), (500, 640, "count = 500")],
)
def test_bad_settings(essays, tokenizer, count, length, said):
    with pytest.raises(SettingError, match=said):
        miniset(essays, count, length, tokenizer, KEY)


def test_a_haystack_without_sentences_is_refused(tokenizer):
    with pytest.raises(SettingError, match="essays = 1"):
        miniset(["one two"], 1, 640, tokenizer, KEY)


# --- reading ---------------------------------------------------------------------------------------------------------


def test_parts_of_a_prompt(tokenizer):
    tokenized = read(tokenizer, "Read the following text.", "river stone market", "What is the stone?")
    ids = tokenized.input_ids[0]
    assert tokenizer.decode(ids[tokenized.head : -tokenized.tail]) == "river stone market"
    assert tokenizer.decode(ids[-tokenized.tail :]) == "What is the stone ? <end> <bot>"
    protected = tokenized.protected()
    assert protected.sum() == 1 + tokenized.tail
    assert protected[0, 0]
    assert protected[0, -tokenized.tail :].all()


@pytest.mark.parametrize("chat", [True, False])
def test_a_continued_prompt_ends_with_the_request(tokenizer, chat):
    plain = read(tokenizer, "Read.", "river stone", "Which stone:", chat=chat, continued=True)
    assert tokenizer.decode(plain.input_ids[0]).endswith("Which stone :")
    assert plain.input_ids[0, 0] == tokenizer.bos_token_id
    asked = read(tokenizer, "Read.", "river stone", "Which stone:", chat=False)
    assert tokenizer.decode(asked.input_ids[0]).endswith("Which stone : Answer :")


@pytest.mark.parametrize("longest", [20, 21])
def test_the_middle_is_left_out(tokenizer, longest):
    text = " ".join(["river"] * 15 + ["stone"] * 15)
    whole = read(tokenizer, "Read.", text, "What is the stone?").input_ids[0].tolist()
    short = read(tokenizer, "Read.", text, "What is the stone?", longest=longest)
    assert short.input_ids[0].tolist() == whole[: longest // 2] + whole[-(longest - longest // 2) :]
    assert short.cut == len(whole) - longest
    assert read(tokenizer, "Read.", text, "What is the stone?", longest=len(whole)).cut == 0


def test_texts_that_cannot_be_read(tokenizer):
    with pytest.raises(SettingError, match="the prompt is empty"):
        read(tokenizer, "Read.", " \n", "What?")
    with pytest.raises(SettingError, match="request = 7 tokens"):
        read(tokenizer, "Read.", "river " * 30, "What is the stone?", longest=12)


def test_an_unknown_metric_is_refused():
    with pytest.raises(SettingError, match="metric = bleu"):
        Item("x", "", "text", "?", ("a",), metric="bleu")
