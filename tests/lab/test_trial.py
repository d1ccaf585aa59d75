"""Names of trials: stable across processes and versions of this code, and refused where JSON would change a value."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from featlearn.errors import TrialError
from featlearn.lab.trial import canonical_json, check_id, fields_of, trial_hash


@dataclass(frozen=True)
class Inner:
    rates: Any = (0.1, 1e-20)


@dataclass(frozen=True)
class Trial:
    seed: Any = 0
    inner: Any = Inner()
    name: Any = "ä"


@dataclass(frozen=True)
class Reordered:
    name: str = "ä"
    inner: Any = Inner([0.1, 1e-20])
    seed: int = 0


def test_canonical_json_is_fixed():
    assert canonical_json(Trial()) == '{"inner":{"rates":[0.1,1e-20]},"name":"\\u00e4","seed":0}'


def test_hash_is_the_same_in_another_process_and_forever():
    # a literal: a change of this value orphans every committed row under evidence/
    assert trial_hash("w/i", 1, Trial()) == "9bd8d8a7c2c00c6b"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from test_trial import Trial;"
        "from featlearn.lab.trial import trial_hash; print(trial_hash('w/i', 1, Trial()))"
    )
    folder = __file__.rsplit("/", 1)[0]
    for seed in ("1", "2"):  # of the hash of str
        out = subprocess.run(
            [sys.executable, "-c", code, folder],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert out.stdout.strip() == trial_hash("w/i", 1, Trial())


def test_tuples_are_lists_and_order_of_fields_does_not_matter():
    assert trial_hash("w/i", 1, Trial()) == trial_hash("w/i", 1, Reordered())


@pytest.mark.parametrize(
    "other",
    [
        Trial(seed=1),
        Trial(seed=0.0),
        Trial(seed=False),
        Trial(seed=None),
        Trial(seed="0"),
        Trial(inner=Inner((1e-20, 0.1))),
    ],
)
def test_every_value_and_kind_counts(other):
    assert trial_hash("w/i", 1, other) != trial_hash("w/i", 1, Trial())


def test_experiment_and_version_count():
    assert len({trial_hash("w/i", 1, Trial()), trial_hash("w/i", 2, Trial()), trial_hash("w/j", 1, Trial())}) == 3


def test_numpy_float64_is_the_float_it_equals():
    assert trial_hash("w/i", 1, Trial(seed=np.float64(0.1))) == trial_hash("w/i", 1, Trial(seed=0.1))


@pytest.mark.parametrize(
    "value, says",
    [
        (float("nan"), r"trial\.inner\.rates\[1\] = nan"),
        (float("inf"), r"trial\.inner\.rates\[1\] = inf"),
        (np.int64(3), r"trial\.inner\.rates\[1\] of type numpy\.int64"),
        (np.zeros(2), r"trial\.inner\.rates\[1\] of type numpy\.ndarray"),
        ({1: 2}, r"trial\.inner\.rates\[1\] has the key 1"),
        ({1, 2}, r"trial\.inner\.rates\[1\] of type set"),
        (Trial, r"trial\.inner\.rates\[1\] of type type"),
    ],
)
def test_refused_by_name_in_one_line(value, says):
    with pytest.raises(TrialError, match=says) as e:
        fields_of(Trial(inner=Inner((0.5, value))))
    assert "\n" not in str(e.value)


def test_a_trial_is_a_dataclass_instance():
    with pytest.raises(TrialError, match="dataclass instance"):
        fields_of({"seed": 1})


@pytest.mark.parametrize("bad", ["table1", "../up", "a/../b", "a/b/c", "/a", "a/", "a b/c", ".a/b"])
def test_ids_stay_inside_the_store(bad):
    with pytest.raises(TrialError, match="not allowed"):
        check_id(bad)
    assert check_id("emergence/table1-a.2_x") == "emergence/table1-a.2_x"
