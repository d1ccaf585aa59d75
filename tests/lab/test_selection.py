"""Selection: the best point on validation seeds, plateaus, edges, ties."""

import pytest

from featlearn.errors import EmptyArm
from featlearn.lab.selection import select

LINE = {(0.1,): [3.0, 5.0], (0.2,): [1.0, 1.0], (0.4,): [2.0, 0.5], (0.8,): [4.0, 4.0]}


def test_the_best_mean_is_selected_inside_the_grid():
    choice = select(LINE, ["rate"])
    assert (choice.point, choice.value, choice.at_edge, choice.tied) == ((0.2,), 1.0, (), False)


def test_the_largest_is_selected_where_more_is_better():
    assert select(LINE, ["rate"], least=False).point == (0.1,)
    assert select(LINE, ["rate"], least=False).value == 4.0


def test_an_edge_is_named():
    assert select({(1.0,): [1.0], (2.0,): [3.0], (4.0,): [9.0]}, ["rate"]).at_edge == ("rate",)
    grid = {(b, r): [float(abs(r - 2) + b)] for b in (1, 2, 3) for r in (1, 2, 3)}
    assert select(grid, ["batch", "rate"]).at_edge == ("batch",)


def test_one_level_is_no_edge():
    assert select({(1.0, 1.0): [2.0], (1.0, 2.0): [1.0], (1.0, 3.0): [2.0]}, ["batch", "rate"]).at_edge == ()


def test_on_a_plateau_the_middle_is_taken_whatever_the_order():
    grid = {(float(i),): [1.0 if 2 <= i <= 6 else 2.0] for i in range(9)}
    assert select(grid, ["rate"]).point == (4.0,)
    assert select(dict(reversed(grid.items())), ["rate"]).point == (4.0,)
    assert len(select(grid, ["rate"]).plateau) == 5


def test_points_within_the_plateau_tie_and_others_do_not():
    grid = {(1.0,): [1.0], (2.0,): [1.05], (3.0,): [1.1], (4.0,): [1.11]}
    assert select(grid, ["rate"], plateau=0.1).point == (2.0,)
    assert select(grid, ["rate"], plateau=0.1).plateau == ((1.0,), (2.0,), (3.0,))
    assert select(grid, ["rate"]).point == (1.0,)


def test_a_grid_that_ties_everywhere_says_so():
    choice = select({(float(i),): [7.0] for i in range(5)}, ["rate"])
    assert choice.tied
    assert choice.point == (2.0,)
    assert not select({(1.0,): [7.0]}, ["rate"]).tied


@pytest.mark.parametrize("grid", [{}, {(1.0,): []}])
def test_nothing_selects_nothing(grid):
    with pytest.raises(EmptyArm):
        select(grid, ["rate"])
