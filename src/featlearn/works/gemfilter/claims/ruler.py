"""The tasks of RULER, made anew: whether GemFilter loses to the full cache, task by task, for two models and budgets.

Fixed before any row of `gemfilter/ruler`: the tasks and their prompts, the budgets, the margin, that haystacks are what
is independent within a task, that tasks are not averaged, and by which rule a task has too little to lose. A claim is
one model and one budget: with more statements in it, a loss of all ten haystacks could not be told.
"""

from collections.abc import Mapping, Sequence
from typing import get_args

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import POINTS
from featlearn.lab.statement import Statement, at_least
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Observation
from featlearn.works.gemfilter.rows import OURS
from featlearn.works.gemfilter.rows_ruler import FLOOR, Kind, RulerScore, at_the_floor, difference, full_cache

TASKS: tuple[Kind, ...] = get_args(Kind)
MODELS = {"smollm2-135m": "SmolLM2-135M-Instruct", "gemma3-270m": "Gemma-3-270m"}
BUDGETS = (256, 512, 1024)
MARGIN = 5.0
"""Points that count as no difference."""

NAMES = {task: f"score in {task}: GemFilter less the full cache" for task in TASKS}

Setting = tuple[str, int]
"""A model and a budget."""


def says(settings: Setting) -> Sequence[Statement]:
    """Non-inferiority in each task."""
    return [
        at_least(
            name,
            POINTS,
            -MARGIN,
            "a criterion of ours on tasks of RULER: no loss, as Section 9.4 has it of other tasks; over haystacks",
            rival=-2 * MARGIN,
            rival_says="a loss of twice the margin",
            form="criterion",
            expect="inconclusive",
        )
        for name in NAMES.values()
    ]


def sees(settings: Setting, table: Table[RulerScore]) -> Mapping[str, Observation]:
    """Differences over the haystacks of each task; at the floor they have no room, and count for nothing."""
    model, budget = settings
    found = table.where(model=model).by("task")
    return {name: difference(found[task], OURS, budget) for task, name in NAMES.items()}


def premises(settings: Setting, table: Table[RulerScore]) -> tuple[Premise, ...]:
    """Neither the models nor the benchmarks of the work, and tasks in which the full cache has something to lose."""
    model, _ = settings
    parts = table.where(model=model).by("task")
    scores = {task: full_cache(part) for task, part in parts.items()}
    off = [task for task, full in scores.items() if not at_the_floor(full)]
    left = f"{len(off)} of {len(TASKS)} are: {', '.join(off) or 'none'}"
    return (
        Premise("Llama 3.1 8B, Mistral Nemo 12B or Phi 3.5 Mini", False, f"{MODELS[model]}, 4096 tokens", size=True),
        Premise("needles in a haystack, or LongBench", False, "tasks of RULER, made anew: no entry is about them"),
        Premise(f"some task is off the floor: the full cache may reach {FLOOR:g} %", bool(off), left),
    )


def _claim(model: str, budget: int) -> Claim:
    short = model.partition("-")[0]
    return Claim(
        id=f"gemfilter.ruler_{short}_{budget}",
        entries=(),
        says=f"On {MODELS[model]}, with {budget} of 4096 tokens kept, GemFilter scores no less than the full cache in "
        f"each task of RULER, made anew, that is off the floor, within {MARGIN:g} points.",
        settings=(model, budget),
        statements=says,
        observe=sees,
        premises=premises,
        reads=(RulerScore,),
        remarks="Ten haystacks a task are few. Where a reply is right or wrong, ten without any difference leave an "
        "interval of more than fifty points to either side: no loss within five points can be confirmed there, only a "
        "gain, and only a loss of all ten contradicts. Tasks at the floor are too weak to test. Nothing is said of "
        "tasks together.",
    )


CLAIMS: tuple[Claim, ...] = tuple(_claim(model, budget) for model in MODELS for budget in BUDGETS)
