"""Linear models on fixed features, and a network linearised at its start: what training cannot change stays fixed.

Both train several step sizes at once on the same minibatches (leading axis e), since features are shared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Diverged, Key, SettingError
from featlearn.core.check import check_fields, check_number, checked
from featlearn.learn.groups import with_ones
from featlearn.learn.schedules import batches
from featlearn.nets import TwoLayer
from featlearn.nets.pointwise import Loss, activate, check_choice, gated, loss_slope


@dataclass(frozen=True)
class Linear:
    """e linear models on f features; calling it on features (n, f) gives scores (n, e)."""

    weights: Float[Tensor, "e f"]

    def __post_init__(self) -> None:
        check_fields(self)

    @checked()
    def __call__(self, features: Float[Tensor, "n f"], /) -> Float[Tensor, "n e"]:
        return features @ self.weights.T


def _check_settings(rates: Sequence[float], steps: int, loss: str) -> None:
    check_choice("loss", loss, Loss)
    if not rates:
        raise SettingError("rates", "()", "one or more step sizes", "[0.1] trains one model")
    for rate in rates:
        check_number(rate, "rates", "finite numbers of at least 0", "0.1 is a start")
    if steps < 0:
        raise SettingError("steps", steps, "at least 0", "0 gives the start")


def _take(features: Tensor, y: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor]:
    if rows is None:
        return features, y
    rows = rows.to(features.device)
    return features.index_select(0, rows), y.index_select(0, rows)  # several times faster than features[rows]


def _require_finite(weights: Tensor, step: int, rates: Tensor) -> None:
    """Stop with the step and with the rates whose copies (leading axis) left the finite numbers."""
    if not torch.isfinite(weights.sum()):
        bad = ~torch.isfinite(weights).flatten(1).all(1)
        if bad.any():
            raise Diverged(f"weights are not finite after step {step}; lower the step sizes {rates[bad].tolist()}")


@checked(signs=("y",))
def fit_linear(
    features: Float[Tensor, "n f"],
    y: Float[Tensor, " n"],
    rates: Sequence[float],
    key: Key,
    *,
    steps: int,
    batch: int | None,
    loss: Loss = "hinge",
    watch: Callable[[int, "Linear"], None] | None = None,
    watch_at: Sequence[int] = (),
) -> Linear:
    """Train linear classifiers on given features by minibatch gradient descent from zero, one per step size.

    Formula: a <- a - rate mean_s l'(<a, f_s>, y_s) f_s. Shapes: features (n, f), y (n) in {-1, +1}; e = len(rates).
    A bias is a constant feature. watch(step, model) is called after the steps in `watch_at` (0 is the start).
    Errors: `Diverged` with the step and the rates that did; `SettingError`, before any work, for a batch above n, for
    data or rates that are not finite or do not fit, and for labels other than -1 and +1 unless loss = "squared".
    """
    _check_settings(rates, steps, loss)
    rate = torch.tensor(rates, dtype=features.dtype, device=features.device)
    weights = features.new_zeros(len(rate), features.shape[1])
    watched = frozenset(watch_at) if watch else frozenset()
    if watch and 0 in watched:
        watch(0, Linear(weights.clone()))
    for step, rows in enumerate(batches(len(features), batch, steps, key), 1):
        part, target = _take(features, y, rows)
        delta = loss_slope(part @ weights.T, target[:, None], loss) * (rate / len(part))
        weights -= delta.T @ part
        _require_finite(weights, step, rate)
        if watch and step in watched:
            watch(step, Linear(weights.clone()))
    return Linear(weights)


@dataclass(frozen=True)
class Linearised:
    """A two-layer network's tangent at its start, e trained copies: a predictor with fixed neural-tangent features.

    f(x) = sum_i da_i sigma(z_i) + a_i sigma'(z_i) (<dw_i, x> + db_i), z_i = <w_i, x> + b_i at the start `net` (e = 1);
    v packs (dw, db) as (e, m, d+1), a is da (e, m). The constant g(x) of the start is left out: it is 0 when mirrored.
    """

    net: TwoLayer
    v: Float[Tensor, "e m d1"]
    a: Float[Tensor, "e m"]

    def __post_init__(self) -> None:
        check_fields(self)

    @checked()
    def __call__(self, x: Float[Tensor, "n d"], /, block: int = 4096) -> Float[Tensor, "n e"]:
        if x.shape[1] != self.net.w.shape[2]:
            allowed = f"(n, d) with d = {self.net.w.shape[2]} as in net.w"
            raise SettingError("x", f"a tensor of shape {tuple(x.shape)}", allowed, "match them")
        parts = []
        for part in x.split(block):
            x1 = with_ones(part)
            act, gate = _tangent(self.net, x1)
            parts.append(_scores(x1, act, gate, self.v, self.a))
        return torch.cat(parts)


def _tangent(net: TwoLayer, x1: Tensor) -> tuple[Tensor, Tensor]:
    """sigma(z) and a sigma'(z), both (n, m)."""
    z = x1 @ torch.cat([net.w[0], net.b[0][:, None]], 1).T
    act = activate(z, net.activation)
    return act, gated(net.a, z, net.activation, out=torch.empty_like(z))


def _scores(x1: Tensor, act: Tensor, gate: Tensor, v: Tensor, a: Tensor) -> Tensor:
    # sum_i gate_i <v_i, x> = <gate @ v, x>: the second form needs no (n, m) product per copy
    tangent = torch.stack([((gate @ one) * x1).sum(1) for one in v], 1)
    return tangent + act @ a.T


@checked(signs=("y",))
def fit_linearised(
    net: TwoLayer,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    rates: Sequence[float],
    key: Key,
    *,
    steps: int,
    batch: int | None,
    loss: Loss = "hinge",
    watch: Callable[[int, "Linearised"], None] | None = None,
    watch_at: Sequence[int] = (),
) -> Linearised:
    """Train the tangent model of one network (neural tangent features at its start) by minibatch gradient descent.

    Same rate for both layers, one copy per entry of `rates`. Shapes: net with e = 1, x (n, d), y (n).
    Source: emergence.method_baselines. With a mirrored start the two halves have equal or opposite features, so
    training one half at twice the rate gives the same predictor: pass the half and double the rates.
    watch(step, model) is called after the steps in `watch_at` (0 is the start).
    Errors: `Diverged` with the step and the rates that did; `SettingError`, before any work, as `fit_linear` and
    for more than one network.
    """
    _check_settings(rates, steps, loss)
    if len(net) != 1:
        raise SettingError("net", f"{len(net)} networks", "one network, e = 1", "pass net[i : i + 1]")
    rate = torch.tensor(rates, dtype=x.dtype, device=x.device)
    m, d = net.w.shape[1:]
    v, a = x.new_zeros(len(rate), m, d + 1), x.new_zeros(len(rate), m)
    x1 = with_ones(x)
    watched = frozenset(watch_at) if watch else frozenset()
    if watch and 0 in watched:
        watch(0, Linearised(net, v.clone(), a.clone()))
    for step, rows in enumerate(batches(len(x), batch, steps, key), 1):
        part, target = _take(x1, y, rows)
        act, gate = _tangent(net, part)
        delta = loss_slope(_scores(part, act, gate, v, a), target[:, None], loss) * (rate / len(part))
        for j in range(len(rate)):
            v[j].addmm_(gate.T, part * delta[:, j : j + 1], alpha=-1)
        a -= delta.T @ act
        _require_finite(v, step, rate)
        _require_finite(a, step, rate)
        if watch and step in watched:
            watch(step, Linearised(net, v.clone(), a.clone()))
    return Linearised(net, v, a)
