"""Methods side by side: paired intervals, likelihoods, LongBench files and the timing of passes."""

import dataclasses
import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from tiny import made_model

from featlearn.apply.gemfilter import answer, bench, compare, longbench, partial, score
from featlearn.apply.gemfilter.speed import Speed
from featlearn.core import Key, SettingError
from featlearn.lab.estimate import interval
from featlearn.methods.gemfilter import RAW, SOFTMAX, select
from featlearn.methods.kv_eviction import evict, prefill
from featlearn.methods.long_context import answer as answer_of
from featlearn.tasks.prompts import Item, grade

SPEED = Speed(100, 2.0, 0.1, 10, linear=1000.0, quadratic=20.0, base=7000, cache=5, working=3.0)


@dataclass(frozen=True)
class Said:
    """As `featlearn.methods.long_context` answers."""

    text: str
    kept: int
    seconds_prompt: float = 0.25
    seconds_generate: float = 0.75
    peak_bytes: int | None = None
    cut: bool = False


class Canned:
    """Answers by a function of (method, prompt number) and remembers how it was called."""

    def __init__(self, reply):
        self.reply, self.calls, self.prompts = reply, [], []

    def __call__(self, model, tokenizer, input_ids, *, method, budget, max_new_tokens, layer, protect):
        key = input_ids.sum().item()
        if key not in self.prompts:
            self.prompts.append(key)
        self.calls.append((method, budget, max_new_tokens, layer, int(protect.sum())))
        return Said(self.reply(method, self.prompts.index(key)), min(budget, input_ids.shape[1]))


# --- intervals -------------------------------------------------------------------------------------------------------


def test_paired_means_use_the_differences_of_units():
    a, b, units = [1.0, 2.0, 4.0, 8.0], [0.0, 2.0, 1.0, 2.0], ["x", "y", "z", "z"]
    found = compare.paired(a, b, units)
    assert (found.value, found.low, found.high) == interval([1.0, 0.0, 4.5])
    assert found.units == 3
    lone = compare.paired(a, b, ["x"] * 4)
    assert (lone.value, lone.low, lone.high, lone.units) == (2.5, None, None, 1)
    same = compare.paired([1.0, 2.0], [0.5, 1.5], ["x", "y"])  # no spread to judge by
    assert (same.value, same.low, same.high) == (0.5, None, None)


def test_paired_shares_by_hand():
    right = [True] * 5 + [False] * 5 + [True, False] * 5
    full = [False] * 5 + [True] * 5 + [True, True] * 5
    units = [str(i) for i in range(10)] + [str(10 + i // 2) for i in range(10)]
    found = compare.paired_shares(right, full, units)
    assert (found.value, found.low, found.high) == pytest.approx(interval([1.0] * 5 + [-1.0] * 5 + [-0.5] * 5))
    assert found.units == 15


@pytest.mark.parametrize("n", [1, 6, 20])
def test_units_that_all_agree_have_the_exact_bound(n):
    """No unit of n gains: with probability 1 - 0.0125 fewer than q of all would, (1 - q)^n = 0.0125; as for losses."""
    units = [str(i) for i in range(n)]
    found = compare.paired_shares([True] * n, [True] * n, units)
    assert (found.value, found.units) == (0, n)
    if n > 1:
        assert (1 - found.high) ** n == pytest.approx(0.0125)
    assert found.low == -found.high
    gained = compare.paired_shares([True] * n, [False] * n, units)
    assert gained.high == 1
    assert gained.low == pytest.approx(1 - 2 * found.high)


def test_units_that_agree_but_for_rounding_have_the_exact_bound_too():
    thirds = [True, True, False, True, False, True, False, True, True] * 3
    full = [True, False, False] * 9
    units = [str(i) for i in range(9) for _ in range(3)]
    found = compare.paired_shares(thirds, full, units)
    assert found.value == pytest.approx(1 / 3)
    assert found.high - found.low > 0.3


@pytest.mark.parametrize("n, gain, lose", [(12, 0.0, 0.02), (12, 0.1, 0.2), (40, 0.1, 0.2), (40, 0.0, 0.05)])
def test_paired_shares_cover(n, gain, lose):
    """2000 draws of n texts with three questions that share a fate two times in three: coverage at least .93.

    At a coverage of .95 a share below .93 has probability 2e-4.
    """
    draw, covered = np.random.default_rng(n), 0
    for _ in range(2000):
        own, text = draw.random((n, 3)), draw.random((n, 1))
        u = np.where(draw.random((n, 3)) < 2 / 3, text, own).ravel()
        units = np.repeat(np.arange(n), 3).astype(str).tolist()
        gained, lost = u < gain, (u >= gain) & (u < gain + lose)
        found = compare.paired_shares(gained.tolist(), lost.tolist(), units)
        covered += found.low <= gain - lose <= found.high
    assert covered / 2000 > 0.93


def test_intervals_that_take_questions_for_units_do_not_cover():
    """What the test before would see: the same draws with every question as a unit of its own."""
    draw, covered, n = np.random.default_rng(40), 0, 40
    for _ in range(2000):
        text = draw.random((n, 1))
        u = np.where(draw.random((n, 3)) < 2 / 3, text, draw.random((n, 3))).ravel()
        gained, lost = u < 0.1, (u >= 0.1) & (u < 0.3)
        found = compare.paired_shares(gained.tolist(), lost.tolist(), [str(i) for i in range(3 * n)])
        covered += found.low <= -0.1 <= found.high
    assert covered / 2000 < 0.9


def test_a_share_has_exact_bounds_at_its_ends():
    found = compare.share([True] * 8, [str(i) for i in range(8)])
    assert (found.value, found.high) == (1, 1)
    assert found.low**8 == pytest.approx(0.025)
    assert compare.share([True, False] * 4, list("aabbccdd")).value == 0.5


# --- replies ---------------------------------------------------------------------------------------------------------


def test_methods_are_known_once_and_full_comes_first():
    pytest.importorskip("featlearn.methods.long_context", reason="until methods/long_context.py exists")
    assert compare.method_names(("gemfilter", "snapkv")) == ("full", "gemfilter", "snapkv")
    assert compare.method_names(("gemfilter", "full")) == ("full", "gemfilter")
    with pytest.raises(SettingError, match="methods = gemfiltre"):
        compare.method_names(("gemfiltre",))
    with pytest.raises(SettingError, match="each method once"):
        compare.method_names(("full", "full"))


def test_expected_time_of_methods(tokenizer):
    tokenized_prompts = score.prompts(tokenizer, [ITEM])
    n = tokenized_prompts[0].input_ids.shape[1]
    seconds, peak = compare.expected(SPEED, tokenized_prompts, [4], ("full", "gemfilter", "snapkv"), 16, 2)
    assert seconds == pytest.approx(2 * SPEED.reply(n, 4) + SPEED.filtered(n, 16, 4, 2))
    assert peak == SPEED.peak(n + 4)
    more, _ = score.expected(SPEED, tokenized_prompts, 4, ("full", "gemfilter", "snapkv"), 16, 2)
    assert more - seconds == pytest.approx(2 * SPEED.prompt(n) + SPEED.filtered(n, 16, 1, 2))


# --- score -----------------------------------------------------------------------------------------------------------

ITEM = Item("questions", "Read. ", "river stone market. " * 30, " What is the stone?", ("market",), name="one")
OTHER = Item("questions", "Read. ", "garden music paper. " * 20, " What is the garden?", ("paper", "music"), name="two")


def test_score_by_method(model, tokenizer):
    def reply(method, i):
        return "It is the Market." if method == "full" else ("nothing", "music!")[i]

    answer_one, seen = Canned(reply), []
    setting = {"methods": ("gemfilter", "full"), "keep": 40, "layer": 1, "max_new_tokens": 7}
    found = score.score(
        model, tokenizer, (ITEM, OTHER), answer=answer_one, progress=lambda *at: seen.append(at), **setting
    )
    assert seen == [(1, 2), (2, 2)]
    assert [c.method for c in found.costs] == ["full", "gemfilter"]
    full, ours = found.costs
    assert (full.accuracy.value, ours.accuracy.value) == (0.5, 0.5)
    assert full.accuracy_difference is None
    assert full.likelihood_difference is None
    assert ours.accuracy_difference.value == 0
    assert ours.accuracy_difference.high > 0.3  # two questions say little
    assert (ours.seconds, ours.kept, ours.questions, ours.cut) == (1.0, 40, 2, 0)
    assert (found.units, found.filtered) == (2, 2)
    assert [(r["method"], r["right"]) for r in found.rows] == [
        ("full", True),
        ("gemfilter", False),
        ("full", False),
        ("gemfilter", True),
    ]
    tails = [r.tail for r in score.prompts(tokenizer, (ITEM, OTHER))]
    assert answer_one.calls[0] == ("full", 40, 7, 1, 1 + tails[0])
    assert ours.likelihood_difference.value == pytest.approx(ours.likelihood - full.likelihood)
    assert found.warnings == (
        "the questions make 2 units (a text with all questions about it): fewer than 6 say little, take more texts",
    )
    json.dumps(score.document(found))


def test_questions_about_one_text_are_one_unit(model, tokenizer):
    """Two questions about a text and one about another: the mean is over two units, not three questions."""
    again = dataclasses.replace(ITEM, request=" What is the river?", name="one more")
    said = {0: "market", 1: "market", 2: "nothing"}
    items = (ITEM, again, OTHER)
    found = score.score(model, tokenizer, items, methods=(), keep=40, layer=1, answer=Canned(lambda method, i: said[i]))
    assert found.units == 2
    assert found.costs[0].accuracy.value == 0.5
    assert [r["unit"] for r in found.rows] == ["one", "one", "two"]
    named = [score.Question(**{**vars(i), "unit": "one book"}) for i in items]
    found = score.score(model, tokenizer, named, methods=(), keep=40, layer=1, answer=Canned(lambda method, i: said[i]))
    assert found.units == 1
    assert found.costs[0].accuracy.value == pytest.approx(2 / 3)


def test_nothing_filtered_is_said_and_not_compared(model, tokenizer):
    same = Canned(lambda method, i: "market")
    found = score.score(model, tokenizer, (ITEM, OTHER), methods=("gemfilter",), keep=999, layer=1, answer=same)
    assert found.filtered == 0
    assert found.costs[1].accuracy_difference is None
    assert found.costs[1].likelihood_difference is None
    (said,) = found.warnings
    assert said.startswith("none of 2 prompts is longer than keep = 999: nothing was filtered")
    assert f"the shortest has {min(r['tokens'] for r in found.rows)} tokens" in said


def test_prompts_no_longer_than_keep_are_left_out_of_the_comparison(model, tokenizer):
    """The shorter one is right by every method, which would halve the difference."""
    n = [p.input_ids.shape[1] for p in score.prompts(tokenizer, (ITEM, OTHER))]
    assert n[1] < n[0]
    answer_one = Canned(lambda method, i: "market" if method == "full" or i else "nothing")
    found = score.score(model, tokenizer, (ITEM, OTHER), methods=("gemfilter",), keep=n[1], layer=1, answer=answer_one)
    assert (found.filtered, found.costs[1].questions, len(found.rows)) == (1, 1, 4)
    assert found.costs[1].accuracy_difference.value == -1
    assert found.warnings[0].startswith(f"1 of 2 prompts are no longer than keep = {n[1]}")


def test_replies_at_the_limit_are_counted_and_said(model, tokenizer):
    def answer_one(model, tokenizer, input_ids, *, method, **more):
        return Said("nothing", 40, cut=method == "gemfilter")

    found = score.score(
        model, tokenizer, (ITEM, OTHER), methods=("gemfilter",), keep=40, layer=1, max_new_tokens=3, answer=answer_one
    )
    assert [c.cut for c in found.costs] == [0, 2]
    assert "gemfilter: 2 of 2 replies end at max-new-tokens = 3" in found.warnings[0]


@pytest.mark.parametrize("method", ["full", "gemfilter", "snapkv"])
def test_a_reply_is_cut_where_it_has_not_ended(model, tokenizer, method):
    """With any token it says as an end token the same reply has ended."""
    ids = score.prompts(tokenizer, [ITEM])[0].input_ids
    ask = {"method": method, "budget": 40, "max_new_tokens": 3, "layer": 2}
    ends = model.generation_config.eos_token_id
    try:
        model.generation_config.eos_token_id = None
        assert answer_of(model, tokenizer, ids, **ask).cut
        model.generation_config.eos_token_id = list(range(model.config.vocab_size))
        assert not answer_of(model, tokenizer, ids, **{**ask, "max_new_tokens": 1}).cut
    finally:
        model.generation_config.eos_token_id = ends


def test_replies_that_differ_are_shown_first(model, tokenizer):
    answer_one = Canned(lambda method, i: "market" if i == 0 or method == "full" else "nothing")
    other = dataclasses.replace(OTHER, answers=("market",))
    found = score.score(model, tokenizer, (ITEM, other), methods=("gemfilter",), keep=40, layer=1, answer=answer_one)
    assert [own[0]["question"] for own in score.differing(found, 5)] == ["two", "one"]
    assert score.differing(found, 0) == []


# --- rows that are kept ----------------------------------------------------------------------------------------------


def rows_in(folder, model, **setting):
    return partial.open_rows(folder, model, **{"keep": 40, "layer": (1, "softmax"), **setting})


def asked(model, tokenizer, rows, methods=("gemfilter",), stop=None):
    """(how many replies were made, what `score` found); stop: raises at this reply."""

    def reply(method, i):
        if len(answer_one.calls) == stop:
            raise KeyboardInterrupt
        return "market" if method == "full" else "nothing"

    answer_one = Canned(reply)
    found = None
    try:
        setting = {"methods": methods, "keep": 40, "layer": 1}
        found = score.score(model, tokenizer, (ITEM, OTHER), answer=answer_one, rows=rows, **setting)
    except KeyboardInterrupt:
        pass
    return len(answer_one.calls), found


def test_a_run_that_was_ended_goes_on(model, tokenizer, tmp_path):
    assert asked(model, tokenizer, rows_in(tmp_path, model), stop=3) == (3, None)  # within the second question
    rows = rows_in(tmp_path, model)
    assert len(rows.found) == 2
    made, found = asked(model, tokenizer, rows)
    assert made == 2
    _, whole = asked(model, tokenizer, None)
    assert found == whole
    assert asked(model, tokenizer, rows_in(tmp_path, model))[0] == 0
    made, more = asked(model, tokenizer, rows_in(tmp_path, model), methods=("gemfilter", "streaming"))
    assert made == 2  # only the method that is new
    assert [c.method for c in more.costs] == ["full", "gemfilter", "streaming"]


def test_a_line_that_was_cut_short_is_made_anew(model, tokenizer, tmp_path):
    rows = rows_in(tmp_path, model)
    asked(model, tokenizer, rows)
    text = rows.path.read_text()
    rows.path.write_text(text[:-20])
    again = rows_in(tmp_path, model)
    assert len(again.found) == 3
    assert asked(model, tokenizer, again)[0] == 1
    assert len(rows_in(tmp_path, model).found) == 4


@pytest.mark.parametrize("changed", ["weights", "setting", "answers"])
def test_another_model_setting_or_answer_has_no_rows(model, tokenizer, tmp_path, changed):
    asked(model, tokenizer, rows_in(tmp_path, model))
    if changed == "setting":
        assert not rows_in(tmp_path, model, keep=41).found
        return
    if changed == "answers":
        other = dataclasses.replace(ITEM, answers=("stone",))
        (tokenized,) = score.prompts(tokenizer, [other])
        assert not rows_in(tmp_path, model).done(other, tokenized)
        return
    weight = model.model.layers[3].mlp.down_proj.weight  # the embedding stays, as when only some layers are tuned
    with torch.no_grad():
        weight += 1e-3
        try:
            assert not rows_in(tmp_path, model).found
        finally:
            weight -= 1e-3


def test_what_is_asked_anew_counts_and_rows_of_other_questions_stay(model, tokenizer, tmp_path):
    asked(model, tokenizer, rows_in(tmp_path, model))
    again = partial.open_rows(tmp_path, model, again=True, keep=40, layer=(1, "softmax"))
    assert not again.found
    setting = {"methods": (), "keep": 40, "layer": 1}
    score.score(model, tokenizer, (ITEM,), answer=Canned(lambda method, i: "another"), rows=again, **setting)
    kept = rows_in(tmp_path, model)
    assert len(kept.found) == 4
    one, two = score.prompts(tokenizer, (ITEM, OTHER))
    assert kept.done(ITEM, one)["full"]["reply"] == "another"
    assert kept.done(OTHER, two)["full"]["reply"] == "market"


def test_a_store_that_is_no_folder(model, tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(SettingError, match=r"store = .*x is not allowed: a folder that can be written"):
        rows_in(tmp_path / "x", model)


def test_likelihoods_are_those_of_the_answer_under_what_each_method_keeps(model, tokenizer, essays):
    item = Item("questions", "Read. ", essays[1].text[:900], " What is the stone?", ("market stone river",), name="one")
    (tokenized,) = score.prompts(tokenizer, [item])
    ids, said = (
        tokenized.input_ids,
        torch.tensor([tokenizer("market stone river", add_special_tokens=False)["input_ids"]]),
    )
    methods = ("full", "gemfilter", "gemfilter_raw", "snapkv", "h2o", "streaming", "one_run")
    found = score.likelihoods(model, tokenizer, item, tokenized, methods=methods, keep=48, layer=2)
    expected = {"full": answer.log_likelihood(model, ids, said).mean()}
    for name, scoring in (("gemfilter", SOFTMAX), ("gemfilter_raw", RAW)):
        protect = tokenized.protected() if name == "gemfilter" else (0, 0)
        kept = select(model, ids, layer=2, keep=48, scoring=scoring, protect=protect).indices[0]
        expected[name] = answer.log_likelihood(model, ids[:, kept], said).mean()
    filled = prefill(model, ids, want=("snapkv", "h2o"))
    for name in ("snapkv", "h2o", "streaming"):
        expected[name] = score.forced(model, filled, evict(filled, name, 48), said).mean()
    assert found == {**{k: pytest.approx(float(v), abs=1e-5) for k, v in expected.items()}, "one_run": found["one_run"]}
    assert len({round(v, 4) for v in found.values()}) == len(methods)


def test_an_answer_of_several_tokens_from_a_whole_cache(model, tokenizer):
    """From a cache with everything in it the likelihood is the model's own, place by place."""
    (tokenized,) = score.prompts(tokenizer, [ITEM])
    said = torch.tensor([[30, 12, 9, 41]])
    filled = prefill(model, tokenized.input_ids)
    found = score.forced(model, filled, evict(filled, "full", 9999), said)
    expected = answer.log_likelihood(model, tokenized.input_ids, said)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)


def test_nothing_is_dropped_of_a_prompt_shorter_than_keep(model, tokenizer):
    (tokenized,) = score.prompts(tokenizer, [ITEM])
    found = score.likelihoods(
        model, tokenizer, ITEM, tokenized, methods=("full", "gemfilter", "h2o"), keep=999, layer=2
    )
    assert found["full"] == found["gemfilter"] == found["h2o"]


def test_questions_of_a_file(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text(
        '{"context": "c", "question": "What {is} it?", "answer": "a"}\n\n'
        '{"context": "c", "question": "q", "answers": ["a", "b"], "answer": "unused"}\n'
    )
    one, two = score.questions_of(path)
    assert "What {is} it?" in one.request
    assert (one.answers, two.answers) == (("a",), ("a", "b"))
    assert two.name == f"{path}:3"
    assert (one.unit, two.unit) == ("", "")
    path.write_text('{"context": "c", "question": "q", "answer": "a", "unit": "book 3"}\n')
    assert score.questions_of(path)[0].unit == "book 3"
    path.write_text('{"context": "c", "question": "q", "answer": "a", "unit": 3}\n')
    with pytest.raises(SettingError, match="'unit' is no text"):
        score.questions_of(path)
    path.write_text('{"context": "c", "question": "q", "answers": []}\n')
    with pytest.raises(SettingError, match=r"q.jsonl:1 .*'answers' is no text"):
        score.questions_of(path)


def test_a_question_beyond_the_context_is_named(tokenizer):
    with pytest.raises(SettingError, match="file = two is not allowed: at most 80 tokens"):
        score.prompts(tokenizer, [OTHER], longest=80)


# --- longbench -------------------------------------------------------------------------------------------------------


def line(**changed):
    whole = {
        "input": "What is it?",
        "context": "river stone",
        "answers": ["stone"],
        "length": 2,
        "dataset": "qasper",
        "language": "en",
        "all_classes": None,
        "_id": "x1",
    }
    return json.dumps({**whole, **changed})


def test_items_of_a_folder(tmp_path):
    (tmp_path / "qasper.jsonl").write_text(line() + "\n" + line(_id="x2"))
    (tmp_path / "trec.jsonl").write_text(line(dataset="trec", all_classes=["stone", "river"], input="Q: {x}\nType:"))
    (tmp_path / "passage_count_e.jsonl").write_text(line(dataset="passage_count_e", input="", answers=["3"]))
    items = {i.kind: i for i in longbench.items_of(tmp_path)}
    assert list(items) == ["passage_count", "qasper", "trec"]
    assert items["qasper"].name == "x2"
    assert items["qasper"].request.endswith("Question: What is it?")
    assert items["trec"].request.endswith("\nQ: {x}\nType:")
    assert items["trec"].continued
    assert items["trec"].classes == ("stone", "river")
    assert items["passage_count"].metric == "count"
    only = longbench.items_of(tmp_path, ("trec",))
    assert [i.kind for i in only] == ["trec"]


@pytest.mark.parametrize(
    "text, tasks, said",
    [
        (line(dataset="dureader"), (), r"d.jsonl:1 is not allowed: an English data set; dureader"),
        (line(dataset="mine"), (), r"d.jsonl:1 .*'mine' has no known metric"),
        (line() + "\n" + line(answers="  "), (), r"d.jsonl:2 .*'answers' is no text"),
        (line(context=None), (), r"d.jsonl:1 .*'context' is no text"),
        (line(dataset="trec"), (), r"d.jsonl:1 .*'all_classes' is no text"),
        (line(), ("lsht",), "tasks = lsht is not allowed: an English data set"),
        (line(), ("qaspr",), "tasks = qaspr .*'qaspr' has no known metric"),
        (line(), ("trec",), "tasks = trec .*there is no line"),
    ],
)
def test_bad_files(tmp_path, text, tasks, said):
    path = tmp_path / "d.jsonl"
    path.write_text(text)
    with pytest.raises(SettingError, match=said):
        longbench.items_of(path, tasks)


def test_a_folder_without_files(tmp_path):
    with pytest.raises(SettingError, match=r"a folder with \.jsonl files"):
        longbench.items_of(tmp_path)
    with pytest.raises(SettingError, match="that exists"):
        longbench.items_of(tmp_path / "no.jsonl")


def test_every_data_set_has_a_template_with_its_input():
    assert set(longbench.DATASETS) == set(longbench.TEMPLATES)
    no_input = {n for n, (_, after) in longbench.TEMPLATES.items() if "{input}" not in after}
    assert no_input == {"gov_report", "multi_news", "passage_count"}


def test_scores_by_data_set_and_their_average(model, tokenizer):
    items = [
        Item("a", "", "river " * (40 + i), "What?", ("stone",), name=str(i), max_new_tokens=10 + i) for i in range(3)
    ] + [Item("b", "", "music " * (60 + i), "What?", ("paper",), name=str(3 + i)) for i in range(2)]
    replies = {"full": ["stone", "stone", "river", "paper", "paper"], "gemfilter": ["stone", *"xxxx"]}
    answer_one = Canned(lambda method, i: replies[method][i])
    found = longbench.longbench(model, tokenizer, items, methods=("gemfilter",), keep=32, layer=1, answer=answer_one)
    rows = {(r.method, r.dataset): r for r in found.rows}
    assert rows["full", "a"].score == pytest.approx(200 / 3)
    assert rows["full", "a"].error == pytest.approx(100 * np.std([1, 1, 0], ddof=1) / np.sqrt(3))
    assert (rows["full", "b"].score, rows["full", "b"].error, rows["full", "b"].items) == (100, 0, 2)
    mean, error = found.averages["full"]
    assert mean == pytest.approx((200 / 3 + 100) / 2)  # over data sets, not items
    assert error == pytest.approx(rows["full", "a"].error / 2)
    assert found.averages["gemfilter"][0] == pytest.approx(100 / 6)
    assert found.cut == 0
    assert [c[2] for c in answer_one.calls] == [10, 10, 11, 11, 12, 12, 32, 32, 32, 32]
    json.dumps(longbench.document(found))


def test_one_item_has_no_standard_error(model, tokenizer):
    items = [Item("a", "", "river " * 40, "What?", ("stone",))]
    found = longbench.longbench(model, tokenizer, items, keep=32, layer=1, answer=Canned(lambda method, i: "stone"))
    assert found.rows[0].error is None
    assert found.averages["full"] == (100, None)


def test_prompts_beyond_the_context_lose_their_middle(model, tokenizer):
    item = Item("a", "Read. ", "river " * 60 + "stone " * 60, " What?", ("stone",), max_new_tokens=20)
    seen = []

    def answer_one(model, tokenizer, input_ids, **more):
        seen.append(input_ids)
        return Said("stone", 5)

    found = longbench.longbench(model, tokenizer, [item], context=100, keep=32, layer=1, answer=answer_one)
    assert {ids.shape[1] for ids in seen} == {80}
    assert found.cut == 1
    assert found.replies[0]["cut"] > 0
    with pytest.raises(SettingError, match="a context of 80"):
        longbench.prompts(tokenizer, [item], context=80)


def test_the_mini_set_by_a_perfect_and_by_a_silent_model(model, tokenizer, essays):
    items = longbench.mini(essays, tokenizer, count=1, length=512, key=Key("tests/mini"))
    assert len(items) == 6
    perfect = Canned(lambda method, i: items[i].answers[0] if method == "full" else "")
    found = longbench.longbench(model, tokenizer, items, keep=64, layer=1, answer=perfect)
    assert found.averages["full"][0] == 100
    assert found.averages["gemfilter"][0] == 0
    assert grade(items[0], items[1].answers[0]) == 0


# --- bench -----------------------------------------------------------------------------------------------------------


def test_bench_counts_passes(model, monkeypatch):
    seen, calls = [], []
    plain = model.model.layers[3].forward
    handle = model.model.layers[3].register_forward_pre_hook(lambda m, a: calls.append(a[0].shape[1]))
    try:
        found = bench.bench(model, (64, 96), keep=32, layer=1, repeats=2, progress=lambda *at: seen.append(at))
    finally:
        handle.remove()
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert calls == [16, 64, 32, 64, 32, 96, 32, 96, 32]  # once to warm up; pass one never gets to layer 3
    assert plain == model.model.layers[3].forward
    for t, n in zip(found, (64, 96), strict=True):
        assert (t.tokens, t.keep, t.plain.tokens, t.first.tokens, t.second.tokens) == (n, 32, n, n, 32)
        assert t.share == pytest.approx(2 / 5)
        assert t.reported_bound == 5
        assert t.ratio == pytest.approx(t.plain.seconds / (t.first.seconds + t.second.seconds))


def test_random_models_of_a_shape_are_the_same_for_a_key():
    one, two = (bench.random_model("tiny", key=Key("a")) for _ in range(2))
    other = bench.random_model("tiny", key=Key("b"))
    ids = torch.arange(40)[None]
    with torch.inference_mode():
        a, b, c = (m(ids).logits for m in (one, two, other))
    assert torch.equal(a, b)
    assert not torch.allclose(a, c)
    assert bool(torch.isfinite(a).all())
    usual = made_model(512).model.rotary_emb  # the frequencies of an ordinary model of this head size follow the config
    assert usual.inv_freq.shape == (4,)
    head = 16
    torch.testing.assert_close(one.model.rotary_emb.inv_freq, 10000.0 ** (-torch.arange(0, head, 2) / head))


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"lengths": ()}, "lengths = "),
        ({"lengths": (16,)}, "lengths = "),
        ({"keep": 64}, "keep = 64 is not allowed: less than the shortest length 64"),
        ({"keep": -1}, "keep = -1"),
        ({"repeats": 0}, "repeats = 0"),
        ({"layer": 9}, "layer = 9"),
        ({"lengths": (64, 5000)}, "5000 tokens"),
    ],
)
def test_bench_refuses(model, monkeypatch, changed, said):
    monkeypatch.setattr(model, "forward", None)
    with pytest.raises(SettingError, match=said):
        bench.bench(model, **{"lengths": (64,), "keep": 32, "layer": 1, **changed})


def test_an_unknown_shape():
    with pytest.raises(SettingError, match="shape = llama"):
        bench.random_model("llama")
