"""Audit of what Tables F.1 to F.5 and F.9 to F.11 say of more diverse data, of more labels and of the gap between both.

As in `tables`, accuracies themselves are not judged.
"""

from collections.abc import Mapping

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.quantity import COUNT, POINTS
from featlearn.lab.statement import Statement, at_least, at_most, both
from featlearn.lab.uncertainty import Observation
from featlearn.works._audit import table as table_of
from featlearn.works.tradeoff.claims.tables import COLUMNS, DIGIT, EXACT, MIXTURES, row

# --- what more diverse data does -------------------------------------------------------------------------------------

LESS = "loss of {} from CINIC-10 alone to all four sets, by share of labels"
FEWER = "loss of linear probing at 1 % of the labels less that at 100 %, Table F.5"


def diverse_said(settings: None) -> tuple[Statement, ...]:
    """Target accuracy falls with every set that is added; of fine-tuning, from the first to the last."""
    return (
        at_least(
            "loss of linear probing by each further set, Table F.5",
            POINTS,
            DIGIT,
            "Section 7.3.1: accuracy on the target decreases with more diverse data",
            axis="step and share",
            margin=EXACT,
            rival=0.0,
            rival_says="level",
        ),
        at_least(
            LESS.format("fine-tuning"),
            POINTS,
            DIGIT,
            "Appendix F.3.4: the trade-off also exists for FT",
            axis="share",
            margin=EXACT,
            rival=0.0,
            rival_says="level",
        ),
        at_most(
            "change of fine-tuning by single further sets, Table F.5",
            POINTS,
            -DIGIT,
            "Table F.5: the text speaks of more diverse data, not of each set",
            axis="step and share",
            margin=EXACT,
            quantifier="some",
            quantifier_says="single sets also help",
            rival=0.0,
            rival_says="none helps",
            form="derived",
        ),
    )


def diverse_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Differences between the mixtures."""
    lp, ft = (np.array([row("tableF_5", m, method) for m in MIXTURES]) for method in ("LP", "FT"))
    return {
        "loss of linear probing by each further set, Table F.5": -np.diff(lp, axis=0).ravel(),
        LESS.format("fine-tuning"): ft[0] - ft[-1],
        "change of fine-tuning by single further sets, Table F.5": -np.diff(ft, axis=0).ravel(),
    }


def fewer_said(settings: None) -> tuple[Statement, ...]:
    """More significant with fewer labels: the loss at 1 % above that at 100 %."""
    source = "Appendix F.3.2: with fewer labels the trade-off is more significant"
    return (
        at_least(
            f"{FEWER}, as reported",
            POINTS,
            DIGIT,
            source,
            of=FEWER,
            rival=0.0,
            rival_says="as large with all labels",
            expect="contradicted",
        ),
        at_most(
            FEWER,
            POINTS,
            0.0,
            f"{source}, corrected: not in this panel",
            rival=DIGIT,
            rival_says="as reported",
            form="corrected",
            twin=f"{FEWER}, as reported",
        ),
    )


def fewer_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """12.37 at 1 %, 12.77 at 100 %."""
    loss = row("tableF_5", MIXTURES[0], "LP") - row("tableF_5", MIXTURES[-1], "LP")
    return {FEWER: float(loss[0] - loss[-1])}


# --- sizes of data ---------------------------------------------------------------------------------------------------

GAP = "fall of the lead of the specific data from one number of labels to the next, Table {}"
SIGNS = "change from ImageNet to ImageNet and GCC-15M"


def sizes_said(settings: None) -> tuple[Statement, ...]:
    """The lead of specific data falls with labels; with all of them the diverse model leads; a tenth is poor."""
    gap = {
        "axis": "step",
        "margin": EXACT,
        "rival": 0.0,
        "rival_says": "level",
    }
    return (
        *(
            at_least(GAP.format(t), POINTS, DIGIT, f"Appendix F.3.3 and Table {t}: hidden by many labels", **gap)
            for t in ("F.2", "F.3")
        ),
        at_least(
            "lead of the specific data at 500 and 1k labels, Tables F.2 and F.3",
            POINTS,
            DIGIT,
            "Appendix F.3.3: the trade-off is revealed with few labels",
            axis="table and labels",
            margin=EXACT,
            rival=0.0,
            rival_says="level",
        ),
        at_least(
            "lead of the specific data and of ImageNet on a tenth of ImageNet, Tables F.2 and F.3",
            POINTS,
            DIGIT,
            "Appendix F.3.3: with little of the specific data the representation is poor",
            axis="row",
            margin=EXACT,
            rival=0.0,
            rival_says="level",
        ),
        at_least(
            f"{SIGNS} with few labels: fall on ImageNet, rise on ImageNet22k",
            POINTS,
            DIGIT,
            "Appendix F.3.2 and Table F.1",
            axis="target",
            margin=EXACT,
            rival=0.0,
            rival_says="level",
        ),
        at_least(
            f"{SIGNS} with all labels: rise on both",
            POINTS,
            DIGIT,
            "Appendix F.3.3 and Table F.4: the trade-off is hidden",
            axis="target",
            margin=EXACT,
            rival=0.0,
            rival_says="level",
        ),
    )


def sizes_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Differences of columns."""
    seen: dict[str, Observation] = {}
    early, tenth = [], []
    for label, name in (("F.2", "tableF_2"), ("F.3", "tableF_3")):
        specific, whole, part = (np.array(list(r.values())[:5]) for r in table_of(f"tradeoff.{name}").values())
        seen[GAP.format(label)] = -np.diff(specific - whole)
        early.append((specific - whole)[:2])
        tenth += [specific - part, whole - part]
    one, two = (np.array(list(r.values())) for r in table_of("tradeoff.tableF_4").values())
    change = two - one
    return seen | {
        "lead of the specific data at 500 and 1k labels, Tables F.2 and F.3": np.concatenate(early),
        "lead of the specific data and of ImageNet on a tenth of ImageNet, Tables F.2 and F.3": np.concatenate(tenth),
        f"{SIGNS} with few labels: fall on ImageNet, rise on ImageNet22k": change[:2] * np.array([-1.0, 1.0]),
        f"{SIGNS} with all labels: rise on both": change[2:],
    }


# --- regularisation, then linear probing -----------------------------------------------------------------------------

HELPED = "mixtures of Table F.9 in which regularisation raises linear probing"


def probing_said(settings: None) -> tuple[Statement, ...]:
    """Better prediction; more so on diverse data; the gap to specific data closes."""
    return (
        *both(
            HELPED,
            COUNT,
            "Appendix F.3.4: leads to better prediction accuracy",
            reported=4.0,
            corrected=3.0,
            says="not CINIC-10, 88.38 against 88.41",
        ),
        at_least(
            "rise of that gain with each further set, Table F.9",
            POINTS,
            DIGIT,
            "Appendix F.3.4: more significant on diverse data",
            axis="step",
            margin=EXACT,
            rival=0.0,
            rival_says="level",
        ),
        at_least(
            "gain by regularisation on the target, Tables F.10 and F.11",
            POINTS,
            DIGIT,
            "Appendix F.3.4: it reduces the gap",
            axis="table",
            margin=EXACT,
            rival=0.0,
            rival_says="level",
        ),
        at_least(
            "gap to the specific data before, Tables F.10 and F.11",
            POINTS,
            DIGIT,
            "Appendix F.3.4: diverse data are worse",
            axis="table",
            margin=EXACT,
            rival=0.0,
            rival_says="level",
        ),
    )


def probing_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Differences of rows and columns."""
    lp, after = (np.array([r[c] for c in COLUMNS]) for r in table_of("tradeoff.tableF_9").values())
    specific, whole, cr = (
        np.array(
            [v for name in ("tableF_10", "tableF_11") for v in list(table_of(f"tradeoff.{name}").values())[i].values()]
        )
        for i in range(3)
    )
    return {
        HELPED: float((after > lp).sum()),
        "rise of that gain with each further set, Table F.9": np.diff(after - lp),
        "gain by regularisation on the target, Tables F.10 and F.11": cr - whole,
        "gap to the specific data before, Tables F.10 and F.11": specific - whole,
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="tradeoff.table_diversity",
        entries=("tradeoff.tableF_5", "tradeoff.fig7_3"),
        says="With more diverse data the accuracy on the target falls, after linear probing and after fine-tuning.",
        statements=diverse_said,
        observe=diverse_observed,
    ),
    Claim(
        id="tradeoff.table_fewer_labels",
        entries=("tradeoff.figF_2", "tradeoff.tableF_5"),
        says="With fewer labels the trade-off is more significant.",
        statements=fewer_said,
        observe=fewer_observed,
        accuses=Accusation(
            quote="with fewer labeled data (from the green line to the red line), the trade-off phenomenon will be more"
            " significant",
            place="Thesis, appendix F.3.2, of Figure F.2",
            reading="The loss of target accuracy from the first to the last mixture, in points, in the one of nine"
            " panels whose numbers are reported (MoCo v2 on CIFAR-10). As a ratio of errors it grows with labels too."
            " The other panels may show it, and fine-tuning in the same table does.",
            hits="remark",
            derivation="80.63 - 68.26 = 12.37 at 1 %, 88.41 - 75.64 = 12.77 at 100 % (Table F.5, LP); errors grow by"
            " 31.74/19.37 = 1.64 and 24.36/11.59 = 2.10.",
        ),
    ),
    Claim(
        id="tradeoff.table_sizes",
        entries=("tradeoff.tableF_1", "tradeoff.tableF_2", "tradeoff.tableF_3", "tradeoff.tableF_4"),
        says="The trade-off shows with few labels and much data of the target, and is hidden otherwise.",
        statements=sizes_said,
        observe=sizes_observed,
        remarks="On birds the diverse model is ahead at 8k labels, on vehicles the specific one still is.",
    ),
    Claim(
        id="tradeoff.table_probing",
        entries=("tradeoff.tableF_9", "tradeoff.tableF_10", "tradeoff.tableF_11"),
        says="Regularisation before linear probing helps, more so after diverse data, and closes part of the gap.",
        statements=probing_said,
        observe=probing_observed,
        accuses=Accusation(
            quote="The results in Table F.9 show that contrastive regularization leads to better prediction accuracy",
            place="Thesis, appendix F.3.4",
            reading="For each of the four mixtures. The fall is 0.03 points, no deviations are reported, and of the"
            " diverse mixtures, which the section is about, the sentence stands.",
            hits="remark",
            derivation="CINIC-10: 88.41 before, 88.38 after.",
        ),
    ),
)
