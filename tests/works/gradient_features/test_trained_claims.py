"""Claims on the rows of `special_cases`: planted rows, and one thing wrong with them."""

import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.lab.experiment import Rows
from featlearn.lab.row import plain
from featlearn.lab.table import Table
from featlearn.works.gradient_features.claims import trained
from featlearn.works.gradient_features.rows import (
    BEST,
    CASES,
    FIRST,
    FIXED,
    LINEAR,
    XOR,
    Course,
    Neurons,
    Reference,
    Trained,
    chosen,
    reported,
)

BY_NAME = {c.id.removeprefix("gradient_features."): c for c in trained.CLAIMS}
PLACES = [*((case, 100) for case in CASES if case != XOR), (XOR, 50), (XOR, 400)]


def planted(error=0.1, loss=0.02, fixed=30.0, member=5.0, rise=0.0, span=90.0, late=64, theirs=0.8):
    """Two validation and four reported seeds; step size 0.1 is the best on the former, 0.001 is the reported one."""
    rows = {kind: [] for kind in (Trained, Reference, Neurons, Course)}
    for case, d in PLACES:
        for seed in (1000, 1001, 0, 1, 2, 3):
            noise, role = 0.001 * (seed % 4), "validation" if seed >= 1000 else "reported"
            base = {"case": case, "setting": f"{case}, n = 100{d}", "d": d, "r": 2, "k": 5, "m": 20, "seed": seed}
            base["role"] = role
            for eta, more in ((0.1, 0.0), (0.001, theirs)):
                end = error + noise + (rise if d == 400 else 0) + 50 * more
                made = Trained(**base, eta=eta, steps=300, error=end, loss=loss + noise + more, span=span)
                rows[Trained].append(made)
                for step in (0, 1, 3, 7, 63, 100):
                    times = (2, 4, 8, late + 37 * (seed % 2))
                    margins = {f"margin_{i}": 1.0 if step + 1 >= times[i // 2] else 0.1 for i in range(8)}
                    rows[Course].append(Course(**base, eta=eta, step=step, **margins))
            rows[Reference] += [
                Reference(**base, row=FIXED, error=fixed, loss=0.6),
                Reference(**base, row=FIRST, error=45.0, loss=0.9),
                Reference(**base, row=BEST, loss=0.001, lower=0.0),
            ]
            cones = {"cone_3": 1.0, "cone_5": 2.0, "cone_10": 9.0, "slack": 2e-4, "draws": 100}
            share = {"member": member, "member_low": member - 1, "rival": 0.0, "rival_high": 0.2}
            rows[Neurons].append(Neurons(**base, **cones, **share))
    return rows


def outcome(name, rows):
    claim = BY_NAME[name]
    return verdict_of(claim, Key("verify"), [Table.of(kind, rows[kind]) for kind in claim.reads])


@pytest.mark.parametrize("name", BY_NAME)
def test_rows_as_they_should_be_give_the_expected_verdict(name):
    verdict = outcome(name, planted())
    assert verdict.as_expected, [(f.statement.name, f.why) for f in verdict.findings if not f.as_expected]


WRONG = [
    ("theorem_b27_trained", {"error": 1.2}),
    ("theorem_b27_trained", {"member": 1.5}),
    ("theorem3_18_trained", {"loss": 0.06}),
    ("theorem3_18_trained", {"fixed": 0.5}),
    ("theorem_b42_trained", {"rise": 2.5}),
    ("theorem3_22_trained", {"error": 1.2}),
    ("theorem_b56_trained", {"loss": 0.3}),
    ("theorem_b56_trained", {"theirs": 0.1}),
    ("theorem_b69_trained", {"span": 70.0}),
    ("theorem_b69_trained", {"loss": 0.2}),
    ("simplicity_bias", {"late": 4}),
]


@pytest.mark.parametrize("name, wrong", WRONG)
def test_rows_with_one_thing_wrong_do_not(name, wrong):
    assert not outcome(name, planted(**wrong)).as_expected


def test_a_step_size_is_chosen_on_validation_seeds_and_must_stay_finite():
    rows = planted()[Trained]
    setting = f"{LINEAR}, n = 100100"
    flat = [plain(r) for r in rows]
    assert chosen(Rows(tuple(flat)), setting) == trained.chosen(Table.of(Trained, rows), setting) == 0.1
    assert {r["seed"] for r in reported(Rows(tuple(flat)), setting, "network")} == {0, 1, 2, 3}
    broken = [r | {"loss": None} if (r["seed"], r["eta"]) == (1001, 0.1) else r for r in flat]
    assert chosen(Rows(tuple(broken)), setting) == 0.001
    worse = [r | {"loss": 9.0} if r["seed"] < 1000 and r["eta"] == 0.1 else r for r in flat]
    assert chosen(Rows(tuple(worse)), setting) == 0.1
