"""`featlearn domains` as functions: models and predictions, sources of images, devices, several processes."""

import dataclasses
import errno
import math
import os
import sys
import tempfile

import numpy as np
import pytest
import torch
from colours import FAST, KEY, made, pictures_in
from PIL import Image

from featlearn.apply.domains import models, sources
from featlearn.apply.domains.runs import EXPERIMENT, ORACLE, TEST, run_trial, trials
from featlearn.apply.domains.sources import Network, Source
from featlearn.apply.files import check_target
from featlearn.core import SettingError
from featlearn.data import DataError, pictures
from featlearn.data.decoding import Scale
from featlearn.errors import StoreError
from featlearn.lab.execute import run
from featlearn.lab.store import Store
from featlearn.lab.trial import trial_hash
from featlearn.methods.domains import VALIDATION, Settings


@pytest.fixture
def tree(tmp_path):
    return pictures_in(tmp_path)


@pytest.fixture(scope="module")
def fit_once(tmp_path_factory):
    """A tree, and the model and record of one fit on it."""
    tree = pictures_in(tmp_path_factory.mktemp("fit"))
    return tree, *fitted(tree)


def fitted(tree, name="erm-nu", **words):
    found, config = made(tree)
    schedule = dataclasses.replace(FAST, steps=60, evaluate_every=20)
    model, result = models.fit(config.source, found, config.network, name, schedule, Settings(), **words)
    return model, result.trained


def test_a_model_is_kept_with_all_that_prediction_needs(fit_once, tmp_path):
    tree, model, trained = fit_once
    assert trained.best.accuracy[VALIDATION] > 0.8
    models.save(model, tmp_path / "m.pt")
    assert isinstance(torch.load(tmp_path / "m.pt", weights_only=True), dict)
    back = models.load(tmp_path / "m.pt")
    assert back.labels == ("blue", "red")
    assert back.preprocessing == model.preprocessing
    assert back.about["algorithm"] == "erm-nu"
    paths = models.images_in([tree / "dusk", tree / "day" / "red" / "3.png"])
    assert len(paths) == 21
    found = models.predict(back, paths, batch=4)
    x = pictures.read(paths, model.preprocessing)
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
    assert check_target(tmp_path / "m.pt", False) == tmp_path / "m.pt"
    (tmp_path / "m.pt").write_text("mine")
    with pytest.raises(SettingError, match="--replace"):
        check_target(tmp_path / "m.pt", False)
    assert check_target(tmp_path / "m.pt", True)
    for path in (tmp_path, tmp_path / "no" / "m.pt"):
        with pytest.raises(SettingError, match="folder that exists"):
            check_target(path, True)


def test_a_target_that_cannot_be_written_is_refused_before_work(tmp_path, monkeypatch):
    longest = tmp_path / ("m" * 252 + ".pt")
    assert check_target(longest, False) == longest
    assert list(tmp_path.iterdir()) == []
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / ("m" * 253 + ".pt"), tmp_path / "pipe"):
        with pytest.raises(SettingError, match=r"out = .* is not allowed: a (plain file|file that can be written)"):
            check_target(path, True)
    if sys.platform == "linux":
        with pytest.raises(SettingError, match="a file that can be written"):
            check_target("/proc/m.pt", False)

    def denied(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(SettingError, match=r"a file that can be written \(Permission denied\); name another"):
        check_target(tmp_path / "m.pt", False)


def test_files_that_are_read_are_not_written_over(tmp_path):
    (tmp_path / "m.pt").write_text("model")
    (tmp_path / "link.pt").symlink_to(tmp_path / "m.pt")
    for path in (tmp_path / "m.pt", tmp_path / "link.pt"):
        for replaced in (False, True):
            with pytest.raises(SettingError, match="none of the files that are read"):
                check_target(path, replaced, [tmp_path / "gone.png", tmp_path / "m.pt"])
    assert check_target(tmp_path / "n.pt", True, [tmp_path / "m.pt"])


def test_a_model_that_cannot_be_written_is_kept_elsewhere(fit_once, tmp_path, monkeypatch):
    _, model, _ = fit_once
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as m:
        m.setattr(os, "replace", full)
        with pytest.raises(StoreError, match=r"m.pt cannot be written \(No space left on device\): the result") as e:
            models.save(model, tmp_path / "m.pt")
    (kept,) = spare.iterdir()
    assert str(kept) in str(e.value)
    assert models.load(kept).labels == model.labels
    kept.unlink()
    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(StoreError, match=r"nor a file in .*: the result is lost"):
        models.save(model, tmp_path / "m.pt")
    assert sorted(tmp_path.iterdir()) == [spare]


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
        ({k: v for k, v in data.items() if k != "format"}, "of format 3 or lower"),
        (data | {"head": bad}, "1 are not, first head.bias"),
        (data | {"featurizer": {}}, "with the tensors of its backbone"),
    ):
        torch.save(changed, tmp_path / "bad.pt")
        with pytest.raises(SettingError, match=said) as e:
            models.load(tmp_path / "bad.pt")
        assert "\n" not in str(e.value)
    old = {k: v for k, v in data.items() if k not in ("depth", "float_range")} | {"format": 1}
    torch.save(old, tmp_path / "old.pt")
    assert models.load(tmp_path / "old.pt").preprocessing.scale == Scale()


def test_a_model_keeps_what_counts_as_white(fit_once, tmp_path):
    _, model, _ = fit_once
    scale = Scale(bits=12, floats=(-1.0, 1.0))
    models.save(
        dataclasses.replace(model, preprocessing=dataclasses.replace(model.preprocessing, scale=scale)),
        tmp_path / "m.pt",
    )
    assert models.load(tmp_path / "m.pt").preprocessing.scale == scale


# --- sources and processes -----------------------------------------------------------------------------------------


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
    assert len(run_trial(trials(config)[0]).rows) == 2


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


def test_store_and_arrays_are_plain(tree, tmp_path):
    _, config = made(tree, algorithms=("erm",), held_out=("day",))
    report = run(EXPERIMENT, config, store=tmp_path)
    (hash_,) = [trial_hash(EXPERIMENT.id, EXPERIMENT.version, c) for c in trials(config)]
    record = Store(tmp_path).read(EXPERIMENT.id, hash_)
    assert record.trial["source"]["fingerprint"] == config.source.fingerprint
    assert report.failed == 0


def test_gradients_of_processes_travel_as_one_tensor():
    """With a stand-in for the other process, whose gradients are all 3."""
    from featlearn.apply.domains.distributed import Accelerated

    sent = []

    class Other:
        num_processes = 2

        def reduce(self, flat, reduction):
            sent.append((flat.tolist(), reduction))
            return (flat + 3) / 2

    processes = Accelerated.__new__(Accelerated)
    processes._accelerator = Other()
    a, b = torch.nn.Parameter(torch.zeros(2, 1)), torch.nn.Parameter(torch.zeros(1))
    a.grad = torch.tensor([[1.0], [5.0]])
    processes.gradients([a, b])
    assert sent == [([1, 5, 0], "mean")]
    assert a.grad.tolist() == [[2], [4]]
    assert b.grad.tolist() == [1.5]
    Other.num_processes = 1
    processes.gradients([a, b])
    assert len(sent) == 1
