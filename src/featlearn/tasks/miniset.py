"""A small long-prompt benchmark that is generated: the kinds of task of LongBench, at lengths that small models read.

Every text is drawn from a haystack that the caller brings; the facts in it are made up, so that no model knows them.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from featlearn.core import Key, SettingError
from featlearn.tasks import needles as facts
from featlearn.tasks.chat import encoder
from featlearn.tasks.prompts import Item, framed
from featlearn.tasks.prompts import grade as grade

T = TypeVar("T")

SHORTEST = 512
MONTHS = ("January", "March", "April", "May", "July", "August", "October", "November")
TOPICS = (
    "beekeeping",
    "lighthouses",
    "glaciers",
    "typewriters",
    "orchards",
    "volcanoes",
    "puppets",
    "tunnels",
    "sundials",
    "kites",
    "windmills",
    "mushrooms",
    "trams",
    "caves",
    "violins",
    "deserts",
)
NOUNS = ("bridges", "bakeries", "fountains", "chapels", "mills", "gardens", "schools", "towers")
QUESTIONS = {
    "Number": ("How many {noun} are there in {town}?", "What is the number of {noun} around {town}?"),
    "Person": ("Who built the {noun} of {town}?", "Which architect drew the {noun} at {town}?"),
    "Place": ("Where in {town} are the {noun}?", "In which street of {town} do the {noun} stand?"),
    "Time": ("When were the {noun} of {town} opened?", "In which year did {town} get its {noun}?"),
}


@dataclass(frozen=True)
class Straw:
    """Sentences of the haystack with their token counts, drawn from one generator."""

    texts: tuple[tuple[str, ...], ...]
    count: Callable[[str], int]
    draw: np.random.Generator

    def passage(self, tokens: int) -> list[str]:
        """Sentences in a row from a random place, of at most `tokens` tokens together."""
        found: list[str] = []
        at = int(self.draw.integers(len(self.texts)))
        place = int(self.draw.integers(len(self.texts[at])))
        while True:
            if place >= len(self.texts[at]):
                at, place = (at + 1) % len(self.texts), 0
            sentence = self.texts[at][place]
            tokens -= self.count(" " + sentence)
            if tokens < 0:
                break
            found.append(sentence)
            place += 1
        return found or [" ".join(sentence.split()[:8]) + "."]

    def choose(self, words: Sequence[T], count: int) -> list[T]:
        """`count` different words in random order."""
        return [words[i] for i in self.draw.permutation(len(words))[:count]]

    def hide(self, sentences: list[str], fact: str) -> list[str]:
        """The sentences with one more at a random place."""
        at = int(self.draw.integers(len(sentences) + 1))
        return [*sentences[:at], fact, *sentences[at:]]


def _single(straw: Straw, room: int, needle: facts.Needle, people: Sequence[str], towns: Sequence[str]) -> Item:
    text = straw.hide(straw.passage(room - straw.count(needle.sentence)), needle.sentence)
    return Item(
        "single-document QA",
        "Read the following text.\n\n",
        " ".join(text),
        f"\n\nAnswer with a few words from the text above. {needle.question}",
        (needle.answer,),
        first_line=True,
    )


def _multi(straw: Straw, room: int, needle: facts.Needle, people: Sequence[str], towns: Sequence[str]) -> Item:
    who, where, month = straw.choose(people, 3), straw.choose(towns, 3), straw.choose(MONTHS, 3)
    told = [f"{p} lives in {t}." for p, t in zip(who, where, strict=True)]
    told += [f"The festival of {t} is held in {m}." for t, m in zip(where, month, strict=True)]
    each = room // len(told) - 32
    texts = [
        f"Passage {i}: {' '.join(straw.hide(straw.passage(each), fact))}"
        for i, fact in enumerate(straw.choose(told, len(told)), 1)
    ]
    return Item(
        "multi-document QA",
        "Read the following passages.\n\n",
        "\n\n".join(texts),
        f"\n\nAnswer with one word. In which month is the festival of the town where {who[0]} lives?",
        (month[0],),
        first_line=True,
    )


def _topics(straw: Straw, room: int, needle: facts.Needle, people: Sequence[str], towns: Sequence[str]) -> Item:
    topics = straw.choose(TOPICS, 5)
    each = room // len(topics) - 16
    parts = [f"The next part is about {topic}. {' '.join(straw.passage(each))}" for topic in topics]
    return Item(
        "list of topics",
        "Read the following text, which has several parts.\n\n",
        "\n\n".join(parts),
        "\n\nList what the parts are about, one word for each part, in order, separated by commas.",
        (", ".join(topics),),
        "rouge_l",
        max_new_tokens=48,
    )


def _classes(straw: Straw, room: int, needle: facts.Needle, people: Sequence[str], towns: Sequence[str]) -> Item:
    every = [
        (form.format(noun=noun, town=town), name)
        for name, forms in QUESTIONS.items()
        for form in forms
        for noun in NOUNS
        for town in towns
    ]
    order = straw.draw.permutation(len(every))
    (asked, right), shots = every[order[0]], []
    for i in order[1:]:
        shot = f"Question: {every[i][0]}\nType: {every[i][1]}"
        room -= straw.count("\n\n" + shot)
        if room < 0:
            break
        shots.append(shot)
    return Item(
        "few-shot classification",
        "Say of which type a question is, as in these examples.\n\n",
        "\n\n".join(shots),
        f"\n\nQuestion: {asked}\nType:",
        (right,),
        "classification",
        tuple(QUESTIONS),
        max_new_tokens=8,
        first_line=True,
        continued=True,  # a chat answer does not go on with examples; LongBench leaves the template out here too
    )


def _count(straw: Straw, room: int, needle: facts.Needle, people: Sequence[str], towns: Sequence[str]) -> Item:
    total = 8
    different = int(straw.draw.integers(3, total))
    own = [" ".join(straw.passage(room // total - 16)) for _ in range(different)]
    again = [own[i] for i in straw.draw.integers(different, size=total - different)]
    order = straw.draw.permutation(total)
    texts = [f"Paragraph {i}: {[*own, *again][j]}" for i, j in enumerate(order, 1)]
    return Item(
        "passage count",
        "Some of these paragraphs occur more than once.\n\n",
        "\n\n".join(texts),
        "\n\nHow many different paragraphs are there? Answer with one number.",
        (str(len(set(own))),),
        "count",
        max_new_tokens=8,
    )


def _retrieval(straw: Straw, room: int, needle: facts.Needle, people: Sequence[str], towns: Sequence[str]) -> Item:
    total = 8
    parts = [straw.passage(room // total - 20) for _ in range(total)]
    wanted = int(straw.draw.integers(total))
    longest = max(parts[wanted], key=len)
    texts = [f"Paragraph {i}: {' '.join(part)}" for i, part in enumerate(parts, 1)]
    return Item(
        "passage retrieval",
        "Read the following paragraphs.\n\n",
        "\n\n".join(texts),
        f'\n\nFrom which paragraph is this quotation? "{" ".join(longest.split()[:24])}"\n'
        'Answer in the form "Paragraph 1".',
        (f"Paragraph {wanted + 1}",),
        "retrieval",
        max_new_tokens=8,
    )


KINDS = (_single, _multi, _topics, _classes, _count, _retrieval)


def check_miniset(count: int, length: int) -> None:
    """Refuse a count or a length of which `miniset` makes nothing."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise SettingError("count", count, "at least 1 item of each kind", "20 is usual")
    if isinstance(length, bool) or not isinstance(length, int) or length < SHORTEST:
        raise SettingError("length", length, f"at least {SHORTEST} tokens", "1024 to 3072 suits small models")


def miniset(
    essays: Sequence[Any], count: int, length: int, tokenizer: Any, key: Key, which: str = "reported"
) -> list[Item]:
    """`count` items of each of the six kinds, whose prompts have at most `length` tokens and nearly as many.

    essays: texts, or things with a `.text`. which: the set of made-up facts, "validation" or "reported", as in
    `featlearn.tasks.needles`; they share no name and no answer. The same key gives the same items.

    The kinds: a fact in one text; two facts in two of six passages; the topics of five parts; questions to be sorted
    into four types after examples; how many of eight paragraphs differ; which of eight paragraphs is quoted.

    Raises SettingError for a length that leaves no text, a haystack without sentences, a count without enough facts.

    Example:
        >>> items = miniset(essays("sotu"), 5, 2048, tokenizer, Key("mini"))
        >>> len(items), grade(items[0], "It is none of these.")
        (30, 0.0)
    """
    check_miniset(count, length)
    texts = tuple(sentences for e in essays if (sentences := _sentences(getattr(e, "text", e))))
    if not texts:
        raise SettingError("essays", len(essays), "texts with sentences in them", "give a folder of longer .txt files")
    encode = encoder(tokenizer)
    known: dict[str, int] = {}

    def tokens(text: str) -> int:
        if text not in known:
            known[text] = len(encode(text))
        return known[text]

    chosen = facts.needles(which, count, key / "miniset")
    people = facts.PEOPLE_VALIDATION if which == "validation" else facts.PEOPLE_REPORTED
    towns = facts.TOWNS_VALIDATION if which == "validation" else facts.TOWNS_REPORTED
    out = []
    for make in KINDS:
        for i, needle in enumerate(chosen):
            room, item = length - 160, None
            for attempt in range(8):  # counts of parts do not add up exactly: shrink what came out too long
                straw = Straw(texts, tokens, (key / "miniset" / make.__name__ / i).numpy())
                item = make(straw, room, needle, people, towns)
                excess = _length(tokenizer, encode, item) - length
                if excess <= 0 and (attempt or excess > -48):
                    break
                room -= excess + (16 if attempt else 0)
            else:
                raise SettingError("length", length, "room for the task", "raise it: the texts of this task are longer")
            out.append(item)
    return out


def _length(tokenizer: Any, encode: Callable[[str], list[int]], item: Item) -> int:
    before, after = framed(tokenizer, item.introduction, item.request, True, item.continued)
    return len(encode(before)) + len(encode(item.context)) + len(encode(after))


def _sentences(text: str) -> tuple[str, ...]:
    """Sentences of 4 to 60 words."""
    parts = re.split(r"(?<=[.!?])\s+", " ".join(text.split()))
    return tuple(s for s in parts if 4 <= len(s.split()) <= 60)
