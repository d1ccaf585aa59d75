"""A laboratory for feature learning: reproduce, measure, apply.

Importing this package loads nothing heavy. Its rooms, and three facades for notebooks, are loaded when they are named:

    >>> import featlearn
    >>> featlearn.core.Key("tour") / 3
    Key(path='tour/3')

`featlearn.gemfilter`, `featlearn.domains` and `featlearn.adapt` hold what the commands of these names call, and the
methods below: `featlearn.gemfilter.answer(model, tokenizer, text, questions, keep=512)`. `featlearn.watch` is a
function for the loop that trains your network, and so is `featlearn.coordinate_check`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from featlearn import core as core
    from featlearn import data as data
    from featlearn import kernels as kernels
    from featlearn import lab as lab
    from featlearn import learn as learn
    from featlearn import measure as measure
    from featlearn import methods as methods
    from featlearn import nets as nets
    from featlearn import report as report
    from featlearn import tasks as tasks
    from featlearn.apply.adapt import public as adapt
    from featlearn.apply.domains import public as domains
    from featlearn.apply.gemfilter import public as gemfilter
    from featlearn.apply.watch.public import coordinate_check as coordinate_check
    from featlearn.apply.watch.public import watch as watch

__version__ = "0.1.0"

_FACADES = {"adapt": "apply.adapt.public", "domains": "apply.domains.public", "gemfilter": "apply.gemfilter.public"}

_FUNCTIONS = ("coordinate_check", "watch")
"""What stands in the facade `apply.watch.public` and is reached without it."""

__all__ = [
    "adapt",
    "coordinate_check",
    "core",
    "data",
    "domains",
    "gemfilter",
    "kernels",
    "lab",
    "learn",
    "measure",
    "methods",
    "nets",
    "report",
    "tasks",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'featlearn' has no attribute {name!r}")
    if name in _FUNCTIONS:
        return getattr(importlib.import_module("featlearn.apply.watch.public"), name)
    return importlib.import_module(f"featlearn.{_FACADES.get(name, name)}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
