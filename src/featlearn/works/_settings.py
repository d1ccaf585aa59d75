"""Checks that settings of many experiments share: each refuses before any work, with field, value, range and remedy."""

from collections.abc import Sequence
from typing import Any

from featlearn.core import SettingError
from featlearn.lab.estimate import VALIDATION

DEFAULT = "see the default"


def check_seeds(seeds: Sequence[int], field: str = "seeds") -> None:
    """Refuse no seeds, seeds below 0, which no row can hold, seeds given twice, and both roles of seeds at once: those
    from VALIDATION on are for choosing settings, and no mean mixes them with reported ones."""
    if not seeds:
        raise SettingError(field, "()", "one or more seeds", "give for instance 0 1 2 3 4")
    if min(seeds) < 0:
        raise SettingError(field, tuple(seeds), "at least 0", "give for instance 0 1 2 3 4")
    if len(set(seeds)) < len(seeds):
        raise SettingError(field, tuple(seeds), "each seed once", "drop the duplicates: they are not independent")
    if min(seeds) < VALIDATION <= max(seeds):
        span = f"{min(seeds)} to {max(seeds)}"
        raise SettingError(
            field, span, f"all below {VALIDATION} or none", f"those from {VALIDATION} on are for choosing"
        )


def check_validation_seeds(seeds: Sequence[int], validation_seeds: Sequence[int]) -> None:
    """Refuse reported seeds of VALIDATION and above and validation seeds below."""
    for field, values, inside, where in (
        ("seeds", seeds, lambda s: 0 <= s < VALIDATION, f"below {VALIDATION}"),
        ("validation_seeds", validation_seeds, lambda s: s >= VALIDATION, f"{VALIDATION} or above"),
    ):
        if not values or len(set(values)) < len(values) or not all(map(inside, values)):
            raise SettingError(
                field, tuple(values), f"different seeds, {where}", "validation and reported seeds stay apart"
            )


def check_counts(config: Any, *fields: str) -> None:
    """Refuse counts below 1."""
    for field in fields:
        if getattr(config, field) < 1:
            raise SettingError(field, getattr(config, field), "at least 1", DEFAULT)


def check_positive(config: Any, *fields: str) -> None:
    """Refuse numbers that are not above 0."""
    for field in fields:
        if not getattr(config, field) > 0:
            raise SettingError(field, getattr(config, field), "above 0", DEFAULT)


def check_least(config: Any, least: float | int, *fields: str) -> None:
    """Refuse numbers below `least`, and nan."""
    for field in fields:
        if not getattr(config, field) >= least:
            raise SettingError(field, getattr(config, field), f"at least {least:g}", DEFAULT)


def check_entries(config: Any, least: int, *fields: str) -> None:
    """Refuse lists with an entry below `least`; no entries are allowed."""
    for field in fields:
        value = getattr(config, field)
        if value and min(value) < least:
            raise SettingError(field, value, f"numbers of at least {least}", DEFAULT)


def check_ladders(config: Any, *fields: str) -> None:
    """Refuse grids that are empty, not positive, not ascending, or name a value twice."""
    for field in fields:
        value = getattr(config, field)
        if not value or not min(value) > 0 or list(value) != sorted(set(value)):
            raise SettingError(field, value, "positive, in ascending order, each once", DEFAULT)


def check_dimensions(config: Any, *fields: str, least: int = 4) -> None:
    """Refuse dimensions below `least`, or given twice."""
    for field in fields:
        value = getattr(config, field)
        if any(v < least for v in value) or len(set(value)) < len(value):
            raise SettingError(field, value, f"different dimensions of at least {least}", "32 64 128 is a start")


def check_filled(config: Any, *fields: str) -> None:
    """Refuse empty lists of values."""
    for field in fields:
        if not getattr(config, field):
            raise SettingError(field, "()", "one or more values", DEFAULT)


def check_target(target: float) -> None:
    """Refuse an accuracy that chance reaches, or nobody can."""
    if not 50 < target < 100:
        raise SettingError("target", target, "between 50 and 100 percent", "95 is the default")
