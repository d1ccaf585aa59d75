"""A coordinate check as users of mup know it: how far activations move in a few steps, at several widths."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from featlearn.apply.watch.probe import Caught, Probe, calm, caught, check_model, copied, probe_of, scores
from featlearn.apply.watch.records import aligned
from featlearn.core import Key, SettingError
from featlearn.lab.estimate import interval

FLAT = 0.25
"""Exponents within this of 0 count as flat, beyond it as growing or shrinking."""
OUTPUT = "output"

Tendency = Literal["flat", "grows", "shrinks", "undecided", "still", "not finite"]


@dataclass(frozen=True, kw_only=True)
class Exponent:
    """One layer: mean |h' - h| over the probe and all coordinates, at each width on average over seeds, and its law.

    slope: of its logarithm in that of the width, low and high: ends of the 95 % interval over seeds. tendency: flat
    where the interval lies within 1/4 of 0, grows or shrinks where it lies beyond, else undecided; still where
    something did not move, not finite where training diverged.
    """

    layer: str
    changes: tuple[float | None, ...]
    slope: float | None
    low: float | None
    high: float | None
    tendency: Tendency


@dataclass(frozen=True, kw_only=True)
class CoordinateCheck:
    """Layers in the order of the network, the outputs last."""

    widths: tuple[int, ...]
    seeds: int
    layers: tuple[Exponent, ...]

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        heads = ("layer", *(f"width {w}" for w in self.widths), "exponent", "95 %", "")
        rows = [
            (
                e.layer,
                *("–" if c is None else f"{c:.3g}" for c in e.changes),
                "–" if e.slope is None else f"{e.slope:.2f}",
                "–" if e.low is None or e.high is None else f"{e.low:.2f} to {e.high:.2f}",
                e.tendency,
            )
            for e in self.layers
        ]
        return "\n".join(aligned(heads, rows))


def coordinate_check(
    build: Callable[[int], nn.Module],
    widths: Sequence[int],
    train: Callable[[nn.Module], object],
    x: Any,
    *,
    seeds: int = 3,
    key: Key | None = None,
) -> CoordinateCheck:
    """How much activations change in a few steps, layer by layer, as a power of the width.

    In a parametrisation that learns features at any width (the maximal update, mup) every exponent is 0; with the
    standard one and one rate for all widths, outputs move more the wider the network is, or hidden layers less.

    build(width) makes the model and train(model) makes a few steps of the training that you mean, with the rates of
    that width; both run once for each width and seed, with the generators of torch seeded anew, which are as before
    when the check returns (no other thread should draw from them meanwhile). x: what the model takes, as in `watch`.

    Source: the coordinate check of Yang et al. 2022 (Tensor Programs V), on changes since the start.
    Errors: SettingError for fewer than three widths or two seeds, widths that are not whole numbers above 0 or repeat,
    models without a layer of one name at all widths, and what `watch` refuses of models and inputs.

    Example:
        >>> def train(net):
        ...     with torch.no_grad():
        ...         net.weight.add_(1 / net.weight.shape[0])
        >>> x = torch.ones(4, 3)
        >>> found = coordinate_check(lambda width: nn.Linear(3, width), [8, 16, 32], train, x)
        >>> [(one.layer, round(one.slope, 2), one.tendency) for one in found.layers]
        [('output', -1.0, 'shrinks')]
    """
    widths = tuple(widths)
    if any(isinstance(w, bool) or not isinstance(w, int) or w < 1 for w in widths) or len({*widths}) < len(widths):
        raise SettingError("widths", widths, "different whole numbers above 0", "such as 64, 128, 256")
    if len(widths) < 3:
        raise SettingError("widths", widths, "three or more", "a law needs three points")
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 2:
        raise SettingError("seeds", seeds, "2 or more", "one seed has no interval; 3 is the default")
    key = key or Key("coordinate_check")
    probe = probe_of(x, key)
    found: dict[tuple[int, int], dict[str, float]] = {}
    cuda = [*range(torch.cuda.device_count())] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(cuda):
        for width in widths:
            for seed in range(seeds):
                torch.manual_seed((key / width / seed).seed)
                found[width, seed] = _moved(build(width), train, probe)
    first = found[widths[0], 0]
    names = [name for name in first if all(name in one for one in found.values())]
    return CoordinateCheck(
        widths=widths,
        seeds=seeds,
        layers=tuple(
            _exponent(name, np.array([[found[w, s][name] for w in widths] for s in range(seeds)]), widths)
            for name in names
        ),
    )


def _moved(model: nn.Module, train: Callable[[nn.Module], object], probe: Probe) -> dict[str, float]:
    """Layer -> mean |h' - h|."""
    inner = check_model(model)
    before = _activations(inner, probe)
    train(model)
    after = _activations(inner, probe)
    return {n: float((after[n] - h).abs().mean()) for n, h in before.items() if n in after}


def _activations(model: nn.Module, probe: Probe) -> Mapping[str, Tensor]:
    """What every layer with weights of its own gives, and the outputs."""
    own = copied(model)
    layers = {n: m for n, m in own.named_modules() if n and any(True for _ in m.parameters(recurse=False))}
    found, near = Caught(), probe.beside(own)
    with calm(next(own.parameters()).device), torch.no_grad(), caught(layers, found):
        out = scores(own, near, finite=False)
    kept = {n: near.masked(h).double() for n, h in found.outputs.items() if n in layers}
    return {**kept, OUTPUT: out.double()}


def _exponent(name: str, changes: np.ndarray, widths: Sequence[int]) -> Exponent:
    """changes: (seeds, widths)."""
    means = tuple(c if math.isfinite(c) else None for c in changes.mean(0).tolist())
    if not np.isfinite(changes).all() or not (changes > 0).all():
        tendency: Tendency = "still" if np.isfinite(changes).all() else "not finite"
        return Exponent(layer=name, changes=means, slope=None, low=None, high=None, tendency=tendency)
    x = np.log(np.array(widths, dtype=np.float64))
    x -= x.mean()
    slope, low, high = interval(np.log(changes) @ x / (x @ x))
    if low > -FLAT and high < FLAT:
        tendency = "flat"
    else:
        tendency = "grows" if low > FLAT else "shrinks" if high < -FLAT else "undecided"
    return Exponent(layer=name, changes=means, slope=slope, low=low, high=high, tendency=tendency)
