"""Contracts that every task keeps and every public name of the low rooms has, walked from `__all__`.

A new task is tested by being listed; if some of its settings deserve a test too, add them to MORE.
"""

import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import random
import re

import numpy as np
import pytest
import torch

import featlearn.core
import featlearn.learn
import featlearn.measure
import featlearn.nets
import featlearn.tasks
from featlearn.core import Batch, Key, Task, Truth
from featlearn.tasks import (
    BlockParity,
    BooleanXor,
    Environments,
    Environments2d,
    GaussianClusters,
    GaussianMixture,
    HiddenCodes,
    HierarchicalParity,
    Interval,
    InvariantFeatures,
    LinearData,
    LinearRegression,
    ModularAddition,
    MultiIndex,
    ParityMix,
    ParityPrompts,
    RegressionPrompts,
    SmoothComposite,
    TaskMixture,
    UniformParity,
    XorClusters,
)

KEY = Key("tests/contracts")
ALL = [getattr(featlearn.tasks, name) for name in featlearn.tasks.__all__]
MORE = [
    ParityMix(d=20, D=10, k=3, p_o=0.3, coordinates="input", sigma_z=0.1),
    ParityMix(d=8, D=10, k=3, coordinates="incoherent", negative_share=0.9),
    ParityMix(d=11, D=10, k=3, coordinates="tilted"),
    ParityMix(d=10, D=10, k=3, structure=False),
    Interval(d=20, D=10, k=4, t1=2, t2=3, coordinates="input"),
    HiddenCodes(d=20, D=10, k=6, per_class=3, coordinates="input"),
    HierarchicalParity.hard_instance(12, 3, alpha=0.5, live=8, background="gaussian"),
    HierarchicalParity(d=9, k=3, degree=2, top=2, live=7, background="zero", scale=0.5),
    GaussianClusters(d=25, k=4, sigma_r=0.7),
    GaussianMixture.xor(d=20),
    GaussianMixture(d=30, labels=(1, -1, -1), weights=(0.3, 0.3, 0.4), sigma=(0.5, 1.0, 0.0)),
    BlockParity(d=20, r=3, k=5, p_A=0.1, p_o=0.2, coordinates="input"),
    UniformParity(d=9, k=4),
    LinearData(d=10, sigma=0.0),
    LinearRegression(d=7, noise=0.5),
    ParityPrompts(d=7, k=7, gamma=0.25, p_T=0.0, coordinates="pattern"),
    ParityPrompts(d=9, k=3, gamma=0.0, p_T=0.4),
    MultiIndex(d=10, terms=((3, 0), (1, 1)), coefficients=(1.0, 2.0)),
    BooleanXor(d=10, pair=(2, 5), basis="random"),
    ModularAddition(p=6, k=3),
    XorClusters(d=10, sigma=0.2, eta=0.25, noise="adversarial", law="laplace"),
    Environments2d(0.3),
    Environments(d=12, r=5, gamma=-0.2),
    InvariantFeatures(invariant=(0.5, 0.5), spurious=(0.9, 0.1), d=3),
    TaskMixture(tasks=2, r=4, s=1, spurious=1, weights=(0.7, 0.3)),
    RegressionPrompts(variances=(2.0, 1.0, 0.0), examples=3, noise=0.5, weight=(1.0, 0.0, 2.0)),
]
ONE_MEMBER = [
    HierarchicalParity(),
    HierarchicalParity(d=9, k=3, degree=2, top=2, live=7, background="zero", scale=0.5),
    BooleanXor(),
    ModularAddition(),
    ModularAddition(p=6, k=3),
    Environments2d(),
    Environments2d(0.3),
]
"""Families whose members do not depend on the key."""
REAL = {LinearRegression, MultiIndex, RegressionPrompts, TaskMixture}
"""Tasks of regression, whose labels are real numbers."""
VECTORS = {HierarchicalParity, SmoothComposite}
"""Tasks whose targets are vectors."""
TASKS = [*(cls() for cls in ALL), *MORE]


def named(task) -> str:
    changed = {f.name: getattr(task, f.name) for f in dataclasses.fields(task) if getattr(task, f.name) != f.default}
    return f"{type(task).__name__}({', '.join(f'{k}={v}' for k, v in changed.items())})"


every_task = pytest.mark.parametrize("task", TASKS, ids=named)


def tensors(value) -> dict[str, object]:
    """The fields of a truth or batch that hold something."""
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if getattr(value, f.name) is not None}


def same(one, two) -> bool:
    a, b = tensors(one), tensors(two)
    return a.keys() == b.keys() and all(
        torch.equal(a[k], b[k]) if isinstance(a[k], torch.Tensor) else a[k] == b[k] for k in a
    )


def test_every_task_is_listed_and_has_default_settings():
    assert sorted(featlearn.tasks.__all__) == list(featlearn.tasks.__all__)
    assert {type(task) for task in TASKS} == set(ALL)
    assert all(inspect.isclass(cls) for cls in ALL)


def test_every_module_of_tasks_is_reached_from_all():
    """A file of tasks that nobody lists would escape the walk."""
    listed = {cls.__module__ for cls in ALL}
    there = {f"featlearn.tasks.{m.name}" for m in pkgutil.iter_modules(featlearn.tasks.__path__)}
    prompts = {
        f"featlearn.tasks.{name}"
        for name in (
            "chat",
            "demonstrations",
            "metrics",
            "miniset",
            "needle_kinds",
            "needles",
            "prompts",
            "ruler",
            "ruler_words",
            "validation_kinds",
        )
    }  # texts, no vectors
    assert prompts < there
    assert listed == there - prompts
    for module in there:
        for name, value in vars(importlib.import_module(module)).items():
            own = inspect.isclass(value) and value.__module__ == module and hasattr(value, "sample")
            assert not own or name in featlearn.tasks.__all__, f"{module}.{name} is a task that __all__ does not list"


@every_task
def test_task_is_a_frozen_picklable_value(task):
    assert isinstance(task, Task)
    assert dataclasses.is_dataclass(task)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(task, dataclasses.fields(task)[0].name, 1)
    back = pickle.loads(pickle.dumps(task))
    assert back == task
    assert hash(back) == hash(task)


@every_task
def test_draw_and_sample_are_functions_of_the_key(task):
    truth = task.draw(KEY)
    assert same(truth, task.draw(Key(KEY.path)))
    batch = task.sample(truth, 40, KEY / "data")
    assert same(batch, task.sample(truth, 40, KEY / "data"))
    again = pickle.loads(pickle.dumps(task))
    assert same(batch, again.sample(again.draw(KEY), 40, KEY / "data"))


@every_task
def test_other_keys_give_other_members_and_samples(task):
    truth = task.draw(KEY)
    assert same(truth, task.draw(KEY / "other")) == (task in ONE_MEMBER)
    batch, other = task.sample(truth, 40, KEY / "data"), task.sample(truth, 40, KEY / "data2")
    assert not torch.equal(batch.x, other.x)
    assert not torch.equal(batch.y, other.y)
    assert not torch.equal(batch.x[:20], batch.x[20:])


@every_task
@pytest.mark.parametrize("n", [1, 37])
def test_shapes_types_and_ranges(task, n):
    truth = task.draw(KEY)
    batch = task.sample(truth, n, KEY / "data")
    assert isinstance(truth, Truth)
    assert isinstance(batch, Batch)
    assert truth.features.ndim == 2
    assert batch.x.shape[0] == n
    assert batch.y.shape == ((n, task.k) if type(task) in VECTORS else (n,))
    assert truth.features.dtype == torch.float32
    assert batch.x.dtype in (torch.float32, torch.int64)  # vectors and images, or index tuples and prompts
    for name, value in {**tensors(truth), **tensors(batch)}.items():
        assert torch.isfinite(torch.as_tensor(value)).all(), name
    if batch.x.ndim == 2 and batch.x.is_floating_point():
        assert truth.features.shape[1] == batch.x.shape[1]
    if batch.hidden is not None:
        assert batch.hidden.shape[0] == n
    if batch.group is not None:
        assert batch.group.shape == (n,)
        assert batch.group.dtype == torch.int64
        assert batch.group.min() >= 0


@every_task
def test_labels_are_signs_or_class_indices(task):
    y = task.sample(task.draw(KEY), 2000, KEY / "data").y
    if type(task) in REAL:
        assert y.dtype == torch.float32
        assert len(y.unique()) > 1000
    elif type(task) in VECTORS:
        assert y.dtype == torch.float32
        assert len(y[:, 0].unique()) == 4 or type(task) is SmoothComposite  # both signs of F, and of G
    elif y.is_floating_point():
        assert y.dtype == torch.float32
        assert set(y.unique().tolist()) == {-1.0, 1.0}
    else:
        assert y.dtype == torch.int64
        assert y.min() >= 0


@every_task
def test_features_are_unit_vectors(task):
    norms = task.draw(KEY).features.norm(dim=1)
    torch.testing.assert_close(norms, torch.ones_like(norms), atol=1e-5, rtol=0)


@every_task
def test_truth_and_batch_survive_a_worker_process(task):
    truth = task.draw(KEY)
    batch = task.sample(truth, 5, KEY)
    assert same(truth, pickle.loads(pickle.dumps(truth)))
    assert same(batch, pickle.loads(pickle.dumps(batch)))


@every_task
def test_nothing_global_changes(task):
    truth = task.draw(KEY)
    held = {k: v.clone() for k, v in tensors(truth).items() if isinstance(v, torch.Tensor)}
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    torch.set_rng_state(before[0])
    task.sample(task.draw(KEY), 20, KEY)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
    assert random.getstate() == before[2]
    task.sample(truth, 20, KEY)
    assert all(torch.equal(getattr(truth, k), v) for k, v in held.items())


@every_task
def test_global_seed_has_no_say(task):
    state = torch.get_rng_state()
    try:
        torch.manual_seed(1)
        one = task.sample(task.draw(KEY), 20, KEY)
        torch.manual_seed(2)
        assert same(one, task.sample(task.draw(KEY), 20, KEY))
    finally:
        torch.set_rng_state(state)


# documentation --------------------------------------------------------------------------------------------------------

AXIS = r"(?:\d|\d?[a-zA-Z]\d?)(?: [+*-] \w+)?"
SHAPE = re.compile(rf"\({AXIS}(?:, (?:{AXIS}|\.\.\.))*\)")  # "(n)", "(e, m, d)", "(n, ...)", "(e1 + e2, m)"


def public(module) -> list[tuple[str, object]]:
    """Functions and classes that a module defines without a leading underscore."""
    return [
        (f"{module.__name__}.{name}", value)
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    ]


def modules(package) -> list:
    return [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]


ROOMS = [featlearn.core, featlearn.tasks, featlearn.nets, featlearn.learn, featlearn.measure]
EXPORTED = [(f"{room.__name__}.{n}", getattr(room, n)) for room in ROOMS for n in getattr(room, "__all__", ())]
MEASURES = [pair for module in modules(featlearn.measure) for pair in public(module)]
TENSOR_FUNCTIONS = [
    (name, value)
    for name, value in [*EXPORTED, *MEASURES]
    if inspect.isfunction(value) and "Tensor" in str(inspect.signature(value)) + str(value.__annotations__)
]


@pytest.mark.parametrize("name, value", [*EXPORTED, *MEASURES], ids=lambda v: v if isinstance(v, str) else "")
def test_every_public_name_is_documented(name, value):
    own = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
    assert own, f"{name} has no docstring"
    assert not own.startswith(f"{value.__name__}("), f"{name} has only the signature that dataclass writes"
    assert len(own.split("\n", maxsplit=1)[0]) > 10


@pytest.mark.parametrize("name, value", TENSOR_FUNCTIONS, ids=lambda v: v if isinstance(v, str) else "")
def test_docstrings_of_tensor_functions_give_shapes(name, value):
    assert SHAPE.search(value.__doc__ or ""), f"{name}: say the shapes, for example (n, d)"


def test_the_walk_reaches_what_it_should():
    names = {name for name, _ in TENSOR_FUNCTIONS}
    assert {"featlearn.nets.gradients", "featlearn.measure.alignment.cosines", "featlearn.learn.fit"} <= names
    assert not SHAPE.search("cosines (signed) of (emergence.table1) neurons")


@pytest.mark.parametrize(
    "method",
    [m for cls in ALL for m in (cls.draw, cls.sample)],
    ids=lambda m: m.__qualname__,
)
def test_methods_of_tasks_are_documented(method):
    assert method.__doc__
