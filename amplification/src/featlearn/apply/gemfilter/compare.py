"""The same prompts through several ways of handling a long context, and paired differences with intervals."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from featlearn.apply.gemfilter.answer import protection
from featlearn.apply.gemfilter.speed import Speed
from featlearn.core import SettingError
from featlearn.lab.estimate import interval
from featlearn.methods.gemfilter.selecting import count_of
from featlearn.tasks.prompts import TokenizedPrompt

FULL = "full"
TWO_PASSES = ("gemfilter", "gemfilter_raw")
LAYERED = {*TWO_PASSES, "one_run"}
"""Methods with a filter layer."""
NORMAL_95 = 1.959964
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Difference:
    """Method minus full model, paired by question: mean and its 95 % interval."""

    value: float
    low: float
    high: float


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


def paired(values: Sequence[float], full: Sequence[float]) -> Difference:
    """Mean difference with a Student-t interval; both ends equal the mean for a single pair."""
    return Difference(*interval(np.asarray(values, dtype=float) - np.asarray(full, dtype=float)))


def paired_shares(right: Sequence[bool], full: Sequence[bool]) -> Difference:
    """Difference of two shares of the same questions, with the interval of Agresti and Min (2005).

    Half a question is added to each of the four outcomes, so that the interval has a width where all questions agree.
    """
    n = len(full)
    gained = sum(a and not b for a, b in zip(right, full, strict=True))
    lost = sum(b and not a for a, b in zip(right, full, strict=True))
    b, c, total = gained + 0.5, lost + 0.5, n + 2
    middle = (b - c) / total
    half = NORMAL_95 * math.sqrt(b + c - (b - c) ** 2 / total) / total
    return Difference((gained - lost) / n, max(-1.0, middle - half), min(1.0, middle + half))


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
