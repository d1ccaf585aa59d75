"""The two gradient steps in the general setting (Lemmas 40 to 48), with exact population gradients.

Hidden bits are enumerated. Input noise enters a neuron as Gaussian preactivation noise of variance
sigma_z^2 ||w||^2 / st^2, and the noise part of the gradient follows from Stein's identity, so nothing is sampled except
where a statement is about single inputs.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import ndtr

from featlearn.core import Key
from featlearn.kernels import hinge_classifier
from featlearn.lab.pending import Case, Claim, Evidence, Tables
from featlearn.nets import gradients
from featlearn.works.emergence.claims.general import GeneralLaw, general_parity, near_orthogonal
from featlearn.works.emergence.setup import network

Array = np.ndarray
DELTA = 0.1
C = 3.0  # explicit constant for every O(.) here


@dataclass(frozen=True)
class GeneralTerms:
    """dw_i = -a_i (sum_j M_j T_ij + v_i), db_i = -a_i T_b,i, da_i = -T_a,i, while the hinge is active everywhere."""

    T: Float[Array, "m D"]
    v: Float[Array, "m d"]
    T_b: Float[Array, " m"]
    T_a: Float[Array, " m"]


def bell(u: Array) -> Array:
    """Standard normal density."""
    return np.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)


def gate(z: Array, noise: float | Array) -> Array:
    """Pr[z + noise xi in (0, 1)]; noise may differ by column."""
    return ndtr((1 - z) / noise) - ndtr(-z / noise)


def smooth_clip(z: Array, noise: float | Array) -> Array:
    """E clip(z + noise xi); noise may differ by column."""
    u, v = z / noise, (z - 1) / noise
    return z * ndtr(u) - (z - 1) * ndtr(v) + noise * (bell(u) - bell(v))


def general_terms(law: GeneralLaw, w: Array, b: Array, noise: float, weights: Array | None = None) -> GeneralTerms:
    """Exact terms of the class-weighted loss (or of `weights`, e.g. ones for the plain loss).

    T_j = E[alpha y phi_j F(z)], T_b = E[alpha y F(z)], T_a = E[alpha y S(z)] and, by Stein's identity,
    v = (sigma_z / st)^2 w E[alpha y F'(z)], with F and S the gate and the ramp smoothed by all Gaussian noise.
    """
    z = law.x @ w.T + b
    total = np.sqrt(noise**2 + (law.sigma_z / law.scale) ** 2 * (w**2).sum(1))
    signed = law.prob * law.y * (law.alpha if weights is None else weights)
    hit = signed[:, None] * gate(z, total)
    bend = signed @ ((bell(z / total) - bell((1 - z) / total)) / total)
    v = (law.sigma_z / law.scale) ** 2 * w * bend[:, None]
    return GeneralTerms(hit.T @ law.phi, v, hit.sum(0), signed @ smooth_clip(z, total))


def eps_e(law: GeneralLaw, sigma_w: float, noise: float) -> float:
    """The relative error of the first step, constant 1, with the noise of the data, sigma_z, in its second term."""
    d, D = law.M.shape
    log = math.sqrt(2 * math.log(D / DELTA))
    return D * sigma_w * log / (law.scale**2 * noise) + math.sqrt(d) * law.sigma_z * sigma_w * log / (law.scale * noise)


def start(law: GeneralLaw, m: int, sigma_w: float, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """w ~ N(0, sigma_w^2), b ~ N(0, 1/k^4), a ~ N(0, sigma_a^2) with sigma_a = st^2 / (gamma k^2)."""
    sigma_a = law.scale**2 / (float(law.gamma[0]) * law.k**2)
    return (
        sigma_w * rng.normal(size=(m, len(law.M))),
        rng.normal(size=m) / law.k**2,
        sigma_a * rng.normal(size=m),
    )


def small_law(key: Key, sigma_z: float = 0.05) -> GeneralLaw:
    """10 patterns, 3 relevant, share of class -1 0.8, inner products of exactly +-1/(16 D)."""
    D, k, d = 10, 3, 14
    return general_parity(D, k, near_orthogonal(D, d, 1 / (16 * D), key.numpy()), sigma_z=sigma_z)


def check_first_step(key: Key, tables: Tables) -> Evidence:
    """Lemmas 40 to 43."""
    law = small_law(key / "dictionary")
    k, st, gamma, noise = law.k, law.scale, float(law.gamma[0]), law.k**-1.5
    target = 1e-3
    sigma_w = target / eps_e(law, 1.0, noise)
    m = 12
    w, b, a = start(law, m, sigma_w, (key / "start").numpy())
    t = general_terms(law, w, b, noise)
    plain = general_terms(law, w, b, noise, np.ones_like(law.y))
    total = np.sqrt(noise**2 + (law.sigma_z / st) ** 2 * (w**2).sum(1))
    rest = law.phi.copy()
    rest[:, :k] = 0
    beta = law.prob @ gate(rest @ law.M.T @ w.T + b, total)  # phi_-A alone
    leading = np.repeat((beta * gamma / st)[:, None], k, 1)
    sphi2 = law.mean[k] * (1 - law.mean[k]) / st**2
    whole = t.T @ law.M.T + t.v  # sum_j M_j T_j + v
    eta = gamma**2 * 0.2 * st / (k * m**3)
    # the engine has no input noise: compare on the same law without it, with a small enough for an active hinge
    quiet = GeneralLaw(law.phit, law.y, law.prob, law.M, k)
    tq = general_terms(quiet, w, b, noise)
    small = 0.01 / np.abs(a).max()
    got = gradients(
        network(w, b, small * a),
        torch.as_tensor(quiet.x),
        torch.as_tensor(quiet.y),
        noise=noise,
        weights=torch.as_tensor(quiet.prob * quiet.alpha * len(quiet.prob)),
    )
    stepped = w - eta * (got.w[0].numpy() + w / eta)  # lam_w = 1/(2 eta): the start is forgotten
    law_step = eta * small * a[:, None] * (tq.T @ quiet.M.T)
    loud = GeneralLaw(law.phit, law.y, law.prob, law.M, k, sigma_z=0.3)
    mc_v, mc_error = sampled_noise_part(loud, key / "noise", noise)
    cases = (
        Case(
            "T_j, relevant: beta gamma / st within 3 eps_e / st",
            predict=leading,
            observe=t.T[:, :k],
            rival=0.95 * leading,
            relation="equal",
            tolerance=C * target / st,
            rival_says="a coefficient 5 % off",
        ),
        Case(
            "the same against the plain loss",
            predict=leading,
            observe=t.T[:, :k],
            rival=plain.T[:, :k],
            relation="equal",
            tolerance=C * target / st,
            rival_says="no class weights",
        ),
        Case(
            "T_j, background: within 3 sphi^2 eps_e st of 0",
            predict=np.zeros((m, law.M.shape[1] - k)),
            observe=t.T[:, k:],
            rival=(whole @ law.M)[:, k:],
            relation="equal",
            tolerance=C * sphi2 * target * st,
            rival_says="inner products <w, M_j>, as the notation defines q_j, in place of coefficients",
        ),
        Case(
            "noise part v: within 3 sigma_z sqrt(log k) eps_e / st of 0",
            predict=np.zeros_like(t.v),
            observe=t.v,
            rival=None,
            relation="equal",
            tolerance=C * law.sigma_z * math.sqrt(math.log(k)) * target / st,
        ),
        Case(
            "noise part v by Stein's identity and by sampling (large w)",
            predict=mc_v[0],
            observe=mc_v[1],
            rival=mc_v[0] * (loud.scale / loud.sigma_z) ** 2,
            relation="equal",
            tolerance=mc_error,
            rival_says="noise divided by sigma_z instead of st",
        ),
        Case(
            "noise part v is not 0 there", predict=0.0, observe=abs(mc_v[1]) - mc_error, rival=None, relation="at least"
        ),
        Case(
            "T_b: within 3 eps_e of 0",
            predict=np.zeros(m),
            observe=t.T_b,
            rival=plain.T_b,
            relation="equal",
            tolerance=C * target,
            rival_says="no class weights",
        ),
        Case(
            "T_a: within 3 max|q| of 0",
            predict=np.zeros(m),
            observe=t.T_a,
            rival=plain.T_a,
            relation="equal",
            tolerance=C * np.abs(w @ law.M).max(),
            rival_says="no class weights",
        ),
        Case(
            "weights after the step: eta a sum_j M_j T_j",
            predict=law_step,
            observe=stepped,
            rival=law_step + w,
            relation="equal",
            tolerance=1e-12 * float(np.abs(law_step).max()) + 1e-16,
            rival_says="the start kept",
        ),
    )
    beyond = np.abs(t.T[:, :k] - leading).max() * st / target
    noise_share = np.abs(t.T[:, k:]).max() / (sphi2 * target * st)
    comment = (
        f"sigma_w = {sigma_w:.1e} makes eps_e = {target:g}, so that the bounds bite; constants 3. Largest relevant "
        f"error {beyond:.2g} eps_e / st, largest background term {noise_share:.2g} of its bound at constant 1: both "
        "are far smaller than proved."
    )
    return Evidence(cases, comment=comment)


def sampled_noise_part(law: GeneralLaw, key: Key, noise: float, n: int = 400_000) -> tuple[Array, Array]:
    """v of one neuron along wstar: (formula, sample mean) of its length, and 5 standard errors."""
    rng = key.numpy()
    w = 0.5 * law.M[:, : law.k].sum(1)[None]  # along the signal, or alpha y would average out
    b = np.array([0.2])
    exact = general_terms(law, w, b, noise).v[0]
    unit = w[0] / np.linalg.norm(w[0])
    rows = rng.choice(len(law.prob), n, p=law.prob)
    zeta = law.sigma_z * rng.normal(size=n)  # its part along w
    z = law.x[rows] @ w[0] + np.linalg.norm(w[0]) * zeta / law.scale + b[0]
    terms = law.alpha[rows] * law.y[rows] * (zeta / law.scale) * gate(z, noise)
    value = np.array([exact @ unit, terms.mean()])
    return value, np.array(5 * terms.std() / math.sqrt(n))


@dataclass(frozen=True)
class TwoSteps:
    """Parameters of the first halves and of the mirrored second halves after steps 1 and 2, and step-2 terms."""

    w1: Array
    b1: Array
    a1: Array
    w2: Array
    b2: Array
    a2: Array
    first: GeneralTerms
    second: GeneralTerms
    b0: Array
    eta: float


def two_steps(
    law: GeneralLaw, m: int, key: Key, *, weighted: bool = True, factor: float = 1.0, sigma_w: float | None = None
) -> TwoSteps:
    """Steps 1 and 2 of the schedule of Lemma 48 from exact gradients, while the hinge is active everywhere.

    factor multiplies eta_1; sigma_w defaults to the value at which eps_e = 0.001. Both halves of the mirrored start
    are kept, as they part ways in step 1.
    """
    sigma_w = 1e-3 / eps_e(law, 1.0, law.k**-1.5) if sigma_w is None else sigma_w
    w, b, a = start(law, m, sigma_w, key.numpy())
    w, b, a = np.concatenate([w, w]), np.concatenate([b, b]), np.concatenate([a, -a])
    noise = law.k**-1.5
    weights = None if weighted else np.ones_like(law.y)
    p_min = float(min(law.prob @ (law.y > 0), law.prob @ (law.y < 0)))
    eta = factor * float(law.gamma[0]) ** 2 * p_min * law.scale / (law.k * m**3)
    first = general_terms(law, w, b, noise, weights)
    w1 = eta * a[:, None] * (first.T @ law.M.T + first.v)
    b1, a1 = b + eta * a * first.T_b, a + eta * first.T_a
    second = general_terms(law, w1, b1, noise, weights)
    w2 = a1[:, None] * (second.T @ law.M.T + second.v)
    return TwoSteps(w1, b1, a1, w2, b1 + a1 * second.T_b, second.T_a, first, second, b, eta)


def noisy_inputs(law: GeneralLaw, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """n samples (x, y) with input noise."""
    rows = rng.choice(len(law.prob), n, p=law.prob)
    return law.x[rows] + (law.sigma_z / law.scale) * rng.normal(size=(n, len(law.M))), law.y[rows]


def best_readout(w: Array, b: Array, law: GeneralLaw, key: Key, n: int = 2000) -> tuple[float, float, Array]:
    """Hinge loss on unseen inputs, test error and coefficients of the best second layer on sigma(<w, x> + b)."""
    rng = key.numpy()
    x, y = noisy_inputs(law, n, rng)
    new, label = noisy_inputs(law, 20_000, rng)
    features, unseen = (np.clip(v @ w.T + b, 0, 1) for v in (x, new))
    fit = hinge_classifier(torch.from_numpy(features), torch.from_numpy(y), 1e3, tolerance=2e-3)
    score = unseen @ fit.w.numpy()
    return float(np.clip(1 - label * score, 0, None).mean()), float((label * score <= 0).mean()), fit.w.numpy()


def check_second_step(key: Key, tables: Tables) -> Evidence:
    """Lemmas 44, 45 and 48."""
    law = small_law(key / "dictionary", sigma_z=0.02)
    k, st, gamma, noise, m = law.k, law.scale, float(law.gamma[0]), law.k**-1.5, 40
    run = two_steps(law, m, key / "start")
    x, y = noisy_inputs(law, 20_000, (key / "inputs").numpy())

    def share_active(steps: TwoSteps) -> float:
        return float((y * (smooth_clip(x @ steps.w1.T + steps.b1, noise) @ steps.a1) < 1).mean())

    g1 = np.abs(smooth_clip(x @ run.w1.T + run.b1, noise) @ run.a1)
    sigma_a = st**2 / (gamma * k**2)
    allowed = gamma / (k * m * sigma_a * st) / run.eta  # the condition of Lemma 44, as a multiple of eta_1
    bold = two_steps(law, m, key / "start", factor=1000 * allowed)
    reach = np.abs(x @ run.w1.T).max()
    wide = two_steps(law, m, key / "wide", sigma_w=1 / k)  # the main text's start, whose first step is noisy
    beta = gate(wide.b0, noise)
    leading = np.repeat((beta * gamma / st)[:, None], k, 1)
    sphi2 = law.mean[k] * (1 - law.mean[k]) / st**2
    a0, e = np.abs(wide.a1).max(), eps_e(law, 1 / k, noise)
    eps2 = wide.eta * a0 * k * (gamma + e) / (st**2 * noise)
    plain = two_steps(law, m, key / "start", weighted=False)
    hinge, error, coefficient = best_readout(run.w2, run.b2, law, key / "readout")
    start_w, start_b, _ = start(law, 2 * m, 1 / k, (key / "fresh").numpy())
    start_hinge, _, _ = best_readout(start_w, start_b, law, key / "readout")
    tail = math.sqrt(2 * math.log(2 * m / DELTA))
    cases = (
        Case(
            "share of inputs with y g_1 < 1",
            predict=1.0,
            observe=share_active(run),
            rival=share_active(bold),
            relation="equal",
            tolerance=1e-4,
            rival_says="eta_1 a thousand times above its condition",
        ),
        Case(
            "largest |<w_1, x>| within 3 tail eta_1 st / gamma",
            predict=C * run.eta * st / gamma * tail,
            observe=reach,
            rival=run.eta * gamma / st,
            relation="at most",
            tolerance=0.0,
            rival_says="gamma / st instead of st / gamma",
        ),
        Case(
            "T_j, relevant, step 2: beta gamma / st",
            predict=leading,
            observe=wide.second.T[:, :k],
            rival=wide.first.T[:, :k],
            relation="equal",
            tolerance=C * (eps2 / st + wide.eta / noise + wide.eta * a0 * e / (st * noise)),
            rival_says="the first step's terms",
        ),
        Case(
            "T_j, background, step 2: within 3 sphi^2 eps_e2 st of 0",
            predict=np.zeros((2 * m, law.M.shape[1] - k)),
            observe=wide.second.T[:, k:],
            rival=wide.first.T[:, k:],
            relation="equal",
            tolerance=C * sphi2 * st * eps2,
            rival_says="the first step's terms",
        ),
        Case(
            "noise part, step 2: within 3 eta_1 sigma_z / (gamma s) of 0",
            predict=np.zeros_like(wide.second.v),
            observe=wide.second.v,
            rival=wide.first.v,
            relation="equal",
            tolerance=C * wide.eta * law.sigma_z / (gamma * noise),
            rival_says="the first step's noise part",
        ),
        Case(
            "hinge loss of the best second layer: within exp(-k) of 0",
            predict=0.0,
            observe=hinge,
            rival=start_hinge,
            relation="equal",
            tolerance=math.exp(-k),
            rival_says="the same on features at the start",
        ),
        Case(
            "largest ||w_2||: tail st / k^(3/2)",
            predict=tail * st / k**1.5,
            observe=np.linalg.norm(run.w2, axis=1).max(),
            rival=tail * st / k**3.5,
            relation="at most",
            tolerance=0.0,
            rival_says="k^(7/2)",
        ),
        Case(
            "biases after step 2: within tail / k^2 of 0",
            predict=np.zeros(2 * m),
            observe=run.b2,
            rival=plain.b2,
            relation="equal",
            tolerance=tail / k**2,
            rival_says="no class weights",
        ),
        Case(
            "a_2: within 3 / (k m^2) of 0",
            predict=np.zeros(2 * m),
            observe=run.a2,
            rival=plain.a2,
            relation="equal",
            tolerance=C / (k * m**2),
            rival_says="no class weights",
        ),
    )
    comment = (
        f"2m = {2 * m} neurons, sigma_z = {law.sigma_z}, eta_1 = {run.eta:.1e} ({1 / allowed:.1e} of its condition): "
        f"|g_1| <= {g1.max():.1e}. Test error of the best second layer {error:.2%}, its largest coefficient "
        f"{np.abs(coefficient).max():.0f}; features at the start leave a hinge loss of {start_hinge:.2f}. Without "
        f"class weights the second step moves biases by up to {np.abs(plain.b2 - plain.b1).max():.1f}."
    )
    return Evidence(cases, comment=comment, data={"T1": wide.first.T, "T2": wide.second.T})


def draw_steps(evidence: Evidence) -> object:
    """|T_j| of both steps by pattern: the background vanishes in the second."""
    from matplotlib.figure import Figure

    data = evidence.data or {}
    figure = Figure(figsize=(5, 3.2), layout="constrained")
    ax = figure.subplots()
    for name, label, marker in (("T1", "step 1", "o"), ("T2", "step 2", "s")):
        value = np.abs(data[name])
        ax.semilogy(np.arange(value.shape[1]), np.median(value, 0), marker, label=label)
    ax.axvline(2.5, color="0.7", linewidth=1)
    ax.set_xlabel("pattern (first three relevant)")
    ax.set_ylabel("median |T_j| over neurons")
    ax.legend(fontsize=8)
    return figure


CLAIMS = (
    Claim(
        "emergence.lemma40",
        entries=("emergence.lemma40",),
        says="First step in the general setting with class weights: T_j = beta gamma/st up to 3 eps_e/st on relevant "
        "patterns, 3 sphi^2 eps_e st on others; noise part, bias and second-layer terms are small; weights become "
        "eta a (sum M_j T_j + v).",
        check=check_first_step,
        hits="statement",
        reported="Lemma 42 (thesis, Lemma A.36): '|T_a| <= O(max_l q_l)', without an absolute value, fails where every "
        "q_l is negative; a misprint as in Lemma 17. Lemma 43 is right for the coefficients of M_j, which its sum "
        "makes of q_j; for <w, M_j>, which the notation makes of q_j, the inner product keeps rho_jl beta gamma/st.",
    ),
    Claim(
        "emergence.lemma44",
        entries=("emergence.lemma44",),
        says="Second step in the general setting: the hinge is active on almost all inputs, T_j = beta gamma/st on "
        "relevant patterns and nearly 0 elsewhere, and some second layer has hinge loss below exp(-k).",
        check=check_second_step,
        hits="proof",
        reported="Proof of Lemma 45 (thesis, Lemma A.40): 'By Lemma 44, ... y g^(1) > 1'; that lemma has y g^(1) < 1, "
        "which is what the proof goes on with: a misprint in both versions.",
        draw=draw_steps,
    ),
)
