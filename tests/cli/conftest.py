"""The toy experiment and toy claims in place of the package's own."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from featlearn.lab.load import load_source
from featlearn.lab.pending import Assumption, Case, Claim, Evidence

TOY = Path(__file__).parents[1] / "lab" / "toy_experiment.py"


@pytest.fixture(scope="session")
def toy_file():
    return str(TOY)


@pytest.fixture(scope="session")
def toy():
    return load_source(str(TOY))


@pytest.fixture
def featlearn(capsys):
    """Run a command in this process: (exit status, stdout, stderr)."""
    main = importlib.import_module("featlearn.cli").main

    def call(*words):
        status = main([str(w) for w in words])
        out = capsys.readouterr()
        return status, out.out, out.err

    return call


def one_line(err: str) -> str:
    """The single line of an expected error."""
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("featlearn: ")
    assert "Traceback" not in err
    return lines[0].removeprefix("featlearn: ")


@pytest.fixture
def refused(featlearn):
    """Run a command that must be refused: its one line; nothing on stdout, nothing written, exit status 2."""

    def call(*words, status=2):
        before = sorted(Path().rglob("*"))
        got, out, err = featlearn(*words)
        assert got == status, (out, err)
        assert out == ""
        assert sorted(Path().rglob("*")) == before
        return one_line(err)

    return call


BIG = np.arange(1000.0)


def holds(key, tables):
    return Evidence(
        [
            Case("slope", predict=2.0, observe=2.01, rival=3.0, tolerance=0.05, rival_says="wrong slope"),
            Case("big", predict=BIG, observe=BIG, rival=BIG + 1),
        ],
        [Assumption("n is large", True, "1000")],
        "as it should",
        {"x": BIG},
    )


def reads_rows(key, tables):
    table = tables("toy/normal")
    if table is None:
        return Evidence(data_needed="featlearn run toy/normal")
    return Evidence([Case("rows", predict=len(table.rows), observe=len(table.rows), rival=0.0)])


def broken(key, tables):
    raise RuntimeError("the check\nitself is wrong")


CLAIMS = (
    Claim("emergence.toy_holds", entries=("emergence.table1", "emergence.lemma5"), says="two is two", check=holds),
    Claim(
        "emergence.toy_rows",
        entries=("emergence.table2",),
        says="there are rows",
        check=reads_rows,
        expected="data needed",
    ),
)
BROKEN = Claim(
    "emergence.toy_broken", entries=("emergence.table3",), says="cannot be checked", check=broken, expected="not run"
)
WRONG = Claim("emergence.toy_wrong", entries=("emergence.table3",), says="is refuted", check=holds, expected="refuted")


@pytest.fixture
def wrong_and_broken():
    """Claims that a test adds: one whose verdict is not the expected one, one whose check raises."""
    return WRONG, BROKEN


@pytest.fixture
def claims(monkeypatch, toy):
    """Toy claims of the work emergence, and the toy experiment in the list of experiments."""
    from featlearn import works

    current = list(CLAIMS)
    monkeypatch.setattr(works, "WITH_CLAIMS", ("emergence",))
    monkeypatch.setattr(works, "load_claims", lambda work: tuple(current))
    monkeypatch.setattr(works, "EXPERIMENTS", ("toy/normal",))
    monkeypatch.setattr(works, "load_experiment", lambda id: toy)
    monkeypatch.setattr(importlib.import_module("featlearn.catalog"), "evidence_root", lambda: None)
    return current
