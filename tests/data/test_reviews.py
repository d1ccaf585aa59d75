"""Labelled texts: the bundled snippets, a two-column file, and the source archive that the snippets come in."""

import hashlib
import io
import stat
import sys
import tarfile
import zipfile

import pytest

from featlearn import data
from featlearn.data import reviews
from featlearn.data.catalogue import Dataset, File, Sdist
from featlearn.data.reviews import labelled
from featlearn.errors import DataError, DataUnavailable

LINES = "\r\n".join(
    [
        "1\t2.5\tA  fine &amp;amp; film.",
        "2\t-1\tDull.",
        "3\t0.9\tIt has two hours.",
        "4\t-0.99\tIt is long.",
        "5\t1.0\tdull.",
        "6\t1.0\tBright\u2028and short.",
        "",
    ]
)


@pytest.fixture
def here():
    reviews._reviews.cache_clear()
    folder = data.cache_root() / "reviews"
    folder.mkdir(parents=True)
    for name in reviews.NAMES.values():
        (folder / name).write_bytes(LINES.encode())
    yield folder
    reviews._reviews.cache_clear()


def test_the_neutral_middle_and_equal_texts_are_left_out(here):
    tasks = labelled("reviews")
    assert [t.name for t in tasks] == ["movies", "products", "editorials", "tweets"]
    assert tasks[0].texts == ("A fine & film.", "Dull.", "Bright and short.")
    assert tasks[0].labels == (1, 0, 1)
    assert tasks[0].words == ("negative", "positive")


def test_a_damaged_file_says_how_to_replace_it(here):
    (here / "tweets_GroundTruth.txt").write_text("1\tgood\n")
    with pytest.raises(DataUnavailable, match="featlearn data fetch reviews") as refused:
        labelled("reviews")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "name, content",
    [
        ("own.csv", 'label,text\nspam,"Buy, now"\nham,"see\nyou"\nham,SEE YOU\n'),
        ("own.tsv", 'sentence\tlabel\nBuy, now\tspam\n\nsee "you\tham\n'),
    ],
)
def test_a_file_of_two_columns(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8-sig")
    [task] = labelled(tmp_path / name)
    assert task.name == "own"
    assert task.words == ("ham", "spam")
    assert task.labels == (1, 0)
    assert task.texts[0] == "Buy, now"
    assert task.texts[1] in ("see you", 'see "you')


@pytest.mark.parametrize(
    "content, says",
    [
        ("", "no columns text and label"),
        ("a,b\n1,2\n", "but a, b"),
        ("text,sentence,label\n1,2,3\n", "each once"),
        ("text,label\n", "no labels"),
        ("text,label\na,x\nb,x\n", "1 labels"),
        ("text,label\na,x\nb,y\nc,z\n", "3 labels"),
        ("text,label\na,x\n ,y\n", "line 3: an empty text or label"),
        ("text,label\na,x\nb\n", "line 3: an empty text or label"),
        ('text,label\n"a,x\n', "cannot be read"),
        (b"text,label\n\xff,x\n", "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(tmp_path, content, says):
    path = tmp_path / "own.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=says) as refused:
        labelled(path)
    assert "\n" not in str(refused.value)


def test_a_name_that_is_nothing_is_refused():
    with pytest.raises(DataError, match="is not allowed: reviews, or a"):
        labelled("no.csv")


# --- the source archive ----------------------------------------------------------------------------------------------

BODY = b"1\t2.5\tA fine film.\r\n"


def packed(inner: bytes | None = None) -> bytes:
    if inner is None:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            member = tarfile.TarInfo("texts/one.txt")
            member.size = len(BODY)
            tar.addfile(member, io.BytesIO(BODY))
        inner = out.getvalue()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("p-1.0/inner.tar.gz", inner)
    return out.getvalue()


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """A Python whose `-m pip download ... --dest FOLDER ...` copies an archive and keeps what it was asked for."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    script = tmp_path / "python"
    script.write_text(
        f"#!/bin/sh\necho \"$@\" > '{shelf}/called'\n"
        'while [ "$1" != --dest ]; do shift; done\nmkdir -p "$2"\n'
        f"cp '{shelf}/p.zip' \"$2/p-1.0.zip\"; cp \"$4\" '{shelf}/asked'\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(script))
    (shelf / "p.zip").write_bytes(packed())
    return shelf


def texts(inner="p-1.0/inner.tar.gz", folder="texts", body=BODY) -> Dataset:
    file = File("one.txt", len(body), hashlib.sha256(body).hexdigest())
    return Dataset("tiny", "a text", "none", (file,), (Sdist("p==1.0", "ab" * 32, inner, folder),))


def test_files_come_out_of_the_archive_in_the_archive(pip):
    folder = data.fetch(texts())
    assert (folder / "one.txt").read_bytes() == BODY
    assert [p.name for p in folder.iterdir()] == ["one.txt"]
    assert (pip / "asked").read_text() == f"p==1.0 --hash=sha256:{'ab' * 32}\n"
    called = (pip / "called").read_text()
    assert "--require-hashes --no-binary=p --dest" in called
    assert "--no-deps" in called


@pytest.mark.parametrize(
    "entry, archive, says",
    [
        (texts(inner="p-1.0/other.tar.gz"), packed(), "no p-1.0/other.tar.gz in p-1.0.zip"),
        (texts(folder="other"), packed(), "no other/one.txt in p-1.0/inner.tar.gz"),
        (texts(), packed(b"nothing"), "damaged archive"),
        (texts(), b"nothing", "damaged archive p-1.0.zip"),
        (texts(body=b"other"), packed(), "one.txt has SHA-256"),
    ],
)
def test_a_bad_archive_is_refused_and_nothing_stays(pip, entry, archive, says):
    (pip / "p.zip").write_bytes(archive)
    with pytest.raises(DataUnavailable, match=says) as refused:
        data.fetch(entry)
    assert "\n" not in str(refused.value)
    assert list((data.cache_root() / "tiny").iterdir()) == []
