"""Near the start of a wide network few signs change (Lemma C.1), and gradients point home (Claims C.5 to C.7)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim, Premise
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_least, at_most, exponent
from featlearn.lab.uncertainty import Estimate, Observation, slope
from featlearn.learn import ResidualSchedule, fit_residual
from featlearn.learn.residual import HIDDEN
from featlearn.nets import Residual, residual_forward, residual_gradients
from featlearn.tasks import SmoothComposite
from featlearn.works.resnet.setup import SMALL, Net, cheapest, flipped, tensor

Array = np.ndarray

# Lemma C.1 -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scales:
    """Scales of Lemma C.1 at which its premises hold at every width: sigma_v = 1, tau_v = (k/m)^(3/8).

    Entries that change their sign are small, and laws are powers, up to (t/sigma_w)^2, t^3 being about 3 tau_w^2
    sigma_w/m for the largest: the smallest width keeps what this adds to an exponent below a third of the margin.
    """

    widths: tuple[int, ...] = (2**11, 2**13, 2**15)
    sigma_w: float = 0.3
    tau_w: float = 1.12
    d: int = 8
    k: int = 3
    draws: int = 12


@dataclass(frozen=True)
class Start:
    """A start at width m: w0 (m, d+1), v0 (m, k+1), a (k, m), and the fixed x (d) of norm 1."""

    w0: Array
    v0: Array
    a: Array
    x: Array

    def gates(self, w: Array | float = 0.0, v: Array | float = 0.0) -> tuple[Array, Array, Array, Array]:
        """Gates of both layers at w0 + w and v0 + v, out1 and out, by the library."""
        w1, v1 = tensor(self.w0 + w), tensor(self.v0 + v)
        net = Residual(
            w=w1[..., :-1],
            b1=w1[..., -1],
            a=tensor(self.a),
            v=v1[..., :-1],
            b2=v1[..., -1],
            wiring="residual bottleneck",
        )
        seen = residual_forward(net, tensor(self.x[None])[0])
        assert seen.h2 is not None
        assert seen.inner is not None
        on, on2, first, out = (z[0, 0].numpy() for z in (seen.h > 0, seen.h2 > 0, seen.inner, seen.out))
        return on, on2, first, out


def start(s: Scales, m: int, key: Key) -> Start:
    """A drawn start."""
    rng = key.numpy()
    return Start(
        s.sigma_w * rng.normal(size=(m, s.d + 1)),
        rng.normal(size=(m, s.k + 1)) / math.sqrt(m),
        rng.normal(size=(s.k, m)) / math.sqrt(m),
        np.eye(s.d)[0],
    )


def tau_v(s: Scales, m: int) -> float:
    """The radius of V, sigma_v being 1."""
    return (s.k / m) ** 0.375


def premises(settings: Scales) -> Sequence[Premise]:
    """tau_w in its interval and at least 1 at every width; tau_v at the lower end of its own."""
    s = settings
    inside = all(
        m**0.126 * s.sigma_w <= s.tau_w <= m**0.124 * s.sigma_w**0.25 and m**-0.49 <= s.sigma_w <= m**-0.01
        for m in s.widths
    )
    return (
        Premise("tau_w >= 1 and in [m^(1/8+0.001) sigma_w, m^(1/8-0.001) sigma_w^(1/4)]", inside and s.tau_w >= 1),
        Premise(
            "tau_v in [sigma_v (k/m)^(3/8), sigma_v]", all((s.k / m) ** 0.375 <= tau_v(s, m) <= 1 for m in s.widths)
        ),
    )


PARTS = {
    "a": "growth with m of the signs of the first layer that change under our attack",
    "b": "growth with m of what sign changes add to A D_W W0 (x, 1) under our attack",
    "c": "growth with m of ||out1(x)|| / tau_w under our attack",
    "d": "growth with m of the signs of the second layer that change under our attack, over (tau_v/sigma_v)^(2/3)",
    "e": "growth with m of what sign changes add to A D_V V0 z under our attack, z = (out1, 1), over ||z|| tau_v"
    " (tau_v/sigma_v)^(1/3)",
    "g": "growth with m of ||A D_V (V0 + V)(out1, 1)|| / (tau_v ||(out1, 1)||) under our attack",
}


def says_coupling(settings: Scales) -> Sequence[Statement]:
    """(a) m^(2/3), (b) m^(-1/6), (c) O(tau_w) at fixed tau_w, sigma_w; (d), (e), (g) at tau_v = sigma_v (k/m)^(3/8)."""
    rows = (
        ("a", 2 / 3, 3 / 4, "m^(3/4)"),
        ("b", -1 / 6, -1 / 12, "m^(-1/12)"),
        ("c", 0.0, 1 / 8, "m^(1/8)"),
        ("d", 1.0, 1 + 1 / 8, "(tau_v/sigma_v)^(1/3) m"),
        ("e", 0.0, 1 / 8, "tau_v, without the factor (tau_v/sigma_v)^(1/3)"),
        ("g", 0.0, 1 / 8, "sigma_v^(1/3) tau_v^(2/3)"),
    )
    return tuple(
        exponent(
            PARTS[part],
            "at most",
            value,
            f"Lemma C.1 ({part})",
            margin=0.05,
            rival=rival,
            rival_says=f"growth as {says}",
        )
        for part, value, rival, says in rows
    )


def fit(settings: Scales, key: Key, measured: Callable[[Scales, int, Key], Mapping[str, float]]) -> dict[str, Estimate]:
    """Slopes against log m of the logarithms of what was measured at every width and draw."""
    x, found = [], {}
    for m in settings.widths:
        for i in range(settings.draws):
            x.append(math.log(m))
            for name, value in measured(settings, m, key / m / i).items():
                found.setdefault(name, []).append(math.log(value))
    return {name: slope(x, y, "start") for name, y in found.items()}


def couplings(s: Scales, m: int, key: Key) -> Mapping[str, float]:
    """Each part at weights that are made to violate it, of spectral norm tau_w and tau_v: all of rank one."""
    at = start(s, m, key)
    one = np.append(at.x, 1)
    on, on2, first, _ = at.gates()
    z = np.append(first, 1)
    length, radius = float(np.linalg.norm(z)), tau_v(s, m)
    g, g2 = at.w0 @ one, at.v0 @ z
    second = at.a @ np.maximum(g2, 0)
    along, along2 = (at.a.T @ u / np.linalg.norm(at.a.T @ u) for u in (first, second))

    def w(change: Array) -> Array:
        return np.outer(change, one) / 2

    def v(change: Array) -> Array:
        return np.outer(change, z) / length**2

    budget, budget2 = SMALL * 2 * s.tau_w**2, SMALL * (radius * length) ** 2
    few = at.gates(w(flipped(g, cheapest(np.ones(m), g**2, budget))))[0]
    aimed = at.gates(w(flipped(g, cheapest(-at.a[0] * np.abs(g), g**2, budget))))[0]
    large = at.gates(w(math.sqrt(2) * s.tau_w * along))[2]
    few2 = at.gates(0.0, v(flipped(g2, cheapest(np.ones(m), g2**2, budget2))))[1]
    aimed2 = at.gates(0.0, v(flipped(g2, cheapest(-at.a[0] * np.abs(g2), g2**2, budget2))))[1]
    end = at.gates(0.0, v(radius * length * along2))
    return {
        PARTS["a"]: float((few != on).sum()),
        PARTS["b"]: float(np.linalg.norm(at.a @ ((aimed * 1.0 - on) * g))),
        PARTS["c"]: float(np.linalg.norm(large)) / s.tau_w,
        PARTS["d"]: float((few2 != on2).sum()) / radius ** (2 / 3),
        PARTS["e"]: float(np.linalg.norm(at.a @ ((aimed2 * 1.0 - on2) * g2))) / (radius ** (4 / 3) * length),
        PARTS["g"]: float(np.linalg.norm(end[3] - end[2])) / (radius * length),
    }


def sees_coupling(settings: Scales, key: Key) -> Mapping[str, Observation]:
    """Fits over widths."""
    return fit(settings, key, couplings)


NORM = "growth with m of what sign changes add to ||A D_V V0||_2 under our attack, over tau_v (tau_v/sigma_v)^(1/3)"


def says_norm(settings: Scales) -> Sequence[Statement]:
    """(f) ||A D_V V0||_2 <= O~(tau_v (tau_v/sigma_v)^(1/3)); sigma_v (tau_v/sigma_v)^(2/3) exceeds it by m^(1/4)."""
    return (
        exponent(
            f"{NORM}, as reported",
            "at most",
            0.0,
            "Lemma C.1 (f)",
            of=NORM,
            margin=0.05,
            rival=0.25,
            rival_says="sigma_v (tau_v/sigma_v)^(2/3)",
            expect="contradicted",
        ),
        exponent(
            NORM,
            "equal",
            0.25,
            "Lemma C.1 (f), corrected: sigma_v (tau_v/sigma_v)^(2/3), s/m of the entries of V0 being at hand",
            margin=0.05,
            rival=0.0,
            rival_says="as reported",
            form="corrected",
            twin=f"{NORM}, as reported",
        ),
    )


def norms(s: Scales, m: int, key: Key) -> Mapping[str, float]:
    """Signs are changed where that adds most to u^T A D_V V0 y, for a direction y across (out1, 1)."""
    at = start(s, m, key)
    _, on, first, _ = at.gates()
    z = np.append(first, 1)
    radius = tau_v(s, m)
    moved = at.gates(0.0, across(at, z, radius))[1]
    return {NORM: float(np.linalg.norm((at.a * (moved * 1.0 - on)) @ at.v0, 2)) / radius ** (4 / 3)}


def across(at: Start, z: Array, radius: float) -> Array:
    """V of rank one and norm below `radius` that changes signs for a direction across z."""
    g, y = at.v0 @ z, np.linalg.svd(z[None])[2][1]
    gain = np.where(g >= 0, -1, 1) * at.a[0] * (at.v0 @ y)
    change = flipped(g, cheapest(gain, g**2, SMALL * radius**2 * float(z @ z)))
    return np.outer(change, z) / float(z @ z)


def sees_norm(settings: Scales, key: Key) -> Mapping[str, Observation]:
    """Fits over widths."""
    return fit(settings, key, norms)


# Claims C.5 to C.7 ---------------------------------------------------------------------------------------------------

SHRUNK = 0.866
"""What the comparator reaches of H - out: Err = -0.134 (H - out), where the bound comes nearest to the truth."""


@dataclass(frozen=True)
class Trained:
    """A network after training on a smooth target, inputs x (n, d), values f of F and g of alpha G(F) there (n, k)."""

    net: Net
    x: Array
    f: Array
    g: Array


def draw_trained(key: Key) -> Trained:
    """Algorithm 1 from a start of Section 6 with sigma_w = 0.3 and sigma_v = 1, m = 300."""
    task, m = SmoothComposite(d=8, k=3 + 1, alpha=0.1), 300
    truth, rng = task.draw(key), key.numpy()
    net = Net(
        0.3 * rng.normal(size=(m, 9)), rng.normal(size=(m, 5)) / math.sqrt(m), rng.normal(size=(4, m)) / math.sqrt(m)
    )

    def sampler(n: int, at: Key) -> tuple[torch.Tensor, torch.Tensor]:
        batch = task.sample(truth, n, at)
        return batch.x.double(), batch.y.double()

    schedule = ResidualSchedule(steps=600, rate=0.02, rates={"v": 0.1, "b2": 0.1}, momentum=0.0, batch=1)
    after = fit_residual(engine(net), sampler, schedule, key / "train", trained=HIDDEN).net
    assert after.v is not None
    assert after.b2 is not None
    w, v = (torch.cat([p, q[..., None]], -1)[0].numpy() for p, q in ((after.w, after.b1), (after.v, after.b2)))
    x = task.sample(truth, 20, key / "x").x
    base = task.base(truth, x)
    above = task.alpha * task.composite(truth, base)
    x, f, g = (z.double().numpy() for z in (x, base, above))
    return Trained(Net(w, v, net.a), x, f, g)


def engine(net: Net) -> Residual:
    """The library's network."""
    w, v = tensor(net.w), tensor(net.v)
    return Residual(
        w=w[..., :-1], b1=w[..., -1], a=tensor(net.a), v=v[..., :-1], b2=v[..., -1], wiring="residual bottleneck"
    )


@dataclass(frozen=True)
class Point:
    """At one input: X = (x, 1), z = (out1, 1), out; f(W') = m W' X and g(V') = n V' z in the words of Fact C.4."""

    one: Array
    z: Array
    out: Array
    m: Array
    n: Array


def point(net: Net, x: Array) -> Point:
    """Written out from Section 6.1."""
    one = np.append(x, 1)
    on = net.w @ one >= 0
    z = np.append(net.a @ (on * (net.w @ one)), 1)
    on2 = net.v @ z >= 0
    first, second = net.a * on, net.a * on2
    return Point(one, z, z[:-1] + second @ (net.v @ z), second @ net.v[:, :-1] @ first + first, second)


LEVELS, STARTS, WIDE = (1.0, 2.0, 4.0, 8.0), 6, 1024
GROWS = {
    "w": "growth of ||grad_W Obj|| / ||y - out|| under our attack with sigma_v = 1 to 8",
    "v": "growth of ||grad_V Obj|| / ||y - out|| under our attack with tau_w = 1 to 8",
}


def worst_size(net: Net, x: Array, part: str) -> float:
    """||grad|| of W or V, biases included, by the library, at a label one away along the worst direction."""
    p, one = point_of(net, x), torch.from_numpy(x[None])
    label = residual_forward(engine(net), one).out[0] + torch.from_numpy(np.linalg.svd(p[part == "v"])[0][:, 0])
    found = residual_gradients(engine(net), one, label)
    return math.hypot(float(found[part].norm()), float(found[{"w": "b1", "v": "b2"}[part]].norm()))


def growths(key: Key) -> Mapping[str, Observation]:
    """Near starts: V of norm sigma_v/2 that changes signs where they cancel; W of norm tau_w along out1."""
    s, x, sizes = Scales(), [], {"w": [], "v": []}
    for level in LEVELS:
        for i in range(STARTS):
            at = start(s, WIDE, key / i)
            z = np.append(at.gates()[2], 1)
            scaled = Start(at.w0, level * at.v0, at.a, at.x)
            along = at.a.T @ z[:-1]
            large = at.w0 + level * np.outer(along / np.linalg.norm(along), np.append(at.x, 1)) / math.sqrt(2)
            nets = {
                "w": Net(at.w0, scaled.v0 + across(scaled, z, level / 2), at.a),
                "v": Net(large, at.v0, at.a),
            }
            x.append(math.log(level))
            for part, net in nets.items():
                sizes[part].append(math.log(worst_size(net, at.x, part)))
    return {name: slope(x, sizes[part], "start") for part, name in GROWS.items()}


def says_gradients(settings: Trained) -> Sequence[Statement]:
    """C.5: gradients are at most 2 ||y - out|| ||M|| and ||y - out|| ||A D_V|| ||(out1, 1)||; then Delta_t, and C.7."""
    points = [point(settings.net, x) for x in settings.x]
    h = settings.f + settings.g
    gaps = [t - p.out for t, p in zip(h, points, strict=True)]
    kappa = [np.linalg.norm(p.out - p.z[:-1]) / (np.linalg.norm(p.z[:-1]) + 1) for p in points]
    source = "Appendix C.3"
    return (
        *(
            exponent(
                name,
                "at most",
                1.0,
                f"{source}, Claim C.5, from 1 on where O({scale} + 1) is O({scale})",
                margin=0.05,
                rival=2.0,
                rival_says=f"{scale}^2",
            )
            for name, scale in ((GROWS["w"], "sigma_v"), (GROWS["v"], "tau_w"))
        ),
        at_most(
            "||grad_W Obj|| at labels along the worst direction, ||y - out|| = 1",
            POSITIVE,
            np.array([2 * np.linalg.norm(p.m, 2) for p in points]),
            f"{source}, proof of Claim C.5",
            margin=1e-9,
            axis="input",
            form="derived",
        ),
        at_most(
            "||grad_V Obj|| at labels along the worst direction, ||y - out|| = 1",
            POSITIVE,
            np.array([np.linalg.norm(p.z) * np.linalg.norm(p.n, 2) for p in points]),
            f"{source}, proof of Claim C.5",
            margin=1e-9,
            axis="input",
            form="derived",
        ),
        at_least(
            "<grad Obj, (W - W*, V - V*)> against ||H - out||^2 / 2 - 2 ||Err||^2",
            REAL,
            np.array([(0.5 - 2 * (1 - SHRUNK) ** 2) * float(r @ r) for r in gaps]),
            "Section 6.1, third step, with y = H",
            axis="input",
            form="derived",
        ),
        at_most(
            "||out1 - F|| against (||out - H|| + kappa (B_F + 1) + alpha B_FoG) / (1 - kappa)",
            POSITIVE,
            np.array(
                [
                    (np.linalg.norm(r) + 2 * c + np.linalg.norm(g)) / (1 - c)
                    for r, c, g in zip(gaps, kappa, settings.g, strict=True)
                ]
            ),
            f"{source}, proof of Claim C.7, kappa = ||A D_V (V0 + V)(out1, 1)|| / (||out1|| + 1) in place of O~(tau_v)",
            margin=1e-9,
            axis="input",
            form="derived",
        ),
    )


def sees_gradients(settings: Trained, key: Key) -> Mapping[str, Observation]:
    """The library's outputs and gradients, input by input."""
    net, x = engine(settings.net), torch.from_numpy(settings.x)
    seen = residual_forward(net, x)
    assert seen.inner is not None
    out, first = seen.out[0], seen.inner[0]
    size: dict[str, list[float]] = {"w": [], "v": []}
    along = []
    for i in range(len(x)):
        at, one = settings.x[i], x[i : i + 1]
        p = point_of(settings.net, at)
        for part, into in size.items():
            into.append(worst_size(settings.net, at, part))
        h = torch.from_numpy(settings.f[i] + settings.g[i])
        found = residual_gradients(net, one, h[None])
        missing = SHRUNK * (h - out[i]).numpy()
        move = np.outer(np.linalg.pinv(p[0]) @ missing, np.append(at, 1)) / (1 + float(at @ at))
        slopes = torch.cat([found["w"], found["b1"][..., None]], -1)[0].numpy()
        along.append(-float((slopes * move).sum()))
    return {
        **growths(key),
        "||grad_W Obj|| at labels along the worst direction, ||y - out|| = 1": np.array(size["w"]),
        "||grad_V Obj|| at labels along the worst direction, ||y - out|| = 1": np.array(size["v"]),
        "<grad Obj, (W - W*, V - V*)> against ||H - out||^2 / 2 - 2 ||Err||^2": np.array(along),
        "||out1 - F|| against (||out - H|| + kappa (B_F + 1) + alpha B_FoG) / (1 - kappa)": (
            (first - torch.from_numpy(settings.f)).norm(dim=1).numpy()
        ),
    }


def point_of(net: Net, x: Array) -> tuple[Array, Array]:
    """M and N by the library's gates."""
    seen = residual_forward(engine(net), torch.from_numpy(x[None]))
    assert seen.h2 is not None
    first, second = (net.a * (h[0, 0] > 0).numpy() for h in (seen.h, seen.h2))
    return second @ net.v[:, :-1] @ first + first, second


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="resnet.lemmaC1",
        entries=("resnet.lemmaC1",),
        says="Within tau_w and tau_v of the start few signs change, and what W0 and V0 add is small: (a) to (e), (g).",
        settings=Scales(),
        premises=premises,
        statements=says_coupling,
        observe=sees_coupling,
        remarks="Attacks of rank one bound what W and V can do from below: they could contradict a part, and agree "
        "with it"
        " for what they reach only.",
    ),
    Claim(
        id="resnet.lemmaC1_f",
        entries=("resnet.lemmaC1",),
        says="Lemma C.1 (f): ||A D_V V0||_2 is at most tau_v (tau_v/sigma_v)^(1/3) up to logarithms.",
        settings=Scales(),
        premises=premises,
        statements=says_norm,
        observe=sees_norm,
        accuses=Accusation(
            quote="(f) ||A D_{V,W} V^(0)||_2 <= O~(tau_v (tau_v/sigma_v)^(1/3))",
            place="Appendix C.1, Lemma C.1 (f), 'a byproduct of the proof of Lemma C.1e'",
            reading="The spectral norm of Section 4, for all V with ||V||_2 <= tau_v, as the proof of Claim C.6 uses it"
            " on a vector other than (out1(x), 1). Along (out1(x), 1) alone it is part (e), and true.",
            hits="statement",
            derivation="V of rank one with V (out1, 1) small can change the signs of the s of about m"
            " (tau_v/sigma_v)^(2/3) neurons where |V0 (out1, 1)| is least, or of any part of these. In a"
            " direction y across (out1, 1) the entries of V0 y stay of size sigma_v/sqrt(m); taking the half"
            " whose terms have one sign, u^T A D_V V0 y moves by about s sigma_v/m = sigma_v"
            " (tau_v/sigma_v)^(2/3), which exceeds the bound by (sigma_v/tau_v)^(2/3): up to (m/k)^(1/4) where"
            " the lemma allows it, and nothing at tau_v = sigma_v; what it moves from is of order sigma_v"
            " sqrt(k/m) only. The proof bounds A D_V V0 z for the z that sets the gates only. Whether Theorem 1"
            " needs it for the V that SGD reaches is open: the proof of Claim C.6 uses (f), and where its"
            " 1/sigma_v <= tau_v^2 holds, sigma_v^(1/3) tau_v^(2/3) is at least 1, so that no bound over all V of"
            " norm tau_v makes that term small.",
        ),
    ),
    Claim(
        id="resnet.claimC6_C7",
        entries=("resnet.claimC6_C7",),
        says="Gradients are at most ||y - out|| O(sigma_v + 1) and ||y - out|| O(tau_w + 1); along W - W*, V - V* "
        "the loss"
        " falls by at least ||H - out||^2/2 - 2 ||Err||^2; the first layer is near F where the whole is near H.",
        settings=draw_trained,
        statements=says_gradients,
        observe=sees_gradients,
        remarks="Constants of the claims are open, so that growth is judged, from below by an attack, and steps of the"
        " proofs, at trained weights: these are algebra, or have a comparator made from the network and not that of "
        "Lemma"
        " E.1, and are derived. The growth was added when that was seen. Nothing here tests E ||Err||^2.",
    ),
)
