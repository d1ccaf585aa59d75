"""`featlearn domains` with backbones of other people, linear probes and exports."""

import json
import shutil
import sys
from pathlib import Path

import pytest

FAST = ("--size", 8, "--steps", 4, "--evaluate-every", 2, "--batch", 4, "--device", "cpu")
OWN = """
import torch


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 6, 3)

    def forward(self, x):
        return self.layer(x).relu().mean((2, 3))
"""


@pytest.fixture
def pets(drawn_pets):
    """Three domains of red and blue pictures, and a module of the user's, in the current folder."""
    drawn_pets("tests/cli/backbones")
    Path("cli_mine.py").write_text(OWN)
    yield "pets"
    sys.modules.pop("cli_mine", None)


def test_a_module_of_the_users_from_data_to_prediction(featlearn, pets):
    words = ("--data", pets, *FAST, "--backbone", "cli_mine:Encoder")
    status, out, _ = featlearn("domains", "evaluate", *words, "--seeds", 0, "--workers", 1, "--json")
    assert status == 0
    document = json.loads(out)
    assert document["trials"]["ok"] == 6
    assert "--backbone cli_mine:Encoder" in document["fit"]["erm"]["command"]
    status, out, _ = featlearn("domains", "evaluate", *words, "--seeds", 0, "--workers", 1, "--json")
    assert json.loads(out)["trials"]["skipped"] == 6
    assert featlearn("domains", "fit", *words, "--out", "m.pt")[0] == 0
    status, _, err = featlearn("domains", "predict", "--model", "m.pt", pets)
    assert status == 2
    assert "--backbone cli_mine:Encoder runs that code" in err
    for command in (("predict", "--model", "m.pt", pets), ("score", "m.pt", "--data", pets), ("show", "m.pt")):
        assert featlearn("domains", *command, "--backbone", "cli_mine:Encoder")[0] == 0
    status, out, _ = featlearn("domains", "export", "m.pt", "--out", "m.safetensors", "--backbone", "cli_mine:Encoder")
    assert status == 0
    assert "bit for bit" in out


def test_a_linear_probe_and_its_export(featlearn, pets):
    words = ("--data", pets, *FAST, "--width", 8, "--probe", "--out", "m.pt")
    status, _, err = featlearn("domains", "fit", *words, "--algorithm", "erm-nu")
    assert status == 2
    assert "a linear probe leaves the features as they are" in err
    status, _, err = featlearn("domains", "fit", *words, "--algorithm", "erm")
    assert status == 0
    assert "a linear probe of cnn with random weights" in err
    _, shown, _ = featlearn("domains", "show", "m.pt")
    assert "network.probe: True" in shown
    status, _, err = featlearn("domains", "export", "m.pt", "--out", "m.bin")
    assert status == 2
    assert ".onnx, .safetensors" in err
    assert featlearn("domains", "export", "m.pt", "--out", "m.safetensors")[0] == 0
    status, _, err = featlearn("domains", "export", "m.pt", "--out", "m.safetensors")
    assert status == 2
    assert "--replace" in err
    status, _, _ = featlearn("domains", "predict", "--model", "m.safetensors", pets)
    assert status == 0


@pytest.mark.parametrize("name", ["resnet19", "timm/", "nothing:Here", "torchvision/resnet19"])
def test_backbones_that_are_not_there_are_one_line(featlearn, pets, name):
    status, out, err = featlearn("domains", "evaluate", "--data", pets, *FAST, "--backbone", name)
    assert status == 2
    assert out == ""
    assert err.startswith("featlearn: backbone = ")
    assert err.count("\n") == 1


@pytest.fixture
def pacs(pets):
    """The same pictures under the names of PACS."""
    for old, new in (("day", "art_painting"), ("dusk", "cartoon"), ("night", "photo")):
        (Path(pets) / old).rename(Path(pets) / new)
    shutil.copytree(Path(pets) / "photo", Path(pets) / "sketch")
    return pets


def test_a_protocol_sets_the_flags_and_shows_the_reported_numbers(featlearn, pacs):
    """What is given stays, and is told: such a run is not comparable."""
    short = ("--steps", 4, "--evaluate-every", 2, "--batch", 4, "--size", 8, "--backbone", "cli_mine:Encoder")
    words = ("--data", pacs, "--protocol", "dg-nu", *short, "--augment", "no", "--device", "cpu", "--workers", 1)
    status, out, err = featlearn("domains", "evaluate", *words, "--seeds", 0, "--algorithm", "erm-nu", "--json")
    assert status == 0, err
    found = json.loads(out)["protocol"]
    assert (found["name"], found["benchmark"], found["entry"]) == ("dg-nu", "PACS", "nuclear.tableE_2")
    assert found["verdict"] == "not comparable"
    assert "--steps 4 in place of 5001" in found["departures"]
    assert "2 classes in place of 7" in found["departures"]
    assert [r["reported"] for r in found["reported"]] == [87.4, 79.6, 96.3, 79.0, 85.6]
    command = json.loads(out)["fit"]["erm-nu"]["command"]
    for flag in ("--rate 5e-05", "--evaluate-from 1", "--swad-rule released", "--protocol dg-nu", "--split random"):
        assert flag in command
    again = (*words, "--seeds", 0, "--algorithm", "erm-nu", "--out", "pacs.html", "pacs.json")
    status, out, _ = featlearn("domains", "evaluate", *again)
    assert "Beside the reported numbers" in Path("pacs.html").read_text()
    assert "beside the reported numbers of PACS (nuclear.tableE_2)" in out
    assert "not as in dg-nu: --steps 4 in place of 5001" in out
    assert "[" not in next(line for line in out.splitlines() if "87.4" in line)  # one seed has no interval
    kept = json.loads(Path("pacs.json").read_text())
    assert kept["flags"]["steps"] == 4
    assert kept["sizes"] == dict.fromkeys(("art_painting", "cartoon", "photo", "sketch"), 10)
    status, out, _ = featlearn("verify", "nuclear.tableE_2", "--results", "pacs.json")
    assert status == 1
    assert "not comparable: --backbone cli_mine:Encoder in place of resnet50; " in out
    assert "--seeds 0 in place of 0 1 2" in out
    status, out, err = featlearn("domains", "compare", "erm", "erm-nu", *words[:-2], "--seeds", 0)
    assert "4 runs of erm-nu" in err + out


def test_a_protocol_needs_its_data(featlearn, pets):
    status, _, err = featlearn("domains", "evaluate", "--data", pets, "--protocol", "dg-nu")
    assert status == 2
    assert "for PACS, VLCS, OfficeHome, TerraIncognita, DomainNet; the domains of pets are day, dusk, night" in err
    assert err.count("\n") == 1
