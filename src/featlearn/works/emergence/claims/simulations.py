"""Claims about the reported simulations: they read rows of the store and never train.

Each table becomes a few comparisons that can fail: accuracies of the methods said to succeed, the order of the methods
where our intervals and the reported numbers both separate them, chance without structure, and cosines. Rates are ours,
as the paper lists none: what they do not reproduce is named, and contradicts nothing.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import chi2

from featlearn.core import Key
from featlearn.lab import claim as typed
from featlearn.lab.estimate import interval
from featlearn.lab.experiment import Rows
from featlearn.lab.inventory import entry, reported
from featlearn.lab.pending import Case, Claim, Evidence, Tables, needs, reads
from featlearn.lab.quantity import COUNT, POSITIVE
from featlearn.lab.statement import Statement, equal
from featlearn.lab.uncertainty import Observation
from featlearn.tasks import GaussianClusters
from featlearn.works.emergence.rows import WITHOUT

ORDERED = ("Network", "NTK", "RF", "One Step", "Two Step")


def of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Setting and row as reported."""
    return row.get("setting", ""), row.get("row", "Network") + ("" if row.get("structure", True) else WITHOUT)


def final(table: Rows, setting: str, row: str, metric: str) -> np.ndarray:
    """One metric of one row, by seed."""
    rows = [r for r in table.rows if of(r) == (setting, row) and r.get(metric) is not None]
    return np.array([r[metric] for r in sorted(rows, key=lambda r: r["seed"])], dtype=np.float64)


def near_reported(
    table: Rows, setting: str, row: str, metric: str, entry_id: str, tolerance: float, rival: str
) -> Case:
    """Our mean within `tolerance` of the reported number, and outside it for the one reported of another method."""
    [mine] = reported(entry_id, row=row, metric=metric, setting=setting)
    [other] = reported(entry_id, row=rival, metric=metric, setting=setting)
    name = f"{setting + ': ' if setting else ''}{row}, {metric}"
    mean = interval(final(table, setting, row, metric))[0]
    return Case(
        name,
        predict=mine.value,
        observe=mean,
        rival=other.value,
        relation="equal",
        tolerance=tolerance,
        rival_says=f"reported value of {rival}",
        unit=mine.unit,
    )


def settings_of(table: Rows) -> list[str]:
    """Settings in table order."""
    return list(dict.fromkeys(r["setting"] for r in table.rows))


RATES = "with our rates, which the paper leaves open"


def order(entry_id: str, aside: Sequence[tuple[str, str, str]], remark: str, table: Rows) -> Evidence:
    """Sign of the difference of two methods, for the pairs that the paper and our 95 % intervals both separate.

    aside: (setting, method, method) that our rates do not put in the reported order; named in the comment, no case.
    """
    cases, kept = [], []
    for setting in settings_of(table):
        if not reported(entry_id, setting=setting):
            continue
        where = f"{setting}: " if setting else ""
        for one, two in itertools.combinations(ORDERED, 2):
            gap = final(table, setting, one, "test_acc") - final(table, setting, two, "test_acc")
            a, b = (reported(entry_id, row=r, metric="test_acc", setting=setting)[0].value for r in (one, two))
            mean, low, high = interval(gap)
            if abs(a - b) > 1 and (low > 0 or high < 0):  # the paper gives a spread below 0.5 points
                sign, name = np.sign(a - b), f"{where}{one} over {two}" if a > b else f"{where}{two} over {one}"
                if (setting, one, two) in aside:
                    if sign != np.sign(mean):
                        kept.append(name)
                    continue
                cases.append(
                    Case(
                        name,
                        predict=sign,
                        observe=np.sign(mean),
                        rival=-sign,
                        relation="equal",
                        tolerance=0.5,
                        rival_says="the opposite order",
                        unit="sign",
                    )
                )
    left = f"Reported and not reproduced {RATES}: {'; '.join(kept)}." if kept else ""
    return Evidence(cases, comment=" ".join(v for v in (left, remark) if v))


def succeed(table: Rows, entry_id: str, setting: str, rival: str = "NTK") -> list[Case]:
    """Network and Two Step within a point of the paper, as the best fixed-feature method is not; their cosines."""
    cases = [near_reported(table, setting, row, "test_acc", entry_id, 1.0, rival) for row in ("Network", "Two Step")]
    return cases + [near_reported(table, setting, row, "cos", entry_id, 0.02, "RF") for row in ("Network", "Two Step")]


def chance(table: Rows, setting: str, guess: float = 50.0) -> Case:
    """Test accuracy without structure of every method against guessing; rival: the accuracy with structure."""
    rows = [r + WITHOUT for r in ORDERED]
    means = np.array([interval(final(table, setting, r, "test_acc"))[0] for r in rows])
    withs = np.array([interval(final(table, setting, r, "test_acc"))[0] for r in ORDERED])
    where = f"{setting}: " if setting else ""
    says = "accuracy with structure"
    return Case(
        f"{where}test accuracy without structure",
        predict=np.full(5, guess),
        observe=means,
        rival=withs,
        relation="equal",
        tolerance=3.0,
        rival_says=says,
        unit="%",
    )


def below_network(table: Rows, setting: str, row: str, least: float = 5.0) -> Case:
    """Accuracy lost by a fixed-feature method, in every seed; rival: the 50 points of guessing."""
    gap = final(table, setting, "Network", "test_acc") - final(table, setting, row, "test_acc")
    name = f"{setting + ': ' if setting else ''}Network minus {row}, test accuracy by seed"
    return Case(
        name,
        predict=np.full(len(gap), least),
        observe=gap,
        rival=np.full(len(gap), 50.0),
        relation="at least",
        tolerance=0.0,
        rival_says="that it only guesses",
        unit="points",
    )


def parity_table(entry_id: str, table: Rows) -> Evidence:
    """A parity table: success, order, chance without structure where classes are balanced."""
    cases: list[Case] = []
    for setting in settings_of(table):
        if not reported(entry_id, setting=setting):
            continue
        cases += succeed(table, entry_id, setting)
        if not setting.startswith("ratio"):
            cases.append(chance(table, setting))
            cases += [below_network(table, setting, row) for row in ("NTK", "RF")]
    return Evidence(cases)


def interval_table(table: Rows) -> Evidence:
    """Table A.2: Network and Two Step succeed, and so does the network without structure."""
    entry_id = "emergence.table2"
    cases = succeed(table, entry_id, "", rival="RF")
    return Evidence([*cases, near_reported(table, "", "Network" + WITHOUT, "test_acc", entry_id, 1.0, "RF")])


def interval_ntk(table: Rows) -> Evidence:
    """Table A.2: NTK above random features, in every seed."""
    gap = final(table, "", "NTK", "test_acc") - final(table, "", "RF", "test_acc")
    [said] = reported("emergence.table2", row="NTK", metric="test_acc")
    mean = interval(final(table, "", "NTK", "test_acc"))[0]
    name = "NTK minus RF, test accuracy by seed"
    return Evidence(
        [
            Case(
                name,
                predict=np.full(len(gap), 1.0),
                observe=gap,
                rival=np.full(len(gap), 50.0),
                relation="at least",
                tolerance=0.0,
                rival_says="50 points",
                unit="points",
            )
        ],
        comment=f"NTK has {mean:.1f} % {RATES}; the paper reports {said.value:.1f} %.",
    )


def interval_one_step(table: Rows) -> Evidence:
    """Table A.2: One Step against the best constant answer."""
    from featlearn.tasks import Interval

    constant = 100 * max(rate := Interval().positive_rate(), 1 - rate)
    seen = final(table, "", "One Step", "test_acc")
    [said] = reported("emergence.table2", row="One Step", metric="test_acc")
    each = np.full(len(seen), constant)
    return Evidence(
        [
            Case(
                "One Step test accuracy by seed, over the best constant",
                predict=each + 5,
                observe=seen,
                rival=each * 0 + 100,
                relation="at least",
                tolerance=0.0,
                rival_says="100 %",
                unit="%",
            )
        ],
        comment=f"The reported {said.value:.1f} % is below the {constant:.1f} % of the larger class, although the text "
        f"speaks of the best classifier on these features; {RATES} they serve to {seen.mean():.1f} %.",
    )


def curve(table: Rows, setting: str, row: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps, and mean accuracy over seeds at each."""
    rows = [r for r in table.rows if of(r) == (setting, row) and "acc" in r]
    steps = sorted({r["step"] for r in rows})
    return np.array(steps), np.array([np.mean([r["acc"] for r in rows if r["step"] == s]) for s in steps])


def parity_curves(table: Rows) -> Evidence:
    """Learning curves: the last point of Network, NTK and RF, with and without structure."""
    cases = []
    for setting in settings_of(table):
        last = {row: curve(table, setting, row)[1][-1] for row in ("Network", "NTK", "RF")}
        where = f"{setting}: " if setting else ""
        gaps = np.array([last["Network"] - last["NTK"], last["Network"] - last["RF"]])
        says = "that they only guess"
        cases.append(
            Case(
                f"{where}final gap of NTK and RF",
                predict=5.0,
                observe=gaps,
                rival=50.0,
                relation="at least",
                tolerance=0.0,
                rival_says=says,
                unit="points",
            )
        )
        cases.append(
            Case(
                f"{where}final accuracy of Network",
                predict=99.0,
                observe=last["Network"],
                rival=101.0,
                relation="at least",
                tolerance=0.0,
                rival_says="above 100",
            )
        )
        if not setting.startswith("ratio"):
            ends = np.array([curve(table, setting, row + WITHOUT)[1][-1] for row in ("Network", "NTK", "RF")])
            withs = np.array(list(last.values()))
            cases.append(
                Case(
                    f"{where}final accuracy without structure",
                    predict=50.0,
                    observe=ends,
                    rival=withs,
                    relation="equal",
                    tolerance=5.0,
                    rival_says="with structure",
                )
            )
    return Evidence(cases)


def interval_curves(table: Rows) -> Evidence:
    """Figure 7: steps to 95 % test accuracy, Network before NTK; RF ends lower by 5 points."""

    def first(row: str) -> float:
        steps, acc = curve(table, "", row)
        return float(steps[np.argmax(acc >= 95)]) if (acc >= 95).any() else np.inf

    ratio = first("Network") / first("NTK")
    gap = curve(table, "", "Network")[1][-1] - curve(table, "", "RF")[1][-1]
    return Evidence(
        [
            Case(
                "steps to 95 %, Network / NTK",
                predict=1.0,
                observe=ratio,
                rival=0.0,
                relation="at most",
                tolerance=0.0,
                rival_says="no step at all",
            ),
            Case(
                "final gap of RF",
                predict=5.0,
                observe=gap,
                rival=50.0,
                relation="at least",
                tolerance=0.0,
                rival_says="that it only guesses",
                unit="points",
            ),
        ]
    )


def gathering(table: Rows) -> Evidence:
    """Neuron maps: the share of neurons with |cos| > 0.95 to the ground truth at the start, step 1 and step 2."""
    cases = []
    shown: set[str] = set()
    for r in table.rows:
        load = table.arrays.get(r["trial"])
        if r["setting"] in shown or load is None or "step 2/cos" not in (arrays := load()):
            continue
        shown.add(r["setting"])
        cos = [np.abs(arrays[f"{name}/cos"]) for name in ("init", "step 1", "step 2")]
        share = np.array([np.mean(c > 0.95) for c in cos])
        where = f"{r['setting']}: " if r["setting"] else ""
        largest = float(arrays["step 2/cos"].max())
        cases.append(
            Case(
                f"{where}largest cosine after step 2",
                predict=0.99,
                observe=largest,
                rival=1.0,
                relation="at least",
                tolerance=0.0,
                rival_says="exact alignment",
            )
        )
        rise = np.array([share[1] - share[0], share[2] - share[0]])
        cases.append(
            Case(
                f"{where}rise of the share with |cos| > 0.95",
                predict=0.5,
                observe=rise,
                rival=1.01,
                relation="at least",
                tolerance=0.0,
                rival_says="all and more",
            )
        )
    return Evidence(cases) if cases else Evidence(not_run="no trial holds neuron positions; run the experiment again")


def one_step_two_step(table: Rows) -> Evidence:
    """One-step features with a first step as small as the theory's fail, two-step features succeed."""
    entry_id = "emergence.table1"
    return Evidence(
        [
            near_reported(table, "", "One Step", "test_acc", entry_id, 5.0, "RF"),
            near_reported(table, "", "Two Step", "test_acc", entry_id, 1.0, "NTK"),
            near_reported(table, "", "Two Step", "cos", entry_id, 0.01, "One Step"),
        ]
    )


def best_first_step(table: Rows) -> Evidence:
    """One Step at the best of all first steps and rates of the grid, on validation seeds, against the reported row."""
    seen: dict[tuple[float, float], list[float]] = {}
    for r in table.rows:
        if of(r) == ("parity", "One Step"):
            seen.setdefault((r["scale_1"], r["rate"]), []).append(r["val_acc"])
    if not seen:
        return needs("emergence/rates")
    (scale, rate), best = max(seen.items(), key=lambda item: min(item[1]))
    [one] = reported("emergence.table1", row="One Step", metric="test_acc")
    [two] = reported("emergence.table1", row="Two Step", metric="test_acc")
    case = Case(
        "One Step, accuracy at the best first step and rate of the grid, by validation seed",
        predict=np.full(len(best), one.value),
        observe=np.array(best),
        rival=np.full(len(best), two.value),
        relation="equal",
        tolerance=5.0,
        rival_says="reported value of Two Step",
        unit="%",
    )
    return Evidence(
        [case],
        comment=f"Best at scale_1 = {scale:g}, rate {rate:g}. The row One Step of our Table A.1 has the smallest first "
        "step of the grid, which ties of Two Step, right at every one, decided.",
    )


def memorised(entry_id: str, table: Rows) -> Evidence:
    """Training accuracy of the network without structure, where classes are balanced: at least 99 %."""
    cases = []
    for setting in settings_of(table):
        values = final(table, setting, "Network" + WITHOUT, "train_acc")
        if not len(values) or setting.startswith("ratio") or not reported(entry_id, setting=setting):
            continue
        where = f"{setting}: " if setting else ""
        cases.append(
            Case(
                f"{where}training accuracy of Network without structure, by seed",
                predict=np.full(len(values), 99.0),
                observe=values,
                relation="at least",
                unit="%",
            )
        )
    return Evidence(
        cases,
        comment=f"Not reproduced {RATES}: they were selected with structure alone, where every point of the grid is "
        "right, and the start is narrow.",
    )


def one_step_cosine(key: object, tables: Tables) -> Evidence:
    """The One Step cosine against d, when step 1 forgets the start and when it keeps it."""
    one, three = tables("emergence/table1"), tables("emergence/table3")
    if one is None or three is None:
        return needs("emergence/table1" if one is None else "emergence/table3")
    where = [(three, "d=100"), (one, ""), (three, "d=2000")]
    theirs = np.array([0.967, 0.848, 0.560])
    forgets = np.array([final(t, s, "One Step", "cos").mean() for t, s in where])
    keeps = np.array([final(t, s, "One Step + start", "cos").mean() for t, s in where])
    cases = [
        Case(
            "cosine at d = 100, 500, 2000, start forgotten",
            predict=forgets[0],
            observe=forgets,
            rival=theirs,
            relation="equal",
            tolerance=0.02,
            rival_says="reported",
        ),
        Case(
            "cosine at d = 100, 500, 2000, start kept",
            predict=theirs,
            observe=keeps,
            rival=forgets,
            relation="equal",
            tolerance=0.1,
            rival_says="start forgotten",
        ),
    ]
    return Evidence(
        cases,
        comment="The reported cosines 0.967, 0.848, 0.560 fall with d. The paper does not list the penalty of its "
        "simulations; a first step that keeps the start gives about these numbers, which is a conjecture.",
        data={"d": np.array([100.0, 500.0, 2000.0]), "reported": theirs, "forgets": forgets, "keeps": keeps},
    )


def random_cosine(table: Rows) -> Evidence:
    """Closest cosine of random weights: E max of m normals / sqrt(d), so cos sqrt(d) is the same for all d."""
    from scipy.stats import norm

    settings = [s for s in settings_of(table) if s.startswith("d=")]
    if len(settings) < 2:
        return needs("emergence/table3")
    d = np.array([float(s.removeprefix("d=")) for s in settings])
    seen = [final(table, s, "RF", "cos") * np.sqrt(v) for s, v in zip(settings, d, strict=True)]
    m = 300  # neurons with different weights in the paper preset
    grid = np.linspace(-2, 8, 20001)
    mean = float(np.trapezoid(grid * m * norm.pdf(grid) * norm.cdf(grid) ** (m - 1), grid))
    spread = np.array([4 * s.std(ddof=1) / np.sqrt(len(s)) for s in seen])  # 4 standard errors
    means = np.array([s.mean() for s in seen])
    rival = mean * np.sqrt(d / d[0])
    return Evidence(
        [
            Case(
                "cos sqrt(d)",
                predict=mean,
                observe=means,
                rival=rival,
                relation="equal",
                tolerance=spread,
                rival_says="a cosine that does not fall with d",
            )
        ]
    )


def seed_spread(table: Rows) -> Evidence:
    """Standard deviation over seeds, against the 0.5 points that the paper states for all accuracies.

    log of the deviation of n normal values has a standard error of about 1/sqrt(2 (n - 1)); two of them are allowed.
    """
    cases, words = [], []
    for row in ("RF", "NTK"):  # Network and Two Step are right on every test sample of every seed
        values = final(table, "", row, "test_acc")
        seen, left = float(values.std(ddof=1)), len(values) - 1
        low, high = (seen * math.sqrt(left / chi2.ppf(p, left)) for p in (0.975, 0.025))
        near, far = min(seen, 0.5), max(seen, 0.75)
        cases.append(
            Case(
                f"log of the deviation over {left + 1} seeds, {row}",
                predict=math.log(near),
                observe=math.log(seen),
                rival=math.log(far),
                tolerance=2 / math.sqrt(2 * left),
                rival_says="a deviation of 0.75 points or more",
            )
        )
        words.append(f"{row} {seen:.2f} [{low:.2f}, {high:.2f}]")
    return Evidence(
        cases,
        comment=f"Deviations in points with 95 % intervals: {', '.join(words)}; below 0.5 is stated. The 10 000 test "
        "samples alone give 0.4.",
    )


def hidden_codes(table: Rows) -> Evidence:
    """Figure 15: the share of neurons along the signal rises from the start to at least 80 % after two steps."""
    share = {n: final(table, "", "Network", f"share_{n}").mean() for n in ("init", "step1", "step2")}
    return Evidence(
        [
            Case(
                "share with |cos| > 0.9 after step 2",
                predict=80.0,
                observe=share["step2"],
                rival=100.0,
                relation="at least",
                tolerance=0.0,
                rival_says="every neuron",
            ),
            Case(
                "share with |cos| > 0.9 at the start",
                predict=5.0,
                observe=share["init"],
                rival=-1.0,
                relation="at most",
                tolerance=0.0,
                rival_says="none",
            ),
        ]
    )


def clusters_covered(table: Rows) -> Evidence:
    """Figure 16: every cluster centre has a neuron along it at the end, and had none at the start; median of seeds."""
    cases, missed = [], 0
    for setting in settings_of(table):
        start, end = (final(table, setting, "Network", f"cover_{when}") for when in ("init", "end"))
        if not len(end):
            continue
        name = f"{setting}: worst centre, end, median of {len(end)} seeds"
        cases.append(
            Case(
                name,
                predict=0.8,
                observe=float(np.median(end)),
                rival=1.0,
                relation="at least",
                tolerance=0.0,
                rival_says="exact alignment",
            )
        )
        cases.append(
            Case(
                f"{setting}: worst centre, start",
                predict=0.8,
                observe=start,
                rival=0.0,
                relation="at most",
                tolerance=0.0,
                rival_says="no alignment",
            )
        )
        missed += int((end < 0.8).sum())
    return Evidence(cases, comment=f"Runs with a centre that no neuron covers, {RATES}: {missed}." if missed else "")


def two_clusters(table: Rows) -> Evidence:
    """Figures 3 and 17: two clusters of neuron directions, opposite and tighter than at the start."""
    cases = []
    for setting in settings_of(table):
        end, init = (final(table, setting, "Network", f"silhouette_{when}") for when in ("end", "init"))
        centre = final(table, setting, "Network", "centre_cos")
        if not len(end):
            continue
        cases.append(
            Case(
                f"{setting}: silhouette at the end",
                predict=init.max(),
                observe=end,
                rival=1.0,
                relation="at least",
                tolerance=0.0,
                rival_says="points",
            )
        )
        cases.append(
            Case(
                f"{setting}: cosine of the two centres",
                predict=0.0,
                observe=centre,
                rival=-1.0,
                relation="at most",
                tolerance=0.0,
                rival_says="opposite",
            )
        )
    return Evidence(cases)


MIXTURES = ((100, 4, 1.0), (25, 4, 0.7), (100, 5, 1.0))
"""d, k and sigma_r of the experiments 1, 2 and 3 of Table A.6."""
DRAWN = 20_000


def mixture_statements(settings: None) -> tuple[Statement, ...]:
    """Clusters, centres and noise of x = sum_i eps_i M_i + g, g ~ N(0, sigma_r^2 (k/d) I)."""
    d, k, r = (np.array(v, dtype=np.float64) for v in zip(*MIXTURES, strict=True))
    energy = r**2 * k
    return (
        equal(
            "clusters",
            COUNT,
            2.0**k,
            "emergence.table6, numbers: clusters",
            axis="experiment",
            rival=2 * k,
            rival_says="2 k clusters",
        ),
        equal(
            "norm of a centre",
            POSITIVE,
            np.sqrt(np.repeat(k, (2**k).astype(int))),
            "k orthonormal directions with signs",
            axis="centre",
            margin=1e-5,
            rival=np.ones(int((2**k).sum())),
            rival_says="centres of norm 1",
        ),
        equal(
            "E||g||^2",
            POSITIVE,
            energy,
            "sigma_r^2 (k/d) in each of d coordinates",
            axis="experiment",
            margin=5 * energy * np.sqrt(2 / (d * DRAWN)),
            rival=r**2 * d,
            rival_says="sigma_r^2 in each coordinate",
        ),
    )


def mixture_observe(settings: None, key: Key) -> Mapping[str, Observation]:
    """Of the task."""
    clusters, norms, energies = [], [], []
    for number, (d, k, r) in enumerate(MIXTURES, 1):
        task = GaussianClusters(d, k, r)
        truth = task.draw(key / number)
        batch = task.sample(truth, DRAWN, key / number / "x")
        assert batch.group is not None
        clusters.append(float(len(truth.centres)))
        norms.append(truth.centres.norm(dim=1).double().numpy())
        energies.append(float((batch.x - truth.centres[batch.group]).square().sum(1).double().mean()))
    return {"clusters": np.array(clusters), "norm of a centre": np.concatenate(norms), "E||g||^2": np.array(energies)}


CLUSTER_SIZES = typed.Claim(
    id="emergence.cluster_sizes",
    entries=("emergence.table6",),
    says="2^k clusters with centres of norm sqrt(k) and noise of energy sigma_r^2 k.",
    statements=mixture_statements,
    observe=mixture_observe,
)


def _claim(
    slug: str,
    entries: Sequence[str],
    says: str,
    check: Callable[..., Evidence],
    expected: str = "holds",
    said: str = "",
) -> Claim:
    ids = tuple(f"emergence.{e}" for e in entries)
    for id_ in ids:
        entry(id_)  # an unknown id fails here, at import, by name
    return Claim(f"emergence.{slug}", entries=ids, says=says, check=check, expected=expected, reported=said)


def _table(number: int, says: str) -> Claim:
    judge = interval_table if number == 2 else partial(parity_table, f"emergence.table{number}")
    return _claim(f"simulation{number}", [f"table{number}"], says, reads(f"emergence/table{number}", judge))


def _order(number: int, aside: Sequence[tuple[str, str, str]] = (), remark: str = "") -> Claim:
    says = "The methods are ordered as reported where our intervals and the reported numbers both separate them."
    if aside:
        says += " Named pairs aside, whose order our rates, which the paper leaves open, do not reproduce."
    judge = partial(order, f"emergence.table{number}", aside, remark)
    return _claim(f"order{number}", [f"table{number}"], says, reads(f"emergence/table{number}", judge))


CLAIMS: tuple[Claim | typed.Claim, ...] = (
    _table(1, "Parity: Network and Two Step are perfect, NTK and RF fall short, nothing learns without structure."),
    _table(2, "Interval labels: Network and Two Step succeed, also without structure."),
    _table(3, "Parity: the conclusions do not depend on the input dimension."),
    _table(4, "Parity: Network and Two Step stay perfect with unbalanced classes."),
    _table(5, "Parity: Network and Two Step stay perfect with fewer samples."),
    _order(1),
    _order(
        2,
        [("", "RF", "One Step")],
        "The reported One Step, 41.0 %, is below the 58.5 % that the best constant answer gets.",
    ),
    _order(3, [("d=2000", "NTK", "RF")]),
    _order(
        4,
        [("ratio=0.8", "RF", "One Step"), ("ratio=0.9", "RF", "One Step")],
        "The reported RF, 70.4 % where class -1 has 80 % and 72.4 % where it has 90 %, is below these shares.",
    ),
    _order(5),
    _claim(
        "interval_ntk",
        ["table2"],
        "Interval labels: NTK ends above random features in every seed; the reported "
        "100 % is not reproduced with our rates, which the paper leaves open.",
        reads("emergence/table2", interval_ntk),
    ),
    _claim(
        "interval_one_step",
        ["table2"],
        "Interval labels: one-step features serve better than a constant, with our "
        "rates, which the paper leaves open; its 41 % is not reproduced.",
        reads("emergence/table2", interval_one_step),
    ),
    *(
        _claim(
            f"curves{n}",
            entries,
            "Learning curves: Network above NTK and RF, chance without structure.",
            reads(f"emergence/table{n}", parity_curves),
        )
        for n, entries in ((1, ("figure1", "figure5")), (3, ("figure9",)), (4, ("figure11",)), (5, ("figure13",)))
    ),
    _claim(
        "curves2",
        ["figure7"],
        "Interval labels: Network learns fastest, NTK catches up, RF stays lower.",
        reads("emergence/table2", interval_curves),
    ),
    *(
        _claim(
            f"gathering{n}",
            entries,
            "Neurons gather at the ground truth within two steps.",
            reads(f"emergence/table{n}", gathering),
        )
        for n, entries in (
            (1, ("figure2", "figure6")),
            (2, ("figure8",)),
            (3, ("figure10",)),
            (4, ("figure12",)),
            (5, ("figure14",)),
        )
    ),
    _claim(
        "one_step_two_step",
        ["claim_onestep_twostep"],
        "After a first step as small as the theory's, a classifier on one-step features is near chance, on two-step "
        "features near perfect.",
        reads("emergence/table1", one_step_two_step),
    ),
    _claim(
        "one_step_any_size",
        ["claim_onestep_twostep", "table1"],
        "A question of ours: does a classifier on one-step features stay near chance at every size of the first step?",
        reads("emergence/rates", best_first_step),
        "refuted",
        "The paper does not list the first step of its simulations; its One Step row holds for small ones, and at a "
        "large one, scale_1 = 2, one step suffices here. The sentence (thesis, A.7.1) speaks of its own runs and is "
        "not contradicted: which first step they had stays open.",
    ),
    *(
        _claim(
            f"memorised{n}",
            [f"table{n}"],
            f"Without structure the network fits its training data to at least 99 %, {RATES}.",
            reads(f"emergence/table{n}", partial(memorised, f"emergence.table{n}")),
            "refuted",
            f"Table A.{n}, row Network w/o structure: not reproduced {RATES}; step size and start of that row were "
            "not selected on it. Nothing in the paper is contradicted.",
        )
        for n in (1, 3, 5)
    ),
    _claim(
        "one_step_cosine",
        ["table3", "claim_onestep_twostep"],
        "With lambda = 1/(2 eta) and sigma_w independent of d one-step weights lie in the span of the data, so that "
        "their cosine does not depend on d.",
        one_step_cosine,
    ),
    _claim(
        "random_cosine",
        ["table3"],
        "The closest of m random directions has cosine E max N(0,1) / sqrt(d).",
        reads("emergence/table3", random_cosine),
    ),
    _claim(
        "seed_spread",
        ["claim_seeds"],
        "Accuracies vary by less than 0.5 points over seeds.",
        reads("emergence/table1", seed_spread),
        "not established",
    ),
    _claim(
        "hidden_codes",
        ["figure15"],
        "Hidden-representation labels: neurons gather along E[y x] in two steps.",
        reads("emergence/figure15", hidden_codes),
    ),
    _claim(
        "clusters_covered",
        ["figure16"],
        "Gaussian mixture: every cluster centre is covered by some neuron, in the median run of each experiment.",
        reads("emergence/figure16", clusters_covered),
    ),
    CLUSTER_SIZES,
    _claim(
        "two_clusters",
        ["figure3", "figure17"],
        "Digits 0/1: neuron directions form two opposite clusters.",
        reads("emergence/figure17", two_clusters),
    ),
)
