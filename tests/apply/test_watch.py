"""Watching a training: the training is the same with and without, and known cases are told as they are."""

import copy
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import featlearn
from featlearn.apply.watch import moments
from featlearn.apply.watch import scope as scope_module
from featlearn.apply.watch.moments import alignment, bins_of, outer_against_gram, parts_of
from featlearn.apply.watch.probe import copied
from featlearn.apply.watch.public import Scope, Watched, watch
from featlearn.apply.watch.records import LAZY, RICH, Snapshot, reading_of
from featlearn.core import Key, SettingError
from featlearn.kernels import empirical_ntk
from featlearn.measure import linear_cka

KEY = Key("tests/watch")


# type checks at every call draw from Python's generator, and refuse before the code does
pytestmark = pytest.mark.usefixtures("as_user")


def drawn(*shape: int, name: str = "x") -> Tensor:
    return torch.randn(*shape, generator=(KEY / name).torch())


def made(build: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """With weights of a seed, and torch's generator as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build()


def noisy() -> nn.Module:
    """Everything a snapshot could disturb: modes, running means, random numbers, hooks, a counter."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3))
            self.head = nn.Linear(16, 2)
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return self.head(self.body(x))

    return Net()


def train(model: nn.Module, scope: Scope | None = None, steps: int = 12, fails: int = 0) -> dict[str, Any]:
    """A loop with every kind of random numbers, and the state at its end. fails: the step that raises."""
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    random.seed(1)
    hooked: list[int] = []
    handle = model.register_forward_hook(lambda *_: hooked.append(1))
    model.body[0].eval()  # pyright: ignore
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def loop() -> None:
        for i in range(1, steps + 1):
            if i == fails:
                raise ZeroDivisionError
            x = torch.randn(20, 6) + float(np.random.rand()) + random.random()  # noqa: NPY002
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if scope is not None:
                scope.step()

    try:
        if scope is None:
            loop()
        else:
            with scope:
                loop()
    except ZeroDivisionError:
        assert fails
    count = [len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks) for m in model.modules()]
    handle.remove()
    return {
        "state": {k: v.clone() for k, v in model.state_dict().items()},
        "grads": [p.grad for p in model.parameters()],
        "optimizer": optimizer.state_dict(),
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(),  # noqa: NPY002
        "python": random.getstate(),
        "modes": [m.training for m in model.modules()],
        "trained": [p.requires_grad for p in model.parameters()],
        "hooks": count,
        "hooked": len(hooked),
        "calls": model.calls,  # pyright: ignore
        "grad": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "default": torch.get_default_dtype(),
    }


def same(a: Any, b: Any) -> bool:
    """To the bit."""
    if isinstance(a, Tensor | np.ndarray):
        return np.array_equal(np.asarray(a), np.asarray(b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that only goes when it is told."""
    now = [0.0]
    monkeypatch.setattr(scope_module, "clock", lambda: now[0])

    def wait(seconds: float) -> None:
        now[0] += seconds

    return wait


@pytest.mark.parametrize("fails", [0, 7])
def test_a_training_is_the_same_to_the_bit_with_and_without(fails: int, clocked: Callable[[float], None]) -> None:
    """The clock stands still, so that every snapshot that is due is taken."""
    alone = train(made(noisy), fails=fails)
    scope = watch(made(noisy), drawn(10, 6), steps=range(100))
    beside = train(scope._model, scope, fails=fails)
    for name in alone:
        assert same(alone[name], beside[name]), name
    steps = [s.step for s in scope.result.snapshots]
    assert steps == [*range(7 if fails else 13)]
    assert ("training ended with ZeroDivisionError" in str(scope.result)) == bool(fails)


def test_a_comparison_of_states_sees_a_difference() -> None:
    a, b = train(made(noisy)), train(made(noisy))
    assert same(a, b)
    b["optimizer"]["state"][0]["exp_avg"][0, 0] += 1e-7
    assert not same(a["optimizer"], b["optimizer"])
    assert not same(a["state"], train(made(noisy), steps=11)["state"])


def test_threads_that_draw_beside_see_all_their_numbers() -> None:
    """Another thread draws from torch's generator while snapshots are taken: its numbers are those without them."""
    nets = [made(noisy) for _ in range(3)]
    got: list[float] = []
    running, done = threading.Event(), threading.Event()

    def draw() -> None:
        while not done.is_set():
            got.append(float(torch.rand(1)))
            running.set()

    torch.manual_seed(5)
    thread = threading.Thread(target=draw)
    thread.start()
    running.wait()
    before = len(got)
    for net in nets:
        with watch(net, drawn(16, 6)):
            pass
    during = len(got) - before
    done.set()
    thread.join()
    torch.manual_seed(5)
    assert got == [float(torch.rand(1)) for _ in got]
    assert during > 3


def test_two_threads_watch_two_trainings() -> None:
    results: dict[int, Watched] = {}

    def run(seed: int) -> None:
        net = made(lambda: nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 1)), seed)
        results[seed] = trained(net, drawn(24, 5), drawn(24, 5)[:, 0], steps=8)

    built = {seed: made(lambda: nn.Linear(1, 1), seed) for seed in range(2)}  # modules are built before threads start
    assert len(built) == 2
    run(0)
    alone = results.pop(0)
    threads = [threading.Thread(target=run, args=(0,)), threading.Thread(target=watch_others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers(results[0]) == pytest.approx(numbers(alone), rel=1e-5)


def watch_others() -> None:
    net = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 1))
    for _ in range(3):
        trained(net, drawn(24, 5), drawn(24, 5)[:, 0], steps=2)


def numbers(found: Watched) -> list[float]:
    last = found.snapshots[-1]
    return [last.moved or 0, last.apart or 0, last.kernel_drift or 0, *(b.movement or 0 for b in last.blocks)]


def trained(net: nn.Module, x: Tensor, y: Tensor, *, lr: float = 0.1, steps: int = 50, **options: Any) -> Watched:
    """Full-batch gradient descent on squared loss."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    with watch(net, x, y, **options) as scope:
        for _ in range(steps):
            optimizer.zero_grad()
            (net(x)[:, 0] - y).square().mean().backward()
            optimizer.step()
            scope.step()
    return scope.result


# --- what it costs ---------------------------------------------------------------------------------------------------


def slow(monkeypatch: pytest.MonkeyPatch, wait: Callable[[float], None], seconds: float) -> None:
    """Snapshots that take so long by the clock."""
    real = scope_module.observe

    def observe(*args: Any) -> Any:
        wait(seconds)
        return real(*args)

    monkeypatch.setattr(scope_module, "observe", observe)


@pytest.mark.parametrize(
    ("share", "wanted"),
    [
        (0.05, [0, 64, 128, 256, 300]),
        (0.15, [0, 32, 64, 128, 256, 300]),
        (0.2, [0, 16, 32, 64, 128, 256, 300]),
    ],
)
def test_watching_stays_within_its_share(
    share: float, wanted: list[int], clocked: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snapshots of 1 s, steps of 1 s: taken once the first, this one and the last are paid for, others told."""
    slow(monkeypatch, clocked, 1.0)
    net = made(lambda: nn.Linear(3, 1))
    with watch(net, drawn(8, 3), share=share) as scope:
        for _ in range(300):
            clocked(1.0)
            scope.step()
    found = scope.result
    due = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    taken = [s.step for s in found.snapshots]
    assert sorted([*taken[1:-1], *found.skipped]) == due
    for before, step in enumerate(taken[1:-1], 1):
        assert before + 2 <= share * step  # so many of 1 s before it, this one and the last
    assert found.skipped == tuple(s for s in due if s not in taken)
    assert taken == wanted
    assert found.seconds == pytest.approx(len(taken))
    assert found.share == pytest.approx(len(taken) / 300)
    assert found.share <= share


def test_a_short_run_has_its_two_ends_and_says_what_they_cost(
    clocked: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, clocked, 1.0)
    with watch(made(lambda: nn.Linear(3, 1)), drawn(8, 3)) as scope:
        clocked(4.0)
        scope.step()
    assert [s.step for s in scope.result.snapshots] == [0, 1]
    assert scope.result.skipped == (1,)
    assert scope.result.share == pytest.approx(0.5)
    assert "50.0% of the time" in str(scope.result)


# --- known cases -----------------------------------------------------------------------------------------------------


def two_layers(alpha: float, m: int = 256) -> nn.Module:
    """alpha (f(x) - f(x; w0)) in all but the subtraction: outputs are a large or a small multiple of a network's."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(5, m), nn.Linear(m, 1, bias=False)
            with torch.no_grad():
                self.first.weight[m // 2 :] = self.first.weight[: m // 2]
                self.first.bias[m // 2 :] = self.first.bias[: m // 2]
                self.last.weight[:, m // 2 :] = -self.last.weight[:, : m // 2]  # so that outputs start at 0

        def forward(self, x: Tensor) -> Tensor:
            return alpha * self.last(torch.relu(self.first(x)))

    return Scaled()


def test_a_linear_model_never_leaves_its_kernel_nor_its_linearisation() -> None:
    x = drawn(40, 5)
    found = trained(made(lambda: nn.Sequential(nn.Linear(5, 1))), x, x[:, 0], steps=20)
    last = found.snapshots[-1]
    assert last.moved is not None
    assert last.moved > 0.1
    assert last.apart == pytest.approx(0, abs=1e-5)
    assert last.kernel_drift == pytest.approx(0, abs=1e-9)
    assert found.reading.regime == "lazy"
    assert found.reading.step == 20


@pytest.mark.parametrize(("alpha", "regime"), [(200.0, "lazy"), (0.1, "rich")])
def test_output_scale_decides_between_lazy_and_rich(alpha: float, regime: str) -> None:
    """Chizat, Oyallon and Bach: with rates of 1 / alpha^2, a large scale alone trains as its linearisation."""
    x = drawn(40, 5)
    y = x[:, 0] * x[:, 1]
    found = trained(made(lambda: two_layers(alpha)), x, y, lr=0.005 / alpha**2, steps=300)
    drift, cka = found.snapshots[-1].kernel_drift, found.snapshots[-1].blocks[0].cka
    assert found.reading.regime == regime, str(found)
    assert drift is not None
    assert cka is not None
    assert (drift < 0.01 and cka > 0.99) if regime == "lazy" else (drift > 0.02 and cka < 0.99)


def test_the_distance_to_the_linearisation_is_that_by_hand() -> None:
    """f(x) = a b x: f_lin = (a b + b da + a db) x, so that what is left out is da db x."""

    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.tensor(3.0))

        def forward(self, x: Tensor) -> Tensor:
            return self.a * self.b * x

    net = Product()
    with watch(net, drawn(8, 1)) as scope:
        with torch.no_grad():
            net.a += 0.5
            net.b -= 1.0
        scope.step()
    last = scope.result.snapshots[-1]
    before, after = 2 * 3, 2.5 * 2
    assert last.apart == pytest.approx(abs(0.5 * -1.0) / abs(after - before), rel=1e-5)
    assert last.moved == pytest.approx(abs(after - before) / before, rel=1e-5)


def test_tangent_kernels_are_those_of_the_kernels_room() -> None:
    """By contraction of layers and by one backward pass an input: drift of the whole and of one block agree."""
    net = made(lambda: nn.Sequential(nn.Linear(5, 30), nn.Tanh(), nn.Linear(30, 1)))
    x = drawn(20, 5)
    y = x[:, 0].sign()
    start = copy.deepcopy(net)
    found = trained(net, x, y, steps=40)

    def cosine(part: str) -> tuple[float, float]:
        kernels = []
        for one in (start, net):
            own = copy.deepcopy(one)
            for name, p in own.named_parameters():
                p.requires_grad_(name.startswith(part))
            kernels.append(empirical_ntk(own, x))
        k, later = kernels
        centre = torch.eye(20, dtype=torch.float64) - 1 / 20
        c, t = centre @ later @ centre, centre @ torch.outer(y, y).double() @ centre
        return 1 - float((k * later).sum() / (k.norm() * later.norm())), float((c * t).sum() / (c.norm() * t.norm()))

    last = found.snapshots[-1]
    got = [(last.kernel_drift, last.alignment), *((b.kernel_drift, b.alignment) for b in last.blocks)]
    for (drift, aligned), part in zip(got, ("", "0", "2"), strict=True):
        assert (drift, aligned) == (pytest.approx(cosine(part)[0], abs=1e-5), pytest.approx(cosine(part)[1], abs=1e-4))
    assert last.kernel_drift
    assert last.kernel_drift > 1e-3


def test_folded_gradients_keep_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor of 40000 weights in 1021 bins: the drift stays what it is to n/1021."""
    from featlearn.apply.watch import moments

    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 1))

    x = drawn(12, 200)
    whole = trained(made(build), x, x[:, 0], steps=30, lr=0.1).snapshots[-1].kernel_drift
    monkeypatch.setattr(moments, "KEPT", (1021, 1021))
    assert bins_of(12, 4) == 1021
    folded = trained(made(build), x, x[:, 0], steps=30, lr=0.1).snapshots[-1].kernel_drift
    assert whole is not None
    assert folded is not None
    assert abs(folded - whole) < 12 / 1021
    assert folded != whole


def test_alignment_is_one_for_the_labels_themselves() -> None:
    y = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]])
    assert alignment((y @ y.T).double(), y) == pytest.approx(1)
    assert alignment(torch.eye(4).double(), y) == pytest.approx(1 / 3**0.5)
    assert alignment(torch.ones(4, 4).double(), y) is None


def test_gradient_outer_products_by_hand() -> None:
    """W = diag(2, 1), gradients in the outputs (1, 0) and (0, 1): W'W = diag(4, 1), AGOP = diag(4, 1) too."""
    w = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    even = outer_against_gram(torch.eye(2), w, "layer")
    assert even is not None
    assert even.cosine == pytest.approx(1)
    assert even.chance == pytest.approx(5 * 5 / (2 * 17))
    one = outer_against_gram(torch.tensor([[0.0, 3.0]]), w, "layer")  # AGOP = 9 diag(0, 1)
    assert one is not None
    assert one.cosine == pytest.approx(1 / 17**0.5)
    assert one.chance == pytest.approx(5 / (2 * 17**0.5))
    assert outer_against_gram(torch.zeros(1, 2), w, "layer") is None
    assert outer_against_gram(torch.ones(3, 1), torch.ones(1, 2), "a layer of one output") is None


def test_gradient_outer_products_are_those_of_autograd() -> None:
    """Through a layer in the middle, by gradients in its inputs."""
    net = made(lambda: nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, 3)))
    x = drawn(20, 5)
    with watch(net, x) as scope:
        pass
    h = torch.relu(net[0](x)).detach().requires_grad_()  # pyright: ignore
    out = net[4](torch.tanh(net[2](h)))  # pyright: ignore
    outer = torch.zeros(7, 7)
    for c in range(3):
        (g,) = torch.autograd.grad(out[:, c].sum(), h, retain_graph=True)
        outer += g.T @ g
    gram = (net[2].weight.T @ net[2].weight).detach()  # pyright: ignore
    wanted = float((outer * gram).sum() / (outer.norm() * gram.norm()))
    got = {one.name: one.cosine for one in scope.result.snapshots[0].layers}
    assert got["2"] == pytest.approx(wanted, rel=1e-5)
    assert [*got] == ["0", "2"]  # in the read-out the two are the same


def test_early_gradients_agree_as_they_were_made() -> None:
    """Ten steps along (1, 0, 0, 0), ten along (1, 1, 0, 0), ten along (0, 0, 1, -1)."""
    net = nn.Linear(4, 1, bias=False)
    along = [[1.0, 0, 0, 0], [1.0, 1, 0, 0], [0.0, 0, 1, -1]]
    with watch(net, drawn(8, 4)) as scope:
        for i in range(35):
            net.weight.grad = (1 + i) * torch.tensor([along[min(i // 10, 2)]])
            scope.step()
    found = scope.result.agreement
    assert found.cosines == pytest.approx((0.5**0.5, 0, 0))
    assert found.chance == pytest.approx((0.5**0.5, 0, 0))
    assert (found.seen, found.coordinates, found.of, found.why) == (30, 4, 4, "")


def test_gradients_that_agree_by_chance_have_the_level_that_is_told() -> None:
    generator = KEY.torch()
    cosines, chance = [], []
    for _ in range(15):
        net = nn.Linear(50, 1, bias=False)
        with watch(net, drawn(8, 50)) as scope:
            for _ in range(3):
                g = torch.randn(1, 50, generator=generator)
                for _ in range(10):
                    net.weight.grad = g
                    scope.step()
        cosines += scope.result.agreement.cosines
        chance += scope.result.agreement.chance
    assert np.mean(np.square(chance)) ** 0.5 == pytest.approx(50**-0.5, rel=0.1)
    assert np.mean(np.square(cosines)) ** 0.5 == pytest.approx(50**-0.5, rel=0.3)


def test_gradients_that_are_gone_are_told() -> None:
    net = nn.Linear(4, 1)
    with watch(net, drawn(8, 4)) as scope:
        for _ in range(30):
            scope.step()
    assert "none was seen" in scope.result.agreement.why
    assert scope.result.agreement.cosines == ()
    with watch(net, drawn(8, 4)) as scope:
        net.weight.grad = torch.ones(1, 4)
        scope.step()
    assert scope.result.agreement.why == "of 30 steps, 1 were made"
    with watch(net, drawn(8, 4)) as scope:
        for i in range(30):
            net.weight.grad = torch.full((1, 4), float("inf") if i == 3 else 1.0)
            scope.step()
    assert "not finite: 1" in scope.result.agreement.why


# --- blocks ----------------------------------------------------------------------------------------------------------


def test_blocks_are_the_children_and_lists_are_opened() -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.drop = nn.Linear(2, 4), nn.Dropout()
            self.layers = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3)])
            self.head = nn.Linear(4, 1)

    assert parts_of(Deep(), ()).blocks == ("embed", "layers.0", "layers.1", "layers.2", "head")
    assert parts_of(nn.Sequential(Deep()), ()).blocks == ("0.embed", "0.layers.0", "0.layers.1", "0.layers.2", "0.head")
    assert parts_of(Deep(), ("layers.1",)).layers == ("layers.1.0",)
    many = parts_of(nn.ModuleList([nn.Linear(2, 2) for _ in range(40)]), ())
    assert len(many.blocks) == 16
    assert many.blocks[0] == "0"
    assert many.blocks[-1] == "39"
    assert many.left_out == ("24 of 40 blocks are left out", "24 of 40 linear layers are left out")
    assert parts_of(nn.Linear(2, 2), ()).blocks == ("",)


# --- logs, copies, failures ------------------------------------------------------------------------------------------


class SummaryWriter:
    """Stands in for TensorBoard's."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float, int]] = []

    def add_scalar(self, tag: str, scalar_value: float, global_step: int | None = None, walltime: None = None) -> None:
        assert isinstance(tag, str)
        assert isinstance(scalar_value, float)
        assert isinstance(global_step, int)
        self.seen.append((tag, scalar_value, global_step))


def log_metric(key: str, value: float, step: int | None = None, synchronous: bool | None = None) -> None:
    """Stands in for MLflow's, with its rule for names."""
    import re

    assert re.fullmatch(r"[/\w.\- :]+", key), key
    assert isinstance(value, float)
    assert isinstance(step, int)


def test_logs_of_tensorboard_and_mlflow_are_fed() -> None:
    x = drawn(20, 5)
    writer = SummaryWriter()
    net = made(lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2)))
    found = trained(net, x, x[:, 0], steps=3, log=writer.add_scalar)
    names = {name for name, _, step in writer.seen if step == 3}
    assert {"watch/apart", "watch/kernel_drift", "watch/alignment/2", "watch/cka/0", "watch/agop/0"} <= names
    assert dict((n, v) for n, v, s in writer.seen if s == 3)["watch/apart"] == found.snapshots[-1].apart
    assert not trained(net, x, x[:, 0], steps=1, log=log_metric).remarks
    try:
        from torch.utils.tensorboard.writer import SummaryWriter as Real
    except ImportError:
        return
    assert trained(net, x, x[:, 0], steps=1, log=Real("board").add_scalar).remarks == ()


def test_a_log_that_fails_is_told_and_ends_nothing() -> None:
    def log(name: str, value: float, step: int) -> None:
        raise OSError("the disk is full")

    x = drawn(20, 5)
    found = trained(made(lambda: nn.Linear(5, 1)), x, x[:, 0], steps=2, log=log)
    assert found.remarks == ("no more is logged: the log failed with OSError: the disk is full",)
    assert [s.step for s in found.snapshots] == [0, 2]


def test_a_training_that_diverges_is_told_and_goes_on(clocked: Callable[[float], None]) -> None:
    net = nn.Linear(5, 1)
    with watch(net, drawn(8, 5), steps=range(9)) as scope:
        for i in range(5):
            with torch.no_grad():
                net.weight.fill_(float("nan") if i > 2 else 1.0)
            scope.step()
    assert [s.step for s in scope.result.snapshots] == [0, 1, 2, 3]
    assert scope.result.steps == 5
    assert "stopped watching after step 4: the network is not finite any more" in scope.result.remarks[0]


def test_what_fails_in_a_snapshot_is_told_and_ends_nothing(
    clocked: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = nn.Linear(5, 1)

    def observe(*args: Any) -> Any:
        raise torch.OutOfMemoryError("no memory\nand a page of numbers")

    with watch(net, drawn(8, 5), steps=range(9)) as scope:
        monkeypatch.setattr(scope_module, "observe", observe)
        for _ in range(3):
            scope.step()
    assert [s.step for s in scope.result.snapshots] == [0]
    assert scope.result.remarks == ("stopped watching after step 1: OutOfMemoryError: no memory",)


def test_half_precision_tuples_and_mappings() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(9, 4), nn.Linear(5, 2)

        def forward(self, ids: Tensor, more: Tensor, attention_mask: Tensor | None = None) -> dict[str, Tensor]:
            return {"loss": more.sum(), "logits": self.head(torch.cat([self.embed(ids).mean(1), more], 1))}

    net = made(Both).bfloat16()
    ids, more = torch.arange(30).view(10, 3) % 9, drawn(10, 1)
    for x in ((ids, more), {"ids": ids, "more": more, "attention_mask": torch.ones(10, 3)}):
        with watch(net, x) as scope:
            with torch.no_grad():
                net.head.weight += 1
            scope.step()
        last = scope.result.snapshots[-1]
        assert last.apart == pytest.approx(0, abs=1e-4)
        assert last.blocks[0].change == 0
        assert [b.name for b in last.blocks] == ["embed", "head"]
    assert net.head.weight.dtype == torch.bfloat16


def test_outputs_at_padded_positions_have_no_part() -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.pad = nn.Embedding(5, 3), nn.Parameter(torch.zeros(1))

        def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
            return self.embed(ids) + self.pad * (1 - attention_mask)[..., None]

    net = Tagger()
    mask = torch.tensor([[1, 1, 0]] * 6)
    with watch(net, {"ids": torch.arange(18).view(6, 3) % 5, "attention_mask": mask}) as scope:
        with torch.no_grad():
            net.pad += 5
        scope.step()
    assert scope.result.snapshots[-1].moved == 0


def test_probes_of_many_inputs_are_drawn_by_the_key() -> None:
    x = drawn(500, 3)
    scope = watch(nn.Linear(3, 1), x)
    rows = scope._probe.rows
    assert scope._probe.n == 64
    assert len(rows.unique()) == 64
    assert int(rows.max()) > 64
    assert torch.equal(scope._probe.args[0], x[rows])
    assert torch.equal(rows, watch(nn.Linear(3, 1), x)._probe.rows)
    assert not torch.equal(rows, watch(nn.Linear(3, 1), x, key=KEY)._probe.rows)


def test_copies_are_apart_from_the_model_and_have_no_hooks() -> None:
    net = made(noisy)
    called: list[int] = []
    handle = net.register_forward_hook(lambda *_: called.append(1))
    own = copied(net)
    own(drawn(4, 6))
    assert not called
    assert not any(m.training for m in own.modules())
    assert len(net._forward_hooks) == 1
    assert not len(own._forward_hooks)
    assert not own.training
    assert net.training
    assert {p.data_ptr() for p in own.parameters()}.isdisjoint(p.data_ptr() for p in net.parameters())
    with watch(net, drawn(8, 6)) as scope:
        pass
    assert scope.result.remarks == ("1 hooks of the model have no part in snapshots",)
    handle.remove()


def test_a_copy_leaves_the_loop_behind_that_its_model_points_to() -> None:
    net = nn.Linear(3, 1)
    net._trainer = threading.Lock()  # pyright: ignore
    assert torch.equal(copied(net).weight, net.weight)  # pyright: ignore
    assert isinstance(net._trainer, type(threading.Lock()))


@pytest.mark.parametrize("kind", [torch.float64, torch.float16])
def test_other_precisions_are_measured(kind: torch.dtype) -> None:
    net = made(lambda: nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))).to(kind)
    with watch(net, drawn(8, 3).to(kind)) as scope:
        with torch.no_grad():
            for p in net.parameters():
                p.mul_(1.5)
        scope.step()
    last = scope.result.snapshots[-1]
    assert last.blocks[0].change == pytest.approx(0.5, abs=1e-3)
    assert last.blocks[0].spectral == pytest.approx(0.5, abs=1e-3)
    assert last.apart is not None
    assert last.layers
    assert next(net.parameters()).dtype == kind


@pytest.mark.parametrize("wrap", [torch.compile, nn.DataParallel])
def test_wrappers_are_taken_off(wrap: Callable[..., nn.Module]) -> None:
    net = made(lambda: nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)))
    with watch(wrap(net), drawn(8, 3)) as scope:
        pass
    assert [b.name for b in scope.result.snapshots[0].blocks] == ["0", "1"]


def test_weights_that_are_made_from_others_are_measured() -> None:
    """A weight of length g along v: twice the length alone moves outputs as the linearisation says."""
    net = made(lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 4, bias=False))))
    with watch(net, drawn(8, 3)) as scope:
        with torch.no_grad():
            net[0].parametrizations.weight.original0.mul_(2)  # pyright: ignore
        scope.step()
    last = scope.result.snapshots[-1]
    assert last.moved == pytest.approx(1, abs=1e-5)
    assert last.apart == pytest.approx(0, abs=1e-5)


def test_a_change_of_one_direction_is_told_in_spectral_norms() -> None:
    """Of 0.3 of the spectral norm in a matrix that is decomposed in part: a small part of its Frobenius norm."""
    net = made(lambda: nn.Sequential(nn.Linear(300, 290, bias=False), nn.Linear(290, 1, bias=False)))
    w = net[0].weight.data  # pyright: ignore
    u, v = drawn(290, name="u"), drawn(300, name="v")
    with watch(net, drawn(8, 300)) as scope:
        w += 0.3 * torch.linalg.matrix_norm(w, 2) * torch.outer(u / u.norm(), v / v.norm())
        scope.step()
    first, second = scope.result.snapshots[-1].blocks
    assert first.spectral == pytest.approx(0.3, rel=0.05)
    assert first.change is not None
    assert first.change < 0.05
    assert (second.spectral, second.change) == (0, 0)


def test_features_are_held_against_the_start_and_the_snapshot_before(clocked: Callable[[float], None]) -> None:
    net = made(lambda: nn.Linear(3, 5, bias=False))
    first, second = net.weight.detach().clone(), drawn(5, 3, name="second")
    x = drawn(12, 3)
    with watch(net, x, steps=range(9)) as scope:
        for weight in (second, second, first):
            with torch.no_grad():
                net.weight.copy_(weight)  # pyright: ignore
            scope.step()
    wanted = linear_cka(x @ first.T, x @ second.T, unbiased=True)
    blocks = [s.blocks[0] for s in scope.result.snapshots]
    assert [b.cka for b in blocks] == pytest.approx([1, wanted, wanted, 1], abs=1e-5)
    assert [b.cka_previous for b in blocks] == pytest.approx([1, wanted, 1, wanted], abs=1e-5)
    way = float((x @ (second - first).T).norm() / (x @ first.T).norm())
    assert [b.movement for b in blocks] == pytest.approx([0, way, way, 0], abs=1e-5)
    assert wanted < 0.95


# --- what is refused -------------------------------------------------------------------------------------------------


class Locked(nn.Linear):
    def __init__(self) -> None:
        super().__init__(3, 1)
        self.lock = threading.Lock()


class Drawing(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) + torch.randn(1)


class NumpyDrawing(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * float(np.random.rand())  # noqa: NPY002


class Mixing(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input - input.mean(0))


class Wordy(nn.Linear):
    def forward(self, input: Tensor) -> str:  # pyright: ignore
        return "three"


def patched() -> nn.Module:
    net = nn.Linear(3, 1)
    old = net.forward
    net.forward = lambda x: 2 * old(x)
    return net


def frozen() -> nn.Module:
    return nn.Linear(3, 1).requires_grad_(False)


def infinite() -> nn.Module:
    net = nn.Linear(3, 1)
    with torch.no_grad():
        net.bias.fill_(float("inf"))
    return net


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (Locked, "Locked, which cannot be copied"),
        (lambda: Drawing(3, 1), "draws random numbers in evaluation mode"),
        (lambda: NumpyDrawing(3, 1), "other outputs for the same inputs"),
        (lambda: Mixing(3, 1), "gives an input alone other outputs"),
        (lambda: Wordy(3, 1), "gives a str"),
        (patched, "put in place of its forward"),
        (frozen, "no parameter that is trained"),
        (nn.ReLU, "no parameter that is trained"),
        (lambda: nn.LazyLinear(1), "not made yet"),
        (lambda: nn.Linear(3, 1, device="meta"), "not here as a whole"),
        (infinite, "not finite"),
        (lambda: nn.Linear(4, 1), "inputs on which the model fails"),
        (lambda: nn.Linear(3, 1, dtype=torch.complex64), "complex"),
        (lambda: len, "a builtin_function_or_method"),
    ],
)
def test_models_that_cannot_be_watched_are_refused_by_name(build: Callable[[], Any], said: str) -> None:
    with pytest.raises(SettingError, match=said) as caught, watch(build(), drawn(8, 3)):
        pass
    assert "\n" not in str(caught.value)
    assert "not allowed" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"x": "text"}, "x = a str"),
        ({"x": [1, 2]}, "x = a list"),
        ({"x": {"ids": 3}}, "x = a dict"),
        ({"x": drawn(3, 3)}, "x = of 3 inputs"),
        ({"x": torch.full((8, 3), float("nan"))}, "x = 24 of 24 values not finite"),
        ({"x": (drawn(8, 3), drawn(7, 3))}, r"x\[1\] = a tensor of 7 rows"),
        ({"y": torch.ones(7)}, "y = a tensor of shape"),
        ({"y": torch.ones(8)}, "y = of one value"),
        ({"y": [1] * 8}, "y = a list"),
        ({"y": torch.ones(8, 2, dtype=torch.long)}, "y = a tensor"),
        ({"share": 0.0}, "share = 0.0"),
        ({"share": 1}, "share = 1"),
        ({"share": float("nan")}, "share = nan"),
        ({"steps": 5}, "steps = a int"),
        ({"log": 5}, "log = a int"),
        ({"layers": "0"}, "layers = '0'"),
        ({"layers": ("9",)}, "layers = '9'"),
    ],
)
def test_settings_that_are_refused(options: dict[str, Any], said: str) -> None:
    given = {"x": drawn(8, 3), **options}
    with pytest.raises(SettingError, match=said) as caught, watch(nn.Sequential(nn.Linear(3, 1)), **given):
        pass
    assert "\n" not in str(caught.value)


def test_a_scope_is_stepped_inside_and_entered_once() -> None:
    scope = featlearn.watch(nn.Linear(3, 1), drawn(8, 3))
    for misuse in (scope.step, lambda: scope.result):
        with pytest.raises(SettingError):
            misuse()
    with scope:
        scope.step()
    with pytest.raises(SettingError, match="called on a scope that is left"):
        scope.step()
    with pytest.raises(SettingError, match="left"), scope:
        pass


@pytest.mark.parametrize(
    ("apart", "regime", "step"),
    [
        ([None, 0.5, 0.009], "lazy", 2),
        ([None, 0.009, 0.011], "undecided", 2),
        ([None, 0.009, 0.19], "undecided", 2),
        ([None, 0.009, 0.21], "rich", 2),
        ([None, 0.21, None], "rich", 1),
        ([None, None], "unread", None),
    ],
)
def test_the_reading_is_that_of_the_last_distance(apart: list[float | None], regime: str, step: int | None) -> None:
    others = {"at": 0.0, "seconds": 0.0, "moved": 0.0, "kernel_drift": None, "alignment": None}
    found = reading_of([Snapshot(step=i, apart=a, blocks=(), layers=(), **others) for i, a in enumerate(apart)])  # pyright: ignore
    assert (found.regime, found.step) == (regime, step)


def test_the_thresholds_are_those_of_the_documentation() -> None:
    assert (LAZY, RICH) == (0.01, 0.2)


def test_derivatives_are_of_few_inputs_at_once_and_say_the_same(monkeypatch):
    sizes = []

    class Wide(nn.Sequential):
        def forward(self, x):
            if torch.is_grad_enabled():
                sizes.append(len(x))
            return super().forward(x)

    def watched():
        net = made(lambda: Wide(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 12)))
        with featlearn.watch(net, drawn(20, 3)) as scope:
            for p in net.parameters():
                p.data.mul_(1.2)
            scope.step()
        return scope.result.snapshots[-1]

    few, most = watched(), max(sizes)
    monkeypatch.setattr(moments, "AT_ONCE", 64)
    whole = watched()
    assert (most, max(sizes)) == (8, 20)
    assert few.apart == pytest.approx(whole.apart, rel=1e-5)
    assert [a.cosine for a in few.layers] == pytest.approx([a.cosine for a in whole.layers], rel=1e-5)
    assert few.layers
