"""Claims on the simulations, judged on canned rows: reported numbers are confirmed, wrong rows are not."""

import dataclasses

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.lab.inventory import reported
from featlearn.lab.table import Table
from featlearn.works.emergence import rows
from featlearn.works.emergence.claims import one_step, other_data, simulated_figures, simulated_tables, spread
from featlearn.works.emergence.claims.simulated_tables import METHODS, TABLES

MODULES = (simulated_tables, simulated_figures, spread, one_step, other_data)
CLAIMS = {c.id.removeprefix("emergence."): c for module in MODULES for c in module.CLAIMS if c.reads}
NUMBER = {kind: n for n, sim in TABLES.items() for kind in sim.rows}
WIGGLE = np.array([0.02, -0.01, 0.0, 0.01, -0.02])


def reported_value(number, setting, row, structure, metric):
    """The reported number, or one that goes with it where there is none."""
    suffix = "" if structure else rows.WITHOUT
    name = "One Step" if row == rows.KEPT else row
    found = reported(f"emergence.table{number}", setting=setting, row=name + suffix, metric=metric)
    if found:
        return found[0].value
    return None if row == "NTK" and metric == "cos" else 0.2 if metric == "cos" else 51.0


def canned(kind):
    """Rows of a type in five seeds, as reported where a number is."""
    if kind is rows.Codes:
        return [
            rows.Codes(seed=s, share_init=0.0, share_step1=60.0 + w, share_step2=90.0 - w, cos=0.99)
            for s, w in enumerate(WIGGLE)
        ]
    if kind is rows.Cover:
        covers = {"cover_init": 0.3, "cover_middle": 0.8, "cover_end": 0.9, "cover_median_end": 0.95}
        return [
            rows.Cover(setting=e, seed=s, train_acc=100.0, test_acc=99.0, covered_end=100.0, **covers)
            for e in other_data.EXPERIMENTS
            for s in range(5)
        ]
    if kind is rows.Sizes:
        return [
            rows.Sizes(setting=e, seed=s, d=d, k=k, clusters=2**k, sigma_r=r)
            for e, (d, k, r) in zip(other_data.EXPERIMENTS, other_data.MIXTURES, strict=True)
            for s in range(5)
        ]
    if kind is rows.Split:
        return [
            rows.Split(
                setting="mnist",
                seed=s,
                train_acc=100.0,
                test_acc=99.0,
                silhouette_init=0.0,
                silhouette_end=0.5,
                centre_cos_init=-0.1,
                centre_cos=-0.9,
                sign_share=90.0,
            )
            for s in range(5)
        ]
    if kind is rows.Point:
        return [
            rows.Point(setting="parity", row="One Step", seed=s, scale=a, rate=b, val_acc=99.9 if a * b > 50 else 50.0)
            for a in (3e-4, 2.0)
            for b in (0.1, 100.0)
            for s in (1000, 1001)
        ]
    number = NUMBER[kind]
    sim = TABLES[number]
    if issubclass(kind, rows.Gathered):
        share, cos = {"init": 0.0, "step 1": 60.0, "step 2": 90.0}, {"init": 0.1, "step 1": 0.993, "step 2": 0.995}
        return [
            kind(setting=e, snapshot=n, seed=s, share=v + w * len(n), cos=cos[n])
            for e in sim.settings
            for n, v in share.items()
            for s, w in enumerate(WIGGLE + 0.02)
        ]
    if issubclass(kind, rows.Cause):
        alike = {"structure": False, "cause": simulated_tables.ALIKE, "train_acc": 100.0, "test_acc": 51.0, "cos": 0.2}
        found = [kind(setting=e, row="Network", seed=s, **alike) for e in sim.settings for s in range(5)]
        small = {"structure": True, "cause": "a first step of 0.0003, as for Two Step", "train_acc": 51.0, "cos": 0.9}
        found += [kind(setting="", row="One Step", seed=s, test_acc=52.2 + w, **small) for s, w in enumerate(WIGGLE)]
        many = {"structure": True, "train_acc": 100.0, "test_acc": 80.0, "cos": 0.9}
        causes = (simulated_tables.WIDE, simulated_tables.ADAM) if number == 5 else ()
        few = sim.settings[-1]
        return found + [kind(setting=few, row="Network", seed=s, cause=c, **many) for c in causes for s in range(5)]
    made = []
    for setting in sim.settings:
        for row in (*METHODS, rows.KEPT):
            for structure in (True, False):
                for seed, w in enumerate(np.roll(WIGGLE, len(row)) * len(row)):
                    given = {"setting": setting, "structure": structure, "row": row, "seed": seed}
                    accuracy = {
                        m: min(100.0, reported_value(number, setting, row, structure, m) + w)
                        for m in ("train_acc", "test_acc")
                    }
                    if issubclass(kind, rows.Final):
                        cos = reported_value(number, setting, row, structure, "cos")
                        made.append(kind(**given, **accuracy, cos=None if cos is None else cos - abs(w) / 100))
                    elif row in ("Network", "NTK", "RF"):
                        slow = {"Network": 20, "NTK": 100, "RF": 150}[row]
                        made += [
                            kind(**given, step=t, acc=accuracy["test_acc"] if t >= slow else 50.0 + w)
                            for t in (0, 20, 100, 150, sim.steps)
                        ]
    return made


def judged(name, change=lambda row: row):
    """Outcome of each statement on canned rows, some of them changed."""
    claim = CLAIMS[name]
    tables = tuple(Table.of(kind, [change(r) for r in canned(kind)]) for kind in claim.reads)
    return {f.statement.name: f.outcome for f in verdict_of(claim, Key("canned"), tables).findings}


def edit(row, structure=True, setting=None, step=None, **changes):
    """Changes of the rows of one method."""

    def change(r):
        here = getattr(r, "row", row) == row and getattr(r, "structure", structure) is structure
        here = here and setting in (None, getattr(r, "setting", None)) and step in (None, getattr(r, "snapshot", None))
        known = {f.name for f in dataclasses.fields(r)}
        return dataclasses.replace(r, **{k: v for k, v in changes.items() if k in known}) if here else r

    return change


@pytest.mark.parametrize("name", [n for n in CLAIMS if n not in ("random_cosine", "one_step_cosine", "unstable_ntk")])
def test_what_is_reported_is_confirmed(name):
    found = judged(name)
    assert {n for n, outcome in found.items() if outcome != "confirmed"} == set(), found


def shift(row, by):
    """Neurons with fewer near E[y x] after step 2."""
    return dataclasses.replace(row, share_step2=row.share_step2 - by) if isinstance(row, rows.Codes) else row


PLANTED = [
    ("simulation1", edit("Network", test_acc=98.0), simulated_tables.RIGHT),
    ("simulation1", edit("Two Step", cos=0.9), simulated_tables.NEAR),
    ("simulation1", edit("Network", test_acc=88.0), simulated_tables.SHORT),
    ("simulation1", edit("NTK", test_acc=97.0), simulated_tables.MIDDLE),
    ("simulation1", edit("Network", False, test_acc=76.0), simulated_tables.GUESS),
    ("simulation1", edit("Network", False, cos=0.9), simulated_tables.FAR),
    ("simulation3", edit("Two Step", setting="d=100", test_acc=90.0), simulated_tables.RIGHT),
    ("simulation4", edit("Two Step", test_acc=90.0), simulated_tables.RIGHT),
    ("simulation5", edit("RF", setting="n=10000", test_acc=55.0), simulated_tables.MIDDLE),
    ("memorised", edit("Network", False, train_acc=51.8), simulated_tables.MEMORISED[5]),
    ("memorised", edit("Network", True, train_acc=82.0), simulated_tables.OVERFIT),
    ("memorised_adam", edit("Network", False, train_acc=51.8), simulated_tables.MEMORISED[3]),
    ("memorised_adam", edit("Network", True, train_acc=82.0), simulated_tables.OVERFIT),
    ("simulation2", edit("RF", test_acc=99.0), simulated_tables.RANDOM),
    ("simulation2", edit("Network", False, test_acc=95.0), simulated_tables.PLAIN),
    ("simulation2", edit("Network", False, cos=0.5), simulated_tables.STILL),
    ("interval_ntk", edit("NTK", test_acc=75.0), simulated_tables.SAME),
    ("interval_ntk", edit("NTK", test_acc=75.0), simulated_tables.ABOVE),
    ("interval_one_step", edit("One Step", test_acc=91.0), simulated_tables.ONE),
    ("order1", edit("NTK", test_acc=70.0), "NTK less RF"),
    ("order3", edit("Two Step", setting="d=2000", test_acc=70.0), "d=2000: Two Step less NTK"),
    ("order5", edit("One Step", setting="n=10000", test_acc=90.0), "n=10000: RF less One Step"),
    ("curves1", edit("Network", acc=78.0), simulated_figures.GAP),
    ("curves3", edit("NTK", False, acc=70.0), simulated_figures.GUESS),
    ("curves4", edit("Network", acc=97.0), simulated_figures.TOP),
    ("curves2", edit("Network", acc=90.0), simulated_figures.TIME),
    ("curves2", edit("NTK", acc=75.0), simulated_figures.LOWER),
    ("gathering1", edit("Network", step="step 2", cos=0.97), simulated_figures.NEAR),
    ("gathering3", edit("Network", step="step 1", share=0.5), simulated_figures.FORM),
    ("gathering5", edit("Network", step="step 1", cos=0.999), simulated_figures.BETTER),
    ("second_step_share", edit("Network", step="step 2", share=60.0), simulated_figures.ALREADY[4]),
    ("second_step_share", lambda r: shift(r, 30), simulated_figures.CODES),
    ("seed_spread", lambda r: dataclasses.replace(r, test_acc=r.test_acc - 3 * r.seed), spread.NAMES[1]),
    ("seed_spread_others", lambda r: dataclasses.replace(r, test_acc=r.test_acc - 3 * r.seed), spread.NAMES[4]),
    ("one_step_two_step", edit("Two Step", cos=0.9), one_step.NEAR),
    ("one_step_two_step", edit("One Step", test_acc=84.0), one_step.ONE),
    ("one_step_two_step", edit("Two Step", test_acc=84.0), one_step.TWO),
    ("one_step_two_step", edit("Two Step", test_acc=54.0), one_step.LESS["the start kept"]),
    ("one_step_any_size", edit("One Step", val_acc=70.0), one_step.BEST),
    ("hidden_codes", edit("", share_step2=60.0), other_data.MOST),
    ("hidden_codes", edit("", share_step1=2.0), other_data.FORM),
    ("clusters_covered", edit("", cover_end=0.7), f"Experiment 1: {other_data.WORST}"),
    ("clusters_covered", edit("", cover_init=0.85), f"Experiment 2: {other_data.WORST}, less at the start"),
    ("clusters_covered", edit("", test_acc=60.0), other_data.RIGHT),
    ("two_clusters", edit("", silhouette_end=0.05), other_data.TIGHTER),
    ("two_clusters", edit("", centre_cos=-0.2), other_data.OPPOSITE),
]


def test_two_thirds_of_the_time_is_faster():
    """Network is there at step 100 and NTK at 150; three quarters are asked for."""

    def change(row):
        late = {"Network": 20, "NTK": 100}.get(getattr(row, "row", ""))
        return dataclasses.replace(row, acc=50.0) if isinstance(row, rows.Curve) and row.step == late else row

    assert judged("curves2", change)[simulated_figures.TIME] == "confirmed"


@pytest.mark.parametrize(("name", "change", "statement"), PLANTED, ids=[f"{n}: {s}" for n, _, s in PLANTED])
def test_wrong_rows_contradict(name, change, statement):
    assert judged(name, change)[statement] == "contradicted"


def test_five_seeds_do_not_tell_half_a_point_from_seven_tenths():
    def of(points):
        """NTK with this deviation over the seeds 0 to 4, whose own is the root of 2.5."""
        shift = points / np.sqrt(2.5)
        return lambda r: dataclasses.replace(r, test_acc=r.test_acc - shift * r.seed) if r.row == "NTK" else r

    seen = {points: judged("seed_spread", of(points))[spread.NAMES[1]] for points in (0.15, 0.5, 0.7, 3.0)}
    assert seen == {0.15: "confirmed", 0.5: "inconclusive", 0.7: "inconclusive", 3.0: "contradicted"}


def test_an_unstable_ntk_is_told_from_a_stable_one():
    def wide(r):
        return (
            dataclasses.replace(r, test_acc=r.test_acc - r.seed)
            if type(r) is rows.TABLES[4].final and r.row == "NTK"
            else r
        )

    assert set(judged("unstable_ntk", wide).values()) == {"confirmed"}
    assert set(judged("unstable_ntk").values()) != {"confirmed"}


D = {"d=100": 100, "": 500, "d=2000": 2000}


def cosines(power, row):
    """Cosines that fall with d like d^-power, or whose 1/cos^2 - 1 grows like d^power for the kept start."""

    def change(r):
        if r.row != row or not r.structure:
            return r
        d = D[r.setting]
        w = 1 + WIGGLE[(r.seed * (1 + d // 400)) % 5]
        cos = w * 2.85 / 10 * (d / 100) ** -power if row == "RF" else (1 + w * 0.07 * (d / 100) ** power) ** -0.5
        return dataclasses.replace(r, cos=cos)

    return change


def test_the_largest_of_random_cosines_falls_with_the_root_of_d():
    assert set(judged("random_cosine", cosines(0.5, "RF")).values()) == {"confirmed"}
    wrong = judged("random_cosine", cosines(0.0, "RF"))
    assert [wrong[n] for n in (one_step.LARGEST, one_step.INSIDE, one_step.FALL)] == ["contradicted"] * 3


def test_one_step_cosines_tell_a_kept_start_from_a_forgotten_one():
    kept, flat = cosines(1.0, rows.KEPT), cosines(0.0, rows.KEPT)
    assert set(judged("one_step_cosine", kept).values()) == {"confirmed"}
    assert judged("one_step_cosine", flat)[one_step.KEEPS] == "contradicted"


def test_fewer_seeds_or_steps_are_another_size_and_step_sizes_cannot_be_compared():
    claim = CLAIMS["simulation1"]
    full = [canned(kind) for kind in claim.reads]
    few = [[r for r in rows_ if r.seed < 3] for rows_ in full]
    for given, met in ((full, True), (few, False)):
        tables = tuple(Table.of(kind, r) for kind, r in zip(claim.reads, given, strict=True))
        assert [p.met for p in claim.premises(None, *tables)] == [None, met]


def test_every_pair_that_is_a_point_apart_is_stated():
    assert [len(simulated_tables.PAIRS[n]) for n in TABLES] == [9, 7, 16, 18, 17]


def test_one_computation_is_not_asked_for_two_orders():
    orders = {(better, worse) for _, better, worse in simulated_tables.PAIRS[3].values()}
    assert TABLES[3].one
    assert not {("NTK", "RF"), ("RF", "NTK")} & orders


def test_what_is_computed_once_counts_once():
    claim = CLAIMS["simulation3"]
    final, curve, cause = (Table.of(kind, canned(kind)) for kind in claim.reads)
    seen = claim.observe(None, final, curve, cause)
    assert len(seen[simulated_tables.RIGHT]) == 2 * 5  # of two rows and five seeds, not again at d = 2000
    assert len(seen[simulated_tables.GUESS]) == 5
    apart = Table.of(rows.TABLES[5].final, canned(rows.TABLES[5].final))
    assert len(simulated_tables.values(apart, TABLES[5], "test_acc", ("Network",))) == 2 * 5  # two runs of their own
