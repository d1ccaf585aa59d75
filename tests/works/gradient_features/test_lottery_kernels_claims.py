"""Claims on the rows of `lottery` and `kernels`: planted rows of either kind, and the sizes that are read off."""

import math

import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.lab.experiment import Rows
from featlearn.lab.pending import verify
from featlearn.lab.table import Table
from featlearn.works.gradient_features.claims import kernels, lottery
from featlearn.works.gradient_features.rows_kernels import (
    FEW,
    LEARNERS,
    MANY,
    NETWORK,
    NTK,
    PARITY,
    RBF,
    UNIFORM,
    XOR,
    needed,
    needs_by_dimension,
)
from featlearn.works.gradient_features.rows_lottery import CUT, FULL, TICKET, ZERO, Total

BY_NAME = {c.id.removeprefix("gradient_features."): c for c in kernels.CLAIMS}


def judged(name, rows):
    return verify(BY_NAME[name], Key("verify"), lambda experiment: Rows(tuple(rows)))


def test_without_rows_a_claim_names_the_command():
    for claim in BY_NAME.values():
        verdict = verify(claim, Key("verify"), lambda experiment: None)
        assert verdict.verdict == "not run"
        assert verdict.why.startswith("featlearn run gradient_features/")


# lottery -------------------------------------------------------------------------------------------------------------


def totals(share=4.0, ticket=0.2, cut=25.0, zero=0.0):
    """Four seeds in two settings of either task."""
    ends = {FULL: 0.1, TICKET: 0.1 + ticket, ZERO: 0.1 + ticket + zero, CUT: 0.1 + ticket + cut}
    rows = [
        Total(
            setting=f"{task}, {level:g}",
            task=task,
            d=50,
            level=level,
            row=row,
            seed=seed,
            end_error=end,
            share=share if row == TICKET else None,
        )
        for task, level in (("XOR", 1.0), ("XOR", 2.0), ("parity", 3.0), ("parity", 5.0))
        for seed in range(4)
        for row, end in ends.items()
    ]
    return [Table.of(Total, rows)]


@pytest.mark.parametrize("wrong", [{"share": 22.0}, {"ticket": 1.2}, {"cut": 0.3}, {"zero": 2.0}])
@pytest.mark.parametrize("claim", lottery.CLAIMS, ids=lambda c: c.id)
def test_a_bad_ticket_is_told(claim, wrong):
    assert verdict_of(claim, Key("verify"), totals()).as_expected
    assert not verdict_of(claim, Key("verify"), totals(**wrong)).as_expected


# kernels -------------------------------------------------------------------------------------------------------------

POWERS = {NETWORK: 1.2, NTK: 1.6, RBF: 1.6, FEW: 3.0, MANY: 2.0}


def mixture_rows(worst=0.2, few=30.0, kernel=None, power=1.6):
    """Errors that fall through 10 % at 65 (d/50)^1.2 samples for the network, 130 (d/50)^power for kernels."""
    rows = []
    powers = POWERS | {NTK: power, RBF: power}
    for d in (50, 100, 200):
        for level in (1.0, d**0.5 / 4):
            for row in LEARNERS:
                for share in (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1.0):
                    n = round(share * d**1.5)
                    cross = (65 if row == NETWORK else 130) * (d / 50) ** powers[row]
                    error = 10 * (cross / n) ** 1.2
                    if share == 1.0:
                        error = {NETWORK: worst if level == 1.0 else 1.2, FEW: few}.get(row, kernel or error)
                    for seed in range(4):
                        rows.append(
                            {
                                "row": row,
                                "kind": XOR,
                                "d": d,
                                "level": level,
                                "snr": d**0.5 / level,
                                "share": share,
                                "n": n,
                                "neurons": d,
                                "seed": seed,
                                "error": min(50.0, error * (1 + 0.02 * seed)),
                            }
                        )
    rows.append({"row": NETWORK, "kind": XOR, "d": 50, "level": 1.0, "share": 1.0, "validation": 50.0})
    return rows


def parity_rows(network=0.5, fixed=27.0, hinge=0.9):
    rows = []
    for kind, ks in ((PARITY, (3, 5)), (UNIFORM, (2,))):
        for k in ks:
            for row in LEARNERS:
                for seed in range(4):
                    error = (network if row == NETWORK else fixed) + 0.1 * seed
                    base = {"kind": kind, "row": row, "d": 50, "level": float(k), "share": 1.0, "n": 100, "seed": seed}
                    rows.append({**base, "error": error, "neurons": 50, "hinge": hinge, "B": 3.0})
    return rows


def test_measured_rows_give_the_expected_verdicts():
    for name, rows in (
        ("claim_xor_beyond_kernel", mixture_rows()),
        ("claim_xor_kernels", mixture_rows()),
        ("prop3_23_trained", parity_rows()),
    ):
        verdict = judged(name, rows)
        assert verdict.as_expected, (name, verdict.verdict, verdict.why)
        open_ = [c for c in verdict.evidence.cases if c.ok and c.rival is not None and not c.rival_rejected]
        assert bool(open_) == (name == "claim_xor_kernels")


@pytest.mark.parametrize(
    "name, rows",
    [
        ("claim_xor_beyond_kernel", mixture_rows(worst=6.0)),
        ("claim_xor_beyond_kernel", mixture_rows(few=9.0)),
        ("prop3_23_trained", parity_rows(network=19.0)),
        ("prop3_23_trained", parity_rows(fixed=8.0)),
        ("prop3_23_trained", parity_rows(hinge=-3.0)),
    ],
)
def test_rows_of_another_kind_refute(name, rows):
    assert judged(name, rows).verdict == "refuted"


@pytest.mark.parametrize("power", [1.5, 1.6, 2.0])
def test_a_rate_without_a_constant_is_not_established_at_three_sizes(power):
    verdict = judged("claim_xor_kernels", mixture_rows(power=power))
    assert verdict.verdict == "not established"
    assert "c d^1.5" in verdict.why
    network, *kernels_, ratio = verdict.evidence.cases
    assert [network.ok, ratio.ok, network.rival_rejected, ratio.rival_rejected] == [True] * 4
    assert [c.ok for c in kernels_] == [True, True]


def test_the_hardest_level_is_the_largest_sigma_with_at_most_5_percent():
    table = Rows(tuple(mixture_rows()))
    assert kernels.hardest(table) == {d: d**0.5 / 4 for d in (50, 100, 200)}
    hard = [r | {"error": 6.0} if r["level"] != 1.0 and r["d"] == 100 else r for r in mixture_rows()]
    assert kernels.hardest(Rows(tuple(hard)))[100] == 1.0


def test_exponents_are_those_planted():
    for row, power in ((NETWORK, 1.2), (NTK, 1.6)):
        d, n = needs_by_dimension(Rows(tuple(mixture_rows())), row, 4.0, 10.0)
        assert len(d) == 12
        slope = math.log(n[-1] / n[0]) / math.log(d[-1] / d[0])
        assert slope == pytest.approx(power, abs=0.08)


def test_needed():
    assert needed([10, 20, 40], [50.0, 20.0, 5.0], 10.0) == pytest.approx(20 * 2 ** (2 / 3))
    assert needed([40, 10, 20], [5.0, 50.0, 20.0], 10.0) == pytest.approx(20 * 2 ** (2 / 3))
    assert needed([10, 20, 40], [50.0, 5.0, 12.0], 10.0) is None  # back above the target
    assert needed([10, 20], [9.0, 5.0], 10.0) is None  # there from the start
    assert needed([10, 20], [50.0, 20.0], 10.0) is None


def test_best_possible_error_agrees_with_samples():
    """40 000 samples: one standard error is 0.09 points at 3.3 %."""
    rng = Key("bayes").numpy()
    u, v = rng.normal(3.0, 1.0, 40_000), rng.normal(0.0, 1.0, 40_000)
    assert 100 * (abs(v) > abs(u)).mean() == pytest.approx(kernels.bayes_error(3.0), abs=0.4)
    assert kernels.bayes_error(4.0) < 0.6 * kernels.bayes_error(3.0)
