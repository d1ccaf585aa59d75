"""Complexity of targets by their Taylor series (section 4), and what it bounds (Fact A.3)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_most, equal
from featlearn.lab.uncertainty import Observation
from featlearn.measure import log_complexity, smooth_complexity
from featlearn.works.resnet.setup import taylor

Array = np.ndarray

# complexity ----------------------------------------------------------------------------------------------------------

RATE = 1.5
SMOOTH = ("exp(cz) - 1", "sin(cz)", "cos(cz)", "tanh(z)", "1/(1 + exp(-z))")
SMALL_STAR = 10.0
"""A C* at which C_eps of entire functions is below 1/eps at numbers that float64 holds; 1e4 needs eps = exp(-1e4)."""
DECADES = (50, 150, 300)
CUTS = (201, 651)
"""log(1/eps), and the degree at which the series of tanh is cut."""


def says_complexity(settings: None) -> Sequence[Statement]:
    """C_s = C* sum (i + 1) |c_i|; C_eps = sum (C*^i + (sqrt(log(1/eps)/i) C*)^i) |c_i|; Example 4.1."""
    c, source = RATE, "Section 4"
    closed = [
        (c + 1) * math.exp(c) - 1,
        c * math.cosh(c) + math.sinh(c),
        c * math.sinh(c) + math.cosh(c),
        math.tan(1) + 1 / math.cos(1) ** 2,
        0.5 + math.tan(0.5) / 2 + 0.25 / math.cos(0.5) ** 2,
    ]
    other = [float(((np.arange(120) + 1) ** 1.75) @ np.abs(taylor(name, RATE, 120))) for name in SMOOTH]
    literal = np.array([[_log_eps(np.ones(6), 1e4, eps, p) for eps in (1e-3, 1e-9)] for p in (0.5, 1.0)])
    return (
        equal(
            "C_s / C*",
            POSITIVE,
            np.array(closed),
            f"{source}, sums of the series: r phi'(r) + phi(r) of the one with |c_i|",
            margin=1e-9,
            axis="function",
            rival=np.array(other),
            rival_says="(i + 1)^1.75, the form of [4]",
        ),
        equal(
            "log C_eps of 1 + z + ... + z^5, C* = 1e4, eps = 1e-3, 1e-9",
            REAL,
            literal[0],
            source,
            margin=1e-9,
            axis="eps",
            rival=literal[1],
            rival_says="log(1/eps) without its root",
        ),
        at_most(
            "log C_eps / log(1/eps) of exp(cz) - 1, sin(cz) and cos(cz), C* = 10, eps = 1e-50, 1e-150, 1e-300",
            POSITIVE,
            np.ones((3, len(DECADES))),
            "Example 4.1: C_eps = o(1/eps)",
            axis="function and eps",
            rival=np.full((3, len(DECADES)), math.log(2 * SMALL_STAR / math.pi)),
            rival_says="the power of a series with a finite radius, tanh",
            form="criterion",
        ),
        equal(
            "slope of log C_eps in log(1/eps) of tanh, cut at degree log(1/eps), C* = 10",
            REAL,
            math.log(2 * SMALL_STAR / math.pi),
            "Example 4.1: poly(1/eps); coefficients fall as (2/pi)^i, so that the last term has (2 C*/pi)^log(1/eps)",
            margin=0.01,
            rival=math.log(SMALL_STAR),
            rival_says="coefficients of order 1",
            form="derived",
        ),
    )


def _log_eps(c: Array, star: float, eps: float, power: float) -> float:
    i = np.arange(1, len(c))
    spread = i * (math.log(star) + power * np.log(math.log(1 / eps)) - 0.5 * np.log(i))
    return float(
        np.logaddexp.reduce([*(i * math.log(star) + np.log(c[1:])), *(spread + np.log(c[1:])), math.log(2 * c[0])])
    )


def sees_complexity(settings: None, key: Key) -> Mapping[str, Observation]:
    """The library's two measures of Taylor series."""
    terms = {name: taylor(name, RATE, 160).tolist() for name in SMOOTH}
    entire = [
        [log_complexity(terms[name], 10.0**-n, constant=SMALL_STAR) / (n * math.log(10)) for n in DECADES]
        for name in SMOOTH[:3]
    ]
    cut = [log_complexity(taylor("tanh(z)", 1.0, n + 1).tolist(), math.exp(-n), constant=SMALL_STAR) for n in CUTS]
    return {
        "C_s / C*": np.array([smooth_complexity(t) / 1e4 for t in terms.values()]),
        "log C_eps of 1 + z + ... + z^5, C* = 1e4, eps = 1e-3, 1e-9": np.array(
            [log_complexity([1.0] * 6, eps) for eps in (1e-3, 1e-9)]
        ),
        "log C_eps / log(1/eps) of exp(cz) - 1, sin(cz) and cos(cz), C* = 10, eps = 1e-50, 1e-150, 1e-300": np.array(
            entire
        ),
        "slope of log C_eps in log(1/eps) of tanh, cut at degree log(1/eps), C* = 10": (cut[1] - cut[0])
        / (CUTS[1] - CUTS[0]),
    }


# Fact A.3 ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class General:
    """F_r(x) = sum_i a_ri phi_ri(<w1_ri, X>/||X||) <w2_ri, X>, X = (x, 1), phi_ri = sum_q c_riq z^q.

    Shapes: a (k, p), w1 and w2 (k, p, d + 1), c (k, p, q).
    """

    a: Array
    w1: Array
    w2: Array
    c: Array

    @property
    def factor(self) -> float:
        """sqrt(k) p."""
        return math.sqrt(self.a.shape[0]) * self.a.shape[1]


def draw_general(key: Key) -> tuple[General, ...]:
    """Three random targets, and two whose parts all point one way: phi = 1 (along the bias too) and phi = z."""
    k, p, d = 4, 3, 4
    found: list[General] = []
    for i in range(3):
        rng = (key / i).numpy()
        w1, w2 = (w / np.linalg.norm(w, axis=-1, keepdims=True) for w in rng.normal(size=(2, k, p, d + 1)))
        c = rng.normal(size=(k, p, 6)) * np.array([1, 1, 0, 1, 0, 1])
        found.append(General(rng.uniform(-1, 1, (k, p)), w1, w2, c))
    for at, order in ((d, 0), (0, 0), (0, 1)):
        w = np.zeros((k, p, d + 1))
        w[..., at] = 1
        c = np.zeros((k, p, 6))
        c[..., order] = 1
        found.append(General(np.ones((k, p)), w, w, c))
    return tuple(found)


SOURCE_A3 = "Appendix A, Fact A.3"
LIPSCHITZ = "||F(x) - F(y)|| over sqrt(k) p C_s ||x - y||, C* = 1"


def says_norms(settings: tuple[General, ...]) -> Sequence[Statement]:
    """||F(x)|| <= sqrt(k) p C_s ||x||, ||F(x) - F(y)|| <= sqrt(k) p C_s ||x - y||: with C* = 1, so for all C* above."""
    one = np.ones(len(settings))
    return (
        at_most(
            "||F(x)|| over sqrt(k) p C_s ||x||, as reported, C* = 1e4",
            POSITIVE,
            one,
            SOURCE_A3,
            axis="target",
            expect="contradicted",
        ),
        at_most(
            "||F(x)|| over sqrt(k) p C_s ||(x, 1)||, C* = 1",
            POSITIVE,
            one,
            f"{SOURCE_A3}, corrected: ||(x, 1)|| for ||x||",
            margin=1e-12,
            axis="target",
            form="corrected",
            twin="||F(x)|| over sqrt(k) p C_s ||x||, as reported, C* = 1e4",
        ),
        at_most(LIPSCHITZ, POSITIVE, one, SOURCE_A3, margin=1e-6, axis="target", form="criterion"),
        at_most(
            "||G(F(x))|| over sqrt(k) p_G C_s(G) (||F(x)|| + 1), C* = 1",
            POSITIVE,
            one,
            "Section 5: B_FoG <= L_G B_F + sqrt(k) p_G C_s(G), with Fact A.3 for L_G",
            margin=1e-12,
            axis="target",
            form="criterion",
        ),
    )


def at_points(f: General, x: Array) -> Array:
    """F(x): (n, d) -> (n, k)."""
    x = np.concatenate([x, np.ones((len(x), 1))], 1)
    z = np.einsum("kpd,nd->nkp", f.w1, x / np.linalg.norm(x, axis=1, keepdims=True))
    phi = sum(f.c[..., q] * z**q for q in range(f.c.shape[-1]))
    return (f.a * phi * np.einsum("kpd,nd->nkp", f.w2, x)).sum(-1)


def sees_norms(settings: tuple[General, ...], key: Key) -> Mapping[str, Observation]:
    """The largest ratios over points of many lengths, the origin nearly included; complexities by the library."""
    rng = key.numpy()
    found: dict[str, list[float]] = {}
    for f, inner in zip(settings, [settings[-1], *settings[:-1]], strict=True):
        x = rng.normal(size=(3000, f.w1.shape[-1] - 1)) * 10 ** rng.uniform(-6, 2, (3000, 1))
        y = np.concatenate([x[:1500] + 1e-4 * rng.normal(size=x[:1500].shape), x[:1500]])
        size = max(smooth_complexity(c.tolist(), constant=1.0) for c in f.c.reshape(-1, f.c.shape[-1]))
        norm, values = np.linalg.norm(at_points(f, x), axis=1), at_points(inner, x)
        lengths = np.linalg.norm(x, axis=1)
        moved = np.linalg.norm(at_points(f, x) - at_points(f, y), axis=1) / np.linalg.norm(x - y, axis=1)
        after = np.linalg.norm(at_points(f, values), axis=1)
        for name, ratio in (
            ("||F(x)|| over sqrt(k) p C_s ||x||, as reported, C* = 1e4", norm / lengths / 1e4),
            ("||F(x)|| over sqrt(k) p C_s ||(x, 1)||, C* = 1", norm / np.hypot(lengths, 1)),
            (LIPSCHITZ, moved),
            (
                "||G(F(x))|| over sqrt(k) p_G C_s(G) (||F(x)|| + 1), C* = 1",
                after / (np.linalg.norm(values, axis=1) + 1),
            ),
        ):
            found.setdefault(name, []).append(float(ratio.max()) / (f.factor * size))
    return {name: np.array(ratios) for name, ratios in found.items()}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="resnet.complexity",
        entries=("resnet.complexity",),
        says="C_s and C_eps are sums over the Taylor series; C_s is a constant for exp, sin, cos, tanh and the logistic"
        " function, C_eps is o(1/eps) for the entire ones and a power of 1/eps for the others, cut.",
        statements=says_complexity,
        observe=sees_complexity,
        remarks="C* = 1e4 only takes part where eps can stay moderate: the rate in eps is seen at C* = 10.",
    ),
    Claim(
        id="resnet.factA3",
        entries=("resnet.factA3",),
        says="Targets are bounded and Lipschitz with constant sqrt(k) p C_s(F).",
        settings=draw_general,
        statements=says_norms,
        observe=sees_norms,
        accuses=Accusation(
            quote="for every x, y in R^d, it satisfies ||F(x)||_2 <= sqrt(k) p C_s(F) ||x||_2",
            place="Appendix A, Fact A.3",
            reading="At every x of R^d, for targets of Definition A.1, with zero-order terms and a bias entry of w_2."
            " C_s holds C* of about 1e4, so that the first half fails in a ball of radius 1/C* about 0 alone,"
            " and no larger C* empties it; in its uses (||x|| = 1, B_F not below 1/C*) it survives, and Section 5's"
            " bound on ||G(F(x))|| carries the additive term. The Lipschitz half stands.",
            hits="statement",
            derivation="At x = 0 the right side is 0, and phi = 1, a = 1 and w_2 = (0, 1) give F_r(0) = p. As"
            " |<w_2, (x, 1)>| <= ||(x, 1)|| and |phi| <= sum |c_i| <= C_s/C* on [-1, 1], the bound holds with"
            " ||(x, 1)|| for ||x||, at every C* of at least 1.",
        ),
    ),
)
