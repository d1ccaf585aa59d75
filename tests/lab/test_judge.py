"""The judge: its truth table, how luck is shared between elements, strength, controls, and honest hard cases."""

import itertools
import math

import numpy as np
import pytest

from featlearn.errors import BadStatement, MissingUnit, NotFinite, OutOfRange
from featlearn.lab.judge import judge, worst
from featlearn.lab.quantity import COSINE, COUNT, EXPONENT, PERCENT, POINTS, POSITIVE, REAL, SHARE
from featlearn.lab.statement import OUTCOMES, at_least, at_most, between, control, equal, exponent, order
from featlearn.lab.uncertainty import Derived, Estimate, Law, Waits, mean_of, slope


def known(value, half, quantity=REAL, **more):
    """An estimate whose interval at 90 % reaches `half` to each side: 4 degrees of freedom."""
    return Estimate(float(value), half / 2.1318467863266495, 4.0, 5, "seed", quantity, **more)


def outcome(statement, seen, **others):
    return judge(statement, {statement.observed_as: seen, **others}).outcome


SEVEN = {"rival": 7.0, "rival_says": "seven"}
SOME = {"quantifier": "some", "quantifier_says": "there is"}
MOST = {"quantifier": "share", "share": 0.5, "quantifier_says": "half of them"}


def made(relation, value=1.0, **more):
    rival = -9.0 if relation == "at least" else 9.0
    given = {"rival": rival, "rival_says": "nine", **more}
    if relation == "between":
        return between("x", REAL, value, value + 1, "(1)", **given)
    return {"equal": equal, "at most": at_most, "at least": at_least}[relation]("x", REAL, value, "(1)", **given)


@pytest.mark.parametrize(
    "relation, inside, outside, across",
    [
        ("equal", (1.0, 0.1), (2.0, 0.1), (1.5, 0.1)),
        ("at most", (0.0, 0.5), (3.0, 0.5), (1.5, 0.5)),
        ("at least", (2.0, 0.5), (-1.0, 0.5), (0.5, 0.5)),
        ("between", (1.5, 0.5), (4.0, 0.5), (2.5, 0.5)),
    ],
)
def test_truth_table_of_one_estimate(relation, inside, outside, across):
    s = made(relation, margin=0.5)
    assert [outcome(s, known(*v)) for v in (inside, outside, across)] == ["confirmed", "contradicted", "inconclusive"]
    low, high = {"equal": (0.5, 1.5), "at most": (None, 1.5), "at least": (0.5, None), "between": (0.5, 2.5)}[relation]
    for limit, sign in ((low, -1), (high, 1)):
        if limit is not None:
            assert outcome(s, np.array([limit])) == "confirmed"
            assert outcome(s, np.array([limit + sign * 1e-9])) == "contradicted"


YES, NO, OPEN = (1.0, 0.1), (9.0, 0.1), (1.5, 0.4)


@pytest.mark.parametrize("seen", list(itertools.product("yno", repeat=4)))
def test_truth_table_of_quantifiers(seen):
    """Every combination of four elements that agree, lie outside or are open, for every, some and half of them."""
    values = [known(*{"y": YES, "n": NO, "o": OPEN}[c]) for c in seen]
    for more, needed in (({}, 4), (SOME, 1), (MOST, 2)):
        s = made("equal", margin=0.5, **more)
        found = outcome(s, values)
        if seen.count("y") >= needed:
            assert found == "confirmed"
        elif 4 - seen.count("n") < needed:
            assert found == "contradicted"
        else:
            assert found == "inconclusive"


def test_the_worst_of_any_two_outcomes_stands_first():
    for i, j in itertools.product(range(len(OUTCOMES)), repeat=2):
        assert worst([OUTCOMES[i], OUTCOMES[j]]) == OUTCOMES[min(i, j)]
    with pytest.raises(ValueError):
        worst([])


def test_levels_of_one_statement_and_of_several():
    e = mean_of([1.0, 2.0, 3.0, 2.5, 1.5], REAL, "seed")
    edge = e.at(0.90)[1]
    assert outcome(made("at most", edge + 1e-9), e) == "confirmed"
    assert outcome(made("at most", edge - 1e-9), e) == "inconclusive"
    for m in (1, 4):
        low = e.at(1 - 0.05 / m)[0]
        for nudge, wanted in ((1e-9, "inconclusive"), (-1e-9, "contradicted")):
            assert judge(made("at most", low + nudge), {"x": e}, m).outcome == wanted


@pytest.mark.parametrize(
    "more, agree, disagree", [({}, 1, 10), (SOME, 10, 1), ({**MOST, "share": 0.6, "quantifier_says": "most"}, 5, 6)]
)
def test_elements_share_the_chances_of_luck(more, agree, disagree):
    """Of 10 elements of which k must agree, 10 - k + 1 may agree by luck and k may disagree by luck."""
    e = mean_of([1.0, 2.0, 3.0, 2.5, 1.5], REAL, "seed")
    high, low = e.at(1 - 0.1 / agree)[1], e.at(1 - 0.05 / disagree)[0]
    for nudge, wanted in ((1e-9, "confirmed"), (-1e-9, "inconclusive")):
        assert outcome(made("at most", high + nudge, **more), [e] * 10) == wanted
    for nudge, wanted in ((1e-9, "inconclusive"), (-1e-9, "contradicted")):
        assert outcome(made("at most", low + nudge, **more), [e] * 10) == wanted


def test_true_and_false_statements_of_many_estimates_err_no_more_than_they_may():
    """400 draws of 20 arms of 5 units. True in every arm: contradicted in at most 5 %. False in every arm (just beyond
    the limit), but asserted of some: confirmed in at most 5 %. Four standard errors of 1.1 % are allowed."""
    rng, wrong = np.random.default_rng(3), {"every": 0, "some": 0}
    for _ in range(400):
        arms = [mean_of(x, REAL, "seed") for x in rng.normal(1.0, 1.0, (20, 5))]
        wrong["every"] += outcome(made("at most", 1.0), arms) == "contradicted"
        wrong["some"] += outcome(made("at most", 1.0, **SOME), arms) == "confirmed"
    assert max(wrong.values()) / 400 <= 0.05 + 4 * 0.011


def test_an_interval_that_ends_at_its_closed_limit_confirms_nothing():
    """A trend of three levels on a grid had the interval [0, 1] and p = 0.27, and "at least 0" was confirmed."""
    e = known(0.5, 0.5)
    assert e.at(0.9)[0] == pytest.approx(0.0, abs=1e-12)
    limit = e.at(0.9)[0]
    assert outcome(made("at least", limit), e) == "inconclusive"
    assert outcome(made("at least", limit - 1e-9), e) == "confirmed"


def test_an_interval_may_end_where_its_quantity_ends():
    s = between("x", SHARE, 0.3, 1.0, "(1)", rival=0.1, rival_says="few")
    assert outcome(s, mean_of(np.ones(5), SHARE, "seed")) == "confirmed"


def test_shapes_that_do_not_fit_are_refused():
    s = equal("x", REAL, np.array([1.0, 2.0]), "(1)", **SEVEN)
    with pytest.raises(BadStatement, match="2 values for 3"):
        outcome(s, np.zeros(3))
    with pytest.raises(MissingUnit, match="nothing was observed as 'x'"):
        judge(s, {"y": np.zeros(2)})
    with pytest.raises(MissingUnit, match="its control 'start'"):
        outcome(at_most("x", REAL, 1.0, "(1)", rival=control("start"), rival_says="start"), np.zeros(2))
    short = at_most(
        "x", REAL, 5.0, "(1)", where=lambda c: c["t"][:1] > np.array([0, 1]), where_says="t", least=1, **SEVEN
    )
    with pytest.raises(BadStatement, match="premise on 2 of 3"):
        outcome(short, Derived(np.ones(3), {"t": np.ones(3)}))


def test_what_a_quantity_cannot_be_is_refused_not_judged():
    s = at_least("x", SHARE, 0.9, "(1)", rival=0.1, rival_says="few")
    with pytest.raises(OutOfRange, match="0 to 1"):
        outcome(s, np.array([95.0]))
    with pytest.raises(BadStatement, match="in %"):
        outcome(s, known(0.95, 0.01, PERCENT))
    assert outcome(s, np.array([1.0 + 1e-12])) == "confirmed"
    gain = at_least("gain", POINTS, 1.0, "(1)", rival=0.0, rival_says="none")
    assert outcome(gain, known(5.0, 1.0, PERCENT)) == "confirmed"


# Strength.


def test_a_bound_that_every_number_meets_is_too_weak():
    whole = at_least("x", POSITIVE, 0.0, "(1)"), at_most("x", SHARE, 1.0, "(1)"), between("x", COSINE, -1.0, 1.0, "(1)")
    for s in whole:
        assert outcome(s, np.array([0.4])) == "too weak to test"
    per_element = at_most("x", SHARE, np.array([1.0, 0.5]), "(1)", rival=0.9, rival_says="most")
    assert outcome(per_element, np.array([1.0, 0.4])) == "confirmed"
    some = at_most("x", SHARE, np.array([1.0, 0.5]), "(1)", **SOME)
    assert outcome(some, np.array([1.0, 0.5])) == "too weak to test"


def test_a_bound_that_nothing_comes_near_is_too_weak_without_a_competitor():
    vacuous = at_most("x", POSITIVE, 1e6, "Theorem 9")
    found = judge(vacuous, {"x": np.array([3.0, 5.0])})
    assert (found.outcome, found.attained) == ("too weak to test", 5e-6)
    assert outcome(at_most("x", POSITIVE, 8.0, "(1)"), np.array([3.0, 5.0])) == "confirmed"
    assert outcome(at_least("x", POSITIVE, 1.0, "(1)"), np.array([3.0, 5.0])) == "too weak to test"
    assert outcome(at_least("x", POSITIVE, 2.0, "(1)"), np.array([3.0, 5.0])) == "confirmed"
    assert outcome(at_most("x", REAL, -1.0, "(1)"), np.array([-100.0])) == "too weak to test"
    assert outcome(at_most("x", REAL, -1.0, "(1)"), np.array([-1.5])) == "confirmed"
    assert outcome(at_least("x", REAL, -1.0, "(1)"), np.array([0.9])) == "too weak to test"
    assert outcome(between("x", POSITIVE, 1.0, 100.0, "(1)"), np.array([10.0])) == "too weak to test"
    assert outcome(between("x", POSITIVE, 1.0, 100.0, "(1)"), np.array([60.0])) == "confirmed"
    assert outcome(vacuous, np.array([2e6])) == "contradicted"


def test_a_bound_that_an_object_without_learning_meets_is_too_weak():
    chance = at_least("x", PERCENT, 45.0, "(1)", rival=10.0, rival_says="broken", trivial=50.0, trivial_says="guessing")
    found = judge(chance, {"x": np.array([90.0])})
    assert (found.outcome, found.why) == ("too weak to test", "met by guessing")
    assert outcome(chance, np.array([40.0])) == "contradicted"
    start = at_least("x", PERCENT, 60.0, "(1)", rival=10.0, rival_says="broken", trivial=control("start"))
    assert outcome(start, np.array([90.0]), start=np.array([50.0])) == "confirmed"
    assert outcome(start, np.array([90.0]), start=np.array([61.0])) == "too weak to test"


def test_a_control_must_be_seen_to_violate():
    s = at_most("drift", POSITIVE, 1e-9, "Lemma 2", rival=control("unbalanced"), rival_says="a start off balance")
    assert outcome(s, np.array([1e-12, 1e-10]), unbalanced=np.array([0.3, 0.2])) == "confirmed"
    assert outcome(s, np.array([1e-12, 1e-10]), unbalanced=np.array([1e-10, 1e-11])) == "too weak to test"
    assert outcome(s, np.array([1e-12, 0.1]), unbalanced=np.array([0.3, 0.2])) == "contradicted"
    gain = at_least("gain", REAL, 1.0, "(1)", rival=control("shuffled"), rival_says="labels shuffled")
    assert outcome(gain, known(5, 1), shuffled=known(0.0, 0.5)) == "confirmed"
    assert outcome(gain, known(5, 1), shuffled=known(0.0, 4.0)) == "inconclusive"
    assert outcome(gain, known(5, 1), shuffled=known(2.0, 4.0)) == "too weak to test"


def test_an_arm_at_the_ceiling_or_at_chance_cannot_show_a_difference():
    s = order("gain", PERCENT, "Table 1", delta=2.0)
    free = known(5, 1, POINTS, reference=70.0, room=(30.0, 20.0))
    full = known(1.0, 0.1, POINTS, reference=99.0, room=(1.0, 49.0))
    assert outcome(s, free) == "confirmed"
    found = judge(s, {"gain": full})
    assert (found.outcome, "no room for a difference of 2" in found.why) == ("too weak to test", True)
    below = known(-16.0, 0.5, POINTS, reference=100.0, room=(0.0, 50.0))
    assert outcome(s, below) == "contradicted"  # of the other sign, which no ceiling makes
    assert outcome(s, known(-0.5, 0.5, POINTS, reference=100.0, room=(0.0, 50.0))) == "too weak to test"
    assert outcome(s, [below, full]) == "contradicted"
    assert outcome(s, [free, full]) == "too weak to test"
    no_worse = at_least("gain", POINTS, 0.0, "(1)", margin=2.0, rival=-50.0, rival_says="broken")
    chance = known(0.0, 0.5, POINTS, reference=50.5, room=(49.5, 0.5))
    assert outcome(no_worse, chance) == "too weak to test"
    assert outcome(no_worse, known(0.0, 0.5, POINTS, reference=80.0, room=(20.0, 30.0))) == "confirmed"
    assert outcome(no_worse, [chance, chance]) == "too weak to test"
    less = at_most("gain", POINTS, -2.0, "(1)", rival=0.0, rival_says="none")
    assert outcome(less, known(-5.0, 0.5, POINTS, reference=51.0, room=(49.0, 1.0))) == "too weak to test"


# Laws, premises, fits.


def test_a_premise_is_met_element_by_element_and_counted():
    t = np.array([1.0, 2.0, 3.0, 4.0])
    law = Law(lambda t, rate: rate * t, rate=2.0)
    s = equal(
        "x",
        REAL,
        law,
        "(4.3)",
        margin=np.array([0.1, 0.2, 0.3, 0.4]),
        rival=law.but(rate=1.0),
        rival_says="half",
        where=lambda c: c["t"] >= 3,
        where_says="t >= 3",
        least=2,
    )
    found = judge(s, {"x": Derived(np.array([9.0, 9.0, 6.25, 8.35]), {"t": t})})
    assert (found.outcome, found.kept, found.of) == ("confirmed", 2, 4)
    assert found.statement is s
    assert outcome(s, Derived(np.array([9.0, 9.0, 6.35, 8.35]), {"t": t})) == "contradicted"
    short = judge(s, {"x": Derived(np.array([9.0, 9.0, 9.0, 8.0]), {"t": t - 1})})
    assert (short.outcome, short.kept) == ("inconclusive", 1)
    assert "2 needed" in short.why


def test_a_law_that_is_not_finite_is_refused():
    law = Law(lambda t, rate: rate / t, rate=2.0)
    s = at_most("x", REAL, law, "(1)", rival=law.but(rate=9.0), rival_says="more")
    with pytest.raises(NotFinite), np.errstate(divide="ignore"):
        outcome(s, Derived(np.ones(2), {"t": np.array([0.0, 1.0])}))


@pytest.mark.parametrize("lost", [math.nan, -math.inf])
def test_a_covariate_that_is_not_finite_is_not_dropped_by_a_premise(lost):
    s = at_most("x", REAL, 2.0, "(1)", where=lambda c: c["t"] > 0, where_says="t above 0", least=1)
    with pytest.raises(NotFinite, match="'t' is not finite"):
        outcome(s, Derived(np.array([1.5, 9.0]), {"t": np.array([1.0, lost])}))


def test_a_rival_law_within_the_limits_is_refused_when_judged():
    law = Law(lambda t, rate: rate * t, rate=2.0)
    s = equal("x", REAL, law, "(1)", margin=0.5, rival=law.but(rate=1.9), rival_says="less")
    with pytest.raises(BadStatement, match="two margins"):
        outcome(s, Derived(np.array([2.0]), {"t": np.array([1.0])}))
    far = Derived(np.array([2.0, 40.0]), {"t": np.array([1.0, 20.0])})
    assert outcome(s, far) == "confirmed"


def test_an_array_rival_must_differ_where_the_premise_holds():
    s = equal(
        "x",
        REAL,
        np.array([1.0, 2.0]),
        "(1)",
        rival=np.array([1.0, 9.0]),
        rival_says="nine",
        where=lambda c: c["t"] < 1,
        where_says="t < 1",
        least=1,
    )
    with pytest.raises(BadStatement, match="within the limits"):
        outcome(s, Derived(np.array([1.0, 2.0]), {"t": np.array([0.0, 1.0])}))


def curved(spread, seed=0):
    rng = np.random.default_rng(seed)
    x = np.repeat(np.log([64.0, 128.0, 256.0, 512.0]), 5)
    return slope(x, x + 2 * np.log(x) + rng.normal(0, spread, x.size), "seed")


def test_lack_of_fit_confirms_no_exponent_and_bounds_are_judged_on_local_ones():
    found = curved(0.01)
    assert found.refused
    near = exponent("x", "equal", found.value, "(1)", margin=0.2, rival=5.0, rival_says="five")
    assert outcome(near, found) == "inconclusive"
    assert outcome(near, [found, found]) == "inconclusive"
    assert (
        outcome(exponent("x", "equal", 3.0, "(1)", margin=0.2, rival=5.0, rival_says="five"), found) == "contradicted"
    )
    rival = {"rival": 5.0, "rival_says": "five"}
    assert outcome(exponent("x", "at most", 1.6, "(1)", **rival), found) == "confirmed"
    middle = judge(exponent("x", "at most", found.value + 0.02, "(1)", **rival), {"x": found})
    assert middle.outcome == "contradicted"
    assert "local exponents" in middle.why


def test_two_dimensions_show_no_exponent():
    x = np.repeat([1.0, 2.0], 5)
    e = slope(x, x + np.random.default_rng(1).normal(0, 0.01, 10), "seed")
    assert outcome(exponent("x", "equal", 1.0, "(1)", margin=0.2, rival=2.0, rival_says="two"), e) == "inconclusive"
    assert outcome(exponent("x", "at most", 1.2, "(1)", rival=2.0, rival_says="two"), e) == "confirmed"


# Honest hard cases.


def test_three_seeds_whose_spreads_contain_a_half_are_inconclusive():
    """emergence.seed_spread: within 0.5 of a unit, 3 seeds, spread [0.40, 1.92]: neither confirmed nor refuted."""
    s = at_most("spread", POSITIVE, 0.5, "Table 1", rival=5.0, rival_says="ten times")
    e = mean_of([0.40, 0.67, 1.92], POSITIVE, "seed")
    assert e.at(0.95)[0] < 0.5 < e.at(0.95)[1]
    assert outcome(s, e) == "inconclusive"
    wide = Estimate(0.87, 0.21, 4.0, 5, "seed", POSITIVE)
    assert outcome(s, wide) == "inconclusive"


def test_a_gain_that_is_not_separated_is_inconclusive():
    e = mean_of([1.2, -0.3, 0.9, -0.8, 0.4], POINTS, "seed")
    assert outcome(at_least("gain", POINTS, 0.5, "Table 2", rival=0.0, rival_says="none"), e) == "inconclusive"
    assert outcome(equal("gain", POINTS, 0.0, "(1)", margin=0.5, rival=1.0, rival_says="a point"), e) == "inconclusive"
    assert outcome(equal("gain", POINTS, 0.0, "(1)", margin=2.0, rival=9.0, rival_says="nine"), e) == "confirmed"


def test_a_print_audit_allows_rounding_and_no_more():
    """Averages recomputed from cells rounded to one decimal, and the average rounded itself: 0.05 + 0.05."""
    cells = np.array([[84.1, 77.9, 96.2], [85.0, 80.1, 97.0]])
    reported = np.array([86.1, 87.4])
    s = equal(
        "averages",
        PERCENT,
        reported,
        "Table 6.1",
        margin=0.1,
        axis="row",
        rival=reported + 0.3,
        rival_says="another cell wrong by one",
    )
    assert outcome(s, cells.mean(1)) == "confirmed"
    cells[1, 1] += 1
    found = judge(s, {"averages": cells.mean(1)})
    assert (found.outcome, found.against, found.why) == ("contradicted", 1, "1 of 2 (row) lie outside")


def test_one_instance_contradicts_every():
    ratios = np.append(np.full(999, 0.5), 1.0000001)
    s = at_most("ratio", POSITIVE, 1.0, "Lemma 5", axis="instance")
    assert outcome(s, ratios) == "contradicted"
    assert outcome(s, ratios[:-1]) == "confirmed"


def test_two_implementations_agree_and_a_broken_premise_tells():
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(20, 20)), rng.normal(size=20)
    one, two = np.linalg.solve(a, b), np.linalg.inv(a) @ b
    other = np.linalg.solve(a + 0.01 * np.eye(20), b)
    s = at_most("difference", POSITIVE, 1e-9, "Algorithm 1", rival=control("ridge"), rival_says="another problem")
    assert outcome(s, np.abs(one - two), ridge=np.abs(one - other)) == "confirmed"
    assert outcome(s, np.abs(one - two), ridge=np.abs(one - two) * 0.5) == "too weak to test"


def test_waiting_times_that_are_censored():
    waited = Waits(np.array([10.0, 50.0, 50.0]), np.array([False, True, True]))
    within = at_most("time", POSITIVE, 80.0, "Figure 2", rival=500.0, rival_says="never")
    assert outcome(within, waited) == "inconclusive"
    assert (
        outcome(at_most("time", POSITIVE, 40.0, "Figure 2", rival=500.0, rival_says="never"), waited) == "contradicted"
    )
    longer = at_least("time", POSITIVE, 45.0, "Figure 2", rival=1.0, rival_says="at once")
    assert outcome(longer, Waits(waited.value[1:], waited.censored[1:])) == "confirmed"
    assert outcome(longer, waited) == "contradicted"
    assert outcome(equal("time", POSITIVE, 50.0, "(1)", rival=9.0, rival_says="nine"), waited) == "contradicted"
    two = Waits(np.array([50.0]), np.array([True]))
    assert outcome(equal("time", POSITIVE, 50.0, "(1)", rival=9.0, rival_says="nine"), two) == "inconclusive"


def test_growth_with_covariates_and_a_premise_by_element():
    """remark4_3: a step grows the signal by eta tau |a| / ||w|| where the signal is below theta."""
    rng = np.random.default_rng(6)
    signal, ratio = rng.uniform(0.01, 2.0, 200), rng.uniform(0.9, 1.0, 200)
    law = Law(lambda signal, ratio, tau: 1 + 0.1 * tau * ratio, tau=0.4)
    seen = np.where(signal < 1, 1 + 0.04 * ratio, 1.5)
    s = equal(
        "growth",
        POSITIVE,
        law,
        "(4.3)",
        margin=1e-6,
        rival=law.but(tau=0.8),
        rival_says="both layers count",
        where=lambda c: c["signal"] < 1,
        where_says="signal below theta",
        least=50,
    )
    found = judge(s, {"growth": Derived(seen, {"signal": signal, "ratio": ratio})})
    assert found.outcome == "confirmed"
    assert found.kept == int((signal < 1).sum()) < found.of == 200
    assert outcome(s, Derived(seen + 1e-5, {"signal": signal, "ratio": ratio})) == "contradicted"


def test_exact_counts():
    s = equal("neurons", COUNT, 18.0, "Theorem 4.9", rival=6.0, rival_says="k = 3")
    assert outcome(s, 18.0) == "confirmed"
    assert outcome(s, np.array([18.0, 17.0])) == "contradicted"
    assert math.isnan(judge(s, {"neurons": 18.0}).attained)
    assert EXPONENT.low == -math.inf
