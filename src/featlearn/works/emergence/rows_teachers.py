"""Rows of the two experiments in which a network labels inputs for others: the unit is a seed, which draws images,
Gaussian inputs, starts and orders; images come from one published set of training and one of test images, so that seeds
share some of them."""

from dataclasses import dataclass
from typing import Annotated, Literal

from featlearn.lab.quantity import COUNT, PERCENT, POINTS, POSITIVE, SEED, SHARE
from featlearn.lab.row import Row

TEACHER, STRUCTURE = "emergence/teacher", "emergence/input_structure"
Target = Literal["digits", "MNIST", "Fashion-MNIST", "CIFAR-10", "SVHN"]
Net = Literal["FC", "ResNet"]
Injected = Literal["Gaussian", "images"]
Part = Literal["data", "injected", "mixture"]
Arm = Literal["set", "chosen", "small", "middle", "large"]
"""Who labels the inputs of a curve: the set itself; the teacher that its curve chooses, and three of fixed sizes, which
label Gaussian inputs."""


@dataclass(frozen=True, kw_only=True)
class Fitted(Row):
    """A network of one size on one training set: loss and accuracy on it and on fresh inputs, labelled as it is."""

    experiment, key = TEACHER, ("arm", "size")
    kind: Literal["fitted"] = "fitted"
    arm: Arm
    size: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    train_loss: Annotated[float, POSITIVE]
    train_acc: Annotated[float, PERCENT]
    test_loss: Annotated[float, POSITIVE]
    test_acc: Annotated[float, PERCENT]


@dataclass(frozen=True, kw_only=True)
class Minimum(Row):
    """What a curve says. examples, pixels: of its training set, and of an edge. teacher: size of who labels, 0 for the
    set, None where the set's curve chooses none. least: size of the least test loss in the classical regime; peak: size
    at which it ends; rise: of the loss from one to the other, as a factor; all None where there is no such regime.
    descends: whether a larger size than the peak has less loss."""

    experiment, key = TEACHER, ("arm",)
    kind: Literal["minimum"] = "minimum"
    arm: Arm
    seed: Annotated[int, SEED]
    target: Target
    examples: Annotated[int, COUNT]
    pixels: Annotated[int, COUNT]
    teacher: Annotated[int, COUNT] | None
    least: Annotated[int, COUNT] | None
    peak: Annotated[int, COUNT] | None
    rise: Annotated[float, POSITIVE] | None
    descends: bool | None


@dataclass(frozen=True, kw_only=True)
class Balance(Row):
    """Labels that a teacher gives to fresh Gaussian inputs, trained with the regulariser on others and without, from
    one start and in one order: Kullback-Leibler divergence of their shares from uniform in nats, of the mean
    prediction, the largest share, and its accuracy on test images."""

    experiment, key = TEACHER, ("regularised",)
    kind: Literal["balance"] = "balance"
    regularised: Literal["yes", "no"]
    seed: Annotated[int, SEED]
    size: Annotated[int, COUNT]
    divergence: Annotated[float, POSITIVE]
    mean_divergence: Annotated[float, POSITIVE]
    largest: Annotated[float, PERCENT]
    test_acc: Annotated[float, PERCENT]


@dataclass(frozen=True, kw_only=True)
class Labels(Row):
    """What a teacher says of fresh inputs of one part: the share of its most frequent class, and the divergence of the
    shares from uniform in nats; of images of the set also its accuracy. examples, pixels: of its training set, and of
    an edge."""

    experiment, key = STRUCTURE, ("target", "net", "injected", "part")
    kind: Literal["labels"] = "labels"
    target: Target
    net: Net
    injected: Injected
    part: Part
    seed: Annotated[int, SEED]
    examples: Annotated[int, COUNT]
    pixels: Annotated[int, COUNT]
    teacher: Annotated[int, COUNT]
    largest: Annotated[float, PERCENT]
    divergence: Annotated[float, POSITIVE]
    accuracy: Annotated[float, PERCENT] | None


@dataclass(frozen=True, kw_only=True)
class Agreement(Row):
    """Share of fresh inputs of a part on which a student agrees with its teacher, after `done` of its training.

    alpha: the share of injected inputs in its training set; 0 and 1: one part alone. The part "mixture" has the same
    share of them. above: the accuracy less the share of the most frequent label of the part.
    """

    experiment, key = STRUCTURE, ("target", "net", "injected", "student", "alpha", "part", "done")
    kind: Literal["agreement"] = "agreement"
    target: Target
    net: Net
    injected: Injected
    student: Annotated[int, COUNT]
    alpha: Annotated[float, SHARE]
    part: Part
    done: Annotated[float, SHARE]
    step: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    accuracy: Annotated[float, PERCENT]
    above: Annotated[float, POINTS]
