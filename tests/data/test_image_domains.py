"""Domains from folders and tables: what is read, what is refused in one line, what is remarked."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from featlearn.core import Key, SettingError
from featlearn.data import DataError, domains, pictures
from featlearn.data.decoding import Facts
from featlearn.data.domains import Checks, folder, in_memory, table
from featlearn.data.inspection import told_troubles
from featlearn.data.pictures import Preprocessing, augmented, open_rgb, pixels, read
from featlearn.errors import Unreadable

KEY = Key("tests/domains")
SMALL = Preprocessing(size=8)


def image(path, colour=(200, 40, 40), mode="RGB", size=(12, 10)):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)
    return path


@pytest.fixture
def tree(tmp_path):
    """photo and sketch, each with two cats and three dogs."""
    root = tmp_path / "pets"
    for i, domain in enumerate(("photo", "sketch")):
        for label, n in (("cat", 2), ("dog", 3)):
            for j in range(n):
                image(root / domain / label / f"{j}.png", (50 * i + 10 * j, 0 if label == "cat" else 200, 0))
    return root


def message(e) -> str:
    text = str(e.value)
    assert "\n" not in text
    return text


# --- what is read ----------------------------------------------------------------------------------------------------


def test_a_tree_of_domains_and_classes(tree):
    found = folder(tree, SMALL)
    assert found.names == ("photo", "sketch")
    assert found.labels == ("cat", "dog")
    assert found.shape == (3, 8, 8)
    assert found.remarks == ()
    assert [d.y.tolist() for d in found.domains] == [[0, 0, 1, 1, 1]] * 2
    sketch = found.domain("sketch")
    names = ["/".join(p.parts[-2:]) for p in sketch.paths]
    x = sketch.inputs(torch.tensor([names.index("cat/1.png"), names.index("dog/2.png")]), None)
    assert x.shape == (2, 3, 8, 8)
    by_hand = (torch.tensor([60.0, 0.0, 0.0]) / 255 - torch.tensor(SMALL.mean)) / torch.tensor(SMALL.std)
    torch.testing.assert_close(x[0], by_hand.view(3, 1, 1).expand(3, 8, 8))
    with pytest.raises(DataError, match=r"'art' is not in pets: one of photo, sketch"):
        found.domain("art")


def test_a_table_reads_the_same_as_its_tree(tree):
    lines = ["domain,other,path,label"]
    for path in sorted(tree.rglob("*.png")):
        domain, label, name = path.relative_to(tree).parts
        lines.append(f"{domain},x,{domain}/{label}/{name}, {label}")
    (tree / "all.csv").write_text("\ufeff" + "\n".join(lines))
    one, other = folder(tree, SMALL), table(tree / "all.csv", SMALL)
    assert other.labels == one.labels
    assert other.fingerprint == one.fingerprint
    rows = torch.arange(5)
    for a, b in zip(one.domains, other.domains, strict=True):
        assert torch.equal(a.inputs(rows, None), b.inputs(rows, None))


def test_the_fingerprint_follows_the_files(tree):
    before = folder(tree, SMALL).fingerprint
    assert folder(tree, Preprocessing(size=16)).fingerprint == before
    image(tree / "photo" / "cat" / "0.png", size=(30, 30))
    changed = folder(tree, SMALL).fingerprint
    (tree / "photo" / "cat" / "1.png").rename(tree / "photo" / "dog" / "9.png")
    assert len({before, changed, folder(tree, SMALL).fingerprint}) == 3


@pytest.mark.parametrize("side", [4, 200])
def test_the_fingerprint_sees_edits_that_keep_the_size(tree, side):
    path = image(tree / "photo" / "cat" / "0.bmp", (1, 2, 3), size=(side, side))
    before, size = folder(tree, SMALL).fingerprint, path.stat().st_size
    assert folder(tree, SMALL).fingerprint == before
    image(path, (1, 2, 4), size=(side, side))
    assert path.stat().st_size == size
    assert folder(tree, SMALL).fingerprint != before


@pytest.mark.parametrize("place", [0.5, 1.0])
def test_the_fingerprint_sees_every_byte(tree, place):
    """The middle of a large file, and its last byte."""
    path = image(tree / "photo" / "cat" / "0.bmp", (1, 2, 3), size=(400, 400))
    data = bytearray(path.read_bytes())
    assert len(data) > 400_000
    before = folder(tree, SMALL).fingerprint
    data[round(place * (len(data) - 1))] ^= 1
    path.write_bytes(data)
    assert folder(tree, SMALL).fingerprint != before


def test_folders_without_an_image_are_remarked(tree):
    (tree / "splits" / "train").mkdir(parents=True)
    (tree / "photo" / "bird").mkdir()
    assert folder(tree, SMALL).remarks == ("2 folders hold no image and are left out: photo/bird, splits",)
    assert folder(tree, SMALL).names == ("photo", "sketch")


def test_images_that_are_not_plain_colour_are_remarked(tree):
    image(tree / "photo" / "cat" / "0.png", (1, 2, 3, 4), "RGBA")
    image(tree / "photo" / "cat" / "1.png", 7, "L")
    image(tree / "photo" / "dog" / "1.png", 7, "1")
    image(tree / "photo" / "dog" / "2.tif", (1, 2, 3, 4), "CMYK")
    assert folder(tree, SMALL).remarks == (
        "of 11 images 1 with an alpha channel, 2 without colour, 1 in CMYK: read as RGB, transparent as white",
    )


def test_the_name_of_the_folder_that_one_stands_in(tree, monkeypatch):
    monkeypatch.chdir(tree)
    assert folder(".", SMALL).name == "pets"


def test_nested_hidden_and_other_files(tree):
    image(tree / "photo" / "cat" / "session2" / "5.png")
    image(tree / "photo" / "cat" / ".thumbnails" / "5.png")
    image(tree / ".cache" / "cat" / "5.png")
    image(tree / "photo" / "stray.png")
    image(tree / "loose.png")
    (tree / "photo" / "cat" / "notes.txt").write_text("x")
    found = folder(tree, SMALL)
    assert len(found.domain("photo").y) == 6
    assert found.names == ("photo", "sketch")
    assert found.remarks == (
        f"1 files without the suffix of an image are left out: {tree}/photo/cat/notes.txt",
        f"2 hidden files and folders are left out: {tree}/.cache, {tree}/photo/cat/.thumbnails",
        f"1 images lie in a domain outside of any class and are left out: {tree}/photo/stray.png",
        f"1 images lie outside of any domain and are left out: {tree}/loose.png",
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_small_sets_in_memory_read_the_same(tree, threads):
    found = folder(tree, SMALL, Checks(threads=threads))
    kept = in_memory(found)
    rows = torch.tensor([3, 0])
    for a, b in zip(found.domains, kept.domains, strict=True):
        assert torch.equal(a.inputs(rows, None), b.inputs(rows, KEY))
    assert kept.fingerprint == found.fingerprint
    assert in_memory(found, limit=100) is found
    augmenting = folder(tree, dataclasses.replace(SMALL, augment=True))
    assert in_memory(augmenting) is augmenting


# --- pictures ------------------------------------------------------------------------------------------------------


def test_grey_alpha_palette_and_16_bits_become_rgb(tmp_path):
    cases = {
        "L": (77, (77, 77, 77)),
        "RGB": ((1, 2, 3), (1, 2, 3)),
        "RGBA": ((200, 0, 0, 255), (200, 0, 0)),
        "LA": ((90, 255), (90, 90, 90)),
        "1": (1, (255, 255, 255)),
        "CMYK": ((0, 0, 0, 255), (0, 0, 0)),
    }
    for mode, (colour, expected) in cases.items():
        path = image(tmp_path / f"{mode}.{'tif' if mode == 'CMYK' else 'png'}", colour, mode)
        assert open_rgb(path).getpixel((3, 3)) == expected, mode
    half = open_rgb(image(tmp_path / "half.png", (200, 0, 0, 51), "RGBA")).getpixel((0, 0))
    assert half == (244, 204, 204)  # a fifth of the colour over white
    assert open_rgb(image(tmp_path / "clear.png", (9, 9, 9, 0), "RGBA")).getpixel((0, 0)) == (255, 255, 255)
    palette = Image.new("P", (4, 4), 0)
    palette.putpalette([10, 20, 30] + [0] * 765)
    palette.save(tmp_path / "p.png", transparency=0)
    assert open_rgb(tmp_path / "p.png").getpixel((0, 0)) == (255, 255, 255)
    deep = np.full((5, 5), 257 * 100, dtype=np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    assert open_rgb(tmp_path / "deep.png").getpixel((0, 0)) == (100, 100, 100)


def test_augmentation_is_a_function_of_the_key_and_keeps_the_range(tmp_path):
    values = (KEY / "noise").numpy().integers(0, 256, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(values).save(tmp_path / "noise.png")
    picture = open_rgb(tmp_path / "noise.png")
    one = augmented(picture, 16, KEY / 1)
    assert one.shape == (3, 16, 16)
    assert torch.equal(one, augmented(picture, 16, KEY / 1))
    assert not torch.equal(one, augmented(picture, 16, KEY / 2))
    preprocessing = Preprocessing(size=16, augment=True)
    paths = [tmp_path / "noise.png"] * 4
    several = read(paths, preprocessing, KEY, threads=1)
    assert torch.equal(several, read(paths, preprocessing, KEY, threads=3))
    assert len({float(x.sum()) for x in several}) == 4
    assert torch.equal(
        read(paths[:1], preprocessing, None), pictures.normalised(pixels(picture, 16)[None], preprocessing)
    )


def test_what_augmentation_does_to_one_colour(tmp_path):
    """Of 400 pictures of one red, about a tenth is grey, and brightness, saturation and hue vary; sizes of crops are
    between 70 and 100 %."""
    red = Image.new("RGB", (40, 30), (180, 60, 60))
    seen = [augmented(red, 8, KEY / "red" / i)[:, 0, 0].tolist() for i in range(400)]
    grey = sum(len(set(c)) == 1 for c in seen)
    assert 16 <= grey <= 68  # 40 expected; four standard errors
    assert len({tuple(c) for c in seen}) > 300
    shares = []
    for i in range(300):
        left, upper, right, lower = pictures._crop(40, 30, (KEY / "crop" / i).numpy())
        assert 0 <= left < right <= 40
        assert 0 <= upper < lower <= 30
        shares.append((right - left) * (lower - upper) / 1200)
    assert min(shares) > 0.68
    assert max(shares) <= 1
    assert pictures._crop(400, 2, KEY.numpy()) == (199, 0, 201, 2)  # too thin for the ratio


def test_half_of_the_pictures_are_mirrored():
    values = np.zeros((32, 32, 3), dtype=np.uint8)
    values[:, 16:] = 255
    picture = Image.fromarray(values)
    left = [
        float(x[:, :, :8].float().mean()) > float(x[:, :, 24:].float().mean())
        for x in (augmented(picture, 32, KEY / "flip" / i) for i in range(200))
    ]
    assert 72 <= sum(left) <= 128


def test_sizes_below_sense_are_refused():
    with pytest.raises(SettingError, match="size"):
        Preprocessing(size=4)


# --- what is refused -------------------------------------------------------------------------------------------------


def test_no_such_folder_and_no_image(tmp_path, tree):
    for path, said in ((tmp_path / "no", "is not a folder"), (tree / "photo" / "cat", "is it the right level")):
        with pytest.raises(DataError, match=said):
            folder(path, SMALL)


def test_one_domain(tree):
    with pytest.raises(DataError) as e:
        folder(tree, SMALL, Checks(least=3))
    for path in (tree / "sketch").rglob("*.png"):
        path.unlink()
    with pytest.raises(DataError) as e:
        folder(tree, SMALL)
    assert "one domain (photo); at least 2" in message(e)
    assert folder(tree, SMALL, Checks(least=1)).names == ("photo",)


def test_a_domain_with_one_image(tree):
    image(tree / "art" / "dog" / "0.png")
    with pytest.raises(DataError) as e:
        folder(tree, SMALL)
    assert "domain art has 1 image; at least 2" in message(e)


def test_one_class(tmp_path):
    for domain in ("a", "b"):
        for i in range(2):
            image(tmp_path / domain / "dog" / f"{i}.png")
    with pytest.raises(DataError, match="one class"):
        folder(tmp_path, SMALL)


def test_labels_that_differ_by_case(tree):
    (tree / "sketch" / "dog").rename(tree / "sketch" / "Dog")
    with pytest.raises(DataError) as e:
        folder(tree, SMALL)
    assert "labels 'Dog' and 'dog' (sketch; photo) differ by case alone" in message(e)
    assert "--merge-case" in message(e)
    found = folder(tree, SMALL, Checks(merge_case=True))
    assert found.labels == ("Dog", "cat")
    assert [len(d.y) for d in found.domains] == [5, 5]


def test_labels_that_differ_by_spaces(tree):
    (tree / "sketch" / "dog").rename(tree / "sketch" / "dog ")
    with pytest.raises(DataError, match=r"labels 'dog' and 'dog ' .photo; sketch. differ by spaces alone"):
        folder(tree, SMALL)
    assert folder(tree, SMALL, Checks(merge_case=True)).labels == ("cat", "dog")


def test_labels_that_differ_by_unicode_form(tree):
    (tree / "photo" / "cat").rename(tree / "photo" / "caf\u00e9")
    (tree / "sketch" / "cat").rename(tree / "sketch" / "cafe\u0301")
    with pytest.raises(DataError) as e:
        folder(tree, SMALL)
    assert r"labels 'cafe\u0301' and 'caf\xe9' (sketch; photo) differ by Unicode form alone" in message(e)
    assert len(folder(tree, SMALL, Checks(merge_case=True)).labels) == 2


def test_domains_that_differ_by_case_in_a_table(tree):
    rows = ["path,label,domain"]
    rows += [f"photo/cat/{i}.png,cat,Photo" for i in range(2)] + [f"photo/dog/{i}.png,dog,photo" for i in range(2)]
    (tree / "t.csv").write_text("\n".join(rows))
    with pytest.raises(DataError, match=r"domains 'Photo' and 'photo' differ by case alone; rename one$"):
        table(tree / "t.csv", SMALL)


@pytest.mark.parametrize("harm", ["text", "cut", "empty", "gone"])
def test_unreadable_images_are_named_and_counted(tree, harm):
    bad = tree / "photo" / "dog" / "1.png"
    if harm == "gone":
        bad.unlink()
        bad.symlink_to(tree / "nowhere.png")
    else:
        whole = bad.read_bytes()
        bad.write_bytes({"text": b"not an image", "cut": whole[: len(whole) - 30], "empty": b""}[harm])
    if harm == "gone":
        found = folder(tree, SMALL)  # a link into nothing is no file
        assert len(found.domain("photo").y) == 4
        assert found.remarks == (f"1 links lead nowhere and are left out: {bad}",)
        return
    with pytest.raises(DataError) as e:
        folder(tree, SMALL)
    assert f"1 of 10 images cannot be read: {bad}" in message(e)
    assert "--skip-unreadable" in message(e)
    found = folder(tree, SMALL, Checks(skip_unreadable=True))
    assert len(found.domain("photo").y) == 4
    why = {
        "text": "no PNG, JPEG, TIFF, WebP, GIF, BMP or PNM by its content",
        "cut": "image file is truncated",
        "empty": "has 0 bytes",
    }[harm]
    assert f"{bad} ({why})" in message(e)
    assert found.remarks == (f"1 of 10 images cannot be read: {bad} ({why}); they are left out",)


def test_many_files_are_looked_at_from_the_outside_only(tree, monkeypatch):
    monkeypatch.setattr(domains, "DECODED", 5)
    bad = tree / "photo" / "dog" / "1.png"
    bad.write_bytes(bad.read_bytes()[:-30])
    found = folder(tree, SMALL)
    assert "only their beginnings were checked" in found.remarks[-1]
    with pytest.raises(DataError, match=r"1\.png cannot be read as an image"):
        found.domain("photo").inputs(torch.arange(5), None)
    bad.write_bytes(b"no image")
    with pytest.raises(DataError, match="1 of 10 images cannot be read"):
        folder(tree, SMALL)


def test_skipping_may_leave_too_little(tree):
    for path in [*(tree / "photo").rglob("*.png")][:4]:
        path.write_bytes(b"")
    with pytest.raises(DataError, match="domain photo has 1 image"):
        folder(tree, SMALL, Checks(skip_unreadable=True))


def test_classes_that_a_domain_lacks_are_remarked(tree):
    image(tree / "photo" / "fox" / "0.png", (1, 2, 99))
    for i, domain in enumerate(("photo", "sketch", "art")):
        image(tree / domain / "owl" / "0.png", (30 * i, 90, 90))
    image(tree / "art" / "dog" / "0.png")
    found = folder(tree, SMALL)
    assert found.labels == ("cat", "dog", "fox", "owl")
    assert found.remarks == (
        "domain art has no image of 2 of 4 classes: cat, fox",
        "domain sketch has no image of 1 of 4 classes: fox",
        "1 classes are in one domain alone; nothing teaches them when it is held out: 'fox' (photo)",
    )
    assert found.domain("art").y.tolist() == [1, 3]  # indices of all labels, not of the domain's own


@pytest.mark.parametrize(
    "text, said",
    [
        ("path,label\na,b\n", "no column domain"),
        ("", "no column path, label, domain"),
        ("path,label,domain\n", "no line below"),
        ("path,label,domain\na.png,,photo\n", "line 2: no label"),
        ("path,label,domain\na.png\n", "line 2: no label, domain"),
    ],
)
def test_tables_that_are_not_complete(tmp_path, text, said):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError) as e:
        table(tmp_path / "t.csv", SMALL)
    assert said in message(e)


def test_a_table_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        table(tmp_path / "t.csv", SMALL)
    (tmp_path / "t.csv").write_bytes(b"path,label,domain\n\xff\xfe\x00,a,b\n")
    with pytest.raises(DataError, match="UTF-8 CSV"):
        table(tmp_path / "t.csv", SMALL)


def test_a_table_that_names_files_that_are_gone_or_twice(tree):
    rows = ["path,label,domain", "photo/cat/0.png,cat,a", "photo/dog/0.png,dog,a", "photo/dog/1.png,dog,b"]
    (tree / "t.csv").write_text("\n".join([*rows, "photo/cat/0.png,cat,b"]))
    assert table(tree / "t.csv", SMALL).remarks[-1].startswith("1 files stand under several domains or labels: ")
    (tree / "t.csv").write_text("\n".join([*rows, "sketch/../photo/cat/0.png,cat,b"]))
    assert table(tree / "t.csv", SMALL).remarks[-1].startswith("1 files stand under several domains or labels: ")
    (tree / "t.csv").write_text("\n".join([*rows, "photo/dog/1.png,dog,b"]))
    assert (
        "1 files are listed more than once; one image can train and validate: "
        in table(tree / "t.csv", SMALL).remarks[-1]
    )
    (tree / "t.csv").write_text("\n".join([*rows, "photo/cat/77.png,cat,b"]))
    with pytest.raises(DataError, match=r"1 of 4 files does not exist: .*77.png"):
        table(tree / "t.csv", SMALL)


def test_many_files_that_are_gone_are_counted_in_linear_time(monkeypatch):
    """Comparing files in pairs took half a minute for eight thousand."""

    def compared(self, other):
        raise AssertionError("two files were compared")

    monkeypatch.setattr(Facts, "__eq__", compared)
    gone = [Facts(Path(f"{i}.png"), trouble=Unreadable("does not exist")) for i in range(5)]
    cut = [Facts(Path("cut.png"), trouble=Unreadable("is cut short"))]
    told, _ = told_troubles(gone + cut, 9)
    assert told == (
        "5 of 9 files do not exist: 0.png, 1.png, 2.png, ...; 1 of 9 images cannot be read: cut.png (is cut short)"
    )
