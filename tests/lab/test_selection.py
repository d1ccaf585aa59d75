"""Selection: the best point on validation seeds, plateaus, edges, ties."""

import pytest

from featlearn.errors import EmptyArm
from featlearn.lab.selection import search, select

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


def test_of_a_plateau_on_two_axes_the_middle_is_taken():
    grid = {(a, b): [1.0 if a >= 2 and b >= 3 else 2.0] for a in range(1, 6) for b in range(1, 6)}
    assert select(grid, ["a", "b"]).point == (3, 4)  # of 2..5 and 3..5; in ascending order the middle is at an edge
    whole = {(a, b): [7.0] for a in range(4) for b in range(3)}
    assert (select(whole, ["a", "b"]).point, select(whole, ["a", "b"]).at_edge) == ((1, 1), ())


def searched(best, **more):
    """A search along one axis for a level, and in which order points were measured."""
    asked = []

    def measure(points):
        asked.append([p[0] for p in points])
        return {p: [abs(p[0] - best)] for p in points}

    return search(measure, {"rate": (1.0, 2.0, 4.0)}, **more), asked


def test_a_grid_is_widened_where_the_best_is_at_its_edge_and_at_most_twice():
    (choice, grid), asked = searched(2.0)
    assert (choice.point, len(grid), len(asked)) == ((2.0,), 3, 1)
    (choice, grid), asked = searched(8.0)
    assert (choice.point, choice.at_edge, asked) == ((8.0,), (), [[1.0, 2.0, 4.0], [8.0], [16.0]])
    (choice, grid), asked = searched(0.0, levels=2)
    assert (choice.point, choice.at_edge, asked[1:]) == ((0.0625,), ("rate",), [[0.25, 0.5], [0.0625, 0.125]])


def test_a_grid_that_ties_everywhere_is_not_widened():
    choice, grid = search(lambda points: {p: [7.0] for p in points}, {"a": (1.0, 2.0, 3.0), "b": (1.0, 2.0, 3.0)})
    assert choice.tied
    assert (choice.point, len(grid)) == ((2.0, 2.0), 9)
