"""`featlearn gemfilter score`, `longbench` and `bench`: what filtering costs and what it saves."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from featlearn.cli import DONE, CommandError, console, print_json, warn
from featlearn.cli_gemfilter import (
    ModelOptions,
    bar,
    check_keep,
    check_new_tokens,
    context_of,
    expect,
    filter_layer,
    load,
    names_in,
    options_of,
    size,
    whole_numbers,
)

# --- score -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoreOptions(ModelOptions):
    file: str = ""
    """JSONL of yours: {"context", "question", "answer"} or "answers", a list."""
    methods: str = "full,gemfilter,gemfilter_raw,snapkv,h2o,streaming"
    """Separated by commas; the full model is always there."""
    keep: int | float = 1024
    """Tokens to keep, or a share such as 0.05."""
    layer: int | Literal["auto"] = "auto"
    """Filter layer from 0; auto: the calibrated or the known one."""
    max_new_tokens: int = 32
    """Length of a reply."""
    chat: bool = True
    """Use the model's chat template."""


def score_command(args: Sequence[str]) -> int:
    """Measure what filtering costs on your questions."""
    about = "What filtering costs on your own questions: right answers and likelihood against the full model."
    options = options_of(ScoreOptions, args, "score", about)
    from featlearn.tools.gemfilter import compare
    from featlearn.tools.gemfilter import score as tool

    check_keep(options.keep)
    check_new_tokens(options.max_new_tokens)
    if not options.file:
        raise CommandError("file is missing: --file my_questions.jsonl, with a context, question and answer a line")
    items = tool.questions_of(options.file)
    methods = compare.method_names(names_in(options.methods))
    model, tokenizer = load(options)
    readings = tool.prompts(tokenizer, items, chat=options.chat, longest=context_of(model))
    out = console(err=options.json)
    more = f"; {len(items)} questions x {len(methods)} methods"
    _announce(out, model, options, readings, options.max_new_tokens, methods, more, tool.expected)
    with bar("questions") as progress:
        found = tool.score(
            model,
            tokenizer,
            items,
            methods=methods,
            keep=options.keep,
            layer=options.layer,
            chat=options.chat,
            max_new_tokens=options.max_new_tokens,
            progress=progress,
        )
    if options.json:
        print_json({"model": options.model, "file": options.file, "keep": options.keep, **tool.document(found)})
        return DONE
    from rich.table import Table

    title = f"{len(items)} questions; paired differences, 95 % intervals"
    head = ("method", "right", "minus full", "log-likelihood", "minus full", "s", "kept")
    table = Table(*head, title=title, title_justify="left")
    for c in found.costs:
        table.add_row(c.method, f"{c.accuracy:.1%}", _difference(c.accuracy_difference, 100), f"{c.likelihood:.3f}",
                      _difference(c.likelihood_difference), f"{c.seconds:.2f}", f"{c.kept:.0f}")  # fmt: skip
    out.print(table)
    return DONE


def _announce(
    out: Any, model: Any, options: Any, readings: Any, new: Any, methods: Any, more: str, expected: Any
) -> None:
    """Check the layer, time a probe, say what to expect."""
    from featlearn.methods.gemfilter.layouts import layout_of
    from featlearn.tools.gemfilter import compare
    from featlearn.tools.gemfilter.speed import speed_of

    layout_of(model)
    compare.check_budget(methods, readings, options.keep)
    layer = 0
    if compare.LAYERED & set(methods):
        layer = filter_layer(model, options.layer, max(r.input_ids.shape[1] for r in readings))
    speed = speed_of(model)
    expect(out, speed, expected(speed, readings, new, methods, options.keep, layer), more)


def _difference(d: Any, scale: int = 1) -> str:
    if d is None:
        return ""
    digits = 1 if scale > 1 else 3
    value, low, high = (f"{scale * x:+.{digits}f}" for x in (d.value, d.low, d.high))
    return f"{value} [{low}, {high}]"


# --- longbench -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LongbenchOptions(ModelOptions):
    data: str = ""
    """LongBench JSONL, or a folder of them."""
    mini: bool = False
    """In place of --data: a generated set with the same kinds of task."""
    tasks: str = ""
    """Only these data sets, separated by commas."""
    methods: str = "full,gemfilter"
    """Separated by commas; the full model is always there."""
    keep: int | float = 1024
    """Tokens to keep, or a share such as 0.05."""
    layer: int | Literal["auto"] = "auto"
    """Filter layer from 0; auto: the calibrated or the known one."""
    chat: bool = True
    """Use the model's chat template (never for few-shot and code data sets)."""
    count: int = 4
    """Of --mini: items of each kind."""
    length: int = 1024
    """Of --mini: tokens of a prompt."""
    haystack: str = "sotu"
    """Of --mini: sotu, or a folder of .txt files."""


def longbench_command(args: Sequence[str]) -> int:
    """Score LongBench-format data."""
    about = "LongBench-format files of yours, or a generated mini set, by the official metrics."
    options = options_of(LongbenchOptions, args, "longbench", about)
    from featlearn.tools.gemfilter import compare
    from featlearn.tools.gemfilter import longbench as tool

    check_keep(options.keep)
    if bool(options.data) == options.mini:
        raise CommandError("data = one of --data FILE_OR_FOLDER and --mini is needed, not both")
    if options.mini and options.tasks:
        raise CommandError(f"tasks = {options.tasks} is not allowed: --mini has tasks of its own; leave --tasks out")
    items = () if options.mini else tool.items_of(options.data, names_in(options.tasks))
    methods = compare.method_names(names_in(options.methods))
    essays: Any = ()
    if options.mini:
        from featlearn.data.texts import essays as read_essays
        from featlearn.data.texts import split

        tool.check_mini(options.count, options.length)
        _, essays = split(read_essays(options.haystack))  # the first half is for choosing settings
    model, tokenizer = load(options)
    if options.mini:
        items = tool.mini(essays, tokenizer, count=options.count, length=options.length)
    context = context_of(model)
    readings = tool.prompts(tokenizer, items, context=context, chat=options.chat)
    out = console(err=options.json)
    new = [item.max_new_tokens for item in items]
    more = f"; {len(items)} prompts x {len(methods)} methods"
    _announce(out, model, options, readings, new, methods, more, compare.expected)
    cut = sum(r.cut > 0 for r in readings)
    if cut:
        warn(f"{cut} of {len(items)} prompts are longer than the context of {context}: their middle is left out")
    with bar("replies") as progress:
        found = tool.longbench(
            model,
            tokenizer,
            items,
            methods=methods,
            keep=options.keep,
            layer=options.layer,
            chat=options.chat,
            progress=progress,
        )
    if options.json:
        print_json({"model": options.model, "data": options.data or "mini", "keep": options.keep,
                    "chat": options.chat, **tool.document(found)})  # fmt: skip
        return DONE
    out.print(_longbench_table(found, methods))
    out.print(tool.OWN_WORDS, soft_wrap=True)
    return DONE


def _with_error(score: float, error: float | None) -> str:
    return f"{score:.1f}" if error is None else f"{score:.1f} ± {error:.1f}"


def _longbench_table(found: Any, methods: Sequence[str]) -> Any:
    from rich.table import Table

    table = Table("data set", "items", title="scores (± standard error)", title_justify="left")
    for name in methods:
        table.add_column(name, justify="right")
    cells = {(r.dataset, r.method): r for r in found.rows}
    for dataset in dict.fromkeys(r.dataset for r in found.rows):
        own = [cells[dataset, name] for name in methods]
        table.add_row(dataset, str(own[0].items), *(_with_error(r.score, r.error) for r in own))
    table.add_section()
    table.add_row("average", "", *(_with_error(*found.averages[m]) for m in methods))
    return table


# --- bench -----------------------------------------------------------------------------------------------------------


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
    from featlearn.tools.gemfilter import bench as tool

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
    table = Table("tokens", "plain", "peak", "pass one", "peak", "of plain", "pass two", "peak", "plain / both",
                  title=f"layer {layer}, keep {options.keep}: pass one begins {one.share:.1%} of the layers",
                  title_justify="left")  # fmt: skip
    for t in found:
        passes = [[f"{c.seconds:.2f} s", size(c.peak_bytes)] for c in (t.plain, t.first, t.second)]
        table.add_row(str(t.tokens), *passes[0], *passes[1], f"{t.first_share:.1%}", *passes[2], f"{t.ratio:.2f}x")
    out.print(table)
    bound = "" if one.printed_bound is None else f"; m / r as printed: {one.printed_bound:.2f}x"
    out.print(f"leaving layers out brings at most {1 / one.share:.2f}x{bound}", soft_wrap=True)
    return DONE
