"""The gates: pinned tools, the hooks of a commit, the wheel, and what CI says last."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from test_package import PACKAGE, ROOT, load, make, needs_make, script

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DEV: list[str] = PROJECT["optional-dependencies"]["dev"]
JUDGES = ("pytest", "pytest-xdist", "beartype", "ruff", "pyright[nodejs]", "mkdocs", "mkdocs-material", "pre-commit")
"""A new release of these can turn main red."""


def pins(requirements: list[str]) -> dict[str, str]:
    """Name -> version of those that are pinned."""
    return dict(r.split("==") for r in requirements if "==" in r)


@pytest.mark.parametrize("name", JUDGES)
def test_what_judges_the_code_is_pinned(name):
    assert re.fullmatch(r"[0-9.]+", pins(DEV)[name])


def test_the_hooks_of_a_commit_use_the_same_tools():
    found = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [r["repo"] for r in found["repos"]] == ["local"]  # nothing from a git forge
    hooks = found["repos"][0]["hooks"]
    assert {h["id"] for h in hooks} == {"ruff-check", "ruff-format"}
    for hook in hooks:
        used = pins(hook["additional_dependencies"])
        assert used
        assert used.items() <= pins(DEV).items(), hook["id"]


# --- the wheel -------------------------------------------------------------------------------------------------------


def built(version: str, *, needed: tuple[str, ...] | None = None) -> tuple[dict[str, str], list[str]]:
    """What the hook adds to a wheel (source -> place), and what it warns of."""
    hook = load(ROOT / "scripts/build_wheel.py")
    hook.catalog_of = lambda root: {"of": str(root)}
    if needed is not None:
        hook.NEEDED = needed
    said: list[str] = []
    of = hook.WheelHook.__new__(hook.WheelHook)
    of.__dict__.update(_BuildHookInterface__root=str(ROOT))
    of.__dict__.update(_BuildHookInterface__app=SimpleNamespace(display_warning=said.append))
    data: dict[str, dict[str, str]] = {"force_include": {}}
    of.initialize(version, data)
    for source, place in data["force_include"].items():
        assert Path(source).exists(), place
    of.finalize(version, data, "")
    return data["force_include"], said


def test_the_wheel_gets_the_evidence_and_a_catalog():
    added, said = built("standard")
    folders = {p.name for p in (ROOT / "evidence").iterdir() if p.is_dir()} - {"benchmarks"}
    assert set(added.values()) == {f"featlearn/evidence/{name}" for name in folders} | {"featlearn/catalog.json"}
    assert said == []


def test_a_build_without_the_dependencies_leaves_the_catalog_to_the_installed_copy():
    added, said = built("standard", needed=("torch", "no_such_package"))
    assert "featlearn/catalog.json" not in added.values()
    assert said == ["no catalog in this wheel: no_such_package not importable here"]


def test_an_editable_install_gets_nothing():
    assert built("editable") == ({}, [])


@pytest.mark.slow
def test_a_wheel_is_complete(tmp_path):
    words = ["wheel", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-q", "-w", tmp_path, ROOT]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        made = json.loads(archive.read("featlearn/catalog.json"))
    assert [e["id"] for e in made["experiments"]] == list(__import__("featlearn.works").works.EXPERIMENTS)
    waiting = set(load(ROOT / "tests/test_evidence.py").WAITING)
    assert {e["id"] for e in made["experiments"] if e["evidence"] != "ok"} == waiting
    code = {f"featlearn/{p.relative_to(PACKAGE).as_posix()}" for p in PACKAGE.rglob("*.py")}
    toml = {f"featlearn/{p.relative_to(PACKAGE).as_posix()}" for p in PACKAGE.rglob("*.toml")}
    rows = {f"featlearn/{p.relative_to(ROOT).as_posix()}" for p in (ROOT / "evidence").rglob("*.*")}
    rows = {name for name in rows if "/benchmarks/" not in name}
    assert not (code | toml | rows | {"featlearn/py.typed"}) - names


def test_only_declared_packages_are_in_the_environment_of_the_wheel(tmp_path):
    test = load(ROOT / "scripts/wheel_test.py")

    def wheel(*requires: str) -> Path:
        with zipfile.ZipFile(tmp_path / "x.whl", "w") as archive:
            lines = ["Metadata-Version: 2.4", "Name: x", "Version: 1", *(f"Requires-Dist: {r}" for r in requires)]
            archive.writestr("x-1.dist-info/METADATA", "\n".join(lines) + "\n")
        return tmp_path / "x.whl"

    assert test.declared(wheel()) == set()
    assert test.declared(wheel("numpy>=1.26", 'pandas; extra == "tables"')) == {"numpy"}
    assert {"rich", "pygments", "markdown-it-py", "mdurl"} <= test.declared(wheel("rich"))
    assert "pandas" not in test.declared(wheel(*PROJECT["dependencies"]))
    with pytest.raises(test.Failed, match="is declared and not installed here"):
        test.declared(wheel("no-such-package-of-mine"))
    with pytest.raises(test.Failed, match="numpy<1 is declared"):
        test.declared(wheel("numpy<1"))
    test.link(["packaging"], tmp_path / "site")
    assert (tmp_path / "site/packaging/requirements.py").is_file()
    assert {p.name.split("-")[0] for p in (tmp_path / "site").iterdir()} == {"packaging"}


# --- make and CI -----------------------------------------------------------------------------------------------------


@needs_make
def test_make_newest_says_in_one_line_that_there_is_none(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / ".venv").mkdir()
    for name in (".made", ".installed-dev"):
        (tmp_path / ".venv" / name).touch()
    done = make(tmp_path, "newest", "NEWEST=no-such-python")
    said = [line for line in done.stderr.splitlines() if not line.startswith("make:")]
    assert done.returncode != 0
    assert said == ["no newer Python here (no-such-python): install one or name it (make newest NEWEST=python3.14)"]
    assert done.stdout == ""


@pytest.mark.parametrize(
    "tests, wheel, status, last",
    [
        ("echo '7 passed in 1s'", "echo the wheel works", 0, "7 passed in 1s"),
        ("echo '1 failed, 6 passed in 1s'; echo make: error; exit 2", "echo the wheel works", 2, "1 failed, 6 passed"),
        ("echo '7 passed in 1s'", "echo no claim; exit 2", 2, "7 passed in 1s"),
        ("echo ruff; exit 2", "exit 0", 2, "ruff"),
    ],
    ids=["good", "a test fails", "the wheel fails", "no test ran"],
)
def test_ci_runs_the_tests_then_the_wheel_and_closes_with_the_line_of_pytest(tmp_path, tests, wheel, status, last):
    (tmp_path / ".ci").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    script(tmp_path / "bin/make", f'case "$2" in\ntest) {tests};;\nwheel-test) {wheel};;\nesac')
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", ".ci/run"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == status
    assert done.stdout.splitlines()[-1].startswith(last)
    assert ("the wheel works" in done.stdout) == (status == 0)


# --- types -----------------------------------------------------------------------------------------------------------


def error(file: str, rule: str = "reportCallIssue", severity: str = "error") -> dict:
    start = {"start": {"line": 6}}
    return {"file": str(PACKAGE / file), "severity": severity, "message": "no\n  good", "rule": rule, "range": start}


@pytest.fixture(scope="module")
def ratchet():
    return load(ROOT / "scripts/types_ratchet.py")


def test_counts_of_types_may_only_fall(ratchet):
    errors = [error("lab/store.py"), error("works/fourier/claims/exact.py"), error("errors.py"), error("errors.py")]
    now, said = ratchet.compare({"lab": 1, "works/fourier": 1, "errors": 2}, errors)
    assert now == {"errors": 2, "lab": 1, "works/fourier": 1}
    assert said == []
    _, said = ratchet.compare({"lab": 1, "works/fourier": 0, "errors": 2}, errors)
    assert said == [
        "src/featlearn/works/fourier/claims/exact.py:7: no good (reportCallIssue)",
        "works/fourier: 1 errors of types, 0 are known: mend the new ones",
    ]
    _, said = ratchet.compare({"lab": 3, "works/fourier": 1, "errors": 2, "core": 1}, errors)
    assert said == [
        f"{room}: {n} errors of types, {m} are known: python scripts/types_ratchet.py --update"
        for room, n, m in (("core", 0, 1), ("lab", 1, 3))
    ]


def test_what_is_said_of_untyped_libraries_does_not_count(ratchet):
    good = error("lab/store.py")
    others = [
        error("lab/store.py", "reportUnknownMemberType"),
        error("lab/store.py", "reportMissingTypeStubs"),
        error("lab/store.py", severity="warning"),
    ]
    assert ratchet.counted([good, *others]) == [good]


def test_the_rooms_that_are_checked_strictly(ratchet):
    strict = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pyright"]["strict"]
    names = ("errors.py", "core", "tasks", "nets", "lab", "report")
    assert set(strict) == {f"src/featlearn/{name}" for name in names}
    assert all((ROOT / path).exists() for path in strict)
    kept = json.loads(ratchet.KEPT.read_text())
    assert all(n > 0 for n in kept.values())
