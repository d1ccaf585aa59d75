"""The toy experiment and a toy claim in place of the package's own."""

import importlib
from pathlib import Path

import pytest
from PIL import Image

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.load import load_source
from featlearn.lab.quantity import REAL
from featlearn.lab.statement import equal

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


@pytest.fixture
def drawn_pets():
    """Draw three domains of red and blue pictures, five each, into the current folder; their paths."""

    def call(key):
        draw, paths = Key(key).numpy(), []
        for domain in ("day", "dusk", "night"):
            for label, colour in (("blue", (20, 20, 200)), ("red", (200, 20, 20))):
                folder = Path("pets") / domain / label
                folder.mkdir(parents=True)
                for i in range(5):
                    noisy = tuple(int(c + draw.integers(0, 40)) for c in colour)
                    paths.append(folder / f"{i}.png")
                    Image.new("RGB", (8, 8), noisy).save(paths[-1])
        return paths

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


HOLDS = Claim(
    id="emergence.toy_holds",
    entries=("emergence.table1", "emergence.lemma5"),
    says="two is two",
    statements=lambda settings: (equal("slope", REAL, 2.0, "Lemma 5", margin=0.05, rival=3.0, rival_says="three"),),
    observe=lambda settings, key: {"slope": 2.01},
)


@pytest.fixture
def claims(monkeypatch, toy):
    """A toy claim of the work emergence, and the toy experiment in the list of experiments."""
    from featlearn import works

    current = [HOLDS]
    monkeypatch.setattr(works, "WITH_CLAIMS", ("emergence",))
    monkeypatch.setattr(works, "load_claims", lambda work: tuple(current))
    monkeypatch.setattr(works, "EXPERIMENTS", ("toy/normal",))
    monkeypatch.setattr(works, "load_experiment", lambda id: toy)
    monkeypatch.setattr(importlib.import_module("featlearn.catalog"), "evidence_root", lambda: None)
    return current
