"""What claims and summaries read from rows of adaptation, of images and of texts: chosen settings, paired differences.

One rule for a run that diverged: it counts as 0 where a setting is chosen, and as a guess where it is reported, since a
setting that diverges on a new seed is a result of the way that chose it. What guessing has no value of is not read.
"""

from dataclasses import replace
from typing import Any

from featlearn.errors import EmptyArm
from featlearn.lab.quantity import Quantity
from featlearn.lab.row import columns
from featlearn.lab.selection import Choice, select
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, mean_of

AXES = ("rate", "decay", "weight")


def chosen(table: Table[Any]) -> Choice:
    """The step size, weight decay and weight of the best mean accuracy of validation seeds, of one way of adapting at
    one share; a run that diverged counts as 0."""
    grid = {
        point: [0.0 if r.accuracy is None else r.accuracy for r in part.rows]
        for point, part in table.where(role="validation").by(*AXES).items()
    }
    return select(grid, AXES, least=False)


def at_chosen(table: Table[Any]) -> Table[Any]:
    """Reported rows at the chosen setting, or all of them where there is no setting."""
    reported = table.where(role="reported")
    if all(getattr(r, axis) is None for r in reported.rows for axis in AXES):
        return reported
    return reported.where(**dict(zip(AXES, chosen(table).point, strict=True)))


def diverged(found: Table[Any]) -> int:
    """How many runs of one setting have left the finite numbers."""
    return sum(r.accuracy is None for r in found.rows)


def per_seed(found: Table[Any], name: str = "accuracy") -> dict[int, float]:
    """Seed -> a column of one setting; a run that diverged is a guess.

    Errors: EmptyArm where one diverged and guessing has no value of the column.
    """
    guess = columns(found.kind)[name].quantity.chance
    out: dict[int, float] = {}
    for r in found.rows:
        value = getattr(r, name)
        value = guess if value is None else value
        if value is None:
            raise EmptyArm(f"a run diverged on seed {r.seed}: it has no {name} ({found.says})")
        out[r.seed] = value
    return out


def less(one: Table[Any], two: Table[Any], quantity: Quantity, name: str = "accuracy") -> Estimate:
    """Mean over seeds of a column, one setting less another, which is the reference and may leave no room."""
    first, second = per_seed(one, name), per_seed(two, name)
    made = mean_of([first[seed] - second[seed] for seed in first], quantity, one.kind.unit)
    q, reference = columns(two.kind)[name].quantity, sum(second.values()) / len(second)
    floor = q.low if q.chance is None else q.chance
    return replace(made, reference=reference, room=(q.high - reference, reference - floor))
