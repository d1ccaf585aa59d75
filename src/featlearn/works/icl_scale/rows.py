"""Rows of the experiments on in-context learning: regression under a rank limit, label noise on language models.

On language models the unit is the set of demonstrations, which its queries share (`Flips`), or the sentence (`Focus`).
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from featlearn.lab.quantity import COUNT, NAME, PERCENT, POSITIVE, REAL, SEED, SHARE, Quantity
from featlearn.lab.row import Row

RANK_NOISE = "icl_scale/rank_noise"
LABEL_NOISE, ATTENTION = "icl_scale/label_noise", "icl_scale/attention"
Form = Literal["U and u", "all weights"]
RESTRICTED: Form = "U and u"
FREE: Form = "all weights"
DEGREES = Quantity("angle", "degrees", 0.0, 90.0)


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


@dataclass(frozen=True, kw_only=True)
class Trained(Row):
    """A layer of rank r, trained by gradients from a random start on prompts of n examples.

    form: which weights are trained, those of Eq. (5.3) alone or all of Eq. (5.1). start, end: loss less the least one
    of rank r, on average over prompts; even: the part of `end` that comes from answers that do not change with the sign
    of the labels; angle: the largest one between the columns of U and the first r eigenvectors, None for r = d.
    """

    experiment, key = RANK_NOISE, ("form", "rank")
    kind: Literal["trained"] = "trained"
    form: Form
    rank: Annotated[int, COUNT]
    n: Annotated[int, COUNT]
    steps: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    start: Annotated[float, POSITIVE]
    end: Annotated[float, POSITIVE]
    even: Annotated[float, POSITIVE]
    angle: Annotated[float, DEGREES] | None


@dataclass(frozen=True, kw_only=True)
class Answered(Row):
    """Mean square error of answers to prompts of m examples with labels of noise sigma, with 1 for the coordinates of w
    along the first `signal` eigenvectors and 0 for the others. loss: of the trained layer of rank r, form U and u;
    optimal: of the closed form, on the same prompts."""

    experiment, key = RANK_NOISE, ("signal", "m", "noise", "rank")
    kind: Literal["answered"] = "answered"
    signal: Annotated[int, COUNT]
    m: Annotated[int, COUNT]
    noise: Annotated[float, POSITIVE]
    rank: Annotated[int, COUNT]
    n: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    loss: Annotated[float, POSITIVE]
    optimal: Annotated[float, POSITIVE]
