"""Every layer is scored as `select` would, the recommendation is the stated rule, and what is saved is found again."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import made_model

from featlearn.apply.gemfilter import calibrate as tool
from featlearn.core import Key, SettingError
from featlearn.methods.gemfilter import Scoring, recommended, select
from featlearn.methods.gemfilter.recommended import KNOWN, Setting, fingerprint, shape_of
from featlearn.tasks.needles import needles

KEY = Key("tests/calibrate")
SCORINGS = (Scoring(), Scoring(rows=4, softmax=True, pool=9), Scoring(rows=2, softmax=True, over_heads="max"))


@pytest.fixture(scope="module")
def prompts(tokenizer, essays):
    return tool.hidden(tokenizer, essays, (160, 224), 6, KEY)


def hooks(model):
    return sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.modules())


@pytest.mark.parametrize("keep", [24, 0.25])
def test_one_pass_keeps_what_select_keeps_at_every_layer(model, prompts, keep):
    prompt = prompts[0]
    ids, protected = prompt.input_ids[None], prompt.protected()
    found = tool.kept_by_layer(model, ids, keep=keep, scorings=SCORINGS, protected=protected)
    assert sorted(found) == [(layer, i) for layer in range(5) for i in range(3)]
    for (layer, i), kept in found.items():
        chosen = select(model, ids, layer=layer, keep=keep, scoring=SCORINGS[i], protect=protected)
        assert torch.equal(kept, chosen.indices[0]), (layer, i)
    assert len({tuple(kept.tolist()) for kept in found.values()}) > 10  # layers and scorings do differ
    assert hooks(model) == 0


def test_windowed_layers_are_shown_and_never_recommended(sliding, prompts):
    made = tool.calibrate(sliding, prompts, keep=48, save=False)
    assert made.windows == (64, 64, None, 64, None)
    assert made.layer in (2, 4)
    rows = made.rows()
    assert [r["window"] for r in rows] == [64, 64, None, 64, None]
    assert rows[0]["recall_raw"] is None
    assert rows[2]["recall_raw"] is not None
    ids = prompts[0].input_ids[None]
    kept = tool.kept_by_layer(sliding, ids, keep=48, scorings=SCORINGS[:1])
    assert torch.equal(kept[4, 0], select(sliding, ids, layer=4, keep=48, scoring=SCORINGS[0]).indices[0])


@pytest.mark.parametrize(
    "kept, needle, recall, distance",
    [
        ([3, 4, 9], (3, 5), 1.0, 0),
        ([3, 9], (3, 5), 0.5, 0),
        ([1, 9], (3, 5), 0.0, 2),  # to the first token of the needle
        ([7], (3, 5), 0.0, 3),  # from its last, 4
        ([5], (3, 5), 0.0, 1),  # the end is not part of it
        ([2], (3, 4), 0.0, 1),
    ],
)
def test_recall_and_distance(kept, needle, recall, distance):
    assert tool.recall(torch.tensor(kept), needle) == recall
    assert tool.distance(torch.tensor(kept), needle) == distance


def test_layers_within_one_paired_standard_error_are_in_question():
    # against the best (layer 2, with the same means as 3): layer 1 is below it by 0.1 +- 0.1, layer 0 by 0.5 +- 0
    softmax = np.array([[0.4, 0.3, 0.5, 0.4], [0.9, 0.8, 0.6, 0.9], [0.9, 0.8, 1.0, 0.9], [0.9, 0.8, 1.0, 0.9]])
    raw = np.zeros_like(softmax)
    less = softmax[3] - softmax[1]
    assert less.mean() == pytest.approx(0.1)
    assert tool.standard_error(less) == pytest.approx(0.1)
    best = (2, "softmax")
    assert tool.in_question({"softmax": softmax, "raw": raw}, range(4)) == (
        [(1, "softmax"), best, (3, "softmax")],
        best,
    )
    softmax[1, 0] = 0.89  # now a little more than one
    assert tool.in_question({"softmax": softmax, "raw": raw}, range(4)) == ([best, (3, "softmax")], best)


def test_layers_that_may_not_filter_are_left_out_and_the_better_scoring_is_taken():
    softmax, raw = np.full((3, 2), 0.5), np.full((3, 2), 0.2)
    softmax[0] = raw[0] = np.nan
    raw[1] = 0.9
    assert tool.in_question({"softmax": softmax, "raw": raw}, (1, 2)) == ([(1, "raw")], (1, "raw"))
    raw[1], softmax[2] = 0.5, 0.5  # all equal: the scoring that is named first
    found = tool.in_question({"softmax": softmax, "raw": raw}, (1, 2))
    assert found == ([(1, "softmax"), (2, "softmax")], (1, "softmax"))


def test_a_single_prompt_has_no_standard_error():
    assert tool.standard_error(np.array([0.3])) == 0
    found, _ = tool.in_question({"softmax": np.array([[0.5], [0.6], [0.6]])}, range(3))
    assert found == [(1, "softmax"), (2, "softmax")]


def test_answers_decide_between_layers_in_question():
    """The earliest whose right answers are not below the best by more than one paired standard error."""
    by = {(1, "raw"): np.array([0.0, 0, 1, 0]), (3, "raw"): np.array([1.0, 1, 1, 0]), (4, "raw"): np.ones(4)}
    less = by[4, "raw"] - by[3, "raw"]
    assert less.mean() == tool.standard_error(less) == 0.25
    assert tool.recommend_answers(by) == (3, "raw")
    by[3, "raw"] = np.array([1.0, 1, 0, 0])  # by 0.5 +- 0.29
    assert tool.recommend_answers(by) == (4, "raw")


def test_answers_of_layers_and_of_the_full_model(model, tokenizer, prompts, monkeypatch):
    """Only what the last layer keeps, and everything, is answered right: the recommendation moves there."""
    asked = []

    def greedy(model, ids, new):
        asked.append((tuple(ids[0].tolist()), new))
        return ids[:, :1]

    def is_right(reply, answer):
        ids = asked[-1][0]
        own = next(p for p in prompts if set(ids) <= set(p.input_ids.tolist()) and p.answer == answer)
        kept = tool.kept_by_layer(
            model, own.input_ids[None], keep=48, scorings=SCORINGS[:2], protected=own.protected(), layers=[4]
        )
        last = {tuple(own.input_ids[k].tolist()) for k in kept.values()}
        return len(ids) == len(own.input_ids) or ids in last

    monkeypatch.setattr(tool, "SCORINGS", dict(zip(("softmax", "raw"), SCORINGS[:2], strict=True)))
    monkeypatch.setattr(tool, "greedy", greedy)
    monkeypatch.setattr(tool, "found_in", is_right)
    everything = [(layer, "softmax") for layer in range(5)]
    monkeypatch.setattr(tool, "in_question", lambda recalls, layers: (everything, (2, "softmax")))
    seen = []
    made = tool.calibrate(
        model,
        prompts,
        keep=48,
        tokenizer=tokenizer,
        candidates=5,
        max_new_tokens=7,
        save=False,
        progress=lambda *at: seen.append(at),
    )
    assert made.answered.full.tolist() == [1] * 6
    assert {at: right.mean() for at, right in made.answered.by.items()} == {
        **dict.fromkeys(everything[:4], 0),
        (4, "softmax"): 1,
    }
    assert made.layer == 4
    assert [row["answers_softmax"] for row in made.rows()] == [0, 0, 0, 0, 1]
    assert {new for _, new in asked} == {7}
    assert seen == [(i + 1, 12) for i in range(12)]
    few = tool.calibrate(model, prompts, keep=48, tokenizer=tokenizer, candidates=1, save=False)
    assert list(few.answered.by) == [(0, "softmax"), (2, "softmax")]  # the earliest, and the best by recall


def test_a_recall_of_one_has_an_interval(model, prompts, monkeypatch):
    monkeypatch.setattr(tool, "recall", lambda kept, needle: 1.0)
    made = tool.calibrate(model, prompts, keep=48, save=False)
    value, low, high = made.recall(made.scoring, made.layer)
    assert (value, high) == (1, 1)
    assert low**6 == pytest.approx(0.025)
    assert tool.prompts_for(low + 1e-9) == 7
    assert 0.95 ** tool.prompts_for(0.95) < 0.025 < 0.95 ** (tool.prompts_for(0.95) - 1)


def test_what_is_saved_is_what_auto_takes(tokenizer, prompts):
    model = made_model(len(tokenizer))
    with pytest.raises(SettingError, match="auto"):
        recommended(model)
    seen = []
    made = tool.calibrate(model, prompts, keep=48, about="tests", progress=lambda *at: seen.append(at))
    assert seen == [(i + 1, 6) for i in range(6)]
    assert hooks(model) == 0
    found = recommended(model)
    assert (found.layer, found.scoring) == (made.layer, tool.SCORINGS[made.scoring])
    assert "6 prompts of tests" in found.source
    saved = json.loads(made.path.read_text())
    assert made.path.stem == fingerprint(model)
    assert saved["evidence"]["layers"] == json.loads(json.dumps(made.rows()))
    assert saved["evidence"]["lengths"] == [160, 224]


def test_what_rests_on_more_prompts_is_not_replaced(tokenizer, prompts):
    model = made_model(len(tokenizer))
    first = tool.calibrate(model, prompts, keep=48, about="many")
    assert first.replaces == ""
    kept = first.path.read_text()
    fewer = tool.calibrate(model, prompts[:5], keep=48, about="few")
    assert fewer.path is None
    assert fewer.unsaved == f"layer {first.layer} rests on 6 prompts and this on 5"
    assert "6 prompts of many" in fewer.replaces
    assert first.path.read_text() == kept
    same = tool.calibrate(model, prompts, keep=48, about="as many")
    assert same.path == first.path
    assert "of many" in same.replaces
    forced = tool.calibrate(model, prompts[:2], keep=48, force=True)
    assert forced.path == first.path
    assert "2 prompts" in recommended(model).source
    first.path.write_text("{")  # damaged: it keeps nobody from calibrating
    assert tool.calibrate(model, prompts[:1], keep=48).path == first.path


def test_shipped_layers_that_were_measured_are_not_replaced_by_a_few_prompts(tokenizer, prompts, monkeypatch):
    model = made_model(len(tokenizer))
    known = Setting(3, Scoring(), "rows")
    monkeypatch.setitem(KNOWN, shape_of(model), known)
    assert tool.current(model) == (known, 0)  # published: anything that was measured is more
    monkeypatch.setitem(tool.SHIPPED, shape_of(model), 30)
    made = tool.calibrate(model, prompts, keep=48)
    assert made.unsaved == "layer 3 rests on 30 prompts and this on 6"
    assert recommended(model) == known
    monkeypatch.setitem(tool.SHIPPED, shape_of(model), 6)
    assert tool.calibrate(model, prompts, keep=48).path is not None


def test_shipped_layers_rest_on_the_prompts_of_committed_rows():
    """Those with the chat template, where there are some."""
    seen = {}
    for path in (Path(__file__).parents[2] / "evidence/gemfilter/layers").glob("*.json"):
        record = json.loads(path.read_text())
        for r in record.get("rows", ()):
            if r["kind"] == "kept":
                prompt = (r["length"], r["sentence"], r["needle"], r["depth"])
                seen.setdefault(record["trial"]["model"], {}).setdefault(r["chat"], set()).add(prompt)
    counts = {model: len(found.get(True) or found[False]) for model, found in seen.items()}
    shapes = {"smollm2-135m": ("llama", 30, 576, 49152), "gemma3-270m": ("gemma3_text", 18, 640, 262144)}
    assert {shapes[model]: n for model, n in counts.items()} == tool.SHIPPED


def test_not_saving_leaves_nothing(model, prompts, tmp_path):
    made = tool.calibrate(model, prompts[:2], keep=48, save=False)
    assert made.path is None
    assert not (tmp_path / "calibrations").exists()


def test_hidden_prompts_have_their_lengths_and_needles(tokenizer, prompts):
    assert [len(p.input_ids) for p in prompts] == [160, 224] * 3
    places = []
    for p, needle in zip(prompts, needles("validation", 6, KEY), strict=True):
        ((first, end),) = p.needles
        assert p.input_ids[first:end].tolist() == tokenizer(needle.sentence, add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(p.input_ids[-p.tail :]).endswith("<end> <bot>")
        places.append(first / len(p.input_ids))
    assert max(places) - min(places) > 0.5  # spread over the text


# --- prompts of the user's -------------------------------------------------------------------------------------------


def write(tmp_path, *lines):
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines))
    return path


def test_the_tokens_of_the_answer_are_the_needle(tokenizer, tmp_path):
    context = "The river. The Stone,  market was here. The stone market again."
    path = write(tmp_path, {"context": context, "question": "Which?", "answer": "stone market"}, "")
    (prompt,) = tool.marked(tokenizer, tool.marked_lines(path))
    assert [tokenizer.decode(prompt.input_ids[a:b]) for a, b in prompt.needles] == ["Stone , market", "stone market"]
    assert prompt.where == f"{path}:1"


def test_one_place_of_the_answer_is_enough(model, tokenizer, tmp_path, monkeypatch):
    context = "river stone. " * 30
    path = write(tmp_path, {"context": context, "question": "Which?", "answer": "stone"})
    prompts = tool.marked(tokenizer, tool.marked_lines(path))
    second = prompts[0].needles[1][0]
    monkeypatch.setattr(tool, "best", lambda scores, mask, protected, counts: (torch.tensor([second]),))
    made = tool.calibrate(model, prompts, keep=48, save=False)
    assert np.all(made.curves["raw"].recall == 1)
    assert np.all(made.curves["raw"].distance == 0)


@pytest.mark.parametrize(
    "line, said",
    [
        ("{", "mine.jsonl:2 is not allowed: one JSON object a line; this line is no JSON"),
        ("[1]", "mine.jsonl:2 is not allowed: one JSON object a line; this line is a list"),
        ('{"context": "a", "answer": "a"}', "mine.jsonl:2 .* 'question' is missing among context, answer"),
        ('{"context": " ", "question": "q", "answer": "a"}', "mine.jsonl:2 .* 'context' is no text"),
        ('{"context": "some", "question": "q", "answer": "so"}', "mine.jsonl:2 .* 'so' does not"),  # not a word of it
        ('{"context": "some", "question": "q", "answer": "..."}', "mine.jsonl:2 .* does not"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, said):
    path = write(tmp_path, {"context": "a b", "question": "q", "answer": "b"}, line)
    with pytest.raises(SettingError, match=said):
        tool.marked_lines(path)


@pytest.mark.parametrize("text", [None, "", " \n\n"])
def test_missing_and_empty_files(tmp_path, text):
    path = tmp_path / "x.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingError, match=r"prompts = .*x\.jsonl"):
        tool.marked_lines(path)


@pytest.mark.parametrize("keep, said", [(10, "protected"), (160, "less than the 160"), (0, "keep = 0"), (1.0, "less")])
def test_a_keep_with_which_nothing_can_be_seen(model, prompts, keep, said):
    with pytest.raises(SettingError, match=said):
        tool.calibrate(model, prompts, keep=keep, save=False)


def test_a_picture_is_written(model, prompts, tmp_path):
    made = tool.calibrate(model, prompts[:2], keep=48, save=False)
    path = tool.save_picture(made, tmp_path / "new" / "layers.png", "tiny")
    assert path.read_bytes()[:4] == b"\x89PNG"
    above, below = tool.picture(made).axes
    assert len(above.lines) == len(below.lines) == 3  # two curves and the chosen layer
    np.testing.assert_allclose(above.lines[0].get_ydata(), made.curves["softmax"].recall.mean(1))
