"""The objects of the work as identities that can fail: data, network, loss, and the update with its symmetry."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import COUNT, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_most, control, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.learn import Stage, fit_one_pass
from featlearn.nets import TwoLayer, mean_field_rates, neuron_weights, sphere_init
from featlearn.tasks import BooleanXor
from featlearn.works.xor_sgd.setup import ROOT2, Array, Net, cube, engine, engine_step, labels, random_net

EXACT = 1e-12


# data ----------------------------------------------------------------------------------------------------------------

PAIR, TURNED, SAMPLES = (6, 2), 9, 40_000
"""The two coordinates of the label, the dimension, and how many samples give the shares."""


def says_data(settings: None) -> Sequence[Statement]:
    """Section 2.1, in closed form."""
    source = "Section 2.1"
    return (
        equal("||mu||^2", POSITIVE, 2.0, source, margin=1e-5, rival=1.0, rival_says="unit means"),
        equal(
            "shares of the four clusters",
            SHARE,
            0.25,
            source,
            margin=0.02,
            axis="cluster",
            rival=np.array([0.5, 0.0, 0.5, 0.0]),
            rival_says="two clusters, one for each label",
        ),
        equal(
            "labels of +mu_1, -mu_1, +mu_2 and -mu_2",
            REAL,
            np.array([1.0, 1.0, -1.0, -1.0]),
            source,
            axis="cluster",
            rival=np.array([1.0, -1.0, 1.0, -1.0]),
            rival_says="an odd label, y(-z) = -y(z)",
        ),
        equal("E y", REAL, 0.0, source, margin=0.05, rival=0.5, rival_says="AND in place of XOR"),
        equal("y s_i s_j", REAL, -1.0, source, margin=1e-5, axis="sample", rival=1.0, rival_says="the other sign"),
        equal(
            "squared length of x - z in the plane of the means",
            POSITIVE,
            0.0,
            source,
            margin=1e-5,
            axis="sample",
            rival=2.0,
            rival_says="noise in all coordinates",
        ),
        equal(
            "||x - z||^2",
            POSITIVE,
            TURNED - 2.0,
            source,
            margin=1e-4,
            axis="sample",
            rival=float(TURNED),
            rival_says="noise in all coordinates",
        ),
    )


def sees_data(settings: None, key: Key) -> Mapping[str, Observation]:
    """Samples of the task in a random basis."""
    task = BooleanXor(d=TURNED, pair=PAIR, basis="random")
    truth = task.draw(key / "truth")
    batch = task.sample(truth, SAMPLES, key / "samples")
    assert truth.basis is not None
    assert batch.group is not None
    means, few = truth.means.double(), slice(0, 400)
    turned_back = (batch.x[few].double() @ truth.basis.double()).numpy()
    y, group = batch.y.double().numpy(), batch.group.numpy()
    rest = batch.x[few].double() - torch.stack([means[0], -means[0], means[1], -means[1]])[batch.group[few]]
    return {
        "||mu||^2": means.square().sum(1).numpy(),
        "shares of the four clusters": [mean_of(group == c, SHARE, "sample") for c in range(4)],
        "labels of +mu_1, -mu_1, +mu_2 and -mu_2": np.array([y[group == c].mean() for c in range(4)]),
        "E y": mean_of(y, REAL, "sample"),
        "y s_i s_j": y[few] * turned_back[:, PAIR[0]] * turned_back[:, PAIR[1]],
        "squared length of x - z in the plane of the means": (rest @ means.T).square().sum(1).numpy() / 2,
        "||x - z||^2": rest.square().sum(1).numpy(),
    }


# model ---------------------------------------------------------------------------------------------------------------

THETA, NEURONS = 0.3, 30
STILL = "the same, with the data turned and the start not"


def draw_model(key: Key) -> TwoLayer:
    """The start of the product."""
    return sphere_init(NEURONS, 8, key, theta=THETA)


def says_model(settings: TwoLayer) -> Sequence[Statement]:
    """Section 2.2, with f as the literal sum over neurons."""
    a, w = NEURONS * settings.a[0].double().numpy(), settings.w[0].double().numpy()
    f = np.array([sum(a[j] * max(float(w[j] @ x), 0.0) for j in range(NEURONS)) / NEURONS for x in cube(8)[:40]])
    kick = DEAD_STEP * DEAD_WEIGHT * np.array([1.0, -1.0, 1.0])
    return (
        equal(
            "||w_j||",
            POSITIVE,
            THETA,
            "Section 2.2, Initialization",
            margin=1e-6,
            axis="neuron",
            rival=THETA / math.sqrt(NEURONS),
            rival_says="theta / sqrt(p), the scale in Theorem 3.1",
        ),
        equal(
            "|a_j|",
            POSITIVE,
            THETA,
            "Section 2.2, Initialization",
            margin=1e-6,
            axis="neuron",
            rival=1.0,
            rival_says="signs without the factor ||w_j||",
        ),
        equal(
            "f(x)",
            REAL,
            f,
            "Section 2.2, Model",
            margin=1e-6,
            axis="input",
            rival=NEURONS * f,
            rival_says="no factor 1/p",
        ),
        equal(
            "move of a neuron with w = 0 in a step",
            REAL,
            0.0,
            "Section 2.2, footnote 2: relu'(0) = 0",
            axis="coordinate",
            rival=kick,
            rival_says="relu'(0) = 1",
        ),
        equal(
            "three steps in a random basis, turned back, less those in the standard basis",
            REAL,
            0.0,
            "Remark 2.1",
            margin=1e-5,
            axis="weight",
            rival=control(STILL),
            rival_says="a start that is not turned with the data",
        ),
    )


DEAD_STEP, DEAD_WEIGHT = 0.5, 0.7


def three_steps(key: Key, *, turn_data: bool, turn_start: bool) -> Array:
    """First-layer weights after three steps of the product, turned back where the data were turned."""
    d, p = 7, 5
    task = BooleanXor(d=d, basis="random" if turn_data else "standard")
    basis = BooleanXor(d=d, basis="random").draw(key / "basis").basis
    assert basis is not None
    truth, start = task.draw(key / "basis"), sphere_init(p, d, key / "start", theta=1.0)
    if turn_start:
        start = TwoLayer(start.w @ basis.T, start.b, start.a, "relu")

    def pairs(n: int, key: Key) -> tuple[torch.Tensor, torch.Tensor]:
        batch = task.sample(truth, n, key)
        return batch.x, batch.y

    rate_w, rate_a = mean_field_rates(0.2, p)
    end = fit_one_pass(start, pairs, [Stage(3, rate_w, 0.0, rate_a, batch=20)], key / "data").net.w[0].double()
    return (end @ basis.double() if turn_data else end).numpy()


def sees_model(settings: TwoLayer, key: Key) -> Mapping[str, Observation]:
    """The start, its scores, and the product's steps."""
    straight = three_steps(key, turn_data=False, turn_start=False)
    dead = Net(np.zeros((1, 3)), np.array([DEAD_WEIGHT]))
    x, y = np.array([[1.0, -1.0, 1.0]]), np.ones(1)
    return {
        "||w_j||": settings.w[0].norm(dim=1).double().numpy(),
        "|a_j|": neuron_weights(settings)[0].abs().double().numpy(),
        "f(x)": settings(torch.from_numpy(cube(8)[:40]).float())[:, 0].double().numpy(),
        "move of a neuron with w = 0 in a step": engine_step(dead, x, y, DEAD_STEP).w[0],
        "three steps in a random basis, turned back, less those in the standard basis": three_steps(
            key, turn_data=True, turn_start=True
        )
        - straight,
        STILL: three_steps(key, turn_data=True, turn_start=False) - straight,
    }


# loss ----------------------------------------------------------------------------------------------------------------

SCORES = np.linspace(-6, 6, 49)


def says_loss(settings: None) -> Sequence[Statement]:
    """Section 2.2: l and l' as they stand there, for y = 1 and y = -1."""
    y = np.array([[1.0], [-1.0]])
    loss = -2 * np.log(1 / (1 + np.exp(-y * SCORES)))
    slope = -2 * y * np.exp(-y * SCORES) / (1 + np.exp(-y * SCORES))
    source = "Section 2.2, Minibatch SGD"
    half = "the usual logistic loss, without the factor 2"
    return (
        equal("l'", REAL, slope, source, margin=EXACT, axis="label, score", rival=slope / 2, rival_says=half),
        equal("l", POSITIVE, loss, source, margin=1e-8, axis="label, score", rival=loss / 2, rival_says=half),
        equal("l at f = 0", POSITIVE, 2 * math.log(2), source, margin=1e-8, rival=math.log(2), rival_says=half),
        equal(
            "l' at f = 0",
            REAL,
            np.array([-1.0, 1.0]),
            source,
            margin=EXACT,
            axis="label",
            rival=np.array([-2.0, 2.0]),
            rival_says="slope -2 y",
        ),
        at_most("|l'|", POSITIVE, 2.0, "Appendix B.2: the loss is 2-Lipschitz", margin=EXACT, axis="label, score"),
    )


def engine_slopes(scores: Array, y: float) -> Array:
    """l' as the engine's SGD has it: what one step of size 1 takes from the second layer of a neuron with w.x = 1."""
    a = torch.from_numpy(scores.copy())[:, None]
    net = TwoLayer(torch.ones(len(scores), 1, 1, dtype=torch.float64), torch.zeros_like(a), a, "relu")
    x, label = torch.ones(1, 1, dtype=torch.float64), torch.full((1,), y, dtype=torch.float64)
    _, rate = mean_field_rates(1.0, 1)
    end = fit_one_pass(net, lambda n, key: (x, label), [Stage(1, 0.0, 0.0, rate, batch=1)], Key("one")).net
    return (a - end.a)[:, 0].numpy()


def engine_losses(y: float) -> Array:
    """l at SCORES: the integral of the engine's slopes from there to where y f = 40 and nothing is left (Simpson)."""
    step = 1 / 64  # divides the distance of two scores, so that each begins an interval of the rule
    margins = -6 + step * np.arange(46 * 64 + 1)
    slopes = -y * engine_slopes(y * margins, y)
    pieces = step / 3 * (slopes[:-2:2] + 4 * slopes[1:-1:2] + slopes[2::2])
    tail = np.append(np.cumsum(pieces[::-1])[::-1], 0.0)
    at = np.rint((y * SCORES + 6) / (2 * step)).astype(int)
    return tail[at]


def sees_loss(settings: None, key: Key) -> Mapping[str, Observation]:
    """Slopes read off steps of the engine, and their integral."""
    slopes = np.stack([engine_slopes(SCORES, y) for y in (1.0, -1.0)])
    losses = np.stack([engine_losses(y) for y in (1.0, -1.0)])
    middle = len(SCORES) // 2
    return {
        "l'": slopes,
        "l": losses,
        "l at f = 0": losses[:, middle],
        "l' at f = 0": slopes[:, middle],
        "|l'|": np.abs(slopes),
    }


# update --------------------------------------------------------------------------------------------------------------

ETA, BATCH = 0.3, 25


@dataclass(frozen=True)
class Step:
    """A network and a minibatch."""

    net: Net
    x: Array
    y: Array


def draw_step(key: Key) -> Step:
    """Six neurons in seven dimensions and 25 samples."""
    batch = BooleanXor(d=7).sample(BooleanXor(d=7).draw(key), BATCH, key / "data")
    return Step(random_net(6, 7, key / "net"), batch.x.double().numpy(), batch.y.double().numpy())


def says_update(settings: Step) -> Sequence[Statement]:
    """The update of Section 2.2, neuron by neuron and sample by sample."""
    (w, a), x, y = (settings.net.w, settings.net.a), settings.x, settings.y

    def pushes(first: Array) -> Array:
        f = [sum(a[j] * max(first[j] @ v, 0.0) for j in range(len(a))) / len(a) for v in x]
        return -2 * y * np.exp(-y * f) / (1 + np.exp(-y * f))

    push, new_w, new_a, late = pushes(w), w.copy(), a.copy(), a.copy()
    for j in range(len(a)):
        new_w[j] -= ETA * np.mean([a[j] * push[i] * (w[j] @ x[i] > 0) * x[i] for i in range(BATCH)], axis=0)
        new_a[j] -= ETA * np.mean([push[i] * max(w[j] @ x[i], 0.0) for i in range(BATCH)])
    after = pushes(new_w)
    for j in range(len(a)):
        late[j] -= ETA * np.mean([after[i] * max(new_w[j] @ x[i], 0.0) for i in range(BATCH)])
    source = "Section 2.2, Minibatch SGD"
    return (
        equal(
            "w after a step",
            REAL,
            new_w,
            source,
            margin=EXACT,
            axis="weight",
            rival=w + (new_w - w) / len(a),
            rival_says="the gradient without the factor p",
        ),
        equal(
            "a after a step",
            REAL,
            new_a,
            source,
            margin=EXACT,
            axis="neuron",
            rival=late,
            rival_says="layers in turn, not both from time t",
        ),
        equal(
            "samples of the first minibatch that come again in the second",
            COUNT,
            0.0,
            source,
            rival=float(BATCH),
            rival_says="one minibatch used twice",
        ),
    )


def sees_update(settings: Step, key: Key) -> Mapping[str, Observation]:
    """One step of the engine on the given minibatch, and the samples of two steps on its own."""
    end = engine_step(settings.net, settings.x, settings.y, ETA)
    task, seen = BooleanXor(d=40), []

    def pairs(n: int, key: Key) -> tuple[torch.Tensor, torch.Tensor]:
        batch = task.sample(task.draw(key), n, key)
        seen.append(batch.x)
        return batch.x, batch.y

    start = sphere_init(6, 40, key / "start", theta=1.0)
    fit_one_pass(start, pairs, [Stage(2, 0.1, 0.0, 0.1, batch=BATCH)], key / "data")
    first, second = torch.cat(seen)[:BATCH], torch.cat(seen)[BATCH:]
    assert len(second) == BATCH
    again = (first[:, None] == second[None]).all(2).any(1)
    return {
        "w after a step": end.w,
        "a after a step": end.a,
        "samples of the first minibatch that come again in the second": float(again.sum()),
    }


# homogeneity ---------------------------------------------------------------------------------------------------------

CUBE = 9


def draw_homogeneous(key: Key) -> Net:
    """A network of 20 neurons, its sizes spread over a factor of ten."""
    return random_net(20, CUBE, key)


def says_homogeneity(settings: Net) -> Sequence[Statement]:
    """The gradient of the second layer, and those of a rescaled network, literally."""
    x, y = cube(CUBE), labels(cube(CUBE))
    f = np.mean([a * np.maximum(x @ w, 0) for w, a in zip(settings.w, settings.a, strict=True)], axis=0)
    push = -2 * y * np.exp(-y * f) / (1 + np.exp(-y * f))
    neurons = list(zip(settings.w, settings.a, strict=True))
    second = np.array([a * np.mean(push * np.maximum(x @ w, 0)) for w, a in neurons])
    first = np.array([a * np.mean((push * (x @ w > 0))[:, None] * x, axis=0) for w, a in neurons])
    source = "Appendix B.2, proof of Lemma B.13"
    return (
        equal(
            "w . grad_w",
            REAL,
            second,
            f"{source}: w . grad_w = a grad_a",
            margin=1e-11,
            axis="neuron",
            rival=2 * second,
            rival_says="Euler's identity of degree 2, that of both layers together",
        ),
        equal(
            "grad_w of the network with w sqrt(2) and a / sqrt(2)",
            REAL,
            first / ROOT2,
            f"{source}: relu is homogeneous, so f and l' stay and a relu'(w.x) x falls by sqrt(2)",
            margin=1e-11,
            axis="weight",
            rival=first,
            rival_says="a gradient that does not see the scale",
            form="derived",
        ),
        equal(
            "f of the network with w sqrt(2) and a sqrt(2)",
            REAL,
            2 * f,
            f"{source}: f is homogeneous of degree 2",
            margin=1e-11,
            axis="input",
            rival=ROOT2 * f,
            rival_says="degree 1",
            form="derived",
        ),
    )


def sees_homogeneity(settings: Net, key: Key) -> Mapping[str, Observation]:
    """Gradients that the engine descends, and its scores."""
    x, y, eta = cube(CUBE), labels(cube(CUBE)), 0.5

    def gradient(net: Net) -> Array:
        return (net.w - engine_step(net, x, y, eta).w) / eta

    return {
        "w . grad_w": (settings.w * gradient(settings)).sum(1),
        "grad_w of the network with w sqrt(2) and a / sqrt(2)": gradient(Net(ROOT2 * settings.w, settings.a / ROOT2)),
        "f of the network with w sqrt(2) and a sqrt(2)": engine(Net(ROOT2 * settings.w, ROOT2 * settings.a))(
            torch.from_numpy(x)
        )[:, 0].numpy(),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="xor_sgd.data",
        entries=("xor_sgd.data",),
        says="XOR of two coordinates of the cube is four clusters z + xi of equal weight, ||mu||^2 = 2, y(z) = y(-z), "
        "E y = 0.",
        statements=says_data,
        observe=sees_data,
        remarks=f"{SAMPLES} samples of nine dimensions in a random basis, the label of coordinates 6 and 2.",
    ),
    Claim(
        id="xor_sgd.model",
        entries=("xor_sgd.model",),
        says="f(x) = (1/p) sum a relu(w.x), ||w|| = theta, |a| = ||w||; rotating data and start commutes with a step.",
        settings=draw_model,
        statements=says_model,
        observe=sees_model,
        remarks="Theorem 3.1 has the 'initialization scale' theta/sqrt(p), its restatement Theorem E.1 and Section 2.2 "
        "theta: the same start where the factor 1/p of f is shared out between the layers. Here f has that factor, and "
        "the scale is theta.",
    ),
    Claim(
        id="xor_sgd.loss",
        entries=("xor_sgd.loss",),
        says="l = -2 log(1/(1 + exp(-y f))) = 2 softplus(-y f), slope -y at f = 0, 2-Lipschitz.",
        statements=says_loss,
        observe=sees_loss,
        remarks="The slopes are read off steps of the engine that trains the networks; the loss is their integral.",
    ),
    Claim(
        id="xor_sgd.minibatch_sgd",
        entries=("xor_sgd.minibatch_sgd",),
        says="w -= eta mean[a l' 1(w.x > 0) x] and a -= eta mean[l' relu(w.x)] at once, gradients times p.",
        settings=draw_step,
        statements=says_update,
        observe=sees_update,
        remarks="d = 7, six neurons, 25 new samples, eta = 0.3.",
    ),
    Claim(
        id="xor_sgd.homogeneity",
        entries=("xor_sgd.homogeneity_B13",),
        says="w . grad_w = a grad_a for every neuron, since relu is homogeneous.",
        settings=draw_homogeneous,
        statements=says_homogeneity,
        observe=sees_homogeneity,
        remarks="The whole cube in nine dimensions, 20 neurons; the first gradient is that of the engine.",
    ),
)
