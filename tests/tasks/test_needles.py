"""Needles: exact lengths, known positions, disjoint sets, scores by hand."""

import re

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.tasks.needle_kinds import KINDS, of_kind
from featlearn.tasks.needles import (
    REPORTED,
    VALIDATION,
    Needle,
    distance,
    found_in,
    hide,
    needles,
    overlap,
    recall,
)
from featlearn.tasks.validation_kinds import KINDS as VALIDATION_KINDS
from featlearn.tasks.validation_kinds import of_validation_kind

tokenizers = pytest.importorskip("tokenizers", reason="needs the llm extra; lift when it is part of the core")
transformers = pytest.importorskip("transformers", reason="needs the llm extra; lift when it is part of the core")


TEXT = "The sea was calm. Nobody spoke for an hour! Was it over? " * 60
NEEDLE = Needle("The code of Oslo is 42.", "What is the code of Oslo?", "42")


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("depth", [0.0, 0.3, 0.77, 1.0])
def test_the_needle_is_where_it_is_said_to_be(tokenizer, chat, depth):
    prompt = hide(tokenizer, TEXT, NEEDLE, length=1200, depth=depth, chat=chat)
    ids = prompt.input_ids
    assert len(ids) == 1200
    assert tokenizer.decode(ids[slice(*prompt.needle)]) == " " + NEEDLE.sentence
    after = tokenizer.decode(ids[slice(*prompt.question)])
    assert after.startswith("\n\nAnswer with a few words")
    assert after.endswith("<|assistant|>" if chat else "Answer:")
    assert prompt.question[1] == 1200
    before = tokenizer.decode(ids[: prompt.needle[0]]).split("text.\n\n")[1]
    straw = len(before) + prompt.question[0] - prompt.needle[1]
    if depth in (0.0, 1.0):
        assert len(before) == depth * straw
    else:
        assert before[-1] in ".!?"  # between sentences
        assert abs(len(before) - depth * straw) < 40
    assert (prompt.answer, prompt.sentence) == (NEEDLE.answer, NEEDLE.sentence)


def test_depths_keep_the_same_words(tokenizer):
    texts = {
        tokenizer.decode(hide(tokenizer, TEXT, NEEDLE, length=900, depth=d).input_ids).replace(
            " " + NEEDLE.sentence, ""
        )
        for d in (0.0, 0.4, 1.0)
    }
    assert len(texts) == 1


@pytest.mark.parametrize(
    "given, says",
    [
        ({"length": 100}, "length = 100 is not allowed: at least"),
        ({"length": 10**6}, "length = 1000000 is not allowed: at most .* give a longer text"),
        ({"depth": 1.2}, "depth = 1.2 is not allowed: 0 to 1"),
        ({"depth": -0.1}, "depth = -0.1 is not allowed"),
    ],
)
def test_impossible_prompts_are_refused(tokenizer, given, says):
    with pytest.raises(SettingError, match=says):
        hide(tokenizer, TEXT, NEEDLE, **{"length": 800, "depth": 0.5, **given})


def test_needles_are_different_and_do_not_depend_on_their_number():
    for which, kinds in (("validation", VALIDATION), ("reported", REPORTED)):
        many = needles(which, 20, Key("a"))
        assert len(set(many)) == 20
        assert needles(which, 7, Key("a")) == many[:7]
        assert needles(which, 20, Key("b")) != many
        for needle, kind in zip(many, kinds * 7, strict=False):
            assert needle.answer in needle.sentence
            assert needle.answer in kind.values
            assert "{" not in needle.sentence + needle.question
            assert any(name in needle.sentence and name in needle.question for name in kind.names)


def test_the_sets_share_nothing():
    def parts(kinds, name):
        return {v for kind in kinds for v in (getattr(kind, name) if name in ("names", "values") else [kind.sentence])}

    for name in ("names", "values", "sentence"):
        assert not parts(VALIDATION, name) & parts(REPORTED, name)


def test_unknown_sets_and_counts_are_refused():
    with pytest.raises(SettingError, match="needles = test is not allowed: one of validation, reported"):
        needles("test", 1, Key("a"))
    with pytest.raises(SettingError, match="count = 0 is not allowed"):
        needles("reported", 0, Key("a"))
    with pytest.raises(SettingError, match="count = 100000 is not allowed"):
        needles("reported", 100000, Key("a"))


@pytest.mark.parametrize(
    "reply, answer, right",
    [
        ("It is 12345.", "12345", True),
        ("It is 12,345.", "12345", True),
        ("It is 1234.", "12345", False),
        ("A Wooden-Flute", "wooden flute", True),
        ("a wooden  spoon", "wooden flute", False),
        ("", "June", False),
    ],
)
def test_replies_are_right_when_they_contain_the_answer(reply, answer, right):
    assert found_in(reply, answer) is right


def test_the_reported_score_by_hand():
    expected = "eat a sandwich and sit in Dolores Park on a sunny day."  # 12 words, 11 of them distinct
    assert overlap(expected, expected) == pytest.approx(11 / 12)
    assert overlap(expected.rstrip("."), expected) == pytest.approx(10 / 12)
    assert overlap("And a dog in it", expected) == pytest.approx(3 / 12)


def test_ids_are_whole_numbers(tokenizer):
    assert hide(tokenizer, TEXT, NEEDLE, length=700, depth=0.5).input_ids.dtype == torch.long


def test_many_kinds_share_nothing_with_those_that_choose_settings():
    chosen = {word for kind in VALIDATION for word in (kind.sentence, *kind.names, *kind.values)}
    many = {word for kind in KINDS for word in (kind.sentence, *kind.names, *kind.values)}
    assert chosen.isdisjoint(many)
    assert len({kind.sentence for kind in KINDS}) == len({kind.question for kind in KINDS}) == len(KINDS) >= 24
    for i, kind in enumerate(KINDS):
        assert all("{value}" in kind.sentence and "{name}" in text for text in (kind.sentence, kind.question))
        assert of_kind(i, Key("a")).sentence.count(of_kind(i, Key("a")).answer) == 1


def runs_of(text, k=4):
    """Every k words in a row, a name or a value standing for itself."""
    words = re.findall(r"[a-z{}']+", text.casefold())
    return {tuple(words[i : i + k]) for i in range(len(words) - k + 1)}


def test_kinds_to_choose_on_share_no_name_value_or_wording_with_any_other():
    others = (*KINDS, *VALIDATION, *REPORTED)
    words, own = ({w for kind in kinds for w in (*kind.names, *kind.values)} for kinds in (others, VALIDATION_KINDS))
    assert own.isdisjoint(words)
    assert {part.casefold() for w in own for part in w.split()}.isdisjoint(
        part.casefold() for w in words for part in w.split()
    )
    said = {run for kind in others for text in (kind.sentence, kind.question) for run in runs_of(text)}
    assert len(said) > 500
    for kind in VALIDATION_KINDS:
        assert runs_of(kind.sentence).isdisjoint(said), kind.sentence
        assert runs_of(kind.question).isdisjoint(said), kind.question
    assert {kind.question for kind in VALIDATION_KINDS}.isdisjoint(kind.question for kind in others)


def test_kinds_to_choose_on_are_needles():
    assert (
        len({kind.sentence for kind in VALIDATION_KINDS})
        == len({kind.question for kind in VALIDATION_KINDS})
        == len(VALIDATION_KINDS)
        >= 32
    )
    for i, kind in enumerate(VALIDATION_KINDS):
        assert all("{value}" in kind.sentence and "{name}" in text for text in (kind.sentence, kind.question))
        needle = of_validation_kind(i, Key("a"))
        assert needle.sentence.count(needle.answer) == 1
        assert needle.answer in kind.values
        assert needle.answer not in needle.question
        assert [n in needle.sentence and n in needle.question for n in kind.names].count(True) == 1
    assert (
        len({of_validation_kind(i, Key("a")).answer for i in range(len(VALIDATION_KINDS))}) > len(VALIDATION_KINDS) // 2
    )


def test_recall_and_distance_by_hand():
    kept = torch.tensor([3, 9, 10, 20])
    assert recall(kept, (8, 12)) == 0.5
    assert [distance(kept, needle) for needle in ((8, 12), (5, 7), (21, 25), (30, 31))] == [0, 2, 1, 10]


def test_numbers_to_be_found_are_those_that_rows_were_made_with():
    assert VALIDATION[0].values[:3] == ("11234", "19153", "27072")
    assert REPORTED[0].values[:3] == ("14321", "20328", "26335")
    assert REPORTED[0].values[-1] == "98734"  # 59 steps of 6007 on 4321 are 358734, less 3 times 90000
