"""Training as in the gradient-feature framework: a first step that forgets the start, then small ones.

A penalty (lambda / 2) ||theta||^2 leaves 1 - eta lambda of a weight, so lambda = 1 / eta forgets it: keep = 0. (The
emergence work writes lambda ||theta||^2 and 1 / (2 eta).) Biases never move.

Source: gradient_features.algorithm1, algorithm4, algorithm5, algorithm6, algorithm7.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.learn.fit import fit
from featlearn.learn.groups import Probe, Run
from featlearn.learn.schedules import Stage
from featlearn.nets import TwoLayer
from featlearn.nets.pointwise import Loss, activate


def forgetful_step(
    net: TwoLayer,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    eta: float,
    *,
    second: bool = True,
    loss: Loss = "hinge",
    weights: Float[Tensor, " n"] | None = None,
) -> TwoLayer:
    """One full-batch step with lambda = 1 / eta on w, and on a where `second`: theta^(1) = -eta dL/dtheta.

    Shapes: x (n, d), y and weights (n); weights with mean 1, for an enumerated law n times its probabilities.
    Source: gradient_features.algorithm1 with lambda_1 = 1 / eta_1. Errors: `SettingError` for eta <= 0.
    """
    if not eta > 0:
        raise SettingError("eta_1", eta, "positive", "the first step sets the scale of all weights")
    stage = Stage(1, eta, 0.0, eta if second else 0.0, keep_w=0.0, keep_a=0.0 if second else 1.0)
    return fit(net, x, y, [stage], Key("forgetful"), loss=loss, weights=weights, threads=1).net


def joint(
    net: TwoLayer,
    first: tuple[Tensor, Tensor],
    rest: tuple[Tensor, Tensor],
    *,
    eta_1: float,
    eta: float,
    steps: int,
    batch: int,
    key: Key,
    loss: Loss = "hinge",
    penalty: float = 0.0,
    probes: Mapping[str, Probe] | None = None,
    probe_at: Sequence[int] = (),
) -> Run:
    """Algorithm 1: a forgetful first step on `first`, then joint steps on w and a over new minibatches of `rest`.

    rest holds the samples of all later steps; with steps * batch samples each is used once, with fewer it is reread.
    penalty: lambda of the later steps, 0 in the work. Algorithm 5 is the same with very many samples.
    Shapes: first and rest are (x (n, d), y (n)). Source: gradient_features.algorithm1, algorithm5.
    Errors: `SettingError` as `fit`; `Diverged` when weights leave the finite numbers.
    """
    start = forgetful_step(net, *first, eta_1, loss=loss)
    left = 1 - eta * penalty
    stage = Stage(steps, eta, 0.0, eta, left, left, batch=batch)
    return fit(start, *rest, [stage], key, loss=loss, probes=probes, probe_at=probe_at)


def smoothness(net: TwoLayer, x: Float[Tensor, "n d"], loss: Loss) -> float:
    """L of the mean loss in the second layer: the largest eigenvalue of F^T F / n, a quarter of it for logistic.

    Shapes: x (n, d). The hinge has no such L and takes that of the squared loss, a step size for want of a better one.
    Source: gradient_features.theorem3_4.
    """
    f = activate(x @ net.w[0].T + net.b[0], net.activation)
    top = float(torch.linalg.eigvalsh((f.T @ f / len(f)).double())[-1])
    return top / 4 if loss == "logistic" else top


def one_step(
    net: TwoLayer,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    *,
    eta_1: float,
    steps: int,
    eta: float | None = None,
    second: bool = True,
    loss: Loss = "hinge",
    probes: Mapping[str, Probe] | None = None,
    probe_at: Sequence[int] = (),
) -> Run:
    """Algorithm 4: a forgetful first step, then gradient descent on a alone, on the same sample.

    eta: rate of the later steps, 1 / L by default. second: whether the first step moves a as well (Algorithm 6) or not
    (Algorithm 7). Shapes: x (n, d), y (n). Source: gradient_features.algorithm4, theorem3_4; its statement of eta = 1/t
    in one place is read as 1/L.
    """
    start = forgetful_step(net, x, y, eta_1, second=second, loss=loss)
    rate = 1 / max(smoothness(start, x, loss), 1e-30) if eta is None else eta
    stage = Stage(steps, 0.0, 0.0, rate)
    return fit(start, x, y, [stage], Key("one-step"), loss=loss, probes=probes, probe_at=probe_at)


@dataclass(frozen=True)
class WithLinear:
    """x -> net(x) + rho + <beta, x>: a network on what a linear function leaves over. rho (), beta (d)."""

    net: TwoLayer
    rho: float
    beta: Float[Tensor, " d"]

    def __call__(self, x: Float[Tensor, "n d"], /) -> Float[Tensor, "n e"]:
        return self.net(x) + (self.rho + x @ self.beta)[:, None]


def residual(x: Float[Tensor, "n d"], y: Float[Tensor, " n"]) -> tuple[Tensor, float, Tensor]:
    """y - rho - <beta, x> with rho = mean y and beta = mean y x, as reported; then rho and beta.

    Shapes: x (n, d), y (n) -> (n), number, (d). The residual has mean and correlation with x of order 1/sqrt(n), not
    exactly 0, because mean x and mean x x^T are not exactly 0 and I on a sample.
    Source: gradient_features.algorithm7.
    """
    rho, beta = float(y.mean()), (y[:, None] * x).mean(0)
    return y - rho - x @ beta, rho, beta


def multi_index(
    net: TwoLayer,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    *,
    eta_1: float,
    steps: int,
    key: Key,
    eta: float | None = None,
) -> tuple[WithLinear, Run]:
    """Algorithm 7: take off mean and linear part, one forgetful step on w, new N(0, 1) biases, then fit a.

    The work's loss is (g - y)^2, the engine's half of it: rates here are for the engine's, so eta_1 = 2 eta_1 of the
    paper. The predictor adds the linear part back, which the paper leaves out. Shapes: x (n, d), y (n).
    Source: gradient_features.algorithm7.
    """
    left, rho, beta = residual(x, y)
    moved = forgetful_step(net, x, left, eta_1, second=False, loss="squared")
    moved = replace(moved, b=torch.randn(moved.b.shape, generator=key.torch()))
    rate = 1 / max(smoothness(moved, x, "squared"), 1e-30) if eta is None else eta
    run = fit(moved, x, left, [Stage(steps, 0.0, 0.0, rate)], key, loss="squared")
    return WithLinear(run.net, rho, beta), run
