"""Every odd folder that we could think of: each is read with a remark, or refused in one line before any work."""

import os
import re
import shutil
import time
import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from torture import (
    ALPHA8,
    BITS,
    BOMB,
    COLOUR,
    GIF2,
    HEIC,
    NAN,
    chunk,
    cmyk,
    deep,
    exif,
    pets,
    png,
    put,
    ramp,
    saved,
    tiff,
)

from featlearn.data import DataError
from featlearn.data.decoding import Scale
from featlearn.data.domains import Checks, folder, in_memory
from featlearn.data.pictures import Preprocessing

SMALL = Preprocessing(size=8)


@pytest.fixture
def tree(tmp_path):
    return pets(tmp_path)


def each(tree, data_of, domains=("photo", "sketch")):
    """All images of some domains replaced by data_of(i)."""
    for i, path in enumerate(sorted(p for d in domains for p in (tree / d).rglob("*.png"))):
        path.write_bytes(data_of(i))


def link(tree, where, to):
    (tree / where).symlink_to(to)


def rename_class(tree, old, new):
    for domain in ("photo", "sketch"):
        os.rename(tree / domain / old, os.fsencode(tree / domain) + b"/" + new)


def split_below(tree):
    """domain/split/class, as VLCS is stored."""
    for domain in ("photo", "sketch"):
        for split in ("train", "test", "full", "crossval"):
            for label in ("cat", "dog"):
                place = tree / domain / split / label
                place.mkdir(parents=True)
                os.link(tree / domain / label / "0.png", place / "a.png")
        for label in ("cat", "dog"):
            for path in (tree / domain / label).iterdir():
                path.unlink()
            (tree / domain / label).rmdir()


def split_inside(tree, names=("train", "test")):
    """domain/class/split."""
    for place in (tree / d / c for d in ("photo", "sketch") for c in ("cat", "dog")):
        for i, path in enumerate(sorted(place.iterdir())):
            (place / names[i % 2]).mkdir(exist_ok=True)
            path.rename(place / names[i % 2] / path.name)


def split_domains(tree):
    (tree / "photo").rename(tree / "train")
    (tree / "sketch").rename(tree / "val")


def one_split_class(tree):
    for domain in ("photo", "sketch"):
        (tree / domain / "train" / "dog").mkdir(parents=True)
        (tree / domain / "dog" / "0.png").rename(tree / domain / "train" / "dog" / "0.png")


REMARKED = {
    "12 bits in 16": (
        lambda t: each(t, lambda i: deep(4095, i)),
        "12 of 12 images hold integers of 16 bits, from 0 to 4095, first .*0.png: read as 12 bits",
    ),
    "8 bits in 16": (lambda t: each(t, lambda i: deep(250, i)), "from 0 to 250, .*read as 8 bits .white is 255"),
    "16 bits": (lambda t: each(t, lambda i: deep(40000, i)), "from 0 to 40000, .*read as 16 bits .white is 65535"),
    "255, 256 and 300": (
        lambda t: each(t, lambda i: png(np.full((9, 12), (255, 256, 300)[i % 3]), 0, 16)),
        "from 255 to 300, .*read as 12 bits",
    ),
    "two depths, a domain each": (
        lambda t: (each(t, lambda i: deep(65535, i), ["photo"]), each(t, lambda i: deep(4000, i), ["sketch"])),
        "6 of 12 images are all that their domains have of their depth, and nearly black",
    ),
    "two depths, told": (
        lambda t: (each(t, lambda i: deep(65535, i), ["photo"]), each(t, lambda i: deep(4000, i), ["sketch"])),
        "largest value: photo 65535, sketch 4000",
    ),
    "floats of 255": (
        lambda t: put(t, tiff(ramp(np.float32, 255), kind=3), "x.tif"),
        "1 of 13 images hold floats, .*255 white",
    ),
    "masks of 0 and 1": (lambda t: put(t, png(BITS, 0, 8)), "1 of 13 images hold no values but 0 and 1"),
    "a dark domain": (
        lambda t: each(t, lambda i: png(ramp(top=9 + i % 6), 0, 8), ["sketch"]),
        "6 of 12 images are all",
    ),
    "orientation": (lambda t: put(t, saved(Image.fromarray(COLOUR), "PNG", exif=exif(6))), "1 of 13 images are turned"),
    "orientation 9": (
        lambda t: put(t, saved(Image.fromarray(COLOUR), "PNG", exif=exif(9))),
        "orientation that is none",
    ),
    "exif that is none": (
        lambda t: put(t, png(COLOUR, 2, 8, chunk(b"eXIf", b"II*\0" + bytes(3)))),
        "orientation that is none",
    ),
    "gif that moves": (lambda t: put(t, GIF2, "x.gif"), "1 of 13 images hold several pictures, up to 2,"),
    "other format": (lambda t: put(t, saved(Image.fromarray(COLOUR), "JPEG")), "another format than their suffix says"),
    "upper case": (lambda t: put(t, png(COLOUR, 2, 8), "x.PNG"), None),
    "alpha": (lambda t: put(t, png(np.dstack([COLOUR, ALPHA8]), 6, 8)), "1 with an alpha channel"),
    "cmyk": (lambda t: put(t, cmyk(), "x.jpg"), "1 in CMYK"),
    "colour profile": (
        lambda t: put(t, saved(Image.fromarray(COLOUR), "PNG", icc_profile=b"P3" * 70)),
        "colour profile",
    ),
    "one pixel": (lambda t: put(t, png(np.array([[99]]), 0, 8)), "1 of 13 images are smaller than 8 pixels"),
    "a strip": (lambda t: put(t, png(np.full((8, 200), 99), 0, 8)), "8 times as long as wide"),
    "link to a file": (lambda t: link(t, "photo/cat/l.png", t / "photo" / "cat" / "0.png"), "stand twice in one class"),
    "link to a folder": (lambda t: link(t, "photo/cat/more", t / "sketch" / "cat"), "3 pictures .* in several domains"),
    "link to another class": (lambda t: link(t, "photo/cat/more", t / "photo" / "dog"), "under several labels"),
    "link to a class": (lambda t: link(t, "photo/puma", t / "photo" / "cat"), "3 pictures .* under several labels"),
    "link to a domain": (lambda t: link(t, "copy", t / "photo"), "6 pictures .* in several domains"),
    "link to itself": (lambda t: link(t, "photo/cat/self", t / "photo" / "cat"), "1 links lead back .*photo/cat/self"),
    "link upwards": (lambda t: link(t, "photo/cat/up", t / "photo"), "1 links lead back to a folder that holds them"),
    "link to the root": (lambda t: link(t, "photo/cat/up", t), "1 links lead back to a folder"),
    "domain that is the root": (lambda t: link(t, "self", t), "1 links lead back .*pets/self"),
    "class that is the domain": (lambda t: link(t, "photo/self", t / "photo"), "1 links lead back .*photo/self"),
    "broken link": (lambda t: link(t, "photo/cat/b.png", t / "nowhere"), "1 links lead nowhere .*photo/cat/b.png"),
    "broken class": (lambda t: link(t, "photo/puma", t / "nowhere"), "1 links lead nowhere .*photo/puma"),
    "links in a ring": (lambda t: (link(t, "photo/cat/a", "b"), link(t, "photo/cat/b", "a")), "2 links lead nowhere"),
    "hidden image": (lambda t: put(t, b"x", "._0.png"), "1 hidden files and folders .*[.]_0.png"),
    "files of systems": (lambda t: (put(t, b"x", "Thumbs.db"), put(t, b"x", ".DS_Store")), "2 hidden files"),
    "thumbnails of a server": (lambda t: (t / "photo" / "@eaDir").mkdir(), "1 hidden files and folders"),
    "pipe": (lambda t: os.mkfifo(t / "photo" / "cat" / "p.png"), "1 names are neither files nor folders"),
    "folder that is named like an image": (lambda t: (t / "photo" / "cat" / "d.png").mkdir(), None),
    "heic": (lambda t: put(t, HEIC, "x.heic"), "1 files of a kind that is not read are left out: 1 .heic, first"),
    "arrays": (lambda t: (put(t, b"x", "x.npy"), put(t, b"x", "y.npy")), "2 .npy, first .*x.npy; convert"),
    "notes": (lambda t: put(t, b"x", "notes.txt"), "1 files without the suffix of an image are left out: .*notes.txt"),
    "image without a suffix": (lambda t: put(t, png(COLOUR, 2, 8), "IMG_1"), "1 of them are images by their content"),
    "same picture": (lambda t: put(t, (t / "photo/cat/0.png").read_bytes()), "1 pictures .* twice in one class"),
    "same picture, other label": (
        lambda t: put(t, (t / "photo/dog/0.png").read_bytes()),
        "1 pictures .* several labels: .*photo/cat/x.png = .*photo/dog/0.png",
    ),
    "same picture, other domain": (
        lambda t: put(t, (t / "photo/cat/0.png").read_bytes(), domain="sketch"),
        "1 pictures .* in several domains",
    ),
    "same pixels in another format": (
        lambda t: put(t, saved(Image.open(t / "photo/cat/0.png"), "BMP"), "x.bmp", label="dog"),
        "1 pictures .* several labels",
    ),
    "splits inside of classes": (split_inside, "every class holds the splits test, train: they are put together"),
    "folders inside of classes": (lambda t: split_inside(t, ("a", "b")), "every class holds the same folders .* a, b"),
    "splits in place of domains": (
        split_domains,
        "2 of 2 domains are named like splits and are taken as domains: train, val",
    ),
    "one level too high": (lambda t: (t / "z").mkdir(), "1 folders hold no image and are left out: z"),
    "name that is not UTF-8": (
        lambda t: os.rename(t / "photo/cat/0.png", os.fsencode(t) + b"/photo/cat/caf\xe9.png"),
        None,
    ),
    "class that is not UTF-8": (lambda t: rename_class(t, "cat", b"caf\xe9"), None),
    "line end in a name": (lambda t: put(t, png(COLOUR, 2, 8), "a\nb.png"), None),
    "name like a flag": (lambda t: put(t, png(COLOUR, 2, 8), "--out.png"), None),
    "name of 255 bytes": (lambda t: put(t, png(COLOUR, 2, 8), "n" * 251 + ".png"), None),
    "smileys": (lambda t: put(t, png(COLOUR, 2, 8), "\U0001f600.png"), None),
    "class with markup": (lambda t: rename_class(t, "cat", b"[red]"), None),
}


@pytest.mark.parametrize("name", REMARKED)
def test_sets_that_are_read_with_a_remark(tree, name):
    """Every remark is one line, and all images can be read as inputs, in memory and from files alike."""
    change, said = REMARKED[name]
    change(tree)
    found = folder(tree, SMALL)
    told = "\n".join(found.remarks)
    assert "\n" not in "".join(found.remarks)
    told.encode()  # whatever the names are
    if said is None:
        assert found.remarks == ()
    else:
        assert re.search(said, told), told
    if "lead " in told:
        assert len(found.remarks) == 1
        assert [len(d.y) for d in found.domains] == [6, 6]
    for d, kept in zip(found.domains, in_memory(found).domains, strict=True):
        x = d.inputs(torch.arange(len(d.y)), None)
        assert torch.equal(x, kept.inputs(torch.arange(len(d.y)), None))
    assert folder(tree, SMALL).fingerprint == found.fingerprint
    assert all(label == label.encode().decode() for label in (*found.labels, *found.names))


def test_one_rule_holds_for_the_whole_set(tree):
    """A dark picture of a set stays dark: of 12 bits, 255 comes out between 0 and 300."""
    each(tree, lambda i: deep(4095, i))
    put(tree, png(np.full((9, 12), 255), 0, 16), "255.png")
    put(tree, png(np.full((9, 12), 256), 0, 16), "256.png")
    found = folder(tree, SMALL)
    assert found.scale == Scale(bits=12)
    photo = found.domain("photo")
    by = {p.name: i for i, p in enumerate(photo.paths)}
    x = photo.inputs(torch.tensor([by["255.png"], by["256.png"]]), None)
    found_shares = x[:, :, 0, 0] * torch.tensor(SMALL.std) + torch.tensor(SMALL.mean)
    assert torch.allclose(found_shares, torch.tensor(16 / 255).expand(2, 3), atol=1e-6)
    stated = folder(tree, Preprocessing(size=8, scale=Scale(bits=16)))
    assert stated.scale == Scale(bits=16)
    assert any("read as 16 bits (white is 65535), as stated" in r for r in stated.remarks)


def test_the_rule_does_not_depend_on_decoding_all(tree):
    each(tree, lambda i: deep(4095, i))
    assert folder(tree, SMALL, Checks(decode=False)).scale == Scale(bits=12)


@pytest.mark.parametrize(
    "names", [("fold_1", "fold_2"), ("Training Set", "Testing Set"), ("train2017", "val2017")], ids=str
)
def test_other_names_of_splits(tree, names):
    for domain in ("photo", "sketch"):
        for old, new in zip(("cat", "dog"), names, strict=True):
            (tree / domain / old).rename(tree / domain / new)
    with pytest.raises(DataError, match="are splits and no classes"):
        folder(tree, SMALL)


@pytest.mark.parametrize(
    "names", [("train", "bus"), ("set", "image"), ("data", "0"), ("full moon", "half moon")], ids=str
)
def test_names_of_classes_that_are_none(tree, names):
    """A train is a vehicle; and numbers or words of their own are no splits."""
    for domain in ("photo", "sketch"):
        for old, new in zip(("cat", "dog"), names, strict=True):
            (tree / domain / old).rename(tree / domain / new)
    assert folder(tree, SMALL).remarks == ()


def vehicles(tree, below):
    """Classes whose images lie in the folders that `below` names for them."""
    for domain in ("photo", "sketch"):
        for old in ("cat", "dog"):
            shutil.rmtree(tree / domain / old)
        for i, (label, parts) in enumerate(below.items()):
            for part in parts:
                (tree / domain / label / part).mkdir(parents=True, exist_ok=True)
                for k in range(2):
                    values = ramp() + np.uint8(len(domain) + 7 * i + 31 * k + len(part))
                    (tree / domain / label / part / f"{k}.png").write_bytes(png(values, 0, 8))


@pytest.mark.parametrize(
    "below",
    [
        {"bus": ("bus1", "bus2"), "car": ("car1",), "train": ("amtrak", "freight")},
        {"bus": ("",), "car": ("",), "train": ("seq01",)},
        {"bus": ("seq01",), "car": ("seq01", "seq02"), "train": ("seq01",)},
    ],
    ids=["all in folders", "one in a folder", "folders of the same names"],
)
def test_a_train_in_folders_is_a_vehicle(tree, below):
    vehicles(tree, below)
    found = folder(tree, SMALL)
    assert found.labels == ("bus", "car", "train")
    inner = ", ".join(below["train"])
    assert (
        f"class train is named like a split and holds folders alone: {inner}; if it is one, a .csv file names the "
        "classes"
    ) in found.remarks


@pytest.mark.parametrize(
    "below",
    [
        {"bus": ("",), "car": ("",), "train": ("Bus", "tram")},
        {"train": ("bus", "car"), "test": ("bus", "car"), "others": ("",)},
    ],
    ids=["another class", "another split"],
)
def test_splits_that_hold_classes_are_refused(tree, below):
    vehicles(tree, below)
    with pytest.raises(DataError, match="train are splits and no classes"):
        folder(tree, SMALL)


def test_fourteen_bits_are_hinted_at(tree):
    each(tree, lambda i: deep(16000, i))
    (told,) = (r for r in folder(tree, SMALL).remarks if "integers" in r)
    assert (
        "read as 16 bits (white is 65535), by the range of the whole set; --depth states another (14 hold them" in told
    )


def test_folders_that_cannot_be_listed(tree, monkeypatch):
    real = os.listdir

    def listdir(path):
        if str(path).endswith("photo/cat"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "listdir", listdir)
    with pytest.raises(DataError, match=r"photo/cat cannot be listed \(Permission denied\); make it readable"):
        folder(tree, SMALL)


def test_large_sets_are_looked_at_from_the_outside(tree, monkeypatch):
    """Beyond DECODED files the headers tell what they can, and a file twice is found by its bytes."""
    monkeypatch.setattr("featlearn.data.domains.DECODED", 5)
    put(tree, saved(Image.fromarray(np.tile(COLOUR, (9, 9, 1))), "JPEG", exif=exif(6)), "x.jpg")
    put(tree, (tree / "photo/dog/0.png").read_bytes())
    told = "\n".join(folder(tree, SMALL).remarks)
    assert "1 of 14 images are turned or mirrored" in told
    assert "1 pictures of the same content stand under several labels" in told
    assert "only their beginnings were checked" in told


REFUSED = {
    "negative": (
        lambda t: put(t, tiff(ramp(np.int16, 100) - np.int16(9), kind=2), "x.tif"),
        "1 of them with values below 0",
    ),
    "32 bits": (lambda t: put(t, tiff(ramp(np.uint32, 2**31)), "x.tif"), "values above 65535, up to 2147483648"),
    "nan": (
        lambda t: put(t, tiff(NAN, kind=3), "x.tif"),
        "1 of 13 images hold floats, 1 of them with nan or infinity: .*x.tif",
    ),
    "floats below 0": (
        lambda t: put(t, tiff(ramp(np.float32, 2) - np.float32(1), kind=3), "x.tif"),
        "outside of 0 to 1",
    ),
    "floats to 2": (lambda t: put(t, tiff(ramp(np.float32, 2), kind=3), "x.tif"), "of neither 0 to 1 nor 0 to 255"),
    "floats to 4000": (lambda t: put(t, tiff(ramp(np.float32, 4000), kind=3), "x.tif"), "outside of 0 to 255"),
    "splits in place of classes": (split_below, "the classes crossval, full, test, train are splits and no classes"),
    "one split beside classes": (one_split_class, "the classes train are splits and no classes"),
    "text": (
        lambda t: put(t, b"hello"),
        "1 of 13 images cannot be read: .*x.png .no PNG, JPEG, TIFF, WebP, GIF, BMP or PNM by its content.; replace",
    ),
    "four reasons": (
        lambda t: (
            put(t, b"a", "a.png"),
            put(t, b"", "b.png"),
            put(t, BOMB, "c.png"),
            put(t, png(COLOUR, 2, 8)[:-40], "d.png"),
        ),
        r"4 of 16 images cannot be read: .*: 1 is no image, 1 has 0 bytes, 1 is too large, 1 is cut short",
    ),
    "an html page": (lambda t: put(t, b"<html>"), "no PNG, JPEG, TIFF, WebP, GIF, BMP or PNM by its content"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sets_that_are_refused_before_work(tree, name):
    change, said = REFUSED[name]
    change(tree)
    with pytest.raises(DataError, match=said) as e:
        folder(tree, SMALL)
    assert "\n" not in str(e.value)


def test_levels_and_kinds_of_folders(tree, tmp_path):
    with pytest.raises(DataError, match=r"holds no image at domain/class/image \(6 images at domain/image\)"):
        folder(tree / "photo", SMALL)
    (tmp_path / "other" / "a" / "b").mkdir(parents=True)
    (tmp_path / "other" / "a" / "b" / "x.heic").write_bytes(HEIC)
    with pytest.raises(DataError, match=r"\(1 files of a kind that is not read are left out: 1 .heic"):
        folder(tmp_path / "other", SMALL)
    with pytest.raises(DataError, match="is not a folder"):
        folder(tree / "photo" / "cat" / "0.png", SMALL)
    (tmp_path / "up").mkdir()
    tree.rename(tmp_path / "up" / "kfold")
    found = folder(tmp_path / "up", SMALL, Checks(least=1))
    assert (
        "every class holds the same folders and no image besides: are the classes one level deeper? cat, dog"
        in found.remarks
    )


def test_a_link_that_is_followed_counts_for_its_class(tree, tmp_path):
    (tree / "photo" / "dog").rename(tmp_path / "elsewhere")
    link(tree, "photo/dog", tmp_path / "elsewhere")
    (tmp_path / "batch").mkdir()
    (tmp_path / "batch" / "9.png").write_bytes(png(COLOUR, 2, 8))
    link(tree, "photo/cat/batch", tmp_path / "batch")
    link(tree, "photo/cat/again", tmp_path / "batch")
    found = folder(tree, SMALL)
    assert found.domain("photo").y.tolist() == [0] * 4 + [1] * 3
    assert found.remarks == (f"1 links reach a folder a second time and are not followed: {tree}/photo/cat/batch",)


def test_threads_leave_the_filters_of_warnings_alone(tree, monkeypatch):
    """Filters belong to the process: of two threads that change them at once, the last to end would leave its own."""
    real = Image.open

    def slow(*args, **words):
        time.sleep(0.004)
        return real(*args, **words)

    monkeypatch.setattr(Image, "open", slow)
    before = list(warnings.filters)
    folder(tree, SMALL, Checks(threads=8))
    assert warnings.filters == before
