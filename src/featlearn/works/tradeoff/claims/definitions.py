"""Contrastive regularisation (7.9) and linear centred kernel alignment: the library against the formulas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, control, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.learn import Adaptation, fine_tune
from featlearn.measure import linear_cka
from featlearn.methods import contrastive_regulariser
from featlearn.tasks import TaskMixture

Array = np.ndarray

# contrastive regularisation ------------------------------------------------------------------------------------------

CLASSES, WEIGHT, DRAWS = 3, 3.0, 1000


@dataclass(frozen=True)
class Batch:
    """views (n, v, d): augmented inputs of each example; y (n): labels; w (k, d): features W x."""

    views: Array
    y: Array
    w: Array


def draw_batch(key: Key) -> Batch:
    """Six examples, three views of each."""
    g = key.numpy()
    centres = g.normal(size=(6, 1, 5))
    return Batch(
        centres + g.normal(size=(6, 3, 5)),
        g.permutation(np.arange(6) % CLASSES),
        g.normal(size=(4, 5)) / 2,
    )


TERM = "the regulariser of (7.9) with the logistic loss"
HEAD, ENCODER = (
    "largest change of a weight of the classifier by the regulariser, one step of fine-tuning, lambda = 3",
    "the same of the encoder",
)
SPREAD = "mean of the regulariser with l(t) = -t and linear phi over drawn views"


def says_regulariser(settings: Batch) -> Sequence[Statement]:
    """The mean of l(phi(x)^T (phi(x+) - phi(x-))) over pairs; the classification loss alone knows the classifier."""
    s = settings
    n, one, two = len(s.y), s.views[:, 0] @ s.w.T, s.views[:, 1] @ s.w.T
    t = [[float(one[i] @ (two[i] - two[j])) for j in range(n)] for i in range(n)]
    terms = np.array([[np.log1p(np.exp(-v)) for v in row] for row in t])
    others = terms[~np.eye(n, dtype=bool)]
    smooth = s.views.mean(1) @ s.w.T
    energy = ((smooth - smooth.mean(0)) ** 2).sum()
    source = "Eq. (7.9)"
    return (
        equal(
            TERM,
            REAL,
            float(others.mean()),
            source,
            margin=1e-10,
            rival=float(terms.mean()),
            rival_says="an example among its own negatives",
        ),
        equal(
            HEAD,
            POSITIVE,
            0.0,
            f"{source}: the regulariser knows phi alone",
            margin=1e-6,
            rival=control(ENCODER),
            rival_says="it pulls at the classifier as it does at the encoder",
        ),
        equal(
            SPREAD,
            REAL,
            -float(energy) / (n - 1),
            f"{source} with Theorem 7.1: -tr(W Cov W^T) of inputs that are averaged over views, without an example "
            "among its own negatives",
            margin=0.01 * float(energy),
            rival=-float(((s.views @ s.w.T - smooth.mean(0)) ** 2).sum()) / 3 / (n - 1),
            rival_says="the variance of single views",
            form="derived",
        ),
    )


def sees_regulariser(settings: Batch, key: Key) -> Mapping[str, Observation]:
    """The library's."""
    views, w = torch.from_numpy(settings.views), torch.from_numpy(settings.w)
    encoder = torch.nn.Linear(5, 4, bias=False)
    encoder.weight.data = w.float()
    one_step = Adaptation(epochs=1, batch=len(views), rate=0.1, momentum=0.0, weight_decay=0.0)
    runs = [
        fine_tune(
            encoder,
            views[:, 0].float(),
            torch.from_numpy(settings.y),
            one_step,
            key=key / "step",
            regulariser=contrastive_regulariser,
            weight=weight,
        )
        for weight in (WEIGHT, 0.0)
    ]
    moved = [
        max(float((a - b).detach().abs().max()) for a, b in zip(*(list(m.parameters()) for m in pair), strict=True))
        for pair in ([r.head for r in runs], [r.encoder for r in runs])
    ]
    g, rows = key.numpy(), np.arange(len(views))
    drawn = []
    for _ in range(DRAWS):
        one, two = (views[rows, g.integers(0, 3, len(rows))] @ w.T for _ in range(2))
        drawn.append(float(contrastive_regulariser(one, two, loss="linear")))
    return {
        TERM: float(contrastive_regulariser(views[:, 0] @ w.T, views[:, 1] @ w.T, loss="logistic")),
        HEAD: moved[0],
        ENCODER: moved[1],
        SPREAD: mean_of(drawn, REAL, "draw"),
    }


# centred kernel alignment --------------------------------------------------------------------------------------------

TASKS, R, S, SAMPLES = (1, 2, 4, 8, 16), 8, 4, 20_000


@dataclass(frozen=True)
class Features:
    """x (n, 5), y (n, 3); turn (5, 5): orthogonal; stretch (5)."""

    x: Array
    y: Array
    turn: Array
    stretch: Array


def draw_features(key: Key) -> Features:
    """Forty examples of means that are not 0, whose features have something in common."""
    g = key.numpy()
    x = 1 + g.normal(size=(40, 5))
    return Features(
        x, x[:, :3] + g.normal(size=(40, 3)), np.linalg.qr(g.normal(size=(5, 5)))[0], np.array([3, 1, 1, 1, 0.2])
    )


ALIGNED, SAME, LEARNED = (
    "linear CKA of X and Y",
    "linear CKA of X with X and with 3 X Q",
    "linear CKA of phi* for T = 1, 2, 4, 8, 16 tasks with phi_t*, on one of them",
)


def gram_form(x: Array, y: Array, centred: bool = True) -> float:
    """tr(K L) / sqrt(tr(K K) tr(L L)) of centred Gram matrices."""
    centre = np.eye(len(x)) - centred / len(x)
    k, l_ = (centre @ v @ v.T @ centre for v in (x, y))
    return float((k * l_).sum() / np.sqrt((k * k).sum() * (l_ * l_).sum()))


def says_cka(settings: Features) -> Sequence[Statement]:
    """||Xc^T Yc||_F^2 / (||Xc^T Xc||_F ||Yc^T Yc||_F); of weights 1 and 1/sqrt(T) with 1 and 1 it is (s + (r - s)/T) /
    sqrt(r (s + (r - s)/T^2))."""
    s = settings
    t, own = np.array(TASKS), R - S
    source = "Section 7.3.2 (Kornblith et al., 2019)"
    return (
        equal(
            ALIGNED,
            SHARE,
            gram_form(s.x, s.y),
            f"{source}, by Gram matrices",
            margin=1e-10,
            rival=gram_form(s.x, s.y, centred=False),
            rival_says="columns are not centred",
        ),
        equal(
            SAME,
            SHARE,
            np.ones(2),
            f"{source}: orthogonal maps and scales do not matter",
            margin=1e-10,
            axis="features",
            rival=gram_form(s.x, s.x * s.stretch),
            rival_says="as with features that are stretched unevenly",
        ),
        equal(
            LEARNED,
            SHARE,
            (S + own / t) / np.sqrt(R * (S + own / t**2)),
            "Propositions F.8 and 7.4: Gram matrices of the features, eigenvalues 1 and 1/T against 1",
            margin=0.005,
            axis="tasks",
            rival=(S + own / t**0.5) / np.sqrt(R * (S + own / t)),
            rival_says="own features of weight T^(-1/4)",
            form="derived",
        ),
    )


def sees_cka(settings: Features, key: Key) -> Mapping[str, Observation]:
    """The library's, on features of samples that it draws."""
    x, y, turn = (torch.from_numpy(v) for v in (settings.x, settings.y, settings.turn))
    task = TaskMixture(tasks=1, r=R, s=S, spurious=1)
    truth = task.draw(key)
    z = task.sample(truth, SAMPLES, key / "samples").x @ truth.features.T
    q = torch.linalg.qr(torch.randn(R, R, generator=key.torch()))[0]
    found = []
    for t in TASKS:
        weights = torch.tensor([1.0] * S + [t**-0.5] * (R - S))
        found.append(linear_cka((z * weights) @ q, z))
    return {
        ALIGNED: linear_cka(x, y),
        SAME: np.array([linear_cka(x, x), linear_cka(x, 3 * x @ turn)]),
        LEARNED: np.array(found),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="tradeoff.method_cr",
        entries=("tradeoff.method_cr",),
        says="Contrastive regularisation adds the mean contrastive loss of augmented pairs to the classification loss.",
        settings=draw_batch,
        statements=says_regulariser,
        observe=sees_regulariser,
    ),
    Claim(
        id="tradeoff.def_cka",
        entries=("tradeoff.def_cka",),
        says="Linear centred kernel alignment of two feature matrices of the same inputs.",
        settings=draw_features,
        statements=says_cka,
        observe=sees_cka,
    ),
)
