"""`featlearn domains` on a small tree of pictures: output, JSON, resuming, and what it refuses before any work."""

import dataclasses
import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

FAST = ("--width", 8, "--size", 8, "--steps", 4, "--evaluate-every", 2, "--batch", 4, "--device", "cpu")
RUNS = (*FAST, "--seeds", 0, 1, "--workers", 1)


@pytest.fixture
def pets(drawn_pets):
    """Three domains of red and blue pictures, in the current folder."""
    drawn_pets("tests/cli/domains")
    return "pets"


def test_help(featlearn):
    status, out, _ = featlearn("domains", "--help")
    assert status == 0
    assert out.startswith("usage: featlearn domains COMMAND")
    for name in ("check", "evaluate", "compare", "fit", "predict"):
        assert f"\n  {name} " in out
        sub, told, _ = featlearn("domains", name, "--help")
        assert sub == 0
        assert told.startswith(f"usage: featlearn domains {name}")


def test_flags_have_the_defaults_of_the_settings():
    from featlearn.cli.domains._shared import TrainOptions
    from featlearn.methods.domains import Schedule, Settings

    flags = TrainOptions()
    for f in dataclasses.fields(Settings):
        assert getattr(flags, f.name) == f.default
    for name in ("steps", "weight_decay", "evaluate_every", "precision"):
        assert getattr(flags, name) == getattr(Schedule(), name)


def test_check_shows_classes_and_what_is_odd(featlearn, pets):
    for path in (Path(pets) / "dusk" / "red").iterdir():
        path.unlink()
    status, out, err = featlearn("domains", "check", "--data", pets)
    assert status == 0
    assert "2 classes; day 10, dusk 5, night 10 images" in out
    assert "featlearn: domain dusk has no image of 1 of 2 classes: red" in err
    status, out, _ = featlearn("domains", "check", "--data", pets, "--json")
    found = json.loads(out)
    assert found["domains"] == {"day": [5, 5], "dusk": [5, 0], "night": [5, 5]}
    assert found["remarks"] == ["domain dusk has no image of 1 of 2 classes: red"]


def test_evaluate_resumes_and_compare_pairs(featlearn, pets):
    words = ("--data", pets, *FAST)
    status, out, err = featlearn(
        "domains", "evaluate", *words, "--seeds", 0, "--workers", 1, "--held-out", "day", "--json"
    )
    assert status == 0
    first = json.loads(out)
    assert first["trials"] == {"ok": 2, "diverged": 0, "failed": 0, "skipped": 0}
    assert first["missing"] == []
    status, out, err = featlearn("domains", "evaluate", "--data", pets, *RUNS)
    assert status == 0
    assert "12 runs (2 of 12 done before)" not in out  # 10 are left
    assert "10 runs (2 of 12 done before)" in out
    assert "± " in out
    for word in ("algorithm", "day", "dusk", "night", "average", "erm-nu"):
        assert word in out
    status, out, err = featlearn("domains", "evaluate", "--data", pets, *RUNS, "--json")
    again = json.loads(out)
    assert again["trials"]["skipped"] == 12
    day = next(s for s in again["scores"] if (s["algorithm"], s["domain"]) == ("erm", "day"))
    assert day["values"]["0"] == first["scores"][0]["values"]["0"]
    assert len(day["values"]) == 2
    status, out, err = featlearn("domains", "compare", "erm", "erm-nu", *words, "--seeds", 0, 1, "--json")
    assert status == 0
    found = json.loads(out)
    assert [d["domain"] for d in found["differences"]] == ["day", "dusk", "night", "average"]
    assert found["differences"][-1]["n"] == 6
    nu = next(s for s in again["scores"] if (s["algorithm"], s["domain"]) == ("erm-nu", "average"))
    erm = next(s for s in again["scores"] if (s["algorithm"], s["domain"]) == ("erm", "average"))
    assert found["differences"][-1]["mean"] == pytest.approx(nu["mean"] - erm["mean"])
    status, out, err = featlearn(
        "domains", "compare", "erm", "erm-nu", *words, "--seeds", 0, 1, 2, "--workers", 1
    )  # flags of evaluate are taken as they are
    assert status == 0
    assert "6 of 18 runs are missing" in err
    assert "erm, day held out, seed 2, draw 0: not run" in err
    assert "6 pairs of seed and held-out domain" in out
    status, out, err = featlearn("domains", "compare", "erm", "irm", *words)
    assert status == 1
    assert "no pair of runs" in err


def test_a_run_that_fails_is_named_and_the_others_are_kept(featlearn, pets, monkeypatch):
    from featlearn.apply.domains import runs

    real = runs.train_resumable

    def train(*args, **words):
        if "dusk" in words["key"].path:
            raise FloatingPointError("the loss is nan at step 3: lower the rate")
        return real(*args, **words)

    monkeypatch.setattr(runs, "train_resumable", train)
    status, out, err = featlearn("domains", "evaluate", "--data", pets, *RUNS, "--algorithm", "erm", "--seeds", 0)
    assert status == 0  # diverged, which is a result
    assert "the loss is nan at step 3" in err
    assert "1 of 3 runs are missing from the table" in err
    assert "erm, dusk held out, seed 0, draw 0: diverged" in err
    assert "–" in out


def test_fit_and_predict(featlearn, pets):
    status, out, err = featlearn("domains", "fit", "--data", pets, *FAST, "--steps", 40, "--rate", 0.01, "--json")
    assert status == 0
    assert json.loads(out)["model"] == "model.pt"
    assert torch.load("model.pt", weights_only=True)["labels"] == ["blue", "red"]
    status, out, _ = featlearn(
        "domains", "predict", "--model", "model.pt", f"{pets}/day/red/0.png", f"{pets}/night/blue"
    )
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "path,label,probability"
    assert len(lines) == 7
    assert lines[1].startswith("pets/day/red/0.png,red,0.")
    assert all(",blue,0." in line for line in lines[2:])
    Path("bad.png").write_text("x")
    status, out, err = featlearn(
        "domains", "predict", "--model", "model.pt", "--json", f"{pets}/day/red/0.png", "bad.png"
    )
    assert status == 1
    good, bad = json.loads(out)
    assert good["label"] == "red"
    assert sum(good["probabilities"].values()) == pytest.approx(1)
    assert bad["label"] is None
    assert "cannot be read as an image" in bad["error"]
    assert "1 of 2 files are no images" in err
    status, out, _ = featlearn("domains", "predict", "--model", "model.pt", "--all", "--out", "t.csv", pets)
    assert (status, out) == (0, "")
    assert Path("t.csv").read_text().splitlines()[0] == "path,label,probability,blue,red"
    status, _, err = featlearn("domains", "predict", "--model", "model.pt", "--out", "t.csv", f"{pets}/day")
    assert status == 2
    assert "--replace writes over it" in err
    assert len(Path("t.csv").read_text().splitlines()) == 31
    words = ("--out", "t.csv", "--replace", f"{pets}/day")
    assert featlearn("domains", "predict", "--model", "model.pt", *words)[0] == 0
    assert len(Path("t.csv").read_text().splitlines()) == 11


@pytest.mark.parametrize("out", ["model.pt", "pets/day/red/0.png"])
def test_predictions_are_not_written_over_what_is_read(refused, pets, out):
    Path("model.pt").write_text("model")
    before = Path(out).read_bytes()
    for more in ((), ("--replace",)):
        words = ("--model", "model.pt", "--out", out, *more, pets)
        assert "none of the files that are read" in refused("domains", "predict", *words)
    assert Path(out).read_bytes() == before


def test_a_model_is_not_written_over_the_table_or_the_weights(refused, pets):
    for name in ("t.csv", "w.pt"):
        Path(name).write_text("mine")
    for name in ("t.csv", "w.pt"):
        words = ("--data", "t.csv", "--backbone", "resnet18", "--weights", "w.pt", "--out", name, "--replace")
        assert "none of the files that are read" in refused("domains", "fit", *words)
        assert Path(name).read_text() == "mine"


REFUSED = [
    (("evaluate",), "data is missing"),
    (("evaluate", "--data", "nowhere"), "is not there"),
    (("evalute", "--data", "pets"), "did you mean evaluate?"),
    ((), "which of its commands?"),
    (("evaluate", "--data", "pets", "--stepz", 3), "did you mean --steps?"),
    (("evaluate", "--data", "pets", "--nuclear-weight", -0.1), "nuclear_weight = -0.1 is not allowed: 0 or more"),
    (("evaluate", "--data", "pets", "--batch", 1), "batch = 1 is not allowed: 2 or more"),
    (("evaluate", "--data", "pets", "--steps", 0), "steps = 0"),
    (("evaluate", "--data", "pets", "--rate", -1), "rate = -1"),
    (("evaluate", "--data", "pets", "--size", 3), "size = 3"),
    (("evaluate", "--data", "pets", "--width", 9), "width = 9"),
    (("evaluate", "--data", "pets", "--weights", "no.pth"), "weights = no.pth"),
    (("evaluate", "--data", "pets", "--algorithm", "cdann"), "algorithm = 'cdann' is not allowed"),
    (("evaluate", "--data", "pets", "--algorithm", "miro"), "pretrained weights"),
    (("evaluate", "--data", "pets", "--held-out", "noon"), "different ones of day, dusk, night"),
    (("evaluate", "--data", "pets", "--seeds", 0, 0), "seeds = (0, 0)"),
    (("evaluate", "--data", "pets", "--search", 0), "search = 0"),
    (("evaluate", "--data", "pets", "--workers", -1), "workers = -1"),
    (("evaluate", "--data", "pets", "--threads", -1), "threads = -1"),
    (("evaluate", "--data", "pets", "--device", "gpu0"), "device = 'gpu0'"),
    (("evaluate", "--data", "pets", "--swad-ratio", -1), "swad ratio = -1"),
    (("evaluate", "--data", "pets", "--per-domain", 5), "rotated-mnist"),
    (("evaluate", "--data", "pets", "--batch-norm", "frozen"), "batch_norm = frozen is not allowed for cnn"),
    (("check", "--data", "pets", "--float-range", 1, 0), "float_range = (1.0, 0.0) is not allowed: black below white"),
    (("check", "--data", "pets", "--depth", "9"), "depth"),
    (("evaluate", "--data", "rotated-mnist", "--augment", "yes"), "which is not augmented"),
    (("compare", "erm", "--data", "pets"), "which two algorithms?"),
    (("fit", "--data", "pets", "--out", "no/model.pt"), "a file in a folder that exists"),
    (("fit", "--data", "pets", "--seed", -1), "seed = -1"),
    (("predict", "pets"), "model is missing"),
    (("predict", "--model", "no.pt", "--out", "pets", "pets"), "a file in a folder that exists"),
    (("evaluate", "--data", "pets", "--device", "mps"), "a device that torch sees here"),
    (("predict", "--model", "no.pt", "pets"), "model = no.pt"),
    (("predict", "--model", "pets/day/red/0.png", "pets"), "a file of tensors"),
]


@pytest.mark.parametrize("words, said", REFUSED, ids=lambda v: " ".join(map(str, v)) if isinstance(v, tuple) else "")
def test_refused_in_one_line_before_any_work(refused, pets, words, said):
    assert said in refused("domains", *words)


def test_odd_data_is_refused_in_one_line(refused, featlearn, pets):
    day = Path(pets) / "day"
    (day / "red").rename(day / "Red")
    assert "differ by case alone" in refused("domains", "evaluate", "--data", pets)
    (day / "Red").rename(day / "red")
    (day / "red" / "1.png").write_bytes(b"x")
    told = refused("domains", "evaluate", "--data", pets)
    assert "1 of 30 images cannot be read: pets/day/red/1.png" in told
    words = ("--skip-unreadable", *FAST, "--seeds", 0, "--held-out", "dusk", "--algorithm", "erm", "--workers", 1)
    status, _, err = featlearn("domains", "evaluate", "--data", pets, *words)
    assert status == 0
    assert "they are left out" in err


def test_one_domain_and_one_image(refused, pets):
    (Path(pets) / "dusk").rename("dusk")
    (Path(pets) / "night").rename("night")
    assert "one domain (day)" in refused("domains", "evaluate", "--data", pets)
    (Path(pets) / "extra" / "red").mkdir(parents=True)
    (Path("dusk") / "red" / "0.png").rename(Path(pets) / "extra" / "red" / "0.png")
    assert "domain extra has 1 image" in refused("domains", "evaluate", "--data", pets)


def test_nothing_is_written_over(refused, pets):
    Path("model.pt").write_text("mine")
    assert "--replace" in refused("domains", "fit", "--data", pets)
    assert Path("model.pt").read_text() == "mine"


# --- odd data, and what is said of it ------------------------------------------------------------------------------


def sixteen(path, top):
    """A picture of 16 bits with values from 0 to `top`."""
    values = np.linspace(0, top, 64).round().astype(np.uint16).reshape(8, 8)
    Image.fromarray(values).save(path)


def splits(pets):
    for domain in ("day", "dusk", "night"):
        for label in ("blue", "red"):
            for i, split in enumerate(("train", "test")):
                place = pets / domain / split / label
                place.mkdir(parents=True)
                (pets / domain / label / f"{i}.png").rename(place / "a.png")
            shutil.rmtree(pets / domain / label)


def table_with(sep, place):
    def write(pets):
        lines = [sep.join(("path", "label", "domain"))]
        for path in sorted(pets.rglob("*.png")):
            domain, label, name = path.relative_to(pets).parts
            lines.append(sep.join((f"{place}{domain}/{label}/{name}", label, domain)))
        (pets / "t.csv").write_text("\n".join(lines))

    return write


REFUSALS = {
    "splits in place of classes": (splits, "", "the classes test, train are splits and no classes"),
    "another separator": (table_with(";", ""), "t.csv", "it separates values by semicolons: save it with commas"),
    "another base": (table_with(",", "pets/"), "t.csv", "30 of 30 files do not exist: "),
    "an archive": (lambda p: zipfile.ZipFile(p / "t.csv", "w").writestr("a", "b"), "t.csv", "unpack it"),
    "a pipe": (lambda p: os.mkfifo(p / "t.csv"), "t.csv", "neither a folder nor a file"),
    "a file cut short": (
        lambda p: (p / "day/red/0.png").write_bytes((p / "day/red/0.png").read_bytes()[:-30]),
        "",
        "day/red/0.png (image file is truncated)",
    ),
    "values beyond the depth": (lambda p: sixteen(p / "day/red/0.png", 5000), "--depth=12", "up to 5000"),
    "floats of no range": (
        lambda p: Image.fromarray(np.full((8, 8), -1.0, np.float32)).save(p / "day/red/f.tif"),
        "",
        "1 outside of 0 to 1",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_check_evaluate_and_fit_refuse_alike(refused, pets, name):
    change, more, said = REFUSALS[name]
    change(Path(pets))
    data = f"{pets}/{more}" if more.endswith(".csv") else pets
    flags = (more,) if more.startswith("--") else ()
    told = {refused("domains", command, "--data", data, *flags) for command in ("check", "evaluate", "fit")}
    assert len(told) == 1
    assert said in told.pop()


REMARKS = {
    "depth": (lambda p: sixteen(p / "day/red/0.png", 4095), "1 of 30 images hold integers of 16 bits, from 0 to 4095"),
    "twins": (lambda p: shutil.copy(p / "day/red/0.png", p / "dusk/blue/9.png"), "pictures of the same content stand"),
    "broken link": (lambda p: (p / "day/red/l.png").symlink_to("gone"), "1 links lead nowhere"),
    "loop": (lambda p: (p / "day/red/up").symlink_to(".."), "1 links lead back to a folder that holds them"),
    "hidden": (lambda p: shutil.copy(p / "day/red/0.png", p / "day/red/._0.png"), "1 hidden files and folders"),
    "another kind": (lambda p: (p / "day/red/a.heic").write_bytes(b"x"), "1 files of a kind that is not read"),
}


@pytest.mark.parametrize("name", REMARKS)
def test_check_evaluate_and_fit_remark_alike(featlearn, pets, name):
    """On stderr before any training, and in the JSON."""
    change, said = REMARKS[name]
    change(Path(pets))
    once = (*FAST, "--steps", 2)
    found = []
    for words in (
        ("check",),
        ("evaluate", *once, "--seeds", 0, "--held-out", "day", "--algorithm", "erm"),
        ("fit", *once),
    ):
        status, out, err = featlearn("domains", *words, "--data", pets, "--json")
        assert status == 0
        found.append(json.loads(out)["remarks"])
        assert said in " ".join(found[-1])
        assert err.splitlines()[: len(found[-1])] == [f"featlearn: {line}" for line in found[-1]]
    assert found[0] == found[1] == found[2]


def test_predict_leaves_out_what_the_others_leave_out(featlearn, pets):
    assert featlearn("domains", "fit", "--data", pets, *FAST)[0] == 0
    place = Path(pets) / "day" / "red"
    shutil.copy(place / "0.png", place / "._0.png")
    (place / "._1.png").write_bytes(b"x")
    (place / "gone.png").symlink_to("nowhere")
    (place / "up").symlink_to("..")
    (place / "a.heic").write_bytes(b"x")
    os.mkfifo(place / "pipe.png")
    (place / "more").symlink_to(Path(pets).absolute() / "night" / "red")
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.open(place / "0.png").save(place / "turned.png", exif=turned)
    status, out, err = featlearn("domains", "predict", "--model", "model.pt", place)
    assert status == 0
    assert len(out.splitlines()) == 1 + 6 + 5
    for said in ("2 hidden files", "1 links lead nowhere", "1 links lead back", "1 .heic", "neither files nor folders"):
        assert said in err
    assert "1 of 11 images: turned or mirrored as its EXIF orientation says: " in err
    status, out, _ = featlearn("domains", "predict", "--model", "model.pt", place / "._0.png", "--json")
    assert status == 0  # one that is named is meant
    assert json.loads(out)[0]["remarks"] == []
    status, out, _ = featlearn("domains", "predict", "--model", "model.pt", place / "pipe.png", "--json")
    assert status == 1
    assert "is no regular file" in json.loads(out)[0]["error"]
    shutil.rmtree(place)
    place.mkdir()
    (place / "a.heic").write_bytes(b"x")
    status, _, err = featlearn("domains", "predict", "--model", "model.pt", place)
    assert status == 2
    assert "1 files of a kind that is not read" in err


def test_a_model_reads_depths_as_it_was_fitted(featlearn, pets):
    for path in Path(pets).rglob("*.png"):
        sixteen(path, 3000 + 10 * int(path.stem) + (50 if "red" in str(path) else 0))
    status, _, err = featlearn("domains", "fit", "--data", pets, *FAST)
    assert status == 0
    assert "30 of 30 images hold integers of 16 bits" in err
    assert "read as 12 bits (white is 4095), by the range of the whole set" in err
    from featlearn.apply.domains.models import load
    from featlearn.data.decoding import Scale

    assert load("model.pt").preprocessing.scale == Scale(bits=12)
    sixteen("dark.png", 300)
    sixteen("bright.png", 5000)
    status, out, err = featlearn("domains", "predict", "--model", "model.pt", "--json", "dark.png", "bright.png")
    assert status == 1
    dark, bright = json.loads(out)
    assert "16 bits read as 12, as the model was fitted" in dark["remarks"]
    assert "integers from 0 to 5000 where white is 4095" in bright["error"]
    Path("model.pt").unlink()
    assert featlearn("domains", "fit", "--data", pets, *FAST, "--depth", 16)[0] == 0
    status, out, _ = featlearn("domains", "predict", "--model", "model.pt", "--json", "dark.png", "bright.png")
    assert status == 0
    assert "no value above a sixteenth of white: nearly black as it is read" in json.loads(out)[0]["remarks"]


def test_compare_finds_the_runs_of_a_deep_set(featlearn, pets):
    """What the range of the set says is the same whether all files are decoded or not."""
    for path in Path(pets).rglob("*.png"):
        sixteen(path, 3000 + 10 * int(path.stem) + (50 if "red" in str(path) else 0))
    words = ("--data", pets, *FAST, "--seeds", 0, "--held-out", "day")
    assert featlearn("domains", "evaluate", *words)[0] == 0
    assert featlearn("domains", "compare", "erm", "erm-nu", *words)[0] == 0


def test_names_are_bytes(featlearn, pets, monkeypatch):
    """All commands on a strict stdout, with names that are neither UTF-8 nor one line."""
    root, name = os.fsencode(pets), b"caf\xe9\n.png"
    os.rename(root + b"/day/red/0.png", root + b"/day/red/" + name)
    os.rename(root + b"/dusk", root + b"/du\xffsk")
    os.rename(root, b"p\xe9ts")
    data, dusk, model = (os.fsdecode(b) for b in (b"p\xe9ts", b"du\xffsk", b"m\xe9.pt"))

    def call(*words, encoding="utf-8"):
        with open("stdout", "w", encoding=encoding, newline="") as out, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            status, _, err = featlearn("domains", *words)
        assert status == 0, err
        return Path("stdout").read_bytes()

    assert rb"p\xe9ts: 2 classes; day 10, du\xffsk 10, night 10" in call("check", "--data", data)
    runs = (*FAST, "--seeds", 0, "--workers", 1, "--held-out", dusk, "--algorithm", "erm")
    assert json.loads(call("evaluate", "--data", data, *runs, "--json"))["scores"][0]["domain"] == r"du\xffsk"
    call("fit", "--data", data, *FAST, "--out", model, "--held-out", dusk)
    shown = call("predict", "--model", model, data)
    assert b'"p\xe9ts/day/red/caf\xe9\n.png",' in shown  # the bytes of the name
    assert call("predict", "--model", model, data, encoding="ascii") == shown
    call("predict", "--model", model, data, "--out", os.fsdecode(b"o\xe9.csv"))
    assert Path(os.fsdecode(b"o\xe9.csv")).read_bytes() == shown
    found = json.loads(call("predict", "--model", model, data, "--json"))
    assert os.fsencode(next(p["path"] for p in found if "caf" in p["path"])) == b"p\xe9ts/day/red/" + name


def test_names_that_stdout_does_not_have(featlearn, pets, monkeypatch):
    Path(pets, "day", "red").rename(Path(pets, "day", "r\u00f6t"))
    assert featlearn("domains", "fit", "--data", pets, *FAST)[0] == 0
    with open("stdout", "w", encoding="ascii", newline="") as out, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        assert featlearn("domains", "predict", "--model", "model.pt", "--all", pets)[0] == 0
    lines = Path("stdout").read_bytes().splitlines()
    assert lines[0] == rb"path,label,probability,blue,red,r\xf6t"
    assert len(lines) == 31


def test_algorithms_are_refused_before_the_data_are_read(refused):
    for command in ("fit", "evaluate"):
        assert "algorithm = 'cdann'" in refused("domains", command, "--data", "nowhere", "--algorithm", "cdann")
        assert "pretrained weights" in refused("domains", command, "--data", "nowhere", "--algorithm", "miro")
    assert "seeds = (0, 0)" in refused("domains", "evaluate", "--data", "nowhere", "--seeds", 0, 0)
    assert "algorithm = 'x'" in refused("domains", "compare", "erm", "x", "--data", "nowhere")


def test_swad_without_a_valley_is_told(featlearn, pets):
    words = ("--data", pets, *FAST, "--algorithm", "swad")
    runs = ("--seeds", 0, "--held-out", "day", "--workers", 1)
    status, out, err = featlearn("domains", "evaluate", *words, *runs)
    assert status == 0
    assert " *" in out
    assert "* SWAD found no valley" in out
    assert "2 evaluations are too few to find a valley (--swad-converge 3)" in err.splitlines()[0]
    assert "no valley in 1 of 1 chosen runs, whose last segment alone is averaged: swad, day held out, seed 0" in err
    status, out, _ = featlearn("domains", "evaluate", *words, *runs, "--json")
    found = json.loads(out)
    assert [(c["held_out"], c["converged"]) for c in found["without_valley"]] == [("day", False)]
    assert found["scores"][0]["without_valley"] == [0]
    status, out, err = featlearn("domains", "fit", *words, "--json")
    assert json.loads(out)["swad"] == {"converged": False, "first": 2, "last": 2}
    assert "there is no valley" in err
    valley = ("--swad-converge", 1, "--out", "other.pt")
    status, out, err = featlearn("domains", "fit", *words, *valley, "--json")
    assert json.loads(out)["swad"]["converged"] is True
    assert "valley" not in err
    status, out, err = featlearn("domains", "evaluate", *words, *runs, *valley[:2])
    assert "*" not in out
    assert "valley" not in err


def test_batch_norm_of_a_random_start_learns(featlearn, pets):
    pytest.importorskip("torchvision")
    words = ("--data", pets, "--backbone", "resnet18", "--size", 32, "--steps", 2, "--batch", 2, "--device", "cpu")
    status, _, err = featlearn("domains", "fit", *words, "--augment", "no")
    assert status == 0
    assert "resnet18 starts from random weights" in err
    assert "its batch norm learns" in err
    fitted = torch.load("model.pt", weights_only=True)
    assert fitted["frozen"] is False
    assert int(fitted["featurizer"]["net.bn1.num_batches_tracked"]) > 0
    status, _, err = featlearn("domains", "fit", *words, "--batch-norm", "frozen", "--out", "frozen.pt")
    assert "batch norm is frozen at mean 0 and variance 1" in err
    frozen = torch.load("frozen.pt", weights_only=True)
    assert float(frozen["featurizer"]["net.bn1.running_mean"].abs().max()) == 0
    weights = {k.removeprefix("net."): v for k, v in fitted["featurizer"].items()}
    torch.save(weights, "w.pth")
    status, _, err = featlearn("domains", "fit", *words, "--weights", "w.pth", "--out", "kept.pt")
    assert "batch norm of resnet18 keeps the statistics of w.pth (--batch-norm learned" in err
    kept = torch.load("kept.pt", weights_only=True)
    assert kept["frozen"] is True
    assert torch.equal(kept["featurizer"]["net.bn1.running_mean"], weights["bn1.running_mean"])


def test_a_class_is_no_markup(featlearn, pets):
    for domain in Path(pets).iterdir():
        (domain / "red").rename(domain / "[red]:smile:")
    status, out, _ = featlearn("domains", "check", "--data", pets)
    assert status == 0
    assert "[red]:smile:" in out
