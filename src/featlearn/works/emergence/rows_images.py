"""Rows of networks on two classes of real images. The unit is a seed: a start, an order of samples and a shuffling of
the labels, of the networks of residual blocks also a sample of the training images; all seeds of a pair have one set of
test images, where that is not larger than what is asked for."""

from dataclasses import dataclass
from typing import Annotated, Literal

from featlearn.lab.quantity import COSINE, COUNT, PERCENT, POSITIVE, SEED, SHARE
from featlearn.lab.row import Row

CLUSTERS, FILTERS = "emergence/clusters", "emergence/filters"
Pair = Literal[
    "CIFAR-10 airplane/automobile",
    "SVHN 0/1",
    "MNIST 0/1",
    "MNIST 4/9",
    "Fashion-MNIST t-shirt/trouser",
    "Fashion-MNIST pullover/coat",
    "digits 0/1",
    "digits 4/9",
]
Labels = Literal["true", "shuffled"]
CHOICE = PERCENT.at_chance(50.0)
"""Of two classes of equal size."""


@dataclass(frozen=True, kw_only=True)
class Parted(Row):
    """Directions of the neurons of a two-layer network at a snapshot: cosine silhouette of spherical k-means with
    k = 2, 3 and 4, and the cosine of the two centres of k = 2."""

    experiment, key = CLUSTERS, ("pair", "labels", "snapshot")
    kind: Literal["parted"] = "parted"
    pair: Pair
    labels: Labels
    snapshot: Literal["start", "early", "epoch 1", "end"]
    seed: Annotated[int, SEED]
    silhouette_2: Annotated[float, COSINE]
    silhouette_3: Annotated[float, COSINE]
    silhouette_4: Annotated[float, COSINE]
    centres: Annotated[float, COSINE]


@dataclass(frozen=True, kw_only=True)
class Learnt(Row):
    """Accuracy of the two-layer network at the end: on the labels that it was trained on, and on those of test
    images."""

    experiment, key = CLUSTERS, ("pair", "labels")
    kind: Literal["learnt"] = "learnt"
    pair: Pair
    labels: Labels
    seed: Annotated[int, SEED]
    train_acc: Annotated[float, CHOICE]
    test_acc: Annotated[float, CHOICE]


@dataclass(frozen=True, kw_only=True)
class Trained(Row):
    """Accuracy of ResNet(width) after the last epoch: on the labels that it was trained on, and on those of test
    images."""

    experiment, key = FILTERS, ("pair", "width", "labels")
    kind: Literal["trained"] = "trained"
    pair: Pair
    width: Annotated[int, COUNT]
    labels: Labels
    seed: Annotated[int, SEED]
    train_acc: Annotated[float, CHOICE]
    test_acc: Annotated[float, CHOICE]


@dataclass(frozen=True, kw_only=True)
class Moved(Row):
    """How far the last convolution of a stage moves: the Frobenius norm of its change from the start to the early
    snapshot and from there to the end, and the share of the first in the sum of both."""

    experiment, key = FILTERS, ("pair", "width", "labels", "stage")
    kind: Literal["moved"] = "moved"
    pair: Pair
    width: Annotated[int, COUNT]
    labels: Labels
    stage: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    early: Annotated[float, POSITIVE]
    late: Annotated[float, POSITIVE]
    early_share: Annotated[float, SHARE]


@dataclass(frozen=True, kw_only=True)
class Grouped(Row):
    """Two groups of filters of the last convolution of a stage at a snapshot, chosen there or at the end.

    members: of each group. green, red: mean cosine of a member with the centre of its group, green that of the larger
    cluster; to_centre: mean of both. within: mean cosine of two members of one group, which the number of members does
    not raise. centres: cosine of the two centres.
    """

    experiment, key = FILTERS, ("pair", "width", "labels", "stage", "snapshot", "chosen")
    kind: Literal["grouped"] = "grouped"
    pair: Pair
    width: Annotated[int, COUNT]
    labels: Labels
    stage: Annotated[int, COUNT]
    snapshot: Literal["start", "early", "end"]
    chosen: Literal["there", "at the end"]
    seed: Annotated[int, SEED]
    members: Annotated[int, COUNT]
    green: Annotated[float, COSINE]
    red: Annotated[float, COSINE]
    to_centre: Annotated[float, COSINE]
    within: Annotated[float, COSINE]
    centres: Annotated[float, COSINE]


@dataclass(frozen=True, kw_only=True)
class Early(Row):
    """Mean gradients v1, v2, v3 of the first three times ten steps in the last convolution of the last stage, and their
    mean v: six cosines as Table 7 has them, and the three norms as shares of their sum.

    filters: chosen, the one nearest to the centre of the green group at the end; all, the mean over all filters; mixed,
    v1, v2 and v3 of three different filters, the mean over drawn triples, which have no direction in common unless all
    filters have.
    """

    experiment, key = FILTERS, ("pair", "width", "labels", "filters")
    kind: Literal["early"] = "early"
    pair: Pair
    width: Annotated[int, COUNT]
    labels: Labels
    filters: Literal["chosen", "all", "mixed"]
    seed: Annotated[int, SEED]
    dimension: Annotated[int, COUNT]
    cos_v1_vbar: Annotated[float, COSINE]
    cos_v2_vbar: Annotated[float, COSINE]
    cos_v3_vbar: Annotated[float, COSINE]
    cos_v1_v2: Annotated[float, COSINE]
    cos_v1_v3: Annotated[float, COSINE]
    cos_v2_v3: Annotated[float, COSINE]
    norm_1: Annotated[float, SHARE]
    norm_2: Annotated[float, SHARE]
    norm_3: Annotated[float, SHARE]
