"""Rows of the experiments on in-context learning: regression under a rank limit, label noise on language models.

On language models the unit is the set of demonstrations, which its queries share (`Flips`), or the sentence (`Focus`).
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from featlearn.lab.quantity import COUNT, NAME, PERCENT, POSITIVE, REAL, SEED, SHARE
from featlearn.lab.row import Row

RANK_NOISE = "icl_scale/rank_noise"
LABEL_NOISE, ATTENTION = "icl_scale/label_noise", "icl_scale/attention"


@dataclass(frozen=True, kw_only=True)
class Flips(Row):
    """Queries of one task behind one set of demonstrations, a share `rate` of whose labels is inverted.

    set: number of the set, whose demonstrations and queries are the same at every rate and for every model. shown:
    demonstrations that fit; inverted: of them with the other label. raw, calibrated: accuracy of the label with the
    larger score, as it is and after contextual calibration. margin: mean log-odds of the true label, in nats; classes
    are balanced, so that calibration does not move it. bias: log-odds of the second label behind no content.
    """

    experiment, unit, key = LABEL_NOISE, "set", ("model", "task", "rate")
    kind: Literal["flips"] = "flips"
    model: Annotated[str, NAME]
    task: Annotated[str, NAME]
    rate: Annotated[float, SHARE]
    set: Annotated[int, SEED]
    shown: Annotated[int, COUNT]
    inverted: Annotated[int, COUNT]
    queries: Annotated[int, COUNT]
    raw: Annotated[float, PERCENT.at_chance(50.0)]
    calibrated: Annotated[float, PERCENT.at_chance(50.0)]
    margin: Annotated[float, REAL]
    bias: Annotated[float, REAL]


@dataclass(frozen=True, kw_only=True)
class Focus(Row):
    """Attention in the last layer from a label's last token to the sentence it labels and to an irrelevant one.

    order: which of the two sentences comes first. relevant, irrelevant: norm over heads and tokens of the sentence;
    focus: log2 of relevant over irrelevant, each divided by the root of its number of tokens, so that attention which
    is equal everywhere gives 0.
    """

    experiment, unit, key = ATTENTION, "sentence", ("model", "task", "label", "order")
    kind: Literal["focus"] = "focus"
    model: Annotated[str, NAME]
    task: Annotated[str, NAME]
    label: Literal["correct", "wrong"]
    order: Literal["relevant first", "irrelevant first"]
    sentence: Annotated[int, SEED]
    relevant: Annotated[float, POSITIVE]
    irrelevant: Annotated[float, POSITIVE]
    focus: Annotated[float, REAL]
