"""What training on all points reaches, beside the least loss in closed form: margins, cosines, every frequency."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import PERCENT, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, control
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Derived, Observation
from featlearn.works.fourier.rows import Climb, Minimised, Network

NEAR, LEAST = 1e-3, 20
"""Loss over the least loss, less 1, of a run that counts as a minimiser; how many of them are needed."""
FAR = 0.5
"""Margin over gamma* below which a network is far from the best one."""
CONTROLLED = {"cosine_low": "r^2 of the best cosine", "same": "one frequency", "phase": "|sum theta_u - theta_w|"}
OVER = "loss at the end over the least loss in closed form"
ALONG = "loss on the way over the least loss in closed form"
BEGUN = 250
"""An evaluation of runs with k = 2 at a sixteenth of their steps."""
EARLY = f"loss after {BEGUN} steps over the least loss, k = 2, median"
EARLY_MARGIN = f"margin over gamma* after {BEGUN} steps, k = 2, median"
WITHIN = "loss at the end over the least loss, k = 2"


def far(networks: Table[Network]) -> dict[str, Observation]:
    """Medians over the networks far from gamma*: the same power networks, trained on half of the points."""
    rows = networks.keep(lambda r: r.margin < FAR, f"less than {FAR:g} gamma*")
    return {
        f"{words}, networks below half of gamma*": np.array([np.median(rows.column(c))])
        for c, words in CONTROLLED.items()
    }


def against(column: str) -> dict[str, Any]:
    """Those networks as rival."""
    return {
        "rival": control(f"{CONTROLLED[column]}, networks below half of gamma*"),
        "rival_says": "networks of the same form that are far from gamma*",
    }


def loss_statements(settings: None) -> Sequence[Statement]:
    """Definition 4.1 with the oracle: no training goes below the least loss, and gets near."""
    return (
        *(
            at_least(
                name,
                POSITIVE,
                1.0,
                "Definition 4.1: the global minimum, by Jensen and the bound of the class-weighted margin",
                margin=1e-8,
                axis=axis,
                form="derived",
            )
            for name, axis in ((OVER, "run"), (ALONG, "evaluation"))
        ),
        at_most(
            WITHIN,
            POSITIVE,
            1.01,
            "Definition 4.1: minimised, to 1 % by the inventory's number",
            axis="run",
            form="criterion",
            rival=control(EARLY),
            rival_says=f"after {BEGUN} steps",
        ),
    )


def loss_observed(settings: None, table: Table[Minimised], climbs: Table[Climb]) -> Mapping[str, Observation]:
    """Every run at its end and at every evaluation."""
    over = table.column("loss") / table.column("least_loss")
    least = {(r.k, r.p, r.penalty): r.least_loss for r in table.rows}
    early = [r.loss / least[r.k, r.p, r.penalty] for r in climbs.where(k=2, step=BEGUN).rows]
    return {
        OVER: over,
        ALONG: np.array([r.loss / least[r.k, r.p, r.penalty] for r in climbs.rows]),
        WITHIN: over[table.column("k") == 2],
        EARLY: np.array([np.median(early)]),
    }


BOUND = "margin over gamma*, every run"
MINIMISERS = "margin over gamma* of runs near the least loss"
SOME = "margin over gamma*, k = 2, p = 23, m = 88, some start"
COSINES = "r^2 of the best cosine, worst vector of a neuron, 5th percentile"
SAME = "live neurons whose k + 1 vectors have one frequency"
PHASES = "|sum theta_u - theta_w| of live neurons, median"
COVERED = "frequencies that dominate a live neuron"


def margin_statements(settings: None) -> Sequence[Statement]:
    """Lemma 4.7 and Theorem 4.9: minimisers have the best margin, none more; cosines of every frequency."""
    begun = {"rival": control(EARLY_MARGIN), "rival_says": f"after {BEGUN} steps"}
    return (
        at_most(BOUND, REAL, 1.0, "Theorem 4.9: gamma* is the largest", margin=1e-6, axis="run"),
        at_least(
            MINIMISERS,
            REAL,
            0.95,
            "Lemma 4.7: a minimiser's margin tends to gamma*; 5 % by our criterion",
            axis="run",
            where=lambda c: c["excess"] <= NEAR,
            where_says="the loss is within 0.1 % of its least value",
            least=LEAST,
            form="criterion",
            **begun,
        ),
        at_least(
            SOME,
            REAL,
            0.9,
            "Lemma 4.7, by the inventory's number",
            axis="run",
            quantifier="some",
            quantifier_says="a global minimiser, which some start finds",
            form="criterion",
            **begun,
        ),
        at_least(
            COSINES,
            SHARE,
            0.95,
            "Theorem 4.9, by the inventory's number",
            axis="run",
            form="criterion",
            **against("cosine_low"),
        ),
        at_least(SAME, PERCENT, 100.0, "Theorem 4.9: the same zeta", axis="run", **against("same")),
        at_most(
            PHASES,
            POSITIVE,
            0.05,
            "Theorem 4.9: phases add up, by the inventory's number",
            axis="run",
            form="criterion",
            **against("phase"),
        ),
        at_least(COVERED, PERCENT, 100.0, "Theorem 4.9: each frequency is used", axis="run"),
    )


def margin_observed(
    settings: None, table: Table[Minimised], climbs: Table[Climb], networks: Table[Network]
) -> Mapping[str, Observation]:
    """Every run; those at the reported width of the inventory's check apart."""
    excess = table.column("loss") / table.column("least_loss") - 1
    return {
        **far(networks),
        EARLY_MARGIN: np.array([np.median(climbs.where(k=2, step=BEGUN).column("margin"))]),
        BOUND: table.column("margin"),
        MINIMISERS: Derived(table.column("margin"), {"excess": excess}),
        SOME: table.where(k=2, p=23, m=88).column("margin"),
        COSINES: table.column("cosine_low"),
        SAME: table.column("same"),
        PHASES: table.column("phase"),
        COVERED: table.column("covered"),
    }


EVERY = "margin over gamma*, k = 2, p = 23, m = 88, start by start"


def starts_statements(settings: None) -> Sequence[Statement]:
    """The inventory's number, which a local minimum misses."""
    return (
        at_most(
            EVERY,
            REAL,
            0.9,
            "Lemma 4.7 is about global minimisers; the inventory's number",
            axis="run",
            rival=1.0,
            rival_says="every start finds a global minimiser",
            quantifier="some",
            quantifier_says="some start ends in a local minimum",
            form="criterion",
        ),
    )


def starts_observed(settings: None, table: Table[Minimised]) -> Mapping[str, Observation]:
    """Runs of the reported width."""
    return {EVERY: table.where(k=2, p=23, m=88).column("margin")}


def starts_premises(settings: None, table: Table[Minimised]) -> tuple[Premise, ...]:
    """Whether the runs are global minimisers, which the loss in closed form tells."""
    excess = [r.loss / r.least_loss - 1 for r in table.where(k=2, p=23, m=88).rows]
    return (
        Premise(
            "a global minimiser", max(excess) <= NEAR, f"the loss exceeds the least one by up to {max(excess):.1e}"
        ),
    )


NEAR_BEST = 0.97


def near_statements(settings: None) -> Sequence[Statement]:
    """Lemma C.6 on trained networks: near gamma*, neurons are near the optimal family."""
    source = "Lemma C.6: optimal neurons only; our number"
    near = "the margin is at least 0.97 gamma*, the inventory's number"
    return (
        at_least(
            COSINES,
            SHARE,
            0.99,
            source,
            axis="run",
            where=lambda c: c["margin"] >= NEAR_BEST,
            where_says=near,
            least=LEAST,
            form="criterion",
            **against("cosine_low"),
        ),
        at_most(
            PHASES,
            POSITIVE,
            0.05,
            source,
            axis="run",
            where=lambda c: c["margin"] >= NEAR_BEST,
            where_says=near,
            least=LEAST,
            form="criterion",
            **against("phase"),
        ),
    )


def near_observed(settings: None, table: Table[Minimised], networks: Table[Network]) -> Mapping[str, Observation]:
    """Every run with its margin."""
    margin = {"margin": table.column("margin")}
    return far(networks) | {
        COSINES: Derived(table.column("cosine_low"), margin),
        PHASES: Derived(table.column("phase"), margin),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="fourier.trained_loss",
        entries=("fourier.definition4_1",),
        says="No network has a loss below the closed form, and training on all points comes within 1 % of it at k = 2.",
        statements=loss_statements,
        observe=loss_observed,
        reads=(Minimised, Climb),
    ),
    Claim(
        id="fourier.trained_margin",
        entries=("fourier.lemma4_7", "fourier.theorem4_9"),
        says="Training on all points with the L_{2,k+1} penalty reaches gamma* with neurons as in Theorem 4.9.",
        statements=margin_statements,
        observe=margin_observed,
        reads=(Minimised, Climb, Network),
    ),
    Claim(
        id="fourier.trained_starts",
        entries=("fourier.method_nn_training",),
        says="With the 88 neurons of Theorem 4.9 at k = 2, p = 23 training on all points does not reach 0.9 gamma* "
        "from every start.",
        statements=starts_statements,
        observe=starts_observed,
        premises=starts_premises,
        reads=(Minimised,),
        remarks="Nothing in the source says that it does: Lemma 4.7 is about global minimisers, and the loss in closed "
        "form tells that a run that misses the number is none. Six runs, of three starts with two penalties each.",
    ),
    Claim(
        id="fourier.trained_near_best",
        entries=("fourier.lemmaC_6",),
        says="Networks with at least 0.97 gamma* have neurons of the optimal family.",
        statements=near_statements,
        observe=near_observed,
        reads=(Minimised, Network),
    ),
)
