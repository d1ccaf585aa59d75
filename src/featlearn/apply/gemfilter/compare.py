"""The same prompts through several ways of handling a long context, and paired differences with intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from featlearn.apply.gemfilter.answer import protection
from featlearn.apply.gemfilter.speed import Speed
from featlearn.core import SettingError
from featlearn.lab.estimate import interval
from featlearn.lab.quantity import SHARE
from featlearn.lab.uncertainty import mean_of
from featlearn.methods.gemfilter.given import count_of
from featlearn.tasks.prompts import TokenizedPrompt

FULL = "full"
TWO_PASSES = ("gemfilter", "gemfilter_raw")
LAYERED = {*TWO_PASSES, "one_run"}
"""Methods with a filter layer."""
ROUNDING = 1e-12
"""Differences between units that are none."""
SIGNED = replace(SHARE, low=-1.0)
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Difference:
    """Method minus full model: the mean over units, its 95 % interval, and the number of units.

    A unit is what was drawn independently, such as a text with all questions about it. low, high: None where too little
    is known for an interval.
    """

    value: float
    low: float | None
    high: float | None
    units: int


def method_names(methods: Sequence[str]) -> tuple[str, ...]:
    """The methods, the full model first; SettingError for one that does not exist or stands twice."""
    from featlearn.methods.long_context import METHODS, peers

    for name in methods:
        if reason := peers().get(name):
            raise SettingError("methods", name, f"among {', '.join(METHODS)}", f"{name} cannot run here: {reason}")
        if name not in METHODS:
            raise SettingError("methods", name, f"among {', '.join(METHODS)}", "separate several by commas")
    if len(set(methods)) < len(methods):
        raise SettingError("methods", ",".join(methods), "each method once", "leave out the repeated one")
    return (FULL, *(name for name in methods if name != FULL))


def check_budget(methods: Sequence[str], tokenized_prompts: Sequence[TokenizedPrompt], keep: int | float) -> None:
    """Refuse a budget that the entries which a method always keeps would fill."""
    from featlearn.methods.kv_eviction import check_eviction

    for name in methods:
        if name not in (FULL, *TWO_PASSES):
            for tokenized in tokenized_prompts:
                n = tokenized.input_ids.shape[1]
                check_eviction(name, min(n, count_of(keep, n)), n)


def replies(
    model: Any,
    tokenizer: Any,
    tokenized_prompts: Sequence[TokenizedPrompt],
    max_new_tokens: Sequence[int],
    *,
    methods: Sequence[str],
    keep: int | float,
    layer: int | str = "auto",
    progress: Progress | None = None,
    answer: Callable[..., Any] | None = None,
) -> dict[str, list[Any]]:
    """method -> its `Answer` to every prompt, greedy; start token and question are protected where they fit.

    answer: the function that answers one prompt by one method, `featlearn.methods.long_context.answer` by default.
    """
    if answer is None:
        from featlearn.methods.long_context import answer as answer_one
    else:
        answer_one = answer
    out: dict[str, list[Any]] = {name: [] for name in methods}
    done = 0
    for tokenized, new in zip(tokenized_prompts, max_new_tokens, strict=True):
        protect, _ = protection(tokenized, keep)
        for name in methods:
            out[name].append(
                answer_one(
                    model,
                    tokenizer,
                    tokenized.input_ids,
                    method=name,
                    budget=keep,
                    max_new_tokens=new,
                    layer=layer,
                    protect=protect,
                )
            )
            done += 1
            if progress:
                progress(done, len(tokenized_prompts) * len(methods))
    return out


def by_unit(values: Sequence[float] | Sequence[bool] | np.ndarray, units: Sequence[str]) -> np.ndarray:
    """The mean of every unit, in the order in which units appear."""
    found: dict[str, list[float]] = {}
    for value, unit in zip(values, units, strict=True):
        found.setdefault(unit, []).append(float(value))
    return np.array([sum(own) / len(own) for own in found.values()])


def paired(values: Sequence[float], full: Sequence[float], units: Sequence[str]) -> Difference:
    """Mean difference over units with a Student-t interval; none for a single unit or where all units are the same."""
    x = by_unit(np.subtract(values, full, dtype=float), units)
    if not np.ptp(x) > ROUNDING:
        return Difference(float(x.mean()), None, None, len(x))
    return Difference(*interval(x), len(x))


def paired_shares(right: Sequence[bool], full: Sequence[bool], units: Sequence[str]) -> Difference:
    """Difference of two shares of the same questions, over units, with an interval within -1 and 1.

    Student's t where five units or more gain and as many lose; else gains and losses have exact intervals of their own,
    so that units that all agree have a width, and a loss that few of them show is not taken for a narrow one.
    """
    found = mean_of(by_unit(np.subtract(right, full, dtype=float), units), SIGNED, "unit")
    return Difference(found.value, *found.at(0.95), found.n)


def share(right: Sequence[bool], units: Sequence[str]) -> Difference:
    """A share over units with its interval, exact (Clopper and Pearson) near 0 and 1."""
    found = mean_of(by_unit(right, units), SHARE, "unit")
    return Difference(found.value, *found.at(0.95), found.n)


def expected(
    speed: Speed,
    tokenized_prompts: Sequence[TokenizedPrompt],
    max_new_tokens: Sequence[int],
    methods: Sequence[str],
    keep: int | float,
    layer: int,
) -> tuple[float, float]:
    """Seconds, at most, and bytes at the peak that `replies` will need."""
    seconds = peak = 0.0
    for tokenized, new in zip(tokenized_prompts, max_new_tokens, strict=True):
        n = tokenized.input_ids.shape[1]
        k = min(n, count_of(keep, n))
        for name in methods:
            seconds += speed.filtered(n, k, new, layer) if name in TWO_PASSES else speed.reply(n, new)
        peak = max(peak, speed.peak(n + new))
    return seconds, peak
