"""Figure 8.1: planted rows, the decay without a floor against the loops, and settings that are refused."""

import dataclasses
import math
from pathlib import Path
from statistics import mean

import pytest

from featlearn.core import Key, SettingError
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import verdict_of
from featlearn.lab.experiment import Rows
from featlearn.lab.find import latest_complete
from featlearn.lab.store import Store
from featlearn.lab.table import Table
from featlearn.works.looped.claims.figure import BELOW, CLAIMS, SHIFTED
from featlearn.works.looped.experiments import figure8_1
from featlearn.works.looped.rows import Conditioning, Decay

CONDITION, FIGURE, GAP = CLAIMS
KAPPA = {16: 4.7, 32: 2.7, 64: 2.0, 128: 1.65}
TIMES = (0, 1, 20, 200)


def kappa_of(n, seed):
    return KAPPA[n] * (1 + 0.01 * (seed % 5 - 2))


def decays(rate=lambda kappa: 2 * math.log(1 - 1 / kappa), floor=-72.0):
    return Table.of(
        Decay,
        [
            Decay(
                n=n,
                t=t,
                seed=seed,
                kappa=kappa_of(n, seed),
                exact=t * rate(kappa_of(n, seed)),
                looped=max(t * rate(kappa_of(n, seed)), floor),
                descent=max(t * rate(kappa_of(n, seed)), floor),
            )
            for n in KAPPA
            for seed in range(10)
            for t in TIMES
        ],
    )


def prompts():
    return Table.of(
        Conditioning,
        [
            Conditioning(n=n, seed=s, kappa=kappa_of(n, s), above_squared=None, above_reported=None)
            for n in KAPPA
            for s in range(10)
        ],
    )


def outcomes(claim, *tables):
    return [f.outcome for f in verdict_of(claim, Key("verify"), tables).findings]


def test_rows_of_the_theory_agree_and_the_gap_narrows_in_loops_and_widens_in_early_logarithms():
    assert outcomes(FIGURE, prompts(), decays()) == ["confirmed"] * 5
    assert blind(FIGURE, Key("verify"), (prompts(), decays())) == []
    assert apart(FIGURE, Key("verify"), (prompts(), decays())) == []
    assert outcomes(GAP, decays()) == ["confirmed"] * 3
    assert apart(GAP, Key("verify"), (decays(),)) == []
    assert blind(GAP, Key("verify"), (decays(),)) == []


def test_errors_that_fall_half_as_fast_are_seen():
    slow = decays(lambda kappa: -0.501 / kappa)
    assert outcomes(FIGURE, prompts(), slow)[2:4] == ["confirmed", "contradicted"]
    assert outcomes(GAP, slow)[0] == "contradicted"  # next to no gap, so that it does not narrow
    assert outcomes(GAP, slow)[2] == "contradicted"  # nor widen


def test_an_error_above_a_line_by_more_than_rounding_is_seen():
    high = [dataclasses.replace(r, looped=r.looped + 20 * (r.t == 200)) for r in decays().rows]
    assert outcomes(FIGURE, prompts(), Table.of(Decay, high))[2:4] == ["contradicted", "contradicted"]


def test_loops_that_differ_from_descent_where_both_errors_are_small_are_seen():
    other = [dataclasses.replace(r, looped=r.looped + 1e-5 * (r.t == 20)) for r in decays().rows]
    assert outcomes(FIGURE, prompts(), Table.of(Decay, other))[4] == "contradicted"


def test_a_gap_that_narrows_in_early_logarithms_is_seen():
    """An error that is the line less a term in proportion to kappa."""
    assert outcomes(GAP, decays(lambda kappa: -1 / (2 * kappa) - kappa))[2] == "contradicted"


def test_a_gap_that_widens_in_loops_is_seen():
    """2 kappa loops by the theory, 3/kappa fewer measured."""
    assert outcomes(GAP, decays(lambda kappa: -1 / (2 * kappa - 3 / kappa)))[0] == "contradicted"


def test_errors_whose_distance_to_the_line_grows_are_seen():
    """Lines that fall more slowly with n, so that what is left of them grows."""
    late = [dataclasses.replace(r, kappa=10 / r.kappa) for r in decays().rows]
    assert outcomes(GAP, Table.of(Decay, late))[1] == "contradicted"


def test_no_prompt_is_left_out_of_a_gap_where_float64_ends_at_zero():
    gone = [dataclasses.replace(r, looped=None) if r.t else r for r in decays().rows]
    assert outcomes(GAP, Table.of(Decay, gone)) == ["confirmed"] * 3


def test_thresholds_of_the_gap_are_ours():
    """No statement of the claim is the paper's own: the sentence names no measure and no size."""
    assert [f.statement.form for f in verdict_of(GAP, Key("verify"), (decays(),)).findings] == [
        "criterion",
        "criterion",
        "derived",
    ]


def test_means_at_half_as_many_examples_are_another_law_at_every_n():
    seen = CONDITION.observe(None, Key("tests/kappa"))
    assert ((seen[BELOW] > 0.025) & (seen[BELOW] < 0.975)).all()
    assert (seen[SHIFTED] < 0.025).all()


def smoke(**changed):
    config = dataclasses.replace(figure8_1.EXPERIMENT.presets["smoke"], **changed)
    return [row for trial in figure8_1.trials(config) for row in figure8_1.run_trial(trial).rows]


def test_the_decay_without_a_floor_is_that_of_the_loops():
    rows = [r for r in smoke() if isinstance(r, Decay)]
    assert {r.t for r in rows} == {0, 1, 2, 5, 10, 20}
    for r in rows:
        if r.exact > -40:  # rounding of the loops is 1e-16 of 1, squared
            assert r.looped == pytest.approx(r.exact, abs=1e-6)
            assert r.descent == pytest.approx(r.exact, abs=1e-6)


def test_another_step_falls_at_another_rate():
    one, half = ([r for r in smoke(step=s) if isinstance(r, Decay) and r.t == 20] for s in (1.0, 0.5))
    assert all(a.exact < b.exact for a, b in zip(one, half, strict=True))
    for r in half:
        assert r.looped == pytest.approx(r.exact, abs=1e-6)


def test_crossings_are_the_first():
    assert figure8_1._first_above([0.0, -3.0, -1.5, -4.0], -1.0) == 2
    assert figure8_1._first_above([0.0, None, -9.0], -1.0) is None


def test_the_table_has_the_reported_means_and_the_picture_a_panel_for_each_n():
    rows = Rows(tuple(dataclasses.asdict(r) for r in smoke(n=(16, 32))))
    shown = [s for s in figure8_1.summarise(rows) if s.metric == "mean_kappa"]
    assert [s.reported for s in shown] == [4.57, 3.13]
    (picture,) = figure8_1.draw(rows).values()
    assert len(picture.figure.axes) == 2


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"n": (4, 8)}, "n"),
        ({"n": (8, 8)}, "n"),
        ({"d": 0}, "d"),
        ({"step": 2.0}, "step"),
        ({"step": 0.0}, "step"),
        ({"loops": 0}, "loops"),
        ({"seeds": ()}, "seeds"),
    ],
)
def test_impossible_settings_are_refused(settings, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        figure8_1.Config(**settings)


def test_numbers_in_the_remarks_are_those_of_the_rows():
    store = Store(Path(__file__).resolve().parents[3] / "evidence")
    found = latest_complete(figure8_1.EXPERIMENT, store, ("cpu",))
    rows = found.table.of(Decay).rows

    def at(n, t):
        return sorted((r for r in rows if (r.n, r.t) == (n, t)), key=lambda r: r.seed)

    def listed(values, digits):
        *most, last = (f"{v:.{digits}f}".removeprefix("0") for v in values)
        return most, last

    def ending(part):
        """The line of the mean kappa less the logarithm of the mean error of the loops."""
        error = mean(0.0 if r.looped is None else math.exp(r.looped) for r in part)
        return -200 / (2 * mean(r.kappa for r in part)) - math.log(error)

    words = " ".join(GAP.remarks.split())
    first = [mean(math.exp(-1 / (2 * r.kappa)) - math.exp(r.exact) for r in at(n, 1)) for n in KAPPA]
    most, last = listed(first, 3)
    assert f"after one loop that gap widens: {', '.join([*most, last])})" in words
    most, last = listed([mean(-1 / (2 * r.kappa) - r.exact / 20 for r in at(n, 20)) for n in KAPPA], 2)
    assert f"the gap widens, {', '.join([*most, last])} at 20 loops" in words
    most, last = listed([sum(r.looped is None for r in at(n, 200)) for n in KAPPA], 0)
    assert f"{', '.join(most)} and {last} of {len(at(16, 200))} errors are exactly 0" in words
    most, last = listed([ending(at(n, 200)) for n in KAPPA], 1)
    assert f"the gap there is {', '.join(most)} and {last}, wider at n = 32 than at 16" in words
    tens = [[ending(at(n, 200)[i : i + 10]) for n in KAPPA] for i in range(0, 100, 10)]
    falls = sum(gaps == sorted(gaps, reverse=True) for gaps in tens)
    assert f"it narrows at every step in {falls} of {len(tens)} groups" in words
