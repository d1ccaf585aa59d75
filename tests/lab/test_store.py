"""The store: nothing half-written is ever visible, nothing damaged is taken for whole, nothing newer is touched."""

import dataclasses
import errno
import fcntl
import json
import math
import os

import numpy as np
import pytest

from featlearn.errors import DamagedError, NewerError, OlderError, StoreError
from featlearn.lab import files
from featlearn.lab.execute import plan, run
from featlearn.lab.files import FORMAT, write_atomic
from featlearn.lab.store import Manifest, Record, Store, read_manifest
from featlearn.lab.trial import trial_hash

H = trial_hash("w/i", 1, {"seed": 3})
RECORD = Record("w/i", 1, H, {"seed": 3}, "ok", rows=({"score": 0.1, "row": "a"},))


def test_round_trip_is_exact(tmp_path):
    store = Store(tmp_path)
    arrays = {"x": np.linspace(0, 1, 7, dtype=np.float32), "i": np.arange(3)}
    rows = [{"a": 0.1 + 0.2, "b": np.float32(0.1), "c": np.int64(2**62 + 1), "d": None, "e": np.bool_(True), "f": "é"}]
    store.write(dataclasses.replace(RECORD, rows=rows), arrays)
    back = store.read("w/i", H)
    assert back is not None
    assert back.rows == [{"a": 0.1 + 0.2, "b": float(np.float32(0.1)), "c": 2**62 + 1, "d": None, "e": True, "f": "é"}]
    assert back.trial == {"seed": 3}
    loaded = store.load_arrays("w/i", H)
    assert {k: (v.dtype, v.tolist()) for k, v in loaded.items()} == {
        k: (v.dtype, v.tolist()) for k, v in arrays.items()
    }
    assert store.read("w/i", "f" * 16) is None


@pytest.mark.parametrize(
    "rows, says",
    [
        ([{"a": 1.0}, {"a": float("nan")}], r"rows\[1\]\.a = nan"),
        ([{"a": np.float32("inf")}], r"rows\[0\]\.a = inf"),
        ([{"a": np.zeros(3)}], r"rows\[0\]\.a of type ndarray"),
        ([{"trial": "x"}], r"rows\[0\]\.trial"),
    ],
)
def test_rows_that_json_cannot_carry_are_refused_and_nothing_is_written(tmp_path, snapshot, rows, says):
    with pytest.raises(ValueError, match=says):
        Store(tmp_path).write(dataclasses.replace(RECORD, rows=rows))
    assert snapshot(tmp_path) == {}


def test_arrays_of_objects_are_refused(tmp_path, snapshot):
    with pytest.raises(ValueError, match=r"arrays\['x'\] of dtype object"):
        Store(tmp_path).write(RECORD, {"x": np.array([{}])})
    assert snapshot(tmp_path) == {}


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def half(real):
    def write(handle, data):
        if len(data) < 20:
            full()
        return real(handle, data[: len(data) // 2])

    return write


@pytest.mark.parametrize("where", ["write", "half", "replace"])
def test_full_disk_leaves_everything_as_it_was(tmp_path, snapshot, monkeypatch, where):
    store = Store(tmp_path)
    store.write(dataclasses.replace(RECORD, status="failed", rows=(), error="first"))
    before = snapshot(tmp_path)
    if where == "half":
        monkeypatch.setattr(os, "write", half(os.write))
    else:
        monkeypatch.setattr(os, where, full)
    with pytest.raises(StoreError, match=r"cannot be written \(No space left on device\): free some space") as e:
        store.write(RECORD, {"x": np.arange(3)})
    assert "\n" not in str(e.value)
    assert str(tmp_path) in str(e.value)
    assert snapshot(tmp_path) == before


def test_short_writes_are_continued(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:3]))
    write_atomic(tmp_path / "x", b"0123456789")
    assert (tmp_path / "x").read_bytes() == b"0123456789"


def test_json_implies_arrays(tmp_path, monkeypatch):
    order = []
    real = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append(str(b)[-4:]), real(a, b)))
    Store(tmp_path).write(RECORD, {"x": np.arange(3)})
    assert order == [".npz", "json"]


@pytest.mark.parametrize("damage", ["half", "empty", "list", "no format", "status", "other trial", "no rows"])
def test_damaged_record_raises_and_stays(tmp_path, snapshot, damage):
    store = Store(tmp_path)
    store.write(RECORD)
    path = tmp_path / "w/i" / f"{H}.json"
    data = json.loads(path.read_text())
    text = {
        "half": path.read_text()[: len(path.read_text()) // 2],
        "empty": "",
        "list": "[]",
        "no format": json.dumps({k: v for k, v in data.items() if k != "format"}),
        "status": json.dumps({**data, "status": "fine"}),
        "other trial": json.dumps({**data, "hash": "f" * 16}),
        "no rows": json.dumps({**data, "rows": None}),
    }[damage]
    path.write_text(text)
    before = snapshot(tmp_path)
    with pytest.raises(DamagedError, match="is damaged") as e:
        store.read("w/i", H)
    assert "\n" not in str(e.value)
    assert str(path) in str(e.value)
    assert "run again" in str(e.value)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("size", [None, 10])
def test_missing_or_short_arrays_are_damage(tmp_path, size):
    store = Store(tmp_path)
    store.write(RECORD, {"x": np.arange(100)})
    path = tmp_path / "w/i" / f"{H}.npz"
    path.write_bytes(path.read_bytes()[:size]) if size else path.unlink()
    with pytest.raises(DamagedError, match=r"npz is damaged"):
        store.read("w/i", H)


def test_damaged_bytes_of_arrays_are_named_when_loaded(tmp_path):
    store = Store(tmp_path)
    store.write(RECORD, {"x": np.arange(1000)})
    path = tmp_path / "w/i" / f"{H}.npz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(DamagedError, match=r"npz is damaged"):
        store.load_arrays("w/i", H)


def test_newer_record_is_refused_before_any_work(tmp_path, toy, snapshot):
    config = toy.presets["small"]
    report = run(toy, config, store=tmp_path)
    files = sorted((tmp_path / "toy/normal").glob("*.json"))
    records = [f for f in files if ".run." not in f.name]
    records[0].unlink()  # there would be work to do
    records[1].write_text("half")  # and something to move aside
    for newer in (records[2], report.manifest):
        text = newer.read_text()
        newer.write_text(json.dumps({**json.loads(text), "format": FORMAT + 1}))
        before = snapshot(tmp_path)
        with pytest.raises(NewerError, match=rf"has format {FORMAT + 1}, this featlearn reads up to {FORMAT}: up") as e:
            run(toy, config, store=tmp_path)
        assert "\n" not in str(e.value)
        assert snapshot(tmp_path) == before
        newer.write_text(text)


def test_record_with_the_retired_names_is_refused_before_any_work(tmp_path, toy, snapshot):
    config = toy.presets["small"]
    report = run(toy, config, store=tmp_path)
    files = sorted((tmp_path / "toy/normal").glob("*.json"))
    record, other = [f for f in files if ".run." not in f.name][:2]
    other.unlink()  # there would be work to do
    for older, name in ((record, "trial"), (report.manifest, "trials")):
        text = older.read_text()
        data = json.loads(text)
        data["cell" if name == "trial" else "cells"] = data.pop(name)
        older.write_text(json.dumps({**data, "format": 1}))
        before = snapshot(tmp_path)
        with pytest.raises(OlderError, match=r"has format 1, this featlearn reads format 2: choose another --sto") as e:
            run(toy, config, store=tmp_path)
        assert "\n" not in str(e.value)
        assert snapshot(tmp_path) == before
        older.write_text(text)


def test_damaged_record_is_moved_aside_with_a_warning_and_computed_again(tmp_path, toy):
    config = toy.presets["small"]
    first = run(toy, config, store=tmp_path)
    victim = first.table.rows[2]["trial"]
    path = tmp_path / "toy/normal" / f"{victim}.json"
    half_text = path.read_text()[:100]
    path.write_text(half_text)
    again = run(toy, config, store=tmp_path)
    assert (again.ok, again.skipped) == (1, 2)
    assert again.table.rows == first.table.rows
    assert len(again.warnings) == 1
    assert str(path) in again.warnings[0]
    assert ".damaged" in again.warnings[0]
    assert path.with_name(path.name + ".damaged").read_text() == half_text
    path.write_text("again")
    run(toy, config, store=tmp_path)
    assert path.with_name(path.name + ".damaged").read_text() == half_text
    assert path.with_name(path.name + ".damaged2").read_text() == "again"


def test_damaged_manifest_is_moved_aside(tmp_path, toy):
    config = toy.presets["smoke"]
    first = run(toy, config, store=tmp_path)
    first.manifest.write_text("{")
    again = run(toy, config, store=tmp_path)
    assert len(again.warnings) == 1
    assert read_manifest(again.manifest).trials == read_manifest(again.manifest).trials
    assert first.manifest.with_name(first.manifest.name + ".damaged").read_text() == "{"


def test_temporary_files_are_removed_unless_somebody_writes_them(tmp_path, toy):
    folder = tmp_path / "toy/normal"
    folder.mkdir(parents=True)
    left, held = folder / ".0123.tmp", folder / ".4567.tmp"
    for path in (left, held):
        path.write_text("{")
    with held.open("r+") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        assert run(toy, toy.presets["small"], store=tmp_path).ok == 3
        assert not left.exists()
        assert held.exists()
    assert len(Store(tmp_path).records("toy/normal")) == 3


def test_a_temporary_file_that_is_swept_before_its_lock_is_written_again(tmp_path, monkeypatch):
    real, swept = files._flock, []

    def late(handle):
        if not swept:
            swept.append(files.sweep(tmp_path))
        return real(handle)

    monkeypatch.setattr(files, "_flock", late)
    write_atomic(tmp_path / "x", b"all")
    assert swept
    assert (tmp_path / "x").read_bytes() == b"all"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_nobody_sweeps_a_file_while_it_is_written(tmp_path, monkeypatch):
    real = os.write

    def write(handle, data):
        files.sweep(tmp_path)
        assert list(tmp_path.glob(".*.tmp"))
        return real(handle, data)

    monkeypatch.setattr(os, "write", write)
    write_atomic(tmp_path / "x", b"all")
    assert (tmp_path / "x").read_bytes() == b"all"


@pytest.mark.parametrize(
    "edit, says",
    [
        (lambda r: r["rows"][0].update(score=7.5), "it was changed"),
        (lambda r: r.update(seconds=1e9), "it was changed"),
        (lambda r: r["trial"].update(seed=4), "it was changed"),
        (lambda r: (r.update(seal="", digest=""), r["trial"].update(seed=4)), "its fields are not those of its hash"),
        (lambda r: r.update(seal="", rows=[{"a": 2.0}]), "its rows were changed"),
        (lambda r: r.update(seal="", digest="", rows=[5]), "rows"),
        (lambda r: r.update(seal="", digest="", rows=[{"a": [1]}]), "rows"),
        (lambda r: r.update(seal="", digest="", rows=[{"a": math.nan}]), "not complete JSON"),
        (lambda r: r.update(seal="", status="fine"), "status"),
        (lambda r: r.update(rows={}), "rows"),
    ],
)
def test_a_record_that_was_edited_is_damaged(tmp_path, edit, says):
    store = Store(tmp_path)
    store.write(RECORD, None)
    path = tmp_path / "w/i" / f"{H}.json"
    assert store.read("w/i", H) is not None
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))
    with pytest.raises(DamagedError, match=says):
        store.read("w/i", H)


def test_arrays_changed_at_equal_size_are_computed_again(tmp_path, toy):
    config = toy.presets["small"]
    first = run(toy, config, store=tmp_path)
    path = next((tmp_path / "toy/normal").glob("*.npz"))
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    again = run(toy, config, store=tmp_path)
    assert (again.ok, again.skipped, len(again.warnings)) == (1, 2, 1)
    assert again.table.rows == first.table.rows


@pytest.mark.parametrize("name", ["../../x", "w", "/w/i"])
def test_a_manifest_whose_names_are_paths_is_damaged(tmp_path, name):
    path = Store(tmp_path).write_manifest(Manifest("w/i", 1, H, "small", {}, ["a" * 16]))
    path.write_text(path.read_text().replace('"w/i"', json.dumps(name)))
    with pytest.raises(DamagedError, match="no names"):
        read_manifest(path)


def test_layers_are_read_nearest_first_and_never_written(tmp_path, toy, snapshot):
    below, mine = tmp_path / "evidence", tmp_path / "runs"
    config = toy.presets["small"]
    first = run(toy, config, store=below)
    before = snapshot(below)
    layered = Store(mine, below=[below])
    trials = toy.trials(config)
    assert layered.table(toy, trials).rows == first.table.rows
    assert [m.hash for _, m in layered.manifests()] == [first.hash]
    key = first.table.rows[0]["trial"]
    assert layered.table(toy, trials).arrays[key]()["x"].shape == (40,)
    # committed rows do not stand in for a run of one's own
    assert len(plan(toy, config, layered).missing) == 3
    fields = layered.read("toy/normal", key).trial
    layered.write(Record("toy/normal", 1, key, fields, "ok", rows=({"row": "mine"},)))
    assert layered.table(toy, trials).rows[0] == {"row": "mine", "trial": key}
    assert snapshot(below) == before


def test_manifest_round_trip(tmp_path):
    manifest = Manifest(
        "w/i", 2, H, "small", {"d": 3}, ["a" * 16], {"d": 3}, {"d": 3}, started="2026-01-01T00:00:00Z", summary=[]
    )
    path = Store(tmp_path).write_manifest(manifest)
    assert read_manifest(path) == manifest
    with pytest.raises(StoreError, match="does not exist"):
        read_manifest(tmp_path / "none.run.json")


def test_names_as_long_as_a_folder_takes(tmp_path):
    for n in (218, 255):
        write_atomic(tmp_path / ("m" * n), b"x")
        assert (tmp_path / ("m" * n)).read_bytes() == b"x"
    assert len(list(tmp_path.iterdir())) == 2
