"""What terminals, pipes and disks do to the output: narrow encodings, readers that leave, full disks, few columns."""

import errno
import importlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from featlearn.cli import _show
from featlearn.cli._streams import PLAIN, spelled
from featlearn.errors import DONE, FAILED

EVERY_COMMAND = (
    "--help",
    "list --help",
    "list --work emergence",
    "list --work emergence --json",
    "run TOY --help",
    "run TOY --no-report",
    "run TOY --no-report --json",
    "verify emergence",
    "verify emergence --json",
    "report --to csv",
    "diff toy/normal@small toy/normal@smoke",
    "diff toy/normal@small toy/normal@smoke --json",
    "data",
    "data --json",
    "bench --help",
    "domains --help",
    "gemfilter --help",
)


class Broken(io.RawIOBase):
    """A stdout on which every write fails."""

    def __init__(self, number):
        self.number = number

    def writable(self):
        return True

    def write(self, data):
        raise OSError(self.number, os.strerror(self.number))


@pytest.fixture
def through(monkeypatch, capsys, claims, toy_file):
    """Run a command with a stdout, and perhaps a stderr, of ours: its status. Toy rows are there."""
    main = importlib.import_module("featlearn.cli").main
    monkeypatch.setattr(importlib.import_module("featlearn.lab.inventory"), "WORKS", ("emergence",))
    for preset in ("small", "smoke"):
        assert main(["run", toy_file, "--preset", preset, "--no-report"]) == DONE
    capsys.readouterr()

    def call(words, stdout, stderr=None):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stdout)
            if stderr is not None:
                patch.setattr(sys, "stderr", stderr)
            return main([toy_file if w == "TOY" else w for w in words.split()])

    return call


@pytest.mark.parametrize("words", EVERY_COMMAND)
def test_a_full_disk_is_one_line(through, words, capsys):
    assert through(words, io.TextIOWrapper(Broken(errno.ENOSPC))) == FAILED
    said = "stdout cannot be written (No space left on device): send it elsewhere; what was written to files is kept"
    assert f"featlearn: {said}" == capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("words", EVERY_COMMAND)
def test_a_reader_that_left_stops_nothing(through, words, capsys):
    assert through(words, io.TextIOWrapper(Broken(errno.EPIPE))) == DONE
    assert "featlearn:" not in capsys.readouterr().err


def shown(through, words, encoding):
    raw = io.BytesIO()
    out, err = (io.TextIOWrapper(b, encoding=encoding) for b in (raw, io.BytesIO()))
    assert through(words, out, err) == DONE
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("words", EVERY_COMMAND)
def test_narrow_encodings(through, words):
    asked = shown(through, words, "utf-8").count("?")
    assert {e: shown(through, words, e).count("?") - asked for e in ("ascii", "latin-1")} == {"ascii": 0, "latin-1": 0}


def test_a_stderr_that_fails_changes_no_status(through):
    out = io.StringIO()
    full = io.TextIOWrapper(Broken(errno.ENOSPC))
    assert through("run TOY --again-nothing", out, full) == 2
    assert through("run TOY --no-report --json", out, full) == DONE
    assert json.loads(out.getvalue())["trials"]["ok"] + json.loads(out.getvalue())["trials"]["skipped"] == 3


def test_closed_streams_are_no_error(through):
    """Python has None for a stream that was closed when it started; print() would send stderr's lines to stdout."""
    out = io.StringIO()
    assert through("list --work emergence", None) == DONE
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", None)
        assert through("lisst", out) == 2
    assert out.getvalue() == ""


def test_the_streams_are_what_they_were(through):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    assert through("--help", out) == DONE
    assert out.errors == "strict"
    assert "_Output" not in repr(sys.stdout)


SHELL = {
    "list --work emergence | head -1": (0, r"^Works\s*$", r"^$"),
    "list --work emergence > /dev/full": (1, r"^$", r"^featlearn: stdout cannot be written \(No space left"),
    "data --json > /dev/full": (1, r"^$", r"^featlearn: stdout cannot be written \(No space left"),
    "data --help > /dev/full": (1, r"^$", r"^featlearn: stdout cannot be written \(No space left"),
    "data >&-": (0, r"^$", r"^$"),
    "dota >&-": (2, r"^$", r"^featlearn: no command 'dota'"),
    "dota 2>&-": (2, r"^$", r"^$"),
    "dota 2>/dev/full": (2, r"^$", r"^$"),
    "data <&- >&- 2>&-": (0, r"^$", r"^$"),
}


@pytest.mark.parametrize("line", SHELL)
def test_in_a_shell(line, catalog_kept, tmp_path):
    """The real thing: descriptors of the system, and what Python does when it ends."""
    if "/dev/full" in line and not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    status, out, err = SHELL[line]
    command = f"{sys.executable} -m featlearn.cli {line}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert (done.returncode, bool(re.search(out, done.stdout)), bool(re.search(err, done.stderr))) == (
        status,
        True,
        True,
    ), done
    assert len(done.stderr.splitlines()) == (err != "^$")


def test_a_closed_stdout_is_no_file_of_ours(tmp_path):
    """Without care the first file that is opened gets the number of stdout, and what is printed goes into it."""
    code = (
        "import sys, os\nfrom featlearn.cli._streams import safe_streams\n"
        "with safe_streams():\n    f = open('rows.json', 'w')\n    print('a table')\n    os.write(1, b'from below')\n"
        "    sys.exit(f.fileno() < 3)"
    )
    done = subprocess.run(["bash", "-c", f'{sys.executable} -c "{code}" >&-'], cwd=tmp_path, timeout=60)
    assert done.returncode == 0
    assert (tmp_path / "rows.json").read_bytes() == b""


def test_an_ascii_locale(tmp_path, toy_file):
    env = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    command = [sys.executable, "-m", "featlearn.cli", "run", toy_file, "--no-report"]
    done = subprocess.run(command, capture_output=True, env=env, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"+-" in done.stdout
    assert b"Traceback" not in done.stderr


def test_spelling():
    assert "d ± 2 │ × α".encode("ascii", PLAIN) == b"d +-2 - x alpha"
    table = "| 0.5 ± 0.1 |\n| 2.0 ± 0.3 |".encode("ascii", PLAIN).decode().splitlines()
    assert [len(line) for line in table] == [len("| 0.5 ± 0.1 |")] * 2
    assert "a…   |".encode("ascii", PLAIN) == b"a... |"
    assert b"caf\xe9.png".decode("utf-8", "surrogateescape").encode("utf-8", PLAIN) == rb"caf\xe9.png"
    assert [spelled(c) for c in "Σé漢"] == ["Sigma", "e", "?"]


# --- few columns -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [20, 40, 60, 80])
def test_no_id_is_cut(featlearn, columns, monkeypatch, catalog_kept):
    monkeypatch.setenv("COLUMNS", str(columns))
    words = featlearn("list")[1].split()
    found = json.loads(featlearn("list", "--json")[1])
    for kind in ("works", "experiments", "claims"):
        assert {e["id"] for e in found[kind]} <= set(words)
    assert "…" not in "".join(words)
    assert {d["name"] for d in json.loads(featlearn("data", "--json")[1])} <= set(featlearn("data")[1].split())


@pytest.mark.parametrize("columns", [20, 60])
def test_no_id_of_a_run_is_cut(through, columns, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", str(columns))
    manifest = str(next(Path("runs/toy/normal").glob("*.run.json")).resolve())
    out = io.StringIO()
    assert through(f"diff {manifest} toy/normal@smoke", out) == DONE
    assert f"one: {manifest}\n" in out.getvalue()
    out = io.StringIO()
    assert through("verify emergence", out) == DONE
    assert {"emergence.table1", "emergence.toy_holds"} <= set(re.split(r"[\s,:]+", out.getvalue()))
    out = io.StringIO()
    assert through("run TOY", out) == DONE
    assert {"mean", "trace"} <= set(out.getvalue().split())
    assert "…" not in out.getvalue()


def test_brackets_are_text(capsys):
    _show.show_table(_show.console(), ("name", "what"), [("a", "[stale: its rows changed]")])
    assert "[stale: its rows changed]" in capsys.readouterr().out


def test_a_table_fills_its_width_and_no_more(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "50")
    rows = [("an.id.of.some.length", "many words " * 9, "a few words more"), ("b", "short", "x")]
    _show.show_table(_show.console(), ("name", "what", "why"), rows, "Title")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) == 50
    assert lines[0].strip() == "Title"


# --- progress, help, ranges ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bar", ["bar", "trial_bar", "byte_bar", "status"])
def test_progress_without_a_terminal_is_a_line_now_and_then(bar, monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr(_show.time, "monotonic", lambda: clock[0])
    given = {
        "bar": lambda say, n: say(n, 100),
        "trial_bar": lambda say, n: say(n, 100, "2 min left"),
        "byte_bar": lambda say, n: say("file", n << 20, 100 << 20),
        "status": lambda say, n: say(f"{n}/100 claim"),
    }[bar]
    with getattr(_show, bar)(*(["work"] if bar in ("bar", "trial_bar") else [])) as say:
        for n in range(1, 101):
            clock[0] += 1.0
            given(say, n)
    lines = capsys.readouterr().err.splitlines()
    wanted = {
        "bar": ["work: 30/100", "work: 60/100", "work: 90/100"],
        "trial_bar": [f"work: {n}/100, 2 min left" for n in (30, 60, 90)] + ["work: 100/100"],
        "byte_bar": [f"file: {n} MiB of 100 MiB" for n in (30, 60, 90)],
        "status": [f"{n}/100 claim" for n in (30, 60, 90)],
    }
    assert lines == wanted[bar]


def test_no_control_characters_in_a_file(through):
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", shown(through, "run TOY --size 30", "utf-8"))
    err = io.StringIO()
    assert through("run TOY --size 31 --no-report", io.StringIO(), err) == DONE
    assert err.getvalue() == "toy/normal: 3/3\n"


def test_help_shows_few_of_many_values(featlearn, tmp_path, toy_file):
    mine = tmp_path / "mine.py"
    mine.write_text(Path(toy_file).read_text().replace("(0, 1, 2)", "tuple(range(2000))"))
    out = " ".join(featlearn("run", mine, "--help")[1].replace("│", " ").split())
    assert "One trial a seed. (default: 0 1 2 ... 1999, 2000 values)" in out
    assert " 17 " not in out
    many = " ".join(map(str, range(50))).split()
    head = featlearn("run", toy_file, "--no-report", "--seeds", *many)[1].splitlines()[1]
    assert head == "preset small; changed from the preset: seeds = (0 1 2 ... 49, 50 values)"


@pytest.mark.parametrize("name", ["threads", "workers"])
def test_huge_counts_are_refused(refused, toy_file, name):
    assert refused("run", toy_file, f"--{name}", "100000") == f"{name} = 100000 is not allowed: at most 256"
