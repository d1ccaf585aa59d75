"""SWAD, splits, minibatches, selection and the algorithms by name."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from featlearn.core import Diverged, Key, SettingError
from featlearn.methods.domains import (
    BASES,
    VALIDATION,
    Algorithm,
    Mean,
    Part,
    Schedule,
    SearchDraw,
    Settings,
    State,
    Swad,
    SwadRule,
    Window,
    algorithm,
    build,
    erm,
    evaluate,
    features_of,
    sample,
    split,
    train,
    window,
    with_nuclear_norm,
)
from featlearn.methods.domains.averaging import refresh_statistics
from featlearn.methods.domains.training import SingleProcess, minibatches_of_step, rows_of_step

KEY = Key("tests/domain_training")


@dataclasses.dataclass(frozen=True)
class Points:
    """Two classes in the plane, told apart by the first coordinate."""

    name: str
    x: torch.Tensor
    y: torch.Tensor

    def inputs(self, rows, key):
        return self.x[rows]


def points(name, n=60, shift=0.0):
    draw = (KEY / "points" / name).torch()
    y = torch.arange(n) % 2
    x = 0.3 * torch.randn(n, 2, generator=draw) + torch.stack([2.0 * y - 1, torch.full((n,), shift)], 1)
    return Points(name, x, y)


DOMAINS = [points("a"), points("b", shift=0.5), points("c", shift=-0.5)]


def network():
    draw = (KEY / "net").torch()
    featurizer, classifier = nn.Sequential(nn.Linear(2, 8), nn.ReLU()), nn.Linear(8, 2)
    with torch.no_grad():
        for p in (*featurizer.parameters(), *classifier.parameters()):
            p.copy_(0.5 * torch.randn(p.shape, generator=draw))
    return featurizer, classifier


def parts(held="c", share=0.2):
    both = [split(d, KEY, share) for d in DOMAINS if d.name != held]
    test = next(d for d in DOMAINS if d.name == held)
    watch = {VALIDATION: [v for _, v in both], "test": [Part(test, torch.arange(len(test.y)))]}
    return [t for t, _ in both], watch


FAST = Schedule(steps=45, batch=8, rate=0.03, evaluate_every=15)


# --- SWAD ------------------------------------------------------------------------------------------------------------


def test_the_window_by_hand():
    losses = [5.0, 3.0, 1.0, 1.2, 1.4, 1.1, 9.0, 9.0, 9.0, 1.0]
    found = window(losses, SwadRule(converge=3, tolerance=2, ratio=0.5))
    assert (found.first, found.last, found.converged) == (2, 5, True)
    assert found.threshold == pytest.approx(1.5 * 1.2)
    # one evaluation above the threshold is enough, or three are needed, or four never come
    assert window(losses, SwadRule(3, 1, 0.5)).last == 5
    assert window([*losses[:6], 9.0, 1.0], SwadRule(3, 2, 0.5)).last == 7
    assert window(losses, SwadRule(3, 4, 0.5)).last == 9
    assert window([3.0, 2.0, 1.0], SwadRule(3, 6)) == Window(2, 2, math.inf, False)


def streamed(losses, rule):
    swad = Swad(rule)
    for k, loss in enumerate(losses):
        for step in range(2):
            swad.step({"w": torch.tensor([float(2 * k + step)])})
        swad.evaluated(loss)
    return swad.finish(), float(swad.weights()["w"])


@pytest.mark.parametrize("rule", [SwadRule(), SwadRule(1, 1, 0.0), SwadRule(2, 5, 0.1), SwadRule(5, 2, 0.2)], ids=str)
def test_the_stream_follows_the_window(rule):
    """On 80 sequences that fall, stay and rise: the same segments, and the mean of all their steps."""
    kinds = set()
    for i in range(80):
        draw = (KEY / "losses" / i).numpy()
        falling = draw.integers(0, 8)
        losses = [*(5.0 - k + draw.random() for k in range(falling)), *(draw.random(12) * draw.choice([1, 3]))]
        expected = window(losses, rule)
        found, mean = streamed(losses, rule)
        assert found == expected
        steps = range(2 * expected.first, 2 * expected.last + 2)
        assert mean == pytest.approx(sum(steps) / len(steps), rel=1e-5)
        kinds.add((expected.converged, expected.last == len(losses) - 1))
    assert len(kinds) >= 2


def test_few_segments_are_kept():
    swad = Swad(SwadRule(3, 4))
    for k in range(50):
        swad.step({"w": torch.tensor([float(k)])})
        swad.evaluated(50.0 - k)
        assert len(swad._queue) <= 4


def test_the_mean_counts_and_keeps_precision():
    mean = Mean()
    for value in (1.0, 2.0, 6.0):
        mean.add({"w": torch.tensor([value], dtype=torch.bfloat16), "seen": torch.tensor(int(value))})
    assert mean.weights["w"].dtype == torch.float32
    assert float(mean.weights["w"]) == 3
    assert int(mean.weights["seen"]) == 6
    mean.add({"w": torch.tensor([7.0]), "seen": torch.tensor(9)}, count=3)
    assert float(mean.weights["w"]) == 5


@pytest.mark.parametrize("words", [{"converge": 0}, {"tolerance": 0}, {"ratio": -0.1}])
def test_rules_that_make_no_sense(words):
    with pytest.raises(SettingError, match="swad"):
        SwadRule(**words)
    with pytest.raises(SettingError, match="no segment"):
        Swad(SwadRule()).weights()


def test_statistics_of_batch_norm_are_made_anew_unless_frozen():
    norm = nn.BatchNorm1d(2)
    data = torch.randn(400, 2, generator=KEY.torch()) * 3 + 5
    refresh_statistics(norm, data.split(100))
    torch.testing.assert_close(norm.running_mean, data.mean(0), rtol=1e-4, atol=1e-4)

    class Frozen(nn.Sequential):
        def train(self, mode=True):
            return super().train(False)

    before = norm.running_mean.clone()
    refresh_statistics(Frozen(norm), (data + 1).split(100))
    assert torch.equal(norm.running_mean, before)
    assert norm.training  # its mode comes back
    both = nn.Sequential(norm.eval(), nn.BatchNorm1d(2, momentum=0.3))
    refresh_statistics(both, (data + 1).split(100))
    assert torch.equal(norm.running_mean, before)  # the one alone that its owner froze
    assert [m.training for m in both] == [False, True]
    assert both[1].momentum == 0.3
    assert int(both[1].num_batches_tracked) == 4


# --- splits and minibatches --------------------------------------------------------------------------------------


def test_a_split_keeps_a_fifth_back():
    inside, outside = split(DOMAINS[0], KEY)
    assert (len(inside.rows), len(outside.rows)) == (48, 12)
    assert sorted([*inside.rows.tolist(), *outside.rows.tolist()]) == list(range(60))
    assert torch.equal(split(DOMAINS[0], KEY)[1].rows, outside.rows)
    assert not torch.equal(split(DOMAINS[0], KEY / 1)[1].rows, outside.rows)
    small = Points("small", torch.zeros(2, 2), torch.tensor([0, 1]))
    assert [len(p.rows) for p in split(small, KEY)] == [1, 1]
    with pytest.raises(SettingError, match=r"'one' = 1 rows .* at least 2"):
        split(Points("one", torch.zeros(1, 2), torch.tensor([0])), KEY)
    with pytest.raises(SettingError, match="share"):
        split(small, KEY, 1.0)


@pytest.mark.parametrize("count", [1, 2])
def test_every_row_is_used_once_before_any_is_used_again(count):
    n, batch = 7, 3
    seen = [rows_of_step(n, batch, step, KEY, index, count) for step in range(14) for index in range(count)]
    flat = torch.cat(seen).tolist()
    for epoch in range(len(flat) // n):
        assert sorted(flat[n * epoch : n * (epoch + 1)]) == list(range(n))
    assert flat[:n] != flat[n : 2 * n]
    assert rows_of_step(3, 8, 0, KEY).tolist().count(0) in (2, 3)  # a domain smaller than the batch


def test_minibatches_are_one_a_domain():
    training, _ = parts()
    found = minibatches_of_step(training, 8, 3, KEY)
    assert [len(b.y) for b in found] == [8, 8]
    rows = {tuple(row) for row in DOMAINS[0].x[training[0].rows].tolist()}
    assert all(tuple(row) in rows for row in found[0].x.tolist())  # of the part, not of what is kept back


# --- training --------------------------------------------------------------------------------------------------------


def test_training_learns_selects_and_leaves_the_modules_alone():
    training, watch = parts()
    net, head = network()
    before, random = [p.clone() for p in net.parameters()], torch.get_rng_state()
    seen = []
    found = train(net, head, erm, training, FAST, key=KEY, watch=watch, progress=lambda d, n: seen.append((d, n)))
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    assert torch.equal(random, torch.get_rng_state())
    assert [e.step for e in found.evaluations] == [15, 30, 45]
    assert found.best.accuracy["test"] > 0.9
    assert found.best.accuracy[VALIDATION] == max(e.accuracy[VALIDATION] for e in found.evaluations)
    assert seen[-1] == (45, 45)
    assert found.evaluations[2].training["loss"] < found.evaluations[0].training["loss"]
    found.weights_into(net, head)
    again = evaluate(net, head, watch)
    assert again.accuracy == found.best.accuracy
    assert not found.averaged


def test_the_earliest_of_equal_evaluations_is_kept():
    """Rate too small to change a prediction: all evaluations are equal."""
    training, watch = parts()
    slow = dataclasses.replace(FAST, rate=1e-12)
    found = train(*network(), erm, training, slow, key=KEY, watch=watch)
    assert found.best.step == 15


def test_equal_keys_give_equal_weights_and_prefetching_changes_nothing():
    training, watch = parts()
    runs = [train(*network(), erm, training, dataclasses.replace(FAST, ahead=a), key=KEY, watch=watch) for a in (0, 3)]
    other = train(*network(), erm, training, FAST, key=KEY / 1, watch=watch)
    name = "featurizer.0.weight"
    assert torch.equal(runs[0].weights[name], runs[1].weights[name])
    assert not torch.equal(runs[0].weights[name], other.weights[name])


def test_swad_averages_the_steps_of_its_window():
    training, watch = parts()
    schedule = dataclasses.replace(FAST, steps=12, evaluate_every=1)
    rule = SwadRule(converge=1, tolerance=50)
    found = train(*network(), erm, training, schedule, key=KEY, watch=watch, average=rule)
    assert found.window == dataclasses.replace(found.window, first=0, last=11, converged=True)
    each = [train(*network(), erm, training, dataclasses.replace(schedule, steps=n), key=KEY) for n in range(1, 13)]
    name = "classifier.weight"
    torch.testing.assert_close(found.averaged[name], torch.stack([t.weights[name] for t in each]).mean(0))
    net, head = network()
    found.weights_into(net, head, averaged=True)
    assert evaluate(net, head, watch).accuracy == found.averaged_evaluation.accuracy


def test_training_ends_with_the_valley():
    """The risk is raised, so that the loss leaves the threshold at once: the first segment alone is averaged."""
    training, watch = parts()

    def worse(featurizer, classifier, minibatches, state):
        found = erm(featurizer, classifier, minibatches, state)
        return dataclasses.replace(found, loss=-found.loss)

    schedule = dataclasses.replace(FAST, steps=500, evaluate_every=5)
    found = train(*network(), worse, training, schedule, key=KEY, watch=watch, average=SwadRule(1, 1, 0.0))
    assert [e.step for e in found.evaluations] == [5, 10]
    assert (found.window.first, found.window.last) == (0, 0)


def test_evaluations_may_begin_after_the_first_step():
    """As in the released code, which evaluates after steps 1, 101, 201, ... and the last."""
    training, watch = parts()
    net, head = network()
    for begin, expected in ((1, [1, 16, 31, 45]), (0, [15, 30, 45])):
        schedule = dataclasses.replace(FAST, evaluate_from=begin)
        found = train(net, head, erm, training, schedule, key=KEY, watch=watch)
        assert [e.step for e in found.evaluations] == expected
    with pytest.raises(SettingError, match="evaluate_from"):
        dataclasses.replace(FAST, evaluate_from=-1)


def test_swad_follows_the_rule_that_is_asked_for():
    training, watch = parts()
    found = {}
    for kind in ("valley", "paper", "released"):
        net, head = network()
        rule = SwadRule(1, 3, 5.0, kind)
        found[kind] = train(net, head, erm, training, FAST, key=KEY, watch=watch, average=rule).averaged
    valley, paper, released = (found[k]["featurizer.0.weight"] for k in ("valley", "paper", "released"))
    assert torch.equal(valley, paper)
    assert not torch.equal(valley, released)


def test_momenta_are_dropped_where_an_objective_asks_for_it():
    """From step 10 on no parameter has a gradient: only the momenta of before could move any."""
    training, _ = parts()

    def still(restart):
        def objective(featurizer, classifier, minibatches, state):
            found = erm(featurizer, classifier, minibatches, state)
            late = state.step >= 10
            return dataclasses.replace(
                found, loss=0 * found.loss if late else found.loss, restart_optimizer=restart and state.step == 10
            )

        return objective

    def after(steps, restart):
        schedule = dataclasses.replace(FAST, steps=steps)
        return train(*network(), still(restart), training, schedule, key=KEY).weights["classifier.weight"]

    assert torch.equal(after(15, restart=True), after(10, restart=True))
    assert not torch.equal(after(15, restart=False), after(10, restart=False))


def test_the_mean_of_weights_has_statistics_of_its_own():
    training, watch = parts()
    net, head = network()
    net = nn.Sequential(net, nn.BatchNorm1d(8))
    found = train(net, head, erm, training, FAST, key=KEY, watch=watch, average=SwadRule(1, 50))
    found.weights_into(net, head, averaged=True)
    kept = net[1].running_mean.clone()
    steps = (minibatches_of_step(training, FAST.batch, step, KEY) for step in range(100))
    refresh_statistics(net, (torch.cat([b.x for b in minibatches]) for minibatches in steps))
    torch.testing.assert_close(kept, net[1].running_mean)


def test_statistics_of_the_mean_of_weights_are_those_of_all_domains_together():
    """Two domains at -10 and 10 have a variance of 100 and more together, and of 1 each: a step sees them together."""
    draw, domains = KEY.torch(), []
    for name, shift in (("dark", -10.0), ("light", 10.0)):
        x = shift + torch.randn(40, 3, 2, 2, generator=draw)
        domains.append(Points(name, x, torch.arange(40) % 2))
    training = [Part(d, torch.arange(32)) for d in domains]
    watch = {VALIDATION: [Part(d, torch.arange(32, 40)) for d in domains]}
    net, head = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 4)), nn.Linear(4, 2)
    found = train(net, head, erm, training, FAST, key=KEY, watch=watch, average=SwadRule(1, 50))
    assert found.averaged is not None
    assert float(found.averaged["featurizer.0.running_var"].min()) > 90


def test_the_penalty_lowers_the_nuclear_norm_of_what_is_learned():
    training, watch = parts()
    plain, penalised = (
        train(*network(), with_nuclear_norm(erm, w, start=0), training, FAST, key=KEY, watch=watch) for w in (0.0, 2.0)
    )
    norms = []
    for found in (plain, penalised):
        net, head = network()
        found.weights_into(net, head)
        norms.append(torch.linalg.svdvals(features_of(net, watch["test"])).sum())
    assert norms[1] < 0.7 * norms[0]


def test_features_come_in_the_order_of_the_parts():
    net, _ = network()
    _, watch = parts()
    torch.testing.assert_close(features_of(net, watch["test"]), net(DOMAINS[2].x).detach())
    assert net.training


def test_a_loss_that_is_not_finite_ends_the_run():
    training, _ = parts()
    bad = Points("a", DOMAINS[0].x * math.nan, DOMAINS[0].y)
    with pytest.raises(Diverged, match="at step 0"):
        train(*network(), erm, [Part(bad, torch.arange(20)), training[1]], FAST, key=KEY)
    nu = with_nuclear_norm(erm, 0.1, start=0)
    with pytest.raises(FloatingPointError, match="features"):
        train(*network(), nu, [Part(bad, torch.arange(20))], FAST, key=KEY)


def test_what_cannot_be_trained_is_refused_before():
    training, _ = parts()
    with pytest.raises(SettingError, match="parts"):
        train(*network(), erm, [], FAST, key=KEY)
    with pytest.raises(SettingError, match="average"):
        train(*network(), erm, training, FAST, key=KEY, average=SwadRule())
    for words in ({"steps": 0}, {"batch": 1}, {"rate": 0.0}, {"weight_decay": -1.0}, {"evaluate_every": 0}):
        with pytest.raises(SettingError, match=next(iter(words))):
            Schedule(**words)


def test_gradients_are_shared_before_the_step():
    """A processes of two that averages with zeros halves each gradient; Adam's first step does not see the scale."""
    training, _ = parts()
    asked = []

    @dataclasses.dataclass(frozen=True)
    class Two(SingleProcess):
        count: int = 2
        index: int = 1

        def gradients(self, parameters):
            asked.append(len(parameters))
            for p in parameters:
                p.grad.mul_(0)

    found = train(*network(), erm, training, dataclasses.replace(FAST, steps=3), key=KEY, processes=Two())
    assert asked == [4] * 3
    net, _ = network()
    assert torch.equal(found.weights["featurizer.0.weight"], net[0].weight)


class Normed(nn.Module):
    """A user's own featurizer, with two batch norms and a dropout."""

    def __init__(self):
        super().__init__()
        self.inner, _ = network()
        self.one, self.two = nn.BatchNorm1d(8), nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.two(self.one(self.inner(x))))


@pytest.mark.parametrize("average", [None, SwadRule(1, 50)], ids=["plain", "swad"])
def test_parts_in_evaluation_mode_stay_there(average):
    """Statistics and counter of the frozen norm do not move, those of the other one do; the dropout is off."""
    training, watch = parts()
    net, head = Normed(), network()[1]
    net.one.eval()
    net.drop.eval()
    net.one.running_mean.fill_(0.25)
    modes = [m.training for m in net.modules()]
    seen = []

    def objective(featurizer, classifier, minibatches, state):
        seen.append((featurizer.training, featurizer.one.training, featurizer.two.training, featurizer.drop.training))
        return erm(featurizer, classifier, minibatches, state)

    found = train(net, head, objective, training, FAST, key=KEY, watch=watch, average=average)
    assert set(seen) == {(True, False, True, False)}  # after evaluations too
    assert [m.training for m in net.modules()] == modes
    for weights in (found.weights, found.averaged) if average else (found.weights,):
        assert torch.equal(weights["featurizer.one.running_mean"], net.one.running_mean)
        assert torch.equal(weights["featurizer.one.running_var"], net.one.running_var)
        assert int(weights["featurizer.one.num_batches_tracked"]) == 0
        assert not torch.equal(weights["featurizer.two.running_mean"], net.two.running_mean)
    assert not torch.equal(found.weights["featurizer.one.weight"], net.one.weight)  # what is frozen are statistics


def test_a_module_given_in_evaluation_mode_trains_in_it():
    training, watch = parts()
    net = Normed().eval()
    found = train(net, network()[1], erm, training, FAST, key=KEY, watch=watch, average=SwadRule(1, 50))
    for weights in (found.weights, found.averaged):
        assert torch.equal(weights["featurizer.two.running_mean"], net.two.running_mean)
    assert not torch.equal(found.weights["featurizer.inner.0.weight"], net.inner[0].weight)


def test_a_module_that_freezes_its_norm_when_told_to_train_still_does():
    class Frozen(Normed):
        def train(self, mode=True):
            super().train(mode)
            self.one.eval()
            return self

    training, _ = parts()
    net = Frozen()
    assert net.one.training  # nobody has called train() yet
    found = train(net, network()[1], erm, training, FAST, key=KEY)
    assert torch.equal(found.weights["featurizer.one.running_mean"], net.one.running_mean)
    assert not torch.equal(found.weights["featurizer.two.running_mean"], net.two.running_mean)


class LowRank(nn.Linear):
    """Keeps its weight and learns A and B; in evaluation mode B A is merged into the weight."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        draw = (KEY / "low rank").torch()
        self.weight.requires_grad = False
        self.A = nn.Parameter(torch.randn(2, inputs, generator=draw))
        self.B = nn.Parameter(torch.randn(outputs, 2, generator=draw))
        self.merged = False

    def train(self, mode=True):
        super().train(mode)
        if self.merged == mode:
            self.weight.data += (-1 if mode else 1) * (self.B @ self.A).data
            self.merged = not mode
        return self

    def forward(self, x):
        y = super().forward(x)
        return y if self.merged else y + x @ self.A.T @ self.B.T


@pytest.mark.parametrize("average", [None, SwadRule(1, 50)], ids=["plain", "swad"])
def test_weights_that_are_merged_for_evaluation_are_taken_apart_again(average):
    training, watch = parts()
    net, head = nn.Sequential(LowRank(2, 8), nn.BatchNorm1d(8).eval()), nn.Linear(8, 2)
    whole = net[0].weight.clone()
    evaluate(net, head, watch)
    assert (net[0].training, net[0].merged, net[1].training) == (True, False, False)
    torch.testing.assert_close(net[0].weight, whole)
    seen = []

    def objective(featurizer, classifier, minibatches, state):
        seen.append((featurizer[0].merged, featurizer[1].training))
        return erm(featurizer, classifier, minibatches, state)

    found = train(net, head, objective, training, FAST, key=KEY, watch=watch, average=average)
    assert set(seen) == {(False, False)}
    for weights in (found.weights, found.averaged) if average else (found.weights,):
        torch.testing.assert_close(weights["featurizer.0.weight"], whole)
        assert not torch.equal(weights["featurizer.0.B"], net[0].B)
        assert torch.equal(weights["featurizer.1.running_mean"], net[1].running_mean)
    net.eval()  # given merged, it comes back merged
    refresh_statistics(net, [torch.zeros(4, 2)])
    assert (net[0].training, net[0].merged) == (False, True)


def test_a_part_that_two_modules_share_keeps_its_mode():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            norm = nn.BatchNorm1d(2).eval()
            self.one, self.two = nn.Sequential(norm), nn.Sequential(norm)

        def forward(self, x):
            return self.two(self.one(x))

    net = Two()
    net.training = False  # so that each of the two is told by itself
    evaluate(net, nn.Linear(2, 2), parts()[1])
    assert [m.training for m in net.modules()] == [False, True, False, True]


def test_a_mode_that_a_module_does_not_go_into_comes_back():
    class Stubborn(nn.Linear):
        def train(self, mode=True):
            return super().train(False)

    net = nn.Sequential(Stubborn(2, 2))
    assert net[0].training  # nobody has called train() yet
    evaluate(net, nn.Linear(2, 2), parts()[1])
    assert (net.training, net[0].training) == (True, True)


# --- algorithms ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, expected",
    [
        ("erm", ("erm", False, False)),
        ("erm-nu", ("erm", True, False)),
        ("swad", ("erm", False, True)),
        ("swad-nu", ("erm", True, True)),
        ("swad-coral", ("coral", False, True)),
        ("group-dro-nu", ("group-dro", True, False)),
        ("swad-mixup-nu", ("mixup", True, True)),
    ],
)
def test_names_of_algorithms(name, expected):
    assert algorithm(name) == Algorithm(*expected)
    assert algorithm(name).name == name


@pytest.mark.parametrize("name", ["", "nu", "ERM", "erm-nuu", "swad-erm-", "erm-swad", "cdann"])
def test_other_names_are_refused(name):
    with pytest.raises(SettingError, match="algorithm"):
        algorithm(name)


class Staged(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 8)

    def stages(self, x):
        z = self.inner(x)
        return z, z.relu()

    def forward(self, x):
        return self.stages(x)[-1]


@pytest.mark.parametrize("base", BASES)
def test_every_algorithm_trains_with_both(base):
    training, watch = parts()
    chosen = Algorithm(base, nuclear=True, averaged=True)
    settings = Settings(nuclear_weight=0.001, irm_weight=1.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed((KEY / "both").seed)
        net, head = Staged(), nn.Linear(8, 2)
    made = build(chosen, settings, 60, 2, net, DOMAINS[0].x[:2])
    found = train(
        net, head, made.objective, training, FAST, key=KEY, watch=watch, average=made.average, extra=made.extra
    )
    assert found.best.accuracy["test"] > 0.8
    assert found.averaged_evaluation.accuracy["test"] > 0.8


def test_miro_learns_its_variances_ten_times_faster_from_a_frozen_copy():
    net = Staged()
    made = build(Algorithm("miro"), Settings(), 60, 2, net, DOMAINS[0].x[:2])
    (scales, factor) = made.extra[0]
    assert factor == 10
    before = scales.b[0].detach().clone()
    training, _ = parts()
    train(net, nn.Linear(8, 2), made.objective, training, dataclasses.replace(FAST, steps=1), key=KEY, extra=made.extra)
    torch.testing.assert_close(
        (scales.b[0] - before).abs(), torch.full((8,), 10 * FAST.rate), rtol=1e-3, atol=0
    )  # Adam: 10 rate
    with pytest.raises(SettingError, match="stages"):
        build(Algorithm("miro"), Settings(), 60, 2, nn.Linear(2, 2), DOMAINS[0].x[:2])


def test_shares_of_the_steps_are_those_of_the_released_code():
    seen = []

    def probe(featurizer, classifier, minibatches, state):
        seen.append(state)
        return erm(featurizer, classifier, minibatches, state)

    made = build(Algorithm("vrex"), Settings(), 5001, 2, nn.Identity(), torch.zeros(1))
    assert made.objective.keywords == {"weight": 10.0, "anneal": 500}
    nuclear = build(Algorithm("erm", nuclear=True), Settings(), 5001, 2, nn.Identity(), torch.zeros(1)).objective
    x = DOMAINS[0].x[:4]
    batch = [minibatches_of_step(parts()[0], 4, 0, KEY)[0]]
    loss = [float(nuclear(nn.Identity(), nn.Identity(), batch, State(KEY, s)).loss) for s in (100, 101)]
    assert loss[0] != loss[1]
    assert x.shape == (4, 2)


def test_algorithms_between_domains_refuse_one():
    for base in ("mixup", "coral", "vrex", "group-dro"):
        with pytest.raises(SettingError, match=f"at least 2 for {base}"):
            build(Algorithm(base), Settings(), 60, 1, nn.Identity(), torch.zeros(1))


@pytest.mark.parametrize(
    "words",
    [{"nuclear_weight": -0.01}, {"irm_weight": -1.0}, {"mixup_alpha": 0.0}, {"anneal": 1.0}, {"swad_converge": 0}],
)
def test_settings_that_make_no_sense(words):
    with pytest.raises(SettingError):
        Settings(**words)


def test_the_random_search_is_the_reported_one_with_weights_up_to_1():
    start = SearchDraw(Settings(), 32, 5e-5)
    drawn = [sample(start, algorithm("erm-nu"), KEY / i) for i in range(100)]
    logs = torch.tensor([math.log10(t.settings.nuclear_weight) for t in drawn])
    batches = torch.tensor([float(t.batch) for t in drawn])
    assert logs.min() >= -2.5
    assert -0.2 < logs.max() <= 0
    assert abs(float(logs.mean()) + 1.25) < 4 * 2.5 * 0.289 / 10  # four standard errors of a uniform law
    assert batches.min() >= 32
    assert batches.max() < 64
    assert abs(float(batches.log2().mean()) - 5.49) < 4 * 0.289 / 10
    assert {t.rate for t in drawn} == {5e-5}
    plain = sample(start, algorithm("erm"), KEY / 0)
    assert plain.settings == Settings()
    assert plain.batch == drawn[0].batch  # paired with erm-nu
    assert sample(start, algorithm("swad-irm"), KEY / 0).settings.irm_weight != 100
