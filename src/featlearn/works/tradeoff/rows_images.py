"""Rows of the image experiments, and what claims and summaries read from them: arms, the setting of the paper."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from featlearn.lab.quantity import COSINE, COUNT, PERCENT, POSITIVE, REAL, SEED, SHARE
from featlearn.lab.row import Row
from featlearn.lab.table import Table

CURVE, REGULARISED = "tradeoff/curve", "tradeoff/regularised"
Target = Literal["MNIST", "Fashion-MNIST", "digits"]
Source = Literal[
    "MNIST", "MNIST turned", "MNIST inverted", "Fashion-MNIST", "Fashion-MNIST turned", "Fashion-MNIST inverted",
    "digits", "digits turned", "digits inverted", "digits mirrored",
]  # fmt: skip
Method = Literal["simclr", "moco"]
Mode = Literal["start", "growing", "fixed", "single"]
How = Literal["LP", "FT", "CR", "CR then LP"]
Role = Literal["validation", "reported"]
ACCURACY = PERCENT.at_chance(10.0)
"""Of ten classes of equal size."""


@dataclass(frozen=True, kw_only=True)
class Encoded(Row):
    """An encoder: its random start, or after pretraining on the first `number` sources, all of `images` in growing
    mixtures and as many in all as one of them has in fixed ones, or on source `number` alone.

    loss, matched, spread, rank: of its last epoch (learn.contrastive.Epoch), None at the start. knn: of the target.
    """

    experiment, key = CURVE, ("target", "method", "mode", "number")
    kind: Literal["encoded"] = "encoded"
    target: Target
    method: Method
    mode: Mode
    number: Annotated[int, COUNT]
    images: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    loss: Annotated[float, REAL] | None
    matched: Annotated[float, SHARE] | None
    spread: Annotated[float, POSITIVE] | None
    rank: Annotated[float, POSITIVE] | None
    knn: Annotated[float, ACCURACY]


@dataclass(frozen=True, kw_only=True)
class Probed(Row):
    """Test accuracy of a linear probe of an encoder on one source as a task, with a share of its labels; of shares
    below 1 the mean over draws of the labels."""

    experiment, key = CURVE, ("target", "method", "mode", "number", "task", "share")
    kind: Literal["probed"] = "probed"
    target: Target
    method: Method
    mode: Mode
    number: Annotated[int, COUNT]
    task: Source
    share: Annotated[float, SHARE]
    seed: Annotated[int, SEED]
    accuracy: Annotated[float, ACCURACY]


@dataclass(frozen=True, kw_only=True)
class Alike(Row):
    """Unbiased linear CKA of two encoders of a mode on test images of the target, one < two their numbers."""

    experiment, key = CURVE, ("target", "method", "mode", "one", "two")
    kind: Literal["alike"] = "alike"
    target: Target
    method: Method
    mode: Mode
    one: Annotated[int, COUNT]
    two: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    cka: Annotated[float, REAL]


@dataclass(frozen=True, kw_only=True)
class Tuned(Row):
    """Accuracy on the target after an encoder of so many growing sources was adapted with a share of its labels: on
    test images, of validation seeds on training images that nothing else of their seed uses. Seeds draw their training
    images from one set; with 10,000 tested all of them are tested on the same images.

    rate, decay, weight: of fine-tuning, None where only a probe learns. knn, silhouette: of normalised features of
    training images of the target, 20 neighbours. None where training left the finite numbers.
    """

    experiment, key = REGULARISED, ("target", "method", "sources", "how", "share", "rate", "decay", "weight", "role")
    kind: Literal["tuned"] = "tuned"
    target: Target
    method: Method
    sources: Annotated[int, COUNT]
    how: How
    share: Annotated[float, SHARE]
    rate: Annotated[float, POSITIVE] | None
    decay: Annotated[float, POSITIVE] | None
    weight: Annotated[float, POSITIVE] | None
    role: Role
    seed: Annotated[int, SEED]
    accuracy: Annotated[float, ACCURACY] | None
    knn: Annotated[float, ACCURACY] | None
    silhouette: Annotated[float, COSINE] | None


R = TypeVar("R", bound=Row)


def arms(table: Table[R]) -> dict[tuple[str, str], Table[R]]:
    """(target, method) -> rows, in ascending order."""
    return table.by("target", "method")


GIVEN: Mapping[How, tuple[float, float, float]] = {"FT": (0.06, 5e-4, 0.0), "CR": (0.06, 5e-4, 0.1)}
"""Step size, weight decay and weight that the paper gives (tradeoff.method_cr: FT_and_Ours_resnet18, lambda)."""


def at_given(table: Table[Tuned]) -> Table[Tuned]:
    """Reported rows of one way of adapting at the setting that the paper gives, or all of them where a probe learns.

    Errors: EmptyArm where the grid does not have it.
    """
    reported, way = table.where(role="reported"), table.rows[0].how
    if way not in GIVEN:
        return reported
    rate, decay, weight = GIVEN[way]
    return reported.where(rate=rate, decay=decay, weight=weight)
