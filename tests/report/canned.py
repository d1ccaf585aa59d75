"""Canned values for the report tests: a small work, an experiment with rows, claims of every verdict."""

from dataclasses import dataclass

import numpy as np

from featlearn.lab.citation import Paper
from featlearn.lab.estimate import estimates
from featlearn.lab.experiment import Deviation, Experiment, Rows, TrialResult
from featlearn.lab.find import Origin
from featlearn.lab.inventory import Entry, Reported, Work
from featlearn.lab.pending import Assumption, Case, Claim, Evidence, Verdict, judge
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


def quick(table):
    from matplotlib.figure import Figure

    return {"toy.table1": Figure((1, 1))}


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


def evidence(kind):
    good = Case("trace", predict=1.0, observe=1.01, rival=1.2, tolerance=0.05, rival_says="five per cent too large")
    if kind == "holds":
        x = np.linspace(0, 1, 30)
        curve = Case(
            "decay",
            predict=np.exp(-3 * x),
            observe=np.exp(-3 * x) + 0.01 * np.sin(40 * x),
            rival=np.exp(-2 * x),
            tolerance=0.03,
        )
        rate = Case("rate", predict=1e-3, observe=1.02e-3, rival=4e-2, tolerance=1e-4, unit="1/step")
        lengths = [
            Case(
                f"length {d}",
                predict=d**0.5,
                observe=1.01 * d**0.5,
                rival=d**0.6,
                relation="equal",
                tolerance=0.05 * d**0.5,
                unit="m",
            )
            for d in (10, 100)
        ]
        return Evidence([good, rate, curve, *lengths], [Assumption("d >= D", True, "500 >= 100")], "It does.")
    if kind == "refuted":
        return Evidence([good, Case("norm", predict=1.0, observe=2.0, rival=3.0, tolerance=0.1)])
    if kind == "vacuous":
        return Evidence(
            [good, Case("bound", predict=5e3, observe=0.2, rival=None, relation="at most", vacuous="m >= 7.7e9")]
        )
    if kind == "assumptions unmet":
        return Evidence([good], [Assumption("k >= log² D", False, "5 < 68.8")])
    if kind == "not established":
        return Evidence([Case("loose", predict=1.0, observe=1.0, rival=1.1, tolerance=0.5)])
    return Evidence(data_needed="featlearn data fetch toy") if kind == "data needed" else Evidence()


KINDS = ("holds", "refuted", "vacuous", "assumptions unmet", "not established", "data needed", "not run")


def verdict(kind, id_=None, expected=None, **other):
    says = f"The claim of kind {kind}: with `x` as above,\n\n    ‖w‖² ≤ 2·σ²·log(1/δ)\n\nfor every δ."
    id_ = id_ or f"toy.{kind.replace(' ', '_')}"
    ev = evidence(kind)
    reported = "The paper has σ, right is σ²." if kind == "refuted" else ""
    claim = Claim(
        id_,
        entries=("toy.lemma2",),
        says=says,
        check=lambda key, tables: ev,
        expected=expected or kind,
        reported=reported,
        **other,
    )
    return Verdict(claim, *judge(ev), ev, 0.02)


def verdicts():
    return [verdict(k) for k in KINDS]
