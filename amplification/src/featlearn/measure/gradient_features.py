"""Gradient features: which directions the first gradient of a two-layer network finds, and how likely.

Every function takes tensors, so it works on any two-layer ReLU network and any labelled data. Thresholds follow the
work: a neuron is relu(<w, x> - b), so for a `TwoLayer` pass b = -net.b.

Source: gradient_features.definition3_5, definition3_7, definition_b57, lemma3_13 (eq. 3.14), lemma_b33.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from scipy.special import log_ndtr, ndtri_exp
from scipy.stats import norm
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.core.check import checked
from featlearn.measure.checks import unit_rows


@checked()
def simplified_gradients(
    w: Float[Tensor, "m d"],
    b: Float[Tensor, " m"],
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    weights: Float[Tensor, " n"] | None = None,
    block: int = 4096,
) -> Float[Tensor, "m d"]:
    """G(w, b) = E[y x 1[<w, x> > b]] of a sample, or of an enumerated law with its probabilities.

    At a start where g = 0 the gradient in w_i is l'(0) a_i G(w_i, b_i). Shapes: w (m, d), b (m), x (n, d), y (n),
    weights (n), by default 1/n each -> (m, d). block: rows of x at a time.
    Source: gradient_features.definition3_5. Errors: `SettingError` for data that are not finite or do not fit.
    """
    signed = y if weights is None else y * weights
    out = torch.zeros_like(w)
    for i in range(0, len(x), block):
        rows = slice(i, i + block)
        gate = (x[rows] @ w.T > b).to(w.dtype)
        out += (gate * signed[rows, None]).T @ x[rows]
    return out / len(x) if weights is None else out


@checked(signs=("labels",), moves=True)
def gaussian_gradients(
    w: Float[Tensor, "m d"],
    b: Float[Tensor, " m"],
    means: Float[Tensor, "r d"],
    labels: Float[Tensor, " r"],
    weights: Float[Tensor, " r"],
    sigma: Float[Tensor, " r"],
) -> Float[Tensor, "m d"]:
    """G(w, b) of a mixture of spherical Gaussians, exactly.

    Formula: sum_j p_j y_j (mu_j P_j + sigma_j (w / ||w||) npdf(h_j)), h_j = (b - <w, mu_j>) / (sigma_j ||w||),
    P_j = Pr[N(0, 1) > h_j]. Shapes: w (m, d), b (m), means (r, d), labels, weights, sigma (r) -> (m, d), float64.
    Source: gradient_features.lemma_b33. Errors: `SettingError` for a neuron with w = 0 or a component without spread.
    """
    w, b, means = w.double(), b.double(), means.double()
    labels, weights, sigma = labels.double(), weights.double(), sigma.double()
    size = w.norm(dim=1)
    if not bool((size > 0).all()):
        raise SettingError("w", "a row of norm 0", "neurons that are not 0", "drop it: it has no direction")
    if not bool((sigma > 0).all()):
        raise SettingError("sigma", float(sigma.min()), "positive", "a point mass has no Gaussian integral")
    h = (b[:, None] - w @ means.T) / (sigma * size[:, None])
    active = torch.special.ndtr(-h) * labels * weights
    bell = torch.exp(-0.5 * h * h) / math.sqrt(2 * math.pi) * labels * weights
    return active @ means + (bell @ sigma / size)[:, None] * w


@checked(moves=True)
def in_cone(
    vectors: Float[Tensor, "m d"], directions: Float[Tensor, "r d"], gamma: float | Float[Tensor, " q"]
) -> Bool[Tensor, "m r q"]:
    """Whether |<v, D>| > (1 - gamma) ||v||; the zero vector is in no cone.

    Shapes: vectors (m, d), directions (r, d), gamma one number or (q) -> (m, r, q), q = 1 for one number.
    Source: gradient_features.definition3_7. Errors: `SettingError` for a direction of norm 0.
    """
    gammas = torch.atleast_1d(torch.as_tensor(gamma, dtype=vectors.dtype))
    along = (vectors @ unit_rows(directions, "directions").to(vectors.dtype).T).abs()
    size = vectors.norm(dim=1)
    return (along[:, :, None] > (1 - gammas) * size[:, None, None]) & (size > 0)[:, None, None]


@checked(moves=True)
def in_max_cone(vectors: Float[Tensor, "m d"], direction: Float[Tensor, " d"], gamma: float) -> Bool[Tensor, " m"]:
    """Whether ||v / ||v|| - D||_inf < gamma: the cone in the largest coordinate (gradient_features.definition_b57).

    Shapes: vectors (m, d), direction (d) -> (m).
    """
    size = vectors.norm(dim=1, keepdim=True)
    unit = vectors / size.masked_fill(size == 0, 1)
    return ((unit - unit_rows(direction, "direction")).abs().amax(1) < gamma) & (size[:, 0] > 0)


def wilson(hits: Float[Tensor, "*s"], n: int, confidence: float = 0.95) -> tuple[Tensor, Tensor]:
    """Wilson interval of a probability seen `hits` times in n draws: two tensors (..., ) shaped as hits.

    Shapes: hits (s, ...) -> low and high, the same. Errors: `SettingError` for n < 1 or a confidence outside (0, 1).
    """
    if n < 1:
        raise SettingError("n", n, "at least 1 draw", "draw neurons first")
    if not 0 < confidence < 1:
        raise SettingError("confidence", confidence, "in (0, 1)", "0.95 is usual")
    z = float(norm.isf((1 - confidence) / 2))
    share = hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (share * (1 - share) / n + z * z / (4 * n * n)).sqrt()
    return (middle - half).clamp_min(0), (middle + half).clamp_max(1)


@dataclass(frozen=True)
class Membership:
    """How likely a new neuron has its gradient in a cone.

    share, low, high (r, q): probability and its interval for r directions and q cone widths; n: neurons drawn.
    log_given: log of the probability of the event on which neurons were drawn, 0 for plain draws; then
    Pr >= exp(log_given) * share, which may be far below what plain draws could see.
    """

    share: Float[Tensor, "r q"]
    low: Float[Tensor, "r q"]
    high: Float[Tensor, "r q"]
    n: int
    log_given: float = 0.0

    @property
    def log_p(self) -> Float[Tensor, "r q"]:
        """log of the lower end of the interval of Pr, a certified p."""
        return self.low.log() + self.log_given


@checked(moves=True)
def membership(
    gradients: Float[Tensor, "m d"],
    directions: Float[Tensor, "r d"],
    gammas: Float[Tensor, " q"],
    least_norm: float = 0.0,
    *,
    right_sign: Bool[Tensor, " m"] | None = None,
    log_given: float = 0.0,
    confidence: float = 0.95,
) -> Membership:
    """Whether directions are gradient features: Pr[G in the cone, ||G|| >= B_G, sign b = s], over cone widths.

    (D, s) is in S(p, gamma, B_G) if that probability is at least p. gradients: G of independently drawn neurons.
    least_norm: B_G. right_sign: which neurons have the bias sign s, all by default (the work's starts fix the sign by
    the index of the neuron). log_given: see `Membership`. Shapes: gradients (m, d), directions (r, d), gammas (q),
    right_sign (m) -> fields (r, q). Source: gradient_features.definition3_7.
    """
    hit = in_cone(gradients, directions, gammas) & (gradients.norm(dim=1) >= least_norm)[:, None, None]
    if right_sign is not None:
        hit = hit & right_sign[:, None, None]
    hits = hit.double().sum(0)
    low, high = wilson(hits, len(gradients), confidence)
    return Membership(hits / len(gradients), low, high, len(gradients), log_given)


@dataclass(frozen=True)
class FeatureSet:
    """An estimate of S(p, gamma, B_G) without known directions.

    directions (r, d): unit vectors, most likely first. sign (r): bias sign of each. share, low, high (r): probability
    and interval, from neurons that had no say in the choice of directions.
    """

    directions: Float[Tensor, "r d"]
    sign: Float[Tensor, " r"]
    share: Float[Tensor, " r"]
    low: Float[Tensor, " r"]
    high: Float[Tensor, " r"]


@checked(moves=True)
def gradient_feature_set(
    gradients: Float[Tensor, "m d"],
    b: Float[Tensor, " m"],
    p: float,
    gamma: float,
    least_norm: float = 0.0,
    *,
    confidence: float = 0.95,
    most: int = 32,
) -> FeatureSet:
    """Directions whose cones hold at least a share p of the gradients, found from the gradients alone.

    Even neurons propose: the gradient whose cone holds most others is averaged over its cone, its cone is removed, and
    so on. Odd neurons then count, so the Wilson intervals are honest; a direction is kept if its share is at least p.
    Lines, not rays: -D is a feature exactly when D is. Shapes: gradients (m, d), b (m) -> fields (r, d) and (r).
    Source: gradient_features.definition3_7. Errors: `SettingError` for p or gamma outside (0, 1), fewer than 4 neurons.

    Example:
        >>> g = torch.eye(2).repeat(50, 1)
        >>> len(gradient_feature_set(g[torch.randperm(100)], torch.ones(100), p=0.2, gamma=0.1).directions)
        2
    """
    for name, value in (("p", p), ("gamma", gamma)):
        if not 0 < value < 1:
            raise SettingError(name, value, "in (0, 1)", "it is a probability" if name == "p" else "1 - gamma: cosine")
    if len(gradients) < 4:
        raise SettingError("gradients", len(gradients), "at least 4 neurons", "half propose and half count")
    found: list[tuple[Tensor, float, Tensor, Tensor, Tensor]] = []
    for sign in (1.0, -1.0):
        mine = (b.sign() == sign) & (gradients.norm(dim=1) >= least_norm) & (gradients.norm(dim=1) > 0)
        pool = gradients[0::2][mine[0::2]][:2048]
        judges = gradients[1::2]
        for _ in range(most):
            if not len(pool):
                break
            near = in_cone(pool, pool, gamma)[:, :, 0]
            best = int(near.sum(0).argmax())
            cone = unit_rows(pool[near[:, best]], "vectors")
            centre = (cone * (cone @ pool[best]).sign()[:, None]).mean(0)
            centre = centre / centre.norm()
            pool = pool[~near[:, best]]
            seen = membership(
                judges, centre[None], torch.tensor([gamma]), least_norm, right_sign=mine[1::2], confidence=confidence
            )
            if float(seen.share[0, 0]) >= p:
                found.append((centre, sign, seen.share[0, 0], seen.low[0, 0], seen.high[0, 0]))
    found.sort(key=lambda f: -float(f[2]))
    if not found:
        none = torch.zeros(0, dtype=torch.float64)
        return FeatureSet(gradients.new_zeros(0, gradients.shape[1]), none, none, none, none)
    centres, signs, share, low, high = zip(*found, strict=True)
    return FeatureSet(
        torch.stack(centres), torch.tensor(signs), torch.stack(share), torch.stack(low), torch.stack(high)
    )


@checked(moves=True)
def nice_neurons(
    w1: Float[Tensor, "m d"],
    a0: Float[Tensor, " m"],
    b: Float[Tensor, " m"],
    direction: Float[Tensor, " d"],
    sign: float,
    gamma: float,
    least_norm: float,
    step: float,
) -> Bool[Tensor, " m"]:
    """Nice-gradient set: neurons that one forgetful step sent along +D with a large enough gradient.

    Formula: sign(b_i) = s, <w_i, D> > (1 - gamma) ||w_i||, ||w_i|| >= step |a_i^(0)| B_G. step: |eta l'(0)|.
    Signed, unlike the cone: the sign of a decides which of +-D a neuron takes. Shapes: w1 (m, d) after the step, a0 (m)
    before it, b (m), direction (d) -> (m). Source: gradient_features.lemma3_13 (eq. 3.14).
    """
    size = w1.norm(dim=1)
    along = w1 @ unit_rows(direction, "direction").to(w1.dtype)
    return (b.sign() == sign) & (along > (1 - gamma) * size) & (size >= step * a0.abs() * least_norm) & (size > 0)


# rare events ----------------------------------------------------------------------------------------------------------


def log_interval(low: Float[Tensor, "*s"], high: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """log Pr[low <= N(0, 1) <= high], exact far into both tails.

    Shapes: low, high (s, ...) -> the same, float64. -inf where low >= high.
    """
    low, high = low.double(), high.double()
    flip = low > 0  # mirrored, so that both ends have small distribution functions
    lo, hi = torch.where(flip, -high, low), torch.where(flip, -low, high)
    log_hi, log_lo = (torch.as_tensor(log_ndtr(v.numpy())) for v in (hi, lo))
    out = log_hi + torch.log1p(-torch.exp((log_lo - log_hi).clamp_max(0.0)))
    return torch.where(hi > lo, out, torch.full_like(out, -math.inf))


@checked(empty=("directions", "low", "high"), loose=("low", "high"), moves=True)
def draw_in_box(
    directions: Float[Tensor, "r d"],
    low: Float[Tensor, " r"],
    high: Float[Tensor, " r"],
    sigma_w: float,
    m: int,
    key: Key,
) -> tuple[Float[Tensor, "m d"], float]:
    """m draws of w ~ N(0, sigma_w^2 I) given low_j <= <w, D_j> <= high_j, and the log probability of that event.

    The way to neurons that plain draws would never hit: each projection is a truncated normal, by inversion in log
    space, the rest of w is free. Directions must be orthonormal; merge conditions on one line beforehand.
    Shapes: directions (r, d), low, high (r) -> w (m, d) float64. Source: gradient_features.definition_b29, lemma3_17.
    Errors: `SettingError` for directions that are not orthonormal, an empty interval or sigma_w <= 0.

    Example:
        >>> w, log_chance = draw_in_box(torch.eye(3)[:1], torch.tensor([8.0]), torch.tensor([9e9]), 1.0, 5, Key("demo"))
        >>> bool((w[:, 0] >= 8).all()), round(log_chance, 1)
        (True, -35.0)
    """
    u, lo, hi = directions.double(), low.double() / sigma_w, high.double() / sigma_w
    if not sigma_w > 0:
        raise SettingError("sigma_w", sigma_w, "positive", "it is a standard deviation")
    for name, end in (("low", low), ("high", high)):
        if bool(end.isnan().any()):
            raise SettingError(name, "nan", "numbers or infinity", "an end that is open is infinite")
    off = float((u @ u.T - torch.eye(len(u), dtype=u.dtype)).abs().max()) if len(u) else 0.0
    if off > 1e-4:
        raise SettingError("directions", f"inner products off by {off:.2g}", "orthonormal rows", "orthogonalise them")
    log_p = log_interval(lo, hi)
    if not bool(torch.isfinite(log_p).all()):
        raise SettingError("low, high", f"interval {int((~torch.isfinite(log_p)).nonzero()[0])}", "low < high", "swap")
    g = key.torch()
    uniform = torch.rand(m, len(u), generator=g, dtype=torch.float64).clamp(1e-15, 1 - 1e-15)
    flip = lo > 0
    start = torch.where(flip, -hi, lo)
    log_start = torch.as_tensor(log_ndtr(start.numpy()))
    log_cdf = torch.logaddexp(log_start, uniform.log() + log_p)
    value = torch.as_tensor(ndtri_exp(log_cdf.clamp_max(-1e-300).numpy()))
    value = torch.where(flip, -value, value)
    value = torch.minimum(torch.maximum(value, lo), hi) * sigma_w
    free = sigma_w * torch.randn(m, directions.shape[1], generator=g, dtype=torch.float64)
    w = free + (value - free @ u.T) @ u
    return w, float(log_p.sum())
