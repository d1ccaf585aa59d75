"""What was seen while a network trained: records of plain numbers, and their table."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

LAZY, RICH = 0.01, 0.2
"""Distance to the linearisation, over how far outputs moved, below which a run is read as lazy, above which as rich."""

Regime = Literal["lazy", "rich", "undecided", "unread"]


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of the network at one step, against the start. None: it cannot be had, and a remark says why.

    kernel_drift: 1 - cosine of the tangent kernels of its weights. alignment: centred, of that kernel with the labels.
    movement: ||H' - H|| / ||H|| of what it gives on the probe. cka: unbiased linear CKA of H and H', and cka_previous:
    of H' and what it gave at the snapshot before.
    change: ||W' - W|| / ||W|| of all its weights. spectral: the largest of its matrices in spectral norms.
    """

    name: str
    kernel_drift: float | None = None
    alignment: float | None = None
    movement: float | None = None
    cka: float | None = None
    cka_previous: float | None = None
    change: float | None = None
    spectral: float | None = None


@dataclass(frozen=True, kw_only=True)
class Ansatz:
    """A linear layer: cosine of W'W and of the average-gradient outer product of the outputs in its inputs.

    chance: the same cosine, on average, of two matrices of these spectra whose directions have nothing in common.
    """

    name: str
    cosine: float
    chance: float


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The network at one step, against the start.

    at: seconds since the start, and seconds: of these, what this snapshot took. moved: ||f' - f|| / ||f|| of the
    outputs on the probe, None where f is nothing beside f'. apart: ||f' - f_lin|| / ||f' - f||, with f_lin the
    linearisation at the start in the present weights. kernel_drift, alignment: of the whole tangent kernel.
    """

    step: int
    at: float
    seconds: float
    moved: float | None
    apart: float | None
    kernel_drift: float | None
    alignment: float | None
    blocks: tuple[Block, ...]
    layers: tuple[Ansatz, ...]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Cosines of the mean gradients of steps 1 to 10, 11 to 20 and 21 to 30.

    cosines and chance: of the pairs (1, 2), (1, 3), (2, 3) of whole windows; chance is the root mean square of the
    cosine if each coordinate had a sign of its own. seen: steps with gradients; coordinates: of how many there are.
    """

    cosines: tuple[float, ...]
    chance: tuple[float, ...]
    seen: int
    coordinates: int
    of: int
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class RegimeReading:
    """Lazy or rich, by outputs against those of the linearisation along the path, at the last step that tells."""

    regime: Regime
    apart: float | None
    step: int | None
    why: str


def reading_of(snapshots: Sequence[Snapshot]) -> RegimeReading:
    """The reading of the last snapshot that has a distance to the linearisation."""
    told = [s for s in snapshots[1:] if s.apart is not None]
    if not told:
        why = "no snapshot in which outputs had moved enough, and second derivatives could be had"
        return RegimeReading(regime="unread", apart=None, step=None, why=why)
    last = told[-1]
    value = last.apart or 0.0
    regime: Regime = "lazy" if value < LAZY else "rich" if value > RICH else "undecided"
    said = {
        "lazy": f"outputs left the linearisation by less than {LAZY:.0%} of how far they moved",
        "rich": f"outputs left the linearisation by more than {RICH:.0%} of how far they moved",
        "undecided": f"outputs left the linearisation by {LAZY:.0%} to {RICH:.0%} of how far they moved",
    }[regime]
    why = f"{said}: the linearisation along this path, not a linearised network that was trained"
    return RegimeReading(regime=regime, apart=value, step=last.step, why=why)


@dataclass(frozen=True, kw_only=True)
class Watched:
    """All snapshots of one run. seconds: what watching took; share: of the time of the rest. skipped: due, not taken.

    probe: inputs that were looked at. steps: of the run. remarks: what could not be had, once each.
    """

    snapshots: tuple[Snapshot, ...]
    reading: RegimeReading
    agreement: Agreement
    steps: int
    skipped: tuple[int, ...]
    seconds: float
    share: float
    probe: int
    remarks: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        heads = ("step", "outputs moved", "off linear", "kernel drift", "alignment")
        rows = [[str(s.step), *map(_of, (s.moved, s.apart, s.kernel_drift, s.alignment))] for s in self.snapshots]
        out = [*aligned(heads, rows)]
        if self.snapshots:
            last = self.snapshots[-1]
            heads = (
                f"block at step {last.step}",
                "kernel drift",
                "alignment",
                "features moved",
                "CKA",
                "weights moved",
            )
            rows = [
                [b.name, *map(_of, (b.kernel_drift, b.alignment, b.movement, b.cka, b.change))] for b in last.blocks
            ]
            out += ["", *aligned(heads, rows)]
        if self.snapshots and self.snapshots[-1].layers:
            start = {one.name: one.cosine for one in self.snapshots[0].layers}
            layers = self.snapshots[-1].layers
            rows = [[a.name, _of(start.get(a.name)), _of(a.cosine), _of(a.chance)] for a in layers]
            out += ["", *aligned(("W'W against AGOP", "start", "end", "chance"), rows)]
        told = ", ".join(
            f"{c:.2f} ({k:.2f})" for c, k in zip(self.agreement.cosines, self.agreement.chance, strict=True)
        )
        out += ["", f"reading: {self.reading.regime}; {self.reading.why}"]
        out += [f"early gradients agree by {told} (chance)" if told else f"early gradients: {self.agreement.why}"]
        out += [f"{self.steps} steps; watching took {self.seconds:.3g} s, {self.share:.1%} of the time of the rest"]
        return "\n".join([*out, *(f"remark: {one}" for one in self.remarks)])


def _of(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table of text."""
    lines = [list(heads), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    return [
        "  ".join(w.ljust(n) if i == 0 else w.rjust(n) for i, (w, n) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    ]
