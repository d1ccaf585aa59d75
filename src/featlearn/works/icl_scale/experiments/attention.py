"""Where a label looks: attention in the last layer to the sentence that it labels and to an irrelevant one beside it.

Figure 5.3 puts a sentence of GSM-IC to one of SST-2 and compares Llama 2 13B and 70B by the norm of the last row of
the last layer's attention, over all heads. Which norm, and where the sentence stands, is left open: here it is the root
of the sum of squares over heads and tokens of a sentence, and either sentence comes first. Norms grow with the number
of tokens, so that beside them stands the ratio of the two by token, whose log2 is 0 for attention that is equal
everywhere.

Fixed before any row: a sentence is the independent unit, with all four prompts made of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Literal, get_args

import numpy as np

from featlearn.core import Key, SettingError
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate
from featlearn.methods.in_context import label_attention
from featlearn.report.plots import Panel, Picture, Series, line_picture
from featlearn.tasks.demonstrations import Template, drawn, irrelevant
from featlearn.works.icl_scale.experiments.texts import (
    LLAMA,
    TOKENS,
    OnTexts,
    loaded,
    mib,
    needs,
    seconds,
    task_of,
)
from featlearn.works.icl_scale.rows import Focus

ENTRY = "icl_scale.figure5_3"
Label = Literal["correct", "wrong"]
Order = Literal["relevant first", "irrelevant first"]


@dataclass(frozen=True, kw_only=True)
class Config(OnTexts):
    """Attention of a label to a relevant and to an irrelevant sentence."""

    tasks: tuple[str, ...] = ("movies",)
    """Some of the tasks of the data set; none for all. The one of films is nearest to SST-2."""
    sentences: int = 24
    """Sentences of each task; an even number takes both classes alike."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sentences < 2:
            raise SettingError("sentences", self.sentences, "at least 2", "100 are reported")


@dataclass(frozen=True)
class Trial:
    """One sentence, with either label and in either order."""

    model: str
    dataset: str
    content: str
    task: str
    sentence: int
    sentences: int
    template: str
    words: tuple[str, ...]
    dtype: str
    device: str


def trials(config: Config) -> list[Trial]:
    """One trial per sentence; models slowest."""
    c, content = config, config.content()
    return [
        Trial(m, c.dataset, content, task, i, c.sentences, c.template, c.words, c.dtype, c.device)
        for m in c.model
        for task in c.names()
        for i in range(c.sentences)
    ]


def run_trial(trial: Trial) -> TrialResult:
    """Read the four prompts of one sentence."""
    model, tokenizer = loaded(trial.model, trial.dtype, trial.device)
    task = task_of(trial.dataset, trial.task)
    template, words = Template(trial.template.replace("\\n", "\n")), trial.words or task.words
    key = Key("icl_scale/attention") / trial.task
    i = drawn(task.labels, 1, trial.sentences, key).queries[trial.sentence]
    parts = {"relevant": task.texts[i], "irrelevant": irrelevant(key / trial.sentence)}
    rows = []
    for order in get_args(Order):
        first = order.split()[0]
        names = (first, next(n for n in parts if n != first))
        text, begin = " ".join(parts[n] for n in names), len(template.parts[0])
        second = begin + len(parts[first]) + 1
        spans = {first: (begin, second - 1), names[1]: (second, begin + len(text))}
        for label in get_args(Label):
            word = words[task.labels[i] if label == "correct" else 1 - task.labels[i]]
            asked = template.question(text) + template.continuation(word)
            near, far = label_attention(model, tokenizer, asked, [spans["relevant"], spans["irrelevant"]])
            ratio = near.norm / far.norm * (far.tokens / near.tokens) ** 0.5
            rows.append(
                Focus(
                    model=trial.model,
                    task=trial.task,
                    label=label,
                    order=order,
                    sentence=trial.sentence,
                    relevant=near.norm,
                    irrelevant=far.norm,
                    focus=log2(ratio),
                )
            )
    return TrialResult(rows)


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Norms and focus by label, over both orders; focus by order beside it, and the same not by token."""
    found: list[SummaryRow] = []
    for model, mine in table.of(Focus, allow_absent=True).by("model").items():
        for label, part in mine.by("label").items():
            for name in ("relevant", "irrelevant", "focus"):
                made = part.mean(name, ("task", "order"))
                found.append(SummaryRow.of(f"label {label}", model, name, made))
            found.append(SummaryRow.of(f"label {label}", model, "log2 of norms", plain(part)))
            for order, own in part.by("order").items():
                found.append(SummaryRow.of(f"label {label}, {order}", model, "focus", own.mean("focus", ("task",))))
                found.append(SummaryRow.of(f"label {label}, {order}", model, "log2 of norms", plain(own)))
    return [replace(row, entry=ENTRY) for row in found]


def plain(table: Table[Focus]) -> list[float]:
    """log2 of relevant over irrelevant as they are, by sentence; grows with how much longer the relevant one is."""
    return [
        float(np.mean([log2(r.relevant / r.irrelevant) for r in own.rows])) for own in table.by("sentence").values()
    ]


def draw(table: Rows) -> Mapping[str, Picture]:
    """Norms against the number of the sentence, as Figure 5.3: a panel for each model and label."""
    if not table.rows:
        return {}
    panels = []
    for (model, label), part in table.of(Focus, allow_absent=True).by("model", "label").items():
        series = []
        for name in ("relevant", "irrelevant"):
            means: dict[int, Estimate | float] = {
                i: float(own.column(name).mean()) for i, own in part.by("sentence").items()
            }
            series.append(Series.of(name, means))
        panels.append(Panel(series, "sentence", "norm of attention", f"{model}, {label} label"))
    caption = (
        "Norm of the last layer's attention from the label to the sentence that it labels and to an irrelevant one, "
        "over all heads, mean of both orders."
    )
    return {ENTRY: line_picture(panels, caption)}


def cost(trial: Trial) -> Cost:
    """Four prompts of two sentences, each read by modules of its own."""
    return Cost(1.0 + seconds(trial.model, 4 * 2 * TOKENS), mib(trial.model))


EXPERIMENT = Experiment(
    id="icl_scale/attention",
    title="Attention of a label to relevant and irrelevant sentences",
    reproduces=(ENTRY,),
    Config=Config,
    presets={
        "smoke": Config(model=("smollm2-135m",), sentences=2),
        "small": Config(),
        "cpu": Config(sentences=100),
        "paper": Config(model=LLAMA[1:], sentences=100, dtype="bfloat16"),
    },
    trials=trials,
    run_trial=run_trial,
    needs=needs,
    summarise=summarise,
    draw=draw,
    deviations=(
        Deviation(
            "models",
            reported="Llama 2 of 13B and 70B",
            ours="SmolLM2-135M-Instruct and Gemma 3 270M (base)",
            why="see icl_scale/label_noise",
        ),
        Deviation(
            "data",
            reported="SST-2 with sentences of GSM-IC",
            ours="rated snippets on films with generated sentences on people and numbers",
            why="they come without a hub; the two kinds differ in words too, so content and relevance are not "
            "separated",
        ),
        Deviation(
            "norm",
            reported="norm of the last row, over all heads; kind and place of the sentence are open",
            ours="root of the sum of squares over heads and tokens; either sentence first",
            why="a label looks at what stands near it",
        ),
    ),
    cost=cost,
    incomparable={ENTRY: "models of 135M and 270M of two families, in place of Llama 2 of 13B and 70B"},
    rows=(Focus,),
)
