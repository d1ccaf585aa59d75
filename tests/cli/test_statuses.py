"""One table of errors and exit statuses: every error class stands in it, and every command keeps to it."""

import ast
import importlib
import inspect
import pickle
from pathlib import Path

import pytest

import featlearn as package
from featlearn import errors
from featlearn.errors import BAD, DONE, FAILED, INTERRUPTED, FeatlearnError

SOURCES = sorted(Path(package.__file__).parent.rglob("*.py"))
KINDS = sorted(
    (c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, FeatlearnError)),
    key=lambda c: c.__name__,
)
BASES: dict[str, type] = {
    "SettingError": ValueError,
    "Diverged": FloatingPointError,
    "NotFiniteInput": FloatingPointError,
    "DataError": ValueError,
    "Unreadable": ValueError,
    "TrialError": ValueError,
    "ReportError": ValueError,
    "InventoryError": KeyError,
    "LabError": ValueError,
}
"""What `except` caught before there was a common root, and still does."""
STATUS = {
    BAD: "SettingError NotFiniteInput DataError Unreadable TrialError RunError ReportError InventoryError CommandError",
    FAILED: "FeatlearnError Diverged DataUnavailable StoreError DamagedError NewerError OlderError LabError "
    "OutputError UnknownColumn UnknownLevel OutOfRange NotFinite EmptyArm MissingUnit DuplicateRow BadStatement",
}
ARGUMENTS = {"SettingError": ("d", 5, "at least 9", "raise d"), "Unreadable": ("is damaged", "at byte 7")}
ARGUMENTS["NotFiniteInput"] = ARGUMENTS["SettingError"]
EXEMPT = {"Broken": "what a hook raises inside a claim, to see what is left behind"}


def made(kind):
    return kind(*ARGUMENTS.get(kind.__name__, ("a.json is damaged; remove it",)))


def test_the_table_names_every_kind():
    assert {k.__name__: k.status for k in KINDS} == {n: s for s, names in STATUS.items() for n in names.split()}


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_every_kind_is_one_line_with_a_status_and_survives_a_worker(kind):
    error = made(kind)
    assert kind.__module__ == "featlearn.errors"
    assert kind.__doc__
    assert isinstance(error, BASES.get(kind.__name__, Exception))
    assert error.status in (FAILED, BAD)
    assert len(str(error).splitlines()) == 1
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), back.status, vars(back)) == (kind, str(error), error.status, vars(error))


def raised(source: str) -> list[str]:
    """Public classes of a file that are exceptions, by the names of their bases."""
    known = {k.__name__ for k in KINDS} | {n for n in dir(__builtins__) if n.endswith(("Error", "Exception"))}
    known |= {"Exception", "BaseException", "ValueError", "KeyError", "RuntimeError", "FloatingPointError", "OSError"}
    found = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ClassDef) and not n.name.startswith("_")]
    return [n.name for n in found if any(ast.unparse(b).rpartition(".")[2] in known for b in n.bases)]


def test_no_error_stands_outside_of_the_table():
    outside = {name for p in SOURCES if p.name != "errors.py" for name in raised(p.read_text())}
    assert outside == set(EXEMPT)
    assert raised("class Mine(errors.StoreError):\n    pass\nclass Other(RuntimeError): ...\nclass _In(Exception): ...")


HANDLERS = {"cli/__init__.py": "the one place"}


def test_one_place_turns_errors_into_statuses():
    """No command catches an error of the package and raises CommandError, or returns a status, in its place."""
    here = Path(package.__file__).parent
    names = {k.__name__ for k in KINDS}
    for path in sorted((here / "cli").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler) and node.type is not None:
                caught = {n.rpartition(".")[2] for n in ast.unparse(node.type).strip("()").split(", ")} & names
                turned = any(isinstance(n, ast.Raise) and n.exc is not None for n in ast.walk(node))
                turned = turned or any("status" in ast.unparse(n) for n in ast.walk(node) if isinstance(n, ast.Return))
                if caught and turned:
                    assert path.relative_to(here).as_posix() in HANDLERS, (path, node.lineno)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
@pytest.mark.parametrize(
    "command",
    ["list", "run", "verify", "report", "diff", "data", "gemfilter", "domains", "inspect", "adapt", "bench"],
)
def test_every_command_maps_every_kind(command, kind, monkeypatch, capsys):
    cli = importlib.import_module("featlearn.cli")

    def fails(args):
        raise made(kind)

    monkeypatch.setitem(cli.COMMANDS, command, fails)
    assert cli.main([command]) == kind.status
    assert capsys.readouterr().err == f"featlearn: {made(kind)}\n"


@pytest.mark.parametrize("error, status", [(KeyboardInterrupt(), INTERRUPTED), (SystemExit(0), DONE)], ids=repr)
def test_what_is_no_error_of_ours(error, status, monkeypatch):
    cli = importlib.import_module("featlearn.cli")

    def fails(args):
        raise error

    monkeypatch.setitem(cli.COMMANDS, "list", fails)
    assert cli.main(["list"]) == status


@pytest.mark.parametrize("name, known", [("transformers", True), ("numpyy", False)])
def test_a_package_that_is_not_installed(name, known, monkeypatch, capsys):
    cli = importlib.import_module("featlearn.cli")

    def fails(args):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setitem(cli.COMMANDS, "gemfilter", fails)
    if known:
        assert cli.main(["gemfilter"]) == FAILED
        assert "pip install 'featlearn[llm]'" in capsys.readouterr().err
    else:
        with pytest.raises(ModuleNotFoundError):
            cli.main(["gemfilter"])


@pytest.mark.parametrize(
    "words, status",
    [
        (("rum",), BAD),
        (("list", "--work", "resnt"), BAD),
        (("run", "emergence/tabel1"), BAD),
        (("run", "none.py"), BAD),
        (("run", "fourier/circuits", "--preset", "smoke", "--device", "gpu"), BAD),
        (("verify", "emergnce"), BAD),
        (("report", "--work", "emergnce"), BAD),
        (("report", "--out", "file"), BAD),
        (("diff", "none.run.json", "none.run.json"), FAILED),
        (("diff", "fourier/circuits", "fourier/circuits"), BAD),
        (("data", "fetch", "mnst"), BAD),
        (("data", "fetch", "mnist", "--root", "nowhere"), BAD),
        (("gemfilter", "generate", "no-such-model", "--prompt-file", "file", "--question", "Who?"), BAD),
        (("gemfilter", "rum", "m"), BAD),
        (("domains", "check", "--data", "nowhere"), BAD),
        (("domains", "rum"), BAD),
        (("bench", "no-such-benchmark"), BAD),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, tuple) else str(x),
)
def test_every_command_refuses_bad_input_in_one_line(words, status, featlearn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("some words")
    got, out, err = featlearn(*words)
    assert (got, out) == (status, "")
    assert err.strip().startswith("featlearn: ")
    assert len(err.strip().splitlines()) == 1  # a bar that was taken away may leave an empty line
