"""Sets that come as a folder of the user's: true formats, what torchvision reads in the same files, what is refused."""

import json
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import set_formats as formats
import torch
from PIL import Image

from featlearn.core import SettingError
from featlearn.data.folder_sets import folder_of, folder_sets, needed
from featlearn.data.labelled import labelled_images, splits_of
from featlearn.data.needs import check_needs, lacking
from featlearn.data.pickles import read_pickle
from featlearn.errors import DataError, DataUnavailable

CASES = [
    pytest.param(name, write, id=f"{name}-{i}")
    for name, writers in formats.FORMATS.items()
    for i, write in enumerate(writers)
]


def refused(work, kind=DataUnavailable) -> str:
    with pytest.raises(kind) as e:
        work()
    line = str(e.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize("name, write", CASES)
def test_what_was_written_is_read(name, write, tmp_path):
    written = write(tmp_path)
    for split, (x, y) in written.items():
        found = labelled_images(name, tmp_path, split, threads=2)
        assert torch.equal(found.values, torch.from_numpy(np.ascontiguousarray(x)))
        assert found.y.tolist() == [int(v) for v in y]
        assert found.values.is_contiguous()
        assert (
            f"has {len(y)} images for {split}; the published set has {folder_sets()[name].counts[split]}"
            in found.remarks[0]
        )
        torch.testing.assert_close(found.floats(torch.tensor([1, 0])) * 255, torch.from_numpy(x[[1, 0]]).float())
    assert [split for split, _ in splits_of(name, tmp_path)] == list(written)


def test_every_set_has_a_format_here():
    assert {name.split("-")[0] for name in folder_sets()} <= {name.split("-")[0] for name in formats.FORMATS}


def test_names_of_classes_are_those_of_the_files(tmp_path):
    for name, write in (("cifar10", formats.cifar10_binary), ("cifar100", formats.cifar100_python)):
        write(tmp_path / name)
    formats.cifar100_python(tmp_path / "again")
    formats.emnist_letters(tmp_path / "e")
    formats.kmnist_npz(tmp_path / "k")
    formats.tiny_imagenet(tmp_path / "t")
    assert labelled_images("cifar10", tmp_path / "cifar10").labels == tuple(f"class {i}" for i in range(10))
    assert labelled_images("cifar100", tmp_path / "cifar100").labels[99] == "fine 99"
    assert labelled_images("cifar100-coarse", tmp_path / "again").labels == tuple(f"coarse {i}" for i in range(20))
    assert "".join(labelled_images("emnist-letters", tmp_path / "e").labels) == "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    assert labelled_images("kmnist", tmp_path / "k").labels[3] == "tsu"
    assert labelled_images("tiny-imagenet", tmp_path / "t").labels == ("n01443537", "n01629819", "n01641577")


def test_torchvision_reads_the_same_in_the_same_files(tmp_path, monkeypatch):
    """Its readers are written for the published files: what they read in ours says that ours have that format."""
    sets = pytest.importorskip("torchvision.datasets")
    for module in (sets.cifar, sets.svhn):
        monkeypatch.setattr(module, "check_integrity", lambda *_: True)
    formats.cifar10_python(tmp_path / "a")
    formats.cifar100_python(tmp_path / "b")
    formats.svhn(tmp_path / "c")
    formats.gtsrb(tmp_path / "d", torchvision=True)
    formats.emnist_letters(tmp_path / "e")
    formats.kmnist_idx(tmp_path / "f")
    for split in ("train", "test"):
        theirs = sets.CIFAR10(str(tmp_path / "a"), train=split == "train")
        ours = labelled_images("cifar10", tmp_path / "a", split)
        assert np.array_equal(theirs.data, ours.values.permute(0, 2, 3, 1).numpy())
        assert (theirs.targets, theirs.classes) == (ours.y.tolist(), list(ours.labels))
        theirs = sets.CIFAR100(str(tmp_path / "b"), train=split == "train")
        ours = labelled_images("cifar100", tmp_path / "b", split)
        assert np.array_equal(theirs.data, ours.values.permute(0, 2, 3, 1).numpy())
        assert (theirs.targets, theirs.classes) == (ours.y.tolist(), list(ours.labels))
        theirs = sets.SVHN(str(tmp_path / "c"), split)
        ours = labelled_images("svhn", tmp_path / "c", split)
        assert np.array_equal(theirs.data, ours.values.numpy())
        assert theirs.labels.tolist() == ours.y.tolist()
        theirs = sets.GTSRB(str(tmp_path / "d"), split)
        ours = labelled_images("gtsrb", tmp_path / "d", split)
        assert [label for _, label in theirs] == ours.y.tolist()
        assert all(
            np.array_equal(np.asarray(x), v.permute(1, 2, 0).numpy())
            for (x, _), v in zip(theirs, ours.values, strict=True)
        )
    from torchvision.datasets.mnist import read_image_file, read_label_file

    place = tmp_path / "e" / "EMNIST" / "raw" / "emnist-letters-train-"
    ours = labelled_images("emnist-letters", tmp_path / "e")
    assert torch.equal(read_image_file(f"{place}images-idx3-ubyte").transpose(1, 2), ours.values[:, 0])
    assert torch.equal(read_label_file(f"{place}labels-idx1-ubyte") - 1, ours.y)


# batches of Python run nothing ----------------------------------------------------------------------------------------


class Touches:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("protocol", range(6))
def test_a_batch_runs_no_code(protocol, tmp_path):
    mark = tmp_path / "ran"
    for i, value in enumerate((Touches(mark), {"data": Touches(mark)}, {"labels": [Touches(mark)], "data": 1})):
        (tmp_path / f"bad{i}").write_bytes(pickle.dumps(value, protocol=protocol))
        line = refused(lambda i=i: read_pickle(tmp_path / f"bad{i}"))
        assert (
            "it names pathlib" in line or "it names __builtin__.getattr" in line or "it names builtins.getattr" in line
        )
    assert not mark.exists()


@pytest.mark.parametrize(
    "data, said",
    [
        (b"cos\nsystem\n(S'true'\ntR.", "it names os.system"),
        (b"c__builtin__\neval\n(S'1'\ntR.", "it names __builtin__.eval"),
        (b"cnumpy\nndarray\n(I3\ntR.", "it makes an array directly"),
        (b"cnumpy\nload\n.", "it names numpy.load"),
        (b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR.", "an array of 'O8'"),
        (b"cnumpy\ndtype\n(S'V8'\nI0\nI1\ntR.", "an array of 'V8'"),
        (b"cnumpy\nndarray\n}b.", "is no pickle file"),
        (b"cnumpy.core.multiarray\n_reconstruct\n}b.", "is no pickle file"),
        (b"c_codecs\nencode\n(Vrm\nVrot13\ntR.", "encodes something else"),
        (b"Pid\n.", "refers to something outside"),
        (b"", "is no pickle file"),
        (b"\x80\x04]\x94.", "holds a list and no dictionary"),
        (b"hello", "is no pickle file"),
    ],
)
def test_whatever_else_a_pickle_asks_for_is_refused(data, said, tmp_path):
    (tmp_path / "batch").write_bytes(data)
    line = refused(lambda: read_pickle(tmp_path / "batch"))
    assert said in line
    assert str(tmp_path / "batch") in line


def test_arrays_of_other_shapes_and_orders_are_what_they_were(tmp_path):
    value = {
        "fortran": np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
        "big": np.arange(4, dtype=">i4"),
        "float": np.linspace(0, 1, 5, dtype=np.float32),
        "none": np.zeros((0, 3), np.uint8),
        "texts": ["a", b"b", 3, None],
    }
    for protocol in range(6):
        (tmp_path / "p").write_bytes(pickle.dumps(value, protocol=protocol))
        found = read_pickle(tmp_path / "p")
        assert found["texts"] == value["texts"]
        for key in ("fortran", "big", "float", "none"):
            assert np.array_equal(found[key], value[key])
            assert found[key].shape == value[key].shape


@pytest.mark.parametrize("dump", [formats.python2, lambda v: pickle.dumps(v, 4), lambda v: pickle.dumps(v, 5)])
def test_damaged_batches_are_refused_in_one_line_or_read(dump, tmp_path):
    """A thousand batches with a byte changed or the end cut off."""
    whole = dump({"labels": [3, 1], "data": np.arange(12, dtype=np.uint8).reshape(2, 6), "names": ["a.png", "b"]})
    draw = np.random.default_rng(1)
    path, read = tmp_path / "batch", 0
    for _ in range(1000):
        data = bytearray(whole)
        if draw.random() < 0.3:
            data = data[: draw.integers(0, len(data))]
        else:
            data[draw.integers(0, len(data))] = draw.integers(0, 256)
        path.write_bytes(bytes(data))
        try:
            assert isinstance(read_pickle(path), dict)
            read += 1
        except DataUnavailable as why:
            said = str(why)
            assert "\n" not in said
    assert 0 < read < 900


# what is missing or wrong ---------------------------------------------------------------------------------------------


def test_until_the_data_are_here_it_says_what_is_needed(monkeypatch, tmp_path):
    monkeypatch.setenv("FEATLEARN_DATA", str(tmp_path))
    for name, found in folder_sets().items():
        line = refused(lambda name=name: labelled_images(name))
        assert line.startswith(f"data needed: {name} ")
        assert found.home in line
        assert found.archive in line
        assert f"featlearn data fetch {name} --root FOLDER" in line
        assert f"ln -s FOLDER {tmp_path}" in line
    experiment = SimpleNamespace(id="work/exp", needs=lambda t: ("cifar10",))
    assert lacking([0, 1], experiment) == ("cifar10",)
    assert refused(lambda: check_needs([0], experiment)) == f"work/exp: {needed(folder_sets()['cifar10'])}"
    formats.cifar10_python(tmp_path / "elsewhere")
    (tmp_path / "cifar10").symlink_to(tmp_path / "elsewhere" / "cifar-10-batches-py")
    assert lacking([0], experiment) == ()
    check_needs([0], experiment)
    assert len(labelled_images("cifar10").y) == 20


def test_missing_files_are_named_with_their_folder(tmp_path):
    line = refused(lambda: labelled_images("cifar10", tmp_path / "none"), DataError)
    assert line.startswith(
        f"root = {tmp_path / 'none'} is not a folder; give the one that holds cifar-10-python.tar.gz"
    )
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "cifar-10-python.tar.gz").write_bytes(b"")
    line = refused(lambda: labelled_images("cifar10", tmp_path / "packed"))
    assert "no data_batch_1 or data_batch_1.bin" in line
    assert line.endswith("unpack cifar-10-python.tar.gz there")
    formats.cifar10_python(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_4").unlink()
    line = refused(lambda: labelled_images("cifar10", tmp_path))
    assert f"cifar10 is not whole in {tmp_path / 'cifar-10-batches-py'}: no data_batch_4" in line
    assert len(labelled_images("cifar10", tmp_path, "test").y) == 4


def wrong_cifar(root, **changed):
    (root / "cifar-10-batches-py" / "test_batch").write_bytes(
        formats.python2({"labels": [1], "data": np.zeros((1, 3072), np.uint8), **changed})
    )


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"data": np.zeros((1, 3071), np.uint8)}, "its data are uint8 (1, 3071), expected uint8 (n, 3072)"),
        ({"data": np.zeros((1, 3072))}, "its data are float64"),
        ({"data": [1, 2]}, "its data are list"),
        ({"labels": ["a"]}, "its labels are no whole numbers"),
        ({"labels": [10**30]}, "its labels are no whole numbers"),
        ({"labels": [True]}, "its labels are no whole numbers"),
        ({"labels": [1, 2]}, "1 images and 2 labels"),
        ({"labels": [10]}, "a label 10 for test, of 10 classes"),
        ({"labels": [-1]}, "a label -1"),
        ({"labels": [], "data": np.zeros((0, 3072), np.uint8)}, "no image for test"),
    ],
)
def test_batches_that_do_not_hold_what_they_must_are_refused(changed, said, tmp_path):
    formats.cifar10_python(tmp_path)
    wrong_cifar(tmp_path, **changed)
    assert said in refused(lambda: labelled_images("cifar10", tmp_path, "test"))


def test_files_that_are_damaged_are_refused(tmp_path):
    formats.svhn(tmp_path / "s")
    path = tmp_path / "s" / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:500])
    assert f"{path} is no whole .mat file" in refused(lambda: labelled_images("svhn", tmp_path / "s"))
    formats.cifar10_binary(tmp_path / "b")
    path = tmp_path / "b" / "cifar-10-batches-bin" / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:-1])
    assert "has 9218 bytes, no multiple of 3073" in refused(lambda: labelled_images("cifar10", tmp_path / "b"))
    formats.kmnist_npz(tmp_path / "k")
    np.savez(tmp_path / "k" / "kmnist-train-imgs.npz", np.array([Touches(tmp_path / "ran")], dtype=object))
    assert "is no .npz file of arr_0" in refused(lambda: labelled_images("kmnist", tmp_path / "k"))
    assert not (tmp_path / "ran").exists()
    formats.emnist_letters(tmp_path / "e")
    path = tmp_path / "e" / "EMNIST" / "raw" / "emnist-letters-train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-3])
    assert "truncated" in refused(lambda: labelled_images("emnist-letters", tmp_path / "e"), DataError)
    (path.parent / "emnist-letters-mapping.txt").write_text("1 65\n3 67\n")
    path.write_bytes(formats.idx(formats.greys(30)))
    assert "leaves classes out" in refused(lambda: labelled_images("emnist-letters", tmp_path / "e"))


def test_tables_beside_image_files_lead_nowhere_else(tmp_path):
    formats.tiny_imagenet(tmp_path)
    table = tmp_path / "tiny-imagenet-200" / "val" / "val_annotations.txt"
    for text, said in (
        ("../../secret\tn01443537\n", "which is no file beside it"),
        ("val_0.JPEG\tn99\n", "the class 'n99', which the set has not"),
        ("val_9.JPEG\tn01443537\n", "names 1 files that are not there: val_9.JPEG"),
    ):
        table.write_text(text)
        assert said in refused(lambda: labelled_images("tiny-imagenet", tmp_path, "val"))
    formats.gtsrb(tmp_path)
    (tmp_path / "GTSRB" / "GT-final_test.csv").write_text("Filename;Width\n00000.ppm;32\n")
    assert "no columns Filename and ClassId" in refused(lambda: labelled_images("gtsrb", tmp_path, "test"))
    (tmp_path / "GTSRB" / "Final_Training" / "Images" / "00003" / "00000_00000.ppm").write_bytes(b"P6\n32 32\n255\n")
    assert "cannot be read as an image" in refused(lambda: labelled_images("gtsrb", tmp_path), DataError)


def test_grey_pictures_in_a_set_of_colours_fill_all_channels(tmp_path):
    """Some of Tiny ImageNet's are grey files."""
    formats.tiny_imagenet(tmp_path)
    grey = formats.greys(1)[0]
    path = next((tmp_path / "tiny-imagenet-200" / "train" / "n01443537" / "images").iterdir())
    Image.fromarray(np.kron(grey, np.ones((3, 3), np.uint8))[:64, :64]).save(path, format="PNG")
    found = labelled_images("tiny-imagenet", tmp_path)
    assert found.values.shape == (6, 3, 64, 64)
    flat = [bool((v == v[:1]).all()) for v in found.values]
    assert sum(flat) == 1


def test_pictures_of_many_sizes_come_at_the_size_asked_for(tmp_path):
    formats.gtsrb(tmp_path)
    assert labelled_images("gtsrb", tmp_path, "test", size=48).values.shape == (4, 3, 48, 48)


@pytest.mark.parametrize(
    "name, changed, said",
    [
        ("svhn", {"split": "val"}, "split = 'val' is not allowed: one of train, test, extra for svhn"),
        ("svhn", {"size": 16}, "size = 16 is not allowed: 0 for svhn"),
        ("gtsrb", {"size": 4}, "size = 4 is not allowed: 8 pixels or more"),
        ("gtsrb", {"threads": 0}, "threads = 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(name, changed, said, tmp_path):
    assert refused(lambda: labelled_images(name, tmp_path, **changed), SettingError).startswith(said)
    assert "set = 'cifar' is not allowed: one of cifar10" in refused(lambda: labelled_images("cifar"), DataError)


def test_the_folder_of_the_user_is_only_read(tmp_path):
    formats.cinic10(tmp_path)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    list(splits_of("cinic10", tmp_path))
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
    assert folder_of("cinic10", tmp_path) == tmp_path


def test_the_command_lists_and_checks_them(capsys, monkeypatch, tmp_path):
    from featlearn.cli import main

    monkeypatch.setenv("FEATLEARN_DATA", str(tmp_path / "cache"))
    assert main(["data", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(folder_sets()) < set(rows)
    assert rows["svhn"]["source"].startswith("a folder of yours (http")
    assert rows["mnist"]["source"] == "fetched"
    assert not rows["svhn"]["here"]
    assert main(["data", "fetch", "svhn"]) == 1
    assert "data needed: svhn" in capsys.readouterr().err
    formats.svhn(tmp_path / "mine")
    assert main(["data", "fetch", "svhn", "--root", str(tmp_path / "mine")]) == 0
    said = capsys.readouterr()
    assert said.out == f"svhn: {tmp_path / 'mine'}: train 12, test 5 images\n"
    assert "the published set has 73257" in said.err
    assert main(["data", "fetch", "svhn", "--root", str(tmp_path / "mine"), "--json"]) == 0
    splits = json.loads(capsys.readouterr().out)["splits"]
    assert splits[0] == {"split": "train", "images": 12, "classes": 10, "shape": [3, 32, 32]}
