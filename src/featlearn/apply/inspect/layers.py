"""One tensor before and after: how far it moved, in which directions, and whether its neurons cluster."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from featlearn.core import Key
from featlearn.measure import cosine_silhouette, spherical_kmeans
from featlearn.measure.spectra import (
    effective_rank,
    leading_singular,
    rounding_floor,
    share_within,
)

State = Literal["same", "moved", "rounding", "not finite", "not compared"]
RANK = 64
"""A change of more directions than this above the rounding is called of rank "above 64"."""
TOP = 8
"""Leading directions of the weights before that a change is held against."""
FLOAT32 = 4e-6
"""Singular values below this share of the largest are what decompositions in float32 leave."""
ROWS = 400
"""Neurons of a layer that are clustered; of more, as many are drawn."""
MOST_CLUSTERS = 6
COLUMNS = 1024
"""Weights of a neuron beyond this are projected at random onto as many before neurons are compared."""


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """Of one matrix: largest singular values, Frobenius norm, and ranks."""

    values: tuple[float, ...]
    norm: float
    stable: float
    effective: float


@dataclass(frozen=True, kw_only=True)
class Clustering:
    """Directions of a layer's neurons: silhouettes of k clusters after, and of the same number before.

    k: the number of clusters with the best silhouette after; before: None where nothing came before; neurons: how many
    were looked at. points: their directions in the plane.
    """

    k: int
    after: float
    before: float | None
    neurons: int
    labels: tuple[int, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One tensor of two checkpoints; numbers that cannot be had are None, and `why` says what stands in the way.

    change: ||W' - W||_F / ||W||_F. spectral: ||W' - W||_2 / ||W||_2, of matrices. cosine: of all entries of W and W'.
    rank: singular values of W' - W above what rounding leaves, up to 64; more: there are more of them. within: shares
    of the change along the 8 leading input and output directions of W, and chance: what a random change would have.
    unmoved: share of neurons whose weights are the same; dead: neurons whose weights are all zero, before and after.
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    state: State
    why: str = ""
    entries: int = 0
    change: float | None = None
    spectral: float | None = None
    cosine: float | None = None
    rank: int | None = None
    more: bool = False
    within: tuple[float, float] | None = None
    chance: tuple[float, float] | None = None
    unmoved: float | None = None
    dead: tuple[int, int] | None = None
    before: Spectrum | None = None
    after: Spectrum | None = None
    moved: Spectrum | None = None
    clusters: Clustering | None = None

    @property
    def matrix(self) -> bool:
        """Whether it has spectra: two axes or more."""
        return len(self.shape) >= 2

    @property
    def wide(self) -> bool:
        """Whether it has several neurons of several weights."""
        return self.matrix and self.shape[0] > 1 and math.prod(self.shape[1:]) > 1


def flat(value: Tensor) -> Tensor:
    """Neurons by incoming weights: (out, ...) -> (out, rest), in float32, or in float64 if it is."""
    wide = value.to(torch.float64 if value.dtype == torch.float64 else torch.float32)
    return wide.reshape(len(wide), -1) if wide.ndim > 1 else wide.reshape(1, -1)


def compare_tensors(name: str, before: Tensor, after: Tensor, kind: str) -> Layer:
    """A layer of two checkpoints; kind: the coarser of the two types of numbers."""
    shape, entries = tuple(after.shape), after.numel()
    common = {"name": name, "shape": shape, "kind": kind, "entries": entries}
    if entries == 0:
        return Layer(state="not compared", why="no entries", **common)
    for when, value in (("before", before), ("after", after)):
        if bad := int((~torch.isfinite(value)).sum()):
            return Layer(state="not finite", why=f"{bad} of {entries} entries {when} are nan or infinite", **common)
    if torch.equal(before, after.to(before.dtype)) and torch.equal(before.to(after.dtype), after):
        return Layer(state="same", change=0.0, cosine=1.0, **common)
    w, v = flat(before), flat(after)
    d = v.to(torch.promote_types(w.dtype, v.dtype)) - w
    size, sized = _norm(w), _norm(v)
    change = _norm(d) / size if size > 0 else math.inf
    cosine = float((w.double() * v.double()).sum()) / (size * sized) if size > 0 and sized > 0 else None
    still = float((d == 0).all(1).double().mean()) if len(shape) > 1 else None
    dead = (int((w == 0).all(1).sum()), int((v == 0).all(1).sum())) if len(shape) > 1 else None
    more = {**common, "change": change if math.isfinite(change) else None, "cosine": cosine}
    more |= {"unmoved": still, "dead": dead}
    if len(shape) < 2 or size == 0 or sized == 0:
        why = "zeros before" if size == 0 else "zeros after" if sized == 0 else ""
        return Layer(state="moved", why=why, **more)
    key = Key("inspect") / name
    least = min(w.shape)
    top = leading_singular(w, min(TOP, least), key)
    led = leading_singular(d, min(RANK, least), key)
    floor = max(rounding_floor(v, kind), FLOAT32 * float(led.values[0]))
    rank = int((led.values > floor).sum())
    return Layer(
        state="moved" if rank else "rounding",
        why="" if rank else f"no more than rounding to {kind} leaves",
        spectral=float(led.values[0] / top.values[0]),
        rank=rank,
        more=rank == len(led.values) and not led.whole,
        within=(share_within(d, top.right), share_within(d.T, top.left)),
        chance=(len(top.values) / d.shape[1], len(top.values) / d.shape[0]),
        before=_spectrum(w, top.values),
        after=_spectrum(v, leading_singular(v, min(TOP, least), key).values),
        moved=_spectrum(d, led.values),
        **more,
    )


def alone(name: str, value: Tensor, kind: str) -> Layer:
    """A layer of one checkpoint: its spectrum and its dead neurons."""
    shape, entries = tuple(value.shape), value.numel()
    common = {"name": name, "shape": shape, "kind": kind, "entries": entries}
    if entries and (bad := int((~torch.isfinite(value)).sum())):
        return Layer(state="not finite", why=f"{bad} of {entries} entries are nan or infinite", **common)
    if len(shape) < 2 or entries == 0:
        return Layer(state="not compared", why="nothing to compare with", **common)
    v = flat(value)
    dead = int((v == 0).all(1).sum())
    spectrum = None
    if dead < len(v):
        key = Key("inspect") / name
        spectrum = _spectrum(v, leading_singular(v, min(TOP, *v.shape), key).values)
    return Layer(state="not compared", why="nothing to compare with", dead=(dead, dead), after=spectrum, **common)


def neuron_clusters(name: str, before: Tensor | None, after: Tensor) -> Clustering | None:
    """Spherical k-means of neurons' incoming weights for k from 2 to 6; None for fewer than 8 neurons with weights.

    The rival of clusters after training is the same measure of the weights before it, which is beside.
    """
    v = flat(after)
    live = torch.nonzero((v != 0).any(1)).flatten()
    if before is not None:
        live = live[(flat(before)[live] != 0).any(1)]
    if len(live) < 8:
        return None
    key = Key("inspect/clusters") / name
    if len(live) > ROWS:
        live = live[torch.randperm(len(live), generator=key.torch())[:ROWS]].sort().values
    found: dict[int, tuple[float, Tensor]] = {}
    points = _narrow(v[live], key)
    for k in range(2, MOST_CLUSTERS + 1):
        labels = spherical_kmeans(points, k, key / k, restarts=3).labels
        if 2 <= len(labels.unique()) < len(points):
            found[k] = (cosine_silhouette(points, labels), labels)
    if not found:
        return None
    k = max(found, key=lambda k: found[k][0])
    was = None
    if before is not None:
        start = _narrow(flat(before)[live], key)
        labels = spherical_kmeans(start, k, key / k, restarts=3).labels
        was = cosine_silhouette(start, labels) if 2 <= len(labels.unique()) < len(start) else None
    value, labels = found[k]
    return Clustering(
        k=k, after=value, before=was, neurons=len(live), labels=tuple(labels.tolist()), rows=tuple(live.tolist())
    )


def _narrow(rows: Tensor, key: Key) -> Tensor:
    """Many columns projected at random onto fewer: cosines keep their values to about 1 / sqrt(1024)."""
    if rows.shape[1] <= 2 * COLUMNS:
        return rows
    return rows @ torch.randn(rows.shape[1], COLUMNS, generator=(key / "projection").torch()).to(rows)


def _norm(value: Tensor) -> float:
    return float(torch.linalg.vector_norm(value, dtype=torch.float64))


def _spectrum(matrix: Tensor, values: Tensor) -> Spectrum:
    norm = _norm(matrix)
    return Spectrum(
        values=tuple(values.tolist()),
        norm=norm,
        stable=(norm / float(values[0])) ** 2,
        effective=effective_rank(matrix),
    )
