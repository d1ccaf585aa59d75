"""What filtering costs on your own questions: right answers and likelihood against the full model."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featlearn.apply.gemfilter import compare
from featlearn.apply.gemfilter.answer import check_tokenizer, filter_of, log_likelihood, protection
from featlearn.apply.gemfilter.compare import (
    FULL,
    LAYERED,
    TWO_PASSES,
    Difference,
    Progress,
    by_unit,
    paired,
    paired_shares,
    replies,
    share,
)
from featlearn.apply.gemfilter.files import lines_of, word, words
from featlearn.apply.gemfilter.partial import Rows
from featlearn.apply.gemfilter.speed import Speed
from featlearn.core import SettingError
from featlearn.errors import brief
from featlearn.methods.gemfilter.given import count_of, plain_number, whole
from featlearn.methods.gemfilter.selecting import RAW, not_finite, select
from featlearn.methods.gemfilter.views import undisturbed
from featlearn.methods.memory import device_of_model
from featlearn.tasks.chat import encoder
from featlearn.tasks.needles import INTRODUCTION, REQUEST, found_in
from featlearn.tasks.prompts import Item, TokenizedPrompt, prompt

METHODS = ("full", "gemfilter", "gemfilter_raw", "snapkv", "h2o", "streaming")


FEWEST_UNITS = 6
"""Below it a warning says that intervals are wide: a paired difference has to be larger than its own spread."""


@dataclass(frozen=True)
class Question(Item):
    """An item with the name of its unit: questions of one unit are no independent evidence."""

    unit: str = ""


@dataclass(frozen=True)
class Cost:
    """One method on the questions that are compared: those longer than `keep`, or all where none is.

    accuracy: share of replies that contain a right answer; likelihood: mean log-probability per token of the first
    right answer; both are means over units of the means of their questions. accuracy_difference,
    likelihood_difference: against the full model, paired, with 95 % intervals over units; None of the full model, and
    where nothing was filtered. cut: replies that ended at the limit; seconds: mean per question; kept: mean tokens.
    """

    method: str
    questions: int
    accuracy: Difference
    accuracy_difference: Difference | None
    likelihood: float
    likelihood_difference: Difference | None
    cut: int
    seconds: float
    kept: float


@dataclass(frozen=True)
class Scored:
    """Costs by method, full model first, a row per question and method, and what a reader should know.

    units: of the questions that are compared; filtered: how many questions are longer than `keep`.
    """

    costs: tuple[Cost, ...]
    rows: tuple[dict[str, Any], ...]
    units: int
    filtered: int
    warnings: tuple[str, ...]


def questions_of(path: str | Path) -> tuple[Question, ...]:
    """A JSONL file of {"context", "question", "answer" or "answers"} as items.

    "unit" names what was drawn independently, such as the document of an excerpt; without it, questions about the same
    context are one unit.
    """
    out = []
    for where, data in lines_of(path):
        context, question = word(data, "context", where), word(data, "question", where)
        request = REQUEST.format(question=question)
        answers = words(data, ("answers", "answer"), where)
        unit = word(data, "unit", where) if "unit" in data else ""
        out.append(Question("questions", INTRODUCTION, context, request, answers, name=where, unit=unit))
    return tuple(out)


def prompts(
    tokenizer: Any, items: Sequence[Item], *, chat: bool = True, longest: int | None = None
) -> list[TokenizedPrompt]:
    """The prompts of items; one that is longer than the context is refused by its line."""
    out = []
    for item in items:
        tokenized = prompt(tokenizer, item, chat=chat)
        n = tokenized.input_ids.shape[1]
        if longest is not None and n > longest:
            raise SettingError("file", item.name, f"at most {longest} tokens, the model's context", f"it has {n}")
        out.append(tokenized)
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
    rows: Rows | None = None,
) -> Scored:
    """Ask every question by every method, the full model first, and compare.

    A reply is right when it contains one of the answers (case and commas in numbers aside). The likelihood is that of
    the first answer as the reply (`likelihoods`). Prompts no longer than `keep` are the same for all methods, so that
    they are asked and not compared. Intervals are over units (`questions_of`).

    rows: where finished questions are kept and found again; a run that was ended goes on from there.

    Raises SettingError for no questions, and as `select`.

    Example:
        >>> found = score(model, tokenizer, questions_of("mine.jsonl"), methods=("full", "gemfilter"), keep=512)
        >>> found.costs[1].accuracy_difference
        Difference(...)
    """
    items = items_in(items)
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise SettingError("methods", brief(methods), "a list of names", "put it in a list: [methods]")
    methods = compare.method_names(tuple(methods))
    check_tokenizer(tokenizer)
    max_new_tokens = whole("max_new_tokens", max_new_tokens, 1, "32 is the default")
    keep = plain_number(keep)
    count_of(keep, 1)
    tokenized_prompts = prompts(tokenizer, items, chat=chat)
    setting: dict[str, Any] = {"keep": keep, "layer": layer}
    found: list[dict[str, Any]] = []
    for i, (item, tokenized) in enumerate(zip(items, tokenized_prompts, strict=True)):
        done = rows.done(item, tokenized) if rows else {}
        missing = [name for name in methods if name not in done]
        if missing:
            more = {**setting, "methods": missing}
            said = replies(model, tokenizer, [tokenized], [max_new_tokens], answer=answer, **more)
            likely = likelihoods(model, tokenizer, item, tokenized, chat=chat, **more)
            for name in missing:
                done[name] = _row(name, item, tokenized, said[name][0], likely[name])
            if rows:
                rows.keep(item, tokenized, [done[name] for name in missing])
        for name in methods:
            found.append({**done[name], "question": item.name, "unit": unit_name(item, items)})
        if progress:
            progress(i + 1, len(items))
    return compared(methods, found, keep, max_new_tokens)


def items_in(items: Any) -> tuple[Item, ...]:
    """Questions that can be asked and judged, or SettingError."""
    found: tuple[Any, ...] = tuple(items) if isinstance(items, Iterable) and not isinstance(items, str) else (items,)
    for item in found:
        if not isinstance(item, Item):
            raise SettingError("items", brief(item), "questions", "score.questions_of reads them from a file")
        if not item.answers:
            raise SettingError("items", item.name or brief(item.request), "an answer that is right", "give one")
    if not found:
        raise SettingError("file", "no questions", "at least one", "one JSON object a line")
    return found


def unit_name(item: Item, items: Sequence[Item]) -> str:
    """The name of an item's unit as rows have it: its own, or that of the first question about its context."""
    own = getattr(item, "unit", "")
    about = (other for other in items if other.context == item.context)
    return own or next(getattr(other, "unit", "") or other.name for other in about)


def _row(name: str, item: Item, tokenized: TokenizedPrompt, reply: Any, likelihood: float) -> dict[str, Any]:
    kept, n = _count(reply.kept), tokenized.input_ids.shape[1]
    if not math.isfinite(likelihood):
        raise not_finite("likelihoods", f"{name}, {item.name}")
    return {
        "method": name,
        "right": any(found_in(reply.text, a) for a in item.answers),
        "likelihood": likelihood,
        "reply": reply.text,
        "cut": bool(reply.cut),
        "kept": kept,
        "tokens": n,
        "seconds": reply.seconds_prompt + reply.seconds_generate,
    }


def compared(methods: Sequence[str], rows: Sequence[dict[str, Any]], keep: int | float, limit: int) -> Scored:
    """Costs of the questions that are longer than `keep`, of all where none is, and warnings."""
    asked = [r for r in rows if r["method"] == FULL]
    longer = {r["question"] for r in asked if count_of(keep, r["tokens"]) < r["tokens"]}
    own = [r for r in rows if r["question"] in longer] or list(rows)
    costs = tuple(_cost(name, own, bool(longer)) for name in methods)
    units = len({r["unit"] for r in own})
    warnings = []
    if not longer:
        shortest = min(r["tokens"] for r in asked)
        warnings.append(
            f"none of {len(asked)} prompts is longer than keep = {keep}: nothing was filtered, so that nothing is "
            f"compared; the shortest has {shortest} tokens, keep fewer"
        )
    elif len(longer) < len(asked):
        warnings.append(
            f"{len(asked) - len(longer)} of {len(asked)} prompts are no longer than keep = {keep} and are left out of "
            "the comparison, since nothing of them was filtered"
        )
    for c in costs:
        if c.cut:
            warnings.append(
                f"{c.method}: {c.cut} of {c.questions} replies end at max-new-tokens = {limit}, and an answer behind "
                "it does not count: allow more"
            )
    if longer and units < FEWEST_UNITS:
        warnings.append(
            f"the questions make {units} unit{'s' * (units > 1)} (a text with all questions about it): fewer than "
            f"{FEWEST_UNITS} say little, take more texts"
        )
    return Scored(costs, tuple(rows), units, len(longer), tuple(warnings))


def expected(
    speed: Speed,
    tokenized_prompts: Sequence[TokenizedPrompt],
    max_new_tokens: int,
    methods: Sequence[str],
    keep: int | float,
    layer: int,
) -> tuple[float, float]:
    """Seconds, at most, and bytes at the peak that `score` will need."""
    seconds, peak = compare.expected(
        speed, tokenized_prompts, [max_new_tokens] * len(tokenized_prompts), methods, keep, layer
    )
    # once more for the likelihoods, of which one prompt serves all that drop entries
    for tokenized in tokenized_prompts:
        n = tokenized.input_ids.shape[1]
        dropping = bool(set(methods) - {FULL, *TWO_PASSES})
        filtered = speed.filtered(n, min(n, count_of(keep, n)), 1, layer)
        seconds += speed.prompt(n) * (1 + dropping) + filtered * len(set(methods) & set(TWO_PASSES))
    return seconds, peak


def _count(kept: Any) -> int:
    return kept if isinstance(kept, int) else len(kept)


def likelihoods(
    model: Any,
    tokenizer: Any,
    item: Item,
    tokenized: TokenizedPrompt,
    *,
    methods: Sequence[str],
    keep: int | float,
    layer: int | str = "auto",
    chat: bool = True,
) -> dict[str, float]:
    """method -> mean log-probability per token of the first right answer as the reply.

    For GemFilter after the kept tokens; for the methods that drop keys and values after the whole prompt, one reading
    of which serves all of them: their first token still sees everything, so an answer of one token costs them nothing.
    """
    ids = tokenized.input_ids
    n, budget = ids.shape[1], count_of(keep, ids.shape[1])
    before = "" if chat and tokenizer.chat_template and not item.continued else " "
    said = torch.tensor([encoder(tokenizer)(before + item.answers[0])])
    out, chosen = {}, {}
    for name in methods:
        if name not in LAYERED or budget >= n:
            continue
        at, scoring = filter_of(model, layer, RAW if name == "gemfilter_raw" else None)
        mask, _ = protection(tokenized, keep, protect=name != "gemfilter_raw")
        kept = (
            select(model, ids, torch.ones_like(ids), layer=at, keep=keep, scoring=scoring, protect=mask)
            .indices[0]
            .cpu()
        )
        chosen[name] = kept
    filled = None
    for name in methods:
        if name in (FULL, *TWO_PASSES) or budget >= n:
            prompt_ids = ids[:, chosen[name]] if name in chosen else ids
            found = log_likelihood(model, prompt_ids, said)
        else:
            from featlearn.methods.kv_eviction import SCORED, evict, prefill

            filled = filled or prefill(model, ids, torch.ones_like(ids), want=[m for m in methods if m in SCORED])
            cache = evict(filled, name, budget, indices=chosen.get(name))
            found = forced(model, filled, cache, said)
        out[name] = float(found.mean())
    return out


def forced(model: Any, prefilled: Any, cache: Any, reply_ids: Int[Tensor, "1 t"]) -> Float[Tensor, " t"]:
    """log-probability (t) of every token of a reply (1, t) after a prompt that was read, from an evicted cache.

    The cache is extended; token by token, as it would be generated.
    """
    device, place = device_of_model(model), prefilled.input_ids.shape[1]
    logits, found = prefilled.logits, []
    with undisturbed(model) as own:
        for i, token in enumerate(reply_ids[0].tolist()):
            found.append(logits.float().log_softmax(-1)[0, token].cpu())
            if i + 1 < reply_ids.shape[1]:
                one, at = (torch.tensor([[x]], device=device) for x in (token, place + i))
                logits = own(one, None, at, cache, use_cache=True).logits[:, -1]
    return torch.stack(found)


def _cost(name: str, rows: Sequence[dict[str, Any]], filtered: bool) -> Cost:
    own, full = ([r for r in rows if r["method"] == m] for m in (name, FULL))
    units = [r["unit"] for r in own]
    right, full_right = ([bool(r["right"]) for r in side] for side in (own, full))
    likely, full_likely = ([r["likelihood"] for r in side] for side in (own, full))
    n, same = len(own), name == FULL or not filtered
    return Cost(
        name,
        n,
        share(right, units),
        None if same else paired_shares(right, full_right, units),
        float(by_unit(likely, units).mean()),
        None if same else paired(likely, full_likely, units),
        sum(r["cut"] for r in own),
        sum(r["seconds"] for r in own) / n,
        sum(r["kept"] for r in own) / n,
    )


def differing(found: Scored, most: int) -> list[list[dict[str, Any]]]:
    """Rows of up to `most` questions, a list a question: first those in which a method is right and another is not."""
    by_question: dict[str, list[dict[str, Any]]] = {}
    for row in found.rows:
        by_question.setdefault(row["question"], []).append(row)
    return sorted(by_question.values(), key=lambda own: len({r["right"] for r in own}) == 1)[:most]


def document(found: Scored) -> dict[str, Any]:
    """As one JSON document holds it."""
    counts = {"units": found.units, "filtered": found.filtered, "warnings": list(found.warnings)}
    return {"methods": [asdict(c) for c in found.costs], **counts, "rows": list(found.rows)}
