"""Experiments of the gemfilter work on a tiny random model in a folder: smoke presets, selections, refused settings."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from featlearn.core import SettingError
from featlearn.data import DataError
from featlearn.lab.execute import run
from featlearn.lab.experiment import Rows
from featlearn.lab.row import plain
from featlearn.lab.statistics import units_needed
from featlearn.lab.store import Store
from featlearn.works import load_experiment as load
from featlearn.works.gemfilter.experiments.replies import METHODS
from featlearn.works.gemfilter.rows import OURS, Answer

transformers = pytest.importorskip("transformers", reason="needs the llm extra; lift when it is part of the core")

IDS = tuple(
    f"gemfilter/{name}" for name in ("needle", "kinds", "layers", "cost", "minibench", "sparse", "ruler", "target")
)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Folders of a model with its tokenizer (bytes) and of essays."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    root = tmp_path_factory.mktemp("gemfilter")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({c: i for i, c in enumerate([*alphabet, "<end>"])}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<end>"])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>", pad_token="<end>")
    config = transformers.LlamaConfig(
        vocab_size=257,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=256,
        pad_token_id=256,
    )
    model = transformers.LlamaForCausalLM(config)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim > 1:
                p.copy_(torch.randn(p.shape, generator=generator) * 1.5 / math.sqrt(p.shape[-1]))
    model.save_pretrained(root / "model")
    tokenizer.save_pretrained(root / "model")
    (root / "essays").mkdir()
    for i in range(6):
        text = " ".join(f"The {i}th boat left port number {j} with {j % 7 + 2} sailors on board." for j in range(200))
        (root / "essays" / f"e{i}.txt").write_text(text)
    return str(root / "model"), str(root / "essays")


def smoke(id_, places):
    experiment = load(id_)
    model, folder = places
    config = experiment.presets["smoke"]
    changes = {"models": (model,)} if hasattr(config, "models") else {"model": model}
    if hasattr(config, "haystack"):
        changes["haystack"] = folder
    if hasattr(config, "layer"):
        changes["layer"] = 1
    if id_ == "gemfilter/minibench":
        changes |= {"layers": (1,), "length": 3800}
    if id_ == "gemfilter/ruler":
        changes["length"] = 3800
    if id_ == "gemfilter/needle":
        changes |= {"max_new_tokens": 4, "depths": (0.2, 0.8)}
    return experiment, dataclasses.replace(config, **changes)


@pytest.mark.parametrize("id_", IDS)
def test_smoke(id_, places, tmp_path):
    experiment, config = smoke(id_, places)
    assert {"smoke", "small", "paper"} <= set(experiment.presets)
    report = run(experiment, config, store=Store(tmp_path), preset="smoke")
    assert (report.ok, report.failed) == (len(experiment.trials(config)), 0), report.errors
    assert report.summary
    assert all(np.isfinite(r.value) for r in report.summary)
    pictures = experiment.draw(report.table)
    assert pictures
    assert set(pictures) <= {*experiment.reproduces, id_.replace("/", ".")}
    assert all(p.caption and p.data for p in pictures.values())
    for trial in experiment.trials(config):
        assert experiment.cost(trial).seconds > 0


def test_selections_of_the_prefill_are_those_of_pass_one(places):
    from featlearn.data.models import load_model
    from featlearn.methods.gemfilter import RAW, SOFTMAX, generate, select
    from featlearn.works.gemfilter.experiments.prompts import prompt_of, protected_of
    from featlearn.works.gemfilter.experiments.replies import replies

    model, tokenizer = load_model(places[0])
    prompt = prompt_of(tokenizer, places[1], "reported", 0, 700, 0.4, True)
    protected = protected_of(prompt, 3)
    options = {"budgets": (200,), "layer": 2, "scoring": SOFTMAX, "raw_layer": 1, "max_new_tokens": 5}
    found = replies(model, tokenizer, prompt.input_ids[None], protected, **options)
    ours = select(model, prompt.input_ids[None], layer=2, keep=200, protect=protected)
    raw = select(model, prompt.input_ids[None], layer=1, keep=200, scoring=RAW)
    assert found["GemFilter", 200].kept.tolist() == ours.indices[0].tolist()
    assert found["GemFilter raw", 200].kept.tolist() == raw.indices[0].tolist()
    assert set(range(*prompt.question)) <= set(ours.indices[0].tolist())
    text = generate(
        model,
        prompt.input_ids[None],
        layer=2,
        keep=200,
        protect=protected,
        tokenizer=tokenizer,
        max_new_tokens=5,
        do_sample=False,
    ).text[0]
    assert found["GemFilter", 200].text == text
    plain = model.generate(
        prompt.input_ids[None], attention_mask=torch.ones(1, 700), max_new_tokens=5, do_sample=False
    )[:, 700:]
    assert found["Full cache", 700].text == tokenizer.decode(plain[0], skip_special_tokens=True)


@pytest.mark.parametrize(
    "id_, change, says",
    [
        ("gemfilter/needle", {"lengths": ()}, "lengths"),
        ("gemfilter/needle", {"lengths": (64,)}, "lengths = .* at least 128"),
        ("gemfilter/needle", {"depths": (1.5,)}, "depths"),
        ("gemfilter/needle", {"needles": (1, 2, 3)}, "needles = .* one count, or one per length"),
        ("gemfilter/needle", {"keep": 10}, "keep = 10 is not allowed: at least 40"),
        ("gemfilter/needle", {"protect_start": -1}, "protect_start"),
        ("gemfilter/needle", {"model": "nosuch"}, "model = 'nosuch' is neither there nor known"),
        ("gemfilter/layers", {"haystack": "/nowhere"}, "haystack = '/nowhere' is not allowed"),
        ("gemfilter/cost", {"dtype": "float8"}, "dtype = 'float8' is not allowed"),
        ("gemfilter/minibench", {"device": "tpu"}, "device = 'tpu' is not allowed"),
        ("gemfilter/layers", {"keep": 32}, "keep = 32 is not allowed: above 32"),
        ("gemfilter/cost", {"lengths": (8,)}, "lengths"),
        ("gemfilter/cost", {"repeats": (0, 0)}, "repeats"),
        ("gemfilter/minibench", {"shares": (0.0,)}, "shares"),
        ("gemfilter/minibench", {"length": 100}, "length"),
        ("gemfilter/minibench", {"layers": (3, 3)}, "layers"),
        ("gemfilter/sparse", {"windows": ()}, "windows"),
        ("gemfilter/sparse", {"windows": (64, 0)}, "window = 0 is not allowed: a count of at least 1"),
        ("gemfilter/ruler", {"tasks": ("niah",)}, "tasks = .* different ones of niah_single_1"),
        ("gemfilter/ruler", {"models": ()}, "models = .* at least one"),
        ("gemfilter/ruler", {"keep": (256, 256)}, "keep = .* different values"),
        ("gemfilter/ruler", {"keep": (32, 256)}, "keep = 32 is not allowed: at least 40"),
        ("gemfilter/ruler", {"keep": (1024,)}, "length = 1024 is not allowed: at least 1280"),
        ("gemfilter/ruler", {"haystacks": 21}, "haystacks = 21 is not allowed: 1 to 20"),
        ("gemfilter/ruler", {"haystack": "/nowhere"}, "haystack = '/nowhere' is not allowed"),
        ("gemfilter/sparse", {"keep": 30}, "keep = 30 is not allowed: at least 64"),
    ],
)
def test_senseless_settings_are_refused(id_, change, says):
    with pytest.raises((SettingError, DataError), match=says):
        dataclasses.replace(load(id_).presets["small"], **change)


def answers(right):
    """right: (kind of sentence, needle) -> accuracy of GemFilter; the other methods are always right."""
    rows = []
    for (sentence, needle), accuracy in right.items():
        for method in METHODS:
            for depth in (0.1, 0.9):
                row = Answer(
                    length=1024,
                    sentence=sentence,
                    needle=needle,
                    depth=depth,
                    method=method,
                    accuracy=accuracy if method == OURS else 100.0,
                    needle_score=0.5,
                    recall=None,
                    reply="",
                )
                rows.append(plain(row))
    return Rows(tuple(rows))


def test_kinds_of_sentence_are_the_units_and_their_needles_count_together():
    table = answers({(0, 0): 0.0, (0, 2): 0.0, (0, 4): 0.0, (1, 1): 100.0})
    found = {(r.row, r.metric): r for r in load("gemfilter/needle").summarise(table)}
    gap = found["GemFilter - full", "difference"]
    assert (gap.value, gap.n) == (-50.0, 2)  # not -75, which four needles would give
    assert gap.high > 0  # two kinds that disagree say nothing
    needed = next(r for (row, metric), r in found.items() if row == "GemFilter - full" and metric.startswith("kinds"))
    assert needed.value == units_needed(50 * 2**0.5, 5.0)


def test_reported_scores_of_other_models_are_said_not_to_be_comparable():
    found = load("gemfilter/needle").summarise(answers({(0, 0): 100.0, (1, 1): 100.0}))
    beside = [r for r in found if r.reported is not None]
    assert {r.verdict for r in beside} == {"not comparable"}
    assert {r.reported for r in beside if r.row == OURS} == {0.87, 0.91, 0.838}
    assert all(r.verdict == "not reported" for r in found if r.reported is None)


def test_an_experiment_of_many_kinds_has_one_needle_and_one_text_for_each():
    from featlearn.works.gemfilter.experiments.prompts import needle_number, sentence_of

    experiment = load("gemfilter/kinds")
    trials = experiment.trials(experiment.presets["paper"])
    assert len({t.needle for t in trials}) >= 85
    assert [sentence_of("kinds", t.needle) for t in trials] == [t.needle for t in trials]
    assert needle_number("kinds", 7).sentence != needle_number("reported", 7).sentence
    with pytest.raises(SettingError, match="at most"):
        dataclasses.replace(experiment.presets["small"], needles=(1000,))
    with pytest.raises(SettingError, match="no part of any choice"):
        dataclasses.replace(experiment.presets["small"], which="validation")


def test_needles_do_not_depend_on_how_many_are_used():
    needle = load("gemfilter/needle")
    few = dataclasses.replace(needle.presets["small"], needles=(1,))
    more = dataclasses.replace(needle.presets["small"], needles=(3, 2))
    assert set(needle.trials(few)) <= set(needle.trials(more))
    assert len(needle.trials(more)) == 5


def test_share_of_products_is_that_of_the_pattern():
    from featlearn.methods.gemfilter import SinksAndWindow
    from featlearn.works.gemfilter.experiments.sparse import products_of

    n, sinks, window, tail = 50, 3, 7, 5
    seen = sum(
        j <= i and (j < sinks or i - j < window or i >= n - tail) for i in range(n) for j in range(n)
    )  # the definition in the docstring of SinksAndWindow
    assert products_of(n, SinksAndWindow(sinks, window, 2), tail) == pytest.approx(seen / (n * (n + 1) / 2))
    assert products_of(n, SinksAndWindow(0, n, 1), 1) == pytest.approx(1)
    assert products_of(n, "full", tail) == 1


def test_the_exact_pass_of_the_sparse_experiment_is_that_of_needles(places, tmp_path):
    """Another loop over the layers, the same tokens and replies; a window as long as the prompt changes nothing."""
    options = {"model": places[0], "haystack": places[1], "lengths": (600,), "depths": (0.3,), "keep": 128, "layer": 2}
    tables = {}
    for id_, more in (("gemfilter/needle", {}), ("gemfilter/sparse", {"windows": (600, 8)})):
        experiment = load(id_)
        config = dataclasses.replace(experiment.presets["smoke"], **options, **more)
        report = run(experiment, config, store=Store(tmp_path))
        assert report.ok == 1, report.errors
        tables[id_] = {r.get("method", r.get("window")): r for r in report.table.rows}
    [needle, sparse] = tables.values()
    for window in (None, 600):
        assert sparse[window]["reply"] == needle["GemFilter"]["reply"]
        assert sparse[window]["recall"] == needle["GemFilter"]["recall"]
    assert sparse[8]["products"] < 50


def test_caches_of_one_method_are_gone_before_the_next_is_measured(places, monkeypatch):
    """A peak counts all that is in memory."""
    import gc

    from featlearn.methods.kv_eviction import Prefilled
    from featlearn.works.gemfilter.experiments import cost

    measured, alive = cost.measured, []

    def watched(device, tokens, work):
        alive.append((tokens, sum(type(o) is Prefilled for o in gc.get_objects())))
        return measured(device, tokens, work)

    monkeypatch.setattr(cost, "measured", watched)
    experiment, config = smoke("gemfilter/cost", places)
    experiment.run_trial(experiment.trials(dataclasses.replace(config, lengths=(100,), keep=50))[0])
    prompts = [count for tokens, count in alive if tokens >= 50]
    assert prompts == [0] * 8  # full, pass one, pass two, SnapKV; once to warm up
    assert {count for tokens, count in alive if tokens < 50} == {1}
