"""The thirteen tasks of RULER, made anew: questions about long texts whose answers are known, of any length.

RULER (Hsieh et al. 2024, "RULER: What's the Real Context Size of Your Long-Context Language Models?") names eight ways
to hide a value (niah), a chain of variables (vt), two counts of words (cwe, fwe) and two kinds of question about
documents (qa). What is hidden, how often and how replies are scored is as there. Every word of the prompts, the straw
and the documents is ours, and a reply may be as long as a right one needs after its opening, where RULER gives 128
tokens to any value. The documents of qa are about towns and people that do not exist, in place of those of SQuAD and
HotpotQA.
"""

import string
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
import torch

from featlearn.core import Key, SettingError
from featlearn.tasks.chat import Chat, encoder
from featlearn.tasks.prompts import TokenizedPrompt, read
from featlearn.tasks.ruler_words import ADJECTIVES, FIRST_NAMES, NOUNS, RIVERS, SURNAMES, TOWNS

T = TypeVar("T")

SHORTEST = 512
FULL_SIZE = 4096
"""From this length on cwe repeats its words as often as RULER does there; below, fewer times, as there."""
DEPTHS = 40
NOISE = "The wind is cold. The road is long. The lamp is lit. So it goes on. Then it starts again."


@dataclass(frozen=True)
class Question:
    """One prompt of a task.

    introduction, context, request: the prompt in three parts, of which the middle one is long; opening: how the reply
    begins, given as part of the prompt; answers: texts that a right reply holds; every: each answer counts its share,
    else one of them is enough.
    """

    task: str
    introduction: str
    context: str
    request: str
    opening: str
    answers: tuple[str, ...]
    max_new_tokens: int
    every: bool = True

    def prompt(self, tokenizer: Any, chat: bool | Chat = True) -> TokenizedPrompt:
        """The tokens: through the chat template where there is one and chat holds, then the opening of the reply."""
        parts = self.introduction, self.context, self.request
        asked = read(tokenizer, *parts, chat=chat)
        spoken = "" if chat and tokenizer.chat_template else " "  # behind "Answer:"
        opening = encoder(tokenizer)(spoken + self.opening)
        ids = torch.cat([asked.input_ids, torch.tensor([opening])], dim=1)
        return replace(asked, input_ids=ids, tail=asked.tail + len(opening))

    def score(self, reply: str) -> float:
        """Share of the answers that the reply holds, or whether it holds one of them; case does not count.

        Example:
            >>> Question("vt", "", "", "", "", ("ABCDE", "FGHIJ"), 30).score("abcde, of course")
            0.5
        """
        held = [answer.lower() in reply.lower() for answer in self.answers]
        return sum(held) / len(held) if self.every else float(any(held))


@dataclass(frozen=True)
class Wanted:
    """What a question is made from; see `ask`."""

    task: str
    key: Key
    length: int
    essays: Sequence[str]


@dataclass(frozen=True)
class Draft:
    """A question that is open in its length: make(n) has n pieces of straw, the same facts whatever n is."""

    make: Callable[[int], Question]
    least: int
    most: int


def ask(
    task: str,
    key: Key,
    *,
    length: int,
    tokenizer: Any,
    essays: Sequence[str] = (),
    chat: bool | Chat = True,
) -> Question:
    """A question of a task, with as much straw as fits: prompt and longest reply have at most `length` tokens.

    task: a name of TASKS. essays: the sentences of which the straw is made in the tasks that name "essay"; they are
    used from the first on. The same key gives the same question; facts do not depend on length, tokenizer or essays.

    Raises SettingError for an unknown task, a length that leaves no straw, and one that the essays, words or names do
    not fill.

    Example:
        >>> question = ask("niah_single_1", Key("demo"), length=4096, tokenizer=tokenizer)
        >>> question.score(f"It is {question.answers[0]}.")
        1.0
    """
    if task not in TASKS:
        raise SettingError("task", task, f"one of {', '.join(TASKS)}", "see featlearn.tasks.ruler")
    if isinstance(length, bool) or not isinstance(length, int) or length < SHORTEST:
        raise SettingError("length", length, f"at least {SHORTEST} tokens", "4096 is the shortest of RULER")
    draft = TASKS[task](Wanted(task, key, length, essays))

    def excess(n: int) -> int:
        made = draft.make(n)
        return made.prompt(tokenizer, chat).input_ids.shape[1] + made.max_new_tokens - length

    if draft.most < draft.least:
        raise SettingError("essays", f"{len(essays)} sentences", f"some for {task}", "its facts are hidden in them")
    fits, over = draft.least, min(2 * draft.least + 16, draft.most)
    short = excess(fits)
    if short > 0:
        raise SettingError("length", length, f"at least {length + short} tokens for {task}", "raise it")
    while (left := -excess(over)) >= 0:
        if over == draft.most:
            raise SettingError("length", length, f"at most {length - left} tokens for {task}", "give more essays")
        fits, over = over, min(2 * over, draft.most)
    while over - fits > 1:
        n = (fits + over) // 2
        fits, over = (n, over) if excess(n) <= 0 else (fits, n)
    return draft.make(fits)


def choose(draw: np.random.Generator, words: Sequence[T], count: int) -> list[T]:
    """`count` different words in random order."""
    return [words[i] for i in draw.permutation(len(words))[:count]]


# --- values in straw -------------------------------------------------------------------------------------------------

Straw = Literal["noise", "essay", "needles"]
LINES = 4000
"""Most lines of straw of one kind."""


@dataclass(frozen=True)
class Hidden:
    """What a task hides: values of so many keys, so many for each, and of how many keys it asks. reply: its longest."""

    straw: Straw
    keys: int = 1
    values: int = 1
    asked: int = 1
    key_codes: bool = False
    value_codes: bool = False
    reply: int = 24


HIDDEN: dict[str, Hidden] = {
    "niah_single_1": Hidden("noise"),
    "niah_single_2": Hidden("essay"),
    "niah_single_3": Hidden("essay", value_codes=True, reply=48),
    "niah_multikey_1": Hidden("essay", keys=4),
    "niah_multikey_2": Hidden("needles"),
    "niah_multikey_3": Hidden("needles", key_codes=True, value_codes=True, reply=48),
    "niah_multivalue": Hidden("essay", values=4, reply=64),
    "niah_multiquery": Hidden("essay", keys=4, asked=4, reply=64),
}


def names(draw: np.random.Generator, count: int, codes: bool) -> list[str]:
    """Different keys: an adjective and a noun, or 32 hexadecimal digits in five groups."""
    if codes:
        return [str(uuid.UUID(bytes=draw.bytes(16), version=4)) for _ in range(count)]
    places = draw.choice(len(ADJECTIVES) * len(NOUNS), count, replace=False)
    return [f"{ADJECTIVES[i // len(NOUNS)]}-{NOUNS[i % len(NOUNS)]}" for i in places]


def values(draw: np.random.Generator, count: int, codes: bool) -> list[str]:
    """Different values: seven digits, or as the codes of `names`."""
    if codes:
        return names(draw, count, codes)
    return [str(1_000_000 + i) for i in draw.choice(9_000_000, count, replace=False)]


def placed(straw: Sequence[str], hidden: Sequence[str], depths: Sequence[float]) -> list[str]:
    """The straw with each hidden line at its depth (0: before all straw, 1: behind it), in the order of depths."""
    found = list(straw)
    for depth, line in sorted(zip(depths, hidden, strict=True), reverse=True):
        found.insert(round(depth * len(straw)), line)
    return found


def _depths(draw: np.random.Generator, count: int) -> list[float]:
    return sorted((draw.choice(DEPTHS, count, replace=False) / (DEPTHS - 1)).tolist())


def _niah(wanted: Wanted) -> Draft:
    what, draw = HIDDEN[wanted.task], (wanted.key / "facts").numpy()
    word = "code" if what.value_codes else "number"
    lines = LINES if what.straw == "needles" else 0
    keys = names(draw, what.keys + lines, what.key_codes)
    drawn = values(draw, what.keys * what.values + lines, what.value_codes)

    def sentence(of: str, value: str) -> str:
        return f"The secret {word} of {of} is {value}."

    own = {k: drawn[i * what.values :][: what.values] for i, k in enumerate(keys[: what.keys])}
    told = [sentence(k, value) for k, found in own.items() for value in found]
    told = choose(draw, told, len(told))
    depths = _depths((wanted.key / "places").numpy(), len(told))
    asked = choose(draw, list(own), what.asked)
    if what.straw == "needles":
        straw = [sentence(k, v) for k, v in zip(keys[what.keys :], drawn[-lines:], strict=True)]
    else:
        straw = list(wanted.essays) if what.straw == "essay" else [NOISE] * LINES
    between = " " if what.straw == "essay" else "\n"
    several = what.asked * what.values > 1
    words = f"secret {word}{'s' if several else ''}"
    of = " and ".join([", ".join(asked[:-1]), asked[-1]]) if what.asked > 1 else asked[0]
    parts = (
        f"The following text gives secret {word}s. Remember what it says: you will be asked.\n\n",
        f"\n\nWhich {words} does the text give for {of}?",
        f"The {words} of {of} {'are' if several else 'is'}",
    )
    answers = tuple(value for k in asked for value in own[k])

    def make(n: int) -> Question:
        context = between.join(placed(straw[:n], told, depths))
        return Question(wanted.task, parts[0], context, parts[1], parts[2], answers, what.reply)

    return Draft(make, 1, len(straw))


# --- a chain of variables --------------------------------------------------------------------------------------------

HOPS = 4


def chain(draw: np.random.Generator, letters: int) -> tuple[list[str], str, list[str]]:
    """Variables, their common value, and the lines that pass it on: a number to the first, each to the next."""
    found: list[str] = []
    while len(found) < HOPS + 1:
        name = "".join(choose_letters(draw, string.ascii_uppercase, letters))
        found += [name] * (name not in found)
    value = str(int(draw.integers(10_000, 100_000)))
    lines = [f"LET {name} = {before}" for name, before in zip(found, [value, *found[:-1]], strict=True)]
    return found, value, lines


def choose_letters(draw: np.random.Generator, alphabet: str, count: int) -> list[str]:
    """Letters, each of which may come again."""
    return [alphabet[i] for i in draw.integers(len(alphabet), size=count)]


def _vt(wanted: Wanted) -> Draft:
    introduction = "Variables get their values in the text below. Follow who gets whose.\n\n"

    def request(value: str) -> str:
        return f"\n\nWhich variables have the value {value}, at first or second hand? Name them all."

    def opening(value: str) -> str:
        return f"These {HOPS + 1} variables have the value {value}:"

    def told(name: str, letters: int) -> tuple[list[str], str, list[str], list[float]]:
        key = wanted.key / name
        return (*chain(key.numpy(), letters), _depths((key / "places").numpy(), HOPS + 1))

    shown, number, lines, depths = told("example", 3)
    example = "\n".join(placed([NOISE] * 6, lines, depths))
    before = f"{introduction}{example}{request(number)}\n{opening(number)} {', '.join(shown)}\n\n{introduction}"
    found, value, lines, depths = told("facts", 5)

    def make(n: int) -> Question:
        context = "\n".join(placed([NOISE] * n, lines, depths))
        return Question(wanted.task, before, context, request(value), opening(value), tuple(found), 40)

    return Draft(make, 1, LINES)


# --- counts of words -------------------------------------------------------------------------------------------------

COMMON, CODED, LETTERS, ALPHA = 10, 3, 6, 2.0


def repeated(key: Key, common: Sequence[str], others: Sequence[str], often: int, seldom: int) -> str:
    """A numbered list of words in random order, the common ones `often` times each, the others `seldom`."""
    every = [*common] * often + [*others] * seldom
    return " ".join(f"{i}. {word}" for i, word in enumerate(choose(key.numpy(), every, len(every)), 1))


def _cwe(wanted: Wanted) -> Draft:
    key, large = wanted.key, wanted.length >= FULL_SIZE
    words = choose((key / "facts").numpy(), [*ADJECTIVES, *NOUNS], len(ADJECTIVES) + len(NOUNS))
    many, often, seldom = (40, 10, 3) if large else (20, 3, 1)
    shown, words = words[:many], words[many:]
    introduction = f"In this numbered list {COMMON} words come more often than all others. Remember them.\n\n"
    request = f"\n\nWhich {COMMON} words of the list come most often?"
    opening = f"The {COMMON} words that come most often are:"
    told = " ".join(f"{i}. {word}" for i, word in enumerate(shown[:COMMON], 1))
    example = repeated(key / "example", shown[:COMMON], shown[COMMON:], often, seldom)
    before = f"{introduction}{example}{request}\n{opening} {told}\n\n{introduction}"
    often, seldom = (30, 3) if large else (6, 1)
    common, others = words[:COMMON], words[COMMON:]

    def make(n: int) -> Question:
        context = repeated(key / "order", common, others[:n], often, seldom)
        return Question(wanted.task, before, context, request, opening, tuple(common), 80)

    return Draft(make, 0, len(others))


def zeta_counts(n: int, kinds: int) -> list[int]:
    """How often n draws of a zeta law show its most frequent values: n k^-a / zeta(a), a = ALPHA = 2, rounded down."""
    ranks = np.arange(1, kinds + 1)
    return (n * ranks**-ALPHA / (np.pi**2 / 6)).astype(int).tolist()


def _fwe(wanted: Wanted) -> Draft:
    draw, kinds = (wanted.key / "facts").numpy(), max(10, wanted.length // 50)
    found: list[str] = []
    while len(found) < kinds - 1:
        word = "".join(choose_letters(draw, string.ascii_lowercase, LETTERS))
        found += [word] * (word not in found)
    parts = (
        f"Words of a secret language follow, with dots between them. Find the {CODED} that come most often.\n\n",
        f"\n\nWhich {CODED} words come most often in the text above? The dots are no word. Give no reasons.",
        f"The {CODED} words that come most often are:",
    )

    def make(n: int) -> Question:
        every = [w for w, times in zip(["...", *found], zeta_counts(n, kinds), strict=True) for _ in range(times)]
        context = " ".join(choose((wanted.key / "order").numpy(), every, len(every)))
        return Question(wanted.task, parts[0], context, parts[1], parts[2], tuple(found[:CODED]), 32)

    return Draft(make, 100, 8 * wanted.length)  # with fewer draws the third is as frequent as the next


# --- documents -------------------------------------------------------------------------------------------------------

TRADES = ("glass", "wool", "paper", "salt", "timber", "bricks", "linen", "clocks", "leather", "soap", "rope", "tiles")
CROPS = ("barley", "cherries", "flax", "hops", "lavender", "mustard", "onions", "plums", "rye", "walnuts")
JOBS = ("surveyor", "printer", "botanist", "organ builder", "cartographer", "lawyer", "physician", "engineer")
ARTS = ("woodcuts", "travel diaries", "organ music", "maps of the coast", "short plays", "studies of moths")


@dataclass(frozen=True)
class Town:
    """What the passage on a town tells. Name, founder, year and river are those of no other town."""

    name: str
    founder: str
    year: str
    river: str
    trade: str
    crop: str
    job: str
    bridges: int

    def passage(self) -> str:
        """Six sentences."""
        return (
            f"{self.name} is a small town with {self.bridges} bridges. It lies on the river {self.river}, which often "
            f"floods its lower streets in spring. The town was founded in {self.year} by {self.founder}, who had come "
            f"as a {self.job} and stayed. For a long time its people lived on {self.trade}, most of which went abroad. "
            f"The fields around it are known for {self.crop}. Of the old town wall one gate is left."
        )

    def facts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """What can be asked of `the town`, and the answers that count."""
        return (
            ("In which year was {} founded?", (self.year,)),
            ("Who founded {}?", (self.founder, self.founder.split()[-1])),
            ("On which river does {} lie?", (self.river,)),
        )


def life(name: str, town: str, draw: np.random.Generator) -> str:
    """The passage on a person who was born in a town: five sentences."""
    job, art, crop = (choose(draw, words, 1)[0] for words in (JOBS, ARTS, CROPS))
    return (
        f"{name} was born in {town} as the youngest of {draw.integers(3, 10)} children. After school came years as a "
        f"{job} in several countries. Later {name} lived from a shop and wrote in the evenings. What is left are "
        f"{art}, which a nephew collected. The garden, full of {crop}, was famous among the neighbours."
    )


def towns(draw: np.random.Generator, people: Sequence[str], count: int) -> list[Town]:
    """Towns that share no name, founder, year or river."""
    parts = choose(draw, TOWNS, count), people, draw.permutation(900)[:count] + 1001, choose(draw, RIVERS, count)
    return [
        Town(
            name,
            founder,
            str(year),
            river,
            trade=choose(draw, TRADES, 1)[0],
            crop=choose(draw, CROPS, 1)[0],
            job=choose(draw, JOBS, 1)[0],
            bridges=int(draw.integers(2, 10)),
        )
        for name, founder, year, river in zip(*parts, strict=True)
    ]


def _qa(wanted: Wanted) -> Draft:
    draw, count = (wanted.key / "facts").numpy(), len(SURNAMES)
    people = [f"{choose(draw, FIRST_NAMES, 1)[0]} {last}" for last in choose(draw, SURNAMES, count)]
    if wanted.task == "qa_1":
        every = towns(draw, people, count)
        passages, called = [town.passage() for town in every], every[0].name
    else:  # towns and people in turns; the first person was born in the first town, every other one in some other
        every = towns(draw, people[0::2], count // 2)
        born = [every[0], *choose(draw, every[1:], count // 2 - 1)]
        lives = [life(name, town.name, draw) for name, town in zip(people[1::2], born, strict=True)]
        passages = [p for pair in zip([t.passage() for t in every], lives, strict=True) for p in pair]
        called = f"the town in which {people[1]} was born"
    form, answers = every[0].facts()[int(draw.integers(3))]
    order = draw.permutation(len(passages))
    parts = (
        "Some passages follow. Answer the question about them with a few words, and with nothing else.\n\n",
        f"\n\nAnswer with a few words, and with nothing else. {form.format(called)}",
        "The answer is",
    )

    def make(n: int) -> Question:
        shown: list[str] = [passages[i] for i in order if i < n]
        context = "\n\n".join(f"Passage {i}:\n{passage}" for i, passage in enumerate(shown, 1))
        return Question(wanted.task, parts[0], context, parts[1], parts[2], answers, 32, every=False)

    return Draft(make, 2, len(passages))


TASKS: dict[str, Callable[[Wanted], Draft]] = {
    **dict.fromkeys(HIDDEN, _niah),
    "vt": _vt,
    "cwe": _cwe,
    "fwe": _fwe,
    "qa_1": _qa,
    "qa_2": _qa,
}
"""Makers of the thirteen tasks, by the names that RULER gives them."""
