"""Theorem 7.2: optimal representations of a given norm ignore spurious features and encode invariant ones."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import minimize

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_least, control, equal
from featlearn.lab.uncertainty import Observation

Array = np.ndarray
Loss = Callable[[Array], Array]


def logistic(t: Array) -> Array:
    """log(1 + exp(-t))."""
    return np.logaddexp(0, -t)


def hinge(t: Array) -> Array:
    """max(0, 1 - t): convex, bounded below, decreasing, but not strictly."""
    return np.maximum(0, 1 - t)


def concave(t: Array) -> Array:
    """-exp(t): decreasing, and not convex."""
    return -np.exp(t)


# enumeration ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """All (z, z+, z-) of finitely many z: law (n) of z, and kin (n, n): the law of z+ given z."""

    law: Array
    kin: Array

    @staticmethod
    def of(invariant: Sequence[float], spurious: Sequence[float], shared: bool = False) -> "Pairs":
        """z = (z_R, z_U), the second running first; shared: pairs that have z_U in common too."""
        p, q = np.array(invariant), np.array(spurious)
        kin = np.kron(np.eye(len(p)), np.eye(len(q)) if shared else np.tile(q, (len(q), 1)))
        return Pairs(np.outer(p, q).ravel(), kin)

    def loss(self, gram: Array, loss: Loss) -> float:
        """E l(phi(z)^T (phi(z+) - phi(z-))) from inner products (n, n)."""
        t = gram[:, :, None] - gram[:, None, :]
        return float(np.einsum("a,ab,c,abc->", self.law, self.kin, self.law, loss(t)))

    def slope(self, gram: Array) -> tuple[float, Array]:
        """The logistic loss, and its derivatives by inner products."""
        t = gram[:, :, None] - gram[:, None, :]
        weight = self.law[:, None, None] * self.kin[:, :, None] * self.law
        pull = -weight / (1 + np.exp(t))
        return float((weight * np.logaddexp(0, -t)).sum()), pull.sum(2) - pull.sum(1)


def optimum(pairs: Pairs, norm: float, k: int, key: Key, starts: int = 2) -> Array:
    """The best of several descents over representations (n, k) whose values all have this norm."""
    n = len(pairs.law)
    scale = 1 / norm**4  # differences of losses are of order norm^4 where the norm is small

    def value(flat: Array) -> tuple[float, Array]:
        raw = flat.reshape(n, k)
        size = np.linalg.norm(raw, axis=1, keepdims=True)
        phi = norm * raw / size
        loss, by_gram = pairs.slope(phi @ phi.T)
        by_phi = (by_gram + by_gram.T) @ phi
        by_raw = norm * (by_phi - phi * (by_phi * phi).sum(1, keepdims=True) / norm**2) / size
        # a term that keeps the free lengths at 1
        return scale * (loss - math.log(2)) + float(((size - 1) ** 2).sum()), (
            scale * by_raw + 2 * (size - 1) * raw / size
        ).ravel()

    options = {"maxiter": 3000, "maxfun": 6000, "ftol": 1e-15, "gtol": 1e-8}
    found = [
        minimize(value, (key / i).numpy().normal(size=n * k), jac=True, method="L-BFGS-B", options=options)
        for i in range(starts)
    ]
    raw = min(found, key=lambda f: float(f.fun)).x.reshape(n, k)
    return norm * raw / np.linalg.norm(raw, axis=1, keepdims=True)


# Theorem 7.2 (1) -----------------------------------------------------------------------------------------------------

THREE, TWO, NORMS, DRAWS = (0.5, 0.3, 0.2), (0.6, 0.4), (0.7, 1.5), 40
IGNORES, AUGMENTED = (
    "largest ||phi(z_R, z_U) - phi(z_R, z_U')|| / B_r at the optimum",
    "the same where pairs share z_U too",
)
JENSEN, CONCAVE = "loss of phi less that of phi_zR", "the same for a concave loss"
PADDED, COLLAPSED = "loss of phi less that of its padded average", "loss of phi less that of a constant"
SHORT = "largest norm of phi_zR over B_r"
HINGE, STRICT = (
    "hinge loss of a representation that encodes z_U less that of its padded average",
    "the same for the logistic loss",
)


def says_spurious(settings: None) -> Sequence[Statement]:
    """By (A3) and Jensen's inequality the average over z_U has no larger loss; padded by sqrt(B_r^2 - ||phi_zR||^2)
    times the one-hot code of z_R it has norm B_r, as (A2) asks, and no larger loss either."""
    source = "Theorem 7.2 (1)"
    return (
        equal(
            IGNORES,
            POSITIVE,
            np.zeros(len(NORMS)),
            source,
            margin=1e-4,
            axis="norm",
            rival=control(AUGMENTED),
            rival_says="no transformation",
        ),
        at_least(
            JENSEN,
            REAL,
            np.zeros(DRAWS),
            f"{source}, its proof, (F.26)-(F.28)",
            margin=1e-12,
            axis="representation",
            rival=control(CONCAVE),
            rival_says="(A3) without convexity",
        ),
        at_least(
            PADDED,
            REAL,
            np.zeros(DRAWS),
            "the average alone is shorter than (A2) asks; padding mends the proof where outputs suffice",
            margin=1e-12,
            axis="representation",
            rival=control(COLLAPSED),
            rival_says="an average over z_R as well",
            form="derived",
        ),
        equal(
            HINGE,
            REAL,
            0.0,
            "l(t) = 0 beyond t = 1, and l is linear in all t of a pair with z_R = z_R-",
            margin=1e-12,
            rival=control(STRICT),
            rival_says="a strictly convex loss",
            form="derived",
        ),
    )


def averaged(phi: Array) -> Array:
    """phi (nr, nu, k) averaged over z_U, at every z: (nr, nu, k)."""
    return np.broadcast_to(np.tensordot(phi, np.array(TWO), (1, 0))[:, None], phi.shape)


def padded(phi: Array) -> Array:
    """The average beside one-hot codes that bring it to the norm of phi."""
    mean = averaged(phi)
    missing = np.sqrt(np.maximum((phi[0, 0] ** 2).sum() - (mean**2).sum(-1), 0))
    code = np.broadcast_to(np.eye(len(phi))[:, None], (*phi.shape[:2], len(phi)))
    return np.concatenate([mean, missing[..., None] * code], -1)


def loss_of(pairs: Pairs, phi: Array, loss: Loss = logistic) -> float:
    """Of a representation (nr, nu, k)."""
    flat = phi.reshape(-1, phi.shape[-1])
    return pairs.loss(flat @ flat.T, loss)


def sees_spurious(settings: None, key: Key) -> Mapping[str, Observation]:
    """By enumeration; optima by descent."""
    pairs, plain = Pairs.of(THREE, TWO), Pairs.of(THREE, TWO, shared=True)
    g = key.numpy()

    def variation(law: Pairs, norm: float) -> float:
        phi = optimum(law, norm, 5, key / "start").reshape(3, 2, 5)
        return float(np.linalg.norm(phi[:, 0] - phi[:, 1], axis=-1).max()) / norm

    found: dict[str, list[float]] = {name: [] for name in (JENSEN, CONCAVE, PADDED, COLLAPSED)}
    for _ in range(DRAWS):
        phi = g.normal(size=(3, 1, 4)) + 0.7 * g.normal(size=(3, 2, 4))
        phi = 1.5 * phi / np.linalg.norm(phi, axis=-1, keepdims=True)
        mean, own = averaged(phi), loss_of(pairs, phi)
        found[JENSEN].append(own - loss_of(pairs, mean))
        found[CONCAVE].append(loss_of(pairs, phi, concave) - loss_of(pairs, mean, concave))
        found[PADDED].append(own - loss_of(pairs, padded(phi)))
        found[COLLAPSED].append(own - math.log(2))
    code, sign = np.eye(3)[:, None] + np.zeros((3, 2, 3)), np.zeros((3, 2, 1))
    sign[:, 0], sign[:, 1] = 1, -1
    encodes = 2 * np.concatenate([math.sqrt(1 - 1 / 16) * code, sign / 4], -1)
    gaps = [loss_of(pairs, encodes, loss) - loss_of(pairs, padded(encodes), loss) for loss in (hinge, logistic)]
    return {
        IGNORES: np.array([variation(pairs, b) for b in NORMS]),
        AUGMENTED: np.array([variation(plain, b) for b in NORMS]),
        **{name: np.array(v) for name, v in found.items()},
        HINGE: gaps[0],
        STRICT: gaps[1],
    }


# Theorem 7.2 (2) -----------------------------------------------------------------------------------------------------

RARE = (0.5, 0.2, 0.1, 0.05, 0.02)
"""Pr[z_2 = 1], z_1 a fair bit: z_2 alone differs between two draws with probability q (1 - q)."""
MASSES = (0.6, 0.7, 0.8)
"""Of (z_1, z_2) = (0, 0) where (0, 1) and (1, 1) share the rest as one to two and (1, 0) does not occur: z_1 and z_2
depend on each other, and z_2 alone differs more often than z_1 alone."""
SMALL, ENCODED = 0.4, 0.1
ENCODES, UNSEEN = (
    "||phi(0, 1) - phi(1, 1)|| / B_r at the optimum, B_r = B_1, z_1 and z_2 dependent",
    "the same at B_r = 0.4",
)
LEAST = "least B_r at which (F.29) improves on phi = +-B_r (1, 0) by z_1"
RISES = "this least norm over that of the next more spread-out z_2"


def alone(q: float) -> float:
    """Pr[z_1 = z_1-, z_2 != z_2-]."""
    return q * (1 - q)


def crossing(p: float) -> float:
    """B with p (l(0) - l(1/2)) = (l(2 B^2 - 1/2) - l(2 B^2))/2, l logistic, solved for e^(-2 B^2): T_2 against T_1 of
    the antipodal representation of a fair z_1, which differs with probability 1/2, alpha^2 = 1/(2 B^2)."""
    step = math.exp(2 * p * (math.log(2) - math.log1p(math.exp(-0.5))))
    return math.sqrt(math.log((math.exp(0.5) - step) / (step - 1)) / 2)


def says_encodes(settings: None) -> Sequence[Statement]:
    """There is B_i such that for B_r >= B_i the optimum encodes z_i; the proof's decreases in Pr[z_i alone differs]."""
    source = "Theorem 7.2 (2)"
    crossings = np.array([crossing(alone(q)) for q in RARE])
    return (
        at_least(
            ENCODES,
            POSITIVE,
            np.full(len(MASSES), ENCODED),
            f"{source}; B_1 from its proof, (F.31)-(F.34) with alpha^2 = 1/(2 B_r^2)",
            axis="Pr[z = (0, 0)]",
            rival=control(UNSEEN),
            rival_says="left out, as at a smaller norm",
            form="criterion",
        ),
        equal(
            LEAST,
            POSITIVE,
            crossings,
            f"{source}, its proof: T_1 and T_2 for this phi in closed form",
            margin=1e-6 * crossings,
            axis="Pr[z_2 = 1]",
            rival=np.array([crossing(2 * alone(q)) for q in RARE]),
            rival_says="Pr[z_2 != z_2-], whatever z_1 is",
        ),
        at_least(
            RISES,
            POSITIVE,
            np.ones(len(RARE) - 1),
            f"{source}: B_i is monotonically decreasing in Pr[z_i alone differs]",
            axis="Pr[z_2 = 1]",
            rival=0.99,
            rival_says="increasing",
        ),
    )


def mixed(norm: float, share: float) -> Array:
    """(F.29) on z = (z_1, z_2): sqrt(1 - share) f beside sqrt(share) ||f|| times the one-hot code of z; (4, 5)."""
    f = norm * np.array([[1.0], [1.0], [-1.0], [-1.0]])
    return np.concatenate([math.sqrt(1 - share) * f, math.sqrt(share) * norm * np.eye(4)], 1)


def bits(q: float) -> list[float]:
    """The law of (z_1, z_2), z_1 fair."""
    return [(1 - q) / 2, q / 2, (1 - q) / 2, q / 2]


def dependent(c: float) -> Pairs:
    """(0, 0), (0, 1) and (1, 1) of these masses."""
    return Pairs.of((c, (1 - c) / 3, 2 * (1 - c) / 3), (1.0,))


def independent(c: float) -> Pairs:
    """(0, 0), (0, 1), (1, 0), (1, 1) of the same laws of z_1 and of z_2."""
    one, two = 2 * (1 - c) / 3, 1 - c
    return Pairs.of(np.outer((1 - one, one), (1 - two, two)).ravel().tolist(), (1.0,))


def by_one(pairs: Pairs, norm: float, key: Key) -> float:
    """||phi - phi'|| / B_r of the optimum between values in which z_1 alone differs, the largest of them."""
    phi = optimum(pairs, norm, 3, key / "start")
    apart = phi[1:2] - phi[2:] if len(phi) == 3 else phi[:2] - phi[2:]
    return float(np.linalg.norm(apart, axis=1).max()) / norm


def sees_encodes(settings: None, key: Key) -> Mapping[str, Observation]:
    """Optima by descent; losses by enumeration, and their crossing by bisection."""
    seen = []
    for c in MASSES:
        norms = sufficient_norm((2 * (1 - c) / 3) ** 2), SMALL  # z_1 alone differs with twice (1 - c)/3 2 (1 - c)/3
        seen.append([by_one(dependent(c), norm, key) for norm in norms])
    least = []
    for q in RARE:
        pairs = Pairs.of(bits(q), (1.0,))

        def gain(b: float, pairs: Pairs = pairs) -> float:
            one, two = mixed(b, 0.0), mixed(b, 0.5 / b**2)
            return pairs.loss(one @ one.T, logistic) - pairs.loss(two @ two.T, logistic)

        least.append(first_above(gain))
    return {
        ENCODES: np.array(seen)[:, 0],
        UNSEEN: np.array(seen)[:, 1],
        LEAST: np.array(least),
        RISES: np.array(least)[1:] / np.array(least)[:-1],
    }


def sufficient_norm(p: float) -> float:
    """B_i of the proof, beyond which (F.29) improves on every f: p (l(0) - l(1/2)) = (1 - p) (l(B^2 - 1/2) - l(B^2)),
    since no T_1 rises by more than the latter."""

    def gain(b: float) -> float:
        value = logistic(np.array([0.0, 0.5, b * b - 0.5, b * b]))
        return float(p * (value[0] - value[1]) - (1 - p) * (value[2] - value[3]))

    return first_above(gain)


def first_above(gain: Callable[[float], float], low: float = math.sqrt(0.5), high: float = 10.0, n: int = 60) -> float:
    """The norm from `low`, where alpha is 1, to `high` at which a gain that rises with it becomes positive."""
    for _ in range(n):
        middle = (low + high) / 2
        low, high = (low, middle) if gain(middle) > 0 else (middle, high)
    return high


# the order of features -----------------------------------------------------------------------------------------------

CASES = tuple(product((0.5, 0.1, 0.01), (0.2, 0.7, 2.0)))
LATE = tuple((q, b) for q, b in CASES if b < 1)
"""Below the proof's B_2 of every q."""
NORM, NORMS_BELOW = (0.2, 1.2), (0.2, 0.5)
"""Where the threshold is looked for; below the thresholds of all masses."""
THRESHOLD, NONE = (
    "least B_r at which the optimum encodes z_1, z_1 and z_2 dependent",
    "the same of independent z_1 and z_2",
)
SPREAD = "||phi(0, 0) - phi(0, 1)|| / B_r at the optimum, B_r = 0.2 and 0.5, z_1 and z_2 dependent"
AT_ONE, WITH_MORE = (
    "loss of +-B_r by z_1 less the least loss with one output",
    "the same less the least loss with four outputs",
)
RIGHT = "loss of +-B_r (1, 0) by z_1 less that of +-B_r (1, 0) or +-B_r (0, 1) by z_2, a fair z_1 and independent z_2"


def says_order(settings: None) -> Sequence[Statement]:
    """Contrastive learning "tends to favor" more spread-out features and "first encodes" them: where z_1 and z_2 depend
    on each other, z_2 is encoded at every norm and z_1 from a threshold on.

    A small norm asks for the least ||E phi||: a value of mass c > 1/2 sends all others to its antipode, which
    tells z_2 and not z_1. Angles x and y of the others from there change the loss by B^2 times s (p x^2 + q y^2) c -
    p q (x + y)^2/2, s = 1/(1 + e^(2 B^2)): never below 0 where c s >= (1 - c)/2.
    """
    source = "Section 7.2.1, below Theorem 7.2, read as a tendency"
    gains = [
        alone(q) * (math.log(2) + math.log1p(math.exp(-2 * b * b)) - 2 * math.log1p(math.exp(-b * b))) for q, b in CASES
    ]
    turns = np.array([math.sqrt(math.log((3 * c - 1) / (1 - c)) / 2) for c in MASSES])
    return (
        equal(
            THRESHOLD,
            POSITIVE,
            turns,
            f"{source}: e^(2 B^2) = (3 c - 1)/(1 - c)",
            margin=0.01 * turns,
            axis="Pr[z = (0, 0)]",
            rival=control(NONE),
            rival_says="independent features, which have no threshold",
            form="derived",
        ),
        equal(
            SPREAD,
            POSITIVE,
            np.full(len(MASSES) * len(NORMS_BELOW), 2.0),
            f"{source}: (0, 1) opposite (0, 0)",
            margin=1e-3,
            axis="Pr[z = (0, 0)] and B_r",
            rival=math.sqrt(3),
            rival_says="three values evenly apart",
            form="derived",
        ),
        equal(
            RIGHT,
            REAL,
            np.array(gains),
            "p (l(0) - l(B^2) + l(2 B^2) - l(B^2)) > 0 for every strictly convex l, p > 0 and B > 0",
            margin=1e-12,
            axis="Pr[z_2 = 1] and B_r",
            rival=0.0,
            rival_says="z_2 does not matter",
            form="derived",
        ),
        equal(
            AT_ONE,
            REAL,
            np.zeros(len(LATE)),
            f"{source}, of the number of outputs",
            margin=1e-12,
            axis="Pr[z_2 = 1] and B_r",
            rival=control(WITH_MORE),
            rival_says="four outputs",
            form="derived",
        ),
    )


def turned(norm: float) -> Array:
    """z_1 in a sign, z_2 in the direction: (4, 2)."""
    return norm * np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])


def least_of_signs(pairs: Pairs, norm: float) -> float:
    """The least loss of representations (4, 1) of this norm, by enumeration."""
    found = [norm * np.array(signs)[:, None] for signs in product((1.0, -1.0), repeat=4)]
    return min(pairs.loss(phi @ phi.T, logistic) for phi in found)


def threshold(pairs: Pairs, key: Key) -> float:
    """The norm from which z_1 is encoded, by bisection."""
    low, high = NORM
    if by_one(pairs, low, key) > ENCODED:
        return low
    return first_above(lambda norm: by_one(pairs, norm, key) - ENCODED, low, high, 9)


def sees_order(settings: None, key: Key) -> Mapping[str, Observation]:
    """Optima by descent, with one output by enumeration."""
    far = []
    for c, norm in product(MASSES, NORMS_BELOW):
        phi = optimum(dependent(c), norm, 3, key / "start")
        far.append(float(np.linalg.norm(phi[0] - phi[1])) / norm)
    one, four, gains = [], [], []
    for q, b in CASES:
        pairs = Pairs.of(bits(q), (1.0,))
        plain, two = mixed(b, 0.0), turned(b)
        own = pairs.loss(plain @ plain.T, logistic)
        gains.append(own - pairs.loss(two @ two.T, logistic))
        if (q, b) in LATE:
            phi = optimum(pairs, b, 4, key / "start")
            one.append(own - least_of_signs(pairs, b))
            four.append(own - pairs.loss(phi @ phi.T, logistic))
    return {
        THRESHOLD: np.array([threshold(dependent(c), key) for c in MASSES]),
        NONE: np.array([threshold(independent(c), key) for c in MASSES]),
        SPREAD: np.array(far),
        AT_ONE: np.array(one),
        WITH_MORE: np.array(four),
        RIGHT: np.array(gains),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="tradeoff.theorem7_2_1",
        entries=("tradeoff.theorem7_2_1",),
        says="Under (A1) to (A3) the optimal representation does not encode spurious features.",
        statements=says_spurious,
        observe=sees_spurious,
        remarks="'The optimal representation' is one of several where l is not strictly convex: with the hinge loss "
        "some encode z_U. That one ignores it stands for every l of (A3).",
    ),
    Claim(
        id="tradeoff.theorem7_2_2",
        entries=("tradeoff.theorem7_2_2",),
        says="Beyond a norm B_i, which decreases in the probability that z_i alone differs, the optimal representation "
        "encodes z_i.",
        statements=says_encodes,
        observe=sees_encodes,
        remarks="Independent features are encoded at every norm (tradeoff.theorem7_2_order) and do not test it.",
    ),
    Claim(
        id="tradeoff.theorem7_2_order",
        entries=("tradeoff.theorem7_2_2",),
        says="Contrastive learning tends to encode more spread-out invariant features first as B_r grows: it does of "
        "some dependent features; independent ones it encodes at every norm.",
        statements=says_order,
        observe=sees_order,
        remarks="The text says 'suggests' and 'tends to favor'. B_i of Theorem 7.2 is sufficient. A feature that is "
        "independent of all others is encoded at every norm, where outputs suffice: f(z_-i) (1, 0) or f(z_-i) (0, 1) "
        "by z_i changes, where z_i differs, the mean of l(B^2 - f f-) to l(B^2), which is less by Jensen's inequality "
        "for every strictly convex l. Thresholds in the order of the text need dependent features, or few outputs.",
    ),
)
