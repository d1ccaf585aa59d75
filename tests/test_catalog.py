"""The catalog: never older than the code and the evidence that it is made from."""

import json
import os
from pathlib import Path

import pytest

from featlearn import catalog
from featlearn.lab import provenance


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    """A package of one module and one file of evidence, whose catalog counts how often it was made."""
    package = tmp_path / "src/featlearn"
    package.mkdir(parents=True)
    (package / "a.py").write_text("a = 1\n")
    (tmp_path / "evidence/w").mkdir(parents=True)
    (tmp_path / "evidence/w/row.json").write_text("{}")
    made: list[int] = []
    monkeypatch.setattr(provenance, "checkout", lambda: tmp_path)
    monkeypatch.setattr(catalog, "PACKAGE", package)
    monkeypatch.setattr(catalog, "SHIPPED", package / "catalog.json")
    monkeypatch.setattr(catalog, "CACHE", package / "__pycache__/catalog.json")
    monkeypatch.setattr(catalog, "make", lambda: made.append(1) or {"made": len(made)})
    return tmp_path


def changed(path: Path) -> None:
    """Another time of change, as an editor leaves it."""
    later = path.stat().st_mtime_ns + 1_000_000
    os.utime(path, ns=(later, later))


def grown(path: Path) -> None:
    """More text at the same time of change, as some tools that copy files leave it."""
    time = path.stat().st_mtime_ns
    path.write_text(path.read_text() + "\n")
    os.utime(path, ns=(time, time))


def test_it_is_made_once(checkout):
    assert [catalog.read() for _ in range(3)] == [{"made": 1}] * 3


@pytest.mark.parametrize(
    "change",
    [
        lambda root: grown(root / "src/featlearn/a.py"),
        lambda root: changed(root / "src/featlearn/a.py"),
        lambda root: (root / "src/featlearn/b.py").touch(),
        lambda root: (root / "src/featlearn/a.py").rename(root / "src/featlearn/c.py"),
        lambda root: changed(root / "evidence/w/row.json"),
        lambda root: (root / "evidence/w/row.json").unlink(),
    ],
    ids=["size", "time", "new", "name", "evidence", "evidence gone"],
)
def test_it_is_made_again_when_what_it_is_made_from_changes(checkout, change):
    catalog.read()
    change(checkout)
    assert catalog.read() == {"made": 2}
    assert catalog.read() == {"made": 2}


def test_compiled_files_are_no_sources(checkout):
    catalog.read()
    (checkout / "src/featlearn/__pycache__/a.pyc").touch()
    assert catalog.read() == {"made": 1}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"stamp": "another", "catalog": {"made": 9}}'])
def test_a_cache_that_does_not_fit_is_made_again(checkout, text):
    catalog.CACHE.parent.mkdir()
    catalog.CACHE.write_text(text)
    assert catalog.read() == {"made": 1}


def test_without_a_place_to_keep_it_it_is_made_each_time(checkout):
    catalog.CACHE.parent.touch()  # a file where the folder would be
    assert catalog.read() == {"made": 1}
    assert catalog.read() == {"made": 2}


def test_only_an_installed_copy_reads_the_one_that_shipped(checkout, monkeypatch):
    catalog.SHIPPED.write_text(json.dumps({"shipped": True}))
    assert catalog.read() == {"made": 1}
    monkeypatch.setattr(provenance, "checkout", lambda: None)
    assert catalog.read() == {"shipped": True}


def test_an_installed_copy_reads_its_own_evidence(checkout, monkeypatch):
    assert catalog.evidence_root() == checkout / "evidence"
    monkeypatch.setattr(provenance, "checkout", lambda: None)
    assert catalog.evidence_root() is None
    (checkout / "src/featlearn/evidence").mkdir()
    assert catalog.evidence_root() == checkout / "src/featlearn/evidence"
