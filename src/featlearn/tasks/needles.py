"""A fact hidden in a long text, and the question that asks for it: prompts whose relevant tokens are known."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.tasks.chat import encoder, frame


@dataclass(frozen=True)
class Needle:
    """A sentence, a question about it, and the words that a right answer contains."""

    sentence: str
    question: str
    answer: str


@dataclass(frozen=True)
class Kind:
    """A sentence with {name} and {value}, its question, and what they range over."""

    sentence: str
    question: str
    names: tuple[str, ...]
    values: tuple[str, ...]


TOWNS_VALIDATION = ("Alderwick", "Brackton", "Corley", "Dunmere", "Eastleigh", "Farnsworth", "Granby", "Holbeck")
TOWNS_REPORTED = ("Ivybridge", "Kelton", "Lydford", "Marwick", "Norbury", "Oakham", "Penrose", "Quenby", "Rothwell")
PEOPLE_VALIDATION = ("Agnes", "Bertram", "Clara", "Desmond", "Edith", "Frederick", "Greta", "Hubert")
PEOPLE_REPORTED = ("Imogen", "Jasper", "Kirsten", "Leopold", "Mathilda", "Norman", "Ottilie", "Percival", "Rosalind")


def _numbers(first: int, step: int) -> tuple[str, ...]:
    return tuple(str(10000 + (first + step * i) % 90000) for i in range(60))


# The two sets share no sentence, no name and no answer: settings are chosen on the first, reported on the second.
VALIDATION = (
    Kind(
        "The access code of the {name} library is {value}.",
        "What is the access code of the {name} library?",
        TOWNS_VALIDATION,
        _numbers(1234, 7919),
    ),
    Kind(
        "The favourite fruit of {name} the gardener is the {value}.",
        "What is the favourite fruit of {name} the gardener?",
        PEOPLE_VALIDATION,
        ("apricot", "blackberry", "cherry", "grapefruit", "mango", "papaya", "raspberry", "watermelon"),
    ),
    Kind(
        "The best thing to do in {name} is to {value}.",
        "What is the best thing to do in {name}?",
        TOWNS_VALIDATION,
        ("row across the lake at dawn", "climb the old lighthouse", "listen to the harbour choir", "taste the honey"),
    ),
    Kind(
        "The young sailor {name} always wore a {value}.",
        "What did the young sailor {name} always wear?",
        PEOPLE_VALIDATION,
        ("crimson scarf", "straw hat", "copper ring", "yellow raincoat", "linen shirt", "velvet cape"),
    ),
    Kind(
        "The annual market of {name} is held on a {value}.",
        "On which day of the week is the annual market of {name} held?",
        TOWNS_VALIDATION,
        ("Monday", "Tuesday", "Thursday", "Saturday", "Sunday"),
    ),
)
REPORTED = (
    Kind(
        "The locker number that belongs to {name} is {value}.",
        "Which locker number belongs to {name}?",
        PEOPLE_REPORTED,
        _numbers(4321, 6007),
    ),
    Kind(
        "The secret ingredient of the soup served in {name} is {value}.",
        "What is the secret ingredient of the soup served in {name}?",
        TOWNS_REPORTED,
        ("cinnamon", "fennel", "ginger", "horseradish", "juniper", "lavender", "nutmeg", "saffron", "tarragon"),
    ),
    Kind(
        "The famous painter {name} always travelled with a {value}.",
        "With what did the famous painter {name} always travel?",
        PEOPLE_REPORTED,
        ("brass telescope", "green parrot", "silver whistle", "wooden flute", "marble chessboard", "leather drum"),
    ),
    Kind(
        "The yearly festival of {name} takes place in {value}.",
        "In which month does the yearly festival of {name} take place?",
        TOWNS_REPORTED,
        ("January", "February", "April", "June", "August", "September", "October", "November", "December"),
    ),
)
SETS = {"validation": VALIDATION, "reported": REPORTED}
STREAMS = {"validation": "choose", "reported": "report"}
"""Names of the sets in the paths of random keys; they stay as they are, or the prompts of committed rows would not."""


def needles(which: str, count: int, key: Key) -> tuple[Needle, ...]:
    """`count` different needles of a set, "validation" or "reported", its kinds in turn."""
    if which not in SETS:
        raise SettingError("needles", which, f"one of {', '.join(SETS)}", "reported is the set for results")
    kinds, found = SETS[which], []
    available = sum(len(kind.names) * len(kind.values) for kind in kinds)
    if not 1 <= count <= available // 2:
        raise SettingError("count", count, f"1 to {available // 2}", f"there are {available} needles of this set")
    draw = (key / "needles" / STREAMS[which]).numpy()
    while len(found) < count:
        kind = kinds[len(found) % len(kinds)]
        name, value = kind.names[draw.integers(len(kind.names))], kind.values[draw.integers(len(kind.values))]
        needle = Needle(kind.sentence.format(name=name, value=value), kind.question.format(name=name), value)
        if needle not in found:
            found.append(needle)
    return tuple(found)


@dataclass(frozen=True)
class Prompt:
    """A prompt with a needle in it.

    input_ids: (n); needle: (first, end) of the needle's tokens; question: (first, end) of what follows the text, the
    question and the words that open the answer; answer: the words that a right answer contains; sentence: the needle.
    """

    input_ids: Int[Tensor, " n"]
    needle: tuple[int, int]
    question: tuple[int, int]
    answer: str
    sentence: str


INTRODUCTION = "Read the following text.\n\n"
REQUEST = "\n\nAnswer with a few words from the text above. {question}"


def hide(
    tokenizer: Any,
    text: str,
    needle: Needle,
    *,
    length: int,
    depth: float,
    chat: bool = True,
) -> Prompt:
    """A prompt of exactly `length` tokens with the needle at `depth` of its text (0: at the start, 1: at the end).

    The text is cut to what fits; the needle goes to the nearest end of a sentence. Raises SettingError where the
    question alone fills the length, or the text is too short.
    """
    if not 0 <= depth <= 1:
        raise SettingError("depth", depth, "0 to 1", "0.5 is the middle of the text")
    encode = encoder(tokenizer)
    before, after = frame(tokenizer, INTRODUCTION, REQUEST.format(question=needle.question), chat)
    head, tail, inside = encode(before), encode(after), encode(" " + needle.sentence)
    room = length - len(head) - len(tail) - len(inside)
    if room < 16:
        raise SettingError("length", length, f"at least {length - room + 16} tokens", "the question needs its place")
    straw = encode(text)
    if len(straw) < room:
        raise SettingError("length", length, f"at most {length - room + len(straw)} tokens", "give a longer text")
    straw = straw[:room]
    cut = _sentence_end(tokenizer, straw, round(depth * room))
    ids = head + straw[:cut] + inside + straw[cut:] + tail
    first = len(head) + cut
    return Prompt(
        torch.tensor(ids),
        (first, first + len(inside)),
        (len(ids) - len(tail), len(ids)),
        needle.answer,
        needle.sentence,
    )


def _sentence_end(tokenizer: Any, ids: Sequence[int], near: int) -> int:
    """The position after the sentence that ends closest to `near`; 0 and the end count as such."""
    if near in (0, len(ids)):
        return near
    ends = [0, len(ids)]
    low, high = max(0, near - 120), min(len(ids), near + 120)
    ends += [i + 1 for i in range(low, high) if tokenizer.decode([ids[i]]).strip() in (".", "!", "?")]
    return min(ends, key=lambda i: abs(i - near))


def found_in(reply: str, answer: str) -> bool:
    """Whether a reply contains the answer: case, commas in numbers and further punctuation do not count."""

    def plain(text: str) -> str:
        return " ".join(re.sub(r"(?<=\d),(?=\d)", "", text).casefold().replace("-", " ").split())

    return plain(answer) in plain(reply)


def overlap(reply: str, expected: str) -> float:
    """The reported score: distinct words shared with the expected text over its number of words (gemfilter.fig9_4).

    Any reply in English earns some of it, and a text that repeats a word cannot be matched in full.
    """
    words = expected.casefold().split()
    return len(set(reply.casefold().split()) & set(words)) / len(words)


def recall(kept: Int[Tensor, " k"], needle: tuple[int, int]) -> float:
    """Share of the needle's tokens among those kept."""
    inside = (kept >= needle[0]) & (kept < needle[1])
    return float(inside.sum()) / (needle[1] - needle[0])


def distance(kept: Int[Tensor, " k"], needle: tuple[int, int]) -> int:
    """How far the nearest kept token is from the needle; 0 when one is inside (gemfilter.fig9_5).

    Example:
        >>> distance(torch.tensor([3, 20]), (8, 11)), distance(torch.tensor([9]), (8, 11))
        (5, 0)
    """
    below, above = needle[0] - kept, kept - (needle[1] - 1)
    return int(torch.maximum(below, above).clamp(min=0).min())
