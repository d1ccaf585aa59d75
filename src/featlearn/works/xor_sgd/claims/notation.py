"""Table 1 and Definition 4.2: the parts of a neuron, the margins of the clusters, and what makes a network heavy."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL, Quantity
from featlearn.lab.statement import Statement, equal
from featlearn.lab.uncertainty import Observation
from featlearn.measure import cluster_margins, loss_sizes, signal_heavy, signal_parts
from featlearn.works.xor_sgd.setup import ROOT2, Net, centres, heavy_net, random_net, tensors

EXACT = 1e-12
HOLDS = Quantity("truth value", low=0.0, high=1.0, whole=True)
LABEL = np.array([1.0, 1.0, -1.0, -1.0])
"""y at +mu_1, -mu_1, +mu_2 and -mu_2."""


# parts of a neuron ---------------------------------------------------------------------------------------------------


def draw_neurons(key: Key) -> Net:
    """60 neurons in nine dimensions."""
    return random_net(60, 9, key)


def says_parts(settings: Net) -> Sequence[Statement]:
    """Table 1: w_sig = mu mu^T w / 2 with the mean that the sign of a names, w_opp with the other."""
    mu, w = centres(9), settings.w
    own = np.where((settings.a >= 0)[:, None], mu[0], mu[2])
    other = np.where((settings.a >= 0)[:, None], mu[2], mu[0])
    sig, opp = (0.5 * (w * m).sum(1, keepdims=True) * m for m in (own, other))
    length, far = (np.sign((v * m).sum(1)) * np.linalg.norm(v, axis=1) for v, m in ((sig, own), (opp, other)))
    source = "Section 4, Table 1"
    return (
        equal(
            "w_sig along its mean",
            REAL,
            length,
            source,
            margin=EXACT,
            axis="neuron",
            rival=2 * length,
            rival_says="the projection mu mu^T, without 1/2",
        ),
        equal(
            "w_opp along its mean",
            REAL,
            far,
            source,
            margin=EXACT,
            axis="neuron",
            rival=length,
            rival_says="the two means exchanged",
        ),
        equal(
            "w_perp",
            REAL,
            w - sig - opp,
            source,
            margin=EXACT,
            axis="weight",
            rival=w - sig,
            rival_says="the opposite signal left in",
        ),
        equal(
            "sum of the squared parts",
            POSITIVE,
            (w**2).sum(1),
            f"{source}: the parts are orthogonal",
            margin=1e-11,
            axis="neuron",
            rival=(w**2).sum(1) + 2 * np.abs(length * far),
            rival_says="parts that are not orthogonal: a product term",
        ),
    )


def sees_parts(settings: Net, key: Key) -> Mapping[str, Observation]:
    """The product's decomposition."""
    parts = signal_parts(*tensors(settings))
    return {
        "w_sig along its mean": parts.sig[0].numpy(),
        "w_opp along its mean": parts.opp[0].numpy(),
        "w_perp": parts.perp[0].numpy(),
        "sum of the squared parts": (parts.sig**2 + parts.opp**2 + parts.perp.square().sum(-1))[0].numpy(),
    }


# margins -------------------------------------------------------------------------------------------------------------

ZETA = 0.1


def draw_margins(key: Key) -> Net:
    """24 neurons in seven dimensions, eight of them heavy."""
    heavy, rest = heavy_net(8, 7, key / "heavy", opp=0.05), random_net(16, 7, key / "rest")
    return Net(np.concatenate([heavy.w, rest.w]), np.concatenate([heavy.a, rest.a]))


def says_margins(settings: Net) -> Sequence[Statement]:
    """Table 1 and Definition D.1, as sums over neurons."""
    w, a, p, mu = settings.w, settings.a, len(settings.a), centres(7)
    gamma = np.array([y * sum(a[j] * max(w[j] @ m, 0.0) for j in range(p)) / p for m, y in zip(mu, LABEL, strict=True)])
    g = 2 * np.exp(-gamma) / (1 + np.exp(-gamma))
    own = [mu[0] if s >= 0 else mu[2] for s in a]
    sig = [0.5 * (v @ m) * m for v, m in zip(w, own, strict=True)]
    opp = [np.append(v[:2], np.zeros(5)) - s for v, s in zip(w, sig, strict=True)]
    perp = [np.append(np.zeros(2), v[2:]) for v in w]
    size = np.linalg.norm
    heavy = [bool(size(q) + size(o) <= ZETA * size(s)) for q, o, s in zip(perp, opp, sig, strict=True)]
    plain = np.array([sum(a[j] * max(w[j] @ m, 0.0) for j in range(p) if heavy[j] and sig[j] @ m > 0) / p for m in mu])
    ends = np.exp(-np.array([gamma.max(), gamma.min()]))
    source = "Section 4, Table 1"
    return (
        equal(
            "margins gamma of the four clusters",
            REAL,
            gamma,
            source,
            margin=EXACT,
            axis="cluster",
            rival=gamma * LABEL,
            rival_says="f(mu) without y(mu)",
        ),
        equal(
            "sizes g of the loss derivative",
            POSITIVE,
            g,
            f"{source}, with the loss of Section 2.2",
            margin=EXACT,
            axis="cluster",
            rival=g / 2,
            rival_says="without the factor 2",
        ),
        equal(
            "g of a network of zeros",
            POSITIVE,
            1.0,
            f"{source}, with the loss of Section 2.2",
            margin=EXACT,
            axis="cluster",
            rival=0.5,
            rival_says="without the factor 2",
        ),
        equal(
            "g_min and g_max",
            POSITIVE,
            2 * ends / (1 + ends),
            "Section 4.2: g_min belongs to gamma_max and g_max to gamma_min",
            margin=EXACT,
            rival=2 * ends[::-1] / (1 + ends[::-1]),
            rival_says="the other way round",
        ),
        equal(
            "heavy margins of the four clusters",
            REAL,
            plain * LABEL,
            "Definition D.1, with y(mu) so that they are margins",
            margin=EXACT,
            axis="cluster",
            rival=plain,
            rival_says="a relu(w.mu) without y(mu), negative on +-mu_2",
        ),
    )


def sees_margins(settings: Net, key: Key) -> Mapping[str, Observation]:
    """The product's margins and loss sizes."""
    w, a, means = tensors(settings)
    gamma = cluster_margins(w, a, means, scale=1 / len(settings.a))
    g = loss_sizes(gamma)[0].numpy()
    return {
        "margins gamma of the four clusters": gamma[0].numpy(),
        "sizes g of the loss derivative": g,
        "g of a network of zeros": loss_sizes(cluster_margins(0 * w, 0 * a, means))[0].numpy(),
        "g_min and g_max": np.array([g.min(), g.max()]),
        "heavy margins of the four clusters": signal_heavy(w, a, means, zeta=ZETA, H=0.0).heavy_margins[0].numpy(),
    }


# heavy networks ------------------------------------------------------------------------------------------------------

H = 1.0
LIMIT = math.exp(-10 * H)
"""The largest zeta that Definition 4.2 allows."""
UNEVEN = (0.9, 0.8, 0.7, 0.6)
"""||w_sig|| of the four clusters."""
CLAUSES = (
    "||w_opp|| <= zeta ||w_sig||",
    "exp(6H) ||w_perp|| <= zeta ||w_sig||",
    "E 1(w not in S) ||w||^2 <= zeta times the least heavy margin",
    "E ||w||^2 <= E a^2 + zeta H",
    "E a^2 + zeta H <= 2H",
    "|a| <= ||w||",
    "zeta <= exp(-10H)",
)


def planted(
    lengths: Sequence[float] = UNEVEN, *, opp: float = 0.0, perp: float = 0.0, outside: float = 0.0, lack: float = 0.0
) -> Net:
    """A neuron for each cluster and one of length `outside` that sees no cluster, in six dimensions.

    opp and perp: over ||w_sig||. lack: E ||w||^2 - E a^2.
    """
    mu = centres(6) / ROOT2
    side, rest = mu[[2, 3, 0, 1]], np.eye(6)[2]
    w = np.array([s * (m + opp * o + perp * rest) for s, m, o in zip(lengths, mu, side, strict=True)])
    w = np.concatenate([w, outside * np.eye(6)[3:4]])
    square = (w**2).sum(1)
    a = np.append(LABEL, 1.0) * np.sqrt(square * (1 - lack / square.mean()))
    return Net(w, a)


def pair(clause: str, near: float) -> tuple[Net, float]:
    """A network and its zeta with the two sides of one clause in the ratio `near`, all other clauses met."""
    name = CLAUSES.index(clause)
    if name == 0:
        return planted(opp=near * LIMIT), LIMIT
    if name == 1:
        return planted(perp=near * LIMIT * math.exp(-6 * H)), LIMIT
    if name == 2:
        least = ROOT2 * min(UNEVEN) ** 2 / 5
        return planted(outside=math.sqrt(5 * near * LIMIT * least)), LIMIT
    if name == 3:
        return planted(lack=near * LIMIT * H), LIMIT
    if name == 4:
        return planted((math.sqrt((2 * near * H - LIMIT * H) * 5 / 4),) * 4), LIMIT
    if name == 5:
        net = planted()  # a thousandth of the way, so that E a^2 stays within zeta H of E ||w||^2
        return Net(net.w, net.a * (1 + (near - 1) / 1000 * (np.arange(5) == 3))), LIMIT
    return planted(), near * LIMIT


def draw_heavy(key: Key) -> tuple[tuple[Net, float], ...]:
    """For each clause a network just inside it and one just outside; nothing is random."""
    return tuple(pair(clause, near) for clause in CLAUSES for near in (0.99, 1.01))


def says_heavy(settings: tuple[tuple[Net, float], ...]) -> Sequence[Statement]:
    """Definition 4.2 holds inside and fails outside of each clause."""
    return tuple(
        equal(
            f"inside and outside of: {clause}",
            HOLDS,
            np.array([1.0, 0.0]),
            "Definition 4.2",
            axis="network",
            rival=np.array([1.0, 1.0]),
            rival_says="a definition without this clause",
        )
        for clause in CLAUSES
    )


def sees_heavy(settings: tuple[tuple[Net, float], ...], key: Key) -> Mapping[str, Observation]:
    """What the product's checker says."""
    found = [float(signal_heavy(*tensors(net), zeta=zeta, H=H).holds) for net, zeta in settings]
    return {f"inside and outside of: {c}": np.array(found[2 * i : 2 * i + 2]) for i, c in enumerate(CLAUSES)}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="xor_sgd.decomposition",
        entries=("xor_sgd.decomposition",),
        says="w = w_sig + w_opp + w_perp, orthogonal, with the sign of a deciding which mean is the neuron's own.",
        settings=draw_neurons,
        statements=says_parts,
        observe=sees_parts,
    ),
    Claim(
        id="xor_sgd.margins",
        entries=("xor_sgd.margins",),
        says="gamma_mu = y(mu) f(mu), g_mu = 2 exp(-gamma)/(1 + exp(-gamma)).",
        settings=draw_margins,
        statements=says_margins,
        observe=sees_margins,
        remarks="In our copy, whose formulas are damaged, Appendix D reads g without the factor 2 and the heavy margin "
        "as a relu(w.mu); g follows here from the loss of Section 2.2, and the heavy margin has y(mu), without which "
        "it would be negative on +-mu_2.",
    ),
    Claim(
        id="xor_sgd.signal_heavy",
        entries=("xor_sgd.signal_heavy",),
        says="Definition 4.2 of a (zeta, H)-signal-heavy network, each clause met and broken by one in a hundred.",
        settings=draw_heavy,
        statements=says_heavy,
        observe=sees_heavy,
        remarks="H = 1, zeta = exp(-10), clusters of unequal signal and one neuron that sees none of them. "
        "The "
        "exponent c/3 in the appendix is not legible in our copy; it is taken from zeta^(1/3) of the main text.",
    ),
)
