"""`featlearn gemfilter longbench`: tasks in the format of LongBench."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from featlearn.cli._show import bar, console, print_json, put, warn
from featlearn.cli.gemfilter._shared import ModelOptions, check_keep, context_of, load, names_in, options_of
from featlearn.cli.gemfilter.score import _announce
from featlearn.errors import DONE, CommandError


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
    from featlearn.apply.gemfilter import compare
    from featlearn.apply.gemfilter import longbench as tool

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
    tokenized_prompts = tool.prompts(tokenizer, items, context=context, chat=options.chat)
    out = console(err=options.json)
    new = [item.max_new_tokens for item in items]
    more = f"; {len(items)} prompts x {len(methods)} methods"
    _announce(out, model, options, tokenized_prompts, new, methods, more, compare.expected)
    cut = sum(r.cut > 0 for r in tokenized_prompts)
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
        print_json(
            {
                "model": options.model,
                "data": options.data or "mini",
                "keep": options.keep,
                "chat": options.chat,
                **tool.document(found),
            }
        )
        return DONE
    put(out, _longbench_table(found, methods))
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
