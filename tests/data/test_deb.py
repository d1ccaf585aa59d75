"""A data set that a Debian package carries: unpacked by name, checked, nothing installed."""

import gzip
import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from featlearn import data
from featlearn.data.catalogue import Dataset, Deb, File


@pytest.fixture
def debian(monkeypatch, tmp_path, tiny):
    """Programs in place of apt-get and dpkg-deb; the package is the tar that they would unpack."""
    state = {"members": {f"./usr/share/tiny/{n}.gz": gzip.compress(b) for n, b in tiny.items()}, "apt": 0, "dpkg": 0}

    def run(command, cwd=None, stdout=None, **more):
        if command[0] == "apt-get":
            if not state["apt"]:
                (Path(cwd) / "tiny_1.0_all.deb").write_bytes(b"!<arch>")
            return subprocess.CompletedProcess(command, state["apt"], "", "W: x\nE: Unable to locate package tiny\n")
        with tarfile.open(fileobj=stdout, mode="w") as tar:
            folder = tarfile.TarInfo("./")
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
            for name, content in state["members"].items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        return subprocess.CompletedProcess(command, state["dpkg"], "", "")

    monkeypatch.setattr("featlearn.data.download.subprocess.run", run)
    monkeypatch.setattr("featlearn.data.download.shutil.which", lambda name: state.get("which", f"/usr/bin/{name}"))
    files = tuple(File(n, len(b), hashlib.sha256(b).hexdigest()) for n, b in tiny.items())
    state["dataset"] = Dataset("tiny", "", "", files, (Deb("tiny", "usr/share/tiny"),))
    return state


def test_a_debian_package_brings_its_files_and_nothing_else(debian, tiny):
    folder = data.fetch(debian["dataset"])
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == tiny


@pytest.mark.parametrize(
    "harm, said",
    [
        ({"apt": 100}, "Unable to locate package tiny"),
        ({"dpkg": 2}, "damaged package"),
        ({"which": None}, "apt-get is not installed"),
        ({"members": {}}, "no usr/share/tiny/train-images-idx3-ubyte.gz in the package"),
        ({"members": {"./../up": b"x"}}, "outside its folder"),
    ],
)
def test_a_debian_package_that_is_not_what_it_should_be(debian, harm, said):
    debian.update(harm)
    with pytest.raises(data.DataError, match=said):
        data.fetch(debian["dataset"])
    assert list((data.cache_root() / "tiny").iterdir()) == []
