"""What filtering costs on your own questions: right answers and likelihood against the full model."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from featlearn.core import SettingError
from featlearn.methods.gemfilter.selecting import RAW, count_of, select
from featlearn.tasks.needles import INTRODUCTION, REQUEST, encoder, found_in
from featlearn.tasks.reading import Item, Reading, prompt
from featlearn.tools.gemfilter.answer import filter_of, log_likelihood, protection
from featlearn.tools.gemfilter.compare import FULL, Difference, Progress, paired, paired_shares, replies
from featlearn.tools.gemfilter.files import lines_of, word, words

METHODS = ("full", "gemfilter", "gemfilter_raw", "snapkv", "h2o", "streaming")


@dataclass(frozen=True)
class Cost:
    """One method on all questions.

    accuracy: share of replies that contain a right answer; likelihood: mean over questions of the mean log-probability
    per token of the first right answer, None where the method has no prompt to put it after; accuracy_difference,
    likelihood_difference: against the full model, paired, with 95 % intervals; seconds: mean per question; kept: mean
    tokens.
    """

    method: str
    questions: int
    accuracy: float
    accuracy_difference: Difference | None
    likelihood: float | None
    likelihood_difference: Difference | None
    seconds: float
    kept: float


@dataclass(frozen=True)
class Scored:
    """Costs by method, full model first, and a row per question and method."""

    costs: tuple[Cost, ...]
    rows: tuple[dict[str, Any], ...]


def questions_of(path: str | Path) -> tuple[Item, ...]:
    """A JSONL file of {"context", "question", "answer" or "answers"} as items."""
    out = []
    for where, data in lines_of(path):
        context, question = word(data, "context", where), word(data, "question", where)
        request = REQUEST.format(question=question)
        out.append(
            Item("questions", INTRODUCTION, context, request, words(data, ("answers", "answer"), where), name=where)
        )
    return tuple(out)


def prompts(tokenizer: Any, items: Sequence[Item], *, chat: bool = True, longest: int | None = None) -> list[Reading]:
    """The prompts of items; one that is longer than the context is refused by its line."""
    out = []
    for item in items:
        reading = prompt(tokenizer, item, chat=chat)
        n = reading.input_ids.shape[1]
        if longest is not None and n > longest:
            raise SettingError("file", item.name, f"at most {longest} tokens, the model's context", f"it has {n}")
        out.append(reading)
    return out


def score(
    model: Any,
    tokenizer: Any,
    items: Sequence[Item],
    *,
    methods: Sequence[str] = METHODS,
    keep: int | float = 1024,
    layer: int | str = "auto",
    chat: bool = True,
    max_new_tokens: int = 32,
    progress: Progress | None = None,
    answer: Callable[..., Any] | None = None,
) -> Scored:
    """Ask every question by every method, the full model first, and compare.

    A reply is right when it contains one of the answers (case and commas in numbers aside). The likelihood is that of
    the first answer as the reply: under the kept tokens for GemFilter, under the whole prompt for the full model.
    Prompts no longer than `keep` are the same for all methods.

    Raises SettingError for no questions, and as `select`.

    Example:
        >>> found = score(model, tokenizer, questions_of("mine.jsonl"), methods=("full", "gemfilter"), keep=512)
        >>> found.costs[1].accuracy_difference
    """
    if not items:
        raise SettingError("file", "no questions", "at least one", "one JSON object a line")
    methods = (FULL, *(name for name in methods if name != FULL))
    readings = prompts(tokenizer, items, chat=chat)
    setting = {"methods": methods, "keep": keep, "layer": layer, "progress": progress, "answer": answer}
    found = replies(model, tokenizer, readings, [max_new_tokens] * len(items), **setting)
    rows = []
    for name in methods:
        for item, reading, reply in zip(items, readings, found[name], strict=True):
            right = any(found_in(reply.text, a) for a in item.answers)
            likelihood = _likelihood(model, tokenizer, name, item, reading, keep, layer, chat)
            seconds = reply.seconds_prompt + reply.seconds_generate
            rows.append(
                {"method": name, "question": item.name, "right": right, "likelihood": likelihood, "reply": reply.text,
                 "kept": _count(reply.kept), "tokens": reading.input_ids.shape[1], "seconds": seconds}
            )  # fmt: skip
    return Scored(tuple(_cost(name, rows) for name in methods), tuple(rows))


def _count(kept: Any) -> int:
    return kept if isinstance(kept, int) else len(kept)


def _likelihood(
    model: Any,
    tokenizer: Any,
    method: str,
    item: Item,
    reading: Reading,
    keep: int | float,
    layer: int | str,
    chat: bool,
) -> float | None:
    ids = reading.input_ids
    if method in ("gemfilter", "gemfilter_raw"):
        if count_of(keep, ids.shape[1]) < ids.shape[1]:
            at, scoring = filter_of(model, layer, RAW if method == "gemfilter_raw" else None)
            mask, _ = protection(reading, keep)
            chosen = select(model, ids, layer=at, keep=keep, scoring=scoring, protect=mask)
            ids = ids[:, chosen.indices[0].cpu()]
    elif method != FULL:
        return None
    before = "" if chat and tokenizer.chat_template else " "
    said = torch.tensor([encoder(tokenizer)(before + item.answers[0])])
    return float(log_likelihood(model, ids, said).mean())


def _cost(name: str, rows: Sequence[dict[str, Any]]) -> Cost:
    own, full = ([r for r in rows if r["method"] == m] for m in (name, FULL))
    right, full_right = ([bool(r["right"]) for r in side] for side in (own, full))
    likely, full_likely = ([r["likelihood"] for r in side] for side in (own, full))
    known = None not in likely
    n = len(own)
    return Cost(
        name,
        n,
        sum(right) / n,
        None if name == FULL else paired_shares(right, full_right),
        sum(likely) / n if known else None,
        paired(likely, full_likely) if known and name != FULL else None,
        sum(r["seconds"] for r in own) / n,
        sum(r["kept"] for r in own) / n,
    )


def document(found: Scored) -> dict[str, Any]:
    """As one JSON document holds it."""
    return {"methods": [asdict(c) for c in found.costs], "rows": list(found.rows)}
