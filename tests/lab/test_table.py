"""Tables: row order decides nothing, and what cannot be meant is an error, never a verdict."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import pytest

from featlearn.errors import BadStatement, DuplicateRow, EmptyArm, MissingUnit, OutOfRange, UnknownColumn, UnknownLevel
from featlearn.lab.quantity import COUNT, PERCENT, POSITIVE, SEED
from featlearn.lab.row import Row
from featlearn.lab.table import Table, identity

METHODS = ("Two Step", "One Step", "NTK")


@dataclass(frozen=True, kw_only=True)
class Score(Row):
    experiment, key = "toy/score", ("method", "d")
    kind: Literal["score"] = "score"
    method: Literal["Two Step", "One Step", "NTK"]
    d: Annotated[int, COUNT] = 10
    role: Literal["reported", "validation"] = "reported"
    seed: Annotated[int, SEED]
    accuracy: Annotated[float, PERCENT.at_chance(50.0)]
    share_step2: Annotated[float, PERCENT] = 50.0
    samples: Annotated[float, POSITIVE] | None = None
    arrived: bool = True


@dataclass(frozen=True, kw_only=True)
class Nameless(Row):
    """As Score, by an author who forgot the model's name."""

    key = ("d",)
    kind: Literal["nameless"] = "nameless"
    d: Annotated[int, COUNT] = 10
    seed: Annotated[int, SEED]
    accuracy: Annotated[float, PERCENT]


GAINS = {"Two Step": 95.0, "One Step": 85.0, "NTK": 60.0}


def rows(seeds=range(5), dims=(10, 20)):
    rng = np.random.default_rng(7)
    return [
        Score(method=m, d=d, seed=s, accuracy=GAINS[m] + float(rng.normal()), arrived=s != 0)
        for m in METHODS
        for d in dims
        for s in seeds
    ]


@pytest.fixture
def table():
    return Table.of(Score, rows())


def test_row_order_decides_nothing(table):
    shuffled = [rows()[i] for i in np.random.default_rng(1).permutation(len(rows()))]
    again = Table.of(Score, shuffled)
    assert again.rows == table.rows
    arms = {"method": "Two Step"}, {"method": "NTK"}
    assert again.paired("accuracy", *arms, over=("d",)) == table.paired("accuracy", *arms, over=("d",))
    assert list(again.by("method", "d")) == list(table.by("method", "d"))


def test_rows_of_two_models_without_the_models_name_are_refused():
    mixed = [Nameless(seed=s, accuracy=a) for a in (90.0, 60.0) for s in range(3)]
    with pytest.raises(DuplicateRow, match="d = 10, seed = 0"):
        Table.of(Nameless, mixed)


def test_rows_of_two_types_are_refused():
    with pytest.raises(TypeError, match="read them apart"):
        Table.of(Score, [*rows(), Nameless(seed=9, accuracy=1.0)])


# The five examples of what one changed name used to do: none of them is a verdict any more.


def test_a_column_that_is_renamed_is_an_error(table):
    for call in (table.column, table.mean, table.per_unit, table.by):
        with pytest.raises(UnknownColumn, match="did you mean 'share_step2'"):
            call("share_2")


def test_an_arm_that_is_renamed_is_an_error(table):
    with pytest.raises(UnknownLevel, match="did you mean 'Two Step'"):
        table.where(method="Two Steps")
    with pytest.raises(UnknownLevel):
        table.paired("accuracy", {"method": "Two Steps"}, {"method": "NTK"}, over=("d",))


def test_a_column_in_a_selection_that_is_renamed_is_an_error(table):
    with pytest.raises(UnknownColumn):
        table.where(methode="Two Step")
    with pytest.raises(UnknownColumn):
        table.paired("accuracy", {"methode": "Two Step"}, {"methode": "NTK"})


def test_an_arm_without_rows_is_an_error(table):
    with pytest.raises(EmptyArm, match="d = 30"):
        table.where(d=30)
    with pytest.raises(EmptyArm):
        table.keep(lambda r: r.accuracy > 100, "above 100")
    with pytest.raises(EmptyArm):
        Table.of(Score, [])
    with pytest.raises(EmptyArm):
        Table.of(Score, [r for r in rows() if r.method != "NTK"]).where(method="NTK")


def test_a_planned_trial_without_rows_is_an_error():
    plan = [identity(r) for r in rows()]
    with pytest.raises(MissingUnit, match="planned"):
        Table.of(Score, rows()[:-1], planned=plan)
    with pytest.raises(MissingUnit, match="2 planned trials"):
        Table.of(Score, rows(), absent=("a diverged", "b failed"))
    assert Table.of(Score, rows(), absent=("a",), allow_absent=True).absent == ("a",)
    assert len(Table.of(Score, rows(), planned=plan)) == 30


def test_a_row_is_checked_when_the_table_is_made():
    with pytest.raises(OutOfRange):
        Table.of(Score, [Score(method="NTK", seed=0, accuracy=101.0)])


def test_mean_is_taken_within_the_unit_first(table):
    found = table.where(method="NTK").mean("accuracy", over=("d",))
    by_seed = [np.mean([r.accuracy for r in table.rows if r.method == "NTK" and r.seed == s]) for s in range(5)]
    assert found.n == 5
    assert found.unit == "seed"
    assert found.value == pytest.approx(np.mean(by_seed))
    assert found.error == pytest.approx(np.std(by_seed, ddof=1) / math.sqrt(5))


def test_booleans_are_counted_and_names_are_never_averaged(table):
    part = table.where(method="NTK", d=10)
    assert part.mean("arrived").value == pytest.approx(0.8)
    assert part.mean("d").value == 10
    for name in ("seed", "method", "kind"):
        with pytest.raises(BadStatement, match="holds names"):
            part.mean(name)


def test_settings_are_averaged_only_by_name(table):
    with pytest.raises(BadStatement, match="3 values of method"):
        table.mean("accuracy", over=("d",))
    with pytest.raises(BadStatement, match="2 values of d"):
        table.where(method="NTK").mean("accuracy")
    with pytest.raises(UnknownColumn):
        table.where(method="NTK").mean("accuracy", over=("dimension",))
    with pytest.raises(BadStatement, match="2 values of d"):
        table.paired("accuracy", {"method": "Two Step"}, {"method": "NTK"})


def test_validation_rows_never_slip_among_the_reported():
    both = [replace(r, role="validation" if r.seed > 2 else "reported") for r in rows(dims=(10,))]
    with pytest.raises(BadStatement, match="2 values of role"):
        Table.of(Score, both).where(method="NTK").mean("accuracy")
    assert Table.of(Score, both).where(method="NTK", role="reported").mean("accuracy").n == 3


def test_units_with_unlike_numbers_of_rows_are_refused(table):
    fewer = Table.of(Score, [r for r in rows() if not (r.seed == 3 and r.d == 20)])
    with pytest.raises(MissingUnit, match="seed 3 has 1 rows"):
        fewer.where(method="NTK").mean("accuracy", over=("d",))
    with pytest.raises(MissingUnit, match="seed 3"):
        fewer.paired("accuracy", {"method": "Two Step"}, {"method": "NTK"}, over=("d",))


def test_a_value_that_some_rows_lack_is_refused():
    some = [replace(r, samples=None if r.seed == 1 else 5.0) for r in rows(dims=(10,))]
    with pytest.raises(MissingUnit, match="1 of 5 rows"):
        Table.of(Score, some).where(method="NTK").mean("samples")


def test_paired_matches_on_the_key_then_averages_within_the_unit(table):
    found = table.paired("accuracy", {"method": "Two Step"}, {"method": "NTK"}, over=("d",))
    at = {(r.method, r.d, r.seed): r.accuracy for r in table.rows}
    by_seed = [np.mean([at["Two Step", d, s] - at["NTK", d, s] for d in (10, 20)]) for s in range(5)]
    assert found.value == pytest.approx(np.mean(by_seed))
    assert found.n == 5
    assert found.error == pytest.approx(np.std(by_seed, ddof=1) / math.sqrt(5))
    reference = np.mean([v for (m, _, _), v in at.items() if m == "NTK"])
    assert found.reference == pytest.approx(reference)
    assert found.room == pytest.approx((100 - reference, reference - 50))
    assert (found.quantity.low, found.quantity.high) == (-100.0, 100.0)


def test_paired_refuses_a_row_without_partner_and_arms_that_are_none(table):
    one, two = {"method": "Two Step"}, {"method": "NTK"}
    lost = Table.of(Score, [r for r in rows() if not (r.method == "NTK" and r.seed == 2)])
    for arms in ((one, two), (two, one)):
        with pytest.raises(MissingUnit, match="partner"):
            lost.paired("accuracy", *arms, over=("d",))
    with pytest.raises(BadStatement, match="same columns"):
        table.paired("accuracy", one, one, over=("d",))
    with pytest.raises(BadStatement, match="same columns"):
        table.paired("accuracy", one, {"d": 10})
    with pytest.raises(MissingUnit, match="partner"):
        table.paired("accuracy", {"arrived": True}, {"arrived": False}, over=("method", "d"))


def test_what_a_predicate_leaves_out_stands_beside_the_estimate(table):
    part = table.where(method="NTK", d=10).keep(lambda r: r.seed != 4, "seeds that learnt")
    assert part.mean("accuracy").says == "4 of 5 rows: seeds that learnt"
    both = table.where(d=10).keep(lambda r: r.seed != 4, "seeds that learnt")
    assert "12 of 15" in both.paired("accuracy", {"method": "Two Step"}, {"method": "NTK"}).says
    assert part.says == "method = 'NTK', d = 10; seeds that learnt"
    assert table.keep(lambda r: True, "all").lost == ""


def test_trials_that_are_allowed_to_be_absent_stand_beside_the_estimate():
    some = Table.of(Score, rows(dims=(10,)), absent=("a diverged", "b failed"), allow_absent=True)
    assert some.where(method="NTK").mean("accuracy").says == "2 planned trials have no rows"
    assert some.paired("accuracy", {"method": "Two Step"}, {"method": "NTK"}).says == "2 planned trials have no rows"


def test_by_gives_ascending_groups_whose_rows_add_up(table):
    groups = table.by("d")
    assert list(groups) == [10, 20]
    assert sum(map(len, groups.values())) == len(table)
    assert groups[20].says == "d = 20"
    assert next(iter(table.by("method", "d"))) == ("NTK", 10)
    assert table.units() == (0, 1, 2, 3, 4)
