"""Fixed features and kernels cannot: the averaging lower bounds (Theorem 2, Theorem 29, Corollary 3), exactly.

One lemma carries all three. Parities of different sets are orthonormal on the cube, so by Bessel's inequality
sum_A E[psi f_A]^2 <= E psi^2 <= 1 for each feature psi bounded by 1: N features share a correlation of at most N among
C(D,k) parities, and on the worst one a classifier of norm B has hinge loss at least 1 - B sqrt(N / C(D,k)).
"""

import math
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float, Int

from featlearn.core import Key
from featlearn.kernels import fourier_features, hinge_classifier, kernel_ridge, rbf
from featlearn.lab.pending import Assumption, Case, Claim, Evidence, Tables

Array = np.ndarray
D, K, N = 12, 3, 64  # the enumerated problem: 4096 inputs, 220 parities


def cube(dim: int) -> Float[Array, "n D"]:
    """All 2^dim sign vectors; row r has z_j = -1 where bit j of r is set."""
    return 1.0 - 2.0 * ((np.arange(2**dim)[:, None] >> np.arange(dim)) & 1)


def walsh(values: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
    """Mean of values times every parity: entry S is E[values prod_{j in S} z_j], S a bit mask; n log n."""
    out = np.array(values, dtype=np.float64)
    n, half = len(out), 1
    while half < n:
        pairs = out.reshape(n // (2 * half), 2, half, *out.shape[1:])
        low, high = pairs[:, 0].copy(), pairs[:, 1].copy()
        pairs[:, 0], pairs[:, 1] = low + high, low - high
        half *= 2
    return out / n


def subsets(dim: int, size: int) -> Int[Array, " s"]:
    """Bit masks of all subsets of `size` elements."""
    return np.array([sum(1 << j for j in chosen) for chosen in combinations(range(dim), size)])


def parity(z: Float[Array, "n D"], mask: int) -> Float[Array, " n"]:
    """prod_{j in A} z_j."""
    return z[:, [j for j in range(z.shape[1]) if mask >> j & 1]].prod(1)


def parities(z: Float[Array, "n D"], masks: Int[Array, " s"]) -> Float[Array, "n s"]:
    """All of them as columns."""
    return np.stack([parity(z, int(m)) for m in masks], 1)


def shares(features: Float[Array, "n N"], table: Float[Array, "n s"]) -> Float[Array, " s"]:
    """sum_i E[Psi_i f_A]^2 for every A: how much of a parity the features hold."""
    return ((table.T @ features / len(table)) ** 2).sum(1)


def fixed_features(key: Key, dim: int, width: int) -> dict[str, Float[Array, "n N"]]:
    """Two families drawn before any label is seen, bounded by 1."""
    rng = key.numpy()
    z = cube(dim)
    ridge = np.tanh(z @ rng.normal(size=(dim, width)) * (2 / math.sqrt(dim)) + 0.5 * rng.normal(size=width))
    return {"tanh of a projection": ridge, "random signs": rng.choice([-1.0, 1.0], (len(z), width))}


def best_hinge(features: Array, y: Array, norm: float, weights: Array | None = None, gap: float = 1e-3) -> float:
    """Certified lower end of the minimal hinge loss over ||w|| <= norm, within `gap` of it."""
    p = None if weights is None else torch.from_numpy(weights)
    return hinge_classifier(torch.from_numpy(features), torch.from_numpy(y), norm, weights=p, tolerance=gap).lower


def averaging_bound(norm: Array, width: int, dim: int, size: int) -> Array:
    """1 - B sqrt(N / C(D,k)): what the averaging lemma gives."""
    return np.asarray(1 - norm * math.sqrt(width / math.comb(dim, size)))


def check_parities(key: Key, tables: Tables) -> Evidence:
    """Theorem 29 for uniform inputs."""
    z, masks = cube(D), subsets(D, K)
    families = fixed_features(key, D, N)
    everything = parities(z, masks)  # also the planted features: all 220 parities
    totals = [shares(f, everything).sum() for f in [*families.values(), everything[:, :N]]]
    norms = np.array([0.25, 1.0, 1.75])
    observed = []
    for f in families.values():
        y = everything[:, shares(f, everything).argmin()]
        observed.append([best_hinge(f, y, b) for b in norms])
    planted_norms = np.array([0.25, 0.5, 0.9])
    planted = np.array([best_hinge(everything, everything[:, 0], b) for b in planted_norms])
    k = np.arange(3, 16, 2)
    size = np.array([math.log(math.comb(16 * int(i), int(i))) for i in k])
    width, norm = np.meshgrid(10.0 ** np.arange(0, 9), 10.0 ** np.arange(-4, 9))
    ours = np.minimum(1, norm * np.sqrt(width) / 4**5)
    scale = np.sqrt(2 * width * norm)
    cases = (
        Case(
            "share of all parities together",
            predict=np.full(3, float(N)),
            observe=np.array(totals),
            rival=np.full(3, N / 2),
            relation="at most",
            tolerance=1e-9,
            rival_says="half of it, which 64 parities exceed",
        ),
        Case(
            "hinge loss on the worst parity",
            predict=np.tile(averaging_bound(norms, N, D, K), (2, 1)),
            observe=np.array(observed),
            rival=np.tile(averaging_bound(norms, 1, D, K), (2, 1)),
            relation="at least",
            tolerance=0.0,
            rival_says="the factor N dropped",
        ),
        Case(
            "planted features reach the bound",
            predict=averaging_bound(planted_norms, math.comb(D, K), D, K),
            observe=planted,
            rival=averaging_bound(planted_norms, 2 * math.comb(D, K), D, K),
            relation="equal",
            tolerance=2e-6,
            rival_says="2N instead of N",
        ),
        Case(
            "log C(16k, k), k = 3, 5, ..., 15",
            predict=k * math.log(16),
            observe=size,
            rival=k * math.log(64),
            relation="at least",
            tolerance=0.0,
            rival_says="8^k in place of 4^k under B sqrt(N)",
        ),
        Case(
            "B sqrt(N)/4^k under the reading sqrt(2N) B/2^k",
            predict=norm * np.sqrt(2 * width) / 2**5,
            observe=ours,
            rival=norm * np.sqrt(2 * width) / 8**5,
            relation="at most",
            tolerance=0.0,
            rival_says="8^k instead of 2^k",
        ),
        Case(
            "B sqrt(N)/4^k under the reading sqrt(2NB)/2^k",
            predict=scale / 2**5,
            observe=ours,
            rival=scale / 8**5,
            relation="at most",
            tolerance=0.0,
            rival_says="8^k instead of 2^k",
        ),
    )
    comment = (
        "The averaging bound 1 - B sqrt(N/C(D,k)) holds for every D and k, is reached by the features that are all "
        "parities, and implies both readings of the root, because C(D,k) >= 16^k when k <= D/16."
    )
    data = {
        "norms": norms,
        "observed": np.array(observed),
        "bound": averaging_bound(norms, N, D, K),
        "planted_norms": planted_norms,
        "planted": planted,
    }
    return Evidence(cases, comment=comment, data=data)


def mixture_weights(z: Float[Array, "n D"], mask: int, p_o: float) -> Float[Array, " n"]:
    """Probabilities of the structured parity mixture (emergence.definition_parity_mix) on the cube."""
    inside = np.array([bool(mask >> j & 1) for j in range(z.shape[1])])
    rate = p_o / (2 - 2 * p_o)
    on = (z[:, ~inside] > 0).sum(1)
    rest = rate**on * (1 - rate) ** ((~inside).sum() - on)
    same = np.abs(z[:, inside].sum(1)) == inside.sum()
    return p_o / len(z) + (1 - p_o) * same * rest / 2


def check_mixture(key: Key, tables: Tables) -> Evidence:
    """Theorem 2 on the mixture."""
    z, masks = cube(D), subsets(D, K)
    table = parities(z, masks)
    norms = np.array([0.5, 1.5])
    predict, observed, whole = [], [], []
    for p_o in (0.5, 0.25):
        for f in fixed_features(key, D, N).values():
            mask = int(masks[shares(f, table).argmin()])
            weights = mixture_weights(z, mask, p_o)
            predict.append(p_o * averaging_bound(norms, N, D, K))
            whole.append(averaging_bound(norms, N, D, K))
            observed.append([best_hinge(f, parity(z, mask), b, weights) for b in norms])
    # coordinates as features: weights 1/3 on A solve the all-or-none component and see nothing of the parity
    coordinates = np.array(
        [
            best_hinge(z, parity(z, int(masks[0])), 3**-0.5, mixture_weights(z, int(masks[0]), p), 1e-6)
            for p in (0.5, 0.25)
        ]
    )
    planted = np.hstack([table, z])  # all parities and all coordinates
    planted_norms = np.array([0.9])
    mixed = mixture_weights(z, int(masks[0]), 0.5)
    reached = np.array([best_hinge(planted, table[:, 0], b, mixed, 0.01) for b in planted_norms])
    at = (100, 5, 600)
    trivial = np.array([2 ** at[1] / math.sqrt(2 * at[2]), math.sqrt(math.comb(at[0], at[1]) / at[2])])
    cases = (
        Case(
            "hinge loss on the mixture, worst set",
            predict=np.array(predict),
            observe=np.array(observed),
            rival=np.array(whole),
            relation="at least",
            tolerance=0.0,
            rival_says="the factor p_o dropped",
        ),
        Case(
            "coordinates alone reach p_o",
            predict=np.array([0.5, 0.25]),
            observe=coordinates,
            rival=np.array([0.25, 0.125]),
            relation="equal",
            tolerance=2e-6,
            rival_says="p_o / 2",
        ),
        Case(
            "parities and coordinates as features",
            predict=0.5 * averaging_bound(planted_norms, planted.shape[1], D, K),
            observe=reached,
            rival=0.5 * averaging_bound(planted_norms / 2, planted.shape[1], D, K),
            relation="at least",
            tolerance=0.0,
            rival_says="B / 2 instead of B",
        ),
        Case(
            "norm at which the bound says nothing (D=100, k=5, N=600): reported, averaging",
            predict=np.array([0.924, 354.2]),
            observe=trivial,
            rival=np.array([0.653, 250.5]),
            relation="equal",
            tolerance=np.array([5e-4, 0.05]),
            rival_says="2N instead of N under the root",
        ),
    )
    premises = (
        Assumption("3 < k <= D/16, k odd, at the sizes of Table 1", True, "D = 100, k = 5"),
        Assumption("features bounded by 1 and drawn before the labels", True),
    )
    comment = (
        "The mixture loses at least p_o times the loss on its fair component. At D = 100, k = 5 and 600 features "
        "the reported bound says something for norms up to 0.92, the averaging bound for norms up to 354. How far the "
        "root of sqrt(2NB) reaches is not legible in our copies; both readings follow."
    )
    return Evidence(
        cases, premises, comment, {"norms": norms, "observed": np.array(observed), "bound": np.array(predict)}
    )


def eigenvalue(dim: int, size: int | Array, bandwidth: float | Array) -> Array:
    """Eigenvalue of the Gaussian kernel on the uniform cube at every parity of `size`: a binomial weight."""
    e = np.exp(-2 / np.asarray(bandwidth) ** 2)
    return np.asarray(((1 - e) / 2) ** size * ((1 + e) / 2) ** (dim - size))


def best_bandwidth(dim: int, size: int) -> float:
    """The bandwidth most favourable to parities of `size`: (1 - e^(-2/h^2)) / 2 = size / dim."""
    return math.sqrt(-2 / math.log(1 - 2 * size / dim))


def check_kernels(key: Key, tables: Tables) -> Evidence:
    """Corollary 3 in its sharp form, for one function and for a ball of them, and the route of its proof."""
    small = 8
    z, masks, h = cube(small), subsets(small, K), best_bandwidth(small, K)
    kernel = rbf(torch.from_numpy(z), torch.from_numpy(z), bandwidth=h).numpy()
    y = parity(z, int(masks[0]))
    image = kernel @ y / len(z)
    sizes = np.array([bin(m).count("1") for m in range(2**small)])
    characters = parities(z, np.arange(2**small))
    ball = characters * np.sqrt(eigenvalue(small, sizes, h))  # the kernel's own features
    norms = np.array([0.5, 2.0, 5.0])
    hinge = np.array([best_hinge(ball, y, b) for b in norms])
    count = math.comb(small, K)
    widths = np.geomspace(0.3, 30, 60)

    dims = np.array([[12, 3], [100, 5], [480, 30]])
    lam = np.array([eigenvalue(d, k, best_bandwidth(d, k)) for d, k in dims.tolist()])
    coefficient_norm = 2.0 ** (-dims[:, 0] / 2) / lam  # alpha = f_A / (2^D lam) on all points gives f = f_A
    total = np.array([float(math.comb(int(d), int(k))) for d, k in dims])
    z12 = torch.from_numpy(cube(12))
    y12 = z12[:, :3].prod(1)
    full = rbf(z12, z12, bandwidth=best_bandwidth(12, 3)) @ (y12 / (2**12 * lam[0]))
    planted_hinge = float((1 - y12 * full).clamp_min(0).mean())
    others = np.maximum(1 - parities(z12.numpy(), subsets(12, 3)) * full.numpy()[:, None], 0).mean(0)

    route, detail = rff_route(key / "route")
    cases = (
        Case(
            "K f_A = lam f_A",
            predict=eigenvalue(small, K, h) * y,
            observe=image,
            rival=eigenvalue(small, K + 1, h) * y,
            relation="equal",
            tolerance=1e-12,
            rival_says="the eigenvalue of one more pattern",
        ),
        Case(
            "C(D,k) lam_k over bandwidths",
            predict=1.0,
            observe=float((count * eigenvalue(small, K, widths)).max()),
            rival=0.25,
            relation="at most",
            tolerance=0.0,
            rival_says="a quarter",
        ),
        Case(
            "hinge loss in the ball of radius L",
            predict=1 - norms / math.sqrt(count),
            observe=hinge,
            rival=1 - norms / (2 * math.sqrt(count)),
            relation="at least",
            tolerance=0.0,
            rival_says="L / 2 instead of L",
        ),
        Case(
            "one function, hinge loss over all parities, mean: 1 - 1/sqrt(C(D,k))",
            predict=1 - 1 / math.sqrt(total[0]),
            observe=float(others.mean()),
            rival=1.0,
            relation="at least",
            tolerance=1e-9,
            rival_says="1, the loss of a constant 0",
        ),
        Case(
            "all 2^D points as centres give the label itself",
            predict=0.0,
            observe=planted_hinge,
            rival=1 - coefficient_norm[0] / math.sqrt(total[0]),
            relation="equal",
            tolerance=1e-9,
            rival_says="1 - L / sqrt(C(D,k)) with L the coefficient norm",
        ),
        Case(
            "so the norm in the bound is the RKHS norm",
            predict=1 - 1 / np.sqrt(lam * total),
            observe=np.zeros(3),
            rival=1 - coefficient_norm / np.sqrt(total),
            relation="at least",
            tolerance=0.0,
            rival_says="the coefficient norm in its place",
        ),
        Case(
            "kernel ridge through Fourier features",
            predict=route["bound"],
            observe=route["hinge"],
            rival=route["chance"],
            relation="at least",
            tolerance=0.0,
            rival_says="chance, up to the same error",
        ),
    )
    comment = (
        "As stated, for any f some member of the family: true of every f, as the mean over all sets is at least 1 - "
        "1/sqrt(C(D,k)) on the fair component. Uniformly over a ball of RKHS norm L: p_o (1 - L / sqrt(C(D,k))), for "
        "every kernel with K(x,x) <= 1. Uniformly over coefficients ||alpha|| <= L, which the corollary does not say, "
        f"the number of centres counts: with all 2^D points a norm of {coefficient_norm[1]:.1e} gives hinge loss 0 at "
        f"D = 100, k = 5. {detail}"
    )
    return Evidence(
        cases, comment=comment, data={"norms": norms, "hinge": hinge, "bound": 1 - norms / math.sqrt(count)}
    )


def rff_route(key: Key, width: int = 2048, p_o: float = 0.5) -> tuple[dict[str, float], str]:
    """The proof's route: kernel ridge, replaced by Fourier features; bound with the realised N, B and sup error."""
    z, masks, h = cube(D), subsets(D, K), best_bandwidth(D, 1)
    features = fourier_features(D, width, key / "features", bandwidth=h)
    zt = torch.from_numpy(z)
    psi = features(zt) * math.sqrt(width / 2)  # in [-1, 1]
    mask = int(masks[shares(psi.numpy(), parities(z, masks)).argmin()])
    weights, y = mixture_weights(z, mask, p_o), parity(z, mask)
    rows = (key / "data").numpy().choice(len(z), 300, p=weights)
    fit = kernel_ridge(lambda u, v: rbf(u, v, bandwidth=h), zt[rows], torch.from_numpy(y[rows]), penalty=10.0)
    score = fit(zt)[:, 0]
    w = (2 / width) * (psi[rows].T @ fit.coefficients)[:, 0]
    error = float((psi @ w - score).abs().max())
    hinge = float((torch.from_numpy(weights) * (1 - torch.from_numpy(y) * score).clamp_min(0)).sum())
    inner = averaging_bound(np.array(float(w.norm())), width, D, K)
    found = {"bound": p_o * float(inner) - error, "hinge": hinge, "chance": 1 - error}
    return found, f"Route at D = 12, k = 3: N = {width}, B = {float(w.norm()):.3f}, sup error {error:.3f}."


def draw_theorem2(evidence: Evidence) -> object:
    """Hinge loss against the norm bound, with the bound below it."""
    from matplotlib.figure import Figure

    data = evidence.data or {}
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    ax = figure.subplots()
    names = (
        "tanh features, p_o = 1/2",
        "random signs, p_o = 1/2",
        "tanh features, p_o = 1/4",
        "random signs, p_o = 1/4",
    )
    for row, bound, name, colour in zip(data["observed"], data["bound"], names, ("C0", "C1", "C0", "C1"), strict=True):
        style = "-" if "1/2" in name else "--"
        ax.plot(data["norms"], row, style, marker="o", color=colour, label=name)
        ax.plot(data["norms"], np.maximum(bound, 0), style, color="0.5")
    ax.set_xlabel("norm bound B")
    ax.set_ylabel("smallest hinge loss on the worst set")
    ax.set_title("Fixed features (markers) stay above the bound (grey)", fontsize=10)
    ax.legend(fontsize=8)
    return figure


CLAIMS = (
    Claim(
        "emergence.theorem2",
        entries=("emergence.theorem2",),
        says="A linear model of norm at most B on N fixed features bounded by 1 has hinge loss at least p_o (1 - B "
        "sqrt(N / C(D,k))) on some member of the family, hence at least p_o (1 - sqrt(2N) B / 2^k).",
        check=check_mixture,
        draw=draw_theorem2,
    ),
    Claim(
        "emergence.theorem29",
        entries=("emergence.theorem29",),
        says="For uniform inputs some k-parity leaves every classifier of norm B on N fixed bounded "
        "features with hinge "
        "loss at least 1 - B sqrt(N / C(D,k)), hence at least 1 - sqrt(2N) B / 2^k when k <= D/16.",
        check=check_parities,
    ),
    Claim(
        "emergence.corollary3",
        entries=("emergence.corollary3",),
        says="Any one predictor has hinge loss at least p_o (1 - 1 / sqrt(C(D,k))) on some member of "
        "the family, and on one "
        "and the same member all predictors of RKHS norm L have at least p_o (1 - L / sqrt(C(D,k))).",
        check=check_kernels,
    ),
)
