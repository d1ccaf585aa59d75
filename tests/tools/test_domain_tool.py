"""`featlearn domains` as functions: runs and their pairing, selection, tables, comparison, models and predictions."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from featlearn.core import Key, SettingError
from featlearn.data import DataError, pictures
from featlearn.data.decoding import Scale
from featlearn.methods.domains import VALIDATION, Schedule, Settings
from featlearn.run.cells import cell_hash
from featlearn.run.execute import run, source_of
from featlearn.run.experiment import Table
from featlearn.run.store import Store
from featlearn.tools.domains import models, runs, scores, sources
from featlearn.tools.domains.runs import EXPERIMENT, ORACLE, TEST, Config, cells, divide, run_cell
from featlearn.tools.domains.sources import Network, Source

KEY = Key("tests/tools/domains")
FAST = Schedule(steps=4, batch=4, rate=0.01, evaluate_every=2)


def pictures_in(root):
    """Three domains of red and blue pictures, ten of each."""
    draw = KEY.numpy()
    for d, domain in enumerate(("day", "dusk", "night")):
        for label, colour in (("blue", (20, 20, 200)), ("red", (200, 20, 20))):
            folder = root / "colours" / domain / label
            folder.mkdir(parents=True)
            for i in range(10):
                noisy = tuple(int(c / (1 + d) + draw.integers(0, 40)) for c in colour)
                Image.new("RGB", (8, 8), noisy).save(folder / f"{i}.png")
    return root / "colours"


@pytest.fixture
def tree(tmp_path):
    return pictures_in(tmp_path)


@pytest.fixture(scope="module")
def fit_once(tmp_path_factory):
    """A tree, and the model and record of one fit on it."""
    tree = pictures_in(tmp_path_factory.mktemp("fit"))
    return tree, *fitted(tree)


def made(tree, **changed):
    source = Source(str(tree), size=8)
    found = sources.load(source)
    source = sources.with_fingerprint(source, found)
    config = Config(source, found.names, 2, 3, network=Network(width=8), schedule=FAST, seeds=(0,), device="cpu")
    return found, dataclasses.replace(config, **changed)


# --- runs ------------------------------------------------------------------------------------------------------------


def test_the_cells_are_the_product(tree):
    _, config = made(tree, algorithms=("erm", "erm-nu", "swad"), seeds=(0, 5), search=2)
    found = cells(config)
    assert len(found) == 3 * 3 * 2 * 2
    assert {(c.held_out, c.seed, c.trial) for c in found if c.algorithm == "swad"} == {
        (d, s, t) for d in ("day", "dusk", "night") for s in (0, 5) for t in (0, 1)
    }
    fewer = dataclasses.replace(config, algorithms=("erm-nu",), seeds=(5,), held_out=("dusk",))
    assert set(cells(fewer)) < set(found)  # so that runs made for one table serve another


def test_trials_are_drawn_alike_for_all_algorithms(tree):
    _, config = made(tree, algorithms=("erm", "erm-nu"), search=3, held_out=("day",), seeds=(0, 1))
    by = {(c.algorithm, c.seed, c.trial): c for c in cells(config)}
    for seed in (0, 1):
        assert by["erm-nu", seed, 0].settings == Settings()
        assert by["erm-nu", seed, 0].schedule == FAST
        for trial in (1, 2):
            assert by["erm", seed, trial].schedule == by["erm-nu", seed, trial].schedule
            assert 32 <= by["erm", seed, trial].schedule.batch < 64
            assert by["erm", seed, trial].settings == Settings()
    other = dataclasses.replace(config, settings=Settings(nuclear_weight=0.3, coral_weight=7.0))
    changed = {c for c in cells(other) if c not in set(by.values())}
    assert {c.algorithm for c in changed} == {"erm-nu"}  # a weight that plain ERM does not have makes no new run of it
    weights = {c.settings.nuclear_weight for c in by.values() if c.algorithm == "erm-nu"}
    assert len(weights) == 5  # the given one, and four draws


def test_a_run_has_a_row_per_evaluation_and_one_of_the_average(tree):
    _, config = made(tree, algorithms=("erm", "swad-nu"), held_out=("night",))
    plain, averaged = (run_cell(c).rows for c in cells(config))
    assert [(r["kind"], r["step"]) for r in plain] == [("step", 2), ("step", 4)]
    assert [(r["kind"], r["step"]) for r in averaged] == [("step", 2), ("step", 4), ("average", 4)]
    assert all(0 <= r[m] <= 1 for r in (*plain, *averaged) for m in ("validation", "test", "oracle"))
    assert sum("stable_rank" in r for r in plain) == 1
    assert 1 <= averaged[-1]["stable_rank"] <= 16
    assert averaged[0]["nuclear_weight"] == 0.01
    assert plain[0]["nuclear_weight"] == 0
    assert run_cell(cells(config)[0]).rows == plain


def test_algorithms_start_alike(tree):
    """Before the penalty sets in, two algorithms of a seed are the same run."""
    _, config = made(tree, algorithms=("erm", "erm-nu"), held_out=("day",), settings=Settings(nuclear_start=0.5))
    one, other = (run_cell(c).rows for c in cells(config))
    assert one[0]["training_loss"] == other[0]["training_loss"]
    assert one[1]["validation_loss"] != other[1]["validation_loss"]


def test_nothing_selects_on_what_is_tested(tree):
    found, _ = made(tree)
    parts = divide(found, "dusk", 3)
    assert [p.domain.name for p in parts.training] == ["day", "night"]
    assert [p.domain.name for p in parts.watch[VALIDATION]] == ["day", "night"]
    (test,), (oracle,) = parts.watch[TEST], parts.watch[ORACLE]
    assert (len(test.rows), len(oracle.rows)) == (16, 4)
    assert not set(test.rows.tolist()) & set(oracle.rows.tolist())
    assert test.domain.name == oracle.domain.name == "dusk"
    whole = divide(found, None, 3)
    assert set(whole.watch) == {VALIDATION}
    assert len(whole.training) == 3


def test_files_that_changed_end_the_run(tree):
    _, config = made(tree)
    cell = cells(config)[0]
    (tree / "day" / "red" / "0.png").unlink()
    sources.loaded.cache_clear()
    with pytest.raises(DataError, match="has changed since"):
        run_cell(cell)


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"algorithms": ()}, "algorithm"),
        ({"algorithms": ("erm", "erm")}, "algorithm"),
        ({"algorithms": ("dann",)}, "algorithm"),
        ({"algorithms": ("miro",)}, "pretrained weights"),
        ({"held_out": ("noon",)}, "held_out"),
        ({"seeds": ()}, "seeds"),
        ({"seeds": (-1,)}, "seeds"),
        ({"search": 0}, "search"),
        ({"algorithms": ("coral",), "domains": ("a", "b")}, "at least 3"),
    ],
)
def test_senseless_settings_are_refused(tree, changed, said):
    with pytest.raises(SettingError, match=said):
        made(tree, **changed)


def test_a_second_call_does_what_is_missing(tree, tmp_path):
    _, config = made(tree, algorithms=("erm",), held_out=("day", "dusk"))
    first = run(EXPERIMENT, config, store=tmp_path / "runs")
    assert (first.ok, first.skipped) == (2, 0)
    again = run(EXPERIMENT, dataclasses.replace(config, held_out=()), store=tmp_path / "runs")
    assert (again.ok, again.skipped) == (1, 2)
    assert len(again.table.rows) == 6


def test_other_processes_can_run_a_cell(tree):
    _, config = made(tree)
    assert source_of(EXPERIMENT) == "featlearn.tools.domains.runs"
    assert pickle.loads(pickle.dumps(cells(config))) == cells(config)


def test_the_expected_time_grows_with_the_work(tree):
    _, config = made(tree)
    cell = cells(config)[0]
    more = dataclasses.replace(cell, schedule=dataclasses.replace(FAST, steps=40))
    resnet = dataclasses.replace(cell, network=Network("resnet50"))
    wide = dataclasses.replace(cell, network=Network(width=64))
    assert runs.cost(more).seconds == pytest.approx(10 * runs.cost(cell).seconds)
    assert runs.cost(resnet).seconds > runs.cost(cell).seconds
    assert runs.cost(wide).seconds > runs.cost(cell).seconds


# --- selection and tables ----------------------------------------------------------------------------------------


def row(step=10, validation=0.5, test=0.1, oracle=0.2, *, kind="step", trial=0, name="erm", held_out="a", seed=0):
    return {
        "algorithm": name, "held_out": held_out, "seed": seed, "trial": trial, "kind": kind, "step": step,
        "validation": validation, "test": test, "oracle": oracle,
    }  # fmt: skip


def test_training_domain_selection_takes_the_first_best_of_all_trials():
    rows = [
        row(10, 0.7, 0.1),
        row(20, 0.9, 0.2),
        row(30, 0.9, 0.3),
        row(10, 0.9, 0.4, trial=1),
        row(20, 0.8, 0.5, trial=1),
    ]
    found = scores.choose(rows, "training-domain")
    assert (found.trial, found.step, found.test) == (0, 20, 0.2)
    better = scores.choose([*rows, row(30, 0.95, 0.6, trial=1)], "training-domain")
    assert (better.trial, better.test) == (1, 0.6)
    assert scores.choose([], "oracle") is None


def test_oracle_selection_looks_at_the_last_steps_only():
    rows = [row(10, oracle=0.9), row(20, oracle=0.5, test=0.3), row(20, oracle=0.6, test=0.4, trial=1)]
    found = scores.choose(rows, "oracle")
    assert (found.trial, found.step, found.test) == (1, 20, 0.4)


def test_swad_is_judged_by_its_average():
    rows = [
        row(10, 0.99, 0.1, name="swad"),
        row(20, 0.5, 0.7, kind="average", name="swad"),
        row(15, 0.6, 0.6, kind="average", trial=1, name="swad"),
    ]
    assert scores.choose(rows, "training-domain").test == 0.6
    rows[0] = row(10, 0.99, 0.1)
    plain = scores.choose([row(10, 0.4, 0.1), row(20, 0.9, 0.8, kind="average")], "training-domain")
    assert plain.test == 0.1


def choice(name, held_out, seed, test):
    return scores.Choice(name, held_out, seed, 0, 1, 0.0, test, 0.0)


def test_means_and_standard_errors_by_hand(tree):
    _, config = made(tree, algorithms=("erm",), seeds=(0, 1, 2), held_out=("day", "dusk"))
    found = [choice("erm", d, s, v) for d, values in (("day", (0.5, 0.7, 0.9)), ("dusk", (0.1, 0.3))) for s, v in
             enumerate(values)]  # fmt: skip
    day, dusk, average = scores.scores(cells(config), found)
    assert (day.domain, day.mean, day.expected) == ("day", pytest.approx(0.7), 3)
    assert day.error == pytest.approx(0.2 / math.sqrt(3))
    assert dusk.values == {0: 0.1, 1: 0.3}
    assert dusk.error == pytest.approx(math.sqrt(0.02) / math.sqrt(2))
    assert average.domain == "average"
    assert average.values == {0: pytest.approx(0.3), 1: pytest.approx(0.5)}  # seed 2 has no run of dusk
    one, none, _ = scores.scores(cells(config), found[:1])
    assert (one.mean, one.error) == (0.5, None)
    assert (none.mean, none.error, none.values) == (None, None, {})


def test_a_run_says_whether_swad_found_a_valley(tree):
    """Two evaluations cannot show three without improvement; one of one can."""
    _, config = made(tree, algorithms=("swad",), held_out=("night",))
    valley = dataclasses.replace(config, settings=Settings(swad_converge=1))
    flat, found = (run_cell(cells(c)[0]).rows[-1] for c in (config, valley))
    assert (flat["swad_converged"], flat["swad_first"], flat["swad_last"]) == (False, 2, 2)
    assert (found["swad_converged"], found["swad_first"], found["swad_last"]) == (True, 1, 2)
    assert scores.choose([flat], "training-domain").converged is False
    assert scores.choose([found], "training-domain").converged is True
    assert scores.choose([row()], "training-domain").converged is True


def test_scores_name_the_seeds_without_a_valley(tree):
    _, config = made(tree, algorithms=("swad",), seeds=(0, 1), held_out=("day", "dusk"))
    found = [
        dataclasses.replace(choice("swad", d, s, 0.5), converged=(d, s) != ("dusk", 1))
        for d in ("day", "dusk")
        for s in (0, 1)
    ]
    assert [s.without_valley for s in scores.scores(cells(config), found)] == [(), (1,), (1,)]


def test_runs_without_rows_are_named(tree):
    _, config = made(tree, algorithms=("erm",), seeds=(0,))
    all_cells = cells(config)
    hashes = [cell_hash(EXPERIMENT.id, EXPERIMENT.version, c) for c in all_cells]
    table = Table((), missing=(hashes[0],), failed=(hashes[2],))
    found = scores.missing(all_cells, hashes, table)
    assert [(m.held_out, m.status) for m in found] == [("day", "missing"), ("night", "failed")]


def test_differences_by_hand():
    found = [choice("erm", d, s, v) for d, s, v in (("a", 0, 0.5), ("a", 1, 0.6), ("b", 0, 0.2), ("b", 1, 0.4))]
    found += [choice("erm-nu", d, s, v) for d, s, v in (("a", 0, 0.6), ("a", 1, 0.6), ("b", 0, 0.3), ("b", 1, 0.6))]
    a, b, whole = scores.compare(found, "erm", "erm-nu", ("a", "b"))
    assert (a.domain, a.n, a.mean) == ("a", 2, pytest.approx(0.05))
    assert b.mean == pytest.approx(0.15)
    assert (whole.domain, whole.n, whole.mean) == ("average", 4, pytest.approx(0.1))
    half = 3.182446 * math.sqrt(0.02 / 3) / 2  # t of 3 degrees; squared deviations 0, 0.01, 0, 0.01
    assert (whole.low, whole.high) == (pytest.approx(0.1 - half, rel=1e-5), pytest.approx(0.1 + half, rel=1e-5))
    assert whole.by_seed[0] == pytest.approx(0.1)
    assert whole.by_seed[1] == whole.by_seed[2] == pytest.approx(0.1)  # both seeds: 0.1
    assert scores.compare(found, "erm", "swad", ("a", "b")) == []
    part = scores.compare([f for f in found if (f.held_out, f.seed) != ("b", 1)], "erm", "erm-nu", ("a", "b"))
    assert part[-1].n == 3
    assert part[-1].by_seed is None  # one seed has all domains


# --- models ----------------------------------------------------------------------------------------------------------


def fitted(tree, name="erm-nu", **words):
    found, config = made(tree)
    schedule = dataclasses.replace(FAST, steps=60, evaluate_every=20)
    return models.fit(config.source, found, config.network, name, schedule, Settings(), **words)


def test_a_model_is_kept_with_all_that_prediction_needs(fit_once, tmp_path):
    tree, model, trained = fit_once
    assert trained.best.accuracy[VALIDATION] > 0.8
    models.save(model, tmp_path / "m.pt")
    assert isinstance(torch.load(tmp_path / "m.pt", weights_only=True), dict)
    back = models.load(tmp_path / "m.pt")
    assert back.labels == ("blue", "red")
    assert back.reading == model.reading
    assert back.about["algorithm"] == "erm-nu"
    paths = models.images_in([tree / "dusk", tree / "day" / "red" / "3.png"])
    assert len(paths) == 21
    found = models.predict(back, paths, batch=4)
    x = pictures.read(paths, model.reading)
    with torch.no_grad():
        expected = model.head(model.featurizer(x)).softmax(1)
    torch.testing.assert_close(torch.tensor([p.probabilities for p in found]), expected)
    assert [p.label for p in found] == [model.labels[i] for i in expected.argmax(1).tolist()]
    assert [p.path for p in found] == [str(p) for p in paths]
    right = sum(p.label in p.path for p in found)
    assert right >= 18


def test_a_domain_may_be_left_out_and_swad_is_kept(tree):
    model, trained = fitted(tree, "swad", held_out="night")
    assert set(trained.best.accuracy) == {VALIDATION, TEST, ORACLE}
    assert model.about["held_out"] == "night"
    assert torch.equal(model.head.weight, trained.averaged["classifier.weight"])
    with pytest.raises(DataError, match="one of day, dusk, night"):
        fitted(tree, held_out="noon")
    with pytest.raises(SettingError, match="pretrained"):
        fitted(tree, "miro")


def test_files_that_are_no_images_have_their_reason(fit_once, tmp_path):
    tree, model, _ = fit_once
    (tmp_path / "bad.png").write_bytes(b"x")
    paths = [
        tree / "day" / "red" / "0.png",
        tmp_path / "bad.png",
        tmp_path / "gone.png",
        tree / "day" / "blue" / "0.png",
    ]
    found = models.predict(model, paths)
    assert [bool(p.error) for p in found] == [False, True, True, False]
    assert "cannot be read" in found[1].error
    assert "does not exist" in found[2].error
    alone = models.predict(model, paths[3:])
    assert alone[0].probabilities == pytest.approx(found[3].probabilities, rel=1e-5)
    with pytest.raises(SettingError, match="images"):
        models.images_in([tmp_path / "colours" / "day" / "none"][:0])
    with pytest.raises(SettingError, match="1 or 3"):
        models.predict(dataclasses.replace(model, channels=2), paths)


def test_models_of_grey_digits_read_pictures_in_grey(fit_once):
    featurizer = sources.backbone("cnn", KEY, 1, 8)
    tree, model, _ = fit_once
    grey = dataclasses.replace(model, featurizer=featurizer.eval(), channels=1)
    (found,) = models.predict(grey, [tree / "day" / "red" / "0.png"])
    x = (
        pictures.pixels(pictures.open_rgb(tree / "day" / "red" / "0.png").convert("L").convert("RGB"), 8)[None, :1]
        / 255
    )
    with torch.no_grad():
        expected = model.head(featurizer(x)).softmax(1)[0]
    assert found.probabilities == pytest.approx(expected.tolist())


def test_where_a_model_may_be_written(tmp_path):
    assert models.check_target(tmp_path / "m.pt", False) == tmp_path / "m.pt"
    (tmp_path / "m.pt").write_text("mine")
    with pytest.raises(SettingError, match="--replace"):
        models.check_target(tmp_path / "m.pt", False)
    assert models.check_target(tmp_path / "m.pt", True)
    for path in (tmp_path, tmp_path / "no" / "m.pt"):
        with pytest.raises(SettingError, match="folder that exists"):
            models.check_target(path, True)


def test_files_that_are_no_models(fit_once, tmp_path):
    _, model, _ = fit_once
    models.save(model, tmp_path / "m.pt")
    data = torch.load(tmp_path / "m.pt", weights_only=True)
    torch.save({**data, "format": 99}, tmp_path / "newer.pt")
    torch.save(data["head"], tmp_path / "weights.pt")
    (tmp_path / "text.pt").write_text("hello")
    for name, said in (("newer", "update featlearn"), ("weights", "domains fit"), ("text", "tensors"), ("no", "none")):
        with pytest.raises(SettingError, match=said):
            models.load(tmp_path / f"{name}.pt")


def test_a_model_file_that_is_not_whole(fit_once, tmp_path):
    _, model, _ = fit_once
    models.save(model, tmp_path / "m.pt")
    data = torch.load(tmp_path / "m.pt", weights_only=True)
    bad = {k: v.clone() for k, v in data["head"].items()}
    bad["bias"][0] = math.nan
    for changed, said in (
        ({k: v for k, v in data.items() if k != "labels"}, "labels is missing"),
        ({k: v for k, v in data.items() if k != "format"}, "of format 2 or lower"),
        (data | {"head": bad}, "1 are not, first head.bias"),
        (data | {"featurizer": {}}, "with the tensors of its backbone"),
    ):
        torch.save(changed, tmp_path / "bad.pt")
        with pytest.raises(SettingError, match=said) as e:
            models.load(tmp_path / "bad.pt")
        assert "\n" not in str(e.value)
    old = {k: v for k, v in data.items() if k not in ("depth", "float_range")} | {"format": 1}
    torch.save(old, tmp_path / "old.pt")
    assert models.load(tmp_path / "old.pt").reading.scale == Scale()


def test_a_model_keeps_what_counts_as_white(fit_once, tmp_path):
    _, model, _ = fit_once
    scale = Scale(bits=12, floats=(-1.0, 1.0))
    models.save(dataclasses.replace(model, reading=dataclasses.replace(model.reading, scale=scale)), tmp_path / "m.pt")
    assert models.load(tmp_path / "m.pt").reading.scale == scale


# --- sources and teams -------------------------------------------------------------------------------------------


def test_weights_are_known_by_their_content(tree, tmp_path):
    featurizer = sources.backbone("cnn", KEY, 3, 8)
    torch.save(featurizer.state_dict(), tmp_path / "w.pt")
    network = sources.with_hash(Network(width=8, weights=str(tmp_path / "w.pt")))
    assert len(network.weights_hash) == 16
    built, _ = sources.build(network, 3, 2, KEY / "other")
    assert torch.equal(built.state_dict()["norms.0.weight"], featurizer.state_dict()["norms.0.weight"])
    assert torch.equal(built.convolutions[0].weight, featurizer.convolutions[0].weight)
    torch.save(sources.backbone("cnn", KEY / 1, 3, 8).state_dict(), tmp_path / "w.pt")
    assert sources.with_hash(network).weights_hash != network.weights_hash
    with pytest.raises(SettingError, match="weights"):
        sources.with_hash(Network(weights="nowhere.pt"))
    _, config = made(tree, algorithms=("miro-nu",), network=sources.with_hash(network), held_out=("day",))
    assert len(run_cell(cells(config)[0]).rows) == 2


def test_sources_that_are_not_there():
    with pytest.raises(DataError, match="rotated-mnist"):
        sources.load(Source("nowhere"))
    with pytest.raises(SettingError, match="per_domain"):
        sources.load(Source("nowhere", per_domain=3))


@pytest.mark.parametrize(
    "network, kept",
    [
        (Network("resnet18"), False),
        (Network("resnet18", weights="w.pt"), True),
        (Network("resnet18", frozen=True), True),
        (Network("resnet18", weights="w.pt", frozen=False), False),
        (Network("cnn", weights="w.pt", frozen=True), False),
    ],
    ids=str,
)
def test_batch_norm_is_frozen_where_it_was_trained(network, kept):
    assert network.keeps_statistics is kept


def test_what_counts_as_white_is_fixed_for_the_runs(tree):
    for path in tree.rglob("*.png"):
        Image.fromarray(np.asarray(Image.open(path).convert("L")).astype(np.uint16) * 10).save(path)
    found, config = made(tree)
    assert (config.source.depth, config.source.float_range) == (12, None)
    assert sources.loaded(config.source, 1).scale == found.scale
    stated = sources.with_fingerprint(Source(str(tree), size=8, depth=16), sources.load(Source(str(tree), depth=16)))
    assert stated.depth == 16


def test_homes_that_are_not_there():
    with pytest.raises(DataError, match="is not there"):
        sources.load(Source("~nobody9/pets"))
    with pytest.raises(DataError, match="is not there"):
        sources.load(Source("x" * 300))
    with pytest.raises(SettingError, match="check the path"):
        sources.with_hash(Network(weights="~nobody9/w.pt"))


def test_devices():
    assert sources.device_of("cpu") == torch.device("cpu")
    assert sources.device_of("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(SettingError, match="device"):
        sources.device_of("gpu0")


@pytest.mark.parametrize("name", ["cuda", "cuda:99", "mps", "meta", "xpu"])
def test_devices_that_are_not_here(name, monkeypatch):
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    if name == "cuda":
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SettingError, match="a device that torch sees here: cpu"):
        sources.device_of(name)


def test_store_and_arrays_are_plain(tree, tmp_path):
    _, config = made(tree, algorithms=("erm",), held_out=("day",))
    report = run(EXPERIMENT, config, store=tmp_path)
    (hash_,) = [cell_hash(EXPERIMENT.id, EXPERIMENT.version, c) for c in cells(config)]
    record = Store(tmp_path).read(EXPERIMENT.id, hash_)
    assert record.cell["source"]["data"] == str(tree)
    assert report.failed == 0


def test_gradients_of_processes_travel_as_one_tensor():
    """With a stand-in for the other process, whose gradients are all 3."""
    from featlearn.tools.domains.team import Accelerated

    sent = []

    class Other:
        num_processes = 2

        def reduce(self, flat, reduction):
            sent.append((flat.tolist(), reduction))
            return (flat + 3) / 2

    team = Accelerated.__new__(Accelerated)
    team._accelerator = Other()
    a, b = torch.nn.Parameter(torch.zeros(2, 1)), torch.nn.Parameter(torch.zeros(1))
    a.grad = torch.tensor([[1.0], [5.0]])
    team.gradients([a, b])
    assert sent == [([1, 5, 0], "mean")]
    assert a.grad.tolist() == [[2], [4]]
    assert b.grad.tolist() == [1.5]
    Other.num_processes = 1
    team.gradients([a, b])
    assert len(sent) == 1
