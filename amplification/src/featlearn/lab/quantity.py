"""Quantities: what a number can be, known without the theory under test."""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Quantity:
    """The range of a number, or the levels of a name.

    unit: as printed behind the number. low, high: ends of its domain, both allowed. whole: it counts something.
    nominal: names (seeds, methods) that may be renamed without a change of meaning. levels: the names there are, where
    they are known. chance: what guessing attains, where that makes sense.

    Example:
        >>> PERCENT.holds(100.0), PERCENT.holds(100.1)
        (True, False)
    """

    name: str
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    nominal: bool = False
    levels: tuple[str, ...] = ()
    chance: float | None = None

    def holds(self, value: float) -> bool:
        """Whether a number lies in the domain."""
        return bool(self.low <= value <= self.high and (not self.whole or value == round(value)))

    def at_chance(self, value: float) -> "Quantity":
        """The same with the value that guessing attains."""
        return replace(self, chance=value)

    @property
    def bounded(self) -> bool:
        """Whether both ends are finite, as those of a share are."""
        return math.isfinite(self.low) and math.isfinite(self.high)


SHARE = Quantity("share", low=0.0, high=1.0)
PERCENT = Quantity("percent", "%", 0.0, 100.0)
COSINE = Quantity("cosine", low=-1.0, high=1.0)
COUNT = Quantity("count", low=0.0, whole=True)
POSITIVE = Quantity("positive", low=0.0)
REAL = Quantity("real")
POINTS = Quantity("points", "points", -100.0, 100.0)
EXPONENT = Quantity("exponent")
SEED = Quantity("seed", low=0.0, whole=True, nominal=True)
NAME = Quantity("name", nominal=True)
