"""`featlearn domains` on a small tree of pictures: output, JSON, resuming, and what it refuses before any work."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from PIL import Image

from featlearn.core import Key

FAST = ("--width", 8, "--size", 8, "--steps", 4, "--evaluate-every", 2, "--batch", 4, "--device", "cpu")
RUNS = (*FAST, "--seeds", 0, 1, "--workers", 1)


@pytest.fixture
def pets():
    """Three domains of red and blue pictures, in the current folder."""
    draw = Key("tests/cli/domains").numpy()
    for domain in ("day", "dusk", "night"):
        for label, colour in (("blue", (20, 20, 200)), ("red", (200, 20, 20))):
            folder = Path("pets") / domain / label
            folder.mkdir(parents=True)
            for i in range(5):
                noisy = tuple(int(c + draw.integers(0, 40)) for c in colour)
                Image.new("RGB", (8, 8), noisy).save(folder / f"{i}.png")
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
    from featlearn.cli_domains import TrainOptions
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
    assert first["cells"] == {"ok": 2, "diverged": 0, "failed": 0, "skipped": 0}
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
    assert again["cells"]["skipped"] == 12
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
    assert "erm, day held out, seed 2, trial 0: not run" in err
    assert "6 pairs of seed and held-out domain" in out
    status, out, err = featlearn("domains", "compare", "erm", "irm", *words)
    assert status == 1
    assert "no pair of runs" in err


def test_a_run_that_fails_is_named_and_the_others_are_kept(featlearn, pets, monkeypatch):
    from featlearn.tools.domains import runs

    real = runs.train

    def train(*args, **words):
        if "dusk" in words["key"].path:
            raise FloatingPointError("the loss is nan at step 3: lower the rate")
        return real(*args, **words)

    monkeypatch.setattr(runs, "train", train)
    status, out, err = featlearn("domains", "evaluate", "--data", pets, *RUNS, "--algorithm", "erm", "--seeds", 0)
    assert status == 0  # diverged, which is a result
    assert "the loss is nan at step 3" in err
    assert "1 of 3 runs are missing from the table" in err
    assert "erm, dusk held out, seed 0, trial 0: diverged" in err
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
    (("evaluate", "--data", "pets", "--algorithm", "dann"), "algorithm = 'dann' is not allowed"),
    (("evaluate", "--data", "pets", "--algorithm", "miro"), "pretrained weights"),
    (("evaluate", "--data", "pets", "--held-out", "noon"), "different ones of day, dusk, night"),
    (("evaluate", "--data", "pets", "--seeds", 0, 0), "seeds = (0, 0)"),
    (("evaluate", "--data", "pets", "--search", 0), "search = 0"),
    (("evaluate", "--data", "pets", "--workers", -1), "workers = -1"),
    (("evaluate", "--data", "pets", "--threads", -1), "threads = -1"),
    (("evaluate", "--data", "pets", "--device", "gpu0"), "device = 'gpu0'"),
    (("evaluate", "--data", "pets", "--swad-ratio", -1), "swad ratio = -1"),
    (("evaluate", "--data", "pets", "--per-domain", 5), "rotated-mnist"),
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
