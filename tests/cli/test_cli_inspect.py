"""`featlearn inspect`: table, JSON, page, statuses; bad input in one line."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from featlearn.cli import main


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    generator = torch.Generator().manual_seed(0)
    start = {f"{i}.weight": torch.randn(12, 12, generator=generator) for i in range(3)}
    after = {**start, "1.weight": start["1.weight"] + 3 * torch.eye(12)[:, :1] @ torch.eye(12)[:1]}
    save_file(start, tmp_path / "before.safetensors")
    save_file(after, tmp_path / "after.safetensors")
    return [str(tmp_path / "before.safetensors"), str(tmp_path / "after.safetensors")]


def test_a_table_and_the_reading(two: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", *two]) == 0
    out = capsys.readouterr().out
    assert "2 same, 1 moved" in out
    row = next(line for line in out.splitlines() if "1.weight" in line)
    assert " 1 " in row.replace("│", " ")
    assert "reading: rich" in out
    assert "read-out left out: 2.weight" in out


def test_one_document(two: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", *two, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    layer = found["pairs"][0]["layers"][1]
    assert (layer["name"], layer["rank"], layer["state"]) == ("1.weight", 1, "moved")


def test_a_page_is_written_once(two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "moved.html"
    assert main(["inspect", *two, "--page", str(page)]) == 0
    kept = page.read_bytes()
    assert main(["inspect", *two, "--page", str(page)]) == 2
    assert "--replace" in capsys.readouterr().err
    assert page.read_bytes() == kept
    assert main(["inspect", *two, "--page", two[0], "--replace"]) == 2
    assert "none of the files that are read" in capsys.readouterr().err


def test_one_checkpoint_tells_its_spectra(two: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", two[0]]) == 0
    assert "name a second one" in capsys.readouterr().out


def test_what_is_not_finite_is_a_failure(two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = {f"{i}.weight": torch.full((12, 12), torch.nan if i == 1 else 1.0) for i in range(3)}
    save_file(bad, tmp_path / "bad.safetensors")
    assert main(["inspect", two[0], str(tmp_path / "bad.safetensors")]) == 1
    assert "144 of 144 entries after are nan" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "checkpoints are missing"),
        (["BEFORE", "absent.pt"], "is not there"),
        (["BEFORE", "AFTER", "--layers", "x*"], "layers = x*"),
        (["BEFORE", "AFTER", "--head", "x"], "head = x"),
        (["BEFORE", "AFTER", "--top", "-1"], "top = -1"),
        (["BEFORE", "AFTER", "--threads", "-1"], "threads = -1"),
        (["BEFORE", "AFTER", "--page", "no/p.html"], "page = no/p.html"),
    ],
)
def test_bad_input_is_one_line(args: list[str], said: str, two: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    named = [{"BEFORE": two[0], "AFTER": two[1]}.get(a, a) for a in args]
    assert main(["inspect", *named]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
