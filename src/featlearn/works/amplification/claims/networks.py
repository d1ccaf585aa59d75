"""What holds for any weights: good subnetworks, alignment, almost-orthogonality, Rademacher complexity."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Batch, Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, control, equal, exponent
from featlearn.lab.uncertainty import Observation, slope
from featlearn.measure import aligned, off_class_overlap
from featlearn.nets import TwoLayer, fixed_signs_init
from featlearn.tasks import XorClusters
from featlearn.tasks.xor_clusters import XorTruth
from featlearn.works.amplification.setup import LABELS, OPPOSITE


def subnetwork(net: TwoLayer, keep: Tensor) -> TwoLayer:
    """f^J: the neurons that are kept (m)."""
    return TwoLayer(net.w[:, keep], net.b[:, keep], net.a[:, keep], net.activation)


def tight(m: int, left_out: int, c4: float) -> tuple[TwoLayer, Tensor, Tensor]:
    """The worst case of Lemma 8: the `left_out` neurons of J^c are negative, on the ray of x, with all the norm that a
    margin of 1/C4 leaves; returns the network, J and x with ||x|| = 2."""
    net = fixed_signs_init(m, 3, Key("tight"), omega=1.0)
    x = torch.tensor([[2.0, 0.0, 0.0]])
    keep = torch.ones(m, dtype=torch.bool)
    keep[m - left_out :] = False
    w = torch.zeros(1, m, 3)
    plus = net.a[0] > 0
    share = 1 / (2 * c4 * math.sqrt(0.5))  # ||W_J||_F with f^J = ||W_J|| ||x|| sqrt(1/2) = 1/C4
    w[0, plus, 0] = share / math.sqrt(int(plus.sum()))
    w[0, ~keep, 0] = math.sqrt(1 - share**2) / math.sqrt(left_out)
    return TwoLayer(w, net.b, net.a, "relu"), keep, x


WIDTH, C4 = 4096, 8.0
LEFT = int(WIDTH / (16 * C4**2))
"""Neurons that Lemma 8 allows to leave out."""


def random_networks(key: Key) -> list[tuple[TwoLayer, Tensor, Tensor]]:
    """200 networks of norm 1 with J and an input of length 2, their positive neurons turned towards it."""
    found = []
    for i in range(200):
        net = fixed_signs_init(WIDTH, 6, key / i, omega=1.0)
        g = (key / i / "x").torch()
        x = torch.randn(1, 6, generator=g)
        x = 2 * x / x.norm()
        slope_ = torch.where(net.a[0] > 0, 1.0, -0.2)[:, None]
        w = net.w[0] * 0.3 + slope_ * x * torch.rand(1, generator=g) * 3
        keep = torch.ones(WIDTH, dtype=torch.bool)
        keep[torch.randperm(WIDTH, generator=g)[:LEFT]] = False
        found.append((TwoLayer((w / w.norm())[None], net.b, net.a, "relu"), keep, x))
    return found


def says_subnetwork(settings: None) -> Sequence[Statement]:
    """||W||_F <= 1, ||x|| <= 2, |J^c|/m <= 1/(16 C4^2) and y f^J >= 1/C4 give y f >= 1/(2 C4), sharply."""
    half, root = 1 / (2 * C4), math.sqrt(LEFT / WIDTH)
    share = 1 / (2 * C4 * math.sqrt(0.5))
    return (
        at_most(
            "|f^(J^c)|, random networks and the worst one",
            POSITIVE,
            2 * root,
            "proof of Lemma 8: sqrt(|J^c|/m) ||W||_F ||x||",
            margin=1e-6,
            axis="network",
            rival=2.0,
            rival_says="||W||_F ||x||, however few neurons are left out",
        ),
        equal(
            "|f^(J^c)| of the worst network",
            POSITIVE,
            2 * root * math.sqrt(1 - share**2),
            "Cauchy-Schwarz with equality: negative neurons on the ray of x with the norm that J leaves",
            margin=1e-5,
            rival=4 * LEFT / WIDTH,
            rival_says="|J^c|/m in place of its root",
            form="derived",
        ),
        at_least(
            "y f where y f^J >= 1/C4, random networks and the worst one",
            REAL,
            half,
            "Lemma 8",
            axis="network",
            rival=control("y f of the worst network with four times as many neurons left out"),
            rival_says="four times as many neurons left out",
        ),
        equal(
            "y f of the worst network with four times as many neurons left out",
            REAL,
            1 / C4 - 4 * root * math.sqrt(1 - share**2),
            "the same two sums, the second doubled",
            margin=1e-5,
            rival=half,
            rival_says="1/(2 C4)",
            form="derived",
        ),
    )


def sees_subnetwork(settings: None, key: Key) -> Mapping[str, Observation]:
    """Random networks, and the worst one."""
    rest, margin = [], []
    worst = tight(WIDTH, LEFT, C4)
    for net, keep, x in (*random_networks(key), worst):
        rest.append(abs(float(subnetwork(net, ~keep)(x))))
        if float(subnetwork(net, keep)(x)) >= (1 - 1e-5) / C4:
            margin.append(float(net(x)))
    many, _, ray = tight(WIDTH, 4 * LEFT, C4)
    return {
        "|f^(J^c)|, random networks and the worst one": np.array(rest),
        "|f^(J^c)| of the worst network": rest[-1],
        "y f where y f^J >= 1/C4, random networks and the worst one": np.array(margin),
        "y f of the worst network with four times as many neurons left out": float(many(ray)),
    }


# Conditions 9 and 10 -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clusters:
    """Clean samples of clusters on the axes, and neurons with the cluster that each is to match."""

    truth: XorTruth
    batch: Batch
    net: TwoLayer
    own: Tensor

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """w (m, d), a (m), x (n, d), group (n) and own (m)."""
        assert self.batch.group is not None
        found = (self.net.w[0], self.net.a[0], self.batch.x, self.batch.group, self.own[0])
        return tuple(v.double().numpy() for v in found)


def draw_clusters(key: Key) -> Clusters:
    """80 neurons, 20 of them near +-mu_1, and 400 samples in six dimensions."""
    truth = XorTruth(torch.eye(6)[:2])
    batch = XorClusters(6, 0.15, 0.0).sample(truth, 400, key / "data")
    net = fixed_signs_init(80, 6, key / "start", omega=1.0)
    w = net.w.clone()
    w[0, :20] = truth.centres[:2].repeat(10, 1) + 0.1 * w[0, :20]
    own = torch.where(net.a > 0, torch.where(w[..., 0] > 0, 0, 1), torch.where(w[..., 1] > 0, 2, 3))
    return Clusters(truth, batch, TwoLayer(w, net.b, net.a, "relu"), own)


def says_alignment(settings: Clusters) -> Sequence[Statement]:
    """A neuron of J_mu is active on all samples of mu and on none of -mu."""
    w, _, x, group, own = settings.arrays
    against, z = np.array([1, 0, 3, 2])[own.astype(int)], x @ w.T
    on = np.array([(z[group == c, j] > 0).all() for j, c in enumerate(own)])
    off = np.array([(z[group == c, j] <= 0).all() for j, c in enumerate(against)])
    return (
        equal(
            "aligned neurons",
            SHARE,
            (on & off).astype(float),
            "Condition 9",
            axis="neuron",
            rival=(on | off).astype(float),
            rival_says="one half of the condition",
        ),
        at_least(
            "share of aligned neurons near their centres",
            SHARE,
            0.9,
            "Section 4.2: a substantial number of neurons",
            rival=control("share of aligned random neurons"),
            rival_says="random neurons",
            form="criterion",
        ),
    )


def sees_alignment(settings: Clusters, key: Key) -> Mapping[str, Observation]:
    """The measure."""
    s = settings
    assert s.batch.group is not None
    found = aligned(s.net.w, s.batch.x, s.batch.group, s.own, OPPOSITE)[0].double().numpy()
    return {
        "aligned neurons": found,
        "share of aligned neurons near their centres": float(found[:20].mean()),
        "share of aligned random neurons": float(found[20:].mean()),
    }


TILT = 100.0


def says_orthogonality(settings: Clusters) -> Sequence[Statement]:
    """|<w_j, mu>| <= 3 alpha |a_j| over the other class; along mu_1 + 100 mu_2 a network is aligned and wrong."""
    w, a, x, _, _ = settings.arrays
    along = np.abs(w[:, :2])
    one, two = x[:, 0], x[:, 1]
    score = np.abs(one + TILT * two) - np.abs(two)
    return (
        equal(
            "max |<w_j, mu>|/|a_j| over the other class",
            POSITIVE,
            np.where(a > 0, along[:, 1], along[:, 0]) / np.abs(a),
            "Condition 10",
            margin=1e-5,
            axis="neuron",
            rival=np.where(a > 0, along[:, 0], along[:, 1]) / np.abs(a),
            rival_says="over the own class",
        ),
        equal(
            "f of the reported example, over its mean size",
            REAL,
            score / np.abs(score).mean(),
            "Section 4.2: |<mu_1 + 100 mu_2, x>| - |<mu_2, x>|",
            margin=1e-4,
            axis="input",
            rival=(np.abs(one) - np.abs(two)) / np.abs(np.abs(one) - np.abs(two)).mean(),
            rival_says="the classifier of eq. (2)",
        ),
        equal(
            "share of its neurons that are aligned at the centres",
            SHARE,
            1.0,
            "Section 4.2: alignment holds",
            rival=0.5,
            rival_says="on one of the two classes",
        ),
        equal(
            "its largest |<w_j, mu>|/(alpha |a_j|) over the other class",
            POSITIVE,
            TILT,
            "Section 4.2: almost-orthogonality, at most 3, does not hold",
            margin=1e-3,
            rival=3.0,
            rival_says="Condition 10",
        ),
        equal(
            "accuracy of the example and of eq. (2)",
            SHARE,
            np.array([0.5, 1.0]),
            "Section 4.2: does not generalize well",
            margin=0.05,
            axis="network",
            rival=np.ones(2),
            rival_says="alignment suffices",
        ),
    )


def sees_orthogonality(settings: Clusters, key: Key) -> Mapping[str, Observation]:
    """The measure, and networks along mu_1 + tilt mu_2 (positive neurons) and mu_2 (negative ones)."""
    net, truth, x = settings.net, settings.truth, settings.batch.x
    mu1, mu2 = truth.features
    plus = net.a > 0

    def built(tilt: float) -> TwoLayer:
        order = torch.argsort(net.a[0], descending=True, stable=True)  # half of the neurons of each sign each way
        ways = torch.empty(len(order), 1)
        ways[order] = torch.where(torch.arange(len(order)) % 2 == 0, 1.0, -1.0)[:, None]
        w = ways * torch.where(plus[0, :, None], mu1 + tilt * mu2, mu2)
        return TwoLayer(w[None] / math.sqrt(len(order)), net.b, net.a, "relu")

    right = []
    for tilt in (TILT, 0.0):
        right.append(float((built(tilt)(x)[:, 0] * settings.batch.y > 0).double().mean()))
    f = built(TILT)
    own = torch.where(f.a > 0, torch.where(f.w @ mu1 > 0, 0, 1), torch.where(f.w @ mu2 > 0, 2, 3))
    score = f(x)[:, 0].double().numpy()
    return {
        "max |<w_j, mu>|/|a_j| over the other class": off_class_overlap(net.w, net.a, truth.centres, LABELS)[0]
        .double()
        .numpy(),
        "f of the reported example, over its mean size": score / np.abs(score).mean(),
        # at the centres: along mu_1 + 100 mu_2 the noise in mu_2 decides on samples
        "share of its neurons that are aligned at the centres": float(
            aligned(f.w, truth.centres, torch.arange(4), own, OPPOSITE).double().mean()
        ),
        "its largest |<w_j, mu>|/(alpha |a_j|) over the other class": float(
            off_class_overlap(f.w, f.a, truth.centres, LABELS).max()
        ),
        "accuracy of the example and of eq. (2)": np.array(right),
    }


# Proposition 15 ------------------------------------------------------------------------------------------------------


def neuron_sup(x: Tensor, signs: Tensor, key: Key, restarts: int = 8, steps: int = 60) -> Tensor:
    """sup over unit u of sum_i e_i relu(<u, x_i>) for every sign vector e, by projected gradient ascent from several
    starts: a lower bound. Shapes: x (n, d), signs (s, n) -> (s)."""
    g = key.torch()
    u = torch.randn(len(signs), restarts, x.shape[1], generator=g, dtype=x.dtype)
    hints = signs @ x  # the maximiser of the linear part, and its opposite
    u[:, 0], u[:, 1] = hints, -hints
    u = u / u.norm(dim=-1, keepdim=True)
    best = torch.zeros(len(signs), dtype=x.dtype)
    for _ in range(steps):
        z = u @ x.T
        best = torch.maximum(best, (signs[:, None] * torch.relu(z)).sum(-1).amax(1))
        grad = (signs[:, None] * (z > 0)) @ x
        u = u + grad / grad.norm(dim=-1, keepdim=True).clamp_min(1e-9)
        u = u / u.norm(dim=-1, keepdim=True)
    return best


SIZES, SIGNS, WIDE, SPREAD = (50, 100, 200, 400, 800), 40, 10, 0.2


@dataclass(frozen=True)
class Draws:
    """Samples of one size, and 40 draws of random signs for them."""

    x: Tensor
    signs: Tensor


def draw_signs(key: Key) -> tuple[Draws, ...]:
    """Five sizes, then thirty samples for a literal network."""
    truth, task = XorTruth(torch.eye(WIDE)[:2]), XorClusters(WIDE, SPREAD)
    return tuple(
        Draws(
            task.sample(truth, n, key / n).x.double(),
            torch.randint(0, 2, (SIGNS, n), generator=(key / "signs" / n).torch()).double() * 2 - 1,
        )
        for n in (*SIZES, 30)
    )


def says_rademacher(settings: tuple[Draws, ...]) -> Sequence[Statement]:
    """The ball ||W||_F <= 1 has complexity at most 2 sqrt(E ||x||^2)/sqrt(n), of order n^(-1/2)."""
    size = 1 + WIDE * SPREAD**2
    return (
        at_most(
            "Rademacher complexity",
            POSITIVE,
            2 * np.sqrt(size / np.array(SIZES)),
            "Proposition 15",
            axis="n",
            rival=np.full(5, math.sqrt(size / 2)),
            rival_says="neurons that fit every sign, whatever n is",
        ),
        exponent(
            "exponent in n of the Rademacher complexity",
            "equal",
            -0.5,
            "Proposition 15",
            margin=0.06,
            rival=-1.0,
            rival_says="1/n",
        ),
        equal(
            "supremum by ascent over W over that from single neurons, m = 8",
            REAL,
            1.0,
            "homogeneity: the norm goes to one direction of each sign, R sqrt((G_+^2 + G_-^2)/2)",
            margin=0.05,
            rival=math.sqrt(0.5),
            rival_says="neurons of one sign alone",
            form="derived",
        ),
    )


def sees_rademacher(settings: tuple[Draws, ...], key: Key) -> Mapping[str, Observation]:
    """Ascent over single neurons of both signs, and over the weights of a literal network."""
    found = []
    for i, s in enumerate(settings[:-1]):
        plus, minus = (neuron_sup(s.x, way * s.signs, key / i / str(way)) for way in (1, -1))
        found.append(((plus**2 + minus**2) / 2).sqrt().numpy() / s.x.shape[0])
    x, e = settings[-1].x, settings[-1].signs[:1]
    top = [float(neuron_sup(x, way * e, key / "one" / str(way), 40, 150)) for way in (1, -1)]
    a, reached = fixed_signs_init(8, WIDE, key / "ascent", omega=1.0).a[0].double(), 0.0
    for k in range(8):
        w = torch.randn(8, WIDE, generator=(key / "ascent" / k).torch(), dtype=torch.float64)
        for _ in range(120):
            w = (w / w.norm()).requires_grad_()
            value = (e[0] * (torch.relu(x @ w.T) @ a)).sum()
            [grad] = torch.autograd.grad(value, w)
            reached = max(reached, float(value.detach()))
            w = (w + 0.3 * grad / grad.norm()).detach()
    return {
        "Rademacher complexity": np.mean(found, axis=1),
        "exponent in n of the Rademacher complexity": slope(
            np.repeat(np.log(SIZES), SIGNS), np.log(found).ravel(), "signs"
        ),
        "supremum by ascent over W over that from single neurons, m = 8": reached
        / math.sqrt((top[0] ** 2 + top[1] ** 2) / 2),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="amplification.lemma8",
        entries=("amplification.lemma8",),
        says="If ||W||_F <= 1, ||x|| <= 2, |J^c|/m <= 1/(16 C4^2) and y f^J >= 1/C4, then y f >= 1/(2 C4).",
        statements=says_subnetwork,
        observe=sees_subnetwork,
    ),
    Claim(
        id="amplification.cond9",
        entries=("amplification.cond9",),
        says="Alignment: a neuron of J_mu is active on all samples of mu and on none of -mu.",
        settings=draw_clusters,
        statements=says_alignment,
        observe=sees_alignment,
    ),
    Claim(
        id="amplification.cond10",
        entries=("amplification.cond10",),
        says="Almost-orthogonality: |<w_j, mu>| <= 3 alpha |a_j| for the means of the other class; "
        "without it an aligned network can be wrong on a whole class.",
        settings=draw_clusters,
        statements=says_orthogonality,
        observe=sees_orthogonality,
    ),
    Claim(
        id="amplification.proposition15",
        entries=("amplification.proposition15",),
        says="The norm ball has Rademacher complexity at most 2 R sqrt(E||x||^2)/sqrt(n).",
        settings=draw_signs,
        statements=says_rademacher,
        observe=sees_rademacher,
        remarks="Gradient ascent bounds the supremum from below. The width m drops out.",
    ),
)
