"""`featlearn domains` at its edges: odd names, files of other endings, models that are broken, empty tables."""

import csv
import io
import json
import os
import shutil
import sys
import unicodedata
import warnings
from pathlib import Path

import pytest

FAST = ("--width", 8, "--size", 8, "--steps", 4, "--evaluate-every", 2, "--batch", 4, "--device", "cpu")
RUN = (*FAST, "--algorithm", "erm", "--seeds", 0, "--workers", 1)


@pytest.fixture
def pets(drawn_pets):
    drawn_pets("tests/cli/edges")
    return "pets"


def table(name, part, **more):
    """A table of the pets with a column `part` by domain, class and number, and others."""
    with open(name, "w", newline="") as f:
        rows = csv.writer(f)
        rows.writerow(["path", "label", "domain", "part", *more])
        for path in sorted(Path("pets").rglob("*.png")):
            label, domain, i = path.parent.name, path.parent.parent.name, int(path.stem)
            rows.writerow([path, label, domain, part(domain, label, i), *(v(i) for v in more.values())])
    return name


# --- data ------------------------------------------------------------------------------------------------------------


def test_classes_and_domains_that_cannot_be_read_are_told(featlearn, pets):
    for path in [*Path(pets).glob("*/red/*"), *Path(pets).glob("night/*/*")]:
        path.write_text("junk")
    for i in range(3):
        shutil.copytree(f"{pets}/day/blue", f"{pets}/day/green{i}")
        shutil.copytree(f"{pets}/dusk/blue", f"{pets}/dusk/green{i}")
    status, _, err = featlearn("domains", "check", "--data", pets, "--skip-unreadable")
    assert status == 0
    assert "1 of 3 domains have no file that can be read and are left out whole: night" in err
    assert "1 of 5 classes have no file that can be read and are left out whole: red" in err


def test_two_columns_of_one_name_are_refused(refused, pets):
    """The last one won, without a word."""
    Path("twice.csv").write_text("path,label,domain,part,part\npets/day/red/0.png,red,day,train,test\n")
    assert "twice.csv has the column part more than once; keep one" in refused(
        "domains", "check", "--data", "twice.csv"
    )


def test_the_folder_of_a_built_in_name_is_told(monkeypatch, pets):
    from featlearn.apply.domains import sources

    found = sources.load(sources.Source(pets, size=8))
    monkeypatch.setattr(sources, "_fetch", lambda name: None)
    monkeypatch.setattr(sources, "rotated_mnist", lambda **words: found)
    assert sources.load(sources.Source("rotated-mnist")).remarks == found.remarks
    Path(pets).rename("rotated-mnist")
    assert sources.load(sources.Source("rotated-mnist")).remarks[-1].endswith("./rotated-mnist is that")
    assert sources.load(sources.Source("./rotated-mnist", size=8)).names == ("day", "dusk", "night")


def test_a_domain_with_test_rows_alone_is_refused_before_any_run(featlearn, refused, pets):
    """Its runs went well, and those that would train on it failed one after the other."""
    data = table("parts.csv", lambda d, c, i: "test" if d == "night" or i == 0 else "train")
    words = ("domains", "evaluate", "--data", data, *RUN, "--split-column", "part")
    assert "night has none: --held-out night alone holds it out" in refused(*words)
    status, _, err = featlearn(*words, "--held-out", "night", "--selection", "oracle")
    assert status == 1
    assert "oracle selection has nothing to go by: no held-out domain has rows for it" in err


def test_one_domain_that_is_held_out_leaves_none(featlearn, pets):
    for name in ("dusk", "night"):
        shutil.rmtree(Path(pets) / name)
    status, _, err = featlearn("domains", "fit", "--data", pets, *FAST, "--held-out", "day")
    assert status == 2
    assert "held_out = day is not allowed: one of several domains; no other is left to train on" in err


def test_names_are_matched_whatever_their_unicode_form(featlearn, pets):
    one, other = (unicodedata.normalize(form, "été") for form in ("NFC", "NFD"))
    for domain in Path(pets).iterdir():
        (domain / "red").rename(domain / one)
    (Path(pets) / "night").rename(Path(pets) / other)
    status, _, err = featlearn("domains", "fit", "--data", pets, *FAST, "--held-out", one)
    assert status == 0, err
    assert featlearn("domains", "evaluate", "--data", pets, *RUN, "--held-out", one)[0] == 0
    for domain in Path(pets).iterdir():
        (domain / one).rename(domain / other)
    assert featlearn("domains", "score", "model.pt", "--data", pets)[0] == 0
    for domain in Path(pets).iterdir():
        (domain / "blue").rename(domain / "Blue")
    assert featlearn("domains", "score", "model.pt", "--data", pets)[0] == 2
    assert featlearn("domains", "score", "model.pt", "--data", pets, "--merge-case")[0] == 0


# --- flags that are told --------------------------------------------------------------------------------------------


def test_what_the_search_and_the_rate_come_to_is_told(featlearn, pets):
    Path("edges_mine.py").write_text(
        "from torch import nn\n\n\ndef made():\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, 8))\n\n\n"
        "def frozen():\n    return made().requires_grad_(False)\n"
    )
    words = ("--data", pets, *FAST, "--algorithm", "erm")
    _, _, err = featlearn("domains", "fit", *words, "--backbone", "edges_mine:made")
    assert "nothing says whether it is pretrained; the rate is 5e-05, as for pretrained weights" in err
    _, _, err = featlearn("domains", "fit", *words, "--backbone", "edges_mine:frozen", "--out", "f.pt")
    assert "the rate is 0.001, for a head on frozen features" in err
    _, _, err = featlearn("domains", "fit", *words, "--backbone", "edges_mine:made", "--rate", 0.1, "--out", "g.pt")
    assert "the rate is" not in err
    sys.modules.pop("edges_mine")
    _, _, err = featlearn("domains", "evaluate", "--data", pets, *RUN, "--search", 2, "--held-out", "day")
    assert "--search draws batches from 32 to 63 whatever --batch is: 4 is that of draw 0 alone" in err


def test_only_draws_that_both_have_are_compared(featlearn, pets):
    """The best of three draws of one stood against the one draw of the other."""
    words = ("--data", pets, *FAST, "--seeds", 0, "--held-out", "day")
    evaluate = ("domains", "evaluate", *words, "--workers", 1, "--algorithm")
    assert featlearn(*evaluate, "erm-nu", "--search", 3)[0] == 0
    assert featlearn(*evaluate, "erm")[0] == 0
    one = json.loads(featlearn("domains", "compare", "erm", "erm-nu", *words, "--json")[1])
    status, out, err = featlearn(
        "domains", "compare", "erm", "erm-nu", *words, "--search", 3, "--json", "--out", "c.csv"
    )
    assert status == 0
    assert json.loads(out)["differences"] == one["differences"]
    assert "only draws that both have are chosen among" in err
    assert "compare writes no file: --out c.csv is that of evaluate" in err


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_model_is_written_as_its_name_ends(featlearn, refused, pets):
    """`fit --out model.safetensors` wrote another kind of file under that name, which nothing read."""
    assert "a name that ends in .pt or .safetensors; `featlearn domains export` writes .onnx" in refused(
        "domains", "fit", "--data", pets, *FAST, "--out", "m.onnx"
    )
    assert featlearn("domains", "fit", "--data", pets, *FAST, "--out", "m.SAFETENSORS")[0] == 0
    assert featlearn("domains", "show", "m.SAFETENSORS")[0] == 0
    assert featlearn("domains", "export", "m.SAFETENSORS", "--out", "n.SAFETENSORS")[0] == 0
    image = f"{pets}/day/red/0.png"
    status, _, _ = featlearn("domains", "predict", "--model", "n.SAFETENSORS", image, "--out", "p.json")
    assert status == 0
    assert json.loads(Path("p.json").read_text())[0]["path"] == image
    said = refused("domains", "predict", "--model", "n.SAFETENSORS", image, "--out", "p.parquet")
    assert "a name that ends in .csv or .json" in said


def test_classes_that_are_called_like_columns(featlearn, pets):
    for domain in Path(pets).iterdir():
        (domain / "red").rename(domain / "label")
    assert featlearn("domains", "fit", "--data", pets, *FAST)[0] == 0
    _, out, _ = featlearn("domains", "predict", "--model", "model.pt", f"{pets}/day/blue/0.png", "--all")
    (row,) = csv.DictReader(io.StringIO(out))
    assert set(row) == {"path", "label", "probability", "blue", "probability of label"}
    assert row["label"] in ("blue", "label")


@pytest.mark.skipif(sys.platform == "darwin", reason="names of files are Unicode there")
def test_a_folder_whose_name_is_not_utf_8(featlearn, pets):
    """It ended after all runs, when the page was written."""
    data = os.fsdecode(b"caf\xe9")
    os.rename(pets, data)
    files = ("e.html", "e.csv", "e.json", "e.tex")
    status, out, err = featlearn("domains", "evaluate", "--data", data, *RUN, "--out", *files)
    assert status == 0, err
    assert r"caf\xe9" in Path("e.html").read_text()
    (out + err).encode()
    assert featlearn("domains", "fit", "--data", data, *FAST)[0] == 0
    for words in (("show", "model.pt"), ("score", "model.pt", "--data", data, "--out", "s.html", "s.csv")):
        status, out, err = featlearn("domains", *words)
        assert status == 0, err
        (out + err).encode()


def test_names_are_drawn_as_they_stand():
    """Two `$` were read as a formula; characters that the font lacks were boxes, with a warning each."""
    import numpy as np

    from featlearn.apply.domains.measures import Measures
    from featlearn.apply.domains.page import _drawable, confusion_picture

    labels = ("$^_$", "汉字", "a_b")
    found = Measures(np.eye(3, dtype=np.int64), np.zeros((15, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "data:image/png" in str(confusion_picture(found, labels, "all"))
        assert _drawable(labels, range(3)) == ["$^_$", "2", "a_b"]


# --- what diverges ---------------------------------------------------------------------------------------------------


def test_runs_that_all_diverge_are_no_success(featlearn, pets):
    """The weights of one step at a rate of 1e30 answer nan: they were kept, and nan was class 0."""
    words = ("--data", pets, *FAST, "--steps", 1, "--rate", 1e30)
    status, _, err = featlearn("domains", "fit", *words)
    assert status != 0
    assert "the loss is nan" in err
    assert not Path("model.pt").exists()
    status, _, err = featlearn("domains", "evaluate", *words, "--algorithm", "erm", "--seeds", 0, "--workers", 1)
    assert status == 1
    assert "all runs diverged, and would again: lower --rate" in err
    assert "to run them" not in err


def test_a_model_that_answers_nan_is_refused(featlearn, pets):
    import torch

    assert featlearn("domains", "fit", "--data", pets, *FAST)[0] == 0
    data = torch.load("model.pt", weights_only=True)
    data["head"] = {name: torch.full_like(value, 3.4e38) for name, value in data["head"].items()}
    torch.save(data, "model.pt")
    image = f"{pets}/day/red/0.png"
    for words in (("score", "model.pt", "--data", pets), ("predict", "--model", "model.pt", image, "--json")):
        status, _, err = featlearn("domains", *words)
        assert status == 2
        assert "model = one that answers nan is not allowed: finite probabilities; fit it anew" in err
