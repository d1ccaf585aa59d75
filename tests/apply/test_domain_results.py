"""What an evaluation comes to: selection by domains that are held out, measures, levels, settings for a fit, files."""

import dataclasses
import shutil

import numpy as np
import pytest
import torch
from colours import FAST, made, pictures_in
from PIL import Image

from featlearn.apply.domains import models, scoring, sources
from featlearn.apply.domains.measures import Measures
from featlearn.apply.domains.nearest import nearest
from featlearn.apply.domains.page import evaluation_page, spanned
from featlearn.apply.domains.results import best_settings, measured, results, rows_of, summary_rows
from featlearn.apply.domains.runs import EXPERIMENT, Config, trials
from featlearn.apply.domains.scores import AVERAGE, Choice, by_other_domains, choices, choose
from featlearn.apply.domains.scoring import ALL
from featlearn.apply.domains.sources import Network, Source
from featlearn.core import SettingError
from featlearn.lab.execute import hashes_of, run
from featlearn.lab.experiment import Rows
from featlearn.lab.store import Store
from featlearn.lab.trial import fields_of, trial_hash
from featlearn.methods.domains import Schedule, Settings
from featlearn.report import export


@pytest.fixture
def tree(tmp_path):
    return pictures_in(tmp_path)


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """An evaluation with a search, by all selections."""
    folder = tmp_path_factory.mktemp("searched")
    found, config = made(
        pictures_in(folder), algorithms=("erm", "swad-nu"), seeds=(0, 1), search=2, second=True, schedule=FAST
    )
    report = run(EXPERIMENT, config, store=folder / "runs")
    return found, config, report, folder / "runs"


def results_of(searched, selection="training-domain"):
    found, config, report, _ = searched
    planned = trials(config)
    hashes = hashes_of(EXPERIMENT, planned)
    return results("colours", found.labels, found.names, planned, hashes, report.table, selection)


# --- what a run is -------------------------------------------------------------------------------------------------


def hashes(config):
    return [trial_hash(EXPERIMENT.id, EXPERIMENT.version, t) for t in trials(config)]


def test_a_run_is_what_it_is_made_from_wherever_that_lies(tree, tmp_path):
    weights = tmp_path / "w.pt"
    featurizer = sources.backbone("cnn", sources.Key("w"), 3, 8)
    torch.save(featurizer.state_dict(), weights)
    network = sources.with_hash(Network(width=8, weights=str(weights)))
    _, config = made(tree, network=network)
    before = hashes(config)
    shutil.move(tree, tmp_path / "elsewhere")
    shutil.move(weights, tmp_path / "other name.pt")
    moved = sources.with_hash(Network(width=8, weights=str(tmp_path / "other name.pt")))
    _, config = made(tmp_path / "elsewhere", network=moved)
    assert hashes(config) == before
    assert hashes(dataclasses.replace(config, device="auto", checkpoints="somewhere")) == before
    plain = dataclasses.replace(config.source, skip_unreadable=True, merge_case=True)
    assert hashes(dataclasses.replace(config, source=plain)) == before
    files = sorted((tmp_path / "elsewhere").rglob("*.png"))
    for i, file in enumerate(files):
        file.rename(file.with_name(f"{len(files) - i}.jpg.png"))  # in the opposite order
    _, renamed = made(tmp_path / "elsewhere", network=moved)
    assert hashes(renamed) == before
    with open(tmp_path / "list.csv", "w") as f:
        f.write("path,label,domain\n")
        for file in reversed(sorted((tmp_path / "elsewhere").rglob("*.png"))):
            f.write(f"{file},{file.parent.name},{file.parent.parent.name}\n")
    _, listed = made(tmp_path / "list.csv", network=moved)
    assert hashes(listed) == before
    assert set(fields_of(trials(listed)[0])) >= {"source", "network"}
    assert "data" not in fields_of(trials(listed)[0])["source"]


def test_a_run_changes_with_what_it_is_made_from(tree):
    _, config = made(tree)
    before = set(hashes(config))
    for changed in (
        {"schedule": dataclasses.replace(FAST, steps=5)},
        {"balance": "batches"},
        {"splitting": dataclasses.replace(config.splitting, kind="random")},
        {"network": Network(width=16)},
    ):
        assert not before & set(hashes(dataclasses.replace(config, **changed)))
    image = tree / "day" / "red" / "0.png"
    Image.new("RGB", (8, 8), (1, 2, 3)).save(image)
    assert not before & set(hashes(made(tree)[1]))
    before |= set(hashes(made(tree)[1]))
    image.rename(tree / "day" / "blue" / "0 of red.png")
    assert not before & set(hashes(made(tree)[1]))
    before |= set(hashes(made(tree)[1]))
    for domain in ("day", "dusk", "night"):
        (tree / domain / "red").rename(tree / domain / "ruby")
    assert not before & set(hashes(made(tree)[1]))


def test_rows_are_the_same_wherever_the_images_lie(tree, tmp_path):
    _, config = made(tree, algorithms=("erm",), held_out=("day",))
    one = EXPERIMENT.run_trial(trials(config)[0])
    for i, file in enumerate(sorted(tree.rglob("*.png"))):
        file.rename(file.with_name(f"{99 - i}.png"))
    shutil.move(tree, tmp_path / "moved")
    sources.loaded.cache_clear()
    _, config = made(tmp_path / "moved", algorithms=("erm",), held_out=("day",))
    other = EXPERIMENT.run_trial(trials(config)[0])
    assert one.rows == other.rows


def test_what_tells_runs_from_those_asked_for(searched):
    found, config, _, store = searched
    records = Store(store).records(EXPERIMENT.id)
    longer = dataclasses.replace(config, schedule=dataclasses.replace(FAST, steps=6), search=1, second=False)
    near = nearest(records, trials(longer), "erm")
    assert dict(near.differs) == {"--steps": (4, 6)}
    assert "differ in --steps (4 there, 6 here)" in near.told()
    drawn = dataclasses.replace(longer, search=2)  # with batches that no run has
    assert dict(nearest(records, trials(drawn), "erm").differs) == {"--steps": (4, 6)}
    moved = dataclasses.replace(config, source=dataclasses.replace(config.source, fingerprint="f" * 16), search=1)
    assert list(nearest(records, trials(moved), "erm").differs) == ["the contents of --data"]
    weight = dataclasses.replace(config, settings=Settings(nuclear_weight=0.5), search=1)
    assert list(nearest(records, trials(weight), "swad-nu").differs) == ["--nuclear-weight"]
    assert nearest(records, trials(config), "irm") is None
    other = dataclasses.replace(config, algorithms=("irm",))
    assert nearest(records, trials(other), "irm") is None
    old = [dataclasses.replace(r, version=2) for r in records]
    assert "an earlier version" in nearest(old, trials(config), "erm").told()
    assert found.fingerprint == config.source.fingerprint


# --- selection by domains that are held out ------------------------------------------------------------------------


def row(held_out, step, draw=0, second="", kind="step", **more):
    base = {"algorithm": "erm", "held_out": held_out, "second": second, "seed": 0, "draw": draw, "step": step}
    return base | {"kind": kind, "validation": 0.5, "test": 0.1, "oracle": 0.2, "trial": "t"} | more


def test_other_domains_select_by_their_mean():
    rows = [
        row("a", 10, second="b", test=0.9, second_accuracy=0.2),  # b was not seen: 0.2; for b, a was not: 0.9
        row("a", 10, second="c", test=0.8, second_accuracy=0.4),
        row("b", 10, second="c", test=0.7, second_accuracy=0.6),
        row("a", 20, second="b", test=0.1, second_accuracy=0.5),  # c is missing
    ]
    domains = ("a", "b", "c")
    assert by_other_domains(rows, "a", domains) == {(0, 10): pytest.approx((0.2 + 0.4) / 2)}
    assert by_other_domains(rows, "b", domains) == {(0, 10): pytest.approx((0.9 + 0.6) / 2)}
    assert by_other_domains(rows, "c", domains) == {(0, 10): pytest.approx((0.8 + 0.7) / 2)}


def test_leave_one_domain_out_takes_the_draw_and_the_step_that_others_like():
    rows = [row("a", 10, validation=0.9), row("a", 20), row("a", 10, 1), row("a", 20, 1, test=0.7)]
    by = {(0, 10): 0.3, (0, 20): 0.4, (1, 10): 0.2, (1, 20): 0.6}
    found = choose(rows, "leave-one-domain-out", by)
    assert (found.draw, found.step, found.test, found.by) == (1, 20, 0.7, 0.6)
    assert choose(rows, "training-domain").step == 10
    assert choose(rows, "leave-one-domain-out", {}) is None
    pair = [row("a", 10, second="b", validation=1.0, second_accuracy=0.5)]
    assert choose([*rows, *pair], "training-domain").validation == 0.9  # such runs are no candidates


def test_runs_without_two_domains_are_planned_once(tree):
    _, config = made(tree, algorithms=("erm",), second=True)
    away = [(t.held_out, t.second) for t in trials(config)]
    assert away == [("day", ""), ("dusk", ""), ("night", ""), ("day", "dusk"), ("day", "night"), ("dusk", "night")]
    one = dataclasses.replace(config, held_out=("dusk",))
    assert [(t.held_out, t.second) for t in trials(one)] == [("dusk", ""), ("day", "dusk"), ("dusk", "night")]
    assert set(hashes(one)) < set(hashes(config))
    with pytest.raises(SettingError, match="leave-one-domain-out selection holds two out"):
        dataclasses.replace(config, domains=("day", "night"))


def test_selections_choose_from_the_same_runs(searched):
    found, _, report, _ = searched
    for selection in ("training-domain", "leave-one-domain-out", "oracle"):
        chosen = choices(report.table, selection, found.names)
        assert len(chosen) == 2 * 3 * 2
    by = {(c.algorithm, c.held_out, c.seed): c for c in choices(report.table, "leave-one-domain-out", found.names)}
    rows = [r for r in report.table.rows if r["second"] and r["algorithm"] == "erm" and r["seed"] == 0]
    mine = [r for r in rows if "day" in (r["held_out"], r["second"])]
    best = {}
    for r in mine:
        value = r["second_accuracy"] if r["held_out"] == "day" else r["test"]
        best.setdefault((r["draw"], r["step"]), []).append(value)
    assert by["erm", "day", 0].by == max(sum(v) / 2 for v in best.values())


# --- results -------------------------------------------------------------------------------------------------------


def test_chosen_runs_come_with_settings_and_measures(searched):
    _, config, report, _ = searched
    whole = results_of(searched)
    rows = rows_of(whole.chosen, whole.labels)
    planned = dict(zip(hashes_of(EXPERIMENT, trials(config)), trials(config), strict=True))
    for r in rows:
        trial = planned[r["trial"]]
        assert (r["algorithm"], r["held_out"], r["seed"], r["draw"]) == (
            trial.algorithm,
            trial.held_out,
            trial.seed,
            trial.draw,
        )
        assert (r["batch"], r["rate"]) == (trial.schedule.batch, trial.schedule.rate)
        if r["algorithm"] == "swad-nu":
            assert r["nuclear_weight"] == trial.settings.nuclear_weight
        else:
            assert "nuclear_weight" not in r
        row = next(
            x
            for x in report.table.rows
            if x["trial"] == r["trial"]
            and x["step"] == r["step"]
            and x["kind"] == ("average" if r["algorithm"] == "swad-nu" else "step")
        )
        m = whole.by[r["algorithm"], r["held_out"], r["seed"]]
        assert m.accuracy == row["test"] == r["test"]
        assert m.balanced == row["test_balanced"] == r["test_balanced"]
        assert m.ece == row["test_ece"] == r["test_ece"]
        assert m.worst == (row["worst_class"], row["test_worst_class"])


def test_measures_of_algorithms_are_over_seeds():
    def of(confusion):
        return Measures(np.array(confusion), np.ones((15, 3)))

    by = {
        ("erm", "a", 0): of([[8, 2], [0, 10]]),
        ("erm", "b", 0): of([[5, 5], [1, 1]]),
        ("erm", "a", 1): of([[10, 0], [5, 5]]),
        ("erm", "b", 1): of([[10, 0], [1, 1]]),
        ("erm", "a", 2): of([[10, 0], [5, 5]]),  # the other domain is missing
    }
    found = {m.measure: m for m in measured(by, ("a", "b"), ("cat", "dog"))}
    assert found["accuracy"].mean == pytest.approx(((0.9 + 0.5) / 2 + (0.75 + 11 / 12) / 2) / 2)
    assert found["balanced"].mean == pytest.approx(((0.9 + 0.5) / 2 + (0.75 + 0.75) / 2) / 2)
    assert (found["worst domain"].mean, found["worst domain"].n) == (pytest.approx((0.5 + 0.75) / 2), 2)
    assert found["worst class"].mean == pytest.approx((13 / 20 + 6 / 12) / 2)
    assert found["worst class"].which == "cat"  # the first of equals
    assert 0 <= found["worst class"].low <= found["worst class"].mean <= found["worst class"].high <= 1


def test_levels_of_guessing_stand_below(searched):
    whole = results_of(searched)
    assert [x.domain for x in whole.levels] == ["day", "dusk", "night", AVERAGE]
    assert all((x.chance, x.majority) == (0.5, 0.5) for x in whole.levels)
    rows = summary_rows(whole.scores, whole.levels)
    text = export.latex(rows)
    assert "commonest class & 50.0 & 50.0 & 50.0 & 50.0" in text
    assert all(s.low <= s.mean <= s.high for s in whole.scores)


def choice(test, majority):
    return Choice("erm", "a", 0, 0, 1, 0.5, test, 0.5, measures={"majority": majority})


def test_runs_that_guessing_equals_are_named(searched):
    whole = results_of(searched)
    trial = whole.chosen[0][1]
    poor = [(choice(0.5, 0.5), trial), (choice(0.51, 0.5), trial), (choice(0.2, 0.5), trial)]
    assert [c.test for c in dataclasses.replace(whole, chosen=poor).no_better()] == [0.5, 0.2]


def test_settings_for_a_fit_are_those_that_validate_best_everywhere():
    def planned(held_out, draw, batch):
        source = Source("x", fingerprint="f")
        return dataclasses.replace(
            trials(Config(source, ("a", "b", "c"), 2, 3, ("erm",), seeds=(0,), held_out=(held_out,)))[0],
            draw=draw,
            schedule=Schedule(batch=batch),
        )

    runs = [planned(d, i, b) for d in ("a", "b") for i, b in enumerate((32, 40, 50))]
    validation = [0.9, 0.5, 1.0, 0.1, 0.6, None]  # the third is missing on b; the second is best on the whole
    rows = [
        row(t.held_out, 10, t.draw, validation=v, test=1 - v, trial=f"{i}")
        for i, (t, v) in enumerate(zip(runs, validation, strict=True))
        if v is not None
    ]
    names = [f"{i}" for i in range(6)]
    (best,) = best_settings(runs, names, Rows(tuple(rows)), "training-domain", ("a", "b", "c"))
    assert (best.batch, best.score, best.runs, best.of) == (40, pytest.approx(0.55), 2, 2)


def test_a_page_shows_all_of_it(searched):
    whole = results_of(searched, "leave-one-domain-out")
    text = evaluation_page(whole, "featlearn domains evaluate", {"erm": "featlearn domains fit"}, ["odd & so"], ["m"])
    for said in (
        "leave-one-domain-out selection",
        "commonest class",
        "calibration error",
        "odd &amp; so",
        "fit</code>",
    ):
        assert said in text
    assert text.count("data:image/png") == 4
    for c, _ in whole.chosen:
        assert c.trial in text
    assert spanned(1.0, 0.5, 1.0) == "100.0 [50.0, 100.0]"


# --- a model on labelled images ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    tree = pictures_in(tmp_path_factory.mktemp("scored"))
    found, config = made(tree)
    schedule = dataclasses.replace(FAST, steps=60, evaluate_every=20)
    fitted, _ = models.fit(config.source, found, config.network, "erm", schedule, Settings(), held_out="night")
    return tree, fitted


def test_a_model_says_all_that_it_was_made_from(model, tmp_path):
    _, fitted = model
    models.save(fitted, tmp_path / "m.pt")
    about = models.load(tmp_path / "m.pt").about
    assert about == fitted.about
    assert (about["seed"], about["algorithm"], about["held_out"]) == (0, "erm", "night")
    assert about["schedule"]["steps"] == 60
    assert about["network"]["width"] == 8
    assert about["splitting"]["kind"] == "stratified"
    assert about["with"]["torch"]
    validation = about["measures"]["validation"]
    assert set(validation["domains"]) == {"day", "dusk"}
    assert validation["accuracy"] == about["validation"]
    assert set(validation["per_class"]) == {"blue", "red"}
    assert validation["majority"]["accuracy"] == 0.5
    assert "night" in about["measures"]["test"]["domains"]


def test_scores_are_those_of_the_predictions(model, tmp_path):
    tree, fitted = model
    found = sources.load(Source(str(tree), size=8), held=False)
    scored = scoring.score(fitted, found)
    assert list(scored.measures) == ["day", "dusk", "night", ALL]
    paths = [s.path for s in scored.images]
    assert paths == [str(p) for p in sorted(tree.rglob("*.png"))]
    read = {p.path: p for p in models.predict(fitted, paths)}
    assert all(s.predicted == read[s.path].label for s in scored.images)
    assert all(s.label in s.path for s in scored.images)
    right = sum(s.predicted == s.label for s in scored.images)
    assert scored.measures[ALL].right == right
    assert scored.remarks[0].startswith("the model was trained on 40 of these 60 images, or chosen by them")
    held = scoring.score(fitted, sources.load(Source(str(tree), size=8)))
    assert held.measures[ALL].right == right  # the same images as tensors


def test_labels_that_a_model_does_not_know_are_refused(model, tmp_path):
    tree, fitted = model
    other = tmp_path / "other"
    shutil.copytree(tree / "day", other / "noon")
    found = sources.load(Source(str(other), size=8), least=1, held=False)
    (told,) = scoring.score(fitted, found).remarks  # renamed, and the same files
    assert told.startswith("the model was trained on all of these images, or chosen by them")
    (other / "noon" / "red").rename(other / "noon" / "green")
    found = sources.load(Source(str(other), size=8), least=1, held=False)
    with pytest.raises(SettingError, match="1 of 2 are not: green"):
        scoring.score(fitted, found)
    with pytest.raises(SettingError, match="channels"):
        scoring.score(
            dataclasses.replace(fitted, channels=1), dataclasses.replace(held_of(tree), labels=("blue", "red"))
        )


def held_of(tree):
    return sources.load(Source(str(tree), size=8))


def test_labels_are_matched_by_name(model):
    tree, fitted = model
    turned = dataclasses.replace(fitted, labels=("red", "blue"))
    found = sources.load(Source(str(tree), size=8), held=False)
    one, other = scoring.score(fitted, found), scoring.score(turned, found)
    assert one.measures[ALL].right + other.measures[ALL].right == 60
