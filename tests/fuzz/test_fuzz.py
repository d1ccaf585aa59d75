"""Damaged files and odd words: whatever is read ends in a value or in a named error, and nothing of the user's changes.

Valid files are the start; bytes are flipped, inserted and taken out, and values of JSON replaced by others. `make test`
draws a few hundred inputs, the same ones each time; `make fuzz` draws 100,000 new ones.
"""

import contextlib
import dataclasses
import functools
import gzip
import importlib
import io
import json
import math
import os
import tarfile
import tempfile
import warnings
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from PIL import Image  # noqa: E402

from featlearn.cli import run as cli  # noqa: E402
from featlearn.data import checkpoints, decoding, download, images, tables, texts  # noqa: E402
from featlearn.data.catalogue import File  # noqa: E402
from featlearn.errors import CommandError, DataError, FeatlearnError, StoreError  # noqa: E402
from featlearn.lab.experiment import Experiment, TrialResult  # noqa: E402
from featlearn.lab.store import Manifest, Record, Store, read_manifest  # noqa: E402
from featlearn.lab.trial import trial_hash  # noqa: E402

hypothesis.configuration.set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "featlearn-hypothesis")
TOTAL = int(os.environ.get("FEATLEARN_FUZZ", "0"))
"""Inputs of all tests together; 0: the drawn part."""


def fuzzed(share: float):
    """Settings of a test: its part of all inputs, or few."""
    return settings(
        max_examples=math.ceil(share * (TOTAL or 400)),
        derandomize=not TOTAL,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


# --- damage ----------------------------------------------------------------------------------------------------------

EDIT = st.tuples(
    st.sampled_from(["flip", "insert", "delete", "cut", "double"]),
    st.floats(0, 1),
    st.one_of(
        st.binary(min_size=1, max_size=6), st.sampled_from([b"\0", b"\xff" * 4, b"\x7f\xff\xff\xff", b'"', b"\n"])
    ),
)


def damaged(data: bytes, edits) -> bytes:
    """`data` after the edits; a place is a share of its length."""
    for what, place, patch in edits:
        at = min(int(place * len(data)), max(len(data) - 1, 0))
        end = at + len(patch)
        data = {
            "flip": data[:at] + patch + data[end:],
            "insert": data[:at] + patch + data[at:],
            "delete": data[:at] + data[end:],
            "cut": data[:at],
            "double": data[:at] + data[at:end] * 3 + data[end:],
        }[what]
    return data


EDITS = st.lists(EDIT, min_size=1, max_size=4)


def nested(depth: int):
    """Lists in lists."""
    out: list = []
    for _ in range(depth):
        out = [out]
    return out


SHAPES = (lambda: [], dict, lambda: [5], lambda: {"": None}, lambda: [[1], {"a": []}])
DEPTHS = (50, 500, 100_000)
ODD = st.one_of(
    st.sampled_from([None, True, False, 0, -1, 1.5, 1e308, 10**30, 10**400, math.nan, math.inf]),
    st.sampled_from(["", "../../x", "\0", "é" * 300]),
    st.sampled_from([*SHAPES, *(functools.partial(nested, n) for n in DEPTHS)]).map(lambda made: made()),
    st.text(max_size=8),
    st.integers(),
    st.floats(),
)
"""Values that no field has; each is new, since a later edit may change it."""


@st.composite
def odd_json(draw, document):
    """A copy of a JSON document with one or two values replaced, taken out or added."""
    document = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, 2))):
        at = document
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            deeper = at[key] if isinstance(at[key], dict | list) and at[key] else None
            if deeper is not None and draw(st.booleans()):
                at = deeper
                continue
            what = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
            if what == "remove":
                del at[key]
            elif what == "add" and isinstance(at, dict):
                at[draw(st.text(max_size=5))] = draw(ODD)
            else:
                at[key] = draw(ODD)
            break
        if not isinstance(document, dict):
            break
    return text_of(document)


def text_of(document) -> bytes:
    """As json.dumps, for any depth."""
    try:
        return json.dumps(document).encode()
    except RecursionError:
        return json.dumps({}).encode()[:1] + b'"deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def tree(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@contextlib.contextmanager
def unchanged(folder: Path):
    """Nothing below the folder is made, changed or removed."""
    before = tree(folder)
    yield
    assert tree(folder) == before


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def ends(read, *allowed, lines=1):
    """The value of a reader, or None where it refused; a refusal is one line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except allowed as why:
        said = str(why)
    assert len(said.splitlines()) <= lines, said
    return None


# --- data ------------------------------------------------------------------------------------------------------------

IDX = b"\0\0\x08\x03" + np.array([3, 2, 2], ">i4").tobytes() + bytes(range(12))


@fuzzed(0.2)
@given(EDITS)
def test_idx(edits):
    ends(lambda: images.parse_idx(damaged(IDX, edits)), DataError)


@fuzzed(0.05)
@given(EDITS, st.booleans())
def test_idx_files(place, edits, packed):
    path = place / ("labels.gz" if packed else "labels")
    path.write_bytes(damaged(gzip.compress(IDX, mtime=0), edits) if packed else damaged(IDX, edits))
    ends(lambda: images.read_idx(path), DataError)


@fuzzed(0.05)
@given(EDITS)
def test_files_of_the_catalogue(place, edits):
    import hashlib

    path, file = place / "file.gz", File("file", len(IDX), hashlib.sha256(IDX).hexdigest())
    path.write_bytes(damaged(gzip.compress(IDX, mtime=0), edits))
    found = ends(lambda: download.read_verified(path, file, "replace it"), DataError)
    assert found in (None, IDX)


@fuzzed(0.15)
@given(EDITS)
def test_tables(place, edits):
    path = place / "table.csv"
    path.write_bytes(damaged(b'path,label,domain\na.png,dog,photo\n"b, c.png",cat,art\n', edits))
    with unchanged(place):
        ends(lambda: tables.rows_of(path), DataError)


def pictures() -> dict[str, bytes]:
    """A small picture in each format that is read."""
    rng, out = np.random.default_rng(0), {}
    grey, colour = rng.integers(0, 255, (5, 4), np.uint8), rng.integers(0, 255, (5, 4, 3), np.uint8)
    for kind in ("PNG", "JPEG", "PPM", "BMP", "TIFF", "WEBP", "GIF"):
        for name, array in (("grey", grey), ("colour", colour), ("deep", grey.astype(np.uint16) * 257)):
            with contextlib.suppress(OSError, ValueError), io.BytesIO() as f:
                Image.fromarray(array).save(f, kind)
                out[f"{kind} {name}"] = f.getvalue()
    return out


PICTURES = pictures()


@fuzzed(0.2)
@given(st.sampled_from(sorted(PICTURES)), EDITS)
def test_pictures(place, name, edits):
    path = place / "picture"
    path.write_bytes(damaged(PICTURES[name], edits))
    with unchanged(place):
        ends(lambda: decoding.open_rgb(path), DataError)


@fuzzed(0.05)
@given(st.lists(st.binary(max_size=20), max_size=2))
def test_folders_of_texts(place, contents):
    with tempfile.TemporaryDirectory(dir=place) as folder:
        for i, content in enumerate(contents):
            Path(folder, f"{i}.txt").write_bytes(content)
        with unchanged(Path(folder)):
            ends(lambda: texts.essays(folder), DataError)


def archive() -> bytes:
    with io.BytesIO() as f:
        with tarfile.open(fileobj=f, mode="w") as tar:
            for name in ("package/data/a.gz", "package/b.txt"):
                info = tarfile.TarInfo(name)
                info.size = 6
                tar.addfile(info, io.BytesIO(b"inside"))
        return f.getvalue()[: 4 * 512 + 1024]


ARCHIVE = archive()


@fuzzed(0.05)
@given(EDITS, st.booleans())
def test_archives_write_into_their_folder_alone(place, edits, packed):
    with tempfile.TemporaryDirectory(dir=place) as folder:
        here = Path(folder)
        data = damaged(ARCHIVE, edits)
        (here / "a.tar").write_bytes(gzip.compress(data, mtime=0) if packed else data)
        before = tree(here)
        with contextlib.suppress(download._SourceFailed):
            download.unpack(here / "a.tar", here / "out", {"package/data/a.gz", "package/b.txt", "../x"})
        after = tree(here)
        assert {k: v for k, v in after.items() if k in before} == before
        assert all(k in before or k.startswith("out/") for k in after)


CONFIG = {
    "model_type": "llama",
    "hidden_size": 8,
    "architectures": ["LlamaForCausalLM"],
    "quantization_config": {"a": 1},
}


@fuzzed(0.03)
@given(st.one_of(odd_json(CONFIG), EDITS.map(lambda e: damaged(json.dumps(CONFIG).encode(), e))))
def test_folders_of_models(place, config):
    with tempfile.TemporaryDirectory(dir=place) as folder:
        Path(folder, "config.json").write_bytes(config)
        Path(folder, "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
        with unchanged(Path(folder)):
            ends(lambda: checkpoints.local("mine", Path(folder)), DataError)


# --- stores ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Trial:
    """Of the record that is damaged."""

    d: int = 3
    name: str = "a"
    rates: tuple[float, ...] = (0.1, 0.2)


NAME = "mine/mean"
HASH = trial_hash(NAME, 1, Trial())


@pytest.fixture(scope="module")
def kept(place):
    """A store with one record, its arrays and a manifest: the store, and its files as they were."""
    store = Store(place / "runs")
    record = {f.name: None for f in dataclasses.fields(Record)}
    record |= {"experiment": NAME, "version": 1, "hash": HASH, "trial": {"d": 3, "name": "a", "rates": [0.1, 0.2]}}
    record |= {"status": "ok", "rows": [{"row": "x", "seed": 0, "score": 0.5}, {"row": "y", "seed": 1, "score": None}]}
    plain = {"error": "", "started": "2026-01-01T00:00:00", "seconds": 1.0, "peak_mib": 1.0, "provenance": {}}
    plain |= {"arrays": 0, "seeds": [0], "code": "", "digest": "", "arrays_digest": "", "seal": ""}
    known = {f.name: f for f in dataclasses.fields(Record)}
    made = {k: v for k, v in {**record, **{k: v for k, v in plain.items() if k in known}}.items() if v is not None}
    store.write(Record(**made), {"x": np.arange(6.0)})
    manifest = {"experiment": NAME, "hash": "0123456789abcdef", "version": 1, "trials": [HASH], "config": {"d": 3}}
    rest = {
        "preset": "small",
        "started": "2026-01-01T00:00:00",
        "seconds": 1.0,
        "command": "",
        "changed": {},
        "sweep": {},
    }
    rest |= {"source": NAME, "provenance": {}, "sweeps": {}, "summary": [], "code": ""}
    known = {f.name for f in dataclasses.fields(Manifest)}
    store.write_manifest(Manifest(**{k: v for k, v in (manifest | rest).items() if k in known}))
    return store, tree(place / "runs")


@contextlib.contextmanager
def with_file(store, files, name, data):
    """The store with other bytes in one file; all that is read there leaves it as it is."""
    path = store.root / name
    path.write_bytes(data)
    try:
        with unchanged(store.root):
            yield path
    finally:
        path.write_bytes(files[name])


def reads(store, files, lines=1):
    """Every way to read a record: what is not refused is as it was written."""
    own = json.loads(files[f"{NAME}/{HASH}.json"])["rows"]
    found = ends(lambda: store.read(NAME, HASH, arrays=True), StoreError, lines=lines)
    assert found is None or [*found.rows] == own
    table = ends(lambda: store.table_of(NAME, [HASH]), StoreError, lines=lines)
    assert table is None or [{k: v for k, v in r.items() if k != "trial"} for r in table.rows] in ([], own)
    ends(lambda: store.records(NAME), StoreError, lines=lines)
    arrays = ends(lambda: store.load_arrays(NAME, HASH), StoreError, lines=lines)
    assert not arrays or np.array_equal(arrays["x"], np.arange(6.0))


@pytest.mark.parametrize("kind", ["json", "npz"])
@fuzzed(0.04)
@given(EDITS)
def test_bytes_of_records(kept, kind, edits):
    store, files = kept
    name = f"{NAME}/{HASH}.{kind}"
    with with_file(store, files, name, damaged(files[name], edits)):
        reads(store, files)


@fuzzed(0.04)
@given(st.data())
def test_values_of_records(kept, data):
    store, files = kept
    name = f"{NAME}/{HASH}.json"
    text = data.draw(odd_json(json.loads(files[name])))
    sealed = b'"seal": ""' not in text and b'"seal"' in text  # without a seal it is a record of an older version
    with with_file(store, files, name, text):
        if sealed:
            reads(store, files)
        else:
            ends(lambda: store.read(NAME, HASH, arrays=True), StoreError)


@fuzzed(0.04)
@given(st.data())
def test_manifests(kept, data):
    store, files = kept
    name = next(n for n in files if n.endswith(".run.json"))
    whole = json.loads(files[name])
    text = data.draw(st.one_of(odd_json(whole), EDITS.map(lambda e: damaged(files[name], e))))
    with with_file(store, files, name, text) as path:
        ends(lambda: read_manifest(path), StoreError)
        ends(lambda: store.manifests(NAME), StoreError)
        ends(lambda: store.manifests(), StoreError)


# --- configs ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Config:
    """Of every kind of field."""

    d: int = 3
    rate: float = 0.1
    loud: bool = False
    name: str = "a"
    kind: Literal["a", "b"] = "a"
    seeds: tuple[int, ...] = (0, 1)
    rates: tuple[float, ...] = (0.5,)
    limit: int | None = None


MINE = Experiment(
    id=NAME,
    title="Any",
    reproduces=(),
    Config=Config,
    presets={"small": Config()},
    trials=lambda c: [c],
    run_trial=lambda t: TrialResult([]),
    summarise=lambda t: [],
    draw=lambda t: {},
)
FLAGS = [f"--{f.name}" for f in dataclasses.fields(Config)] + ["--no-loud", "--sweep", "--preset", "--threads", "--jsn"]
WORD = st.one_of(
    st.sampled_from(
        [*FLAGS, "d=1,2", "d=", "=", "d=1,1", "seeds=1+2,3", "nan", "inf", "1e400", "-1", "9" * 30, "", "--", "True"]
    ),
    st.text(max_size=6),
)


@fuzzed(0.02)
@given(st.lists(WORD, max_size=5))
def test_words_of_the_command_line(words):
    if {"-h", "--help"} & {*words}:
        return

    def read():
        options, raw, kind = cli.parse_run(MINE, words, "mine.py")
        return cli.sweep_members(MINE, kind, raw, options.sweep, "featlearn run mine.py")

    ends(read, CommandError, lines=9)  # `main` makes one of them


@fuzzed(0.02)
@given(
    command=st.sampled_from(["list", "run", "verify", "diff", "data", "report", "bench"]),
    words=st.lists(st.text(max_size=6), max_size=3),
)
def test_words_of_commands(command, words, place, monkeypatch, capsys):
    if command in ("list", "verify", "report", "data") and all(w.startswith("-") or not w for w in words):
        words = [*words, "--no-such-flag"]  # nothing that works
    monkeypatch.chdir(place)
    with unchanged(place):
        status = importlib.import_module("featlearn.cli").main([command, *words])
    assert status in (0, 1, 2)
    err = capsys.readouterr().err
    assert "Traceback" not in err
    if status:
        assert len(err.splitlines()) == 1, err


def test_the_property_can_fail():
    with pytest.raises(ZeroDivisionError):
        ends(lambda: 1 / 0, FeatlearnError)
    with pytest.raises(AssertionError):
        ends(lambda: (_ for _ in ()).throw(DataError("two\nlines")), FeatlearnError)
