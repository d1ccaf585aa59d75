"""Minibatches that processes make beforehand: those of the plain loop, wherever it begins, and errors in one line."""

from collections import namedtuple

import pytest
import torch
from colours import FAST, KEY, made, pictures_in

from featlearn.apply.domains import reading
from featlearn.apply.domains.balance import balanced_minibatches
from featlearn.apply.domains.reading import Prepared, prepared
from featlearn.apply.domains.runs import divide, trained_on
from featlearn.apply.domains.splits import Division
from featlearn.core import SettingError
from featlearn.data import pictures
from featlearn.data.domains import FileDomain, folder
from featlearn.data.pictures import Preprocessing
from featlearn.errors import DataError
from featlearn.methods.domains import Settings, algorithm
from featlearn.methods.domains.training import minibatches_of_step
from featlearn.nets import backbone, linear_head


@pytest.fixture
def parts(tmp_path):
    """Augmented files to train on."""
    found = folder(pictures_in(tmp_path), Preprocessing(size=8, augment=True))
    assert all(isinstance(d, FileDomain) for d in found.domains)
    return divide(found, "night", 0).training


@pytest.mark.parametrize("make", [minibatches_of_step, balanced_minibatches])
def test_processes_make_the_minibatches_of_the_plain_loop(parts, make):
    """From step 2 on, as a run that goes on, and from 0 again, as statistics that are computed anew."""
    reader = prepared(make, parts, 4, 5, 2)
    for step in (2, 3, 0, 1):
        for a, b in zip(reader(parts, 4, step, KEY), make(parts, 4, step, KEY, 0, 1), strict=True):
            assert torch.equal(a.x, b.x)
            assert torch.equal(a.y, b.y)
    assert reader._ready is not None
    for step in (2, 3, 4):
        reader(parts, 4, step, KEY)
    assert reader._ready is None  # the processes end with the training


def test_training_with_processes_that_read_is_training_without(parts):
    weights = []
    for workers in (0, 2):
        modules = (backbone("cnn", KEY / "net", 3, 8), linear_head(16, 2, KEY / "head"))
        division = Division(parts, {"validation": parts, "test": parts})
        result = trained_on(division, algorithm("swad"), Settings(), FAST, modules, KEY, workers=workers)
        weights.append(result.trained.averaged)
    assert all(torch.equal(weights[0][n], weights[1][n]) for n in weights[0])


def test_a_file_that_is_gone_is_one_line(parts):
    reader = Prepared(minibatches_of_step, 3, 2)
    reader(parts, 4, 0, KEY)
    for path in parts[0].domain.paths:
        path.unlink()
    with pytest.raises(DataError, match="does not exist; check the path") as told:
        reader(parts, 4, 10, KEY)
    assert "\n" not in str(told.value)


def test_where_processes_would_not_help_there_are_none(tmp_path, parts, monkeypatch):
    assert prepared(minibatches_of_step, parts, 4, 5, 1) is None
    found, _ = made(pictures_in(tmp_path / "more"))
    held = divide(found, "night", 0).training
    assert prepared(minibatches_of_step, held, 4, 5, 8) is None  # in memory
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(reading, "SHARED", tmp_path)
    step = 4 * 2 * 4 * 3 * 8 * 8  # bytes: two domains, four pictures, float32
    for free, workers in ((3 * 3 * step, 3), (2 * 3 * step - 1, None), (99 * step * 3, 8)):
        monkeypatch.setattr(reading.shutil, "disk_usage", lambda _, free=free: usage(free))
        reader = prepared(minibatches_of_step, parts, 4, 5, 8)
        assert (reader and reader.workers) == workers


def test_augmentation_without_torchvision_is_refused(monkeypatch):
    monkeypatch.setattr(pictures.importlib.util, "find_spec", lambda name: None)
    Preprocessing(augment=False)
    with pytest.raises(SettingError, match=r"available with torchvision; pip install 'featlearn\[domains\]'"):
        Preprocessing(augment=True)
