"""The last stage: small movement (Lemmas 24, 25), online convex optimisation (Theorem 27), baselines."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import expit

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import COUNT, POSITIVE, REAL
from featlearn.lab.statement import Statement, at_most, control, equal
from featlearn.lab.uncertainty import Derived, Law, Observation
from featlearn.learn.fit import fit
from featlearn.learn.linear import Linearised, fit_linearised
from featlearn.learn.schedules import Stage
from featlearn.nets import TwoLayer, forward, gaussian_init, mirrored
from featlearn.nets.two_layer import preactivation
from featlearn.tasks.patterns import incoherent_dictionary, orthonormal_dictionary
from featlearn.works.emergence.claims.second_step import population_step
from featlearn.works.emergence.setup import draw_init, eta_1, network, parity_mix, population_terms

Array = np.ndarray


@dataclass(frozen=True)
class Run:
    """Full-batch steps of the last stage: w (m, d), b (m), a (m) after step 2, a sample, step size and penalty."""

    w: Array
    b: Array
    a: Array
    x: Array
    y: Array
    eta: float
    lam: float
    steps: int


def run_settings(key: Key) -> tuple[Run, ...]:
    """After two population steps, and planted runs that nearly attain each term of the bounds.

    Planted: a saturated neuron with an active hinge, whose a grows by eta a step; a linear neuron that starts at
    a = 0; a large a, of which one step moves w and b; a saturated neuron that shrinks by the penalty alone.
    """
    rng = key.numpy()
    family = parity_mix(10, 3, 0.5)
    init, noise = draw_init(family, 20, rng), 3**-1.5
    after = population_step(family, init, eta_1(family, 20), noise)
    two = population_terms(family, after.q, after.b, noise)
    phi, label, _ = family.support()
    pick = rng.integers(0, len(phi), 400)
    w, b = after.a[:, None] * two.T, after.b + after.a * two.T_b
    one, plus = np.array([[1.0, 0.0]]), np.array([1.0])

    def planted(w: list[float], b: float, a: float, eta: float, lam: float, steps: int) -> Run:
        return Run(np.array([w]), np.array([b]), np.array([a]), one, plus, eta, lam, steps)

    return (
        Run(w, b, two.T_a, phi[pick], label[pick], 0.05, 0.1, 60),
        planted([0.0, 0.0], 2.0, 0.0, 0.02, 0.0, 40),
        planted([0.9, 0.0], 0.0, 0.0, 0.01, 0.0, 20),
        planted([0.0, 0.0], 0.01, 5.0, 1.0, 0.0, 1),
        planted([0.0, 10.0], 2.0, 0.0, 0.01, 0.9, 12),
    )


def run_statements(settings: tuple[Run, ...]) -> tuple[Statement, ...]:
    """Lemma 24, with t steps after step 2, and Lemma 25."""
    a_law, w_law, b_law = [], [], []
    for r in settings:
        t = np.arange(1, r.steps + 1)[:, None]
        free = (r.eta * t) ** 2 + t * np.abs(r.a)
        a_law.append(np.ravel(r.eta * t + np.abs(r.a)))
        w_law.append(np.ravel(2 * t * r.eta * r.lam * np.linalg.norm(r.w, axis=1) + free))
        b_law.append(np.ravel(free))
    alike = {"axis": "neuron and step", "margin": 1e-12}
    return (
        at_most("|a^(t)|", POSITIVE, np.concatenate(a_law), "Lemma 24: eta t + |a^(2)|", **alike),
        at_most(
            "||w^(t) - w^(2)||",
            POSITIVE,
            np.concatenate(w_law),
            "Lemma 24, (265): 2 t eta lam ||w^(2)|| + eta^2 t^2 + t |a^(2)|",
            **alike,
        ),
        at_most(
            "|b^(t) - b^(2)|",
            POSITIVE,
            np.concatenate(b_law),
            "Lemma 24 without penalty: eta^2 t^2 + t |a^(2)|",
            **alike,
        ),
        at_most(
            "|g~^(t) - g~^(2)|",
            POSITIVE,
            Law(lambda norm, used, shift, power: norm * used**power * shift, power=0.5),
            "Lemma 25: ||a~||_2 sqrt(||a~||_0) max_i (|<dw_i, x>| + |db_i|)",
            axis="sample and step",
            margin=1e-12,
        ),
    )


def trajectory(net: TwoLayer, x: Array, y: Array, eta: float, lam: float, steps: int, key: Key) -> list[TwoLayer]:
    """Networks after 0..steps full-batch steps of stage 3 (no noise, penalty lam on w and a)."""
    keep = 1 - 2 * eta * lam
    stage = Stage(steps=steps, rate_w=eta, rate_b=eta, rate_a=eta, keep_w=keep, keep_a=keep)
    run = fit(
        net, torch.as_tensor(x), torch.as_tensor(y), [stage], key, probes={"all": _packed}, probe_at=range(steps + 1)
    )
    return [TwoLayer(p[..., :-2], p[..., -2], p[..., -1]) for p in run.trace["all"]]


def _packed(net: TwoLayer, members: slice) -> torch.Tensor:
    return torch.cat([net.w, net.b[..., None], net.a[..., None]], -1)


def movement(nets: list[TwoLayer]) -> tuple[Array, Array, Array]:
    """|a^(t)|, ||w^(t) - w^(2)|| and |b^(t) - b^(2)| of every neuron, (t, m) each; nets[0] is step 2."""
    a = np.array([n.a[0].abs().numpy() for n in nets])
    w = np.array([(n.w[0] - nets[0].w[0]).norm(dim=1).numpy() for n in nets])
    b = np.array([(n.b[0] - nets[0].b[0]).abs().numpy() for n in nets])
    return a, w, b


def _gap(second: Array, start: TwoLayer, net: TwoLayer, x: Array) -> dict[str, Array]:
    """Change of the prediction with a second layer a~, its norm and support, and the largest move of a used neuron."""
    swap = torch.as_tensor(second)[None]
    g = [forward(TwoLayer(n.w, n.b, swap), torch.as_tensor(x))[0].numpy() for n in (net, start)]
    shift = np.abs(x @ (net.w - start.w)[0].numpy().T) + np.abs((net.b - start.b)[0].numpy())
    used, n = second != 0, len(x)
    return {
        "gap": np.abs(g[0] - g[1]),
        "norm": np.full(n, np.linalg.norm(second)),
        "used": np.full(n, float(used.sum())),
        "shift": shift[:, used].max(1),
    }


def run_observe(settings: tuple[Run, ...], key: Key) -> Mapping[str, Observation]:
    """Runs of the engine; for Lemma 25 also sixteen equal neurons, which attain its bound."""
    moves: list[tuple[Array, Array, Array]] = []
    gaps: list[dict[str, Array]] = []
    second = key.numpy().normal(0, 5, 40) * ((key / "used").numpy().random(40) < 0.5)
    for i, r in enumerate(settings):
        start = network(r.w, r.b, r.a)
        nets = trajectory(start, r.x, r.y, r.eta, r.lam, r.steps, key / i)
        moves.append(movement(nets))
        if len(r.a) == len(second):
            gaps += [_gap(second, start, n, r.x) for n in nets[10::25]]
    same = network(np.tile([[0.3, 0.1]], (16, 1)), np.full(16, 0.1), np.full(16, 0.5))
    moved = network(np.tile([[0.35, 0.1]], (16, 1)), np.full(16, 0.1), np.full(16, 0.5))
    gaps.append(_gap(np.full(16, 0.5), same, moved, np.array([[1.0, 0.0]])))
    whole = {name: np.concatenate([g[name] for g in gaps]) for name in gaps[0]}
    a, w, b = (np.concatenate([np.ravel(m[j][1:]) for m in moves]) for j in range(3))
    return {
        "|a^(t)|": a,
        "||w^(t) - w^(2)||": w,
        "|b^(t) - b^(2)|": b,
        "|g~^(t) - g~^(2)|": Derived(whole.pop("gap"), whole),
    }


KINDS = ("hinge", "logistic", "squared", "linear")


def convex_losses(kind: Array, z: Array, y: Array, theta: Array) -> tuple[Array, Array]:
    """Values (N) and gradients (N, d) of N losses of the score y <z, theta>; kind indexes KINDS."""
    score = y * (z * theta).sum(1)
    values = [np.maximum(1 - score, 0), np.logaddexp(0, -score), 0.5 * (score - 1) ** 2, score]
    slopes = [-(score <= 1).astype(float), -expit(-score), score - 1, np.ones_like(score)]
    return np.choose(kind, values), (np.choose(kind, slopes) * y)[:, None] * z


def online_descent(kind: Array, z: Array, y: Array, start: Array, eta: Array) -> tuple[Array, Array]:
    """theta <- theta - eta grad f_t(theta) for N sequences at once: values (N, T) and gradient norms (N, T).

    z (N, T, d) and y (N, T) define the losses, kind (N) their form, start (N, d), eta (N).
    """
    theta, values, sizes = start, [], []
    for t in range(z.shape[1]):
        value, grad = convex_losses(kind, z[:, t], y[:, t], theta)
        values.append(value)
        sizes.append(np.linalg.norm(grad, axis=1))
        theta = theta - eta[:, None] * grad
    return np.stack(values, 1), np.stack(sizes, 1)


@dataclass(frozen=True)
class Losses:
    """N sequences of T losses: kind (N), z (N, T, d), y (N, T), th_1 (N, d), th* (N, d), eta (N)."""

    kind: Array
    z: Array
    y: Array
    start: Array
    star: Array
    eta: Array


def descent_settings(key: Key) -> tuple[Losses, ...]:
    """1000 random sequences, and linear losses that need one part of the bound each.

    These are a far comparator, a far start and gradients of alternating sign.
    """
    rng, blocks = key.numpy(), []
    for T, d in ((1, 2), (2, 1), (5, 3), (24, 6)):
        N = 250
        z = rng.normal(0, 1, (N, T, d))
        z /= np.maximum(1, np.linalg.norm(z, axis=2, keepdims=True))  # keeps squared losses from blowing up
        y = np.where(rng.random((N, T)) < 0.5, 1.0, -1.0)
        start = rng.normal(0, 1, (N, d)) * np.exp(rng.uniform(-2, 2, (N, 1)))
        eta = np.exp(rng.uniform(-4, 0.5, N))
        blocks.append(Losses(np.arange(N) % 4, z, y, start, rng.normal(0, 2, (N, d)), eta))
    for signs, start, star, eta in (([1.0] * 4, 0.0, -0.4, 0.1), ([1.0], 5.0, 0.0, 0.01), ([1.0, -1.0], 0.0, 0.0, 0.5)):
        y = np.array([signs])
        ends = [np.full((1, 1), v) for v in (start, star)]
        blocks.append(Losses(np.full(1, 3), np.ones((*y.shape, 1)), y, *ends, np.full(1, eta)))  # pyright: ignore[reportCallIssue]
    return tuple(blocks)


def descent_statements(settings: tuple[Losses, ...]) -> tuple[Statement, ...]:
    """Theorem 27, and the same with half of the last term."""

    def bound(star: Array, start: Array, eta: Array, T: Array, size: Array, square: Array, last: float) -> Array:
        return star**2 / (2 * eta * T) + start * size + last * eta * square

    law = Law(bound, last=1.0)
    alike = {"axis": "sequence", "margin": 1e-9}
    return (
        at_most("regret", REAL, law, "Theorem 27: |th*|^2/(2 eta T) + |th_1| mean|grad| + eta mean|grad|^2", **alike),
        at_most(
            "regret, with eta/2 mean|grad|^2",
            REAL,
            law.but(last=0.5),
            "the telescoped proof gives eta/2",
            of="regret",
            form="derived",
            **alike,
        ),
    )


def descent_observe(settings: tuple[Losses, ...], key: Key) -> Mapping[str, Observation]:
    """mean f_t(th_t) - mean f_t(th*), with norms of th*, th_1 and the gradients on the way."""
    found: dict[str, list[Array]] = {n: [] for n in ("regret", "star", "start", "eta", "T", "size", "square")}
    for s in settings:
        values, size = online_descent(s.kind, s.z, s.y, s.start, s.eta)
        T = s.z.shape[1]
        best = np.mean([convex_losses(s.kind, s.z[:, t], s.y[:, t], s.star)[0] for t in range(T)], 0)
        for name, value in (
            ("regret", values.mean(1) - best),
            ("star", np.linalg.norm(s.star, axis=1)),
            ("start", np.linalg.norm(s.start, axis=1)),
            ("eta", s.eta),
            ("T", np.full(len(s.eta), float(T))),
            ("size", size.mean(1)),
            ("square", (size**2).mean(1)),
        ):
            found[name].append(value)
    whole = {name: np.concatenate(parts) for name, parts in found.items()}
    return {"regret": Derived(whole.pop("regret"), whole)}


def _jacobian(net: TwoLayer, x: torch.Tensor) -> torch.Tensor:
    """d g(x_s) / d (a, w, b) by autograd, rows (n, m + m d + m)."""
    params = [p.clone().requires_grad_() for p in (net.a, net.w, net.b)]
    rows = []
    for s in range(len(x)):
        score = forward(TwoLayer(params[1], params[2], params[0]), x[s : s + 1]).sum()
        rows.append(torch.cat([g.reshape(-1) for g in torch.autograd.grad(score, params)]))
    return torch.stack(rows)


@dataclass(frozen=True)
class Tangent:
    """Half of a mirrored network, inputs phi in pattern coordinates, dictionaries (d, D), and a move of all weights."""

    half: TwoLayer
    phi: torch.Tensor
    frames: tuple[torch.Tensor, torch.Tensor]
    move: Array

    @property
    def y(self) -> torch.Tensor:
        return torch.sign(self.phi[:, 0] * self.phi[:, 1])


def tangent_settings(key: Key) -> Tangent:
    """d = 16, D = 10, 2m = 12; an orthonormal dictionary and one that is only incoherent."""
    D, d, m, n = 10, 16, 6, 60
    half = gaussian_init(m, d, key / "init", sigma_w=0.5, sigma_b=0.3, sigma_a=1.5)
    half = TwoLayer(half.w.double(), half.b.double(), half.a.double())
    M = torch.linalg.qr(orthonormal_dictionary(d, D, key / "M").double())[0]
    frames = (M, incoherent_dictionary(d, D, key / "skew").double())
    phi = torch.as_tensor(key.numpy().normal(0, 0.5, (n, D)))
    return Tangent(half, phi, frames, (key / "move").numpy().normal(size=2 * m * (d + 2)))


def tangent_statements(at: Tangent) -> tuple[Statement, ...]:
    """Tangent features per neuron, and what mirrored starts and orthonormal dictionaries leave unchanged."""
    x = (at.phi @ at.frames[0].T).numpy()
    w, b, a = (np.concatenate([v[0].numpy()] * 2) for v in (at.half.w, at.half.b, at.half.a))
    a[len(a) // 2 :] *= -1
    z = x @ w.T + b

    def features(second: Array) -> Array:
        gate = ((z > 0) & (z < 1)) * second
        return np.concatenate([z.clip(0, 1), (gate[:, :, None] * x[:, None, :]).reshape(len(x), -1), gate], 1)

    right, wrong = features(a), features(np.ones_like(a))
    source = "emergence.method_baselines: (sigma(z), a sigma'(z) x, a sigma'(z)) a neuron"
    alike = {"margin": 1e-10, "rival_says": "first-layer features without a"}
    return (
        equal("dg/d(a, w, b)", REAL, np.ravel(right), source, rival=np.ravel(wrong), **alike),
        equal("linearised prediction", REAL, right @ at.move, source, rival=wrong @ at.move, **alike),
        equal(
            "rank of mirrored random features",
            COUNT,
            float(len(a) // 2),
            "mirrored start: pairs of equal features",
            rival=float(len(a)),
            rival_says="2m: width counted twice",
        ),
        equal(
            "NTK of the mirrored network less that of one half at twice the rate",
            REAL,
            0.0,
            "mirrored start: pairs of equal features",
            margin=1e-10,
            rival=control("NTK of the mirrored network less that of one half at the same rate"),
            rival_says="one half at the same rate",
        ),
        *(
            equal(
                f"{what} in x space less in phi space",
                REAL,
                0.0,
                "x in the span of an orthonormal M: all inner products are those of phi",
                margin=1e-10,
                rival=control(f"{what} in x space less in phi space, dictionary not orthonormal"),
                rival_says="a dictionary that is not orthonormal",
            )
            for what in ("NTK kernel", "trained network")
        ),
    )


def tangent_observe(at: Tangent, key: Key) -> Mapping[str, Observation]:
    """Autograd and the learners of the library."""
    half, phi, y = at.half, at.phi, at.y
    net, x = mirrored(half), phi @ at.frames[0].T
    m = net.a.shape[1]
    da, dw, db = (torch.as_tensor(v) for v in np.split(at.move, [m, m + net.w.numel()]))
    v = torch.cat([dw.reshape(1, m, -1), db.reshape(1, m, 1)], -1)

    def ntk(start: TwoLayer, rate: float) -> Array:
        return fit_linearised(start, x, y, [rate], key / "ntk", steps=40, batch=None)(x)[:, 0].numpy()

    both = ntk(net, 0.05)
    stages = [Stage(steps=30, rate_w=0.2, rate_b=0.2, rate_a=0.2, keep_w=0.99)]
    seen: dict[str, Observation] = {
        "dg/d(a, w, b)": np.ravel(_jacobian(net, x).numpy()),
        "linearised prediction": Linearised(net, v, da[None])(x)[:, 0].numpy(),
        "rank of mirrored random features": float(torch.linalg.matrix_rank(preactivation(net, x)[0].clamp(0, 1))),
        "NTK of the mirrored network less that of one half at twice the rate": both - ntk(half, 0.1),
        "NTK of the mirrored network less that of one half at the same rate": both - ntk(half, 0.05),
    }
    for frame, suffix in zip(at.frames, ("", ", dictionary not orthonormal"), strict=True):
        far, near = phi @ frame.T, TwoLayer(net.w @ frame, net.b, net.a)
        one, two = _jacobian(net, far), _jacobian(near, phi)
        seen[f"NTK kernel in x space less in phi space{suffix}"] = np.ravel((one @ one.T - two @ two.T).numpy())
        outer = forward(fit(net, far, y, stages, key / "train").net, far)
        inner = forward(fit(near, phi, y, stages, key / "train").net, phi)
        seen[f"trained network in x space less in phi space{suffix}"] = (outer - inner)[0].numpy()
    return seen


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="emergence.lemma24",
        entries=("emergence.lemma24",),
        says="Last stage: |a| <= eta t + |a^(2)|, ||w - w^(2)|| <= 2 t eta lam ||w^(2)|| + eta^2 t^2 + t |a^(2)|, "
        "|b - b^(2)| <= eta^2 t^2 + t |a^(2)|, and the prediction gap.",
        settings=run_settings,
        statements=run_statements,
        observe=run_observe,
        remarks="t counts the steps after step 2. Biases carry no penalty, so that the lam term that the bound on b "
        "allows is not used. The factor t of the penalty part is that of the ICLR paper, (265); our copy of the thesis "
        "lacks it in (A.262), which may be the copy, and the last planted run needs it. The sum of g~ runs "
        "over the neurons that a~ uses, m or 2m.",
    ),
    Claim(
        id="emergence.theorem27",
        entries=("emergence.theorem27",),
        says="Online gradient descent from any start: mean f_t(th_t) <= mean f_t(th*) + |th*|^2/(2 eta T) + "
        "|th_1| mean|grad| + eta mean|grad|^2.",
        settings=descent_settings,
        statements=descent_statements,
        observe=descent_observe,
        remarks="Hinge, logistic, squared and linear losses. The theorem has eta where eta/2 is enough.",
    ),
    Claim(
        id="emergence.method_baselines",
        entries=("emergence.method_baselines",),
        says="Tangent features per neuron, duplicated mirrored features, and equality of training in x and phi space.",
        settings=tangent_settings,
        statements=tangent_statements,
        observe=tangent_observe,
        remarks="In phi space every method works with D coordinates in place of d.",
    ),
)
