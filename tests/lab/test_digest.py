"""Digests: what changes them and what does not."""

import importlib.util
import subprocess
import sys
from dataclasses import dataclass

import pytest

from featlearn.lab.digest import code_digest, rows_digest

SOURCE = '''
"""A module."""
RATE = 0.5
TABLE = {"a": 1}

@__import__("functools").cache
def cached(x):
    return x + 5

def helper(x):
    """Doc."""
    return x * 2

def unused(x):
    return x + 1

class Shape:
    def area(self):
        return 3

def measure(x):
    # a comment
    def inner(y):
        return y - 1
    return helper(inner(x)) * RATE + TABLE["a"] + Shape().area() + cached(x)
'''


@pytest.fixture
def digest(tmp_path, monkeypatch):
    made = []

    def digest_of(source: str) -> str:
        name = f"featlearn_digest_{len(made)}"
        path = tmp_path / f"{name}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        made.append(module)
        return code_digest(module.measure)

    return digest_of


@pytest.mark.parametrize(
    "change",
    [
        ("# a comment", "# another, longer comment\n"),
        ('"""Doc."""', '"""A different docstring."""'),
        ("return x * 2", "return (x * 2)"),
        ("def unused(x):\n    return x + 1", ""),
        ('"""A module."""', ""),
        ("def helper(x):", "def helper(x: int) -> int:"),
        ("def inner(y):", "def inner(y: 'float') -> 'float':"),
    ],
)
def test_comments_docstrings_annotations_positions_and_what_is_not_reached_change_nothing(digest, change):
    assert change[0] in SOURCE
    assert digest(SOURCE) == digest(SOURCE.replace(*change))


@pytest.mark.parametrize(
    "change",
    [
        ("return x * 2", "return x * 3"),
        ("return y - 1", "return y - 2"),
        ("RATE = 0.5", "RATE = 0.25"),
        ('TABLE = {"a": 1}', 'TABLE = {"a": 2}'),
        ("return 3", "return 4"),
        ("return x + 5", "return x + 6"),
        ("* RATE", "/ RATE"),
    ],
)
def test_what_is_reached_changes_it(digest, change):
    assert change[0] in SOURCE
    assert digest(SOURCE) != digest(SOURCE.replace(*change))


PLACED = SOURCE.replace(
    'TABLE = {"a": 1}',
    """import weakref
TABLE = {"a": 1}
def one(x):
    return x + 10
BY_NAME = {"a": (1, one)}
NAMES = [("b", 2)]
SEEN = weakref.WeakKeyDictionary()""",
).replace("cached(x)\n", 'cached(x) + len(__file__) + BY_NAME["a"][0] + len(NAMES) + len(SEEN)\n')


def test_where_the_code_lies_and_where_functions_lie_in_memory_change_nothing(digest):
    """Every copy has a file of another name, functions at other addresses, and a table that shows its own."""
    assert "BY_NAME[" in PLACED
    assert digest(PLACED) == digest(PLACED)


@pytest.mark.parametrize("change", [("return x + 10", "return x + 11"), ('("b", 2)', '("b", 3)')])
def test_functions_and_values_in_nested_tables_count(digest, change):
    assert digest(PLACED) != digest(PLACED.replace(*change))


@dataclass(frozen=True)
class Pair:
    d: int
    value: float


def test_rows_are_told_apart_by_every_value():
    assert rows_digest([Pair(1, 0.5)]) == rows_digest([{"value": 0.5, "d": 1}])
    assert rows_digest([Pair(1, 0.5)]) != rows_digest([Pair(1, 0.5000001)])
    assert rows_digest([Pair(1, 0.5), Pair(2, 0.5)]) != rows_digest([Pair(1, 0.5)])


def test_type_checks_of_a_test_run_change_no_digest():
    """The functions of the package are wrapped here and are not in a process of its own."""
    from featlearn.works.xor_sgd.experiments.time import run_trial

    code = (
        "from featlearn.lab.digest import code_digest as d\n"
        "from featlearn.works.xor_sgd.experiments.time import run_trial; print(d(run_trial))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == code_digest(run_trial)
