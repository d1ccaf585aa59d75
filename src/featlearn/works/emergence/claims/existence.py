"""A network of 3(k+1) neurons along wstar that equals the label on every input (Lemmas 5, 7 and 8)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from featlearn.core import Key
from featlearn.lab.pending import Case, Claim, Evidence, Tables
from featlearn.nets import TwoLayer, forward
from featlearn.nets.pointwise import activate
from featlearn.tasks.patterns import orthonormal_dictionary
from featlearn.works.emergence.claims.population import network

Array = np.ndarray


def triangle(z: Array, s: float, slope: float, half_width: float) -> Array:
    """The bump of Lemma 7 in closed form: slope (half_width - |z - s|) near s, 0 elsewhere."""
    return slope * np.clip(half_width - np.abs(z - s), 0, None)


def bump_neurons(s: float, slope: float, half_width: float) -> tuple[Array, Array]:
    """(coefficients, biases) of the three ReLUs whose sum is the bump at s: a r(z-s+b) - 2a r(z-s) + a r(z-s-b)."""
    return slope * np.array([1.0, -2.0, 1.0]), np.array([half_width - s, -s, -half_width - s])


@dataclass(frozen=True)
class Construction:
    """g*(x) = sum_i a_i clip(u / (4k) + b_i) with u = <st wstar, x> = count - mu. Coefficients a, biases b (n)."""

    k: int
    a: Float[Array, " n"]
    b: Float[Array, " n"]

    def net(self, direction: Float[Array, " d"], scale: float) -> TwoLayer:
        """As the engine's network: every first-layer weight is st wstar / (4k)."""
        w = np.repeat((scale * direction / (4 * self.k))[None], len(self.a), 0)
        return network(w, self.b, self.a)


def construct(k: int, mu: float, positive: tuple[int, ...]) -> Construction:
    """The network of Lemma 5.

    Bumps of height 1 at every count p in 0..k, with the sign of its label. Two versions: centred on p with slope 2, or
    shifted by 1/4 with slope 4; their biases lie on lattices of spacing 1/2 that are 1/4 apart, so one of the two keeps
    |b| >= 1/8. Then a is multiplied by 4k and b divided by 4k, which clip() does not notice below 1.
    """
    versions = []
    for slope, shift in ((2.0, 0.0), (4.0, 0.25)):
        a, b = [], []
        for p in range(k + 1):
            coefficient, bias = bump_neurons(p - mu + shift, slope, 0.5)
            a.append(coefficient if p in positive else -coefficient)
            b.append(bias)
        versions.append((np.concatenate(a), np.concatenate(b)))
    a, b = next(v for v in versions if np.abs(v[1]).min() >= 0.125 - 1e-12)
    return Construction(k, 4 * k * a, b / (4 * k))


def _settings(k: int) -> list[tuple[str, tuple[int, ...], float]]:
    means = [k / 2, 0.3 * k, 0.5 * k - 0.375, 0.2 * k + 0.125, 1.0]
    kinds = [
        ("threshold", tuple(range((k + 1) // 2 + (k + 1) % 2, k + 1))),
        ("parity", tuple(range(1, k + 1, 2))),
        ("even", tuple(range(0, k + 1, 2))),
        ("interval", tuple(range(k // 3, 2 * k // 3 + 1))),
    ]
    return [(name, kind, mu) for name, kind in kinds for mu in means]


def _inputs(k: int, mu: float, key: Key) -> tuple[Array, Array, Array, float]:
    """Every count 0..k with random backgrounds, in input coordinates: x, counts, wstar, st."""
    D, d, st = k + 6, k + 9, 1.7
    M = orthonormal_dictionary(d, D, key / "dictionary").double().numpy()
    M, _ = np.linalg.qr(M)  # float64 orthonormal
    rng = key.numpy()
    count = np.repeat(np.arange(k + 1), 4)
    phit = (rng.random((len(count), D)) < 0.5).astype(float)
    phit[:, :k] = rng.permuted(np.arange(k)[None] < count[:, None], axis=1)
    mean = np.full(D, 0.5)
    mean[:k] = mu / k
    return ((phit - mean) / st) @ M.T, count, M[:, :k].sum(1), st


def _scores(star: Construction, x: Array, direction: Array, st: float) -> Array:
    return forward(star.net(direction, st), torch.as_tensor(x))[0].numpy()


def check_triangle(key: Key, tables: Tables) -> Evidence:
    """Lemma 7: three ReLUs make the bump; two do not."""
    rng = key.numpy()
    exact, got, fewer, off = [], [], [], []
    for s, slope, half in [(0.0, 2.0, 0.5), (1.3, 4.0, 0.5), *rng.uniform([-2, 0.1, 0.1], [2, 5, 2], (6, 3))]:
        z = np.concatenate([np.linspace(-6, 6, 481), [s - half, s, s + half]])
        coefficient, bias = bump_neurons(s, slope, half)
        ramps = activate(torch.as_tensor(z[:, None] + bias), "relu").numpy() * coefficient
        exact.append(triangle(z, s, slope, half))
        got.append(ramps.sum(1))
        fewer.append(ramps[:, :2].sum(1))
        off.append((ramps * [1, 1.05, 1]).sum(1))
    return Evidence(
        (
            Case(
                "a r(z-s+b) - 2a r(z-s) + a r(z-s-b) = a (b - |z-s|) or 0",
                predict=exact,
                observe=got,
                rival=fewer,
                tolerance=1e-12,
                rival_says="one ReLU fewer",
            ),
            Case(
                "the same, against a middle coefficient 5 % off",
                predict=exact,
                observe=got,
                rival=off,
                tolerance=1e-12,
                rival_says="coefficient -2.1 a",
            ),
        ),
        comment="8 bumps on 484 points each.",
    )


def check_existence(
    key: Key, tables: Tables, build: Callable[[int, float, tuple[int, ...]], Construction] = construct
) -> Evidence:
    """Lemma 5: the construction equals y on every count, with its bounds; k = 1, 3, 5, 8, twenty settings each."""
    label, got, fewer, off, neighbour, without_zero = ([] for _ in range(6))
    size, top_a, low_b, top_b, reach, idle = ([] for _ in range(6))
    ks = (1, 3, 5, 8)
    for k in ks:
        bounds = []
        for i, (_, positive, mu) in enumerate(_settings(k)):
            star = build(k, mu, positive)
            x, count, direction, st = _inputs(k, mu, key / k / i)
            net = star.net(direction, st)
            y = np.where(np.isin(count, positive), 1.0, -1.0)
            label.append(y)
            got.append(_scores(star, x, direction, st))
            live = np.arange(len(star.a)) != len(star.a) - 3  # the last two ReLUs are 0 on every count
            fewer.append(_scores(Construction(k, star.a[live], star.b[live]), x, direction, st))
            off.append(_scores(Construction(k, 1.05 * star.a, star.b), x, direction, st))
            neighbour.append(np.where(np.isin(count + 1, positive), 1.0, -1.0))
            without_zero.append(_scores(Construction(k, star.a[3:], star.b[3:]), x, direction, st))
            z = x @ net.w[0].numpy().T + star.b
            idle.append((z <= 1e-12).all(0).sum())
            bounds.append(
                (
                    len(star.a),
                    np.abs(star.a).max() / k,
                    np.abs(star.b).min() * 32 * k,
                    np.abs(star.b).max(),
                    np.abs(z).max(),
                )
            )
        n, a, low, high, inside = np.array(bounds).T
        for out, value in ((size, n.max()), (top_a, a.max()), (low_b, low.min()), (top_b, high.max())):
            out.append(value)
        reach.append(inside.max())
    flat = {
        n: np.concatenate(v)
        for n, v in (
            ("y", label),
            ("g", got),
            ("fewer", fewer),
            ("off", off),
            ("next", neighbour),
            ("no zero", without_zero),
        )
    }
    star = construct(5, 2.5, (1, 3, 5))
    return Evidence(
        (
            Case(
                "g*(x) = y",
                predict=flat["y"],
                observe=flat["g"],
                rival=flat["fewer"],
                tolerance=1e-11,
                rival_says="one live neuron fewer",
            ),
            Case(
                "g*(x) = y, against coefficients 5 % off",
                predict=flat["y"],
                observe=flat["g"],
                rival=flat["off"],
                tolerance=1e-11,
                rival_says="a scaled by 1.05",
            ),
            Case(
                "g*(x) = y, against labels of the next count",
                predict=flat["y"],
                observe=flat["g"],
                rival=flat["next"],
                tolerance=1e-11,
                rival_says="a neighbouring task",
            ),
            Case(
                "g*(x) = y, against bumps at 1..k only",
                predict=flat["y"],
                observe=flat["g"],
                rival=flat["no zero"],
                tolerance=1e-11,
                rival_says="no bump at count 0",
            ),
            Case(
                "number of neurons 3 (k + 1)",
                predict=[3.0 * (k + 1) for k in ks],
                observe=size,
                rival=[3.0 * k for k in ks],
                rival_says="3 k",
            ),
            Case(
                "neurons that are 0 on every input",
                predict=np.full(len(idle), 2.0),
                observe=idle,
                rival=np.zeros(len(idle)),
                rival_says="all 3 (k + 1) neurons needed",
            ),
            Case(
                "max |a*| / k",
                predict=[32.0] * 4,
                observe=top_a,
                rival=[31.0] * 4,
                relation="at most",
                tolerance=1e-9,
                rival_says="31 k: the bound 32 k is attained by the shifted version",
            ),
            Case(
                "min |b*| x 32 k",
                predict=[1.0] * 4,
                observe=low_b,
                rival=[1.05] * 4,
                relation="at least",
                tolerance=1e-9,
                rival_says="5 % more: attained at mu = k/2 - 3/8",
            ),
            Case("max |b*|", predict=[0.5] * 4, observe=top_b, rival=[0.3] * 4, relation="at most", rival_says="0.3"),
            Case(
                "max |<w*, x> + b*|",
                predict=[1.0] * 4,
                observe=reach,
                rival=[0.3] * 4,
                relation="at most",
                rival_says="0.3: the truncation at 1 is far from reached",
            ),
        ),
        comment=f"80 members (k = 1, 3, 5, 8; threshold, odd, even, interval; five mean counts), every count, random "
        f"backgrounds. Largest |b*| {max(top_b):.3f} and |z| {max(reach):.3f}: 1/2 and 1 are loose. "
        "The last two ReLUs never fire, so 3k + 1 neurons suffice.",
        data={"a": star.a, "b": star.b, "k": np.array(5), "mu": np.array(2.5), "positive": np.array([1, 3, 5])},
    )


def draw_existence(evidence: Evidence) -> object:
    """g* of a 5-parity over the count, and the six bumps that make it."""
    from matplotlib.figure import Figure

    data = evidence.data
    assert data is not None
    k, mu, positive = int(data["k"]), float(data["mu"]), set(data["positive"].tolist())
    count = np.linspace(-0.8, k + 1.2, 801)
    ramps = np.clip((count - mu)[:, None] / (4 * k) + data["b"], 0, 1) * data["a"]
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    axes = figure.subplots()
    for p in range(k + 1):
        bump = ramps[:, 3 * p : 3 * p + 3].sum(1)
        axes.fill_between(count, bump, color=("C1", "C2")[p % 2], alpha=0.3, lw=0, label="bumps" if p == 0 else None)
    axes.plot(count, ramps.sum(1), color="C0", lw=1.4, label="g*")
    whole = np.arange(k + 1)
    label = [1 if p in positive else -1 for p in whole]
    axes.plot(whole, label, "o", color="C3", label="label", zorder=3)
    axes.axhline(0, color="0.85", lw=0.8, zorder=0)
    axes.set(xlabel="number of present relevant patterns", ylabel="network output")
    axes.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.16))
    return figure


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "emergence.lemma7",
        entries=("emergence.lemma7",),
        says="Three ReLUs make a triangle bump: 0 for |z - s| >= b, else a (b - |z - s|).",
        check=check_triangle,
    ),
    Claim(
        "emergence.lemma5",
        entries=("emergence.lemma5",),
        says="3(k+1) truncated-ReLU neurons with weights st wstar/(4k) equal y on every input, |a*| <= 32k, "
        "1/(32k) <= |b*| <= 1/2, |<w*, x> + b*| <= 1.",
        check=check_existence,
        draw=draw_existence,
    ),
)
