"""The package from outside: make, documentation, the worked examples, and the guards of this test suite."""

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import featlearn

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(featlearn.__file__).parent


def python(*words: str, cwd: Path, src: Path = PACKAGE.parent, timeout: float = 300) -> subprocess.CompletedProcess:
    """A new interpreter in `cwd` with the package of `src`."""
    env = {**os.environ, "PYTHONPATH": str(src), "PYTHONDONTWRITEBYTECODE": "1", "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run([sys.executable, *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout)


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- one version, honest files ---------------------------------------------------------------------------------------


def test_one_version_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == featlearn.__version__
    assert f"\nversion: {featlearn.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert featlearn.__version__ in (ROOT / "CHANGELOG.md").read_text()


def commands_of(text: str) -> list[list[str]]:
    """The words of each `featlearn ...` line in the sh blocks of a page, comments aside."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.S)
    lines = [line.split("#")[0].split() for block in blocks for line in block.splitlines()]
    return [words[1:] for words in lines if words[:1] == ["featlearn"]]


PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))]


@pytest.mark.parametrize("page", PAGES)
def test_pages_promise_only_commands_that_exist(page):
    from featlearn import works
    from featlearn.cli import COMMANDS
    from featlearn.cli.verify import claims_of

    for words in commands_of((ROOT / page).read_text()):
        assert words[0] in COMMANDS, f"{page}: featlearn {' '.join(words)}"
        if words[0] == "run" and not words[1].endswith(".py"):
            reproduced = {entry for x in works.EXPERIMENTS for entry in works.load_experiment(x).reproduces}
            assert words[1] in {*works.EXPERIMENTS, *reproduced}, f"{page}: featlearn {' '.join(words)}"
        if words[0] == "verify":
            assert claims_of(words[1])[0], f"{page}: featlearn {' '.join(words)}"


def test_pages_say_how_many_works_there_are():
    """What pages say of works by number, the code says too."""
    from featlearn.lab.inventory import WORKS

    assert len(WORKS) == 11, "docs/index.md and the README say eleven"


def test_concepts_list_outcomes_and_scopes_in_their_order():
    from featlearn.lab.claim import SCOPES
    from featlearn.lab.statement import OUTCOMES

    concepts = (ROOT / "docs/concepts.md").read_text()
    first = re.findall(r"^\| `([a-z ]+)` \|", concepts, re.M)
    assert first == [*OUTCOMES, *SCOPES]


def test_the_reader_of_commands_sees_them():
    assert commands_of("```sh\nmake demo  # x\nfeatlearn run a/b  # featlearn c\n```\nfeatlearn d\n") == [
        ["run", "a/b"]
    ]


# --- make ------------------------------------------------------------------------------------------------------------

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="until make is installed")


def make(folder: Path, *words: str) -> subprocess.CompletedProcess:
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHON", "MAKEFLAGS", "MAKELEVEL")}
    return subprocess.run(["make", *words], cwd=folder, env=env, capture_output=True, text=True, timeout=120)


@pytest.fixture
def clone(tmp_path) -> Path:
    """A folder with what make looks at."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@needs_make
@pytest.mark.parametrize(
    "behaviour, says",
    [
        ('case "$2" in *version_info*) exit 1;; *python_version*) echo 3.9.2;; esac', "needs Python 3.11 or newer"),
        ('case "$2" in *ensurepip*) exit 1;; esac', "no venv module"),
        ("exit 1", "no Python found"),
    ],
    ids=["old", "no venv", "broken"],
)
def test_make_refuses_an_unfit_python_in_one_line(tmp_path, clone, behaviour, says):
    fake = script(tmp_path / "python-of-mine", behaviour)
    done = make(tmp_path, f"PYTHON={fake}", "demo")
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if not line.startswith("make:")]
    assert len(said) == 1
    assert says in said[0]
    assert done.stdout == ""
    assert not (tmp_path / ".venv").exists()


@needs_make
def test_make_installs_once_and_again_when_dependencies_change(tmp_path, clone):
    # a Python whose venv holds a pip and a featlearn that only note their arguments
    note = f'echo "$(basename $0) $@" >> {tmp_path}/log'
    fake = script(
        tmp_path / "python-of-mine",
        'test "$2" = venv || exit 0\n'
        'mkdir -p .venv/bin && for name in python featlearn; do cp "$0.inner" .venv/bin/$name; done',
    )
    script(tmp_path / "python-of-mine.inner", note)

    def calls() -> list[str]:
        done = make(tmp_path, f"PYTHON={fake}", "demo")
        assert done.returncode == 0, done.stderr
        log = (tmp_path / "log").read_text().splitlines()
        (tmp_path / "log").write_text("")
        return [line for line in log if not line.startswith("python -c")]

    first = calls()
    assert [line.split()[0] for line in first] == ["python", "featlearn"]
    assert "pip install" in first[0]
    assert "[dev]" not in first[0]
    assert first[1] == "featlearn run emergence/table1 --preset small"
    assert calls() == first[1:]
    later = (tmp_path / ".venv/.installed").stat().st_mtime + 10
    os.utime(tmp_path / "pyproject.toml", (later, later))
    assert calls() == first


def test_ci_calls_make_test():
    text = (ROOT / ".ci/run").read_text()
    assert "set -euo pipefail" in text
    assert "make --no-print-directory test" in text
    assert os.access(ROOT / ".ci/run", os.X_OK)


# --- documentation ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_documentation_builds_strictly_and_asks_for_nothing_from_the_network(tmp_path):
    pytest.importorskip("mkdocs", reason="until mkdocs-material is installed (`pip install -e .[dev]`)")
    from featlearn import works

    out = tmp_path / "out"
    words = ["-m", "mkdocs", "build", "--strict", "-q", "-f", str(ROOT / "mkdocs.yml"), "-d", str(out)]
    done = python(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for id_ in works.EXPERIMENTS:
        assert f"featlearn run {id_} --preset paper" in plain((out / f"experiments/{id_}.html").read_text())
    assert "--sweep" in plain((out / "cli.html").read_text())
    loaded = re.compile(r'<(?:script|img|iframe)[^>]*src="https?://|<link[^>]*rel="stylesheet"[^>]*href="https?://')
    assert [p.name for p in out.rglob("*.html") if loaded.search(p.read_text())] == []


def plain(html: str) -> str:
    """The text of a page; highlighting puts every word into a tag of its own."""
    return re.sub(r"<[^>]*>", "", html)


@pytest.fixture(scope="module")
def pages():
    return load(ROOT / "scripts/docs_pages.py")


@pytest.mark.parametrize(
    "text, shown",
    [
        ("a_b * c", r"a\_b \* c"),
        ("<w, x> & y", "&lt;w, x&gt; &amp; y"),
        ("`a_b` and a_b", r"`a_b` and a\_b"),
        ("one ` tick_", r"one \` tick\_"),
    ],
)
def test_plain_text_survives_markdown(pages, text, shown):
    assert pages.escape(text) == shown


def test_examples_of_a_docstring_become_code(pages):
    shown = pages.docstring("What it is.\n\n    Example:\n        >>> f(1)\n        2\n    ")
    assert shown == "What it is.\n\nExample:\n\n```pycon\n>>> f(1)\n2\n```"


def test_every_setting_of_every_experiment_has_a_meaning(pages):
    import dataclasses

    from featlearn import works

    for id_ in works.EXPERIMENTS:
        kind = works.load_experiment(id_).Config
        helps = pages.field_help(kind)
        silent = [f.name for f in dataclasses.fields(kind) if f.init and not helps.get(f.name)]
        assert not silent, f"{id_}: no docstring below {', '.join(silent)}"


def test_the_table_of_works_in_the_readme_is_current(pages):
    text = (ROOT / "README.md").read_text()
    assert "| `emergence` |" in text
    assert pages.readme(text) == text, "run `python scripts/docs_pages.py`"


def test_the_table_of_works_counts_what_is_as_stated_and_of_today(pages):
    def claim(verdict, scope="as stated", stale=""):
        return {"verdict": verdict, "scope": scope, "stale": stale}

    claims = [claim("confirmed"), claim("confirmed"), claim("contradicted"), claim("confirmed", "other size")]
    claims += [claim("confirmed", stale="code"), claim("not run")]
    said = "2 confirmed, 1 not run, 1 contradicted, 1 in another scope, 1 stale"
    assert pages.outcomes_said(claims) == said
    assert pages.outcomes_said([]) == "-"


def blocks_of(page: Path) -> str:
    """The untitled python blocks of a page, one after the other."""
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))


WITH_CODE = [p for p in PAGES if blocks_of(ROOT / p)]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE)
def test_code_of_a_page_runs(page, tmp_path):
    done = python("-c", blocks_of(ROOT / page), cwd=tmp_path)
    assert done.returncode == 0, done.stderr


# --- worked examples -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_users_own_experiment_runs_and_sweeps(tmp_path):
    mine = shutil.copy(ROOT / "docs/examples/one_step.py", tmp_path)
    done = python(
        "-m", "featlearn.cli", "run", str(mine), "--sweep", "k=1,3", "--preset", "smoke", "--json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["trials"] == {"ok": 8, "diverged": 0, "failed": 0, "skipped": 0}
    assert len(found["summary"]) == 4
    assert (tmp_path / "runs/mine/one_step").is_dir()


@pytest.mark.slow
def test_the_measure_example_shows_features_moving(tmp_path):
    done = python(str(ROOT / "docs/examples/measure.py"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    cosines = [float(line.split()[-1]) for line in done.stdout.splitlines()]
    assert len(cosines) == 5
    assert cosines[-1] > 0.9 > 0.7 > cosines[0]  # untrained: the best of 100 random directions in R^30


# --- guards of this test suite ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("localhost.example", 80)])
def test_no_test_reaches_the_network(address):
    with pytest.raises(BaseException, match="tests use no network"), socket.socket() as s:
        s.connect(address)
    with pytest.raises(BaseException, match="tests use no network"), socket.socket() as s:
        s.connect_ex(address)
    with pytest.raises(BaseException, match="tests use no network"):
        socket.create_connection(address)


def test_this_machine_can_be_reached():
    with socket.socket() as server, socket.socket() as s:
        server.bind(("127.0.0.1", 0))
        server.listen()
        s.connect(server.getsockname())


TARGET = ROOT / "written-by-a-test"
WRITES = {
    "open": lambda mine: TARGET.write_text("x"),
    "mkdir": lambda mine: TARGET.mkdir(),
    "rename": lambda mine: mine.rename(TARGET),
    "os.open": lambda mine: os.open(TARGET, os.O_CREAT | os.O_WRONLY),
    "rmtree": lambda mine: shutil.rmtree(TARGET),
    "remove within an open folder": lambda mine: os.remove(TARGET.name, dir_fd=os.open(ROOT, os.O_RDONLY)),
}


@pytest.mark.parametrize("write", WRITES)
def test_no_test_writes_into_the_checkout(write, tmp_path):
    mine = tmp_path / "mine"
    mine.touch()
    with pytest.raises(PermissionError, match="tests write to tmp_path only"):
        WRITES[write](mine)
    assert not TARGET.exists()
    assert (ROOT / "pyproject.toml").read_text()


def test_tests_run_elsewhere_with_few_threads():
    import torch

    assert not Path.cwd().is_relative_to(ROOT)
    assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"])
