"""Students on mixtures of images with other inputs (Figures 4 and 22 to 25), from `emergence/input_structure`.

Accuracy is agreement with the teacher. A gap is that on the data less that on the injected part, paired by seed; it is
judged as it is and above the share of the most frequent label of each part, since a part with one label is easy.
Fashion-MNIST stands in for CIFAR-10 and SVHN, and the other grey set for Tiny ImageNet, so that a premise of what is
said of those is unmet, and what comes out neither confirms nor contradicts it. Thresholds, fixed before any row: five
points for "slower" and "worse" and for "similar", one for an order. After the rows the gap is also set beside that of a
student which has read no image, as derived.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import PERCENT, POINTS
from featlearn.lab.statement import Statement, at_most, control, order
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, Observation, mean_of
from featlearn.works.emergence.rows_teachers import Agreement, Labels

FIVE, ONE = 5.0, 1.0
MEASURES = {"accuracy": "accuracy", "above": "accuracy above the most frequent label"}
WHEN = {"mean": "mean over the training", "end": "at its end"}
DATA, INJECTED = {"part": "data"}, {"part": "injected"}
ARMS = "set and network"
OPEN = Premise("optimiser, steps, lambda and Gaussian of the paper", None, "not given")


def gap(table: Table[Agreement], measure: str, when: str) -> Estimate:
    """Data less injected."""
    if when == "end":
        return table.where(done=1.0).paired(measure, DATA, INJECTED)
    return table.paired(measure, DATA, INJECTED, over=("done",))


def beyond(part: Table[Agreement]) -> Estimate:
    """The gap at alpha = 0.5 less that at alpha = 1, where no image is read; at the end, by seed."""
    end = part.where(injected="Gaussian", done=1.0)
    of = {
        (alpha, of): end.where(alpha=alpha, part=of).per_unit("accuracy")
        for alpha in (0.5, 1.0)
        for of in ("data", "injected")
    }
    found = [
        of[0.5, "data"][s] - of[0.5, "injected"][s] - of[1.0, "data"][s] + of[1.0, "injected"][s] for s in end.units()
    ]
    return mean_of(found, POINTS, Agreement.unit)


def photographs(table: Table[Agreement], **at: Any) -> list[Table[Agreement]]:
    """Students of residual networks, by set and size: what stands for CIFAR-10 and SVHN, or is them."""
    return list(table.where(net="ResNet", **at).by("target", "student").values())


def of_each(table: Table[Agreement], read: Callable[[Table[Agreement]], Estimate], **at: Any) -> list[Estimate]:
    """An estimate of each of them."""
    return [read(part) for part in photographs(table, **at)]


def premises(settings: object, table: Table[Agreement], said: Table[Labels]) -> tuple[Premise, ...]:
    """The sets and sizes of the figures."""
    found = sorted({(r.target, r.teacher) for r in said.where(net="ResNet").rows})
    words = ", ".join(f"{target}, teacher ResNet({m})" for target, m in found)
    return Premise("CIFAR-10 and SVHN, teachers ResNet(5) and ResNet(2)", found == REPORTED, words), OPEN


REPORTED = [("CIFAR-10", 5), ("SVHN", 2)]

# --- Gaussian inputs -------------------------------------------------------------------------------------------------

GAPS = {
    (measure, when): f"{words} on the data less on the Gaussian part, {times}"
    for measure, words in MEASURES.items()
    for when, times in WHEN.items()
}
BELOW = "accuracy of the student of the data alone on them, less of that of the mixture on the mixture"
KEPT = "accuracy on the data of the student of the data alone, less of that of the mixture"
LOST = "accuracy of the student of the data alone on them, less of that of the mixture on the Gaussian part"
BEYOND = "the gap at its end less that of the student of the Gaussian part alone"


def read(name: str, axis: str = "") -> Statement:
    """The gap is not only that labels of the data are easier for whoever has read none of them."""
    source = "ours, asked after the rows: a student that reads no image agrees better on images as well; by a point"
    return order(name, POINTS, source, delta=ONE, axis=axis, form="derived", rival_says="images are easier to agree on")


def gaussian_said(settings: None) -> Sequence[Statement]:
    """Slower, worse, below; and the data as well as alone."""
    said = {"mean": "slower", "end": "with worse accuracy"}
    common = {"axis": ARMS, "form": "criterion"}
    return (
        *(
            order(
                name,
                PERCENT if measure == "accuracy" else POINTS,
                f"E.5.2: learns {said[when]} on the Gaussian part; five points by work.toml, figure22: check",
                delta=FIVE,
                rival_says="both parts alike",
                **common,
            )
            for (measure, when), name in GAPS.items()
        ),
        order(
            BELOW,
            PERCENT,
            "E.5.2: accuracy on the whole mixture is lower than that of training on the original; a point by our "
            "criterion",
            delta=ONE,
            rival_says="no effect of the inputs",
            **common,
        ),
        at_most(
            KEPT,
            POINTS,
            FIVE,
            "E.5.2: on the data the accuracy is similar to that on the original; five points by our criterion",
            rival=control(LOST),
            rival_says="the Gaussian part",
            **common,
        ),
        read(BEYOND, ARMS),
    )


def gaussian_observed(settings: None, table: Table[Agreement], said: Table[Labels]) -> Mapping[str, Observation]:
    """At alpha = 0.5, against the student of the data alone."""
    half = {"injected": "Gaussian", "alpha": 0.5}
    seen: dict[str, Observation] = {
        name: of_each(table, lambda part, m=measure, w=when: gap(part, m, w), **half)
        for (measure, when), name in GAPS.items()
    }
    seen[BEYOND] = of_each(table, beyond)
    alone = {"alpha": 0.0, **DATA}
    for name, part in ((BELOW, "mixture"), (KEPT, "data"), (LOST, "injected")):
        mixed = {"alpha": 0.5, "part": part}
        seen[name] = of_each(
            table, lambda t, mixed=mixed: t.paired("accuracy", alone, mixed), injected="Gaussian", done=1.0
        )
    return seen


# --- MNIST -----------------------------------------------------------------------------------------------------------

NARROW, WIDE = 9, 50
OPENS = {
    (m, when): f"FC({m}) on MNIST: accuracy on the data less on the Gaussian part, {times}"
    for m in (NARROW, WIDE)
    for when, times in WHEN.items()
}
BEYONDS = {
    m: f"FC({m}) on MNIST: the gap at its end less that of FC({m}) on the Gaussian part alone" for m in (NARROW, WIDE)
}
WIDENS = {when: f"that of FC(50) less that of FC(9), {times}" for when, times in WHEN.items()}


def wider_said(settings: None) -> Sequence[Statement]:
    """Both have a gap, and the wider one a larger one."""
    text = "E.5.3: learning on the MNIST part is faster and better; a point by our criterion"
    more = "E.5.3: the separation is more significant than for m = 9; a point by our criterion"
    return (
        *(order(n, PERCENT, text, delta=ONE, form="criterion", rival_says="no trend") for n in OPENS.values()),
        *(order(n, POINTS, more, delta=ONE, form="criterion", rival_says="one gap") for n in WIDENS.values()),
        *map(read, BEYONDS.values()),
    )


def wider_observed(settings: None, table: Table[Agreement], said: Table[Labels]) -> Mapping[str, Observation]:
    """Paired by seed: one teacher, one mixture."""
    at = table.where(target="MNIST", net="FC", injected="Gaussian", alpha=0.5)
    seen: dict[str, Observation] = {
        name: gap(at.where(student=m), "accuracy", when) for (m, when), name in OPENS.items()
    }
    grey = table.where(target="MNIST", net="FC")
    seen |= {name: beyond(grey.where(student=m)) for m, name in BEYONDS.items()}
    for when, name in WIDENS.items():
        times = at.where(done=1.0) if when == "end" else at
        of = {
            (m, part): times.where(student=m, part=part).per_unit("accuracy")
            for m in (NARROW, WIDE)
            for part in ("data", "injected")
        }
        found = [
            of[WIDE, "data"][s] - of[WIDE, "injected"][s] - of[NARROW, "data"][s] + of[NARROW, "injected"][s]
            for s in times.units()
        ]
        seen[name] = mean_of(found, POINTS, Agreement.unit)
    return seen


def wider_premises(settings: object, table: Table[Agreement], said: Table[Labels]) -> tuple[Premise, ...]:
    """How much of MNIST, and the teacher."""
    found = sorted({(r.examples, r.pixels, r.teacher) for r in said.where(target="MNIST", net="FC").rows})
    words = ", ".join(f"{n} of {edge} x {edge}, teacher FC({m})" for n, edge, m in found)
    return (
        Premise("60000 images of 28 x 28, teacher FC(9)", found == [(60_000, 28, 9)], words, size=True),
        Premise("the teacher of FC(50)", None, "E.5.3 does not give it"),
        OPEN,
    )


# --- other images ----------------------------------------------------------------------------------------------------

UNDER = {m: f"{words} on the data less on other images" for m, words in MEASURES.items()}
OVER = {m: f"{words} on other images less on Gaussian inputs" for m, words in MEASURES.items()}


def images_said(settings: None) -> Sequence[Statement]:
    """Other images lie between."""
    source = "E.5.2: with other images {}; a point by our criterion"
    words = ("less helpful than the original data", "performance on the injected part is higher than on the Gaussian")
    return [
        order(
            name,
            PERCENT if measure == "accuracy" else POINTS,
            source.format(said),
            delta=ONE,
            axis=ARMS,
            form="criterion",
            rival_says="as well on one as on the other",
        )
        for names, said in zip((UNDER, OVER), words, strict=True)
        for measure, name in names.items()
    ]


def images_observed(settings: None, table: Table[Agreement], said: Table[Labels]) -> Mapping[str, Observation]:
    """At the end and alpha = 0.5; students of both kinds of inputs have one start and images, and a teacher each."""
    at = {"alpha": 0.5, "done": 1.0}
    two, one = {"injected": "Gaussian"}, {"injected": "images"}
    under = {
        n: of_each(table, lambda part, m=m: gap(part, m, "end"), **at, injected="images") for m, n in UNDER.items()
    }
    over = {
        n: of_each(table, lambda part, m=m: part.paired(m, one, two), **at, part="injected") for m, n in OVER.items()
    }
    return {**under, **over}


# --- shares ----------------------------------------------------------------------------------------------------------

SHARES = {
    (measure, when): f"{words} on the data less on the Gaussian part at each alpha, {times}"
    for measure, words in MEASURES.items()
    for when, times in WHEN.items()
}


def shares_said(settings: None) -> Sequence[Statement]:
    """The sign stays."""
    source = "E.5.2: roughly the same trend for different alpha; a point by our criterion"
    return [
        order(
            name,
            PERCENT if measure == "accuracy" else POINTS,
            source,
            delta=ONE,
            axis=f"alpha, {ARMS}",
            form="criterion",
            rival_says="no trend",
        )
        for (measure, _), name in SHARES.items()
    ]


def shares_observed(settings: None, table: Table[Agreement], said: Table[Labels]) -> Mapping[str, Observation]:
    """At every share of Gaussian inputs of a mixture."""
    every = table.where(net="ResNet", injected="Gaussian").by("alpha", "target", "student")
    parts = [part for (alpha, _, _), part in every.items() if 0 < alpha < 1]
    return {name: [gap(part, measure, when) for part in parts] for (measure, when), name in SHARES.items()}


STANDS = (
    "Which part is learnt better depends on the labels too: the teacher is trained on labels of the data and balanced "
    "on the other part, whose labels may be harder for any network. "
)
SHARED = "Seeds draw inputs, starts and orders, images from one published set of training and one of test images."
ALONE = (
    "In the rows of the preset cpu the student of the Gaussian part alone agrees on it in 26 [22, 29] % at the end, "
    "where its most frequent label has 12, and that of the images alone in 82 [81, 83] % on them (90 %): hardly anyone "
    "learns labels of the Gaussian part, which the method of E.5.1 means to be as hard as those of the images, so that "
    "the gap says as much of labels as of the structure of inputs. "
)
CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="emergence.gaussian_part",
        entries=("emergence.figure4", "emergence.figure22"),
        says="On an equal mixture of images with Gaussian inputs a student learns the images as well as alone, and the "
        "Gaussian part slower and worse, so that the mixture lies below the images alone.",
        statements=gaussian_said,
        observe=gaussian_observed,
        premises=premises,
        reads=(Agreement, Labels),
        remarks=STANDS
        + ALONE
        + "The mixture has half as many images as the student of images alone reads. With a gap of 60 points, and the "
        "images as well as alone, that the mixture lies below follows, and the most frequent label has 11 to 12 % of "
        "either part, so that the statements are one finding and not six. " + SHARED,
    ),
    Claim(
        id="emergence.wider_student",
        entries=("emergence.figure25",),
        says="On MNIST and Gaussian inputs FC(9) and FC(50) learn the images faster and better, FC(50) by more.",
        statements=wider_said,
        observe=wider_observed,
        premises=wider_premises,
        reads=(Agreement, Labels),
        remarks=STANDS
        + "E.5.2 calls the trend of FC(9) in Figure 22 not significant, E.5.3 takes it for a trend: the latter is "
        "judged, and nothing here is about Figure 22. Students that have read no image have part of the gap: in the "
        "rows of the preset cpu 5.4 [4.7, 6.2] of 8.6 points of FC(9) at the end, 12.0 [10.9, 13.0] of 21.7 of FC(50), "
        "so that half of what FC(50) has more stands without any image (90 %). They agree with the teacher on images "
        "better than students of images alone: 97 % against 91 and 93 against 90. That the rest of the gap is due to "
        "features of images is not shown by it. " + SHARED,
    ),
    Claim(
        id="emergence.other_images",
        entries=("emergence.figure23",),
        says="Other images in place of Gaussian inputs are learnt better than those and worse than the data.",
        statements=images_said,
        observe=images_observed,
        premises=premises,
        reads=(Agreement, Labels),
        remarks=STANDS
        + "Digits and clothes, which stand for photographs of two sets, are less alike than those. Of residual "
        "networks, as in the figure: FC in the same rows learns other images as well as the data at the end, "
        "-0.2 [-1.1, 0.7] and -0.5 [-1.8, 0.9] points for FC(9) and FC(50) on MNIST, -0.8 [-2.5, 0.8] and "
        "0.7 [0.0, 1.3] on Fashion-MNIST (preset cpu, 90 %). Labels of the two kinds of injected inputs are those of "
        "two teachers. " + SHARED,
    ),
    Claim(
        id="emergence.shares_of_inputs",
        entries=("emergence.figure24",),
        says="The data are learnt better than the Gaussian part whether that is a quarter, a half or three quarters.",
        statements=shares_said,
        observe=shares_observed,
        premises=premises,
        reads=(Agreement, Labels),
        remarks=STANDS
        + ALONE
        + "With one number of inputs in all, a small share favours the data and a large one the other. At a half the "
        "rows are those of emergence.gaussian_part; the others have its teachers and starts. " + SHARED,
    ),
)
