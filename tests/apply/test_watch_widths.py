"""The coordinate check: exponents of a two-layer network whose widths' laws are known, in two parametrisations."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from featlearn.apply.watch.widths import FLAT, coordinate_check
from featlearn.core import Key, SettingError

WIDTHS = (64, 128, 256, 512)
X = torch.randn(16, 8, generator=Key("tests/widths").torch())


pytestmark = pytest.mark.usefixtures("as_user")


class Net(nn.Module):
    """Weights of the first layer of variance 1/d, of the last of variance m^(-2 power)."""

    def __init__(self, m: int, power: float) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, m, bias=False), nn.Linear(m, 1, bias=False)
        with torch.no_grad():
            self.first.weight.normal_(0, 8**-0.5)
            self.last.weight.normal_(0, m**-power)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.first(x)))


def one_step(rates: Callable[[int], tuple[float, float]]) -> Callable[[nn.Module], None]:
    """A small step of gradient descent on the mean output, with a rate for each layer."""

    def train(net: nn.Module) -> None:
        first, last = net.first.weight, net.last.weight  # pyright: ignore
        for weight, rate, g in zip(
            (first, last), rates(len(first)), torch.autograd.grad(net(X).mean(), (first, last)), strict=True
        ):
            weight.data -= rate * g

    return train


def slopes(build: Callable[[int], nn.Module], train: Callable[[nn.Module], None]) -> dict[str, tuple[float, str]]:
    found = coordinate_check(build, WIDTHS, train, X, seeds=6)
    return {one.layer: (one.slope or math.nan, one.tendency) for one in found.layers}


def test_standard_parametrisation_has_outputs_that_grow_and_features_that_vanish() -> None:
    """One rate: dW1 is of the size of the last weights, m^(-1/2); df = |h|^2 is a sum of m terms."""
    got = slopes(lambda m: Net(m, 0.5), one_step(lambda m: (0.01, 0.01)))
    assert [*got] == ["first", "last", "output"]
    assert got["first"][0] == pytest.approx(-0.5, abs=0.1)
    assert got["output"][0] == pytest.approx(1, abs=0.1)
    assert got["last"] == got["output"]
    assert (got["first"][1], got["output"][1]) == ("shrinks", "grows")


def test_maximal_update_parametrisation_is_flat() -> None:
    """Last weights of size 1/m, rates of m for the first layer and 1/m for the last."""
    got = slopes(lambda m: Net(m, 1.0), one_step(lambda m: (0.01 * m, 0.01 / m)))
    for layer, (slope, tendency) in got.items():
        assert slope == pytest.approx(0, abs=0.1), layer
        assert tendency == "flat"


def test_rates_of_another_power_are_seen() -> None:
    """The rate of the first layer not scaled: its features move by 1/m."""
    got = slopes(lambda m: Net(m, 1.0), one_step(lambda m: (0.01, 0.01 / m)))
    assert got["first"][0] == pytest.approx(-1, abs=0.1)


def test_torch_generators_are_as_before_and_seeds_differ() -> None:
    seen: list[Tensor] = []

    def train(net: nn.Module) -> None:
        seen.append(net.weight.detach().clone())  # pyright: ignore
        net.weight.data += torch.rand(1)  # pyright: ignore

    before = torch.get_rng_state()
    found = coordinate_check(lambda m: nn.Linear(8, m), (2, 4, 8), train, X, seeds=2)
    assert torch.equal(before, torch.get_rng_state())
    torch.rand(1)
    assert not torch.equal(seen[0], seen[1])
    again = coordinate_check(lambda m: nn.Linear(8, m), (2, 4, 8), train, X, seeds=2)
    assert again == found


def test_what_does_not_move_or_diverges_is_told() -> None:
    still = coordinate_check(lambda m: nn.Linear(8, m), (2, 4, 8), lambda net: None, X)
    assert [(one.tendency, one.slope) for one in still.layers] == [("still", None)]
    assert "still" in str(still)

    def explode(net: nn.Module) -> None:
        net.weight.data *= math.inf  # pyright: ignore

    gone = coordinate_check(lambda m: nn.Linear(8, m), (2, 4, 8), explode, X)
    assert [(one.tendency, one.changes) for one in gone.layers] == [("not finite", (None, None, None))]
    assert gone.document()["layers"][0]["changes"] == (None, None, None)


def test_an_interval_that_reaches_beyond_a_quarter_decides_nothing() -> None:
    draws = iter([1.0, 1.0, 2.0, 1.0, 1.0, 0.5])  # of widths 2, 4, 8 and two seeds

    def train(net: nn.Module) -> None:
        net.weight.data += next(draws)  # pyright: ignore

    (one,) = coordinate_check(lambda m: nn.Linear(8, m), (2, 4, 8), train, X, seeds=2).layers
    assert one.low is not None
    assert one.high is not None
    assert one.low < -FLAT < FLAT < one.high
    assert one.tendency == "undecided"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"widths": (2, 4)}, "three or more"),
        ({"widths": (2, 4, 4)}, "different whole numbers"),
        ({"widths": (2, 4, 0)}, "different whole numbers"),
        ({"widths": (2, 4, 8.0)}, "different whole numbers"),
        ({"seeds": 1}, "seeds = 1"),
        ({"x": "text"}, "x = a str"),
        ({"build": lambda m: nn.ReLU()}, "no parameter that is trained"),
    ],
)
def test_settings_that_are_refused(options: dict[str, object], said: str) -> None:
    given = {"build": lambda m: nn.Linear(8, m), "widths": (2, 4, 8), "train": lambda net: None, "x": X, **options}
    with pytest.raises(SettingError, match=said):
        coordinate_check(**given)  # pyright: ignore
