"""Nouns of the package: settings refused in one line, tasks recognised, divergence as its own error."""

import pickle
from dataclasses import FrozenInstanceError

import pytest
import torch

from featlearn.core import Batch, Diverged, SettingError, Task, Truth
from featlearn.tasks import ParityMix


def test_setting_error_names_field_value_range_and_remedy():
    error = SettingError("d", 50, "at least D = 100", "raise d or lower D")
    assert isinstance(error, ValueError)
    assert str(error) == "d = 50 is not allowed: at least D = 100; raise d or lower D"
    assert (error.field, error.value, error.allowed, error.remedy) == (
        "d",
        50,
        "at least D = 100",
        "raise d or lower D",
    )


def test_setting_error_survives_a_worker_process():
    """A pool sends errors back by pickle; the default recipe would call the class with the message alone."""
    error = SettingError("k", 4, "odd", "try k = 5")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is SettingError
    assert str(back) == str(error)
    assert back.field == "k"
    assert back.value == 4


def test_diverged_is_an_arithmetic_error_and_survives_a_worker_process():
    back = pickle.loads(pickle.dumps(Diverged("step 3")))
    assert type(back) is Diverged
    assert isinstance(back, FloatingPointError)
    assert str(back) == "step 3"


def test_task_protocol_tells_tasks_from_other_things():
    assert isinstance(ParityMix(d=5, D=5, k=3), Task)
    assert not isinstance(Truth(torch.eye(2)), Task)


def test_batch_and_truth_are_frozen_and_have_no_latents_unless_given():
    batch = Batch(torch.zeros(2, 3), torch.ones(2))
    assert batch.hidden is None
    assert batch.group is None
    with pytest.raises(FrozenInstanceError):
        batch.x = torch.ones(2, 3)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(FrozenInstanceError):
        Truth(torch.eye(2)).features = torch.eye(3)  # pyright: ignore[reportAttributeAccessIssue]
