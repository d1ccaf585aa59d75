"""What transformers of the work show, judged on rows of the experiments: attention matrices, accuracy, grokking."""

from collections.abc import Mapping, Sequence

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.inventory import entry
from featlearn.lab.quantity import PERCENT, POSITIVE, REAL, SHARE, Quantity
from featlearn.lab.statement import Outcome, Statement, at_least, at_most, order
from featlearn.lab.statistics import falling_trend
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Derived, Estimate, Observation
from featlearn.works.fourier.claims.sizes import pairs, sizes, unstated_steps
from featlearn.works.fourier.rows import (
    DECAYED,
    EQUAL,
    REPORTED,
    START,
    SWAPPED,
    TRAINED,
    Arrival,
    Heads,
    Learned,
    Variant,
    delays,
)

FIGURES = ("fourier.figureC_5", "fourier.figure4_3", "fourier.figureC_6")
READ = {"last": "read at the last number", "equals": "read at '='"}


def recipe(*names: str) -> dict[str, int | float]:
    """Reported numbers of the transformers by column."""
    setting = entry("fourier.method_transformer_training").setting
    reported = {"heads": setting["heads"], "width": setting["hidden_dim"], "batch": setting["batch"]}
    return {name: reported[name] for name in names}


def attention_premises(settings: None, table: Table[Heads] | Table[Learned]) -> tuple[Premise, ...]:
    """The sizes of the figures; steps and the place where the network is read are not given."""
    return (pairs(table, *FIGURES), *sizes(table, recipe("heads", "width", "batch")), unstated_steps(table))


def attention_statements(settings: None) -> Sequence[Statement]:
    """Figures 4.3, C.5, C.6: cosines in two dimensions."""
    source = "Figures C.5, 4.3, C.6: the inventory's threshold"
    return (
        *(
            at_least(
                f"trained heads with 0.8 of their power in four pairs of bins, {where}",
                PERCENT,
                80.0,
                source,
                axis="k",
                rival=0.0,
                rival_says="no head",
                form="criterion",
                expect="inconclusive",
            )
            for where in READ.values()
        ),
        at_most(
            "median share of heads at the start in four pairs of bins, k = 3 and 4",
            SHARE,
            0.2,
            source,
            axis="run",
            form="criterion",
        ),
        at_least(
            "median share of heads at the start in four pairs of bins, k = 5",
            SHARE,
            0.2,
            "p = 11: a random matrix has so few bins that four pairs hold more",
            axis="run",
            rival=0.15,
            rival_says="as at the p of k = 4",
            form="derived",
        ),
    )


def attention_observed(settings: None, table: Table[Heads]) -> Mapping[str, Observation]:
    """Means over seeds by k; the start run by run, once for both places where the network is read."""
    seen: dict[str, Observation] = {
        f"trained heads with 0.8 of their power in four pairs of bins, {where}": [
            part.mean("sparse") for part in table.where(weights=TRAINED, readout=readout).by("k").values()
        ]
        for readout, where in READ.items()
    }
    for name, few in (("k = 3 and 4", False), ("k = 5", True)):
        start = table.where(weights=START, readout="last").keep(lambda r, few=few: (r.k == 5) == few, name)
        seen[f"median share of heads at the start in four pairs of bins, {name}"] = start.column("top4")
    return seen


def learned_statements(settings: None) -> Sequence[Statement]:
    """The control: the trained embedding around the W^KQ of the start."""
    return tuple(
        order(
            f"median share with trained W^KQ less that with W^KQ of the start, {where}",
            SHARE,
            "Figures C.5, 4.3, C.6: W^KQ is what is drawn; a difference of 0.05 by our criterion",
            delta=0.05,
            axis="k",
            form="criterion",
            expect=expect,
        )
        for where, expect in zip(READ.values(), ("confirmed", "inconclusive"), strict=True)
    )


def learned_observed(settings: None, table: Table[Heads]) -> Mapping[str, Observation]:
    """Differences by seed, for each k."""
    return {
        f"median share with trained W^KQ less that with W^KQ of the start, {where}": [
            part.paired("top4", {"weights": TRAINED}, {"weights": SWAPPED})
            for part in table.where(readout=readout).by("k").values()
        ]
        for readout, where in READ.items()
    }


AT_LAST, AT_EQUALS = "test accuracy, read at the last number", "test accuracy, read at '=', k = 3 and 4"
LATE = "test accuracy, read at '=', k = 5"


def accuracy_statements(settings: None) -> Sequence[Statement]:
    """Section 4.6: one-layer transformers learn the task up to k = 5."""
    source = "Section 4.6, High Order Correlation Attention; the inventory's number"
    return (
        *(
            at_least(
                name,
                PERCENT,
                95.0,
                source,
                axis="run",
                trivial=100 / 11,
                trivial_says="guessing at the smallest p",
                form="criterion",
            )
            for name in (AT_LAST, AT_EQUALS)
        ),
        at_most(
            LATE,
            PERCENT,
            95.0,
            f"{source}; the source says that the task can be learnt, not from which place",
            axis="run",
            rival=100.0,
            rival_says="every run learns the task",
            form="criterion",
        ),
    )


def accuracy_observed(settings: None, table: Table[Learned]) -> Mapping[str, Observation]:
    """Every run."""
    equals = table.where(readout="equals")
    return {
        AT_LAST: table.where(readout="last").column("test_acc"),
        AT_EQUALS: equals.keep(lambda r: r.k < 5, "k = 3 and 4").column("test_acc"),
        LATE: equals.where(k=5).column("test_acc"),
    }


# grokking ------------------------------------------------------------------------------------------------------------

LEVEL = 95
TREND = Quantity("order", low=-1.0, high=1.0)
RATIO = "step from which test accuracy stays at 95 % over step of 95 % training accuracy, k = 2"
FALLS = "pairs of runs whose ratio falls with k less those where it rises, over all pairs"
ENDS = "test accuracy at the end of the run"
Grokking = tuple[Variant, Outcome, Outcome, Outcome]
"""A variant, and what its rows make of the ratio, of its fall and of the ends."""


def grokking_statements(settings: Grokking) -> Sequence[Statement]:
    """A delay at k = 2, a ratio that falls with k, and test accuracy that stays."""
    _, ratio, falls, ends = settings
    return (
        at_least(
            RATIO,
            POSITIVE,
            2.0,
            "Figure 4.4, first panel: grokking; the inventory's ratio",
            axis="run",
            rival=1.0,
            rival_says="test accuracy comes with training accuracy",
            where=lambda c: c["stayed"],
            where_says="test accuracy comes and stays: points that are never learnt are no grokking",
            least=1,
            form="criterion",
            expect=ratio,
        ),
        order(
            FALLS,
            TREND,
            "Figure 4.4: weaker as k grows, by Jonckheere's statistic, a tenth of all pairs at least",
            delta=0.1,
            form="criterion",
            expect=falls,
        ),
        at_least(
            ENDS,
            PERCENT,
            float(LEVEL),
            "Figure 4.4: validation accuracy comes for every k; the inventory's number",
            axis="run",
            trivial=20.0,
            trivial_says="guessing one of five",
            form="criterion",
            expect=ends,
        ),
    )


def fall(rows: Sequence[Arrival]) -> Estimate:
    """Jonckheere's statistic with the error that exchanging runs between values of k gives it.

    Runs are independent; a run whose test accuracy did not stay counts as what was waited, a lower bound.
    """
    groups = [[(d.ratio, d.open) for d in g] for g in delays(rows, LEVEL).values() if g]
    flat, sizes_ = [w for g in groups for w in g], np.cumsum([len(g) for g in groups])[:-1]
    rng = Key("fourier/grokking/claim").numpy()
    drawn = []
    for _ in range(400):
        mixed = [flat[i] for i in rng.permutation(len(flat))]
        parts = [mixed[a:b] for a, b in zip([0, *sizes_], [*sizes_, len(flat)], strict=True)]
        drawn.append(falling_trend(parts, rng, 1).statistic)
    found = falling_trend(groups, rng, 1).statistic
    return Estimate(found, float(np.std(drawn)), float(len(flat) - 1), len(flat), "run", REAL)


def grokking_observed(settings: Grokking, table: Table[Arrival]) -> Mapping[str, Observation]:
    """Runs of one variant."""
    own = table.where(variant=settings[0])
    waits = delays(own.rows, LEVEL)[2]
    return {
        RATIO: Derived(np.array([d.ratio for d in waits]), {"stayed": np.array([not d.open for d in waits])}),
        FALLS: fall(own.rows),
        ENDS: own.column("test_acc"),
    }


def grokking_premises(settings: Grokking, table: Table[Arrival]) -> tuple[Premise, ...]:
    """Sizes of Figure 4.4. Its steps are not given."""
    own, setting = table.where(variant=settings[0]), entry("fourier.figure4_4").setting
    wanted, found = {tuple(pair) for pair in setting["pairs_k_p"]}, {(r.k, r.p) for r in own.rows}
    reported = {"heads": setting["heads"], "width": setting["hidden_dim"], "batch": setting["batch"]}
    trained = {name: sorted({getattr(r, name) for r in own.rows}) for name in ("decay", "rate")}
    budget = sorted({r.budget for r in own.rows})
    return (
        Premise("the reported (k, p)", wanted == found, ", ".join(map(str, sorted(found))), size=True),
        *sizes(own, reported),
        Premise("weight decay 1e-3", trained["decay"] == [setting["weight_decay"]], str(trained["decay"][0])),
        Premise("step size 1e-3", trained["rate"] == [setting["lr"]], str(trained["rate"][0])),
        Premise("as many steps as reported", None, f"not reported; at most {budget[0]} here"),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="fourier.attention",
        entries=FIGURES,
        says="After training, attention matrices of one-layer transformers are sums of few two-dimensional cosines.",
        statements=attention_statements,
        observe=attention_observed,
        premises=attention_premises,
        reads=(Heads,),
        remarks="Heads E^T W^KQ E with means of rows and columns removed. With p = 11 a random matrix has more than "
        "0.2 of its power in four pairs of its few bins, so that there the start says little. Weight decay and step "
        "size are larger than the reported ones, for fewer steps.",
    ),
    Claim(
        id="fourier.attention_learned",
        entries=FIGURES,
        says="The cosines are in W^KQ, not only in the embedding on both sides of it.",
        statements=learned_statements,
        observe=learned_observed,
        premises=attention_premises,
        reads=(Heads,),
        remarks="A control of our own: the trained embedding around W^KQ of the start.",
    ),
    Claim(
        id="fourier.transformer_accuracy",
        entries=("fourier.figureC_6", "fourier.method_transformer_training"),
        says="A one-layer transformer learns the task for k = 3, 4 and 5, read at the last number.",
        statements=accuracy_statements,
        observe=accuracy_observed,
        premises=attention_premises,
        reads=(Learned,),
        remarks="Where the network is read is not reported: both places are run. Read at '=' the runs of k = 5 do not "
        "learn the task within the steps given to them here. Weight decay and step size are larger than the reported "
        "ones.",
    ),
    Claim(
        id="fourier.grokking",
        entries=("fourier.figure4_4",),
        says="Two-layer transformers learn test points later than training points for the smallest k, twice as late or "
        "more, and by a smaller factor for larger k.",
        settings=(REPORTED, "inconclusive", "inconclusive", "contradicted"),
        statements=grokking_statements,
        observe=grokking_observed,
        premises=grokking_premises,
        reads=(Arrival,),
        remarks="Networks of few heads do not learn the test points of k = 2 within the budget, at the reported weight "
        "decay, so no delay is seen there; in the trend they count as what was waited. The data "
        "sets, chosen 'roughly equal', hold 9409, 29791, 14641 and 3125 points; fourier.grokking_equal_data has as "
        "many for every k.",
    ),
    Claim(
        id="fourier.grokking_decay",
        entries=("fourier.figure4_4",),
        says="The same with 500 times the reported weight decay and three times the step size.",
        settings=(DECAYED, "confirmed", "inconclusive", "contradicted"),
        statements=grokking_statements,
        observe=grokking_observed,
        premises=grokking_premises,
        reads=(Arrival,),
        remarks="With so much decay networks lose what they had.",
    ),
    Claim(
        id="fourier.grokking_equal_data",
        entries=("fourier.figure4_4",),
        says="As fourier.grokking_decay, with as many training points for every k.",
        settings=(EQUAL, "confirmed", "confirmed", "contradicted"),
        statements=grokking_statements,
        observe=grokking_observed,
        premises=grokking_premises,
        reads=(Arrival,),
        remarks="Runs that lose their test accuracy again count as never arrived. At k = 2 the runs are those of "
        "fourier.grokking_decay, so the delay there is not seen twice.",
    ),
)
