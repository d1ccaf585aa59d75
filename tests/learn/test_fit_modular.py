"""Training on sums modulo p: steps against torch's own loop, slices, ensembles, captured steps, ends and refusals."""

import math
from dataclasses import replace

import pytest
import torch

from featlearn.core import Diverged, Key, SettingError
from featlearn.learn import ModularSchedule, fit_modular, modular, modular_accuracy
from featlearn.nets import ModularShape, ModularTransformer

SHAPE = ModularShape(k=2, p=5, heads=2, width=8, head_dim=4, mlp=6)
KEYS = [Key("a"), Key("b")]
SCHEDULE = ModularSchedule(steps=30, batch=6, rate=0.01, decay=0.1, gap=3, growth=1.0, probe=8)


def decode(index):
    x = torch.stack([index // 5, index % 5], -1)
    return x, x.sum(-1) % 5


def sides(keys=KEYS):
    orders = torch.stack([torch.randperm(25, generator=(key / "split").torch()) for key in keys])
    return orders[:, :16], orders[:, 16:]


def trained(schedule=SCHEDULE, keys=KEYS, **more):
    net = more.pop("net", None) or ModularTransformer(SHAPE, keys)
    return fit_modular(net, *sides(keys), decode, schedule, keys, **more)


def same(one, two, atol=0.0):
    for a, b in zip(one.net.parameters(), two.net.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=atol, rtol=0)
    assert one.steps == two.steps
    for name in one.trace:
        torch.testing.assert_close(one.trace[name], two.trace[name], atol=10 * atol, rtol=0)


def test_steps_are_those_of_a_plain_loop():
    """A new permutation an epoch, short end dropped; linear warm-up and fall; decay apart from the gradient."""
    schedule = replace(SCHEDULE, steps=12, warmup=4, cool=3)
    net = ModularTransformer(SHAPE, KEYS[:1])
    train, _ = sides(KEYS[:1])
    averages = [(torch.zeros_like(p), torch.zeros_like(p)) for p in net.parameters()]
    for step in range(12):
        order = torch.randperm(16, generator=(KEYS[0] / "batches" / (step // 2)).torch())
        x, y = decode(train[0, order[6 * (step % 2) :][:6]])
        rate = 0.01 * min(1.0, (step + 1) / 4, (12 - step) / 3)
        loss = torch.nn.functional.cross_entropy(net(x[None])[0], y)
        for p, g, (m, v) in zip(
            net.parameters(), torch.autograd.grad(loss, list(net.parameters())), averages, strict=True
        ):
            m.copy_(0.9 * m + 0.1 * g)
            v.copy_(0.98 * v + 0.02 * g**2)
            hats = m / (1 - 0.9 ** (step + 1)), v / (1 - 0.98 ** (step + 1))
            p.data = (1 - rate * 0.1) * p.data - rate * hats[0] / (hats[1] ** 0.5 + 1e-8)
    found = trained(schedule, KEYS[:1])
    for a, b in zip(found.net.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=0)


def test_an_ensemble_is_a_loop_of_single_runs():
    both = trained()
    for i, key in enumerate(KEYS):
        one = trained(keys=[key])
        for a, b in zip(one.net.parameters(), both.net.parameters(), strict=True):
            torch.testing.assert_close(a[0], b[i], atol=1e-5, rtol=0)


@pytest.mark.parametrize("replaced", [False, True])
def test_slices_are_one_run(replaced):
    schedule = replace(SCHEDULE, replace=replaced, steps=80, gap=7)
    whole = trained(schedule)
    first = trained(schedule, until=30)
    assert not first.done
    assert first.test_accuracy is None
    assert first.steps[-1] == 35
    rest = trained(schedule, resume=first)
    same(whole, rest)
    assert rest.done
    assert torch.equal(whole.test_accuracy, rest.test_accuracy)


def test_the_given_network_stays_and_nothing_global_changes():
    net = ModularTransformer(SHAPE, KEYS)
    before = [p.detach().clone() for p in net.parameters()]
    state, precision = torch.get_rng_state(), torch.get_float32_matmul_precision()
    trained(replace(SCHEDULE, precision="tf32", steps=4), net=net)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    assert torch.equal(state, torch.get_rng_state())
    assert torch.get_float32_matmul_precision() == precision


def test_captured_steps_are_the_plain_ones():
    """The GPU path with a capture that replays the work itself: held inputs, steps before it, inputs of every step."""
    calls = []

    def capture(work):
        def replay():
            calls.append(1)
            work()

        return replay

    seen = []

    def work(x, y):
        seen.append((x.clone(), y.clone()))

    stepper = modular._Stepper(work, 3, capture)
    given = [(torch.full((2,), float(i)), torch.full((2,), -i)) for i in range(8)]
    for x, y in given:
        stepper(x, y)
    assert len(calls) == 5
    assert all(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in zip(seen, given, strict=True))


def test_bf16_products_train_and_float32_weights_stay():
    found = trained(replace(SCHEDULE, precision="bf16"))
    plain = trained()
    assert all(p.dtype == torch.float32 for p in found.net.parameters())
    gap = float((found.trace["train_loss"] - plain.trace["train_loss"]).abs().max())
    assert 1e-6 < gap < 0.3


def test_accuracies_count_every_point():
    found = trained()
    for i in range(2):
        for side, accuracy in zip(sides(), (found.train_accuracy, found.test_accuracy), strict=True):
            x, y = decode(side)
            right = found.net(x)[i].argmax(-1) == y[i]
            assert float(accuracy[i]) == pytest.approx(float(right.float().mean()), abs=1e-6)
    n = sides()[0].shape[1]
    assert torch.equal(modular_accuracy(found.net, sides()[0], decode)[0] * n % 1, torch.zeros(2))


def test_a_run_ends_when_both_accuracies_have_come(monkeypatch):
    script = iter([0.1, 0.1, 1.0, 0.1, 1.0, 0.3, 1.0, 1.0, 1.0, 0.2, 1.0, 0.2, *[1.0] * 40])  # train, test in turns

    def accuracy(net, index, decode):
        return torch.full((2,), next(script)), torch.full((2,), 0.5)

    monkeypatch.setattr(modular, "_accuracy", accuracy)
    found = trained(replace(SCHEDULE, settle=1.6))
    assert found.first("train_accuracy", 0.99) == [3, 3]
    assert found.first("test_accuracy", 0.99) == [9, 9]
    assert found.first("test_accuracy", 0.25) == [6, 6]
    assert found.steps[-1] == 15  # the first evaluation from 1.6 * 9 on
    assert found.done


def test_a_loss_of_exactly_zero_is_named():
    net = ModularTransformer(replace(SHAPE, mlp=0, norm=False), KEYS)
    found = fit_modular(net, *sides(), lambda i: (decode(i)[0], 0 * decode(i)[1]), replace(SCHEDULE, rate=1.0), KEYS)
    # one class alone, so that scores grow until the loss rounds to 0
    assert all(isinstance(z, int) and z > 0 for z in found.zero_loss)
    assert float(found.trace["train_loss"][found.steps.index(found.zero_loss[0])][0]) == 0


def test_divergence_is_named():
    net = ModularTransformer(SHAPE, KEYS)
    with torch.no_grad():
        net["read"][1].fill_(math.inf)
    with pytest.raises(Diverged, match="member 1"):
        trained(net=net)


@pytest.mark.parametrize(
    "make, field",
    [
        (lambda: replace(SCHEDULE, steps=0), "steps"),
        (lambda: replace(SCHEDULE, batch=0), "batch"),
        (lambda: replace(SCHEDULE, rate=0.0), "rate"),
        (lambda: replace(SCHEDULE, decay=-1.0), "decay"),
        (lambda: replace(SCHEDULE, growth=0.9), "growth"),
        (lambda: replace(SCHEDULE, settle=math.nan), "settle"),
        (lambda: replace(SCHEDULE, thresholds=(0.99, 0.95)), "thresholds"),
        (lambda: replace(SCHEDULE, precision="fp8"), "precision"),
        (lambda: trained(replace(SCHEDULE, batch=17)), "batch"),
        (lambda: fit_modular(ModularTransformer(SHAPE, KEYS), *sides(KEYS[:1]), decode, SCHEDULE, KEYS), "train"),
        (lambda: fit_modular(ModularTransformer(SHAPE, KEYS), *sides(), decode, SCHEDULE, KEYS[:1]), "keys"),
    ],
)
def test_refused_before_any_work(make, field):
    with pytest.raises(SettingError) as error:
        make()
    assert error.value.field == field
    assert "\n" not in str(error.value)
