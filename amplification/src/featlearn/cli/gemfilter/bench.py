"""`featlearn gemfilter bench`: seconds and memory of both passes beside the plain model."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from featlearn.cli._show import bar, console, print_json, put, size
from featlearn.cli.gemfilter._shared import (
    ModelOptions,
    check_keep,
    expect,
    filter_layer,
    load,
    options_of,
    whole_numbers,
)
from featlearn.errors import DONE, CommandError


@dataclass(frozen=True)
class BenchOptions(ModelOptions):
    shape: str = ""
    """In place of MODEL: random weights in this shape (llama-3.1-8b, smollm2-135m, tiny)."""
    lengths: str = "1024,2048,4096"
    """Tokens of the prompts."""
    keep: int | float = 256
    """Tokens to keep, or a share such as 0.05."""
    layer: int | Literal["auto"] = "auto"
    """Filter layer from 0; auto: the calibrated or the known one."""
    repeats: int = 3
    """Times that every length is measured, in turns; medians are shown."""


def bench_command(args: Sequence[str]) -> int:
    """Time both passes against the plain model."""
    about = "Seconds and memory of each pass against the plain model, on random prompts."
    options = options_of(BenchOptions, args, "bench", about)
    from featlearn.apply.gemfilter import bench as tool

    lengths = whole_numbers(options.lengths, "lengths")
    check_keep(options.keep)
    tool.check_lengths(lengths, options.keep, options.repeats)
    if options.model and options.shape:
        raise CommandError(
            f"shape = {options.shape} is not allowed: it stands in place of MODEL; leave one of both out"
        )
    if options.shape:
        tool.check_shape(options.shape)
        device = "cpu" if options.device == "auto" else options.device
        dtype = "float32" if options.dtype == "auto" else options.dtype
        model = tool.random_model(options.shape, dtype=dtype, device=device)
    else:
        model, _ = load(options)
    layer = filter_layer(model, options.layer, max(lengths))
    out = console(err=options.json)
    speed = tool.speed_of(model)
    expect(out, speed, tool.expected(speed, lengths, options.keep, layer, options.repeats))
    with bar("runs") as progress:
        found = tool.bench(model, lengths, keep=options.keep, layer=layer, repeats=options.repeats, progress=progress)
    if options.json:
        rows = [{**dataclasses.asdict(t), "ratio": t.ratio, "first_share": t.first_share} for t in found]
        print_json({"model": options.model or options.shape, "layer": layer, "keep": options.keep, "rows": rows})
        return DONE
    from rich.table import Table

    one = found[0]
    table = Table(
        "tokens",
        "plain",
        "peak",
        "pass one",
        "peak",
        "of plain",
        "pass two",
        "peak",
        "plain / both",
        title=f"layer {layer}, keep {options.keep}: pass one begins {one.share:.1%} of the layers",
        title_justify="left",
    )
    for t in found:
        passes = [[f"{c.seconds:.2f} s", size(c.peak_bytes)] for c in (t.plain, t.first, t.second)]
        table.add_row(str(t.tokens), *passes[0], *passes[1], f"{t.first_share:.1%}", *passes[2], f"{t.ratio:.2f}x")
    put(out, table)
    bound = "" if one.reported_bound is None else f"; m / r as reported: {one.reported_bound:.2f}x"
    out.print(f"leaving layers out brings at most {1 / one.share:.2f}x{bound}", soft_wrap=True)
    return DONE
