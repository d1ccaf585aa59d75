"""Claims on the rows of `lottery` and `kernels`: planted rows of either kind, and the sizes that are read off."""

import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
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
    XOR,
    Fit,
    needed,
)
from featlearn.works.gradient_features.rows_lottery import CUT, FULL, RANDOM, TICKET, ZERO, Total

# lottery -------------------------------------------------------------------------------------------------------------


def totals(share=4.0, ticket=0.2, cut=25.0, zero=0.0, random=3.0):
    """Four seeds in two settings of either task."""
    ends = {FULL: 0.1, TICKET: 0.1 + ticket, ZERO: 0.1 + ticket + zero, CUT: 0.1 + ticket + cut, RANDOM: 0.1 + random}
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


@pytest.mark.parametrize("claim", lottery.CLAIMS, ids=lambda c: c.id)
def test_a_ticket_that_is_no_better_than_random_neurons_says_nothing(claim):
    found = verdict_of(claim, Key("verify"), totals(random=0.2)).findings
    assert {f.statement.name: f.outcome for f in found}[lottery.WITHIN] == "too weak to test"


# kernels -------------------------------------------------------------------------------------------------------------

POWERS = {NETWORK: 1.2, NTK: 1.6, RBF: 1.6, FEW: 3.0, MANY: 2.0}


def fit(task, row, d, level, share, n, seed, error, hinge=None, B=None):
    snr = d**0.5 / level if task == XOR else None
    more = {"hinge": hinge, "B": B, "first": 0.1, "second": 0.1}
    names = {"task": task, "row": row, "d": d, "level": level, "share": share, "n": n, "neurons": d, "snr": snr}
    return Fit(setting="s", seed=seed, error=error, **names, **more)


def mixture_rows(worst=0.2, few=30.0, ntk=130.0, growth=1.2):
    """Errors that fall through 10 % at 65 (d/50)^growth samples for the network, `ntk` (d/50)^1.6 for kernels."""
    rows = []
    for d in (50, 100, 200):
        for level in (1.0, d**0.5 / 4):
            for row in LEARNERS:
                for share in (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1.0):
                    n = round(share * d**1.5)
                    powers = POWERS | {NETWORK: growth}
                    cross = (65 if row == NETWORK else ntk) * (d / 50) ** powers[row]
                    error = 10 * (cross / n) ** 1.2
                    if share == 1.0:
                        error = {NETWORK: worst if level == 1.0 else 1.2, FEW: few}.get(row, error)
                    for seed in range(4):
                        e = min(50.0, error * (1 + 0.02 * seed))
                        rows.append(fit(XOR, row, d, level, share, n, seed, e))
    return [Table.of(Fit, rows)]


def parity_rows(network=0.5, fixed=27.0):
    rows = []
    for k in (3, 5):
        for row in LEARNERS:
            for seed in range(4):
                error = network + 0.1 * seed if row == NETWORK else fixed + 0.2 * seed
                rows.append(fit(PARITY, row, 50, float(k), 1.0, 100, seed, error, hinge=0.9, B=30.0))
    return [Table.of(Fit, rows)]


BAD = [
    ("claim_xor_beyond_kernel", mixture_rows, {"worst": 6.0}),
    ("claim_xor_beyond_kernel", mixture_rows, {"few": 9.0}),
    ("claim_xor_kernels", mixture_rows, {"ntk": 60.0}),
    ("prop3_23_trained", parity_rows, {"network": 19.0}),
    ("prop3_23_trained", parity_rows, {"fixed": 8.0}),
]


@pytest.mark.parametrize("name, rows, wrong", BAD)
def test_rows_of_another_kind_are_told(name, rows, wrong):
    claim = next(c for c in kernels.CLAIMS if c.id.endswith(name))
    right = [(f.statement.name, f.outcome) for f in verdict_of(claim, Key("verify"), rows()).findings]
    assert [(f.statement.name, f.outcome) for f in verdict_of(claim, Key("verify"), rows(**wrong)).findings] != right


def test_needed():
    assert needed([10, 20, 40], [50.0, 20.0, 5.0], 10.0) == pytest.approx(20 * 2 ** (2 / 3))
    assert needed([40, 10, 20], [5.0, 50.0, 20.0], 10.0) == pytest.approx(20 * 2 ** (2 / 3))
    assert needed([10, 20, 40], [50.0, 5.0, 12.0], 10.0) is None  # back above the target
    assert needed([10, 20], [9.0, 5.0], 10.0) is None  # there from the start
    assert needed([10, 20], [50.0, 20.0], 10.0) is None
