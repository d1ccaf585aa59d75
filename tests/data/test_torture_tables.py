"""Every odd table that we could think of: each is read as its folder is, or refused in one line."""

import os
import zipfile

import pytest
import torch
from torture import COLOUR, pets, png, put

from featlearn.data import DataError
from featlearn.data.domains import folder, table
from featlearn.data.pictures import Preprocessing

SMALL = Preprocessing(size=8)


@pytest.fixture
def tree(tmp_path):
    return pets(tmp_path)


def rows(tree, sep=",", names=("path", "label", "domain"), place=""):
    lines = [sep.join(names)]
    for path in sorted(tree.rglob("*.png")):
        domain, label, name = path.relative_to(tree).parts
        lines.append(sep.join((f"{place}{domain}/{label}/{name}", label, domain)))
    return "\n".join(lines) + "\n"


def zipped(t):
    with zipfile.ZipFile(t / "t.csv", "w") as z:
        z.writestr("a.csv", "x")


TABLES = {
    "semicolons": (lambda t: rows(t, ";"), "it separates values by semicolons: save it with commas"),
    "tabs": (lambda t: rows(t, "\t"), "it separates values by tabs"),
    "bars": (lambda t: rows(t, "|"), "it separates values by bars"),
    "upper case names": (lambda t: rows(t, names=("Path", "Label", "Domain")), "write them in lower case"),
    "no first line": (lambda t: rows(t).partition("\n")[2], "has no column path, label, domain"),
    "a column twice": (lambda t: rows(t, names=("path", "label", "domain,label")), "the column label more than once"),
    "too many values": (
        lambda t: rows(t).replace("photo/cat/0.png", "photo/cat,0.png"),
        "line 2: 4 values for 3 columns",
    ),
    "wrong base": (
        lambda t: rows(t, place="data/pets/"),
        "12 of 12 files do not exist: .*data/pets/photo/cat/0.png, .*relative paths count from the folder of the table",
    ),
    "base one higher": (lambda t: rows(t).replace("photo/", "").replace("sketch/", ""), "are found from .*photo"),
    "absolute paths of another machine": (lambda t: rows(t, place="/home/x/"), "are they of another machine"),
    "a missing and a damaged one": (
        lambda t: (put(t, b"x", "1.png"), rows(t) + "photo/cat/9.png,cat,photo\n")[1],
        "1 of 13 files does not exist: .*9.png .relative paths .*; 1 of 13 images cannot be read: .*1.png .no PNG",
    ),
    "a folder": (lambda t: rows(t) + "photo/cat,cat,photo\n", "is a folder"),
    "a home that is not there": (lambda t: rows(t) + "~nobody9/x.png,cat,photo\n", "1 of 13 files does not exist"),
    "a quote that is not closed": (
        lambda t: (
            rows(t).replace("0.png,cat,photo", '0.png,"cat,photo', 1).replace("2.png,cat,photo", '2.png,cat",photo', 1)
        ),
        "line 2: the label goes on in the next line; is a quote not closed?",
    ),
    "a line end in a domain": (
        lambda t: rows(t) + 'photo/cat/0.png,cat,"pho\nto"\n',
        "line 14: the domain goes on in the next line",
    ),
    "many domains of one image": (
        lambda t: rows(t) + "".join(f"photo/cat/0.png,cat,d{i}\n" for i in range(9)),
        "domain d0 has 1 image, d1 has 1 image, d2 has 1 image, ...; at least 2",
    ),
    "UTF-16": (lambda t: rows(t).encode("utf-16"), "text in UTF-16"),
    "bytes of value 0": (lambda t: rows(t).replace("cat/0", "cat/\0"), "UTF-8 CSV"),
    "zip": (zipped, "a .zip or .xlsx file and no UTF-8 CSV file; unpack it"),
    "gzip": (lambda t: b"\x1f\x8b" + bytes(30), "a .gz file"),
    "image": (lambda t: png(COLOUR, 2, 8), "is an image and no UTF-8 CSV file"),
    "labels of splits": (
        lambda t: rows(t).replace(",cat", ",train").replace(",dog", ",val"),
        "the classes train, val are splits",
    ),
    "label that is not UTF-8": (
        lambda t: rows(t).replace(",cat", ",caf\xe9").encode("latin-1"),
        r"label 'caf\\\\xe9' is not UTF-8",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_that_are_refused(tree, name):
    make, said = TABLES[name]
    text = make(tree)
    if text is not None:
        (tree / "t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match=said) as e:
        table(tree / "t.csv", SMALL)
    assert "\n" not in str(e.value)


def test_a_table_that_is_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(DataError, match="neither a folder nor a file"):
        table(tmp_path / "t.csv", SMALL)


SAME = {
    "byte order mark": (lambda t: "\ufeff" + rows(t), None),
    "line ends of Windows": (lambda t: rows(t).replace("\n", "\r\n"), None),
    "blank lines": (lambda t: rows(t).replace("\n", "\n\n"), None),
    "spaces and quotes": (
        lambda t: "\n".join(", ".join(f'"{v}"' for v in line.split(",")) for line in rows(t).splitlines()),
        None,
    ),
    "a comma at the end": (lambda t: rows(t).replace("\n", ",\n"), None),
    "backslashes": (lambda t: rows(t).replace("/", "\\"), "12 paths with backslashes read as folders: "),
    "dots": (lambda t: rows(t, place="./"), None),
    "absolute paths": (lambda t: rows(t, place=f"{t}/"), None),
}


@pytest.mark.parametrize("name", SAME)
def test_tables_that_read_the_same(tree, name):
    make, said = SAME[name]
    (tree / "t.csv").write_text(make(tree), newline="")
    found, expected = table(tree / "t.csv", SMALL), folder(tree, SMALL)
    assert found.labels == expected.labels
    assert [d.y.tolist() for d in found.domains] == [d.y.tolist() for d in expected.domains]
    for a, b in zip(found.domains, expected.domains, strict=True):
        assert torch.equal(a.inputs(torch.arange(6), None), b.inputs(torch.arange(6), None))
    assert [r.startswith(said) for r in found.remarks] == ([True] if said else [])


def test_paths_that_are_not_utf_8(tree):
    os.rename(tree / "photo" / "cat" / "0.png", os.fsencode(tree) + b"/photo/cat/caf\xe9.png")
    text = rows(tree).encode("utf-8", "surrogateescape")
    assert b"caf\xe9.png" in text
    (tree / "t.csv").write_bytes(text)
    assert table(tree / "t.csv", SMALL).fingerprint == folder(tree, SMALL).fingerprint


def test_a_hidden_file_that_a_table_names_is_read(tree):
    (tree / "photo" / "cat" / "0.png").rename(tree / "photo" / "cat" / ".0.png")
    (tree / "t.csv").write_text(rows(tree))
    assert len(table(tree / "t.csv", SMALL).domain("photo").y) == 6
    assert len(folder(tree, SMALL).domain("photo").y) == 5
