"""What measures networks of other people's still runs."""

import sys
from itertools import islice
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import other_models  # noqa: E402


@pytest.mark.filterwarnings("ignore")
def test_a_few_steps_of_the_parity_are_measured_from_outside(monkeypatch):
    start, x, y, train, test, rate = other_models.parity()
    found = other_models.measured(start, x, y, lambda model, r: islice(train(model, r), 3), test, rate)
    assert found["steps"] == 3
    assert found["watch_reads"] in ("lazy", "rich", "undecided", "unread")  # three steps hardly move the outputs
    assert 0 <= found["kernel_drift"] < 0.5
    assert found["layers"]["moved"] > 0
