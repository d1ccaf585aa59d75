"""Audit of what Tables F.1 to F.5 and F.9 to F.11 say of more diverse data, of more labels and of the gap between both.

As in `tables`, accuracies themselves are not judged.
"""

from collections.abc import Mapping

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POINTS
from featlearn.lab.statement import Statement, at_least, at_most
from featlearn.lab.uncertainty import Observation
from featlearn.works._audit import audited
from featlearn.works._audit import table as table_of
from featlearn.works.tradeoff.claims.tables import COLUMNS, DIGIT, EXACT, MIXTURES, row

# --- what more diverse data does -------------------------------------------------------------------------------------

LESS = "loss of {} from CINIC-10 alone to all four sets, by share of labels"
SHARPER = "share of accuracy lost from CINIC-10 alone to all four sets, 1 % of the labels less 100 %, Table F.5"
LEVEL = "loss of linear probing in points, 100 % of the labels less 1 %, Table F.5"
CHANCE = 10.0


def diverse_said(settings: None) -> tuple[Statement, ...]:
    """Target accuracy falls from the first mixture to the last; of linear probing also with every set that is added."""
    return (
        at_least(
            LESS.format("linear probing"),
            POINTS,
            DIGIT,
            "Section 7.3.1: accuracy on the target decreases with more diverse data",
            axis="share",
            margin=EXACT,
            rival=0.0,
            rival_says="level",
        ),
        at_least(
            "loss of linear probing by each further set, Table F.5",
            POINTS,
            DIGIT,
            "Table F.5: stronger than the text, which speaks of more diverse data and not of each set",
            axis="step and share",
            margin=EXACT,
            rival=0.0,
            rival_says="level",
            form="derived",
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
        LESS.format("linear probing"): lp[0] - lp[-1],
        LESS.format("fine-tuning"): ft[0] - ft[-1],
        "change of fine-tuning by single further sets, Table F.5": -np.diff(ft, axis=0).ravel(),
    }


def fewer_said(settings: None) -> tuple[Statement, ...]:
    """More significant with fewer labels: as a share of the accuracy, or of what it is above chance; not in points."""
    common = {"margin": EXACT, "rival": 0.0, "rival_says": "as large with all labels", "form": "derived"}
    return (
        at_least(
            SHARPER,
            POINTS,
            DIGIT,
            "Appendix F.3.2: with fewer labels the trade-off is more significant, read of shares",
            axis="LP and FT, of accuracy and of accuracy above chance",
            **common,
        ),
        at_least(LEVEL, POINTS, DIGIT, "Table F.5: 88.41 - 75.64 against 80.63 - 68.26", **common),
    )


def fewer_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Losses at the first and at the last share."""
    sharper, points = [], []
    for method in ("LP", "FT"):
        first, last = (row("tableF_5", m, method)[[0, -1]] for m in (MIXTURES[0], MIXTURES[-1]))
        lost = np.array([100 * (first - last) / first, 100 * (first - last) / (first - CHANCE)])
        sharper += (lost[:, 0] - lost[:, 1]).tolist()
        points.append(first - last)
    return {SHARPER: np.array(sharper), LEVEL: float(points[0][1] - points[0][0])}


# --- sizes of data ---------------------------------------------------------------------------------------------------

GAP = "fall of the lead of the specific data from one number of labels to the next, Table {}"
SIGNS = "change from ImageNet to ImageNet and GCC-15M"


def sizes_said(settings: None) -> tuple[Statement, ...]:
    """The lead of specific data falls with labels; with all of them the diverse model leads; a tenth is poor."""
    gap = {"axis": "step", "margin": EXACT, "rival": 0.0, "rival_says": "level", "form": "derived"}
    return (
        *(
            at_least(GAP.format(t), POINTS, DIGIT, f"Table {t}: stronger than 'hidden by many labels' of F.3.3", **gap)
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

HELPED = "gain of linear probing by regularisation, mean of the mixtures of Table F.9"


def probing_said(settings: None) -> tuple[Statement, ...]:
    """Better prediction; more so on diverse data; the gap to specific data closes."""
    return (
        at_least(
            HELPED,
            POINTS,
            DIGIT,
            "Appendix F.3.4: leads to better prediction accuracy",
            margin=EXACT,
            rival=0.0,
            rival_says="no gain",
        ),
        at_least(
            "rise of the gain with each further set, Table F.9",
            POINTS,
            DIGIT,
            "Appendix F.3.4: more significant on diverse data, which says nothing of each set",
            axis="step",
            margin=EXACT,
            rival=0.0,
            rival_says="level",
            form="derived",
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
        HELPED: float((after - lp).mean()),
        "rise of the gain with each further set, Table F.9": np.diff(after - lp),
        "gain by regularisation on the target, Tables F.10 and F.11": cr - whole,
        "gap to the specific data before, Tables F.10 and F.11": specific - whole,
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="tradeoff.table_diversity",
        entries=("tradeoff.tableF_5", "tradeoff.fig7_3"),
        says="With more diverse data the accuracy on the target falls, after linear probing and after fine-tuning.",
        statements=audited(diverse_said),
        observe=diverse_observed,
    ),
    Claim(
        id="tradeoff.table_fewer_labels",
        entries=("tradeoff.figF_2", "tradeoff.tableF_5"),
        says="With fewer labels the trade-off is more significant, as a share of the accuracy.",
        statements=audited(fewer_said),
        observe=fewer_observed,
        remarks="The text does not say in what the trade-off is measured: in points the loss of linear probing is "
        "as large with all labels in this panel, and the other eight of Figure F.2 have no numbers.",
    ),
    Claim(
        id="tradeoff.table_sizes",
        entries=("tradeoff.tableF_1", "tradeoff.tableF_2", "tradeoff.tableF_3", "tradeoff.tableF_4"),
        says="The trade-off shows with few labels and much data of the target, and is hidden otherwise.",
        statements=audited(sizes_said),
        observe=sizes_observed,
        remarks="On birds the diverse model is ahead at 8k labels, on vehicles the specific one still is.",
    ),
    Claim(
        id="tradeoff.table_probing",
        entries=("tradeoff.tableF_9", "tradeoff.tableF_10", "tradeoff.tableF_11"),
        says="Regularisation before linear probing helps, more so after diverse data, and closes part of the gap.",
        statements=audited(probing_said),
        observe=probing_observed,
        remarks="CINIC-10 alone loses 0.03 points, without deviations: three digits of a table.",
    ),
)
