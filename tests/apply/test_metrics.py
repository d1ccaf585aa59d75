"""Metrics on cases that were worked out by hand."""

import pytest

from featlearn.tasks import metrics
from featlearn.tasks.metrics import graded


@pytest.mark.parametrize(
    "reply, answer, expected",
    [
        ("The cat, sat!", "a cat", 2 * 1 / (2 + 1)),  # cat sat | cat: one in common of two and one
        ("red red blue", "red red red", 2 * 2 / 6),  # counted as often as they occur in both
        ("An apple", "apple", 1.0),
        ("", "apple", 0.0),
        ("the", "the", 0.0),  # nothing is left of either
    ],
)
def test_qa_f1(reply, answer, expected):
    assert metrics.qa_f1(reply, answer) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "reply, answer, expected",
    [
        ("a b c d", "a c b d", 2 * 0.75 * 0.75 / 1.5),  # a c d or a b d: three of four on both sides
        ("a b. c d", "a b c d", 1.0),  # by sentence of the reply a b and c d, together all four
        ("x y a", "a", 2 * (1 / 3) / (1 / 3 + 1)),
        ("a a a a", "a", 1.0),  # words count once
        ("b a", "a b", 2 * 0.5 * 0.5 / 1.0),  # order matters: one of two
        ("", "a", 0.0),
        ("...", "a", 0.0),
        ("A", "a", 0.0),  # as it stands, case included
    ],
)
def test_rouge_l(reply, answer, expected):
    assert metrics.rouge_l(reply, answer) == pytest.approx(expected, abs=1e-12)


def test_longest_common_is_a_subsequence_of_both_and_longest():
    assert metrics.longest_common("abcbdab", "bdcaba") in ([*"bcba"], [*"bdab"], [*"bcab"])
    assert metrics.longest_common([], ["a"]) == []


@pytest.mark.parametrize(
    "reply, answer, expected",
    [
        ("Number", "Number", 1.0),
        ("Number or Place", "Number", 0.5),
        ("Place", "Number", 0.0),
        ("Number of something", "Number of something", 1.0),  # the shorter class is part of the right one
        ("Number of something", "Number", 0.5),  # and here it is the right one, beside a longer
        ("number", "Number", 0.0),
    ],
)
def test_classification(reply, answer, expected):
    assert metrics.classification(reply, answer, ["Number", "Place", "Number of something"]) == expected


@pytest.mark.parametrize(
    "reply, expected",
    [("Paragraph 7", 1.0), ("7 or 12", 0.5), ("17", 0.0), ("none", 0.0), ("07", 0.0), ("7, 7 and 8", 2 / 3)],
)
def test_retrieval_and_count_take_the_share_of_numbers(reply, expected):
    assert metrics.retrieval(reply, "Paragraph 7") == pytest.approx(expected)
    assert metrics.count(reply, "7") == pytest.approx(expected)


@pytest.mark.parametrize(
    "reply, answer, expected",
    [
        ("return x", "return x", 1.0),
        ("\n```python\n# a comment\nreturn y\nreturn x", "return x", 0.88),  # 7 of 8 characters: 14 / 16, rounded
        ("abc", "abd", 0.67),
        ("", "abd", 0.0),
        ("# only a comment", "", 1.0),
    ],
)
def test_code_similarity(reply, answer, expected):
    assert metrics.code_similarity(reply, answer) == expected


def test_the_best_of_several_answers_counts():
    assert graded("qa_f1", "blue", ["red", "blue"]) == 1
    assert graded("qa_f1", "blue", []) == 0


def test_only_the_first_line_counts_where_asked():
    reply = "\nPlace\nQuestion: next one\nType: Number"
    classes = ["Place", "Number"]
    assert graded("classification", reply, ["Place"], classes, first_line=True) == 1
    assert graded("classification", reply, ["Place"], classes) == 0.5
