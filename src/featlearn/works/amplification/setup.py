"""What the experiments of the amplification work share: data and starts of an ensemble, one member per seed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.lab.claim import Premise
from featlearn.learn import Stage, fit
from featlearn.measure import gate_shares
from featlearn.nets import TwoLayer, fixed_signs_init, forward, stack
from featlearn.tasks import XorClusters
from featlearn.tasks.xor_clusters import Law, Noise, XorTruth

Rounding = Literal["up", "down"]


@dataclass(frozen=True)
class Setting:
    """One problem and one start.

    sigma: deviation of a cluster per coordinate. scale: omega sqrt(m d), the Frobenius norm of the start.
    """

    d: int
    n: int
    sigma: float
    eta: float = 0.15
    m: int = 400
    scale: float = 0.1
    noise: Noise = "random"
    law: Law = "gaussian"

    @property
    def task(self) -> XorClusters:
        """The task of these settings; refuses what it refuses."""
        return XorClusters(self.d, self.sigma, self.eta, self.noise, self.law)

    @property
    def omega(self) -> float:
        """Standard deviation of a weight at the start."""
        return self.scale / math.sqrt(self.m * self.d)


@dataclass(frozen=True)
class Data:
    """Samples of every member: x (e, n, d), y and clean labels (e, n), group (e, n), centres (e, 4, d)."""

    x: Tensor
    y: Tensor
    clean: Tensor
    group: Tensor
    centres: Tensor

    @property
    def flipped(self) -> Tensor:
        """Samples with a wrong label (e, n)."""
        return self.y != self.clean


LABELS = torch.tensor([1.0, 1.0, -1.0, -1.0])
OPPOSITE = torch.tensor([1, 0, 3, 2])


def allowed_constants(
    *, d: int, n: int, m: int, sigma: float, eta: float, scale: float, alpha: float, delta: float
) -> dict[str, tuple[float, float]]:
    """For each of A1 to A7 the interval of constants C > 0 that satisfy it; scale = omega sqrt(m d).

    A6 is read as omega^2 <= 1/(C^2 m d): our copy is unreadable there. Source: amplification.assumptions.
    """
    free = math.inf
    return {
        "A1": (0.0, d / max(math.log(n / delta) ** 2, math.log(m / delta))),
        "A2": (0.0, 1 / (sigma * math.sqrt(d)) if sigma else free),
        "A3": (0.0, n / math.log(m / delta)),
        "A4": (0.0, 1 / eta if eta else free),
        "A5": (0.0, m / math.log(1 / delta)),
        "A6": (0.0, 1 / scale),
        "A7": (1 / (4 * alpha**2), 1 / alpha**2),
    }


C0 = 4**5 * 1024**2 * math.exp(4)
"""The C0 of a good run (Definition 7)."""
DELTA = 0.1
"""Failure probability of the claims: 1 - 4 delta is left for a good run."""


def premises_of(settings: Sequence[Mapping[str, Any]]) -> tuple[Premise, ...]:
    """A1 to A7 with one C at every setting, and C as large as the proof takes it.

    Following the proof, C0 asks for m >= 16 C0^2 log(32/delta) neurons (Lemma 4), which A5 gives with C = 16 C0^2.
    """
    found = [allowed_constants(**s, delta=DELTA) for s in settings]
    low = max(v[0] for f in found for v in f.values())
    name, high = min(((a, v[1]) for f in found for a, v in f.items()), key=lambda p: p[1])
    detail = f"A7 asks for C >= {low:.3g}, {name} for C <= {high:.3g}"
    return (
        Premise("A1 to A7 with one constant C", low <= high, detail),
        Premise("C large enough", None, f"no C is given; the proof takes {16 * C0**2:.1e}"),
    )


def check(setting: Setting, alpha: float | int) -> None:
    """Refuse settings that cannot work, before anything runs."""
    if setting.m < 2 or setting.m % 2:
        raise SettingError("m", setting.m, "even and at least 2", "half of the neurons are positive")
    if setting.n < 1:
        raise SettingError("n", setting.n, "at least 1", "1000 is typical")
    if not (setting.scale > 0 and math.isfinite(setting.scale)):
        raise SettingError("scale", setting.scale, "a finite number above 0", "0.1 is reported for Figure 2")
    if not (alpha > 0 and math.isfinite(alpha)):
        raise SettingError("alpha", alpha, "a finite number above 0", "0.1 is reported for Figure 2")
    _ = setting.task


def steps_of(alpha: float, rounding: Rounding = "up") -> int:
    """T = 1 + 1/(4 alpha); the paper does not say what it is where that is no integer (amplification.gd).

    Example:
        >>> steps_of(0.25), steps_of(0.1), steps_of(0.1, "down")
        (2, 4, 3)
    """
    more = 1 / (4 * alpha)
    return 1 + (math.ceil(more - 1e-9) if rounding == "up" else math.floor(more + 1e-9))


def truths(setting: Setting, seeds: Sequence[int]) -> list[XorTruth]:
    """The means of every seed."""
    return [setting.task.draw(_key(setting, s) / "truth") for s in seeds]


def _key(setting: Setting, seed: int) -> Key:
    return Key("amplification") / setting.d / setting.n / seed  # so that results of different trials are independent


def draw(setting: Setting, found: Sequence[XorTruth], seeds: Sequence[int], part: str, n: int | None = None) -> Data:
    """n samples of every seed (default: the training samples); they depend on d, n, task, seed and `part` alone."""
    batches = [
        setting.task.sample(t, n or setting.n, _key(setting, s) / part) for t, s in zip(found, seeds, strict=True)
    ]
    hidden, group = [b.hidden for b in batches], [b.group for b in batches]
    return Data(
        torch.stack([b.x for b in batches]),
        torch.stack([b.y for b in batches]),
        torch.stack([h for h in hidden if h is not None]),
        torch.stack([g for g in group if g is not None]),
        torch.stack([t.centres for t in found]),
    )


def start(setting: Setting, seeds: Sequence[int]) -> TwoLayer:
    """The networks at initialisation, one per seed; another scale multiplies the same draw."""
    nets = [fixed_signs_init(setting.m, setting.d, _key(setting, s) / "start", omega=1.0) for s in seeds]
    net = stack(nets)
    return replace(net, w=net.w * setting.omega)


def descend(net: TwoLayer, data: Data, alpha: float, steps: int) -> TwoLayer:
    """`steps` steps of full-batch gradient descent on the logistic loss, first layer only (amplification.gd)."""
    return fit(net, data.x, data.y, [Stage(steps, rate_w=alpha)], Key(), loss="logistic").net


def fits(net: TwoLayer, data: Data) -> dict[str, Tensor]:
    """Per member (e): shares of clean samples that are right and of flipped ones that are wrong (nan if there are
    none), of all labels that are right, and of clean labels that are right whatever the label says."""
    score = forward(net, data.x)
    right = score * data.y > 0
    wrong = score * data.y < 0
    noisy = data.flipped
    return {
        "clean_right": (right & ~noisy).sum(1) / (~noisy).sum(1),
        "noisy_wrong": (wrong & noisy).sum(1) / noisy.sum(1),
        "acc": right.float().mean(1),
        "clean_acc": (score * data.clean > 0).float().mean(1),
    }


def edge_of_each(w: Tensor, own: Tensor, train: Data) -> Tensor:
    """Lemma 6: (clean samples of its own cluster that a neuron fires on, minus those of the opposite one) / n (e, m);
    inf for neurons outside the sets."""
    clean = torch.where(train.flipped, 4, train.group)  # a fifth cluster for the flipped samples
    count = torch.stack([torch.bincount(g, minlength=5) for g in clean]).to(w)
    fires = gate_shares(w, train.x, clean, 5).nan_to_num() * count[:, None] / train.x.shape[1]
    index = own.clamp_min(0)
    edge = fires.gather(2, index[..., None]) - fires.gather(2, OPPOSITE[index][..., None])
    return edge[..., 0].masked_fill(own < 0, math.inf)


def edges(w: Tensor, own: Tensor, train: Data) -> Tensor:
    """The least of them over the neurons of the sets (e)."""
    return edge_of_each(w, own, train).amin(1)
