"""Phase 1, finding the signal: the gradient at a small network, and how far that of any network is from it."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim, Premise
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_most, both, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.tasks import BooleanXor
from featlearn.works.xor_sgd.claims.definitions import engine_slopes
from featlearn.works.xor_sgd.setup import (
    ROOT2,
    TAU1,
    TAU2,
    Array,
    Net,
    cube,
    engine_step,
    labels,
    random_net,
)

EXACT = 1e-12


def gradient(net: Net, x: Array, y: Array) -> Net:
    """What the engine descends on (x, y): the gradients (p, d) and (p) of the work's scaling."""
    end = engine_step(net, x, y, 1.0)
    return Net(net.w - end.w, net.a - end.a)


def gradient_at_zero(net: Net, x: Array, y: Array) -> Net:
    """The same for the loss L0: neurons beside their twins of the opposite a are a network with f = 0."""
    p = len(net.a)
    found = gradient(Net(np.concatenate([net.w, net.w]), np.concatenate([net.a, -net.a])), x, y)
    return Net(found.w[:p], found.a[:p])


# the signal grows ----------------------------------------------------------------------------------------------------

DIMENSIONS, NEURONS, DRAWS, GROUPS = (50, 200), 400, 1500, 10
PARTS = tuple((d, part) for d in DIMENSIONS for part in ("w_sig", "w_opp"))


def says_growth(settings: None) -> Sequence[Statement]:
    """Eq. (4.3), where "about" is 5 % by our criterion."""
    return (
        equal(
            "-grad along w_sig and along w_opp, over |a| / (||w_perp|| sqrt(2 pi))",
            REAL,
            np.array([1.0, -1.0, 1.0, -1.0]),
            "Section 4.1, eq. (4.3)",
            margin=0.05,
            axis="dimension, part",
            rival=np.array([1.0, -1.0, 1.0, -1.0]) * TAU2 / TAU1,
            rival_says="the rate sqrt(2)/4 of phase 2",
            form="criterion",
        ),
    )


def sees_growth(settings: None, key: Key) -> Mapping[str, Observation]:
    """Gradients of 400 neurons at f = 0 on groups of draws of xi, each with all four z; a group is a unit."""
    found = {part: [] for part in PARTS}
    for d in DIMENSIONS:
        rng = (key / d).numpy()
        w = rng.normal(size=(NEURONS, d))
        net = Net(w / np.linalg.norm(w, axis=1, keepdims=True), rng.choice([-1.0, 1.0], NEURONS))
        law = np.abs(net.a) / (np.linalg.norm(net.perp, axis=1) * math.sqrt(2 * np.pi))
        task = BooleanXor(d=d)
        for group in range(GROUPS):
            xi = task.sample(task.draw(key), DRAWS, key / d / group).x.double().numpy()
            x = np.concatenate([np.concatenate([np.tile(z, (DRAWS, 1)), xi[:, 2:]], 1) for z in cube(2)])
            seen = -gradient_at_zero(net, x, labels(x)).w
            for name, part in (("w_sig", net.sig), ("w_opp", net.opp)):
                # a least-squares coefficient: a part that is itself tiny would have one of large relative error
                found[d, name].append(float((seen * part / law[:, None]).sum() / (part * part).sum()))
    name = "-grad along w_sig and along w_opp, over |a| / (||w_perp|| sqrt(2 pi))"
    return {name: [mean_of(found[part], REAL, "group of draws") for part in PARTS]}


# Lemma C.4 -----------------------------------------------------------------------------------------------------------

C4 = 10
EXCHANGED = "the two probabilities exchanged"


def draw_c4(key: Key) -> Net:
    """60 neurons in ten dimensions."""
    return random_net(60, C4, key)


def right_sides(net: Net) -> dict[str, Array]:
    """B1 to B4 of Lemma C.4, the last with the order of its proof's expectation, by enumeration of xi."""
    xi = cube(net.w.shape[1])[::4].copy()  # the first two bits run fastest: one row for each xi
    xi[:, :2] = 0
    q = np.abs(xi @ net.w.T)
    sig, opp = (np.linalg.norm(v, axis=1) for v in (net.sig, net.opp))
    a, s, o, size = np.abs(net.a), ROOT2 * sig, ROOT2 * opp, np.abs(net.w[:, 2:])
    between = ((q >= np.minimum(s, o)) & (q <= np.maximum(s, o))) * q
    others = (xi @ net.w.T)[:, :, None] - xi[:, None, 2:] * net.w[None, :, 2:]
    near = [(np.abs(others - level[None, :, None]) <= size[None]).mean(0) for level in (s, o)]
    return {
        "B1": ROOT2 / 4 * a * (q <= s).mean(0) * sig,
        "B2": -ROOT2 / 4 * a * (q <= o).mean(0) * opp,
        "B3": a / 4 * np.where(opp >= sig, 1.0, -1.0) * between.mean(0),
        "B4": a[:, None] / 4 * size * (near[0] - near[1]),
    }


def says_c4(settings: Net) -> Sequence[Statement]:
    """The four parts."""
    right, source = right_sides(settings), "Lemma C.4"

    def part(name: str, letter: str, rival: float, says: str) -> Statement:
        return equal(
            name,
            REAL,
            right[letter],
            f"{source}, {letter}",
            margin=EXACT,
            axis="neuron",
            rival=rival * right[letter],
            rival_says=says,
        )

    return (
        part("-w_sig . grad L0", "B1", 2.0, "sqrt(2)/2 in place of sqrt(2)/4"),
        part("-w_opp . grad L0", "B2", 2.0, "sqrt(2)/2 in place of sqrt(2)/4"),
        part("-w_perp . grad L0", "B3", -1.0, "the two cases exchanged"),
        *both(
            "-w_i grad_i L0, i >= 3",
            REAL,
            f"{source}, B4",
            reported=-right["B4"],
            corrected=right["B4"],
            says=EXCHANGED,
            margin=EXACT,
            axis="neuron, coordinate",
        ),
    )


def sees_c4(settings: Net, key: Key) -> Mapping[str, Observation]:
    """The engine's gradient at f = 0 on the whole cube."""
    x = cube(C4)
    g = gradient_at_zero(settings, x, labels(x)).w
    return {
        "-w_sig . grad L0": -(settings.sig * g).sum(1),
        "-w_opp . grad L0": -(settings.opp * g).sum(1),
        "-w_perp . grad L0": -(settings.perp * g).sum(1),
        "-w_i grad_i L0, i >= 3": -(settings.w * g)[:, 2:],
    }


# Lemmas C.2, C.5 and C.3 ---------------------------------------------------------------------------------------------

D = 8
SMALL, TILT = 0.01, 0.001
"""Size of a single neuron along e_3 and of its coordinate along e_4, which never decides whether it is active."""
CROWD = 64
UNSCALED = "the logistic loss without the factor 2"


def lone() -> Net:
    """One small neuron along e_3, |a| = SMALL, with a little of e_4."""
    w = np.zeros((1, D))
    w[0, 2:4] = SMALL, TILT
    return Net(w, np.array([SMALL]))


def crowd() -> Net:
    """One small neuron along e_3 beside 63 along e_4."""
    w = np.zeros((CROWD, D))
    w[0, 2], w[1:, 3] = SMALL, SMALL
    return Net(w, np.full(CROWD, SMALL))


def draw_closeness(key: Key) -> tuple[Net, ...]:
    """Networks of twelve neurons, smaller and larger than 1, then one small neuron and a crowd."""
    sizes = (0.05, 0.3, 1.0, 3.0) * 4
    return (*(random_net(12, D, key / i, size) for i, size in enumerate(sizes)), lone(), crowd())


def says_closeness(settings: tuple[Net, ...]) -> Sequence[Statement]:
    """Lemmas C.2 and C.5, and what one small neuron has of each side, where l' + y = y tanh(y f/2) is about f/2."""
    H = [np.mean(np.abs(n.a) * np.linalg.norm(n.w, axis=1)) for n in settings]
    second = np.concatenate([2 * np.linalg.norm(n.w, axis=1) * h for n, h in zip(settings, H, strict=True)])
    first = np.concatenate([2 * np.abs(n.a) * h for n, h in zip(settings, H, strict=True)])
    square = np.array([4 * h**2 for h in H])
    flips = np.array([16 * np.mean(np.abs(n.a[:, None] * n.w), axis=0)[2:] ** 2 for n in settings])
    whole = np.array([np.full(D - 2, 16 * h**2) for h in H])
    length = "||x||^2 = d in place of E (v.x)^2 = 1"
    s, t = SMALL, TILT

    def bound(name: str, source: str, value: Array, rival: Array, says: str) -> Statement:
        return at_most(name, POSITIVE, value, source, margin=EXACT, rival=rival, rival_says=says)

    def small(name: str, source: str, value: float, power: int) -> Statement:
        return equal(
            f"{name}, one small neuron",
            POSITIVE,
            value,
            f"{source}, from l' + y = f/2 to first order",
            margin=1e-4 * value,
            rival=value / 2**power,
            rival_says=UNSCALED,
            form="derived",
        )

    # the neuron is active on half of the cube, where f = s (s + t x_4)
    return (
        bound("|grad_a L - grad_a L0|", "Lemma C.2, G1", second, math.sqrt(D) * second, length),
        bound("||grad_w L - grad_w L0||", "Lemma C.2, G2", first, math.sqrt(D) * first, length),
        bound("E (l' - l0')^2", "Lemma C.5", square, D * square, length),
        bound("(change of l' with x_i)^2, i >= 3", "Lemma C.5", flips, whole, "E ||a w|| in place of E |a w_i|"),
        small("|grad_a L - grad_a L0|", "Lemma C.2, G1", s * (s**2 + t**2) / 4, 1),
        small("||grad_w L - grad_w L0||", "Lemma C.2, G2", s**2 * math.hypot(s, t) / 4, 1),
        small("E (l' - l0')^2", "Lemma C.5", s**2 * (s**2 + t**2) / 8, 2),
        small("(change of l' with x_4)^2", "Lemma C.5", (s * t) ** 2, 2),
    )


def pushes(net: Net, x: Array) -> Array:
    """l' of the engine at every input."""
    y = labels(x)
    return np.where(y > 0, engine_slopes(net(x), 1.0), engine_slopes(net(x), -1.0))


def flip_moves(net: Net) -> Array:
    """The largest square of what x_i changes of l', for i >= 3, where the label stays."""
    push, rows = pushes(net, cube(D)), np.arange(2**D)
    return np.array([((push - push[rows ^ (1 << i)]) ** 2).max() for i in range(2, D)])


def distances(net: Net) -> tuple[Array, Array, float]:
    """|grad_a L - grad_a L0| (p), |grad_w L - grad_w L0| (p, d) and E (l' - l0')^2."""
    x = cube(D)
    y = labels(x)
    true, zero = gradient(net, x, y), gradient_at_zero(net, x, y)
    return np.abs(true.a - zero.a), np.abs(true.w - zero.w), float(np.mean((pushes(net, x) + y) ** 2))


def sees_closeness(settings: tuple[Net, ...], key: Key) -> Mapping[str, Observation]:
    """Gradients that the engine descends on the whole cube, with f and with f = 0."""
    seen = [distances(net) for net in settings]
    second, first, square = distances(settings[-2])
    return {
        "|grad_a L - grad_a L0|": np.concatenate([s[0] for s in seen]),
        "||grad_w L - grad_w L0||": np.concatenate([np.linalg.norm(s[1], axis=1) for s in seen]),
        "E (l' - l0')^2": np.array([s[2] for s in seen]),
        "(change of l' with x_i)^2, i >= 3": np.array([flip_moves(n) for n in settings]),
        "|grad_a L - grad_a L0|, one small neuron": float(second[0]),
        "||grad_w L - grad_w L0||, one small neuron": float(np.linalg.norm(first[0])),
        "E (l' - l0')^2, one small neuron": square,
        "(change of l' with x_4)^2, one small neuron": float(flip_moves(settings[-2])[1]),
    }


def says_coordinates(settings: tuple[Net, ...]) -> Sequence[Statement]:
    """Lemma C.3, and two networks in which one of its terms alone is at work."""
    bounds, whole = [], []
    for net in settings:
        a, mass = np.abs(net.a)[:, None], np.mean(np.abs(net.a) * np.linalg.norm(net.w, axis=1))
        z, x = cube(D) @ net.w.T, cube(D)
        near = [(np.abs(z - x[:, [i]] * net.w[:, i]) <= np.abs(net.w[:, i])).mean(0) for i in range(D)]
        each = 4 * np.mean(np.abs(net.a[:, None] * net.w), axis=0)
        bounds.append((a * (each + 2 * math.log(D) * mass * np.stack(near, 1))).ravel())
        whole.append(np.broadcast_to(2 * a * mass, net.w.shape).ravel())
    alone, beside = SMALL**2 * TILT / 4, SMALL**3 / 4 * (1 / CROWD + (CROWD - 1) / (2 * CROWD))
    return (
        at_most(
            "|grad_i L - grad_i L0|",
            POSITIVE,
            np.concatenate(bounds),
            "Lemma C.3, without its term d^-omega(1)",
            margin=EXACT,
            axis="neuron, coordinate",
            rival=np.concatenate(whole),
            rival_says="2 |a| E ||a w||, as Lemma C.2 has it for all coordinates together",
        ),
        equal(
            "|grad_4 L - grad_4 L0| of one small neuron along e_3",
            POSITIVE,
            alone,
            "Lemma C.3, first term: Pr = 0, and l' + y = f/2 to first order",
            margin=1e-4 * alone,
            rival=alone / 2,
            rival_says=UNSCALED,
            form="derived",
        ),
        equal(
            "|grad_3 L - grad_3 L0| of a small neuron along e_3 beside 63 along e_4",
            POSITIVE,
            beside,
            "Lemma C.3, second term: Pr = 1, and l' + y = f/2 to first order",
            margin=1e-4 * beside,
            rival=SMALL**3 / 4 / CROWD,
            rival_says="neurons along e_3 alone",
            form="derived",
        ),
    )


def sees_coordinates(settings: tuple[Net, ...], key: Key) -> Mapping[str, Observation]:
    """Gradients that the engine descends, coordinate by coordinate."""
    return {
        "|grad_i L - grad_i L0|": np.concatenate([distances(n)[1].ravel() for n in settings]),
        "|grad_4 L - grad_4 L0| of one small neuron along e_3": float(distances(settings[-2])[1][0, 3]),
        "|grad_3 L - grad_3 L0| of a small neuron along e_3 beside 63 along e_4": float(
            distances(settings[-1])[1][0, 2]
        ),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="xor_sgd.phase1_grad",
        entries=("xor_sgd.phase1_grad",),
        says="-grad_12 L0 is about |a|/(||w_perp|| sqrt(2 pi)) (w_sig - w_opp).",
        statements=says_growth,
        observe=sees_growth,
        premises=(Premise("|w.z| / ||w_perp|| is small", True, "unit neurons in 50 and 200 dimensions"),),
        remarks="400 unit neurons a dimension, z exact, 15000 draws of xi. The finite |w.z| / ||w_perp|| costs 3 to "
        "4 % at d = 50 and 1 % at d = 200.",
    ),
    Claim(
        id="xor_sgd.lemmaC4",
        entries=("xor_sgd.lemmaC4",),
        says="Exact components of the gradient of L0 (B1 to B4).",
        settings=draw_c4,
        statements=says_c4,
        observe=sees_c4,
        accuses=Accusation(
            quote="-w_i^T grad_{w_i} L0 = |a_w||w_i|/4 (P_X[X in [sqrt(2)||w_opp|| - |w_i|, sqrt(2)||w_opp|| + |w_i|]] "
            "- P_X[X in [sqrt(2)||w_sig|| - |w_i|, sqrt(2)||w_sig|| + |w_i|]])",
            place="Lemma C.4, item B4, Appendix C.1; and the last line of its proof",
            reading="grad L0 = -E y a relu'(w.x) x, as Appendix C.1 gives it. The first line of the proof of B4 has a "
            "minus sign too many; its expectation over z has the other order, which is used here.",
            hits="statement",
            derivation="By hand: d = 4, a = 1, w = (1, -1, 1, 2), i = 3. ||w_sig|| = sqrt(2), w_opp = 0, X = 2 xi_4: "
            "Pr[X in [1, 3]] = 1/2 and Pr[X in [-1, 1]] = 0, so B4 gives (0 - 1/2)/4 = -1/8. Directly, E y "
            "1(x_1 - x_2 + x_3 + 2 x_4 > 0) x_3: the two z with y = 1 have 1/4 each, the two with y = -1 have 0, in "
            "all (1/4 + 1/4)/4 = +1/8.",
        ),
        remarks="d = 10, 60 neurons, all 1024 inputs. B1 and B2: growth of w_sig and decay of w_opp; B3 and B4: the "
        "rest and its coordinates. The proof of Lemma C.15, where B4 is used, compares both probabilities with one and "
        "the same, so that its bound serves either order.",
    ),
    Claim(
        id="xor_sgd.lemmaC2_C5",
        entries=("xor_sgd.lemmaC2_C5",),
        says="|grad_a L - grad_a L0| <= 2 ||w|| H, ||grad_w L - grad_w L0|| <= 2 |a| H, E(l' - l0')^2 <= 4 H^2, and "
        "the flip of a coordinate moves l' squared by at most 16 (E|a w_i|)^2; H = E ||a w||.",
        settings=draw_closeness,
        statements=says_closeness,
        observe=sees_closeness,
        remarks="One small neuron has about 1/8, 1/8, 1/32 and 1/16 of the bounds: l' is 1/2-Lipschitz, where the "
        "proof uses 2. Coordinates 1 and 2, which turn the label, are left out.",
    ),
    Claim(
        id="xor_sgd.lemmaC3",
        entries=("xor_sgd.lemmaC3",),
        says="One coordinate: error <= |a| (4 E|a w_i| + 2 log(d) H Pr[|w.x_(-i)| <= |w_i|]).",
        settings=draw_closeness,
        statements=says_coordinates,
        observe=sees_coordinates,
        remarks="All inputs in eight dimensions. The term d^-omega(1) of the paper is left out of the bound.",
    ),
)
