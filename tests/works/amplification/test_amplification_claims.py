"""Amplification: every claim has its expected verdict, and a wrong program or wrong rows change it."""

import math

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.experiment import Rows
from featlearn.lab.pending import Verdict, judge, verify
from featlearn.works.amplification.claims import measured

OURS = {claim.id.removeprefix("amplification."): claim for claim in measured.CLAIMS}
KEY = Key("tests/theory/amplification")


# rows ----------------------------------------------------------------------------------------------------------------


def theorem_rows(good=100.0, clean=100.0, exponent=0.0) -> list[dict]:
    """20 runs on each point of a small grid, flips of exactly 15 %; few samples have an error ~ d^exponent / n."""
    rows = []
    for d in (50, 200):
        for seed in range(20):
            for n in (200, 1000):
                for alpha in (0.1, 0.25):
                    rows.append(
                        {
                            "kind": "grid",
                            "d": d,
                            "n": n,
                            "alpha": alpha,
                            "seed": seed,
                            "good": good,
                            "clean_acc": clean,
                            "n_test": 2000,
                            "test_flips": 0.15,
                            "test_error": 15 + 0.7 * (100 - clean),
                        }
                    )
            for n in (40, 100):
                error = 400 / n * (d / 50) ** exponent * (1 + 0.1 * (seed % 2))
                rows.append(
                    {
                        "kind": "few samples",
                        "d": d,
                        "n": n,
                        "alpha": 0.25,
                        "seed": seed,
                        "good": 10.0,
                        "clean_acc": 100 - error,
                        "test_flips": 0.15,
                        "test_error": 15 + 0.7 * error,
                    }
                )
            rows.append({"kind": "laplace", "d": 200, "n": 1000, "alpha": 0.1, "seed": seed, "good": good})
    return rows


def step_rows(lift=0.8, end=0.99, scale_power=-1.0, overlap=0.1, lined=100.0, margin=0.005, growth=0.06) -> list[dict]:
    """Rows as amplification/steps writes them, with cosines 1.056/sqrt(d) at the start and `lift` after a step."""
    rows = []
    points = [("tight clusters", d, 1e-3) for d in (50, 200, 800)]
    points += [("reported sigma", d, s) for d in (50, 200, 800) for s in (1e-3, 0.1)]
    points += [("scale", 200, s) for s in (1e-3, 1e-4, 1e-2, 0.1)]
    for kind, d, scale in points:
        for seed in range(3):
            base = {"kind": kind, "d": d, "scale": scale, "alpha": 0.25, "n": 1000, "m": 400, "c0": 10.0, "seed": seed}
            weak = 1.056 / math.sqrt(d)
            late = scale == 0.1
            cosines = (weak, 2 * weak**0.4 * 0.2 if late else lift, 0.36 if late else end)
            for t, cos in enumerate(cosines):
                rows.append(
                    {
                        **base,
                        "row": f"t={t}",
                        "t": t,
                        "cos_median": cos,
                        "cos_own_min": 0.03 * weak if t == 0 else 0.2,
                        "aligned": 80.0 if t == 0 else lined,
                        "overlap": overlap,
                        "growth": growth if t else None,
                        "frobenius": 0.001 if t == 0 else 2 * 0.25 * t**0.8 * 0.06,
                    }
                )
            ratio = 0.2 * scale**scale_power * math.sqrt(d / 200)
            rows.append(
                {
                    **base,
                    "row": "end",
                    "ratio": ratio,
                    "movement": ratio * scale,
                    "edge": 0.04,
                    "sets": 0.9,
                    "margin_clean": margin,
                    "margin_noisy": -margin,
                    "whole_clean": margin,
                    "whole_noisy": -margin,
                }
            )
    return rows


def figure1_rows(agree=99.9, wrong=100.0) -> list[dict]:
    return [
        {"agree": agree, "clean_right": 100.0, "noisy_wrong": wrong, "test_acc": 85.1, "clean_acc": 100.0, "norm": 5.0}
        for _ in range(3)
    ]


def figure2_rows(drop=12.0, clean=100.0, fitted=100.0, order=1.0) -> list[dict]:
    def row(kind, d, seed, **values):
        return {"kind": kind, "d": d, "n": 100, "alpha": 2.0, "seed": seed, "interpolated": fitted, **values}

    rows = []
    for seed in range(3):
        rows.append(row("low dimension", 20, seed, drop=drop, clean_acc=80.0, clean_min=80.0))
        rows.append(row("high dimension", 500, seed, drop=0.0, clean_acc=clean, clean_min=clean))
        for d, value in ((10, 80 - 8 * order), (80, 80 + 10 * order)):
            rows.append(row("sweep", d, seed, drop=5.0, clean_acc=value, clean_min=value))
    return rows


ROWS = {"theorem1": theorem_rows, "steps": step_rows, "figure1": figure1_rows, "figure2": figure2_rows}
READS = {
    "theorem1": "theorem1",
    "theorem1_constants": "theorem1",
    "rate_comparison": "theorem1",
    "proposition2": "steps",
    "lemma12": "steps",
    "cosines": "steps",
    "reported_start": "steps",
    "lemma13": "steps",
    "lemma14": "steps",
    "lemma11": "steps",
    "lemma_constants": "steps",
    "figure1": "figure1",
    "figure2": "figure2",
}


def judged(name: str, **change: float) -> Verdict:
    table = Rows(tuple({**row, "trial": "x"} for row in ROWS[READS[name]](**change)))
    return verify(OURS[name], KEY, lambda id_: table if id_ == f"amplification/{READS[name]}" else None)


def test_every_claim_that_reads_rows_is_here():
    assert set(READS) == {claim.id.removeprefix("amplification.") for claim in measured.CLAIMS}


@pytest.mark.parametrize("name", READS)
def test_expected_verdict_on_rows_as_they_should_be(name):
    got = judged(name)
    assert got.as_expected, f"{got.verdict}: {got.why}"
    assert all(c.rival is not None and c.rival_says for c in got.evidence.cases)


@pytest.mark.parametrize("name", READS)
def test_without_rows_the_command_is_named(name):
    got = verify(OURS[name], KEY, lambda _: None)
    assert got.verdict == "not run"
    assert got.why == f"featlearn run amplification/{READS[name]} --preset paper"


@pytest.mark.parametrize(
    "name, change",
    [
        ("theorem1", {"good": 90.0}),
        ("theorem1", {"clean": 99.5}),
        ("theorem1_constants", {"good": 90.0}),
        ("rate_comparison", {"exponent": 0.5}),
        ("proposition2", {"scale_power": -0.8}),
        ("lemma12", {"lift": 0.2, "lined": 99.0}),
        ("cosines", {"lift": 0.74}),
        ("cosines", {"end": 0.94}),
        ("lemma13", {"overlap": 3.1}),
        ("lemma13", {"lined": 99.7}),
        ("lemma14", {"growth": 1.01}),
        ("lemma11", {"margin": 2e-5}),
        ("lemma_constants", {"overlap": 3.1}),
        ("figure1", {"agree": 96.0}),
        ("figure1", {"wrong": 99.0}),
        ("figure2", {"drop": 4.0}),
        ("figure2", {"clean": 99.8}),
        ("figure2", {"fitted": 67.0}),
        ("figure2", {"order": -1.0}),
    ],
)
def test_wrong_rows_refute(name, change):
    got = judged(name, **change)
    assert got.verdict == "refuted", f"{got.verdict}: {got.why}"


def test_rows_without_other_laws_are_judged():
    rows = [r for r in theorem_rows() if r["kind"] != "laplace"]
    assert judge(measured.judge_theorem(Rows(tuple(rows))))[0] == "holds"


def test_picture():
    draw = OURS["lemma12"].draw
    assert draw is not None
    figure = draw(judged("lemma12").evidence)
    figure.canvas.draw()
    assert figure.axes[0].has_data()
    assert np.isfinite(figure.axes[0].get_ylim()).all()
