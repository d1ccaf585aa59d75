"""Claims about training, read from the rows of the experiments."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from featlearn.lab.estimate import interval
from featlearn.lab.experiment import Rows
from featlearn.lab.pending import Assumption, Case, Claim, Evidence, needs, reads
from featlearn.lab.statistics import LAWS, law_errors, power_fit
from featlearn.works.xor_sgd.claims.exact import TAU1, TAU2
from featlearn.works.xor_sgd.rows import BOTH, FROZEN, PHASES, SAMPLES, choose, pairs

Rows = Sequence[Mapping[str, Any]]


def runs(table: Rows, row: str) -> dict[tuple[int, int], list[Mapping[str, Any]]]:
    """(d, seed) -> rows in order of time."""
    found: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for r in table.rows:
        if r["row"] == row and "time" in r:
            found.setdefault((r["d"], r["seed"]), []).append(r)
    return {k: sorted(v, key=lambda r: r["time"]) for k, v in found.items()}


def judge_induction(table: Rows) -> Evidence:
    """Lemmas C.14 to C.17: the signal grows at the rate of eq. (4.3)."""
    rows = [r for r in table.rows if r["row"] == BOTH and "growth sig" in r]
    d = max(r["d"] for r in rows)
    up, down = ([r[f"growth {name}"] for r in rows if r["d"] == d] for name in ("sig", "opp"))
    every = np.array([r["growth sig"] for r in rows])
    return Evidence(
        (
            Case(
                f"growth of w_sig over eq. (4.3), d = {d}, mean over seeds",
                predict=1.0,
                observe=interval(up)[0],
                rival=TAU2 / TAU1,
                tolerance=0.06,
                rival_says="the rate sqrt(2)/4 of phase 2",
            ),
            Case(
                f"the same of w_opp, d = {d}",
                predict=-1.0,
                observe=interval(down)[0],
                rival=0.0,
                tolerance=0.2,
                rival_says="no decay of the opposite signal",
            ),
            Case(
                "every run within 20 %",
                predict=np.ones_like(every),
                observe=every,
                rival=np.full_like(every, 2.0),
                tolerance=0.2,
                rival_says="rate 2 / sqrt(2 pi)",
            ),
        ),
        comment="Constants of the envelopes are not given in the paper; what is checked is the growth ratio itself, "
        "over all neurons and the steps of the first unit of time.",
    )


def end_of_phase1(rows: Rows) -> Mapping[str, Any] | None:
    """First evaluation at which each cluster has a tenth of the neurons, all with more signal than rest."""
    return next((r for r in rows if r["least cluster"] >= 10), None)


def judge_lemma41(table: Rows) -> Evidence:
    """Lemma 4.1 (C.1) with constants in place of powers of log d."""
    found = {k: end_of_phase1(v) for k, v in runs(table, BOTH).items()}
    reached = {k: r for k, r in found.items() if r is not None}
    if not reached:
        return Evidence(
            (Case("runs in which every cluster has a tenth of the neurons", predict=len(found), observe=0, rival=-1),)
        )
    first = {k: v[0] for k, v in runs(table, BOTH).items()}
    theta = np.array([first[k]["perp"] for k in reached])  # at the start nearly all of a neuron is perpendicular
    rest = np.array([r["perp"] ** 2 + r["opp"] ** 2 for r in reached.values()])
    mass = np.array([r["mass"] for r in reached.values()])
    time = np.array([r["time"] for r in reached.values()])
    log = np.array([math.log(d) for d, _ in reached])
    gap, excess, eta = (np.array([r[k] for r in reached.values()]) for k in ("imbalance", "excess", "eta"))
    return Evidence(
        (
            Case(
                "runs in which every cluster has a tenth of the neurons",
                predict=float(len(found)),
                observe=float(len(reached)),
                rival=float(len(found) + 1),
                relation="at least",
                tolerance=0.0,
                rival_says="one more than there are",
            ),
            Case(
                "E||w_perp + w_opp||^2 at that time",
                predict=4 * theta**2,
                observe=rest,
                rival=0.05 * theta**2,
                relation="at most",
                tolerance=0.0,
                rival_says="theta^2 / 20: the rest has not gone",
            ),
            Case(
                "E||a w|| at that time",
                predict=np.ones_like(mass),
                observe=mass,
                rival=np.full_like(mass, 1e-3),
                relation="at most",
                tolerance=0.0,
                rival_says="1e-3: the network has grown",
            ),
            Case(
                "time over log d",
                predict=np.full_like(time, 5.0),
                observe=time / log,
                rival=np.full_like(time, 0.5),
                relation="at most",
                tolerance=0.0,
                rival_says="0.5, too short for sqrt(d) / (2 tau)",
            ),
            Case(
                "E||w||^2 - E a^2",
                predict=np.sqrt(eta),
                observe=gap,
                rival=np.full_like(gap, -1e-3),
                relation="at most",
                tolerance=0.0,
                rival_says="below -1e-3",
            ),
            Case(
                "|a| - ||w|| of every neuron",
                predict=np.full_like(excess, 1e-6),
                observe=excess,
                rival=np.full_like(excess, -0.5),
                relation="at most",
                tolerance=0.0,
                rival_says="below -1/2",
            ),
        ),
        (Assumption("theta = 1/log^C d and p >= 1/theta with the C of the proof", False, "C is not given"),),
        "Signal above rest is counted in place of ||w_sig|| >= log^5(d) theta; E||w_perp + w_opp||^2 over theta^2 up "
        f"to {float((rest / theta**2).max()):.2f}, time up to {time.max():g}.",
    )


def judge_balance(table: Rows) -> Evidence:
    """Lemma 4.4 (D.3): growth of the smallest and largest margin a unit of time, and their balance."""
    slow, slow_law, fast, fast_law, early, late = [], [], [], [], [], []
    for rows in runs(table, BOTH).values():
        for one, two in itertools.pairwise(rows):
            # heavy: the mass outside S is below 1 % of the smallest margin (zeta = 1/2 in the first clause)
            if one["outside"] > 0.01:
                continue
            step = one["eta"]
            unit = two["time"] - one["time"]
            # g falls while margins grow: its value at the end bounds growth from below, that at the start from above
            slow.append(math.log(two["gamma min"] / one["gamma min"]) / unit)
            slow_law.append(0.9 * math.log1p(2 * step * TAU2 * two["g max"]) / step)
            fast.append(math.log(two["gamma max"] / one["gamma max"]) / unit)
            fast_law.append(1.1 * math.log1p(2 * step * TAU2 * one["g min"]) / step)
        start = next((r for r in rows if r["gamma min"] >= 0.5), None)
        if start is not None:
            early.append(start["gamma max"] / start["gamma min"])
            late.append(rows[-1]["gamma max"] / rows[-1]["gamma min"])
    if not slow or not late:
        return Evidence(
            (Case("runs that became signal-heavy", predict=1.0, observe=0.0, rival=-1.0, relation="at least"),)
        )
    arrays = (np.array(v) for v in (slow, slow_law, fast, fast_law, early, late))
    slow, slow_law, fast, fast_law, early, late = arrays
    return Evidence(
        (
            Case(
                "growth of the smallest margin",
                predict=slow_law,
                observe=slow,
                rival=1.5 * slow_law,
                relation="at least",
                tolerance=1e-3,
                rival_says="half as much again",
            ),
            Case(
                "growth of the largest margin",
                predict=fast_law,
                observe=fast,
                rival=fast_law / 1.5,
                relation="at most",
                tolerance=1e-3,
                rival_says="two thirds of it",
            ),
            Case(
                "largest over smallest margin at the end, less its value when the smallest was 0.5",
                predict=np.zeros_like(late),
                observe=late - early,
                rival=np.full_like(late, 1 - early.max()),
                relation="at most",
                tolerance=0.0,
                rival_says="all margins equal from the start",
            ),
            Case(
                "largest over smallest margin at the end",
                predict=np.ones_like(late),
                observe=late,
                rival=early.mean() * np.ones_like(late),
                tolerance=0.1,
                rival_says="the ratio at margin 0.5, kept",
            ),
        ),
        (Assumption("eta <= zeta^3 and zeta = log^(-c/3) d of the proof", False, "zeta is 1/2 here"),),
        f"{len(slow)} units of time on heavy networks (mass outside S below 1 % of the smallest margin), 10 % slack.",
    )


def judge_remark(table: Rows) -> Evidence:
    """Remark 4.3: linear against exponential growth."""
    frozen, joint, linear, loss = [], [], [], []
    for k, rows in runs(table, FROZEN).items():
        other = runs(table, BOTH)[k]
        theta = rows[0]["perp"]
        # from where the signal leads until the loss begins to fall: g is nearly 1 there
        part = [r for r in rows if r["sig"] > 2 * r["perp"] and r["g min"] > 0.5]
        if len(part) < 4:
            continue
        gain = np.diff([r["sig"] for r in part]) / np.diff([r["time"] for r in part])
        size = np.array([(r["g min"] + r["g max"]) / 2 for r in part[:-1]])
        linear.append(gain / (theta * TAU2 * size))
        half = len(gain) // 2
        rate = np.diff(np.log([r["sig"] for r in part])) / np.diff([r["time"] for r in part])
        frozen.append(rate[half:].mean() / rate[:half].mean())
        grown = [r for r in other if r["sig"] > 2 * r["perp"] and r["g min"] > 0.8]
        if len(grown) > 2:
            pace = np.diff(np.log([r["sig"] for r in grown])) / np.diff([r["time"] for r in grown])
            joint.append(pace.mean() / TAU2)
        loss.append(rows[-1]["loss"] - other[-1]["loss"])
    if not linear or not joint:
        return Evidence(
            (Case("runs long enough to see both", predict=1.0, observe=0.0, rival=-1.0, relation="at least"),)
        )
    gains = np.concatenate(linear)
    return Evidence(
        (
            Case(
                "frozen: gain of signal a unit of time over theta tau g",
                predict=np.ones_like(gains),
                observe=gains,
                rival=np.full_like(gains, 2.0),
                tolerance=0.2,
                rival_says="twice that",
            ),
            Case(
                "frozen: late over early rate of log signal",
                predict=np.full(len(frozen), 0.9),
                observe=frozen,
                rival=np.full(len(frozen), 0.1),
                relation="at most",
                tolerance=0.0,
                rival_says="a tenth, faster than linear growth slows",
            ),
            Case(
                "both layers: rate of log signal over tau",
                predict=np.ones(len(joint)),
                observe=joint,
                rival=np.zeros(len(joint)),
                tolerance=0.15,
                rival_says="no exponential growth",
            ),
            Case(
                "loss left by the frozen layer beyond the other's",
                predict=np.full(len(loss), 0.5),
                observe=loss,
                rival=np.full(len(loss), 1.4),
                relation="at least",
                tolerance=0.0,
                rival_says="1.4, no learning at all",
            ),
        ),
        comment="The remark is about what the proof could maintain. In these runs, with equal |a|, the frozen network "
        "ends signal-dominated and right on every test sample; it grows linearly.",
    )


def judge_theorem(table: Rows) -> Evidence:
    """Theorem 3.1: samples grow nearly linearly, and far below d^2."""
    d, n = pairs(choose(table, "Network"))
    if len(set(d)) < 3:
        return needs(SAMPLES)
    fit, errors = power_fit(d, n), law_errors(d, n)
    best = min(errors, key=lambda name: errors[name])
    return Evidence(
        (
            Case(
                "upper end of the exponent",
                predict=1.7,
                observe=fit.high,
                rival=0.8,
                relation="at most",
                tolerance=0.0,
                rival_says="0.8, fewer than d samples",
            ),
            Case(
                "lower end of the exponent",
                predict=0.9,
                observe=fit.low,
                rival=2.0,
                relation="at least",
                tolerance=0.0,
                rival_says="2, the rate of kernels",
            ),
            Case(
                "misfit of the best law, against that of d^2",
                predict=errors["d^2"] / 2,
                observe=errors[best],
                rival=0.01,
                relation="at most",
                tolerance=0.0,
                rival_says="1 %, no spread over seeds",
            ),
        ),
        (
            Assumption(
                "theta = 1/log^C d, m >= d / theta, p >= 1/theta with the C of the proof",
                False,
                "C is not given; batches are smaller than d",
            ),
        ),
        f"Exponent {fit.slope:.3f} [{fit.low:.3f}, {fit.high:.3f}] for d from {min(d):g} to {max(d):g}; root mean "
        "square misfit of " + ", ".join(f"{name} {errors[name]:.3f}" for name in LAWS) + f". Best is {best}; which "
        "power of the logarithm it is stays open.",
    )


def judge_loss_time(table: Rows) -> Evidence:
    """Theorem 3.1: time to loss 0.1 is C log d."""
    times = {}
    for (d, _), rows in runs(table, BOTH).items():
        reached = next((r["time"] for r in rows if r["loss"] <= 0.1), None)
        times.setdefault(d, []).append(reached)
    if any(t is None for v in times.values() for t in v):
        return Evidence(
            (Case("runs that reached loss 0.1", predict=1.0, observe=0.0, rival=-1.0, relation="at least"),)
        )
    d = np.array(sorted(times), dtype=float)
    mean = np.array([np.mean(times[k]) for k in sorted(times)])
    per_log = float(np.polyfit(np.log(d), mean, 1)[0]) if len(d) > 1 else float("nan")
    power = float(np.polyfit(np.log(d), np.log(mean), 1)[0]) if len(d) > 1 else float("nan")
    accuracy = np.array([rows[-1]["test_acc"] for rows in runs(table, BOTH).values()])
    return Evidence(
        (
            Case(
                "time to loss 0.1 over log d",
                predict=np.full_like(mean, 10.0),
                observe=mean / np.log(d),
                rival=np.full_like(mean, 2.0),
                relation="at most",
                tolerance=0.0,
                rival_says="2, too short",
            ),
            Case(
                "exponent of that time in d", predict=0.0, observe=power, rival=0.5, tolerance=0.2, rival_says="sqrt(d)"
            ),
            Case(
                "test accuracy at the end",
                predict=np.full_like(accuracy, 100.0),
                observe=accuracy,
                rival=np.full_like(accuracy, 50.0),
                tolerance=0.2,
                rival_says="guessing",
                unit="%",
            ),
        ),
        (Assumption("theta = 1/log^C d and p >= 1/theta with the C of the proof", False, "C is not given"),),
        "Time to loss 0.1: "
        + ", ".join(f"d = {k:g}: {t:.1f}" for k, t in zip(d, mean, strict=True))
        + f"; slope in log d {per_log:.2f}, by eq. (4.3) sqrt(2 pi)/2 = {math.sqrt(2 * math.pi) / 2:.2f}.",
    )


def judge_kernels(table: Rows) -> Evidence:
    """The rate d^2 of the NTK and of kernels."""
    cases, said = [], []
    for row in ("NTK", "RBF"):
        points = choose(table, row)
        if len(points) < 2:
            continue
        fit = power_fit(*pairs(points))
        said.append(f"{row} {fit.slope:.3f} [{fit.low:.3f}, {fit.high:.3f}]")
        cases.append(
            Case(
                f"exponent of samples in d, {row}",
                predict=2.0,
                observe=fit.slope,
                rival=1.0,
                tolerance=0.3,
                rival_says="linear growth",
            )
        )
    return Evidence(
        tuple(cases),
        comment="; ".join(said) + ". Budgets over d^2 still fall with d, so the exponent nears 2 from below.",
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "xor_sgd.phase1_induction",
        entries=("xor_sgd.phase1_induction",),
        says="Step by step ||w_sig|| grows by the factor 1 + eta tau while it is small against ||w_perp||.",
        check=reads(PHASES, judge_induction),
    ),
    Claim(
        "xor_sgd.lemma4_1_C1",
        entries=("xor_sgd.lemma4_1_C1",),
        says="At the end of phase 1 each cluster has a tenth of the neurons, dominated by signal, "
        "and the rest is small.",
        check=reads(PHASES, judge_lemma41),
        expected="assumptions unmet",
        reported="The exponent of the logarithm in part 3 of Lemma C.1 is not legible in our copy (5 or c).",
    ),
    Claim(
        "xor_sgd.lemma4_4_D3",
        entries=("xor_sgd.lemma4_4_D3",),
        says="On heavy networks the smallest margin grows at least at 2 tau g_max and the largest at "
        "most at 2 tau g_min, "
        "so margins balance.",
        check=reads(PHASES, judge_balance),
        expected="assumptions unmet",
    ),
    Claim(
        "xor_sgd.remark4_3",
        entries=("xor_sgd.remark4_3",),
        says="With a frozen second layer the signal grows linearly, at theta tau g; with both exponentially, at tau.",
        check=reads(PHASES, judge_remark),
    ),
    Claim(
        "xor_sgd.theorem3_1",
        entries=("xor_sgd.theorem3_1",),
        says="Minibatch SGD needs d polylog(d) samples.",
        check=reads(SAMPLES, judge_theorem),
        expected="assumptions unmet",
        reported="Theorem 3.1 has the radius theta/sqrt(p) and batches m >= d/theta, Theorem E.1 theta and d/theta, "
        "Lemma C.1 d/theta^2: powers of log d apart.",
    ),
    Claim(
        "xor_sgd.theorem3_1_time",
        entries=("xor_sgd.theorem3_1",),
        says="The loss is small after a time of C log d.",
        check=reads(PHASES, judge_loss_time),
        expected="assumptions unmet",
    ),
    Claim(
        "xor_sgd.prior_rates",
        entries=("xor_sgd.prior_rates",),
        says="The NTK, and kernels, need about d^2 samples.",
        check=reads(SAMPLES, judge_kernels),
    ),
)
