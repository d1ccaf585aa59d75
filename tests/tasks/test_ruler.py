"""Tasks of RULER, made anew: keys decide, prompts fit, answers stand where they must, replies are scored as by hand."""

import itertools
import re

import pytest

from featlearn.core import Key, SettingError
from featlearn.tasks import ruler
from featlearn.tasks.ruler import HIDDEN, TASKS, Question, ask, chain, placed, zeta_counts
from featlearn.tasks.ruler_words import ADJECTIVES, NOUNS, RIVERS, SURNAMES, TOWNS

tokenizers = pytest.importorskip("tokenizers", reason="needs the llm extra; lift when it is part of the core")
transformers = pytest.importorskip("transformers", reason="needs the llm extra; lift when it is part of the core")

ESSAYS = [f"Sentence number {i} of this essay says that all is well in the harbour." for i in range(400)]
LENGTH = 12000


@pytest.fixture(scope="module")
def asked(tokenizer):
    """A question of each task."""
    key = Key("tests/ruler")
    return {t: ask(t, key / t, length=LENGTH, tokenizer=tokenizer, essays=ESSAYS) for t in TASKS}


def test_the_thirteen_tasks_are_there():
    assert len(TASKS) == 13
    assert sum(t.startswith("niah_") for t in TASKS) == 8


@pytest.mark.parametrize("task", TASKS)
def test_the_key_decides_and_nothing_else(task, asked, tokenizer):
    def again(key, length=LENGTH):
        return ask(task, key, length=length, tokenizer=tokenizer, essays=ESSAYS)

    key = Key("tests/ruler") / task
    assert again(key) == asked[task]
    other = again(key / "other")
    assert not set(other.answers) & set(asked[task].answers) or task == "cwe"  # its words are few
    assert other.context != asked[task].context
    shorter = again(key, 9000)
    assert (shorter.answers, shorter.request) == (asked[task].answers, asked[task].request)
    assert len(shorter.context) < len(asked[task].context)


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_prompt_and_reply_fit_and_one_piece_more_would_not(task, chat, tokenizer):
    q = ask(task, Key("tests/ruler") / task, length=LENGTH, tokenizer=tokenizer, essays=ESSAYS, chat=chat)
    prompt = q.prompt(tokenizer, chat)
    tokens = prompt.input_ids.shape[1] + q.max_new_tokens
    piece = {"qa_1": 500, "qa_2": 500, "cwe": 80, "fwe": 30}.get(task, 140)  # bytes of the longest piece of straw
    assert LENGTH - piece <= tokens <= LENGTH
    text = tokenizer.decode(prompt.input_ids[0])
    assert text.endswith(("<|assistant|>" if chat else "\nAnswer: ") + q.opening)
    assert tokenizer.decode(prompt.input_ids[0, -prompt.tail :]).startswith(q.request)
    assert text.count(q.context) == 1


@pytest.mark.parametrize("task", TASKS)
def test_answers_stand_in_the_text_alone(task, asked):
    q = asked[task]
    around = (q.introduction + q.request + q.opening).lower()
    for answer in q.answers:
        assert answer in q.context
        assert answer.lower() not in around


@pytest.mark.parametrize("task", HIDDEN)
def test_values_are_hidden_once_and_asked_for_by_key(task, asked):
    q, what = asked[task], HIDDEN[task]
    found = re.findall(r"The secret (?:number|code) of (\S+) is ([0-9a-f-]+)\.", q.context)
    of = {value: key for key, value in found}
    assert len(of) == len(found)  # no value twice
    assert len(q.answers) == what.asked * what.values
    assert all(q.context.count(value) == 1 for value in q.answers)
    keys = {of[value] for value in q.answers}
    assert len(keys) == what.asked
    assert all(key in q.request and key in q.opening for key in keys)
    assert not any(key in q.request for key in of.values() if key not in keys)
    told = what.keys * what.values
    assert len(found) == told if what.straw != "needles" else len(found) > 50
    assert len({key for key, _ in found}) == (what.keys if what.straw != "needles" else len(found))
    for value in q.answers:
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}" if what.value_codes else r"[1-9]\d{6}", value)
    if what.straw == "noise":
        assert q.context.count(ruler.NOISE) == len(q.context.splitlines()) - 1
    if what.straw == "essay":
        assert q.context.count("Sentence number") > 40


def test_the_key_of_four_values_is_one():
    """And that of four keys has one value each."""
    assert [(HIDDEN[f"niah_multi{n}"].keys, HIDDEN[f"niah_multi{n}"].values) for n in ("value", "query")] == [
        (1, 4),
        (4, 1),
    ]


def test_lines_go_where_their_depth_says_and_keep_their_order():
    assert placed(["a", "b", "c", "d"], ["x", "y", "z"], [0.0, 0.5, 1.0]) == ["x", "a", "b", "y", "c", "d", "z"]
    assert placed(["a"], ["x", "y"], [0.6, 0.9]) == ["a", "x", "y"]


def test_depths_go_from_the_start_to_the_end():
    at = [d for i in range(200) for d in ruler._depths((Key("tests/ruler/depths") / i).numpy(), 4)]
    assert (min(at), max(at)) == (0.0, 1.0)
    assert abs(sum(at) / len(at) - 0.5) < 4 * 0.3 / 800**0.5  # 4 standard errors: once in 16000


def test_a_chain_passes_its_value_on(asked):
    q = asked["vt"]
    value = re.search(r"value (\d{5}),", q.request)[1]
    given = re.findall(r"LET (\w+) = (\w+)", q.context)
    have, order = {value}, []
    for name, before in given:  # in the order of the text
        assert before in have
        have.add(name)
        order.append(name)
    assert tuple(order) == q.answers
    assert len(order) == 5
    names, number, lines = chain(Key("tests/ruler/chain").numpy(), 5)
    assert lines[0] == f"LET {names[0]} = {number}"
    assert lines[4] == f"LET {names[4]} = {names[3]}"
    example = re.findall(r"LET (\w+) = (\w+)", q.introduction)
    assert len(example) == 5
    assert f"{', '.join(name for name, _ in example)}\n" in q.introduction  # it shows how to answer
    assert not {n for n, _ in example} & set(q.answers)


@pytest.mark.parametrize("length", [4000, 12000])
def test_common_words_are_those_that_come_most_often(length, tokenizer):
    q = ask("cwe", Key("tests/ruler/cwe"), length=length, tokenizer=tokenizer)
    often, seldom = (30, 3) if length >= 4096 else (6, 1)
    numbers, words = zip(*re.findall(r"(\d+)\. (\w+)", q.context), strict=True)
    assert [int(n) for n in numbers] == list(range(1, len(words) + 1))
    counts = {w: words.count(w) for w in words}
    assert {w for w, c in counts.items() if c == often} == set(q.answers)
    assert {c for w, c in counts.items() if w not in q.answers} == {seldom}
    shown = re.findall(r"\d+\. (\w+)", q.introduction)
    assert not set(shown) & set(words)
    assert {w for w in shown[-10:] if shown.count(w) == max(map(shown.count, shown))} == set(shown[-10:])


def test_coded_words_follow_the_zeta_law(asked):
    q = asked["fwe"]
    words = q.context.split()
    counts = sorted({w: words.count(w) for w in words}.items(), key=lambda item: -item[1])
    assert counts[0][0] == "..."
    assert tuple(w for w, _ in counts[1:4]) == q.answers
    assert counts[3][1] > counts[4][1]  # the third is not as frequent as the fourth
    assert all(re.fullmatch("[a-z]{6}", w) for w in words if w != "...")
    assert zeta_counts(1000, 5) == [607, 151, 67, 37, 24]  # 1000 / (k^2 1.6449...)


@pytest.mark.parametrize("task", ["qa_1", "qa_2"])
@pytest.mark.parametrize("i", range(6))
def test_one_passage_holds_the_answer(task, i, tokenizer):
    q = ask(task, Key("tests/ruler/qa") / i, length=LENGTH, tokenizer=tokenizer)
    passages = re.split(r"Passage \d+:\n", q.context)[1:]
    holding = [p for p in passages if q.answers[0] in p]
    assert len(holding) == 1
    town = holding[0].split()[0]
    if task == "qa_1":
        assert town in q.request
    else:
        person = re.search(r"in which (\w+ \w+) was born", q.request)[1]
        assert town not in q.request
        assert sum(f"{person} was born in {town} " in p for p in passages) == 1
        assert sum(f"was born in {town} " in p for p in passages) == 1
    assert not q.every


def test_replies_are_scored_as_by_hand():
    every = Question("vt", "", "", "", "", ("ABCDE", "FGHIJ", "KLMNO", "PQRST"), 30)
    some = Question("qa_1", "", "", "", "", ("Ada Barlow", "Barlow"), 32, every=False)
    assert [every.score(r) for r in ("ABCDE", "fghij, klmno", "ABCD", "ABCDEFGHIJKLMNOPQRST", "")] == [
        0.25,
        0.5,
        0.0,
        1.0,
        0.0,
    ]
    assert [some.score(r) for r in ("It was Barlow.", "ADA BARLOW", "Ada", "")] == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("words", [[*ADJECTIVES, *NOUNS], SURNAMES, TOWNS, RIVERS])
def test_no_word_is_part_of_another(words):
    assert len(set(words)) == len(words)
    assert [(a, b) for a, b in itertools.permutations([w.lower() for w in words], 2) if a in b] == []


@pytest.mark.parametrize(
    "task, change, says",
    [
        ("niah", {}, "task = niah is not allowed: one of niah_single_1"),
        ("vt", {"length": 100}, "length = 100 is not allowed: at least 512"),
        ("vt", {"length": True}, "length = True"),
        ("cwe", {"length": 800}, r"length = 800 is not allowed: at least \d+ tokens for cwe"),
        ("niah_single_2", {"essays": ()}, "essays = 0 sentences is not allowed: some for niah_single_2"),
        ("niah_single_2", {"essays": ESSAYS[:20]}, r"length = 12000 is not allowed: at most \d{4} tokens"),
    ],
)
def test_what_cannot_be_asked_is_refused(task, change, says, tokenizer):
    with pytest.raises(SettingError, match=says):
        ask(task, Key("tests"), **{"length": LENGTH, "tokenizer": tokenizer, "essays": ESSAYS, **change})
