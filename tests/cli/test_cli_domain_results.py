"""`featlearn domains` hands over what it measured: settings, files, a page, models that say how good they are."""

import csv
import io
import json
import shlex
from pathlib import Path

import pytest
from PIL import Image

FAST = ("--width", 8, "--size", 8, "--steps", 4, "--evaluate-every", 2, "--batch", 4, "--device", "cpu")
RUNS = (*FAST, "--seeds", 0, 1, "--workers", 1)


@pytest.fixture
def pets(monkeypatch, drawn_pets):
    """Three domains of red and blue pictures, in the current folder, and a table of them with a column."""
    monkeypatch.setenv("COLUMNS", "200")  # headers in one line, whoever runs the tests
    lines = ["path,label,domain,camera,fold"]
    for path in drawn_pets("tests/cli/domain_results"):
        _, domain, label, name = path.parts
        i = int(name[0])
        lines.append(f"{path},{label},{domain},c{i % 3},{'val' if i == 4 else 'train'}")
    Path("pets.csv").write_text("\n".join(lines) + "\n")
    return "pets"


def test_what_a_search_chose_is_shown_and_can_be_fitted(featlearn, pets):
    words = ("--data", pets, *RUNS, "--algorithm", "erm", "erm-nu", "--search", 2, "--held-out", "day", "night")
    status, out, err = featlearn("domains", "evaluate", *words)
    assert status == 0, err
    for said in ("commonest class", "chance", "chosen by training-domain selection", "nuclear weight", "draw", "run"):
        assert said in out
    status, text, _ = featlearn("domains", "evaluate", *words, "--json")
    found = json.loads(text)
    assert len(found["chosen"]) == 2 * 2 * 2
    for c in found["chosen"]:
        assert c["trial"] in out
        assert Path("runs/domains/evaluate", f"{c['trial']}.json").exists()
        assert {"draw", "step", "batch", "rate", "validation", "test", "test_balanced", "test_ece", "majority"} <= set(
            c
        )
    fit = found["fit"]["erm-nu"]
    assert fit["of"] == 3  # as given, and a draw of each seed
    assert fit["settings"]["nuclear_weight"] in [c["nuclear_weight"] for c in found["chosen"] if "nuclear_weight" in c]
    assert f"  {fit['command']}\n" in out
    command = shlex.split(fit["command"])
    assert command[:3] == ["featlearn", "domains", "fit"]
    assert float(command[command.index("--nuclear-weight") + 1]) == fit["settings"]["nuclear_weight"]
    status, _, err = featlearn(*command[1:], "--out", "best.pt")
    assert status == 0, err
    status, text, _ = featlearn("domains", "show", "best.pt", "--json")
    about = json.loads(text)
    assert about["schedule"]["batch"] == fit["batch"]
    assert about["settings"]["nuclear_weight"] == fit["settings"]["nuclear_weight"]
    assert {k: about["schedule"][k] for k in ("steps", "evaluate_every")} == {"steps": 4, "evaluate_every": 2}
    assert about["network"]["width"] == 8


def test_results_are_written_by_their_endings(featlearn, pets):
    words = ("--data", pets, *RUNS, "--algorithm", "erm", "swad")
    files = ("r.csv", "r.tex", "r.parquet", "r.html")
    status, text, err = featlearn("domains", "evaluate", *words, "--out", *files, "--json")
    assert status == 0, err
    chosen = json.loads(text)["chosen"]
    rows = list(csv.DictReader(io.StringIO(Path("r.csv").read_text())))
    assert [r["trial"] for r in rows] == [c["trial"] for c in chosen]
    assert [float(r["test"]) for r in rows] == [c["test"] for c in chosen]
    import pandas

    table = pandas.read_parquet("r.parquet")
    assert list(table["test"]) == [c["test"] for c in chosen]
    assert r"\toprule" in Path("r.tex").read_text()
    assert "<h2>swad</h2>" in Path("r.html").read_text()
    status, _, err = featlearn("domains", "evaluate", *words, "--out", "r.csv")
    assert status == 2
    assert "--replace writes over it" in err
    assert featlearn("domains", "evaluate", *words, "--out", "r.csv", "--replace")[0] == 0


def test_files_that_cannot_be_written_are_refused_before_any_work(refused, pets):
    for name in ("r.xlsx", "no/r.csv", "r"):
        told = refused("domains", "evaluate", "--data", pets, *RUNS, "--out", name)
        assert "out = " in told
    assert not Path("runs").exists()


def test_runs_are_found_where_the_data_were_moved_to(featlearn, pets):
    words = (*FAST, "--seeds", 0, 1)
    assert featlearn("domains", "evaluate", "--data", pets, *words, "--workers", 1)[0] == 0
    Path(pets).rename("animals")
    status, out, err = featlearn("domains", "compare", "erm", "erm-nu", "--data", "animals", *words)
    assert status == 0, err
    assert "6 pairs" in out
    status, out, err = featlearn("domains", "compare", "erm", "erm-nu", "--data", "animals", *words, "--device", "auto")
    assert status == 0, err
    status, _, err = featlearn(
        "domains", "compare", "erm", "erm-nu", "--data", "animals", *words, "--steps", 6, "--batch", 8
    )
    assert status == 1
    assert "6 runs of erm differ in --batch (4 there, 8 here), --steps (4 there, 6 here)" in err
    status, _, err = featlearn("domains", "compare", "erm", "irm", "--data", "animals", *words)
    assert "it has no run of irm at all" in err
    status, _, err = featlearn("domains", "compare", "erm", "irm", "--data", "animals", *words, "--store", "none")
    assert "it holds none at all" in err


def test_selection_by_domains_that_are_held_out_in_their_turn(featlearn, pets):
    words = ("--data", pets, *FAST, "--seeds", 0, "--workers", 1, "--algorithm", "erm", "--search", 2)
    status, text, err = featlearn("domains", "evaluate", *words, "--json")
    assert json.loads(text)["trials"]["ok"] == 6
    words = (*words, "--selection", "leave-one-domain-out")
    status, text, err = featlearn("domains", "evaluate", *words, "--json")
    assert status == 0, err
    found = json.loads(text)
    assert found["trials"] == {"ok": 6, "diverged": 0, "failed": 0, "skipped": 6}
    assert len(found["chosen"]) == 3
    assert found["fit"]["erm"]["of"] == 2


def test_splits_by_columns(featlearn, refused, pets):
    words = ("--data", "pets.csv", *FAST, "--seeds", 0, "--workers", 1, "--algorithm", "erm", "--held-out", "day")
    counts = []
    for more in (
        (),
        ("--group", "camera"),
        ("--split-column", "fold"),
        ("--split", "random"),
        ("--balance", "weights"),
    ):
        status, text, err = featlearn("domains", "evaluate", *words, *more, "--json")
        assert status == 0, err
        counts.append(json.loads(text)["trials"]["ok"])
    assert counts == [1] * 5  # each another run
    assert "it has camera, fold" in refused("domains", "evaluate", *words, "--group", "subject")
    assert "batches serves every algorithm" in refused(
        "domains", "evaluate", "--data", pets, "--algorithm", "irm", "--balance", "weights"
    )


def test_a_model_that_guessing_equals_says_so(featlearn, pets):
    for domain in ("day", "dusk", "night"):  # 20 to 1
        for i in range(15):
            Image.new("RGB", (8, 8), (20, 20, 200 + i)).save(Path(pets) / domain / "blue" / f"more {i}.png")
        for i in range(3):
            (Path(pets) / domain / "red" / f"{i}.png").unlink()
    words = ("--data", pets, *FAST, "--steps", 1, "--rate", 1e-9, "--algorithm", "erm", "--nuclear-weight", 1e6)
    status, _, err = featlearn("domains", "fit", *words)
    assert status == 0
    assert "the model is no better than always answering blue" in err or "do not tell the model from" in err
    status, text, _ = featlearn("domains", "evaluate", *words, "--workers", 1, "--json")
    found = json.loads(text)
    majority = 16 / 17  # of the part that is tested on, where each class has an image
    assert found["levels"][0]["majority"] == pytest.approx(majority, abs=0.05)
    poor = [c for c in found["chosen"] if c["test"] <= c["majority"]]
    status, _, err = featlearn("domains", "evaluate", *words, "--workers", 1)
    assert poor
    assert f"{len(poor)} of {len(found['chosen'])} are no better than always answering the commonest class" in err


def test_a_model_on_labelled_images(featlearn, pets):
    words = ("--data", pets, *FAST, "--steps", 40, "--rate", 0.01, "--held-out", "night")
    assert featlearn("domains", "fit", *words)[0] == 0
    status, out, err = featlearn("domains", "show", "model.pt")
    assert status == 0, err
    for said in ("algorithm: erm-nu", "settings.nuclear_weight: 0.01", "schedule.steps: 40", "seed: 0", "worst class"):
        assert said in out
    status, out, err = featlearn(
        "domains", "score", "model.pt", "--data", pets, "--out", "s.csv", "s.html", "s.parquet"
    )
    assert status == 0, err
    assert "the model was trained on 20 of these 30 images, or chosen by them" in err
    for said in ("day", "night", "all images", "calibration error", "commonest class"):
        assert said in out
    rows = list(csv.DictReader(io.StringIO(Path("s.csv").read_text())))
    assert len(rows) == 30
    assert all(r["label"] in r["path"] for r in rows)
    assert "Calibration" in Path("s.html").read_text()
    status, text, _ = featlearn("domains", "score", "model.pt", "--data", pets, "--json")
    found = json.loads(text)["domains"]
    right = sum(r["label"] == r["predicted"] for r in rows)
    assert found["all images"]["accuracy"] == right / 30
    assert found["all images"]["low"] < right / 30 <= found["all images"]["high"]
    (Path(pets) / "day" / "red").rename(Path(pets) / "day" / "green")
    status, _, err = featlearn("domains", "score", "model.pt", "--data", pets)
    assert status == 2
    assert "1 of 3 are not: green" in err


REFUSED = [
    (("show",), "which model?"),
    (("show", "no.pt"), "model = no.pt"),
    (("score", "no.pt"), "on which images?"),
    (("score", "no.pt", "--data", "pets"), "model = no.pt"),
    (("score", "no.pt", "--data", "pets", "--out", "s.tex"), "a name that ends in .csv, .parquet, .html"),
    (("score", "no.pt", "--data", "pets", "--out", "pets.csv"), "--replace writes over it"),
    (("evaluate", "--data", "pets", "--group", "camera"), "only a .csv file has columns"),
    (("evaluate", "--data", "pets.csv", "--split-column", "camera"), "train, val or test in each line; one has 'c"),
    (("evaluate", "--data", "pets.csv", "--group", "camera", "--split", "random"), "without split = random"),
    (("fit", "--data", "pets.csv", "--algorithm", "cdann"), "algorithm = 'cdann'"),
]


@pytest.mark.parametrize("words, said", REFUSED, ids=lambda v: " ".join(map(str, v)) if isinstance(v, tuple) else "")
def test_refused_in_one_line_before_any_work(refused, pets, words, said):
    assert said in refused("domains", *words)
