"""Canned values for the report tests: a small work, an experiment with rows, a claim."""

from dataclasses import dataclass

import numpy as np

from featlearn.core import Key
from featlearn.lab.citation import Paper
from featlearn.lab.claim import Claim, Premise, broken, verdict_of
from featlearn.lab.estimate import estimates
from featlearn.lab.experiment import Deviation, Experiment, Rows, TrialResult
from featlearn.lab.find import Origin
from featlearn.lab.inventory import Entry, Reported, Work
from featlearn.lab.quantity import POSITIVE
from featlearn.lab.statement import equal
from featlearn.lab.verdicts import judged
from featlearn.report import plots, style
from featlearn.report.compare import against_reported
from featlearn.report.model import ExperimentPage

NASTY = """<script>alert("x")</script> & 'quotes' $x_1$"""
PAPERS = (
    Paper(key="toy", kind="misc", title=f"Toys {NASTY}", authors=("A. Toy",), venue="", year=2020, arxiv="2001.00001"),
)


@dataclass(frozen=True)
class Config:
    d: int = 500
    seeds: tuple[int, ...] = (0, 1, 2)


def entry(id_, kind="table", reported=(), **other):
    base = {
        "work": id_.split(".")[0],
        "check_kind": "statistical",
        "where": "paper, section 6",
        "check": "see the text",
    }
    base |= {"says": f"What {id_} says.", "cost": "seconds", "unstated": (), "reported": tuple(reported)}
    return Entry(id=id_, kind=kind, **(base | other))


REPORTED = (
    Reported("", "Network", "test_acc", 100.0, "%"),
    Reported("", "NTK", "test_acc", 86.4, "%"),
    Reported("", "Network w/o structure", "test_acc", 52.0, "%"),
    Reported("", "Network", "cos", 0.997),
    Reported("", "Network w/o structure", "cos", 0.253),
)


def work():
    entries = (
        entry("toy.table1", reported=REPORTED, ambiguities=(NASTY,), unstated=("the step sizes",)),
        entry(
            "toy.lemma2", "lemma", says=NASTY, check_kind="exact", setting={"d": 5, "list": [1, 2], "in": {"a": True}}
        ),
        entry(
            "toy.figure3",
            "figure",
            numbers={"columns": ["a", "b"], "rows": [[1, None], [2.5, 3]]},
            derived={"ratio": 2.75},
            own_runs={"mean": 0.125},
        ),
    )
    return Work("toy", f"A toy work {NASTY}", PAPERS, "chapter 0", "What it is about.", entries, "Notes.")


def summary():
    rng = np.random.default_rng(0)
    cells = {"Network": 99.8, "NTK": 84.0, "Linear": 85.0, "Network w/o structure": 51.0}
    rows = [{"setting": "", "row": k, "test_acc": v + x} for k, v in cells.items() for x in rng.normal(0, 0.4, 5)]
    rows += [{"setting": "", "row": "Network", "cos": v} for v in (0.996, 0.998)]
    rows += [{"setting": "", "row": "Network w/o structure", "cos": 0.25}]
    ours = estimates(rows, metrics=("test_acc", "cos"))
    lookup = {e.id: e for e in work().entries}.__getitem__
    return against_reported(ours, ["toy.table1"], {"test_acc": 1.0, "cos": 0.01}, {"test_acc": "%"}, lookup)


def draw(table):
    rows = summary()
    figure = style.figure(6, 3.8)
    plots.bars_against_reported(figure, rows, "test_acc", baseline=50)
    other = style.figure(6, 3.8)
    x = np.arange(1, 61)
    y = 100 - 50 * np.exp(-x / 12)
    series = [
        plots.Series(n, x, y - s, y - s - 2, y - s + 2) for n, s in (("Network", 0), ("Network w/o structure", 30))
    ]
    plots.curves(other, series, "step", "test accuracy (%)")
    return {
        "toy.table1": plots.Picture(figure, "Accuracy on test data.", data={"row": ["a", "b"], "value": [1.0, 2.0]}),
        "toy.figure3": other,
    }


def picture():
    from matplotlib.figure import Figure

    return plots.Picture(Figure((1, 1)))


def quick(table):
    return {"toy.table1": picture()}


def experiment(id_="toy/table1", draw=draw, **other):
    base = {"title": "A toy table", "reproduces": ("toy.table1", "toy.figure3"), "Config": Config}
    base |= {
        "presets": {"small": Config(100), "paper": Config()},
        "trials": lambda c: [],
        "summarise": lambda t: summary(),
    }
    base |= {"deviations": (Deviation("step size", reported="not given", ours="tuned", why=NASTY),)}
    return Experiment(id=id_, run_trial=lambda c: TrialResult([]), draw=draw, **(base | other))


def experiment_page(**other):
    where = Origin("0123abcd", True, "CPU, 2 cores", {"torch": "2.14"}, "2025-01-02", 75.0, 812.0, (0, 1, 2, 3, 4))
    base = {"experiment": experiment(), "config": Config(100), "preset": "small", "summary": summary()}
    base |= {"table": Rows(({"trial": "a", "x": 1.0},), diverged=("b",)), "provenance": where}
    base |= {"command": "featlearn run toy/table1 --preset small"}
    return ExperimentPage(**(base | other))


def claim(id_):
    """A claim that is confirmed."""
    trace = equal("trace", POSITIVE, 1.0, "Lemma 2", margin=0.05, rival=1.2, rival_says="a fifth too large")
    return Claim(
        id=id_,
        entries=("toy.lemma2",),
        says=f"What {id_} says: with `x` as above,\n\n    ‖w‖² ≤ 2·σ²·log(1/δ)\n\nfor every δ.",
        statements=lambda settings: (trace,),
        observe=lambda settings, key: {"trace": 1.01},
        premises=(Premise("d >= D", True, "500 >= 100"),),
    )


def verdict(id_="toy.holds", run=True):
    """The verdict on it, or that it was not run."""
    made = verdict_of(claim(id_), Key("canned")) if run else broken(claim(id_), "not run", "featlearn run toy/table1")
    return judged(made)


def verdicts():
    return [verdict()]
