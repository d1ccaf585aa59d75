"""Label noise on real language models: what of an answer follows the labels in the prompt, and what comes from before.

Figures 5.1 and 5.2 ask Llama models of 3B to 70B about five binary tasks, with 16 demonstrations of which a growing
share has the other label. Here the models are whatever `--model` names and the texts those of `--dataset`.

Accuracies at no and at all inverted labels, A(0) and A(1), split a model's skill 2 A(0) - 100 into A(0) + A(1) - 100,
what stays when every label turns, and A(0) - A(1), what turns with them. By this split the first comes from pretraining
and the second from the prompt, and pretraining weighs more where A(1) lies above 50, the accuracy of guessing. The
log-odds of the true label split alike.

Fixed before any row: a set of demonstrations and the queries behind it are one unit, drawn anew for every set,
independent given the pool of texts, and the same at every rate and for every model; classes are balanced in both; a
smaller share of inverted labels is inside a larger one; accuracies that claims read are calibrated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from featlearn.core import Key, SettingError
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.lab.table import Table
from featlearn.methods.in_context import calibrated, context_of, label_scores
from featlearn.report.plots import Panel, Picture, Series, line_picture
from featlearn.tasks.demonstrations import Template, drawn, fitting, flipped
from featlearn.works.icl_scale.experiments.texts import (
    LLAMA,
    LLAMA_CHAT,
    TOKENS,
    OnTexts,
    loaded,
    mib,
    needs,
    seconds,
    task_of,
)
from featlearn.works.icl_scale.rows import Flips
from featlearn.works.icl_scale.setup import FLAT

ENTRIES = ("icl_scale.figure5_1", "icl_scale.figure5_2")
CONTENT_FREE = ("N/A", "", "[MASK]")
"""Texts about nothing, those of contextual calibration."""


@dataclass(frozen=True, kw_only=True)
class Config(OnTexts):
    """Accuracy of language models against the share of inverted labels in the prompt."""

    shots: int = 16
    """Demonstrations."""
    rates: tuple[float, ...] = (0.0, 0.5, 1.0)
    """Shares of their labels that are inverted."""
    sets: int = 4
    """Sets of demonstrations of each task, each with queries of its own: what is independent."""
    queries: int = 24
    """Texts that are asked about behind each set."""
    longest: int = 0
    """Most tokens of a prompt, 0 for the model's context; demonstrations that do not fit are dropped, the first ones
    first."""
    batch: int = 8
    """Prompts that are read at a time."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("shots", "sets", "queries", "batch"):
            if getattr(self, name) < 1:
                raise SettingError(name, getattr(self, name), "at least 1", "16 demonstrations are reported")
        if not self.rates or len(set(self.rates)) < len(self.rates) or not all(0 <= r <= 1 for r in self.rates):
            raise SettingError("rates", self.rates, "different numbers from 0 to 1", "0, 0.5 and 1 tell most")
        if self.longest < 0:
            raise SettingError("longest", self.longest, "at least 0", "0 is the model's context")
        if self.content():  # a file of the user's is read at once, so that too few texts are known before any work
            drawn(task_of(self.dataset, self.names()[0]).labels, self.shots, self.queries, Key("icl_scale"))


@dataclass(frozen=True)
class Trial:
    """One set of demonstrations at one rate, for one model."""

    model: str
    dataset: str
    content: str
    task: str
    rate: float
    set: int
    template: str
    words: tuple[str, ...]
    shots: int
    queries: int
    longest: int
    batch: int
    dtype: str
    device: str


def trials(config: Config) -> list[Trial]:
    """Models slowest, since each worker holds one at a time, then sets, so that an interrupted run has all rates."""
    c, content = config, config.content()
    return [
        Trial(
            model=model,
            dataset=c.dataset,
            content=content,
            task=task,
            rate=rate,
            set=i,
            template=c.template,
            words=c.words,
            shots=c.shots,
            queries=c.queries,
            longest=c.longest,
            batch=c.batch,
            dtype=c.dtype,
            device=c.device,
        )
        for model in c.model
        for i in range(c.sets)
        for task in c.names()
        for rate in c.rates
    ]


def run_trial(trial: Trial) -> TrialResult:
    """Score the label words behind every query, and behind texts about nothing."""
    model, tokenizer = loaded(trial.model, trial.dtype, trial.device)
    task = task_of(trial.dataset, trial.task)
    template, words = Template(trial.template.replace("\\n", "\n")), trial.words or task.words
    shown = drawn(task.labels, trial.shots, trial.queries, Key("icl_scale/label_noise") / trial.task / trial.set)
    true = [task.labels[i] for i in shown.demonstrations]
    given = flipped(true, trial.rate, shown.order)
    demonstrations = [(task.texts[i], words[y]) for i, y in zip(shown.demonstrations, given, strict=True)]
    texts = [*(task.texts[i] for i in shown.queries), *CONTENT_FREE]
    most = min(n for n in (trial.longest or None, context_of(model), 1 << 30) if n)
    kept = fitting(template, demonstrations, texts, words, lambda text: len(tokenizer(text)["input_ids"]), most)
    prompts = [template.prompt(kept, text) for text in texts]
    scores = label_scores(model, tokenizer, prompts, [template.continuation(w) for w in words], batch=trial.batch)
    raw, free = scores[: trial.queries], scores[trial.queries :]
    answers = np.array([task.labels[i] for i in shown.queries])
    odds = (raw[:, 1] - raw[:, 0]).double().numpy()

    def accuracy(found: np.ndarray) -> float:
        return 100.0 * float((found == answers).mean())

    row = Flips(
        model=trial.model,
        task=trial.task,
        rate=trial.rate,
        set=trial.set,
        shown=len(kept),
        inverted=sum(
            a != b for a, b in zip(true[len(true) - len(kept) :], given[len(true) - len(kept) :], strict=True)
        ),
        queries=trial.queries,
        raw=accuracy(raw.argmax(1).numpy()),
        calibrated=accuracy(calibrated(raw, free).argmax(1).numpy()),
        margin=float((odds * (2 * answers - 1)).mean()),
        bias=float((free[:, 1] - free[:, 0]).mean()),
    )
    return TrialResult([row])


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Accuracies by rate, over tasks and task by task; what comes from pretraining and what from the prompt."""
    every = table.of(Flips, allow_absent=True)
    found: list[SummaryRow] = []
    for model, mine in every.by("model").items():
        for rate, part in mine.by("rate").items():
            setting = f"{100 * rate:g} % inverted"
            for name in ("calibrated", "raw"):
                found.append(SummaryRow.of(setting, model, f"{name}, all tasks", part.mean(name, ("task",)), unit="%"))
            for task, own in part.by("task").items():
                found.append(SummaryRow.of(setting, model, f"calibrated, {task}", own.mean("calibrated"), unit="%"))
        found += reliance(model, mine)
        found += falls(model, mine)
    drops = {m: t for m, t in every.by("model").items() if {0.0, 1.0} <= set(t.by("rate"))}
    for one, two in pairwise(drops):
        parts = [per_set(drops[m], "calibrated") for m in (one, two)]
        gap = [parts[1][0][i] - parts[1][1][i] - parts[0][0][i] + parts[0][1][i] for i in parts[0][0]]
        found.append(SummaryRow.of("0 to 100 % inverted", f"{two} - {one}", "drop", gap, unit="points"))
    return [replace(row, entry=ENTRIES[0]) for row in found]


def per_set(table: Table[Flips], name: str) -> tuple[dict[int, float], dict[int, float]]:
    """A column over tasks by set, without and with all labels inverted."""
    return table.where(rate=0.0).per_unit(name), table.where(rate=1.0).per_unit(name)


def reliance(model: str, table: Table[Flips]) -> list[SummaryRow]:
    """What turns with the labels and what stays, of the accuracy and of the log-odds."""
    if not {0.0, 1.0} <= set(table.by("rate")):
        return []
    found = []
    for name, unit in (("calibrated", "points"), ("margin", "nats")):
        none, every = per_set(table, name)
        shift, share = (100.0, 1.0) if name == "calibrated" else (0.0, 0.5)
        what = "of accuracy" if name == "calibrated" else "of the log-odds"
        stays = [share * (none[i] + every[i] - shift) for i in none]
        turns = [share * (none[i] - every[i]) for i in none]
        for words, values in (("pretraining", stays), ("prompt", turns)):
            found.append(SummaryRow.of("0 to 100 % inverted", model, f"{words}, {what}", values, unit=unit))
    return found


def falls(model: str, table: Table[Flips]) -> list[SummaryRow]:
    """A(0) - A(1), and how much less it is than a quarter of the skill 2 A(0) - 100, over tasks and task by task."""
    if not {0.0, 1.0} <= set(table.by("rate")):
        return []
    found = []
    for name, part in (("all tasks", table), *table.by("task").items()):
        none, every = per_set(part, "calibrated")
        drop = {i: none[i] - every[i] for i in none}
        left = [FLAT * (2 * none[i] - 100) - drop[i] for i in none]
        for words, values in (("drop", [*drop.values()]), ("a quarter of the skill less the drop", left)):
            found.append(SummaryRow.of(name, model, words, values, unit="points"))
    return found


def draw(table: Rows) -> Mapping[str, Picture]:
    """Accuracy against the share of inverted labels, a panel for each model (Figures 5.1 and 5.2)."""
    if not table.rows:
        return {}
    panels = []
    for model, mine in table.of(Flips, allow_absent=True).by("model").items():
        rates = mine.by("rate")
        series = [Series.of("all tasks", {100 * r: t.mean("calibrated", ("task",)) for r, t in rates.items()})]
        for task, own in mine.by("task").items():
            means = {100 * r: t.mean("calibrated").value for r, t in own.by("rate").items()}
            series += [Series.of(task, means)] if len(mine.by("task")) > 1 else []
        panels.append(Panel(series, "inverted labels (%)", "accuracy (%)", model))
    caption = (
        "Calibrated accuracy against the share of inverted labels in the prompt, with 95 % intervals over sets of "
        "demonstrations for the mean over tasks. At 100 %, above 50 means that pretraining weighs more than the prompt."
    )
    return {ENTRIES[0]: line_picture(panels, caption, same_y=True)}


def cost(trial: Trial) -> Cost:
    """By the tokens of the demonstrations, read once, and of the queries."""
    read = TOKENS * (trial.shots + trial.queries + len(CONTENT_FREE))
    return Cost(seconds(trial.model, read), mib(trial.model))


EXPERIMENT = Experiment(
    id="icl_scale/label_noise",
    title="Label noise in the prompt: what language models take from it and from pretraining",
    reproduces=ENTRIES,
    Config=Config,
    presets={
        "smoke": Config(model=("smollm2-135m",), tasks=("movies",), rates=(0.0, 1.0), shots=2, sets=1, queries=2),
        "small": Config(tasks=("movies", "products")),
        "cpu": Config(rates=(0.0, 0.25, 0.5, 0.75, 1.0), sets=8, queries=48),
        "paper": Config(
            model=(*LLAMA_CHAT, *LLAMA),
            rates=(0.0, 0.25, 0.5, 0.75, 1.0),
            sets=5,
            queries=1000,
            dtype="bfloat16",
            batch=32,
        ),
    },
    trials=trials,
    run_trial=run_trial,
    needs=needs,
    summarise=summarise,
    draw=draw,
    deviations=(
        Deviation(
            "models",
            reported="Llama chat and base models of 3B, 7B, 13B and 70B",
            ours="SmolLM2-135M-Instruct and Gemma 3 270M (base)",
            why="weights that registries carry and two cores can run; `--preset paper` names Llama 2 by hub id",
        ),
        Deviation(
            "scale",
            reported="sizes of one family, tuned alike",
            ours="an instruct model and a base model of two families",
            why="each can say whether a small model keeps to what it learnt before; a difference between them can come "
            "from family, data, tokenizer or tuning as well as from size",
        ),
        Deviation(
            "data",
            reported="five binary tasks of GLUE and Subj; names are not in the text, panels not in our copy",
            ours="four tasks of rated snippets: films, products, editorials, tweets",
            why="they come without a hub; `--dataset` takes a file of any other",
        ),
        Deviation(
            "score",
            reported="not stated",
            ours="log-probability of the whole label word, calibrated by texts about nothing; raw beside it",
            why="raw scores may follow the label word more than the text",
        ),
        Deviation(
            "unit",
            reported="5 runs of 1000 prompts",
            ours="sets of demonstrations, each with queries of its own",
            why="answers behind one set are not independent",
        ),
    ),
    cost=cost,
    incomparable=dict.fromkeys(ENTRIES, "models of 135M and 270M of two families, in place of Llama from 3B to 70B"),
    rows=(Flips,),
)
