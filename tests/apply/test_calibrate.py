"""Every layer is scored as `select` would, the recommendation is the stated rule, and what is saved is found again."""

import json

import numpy as np
import pytest
import torch
from tiny import made_model

from featlearn.apply.gemfilter import calibrate as tool
from featlearn.core import Key, SettingError
from featlearn.methods.gemfilter import Scoring, recommended, select
from featlearn.methods.gemfilter.recommended import fingerprint
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


def test_the_earliest_layer_within_one_paired_standard_error():
    # against the best (layer 3): layer 1 is below it by 0.1 +- 0.1, layer 0 by 0.5 +- 0, layer 2 not at all
    softmax = np.array([[0.4, 0.3, 0.5, 0.4], [0.9, 0.8, 0.6, 0.9], [0.9, 0.8, 1.0, 0.9], [0.9, 0.8, 1.0, 0.9]])
    raw = np.zeros_like(softmax)
    less = softmax[3] - softmax[1]
    assert less.mean() == pytest.approx(0.1)
    assert tool.standard_error(less) == pytest.approx(0.1)
    assert tool.recommend({"softmax": softmax, "raw": raw}, range(4)) == (1, "softmax")
    softmax[1, 0] = 0.89  # now a little more than one
    assert tool.recommend({"softmax": softmax, "raw": raw}, range(4)) == (2, "softmax")


def test_layers_that_may_not_filter_are_left_out_and_the_better_scoring_is_taken():
    softmax, raw = np.full((3, 2), 0.5), np.full((3, 2), 0.2)
    softmax[0] = raw[0] = np.nan
    raw[1] = 0.9
    assert tool.recommend({"softmax": softmax, "raw": raw}, (1, 2)) == (1, "raw")
    raw[1], softmax[2] = 0.5, 0.5  # all equal: the scoring that is named first
    assert tool.recommend({"softmax": softmax, "raw": raw}, (1, 2)) == (1, "softmax")


def test_a_single_prompt_has_no_standard_error():
    assert tool.standard_error(np.array([0.3])) == 0
    assert tool.recommend({"softmax": np.array([[0.5], [0.6], [0.6]])}, range(3)) == (1, "softmax")


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
