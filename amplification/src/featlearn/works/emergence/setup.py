"""What claims of the work share: exact population quantities of the pattern family.

The relevant block is enumerated, the background enters by Fourier transforms.

A member of the family is a mixture: given its component, the relevant block has a table of probabilities and every
background bit is 1 at one rate, independently. Then E[y phi_j F(<phi, q> + b)] needs no sampling even for 2^100 inputs:
the block is a finite sum, and the background enters through the product of its characteristic functions.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import norm

from featlearn.nets import TwoLayer

Array = np.ndarray


@dataclass(frozen=True)
class Family:
    """An exact law of (phit, y); relevant patterns are the first k of D.

    block (B, k): bit vectors of the relevant patterns. y (B): their labels in {-1, +1}.
    chance (c, B): Pr[component, block], summing to 1. rate (c): Pr[background bit = 1 | component].
    """

    D: int
    block: Float[Array, "B k"]
    y: Float[Array, " B"]
    chance: Float[Array, "c B"]
    rate: Float[Array, " c"]

    @property
    def k(self) -> int:
        return self.block.shape[1]

    @cached_property
    def mean(self) -> Float[Array, " D"]:
        """E phit."""
        rest = float(self.chance.sum(1) @ self.rate)
        return np.concatenate([self.chance.sum(0) @ self.block, np.full(self.D - self.k, rest)])

    @cached_property
    def scale(self) -> float:
        """st, from the marginals."""
        return math.sqrt(float((self.mean * (1 - self.mean)).sum()))

    @cached_property
    def phi_block(self) -> Float[Array, "B k"]:
        """(block - mean) / st."""
        return (self.block - self.mean[: self.k]) / self.scale

    @property
    def sphi2(self) -> float:
        """Var(phi_l) of a background pattern."""
        p = float(self.mean[-1])
        return p * (1 - p) / self.scale**2

    @cached_property
    def gamma(self) -> Float[Array, " k"]:
        """E[y phit_i] - E[y] E[phit_i] for the relevant patterns."""
        weight = self.chance.sum(0) * self.y
        return weight @ self.block - weight.sum() * self.mean[: self.k]

    def support(self) -> tuple[Float[Array, "n D"], Float[Array, " n"], Float[Array, " n"]]:
        """Every input: phi (n, D), labels and probabilities. Only for small D (2^(D-k) rows per block)."""
        rest = bits(self.D - self.k)
        ones = rest.sum(1)
        rows, labels, prob = [], [], []
        for c, rate in enumerate(self.rate):
            p_rest = rate**ones * (1 - rate) ** (rest.shape[1] - ones)
            for b in np.flatnonzero(self.chance[c]):
                rows.append(np.hstack([np.repeat(self.block[b][None], len(rest), 0), rest]))
                labels.append(np.full(len(rest), self.y[b]))
                prob.append(self.chance[c, b] * p_rest)
        phit = np.concatenate(rows)
        return (phit - self.mean) / self.scale, np.concatenate(labels), np.concatenate(prob)


def bits(n: int) -> Float[Array, "N n"]:
    """All 0/1 vectors of length n."""
    return ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.float64)


def parity_mix(D: int, k: int, p_o: float = 0.5) -> Family:
    """The structured parity mixture (emergence.definition_parity_mix)."""
    block = bits(k)
    count = block.sum(1)
    same = ((count == 0) | (count == k)) / 2
    chance = np.stack([np.full(2**k, p_o * 0.5**k), (1 - p_o) * same])
    rate = np.array([0.5, p_o / (2 - 2 * p_o)])
    if p_o == 0.5:  # the components differ in the block alone
        chance, rate = chance.sum(0, keepdims=True), rate[:1]
    return Family(D, block, np.where(count % 2 == 1, 1.0, -1.0), chance, rate)


def fair(D: int, k: int, positive: tuple[int, ...]) -> Family:
    """All bits fair coins; label +1 iff the count of relevant ones is in `positive`."""
    block = bits(k)
    y = np.where(np.isin(block.sum(1), positive), 1.0, -1.0)
    return Family(D, block, y, np.full((1, 2**k), 0.5**k), np.array([0.5]))


def by_count(D: int, counts: dict[int, float], positive: tuple[int, ...], k: int) -> Family:
    """An exchangeable relevant block whose number of ones follows `counts`; fair background."""
    block = bits(k)
    size = block.sum(1).astype(int)
    chance = np.array([counts.get(s, 0.0) / math.comb(k, s) for s in size])
    return Family(D, block, np.where(np.isin(size, positive), 1.0, -1.0), chance[None], np.array([0.5]))


@dataclass(frozen=True)
class Terms:
    """dL/dw_i = -a_i sum_j M_j T_ij, dL/db_i = -a_i T_b,i, dL/da_i = -T_a,i, with the hinge active on every input."""

    T: Float[Array, "m D"]
    T_b: Float[Array, " m"]
    T_a: Float[Array, " m"]


def _frequencies(family: Family, q: Array, b: Array, noise: float) -> tuple[Array, float]:
    # Trapezoid sums of a smooth function over all frequencies are exact up to aliasing (period 2 pi / step) and
    # cut-off, both below 1e-16 here: Hoeffding bounds the reach of the background, the noise damps high frequencies.
    st = family.scale
    reach = 4.5 * np.sqrt((q[:, family.k :] ** 2).sum(1)).max() / st + np.abs(q[:, : family.k]).sum(1).max() / st
    period = 2 * (1 + np.abs(b).max() + reach + 9 * noise)
    step = 2 * math.pi / period
    return step * np.arange(math.ceil(9.1 / noise / step) + 1), step


def _gate_transform(w: Array, noise: float) -> Array:
    """Fourier transform of z -> Pr[z + noise xi in (0, 1)]: a unit box, damped."""
    return np.sinc(w / (2 * math.pi)) * np.exp(-0.5j * w - 0.5 * (noise * w) ** 2)


def _one_minus_turn(x: Array) -> Array:
    """e^(ix) - 1 without cancellation."""
    return 2j * np.sin(x / 2) * np.exp(0.5j * x)


def population_terms(family: Family, q: Float[Array, "m D"], b: Float[Array, " m"], noise: float) -> Terms:
    """Exact T_j = E[y phi_j F(z)], T_b = E[y F(z)], T_a = E[y S(z)], z = <phi, q> + b.

    F(z) = Pr[z + noise xi in (0, 1)] and S(z) = E clip(z + noise xi). Needs noise > 0 and E[y | component] = 0.
    Source: emergence.lemma6 (the identities before any bound); accurate to about 1e-15 absolutely, and to 1e-10
    relatively for the tiny background terms of a second step.
    """
    if np.abs(family.chance @ family.y).max() > 1e-15:
        raise ValueError("E[y | component] must be 0 in every component")
    k, st = family.k, family.scale
    all_T, all_b, all_a = np.empty_like(q), np.empty_like(b), np.empty_like(b)
    signed = family.chance * family.y  # (c, B)
    for rows in np.array_split(np.arange(len(b)), max(1, len(b) // 16)):
        qs, bs = q[rows], b[rows]
        w, step = _frequencies(family, qs, bs, noise)
        shift = _one_minus_turn(w * (qs[:, :k] @ family.phi_block.T)[:, :, None])  # (m, B, W)
        kernel = _gate_transform(w, noise) * np.exp(1j * w * bs[:, None]) * (step / math.pi)
        kernel[:, 0] *= 0.5
        T = np.zeros((len(rows), family.D), complex)
        T_b = np.zeros(len(rows), complex)
        T_a = np.zeros(len(rows), complex)
        for c, rate in enumerate(family.rate):
            mean = family.mean[-1]
            x = w * (qs[:, k:, None] / st)  # (m, D-k, W)
            centre = np.exp(-1j * mean * x)
            turn = _one_minus_turn(x)
            own = centre * (1 + rate * turn)
            tilted = centre * ((rate - mean) / st + (rate * (1 - mean) / st) * turn)
            before = np.cumprod(own, 1)
            after = np.cumprod(own[:, ::-1], 1)[:, ::-1]
            whole = before[:, -1]
            S = np.einsum("b,mbw->mw", signed[c], shift)
            S_j = np.einsum("bj,mbw->mjw", signed[c][:, None] * family.phi_block, shift)
            S_j += (signed[c] @ family.phi_block)[None, :, None]
            T[:, :k] += np.einsum("mw,mjw->mj", kernel * whole, S_j)
            left = np.concatenate([np.ones_like(own[:, :1]), before[:, :-1]], 1)
            right = np.concatenate([after[:, 1:], np.ones_like(own[:, :1])], 1)
            T[:, k:] += np.einsum("mw,mlw->ml", kernel * S, left * right * tilted)
            T_b += (kernel * S * whole).sum(1)
            slope = np.empty_like(S)
            slope[:, 1:] = S[:, 1:] / (1j * w[1:])
            slope[:, 0] = (qs[:, :k] @ family.phi_block.T) @ signed[c]
            T_a += (kernel * slope * whole).sum(1)
        all_T[rows], all_b[rows], all_a[rows] = np.real(T), np.real(T_b), np.real(T_a)
    return Terms(all_T, all_b, all_a)


def background_gate(
    family: Family, q: Float[Array, "m D"], b: Float[Array, " m"], noise: float, order: int = 0
) -> Float[Array, " m"]:
    """beta of the first step: Pr[<phi_-A, q_-A> + b + noise xi in (0, 1)], or its derivative in b; exact."""
    w, step = _frequencies(family, q, b, noise)
    kernel = _gate_transform(w, noise) * (1j * w) ** order * np.exp(1j * w * b[:, None]) * (step / math.pi)
    kernel[:, 0] *= 0.5
    mean, total = family.mean[-1], np.zeros(len(b), complex)
    for weight, rate in zip(family.chance.sum(1), family.rate, strict=True):
        x = w * (q[:, family.k :, None] / family.scale)
        own = np.exp(-1j * mean * x) * (1 + rate * _one_minus_turn(x))
        total += weight * (kernel * own.prod(1)).sum(1)
    return np.real(total)


def gate(z: Array, noise: float | Array) -> Array:
    """Pr[z + noise xi in (0, 1)]."""
    return norm.cdf((1 - z) / noise) - norm.cdf(-z / noise)


def gate_derivative(z: Array, noise: float | Array) -> Array:
    """First derivative of `gate` in z."""
    return (norm.pdf(z / noise) - norm.pdf((1 - z) / noise)) / noise


def gate_second_derivative(z: Array, noise: float | Array) -> Array:
    """Second derivative of `gate` in z."""
    u, v = z / noise, (1 - z) / noise
    return (-u * norm.pdf(u) - v * norm.pdf(v)) / noise**2


def smooth_clip(z: Array, noise: float | Array) -> Array:
    """E clip(z + noise xi) = r(z) - r(z - 1), r(u) = u Phi(u/noise) + noise phi(u/noise)."""

    def ramp(u: Array) -> Array:
        return u * norm.cdf(u / noise) + noise * norm.pdf(u / noise)

    return ramp(z) - ramp(z - 1)


@dataclass(frozen=True)
class Init:
    """First halves of a mirrored start in pattern coordinates: q (m, D), b (m), a (m)."""

    q: Float[Array, "m D"]
    b: Float[Array, " m"]
    a: Float[Array, " m"]


def sigma_a(family: Family) -> float:
    """Standard deviation of the second layer at the start: st^2 / (gamma k^2)."""
    return family.scale**2 / (float(family.gamma.mean()) * family.k**2)


def draw_init(family: Family, m: int, rng: np.random.Generator) -> Init:
    """q ~ N(0, 1/k^2), b ~ N(0, 1/k^4), a ~ N(0, sigma_a^2) (emergence.method_training)."""
    k = family.k
    return Init(rng.normal(0, 1 / k, (m, family.D)), rng.normal(0, 1 / k**2, m), rng.normal(0, sigma_a(family), m))


def eta_1(family: Family, m: int, power: int = 1) -> float:
    """First step size gamma^2 st^power / (k m^3): power 1 in Lemma 23, power 2 in Theorem 26."""
    return float(family.gamma.mean()) ** 2 * family.scale**power / (family.k * m**3)


def network(q: Array, b: Array, a: Array) -> TwoLayer:
    """The engine's network (e = 1) in float64."""
    first, bias, second = (torch.as_tensor(v, dtype=torch.float64)[None] for v in (q, b, a))
    return TwoLayer(first, bias, second)


def mirrored_network(init: Init) -> TwoLayer:
    """The 2m neurons of a mirrored start, as the engine's network in float64."""
    return network(
        np.concatenate([init.q, init.q]), np.concatenate([init.b, init.b]), np.concatenate([init.a, -init.a])
    )


def sigmas(error_rate: float, comparisons: int) -> float:
    """How many standard errors a family of two-sided comparisons may use to be wrong at most at `error_rate`."""
    return float(norm.isf(error_rate / (2 * comparisons)))


# The general setting: incoherent dictionary, input noise, unbalanced classes


@dataclass(frozen=True)
class GeneralLaw:
    """An exact law of the general setting: xt = M phit + zeta, zeta ~ N(0, sigma_z^2 I).

    phit (n, D) with probabilities prob (n) and labels y (n); M (d, D) with unit columns; relevant patterns come first.
    """

    phit: Float[Array, "n D"]
    y: Float[Array, " n"]
    prob: Float[Array, " n"]
    M: Float[Array, "d D"]
    k: int
    sigma_z: float = 0.0

    @cached_property
    def mean(self) -> Float[Array, " D"]:
        """E phit."""
        return self.prob @ self.phit

    @cached_property
    def scale(self) -> float:
        """st as the paper has it: sqrt(sum_j Var(phit_j) + d sigma_z^2)."""
        return math.sqrt(float((self.mean * (1 - self.mean)).sum()) + len(self.M) * self.sigma_z**2)

    @cached_property
    def phi(self) -> Float[Array, "n D"]:
        """(phit - mean) / st."""
        return (self.phit - self.mean) / self.scale

    @cached_property
    def alpha(self) -> Float[Array, " n"]:
        """Class weights 1 / (2 Pr[y])."""
        plus = float(self.prob @ (self.y > 0))
        return np.where(self.y > 0, 0.5 / plus, 0.5 / (1 - plus))

    @cached_property
    def gamma(self) -> Float[Array, " k"]:
        """(gamma_+ + gamma_-) / 2 = E[alpha_y y phit_i] for the relevant patterns."""
        return (self.prob * self.alpha * self.y) @ self.phit[:, : self.k]

    @property
    def x(self) -> Float[Array, "n d"]:
        """Noise-free inputs M phi."""
        return self.phi @ self.M.T


def general_parity(
    D: int, k: int, M: Array, *, p_o: float = 0.5, negative_share: float = 0.8, sigma_z: float = 0.0
) -> GeneralLaw:
    """The parity mixture with unbalanced classes, all 2^D inputs (emergence.table4 varies the same share)."""
    phit = bits(D)
    block, rest = phit[:, :k], phit[:, k:]
    count, ones = block.sum(1), rest.sum(1)
    y = np.where(count % 2 == 1, 1.0, -1.0)
    share = np.where(y > 0, 1 - negative_share, negative_share)
    rate = p_o / (2 - 2 * p_o)
    loose = p_o * 0.5 ** (k - 1) * 0.5 ** (D - k)
    tied = (1 - p_o) * ((count == 0) | (count == k)) * rate**ones * (1 - rate) ** (D - k - ones)
    return GeneralLaw(phit, y, share * (loose + tied), M, k, sigma_z)


def near_orthogonal(D: int, d: int, coherence: float, rng: np.random.Generator) -> Float[Array, "d D"]:
    """Unit columns whose inner products are exactly +-coherence with random signs; needs coherence < 1 / (D - 1)."""
    signs = np.triu(rng.choice([-1.0, 1.0], (D, D)), 1)
    gram = np.eye(D) + coherence * (signs + signs.T)
    return np.vstack([np.linalg.cholesky(gram).T, np.zeros((d - D, D))])


@dataclass(frozen=True)
class GeneralTerms:
    """dw_i = -a_i (sum_j M_j T_ij + v_i), db_i = -a_i T_b,i, da_i = -T_a,i, while the hinge is active everywhere."""

    T: Float[Array, "m D"]
    v: Float[Array, "m d"]
    T_b: Float[Array, " m"]
    T_a: Float[Array, " m"]


def general_terms(law: GeneralLaw, w: Array, b: Array, noise: float, weights: Array | None = None) -> GeneralTerms:
    """Exact terms of the class-weighted loss (or of `weights`, e.g. ones for the plain loss).

    T_j = E[alpha y phi_j F(z)], T_b = E[alpha y F(z)], T_a = E[alpha y S(z)] and, by Stein's identity,
    v = (sigma_z / st)^2 w E[alpha y F'(z)], with F and S the gate and the ramp smoothed by all Gaussian noise.
    """
    z = law.x @ w.T + b
    total = np.sqrt(noise**2 + (law.sigma_z / law.scale) ** 2 * (w**2).sum(1))
    signed = law.prob * law.y * (law.alpha if weights is None else weights)
    hit = signed[:, None] * gate(z, total)
    bend = signed @ gate_derivative(z, total)
    v = (law.sigma_z / law.scale) ** 2 * w * bend[:, None]
    return GeneralTerms(hit.T @ law.phi, v, hit.sum(0), signed @ smooth_clip(z, total))
