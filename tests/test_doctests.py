"""Every example of a public docstring runs and shows what it says."""

import ast
import doctest
import importlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import torch

import featlearn

PACKAGE = Path(featlearn.__file__).parent
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

NOT_RUN = {
    "featlearn.data.models:load_model": "the weights would be fetched, and tests reach no network",
    "featlearn.data.reviews:labelled": "the texts would be fetched, and tests reach no network",
    "featlearn.data.texts:essays": "the texts would be fetched, and tests reach no network",
}
"""Docstring -> why its example cannot run here."""


def given_a_language_model() -> dict[str, Any]:
    """A random model of 20 layers with a tokenizer, a prompt, texts, and a file of questions."""
    sys.path.insert(0, str(Path(__file__).parent / "apply"))
    try:
        import tiny
    finally:
        sys.path.pop(0)
    texts = tiny.made_essays()
    tokenizer = tiny.made_tokenizer(texts)
    model = tiny.made_model(len(tokenizer), num_hidden_layers=20, max_position_embeddings=8192)
    ids = torch.randint(6, len(tokenizer), (1, 1500), generator=torch.Generator().manual_seed(0))
    line = {"context": texts[0].text, "question": "Who owns the mill?", "answer": "river"}
    Path("mine.jsonl").write_text(json.dumps(line) + "\n")
    return {"model": model, "tokenizer": tokenizer, "ids": ids, "text": texts[0].text, "essays": lambda name: texts}


def given_domains() -> dict[str, Any]:
    """Two modules, and three domains of eight rows."""
    from featlearn.data.domains import TensorDomain
    from featlearn.methods.domains import erm, with_nuclear_norm
    from featlearn.methods.domains.training import Part

    def part(name: str) -> Part:
        x, y = torch.arange(16.0).reshape(8, 2, 1, 1), torch.tensor([0, 1] * 4)
        return Part(TensorDomain(name, x, y), torch.arange(8))

    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 3))
    head = torch.nn.Linear(3, 2)
    parts = {"parts": [part("a"), part("b")], "held_back": [part("c")], "unseen": [part("d")]}
    return {"net": net, "head": head, "erm": erm, "with_nuclear_norm": with_nuclear_norm, **parts}


def given_an_experiment() -> dict[str, Any]:
    from featlearn.works import load_experiment

    return {"EXPERIMENT": load_experiment("fourier/margin")}


def given_quantities() -> dict[str, Any]:
    from featlearn.lab import quantity

    return {**vars(quantity), "Annotated": Annotated, "Literal": Literal}


GIVEN = {
    "featlearn.apply.gemfilter": given_a_language_model,
    "featlearn.methods.eviction_block": given_a_language_model,
    "featlearn.methods.gemfilter": given_a_language_model,
    "featlearn.methods.in_context": given_a_language_model,
    "featlearn.methods.kv_eviction": given_a_language_model,
    "featlearn.methods.long_context": given_a_language_model,
    "featlearn.methods.shared_context": given_a_language_model,
    "featlearn.tasks.miniset": given_a_language_model,
    "featlearn.tasks.ruler": given_a_language_model,
    "featlearn.methods.domains.training": given_domains,
    "featlearn.lab.execute": given_an_experiment,
    "featlearn.lab.row": given_quantities,
}
"""Module, or package of modules -> the names that its examples take for granted, as a reader does."""


def documented(file: Path) -> dict[str, str]:
    """Dotted name -> docstring, of the module and of all public names below it that have one with an example."""
    module = ".".join(["featlearn", *file.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")
    found: dict[str, str] = {}

    def visit(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> None:
        text = ast.get_docstring(node, clean=False) or ""
        if ">>>" in text:
            found[name] = text
        for child in node.body:
            # inside a function nothing is public
            if isinstance(node, ast.Module | ast.ClassDef) and isinstance(
                child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ):
                if not child.name.startswith("_"):
                    visit(child, f"{name}:{child.name}" if isinstance(node, ast.Module) else f"{name}.{child.name}")

    visit(ast.parse(file.read_text(encoding="utf-8")), module)
    return found


DOCUMENTED = {name: text for file in sorted(PACKAGE.rglob("*.py")) for name, text in documented(file).items()}


def complaints(name: str, text: str) -> str:
    """What the examples of a docstring say that differs, run with the names of its module; "" if nothing."""
    module = importlib.import_module(name.partition(":")[0])
    given = next((make() for of, make in GIVEN.items() if f"{module.__name__}.".startswith(f"{of}.")), {})
    names = {**vars(module), **given, "__name__": "__main__"}
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append)
    return "".join(said)


@pytest.mark.parametrize("name", [n for n in DOCUMENTED if n not in NOT_RUN])
def test_example(name):
    said = complaints(name, DOCUMENTED[name])
    assert not said, said


def test_exceptions_exist_and_give_a_reason():
    assert NOT_RUN.keys() <= DOCUMENTED.keys()
    assert all(len(why.split()) > 3 for why in NOT_RUN.values())


def test_an_example_that_shows_something_else_is_seen():
    name = "featlearn.core.key:Key"
    assert "Expected:\n    5" in complaints(name, ">>> 2 + 2\n5\n")
    assert "NameError" in complaints(name, ">>> no_such_name\n")
    assert complaints(name, ">>> Key('a').path\n'a'\n") == ""


def test_public_docstrings_are_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    shown = '"""\n    >>> 1\n    1\n    """'
    (tmp_path / "a.py").write_text(
        f'">>> 1"\ndef f():\n    {shown}\n    def g():\n        {shown}\n\ndef _h():\n    {shown}\n\n'
        f"class A:\n    def m(self):\n        {shown}\n\nclass B:\n    '''Nothing to run.'''\n"
    )
    assert list(documented(tmp_path / "a.py")) == ["featlearn.a", "featlearn.a:f", "featlearn.a:A.m"]
