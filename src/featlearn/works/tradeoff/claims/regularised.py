"""Contrastive regularisation on small images, from the rows of `tradeoff/regularised`, paired by seed.

As in `curve`, the sentences are about other images, and thresholds were fixed before any row: a tenth of a point, and a
hundredth of the silhouette. Every way of adapting is read at the setting that validation seeds choose for it.
"""

from collections.abc import Mapping, Sequence

from featlearn.errors import EmptyArm
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import COSINE, PERCENT, POINTS, Quantity
from featlearn.lab.statement import Statement, order
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, Observation, mean_of
from featlearn.works.tradeoff.rows_images import How, Tuned, arms, at_chosen

TENTH, HUNDREDTH = 0.1, 0.01
SHARES = {"1 %": 0.01, "10 %": 0.1, "100 %": 1.0}
ARMS = "target and method"
ENCODERS = f"{ARMS}, encoder of one source and of all"


def premises(settings: None, table: Table[Tuned]) -> tuple[Premise, ...]:
    """What the tables are about."""
    return (
        Premise("images of the paper (CINIC-10, SVHN, ...), ResNet-18", False, "MNIST and Fashion-MNIST here"),
        Premise("weight 0.1, step size 0.06 and 200 epochs", None, "of six settings one by validation here"),
    )


def by_seed(part: Table[Tuned], how: How, share: float, name: str) -> dict[int, float]:
    """seed -> a column of one way at its chosen setting. Errors: EmptyArm where that diverged on a reported seed."""
    found = at_chosen(part.where(how=how, share=share))
    lost = [r.seed for r in found.rows if getattr(r, name) is None]
    if lost:
        raise EmptyArm(f"{how} at a share of {share:g} diverged on seed {lost[0]}: it has no {name}")
    return found.per_unit(name)


def less(part: Table[Tuned], one: How, two: How, share: float, name: str, quantity: Quantity) -> Estimate:
    """Mean over seeds of one way less another."""
    first, second = (by_seed(part, how, share, name) for how in (one, two))
    return mean_of([first[seed] - second[seed] for seed in first], quantity, Tuned.unit)


def encoders(table: Table[Tuned]) -> list[Table[Tuned]]:
    """The rows of every target, method and encoder, ascending."""
    return [here for part in arms(table).values() for here in part.by("sources").values()]


def of_all(table: Table[Tuned]) -> list[Table[Tuned]]:
    """The rows of the encoders of all sources."""
    return [list(part.by("sources").values())[-1] for part in arms(table).values()]


# --- regularised against plain fine-tuning ---------------------------------------------------------------------------

AHEAD = {label: f"test accuracy with CR less that of FT at {label} of the labels" for label in SHARES}
SOURCE = "Section 7.3.3 and Table F.5: it outperforms fine-tuning consistently; a tenth of a point by our criterion"


def gain_said(settings: None) -> Sequence[Statement]:
    """Ahead at every share, from a specific encoder and from a diverse one."""
    return [
        order(name, POINTS, SOURCE, delta=TENTH, axis=ENCODERS, rival_says="as good as fine-tuning", form="criterion")
        for name in AHEAD.values()
    ]


def gain_observed(settings: None, table: Table[Tuned]) -> Mapping[str, Observation]:
    """The same steps, rows and first views for both."""
    return {
        AHEAD[label]: [less(part, "CR", "FT", share, "accuracy", POINTS) for part in encoders(table)]
        for label, share in SHARES.items()
    }


# --- a contrastive update, then a probe ------------------------------------------------------------------------------

UPDATED = {label: f"gain of LP by a contrastive update at {label} of the labels, all sources" for label in SHARES}
MORE = {label: f"that gain at {label} of the labels less that of the encoder of one source" for label in SHARES}


def update_said(settings: None) -> Sequence[Statement]:
    """An update on the target helps a diverse encoder, and more than a specific one."""
    common = {"delta": TENTH, "axis": ARMS, "form": "criterion"}
    helps = "Tables F.9 to F.11: a contrastive update, then LP, is ahead of LP; a tenth of a point by our criterion"
    more = "Table F.9: gains of -0.03, 1.73, 3.88 and 6.79 with more sources; a tenth of a point by our criterion"
    return (
        *(order(name, POINTS, helps, rival_says="no gain", **common) for name in UPDATED.values()),
        *(order(name, POINTS, more, rival_says="the same gain for both", **common) for name in MORE.values()),
    )


def update_observed(settings: None, table: Table[Tuned]) -> Mapping[str, Observation]:
    """Gains, and differences of gains by seed."""
    seen: dict[str, Observation] = {}
    for label, share in SHARES.items():
        seen[UPDATED[label]] = [less(p, "CR then LP", "LP", share, "accuracy", POINTS) for p in of_all(table)]
        more = []
        for part in arms(table).values():
            several = list(part.by("sources").values())
            few, many = (_gain(here, share) for here in (several[0], several[-1]))
            more.append(mean_of([many[seed] - few[seed] for seed in many], POINTS, Tuned.unit))
        seen[MORE[label]] = more
    return seen


def _gain(part: Table[Tuned], share: float) -> dict[int, float]:
    one, two = (by_seed(part, how, share, "accuracy") for how in ("CR then LP", "LP"))
    return {seed: value - two[seed] for seed, value in one.items()}


# --- clusters --------------------------------------------------------------------------------------------------------

OTHERS: tuple[How, ...] = ("FT", "LP")
NEAR: dict[How, str] = {
    how: f"20 nearest neighbours that are right, CR less {how}, by share of labels" for how in OTHERS
}
TIGHT: dict[How, str] = {how: f"silhouette of normalised features, CR less {how}, by share of labels" for how in OTHERS}
CLEANER = "Figure F.8: cleaner clusters than LP and FT; {} by our criterion"


def clusters_said(settings: None) -> Sequence[Statement]:
    """More neighbours are of one's own class, and classes are tighter."""
    common = {"axis": f"{ARMS}, share of labels", "form": "criterion"}
    return [
        order(name, quantity, CLEANER.format(words), delta=delta, rival_says=f"as clean as {how}", **common)
        for names, quantity, words, delta in (
            (NEAR, PERCENT, "a tenth of a point", TENTH),
            (TIGHT, COSINE, "a hundredth", HUNDREDTH),
        )
        for how, name in names.items()
    ]


def clusters_observed(settings: None, table: Table[Tuned]) -> Mapping[str, Observation]:
    """Training images of the target under encoders of all sources."""
    seen: dict[str, Observation] = {}
    for names, column, span in ((NEAR, "knn", POINTS), (TIGHT, "silhouette", Quantity("difference", low=-2, high=2))):
        for how, name in names.items():
            seen[name] = [
                less(part, "CR", how, share, column, span) for part in of_all(table) for share in SHARES.values()
            ]
    return seen


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="tradeoff.regularised",
        entries=("tradeoff.method_cr", "tradeoff.table7_1", "tradeoff.tableF_5"),
        says="With the contrastive regulariser fine-tuning is more accurate on the target than without, at every share "
        "of the labels, both with searches of the same size.",
        statements=gain_said,
        observe=gain_observed,
        premises=premises,
        reads=(Tuned,),
    ),
    Claim(
        id="tradeoff.regularised_update",
        entries=("tradeoff.tableF_9", "tradeoff.tableF_10", "tradeoff.tableF_11"),
        says="A contrastive update on unlabelled images of the target makes linear probes of a diverse encoder more "
        "accurate, by more than those of an encoder of the target's images alone.",
        statements=update_said,
        observe=update_observed,
        premises=premises,
        reads=(Tuned,),
        remarks="An encoder of the target's images alone has seen them for all its epochs: an update is a quarter "
        "more of the same.",
    ),
    Claim(
        id="tradeoff.regularised_clusters",
        entries=("tradeoff.figF_8",),
        says="Classes of the target lie in cleaner clusters after fine-tuning with the regulariser than after plain "
        "fine-tuning, or without any.",
        statements=clusters_said,
        observe=clusters_observed,
        premises=premises,
        reads=(Tuned,),
        remarks="The figure is a picture at 20 % of the labels; ours are numbers at 1, 10 and 100 %.",
    ),
)
