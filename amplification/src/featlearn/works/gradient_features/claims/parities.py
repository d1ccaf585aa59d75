"""Structured parities in r blocks, their networks and what no fixed feature can do: Lemmas B.43 to B.52, 3.22, 3.23."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.quantity import COUNT, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, both, control, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.measure.best_network import best_network
from featlearn.tasks import BlockParity
from featlearn.works.gradient_features.setup import Array, chance, cube, hats, over_groups

TAU = 8.0

# Assumption 3.19 and Remark B.45 -------------------------------------------------------------------------------------

R, K, P_A = 3, 3, 0.1


def enumerate_blocks(r: int, k: int, p_A: float | int) -> tuple[Array, Array, Array]:
    """Every value of phi_A (n, r k), its label and probability."""
    fair = np.array(list(itertools.product((-1.0, 1.0), repeat=r * k)))
    special = []
    for j, s in itertools.product(range(r), (1.0, -1.0)):
        row = np.zeros((r, k))
        row[j] = s
        special.append(row.ravel())
    phi = np.concatenate([fair, special])
    y = np.sign(phi.reshape(len(phi), r, k).prod(2).sum(1))
    prob = np.concatenate([np.full(len(fair), (1 - 2 * r * p_A) / len(fair)), np.full(2 * r, p_A)])
    return phi, y, prob


def says_definition(settings: None) -> Sequence[Statement]:
    """The law of the components and of the label."""
    phi, y, _ = enumerate_blocks(R, K, P_A)
    table = {tuple(v): label for v, label in zip(phi, y, strict=True)}
    mirrored = np.array([-table[tuple(-v)] for v in phi])
    shares = np.array([1 - 2 * R * P_A, *[P_A] * (2 * R)])
    return (
        equal(
            "label of every pattern",
            REAL,
            mirrored,
            "Remark B.45: y(phi) = -y(-phi)",
            axis="pattern",
            rival=-mirrored,
            rival_says="the other label",
        ),
        equal(
            "shares of the components",
            SHARE,
            shares,
            "Assumption 3.19: 1 - 2 r p_A, then p_A each",
            margin=0.012,
            rival=np.array([1 - R * P_A, *[P_A / 2] * (2 * R)]),
            rival_says="p_A for a block, whatever its sign",
        ),
        equal(
            "E[phi_l], l in A",
            REAL,
            np.zeros(R * K),
            "Remark B.45: P(phi) = P(-phi)",
            margin=0.03,
            axis="coordinate",
            rival=np.full(R * K, P_A),
            rival_says="blocks all plus alone",
        ),
        equal("E[y]", REAL, 0.0, "Remark B.45: y is odd", margin=0.03, rival=P_A, rival_says="blocks all plus alone"),
        equal(
            "share of fair inputs, p_A = 1/4, r = 1",
            SHARE,
            0.5,
            "Proposition 3.23: the case of Daniely and Malach",
            margin=0.02,
            rival=0.75,
            rival_says="1 - r p_A",
        ),
    )


def sees_definition(settings: None, key: Key) -> Mapping[str, Observation]:
    """The sampler, 60 000 samples; its labels by pattern."""
    task = BlockParity(d=20, r=R, k=K, p_A=P_A, p_o=0.2)
    truth = task.draw(key / "truth")
    batch = task.sample(truth, 60_000, key / "data")
    assert batch.group is not None
    assert batch.hidden is not None
    A = truth.blocks.flatten()
    found = dict(zip(map(tuple, batch.hidden[:, A].tolist()), batch.y.tolist(), strict=True))
    single = BlockParity(d=20, r=1, k=5, p_A=0.25, p_o=0.2)
    other = single.sample(single.draw(key / "truth"), 20_000, key / "single").group
    assert other is not None
    return {
        "label of every pattern": np.array([found[tuple(v)] for v in enumerate_patterns()]),
        "shares of the components": [chance((batch.group == j).numpy(), SHARE) for j in range(7)],
        "E[phi_l], l in A": over_groups(batch.hidden[:, A].numpy(), 20, REAL),
        "E[y]": mean_of(batch.y.double().numpy(), REAL, "sample"),
        "share of fair inputs, p_A = 1/4, r = 1": chance((other == 0).numpy(), SHARE),
    }


def enumerate_patterns() -> list[tuple[float, ...]]:
    """The patterns of phi_A in the order of the enumeration."""
    fair = list(itertools.product((-1.0, 1.0), repeat=R * K))
    return fair + [tuple(s if i // K == j else 0.0 for i in range(R * K)) for j in range(R) for s in (1.0, -1.0)]


MEANS = ((1, 3, 0.25), (1, 5, 0.1), (3, 3, 0.1))


def says_mean(settings: None) -> Sequence[Statement]:
    """0 by the remark, 2 p_A on relevant patterns by the mixture."""
    return both(
        "E[y phi_l], l in A",
        REAL,
        "Remark B.45, third point",
        reported=np.zeros(3),
        corrected=np.array([2 * p for *_, p in MEANS]),
        says="2 p_A from the blocks all plus and all minus",
        margin=1e-12,
        axis="r, k, p_A",
    )


def sees_mean(settings: None, key: Key) -> Mapping[str, Observation]:
    """By enumeration."""
    laws = [enumerate_blocks(r, k, p) for r, k, p in MEANS]
    return {"E[y phi_l], l in A": np.array([(prob * y) @ phi[:, 0] for phi, y, prob in laws])}


# Lemma 3.21, the network ---------------------------------------------------------------------------------------------

SIZES = ((3, 3), (1, 5), (1, 9))
ALL = np.linspace(-5, 5, 1001)


def says_network(settings: None) -> Sequence[Statement]:
    """No hinge loss, on any pattern; bumps of either sign of the bias are the same function."""
    line = np.concatenate([hats_by_parity(k) for k in (3, 5, 9)])
    return (
        equal(
            "g* on the values of u, as k-bit parity",
            REAL,
            line,
            "Lemma B.51: g* is the sum of the block parities",
            margin=1e-9,
            rival=-line,
            rival_says="the opposite sign",
        ),
        equal(
            "hinge loss of g*",
            POSITIVE,
            np.zeros(3),
            "Lemma B.51: OPT = 0",
            margin=1e-9,
            axis="r, k",
            rival=control("hinge loss, bumps 5 % lower"),
            rival_says="bumps 5 % lower",
        ),
        equal(
            "hinge loss of g*, the coordinates of A",
            POSITIVE,
            np.zeros(3),
            "Lemma B.51: OPT = 0",
            margin=1e-9,
            of="hinge loss of g*",
            rival=control("hinge loss, a background sign in place of one of A_1"),
            rival_says="one wrong coordinate",
        ),
        equal(
            "g* with (+-D_j, +1) only, less g*",
            REAL,
            np.zeros(len(ALL)),
            "Lemma B.51: bumps are symmetric",
            margin=1e-9,
            rival=control("the bumps left of 0 not turned, less g*"),
            rival_says="negative biases cut off",
        ),
    )


def hats_by_parity(k: int) -> Array:
    """prod phi at sum phi = -k, -k + 2, .., k: (-1)^(number of minus signs)."""
    return (-1.0) ** (k - np.arange(k + 1))


def one_side(u: Array, k: int) -> tuple[Array, Array]:
    """g* for odd k with positive biases only: bumps left of 0 written in -u; and without those bumps."""
    c, relu, total, half = 1 / math.sqrt(k), lambda t: np.maximum(t, 0), np.zeros_like(u), np.zeros_like(u)
    for i in range(k + 1):
        at = (2 * i - k) * c
        v, b = (u, at) if at > 0 else (-u, -at)
        bump = (-1) ** (i + 1) * math.sqrt(k) * (relu(v - b + c) - 2 * relu(v - b) + relu(v - b - c))
        total, half = total + bump, half + bump * (at > 0)
    return total, half


def sees_network(settings: None, key: Key) -> Mapping[str, Observation]:
    """Every pattern of phi_A."""
    exact, low, other = [], [], []
    for r, k in SIZES:
        phi, y, prob = enumerate_blocks(r, k, 0.1)
        u = phi.reshape(len(phi), r, k)
        swapped = u.copy()
        swapped[:, 0, -1] = np.where(key.numpy().random(len(phi)) < 0.5, 1.0, -1.0)
        for out, value in ((exact, hats(u.sum(2) / k**0.5, k)), (low, 0.95 * hats(u.sum(2) / k**0.5, k))):
            out.append(float(prob @ np.maximum(1 - y * value.sum(1), 0)))
        other.append(float(prob @ np.maximum(1 - y * hats(swapped.sum(2) / k**0.5, k).sum(1), 0)))
    turned_, half = one_side(ALL, 5)
    at = [hats((2.0 * np.arange(k + 1) - k) / math.sqrt(k), k) for k in (3, 5, 9)]
    return {
        "g* on the values of u, as k-bit parity": np.concatenate(at),
        "hinge loss of g*": np.array(exact),
        "hinge loss, bumps 5 % lower": np.array(low),
        "hinge loss, a background sign in place of one of A_1": np.array(other),
        "g* with (+-D_j, +1) only, less g*": turned_ - hats(ALL, 5),
        "the bumps left of 0 not turned, less g*": half - hats(ALL, 5),
    }


NORM_SIZES = ((3, 3), (1, 5), (3, 9))


def says_norms(settings: None) -> Sequence[Statement]:
    """B_F with two neurons a tip; what (B.470) has neuron by neuron is above B_a2."""
    r, k = np.array(NORM_SIZES, dtype=float).T
    return (
        at_most("||a||_2", POSITIVE, 2 * np.sqrt(r * k * (k + 1)), "Lemma B.51: B_a2", axis="r, k"),
        equal(
            "||a||_2, two neurons a tip",
            POSITIVE,
            np.sqrt(2 * r * k * (k + 2)),
            "by hand: r (2 (k + 1) + 2) terms sqrt k",
            of="||a||_2",
            margin=1e-9,
            rival=np.sqrt(6 * r * k * (k + 1)),
            rival_says="neuron by neuron, as in (B.470)",
            form="derived",
        ),
        at_most("neurons", COUNT, 3 * r * (k + 1), "Lemma B.51: 3 r (k + 1)", axis="r, k"),
        at_most("largest |a_i|", POSITIVE, 2 * np.sqrt(k), "Lemma B.51: B_a1 = 2 sqrt k", axis="r, k"),
        at_most("largest |b_i|", POSITIVE, (k + 1) / np.sqrt(k), "Lemma B.51: B_b", margin=1e-9, axis="r, k"),
        equal(
            "largest difference from g*",
            POSITIVE,
            np.zeros(3),
            "Lemma B.51: one function",
            margin=1e-9,
            axis="r, k",
            rival=control("the same, one end left out"),
            rival_says="one end left out",
        ),
    )


def twin_tips(k: int) -> tuple[Array, Array]:
    """Second layer and breakpoints of one block of g* with every tip as two neurons, breakpoints in 1/sqrt k.

    Neighbouring bumps cancel where they meet, so that two ends of sqrt k and k + 1 tips of 2 sqrt k are left.
    """
    tips, sign = np.repeat(2.0 * np.arange(k + 1) - k, 2), np.repeat((-1.0) ** np.arange(k + 1), 2)
    ends = np.array([-(k + 1.0), k + 1.0])
    return math.sqrt(k) * np.concatenate([sign, [-1.0, (-1.0) ** (k + 1)]]), np.concatenate([tips, ends])


def sees_norms(settings: None, key: Key) -> Mapping[str, Observation]:
    """Written out."""
    rows = []
    for r, k in NORM_SIZES:
        a, at = twin_tips(k)
        f, star = np.maximum(ALL[:, None] - at / math.sqrt(k), 0), hats(ALL, k)
        gaps = [float(np.abs(f[:, :n] @ a[:n] - star).max()) for n in (len(a), len(a) - 1)]
        far = np.abs(at).max() / math.sqrt(k)
        rows.append((math.sqrt(r) * np.linalg.norm(a), r * len(a), np.abs(a).max(), far, *gaps))
    names = ("||a||_2", "neurons", "largest |a_i|", "largest |b_i|", "largest difference from g*")
    return dict(zip((*names, "the same, one end left out"), np.array(rows).T, strict=True))


# Theorem 3.22 and Proposition 3.23 -----------------------------------------------------------------------------------

CASES = ((1, 5, 100.0), (3, 9, 1e3), (5, 25, 1e4))


def says_theorem(settings: None) -> Sequence[Statement]:
    """(B.477), and what the numbers of Lemma B.51 give."""
    said = np.array([2 * math.sqrt(2) * r * math.sqrt(k) / d ** ((TAU - 3) / 2) for r, k, d in CASES])
    more = np.array([3.0 * (k + 1) for _, k, _ in CASES])
    return both(
        "log of r B_a1 B_x1 sqrt(2 gamma)",
        REAL,
        "proof of Theorem B.52, (B.477)",
        reported=np.log(said),
        corrected=np.log(said * more),
        says="the 3 r (k + 1) neurons of Lemma B.51",
        margin=1e-9,
        axis="r, k, d",
    )


def sees_theorem(settings: None, key: Key) -> Mapping[str, Observation]:
    """r = 3 r (k + 1), B_a1 = 2 sqrt k, B_x1 = sqrt d and gamma = d^-(tau - 2) in Theorem 3.12."""
    found = [3 * r * (k + 1) * 2 * k**0.5 * d**0.5 * math.sqrt(2 * d ** -(TAU - 2)) for r, k, d in CASES]
    return {"log of r B_a1 B_x1 sqrt(2 gamma)": np.log(found)}


@dataclass(frozen=True)
class Fixed:
    """N random tanh features on {+-1}^d, by their weights."""

    w: Array


D, KS, N, NORMS = 8, 3, 6, (0.3, 1.0, 3.0)


def correlations(w: Array) -> Array:
    """||E chi_A Psi|| of every subset of size k, on fair inputs."""
    x = cube(D)
    parity = np.stack([x[:, list(A)].prod(1) for A in itertools.combinations(range(D), KS)])
    return np.linalg.norm(parity @ np.tanh(x @ w) / len(x), axis=1)


def says_fixed(settings: Fixed) -> Sequence[Statement]:
    """Bessel over subsets, the loss on fair inputs, the proposition, and its two forms."""
    size, count = correlations(settings.w), math.comb(D, KS)
    dims = (16, 32, 64)
    bound = np.array([0.5 * (1 - v * math.sqrt(N / count)) for v in NORMS])
    return (
        at_most(
            "sum over subsets of ||E chi_A Psi||^2 over N",
            POSITIVE,
            np.ones(2),
            "Bessel: at most 1 for features of norm 1",
            axis="tanh features, features that are parities",
        ),
        equal(
            "hinge loss on fair inputs, B = 0.3, easiest subset",
            POSITIVE,
            1 - 0.3 * float(size.max()),
            "while |h| <= 1: 1 - B ||E chi_A Psi||",
            margin=1e-4,
            rival=1 - 0.6 * float(size.max()),
            rival_says="twice the gain",
            form="derived",
        ),
        at_least(
            "hinge loss with the structured half, hardest subset",
            POSITIVE,
            np.array([*bound, 0.5 - 0.5 / math.sqrt(count)]),
            "Proposition 3.23, before its last step: (1 - B sqrt(N/C(d, k)))/2",
            axis="B = 0.3, 1, 3; the parity of another subset, B = 1, without the structured half's help",
        ),
        at_least(
            "log C(d, d/16) over log 2^(2k + 1)",
            REAL,
            np.ones(3),
            "Proposition 3.23: sqrt(N) B/(2^k sqrt 2) follows",
            axis=f"d = {', '.join(map(str, dims))}",
        ),
    )


def sees_fixed(settings: Fixed, key: Key) -> Mapping[str, Observation]:
    """The library's certified best second layers, on all inputs; features that are parities attain Bessel's bound."""
    x, w = torch.as_tensor(cube(D)), torch.as_tensor(settings.w)
    subsets, psi = list(itertools.combinations(range(D), KS)), torch.tanh(x @ w)
    parity = torch.stack([x[:, list(A)].prod(1) for A in subsets])
    size, own = (parity @ psi / len(x)).norm(dim=1), (parity @ parity[:N].T / len(x)).square().sum()
    hard = subsets[int(size.argmin())]
    grid, out = torch.as_tensor(cube(D - KS)), [i for i in range(D) if i not in hard]
    half = torch.zeros(2 * len(grid), D, dtype=torch.float64)
    half[:, out] = grid.repeat(2, 1)
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat_interleave(len(grid))
    half[:, list(hard)] = sign[:, None].expand(-1, KS)
    both_, y = torch.cat([x, half]), torch.cat([x[:, list(hard)].prod(1), sign])
    weight = torch.cat([torch.full((len(v),), 0.5 / len(v), dtype=torch.float64) for v in (x, half)])
    losses = [best_network(torch.tanh(both_ @ w), y, v, weights=weight).lower for v in NORMS]
    helped = torch.cat([torch.zeros(len(x), 1), sign[:, None]]).double()  # solves the structured half, and no more
    losses.append(best_network(helped, y, 1.0, weights=weight).lower)
    dims = (16, 32, 64)
    logs = [math.lgamma(v + 1) - math.lgamma(v // 16 + 1) - math.lgamma(v - v // 16 + 1) for v in dims]
    return {
        "sum over subsets of ||E chi_A Psi||^2 over N": np.array([float(size.square().sum()) / N, float(own) / N]),
        "hinge loss on fair inputs, B = 0.3, easiest subset": best_network(psi, parity[int(size.argmax())], 0.3).loss,
        "hinge loss with the structured half, hardest subset": np.array(losses),
        "log C(d, d/16) over log 2^(2k + 1)": np.array(
            [v / ((2 * (n // 16) + 1) * math.log(2)) for v, n in zip(logs, dims, strict=True)]
        ),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gradient_features.definition_parity",
        entries=("gradient_features.definition_parity",),
        says="The block parity's law is symmetric, its label odd.",
        statements=says_definition,
        observe=sees_definition,
    ),
    Claim(
        id="gradient_features.definition_parity_mean",
        entries=("gradient_features.definition_parity",),
        says="E[yx] = 0 for block parities (Remark B.45).",
        statements=says_mean,
        observe=sees_mean,
        accuses=Accusation(
            quote="E[y x] = 0",
            place="Remark B.45, third point",
            reading="the mean over the whole distribution D_parity",
            hits="remark",
            derivation="y and x both change sign with phi, so y x is even and the symmetry says nothing about its "
            "mean. Fair inputs add 0 on a relevant pattern, for k > 1; the block all plus adds p_A (+1)(+1) and the "
            "block all minus, as k is odd, p_A (-1)(-1): 2 p_A in all. The proof of (D_j, -1) in Lemma B.47 uses the "
            "remark.",
        ),
    ),
    Claim(
        id="gradient_features.lemma3_21",
        entries=("gradient_features.lemma3_21",),
        says="The comparison network of 3 r (k + 1) neurons has no hinge loss, with positive biases alone.",
        statements=says_network,
        observe=sees_network,
        remarks="Bumps left of 0 are symmetric, so they are bumps of -u: only features with sign +1 are needed.",
    ),
    Claim(
        id="gradient_features.lemma3_21_norm",
        entries=("gradient_features.lemma3_21",),
        says="As a function it has at most 3 r (k + 1) neurons within the norms of Lemma B.51, B_a1 = 2 sqrt k, B_a2 = "
        "2 sqrt(r k (k + 1)) and B_b = (k + 1)/sqrt k.",
        statements=says_norms,
        observe=sees_norms,
        remarks="Neuron by neuron as in (B.470) the second layer is larger than B_a2; with two neurons a tip it is "
        "not. No bias is 0 for odd k.",
    ),
    Claim(
        id="gradient_features.theorem3_22",
        entries=("gradient_features.theorem3_22",),
        says="The derivation (B.477): with the numbers of Lemma B.51 the second term of Theorem 3.12 is "
        "2 sqrt 2 r sqrt k/d^((tau - 3)/2).",
        statements=says_theorem,
        observe=sees_theorem,
        accuses=Accusation(
            quote="2 sqrt 2 r sqrt k / d^((tau - 3)/2)",
            place="proof of Theorem B.52, (B.477)",
            reading="r in Theorem 3.12 is the number of neurons of the comparison network",
            hits="proof",
            derivation="Lemma B.51's network has 3 r (k + 1) neurons, |a_i| <= 2 sqrt k, and B_x1 = sqrt d: their "
            "product with sqrt(2 d^-(tau - 2)) is 6 sqrt 2 r (k + 1) sqrt k d^(-(tau - 3)/2). The theorem is not "
            "contradicted: tau + 3 for tau absorbs 3 (k + 1) within the width d^Theta(tau r).",
        ),
    ),
    Claim(
        id="gradient_features.prop3_23",
        entries=("gradient_features.prop3_23",),
        says="Fixed features have hinge loss of at least 1/2 - sqrt(N) B/(2^k sqrt 2) on some parity.",
        settings=lambda key: Fixed(key.numpy().normal(size=(D, N))),
        statements=says_fixed,
        observe=sees_fixed,
        remarks="sqrt{NB} in our copy is read as sqrt(N) B. d = 8, k = 3, by enumeration.",
    ),
)
