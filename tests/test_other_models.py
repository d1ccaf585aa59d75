"""The page on three networks shows what was measured, and what measures still runs."""

import json
import sys
from itertools import islice
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import other_models  # noqa: E402

PAGE, MEASURED = ROOT / "docs" / "three_networks.md", ROOT / "evidence" / "benchmarks" / "other_models.json"


def test_the_page_shows_what_was_measured():
    text, document = PAGE.read_text(encoding="utf-8"), json.loads(MEASURED.read_text())
    assert other_models.filled(text, document) == text, (
        "python benchmarks/other_models.py --page docs/three_networks.md"
    )
    assert set(document["networks"]) == set(other_models.JOBS)
    document["networks"]["transformer on sparse parity"][0]["kernel_drift"] = 0.123
    assert other_models.filled(text, document) != text


@pytest.mark.filterwarnings("ignore")
def test_a_few_steps_of_the_parity_are_measured_from_outside(monkeypatch):
    start, x, y, train, test, rate = other_models.parity()
    found = other_models.measured(start, x, y, lambda model, r: islice(train(model, r), 3), test, rate)
    assert found["steps"] == 3
    assert found["watch_reads"] in ("lazy", "rich", "undecided", "unread")  # three steps hardly move the outputs
    assert 0 <= found["kernel_drift"] < 0.5
    assert found["layers"]["moved"] > 0
