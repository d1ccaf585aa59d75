"""The target, a question of ours: whether 256 tokens kept lose less than five points of right answers, by length.

Fixed before any row of `gemfilter/target`: the margin, the lengths, that kinds of sentence are what is independent, the
rule that chooses a candidate on other kinds and texts, and that a length counts only where the full cache answers
enough for a loss to show. A claim is one model.
"""

from collections.abc import Mapping, Sequence

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import POINTS
from featlearn.lab.statement import Statement, at_least
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Observation
from featlearn.works.gemfilter.rows import FULL, mean_by_unit
from featlearn.works.gemfilter.rows_target import (
    CHOSEN,
    MARGIN,
    TargetAnswer,
    ValidationAnswer,
    by_the_rule,
    difference,
)

MODELS = {"smollm2-135m": "SmolLM2-135M-Instruct", "gemma3-270m": "Gemma-3-270m"}
LENGTHS = (1024, 2048)
FLOOR = 4 * MARGIN
"""Percent of the needles that the full cache has to answer: where it answers few, what is dropped cannot show."""
NAMES = {n: f"right answers of {n} tokens: the chosen selection less the full cache" for n in LENGTHS}


def says(settings: str) -> Sequence[Statement]:
    """Non-inferiority at each length."""
    return [
        at_least(
            name,
            POINTS,
            -MARGIN,
            "a criterion of ours: no loss within five points, over kinds of sentence",
            rival=-2 * MARGIN,
            rival_says="a loss of twice the margin",
            form="criterion",
            expect="inconclusive",
        )
        for name in NAMES.values()
    ]


def sees(settings: str, table: Table[TargetAnswer], validation: Table[ValidationAnswer]) -> Mapping[str, Observation]:
    """Differences over kinds of sentence of the reported rows, each the mean over its depths."""
    parts = table.where(model=settings).by("length")
    return {name: difference(parts[n], CHOSEN[settings]) for n, name in NAMES.items()}


def premises(settings: str, table: Table[TargetAnswer], validation: Table[ValidationAnswer]) -> tuple[Premise, ...]:
    """Neither the models nor a number of the work, a candidate that the rule chose, and a full cache that can lose."""
    rule, chosen = by_the_rule(validation).get(settings, "none"), CHOSEN[settings]
    parts = table.where(model=settings, method=FULL).by("length")
    shares = [mean_by_unit(parts[n], "accuracy").value for n in LENGTHS]
    said = ", ".join(f"{s:.0f} % of {n} tokens" for s, n in zip(shares, LENGTHS, strict=True))
    return (
        Premise("Llama 3.1 8B, Mistral Nemo 12B or Phi 3.5 Mini", False, f"{MODELS[settings]}, 256 kept", size=True),
        Premise("a number of the work", False, "a target of ours: no entry is about it"),
        Premise(f"{chosen} is what the rule chooses on other kinds and texts", rule == chosen, f"it chooses {rule}"),
        Premise(f"the full cache answers at least {FLOOR:g} % at each length", min(shares) >= FLOOR, said),
    )


def _claim(model: str) -> Claim:
    return Claim(
        id=f"gemfilter.target_{model.partition('-')[0]}",
        entries=(),
        says=f"On {MODELS[model]}, with 256 of 1024 and of 2048 tokens kept, the selection that was chosen on other "
        f"kinds of sentence and other texts answers no fewer needles of 86 kinds than the full cache, within "
        f"{MARGIN:g} points.",
        settings=model,
        statements=says,
        observe=sees,
        premises=premises,
        reads=(TargetAnswer, ValidationAnswer),
        remarks="Confirmed where the lower end of the 90 % interval lies above the margin, one-sided at 5 %; the "
        "summary of the experiment shows the 95 % interval. Nothing is said of lengths together.",
    )


CLAIMS: tuple[Claim, ...] = tuple(_claim(model) for model in MODELS)
