"""Row types: every value is checked, and what cannot be meant is an error with a name."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from featlearn.errors import FeatlearnError, LabError, NotFinite, OutOfRange, UnknownColumn, UnknownLevel
from featlearn.lab.quantity import COUNT, PERCENT, POSITIVE, SEED
from featlearn.lab.row import Row, check, check_level, column, columns, kind_name, plain, read


@dataclass(frozen=True, kw_only=True)
class Score(Row):
    experiment, key = "toy/score", ("method", "d")
    kind: Literal["score"] = "score"
    method: Literal["Two Step", "NTK"] = "NTK"
    d: Annotated[int, COUNT] = 10
    seed: Annotated[int, SEED] = 0
    accuracy: Annotated[float, PERCENT] = 90.0
    samples: Annotated[float, POSITIVE] | None = None
    arrived: bool = True
    note: Annotated[str, SEED] = ""


def test_columns_know_quantity_type_and_whether_a_row_may_lack_them():
    found = columns(Score)
    assert found["method"].quantity.levels == ("Two Step", "NTK")
    assert found["samples"].optional
    assert not found["accuracy"].optional
    assert found["arrived"].quantity.name == "share"
    assert found["seed"].quantity.nominal
    assert kind_name(Score) == "score"


@pytest.mark.parametrize(
    "values, error, words",
    [
        ({"accuracy": 100.5}, OutOfRange, "from 0 to 100"),
        ({"accuracy": math.nan}, NotFinite, "finite"),
        ({"samples": math.inf}, NotFinite, "finite"),
        ({"accuracy": None}, OutOfRange, "may lack it"),
        ({"accuracy": "90"}, OutOfRange, "convert"),
        ({"accuracy": True}, OutOfRange, "convert"),
        ({"d": 2.5}, OutOfRange, "whole number"),
        ({"seed": -1}, OutOfRange, "from 0"),
        ({"arrived": 1}, OutOfRange, "bool"),
        ({"note": 3}, OutOfRange, "str"),
        ({"method": "Two Steps"}, UnknownLevel, "did you mean 'Two Step'"),
        ({"kind": "scores"}, UnknownLevel, "did you mean 'score'"),
    ],
)
def test_a_value_that_its_column_does_not_allow_is_named(values, error, words):
    with pytest.raises(error, match=words) as caught:
        check(Score(**values))
    assert isinstance(caught.value, LabError)
    assert isinstance(caught.value, FeatlearnError)
    assert "\n" not in str(caught.value)
    with pytest.raises(error):
        plain(Score(**values))


def test_a_column_that_is_not_there_is_named_with_the_nearest():
    with pytest.raises(UnknownColumn, match="did you mean 'accuracy'"):
        column(Score, "acuracy")
    with pytest.raises(UnknownColumn):
        check_level(Score, "acuracy", 1)


@pytest.mark.parametrize("name, hint", [("x", float), ("x", Annotated[float, "words"]), ("x", list[int])])
def test_a_field_without_quantity_or_levels_is_no_column(name, hint):
    kind = dataclass(frozen=True, kw_only=True)(
        type("Bare", (Row,), {"__annotations__": {"kind": Literal["bare"], "seed": Annotated[int, SEED], name: hint}})
    )
    with pytest.raises(TypeError, match=r"Bare\.x"):
        columns(kind)


def test_unit_and_key_must_be_columns():
    @dataclass(frozen=True, kw_only=True)
    class Lost(Row):
        unit = "subject"
        kind: Literal["lost"] = "lost"
        seed: Annotated[int, SEED] = 0

    with pytest.raises(TypeError, match="subject"):
        columns(Lost)


def test_rows_come_back_from_the_store_as_they_went():
    rows = [Score(seed=s, samples=None if s else 3.0) for s in range(3)]
    assert read([Score], [{**plain(r), "trial": "abc"} for r in rows])[Score] == rows


@pytest.mark.parametrize(
    "change, error",
    [
        ({"kind": "other"}, UnknownLevel),
        ({"share_step2": 1.0}, UnknownColumn),
        ({"accuracy": 101.0}, OutOfRange),
        ({"accuracy": math.nan}, NotFinite),
    ],
)
def test_a_stored_row_that_does_not_fit_is_refused(change, error):
    with pytest.raises(error):
        read([Score], [{**plain(Score()), **change}])


def test_a_stored_row_without_a_column_is_refused():
    stored = plain(Score())
    del stored["accuracy"]
    with pytest.raises(UnknownColumn, match="lacks accuracy"):
        read([Score], [stored])
