"""Few-shot prompts: the reported sample letter by letter, exact flips, drawn sets, what is dropped and refused."""

import itertools

import pytest

from featlearn.core import Key, SettingError
from featlearn.tasks.demonstrations import Template, drawn, fitting, flipped, irrelevant

SHOWN = [("show us a good time", "positive"), ("as dumb and cheesy", "negative")]
QUERY = "it \u2019s a charming and often affecting journey"
SAMPLE = """sentence: show us a good time
The answer is positive.

sentence: as dumb and cheesy
The answer is negative.

sentence: it \u2019s a charming and often affecting journey
The answer is"""


def test_the_sample_of_the_thesis_letter_by_letter():
    """icl_scale.method_label_flip; the line break within its query is that of the page."""
    assert Template().prompt(SHOWN, QUERY) == SAMPLE
    assert Template().prompt(SHOWN, QUERY) + Template().continuation("positive") == SAMPLE + " positive"


@pytest.mark.parametrize("m, rate", [*itertools.product((1, 2, 7, 16), (0.0, 0.25, 0.5, 0.6, 1.0)), (16, 0.47)])
def test_exactly_round_rate_m_labels_are_inverted(m, rate):
    labels = [i % 2 for i in range(m)]
    order = [int(i) for i in Key("tests/flips").numpy().permutation(m)]
    given = flipped(labels, rate, order)
    changed = [i for i in range(m) if given[i] != labels[i]]
    assert len(changed) == round(rate * m)
    assert set(changed) == set(order[: len(changed)])  # so that those of a smaller rate are among those of a larger
    assert flipped(labels, 1.0, order) == [1 - y for y in labels]


def test_queries_are_untouched_and_no_demonstration():
    labels = [int(i % 3 == 0) for i in range(90)]
    shown = drawn(labels, 16, 24, Key("tests/drawn"))
    assert not set(shown.demonstrations) & set(shown.queries)
    assert len(set(shown.demonstrations)) == 16
    assert len(set(shown.queries)) == 24
    assert sum(labels[i] for i in shown.demonstrations) == 8
    assert sum(labels[i] for i in shown.queries) == 12
    assert sorted(shown.order) == list(range(16))
    words = ("no", "yes")
    for rate in (0.0, 1.0):
        given = flipped([labels[i] for i in shown.demonstrations], rate, shown.order)
        prompt = Template().prompt(
            [(f"text {i}", words[y]) for i, y in zip(shown.demonstrations, given, strict=True)], "q"
        )
        assert prompt.endswith("\n\nsentence: q\nThe answer is")
    assert shown == drawn(labels, 16, 24, Key("tests/drawn"))
    assert shown != drawn(labels, 16, 24, Key("tests/drawn/other"))
    odd = [sum(labels[i] for i in drawn(labels, 1, 2, Key("tests/odd") / k).demonstrations) for k in range(40)]
    assert 0 < sum(odd) < 40  # 2 of 2^40 chances


def test_demonstrations_that_do_not_fit_are_dropped_whole_the_first_ones_first():
    template, many = Template(), [(f"text {i}", "yes") for i in range(9)]
    texts, words = ["a", "a longer text"], ("no", "not at all")
    for most in (60, 90, 200, 10000):
        kept = fitting(template, many, texts, words, len, most)
        assert kept == many[len(many) - len(kept) :]
        longest = max(len(template.prompt(kept, t) + " " + w) for t in texts for w in words)
        assert longest <= most
        if len(kept) < len(many):
            more = many[len(many) - len(kept) - 1 :]
            assert max(len(template.prompt(more, t) + " " + w) for t in texts for w in words) > most
    with pytest.raises(SettingError, match="texts") as refused:
        fitting(template, many, [*texts, "long " * 40], words, len, 100)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "pattern", ["{text}", "{label}", "{label} {text}", "{text} {text} {label}", "{text} {label} {label}", ""]
)
def test_a_template_without_its_slots_is_refused(pattern):
    with pytest.raises(SettingError, match="template") as refused:
        Template(pattern)
    assert "\n" not in str(refused.value)


def test_slots_in_a_text_are_text():
    assert Template("{text}: {label}").prompt([("{label}", "{text}")], "{text}") == "{label}: {text}\n\n{text}:"


@pytest.mark.parametrize(
    "rate, labels, order, says",
    [(1.1, [0, 1], [0, 1], "rate"), (0.5, [0, 2], [0, 1], "labels"), (0.5, [0, 1], [0, 0], "order")],
)
def test_flips_refuse_what_has_no_meaning(rate, labels, order, says):
    with pytest.raises(SettingError, match=says):
        flipped(labels, rate, order)


def test_too_few_texts_are_refused():
    with pytest.raises(SettingError, match="queries"):
        drawn([0, 1] * 9, 16, 4, Key("tests/few"))
    with pytest.raises(SettingError, match="shots"):
        drawn([0, 1], 0, 1, Key("tests/few"))


def test_irrelevant_sentences_differ_and_come_again():
    found = [irrelevant(Key("tests/irrelevant") / i) for i in range(50)]
    assert found == [irrelevant(Key("tests/irrelevant") / i) for i in range(50)]
    assert len(set(found)) > 40
    assert all(s.endswith(".") and any(c.isdigit() for c in s) and "{" not in s for s in found)
