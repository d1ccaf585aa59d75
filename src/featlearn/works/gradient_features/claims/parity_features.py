"""Gradient features of sparse parities: Lemma 3.21's directions and signs, and Definition B.46."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import log_ndtr
from scipy.stats import binom, norm

from featlearn.core import Key, Truth
from featlearn.lab.claim import Accusation, Claim, Premise
from featlearn.lab.quantity import COSINE, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, both, control, equal
from featlearn.lab.uncertainty import Observation
from featlearn.measure import gate_shares
from featlearn.measure.gradient_features import draw_in_box, membership, simplified_gradients
from featlearn.tasks import BlockParity
from featlearn.works.gradient_features.claims.parities import TAU
from featlearn.works.gradient_features.setup import Array, over_groups, turned

# Lemmas B.46 to B.50 -------------------------------------------------------------------------------------------------


def setting(r: int, d: int = 100, k: int = 11) -> BlockParity:
    """The sizes at which gradients of rare neurons are sampled."""
    return BlockParity(d=d, r=r, k=k, p_A=0.1, p_o=round(r * k / (d - r * k) / 2, 3))


@dataclass(frozen=True)
class Rare:
    """A task, its truth, and m neurons given the first two conditions of S_{D_1, sure} at C_b = 1, with their bias and
    the log of their chance."""

    task: BlockParity
    truth: Truth
    w: Array
    bias: float
    log_p: float


def draw_rare(r: int, d: int, m: int, key: Key) -> Rare:
    """One of them."""
    task = setting(r, d)
    truth = task.draw(key / "truth" / r)
    bias = math.sqrt(TAU * r * task.k * math.log(d))
    level = bias / math.sqrt(task.k)
    low, high = torch.full((r,), -0.5 * level), torch.full((r,), 0.5 * level)
    low[0], high[0] = 1.5 * level, math.inf
    w, log_p = draw_in_box(truth.features, low, high, 1.0, m, key / "w" / r)
    return Rare(task, truth, w.numpy(), bias, float(log_p))


def says_features(settings: Rare) -> Sequence[Statement]:
    """p exactly, G coordinate by coordinate, membership against a rotated direction and one wrong coordinate."""
    task, t = settings.task, math.sqrt(TAU * settings.task.r * math.log(settings.task.d))
    exact = float(log_ndtr(-1.5 * t)) + (task.r - 1) * math.log1p(-2 * norm.sf(0.5 * t))
    order = math.log(1 / (3 * math.sqrt(2 * math.pi) * t)) - 9 * TAU * task.r / 8 * math.log(task.d)
    law = np.zeros(task.d)
    law[settings.truth.blocks[0].numpy()] = task.p_A  # pyright: ignore[reportAttributeAccessIssue]
    member = {"axis": "gamma", "form": "criterion"}
    return (
        equal(
            "log Pr[S_sure]",
            REAL,
            exact,
            "Lemma B.47: Q(1.5 t) (1 - 2 Q(0.5 t))^(r-1), t = C_b sqrt(tau r log d)",
            margin=1e-4,
            rival=exact + math.log(2),
            rival_says="its own block taken two-sided",
        ),
        at_least(
            "log Pr[S_sure], at least its order",
            REAL,
            order,
            "Lemma 3.21: exponent 9/8 C_b^2 tau r, by Mills' lower bound",
            of="log Pr[S_sure]",
        ),
        equal(
            "G, mean over neurons",
            REAL,
            law,
            "Lemma B.50: p_A on the own block, 0 elsewhere",
            margin=0.02,
            axis="coordinate",
            rival=2 * law,
            rival_says="2 p_A, that of E[yx]",
        ),
        at_least(
            "share in the cone of D_1, gamma = 0.03, 0.05",
            SHARE,
            np.full(2, 0.8),
            "Lemma 3.21: (D_1, +1) in S",
            **member,
            rival=control("the same with one wrong coordinate"),
            rival_says="one wrong coordinate",
            trivial=control("the same with D_1 turned by 20 degrees"),
            trivial_says="a direction 20 degrees off",
        ),
        at_least(
            "cos(G, D_1), median",
            COSINE,
            0.99,
            "work.toml, lemma3_21: check",
            form="criterion",
            rival=1 - 1 / settings.task.k,
            rival_says="one wrong coordinate",
        ),
    )


def sees_features(settings: Rare, key: Key) -> Mapping[str, Observation]:
    """The library's gradients on 40 000 samples."""
    task, truth = settings.task, settings.truth
    batch, w = task.sample(truth, 40_000, key / "data"), torch.as_tensor(settings.w).float()  # pyright: ignore[reportArgumentType]
    g = simplified_gradients(w, torch.full((len(w),), settings.bias), batch.x, batch.y).double()
    D = truth.features.double()
    wrong, blocks = D[0].clone(), truth.blocks  # pyright: ignore[reportAttributeAccessIssue]
    free = next(i for i in range(task.d) if i not in blocks.flatten().tolist())
    wrong[free], wrong[blocks[0, 0]] = wrong[blocks[0, 0]].item(), 0.0
    off = turned(truth.features[0], 20.0, key / "aside", truth.features[1:])
    gammas = torch.tensor([0.03, 0.05], dtype=torch.float64)
    share = membership(g, torch.stack([D[0], wrong, off]), gammas, 0.9 * math.sqrt(task.k) * task.p_A).share.numpy()
    return {
        "log Pr[S_sure]": settings.log_p,
        "G, mean over neurons": g.mean(0).numpy(),
        "share in the cone of D_1, gamma = 0.03, 0.05": share[0],
        "the same with one wrong coordinate": share[1],
        "the same with D_1 turned by 20 degrees": share[2],
        "cos(G, D_1), median": float((g @ D[0] / g.norm(dim=1)).median()),
    }


BLOCKS = (3, 5)


def draw_mirrored(key: Key) -> tuple[Rare, ...]:
    """Sure neurons for one, three and five blocks in 200 dimensions."""
    return tuple(draw_rare(r, 200, 20, key) for r in (1, *BLOCKS))


def says_sign(settings: tuple[Rare, ...]) -> Sequence[Statement]:
    """1 by the lemma; 1/sqrt(1 + 4 (r - 1)) from G = E[yx] - G(w, b)."""
    r = np.array(BLOCKS, dtype=float)
    return (
        equal(
            "cos(G, D_1) of mirrored sure neurons, r = 1",
            COSINE,
            1.0,
            "Lemma B.47: (D_j, -1) in S",
            margin=0.08,
            rival=0.5,
            rival_says="the other block signs left in",
        ),
        *both(
            "cos(G, D_1) of mirrored sure neurons, r = 3, 5",
            COSINE,
            "Lemma B.47: (D_j, -1) in S",
            reported=np.ones(2),
            corrected=1 / np.sqrt(1 + 4 * (r - 1)),
            says="p_A on the own block, 2 p_A on the others",
            margin=0.08,
        ),
    )


def sees_sign(settings: tuple[Rare, ...], key: Key) -> Mapping[str, Observation]:
    """The library's gradients on 20 000 samples."""
    cosines = []
    for s in settings:
        batch, w = s.task.sample(s.truth, 20_000, key / s.task.r), torch.as_tensor(s.w).float()  # pyright: ignore[reportArgumentType]
        g = simplified_gradients(-w, torch.full((len(w),), -s.bias), batch.x, batch.y).double()
        cosines.append(float((g @ s.truth.features[0].double() / g.norm(dim=1)).median()))
    return {
        "cos(G, D_1) of mirrored sure neurons, r = 1": cosines[0],
        "cos(G, D_1) of mirrored sure neurons, r = 3, 5": np.array(cosines[1:]),
    }


SIGNS, SUMS = 67, (21, 25, 29)
"""A background of fair signs with equal weights, where Hoeffding is nearly attained, and sums of them."""


def says_activation(settings: Rare) -> Sequence[Statement]:
    """Hoeffding with its constant; what a few signs attain."""
    s, A = settings, settings.truth.blocks.flatten().numpy()  # pyright: ignore[reportAttributeAccessIssue]
    rest = np.setdiff1d(np.arange(s.task.d), A)
    inside, outside = np.linalg.norm(s.w[:, A], axis=1), np.linalg.norm(s.w[:, rest], axis=1)
    fair = np.log(np.exp(-(s.bias**2) / (8 * inside**2)) + np.exp(-(s.bias**2) / (8 * outside**2)))
    own = -((s.w @ s.truth.features[0].double().numpy() * math.sqrt(s.task.k) - s.bias) ** 2) / (2 * outside**2)
    return (
        at_most(
            "log Pr[fires | fair]",
            REAL,
            fair,
            "Lemma B.49: log of exp(-b^2/(8 ||P_A w||^2)) + exp(-b^2/(8 ||P_perp w||^2))",
            axis="neuron",
            expect="too weak to test",
        ),
        at_most(
            "log Pr[silent | block 1 all plus], no less than 1e-5",
            REAL,
            np.array([*np.maximum(own, math.log(1e-5)), *[-(t**2) / (2 * SIGNS) for t in SUMS]]),
            "Lemma B.49: -(sqrt k <w, D_1> - b)^2/(2 ||P_perp w||^2)",
            margin=1e-9,
            axis="neuron, then fair signs with equal weights",
        ),
        at_most(
            "Pr[fires | another block]",
            SHARE,
            0.05,
            "Lemma B.49: O(d^-tau)",
            axis="neuron, component",
            rival=control("Pr[fires | block 1 all plus]"),
            rival_says="its own block",
            form="criterion",
        ),
        equal(
            "background sums beyond three deviations sqrt(2 p_o) ||P_perp w||",
            SHARE,
            2 * float(norm.sf(3.0)),
            "Definition B.46: sub-Gaussian, p_o constant",
            margin=0.0015,
            rival=2 * float(norm.sf(2.0)),
            rival_says="heavier by a third of the deviation",
            form="derived",
        ),
        at_least("<w, D_1> sqrt k over b", POSITIVE, 1.5, "Definition B.46: C_1 = 3/2", margin=1e-6, axis="neuron"),
        at_most(
            "|<w, D_j>| sqrt k over b, j > 1",
            POSITIVE,
            0.5,
            "Definition B.46: C_2 = 1/2",
            margin=1e-6,
            axis="neuron, j",
        ),
    )


def sees_activation(settings: Rare, key: Key) -> Mapping[str, Observation]:
    """The library's gates on 40 000 samples."""
    s, A = settings, settings.truth.blocks.flatten()  # pyright: ignore[reportAttributeAccessIssue]
    batch, w = s.task.sample(s.truth, 40_000, key / "data"), torch.as_tensor(s.w).float()  # pyright: ignore[reportArgumentType]
    assert batch.group is not None
    assert batch.hidden is not None
    seen = gate_shares(w[None], batch.x, batch.group, 7, torch.full((1, len(w)), -s.bias))[0].double().numpy()
    rest = torch.ones(s.task.d, dtype=torch.bool)
    rest[A] = False
    spread = math.sqrt(2 * s.task.p_o) * w[:, rest].norm(dim=1)
    tail = ((batch.hidden[:, rest] @ w[:, rest].T).abs() > 3 * spread).double().mean(1).numpy()
    u = s.w @ s.truth.features.double().numpy().T * math.sqrt(s.task.k) / s.bias
    return {
        "log Pr[fires | fair]": np.log(np.maximum(seen[:, 0], 1e-5)),
        "log Pr[silent | block 1 all plus], no less than 1e-5": np.array(
            [*np.log(np.maximum(1 - seen[:, 1], 1e-5)), *binom.logsf([(SIGNS + t) / 2 - 1 for t in SUMS], SIGNS, 0.5)]
        ),
        "Pr[fires | another block]": seen[:, 3:].ravel(),
        "Pr[fires | block 1 all plus]": np.repeat(seen[:, 1], 4),
        "background sums beyond three deviations sqrt(2 p_o) ||P_perp w||": over_groups(tail, 20, SHARE),
        "<w, D_1> sqrt k over b": u[:, 0],
        "|<w, D_j>| sqrt k over b, j > 1": np.abs(u[:, 1:]),
    }


def premises(settings: Rare) -> tuple[Premise, ...]:
    """Those of Assumption 3.19 and Lemma B.47, whose constants are not given."""
    k, need = settings.task.k, TAU * math.log(settings.task.d)
    return (
        Premise("k >= Omega(tau log d)", None, f"{k} against {need:.0f}, tau = {TAU:g}"),
        Premise("C_b large enough", None, "C_b = 1"),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gradient_features.lemma3_21_features",
        entries=("gradient_features.lemma3_21", "gradient_features.lemma_b50", "gradient_features.definition_b46"),
        says="(D_j, +1) is a gradient feature: G is p_A on the own block and 0 elsewhere.",
        settings=lambda key: draw_rare(3, 100, 30, key),
        statements=says_features,
        observe=sees_features,
        premises=premises,
        remarks="r = 3, k = 11, d = 100, C_b = 1. Sampling noise of 40 000 inputs alone costs about 0.005 of cosine.",
    ),
    Claim(
        id="gradient_features.lemma3_21_sign",
        entries=("gradient_features.lemma3_21",),
        says="(D_j, -1) is a gradient feature as well.",
        settings=draw_mirrored,
        statements=says_sign,
        observe=sees_sign,
        accuses=Accusation(
            quote="(D_j, -1) in S_{p, gamma, B_G}",
            place="Lemma 3.21 and Lemma B.47, (B.400)",
            reading="for every j and any number r of blocks, with the lemma's gamma = d^-(tau - 2)",
            hits="statement",
            derivation="A mirrored neuron has G = E[yx] - G(w, b) = p_A on its own block and 2 p_A on every other, "
            "cosine 1/sqrt(1 + 4 (r - 1)) with D_j. For any neuron with b < 0 at most one of the clusters (j, +), (j, "
            "-) is silent, so every block keeps p_A or 2 p_A and the structured part has a cosine of at most 2/sqrt(r "
            "+ 3), below 1 - gamma for r >= 3. The comparison network does without these features.",
        ),
    ),
    Claim(
        id="gradient_features.definition_b46",
        entries=("gradient_features.definition_b46",),
        says="Sure neurons fire on their block all plus and hardly elsewhere (B.49).",
        settings=lambda key: draw_rare(3, 100, 30, key),
        statements=says_activation,
        observe=sees_activation,
        premises=premises,
        remarks="(B.416) is read with the projection on the background, as its d - r k asks; our copy has P_A. The "
        "bound on fair inputs gives half of b to either part, so that nothing comes near it.",
    ),
)
