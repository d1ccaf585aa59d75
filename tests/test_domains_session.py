"""The page of the session with digits in four styles: made from the kept file, whose numbers its tables show."""

import importlib
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import domains_session  # noqa: E402

KEPT = json.loads(domains_session.KEPT.read_text(encoding="utf-8"))
BY = {c["name"]: c for c in KEPT["commands"]}


def cells(text):
    return [re.sub(r"\s+", " ", c) for line in text.splitlines() for c in re.split(r"\s*[│┃]\s*", line) if c.strip()]


def test_the_page_is_made_from_the_kept_file():
    page = domains_session.PAGE.read_text(encoding="utf-8")
    assert page == domains_session.page(KEPT), "run `python scripts/domains_session.py`"
    assert max(map(len, page.splitlines())) < 400


def test_the_kept_commands_are_those_of_the_script():
    for name, command in domains_session.COMMANDS.items():
        assert BY[name]["command"] == (command or f"{KEPT['fit']['erm-nu']['command']} --out erm-nu.pt")
    assert list(BY) == list(domains_session.COMMANDS)
    assert not any(word in json.dumps(KEPT) for word in ("Traceback", str(Path.home()), "/tmp/"))


@pytest.mark.parametrize("name", [n for n in domains_session.COMMANDS if n not in ("fetch", "draw")])
def test_each_command_is_one_of_the_command_line(name):
    """Its words are flags that the command has, with values that they take."""
    from featlearn.cli._parse import parse
    from featlearn.cli.domains import COMMANDS
    from featlearn.cli.domains._shared import DataOptions

    words = shlex.split(BY[name]["command"])
    assert words[:2] == ["featlearn", "domains"]
    assert words[2] in COMMANDS
    module = importlib.import_module(f"featlearn.cli.domains.{words[2]}")
    kind = getattr(module, f"{words[2].capitalize()}Options", DataOptions)
    options = parse(kind, words[3:], " ".join(words[:3]), "")
    assert options is not None


def test_the_tables_show_the_kept_numbers():
    seen = cells(BY["evaluate"]["out"])
    for s in KEPT["results"]["scores"]:
        assert f"{100 * s['mean']:.1f} ± {100 * s['error']:.1f}" in seen, s
    for m in KEPT["results"]["measures"]:
        assert any(c.startswith(f"{100 * m['mean']:.1f} [") for c in seen), m
    seen = cells(BY["compare"]["out"])
    for d in KEPT["compare"]["differences"]:
        for n in ("mean", "low", "high"):
            assert f"{100 * d[n]:+.1f}" in seen, d
    whole = KEPT["score"]["domains"]["all images"]
    assert f"{100 * whole['accuracy']:.1f} [{100 * whole['low']:.1f}, {100 * whole['high']:.1f}]" in cells(
        BY["score"]["out"]
    )
    assert f"{100 * KEPT['show']['measures']['validation']['accuracy']:.1f} % validation" in BY["fit"]["out"]


def test_every_style_is_held_out_and_there_are_four():
    assert len(KEPT["results"]["domains"]) >= 4
    held_out = {s["domain"] for s in KEPT["results"]["scores"]} - {"average"}
    assert held_out == set(KEPT["results"]["domains"])
    assert {s["algorithm"] for s in KEPT["results"]["scores"]} == {"erm", "erm-nu"}
    assert all(len(s["values"]) == 3 for s in KEPT["results"]["scores"])


def test_the_styles_are_drawn(tmp_path):
    """Each picture in one style alone, as many of every digit."""
    from featlearn.data import mnist
    from featlearn.errors import DataError

    try:
        mnist()
    except DataError as why:
        pytest.skip(f"{why}; lifted where the images are")
    sys.path.insert(0, str(ROOT / "docs" / "examples"))
    import digit_styles

    from featlearn.core import Key

    digit_styles.write(tmp_path / "digits", 2, Key("test"))
    files = sorted(tmp_path.rglob("*.png"))
    assert len(files) == 5 * 10 * 2
    assert {p.parts[-4:-1][0] for p in files} == {"digits", "turned"}
    assert len({p.read_bytes() for p in files}) == len(files)
