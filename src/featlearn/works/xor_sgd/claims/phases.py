"""Claims about the two phases of training, read from the rows of `xor_sgd/phases`."""

import itertools
import math
from collections.abc import Mapping

import numpy as np

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_least, at_most, control, equal, exponent, order
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Derived, Law, Observation, mean_of, slope
from featlearn.works.xor_sgd.rows import BOTH, FROZEN, Crossing, Growth, Phase
from featlearn.works.xor_sgd.setup import TAU1, TAU2

CONSTANTS = Premise("theta = 1/log^C(d) and p >= 1/theta with the C of the proof", None, "C is not given")


# --- Lemmas C.14 to C.17 ---------------------------------------------------------------------------------------------


def induction_statements(settings: None) -> tuple[Statement, ...]:
    """Growth by 1 + eta tau_1 a step, decay of the opposite signal by as much."""
    return (
        equal(
            "growth of w_sig over eq. (4.3), largest d",
            REAL,
            1.0,
            "eq. (4.3), Lemmas C.14 to C.17",
            margin=0.05,
            rival=TAU2 / TAU1,
            rival_says="the rate sqrt(2)/4 of phase 2",
        ),
        equal(
            "growth of w_opp over eq. (4.3), largest d",
            REAL,
            -1.0,
            "eq. (4.3), Lemmas C.14 to C.17",
            margin=0.2,
            rival=0.0,
            rival_says="no decay of the opposite signal",
        ),
        equal(
            "growth of w_sig over eq. (4.3), every run",
            REAL,
            1.0,
            "Lemmas C.14 to C.17: 1 + 2 eta tau of the square, up to a fifth",
            axis="run",
            margin=0.2,
            rival=2.0,
            rival_says="both layers growing at first order",
            form="criterion",
        ),
        equal(
            "growth of ||w_sig|| a step, eta = 0.2, batch 40 d, largest d",
            POSITIVE,
            1 + 0.2 * TAU1,
            "eq. (4.3): 1 + eta tau_1",
            margin=0.0013,
            rival=math.sqrt(1 + 2 * 0.2 * TAU1),
            rival_says="sqrt(1 + 2 eta tau_1), the proof's envelope",
        ),
    )


def induction_observed(settings: None, table: Table[Growth], crossings: Table[Crossing]) -> Mapping[str, Observation]:
    """Slopes of what steps add on what the formula adds, over neurons and the steps of the first unit of time; and the
    growth of the root mean square over the first 8 steps of other runs."""
    fine = crossings.where(eta=0.2, batch=40.0, d=max(r.d for r in crossings.rows))
    both = table.where(layers=BOTH)
    largest = both.where(d=max(r.d for r in both.rows))
    return {
        "growth of w_sig over eq. (4.3), largest d": largest.mean("sig"),
        "growth of w_opp over eq. (4.3), largest d": largest.mean("opp"),
        "growth of w_sig over eq. (4.3), every run": both.column("sig"),
        "growth of ||w_sig|| a step, eta = 0.2, batch 40 d, largest d": fine.mean("growth"),
    }


# --- Lemma 4.1 -------------------------------------------------------------------------------------------------------


def wait(d: np.ndarray, c: float, power: float) -> np.ndarray:
    """c log d, or with power 1 c sqrt(d): what exponential and linear growth from theta / sqrt(d) to theta take."""
    return c * (np.sqrt(d) if power else np.log(d))


def lemma41_statements(settings: None) -> tuple[Statement, ...]:
    """Parts 1 to 5 of Lemma C.1; "signal above the rest" stands for log^5(d) theta."""
    source = "Lemma C.1"
    more = {"axis": "run", "trivial_says": "the start", "expect": "too weak to test"}
    return (
        at_most(
            "time until each cluster has a tenth of the neurons, with more signal than rest",
            POSITIVE,
            Law(wait, c=4.0, power=0.0),
            f"{source}, part 3: T1 = Theta(log d / eta); by eq. (4.3) 0.5 log d / tau_1 = 1.25 log d for a neuron "
            "of mean signal, and 4 log d allows for log^5(d) in place of 1",
            axis="run",
            rival=Law(wait, c=4.0, power=1.0),
            rival_says="4 sqrt(d), linear growth",
            form="criterion",
        ),
        exponent(
            "exponent in d of the time until then",
            "at most",
            0.4,
            f"{source}: T1 = Theta(log d / eta), whose exponent is 1/log d, at most 0.24 here",
            rival=0.5,
            rival_says="sqrt(d), the time of linear growth",
            form="criterion",
        ),
        at_most("E||a w||", POSITIVE, 1.0, f"{source}, part 1", trivial=control("E||a w|| at the start"), **more),
        at_most(
            "E||w_perp + w_opp||^2 over theta^2",
            POSITIVE,
            4.0,
            f"{source}, part 2",
            trivial=control("E||w_perp + w_opp||^2 over theta^2 at the start"),
            **more,
        ),
        at_most(
            "E||w||^2 - E a^2, over sqrt(eta)",
            REAL,
            1.0,
            f"{source}, part 5",
            trivial=control("E||w||^2 - E a^2, over sqrt(eta), at the start"),
            **more,
        ),
        at_most("largest |a| - ||w||", REAL, 1e-6, f"{source}, part 4", trivial=0.0, **more),
    )


def lemma41_observed(settings: None, table: Table[Phase]) -> Mapping[str, Observation]:
    """Networks with both layers trained at the first evaluation at which part 3 holds, and at their start."""
    runs = list(table.where(layers=BOTH).by("d", "seed").values())
    first = [run.rows[0] for run in runs]
    then = [next((r for r in run.rows if r.least_cluster >= 10), run.rows[-1]) for run in runs]
    until, d = np.array([r.time for r in then]), np.array([float(r.d) for r in first])
    late = np.array([r.least_cluster < 10 for r in then])

    def rest(rows: list[Phase]) -> np.ndarray:
        return np.array([(r.perp**2 + r.opp**2) / r.theta**2 for r in rows])

    def gap(rows: list[Phase]) -> np.ndarray:
        return np.array([r.imbalance / math.sqrt(r.eta) for r in rows])

    return {
        "time until each cluster has a tenth of the neurons, with more signal than rest": Derived(
            np.where(late, 1e9, until), {"d": d}
        ),
        "exponent in d of the time until then": slope(np.log(d), np.log(until), Phase.unit),
        "E||a w||": np.array([r.mass for r in then]),
        "E||a w|| at the start": np.array([r.mass for r in first]),
        "E||w_perp + w_opp||^2 over theta^2": rest(then),
        "E||w_perp + w_opp||^2 over theta^2 at the start": rest(first),
        "E||w||^2 - E a^2, over sqrt(eta)": gap(then),
        "E||w||^2 - E a^2, over sqrt(eta), at the start": gap(first),
        "largest |a| - ||w||": np.array([r.excess for r in then]),
    }


# --- Lemma 4.4 -------------------------------------------------------------------------------------------------------


def margin_rate(eta: np.ndarray, g: np.ndarray, outside: np.ndarray, tau: float, slack: float) -> np.ndarray:
    """Growth of log margin a unit of time when a step multiplies it by 1 + 2 eta tau g."""
    return slack * np.log1p(2 * eta * tau * g) / eta


def heavy(covariates: Mapping[str, np.ndarray]) -> np.ndarray:
    """Units of time in which neurons off the clusters have less than 1 % of the smallest margin."""
    return covariates["outside"] <= 0.01


def balance_statements(settings: None) -> tuple[Statement, ...]:
    """The smallest margin grows at least at 2 tau g_max, the largest at most at 2 tau g_min, so margins balance."""
    slow, fast = Law(margin_rate, tau=TAU2, slack=0.9), Law(margin_rate, tau=TAU2, slack=1.1)
    more = {
        "axis": "unit of time",
        "where": heavy,
        "where_says": "signal-heavy: mass off the clusters below 1 % of the smallest margin",
        "least": 100,
        "form": "criterion",
    }
    return (
        at_least(
            "growth of the smallest margin",
            REAL,
            slow,
            "Lemma 4.4: factor 1 + 2 eta tau g_max a step, o(1) taken as a tenth",
            rival=slow.but(tau=TAU2 / 2),
            rival_says="one layer growing",
            **more,
        ),
        at_most(
            "growth of the largest margin",
            REAL,
            fast,
            "Lemma 4.4: factor 1 + 2 eta tau g_min a step, o(1) taken as a tenth",
            rival=fast.but(tau=2 * TAU2),
            rival_says="twice the rate",
            **more,
        ),
        equal(
            "largest over smallest margin, end",
            POSITIVE,
            1.0,
            "Lemma 4.4: margins balance",
            axis="run",
            margin=0.1,
            rival=control("largest over smallest margin, smallest at 0.5"),
            rival_says="the ratio when the smallest margin was 0.5, kept",
            form="criterion",
        ),
    )


def balance_observed(settings: None, table: Table[Phase]) -> Mapping[str, Observation]:
    """Growth between neighbouring units of time, and ratios of margins, of networks with both layers trained."""
    slow, fast, early, late = [], [], [], []
    for run in table.where(layers=BOTH).by("d", "seed").values():
        for one, two in itertools.pairwise(run.rows):
            if one.margin_min > 0:
                unit = two.time - one.time
                # g falls while margins grow: its end bounds growth from below, its start from above
                slow.append((math.log(two.margin_min / one.margin_min) / unit, one.eta, two.loss_size_max, one.outside))
                fast.append((math.log(two.margin_max / one.margin_max) / unit, one.eta, one.loss_size_min, one.outside))
        start = next(r for r in run.rows if r.margin_min >= 0.5)
        early.append(start.margin_max / start.margin_min)
        late.append(run.rows[-1].margin_max / run.rows[-1].margin_min)
    found = {}
    for name, records in (("growth of the smallest margin", slow), ("growth of the largest margin", fast)):
        value, eta, g, outside = np.array(records).T
        found[name] = Derived(value, {"eta": eta, "g": g, "outside": outside})
    return {
        **found,
        "largest over smallest margin, end": np.array(late),
        "largest over smallest margin, smallest at 0.5": np.array(early),
    }


# --- Remark 4.3 ------------------------------------------------------------------------------------------------------


def log_gain(theta: np.ndarray, g: np.ndarray, leads: np.ndarray, tau: float) -> np.ndarray:
    """Logarithm of what a unit of time adds to a signal whose second layer stays at theta."""
    return np.log(theta * tau * g)


def leads(covariates: Mapping[str, np.ndarray]) -> np.ndarray:
    """Units of time from where the signal is twice the rest until the loss derivative has fallen to a half."""
    return (covariates["leads"] > 2) & (covariates["g"] > 0.5)


def remark_statements(settings: None) -> tuple[Statement, ...]:
    """Linear growth with a frozen second layer, exponential growth with both trained."""
    law = Law(log_gain, tau=TAU2)
    return (
        equal(
            "first layer alone: log of the gain of signal a unit of time",
            REAL,
            law,
            "Remark 4.3 and Claim D.6: a step adds eta |a| tau g",
            axis="unit of time",
            margin=0.2,
            where=leads,
            where_says="the signal is twice the rest, g above 1/2",
            least=50,
            rival=law.but(tau=2 * TAU2),
            rival_says="twice the rate, as if both layers grew",
        ),
        at_most(
            "first layer alone: late over early rate of log signal",
            POSITIVE,
            0.75,
            "Remark 4.3: linear growth, whose rate of the logarithm falls; an exponential keeps it",
            rival=1.0,
            rival_says="exponential growth",
            form="criterion",
        ),
        at_least(
            "both layers: late over early rate of log signal",
            POSITIVE,
            0.75,
            "Remark 4.3: exponential growth keeps the rate of the logarithm",
            rival=control("first layer alone: late over early rate of log signal"),
            rival_says="linear growth, as with the first layer alone",
            form="criterion",
        ),
        order(
            "loss left by the first layer alone beyond that of both",
            POSITIVE,
            "Remark 4.3: the exponential advantage is lost",
            delta=0.5,
            form="criterion",
        ),
    )


def late_over_early(run: Table[Phase], least: float) -> float | None:
    """Mean rate of log signal in the second half over that in the first, while the signal leads and g is above."""
    part = [r for r in run.rows if r.sig > 2 * r.perp and r.loss_size_min > least]
    if len(part) < 4:
        return None
    rate = np.diff(np.log([r.sig for r in part])) / np.diff([r.time for r in part])
    half = len(rate) // 2
    return float(rate[half:].mean() / rate[:half].mean())


def per_seed(ratios: Mapping[int, list[float]]) -> list[float]:
    """Each seed's mean over dimensions: a dimension is a setting, not a unit."""
    return [float(np.mean(v)) for v in ratios.values()]


def remark_observed(settings: None, table: Table[Phase]) -> Mapping[str, Observation]:
    """Signals of both ways of training, run by run, and the loss at their end, paired by run."""
    gains, kept = [], {FROZEN: {}, BOTH: {}}
    for (_, seed, layers), run in table.by("d", "seed", "layers").items():
        ratio = late_over_early(run, 0.5 if layers == FROZEN else 0.8)
        if ratio is not None:
            kept[layers].setdefault(seed, []).append(ratio)
        if layers == FROZEN:
            gains += [
                (
                    math.log((two.sig - one.sig) / (two.time - one.time)),
                    one.theta,
                    (one.loss_size_min + one.loss_size_max) / 2,
                    one.sig / one.perp,
                )
                for one, two in itertools.pairwise(run.rows)
                if two.sig > one.sig
            ]
    value, theta, g, ratio = np.array(gains).T
    end = table.where(time=max(r.time for r in table.rows))
    return {
        "first layer alone: log of the gain of signal a unit of time": Derived(
            value, {"theta": theta, "g": g, "leads": ratio}
        ),
        "first layer alone: late over early rate of log signal": mean_of(per_seed(kept[FROZEN]), POSITIVE, Phase.unit),
        "both layers: late over early rate of log signal": mean_of(per_seed(kept[BOTH]), POSITIVE, Phase.unit),
        "loss left by the first layer alone beyond that of both": end.paired(
            "loss", {"layers": FROZEN}, {"layers": BOTH}, over=("d",)
        ),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="xor_sgd.phase1_induction",
        entries=("xor_sgd.phase1_induction",),
        says="Step by step ||w_sig|| grows by the factor 1 + eta tau while it is small against ||w_perp||.",
        statements=induction_statements,
        observe=induction_observed,
        premises=(CONSTANTS,),
        reads=(Growth, Crossing),
        remarks="Constants of the proof's envelopes are not given; what is measured is the growth ratio itself.",
    ),
    Claim(
        id="xor_sgd.lemma4_1_C1",
        entries=("xor_sgd.lemma4_1_C1",),
        says="At the end of phase 1 each cluster has a tenth of the neurons, dominated by signal, and the rest is "
        "small.",
        statements=lemma41_statements,
        observe=lemma41_observed,
        premises=(CONSTANTS,),
        reads=(Phase,),
        remarks="The exponent of the logarithm in part 3 of Lemma C.1 is not legible in our copy (5 or c).",
    ),
    Claim(
        id="xor_sgd.lemma4_4_D3",
        entries=("xor_sgd.lemma4_4_D3",),
        says="On heavy networks the smallest margin grows at least at 2 tau g_max and the largest at most at 2 tau "
        "g_min, so margins balance.",
        statements=balance_statements,
        observe=balance_observed,
        premises=(
            CONSTANTS,
            Premise("eta <= zeta^3 with zeta = log^(-c/3) d of the proof", None, "c is not given"),
        ),
        reads=(Phase,),
        remarks="The main text iterates for Theta(loglog d / eta) steps, Appendix E for zeta^(-1/160) / eta, as our "
        "copy has it: a power of log d, within O(log d / eta) of Theorem 3.1 where it is at most 1.",
    ),
    Claim(
        id="xor_sgd.remark4_3",
        entries=("xor_sgd.remark4_3",),
        says="With a frozen second layer the signal grows linearly, at theta tau g; with both layers exponentially.",
        statements=remark_statements,
        observe=remark_observed,
        reads=(Phase,),
        remarks="The remark is about what the proof could maintain. In these runs, with equal |a|, the network with a "
        "frozen second layer ends dominated by signal and right on every test sample.",
    ),
)
