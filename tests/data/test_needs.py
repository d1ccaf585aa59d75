"""What experiments read of the catalogue is said, and looked for before any trial."""

import dataclasses
import importlib
import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest

from featlearn import works
from featlearn.cli.data import bring
from featlearn.data import catalogue, download, folder_sets, needs
from featlearn.data.needs import check_needs, lacking
from featlearn.errors import DataError, DataUnavailable
from featlearn.lab.load import load_source


@pytest.fixture
def empty(monkeypatch, tmp_path):
    """A data folder with nothing in it."""
    monkeypatch.setenv("FEATLEARN_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def named(function) -> list:
    """What a function, and the functions inside it, name: globals, attributes of modules, values of tables."""
    codes, found = [function.__code__], []
    while codes:
        code = codes.pop()
        codes += [c for c in code.co_consts if inspect.iscode(c)]
        for thing in (function.__globals__[n] for n in code.co_names if n in function.__globals__):
            if inspect.ismodule(thing) and thing.__name__.startswith("featlearn."):
                found += [vars(thing)[n] for n in code.co_names if n in vars(thing)]
            found += [*thing.values()] if isinstance(thing, dict) else [thing]
    return found


def opens_data(function) -> bool:
    """Whether a function can reach the one place that finds files of the catalogue."""
    stack, seen = [function], set()
    while stack:
        thing = inspect.unwrap(stack.pop())
        if thing is inspect.unwrap(download.find):
            return True
        if inspect.isfunction(thing) and thing not in seen and thing.__module__.startswith("featlearn."):
            seen.add(thing)
            stack += [t for t in named(thing) if callable(t)]
    return False


def test_whatever_opens_data_says_so():
    """In both directions, over all experiments of all works."""
    opening, saying = set(), set()
    for id_ in works.EXPERIMENTS:
        experiment = works.load_experiment(id_)
        needed = [experiment.needs(t) for config in experiment.presets.values() for t in experiment.trials(config)]
        assert set().union(*needed) <= {*catalogue.registry(), *folder_sets()}
        opening |= {id_} if opens_data(experiment.run_trial) else set()
        saying |= {id_} if any(needed) else set()
    assert opening == saying
    assert saying >= {"nuclear/digits", "emergence/figure17", "gemfilter/needle"}


READING = [
    ("nuclear/digits", "small", "mnist"),
    ("emergence/figure17", "paper", "mnist"),
    *((f"gemfilter/{n}", "smoke", "smollm2-135m and sotu") for n in ("needle", "layers", "minibench", "sparse")),
    ("gemfilter/cost", "smoke", "smollm2-135m"),
]


@pytest.mark.parametrize("id_, preset, names", READING)
def test_refused_before_any_trial(id_, preset, names, empty, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main = importlib.import_module("featlearn.cli").main
    assert main(["run", id_, "--preset", preset]) == 1
    verb, commands = "is", f"featlearn data fetch {names}"
    if " and " in names:
        verb, commands = "are", " && ".join(f"featlearn data fetch {n}" for n in names.split(" and "))
    out = capsys.readouterr()
    assert out.err == f"featlearn: {id_} needs {names}, which {verb} not here: {commands}\n"
    assert out.out == ""
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("id_", ["nuclear/digits", "emergence/figure17"])
def test_bundled_digits_need_nothing(id_, empty):
    """What its smoke preset runs finds no file of the catalogue."""
    experiment = works.load_experiment(id_)
    trial = experiment.trials(experiment.presets["smoke"])[0]
    assert experiment.needs(trial) == ()
    assert experiment.run_trial(trial).rows
    assert not empty.exists()


def of(*names):
    return SimpleNamespace(id="mine/x", needs=lambda trial: names)


def put(folder, name, cut=0):
    folder.mkdir(parents=True, exist_ok=True)
    for file in catalogue.dataset(name).files:
        with open(folder / file.name, "wb") as f:
            f.truncate(file.bytes - cut)


def test_what_is_here_is_not_lacking(empty):
    assert lacking([1, 2], of("sotu", "mnist")) == ("sotu", "mnist")
    put(empty / "sotu", "sotu")
    assert lacking([1], of("sotu", "mnist")) == ("mnist",)
    assert lacking([], of("mnist")) == ()
    check_needs([1], of("sotu"))
    put(empty / "sotu", "sotu", cut=1)  # half a copy fails as none does, and not trial by trial
    with pytest.raises(DataUnavailable, match=r"^mine/x needs sotu, which is not here: featlearn data fetch sotu$"):
        check_needs([1], of("sotu"))
    with pytest.raises(DataError, match="dataset = 'mnst' is not allowed"):
        check_needs([1], of("mnst"))


@pytest.mark.parametrize(
    "absent, words",
    [
        (("transformers",), "transformers, which is not installed"),
        (("gguf", "transformers"), "transformers and gguf, which are not installed"),
    ],
)
def test_packages_of_language_models_are_asked_for_first(absent, words, empty, monkeypatch):
    """Before any trial, and before a download; what reads no language model does without them."""
    found = needs.importlib.util.find_spec
    monkeypatch.setattr(needs.importlib.util, "find_spec", lambda name: None if name in absent else found(name))
    with pytest.raises(DataUnavailable, match=f"^mine/x needs {words}: pip install 'featlearn\\[llm\\]'$"):
        check_needs([1], of("sotu", "smollm2-135m"))
    put(empty / "sotu", "sotu")
    check_needs([1], of("sotu"))
    monkeypatch.setattr("featlearn.data.fetch", lambda *a, **k: pytest.fail("fetched what could not be used"))
    plan = SimpleNamespace(trials=[1], missing=[0])
    with pytest.raises(DataUnavailable, match=f"needs {words}"):
        bring(of("smollm2-135m"), [plan], fetch=True)


def test_fetch_brings_what_is_needed_first(empty, monkeypatch, capsys, tmp_path):
    needy = dataclasses.replace(
        load_source(str(Path(__file__).parents[1] / "lab/toy_experiment.py")), needs=lambda trial: ("sotu",)
    )
    monkeypatch.setattr(importlib.import_module("featlearn.cli.run"), "load_experiment", lambda name: needy)
    monkeypatch.chdir(tmp_path)
    fetched = []

    def fetch(name, root=None, progress=None):
        fetched.append(name)
        put(empty / name, name)
        return empty / name

    monkeypatch.setattr("featlearn.data.fetch", fetch)
    main = importlib.import_module("featlearn.cli").main
    assert main(["run", "toy/normal", "--no-report"]) == 1
    assert fetched == []
    assert "toy/normal needs sotu, which is not here" in capsys.readouterr().err
    assert main(["run", "toy/normal", "--no-report", "--fetch"]) == 0
    assert fetched == ["sotu"]
    assert "sotu: licence: public domain" in capsys.readouterr().err
    for path in (empty / "sotu").iterdir():
        path.unlink()
    assert main(["run", "toy/normal", "--no-report"]) == 0  # trials already done need none
