"""The kinds of task of LongBench on a generated set: what a budget costs by method, by filter layer, by template.

The work reports 14 data sets of LongBench for three models (Table 9.1), by filter layer (Table 9.2) and with a chat
template (Table G.1). LongBench itself is data that the user has (`featlearn gemfilter longbench`); this set is made of
the same kinds of task at lengths that small models read, graded by the same metrics.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, cast

from featlearn.core import Key, SettingError
from featlearn.data.texts import essays, split
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.lab.inventory import reported
from featlearn.lab.uncertainty import Estimate
from featlearn.report import style
from featlearn.report.plots import Picture, bars_against_reported
from featlearn.tasks.miniset import KINDS, Item, grade, miniset
from featlearn.tasks.prompts import prompt as prompt_of_item
from featlearn.works.gemfilter.experiments.prompts import SETS, OnTexts, loaded, needs
from featlearn.works.gemfilter.experiments.replies import chosen_layers, replies
from featlearn.works.gemfilter.rows import (
    FULL,
    H2O,
    OFF_THE_FLOOR,
    OURS,
    RAW_ROW,
    SNAPKV,
    Method,
    Score,
    Task,
    by_unit,
    mean_by_unit,
    off_the_floor,
)

ENTRIES = ("gemfilter.table9_1", "gemfilter.table9_2", "gemfilter.tableG_1")
WHY = "SmolLM2-135M on generated tasks, in place of models of 4 to 12 billion weights on LongBench"
METHODS: tuple[Method, ...] = (FULL, RAW_ROW, OURS, SNAPKV, H2O)


@dataclass(frozen=True, kw_only=True)
class Config(OnTexts):
    """Scores by kind of task, method and budget; with or without chat template; by filter layer."""

    length: int = 1024
    """Most tokens of a prompt."""
    count: int = 2
    """Items of each of the six kinds."""
    shares: tuple[float, ...] = (0.25,)
    """Budgets, as shares of the length."""
    layers: tuple[int, ...] = (-1,)
    """Filter layers of GemFilter; -1 for the recommended one of the model. More than one: Table 9.2."""
    chat: tuple[bool, ...] = (True,)
    """Ask through the model's chat template; both values: Table G.1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length < 512:
            raise SettingError("length", self.length, "at least 512 tokens", "1024 to 3072 suits small models")
        if self.count < 1:
            raise SettingError("count", self.count, "at least 1 item of each kind", "2 is quick, 20 tells more")
        if not self.shares or not all(0 < s <= 1 for s in self.shares) or min(self.shares) * self.length < 64:
            least = f"shares in (0, 1] that leave 64 tokens of {self.length}"
            raise SettingError("shares", self.shares, least, "0.25 and 0.125 are usual")
        if not self.layers or len(set(self.layers)) < len(self.layers):
            raise SettingError("layers", self.layers, "different layers, at least one", "-1 takes the recommended one")
        if not self.chat or len(set(self.chat)) < len(self.chat):
            raise SettingError("chat", self.chat, "True, False, or both", "give each once")


@dataclass(frozen=True)
class Trial:
    """One item of each kind."""

    model: str
    haystack: str
    length: int
    item: int
    shares: tuple[float, ...]
    layers: tuple[int, ...]
    chat: bool
    which: str
    dtype: str
    device: str


def trials(config: Config) -> list[Trial]:
    """One trial per item and template."""
    c = config
    return [
        Trial(c.model, c.haystack, c.length, i, c.shares, c.layers, chat, c.which, c.dtype, c.device)
        for i, chat in itertools.product(range(c.count), c.chat)
    ]


@lru_cache(maxsize=2)
def _items(model: str, haystack: str, length: int, which: str, dtype: str, device: str, count: int) -> tuple[Item, ...]:
    texts = split(essays(haystack), 0.5)[SETS.index(which)]
    return tuple(miniset(texts, count, length, loaded(model, dtype, device)[1], Key("gemfilter/minibench"), which))


def run_trial(trial: Trial) -> TrialResult:
    """Ask one item of each kind, with every method, budget and layer."""
    model, tokenizer = loaded(trial.model, trial.dtype, trial.device)
    every = _items(trial.model, trial.haystack, trial.length, trial.which, trial.dtype, trial.device, trial.item + 1)
    rows: list[Score] = []
    for item in every[trial.item :: trial.item + 1]:
        prompt = prompt_of_item(tokenizer, item, chat=trial.chat, longest=trial.length)
        n = prompt.input_ids.shape[1]
        budgets = [max(64, round(s * trial.length)) for s in trial.shares]
        for place, wanted in enumerate(trial.layers):
            layer, scoring, raw_layer = chosen_layers(model, wanted, wanted)
            found = replies(
                model,
                tokenizer,
                prompt.input_ids,
                prompt.protected(4),
                budgets=[min(b, n) for b in budgets],
                layer=layer,
                scoring=scoring,
                raw_layer=raw_layer,
                max_new_tokens=item.max_new_tokens,
                rows=METHODS if place == 0 else (RAW_ROW, OURS),
            )
            several = len(trial.layers) > 1
            rows += [
                Score(
                    chat=trial.chat,
                    task=cast("Task", item.kind),
                    item=trial.item,
                    method=method,
                    budget=0 if method == FULL else budget,
                    layer=layer if several and method in (RAW_ROW, OURS) else None,
                    score=100.0 * grade(item, reply.text),
                    tokens=n,
                    kept=n if method == FULL else budget,
                    reply=reply.text,
                )
                for (method, budget), reply in found.items()
            ]
    return TrialResult(rows)


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Mean score by task and over tasks, over the tasks that the full cache can do, and differences to it there."""
    found = []
    for chat, setting in table.of(Score, allow_absent=True).by("chat").items():
        words = "chat" if chat else "plain"
        tasks = off_the_floor(setting)
        able = setting.keep(partial(_off, tasks), OFF_THE_FLOOR) if tasks else None
        for arm, part in setting.by("method", "budget", "layer").items():
            row = named(*arm)
            for task, mine in part.by("task").items():
                found.append(SummaryRow.of(words, row, task, mean_by_unit(mine, "score"), entry=ENTRIES[0], unit="%"))
            average = mean_by_unit(part, "score")
            found.append(SummaryRow.of(words, row, "average", average, entry=ENTRIES[0], unit="%"))
            found += not_comparable(words, row, average, arm)
            if able is not None and arm[0] != FULL:
                full = by_unit(able.where(method=FULL), "score")
                mine = by_unit(able.where(method=arm[0], budget=arm[1], layer=arm[2]), "score")
                metric = "difference to full, tasks off the floor"
                gap = [mine[i] - full[i] for i in mine]
                found.append(SummaryRow.of(words, row, metric, gap, entry=ENTRIES[0], unit="points"))
    return found


def _off(tasks: tuple[str, ...], row: Score) -> bool:
    return row.task in tasks


def not_comparable(setting: str, row: str, ours: Estimate, arm: tuple[Any, ...]) -> list[SummaryRow]:
    """Reported averages at 8 % and 32 % of the prompt beside ours at 1/8 and 1/4: other models, other data sets."""
    names = {FULL: "All KV", OURS: "GemFilter", SNAPKV: "SnapKV", H2O: "H2O"}
    kept = {0: "", 128: "-1024", 256: "-4096"}
    made = []
    if arm[0] in names and arm[1] in kept and arm[2] is None:
        for entry in (ENTRIES[2],) if setting == "chat" else (ENTRIES[0],):
            for number in reported(entry, row=names[arm[0]] + kept[arm[1]], metric="average"):
                beside = f"{setting}, beside {number.setting or 'Table G.1'}"
                theirs = SummaryRow.of(beside, row, "average", ours, entry=entry, unit="%")
                made.append(replace(theirs, reported=number.value, verdict="not comparable"))
    return made


def named(method: str, budget: int, layer: int | None) -> str:
    """Words for an arm."""
    return method + (f"-{budget}" if budget else "") + ("" if layer is None else f", layer {layer}")


def draw(table: Rows) -> Mapping[str, Picture]:
    """Average score by method and budget."""
    rows = [r for r in summarise(table) if r.metric == "average" and r.reported is None]
    if not rows:
        return {}
    fig = style.figure(8, 1.6 + 0.42 * len(rows))
    bars_against_reported(fig, rows, "average", label="average over kinds of task (%)")
    data = [{"template": r.setting, "method": r.row, "average": r.value, "low": r.low, "high": r.high} for r in rows]
    caption = "Average score over six kinds of task by method and budget, intervals over items."
    return {ENTRIES[0]: Picture(fig, caption, data=data)}


def cost(trial: Trial) -> Cost:
    """Measured for SmolLM2 on one core."""
    n, methods = trial.length, 4 * len(trial.shares) + 2 * (len(trial.layers) - 1) * len(trial.shares)
    return Cost(len(KINDS) * len(trial.layers) * (n * 0.007 * (1 + n / 5000) + 1.2 * methods), 1500 + n * 0.3)


EXPERIMENT = Experiment(
    id="gemfilter/minibench",
    title="Kinds of long-prompt task by method and budget",
    reproduces=ENTRIES,
    Config=Config,
    presets={
        "smoke": Config(length=512, count=1),
        "small": Config(),
        "paper": Config(count=6, shares=(0.25, 0.125), chat=(True, False)),
    },
    trials=trials,
    run_trial=run_trial,
    needs=needs,
    summarise=summarise,
    draw=draw,
    deviations=(
        Deviation(
            "data",
            reported="14 data sets of LongBench",
            ours="a generated set of six kinds",
            why="LongBench cannot be bundled",
        ),
        Deviation(
            "model",
            reported="LLaMA 3.1 8B, Mistral Nemo 12B, Phi 3.5 Mini",
            ours="SmolLM2-135M",
            why="see gemfilter/needle",
        ),
        Deviation(
            "budgets",
            reported="1024, 2048, 4096 of 12.8k tokens on average",
            ours="1/4 and 1/8",
            why="8 % and 32 % are reported",
        ),
    ),
    cost=cost,
    incomparable=dict.fromkeys(ENTRIES, WHY),
    rows=(Score,),
)
