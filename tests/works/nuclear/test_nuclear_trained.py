"""Claims of the nuclear work on rows: what holds, what does not, and what changed rows make of them."""

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.experiment import Rows
from featlearn.lab.pending import verify
from featlearn.works.nuclear.claims import trained
from featlearn.works.nuclear.rows import (
    DECAY_FREE,
    DECAY_UNIT,
    ERM,
    FREE,
    NU,
    NUCLEAR_FREE,
    NUCLEAR_UNIT,
    SYNTHETIC,
)

BY_NAME = {c.id.removeprefix("nuclear."): c for c in trained.CLAIMS}


def verdict(name, rows):
    made = Rows(tuple({"trial": "x", **r} for r in rows))
    return verify(BY_NAME[name], Key("verify"), lambda experiment: made)


# --- two inputs ------------------------------------------------------------------------------------------------------


def path_rows(erm=0.99, nu=0.97, first=5, second=80):
    """Median accuracies that step up to 0.8, 0.95 and the end."""
    found = []
    for n in (100, 0):
        for seed in range(2):
            for row, end in ((ERM, erm), (NU, nu)):
                for step in (0, first, second, 1000):
                    ood = {0: 0.5, first: 0.8, second: 0.95}.get(step, end)
                    found.append(
                        {
                            "n": n,
                            "scale": 1.0,
                            "head": FREE,
                            "row": row,
                            "seed": seed,
                            "step": step,
                            "ood": min(ood, end),
                            "near": 0.1,
                        }
                    )
    return found


def end_rows(gain=0.05, sample=None, ratio=20.0):
    """Ends with penalties: l2 falls with the loss from 0.98, the nuclear norm lies `gain` above at loss 0.35."""
    found = []
    for n in (0, 1000):
        factor = gain if n == 0 or sample is None else sample
        for seed in range(2):
            for loss in (0.1, 0.3, 0.5, 0.7):
                line = 0.98 - 0.2 * loss
                base = {"n": n, "seed": seed, "weight": loss, "train_loss": loss, "head_norm": 1.0, "top": 1.0}
                found += [
                    base | {"row": DECAY_UNIT, "ood": line},
                    base | {"row": NUCLEAR_UNIT, "ood": line + factor * loss / 0.35},
                    base | {"row": NUCLEAR_FREE, "ood": 0.99, "head_norm": ratio},
                    base | {"row": DECAY_FREE, "ood": 0.95},
                ]
    return found


@pytest.mark.parametrize(
    "name, change, expected",
    [
        ("trained_erm", {}, "refuted"),
        ("trained_erm", {"erm": 0.765}, "holds"),
        ("trained_path", {}, "holds"),
        ("trained_path", {"erm": 0.95}, "refuted"),  # does not go on
        ("trained_path", {"first": 60}, "refuted"),  # late
        ("trained_path", {"first": 40, "second": 80}, "refuted"),  # and both together
        ("trained_path", {"erm": 0.7}, "refuted"),
        ("trained_order", {}, "refuted"),
        ("trained_order", {"nu": 0.995}, "holds"),
        ("trained_order", {"erm": 0.76, "nu": 0.945}, "not established"),  # as much as reported
    ],
)
def test_claims_on_paths(name, change, expected):
    assert verdict(name, path_rows(**change)).verdict == expected


def test_times_in_words():
    words = verdict("trained_erm", [*path_rows(), *end_rows()]).evidence.comment
    assert "ERM passes 0.76 at step 5 and 0.94 at 80 of 1000, ends at 0.990" in words
    assert "no step has more than 10 % of its starts" in words
    assert "0.840 (n = 0, lambda = 0.7, seed 0)" in words


@pytest.mark.parametrize(
    "name, change, expected",
    [
        ("trained_matched", {}, "holds"),
        ("trained_matched", {"gain": 0.01}, "refuted"),  # less than 0.02 at a loss of 0.25
        ("trained_matched", {"gain": -0.05}, "refuted"),
        ("trained_matched", {"sample": 0.0}, "refuted"),  # the law has it, the sample does not
        ("trained_loophole", {}, "holds"),
        ("trained_loophole", {"ratio": 1.0}, "refuted"),
    ],
)
def test_claims_on_ends(name, change, expected):
    assert verdict(name, end_rows(**change)).verdict == expected


def test_unbalanced_weight_decay_is_seen():
    rows = [r | ({"head_norm": 1.2} if r["row"] == DECAY_FREE else {}) for r in end_rows()]
    assert verdict("trained_loophole", rows).verdict == "refuted"


def test_losses_are_matched_by_interpolation():
    """At loss 0.25 the planted gain is gain * 0.25 / 0.35, between two weights."""
    found = trained.matched(Rows(tuple(end_rows(gain=0.07))), 0).mean(0)
    np.testing.assert_allclose(found, [0.05, 0.07, 0.1, 0.12], atol=1e-9)
    short = [r for r in end_rows() if r["weight"] < 0.6]
    assert np.isnan(trained.matched(Rows(tuple(short)), 0)[0, -1])
    assert verdict("trained_matched", short).verdict == "refuted"  # no value agrees with nothing


# --- without rows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BY_NAME)
def test_without_rows_a_claim_names_the_command(name):
    experiment = SYNTHETIC if name.startswith("trained") else RANK if name.endswith(("rank", "weight")) else DIGITS
    other = {
        "trial": "x",
        "row": "none",
        "setting": "s",
        "held_out": "0",
        "seed": 0,
        "weight": 0.0,
        "n": 0,
        "test": 0.5,
    }
    empty = Rows((other,))
    for tables in (lambda e: None, lambda e: Rows(()), lambda e: empty):  # rows of another kind
        found = verify(BY_NAME[name], Key("verify"), tables)
        assert found.verdict == "not run"
        assert found.why.startswith(f"featlearn run {experiment} ")
