"""The teacher of Algorithm 1: the rule for its size, labels, students, and claims on planted rows."""

import dataclasses

import pytest
import torch
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.errors import FeatlearnError, MissingUnit
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import verdict_of
from featlearn.lab.inventory import entry
from featlearn.lab.table import Table
from featlearn.works.emergence.claims import teacher as claims
from featlearn.works.emergence.experiments import labelling, teacher
from featlearn.works.emergence.experiments.teacher import EXPERIMENT, Config, Shape, shape
from featlearn.works.emergence.rows_teachers import Balance, Fitted, Minimum

BY_ID = {c.id.removeprefix("emergence."): c for c in claims.CLAIMS}
SMOKE = EXPERIMENT.presets["smoke"]


# --- the rule --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "losses, found",
    [
        ((0.9, 0.5, 0.6, 0.8, 0.4), Shape(1, 3, 1.6, True)),  # double descent
        ((0.9, 0.5, 0.6, 0.7, 0.8), Shape(1, 4, 1.6, False)),  # a U
        ((0.9, 0.8, 0.7, 0.6, 0.5), None),  # no rise
        ((0.9, 0.8, 0.83, 0.6, 0.5), None),  # a rise by less than a twentieth
        ((2.0, 2.2, 0.5, 0.8, 0.4), Shape(2, 3, 1.6, True)),  # networks that are too small are no peak
        ((0.5, 0.6, 0.7, 0.65, 0.6), Shape(0, 2, 1.4, True)),
    ],
)
def test_the_classical_regime_ends_at_the_largest_rise(losses, found):
    assert shape(dict(enumerate(losses))) == found
    shuffled = dict(reversed(list(enumerate(losses))))
    assert shape(shuffled) == found


# --- networks and inputs ---------------------------------------------------------------------------------------------


def test_fc_is_its_formula():
    net = labelling.FC(6, 3, Key("fc"))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=Key("fc").torch()))
    x = torch.randn(2, 1, 2, 3, generator=Key("x").torch())
    w, b, a, c = (p.detach().tolist() for p in (net.w, net.b, net.a, net.c))
    for image, found in zip(x.flatten(1).tolist(), net(x).tolist(), strict=True):
        units = [(sum(w[j][i] * image[i] for i in range(6)) + b[j]) ** 2 for j in range(3)]
        wanted = [sum(a[k][j] * units[j] for j in range(3)) + c[k] for k in range(10)]
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    assert sum(p.numel() for p in net.parameters()) == 3 * (6 + 11) + 10


def test_starts_come_from_their_key_alone():
    for build in (lambda key: labelling.FC(6, 3, key), lambda key: labelling.ResNet(1, 2, key)):
        torch.manual_seed(1)
        state, one = torch.random.get_rng_state(), build(Key("a"))
        assert torch.equal(state, torch.random.get_rng_state())
        torch.manual_seed(2)
        two, other = build(Key("a")), build(Key("b"))
        pairs = list(zip(one.parameters(), two.parameters(), strict=True))
        assert all(torch.equal(p, q) for p, q in pairs)
        assert not all(torch.equal(p, q) for p, q in zip(one.parameters(), other.parameters(), strict=True))


def test_gaussian_inputs_have_the_mean_and_variance_of_each_pixel():
    found = labelling.drawn("digits", "Gaussian", 8, 1300, 400, Key("moments"))
    for u in (found.u, found.u_new):
        apart = (u.var(0) - found.x.var(0, correction=0)).abs().max()
        assert apart < 6 * (2 / len(u)) ** 0.5 * float(found.x.var(0).max())
        assert u.mean(0).abs().max() < 6 * float(found.x.std(0).max()) / len(u) ** 0.5
    assert found.x.mean(0).abs().max() < 1e-4
    assert float(found.x.var(0, correction=0).mean()) == pytest.approx(1, rel=1e-3)
    assert not torch.equal(found.u[:400], found.u_new)


def test_other_images_are_moved_as_the_set_is_and_leave_its_images_alone():
    one = labelling.drawn("digits", "images", 8, 300, 100, Key("others"))
    two = labelling.drawn("digits", "Gaussian", 8, 300, 100, Key("others"))
    assert torch.equal(one.x, two.x)
    assert torch.equal(one.y_new, two.y_new)
    x, _ = labelling.loaded("", 8, "train")
    rows = torch.from_numpy((Key("others") / "train").numpy().permutation(len(x)))[:300]
    mean, scale = x[rows].mean(0), x[rows].var(0, correction=0).mean().sqrt()
    back = (one.u[0] * scale + mean).rot90(-1, (1, 2))
    assert ((x - back).abs().amax((1, 2, 3)) < 1e-5).any()


def test_training_adds_the_regulariser_on_the_other_inputs(monkeypatch):
    """One step by hand: the gradient is that of the cross-entropy and of weight (R1 + mixing R2) on the same rows."""
    found = labelling.drawn("digits", "Gaussian", 8, 40, 10, Key("step"))
    seen = []
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self: seen.append([p.grad.clone() for p in net.parameters()]))
    settings = labelling.Training(1, 40, 0.1, 2.0, 0.3)
    net = labelling.FC(64, 5, Key("net"))
    labelling.train(net, found.x, found.y, settings, Key("order"), balance=found.u)
    prob = net(found.u).softmax(1)
    mean = prob.mean(0)
    r = (mean * mean.log()).sum() - 0.3 * (prob * prob.log()).sum(1).mean()
    wanted = torch.autograd.grad(functional.cross_entropy(net(found.x), found.y) + 2.0 * r, list(net.parameters()))
    for g, w in zip(seen[0], wanted, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-3, atol=1e-4)


def test_divergence_and_shares():
    y = torch.tensor([0, 0, 1, 2])
    assert labelling.shares(y).tolist() == [0.5, 0.25, 0.25, *[0.0] * 7]
    assert labelling.largest(y) == 50.0
    assert labelling.divergence(torch.full((10,), 3.0)) == pytest.approx(0.0, abs=1e-12)
    assert labelling.divergence(torch.eye(10)[0]) == pytest.approx(2.302585, rel=1e-6)


@pytest.mark.parametrize("name", ["cifar10", "svhn", "tiny-imagenet"])
def test_sets_in_folders_are_asked_for_by_name(name, tmp_path, monkeypatch):
    monkeypatch.setenv("FEATLEARN_DATA", str(tmp_path))
    labelling.loaded.cache_clear()
    with pytest.raises(FeatlearnError, match=f"data needed: {name}"):
        labelling.loaded(name, 32, "test")


# --- the experiment --------------------------------------------------------------------------------------------------


def test_smoke_has_all_arms_and_is_the_same_again():
    trial = teacher.trials(dataclasses.replace(SMOKE, epochs=5))[0]
    one, two = (teacher.run_trial(trial).rows for _ in range(2))
    assert list(one) == list(two)
    minima = {r.arm: r for r in one if isinstance(r, Minimum)}
    assert set(minima) == set(claims.NEEDED)
    assert [minima[a].teacher for a in ("set", "small", "middle", "large")] == [0, *SMOKE.teachers]
    assert {r.regularised for r in one if isinstance(r, Balance)} == {"yes", "no"}
    for arm, least in minima.items():
        curve = {r.size: r.test_loss for r in one if isinstance(r, Fitted) and r.arm == arm}
        assert set(curve) == (set() if least.teacher is None else set(SMOKE.sizes))
        assert least.least == (getattr(shape(curve), "least", None) if curve else None)


def test_the_chosen_teacher_is_the_least_of_the_sets_curve(monkeypatch):
    """A planted curve chooses the first teacher's size: both label alike, and R is tried on it."""
    trial = dataclasses.replace(teacher.trials(SMOKE)[0], epochs=1, teachers=(4, 8, 16))
    losses = iter([0.9, 0.5, 0.8, 0.4] + [0.9, 0.8, 0.5, 0.9] * 3)
    monkeypatch.setattr(teacher.functional, "cross_entropy", planted_loss(losses))
    rows = teacher.run_trial(trial).rows
    minima = {r.arm: r for r in rows if isinstance(r, Minimum)}
    assert (minima["set"].least, minima["set"].peak, minima["chosen"].teacher) == (4, 8, 4)
    assert {r.size for r in rows if isinstance(r, Balance)} == {4}
    of = {
        arm: [dataclasses.replace(r, arm="set") for r in rows if isinstance(r, Fitted) and r.arm == arm]
        for arm in minima
    }
    assert of["chosen"] == of["small"] != of["middle"]


def planted_loss(losses):
    """Test losses in this order, each after the loss on the training set; training has its own."""
    plain, calls = functional.cross_entropy, iter(range(10**9))

    def loss(scores, y):
        if scores.dtype != torch.float64:
            return plain(scores, y)
        return torch.tensor(0.1 if next(calls) % 2 == 0 else next(losses))

    return loss


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"target": "CIFAR-10"}, "target"),
        ({"size": 20}, "size"),
        ({"n": 60_001}, "n"),
        ({"tested": 10_001}, "tested"),
        ({"sizes": (4, 4, 8)}, "sizes"),
        ({"sizes": (4, 8)}, "sizes"),
        ({"teachers": (9, 50)}, "teachers"),
        ({"teachers": (50, 9, 500)}, "teachers"),
        ({"epochs": 0}, "epochs"),
        ({"batch": 10_001}, "batch"),
        ({"rate": 0.0}, "rate"),
        ({"weight": -1.0}, "weight"),
        ({"mixing": float("nan")}, "mixing"),
        ({"device": "gpu"}, "device"),
        ({"seeds": ()}, "seeds"),
    ],
)
def test_impossible_settings_are_refused_by_field_and_remedy(changed, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        Config(**changed)


# --- claims ----------------------------------------------------------------------------------------------------------


def curves(chosen=9, small=9, middle=26, large=36, own=9, lost=(), examples=60_000, pixels=28, seeds=10, taught=90.0):
    """Minima of ten seeds; the set's own curve has none in the seeds `lost`. taught: how often students of the third
    teacher agree with it."""
    minima, fitted = [], []
    teachers = {"set": 0, "chosen": own, "small": 9, "middle": 50, "large": 500}
    least = {"set": own, "chosen": chosen, "small": small, "middle": middle, "large": large}
    for seed in range(seeds):
        for arm, teacher_size in teachers.items():
            at = {"arm": arm, "seed": seed, "target": "MNIST", "examples": examples, "pixels": pixels}
            none = seed in lost and arm in ("set", "chosen")
            minima.append(
                Minimum(
                    teacher=None if none and arm == "chosen" else teacher_size,
                    least=None if none else least[arm],
                    peak=None if none else 2 * least[arm],
                    rise=None if none else 1.5,
                    descends=None if none else True,
                    **at,
                )
            )
            for size in (9, 144):
                right = taught if arm == "large" else 90.0
                acc = {"train_acc": 100.0 if size == 144 else 95.0, "test_acc": right if size == 144 else right - 10}
                fitted.append(Fitted(arm=arm, size=size, seed=seed, train_loss=0.1, test_loss=0.5, **acc))
    return Table.of(Minimum, minima), Table.of(Fitted, fitted)


def balances(even=0.01, uneven=0.2, acc=85.0, size=9, **of):
    """Divergences with R and without."""
    rows, rng = [], Key("planted").numpy()
    for seed in range(10):
        for how, value in (("yes", even), ("no", uneven)):
            noise = 1e-3 * abs(float(rng.standard_normal()))
            rows.append(
                Balance(
                    regularised=how,
                    seed=seed,
                    size=size,
                    divergence=value + noise,
                    mean_divergence=value / 2 + noise,
                    largest=20.0,
                    test_acc=acc + noise,
                )
            )
    return Table.of(Balance, rows), curves(**of)[0]


def tables_of(name, **changed):
    return balances(**changed) if name == "algorithm1_labels" else curves(**changed)


def judged(name, **changed):
    return verdict_of(BY_ID[name], Key("verify"), tables_of(name, **changed))


@pytest.mark.parametrize("name", BY_ID)
def test_rows_that_agree_are_confirmed_and_told_apart_from_others(name):
    claim, tables = BY_ID[name], tables_of(name)
    verdict = judged(name)
    assert {f.outcome for f in verdict.findings} == {"confirmed"}, [(f.statement.name, f.why) for f in verdict.findings]
    assert (verdict.scope, verdict.covers) == ("premise not decidable", True)
    assert blind(claim, Key("verify"), tables) == []
    assert apart(claim, Key("verify"), tables) == []


@pytest.mark.parametrize(
    ("name", "changed", "against"),
    [
        ("teacher_sizes", {"chosen": 26}, {claims.ALIKE}),
        ("teacher_sizes", {"chosen": 4}, {claims.ALIKE}),
        ("teacher_sizes", {"middle": 52}, set()),
        ("teacher_sizes", {"small": 36, "middle": 26, "large": 18}, {claims.MIDDLE, claims.LARGER}),
        ("teacher_sizes", {"small": 26, "middle": 36, "large": 26}, {claims.LARGER}),
        ("teacher_sizes", {"small": 26, "middle": 26}, {claims.MIDDLE}),
        ("teacher_order", {"middle": 52}, {claims.ASCENDS}),
        ("teacher_order", {"small": 36, "middle": 26, "large": 18}, {claims.ASCENDS}),
        ("algorithm1_labels", {"even": 0.2, "uneven": 0.1}, {claims.CLOSER, claims.SOFTER}),
        ("algorithm1_labels", {"even": 0.2}, {claims.CLOSER, claims.SOFTER}),
        ("algorithm1_labels", {"acc": 12.0}, {claims.KEEPS}),
    ],
)
def test_rows_that_disagree_are_contradicted_where_they_do(name, changed, against):
    found = {f.statement.name: f.outcome for f in judged(name, **changed).findings}
    assert {statement for statement, outcome in found.items() if outcome == "contradicted"} == against


def test_a_minimum_that_every_teacher_has_confirms_nothing():
    found = {f.statement.name: f for f in judged("teacher_sizes", small=9, middle=9, large=9).findings}
    assert [f.outcome for f in found.values()].count("confirmed") == 0
    assert found[claims.LARGER].outcome == "contradicted"


def test_equal_minima_are_neither_smaller_nor_larger():
    """Both orders of three hold of them."""
    seen = claims.sizes_observed(None, *curves(small=9, middle=9, large=9))
    assert {name: seen[name].value for name in (claims.MIDDLE, claims.UNDER, claims.LARGER, claims.SMALLER)} == {
        claims.MIDDLE: 0,
        claims.UNDER: 0,
        claims.LARGER: 0,
        claims.SMALLER: 0,
    }
    seen = claims.order_observed(None, *curves(small=9, middle=9, large=9))
    assert (seen[claims.ASCENDS].value, seen[claims.FALLS].value) == (1, 1)


def test_seeds_without_a_peak_are_left_out_and_a_premise_says_so():
    verdict = judged("teacher_sizes", lost=(0, 3))
    (first, *_) = verdict.premises
    assert (first.says, first.met) == (claims.PEAKS, False)
    assert first.detail.startswith("8 of 10 seeds; curves that come down again: the set 8, FC(i_t) 8, the first")
    assert verdict.scope == "premise unmet"
    assert not verdict.covers


def test_labels_that_no_student_learns_decide_no_figure():
    """Where the best students of FC(500) agree with it on less than half of fresh inputs, minima cover nothing."""
    for taught, met in ((50.0, True), (49.0, False)):
        verdict = judged("teacher_sizes", taught=taught)
        found = {p.says: (p.met, p.size) for p in verdict.premises}
        assert found[claims.LEARNT] == (met, False)
        assert verdict.covers == met


def test_the_order_of_three_teachers_has_no_say_on_the_figure():
    assert BY_ID["teacher_order"].entries == ()
    assert not any(
        "teacher_order" in place for places in entry("emergence.figure26").checks.values() for place in places
    )


def test_a_curve_that_is_missing_is_an_error():
    minima, fitted = curves()
    rows = [r for r in minima.rows if (r.arm, r.seed) != ("large", 4)]
    with pytest.raises(MissingUnit, match="a seed lacks a curve"):
        verdict_of(BY_ID["teacher_sizes"], Key("verify"), (Table.of(Minimum, rows), fitted))


def test_less_of_mnist_is_another_size_and_another_teacher_a_premise():
    sizes = {p.says: (p.met, p.size) for p in judged("teacher_sizes", examples=10_000, pixels=14).premises}
    assert sizes["60000 images of 28 x 28"] == (False, True)
    assert sizes["MNIST"] == (True, False)
    assert judged("algorithm1_labels", size=13).premises[0].met is False
