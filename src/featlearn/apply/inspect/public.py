"""`featlearn.inspect`: what moved between checkpoints; what the command line calls."""

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from featlearn.apply.inspect.layers import Layer as Layer
from featlearn.apply.inspect.layers import alone, compare_tensors, neuron_clusters
from featlearn.apply.inspect.reading import RegimeReading as RegimeReading
from featlearn.apply.inspect.reading import head_of, read
from featlearn.core import SettingError
from featlearn.data.names import some
from featlearn.data.weights import Weights, beneath, read_weights, without
from featlearn.errors import DataError

__all__ = ["Inspection", "Layer", "Pair", "RegimeReading", "compare", "describe"]

FLOATS = ("float64", "float32", "bfloat16", "float16")
"""Types of numbers that are compared, fine to coarse."""
CLUSTERED = 8
"""Matrices whose neurons are clustered."""

Source = str | Path | nn.Module | Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The first checkpoint against a later one: layers in the order of the first, and the reading.

    only_before, only_after: names without a partner.
    """

    after: str
    layers: tuple[Layer, ...]
    reading: RegimeReading
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What moved since the first checkpoint in each later one; with one checkpoint, its layers alone."""

    before: str
    pairs: tuple[Pair, ...]
    layers: tuple[Layer, ...] = ()
    remarks: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def compare(
    before: Source,
    *after: Source,
    layers: Sequence[str] = (),
    head: str = "",
    clusters: int = CLUSTERED,
    progress: Callable[[int, int], None] | None = None,
) -> Inspection:
    """How far and in which directions weights moved from one checkpoint to others, and whether that is lazy or rich.

    before, after: .safetensors files, folders of `save_pretrained`, files of torch.save (opened without running what is
    pickled), modules, or their state_dict(). layers: names, or patterns with *, to look at; all if left out.
    head: the matrix that reads out, which the reading leaves out; by its name if left out. clusters: so many matrices,
    those that moved most, have their neurons clustered.
    One tensor is read at a time. Nothing is changed; no number is drawn from the generators of torch.

    Source: feature movement as in emergence.figure5 and the spectral condition of feature learning (Yang, Simon and
    Bernstein 2023); the thresholds of the reading are measured (`featlearn.apply.inspect.reading`).
    Errors: DataError for files that are not weights and checkpoints without a tensor of one name and shape;
    SettingError for patterns and heads that match nothing.

    Example:
        >>> import torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> start = {k: v.clone() for k, v in net.state_dict().items()}
        >>> found = compare(start, net)
        >>> found.pairs[0].layers[0].state, found.pairs[0].reading.regime
        ('same', 'lazy')
    """
    if not after:
        return describe(before, layers=layers, progress=progress)
    first, later = read_weights(before), [read_weights(a) for a in after]
    matched = [_matched(first, one) for one in later]
    chosen = [_chosen(m, layers) for m in matched]
    total, done = sum(map(len, chosen)), 0
    pairs, remarks = [], list(first.remarks)
    for one, names in zip(matched, chosen, strict=True):
        found: list[Layer] = []
        for name in names:
            found.append(_layer(first, one, name))
            done += 1
            if progress is not None:
                progress(done, total)
        if not layers and all(layer.state == "not compared" for layer in found):
            raise DataError(
                f"{first.source} and {one.source} have no tensor of one name, shape and floating type "
                f"({found[0].name}: {found[0].why}); give two checkpoints of one network"
            )
        common = [n for n in first.names if n in one.shapes]
        read_out = _head(head, [n for n in common if len(first.shapes[n]) >= 2])
        pairs.append(
            Pair(
                after=one.source,
                layers=tuple(_clustered(first, one, found, clusters)),
                reading=read(found, read_out),
                only_before=tuple(n for n in first.names if n not in common),
                only_after=tuple(n for n in one.names if n not in common),
            )
        )
        remarks += [r for r in one.remarks if r not in remarks]
    return Inspection(before=first.source, pairs=tuple(pairs), remarks=tuple(remarks))


def describe(
    checkpoint: Source, *, layers: Sequence[str] = (), progress: Callable[[int, int], None] | None = None
) -> Inspection:
    """The spectra, ranks and dead neurons of one checkpoint; what moved cannot be told from it.

    Errors: as in `compare`.
    """
    found = read_weights(checkpoint)
    names = _chosen(found, layers)
    out: list[Layer] = []
    for i, name in enumerate(names):
        why = _not_floating(found.kinds[name])
        if why:
            entry = {"name": name, "shape": found.shapes[name], "kind": found.kinds[name]}
            out.append(Layer(state="not compared", why=why, **entry))
        else:
            out.append(alone(name, found.load(name), found.kinds[name]))
        if progress is not None:
            progress(i + 1, len(names))
    return Inspection(before=found.source, pairs=(), layers=tuple(out), remarks=found.remarks)


def _matched(first: Weights, later: Weights) -> Weights:
    """The later checkpoint under the names of the first, a prefix cut where that is what keeps them apart."""
    if any(name in first.shapes for name in later.names):
        return later
    for name in later.names:
        for wanted in first.names:
            if name.endswith(f".{wanted}"):
                return without(later, name.removesuffix(wanted))
            if wanted.endswith(f".{name}"):
                return beneath(later, wanted.removesuffix(name))
    raise DataError(
        f"{first.source} and {later.source} have no tensor of one name: {some(first.names)} and {some(later.names)}; "
        "give two checkpoints of one network (adapters are merged into their model first)"
    )


def _chosen(found: Weights, patterns: Sequence[str]) -> list[str]:
    for pattern in patterns:
        if not fnmatch.filter(found.names, pattern):
            raise SettingError("layers", pattern, f"a name or pattern of {some(found.names)}", "quote the *")
    return [n for n in found.names if not patterns or any(fnmatch.fnmatchcase(n, p) for p in patterns)]


def _head(named: str, matrices: Sequence[str]) -> str:
    if named and named not in matrices:
        allowed = f"a matrix that is compared: {some(matrices)}" if matrices else "none: no matrix is compared"
        raise SettingError("head", named, allowed, "give its whole name, or none")
    return named or head_of(matrices)


def _not_floating(kind: str) -> str:
    if kind in FLOATS:
        return ""
    return "on no device: it has no values" if kind == "meta" else f"{kind}: whole or quantised numbers, not weights"


def _layer(first: Weights, later: Weights, name: str) -> Layer:
    """Compare a tensor, or say why not."""
    if name not in first.shapes:
        shape, kind = later.shapes[name], later.kinds[name]
        return Layer(name=name, shape=shape, kind=kind, state="not compared", why="not there before")
    shape, kinds = first.shapes[name], (first.kinds[name], later.kinds[name])
    kind = max(kinds, key=lambda k: FLOATS.index(k) if k in FLOATS else len(FLOATS))
    why = _not_floating(kind)
    if not why and shape != later.shapes[name]:
        why = f"shape {shape} before and {later.shapes[name]} after"
    if why:
        return Layer(name=name, shape=shape, kind=kind, state="not compared", why=why)
    return compare_tensors(name, first.load(name), later.load(name), kind)


def _clustered(first: Weights, later: Weights, found: Sequence[Layer], number: int) -> list[Layer]:
    """With clusters of neurons for the matrices that moved most."""
    order = sorted((layer for layer in found if layer.spectral), key=lambda layer: -(layer.spectral or 0))
    most = {layer.name for layer in order[:number]}
    return [
        replace(layer, clusters=neuron_clusters(layer.name, first.load(layer.name), later.load(layer.name)))
        if layer.name in most
        else layer
        for layer in found
    ]
