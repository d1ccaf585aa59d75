"""`featlearn inspect BEFORE AFTER ...`: what moved between checkpoints, and whether that is lazy or rich."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from featlearn.cli._parse import check_count, parse
from featlearn.cli._show import bar, console, print_json, show_table, warn
from featlearn.errors import DONE, FAILED, CommandError

ABOUT = """How far and in which directions weights moved between checkpoints of one network: relative change, rank and
spectrum of the change, clusters of neurons, and whether the network is lazy or rich as far as weights can tell.
Weights are read one tensor at a time, and nothing that is pickled is run."""


@dataclass(frozen=True)
class InspectOptions:
    checkpoints: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="BEFORE AFTER [MORE ...]")] = ()
    """Files of safetensors or torch.save, or folders of a model; each later one is held against the first."""
    layers: tuple[str, ...] = ()
    """Names or patterns such as '*.mlp.*' to look at; all if left out."""
    head: str = ""
    """The matrix that reads out, which the reading leaves out; known by its name if left out."""
    top: int = 20
    """Rows of the table: the matrices that moved most; 0: every tensor."""
    page: str = ""
    """Write a page with pictures to this file."""
    replace: bool = False
    """Write over a page that is there."""
    threads: int = 0
    """Threads; 0: as torch chooses."""
    json: bool = False
    """One JSON document on stdout; everything else goes to stderr."""


def inspect_command(args: Sequence[str]) -> int:
    """Compare checkpoints; status 1 where some tensor is not finite."""
    options = parse(InspectOptions, args, "featlearn inspect", ABOUT)
    if not options.checkpoints:
        raise CommandError("checkpoints are missing: featlearn inspect before.safetensors after.safetensors")
    check_count("threads", options.threads, 0, "lets torch choose")
    check_count("top", options.top, 0, "shows every tensor")
    from contextlib import nullcontext

    from featlearn.apply.files import check_target, keep
    from featlearn.apply.inspect import public
    from featlearn.data.names import shown
    from featlearn.lab.provenance import fixed_threads

    before, *after = options.checkpoints
    target = check_target(options.page, options.replace, options.checkpoints, "page") if options.page else None
    with fixed_threads(options.threads) if options.threads else nullcontext(), bar("tensors") as progress:
        if after:
            chosen = {"layers": options.layers, "head": options.head}
            found = public.compare(before, *after, **chosen, progress=progress)
        else:
            found = public.describe(before, layers=options.layers, progress=progress)
    for remark in found.remarks:
        warn(remark)
    if target is not None:
        from featlearn.apply.inspect.page import page

        keep(target, page(found, before, after).encode(), "page")
    looked = [layer for pair in found.pairs for layer in pair.layers] or list(found.layers)
    status = FAILED if any(layer.state == "not finite" for layer in looked) else DONE
    if options.json:
        print_json(found.document())
        return status
    out = console()
    for pair in found.pairs:
        _show_pair(out, pair, options.top)
    if found.layers:
        _show_alone(out, found.layers, options.top)
        out.print("one checkpoint: what moved cannot be told; name a second one", soft_wrap=True)
    if target is not None:
        out.print(f"page: {shown(target)}", markup=False, emoji=False, soft_wrap=True)
    return status


def _show_pair(out: Any, pair: Any, top: int) -> None:
    """One later checkpoint against the first."""
    states = Counter(layer.state for layer in pair.layers)
    told = [f"{n} {state}" for state, n in states.items()]
    kinds = (("only before", pair.only_before), ("only after", pair.only_after))
    told += [f"{len(names)} {text}" for text, names in kinds if names]
    _line(out, f"{pair.after}: {', '.join(told)}")
    order = sorted(pair.layers, key=lambda layer: -(layer.spectral or layer.change or 0.0)) if top else pair.layers
    heads = ("layer", "shape", "change", "spectral", "rank", "stable rank", "clusters", "note")
    show_table(out, heads, [_row(layer) for layer in order[: top or None]])
    if top and len(order) > top:
        _line(out, f"{len(order) - top} more tensors moved less: --top 0 shows all")
    for layer in pair.layers:
        if layer.state in ("not finite", "not compared"):
            _line(out, f"{layer.name}: {layer.why}")
    reading = pair.reading
    where = f" ({reading.statistic:.3g} in {reading.layer})" if reading.statistic is not None else ""
    _line(out, f"reading: {reading.regime}{where}; {reading.why}; read-out left out: {reading.head or 'none'}")


def _row(layer: Any) -> tuple[str, ...]:
    b, a, c = layer.before, layer.after, layer.clusters
    rank = "" if layer.rank is None else f"above {layer.rank}" if layer.more else str(layer.rank)
    return (
        layer.name,
        "x".join(map(str, layer.shape)),
        _of(layer.change),
        _of(layer.spectral),
        rank,
        f"{b.stable:.3g} to {a.stable:.3g}" if b and a else "",
        f"{c.k}: {c.before:.2f} to {c.after:.2f}" if c and c.before is not None else "",
        layer.why or ("" if layer.state == "moved" else layer.state),
    )


def _show_alone(out: Any, layers: Sequence[Any], top: int) -> None:
    """The matrices of one checkpoint."""
    matrices = [layer for layer in layers if layer.after]
    rows = [
        (
            layer.name,
            "x".join(map(str, layer.shape)),
            _of(layer.after.norm),
            _of(layer.after.stable),
            _of(layer.after.effective),
            str(layer.dead[1]) if layer.dead else "",
        )
        for layer in matrices[: top or None]
    ]
    show_table(out, ("layer", "shape", "norm", "stable rank", "effective rank", "dead neurons"), rows)
    if top and len(matrices) > top:
        _line(out, f"{len(matrices) - top} more matrices: --top 0 shows all")
    for layer in layers:
        if layer.state == "not finite":
            _line(out, f"{layer.name}: {layer.why}")


def _of(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _line(out: Any, text: str) -> None:
    out.print(text, markup=False, emoji=False, soft_wrap=True)
