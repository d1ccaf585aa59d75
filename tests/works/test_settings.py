"""Of every experiment: settings that cannot be are refused before any work, and other processes can find it."""

import dataclasses
import importlib

import pytest

from featlearn import works
from featlearn.errors import FeatlearnError
from featlearn.lab.load import source_of

MEANT = {
    "exponent": "the step size grows or shrinks with the dimension",
    "layers": "the same",
    "layer": "-1 takes what calibration found for the model",
    "raw_layer": "the same",
}
"""Settings for which -1 has a meaning."""


def broken(value):
    """The value with a -1 in place of a number, or None where it holds none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return type(value)(-1)
    if isinstance(value, tuple) and value and all(type(v) in (int, float) for v in value):
        return (type(value[0])(-1), *value[1:])
    return None


@pytest.mark.parametrize("id_", works.EXPERIMENTS)
def test_minus_one_is_refused_where_it_has_no_meaning(id_):
    experiment = works.load_experiment(id_)
    smoke, taken, said = experiment.presets["smoke"], [], []
    for field in dataclasses.fields(smoke):
        value = broken(getattr(smoke, field.name))
        if value is None or field.name in MEANT:
            continue
        try:
            experiment.trials(dataclasses.replace(smoke, **{field.name: value}))
            taken.append(field.name)
        except FeatlearnError as error:
            said.append(str(error))
    assert not taken
    assert not [text for text in said if "\n" in text]


@pytest.mark.parametrize("id_", works.EXPERIMENTS)
def test_other_processes_can_load_it(id_):
    """The smoke presets run in one process, which would not see it."""
    experiment = works.load_experiment(id_)
    assert importlib.import_module(source_of(experiment)).EXPERIMENT is experiment
