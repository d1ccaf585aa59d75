"""The size of a teacher and of its students (Figure 26), and labels that a regulariser balances (Algorithm 1), from the
rows of `emergence/teacher`.

What a seed says is yes or no, and shares of seeds have exact intervals. Thresholds, fixed before any row: more than
half of the seeds, for what the paper shows of one; a factor of two, for minima that are roughly the same; a hundredth
of a nat.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from featlearn.errors import MissingUnit
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import PERCENT, POSITIVE, SHARE
from featlearn.lab.statement import Statement, at_least, control, order
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, Observation, mean_of
from featlearn.works.emergence.rows_teachers import Arm, Balance, Fitted, Minimum

HALF = 0.5
FITS = 99.9
"""Percent of training examples, from where a network has interpolated."""
ALIKE = "seeds whose students of the chosen teacher have a minimum within a factor of two of it"
OTHER = "seeds whose students of FC(50) have a minimum within a factor of two of the chosen teacher"
ASCENDS = "seeds whose minima of students do not fall from FC(9) to FC(50) to FC(500)"
FALLS = "seeds whose minima of students do not rise from FC(9) to FC(50) to FC(500)"
LARGER = "seeds whose students of FC(500) have a larger minimum than those of FC(9)"
SMALLER = "seeds whose students of FC(500) have a smaller minimum than those of FC(9)"
NEEDED: tuple[Arm, ...] = ("set", "chosen", "small", "middle", "large")
SAME = "E.5.4: the minima of the teacher's curve and of its students' are roughly the same"
GROWS = "E.5.4: the minimum of the students' curve becomes larger with the teacher"


def sizes_said(settings: None) -> Sequence[Statement]:
    """Minima of the teacher and its students agree, and that of the students moves with the teacher."""
    half = "; in more than half of the seeds by our criterion"
    common = {"form": "criterion"}
    return (
        at_least(
            ALIKE, SHARE, HALF, SAME + "; a factor of two" + half, rival=control(OTHER), rival_says="FC(50)", **common
        ),
        at_least(
            ASCENDS,
            SHARE,
            HALF,
            GROWS + half,
            rival=control(FALLS),
            rival_says="the opposite order",
            expect="contradicted",  # rows of the preset cpu: the minimum of FC(500) lies between those of 9 and 50
            **common,
        ),
        at_least(LARGER, SHARE, HALF, GROWS + half, rival=control(SMALLER), rival_says="the opposite order", **common),
    )


def sizes_observed(settings: None, minima: Table[Minimum], fitted: Table[Fitted]) -> Mapping[str, Observation]:
    """Over the seeds all of whose curves have a peak."""
    least = {arm: {r.seed: r.least for r in part.rows} for arm, part in minima.by("arm").items()}
    if set(least) != set(NEEDED) or len({tuple(sorted(found)) for found in least.values()}) > 1:
        raise MissingUnit("a seed lacks a curve that others have: run emergence/teacher again")
    decided: list[dict[Arm, int]] = []
    for seed in minima.units():
        mine: dict[Arm, int] = {arm: m for arm, found in least.items() if (m := found[seed]) is not None}
        if len(mine) == len(NEEDED):
            decided.append(mine)

    def share(test: Callable[[dict[Arm, int]], bool]) -> Estimate:
        return mean_of([float(test(m)) for m in decided], SHARE, Minimum.unit)

    def near(m: dict[Arm, int], arm: Arm) -> bool:
        return bool(abs(np.log2(m[arm] / m["set"])) <= 1)

    return {
        ALIKE: share(lambda m: near(m, "chosen")),
        OTHER: share(lambda m: near(m, "middle")),
        ASCENDS: share(lambda m: m["small"] <= m["middle"] <= m["large"]),
        FALLS: share(lambda m: m["small"] >= m["middle"] >= m["large"]),
        LARGER: share(lambda m: m["small"] < m["large"]),
        SMALLER: share(lambda m: m["small"] > m["large"]),
    }


PEAKS = "every curve has a classical regime"
INTERPOLATES = "the largest networks fit all training examples"
OPEN = Premise("optimiser, epochs, sizes and Gaussian of the paper", None, "not given")


def sizes_premises(settings: None, minima: Table[Minimum], fitted: Table[Fitted]) -> tuple[Premise, ...]:
    """What the rows cannot say, and whether there was something to read."""
    seeds = {r.seed for r in minima.rows}
    lost = {r.seed for r in minima.rows if r.least is None}
    most = max(r.size for r in fitted.rows)
    worst = min(r.train_acc for r in fitted.rows if r.size == most)
    teachers = sorted({r.teacher or 0 for r in minima.rows if r.arm in ("small", "middle", "large")})
    return (
        Premise(PEAKS, not lost, f"{len(seeds) - len(lost)} of {len(seeds)} seeds"),
        Premise(INTERPOLATES, worst >= FITS, f"least accuracy {worst:.4g} %"),
        Premise("teachers FC(9), FC(50) and FC(500)", teachers == [9, 50, 500], str(teachers), size=True),
        *images(minima),
        OPEN,
    )


def images(table: Table[Minimum]) -> tuple[Premise, ...]:
    """The set, and how much of it."""
    found = sorted({(r.target, r.examples, r.pixels) for r in table.rows})
    said = ", ".join(f"{n} of {target}, {edge} x {edge}" for target, n, edge in found)
    return (
        Premise("MNIST", {f[0] for f in found} == {"MNIST"}, said),
        Premise("60000 images of 28 x 28", {f[1:] for f in found} == {(60_000, 28)}, said, size=True),
    )


# --- balance ---------------------------------------------------------------------------------------------------------

NATS = 0.01
CLOSER = "divergence from uniform of labels on fresh Gaussian inputs, without R less with R"
SOFTER = "the same of the mean prediction"
KEEPS = "test accuracy of the teacher with R"


def balance_said(settings: None) -> Sequence[Statement]:
    """R makes labels more even where they are not, and leaves a teacher."""
    source = "E.5.1: without the regulariser classes may be unbalanced on U; a hundredth of a nat by our criterion"
    return (
        order(CLOSER, POSITIVE, source, delta=NATS, rival_says="as uneven as without R", form="criterion"),
        order(
            SOFTER,
            POSITIVE,
            "E.5.1: R1 gives each label the same average probability; a hundredth of a nat by our criterion",
            delta=NATS,
            rival_says="as uneven as without R",
            form="criterion",
        ),
        at_least(
            KEEPS,
            PERCENT,
            50.0,
            "E.5.1: the teacher approximates the true labels; half of them by our criterion, since a network that has "
            "learnt none of them can be balanced as well",
            rival=10.0,
            rival_says="always one class",
            form="criterion",
        ),
    )


def balance_observed(settings: None, table: Table[Balance], minima: Table[Minimum]) -> Mapping[str, Observation]:
    """Paired by seed: one start, one order."""
    one, two = {"regularised": "no"}, {"regularised": "yes"}
    return {
        CLOSER: table.paired("divergence", one, two),
        SOFTER: table.paired("mean_divergence", one, two),
        KEEPS: table.where(**two).mean("test_acc"),
    }


def balance_premises(settings: None, table: Table[Balance], minima: Table[Minimum]) -> tuple[Premise, ...]:
    """The set, and that the teacher is the one that its curve chooses."""
    chosen = {r.seed: r.teacher for r in minima.where(arm="chosen").rows}
    apart = [r.seed for r in table.rows if chosen[r.seed] != r.size]
    return (
        Premise("the teacher has the size that the curve chooses", not apart, f"not of {len(apart)} networks"),
        *images(minima),
        Premise("lambda, the weight of R and the Gaussian of the paper", None, "not given"),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="emergence.teacher_sizes",
        entries=("emergence.figure26",),
        says="The test loss of students on Gaussian inputs with labels of FC(i_t) has its minimum near i_t, that of "
        "the set's own curve, and the minimum grows from FC(9) to FC(50) to FC(500).",
        statements=sizes_said,
        observe=sizes_observed,
        premises=sizes_premises,
        reads=(Minimum, Fitted),
        remarks="Minima of a plot can be read otherwise; the rule is on the page of the experiment. Seeds "
        "whose set's curve or a student's has no peak are left out, and a premise says so. Sizes are steps of the root "
        "of 2, so that a factor of two is two steps either way. With as few images as here the labels of FC(500) are "
        "hardly learnt by any student, so that the order of its minimum and that of FC(50) says little of the paper's "
        "size.",
    ),
    Claim(
        id="emergence.algorithm1_labels",
        entries=("emergence.algorithm1",),
        says="A teacher that is trained with R on Gaussian inputs gives fresh ones more even labels than without.",
        statements=balance_said,
        observe=balance_observed,
        premises=balance_premises,
        reads=(Balance, Minimum),
        remarks="R is made for this. The accuracy on images that it costs stands in the experiment's table.",
    ),
)
