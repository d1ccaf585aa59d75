"""LongBench-format questions, and the generated mini set, by several methods and the official metrics."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from featlearn.apply.gemfilter.compare import FULL, Progress, replies
from featlearn.apply.gemfilter.files import lines_of, word, words
from featlearn.core import Key, SettingError
from featlearn.tasks.miniset import check_miniset, miniset
from featlearn.tasks.prompts import Item, TokenizedPrompt, grade, kinds, prompt

SHORTEST = 64

# data set -> (metric, new tokens, only the first line counts, the reply continues the prompt). Metrics and lengths are
# those of the official harness, which leaves the chat template out where the prompt is a list of examples or code.
DATASETS: dict[str, tuple[str, int, bool, bool]] = {
    "narrativeqa": ("qa_f1", 128, False, False),
    "qasper": ("qa_f1", 128, False, False),
    "multifieldqa_en": ("qa_f1", 64, False, False),
    "hotpotqa": ("qa_f1", 32, False, False),
    "2wikimqa": ("qa_f1", 32, False, False),
    "musique": ("qa_f1", 32, False, False),
    "gov_report": ("rouge_l", 512, False, False),
    "qmsum": ("rouge_l", 512, False, False),
    "multi_news": ("rouge_l", 512, False, False),
    "trec": ("classification", 64, True, True),
    "triviaqa": ("qa_f1", 32, True, True),
    "samsum": ("rouge_l", 128, True, True),
    "passage_count": ("count", 32, False, False),
    "passage_retrieval_en": ("retrieval", 32, False, False),
    "lcc": ("code_similarity", 64, False, True),
    "repobench-p": ("code_similarity", 64, False, True),
}
CHINESE = ("multifieldqa_zh", "dureader", "vcsum", "lsht", "passage_retrieval_zh")

ASK = "\n\nAnswer the question from the text above, with as few words as possible."
# Our own words: (before the context, after it, with the input of the line). The official templates are not copied, so
# numbers are comparable between methods here, and not with reported ones.
TEMPLATES: dict[str, tuple[str, str]] = {
    "narrativeqa": ("Read this story or script.\n\n", ASK + " Question: {input}"),
    "qasper": (
        "Read this scientific article.\n\n",
        ASK + ' Write "unanswerable" where it gives none, and yes or no to questions of that kind. Question: {input}',
    ),
    "multifieldqa_en": ("Read the following text.\n\n", ASK + " Question: {input}"),
    "hotpotqa": ("Read the following passages.\n\n", ASK + " Question: {input}"),
    "2wikimqa": ("Read the following passages.\n\n", ASK + " Question: {input}"),
    "musique": ("Read the following passages.\n\n", ASK + " Question: {input}"),
    "gov_report": ("Read this report of a government agency.\n\n", "\n\nSummarise the report above on one page."),
    "qmsum": (
        "Read this transcript of a meeting.\n\n",
        "\n\nAnswer the query about the meeting in a few sentences. Query: {input}",
    ),
    "multi_news": ("Read these news articles.\n\n", "\n\nSummarise all articles above on one page."),
    "trec": ("Say of which type a question is, as in these examples.\n\n", "\n{input}"),
    "triviaqa": ("Answer the question about a passage, as in these examples.\n\n", "\n\n{input}"),
    "samsum": ("Summarise the dialogue, as in these examples.\n\n", "\n\n{input}"),
    "passage_count": (
        "Some of these paragraphs occur more than once.\n\n",
        "\n\nHow many different paragraphs are there? Answer with one number.",
    ),
    "passage_retrieval_en": (
        "Read the following numbered paragraphs.\n\n",
        '\n\nWhich paragraph does this abstract describe? {input}\nAnswer in the form "Paragraph 1".',
    ),
    "lcc": ("Complete the next line of this code.\n", "{input}"),
    "repobench-p": ("Complete the next line of this code.\n", "{input}"),
}
OWN_WORDS = "task instructions are worded here, not the official ones: compare methods, not with reported scores"


@dataclass(frozen=True)
class Row:
    """One data set by one method: mean score and its standard error in per cent (None for one item), items, seconds."""

    method: str
    dataset: str
    score: float
    error: float | None
    items: int
    seconds: float


@dataclass(frozen=True)
class Scores:
    """Rows by method and data set; averages: method -> (mean over data sets, its standard error); cut: prompts whose
    middle was left out; replies: a line per item and method."""

    rows: tuple[Row, ...]
    averages: dict[str, tuple[float, float | None]]
    cut: int
    replies: tuple[dict[str, Any], ...]


def files_of(data: str | Path) -> tuple[Path, ...]:
    """The JSONL files of a folder, or the one that is named."""
    path = Path(data)
    if path.is_dir():
        found = tuple(sorted(path.glob("*.jsonl")))
        if not found:
            raise SettingError("data", path, "a folder with .jsonl files", "LongBench has one per data set")
        return found
    if not path.is_file():
        raise SettingError("data", path, "a .jsonl file or a folder of them that exists", "check the path")
    return (path,)


def items_of(data: str | Path, tasks: Sequence[str] = ()) -> tuple[Item, ...]:
    """The items of LongBench-format lines: input, context, answers, length, dataset, all_classes, _id.

    tasks: only these data sets. A data set of LongBench-E (`qasper_e`) goes by its plain name. Raises SettingError
    with the line for a field that is missing, and for data sets without an English metric.
    """
    for name in tasks:
        _check_dataset(name, "tasks", name)
    out = []
    for path in files_of(data):
        for where, line in lines_of(path, "data"):
            dataset = line.get("dataset", path.stem)
            if not isinstance(dataset, str):
                raise SettingError("data", where, "an object with 'dataset', a text", f"it is {dataset!r}")
            dataset = dataset.removesuffix("_e")
            if tasks and dataset not in tasks:
                continue
            _check_dataset(dataset, "data", where)
            metric, new, first_line, continued = DATASETS[dataset]
            before, after = TEMPLATES[dataset]
            context, asked = word(line, "context", where, "data"), word(line, "input", where, "data", empty=True)
            answers = words(line, ("answers",), where, "data")
            classes = words(line, ("all_classes",), where, "data") if metric == "classification" else ()
            after = after.replace("{input}", asked)
            name = str(line.get("_id", where))
            out.append(
                Item(dataset, before, context, after, answers, metric, classes, new, first_line, continued, name)
            )
    if not out:
        raise SettingError(
            "tasks" if tasks else "data",
            ",".join(tasks) or data,
            "data sets in these files",
            f"there is no line of them in {data}",
        )
    return tuple(out)


def _check_dataset(name: str, field: str, where: str) -> None:
    if name in CHINESE:
        raise SettingError(field, where, "an English data set", f"{name} is scored by cutting Chinese into words")
    if name not in DATASETS:
        raise SettingError(field, where, f"one of {', '.join(DATASETS)}", f"{name!r} has no known metric")


check_mini = check_miniset


def mini(
    essays: Sequence[Any], tokenizer: Any, *, count: int = 4, length: int = 1024, key: Key | None = None
) -> tuple[Item, ...]:
    """The generated set: `count` items of each of six kinds of task, prompts of at most `length` tokens."""
    return tuple(miniset(essays, count, length, tokenizer, key or Key("gemfilter/mini")))


def prompts(tokenizer: Any, items: Sequence[Item], *, context: int | None, chat: bool = True) -> list[TokenizedPrompt]:
    """The prompts of items; of those that do not fit the context with their reply the middle is left out."""
    out = []
    for item in items:
        longest = None if context is None else context - item.max_new_tokens
        if longest is not None and longest < SHORTEST:
            raise SettingError(
                "model",
                f"a context of {context}",
                f"at least {SHORTEST + item.max_new_tokens} tokens",
                f"{item.kind} replies with up to {item.max_new_tokens}",
            )
        out.append(prompt(tokenizer, item, chat=chat, longest=longest))
    return out


def longbench(
    model: Any,
    tokenizer: Any,
    items: Sequence[Item],
    *,
    methods: Sequence[str] = ("full", "gemfilter"),
    keep: int | float = 1024,
    layer: int | str = "auto",
    chat: bool = True,
    context: int | None = None,
    progress: Progress | None = None,
    answer: Callable[..., Any] | None = None,
) -> Scores:
    """Scores of LongBench items by several methods, full model first, with standard errors over items.

    context: the longest prompt and reply together, by default that of the model. The average over data sets takes its
    standard error from theirs.

    Source: the metrics and reply lengths of the LongBench harness behind Table 9.1 (gemfilter.table9_1); instructions
    are worded anew.

    Example:
        >>> found = longbench(model, tokenizer, mini(essays("sotu"), tokenizer, count=1), keep=256, layer=18)
        >>> mean, error = found.averages["gemfilter"]
    """
    if not items:
        raise SettingError("data", "no items", "at least one", "one JSON object a line")
    if context is None:
        context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    methods = (FULL, *(name for name in methods if name != FULL))
    tokenized_prompts = prompts(tokenizer, items, context=context, chat=chat)
    new = [item.max_new_tokens for item in items]
    setting = {"methods": methods, "keep": keep, "layer": layer, "progress": progress, "answer": answer}
    found = replies(model, tokenizer, tokenized_prompts, new, **setting)
    lines = []
    for name in methods:
        for item, tokenized, reply in zip(items, tokenized_prompts, found[name], strict=True):
            lines.append(
                {
                    "method": name,
                    "dataset": item.kind,
                    "name": item.name,
                    "score": 100 * grade(item, reply.text),
                    "reply": reply.text,
                    "tokens": tokenized.input_ids.shape[1],
                    "cut": tokenized.cut,
                    "seconds": reply.seconds_prompt + reply.seconds_generate,
                }
            )
    rows = tuple(_row(name, kind, lines) for name in methods for kind in kinds(items))
    averages: dict[str, tuple[float, float | None]] = {}
    for name in methods:
        own = [r for r in rows if r.method == name]
        mean = sum(r.score for r in own) / len(own)
        errors = [r.error for r in own if r.error is not None]
        known = len(errors) == len(own)
        averages[name] = (mean, math.sqrt(sum(e**2 for e in errors)) / len(own) if known else None)
    return Scores(rows, averages, sum(r.cut > 0 for r in tokenized_prompts), tuple(lines))


def _row(method: str, kind: str, lines: Sequence[dict[str, Any]]) -> Row:
    own = [line for line in lines if line["method"] == method and line["dataset"] == kind]
    scores = np.array([line["score"] for line in own])
    error = float(scores.std(ddof=1)) / math.sqrt(len(scores)) if len(scores) > 1 else None
    return Row(method, kind, float(scores.mean()), error, len(own), sum(line["seconds"] for line in own) / len(own))


def document(found: Scores) -> dict[str, Any]:
    """As one JSON document holds it."""
    from dataclasses import asdict

    averages = [{"method": m, "score": s, "error": e} for m, (s, e) in found.averages.items()]
    rows = [asdict(r) for r in found.rows]
    return {"averages": averages, "rows": rows, "cut": found.cut, "note": OWN_WORDS, "replies": list(found.replies)}
