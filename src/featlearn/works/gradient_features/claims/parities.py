"""Structured parities in r blocks: Lemmas B.43 to B.52 and Proposition 3.23."""

import itertools
import math

import numpy as np
import torch
from scipy.special import log_ndtr
from scipy.stats import norm

from featlearn.core import Key, Truth
from featlearn.lab.pending import Case, Claim, Evidence, Tables
from featlearn.measure import gate_shares
from featlearn.measure.best_network import best_network
from featlearn.measure.gradient_features import draw_in_box, membership, simplified_gradients
from featlearn.tasks import BlockParity
from featlearn.works.gradient_features.setup import turned

Array = np.ndarray
TAU = 8.0


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


def hats(u: Array, k: int, height: float | int = 1.0, shift: int = 0) -> Array:
    """sum_i (-1)^(i + 1 + shift) sqrt k [relu(u - (2i-k-1)/sqrt k) - 2 relu(u - (2i-k)/sqrt k) + relu(...)]."""
    c, relu = 1 / math.sqrt(k), lambda t: np.maximum(t, 0)
    total = np.zeros_like(u)
    for i in range(k + 1):
        at = (2 * i - k) * c
        bump = relu(u - at + c) - 2 * relu(u - at) + relu(u - at - c)
        total += (-1) ** (i + 1 + shift) * height * math.sqrt(k) * bump
    return total


def hats_positive_bias(u: Array, k: int) -> Array:
    """The same function for odd k with positive biases only: bumps left of 0 written in -u, which they equal."""
    c, relu = 1 / math.sqrt(k), lambda t: np.maximum(t, 0)
    total = np.zeros_like(u)
    for i in range(k + 1):
        at = (2 * i - k) * c
        v, at = (u, at) if at > 0 else (-u, -at)
        total += (-1) ** (i + 1) * math.sqrt(k) * (relu(v - at + c) - 2 * relu(v - at) + relu(v - at - c))
    return total


def layer_norms(r: int, k: int) -> tuple[float, float]:
    """||a|| of the reported network neuron by neuron, and with coinciding breakpoints merged."""
    single = math.sqrt(r * (k + 1) * 6 * k)
    at: dict[int, float] = {}
    for i in range(k + 1):
        for step, value in ((-1, 1.0), (0, -2.0), (1, 1.0)):
            at[2 * i - k + step] = at.get(2 * i - k + step, 0.0) + (-1) ** (i + 1) * value * math.sqrt(k)
    return single, math.sqrt(r * sum(v * v for v in at.values()))


def check_definition(key: Key, tables: Tables) -> Evidence:
    """Symmetry of the law and of the label, by enumeration of phi_A and by the sampler."""
    r, k, p_A = 3, 3, 0.1
    phi, y, prob = enumerate_blocks(r, k, p_A)
    index = {tuple(row): i for i, row in enumerate(phi)}
    mirror = np.array([index[tuple(-row)] for row in phi])
    task = BlockParity(d=20, r=r, k=k, p_A=p_A, p_o=0.2)
    truth = task.draw(key / "truth")
    batch = task.sample(truth, 60_000, key / "data")
    assert batch.group is not None
    counts = np.bincount(batch.group.numpy(), minlength=7) / 60_000
    return Evidence(
        (
            Case(
                "P(phi) = P(-phi)",
                predict=prob,
                observe=prob[mirror],
                rival=np.roll(prob, 7),
                tolerance=1e-12,
                rival_says="another order",
            ),
            Case(
                "y(-phi) = -y(phi)",
                predict=-y,
                observe=y[mirror],
                rival=y,
                tolerance=0.0,
                rival_says="even, as for even k",
            ),
            Case("E[y] = 0", predict=0.0, observe=float(prob @ y), rival=p_A, tolerance=1e-12, rival_says="p_A"),
            Case(
                "shares of the components",
                predict=[0.4, *[0.1] * 6],
                observe=counts,
                rival=[0.7, *[0.05] * 6],
                tolerance=0.01,
                rival_says="p_A for a block, whatever its sign",
            ),
            Case(
                "Daniely-Malach: p_A = 1/4, r = 1: half of the mass is fair",
                predict=0.5,
                observe=float(enumerate_blocks(1, 5, 0.25)[2][:32].sum()),
                rival=0.75,
                tolerance=1e-12,
                rival_says="3/4",
            ),
        ),
    )


def check_symmetry(key: Key, tables: Tables) -> Evidence:
    """Remark B.45, E[yx] = 0, against enumeration: 2 p_A on every relevant pattern."""
    exact = []
    for r, k, p_A in ((1, 3, 0.25), (1, 5, 0.1), (3, 3, 0.1)):
        phi, y, prob = enumerate_blocks(r, k, p_A)
        exact.append(np.array([(prob * y) @ phi[:, 0], 2 * p_A]))
    exact = np.array(exact)
    return Evidence(
        (
            Case(
                "E[y phi_l], l in A, as reported",
                predict=np.zeros(3),
                observe=exact[:, 0],
                rival=exact[:, 1],
                tolerance=1e-12,
                rival_says="2 p_A, which is what it is",
            ),
            Case(
                "E[y phi_l] = 2 p_A",
                predict=exact[:, 1],
                observe=exact[:, 0],
                rival=np.zeros(3),
                tolerance=1e-12,
                rival_says="0",
            ),
        ),
        comment="phi -> -phi changes the sign of y and of x, so y x is even and the symmetry says nothing about its "
        "mean. Both all-plus and all-minus blocks add p_A.",
    )


def check_network(key: Key, tables: Tables) -> Evidence:
    """B.51: hinge loss 0 by enumeration; the same function with positive biases only."""
    r, k, p_A = 3, 3, 0.1
    phi, y, prob = enumerate_blocks(r, k, p_A)
    u = phi.reshape(len(phi), r, k).sum(2) / math.sqrt(k)
    g, low = hats(u, k).sum(1), hats(u, k, 0.95).sum(1)
    swapped = phi.reshape(len(phi), r, k).copy()  # the last pattern of block 1 replaced by a background sign
    sign = np.where(key.numpy().random(len(phi)) < 0.5, 1.0, -1.0)
    swapped[:, 0, -1] = sign
    other = hats(swapped.sum(2) / math.sqrt(k), k).sum(1)
    hinge = lambda s: float(prob @ np.maximum(1 - y * s, 0))  # noqa: E731
    line = np.linspace(-4, 4, 801)
    margins = []
    for k1 in (5, 9):
        phi1, y1, _ = enumerate_blocks(1, k1, 0.25)
        margins.append(float((y1 * hats(phi1.sum(1, keepdims=True) / math.sqrt(k1), k1)[:, 0]).min()))
    return Evidence(
        (
            Case(
                "hinge loss of g*, r = k = 3",
                predict=0.0,
                observe=hinge(g),
                rival=hinge(low),
                tolerance=1e-9,
                rival_says="bumps 5 % lower",
            ),
            Case(
                "the same, one wrong coordinate",
                predict=0.0,
                observe=hinge(g),
                rival=hinge(other),
                tolerance=1e-9,
                rival_says="a background pattern in place of one of A_1",
            ),
            Case(
                "min y g*, r = 1, k = 5, 9",
                predict=[1.0, 1.0],
                observe=margins,
                rival=[0.95, 0.95],
                tolerance=1e-9,
                rival_says="0.95",
            ),
            Case(
                "g* with (+-D_j, +1) only",
                predict=hats(line, 5),
                observe=hats_positive_bias(line, 5),
                rival=hats(line, 5, shift=1),
                tolerance=1e-9,
                rival_says="the opposite sign",
            ),
        ),
        comment="Biases of g* may all be positive: bumps left of 0 are symmetric, so they are bumps of -u. This needs "
        "only features with sign +1, which Lemma 3.21 has, and not (D_j, -1), which it has for r = 1 alone.",
    )


def twin_tips(k: int) -> tuple[Array, Array]:
    """Second layer and breakpoints of one block of g* with every tip as two neurons, breakpoints in 1/sqrt k.

    Neighbouring bumps cancel where they meet, so that two ends of sqrt k and k + 1 tips of 2 sqrt k are left.
    """
    tips = np.repeat(2.0 * np.arange(k + 1) - k, 2)
    sign = np.repeat((-1.0) ** np.arange(k + 1), 2)
    ends = np.array([-(k + 1.0), k + 1.0])
    return math.sqrt(k) * np.concatenate([sign, [-1.0, (-1.0) ** (k + 1)]]), np.concatenate([tips, ends])


def check_network_norms(key: Key, tables: Tables) -> Evidence:
    """B_F of Lemma B.51: g* as a function of 3 r (k + 1) neurons or fewer within the reported norms."""
    sizes = ((3, 3), (1, 5), (3, 9))
    said = [2 * math.sqrt(r * k * (k + 1)) for r, k in sizes]
    single, merged = np.array([layer_norms(r, k) for r, k in sizes]).T
    line = np.linspace(-5, 5, 1001)
    size, used, largest, far, gap, off = [], [], [], [], [], []
    for r, k in sizes:
        a, at = twin_tips(k)
        size.append(math.sqrt(r) * float(np.linalg.norm(a)))
        used.append(r * len(a))
        largest.append(float(np.abs(a).max()))
        far.append(float(np.abs(at).max()) / math.sqrt(k))
        f = np.maximum(line[:, None] - at / math.sqrt(k), 0)
        gap.append(float(np.abs(f @ a - hats(line, k)).max()))
        off.append(float(np.abs(f[:, :-1] @ a[:-1] - hats(line, k)).max()))
    k_all = np.array([k for _, k in sizes], dtype=float)
    neurons = [3 * r * (k + 1) for r, k in sizes]
    return Evidence(
        (
            Case(
                "||a||_2 with two neurons a tip <= 2 sqrt(r k (k + 1))",
                predict=said,
                observe=size,
                rival=np.array(said) / 2,
                relation="at most",
                rival_says="sqrt(r k (k + 1))",
            ),
            Case(
                "||a||_2 = sqrt(2 r k (k + 2))",
                predict=[math.sqrt(2 * r * k * (k + 2)) for r, k in sizes],
                observe=size,
                rival=single,
                tolerance=1e-9,
                rival_says="sqrt(6 r k (k + 1)), neuron by neuron as (B.470) is written",
            ),
            Case(
                "neurons <= 3 r (k + 1)",
                predict=neurons,
                observe=used,
                rival=[r * (k + 3) for r, k in sizes],
                relation="at most",
                rival_says="r (k + 3), one neuron a tip",
            ),
            Case(
                "|a_i| <= 2 sqrt k",
                predict=2 * np.sqrt(k_all),
                observe=largest,
                rival=0.9 * np.sqrt(k_all),
                relation="at most",
                rival_says="0.9 sqrt k",
            ),
            Case(
                "|b_i| <= (k + 1)/sqrt k",
                predict=(k_all + 1) / np.sqrt(k_all),
                observe=far,
                rival=k_all / np.sqrt(k_all),
                relation="at most",
                tolerance=1e-9,
                rival_says="k/sqrt k, without the ends",
            ),
            Case(
                "the same function as g*",
                predict=np.zeros(3),
                observe=gap,
                rival=off,
                tolerance=1e-9,
                rival_says="one end left out",
            ),
        ),
        comment="Written out neuron by neuron as in (B.470) the second layer has norm sqrt(6 r k (k + 1)), with "
        f"coinciding neurons merged sqrt(r (4 k (k + 1) + 2 k)): {single[0]:.1f} and {merged[0]:.1f} at r = k = 3, and "
        f"{size[0]:.1f} with two neurons a tip. No bias is 0 for odd k.",
    )


def setting(r: int, d: int = 100, k: int = 11) -> BlockParity:
    """The sizes at which gradients of rare neurons are sampled."""
    p_A = 0.1
    return BlockParity(d=d, r=r, k=k, p_A=p_A, p_o=round(r * k / (d - r * k) / 2, 3))


def rare_neurons(
    task: BlockParity, truth: Truth, C_b: float | int, m: int, key: Key
) -> tuple[torch.Tensor, float, float]:
    """m neurons given the first two conditions of S_{D_1, sure}; bias; log of the chance."""
    bias = C_b * math.sqrt(TAU * task.r * task.k * math.log(task.d))
    level = bias / math.sqrt(task.k)
    low = torch.tensor([1.5 * level] + [-0.5 * level] * (task.r - 1))
    high = torch.tensor([math.inf] + [0.5 * level] * (task.r - 1))
    w, log_p = draw_in_box(truth.features, low, high, 1.0, m, key)
    return w, bias, log_p


def log_sure(task: BlockParity, C_b: float | int) -> float:
    """log of Q(1.5 t) (1 - 2 Q(0.5 t))^(r-1), t = C_b sqrt(tau r log d)."""
    t = C_b * math.sqrt(TAU * task.r * math.log(task.d))
    return float(log_ndtr(-1.5 * t)) + (task.r - 1) * math.log1p(-2 * norm.sf(0.5 * t))


def check_features(key: Key, tables: Tables) -> Evidence:
    """B.47, B.48, B.50: p exactly, G coordinate by coordinate, membership with rotated and wrong-coordinate rivals."""
    task = setting(3)
    truth = task.draw(key / "truth")
    w, bias, log_p = rare_neurons(task, truth, 1.0, 30, key / "w")
    n = 40_000
    batch = task.sample(truth, n, key / "data")
    b = torch.full((len(w),), bias)
    g = simplified_gradients(w.float(), b, batch.x, batch.y).double()
    own = truth.blocks[0].numpy()
    law = np.zeros(task.d)
    law[own] = task.p_A
    wide = np.full(task.d, 2 * task.p_A)
    wrong = truth.features[0].clone()
    free = next(i for i in range(task.d) if i not in truth.blocks.flatten().tolist())
    wrong[free], wrong[own[0]] = wrong[own[0]].item(), 0.0
    rotated = turned(truth.features[0], 20.0, key / "aside", truth.features[1:])
    gammas = torch.tensor([0.01, 0.03, 0.05], dtype=torch.float64)
    least = 0.9 * math.sqrt(task.k) * task.p_A
    found = membership(
        g, torch.stack([truth.features[0].double(), wrong.double(), rotated]), gammas, least, log_given=log_p
    )
    se = math.sqrt(0.5 / n)
    t = math.sqrt(TAU * task.r * math.log(task.d))
    mills = math.log(1 / (3 * math.sqrt(2 * math.pi) * t)) - 9 * TAU * task.r / 8 * math.log(task.d)
    return Evidence(
        (
            Case(
                "log Pr[S_sure], two conditions",
                predict=log_sure(task, 1.0),
                observe=log_p,
                rival=float(log_ndtr(-1.5 * t)) + math.log(2),
                tolerance=1e-4,
                rival_says="twice as likely",
            ),
            Case(
                "it is at least the order of the lemma",
                predict=mills,
                observe=log_p,
                rival=mills * 0.9,
                relation="at least",
                rival_says="exponent 10 % smaller",
            ),
            Case(
                "mean of G over neurons: p_A on the own block, 0 elsewhere",
                predict=law,
                observe=g.mean(0).numpy(),
                rival=wide,
                tolerance=5 * se + 0.01,
                rival_says="2 p_A everywhere",
            ),
            Case(
                "median 1 - cos(G, D_1)",
                predict=0.0,
                observe=float((1 - g @ truth.features[0].double() / g.norm(dim=1)).median()),
                rival=1 / task.k,
                tolerance=0.01,
                rival_says="1/k, one wrong coordinate",
            ),
            Case(
                "membership of (D_1, +1) given S_sure, gamma = .01, .03, .05",
                predict=[0.5, 0.8, 0.8],
                observe=found.low[0].numpy(),
                rival=np.ones(3),
                relation="at least",
                rival_says="certain",
            ),
            Case(
                "one wrong coordinate",
                predict=np.zeros(3),
                observe=found.share[1].numpy(),
                rival=found.share[0].numpy(),
                tolerance=0.0,
                rival_says="as often",
            ),
            Case(
                "rotated by 20 degrees",
                predict=np.zeros(3),
                observe=found.share[2].numpy(),
                rival=found.share[0].numpy(),
                tolerance=0.0,
                rival_says="as often",
            ),
        ),
        comment=f"r = 3, k = 11, d = 100, C_b = 1: Pr[S_sure] = exp({log_p:.1f}) = {math.exp(log_p):.0e}, certified "
        f"p >= exp({float(found.log_p[0, 1]):.1f}). Sampling noise of 40 000 inputs alone costs about 0.005 of cosine.",
        data={"gamma": gammas.numpy(), "share": found.share.numpy()},
    )


def check_other_sign(key: Key, tables: Tables) -> Evidence:
    """(D_j, -1), which the proof takes from E[yx] = 0: exactly, what a mirrored neuron sees, for r = 1, 3 and 5."""
    cosines, limit = [], []
    for r in (1, 3, 5):
        task = setting(r, d=200)
        truth = task.draw(key / "truth" / r)
        w, bias, _ = rare_neurons(task, truth, 1.0, 20, key / "w" / r)
        batch = task.sample(truth, 20_000, key / "data" / r)
        g = simplified_gradients(-w.float(), torch.full((len(w),), -bias), batch.x, batch.y).double()
        cosines.append(float((g @ truth.features[0].double() / g.norm(dim=1)).median()))
        limit.append(1 / math.sqrt(1 + 4 * (r - 1)))
    # any neuron: with b < 0 at most one of (j, +), (j, -) is silent, so every block keeps p_A or 2 p_A
    best = [2 / math.sqrt(4 + (r - 1)) for r in (1, 3, 5)]
    return Evidence(
        (
            Case(
                "cos(G, D_1) of mirrored sure neurons, r = 1, 3, 5, as reported",
                predict=np.ones(3),
                observe=cosines,
                rival=limit,
                tolerance=0.08,
                rival_says="1/sqrt(1 + 4 (r - 1)), which is what it is",
            ),
            Case(
                "largest cosine that any neuron with b < 0 reaches through the structured part",
                predict=np.ones(3),
                observe=best,
                rival=[1.0, 0.816, 0.707],
                tolerance=0.01,
                rival_says="2/sqrt(r + 3), which is what it is",
            ),
            Case(
                "cos = 1/sqrt(1 + 4 (r - 1))",
                predict=limit,
                observe=cosines,
                rival=np.ones(3),
                tolerance=0.08,
                rival_says="1",
            ),
        ),
        comment="A mirrored neuron has G = E[yx] - G(w, b) = p_A (own block) + 2 p_A (every other block). Only for one "
        "block is that D_1. The comparison network does not need the sign -1, see lemma3_21.",
    )


def check_activation(key: Key, tables: Tables) -> Evidence:
    """B.46, B.49: who fires, against Hoeffding with its constant written out."""
    task = setting(3)
    truth = task.draw(key / "truth")
    w, bias, _ = rare_neurons(task, truth, 1.0, 30, key / "w")
    batch = task.sample(truth, 40_000, key / "data")
    b = torch.full((len(w),), bias)
    assert batch.group is not None
    seen = gate_shares(w.float()[None], batch.x, batch.group, 7, -b[None])[0].numpy()
    A = truth.blocks.flatten()
    inside = w[:, A].norm(dim=1).numpy()
    rest = torch.ones(task.d, dtype=torch.bool)
    rest[A] = False
    outside = w[:, rest].norm(dim=1).numpy()
    bound = np.exp(-(bias**2) / (8 * inside**2)) + np.exp(-(bias**2) / (8 * outside**2))
    along = (w @ truth.features[0].double()).numpy() * math.sqrt(task.k)
    mean_gap = along - bias
    own = np.exp(-(mean_gap**2) / (2 * outside**2))
    noise = (batch.hidden[:, rest] @ w[:, rest].T.float()).numpy()  # type: ignore[index]
    spread = np.sqrt(2 * task.p_o) * outside
    tail = (np.abs(noise) > 3 * spread).mean()
    return Evidence(
        (
            Case(
                "Pr[fires | fair] <= exp(-b^2/(8 ||P_A w||^2)) + exp(-b^2/(8 ||P_perp w||^2))",
                predict=bound,
                observe=seen[:, 0],
                rival=bound / 100,
                relation="at most",
                rival_says="a hundredth of it",
            ),
            Case(
                "Pr[silent | block 1 all plus] <= exp(-(sqrt k <w, D_1> - b)^2/(2 ||P_perp w||^2))",
                predict=own + 1e-9,
                observe=1 - seen[:, 1],
                rival=own / 1000 - 1e-6,
                relation="at most",
                rival_says="a thousandth of it, less 1e-6",
            ),
            Case(
                "Pr[fires | other blocks]",
                predict=np.zeros((30, 4)),
                observe=seen[:, 3:],
                rival=np.ones((30, 4)),
                tolerance=0.05,
                rival_says="always",
            ),
            Case(
                "share of background sums beyond three deviations sqrt(2 p_o) ||P_perp w||",
                predict=2 * norm.sf(3.0),
                observe=float(tail),
                rival=2 * norm.sf(2.0),
                tolerance=0.0015,
                rival_says="that of two deviations",
            ),
        ),
        comment="(B.416) is read with the projection on the background, as its d - r k asks; our copy has P_A. The "
        "proof takes a sub-Gaussian norm of order sqrt(p_o), which is so at constant p_o, as here.",
    )


def check_theorem(key: Key, tables: Tables) -> Evidence:
    """(B.477): r_net B_a1 B_x1 sqrt(2 gamma) with the numbers of Lemma B.51."""
    values, said, right = [], [], []
    for r, k, d in ((1, 5, 100.0), (3, 9, 1e3), (5, 25, 1e4)):
        value = 3 * r * (k + 1) * 2 * math.sqrt(k) * math.sqrt(d) * math.sqrt(2 * d ** -(TAU - 2))
        values.append(value)
        said.append(2 * math.sqrt(2) * r * math.sqrt(k) / d ** ((TAU - 3) / 2))
        right.append(6 * math.sqrt(2) * r * (k + 1) * math.sqrt(k) / d ** ((TAU - 3) / 2))
    values, said, right = np.log(values), np.log(said), np.log(right)
    return Evidence(
        (
            Case(
                "log of r_net B_a1 B_x1 sqrt(2 gamma) <= log of 2 sqrt 2 r sqrt k/d^((tau - 3)/2)",
                predict=said,
                observe=values,
                rival=said - 1,
                relation="at most",
                rival_says="less still",
            ),
            Case(
                "it is 6 sqrt 2 r (k + 1) sqrt k/d^((tau - 3)/2)",
                predict=right,
                observe=values,
                rival=said,
                tolerance=1e-9,
                rival_says="the term of (B.477)",
            ),
        ),
        comment="With tau + 3 for tau in gamma the factor 3 (k + 1) is absorbed, and the width stays d^Theta(tau r): "
        "the theorem as stated is not contradicted. A width of d^Theta(tau r) with tau >= 8 cannot be built; training "
        "needs far fewer neurons, see the experiment special_cases.",
    )


def check_fixed_features(key: Key, tables: Tables) -> Evidence:
    """Proposition 3.23: the best fixed features on the hardest of all subsets, by enumeration of {+-1}^8, k = 3."""
    d, k, N, B = 8, 3, 6, 0.3
    x = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=d)), dtype=torch.float64)
    w = torch.randn(d, N, generator=(key / "w").torch(), dtype=torch.float64)
    subsets = list(itertools.combinations(range(d), k))
    psi = torch.tanh(x @ w)
    parity = torch.stack([x[:, list(A)].prod(1) for A in subsets])
    size = (parity @ psi / len(x)).norm(dim=1)
    count = math.comb(d, k)

    def structured(A: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        """Blocks all plus and all minus, free background."""
        half = torch.zeros(2 * 2 ** (d - k), d, dtype=torch.float64)
        grid = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=d - k)), dtype=torch.float64)
        half[:, [i for i in range(d) if i not in A]] = grid.repeat(2, 1)
        sign = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat_interleave(2 ** (d - k))
        half[:, list(A)] = sign[:, None].expand(-1, k)
        return half, sign

    def mixed(A: tuple[int, ...], norm_: float | int) -> float:
        half, sign = structured(A)
        both, y = torch.cat([x, half]), torch.cat([x[:, list(A)].prod(1), sign])
        weight = torch.cat([torch.full((len(x),), 0.5 / len(x)), torch.full((len(half),), 0.5 / len(half))])
        return best_network(torch.tanh(both @ w), y, norm_, weights=weight.double()).lower

    ends = [int(size.argmin()), int(size.argmax())]
    fair = [best_network(psi, parity[i], B).loss for i in ends]
    dims = (64, 256, 1024)
    log_choose = [math.lgamma(v + 1) - math.lgamma(v // 16 + 1) - math.lgamma(v - v // 16 + 1) for v in dims]
    return Evidence(
        (
            Case(
                "mean over subsets of ||E chi_A Psi||^2 <= N / C(d, k)",
                predict=N / count,
                observe=float(size.square().mean()),
                rival=N / count / 50,
                relation="at most",
                rival_says="a fiftieth of it",
            ),
            Case(
                "best hinge loss on fair inputs = 1 - B ||E chi_A Psi|| while |h| <= 1, easiest subset",
                predict=1 - B * float(size[ends[1]]),
                observe=fair[1],
                rival=1 - 2 * B * float(size[ends[1]]),
                tolerance=1e-4,
                rival_says="twice the gain",
            ),
            Case(
                "with the structured half, hardest subset: at least (1 - B sqrt(N/C(d, k)))/2, B = 0.3, 1, 3",
                predict=[0.5 * (1 - v * math.sqrt(N / count)) for v in (0.3, 1.0, 3.0)],
                observe=[mixed(subsets[ends[0]], v) for v in (0.3, 1.0, 3.0)],
                rival=np.ones(3),
                relation="at least",
                rival_says="1, the loss of a constant",
            ),
            Case(
                "log C(d, d/16) >= log 2^(2 k + 1), d = 64, 256, 1024: the reported form follows",
                predict=[(2 * (v // 16) + 1) * math.log(2) for v in dims],
                observe=log_choose,
                rival=[v * math.log(2) for v in dims],
                relation="at least",
                rival_says="2^d",
            ),
        ),
        comment="sqrt{NB} in our copy is read as sqrt(N) B.",
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "gradient_features.definition_parity",
        entries=("gradient_features.definition_parity",),
        says="The block parity's law is symmetric, its label odd.",
        check=check_definition,
    ),
    Claim(
        "gradient_features.definition_parity_mean",
        entries=("gradient_features.definition_parity",),
        says="E[yx] = 0 for block parities (Remark B.45).",
        check=check_symmetry,
        expected="refuted",
        hits="remark",
        reported="Thesis, Remark B.45, third point: 'E[y x] = 0'. As y and x both change sign with phi, y x is even, "
        "and symmetry does not make its mean 0: it is 2 p_A on every relevant pattern, from the blocks that are all "
        "plus and all minus. The proof of (D_j, -1) in Lemma B.47 uses the remark.",
    ),
    Claim(
        "gradient_features.lemma3_21",
        entries=("gradient_features.lemma3_21",),
        says="The comparison network of 3 r (k + 1) neurons has no hinge loss, with positive biases alone.",
        check=check_network,
    ),
    Claim(
        "gradient_features.lemma3_21_norm",
        entries=("gradient_features.lemma3_21",),
        says="As a function it has at most 3 r (k + 1) neurons within the norms of Lemma B.51, B_a1 = 2 sqrt k, B_a2 = "
        "2 sqrt(r k (k + 1)) and B_b = (k + 1)/sqrt k.",
        check=check_network_norms,
    ),
    Claim(
        "gradient_features.lemma3_21_features",
        entries=("gradient_features.lemma3_21", "gradient_features.lemma_b50", "gradient_features.definition_b46"),
        says="(D_j, +1) is a gradient feature: G is p_A on the own block and 0 elsewhere.",
        check=check_features,
    ),
    Claim(
        "gradient_features.lemma3_21_sign",
        entries=("gradient_features.lemma3_21",),
        says="(D_j, -1) is a gradient feature as well.",
        check=check_other_sign,
        expected="refuted",
        hits="statement",
        reported="Thesis, Lemma 3.21 and Lemma B.47: '(D_j, -1) in S' for all j, (B.400). True for one block. For r "
        ">= 3 blocks a mirrored neuron has cosine 1/sqrt(1 + 4 (r - 1)) with D_j, 1/3 at r = 3, and through the "
        "structured part no neuron with a negative bias comes beyond 2/sqrt(r + 3), which is below 1 - gamma. The "
        "comparison network can do without these features.",
    ),
    Claim(
        "gradient_features.definition_b46",
        entries=("gradient_features.definition_b46",),
        says="Sure neurons fire on their block all plus and hardly elsewhere (B.49).",
        check=check_activation,
    ),
    Claim(
        "gradient_features.theorem3_22",
        entries=("gradient_features.theorem3_22",),
        says="The derivation (B.477): with the numbers of Lemma B.51 the second term of Theorem 3.12 is at most "
        "2 sqrt 2 r sqrt k/d^((tau - 3)/2).",
        check=check_theorem,
        expected="refuted",
        hits="proof",
        reported="Thesis, proof of Theorem B.52, (B.477): the comparison network of Lemma B.51 has 3 r (k + 1) "
        "neurons, so that r B_a1 B_x1 sqrt(2 gamma) is 3 (k + 1) times that term. The statement, Theorem 3.22, is "
        "not refuted: tau + 3 in place of tau absorbs the factor within the width d^Theta(tau r).",
    ),
    Claim(
        "gradient_features.prop3_23",
        entries=("gradient_features.prop3_23",),
        says="Fixed features have hinge loss of at least 1/2 - sqrt(N) B/(2^k sqrt 2) on some parity.",
        check=check_fixed_features,
    ),
)
