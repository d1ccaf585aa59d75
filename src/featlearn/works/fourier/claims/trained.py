"""What trained networks of k-th powers show, judged on rows of the experiments: cosines, frequencies, margins, loss.

A figure shows neurons of one run, so every run is an element and its numbers are exact: no run may miss what the
figure shows. Thresholds for words of captions are the inventory's.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.inventory import entry
from featlearn.lab.quantity import PERCENT, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Outcome, Statement, at_least, at_most, control, equal
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Observation
from featlearn.measure import random_share
from featlearn.works.fourier.claims.sizes import pairs, sizes, unstated_steps
from featlearn.works.fourier.rows import Network

FIGURES = {
    3: ("fourier.figureC_1", "fourier.figureC_2"),
    4: ("fourier.figure4_1", "fourier.figure4_2"),
    5: ("fourier.figureC_3", "fourier.figureC_4"),
}
"""k -> entry of the neurons, entry of the histograms."""
GROUPS = {
    3: {
        "p = 47, half of all points": (47, 0.5),
        "p = 97, half of all points": (97, 0.5),
        "p = 97, all points": (97, 1.0),
    },
    4: {"p = 7, half of all points": (7, 0.5), "p = 13, half of all points": (13, 0.5), "p = 7, all points": (7, 1.0)},
    5: {"p = 5, half of all points": (5, 0.5), "p = 11, half of all points": (11, 0.5), "p = 5, all points": (5, 1.0)},
}
"""k -> in words, the runs of one p on one share of the points."""
CIRCUITS = ("p = 47, half of all points", "p = 97, all points", "p = 7, all points")
"""Runs whose neurons are cosines at the end,"""
FREQUENCIES = (*CIRCUITS, "p = 5, all points")
"""whose neurons nearly all have one frequency,"""
ADDED = (*FREQUENCIES, "p = 97, half of all points", "p = 13, half of all points")
"""and whose phases add up."""
START = "share of a vector's power at one frequency, mean over all vectors at the start"
UNRELATED = math.pi / 2
"""Median of |phase| of an angle that is uniform."""
SMALLER = {
    3: "At p = 97 one seed was trained on half of all points and one on all of them, three times as long as at p = 47, "
    "where more steps changed nothing. All test points are right at the end; neither margin is near gamma*: from half "
    "of the points a few neurons are no cosines yet, and from all of them a frequency is missing. The reported number "
    "of steps is not known.",
    4: "Half of all points in training, as reported, and all of them at one p as a control, where the neurons are as "
    "in the figure. The reported p is larger, and nothing was run there.",
    5: "Half of all points in training, as reported, and all of them at one p as a control, where nearly every neuron "
    "has one frequency and a few are no cosines yet. The reported p is larger, and nothing was run there.",
}
"""k -> what a reader has to know of runs that are not the reported ones."""


def expected(shown: bool) -> Outcome:
    """The outcome of a threshold at sizes that are not the reported ones."""
    return "confirmed" if shown else "contradicted"


def figure_premises(settings: int, table: Table[Network]) -> tuple[Premise, ...]:
    """The size of the figure, and the batch and the split of the recipe."""
    mine = table.where(k=settings)
    neurons, recipe = entry(FIGURES[settings][0]).setting, entry("fourier.method_nn_training").setting
    reported = {"p": neurons["p"], "m": neurons["m"], "batch": recipe["batch"], "train": 0.5}
    return (*sizes(mine, reported), unstated_steps(mine))


def cosine_statements(settings: int) -> Sequence[Statement]:
    """Figures 4.1, C.1, C.3: every neuron a cosine, one frequency for its k + 1 vectors, phases that add up."""
    found: list[Statement] = []
    source = f"{FIGURES[settings][0]}: the inventory's threshold"
    for split in GROUPS[settings]:
        found += [
            at_least(
                f"r^2 of the best cosine, worst vector of a neuron, 5th percentile; {split}",
                SHARE,
                0.9,
                source,
                axis="run",
                trivial=control(f"{START}; {split}"),
                trivial_says="vectors at the start",
                form="criterion",
                expect=expected(split in CIRCUITS),
            ),
            at_least(
                f"live neurons whose k + 1 vectors have one frequency; {split}",
                PERCENT,
                95.0,
                source,
                axis="run",
                form="criterion",
                expect=expected(split in FREQUENCIES),
            ),
            at_most(
                f"|sum theta_u - theta_w| of live neurons, median; {split}",
                POSITIVE,
                0.1,
                source,
                axis="run",
                rival=UNRELATED,
                rival_says="phases that are unrelated",
                form="criterion",
                expect=expected(split in ADDED),
            ),
            at_least(
                f"summed (k+1)-th powers of norms that live neurons hold; {split}",
                PERCENT,
                99.0,
                f"{source}: neurons below a twentieth of the largest are left out",
                axis="run",
                form="criterion",
            ),
        ]
    return found


def cosine_observed(settings: int, table: Table[Network]) -> Mapping[str, Observation]:
    """Every run."""
    seen: dict[str, Observation] = {}
    for split, (p, share) in GROUPS[settings].items():
        mine = table.where(k=settings, p=p, train=share)
        seen[f"r^2 of the best cosine, worst vector of a neuron, 5th percentile; {split}"] = mine.column("cosine_low")
        seen[f"{START}; {split}"] = mine.column("share_start")
        seen[f"live neurons whose k + 1 vectors have one frequency; {split}"] = mine.column("same")
        seen[f"|sum theta_u - theta_w| of live neurons, median; {split}"] = mine.column("phase")
        seen[f"summed (k+1)-th powers of norms that live neurons hold; {split}"] = mine.column("held")
    return seen


def frequency_statements(settings: int) -> Sequence[Statement]:
    """Figures 4.2, C.2, C.4: all frequencies, evenly; share of power before and after."""
    found: list[Statement] = []
    source = FIGURES[settings][1]
    for split in GROUPS[settings]:
        found += [
            at_least(
                f"(a) frequencies that dominate a live neuron; {split}",
                PERCENT,
                100.0,
                f"{source} (a)",
                axis="run",
                form="reported" if split.endswith("half of all points") else "criterion",
                expect=expected(split != "p = 97, all points"),
            ),
            at_least(
                f"(a) neurons of the rarest over the commonest frequency; {split}",
                SHARE,
                1 / 3,
                f"{source} (a): almost uniform, by the inventory's ratio",
                axis="run",
                rival=0.0,
                rival_says="a frequency without neurons",
                form="criterion",
                expect=expected(not split.startswith("p = 97")),
            ),
            equal(
                f"(b) share of power at one frequency at the start over that of Gaussian vectors; {split}",
                POSITIVE,
                1.0,
                f"{source} (b), and the mean share of Gaussian vectors by quadrature",
                margin=0.05,
                axis="run",
                rival=0.5,
                rival_says="the sum over all p bins",
                form="derived",
            ),
            at_least(
                f"(c) share at the end, mean over vectors of live neurons; {split}",
                SHARE,
                0.95,
                f"{source} (c): almost 1, by the inventory's number",
                axis="run",
                trivial=control(f"{START}; {split}"),
                trivial_says="vectors at the start",
                form="criterion",
                expect=expected(split in FREQUENCIES),
            ),
            at_least(
                f"(c) share at the end, 5th percentile over live neurons; {split}",
                SHARE,
                0.8,
                f"{source} (c): for all neurons, by the inventory's number",
                axis="run",
                trivial=control(f"{START}; {split}"),
                trivial_says="vectors at the start",
                form="criterion",
                expect=expected(split in CIRCUITS),
            ),
        ]
    return found


def frequency_observed(settings: int, table: Table[Network]) -> Mapping[str, Observation]:
    """Every run; a frequency without neurons is a ratio of 0."""
    seen: dict[str, Observation] = {}
    for split, (p, share) in GROUPS[settings].items():
        mine = table.where(k=settings, p=p, train=share)
        noise = np.array([random_share(r.p) for r in mine.rows])
        evenness = [1 / r.most_over_least if r.most_over_least else 0.0 for r in mine.rows]
        seen |= {
            f"{START}; {split}": mine.column("share_start"),
            f"(a) frequencies that dominate a live neuron; {split}": mine.column("covered"),
            f"(a) neurons of the rarest over the commonest frequency; {split}": np.array(evenness),
            f"(b) share of power at one frequency at the start over that of Gaussian vectors; {split}": (
                mine.column("share_start") / noise
            ),
            f"(c) share at the end, mean over vectors of live neurons; {split}": mine.column("share_vectors"),
            f"(c) share at the end, 5th percentile over live neurons; {split}": mine.column("share_low"),
        }
    return seen


WIDTH = "reported m"
TESTED = "test accuracy at the end, half of all points"


def recipe_statements(settings: None) -> Sequence[Statement]:
    """C.10.1: the widths, and that the networks learn the task."""
    named = [[int(word[1:]) for word in name.split("_")] for name in entry("fourier.method_nn_training").numbers["m"]]
    value = np.array([2.0 ** (2 * k - 2) * (p - 1) for k, p in named])
    return (
        equal(
            WIDTH,
            POSITIVE,
            value,
            "Theorem 4.9: m = 2^(2k-2) (p-1)",
            axis="(k, p)",
            rival=2 * value,
            rival_says="2^(2k-1) (p-1)",
        ),
        at_least(
            TESTED,
            PERCENT,
            99.0,
            "Section 4.5: networks that have learnt the task; our number",
            axis="run",
            trivial=20.0,
            trivial_says="guessing one of five",
            form="criterion",
            expect="contradicted",
        ),
    )


def recipe_observed(settings: None, table: Table[Network]) -> Mapping[str, Observation]:
    """Reported widths, and every run on half of all points."""
    widths = np.array(list(entry("fourier.method_nn_training").numbers["m"].values()), dtype=float)
    return {WIDTH: widths, TESTED: table.where(train=0.5).column("test_acc")}


def recipe_premises(settings: None, table: Table[Network]) -> tuple[Premise, ...]:
    """The sizes of the figures."""
    half = table.where(train=0.5)
    batch = entry("fourier.method_nn_training").setting["batch"]
    return (pairs(half, *(f for f, _ in FIGURES.values())), *sizes(half, {"batch": batch}), unstated_steps(half))


REACHED = "margin over gamma*, k = {k}, {split}"


def reached_statements(settings: None) -> Sequence[Statement]:
    """How near to gamma* over all points the networks of the figures come."""
    return tuple(
        at_least(
            REACHED.format(k=k, split=split),
            REAL,
            0.95,
            "Theorem 4.9 and Lemma 4.7; 5 % by our criterion",
            axis="run",
            form="criterion",
            expect=expected(split == "p = 7, all points"),
        )
        for k, groups in GROUPS.items()
        for split in groups
    )


def reached_observed(settings: None, table: Table[Network]) -> Mapping[str, Observation]:
    """Every run."""
    return {
        REACHED.format(k=k, split=split): table.where(k=k, p=p, train=share).column("margin")
        for k, groups in GROUPS.items()
        for split, (p, share) in groups.items()
    }


def reached_premises(settings: None, table: Table[Network]) -> tuple[Premise, ...]:
    """What the theorem is about."""
    halved = sum(r.train < 1 for r in table.rows)
    return (
        Premise("all points in training", halved == 0, f"half of them in {halved} of {len(table)} runs"),
        Premise("a global minimiser", None, "the loss over all points is not measured in these runs"),
    )


CLAIMS: tuple[Claim, ...] = (
    *(
        Claim(
            id=f"fourier.trained_cosines_k{k}",
            entries=(neurons,),
            says=f"k = {k}: trained neurons are cosines of one frequency with phases that add up.",
            settings=k,
            statements=cosine_statements,
            observe=cosine_observed,
            premises=figure_premises,
            reads=(Network,),
            remarks=SMALLER[k],
        )
        for k, (neurons, _) in FIGURES.items()
    ),
    *(
        Claim(
            id=f"fourier.trained_frequencies_k{k}",
            entries=(counts, "fourier.method_max_normalised_power"),
            says=f"k = {k}: trained networks use every frequency about equally; the share of power at one frequency "
            "goes from that of noise to almost 1.",
            settings=k,
            statements=frequency_statements,
            observe=frequency_observed,
            premises=figure_premises,
            reads=(Network,),
            remarks="The captions leave the range of the sum over j open; read over frequencies, +j and -j together, "
            f"since over all p bins a cosine has 1/2. {SMALLER[k]}",
        )
        for k, (_, counts) in FIGURES.items()
    ),
    Claim(
        id="fourier.trained_recipe",
        entries=("fourier.method_nn_training",),
        says="Networks with m = 2^(2k-2) (p-1) neurons learn the task from half of all points.",
        statements=recipe_statements,
        observe=recipe_observed,
        premises=recipe_premises,
        reads=(Network,),
        remarks="Section 4.5 speaks of SGD, C.10.1 lists the numbers of AdamW, which is used here, and the lambda of "
        "Definition 4.1; steps and start are not stated. p, batch, step size and lambda are not those reported.",
    ),
    Claim(
        id="fourier.trained_reached",
        entries=("fourier.method_nn_training",),
        says="Networks trained as in the figures reach 0.95 gamma* over all points.",
        statements=reached_statements,
        observe=reached_observed,
        premises=reached_premises,
        reads=(Network,),
        remarks="The theorem is about minimisers on all points; it does not say that training on half finds one.",
    ),
)
