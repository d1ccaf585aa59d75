"""`featlearn gemfilter score`: what filtering costs on questions of yours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from featlearn.cli._show import bar, console, print_json, show_table, warn
from featlearn.cli.gemfilter._shared import (
    ModelOptions,
    check_inputs,
    check_keep,
    check_new_tokens,
    context_of,
    expect,
    filter_layer,
    load,
    names_in,
    options_of,
)
from featlearn.errors import DONE, CommandError


@dataclass(frozen=True)
class ScoreOptions(ModelOptions):
    file: str = ""
    """JSONL of yours: {"context", "question", "answer"} or "answers", a list; - reads the standard input."""
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
    replies: int = 5
    """Questions of which replies are shown, first those in which the methods differ."""
    store: str = "runs/gemfilter"
    """Folder in which finished questions are kept; a second run does only what is missing."""
    again: bool = False
    """Ask anew what is kept already."""


def score_command(args: Sequence[str]) -> int:
    """Measure what filtering costs on your questions."""
    about = "What filtering costs on your own questions: right answers and likelihood against the full model."
    options = options_of(ScoreOptions, args, "score", about)
    from featlearn.apply.gemfilter import compare
    from featlearn.apply.gemfilter import score as tool
    from featlearn.apply.gemfilter.partial import open_rows

    check_keep(options.keep)
    check_new_tokens(options.max_new_tokens)
    if options.replies < 0:
        raise CommandError(f"replies = {options.replies} is not allowed: 0 or more; 5 is the default")
    if not options.file:
        raise CommandError("file is missing: --file my_questions.jsonl, with a context, question and answer a line")
    check_inputs(file=options.file)
    items = tool.questions_of(options.file)
    methods = compare.method_names(names_in(options.methods))
    model, tokenizer = load(options)
    tokenized_prompts = tool.prompts(tokenizer, items, chat=options.chat, longest=context_of(model))
    out = console(err=options.json)
    more = f"; {len(items)} questions x {len(methods)} methods"
    _announce(out, model, options, tokenized_prompts, options.max_new_tokens, methods, more, tool.expected)
    setting = {"keep": options.keep, "chat": options.chat, "max_new_tokens": options.max_new_tokens}
    rows = open_rows(options.store, model, options.again, **setting, layer=_filter(model, options, methods))
    known = sum(set(methods) <= set(rows.done(i, p)) for i, p in zip(items, tokenized_prompts, strict=True))
    if known:
        out.print(f"{known} of {len(items)} questions are in {rows.path}", soft_wrap=True, markup=False)
    with bar("questions") as progress:
        found = tool.score(
            model,
            tokenizer,
            items,
            methods=methods,
            layer=options.layer,
            progress=progress,
            rows=rows,
            **setting,
        )
    for message in found.warnings:
        warn(message)
    if options.json:
        print_json({"model": options.model, "file": options.file, "keep": options.keep, **tool.document(found)})
        return DONE
    _show(out, found, options)
    return DONE


def _filter(model: Any, options: Any, methods: Any) -> Any:
    """What decides which tokens are kept, None where no method has a filter layer."""
    from featlearn.apply.gemfilter.answer import filter_of
    from featlearn.apply.gemfilter.compare import LAYERED

    return filter_of(model, options.layer) if LAYERED & set(methods) else None


def _show(out: Any, found: Any, options: Any) -> None:
    """The table, and replies side by side."""
    from featlearn.apply.gemfilter.score import differing

    n = found.costs[0].questions
    title = f"{n} questions longer than keep = {options.keep}" if found.filtered else f"{n} questions, nothing filtered"
    title += f", {found.units} unit{'s' * (found.units != 1)}; differences are paired; 95 % intervals over units"
    head = ("method", "right", "minus full", "log-likelihood", "minus full", "at the limit", "s", "kept")
    rows = [
        (
            c.method,
            _interval(c.accuracy, 100, "", "%"),
            _interval(c.accuracy_difference, 100, "+"),
            f"{c.likelihood:.3f}",
            _interval(c.likelihood_difference, 1, "+"),
            f"{c.cut}",
            f"{c.seconds:.2f}",
            f"{c.kept:.0f}",
        )
        for c in found.costs
    ]
    show_table(out, head, rows, title)
    for own in differing(found, options.replies):
        out.print(f"\n{own[0]['question']}", style="bold", markup=False, soft_wrap=True)
        for row in own:
            said = " ".join(row["reply"].split())
            told = f"{said[:WIDEST]}..." if len(said) > WIDEST else said
            mark = "right" if row["right"] else "wrong"
            out.print(f"  {row['method']}: {mark}{', at the limit' * row['cut']}: {told}", soft_wrap=True, markup=False)


WIDEST = 100


def _announce(
    out: Any, model: Any, options: Any, tokenized_prompts: Any, new: Any, methods: Any, more: str, expected: Any
) -> None:
    """Check the layer, time a probe, say what to expect."""
    from featlearn.apply.gemfilter import compare
    from featlearn.apply.gemfilter.speed import speed_of
    from featlearn.methods.gemfilter.layouts import layout_of

    layout_of(model)
    compare.check_budget(methods, tokenized_prompts, options.keep)
    layer = 0
    if compare.LAYERED & set(methods):
        layer = filter_layer(model, options.layer, max(r.input_ids.shape[1] for r in tokenized_prompts))
    speed = speed_of(model)
    expect(out, speed, expected(speed, tokenized_prompts, new, methods, options.keep, layer), more)


def _interval(d: Any, scale: int = 1, sign: str = "", unit: str = "") -> str:
    if d is None:
        return ""
    digits = 1 if scale > 1 else 3
    value = f"{scale * d.value:{sign}.{digits}f}{unit}"
    if d.low is None:
        return f"{value} [?]"
    return f"{value} [{scale * d.low:{sign}.{digits}f}, {scale * d.high:{sign}.{digits}f}]"
