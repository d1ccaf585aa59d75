"""Label noise and attention on language models: what a row holds, what a summary splits, what is refused."""

import dataclasses
import itertools
import math
import statistics

import numpy as np
import pytest
import torch
from mutation import CHECKOUT

from featlearn import catalog
from featlearn.core import Key, SettingError
from featlearn.data.reviews import Labelled
from featlearn.errors import DataError
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import verdict_of
from featlearn.lab.experiment import Rows
from featlearn.lab.find import latest_complete
from featlearn.lab.quantity import REAL
from featlearn.lab.row import plain
from featlearn.lab.store import Store
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import mean_of
from featlearn.tasks.demonstrations import drawn
from featlearn.works import load_experiment
from featlearn.works.gemfilter.setup import decoder
from featlearn.works.icl_scale.claims import language_models
from featlearn.works.icl_scale.experiments import attention, label_noise
from featlearn.works.icl_scale.rows import Flips, Focus

CLAIMS = {c.id: c for c in language_models.CLAIMS}
EVIDENCE = Store("runs-that-are-not-there", below=[CHECKOUT / "evidence"])
LABELS = tuple(i % 2 for i in range(60))
TASK = Labelled("movies", tuple(f"text number {i}" for i in range(60)), LABELS, ("negative", "positive"))
SMALL = label_noise.Config(
    model=("smollm2-135m",), tasks=("movies",), rates=(0.0, 0.5, 1.0), shots=4, sets=2, queries=6
)


@pytest.fixture(scope="module")
def letters():
    """A fast tokenizer of one token a letter."""
    transformers = pytest.importorskip("transformers", reason="pip install 'featlearn[llm]'")
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    known = {c: i for i, c in enumerate(["?", "\n", *map(chr, range(32, 127))])}
    made = Tokenizer(models.WordLevel({**known, "<unk>": 0}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)


@pytest.fixture
def tiny(monkeypatch, letters):
    kinds = ["sliding_attention", "full_attention"] * 2
    model = decoder(Key("tests/label_noise"), family="gemma3_text", sliding_window=16, layer_types=kinds)
    for module in (label_noise, attention):
        monkeypatch.setattr(module, "loaded", lambda *_: (model, letters))
        monkeypatch.setattr(module, "task_of", lambda *_: TASK)
    return model


def answering(monkeypatch, rule):
    """A model that gives the label `rule(prompt, true label)` log-odds of 2, and behind no content the bias of 5."""

    def scores(model, tokenizer, prompts, labels, *, batch):
        assert labels == [" negative", " positive"]
        found = []
        for prompt in prompts:
            asked = prompt.rsplit("sentence: ", 1)[1].removesuffix("\nThe answer is")
            if asked in label_noise.CONTENT_FREE:
                found.append([0.0, 5.0])
                continue
            y = rule(prompt, TASK.labels[TASK.texts.index(asked)])
            found.append([0.0, 5.0 + (2.0 if y else -2.0)])
        return torch.tensor(found)

    monkeypatch.setattr(label_noise, "label_scores", scores)


def run(config):
    trials = label_noise.trials(config)
    return [row for trial in trials for row in label_noise.run_trial(trial).rows]


def summary(rows):
    found = label_noise.summarise(Rows(tuple({**plain(r), "trial": str(i)} for i, r in enumerate(rows))))
    return {(r.setting, r.metric): r.value for r in found}


def follows(prompt, true):
    """True labels where the demonstrations have them, else the others."""
    first = prompt.split("sentence: ")[1]
    text, _, word = first.partition("\nThe answer is ")
    shown_right = TASK.words[TASK.labels[TASK.texts.index(text)]] == word.strip().rstrip(".")
    return true if shown_right else 1 - true


def test_a_model_that_ignores_the_prompt_has_only_pretraining(tiny, monkeypatch):
    answering(monkeypatch, lambda prompt, true: true)
    rows = run(SMALL)
    assert {r.calibrated for r in rows} == {100.0}
    assert {r.raw for r in rows} == {50.0}  # the bias of 5 answers for every text
    assert {r.bias for r in rows} == {5.0}
    assert {r.margin for r in rows} == {2.0}
    found = summary(rows)
    assert found["0 to 100 % inverted", "pretraining, of accuracy"] == 100
    assert found["0 to 100 % inverted", "prompt, of accuracy"] == 0
    assert found["0 to 100 % inverted", "pretraining, of the log-odds"] == 2
    assert found["0 to 100 % inverted", "prompt, of the log-odds"] == 0


def test_a_model_that_follows_the_prompt_has_only_the_prompt(tiny, monkeypatch):
    answering(monkeypatch, follows)
    found = summary(run(dataclasses.replace(SMALL, rates=(0.0, 1.0))))
    assert found["0 to 100 % inverted", "pretraining, of accuracy"] == 0
    assert found["0 to 100 % inverted", "prompt, of accuracy"] == 100
    assert found["0 to 100 % inverted", "prompt, of the log-odds"] == 2
    assert found["100 % inverted", "calibrated, all tasks"] == 0


def test_rows_have_the_flips_that_were_asked_for_and_the_same_queries_at_every_rate(tiny, monkeypatch):
    asked = {}

    def scores(model, tokenizer, prompts, labels, *, batch):
        asked.setdefault(len(asked), [p.rsplit("sentence: ", 1)[1] for p in prompts])
        return torch.zeros(len(prompts), 2)

    monkeypatch.setattr(label_noise, "label_scores", scores)
    rows = run(dataclasses.replace(SMALL, sets=1))
    assert [r.inverted for r in rows] == [0, 2, 4]
    assert {(r.shown, r.queries) for r in rows} == {(4, 6)}
    assert asked[0] == asked[1] == asked[2]
    again = run(dataclasses.replace(SMALL, sets=1, longest=160))
    assert {r.shown for r in again} == {2}
    assert [r.inverted for r in again][::2] == [0, 2]


def test_a_real_forward_gives_the_accuracy_of_the_larger_score(tiny, letters):
    from featlearn.methods.in_context import label_scores
    from featlearn.tasks.demonstrations import Template

    [row] = run(dataclasses.replace(SMALL, sets=1, rates=(0.0,)))
    shown = drawn(LABELS, 4, 6, Key("icl_scale/label_noise") / "movies" / 0)
    demonstrations = [(TASK.texts[i], TASK.words[LABELS[i]]) for i in shown.demonstrations]
    right, margins = [], []
    for i in shown.queries:
        prompt = Template().prompt(demonstrations, TASK.texts[i])
        [no, yes] = label_scores(tiny, letters, [prompt], [" negative", " positive"], share=False)[0].tolist()
        right.append((yes > no) == bool(LABELS[i]))
        margins.append((yes - no) * (1 if LABELS[i] else -1))
    assert row.raw == pytest.approx(100 * np.mean(right))
    assert row.margin == pytest.approx(np.mean(margins), abs=1e-4)


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"model": ()}, "model"),
        ({"model": ("a", "a")}, "model"),
        ({"model": ("./not/there",)}, "model"),
        ({"dataset": "no.csv"}, "dataset"),
        ({"tasks": ("songs",)}, "tasks"),
        ({"template": "{text}"}, "template"),
        ({"words": ("yes",)}, "words"),
        ({"words": ("yes", "yes")}, "words"),
        ({"rates": (0.5, 1.5)}, "rates"),
        ({"rates": ()}, "rates"),
        ({"shots": 0}, "shots"),
        ({"queries": 0}, "queries"),
        ({"longest": -1}, "longest"),
    ],
)
def test_settings_that_cannot_work_are_refused_in_one_line(changes, says):
    with pytest.raises((SettingError, DataError), match=says) as refused:
        dataclasses.replace(SMALL, **changes)
    assert "\n" not in str(refused.value)


def test_a_file_of_the_users_is_read_before_any_work(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("text,label\n" + "".join(f"text {i},{'ab'[i % 2]}\n" for i in range(10)))
    with pytest.raises(SettingError, match="queries"):
        label_noise.Config(dataset=str(path), shots=4, queries=8)
    config = label_noise.Config(dataset=str(path), shots=4, queries=6)
    assert config.names() == ("own",)
    first = label_noise.trials(config)[0].content
    path.write_text(path.read_text().replace("text 3", "other"))
    assert label_noise.trials(config)[0].content != first  # another file, other trials


def test_an_estimate_grows_with_the_size_that_a_name_says():
    made = {
        m: label_noise.trials(dataclasses.replace(SMALL, model=(m,)))[0]
        for m in ("smollm2-135m", "x/y-1b", "x/y-70B-hf")
    }
    small, middle, large = (label_noise.cost(t) for t in made.values())
    assert small.seconds < middle.seconds < large.seconds
    assert large.seconds == pytest.approx(70 * middle.seconds)
    assert large.mib > 250_000 > 10_000 > small.mib


def test_a_line_end_in_the_template_may_be_written_with_a_backslash():
    assert label_noise.Config(template="{text}\\nlabel: {label}").written().question("a") == "a\nlabel:"


def test_attention_counts_the_two_sentences_and_both_labels(tiny):
    [trial, *_] = attention.trials(attention.Config(model=("smollm2-135m",), sentences=4))
    rows = attention.run_trial(trial).rows
    assert {(r.label, r.order) for r in rows} == set(
        itertools.product(("correct", "wrong"), ("relevant first", "irrelevant first"))
    )
    for p in tiny.parameters():
        p.data.zero_()
    for row in attention.run_trial(trial).rows:
        assert row.focus == pytest.approx(0, abs=1e-4)  # equal attention
        assert row.relevant < row.irrelevant  # the irrelevant sentence is the longer one
        assert math.isfinite(row.relevant)


# --- claims on planted rows ------------------------------------------------------------------------------------------


def planted(chat=(80.0, 78.0), base=(80.0, 78.0), margin=1.0, sets=8):
    rng = Key("tests/planted").numpy()
    rows = []
    for (model, ends), task, i in itertools.product(
        ((language_models.CHAT, chat), (language_models.BASE, base)), ("movies", "products"), range(sets)
    ):
        for rate in (0.0, 1.0):
            value = float(np.clip(ends[0] + rate * (ends[1] - ends[0]) + rng.normal(), 0, 100))
            more = {"shown": 16, "inverted": round(16 * rate), "queries": 48, "raw": value, "bias": 0.0}
            at = margin if rate else 1.5
            rows.append(
                Flips(
                    model=model, task=task, rate=rate, set=i, calibrated=value, margin=at + 0.05 * rng.normal(), **more
                )
            )
    return Table.of(Flips, rows)


def looked(chat=0.3, base=0.3, near=1.0, sentences=30):
    """near: how much more a label looks at the relevant sentence where that is the nearer one, and less where not."""
    rng = Key("tests/looked").numpy()
    rows = []
    for (model, mean), label, order, i in itertools.product(
        ((language_models.CHAT, chat), (language_models.BASE, base)),
        ("correct", "wrong"),
        ("relevant first", "irrelevant first"),
        range(sentences),
    ):
        focus = mean + (near if order == "irrelevant first" else -near) + 0.3 * rng.normal()
        rows.append(
            Focus(
                model=model,
                task="movies",
                label=label,
                order=order,
                sentence=i,
                relevant=2.0**focus * 2,  # four times as long as the irrelevant one
                irrelevant=1.0,
                focus=focus,
            )
        )
    return Table.of(Focus, rows)


def as_rows(table):
    return Rows(tuple({**plain(r), "trial": str(i)} for i, r in enumerate(table.rows)))


def test_tables_and_pictures_of_both_experiments():
    found = {(r.setting, r.row, r.metric): r for r in label_noise.summarise(as_rows(planted(base=(90.0, 70.0))))}
    gap = found["0 to 100 % inverted", "smollm2-135m - gemma3-270m", "drop"]
    assert gap.value == pytest.approx(2 - 20, abs=1)
    assert gap.n == 8
    assert found["100 % inverted", language_models.BASE, "calibrated, movies"].value == pytest.approx(70, abs=1)
    for name in ("all tasks", "movies", "products"):
        assert found[name, language_models.BASE, "drop"].value == pytest.approx(20, abs=1.5)
        left = found[name, language_models.BASE, "a quarter of the skill less the drop"]
        assert left.value == pytest.approx(0.25 * 80 - 20, abs=2)
        assert left.n == 8
    [picture] = label_noise.draw(as_rows(planted())).values()
    assert len(picture.figure.axes) == 2
    found = {(r.setting, r.row, r.metric): r for r in attention.summarise(as_rows(looked()))}
    assert found["label wrong", language_models.CHAT, "focus"].value == pytest.approx(0.3, abs=0.2)
    both, first = (
        found[f"label wrong{order}", language_models.CHAT, "log2 of norms"].value for order in ("", ", relevant first")
    )
    assert both == pytest.approx(1.3, abs=0.2)
    assert first == pytest.approx(0.3, abs=0.2)
    [picture] = attention.draw(as_rows(looked())).values()
    assert len(picture.figure.axes) == 4
    assert label_noise.draw(Rows(())) == attention.draw(Rows(())) == {}


def judged(name, table):
    return {f.statement.name: f.outcome for f in verdict_of(CLAIMS[name], Key("verify"), [table]).findings}


@pytest.mark.parametrize("name", ["icl_scale.label_noise_chat", "icl_scale.label_noise_base"])
def test_a_flat_model_is_told_from_one_that_follows_and_from_one_that_guesses(name):
    assert set(judged(name, planted()).values()) == {"confirmed"}
    follower = planted(chat=(80.0, 20.0), base=(80.0, 20.0), margin=-1.5)
    assert judged(name, follower) == {
        language_models.QUARTER: "contradicted",
        language_models.STAYS: "contradicted",
        language_models.ABOVE: "contradicted",
    }
    guesser = planted(chat=(50.0, 50.0), base=(50.0, 50.0), margin=0.0)
    assert "confirmed" not in judged(name, guesser).values()
    assert verdict_of(CLAIMS[name], Key("verify"), [guesser]).scope == "premise unmet"
    assert verdict_of(CLAIMS[name], Key("verify"), [planted()]).scope == "other size"


def test_a_comparison_of_the_two_models_never_stands_as_one_of_sizes():
    verdict = verdict_of(CLAIMS["icl_scale.label_noise_scale"], Key("verify"), [planted(base=(90.0, 60.0))])
    assert verdict.reported == "confirmed"
    assert verdict.scope == "premise unmet"
    assert not verdict.covers
    assert judged("icl_scale.label_noise_scale", planted())[language_models.MORE] == "contradicted"


@pytest.mark.parametrize("name", ["icl_scale.attention_chat", "icl_scale.attention_base"])
def test_focus_is_told_from_equal_attention_in_each_order_and_over_both(name):
    assert set(judged(name, looked()).values()) == {"confirmed"}
    away = judged(name, looked(-0.5, -0.5, near=0.0))
    assert away[language_models.MAIN] == away[language_models.NEAR] == "contradicted"
    mainly = judged(name, looked(1.0, 1.0, near=0.0))
    assert mainly[language_models.HALF_MORE] == mainly[language_models.FAR] == "contradicted"
    far = judged(name, looked(near=-1.0))  # a label that looks at what stands far from it
    assert far[language_models.NEAR] == far[language_models.FAR] == "contradicted"


def test_focus_of_two_models_is_compared():
    assert judged("icl_scale.attention_scale", looked(1.5, 1.0))[language_models.LESS] == "confirmed"
    assert judged("icl_scale.attention_scale", looked())[language_models.LESS] == "contradicted"


@pytest.mark.parametrize("name", ["icl_scale.attention_chat", "icl_scale.attention_base", "icl_scale.attention_scale"])
def test_what_is_asked_of_attention_is_ours_and_covers_nothing(name):
    verdict = verdict_of(CLAIMS[name], Key("verify"), [looked(1.5, 1.0)])
    assert {f.statement.form for f in verdict.findings} == {"derived"}
    assert not verdict.covers


@pytest.mark.parametrize("name", CLAIMS)
def test_planted_numbers_are_told_apart(name):
    table = looked(0.5, 0.2) if "attention" in name else planted(base=(90.0, 87.0))
    assert blind(CLAIMS[name], Key("verify"), [table]) == []
    assert apart(CLAIMS[name], Key("verify"), [table]) == []


def test_the_figures_wait_for_their_models_whatever_small_ones_show(catalog_kept):
    found = {e["id"]: (e["verdict"], e["covered"]) for e in catalog.read()["entries"]}
    for figure in ("5_1", "5_2", "5_3"):
        assert found[f"icl_scale.figure{figure}"] == ("data needed", False)


# --- numbers in words ------------------------------------------------------------------------------------------------


def committed(kind):
    found = latest_complete(load_experiment(kind.experiment), EVIDENCE, ("cpu",))
    return found.table


def shown(row, digits=1):
    return f"{row.value:.{digits}f} [{row.low:.{digits}f}, {row.high:.{digits}f}]"


def quarter(rows, model, score, unit):
    """A quarter of the skill less the drop, with its 95 % interval over tasks or over sets."""
    of = {rate: {} for rate in (0, 1)}
    for r in rows.of(Flips).rows:
        if r.model == model and r.rate in of:
            of[r.rate].setdefault(getattr(r, unit), []).append(getattr(r, score))
    before, after = ({u: statistics.mean(v) for u, v in found.items()} for found in of.values())
    made = mean_of([(2 * v - 100) / 4 - (v - after[u]) for u, v in before.items()], REAL, unit)
    low, high = made.at(0.95)
    return f"{made.value:.1f} [{low:.1f}, {high:.1f}]"


@pytest.mark.parametrize("name, model", [("chat", language_models.CHAT), ("base", language_models.BASE)])
def test_numbers_in_the_remarks_are_those_of_the_rows(name, model):
    rows = committed(Flips)
    found = {(r.setting, r.metric): r for r in label_noise.summarise(rows) if r.row == model}
    words = CLAIMS[f"icl_scale.label_noise_{name}"].remarks
    assert f"is {shown(found['all tasks', 'drop'])} points" in words
    skill = 2 * found["0 % inverted", "calibrated, all tasks"].value - 100
    assert f"{found['all tasks', 'drop'].value / skill:.2f} of the skill" in words
    if name == "chat":
        for task in ("editorials", "tweets"):
            assert f"{task}, {shown(found[task, 'a quarter of the skill less the drop'])}" in words
    assert f"with the task as unit it is {quarter(rows, model, 'calibrated', 'task')}" in words.lower()
    if name == "base":
        assert f"By raw accuracies it is {quarter(rows, model, 'raw', 'set')}" in words
    below = [r for r in rows.of(Flips).rows if r.model == model and r.rate == 1 and r.calibrated < 50]
    assert f"{len(below)} of 32 sets and tasks" in words
    found = {(r.setting, r.metric): r for r in attention.summarise(committed(Focus)) if r.row == model}
    words = CLAIMS[f"icl_scale.attention_{name}"].remarks
    for label in ("correct", "wrong"):
        assert shown(found[f"label {label}", "log2 of norms"], 2) in words
        near = found[f"label {label}, irrelevant first", "log2 of norms"].value
        assert f"{2**near:.1f}" in words
    if name == "base":
        assert shown(found["label wrong", "focus"], 2) in words
