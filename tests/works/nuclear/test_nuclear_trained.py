"""Claims of the nuclear work on rows: what changed rows make of them."""

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.lab.table import Table
from featlearn.works.nuclear.claims import digits, trained
from featlearn.works.nuclear.rows import (
    DECAY_FREE,
    DECAY_UNIT,
    ERM,
    FREE,
    NU,
    NUCLEAR_FREE,
    NUCLEAR_UNIT,
    End,
    Path,
    Run,
)

BY_NAME = {c.id.removeprefix("nuclear."): c for module in (trained, digits) for c in module.CLAIMS}


def outcomes(name, table):
    return [f.outcome for f in verdict_of(BY_NAME[name], Key("verify"), [table]).findings]


# --- two inputs ------------------------------------------------------------------------------------------------------


def paths(erm=0.99, nu=0.98, first=5):
    """Median accuracies that step up to 0.8 and the end, a little different by seed."""
    return Table.of(
        Path,
        [
            Path(
                n=n,
                row=row,
                head=FREE,
                scale=1.0,
                step=step,
                seed=seed,
                ood_low=0.1,
                ood={0: 0.5, first: min(0.8, end)}.get(step, end) - (1e-3 + 1e-3 * (row == NU)) * seed,
                ood_high=1.0,
                id=0.9,
                train_loss=0.1,
                near=0.1,
            )
            for n in (100, 0)
            for seed in range(3)
            for row, end in ((ERM, erm), (NU, nu))
            for step in (0, first, 1000)
        ],
    )


def ends(gain=1.0, ratio=20.0, decayed=1.0):
    """The squared norm falls with the loss from 0.98; the nuclear norm lies `gain` times the law's solution above."""
    found = []
    exact = dict(zip(trained.LOSSES, np.array(trained.matched_said(None)[1].value), strict=True))
    for n in (0, 1000):
        for seed in range(3):
            for loss in trained.LOSSES:
                line = 0.8 - 0.2 * loss + 1e-3 * seed
                for row, ood, head in (
                    (DECAY_UNIT, line, 1.0),
                    (NUCLEAR_UNIT, line + gain * exact[loss] + 1e-4 * seed, 1.0),
                    (NUCLEAR_FREE, 0.99, ratio),
                    (DECAY_FREE, 0.95, decayed),
                ):
                    found.append(
                        End(
                            n=n,
                            row=row,
                            weight=loss,
                            seed=seed,
                            slope=0.1,
                            id=0.9,
                            ood=ood,
                            train_loss=loss,
                            spread=0.0,
                            head_norm=head,
                            top=1.0,
                        )
                    )
    return Table.of(End, found)


@pytest.mark.parametrize(
    ("name", "table", "expected"),
    [
        ("trained_erm", paths(), ["confirmed", "confirmed", "confirmed"]),
        ("trained_erm", paths(erm=0.765), ["contradicted", "contradicted", "confirmed"]),
        ("trained_erm", paths(erm=0.93), ["confirmed", "contradicted", "confirmed"]),
        ("trained_erm", paths(first=500), ["confirmed", "confirmed", "contradicted"]),
        ("trained_order", paths(), ["confirmed"]),
        ("trained_order", paths(erm=0.76, nu=0.94), ["contradicted"]),
        ("trained_matched", ends(), ["confirmed"] * 3),
        ("trained_matched", ends(gain=0.0), ["contradicted"] * 3),
        ("trained_matched", ends(gain=2.0), ["confirmed", "contradicted", "contradicted"]),
        ("trained_loophole", ends(), ["confirmed", "confirmed"]),
        ("trained_loophole", ends(ratio=1.0), ["contradicted", "confirmed"]),
        ("trained_loophole", ends(decayed=2.0), ["confirmed", "contradicted"]),
    ],
)
def test_claims_on_two_inputs(name, table, expected):
    assert outcomes(name, table) == expected


# --- digits ----------------------------------------------------------------------------------------------------------


def runs(gain=0.0, at=None, shrink=2.0, rank=1.0, noise=0.002):
    """Two kinds of data, ERM and SWAD, eight seeds. gain: of every weight, in points; at: of one weight; shrink: of the
    norm by weight 1; rank: factor of the stable rank at weight 1."""
    rng, found = np.random.default_rng(0), []
    for data in ("rotated mnist", "colored mnist"):
        for row in ("erm", "swad"):
            for seed in range(8):
                for rate, weight in ((1e-3, 0.0), (3e-3, 0.0), (3e-3, 0.01), (3e-3, 1.0)):
                    more = gain / 100 if weight else 0.0
                    more += (at or {}).get(weight, 0.0) / 100
                    found.append(
                        Run(
                            data=data,
                            held_out="75",
                            row=row,
                            rate=rate,
                            weight=weight,
                            seed=seed,
                            step=1,
                            validation=0.9 + 0.01 * (weight == 1.0) + 0.01 * (rate == 1e-3),
                            test=0.7 + more + noise * rng.standard_normal(),
                            rule=0.2,
                            norm=shrink**-weight,
                            rank=3 * rank**weight * (1 + 0.001 * seed),
                            rank_centred=2 * rank**weight * (1 + 0.001 * seed),
                            reported=4 * (rank / shrink) ** weight * (1 + 0.001 * seed),
                        )
                    )
    return Table.of(Run, found)


@pytest.mark.parametrize(
    ("name", "table", "expected"),
    [
        ("digits_gain", runs(gain=3.0), ["confirmed", "confirmed"]),
        ("digits_gain", runs(gain=0.0, noise=1e-4), ["inconclusive", "confirmed"]),
        ("digits_gain", runs(gain=-4.0), ["contradicted", "contradicted"]),
        ("digits_weight", runs(), ["confirmed", "confirmed"]),
        ("digits_weight", runs(at={1.0: -5.0}), ["confirmed", "contradicted"]),
        ("digits_weight", runs(at={0.01: 3.0}), ["contradicted", "confirmed"]),
    ],
)
def test_claims_on_gains_and_weights(name, table, expected):
    assert outcomes(name, table) == expected


def test_the_norm_acts_on_scale_or_on_rank():
    """Norms alike in all seeds have no interval, so seeds differ a little here."""
    scale, both = (runs(rank=r) for r in (1.0, 0.5))
    for table in (scale, both):
        for r in table.rows:
            object.__setattr__(r, "norm", r.norm * (1 + 0.001 * r.weight * r.seed))
            object.__setattr__(r, "rank", r.rank * (1 + 0.001 * r.weight * r.seed))
    assert outcomes("digits_mechanism", scale) == ["confirmed"] * 2
    assert outcomes("digits_mechanism", both) == ["confirmed", "contradicted"]


def test_a_rank_that_falls_and_one_that_rises():
    def spread(table):
        for r in table.rows:
            for name in ("rank", "rank_centred", "reported"):
                object.__setattr__(r, name, getattr(r, name) * (1 + 0.001 * r.weight * r.seed))
        return table

    falls = outcomes("digits_rank", spread(runs(rank=0.5)))
    assert falls == ["confirmed"] * 3
    rises = outcomes("digits_rank", spread(runs(rank=2.5)))
    assert rises == ["contradicted"] * 3
