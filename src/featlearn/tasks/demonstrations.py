"""Few-shot prompts of labelled texts: templates, drawn demonstrations, flipped labels, irrelevant sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from featlearn.core import Key, SettingError

TEXT, LABEL = "{text}", "{label}"
DEFAULT = "sentence: {text}\nThe answer is {label}."
"""The template of the thesis's sample (icl_scale.method_label_flip)."""


@dataclass(frozen=True)
class Template:
    r"""How an example is written, with one slot for its text and after it one for its label; examples are joined by
    `between`. What follows the label's slot belongs to demonstrations alone: a prompt ends where its label would begin,
    without the spaces before it, which belong to the label.

    Source: icl_scale.method_label_flip.
    Errors: SettingError for a template without one of the slots, with one twice, or in the other order.

    Example:
        >>> Template().prompt([("good", "positive")], "bad")
        'sentence: good\nThe answer is positive.\n\nsentence: bad\nThe answer is'
    """

    pattern: str = DEFAULT
    between: str = "\n\n"

    def __post_init__(self) -> None:
        for slot in (TEXT, LABEL):
            if self.pattern.count(slot) != 1:
                raise SettingError("template", self.pattern, f"one {slot}", f"for example {DEFAULT!r}")
        if self.pattern.index(TEXT) > self.pattern.index(LABEL):
            raise SettingError("template", self.pattern, f"{TEXT} before {LABEL}", "the label is what is asked for")

    @property
    def parts(self) -> tuple[str, str, str]:
        """What stands before the text, between text and label, and after the label."""
        before, _, rest = self.pattern.partition(TEXT)
        return (before, *rest.split(LABEL))  # pyright: ignore[reportReturnType]

    def example(self, text: str, label: str) -> str:
        """A demonstration."""
        before, middle, after = self.parts
        return before + text + middle + label + after

    def question(self, text: str) -> str:
        """An example up to its label."""
        before, middle, _ = self.parts
        return before + text + middle.rstrip(" ")

    def continuation(self, label: str) -> str:
        """What follows a question when the label is this one."""
        middle = self.parts[1]
        return " " * (len(middle) - len(middle.rstrip(" "))) + label

    def prompt(self, demonstrations: Sequence[tuple[str, str]], text: str) -> str:
        """Demonstrations of (text, label), and the question about another text."""
        return self.between.join([*(self.example(*d) for d in demonstrations), self.question(text)])


def flipped(labels: Sequence[int], rate: float, order: Sequence[int]) -> list[int]:
    """Labels 0 and 1 of which exactly round(rate M) are inverted: those that come first in `order`, a permutation, so
    that what a rate inverts a larger one inverts, too.

    Source: icl_scale.method_label_flip, which leaves open whether the count is exact.
    Errors: SettingError for a rate beyond 0 to 1, other labels, an order that is no permutation.

    Example:
        >>> flipped([0, 0, 1, 1], 0.5, order=[3, 0, 1, 2])
        [1, 0, 1, 0]
    """
    if not 0 <= rate <= 1:
        raise SettingError("rate", rate, "from 0 to 1", "0.5 inverts half of the labels")
    if not set(labels) <= {0, 1}:
        raise SettingError("labels", sorted(set(labels))[:4], "0 and 1", "give two classes these numbers")
    if sorted(order) != list(range(len(labels))):
        raise SettingError("order", tuple(order)[:4], f"a permutation of 0 to {len(labels) - 1}", "draw one from a key")
    chosen = set(list(order)[: round(rate * len(labels))])
    return [1 - y if i in chosen else y for i, y in enumerate(labels)]


@dataclass(frozen=True)
class Shown:
    """Indices of the examples that demonstrate, of those that are asked about, and the order in which labels flip."""

    demonstrations: tuple[int, ...]
    queries: tuple[int, ...]
    order: tuple[int, ...]


def drawn(labels: Sequence[int], shots: int, queries: int, key: Key) -> Shown:
    """Demonstrations and queries without a common text, half of each class (the odd one by chance), in random order.

    Errors: SettingError for no demonstration or query, and for more than a class has.
    """
    for name, value in (("shots", shots), ("queries", queries)):
        if value < 1:
            raise SettingError(name, value, "at least 1", "16 demonstrations are reported")
    rng = key.numpy()
    odd = int(rng.integers(2))
    parts: tuple[list[int], list[int]] = ([], [])
    for y in (0, 1):
        mine = rng.permutation(np.flatnonzero(np.asarray(labels) == y))
        a, b = ((n + (y == odd)) // 2 for n in (shots, queries))
        if a + b > len(mine):
            most = f"at most {len(mine)} of a class with the demonstrations"
            raise SettingError("queries", queries, most, "ask fewer, or add texts")
        parts[0].extend(mine[:a].tolist())
        parts[1].extend(mine[a : a + b].tolist())
    mixed = [tuple(int(i) for i in rng.permutation(part)) for part in parts]
    return Shown(mixed[0], mixed[1], tuple(int(i) for i in rng.permutation(shots)))


def fitting(
    template: Template,
    demonstrations: Sequence[tuple[str, str]],
    texts: Sequence[str],
    words: Sequence[str],
    count: Callable[[str], int],
    most: int,
) -> list[tuple[str, str]]:
    """The last demonstrations with which every prompt, its longest label included, keeps within `most` tokens: those
    that do not fit are dropped whole, the first ones first, so that all texts have the same demonstrations.

    count: tokens of a string. Errors: SettingError for a text that does not fit without any demonstration.
    """
    ends = [template.continuation(w) for w in words]

    def longest(shown: Sequence[tuple[str, str]]) -> int:
        return max(count(template.prompt(shown, text) + end) for text in texts for end in ends)

    least = longest(())
    if least > most:
        where = f"at most {most} tokens with the template around a text"
        raise SettingError("texts", f"one of {least} tokens", where, "leave long texts out, or raise the limit")
    shown = list(demonstrations)
    while shown and longest(shown) > most:
        del shown[0]
    return shown


# --- irrelevant sentences ---------------------------------------------------------------------------------------------

_WHO = ("Anna", "Ben", "Carla", "David", "Elena", "Felix", "Grace", "Hugo", "Irene", "Jonas", "Karen", "Louis")
_WHOSE = ("neighbour", "uncle", "teacher", "dentist", "cousin", "plumber", "landlord", "colleague")
_WHAT = (
    ("The roof of {who}'s {whose} is {n} feet high.", 12, 40),
    ("{who}'s {whose} is {n} years old.", 21, 80),
    ("The shoe size of {who}'s {whose} is {n}.", 5, 14),
    ("{who}'s {whose} keeps {n} stamps in a drawer.", 20, 400),
    ("The bus that {who}'s {whose} takes has {n} seats.", 20, 60),
    ("{who} and the {whose} live {n} miles apart.", 2, 90),
)


def irrelevant(key: Key) -> str:
    """A sentence on a person and a number that says nothing on any text, as those of GSM-IC (icl_scale.figure5_3).

    Example:
        >>> irrelevant(Key("demo"))[-1]
        '.'
    """
    rng = key.numpy()
    pattern, low, high = _WHAT[int(rng.integers(len(_WHAT)))]
    who, whose = (part[int(rng.integers(len(part)))] for part in (_WHO, _WHOSE))
    return pattern.format(who=who, whose=whose, n=int(rng.integers(low, high + 1)))
