"""Claims that were accepted and cannot fail, or whose rows say something else: each is refused or told."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import pytest

from featlearn.core.key import Key
from featlearn.errors import BadStatement, EmptyArm, MissingUnit, NotFinite, OutOfRange
from featlearn.lab.claim import Claim, Premise, verdict_of
from featlearn.lab.experiment import Rows
from featlearn.lab.judge import judge
from featlearn.lab.quantity import COSINE, COUNT, NAME, PERCENT, POINTS, POSITIVE, REAL, SEED, SHARE
from featlearn.lab.row import Row, plain
from featlearn.lab.statement import at_least, at_most, control, equal, exponent
from featlearn.lab.statistics import within_slope
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Derived, deviation_of, mean_of, slope

R = {"rival_says": "another"}


def found(statement, seen, **others):
    return judge(statement, {statement.observed_as: seen, **others})


# What a number can be comes from what was observed, too.


@pytest.mark.parametrize(
    "statement, values, quantity",
    [
        (at_most("x", POSITIVE, 1.0, "(1)", rival=1.01, **R), [0.3, 0.4, 0.5], SHARE),
        (at_least("x", REAL, -1.0, "(1)", rival=-1.001, **R), [0.1, 0.2, 0.15], COSINE),
    ],
)
def test_a_share_is_one_whatever_it_is_called(statement, values, quantity):
    with pytest.raises(BadStatement, match="a rival that cannot be"):
        found(statement, mean_of(values, quantity, "seed"))
    free = replace(statement, rival=None, rival_says="")
    assert found(free, mean_of(values, quantity, "seed")).outcome == "too weak to test"
    assert found(free, mean_of(values, quantity, "seed")).statement.quantity.high == quantity.high


def test_points_are_no_percent():
    gain = at_least("x", POINTS, -1.0, "(1)", rival=-9.0, **R)
    assert found(gain, mean_of([1.0, 2.0, 3.0], POINTS, "seed")).outcome == "confirmed"
    with pytest.raises(BadStatement, match="a rival that cannot be"):
        found(gain, mean_of([1.0, 2.0, 3.0], PERCENT, "seed"))


@pytest.mark.parametrize("seen", [50.2, mean_of([50.19, 50.2, 50.21], PERCENT.at_chance(50.0), "seed")])
def test_guessing_is_an_object_that_has_learnt_nothing(seen):
    quantity = PERCENT.at_chance(50.0) if isinstance(seen, float) else PERCENT
    for more in ({}, {"trivial": 20.0, "trivial_says": "the start"}):
        weak = found(at_least("x", quantity, 45.0, "(1)", rival=10.0, **R, **more), seen)
        assert (weak.outcome, "guessing" in weak.why) == ("too weak to test", True)
    assert found(at_least("x", quantity, 50.05, "(1)", rival=10.0, **R), seen).outcome == "confirmed"
    # that fixed features do no better than guessing is no weak statement
    assert found(at_most("x", quantity, 60.0, "(1)", rival=90.0, **R), seen).outcome == "confirmed"


@pytest.mark.parametrize("trivial", [math.nan, math.inf, 250.0, -1.0, np.array([50.0, math.nan])])
def test_a_trivial_object_is_one_that_can_be(trivial):
    with pytest.raises(BadStatement, match="a trivial object that cannot be"):
        at_least("x", PERCENT, 45.0, "(1)", rival=10.0, trivial=trivial, **R)


def test_a_control_is_one_that_can_be():
    s = at_most("x", PERCENT, 99.0, "(1)", rival=control("c"), **R)
    with pytest.raises(OutOfRange, match="the control 'c'"):
        found(s, 90.0, c=250.0)
    trivial = at_most("x", PERCENT, 60.0, "(1)", rival=99.0, trivial=control("c"), **R)
    with pytest.raises(OutOfRange, match="the control 'c'"):
        found(trivial, 50.0, c=-3.0)


def test_a_control_of_an_equality_is_two_margins_away_as_a_number_is():
    s = equal("x", REAL, 1.0, "(1)", margin=0.1, rival=control("c"), **R)
    assert [found(s, 1.0, c=c).outcome for c in (1.11, 1.19, 1.2, 2.0)] == ["too weak to test"] * 2 + ["confirmed"] * 2


def test_a_bound_of_nothing_needs_a_rival():
    for seen in (np.append(-np.ones(49), 0.0), np.array([0.0])):
        weak = found(at_most("x", REAL, 0.0, "(1)"), seen)
        assert (weak.outcome, "give a rival" in weak.why) == ("too weak to test", True)
    assert found(at_most("x", REAL, 0.0, "(1)", rival=1.0, **R), np.array([0.0])).outcome == "confirmed"


# Numbers that say nothing.


def test_two_levels_confirm_no_exponent_however_they_are_fitted():
    rng = np.random.default_rng(0)
    x = np.log(np.broadcast_to([10.0, 1000.0], (12, 2)))
    fit = within_slope(x, x + rng.normal(scale=0.02, size=x.shape), "seed")
    one = {"rival": 2.0, "rival_says": "two"}
    assert found(exponent("e", "equal", 1.0, "(1)", margin=0.1, **one), fit).outcome == "inconclusive"
    assert found(exponent("e", "at most", 1.1, "(1)", **one), fit).outcome == "confirmed"
    assert found(exponent("e", "at most", 0.9, "(1)", **one), fit).outcome == "contradicted"


def test_a_bound_on_slopes_within_units_is_judged_between_neighbours():
    """A curve whose mean slope is 1.5 is at most 1.6 on the whole, and 2 at its end."""
    rng, x = np.random.default_rng(0), np.broadcast_to([0.0, 1.0, 2.0], (9, 3))
    fit = within_slope(x, 0.5 * x + 0.5 * x**2 + rng.normal(scale=0.02, size=x.shape), "seed")
    assert "do not lie on a line" in fit.refused
    assert [round(p.value, 1) for p in fit.parts] == [1.0, 2.0]
    assert found(exponent("e", "at most", 1.6, "(1)", rival=9.0, **R), fit).outcome == "contradicted"
    assert found(exponent("e", "at most", 2.1, "(1)", rival=9.0, **R), fit).outcome == "confirmed"


def test_units_without_spread_have_no_small_deviation():
    s = at_most("x", POSITIVE, 0.5, "(1)", rival=5.0, **R)
    assert found(s, deviation_of([100.0, 100.0], "seed")).outcome == "inconclusive"


@pytest.mark.parametrize("met", [math.nan, "no", 1, np.array([True]), "yes"])
def test_a_premise_is_met_or_not(met):
    with pytest.raises(BadStatement, match="True, False or None"):
        Premise("p", met)


def test_counts_are_whole():
    s = at_most("x", COUNT, 3.0, "(1)", rival=4.0, **R)
    with pytest.raises(OutOfRange, match="whole number"):
        found(s, np.array([1.0, 2.5]))
    assert found(s, np.array([1.0, 2.0])).outcome == "confirmed"
    assert found(s, mean_of([1.0, 2.0, 2.0, 1.0], COUNT, "seed")).outcome == "confirmed"


@pytest.mark.parametrize("seen", [np.array([1 + 5j]), np.ma.masked_array([1.0, -9.0], [0, 1])])
def test_what_is_not_a_number_is_not_judged(seen):
    for what in (seen, Derived(seen)):
        with pytest.raises(NotFinite, match="complex numbers and masked"):
            found(equal("x", REAL, 1.0, "(1)", margin=0.1, rival=0.0, **R), what)


@pytest.mark.parametrize("share", [1e-9, 0.49, 1.0])
def test_a_share_of_the_elements_is_at_least_half(share):
    with pytest.raises(BadStatement, match="share"):
        at_least("x", REAL, 1.0, "(1)", rival=-9.0, quantifier="share", share=share, quantifier_says="most", **R)


# Rows.


@dataclass(frozen=True, kw_only=True)
class Score(Row):
    experiment, key = "toy/score", ("method", "d")
    kind: Literal["score"] = "score"
    method: Literal["ours", "theirs"] = "ours"
    d: Annotated[int, COUNT] = 10
    seed: Annotated[int, SEED]
    acc: Annotated[float, PERCENT]
    loss: Annotated[float, POSITIVE] | None = None

    @property
    def good(self):
        return self.acc > 80


def noise(*at):
    return float(np.random.default_rng(sum((i + 1) * 97**i for i in map(int, at))).uniform(-1, 1))


def scores(of=lambda d, s: 84.0, seeds=range(8), dims=(10,), method="ours"):
    return [
        Score(method=method, d=d, seed=s, acc=of(d, s) + noise(s, d, method == "ours")) for d in dims for s in seeds
    ]


def test_validation_seeds_are_not_averaged_with_reported_ones():
    mixed = Table.of(Score, scores(lambda d, s: 78.0 if s < 1000 else 84.0, (0, 1, 2, *range(1000, 1020))))
    with pytest.raises(BadStatement, match="validation seeds"):
        mixed.mean("acc")
    with pytest.raises(BadStatement, match="validation seeds"):
        Table.of(Score, [*mixed.rows, *(replace(r, method="theirs") for r in mixed.rows)]).paired(
            "acc", {"method": "ours"}, {"method": "theirs"}
        )
    assert mixed.keep(lambda r: r.seed < 1000, "reported").mean("acc").n == 3
    assert mixed.keep(lambda r: r.seed >= 1000, "validation").mean("acc").n == 20


@pytest.mark.parametrize("test", [lambda r: r.acc > 84, lambda r: r.good, lambda r: not r.acc <= 84])
def test_rows_are_not_chosen_by_what_is_averaged(test):
    table = Table.of(Score, scores(lambda d, s: 84.0 - 5 * (s == 2)))
    with pytest.raises(BadStatement, match="were chosen by acc"):
        table.keep(test, "trained well").mean("acc")
    with pytest.raises(BadStatement, match="were chosen by acc"):
        table.keep(test, "trained well").where(method="ours").by("d")[10].column("acc")


def test_rows_are_chosen_by_another_column_or_by_what_they_have():
    rows = [replace(r, loss=None if r.seed == 1 else 1.0 + r.seed) for r in scores(lambda d, s: 80.0 + 0.1 * s)]
    table = Table.of(Score, rows)
    there = table.keep(lambda r: r.loss is not None, "ended")
    assert (there.mean("loss").n, there.mean("acc").n) == (7, 7)
    assert table.keep(lambda r: r.loss is not None and r.loss < 5, "low").mean("acc").n == 3
    with pytest.raises(BadStatement, match="chosen by loss"):
        table.keep(lambda r: r.loss is not None and r.loss < 5, "low").mean("loss")
    assert table.keep(lambda r: r.acc > 0, "all").mean("acc").n == 8


def test_a_mean_over_settings_on_both_sides_of_a_limit_is_inconclusive():
    table = Table.of(Score, scores(lambda d, s: {10: 60.0, 20: 98.0}[d], dims=(10, 20)))
    s = at_least("a", PERCENT, 75.0, "(1)", rival=50.0, **R)
    seen = found(s, table.mean("acc", over=("d",)))
    assert seen.outcome == "inconclusive"
    assert seen.why.startswith("1 of 2 settings that are averaged lie outside (d = 10: ")
    assert found(at_least("a", PERCENT, 55.0, "(1)", rival=50.0, **R), table.mean("acc", ("d",))).outcome == "confirmed"
    mixed = found(s, table.mean("acc", ("d",), meant="each d as often"))
    assert (mixed.outcome, mixed.why) == ("confirmed", "agrees; each d as often")
    both = Table.of(Score, [*table.rows, *scores(lambda d, s: 59.0, dims=(10, 20), method="theirs")])
    gain = both.paired("acc", {"method": "ours"}, {"method": "theirs"}, over=("d",))
    assert [round(a.value) for a in gain.arms] == [1, 39]
    assert found(at_least("a", POINTS, 15.0, "(1)", rival=0.0, **R), gain).outcome == "inconclusive"


def test_arms_that_may_both_guess_are_not_as_good_as_each_other():
    table = Table.of(Score, [*scores(lambda d, s: 50.0), *scores(lambda d, s: 50.0, method="theirs")])
    arms = {"method": "ours"}, {"method": "theirs"}
    same = equal("a", POINTS, 0.0, "(1)", margin=2.0, rival=10.0, **R)
    unknown = found(same, table.paired("acc", *arms))
    assert (unknown.outcome, "paired(chance=...)" in unknown.why) == ("too weak to test", True)
    assert found(same, table.paired("acc", *arms, chance=50.0)).outcome == "too weak to test"
    assert found(same, table.paired("acc", *arms, chance=10.0)).outcome == "confirmed"


@dataclass(frozen=True, kw_only=True)
class Answer(Row):
    experiment, key, unit = "toy/answer", ("seed",), "prompt"
    kind: Literal["answer"] = "answer"
    seed: Annotated[int, SEED]
    prompt: Annotated[int, SEED]
    text: Annotated[str, NAME] = ""
    acc: Annotated[float, PERCENT]


def test_prompts_of_two_seeds_are_two_units():
    rows = [Answer(seed=s, prompt=1000 * s + i, acc=80.0 + noise(s, i)) for s in (0, 1) for i in range(50)]
    with pytest.raises(BadStatement, match="each prompt is of one seed"):
        Table.of(Answer, rows).mean("acc", over=("seed",))
    crossed = [Answer(seed=s, prompt=i, acc=80.0 + noise(s, i)) for s in (0, 1) for i in range(50)]
    assert Table.of(Answer, crossed).mean("acc", over=("seed",)).n == 50


def test_a_slope_of_a_table_counts_its_units():
    steep = {0: 0.8, 1: 1.0, 2: 1.9, 3: 1.1, 4: 1.2}
    rows = [
        Score(method=m, d=d, seed=s, acc=50.0, loss=d ** steep[s] * math.exp(0.01 * noise(s, d, m == "ours")))
        for s in steep
        for d in (1, 2, 4)
        for m in ("ours", "theirs")
    ]
    table = Table.of(Score, rows)
    fit = table.where(method="ours").slope("d", "loss")
    assert (fit.n, fit.unit, len(fit.parts)) == (5, "seed", 2)
    assert fit.value == pytest.approx(1.2, abs=0.02)
    with pytest.raises(BadStatement, match="2 values of method"):
        table.slope("d", "loss")
    pooled = slope(np.log([r.d for r in rows]), np.log([r.loss for r in rows]), "seed")
    assert pooled.n == 30
    with pytest.raises(MissingUnit, match="not seen at the same d"):
        Table.of(Score, rows[1:]).where(method="ours").slope("d", "loss")
    with pytest.raises(EmptyArm):
        table.keep(lambda r: r.seed < 2, "two").where(method="ours").slope("d", "loss")


def test_a_claim_is_judged_on_all_that_was_planned_but_a_twentieth():
    rows = [{**plain(r), "trial": f"{i:04}"} for i, r in enumerate(scores(seeds=range(40)))]

    def verdict(lost, **more):
        claim = Claim(
            id="toy.x",
            entries=(),
            says="",
            statements=lambda s: (at_least("a", PERCENT, 80.0, "(1)", rival=50.0, **R),),
            observe=lambda s, t: {"a": t.mean("acc")},
            reads=(Score,),
            **more,
        )
        table = Rows(tuple(rows), diverged=tuple(map(str, range(lost)))).of(Score, allow_absent=True)
        assert table.trials == 40
        return verdict_of(claim, Key("test"), (table,)).reported

    assert verdict(0) == verdict(2, may_lack="diverged runs") == "confirmed"
    for lost, more in ((1, {}), (3, {"may_lack": "diverged runs"}), (95, {"may_lack": "diverged runs"})):
        with pytest.raises(MissingUnit, match=f"{lost} planned trials have no rows beside 40"):
            verdict(lost, **more)
