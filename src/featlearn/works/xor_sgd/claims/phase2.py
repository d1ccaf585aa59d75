"""Clean gradients of phase 2, on signal-heavy networks, by enumeration of the cube."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.linalg import norm

from featlearn.core import Key
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_most, control, equal, exponent
from featlearn.works.xor_sgd.claims.clean import (
    EXACT,
    ZETA,
    D,
    H,
    along,
    centre_slopes,
    clean_gradients,
    heavy,
    measured_sizes,
    own_size,
    population_gradients,
    projections,
    sizes,
)
from featlearn.works.xor_sgd.setup import ROOT2, TAU2, Array, Net, centres, heavy_net

# Eq. (4.7) -----------------------------------------------------------------------------------------------------------


def draw_mixed(key: Key) -> Net:
    """24 neurons whose orthogonal parts flip some gates."""
    return heavy_net(24, D, key, opp=0.2, perp=0.6)


def clean_statements(net: Net) -> tuple[Statement, ...]:
    """E over xi given z, with s = w.z and t = w.xi, whose law is symmetric.

    E[1(s + t > 0) t] = E[|t| 1(|t| >= |s|)] / 2 and E[relu(s + t)] = (s + E max(|s|, |t|)) / 2.
    """
    t, z = np.abs(projections(net))[:, None, :], centres(D) @ net.w.T
    push = centre_slopes(net)[:, None]
    turned = (t * (t >= np.abs(z))).mean(0) / 2
    law = net.a * (push * turned).mean(0)
    tall = (push * (z + np.maximum(np.abs(z), t).mean(0)) / 2).mean(0)
    flat = (push * np.maximum(z, 0)).mean(0)
    return (
        equal(
            "w_perp . clean grad_w",
            REAL,
            law,
            "Eq. (4.7) with last factor x; Lemma D.7, second line of its proof",
            axis="neuron",
            margin=EXACT,
            rival=np.zeros_like(law),
            rival_says="last factor z: nothing along w_perp",
        ),
        equal(
            "clean grad_a",
            REAL,
            tall,
            "Eq. (4.7)",
            axis="neuron",
            margin=EXACT,
            rival=flat,
            rival_says="relu(w.z) in place of relu(w.x)",
        ),
        equal(
            "w . clean grad_w - a clean grad_a",
            REAL,
            0.0,
            "Lemma D.10, first line of its proof: relu is homogeneous",
            axis="neuron",
            margin=EXACT,
            rival=-law,
            rival_says="last factor z in the gradient of w",
            form="derived",
        ),
    )


def clean_observe(net: Net, key: Key) -> dict[str, Array]:
    """From the gradients of the package."""
    gw, ga = clean_gradients(net, measured_sizes(net))
    return {
        "w_perp . clean grad_w": along(net.perp, gw),
        "clean grad_a": ga,
        "w . clean grad_w - a clean grad_a": along(net.w, gw) - net.a * ga,
    }


# Lemma D.5 -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rests:
    """Networks with the same plane. loose: ||w_perp|| = 0.9 zeta ||w_sig||, all that the proof uses. heavy: exp(6 H)
    times less, as Definition 4.2 asks for. long: ||w_perp|| = ||w_sig||.
    """

    loose: tuple[Net, ...]
    heavy: tuple[Net, ...]
    long: tuple[Net, ...]


SHORTER = math.exp(-6 * H)


def draw_rests(key: Key) -> Rests:
    """Three sizes of networks on the four clusters; w_perp along e_3 in all neurons, where the proof loses least."""
    nets = [heavy_net(16, D, key / i, size=size) for i, size in enumerate((0.3, 0.9, 1.3))]
    rest = [norm(net.sig, axis=1)[:, None] * (np.arange(D) == 2) for net in nets]

    def scaled(perp: float) -> tuple[Net, ...]:
        return tuple(Net(net.sig + perp * r, net.a) for net, r in zip(nets, rest, strict=True))

    return Rests(scaled(0.9 * ZETA), scaled(0.9 * ZETA * SHORTER), scaled(1.0))


def d5_statements(drawn: Rests) -> tuple[Statement, ...]:
    """4 |a| zeta H_rho and 4 ||w|| zeta H_rho; and that the difference is of first order in w_perp."""
    nets = drawn.loose + drawn.heavy
    broken = "a network that is not heavy: orthogonal parts as long as the signal"
    return (
        at_most(
            "||clean grad_w - grad_w||",
            POSITIVE,
            np.concatenate([4 * np.abs(net.a) * ZETA * net.mass for net in nets]),
            "Lemma D.5",
            axis="neuron",
            rival=control("||clean grad_w - grad_w||, long w_perp"),
            rival_says=broken,
        ),
        at_most(
            "|clean grad_a - grad_a|",
            POSITIVE,
            np.concatenate([4 * net.norm * ZETA * net.mass for net in nets]),
            "Lemma D.5",
            axis="neuron",
            rival=control("|clean grad_a - grad_a|, long w_perp"),
            rival_says=broken,
        ),
        exponent(
            "order of the difference in w_perp",
            "equal",
            1.0,
            "Lemma D.5 and its proof: l'(x) - l'(z) is linear in f(x) - f(z) = O(w_perp)",
            axis="neuron",
            margin=1e-3,
            rival=2.0,
            rival_says="zeta^2 in place of zeta",
            form="derived",
        ),
    )


def differences(nets: tuple[Net, ...]) -> tuple[Array, Array]:
    """||clean grad_w - grad_w|| and |clean grad_a - grad_a| of all neurons."""
    pairs = [(clean_gradients(net, measured_sizes(net)), population_gradients(net)) for net in nets]
    return (
        np.concatenate([norm(clean[0] - true[0], axis=1) for clean, true in pairs]),
        np.concatenate([np.abs(clean[1] - true[1]) for clean, true in pairs]),
    )


def d5_observe(drawn: Rests, key: Key) -> dict[str, Array]:
    """Differences at the two lengths of w_perp, and at ||w_perp|| = ||w_sig||."""
    w, a = differences(drawn.loose + drawn.heavy)
    long_w, long_a = differences(drawn.long)
    loose, heavy_ = np.split(w, 2)
    return {
        "||clean grad_w - grad_w||": w,
        "|clean grad_a - grad_a|": a,
        "||clean grad_w - grad_w||, long w_perp": np.tile(long_w, 2),
        "|clean grad_a - grad_a|, long w_perp": np.tile(long_a, 2),
        "order of the difference in w_perp": np.log(loose / heavy_) / -math.log(SHORTER),
    }


def d5_premises(drawn: Rests) -> tuple[Premise, ...]:
    """Half of the networks are signal-heavy; the other half asks more of the lemma."""
    return (
        Premise(
            "(zeta, H)-signal-heavy networks, H = 1 and zeta = exp(-10)",
            all(map(heavy, drawn.heavy)),
            "in the other half ||w_perp|| is exp(6 H) times what Definition 4.2 allows, which the proof does not use",
        ),
    )


# Claim D.6 -----------------------------------------------------------------------------------------------------------


def draw_d6(key: Key) -> list[Net]:
    """w = w_sig, and neurons with ||perp|| + ||opp|| = 0.1 ||sig||."""
    return [heavy_net(24, D, key / "pure", size=1.5), heavy_net(24, D, key, size=1.5, opp=0.04, perp=0.06)]


def d6_statements(nets: list[Net]) -> tuple[Statement, ...]:
    """With the errors of the proof: sqrt(2) |a| g_max zeta^2 along mu, tau g_max ||w_perp + w_opp|| for a.

    The second follows from E relu(t) <= ||t|| / 2 on the two clusters of the other label.
    """
    a, g = np.concatenate([np.abs(n.a) for n in nets]), np.concatenate([own_size(n) for n in nets])
    top = np.concatenate([np.full(len(n.a), sizes(n).max()) for n in nets])
    sig = np.concatenate([norm(n.sig, axis=1) for n in nets])
    rest = np.concatenate([norm(n.perp + n.opp, axis=1) for n in nets])
    return (
        equal(
            "mu . clean grad_w",
            REAL,
            -a * g / 2,
            "Claim D.6, first line, times ||mu|| = sqrt(2): the rate along a centre itself",
            axis="neuron",
            margin=EXACT + ROOT2 * a * top * (rest / sig) ** 2,
            rival=-a * TAU2 * g,
            rival_says="tau, the rate along mu/||mu||",
            form="derived",
        ),
        equal(
            "u . clean grad_w, u = w_sig/||w_sig||",
            REAL,
            -a * TAU2 * g,
            "Claim D.6, first line, and Section 4.1.1, item 1 of phase 2: -w_sig . clean grad_w = |a| tau ||w_sig|| g",
            axis="neuron",
            margin=EXACT + a * top * (rest / sig) ** 2,
            rival=-a * g / 2,
            rival_says="along mu, which is not of length 1",
        ),
        equal(
            "-y clean grad_a",
            REAL,
            sig * TAU2 * g,
            "Claim D.6, second line",
            axis="neuron",
            margin=EXACT + TAU2 * top * rest,
            rival=sig * g / 2,
            rival_says="the rate 1/2",
        ),
    )


def d6_observe(nets: list[Net], key: Key) -> dict[str, Array]:
    """Along the direction of w_sig and along mu of the same cluster."""
    found = [(net, *clean_gradients(net, measured_sizes(net))) for net in nets]
    u = np.concatenate([along(net.unit[0], gw) for net, gw, _ in found])
    return {
        "mu . clean grad_w": ROOT2 * u,
        "u . clean grad_w, u = w_sig/||w_sig||": u,
        "-y clean grad_a": np.concatenate([-np.where(net.a >= 0, 1.0, -1.0) * ga for net, _, ga in found]),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="xor_sgd.clean_grad",
        entries=("xor_sgd.clean_grad",),
        says="Clean gradients use l' at the centre of the cluster: a E[l'(z) relu'(w.x) x] and E[l'(z) relu(w.x)].",
        settings=draw_mixed,
        statements=clean_statements,
        observe=clean_observe,
        remarks="In our copy the last factor of Eq. (4.7) cannot be told from z; it is x, as Lemma D.7 uses it. 24 "
        "neurons in eight dimensions, all 256 inputs.",
    ),
    Claim(
        id="xor_sgd.lemmaD5",
        entries=("xor_sgd.lemmaD5",),
        says="On (zeta, H)-heavy networks ||clean - true|| <= 4 |a| zeta H_rho, and 4 ||w|| zeta H_rho for a.",
        settings=draw_rests,
        statements=d5_statements,
        observe=d5_observe,
        premises=d5_premises,
    ),
    Claim(
        id="xor_sgd.lemmaD6",
        entries=("xor_sgd.lemmaD6",),
        says="Heavy neurons grow along their cluster at rate tau g_mu, tau = sqrt(2)/4, in both layers.",
        settings=draw_d6,
        statements=d6_statements,
        observe=d6_observe,
        remarks="mu is read as the direction of w_sig, as Section 4.1.1 has it: along +-e_1 +- e_2 itself, of length "
        "sqrt(2), the rate of the first line is 1/2. Both layers grow at one rate, which is what the phase needs.",
    ),
)
