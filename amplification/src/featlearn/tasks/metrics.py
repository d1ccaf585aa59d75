"""Scores of a written reply against reference answers, by the definitions of the LongBench harness. All from 0 to 1."""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence


def normalised(text: str) -> str:
    """Lower case, without punctuation, articles and further white space."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def qa_f1(reply: str, answer: str) -> float:
    """Harmonic mean of the shares of words in common, words normalised and counted as often as they occur."""
    said, wanted = normalised(reply).split(), normalised(answer).split()
    common = sum((Counter(said) & Counter(wanted)).values())
    return 2 * common / (len(said) + len(wanted)) if common else 0.0


def longest_common(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """A longest common subsequence; of several the one that drops words of `other` first."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, a in enumerate(one, 1):
        for j, b in enumerate(other, 1):
            table[i][j] = table[i - 1][j - 1] + 1 if a == b else max(table[i - 1][j], table[i][j - 1])
    i, j, found = len(one), len(other), []
    while i and j:
        if one[i - 1] == other[j - 1]:
            i, j = i - 1, j - 1
            found.append(one[i])
        elif table[i - 1][j] > table[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return found[::-1]


def rouge_l(reply: str, answer: str) -> float:
    """ROUGE-L of summaries: F of the words in a longest common subsequence of any two sentences.

    Sentences end at full stops; every word counts once, in the subsequences and in both lengths, as in the Python
    package that the harness calls. An empty reply scores 0.
    """
    said, wanted = ([part.split() for part in text.split(".") if part.strip()] for text in (reply, answer))
    words_said, words_wanted = ({w for sentence in side for w in sentence} for side in (said, wanted))
    common = {w for a in wanted for b in said for w in longest_common(a, b)}
    if not common:
        return 0.0
    precision, recall = len(common) / len(words_said), len(common) / len(words_wanted)
    return 2 * precision * recall / (precision + recall)


def classification(reply: str, answer: str, classes: Sequence[str]) -> float:
    """1 / (number of classes that the reply names) where the right one is among them, else 0.

    A class whose name is part of the right one's does not count beside it. (The released loop removes such names while
    it walks the list and can miss the second of two neighbours.)
    """
    named = [c for c in classes if c in reply and not (c in answer and c != answer)]
    return 1 / len(named) if answer in named else 0.0


def _share_of_numbers(reply: str, number: str) -> float:
    said = re.findall(r"\d+", reply)
    return said.count(number) / len(said) if said else 0.0


def retrieval(reply: str, answer: str) -> float:
    """Share of the numbers in the reply that are the number of the right paragraph ("Paragraph 7")."""
    wanted = re.search(r"Paragraph (\d+)", answer)
    return _share_of_numbers(reply, wanted[1]) if wanted else 0.0


def count(reply: str, answer: str) -> float:
    """Share of the numbers in the reply that are the right one."""
    return _share_of_numbers(reply, str(answer).strip())


def code_similarity(reply: str, answer: str) -> float:
    """2 x longest common subsequence / sum of lengths, in characters, rounded to per cent.

    Of the reply's lines the first that is no comment and no fence.
    """
    lines = reply.lstrip("\n").split("\n")
    line = next((text for text in lines if not any(mark in text for mark in ("`", "#", "//"))), "")
    if not line and not answer:
        return 1.0
    return round(200 * len(longest_common(line, answer)) / (len(line) + len(answer))) / 100


METRICS: dict[str, Callable[..., float]] = {
    "qa_f1": qa_f1,
    "rouge_l": rouge_l,
    "classification": classification,
    "retrieval": retrieval,
    "count": count,
    "code_similarity": code_similarity,
}


def graded(
    metric: str, reply: str, answers: Sequence[str], classes: Sequence[str] = (), first_line: bool = False
) -> float:
    """The best score of a reply over the reference answers.

    first_line: what follows the first line does not count.
    """
    if first_line:
        reply = reply.lstrip("\n").split("\n")[0]
    more = (classes,) if metric == "classification" else ()
    return max((METRICS[metric](reply, answer, *more) for answer in answers), default=0.0)
