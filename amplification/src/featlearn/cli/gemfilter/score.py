"""`featlearn gemfilter score`: what filtering costs on questions of yours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from featlearn.cli._show import bar, console, print_json, put
from featlearn.cli.gemfilter._shared import (
    ModelOptions,
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
    from featlearn.apply.gemfilter import compare
    from featlearn.apply.gemfilter import score as tool

    check_keep(options.keep)
    check_new_tokens(options.max_new_tokens)
    if not options.file:
        raise CommandError("file is missing: --file my_questions.jsonl, with a context, question and answer a line")
    items = tool.questions_of(options.file)
    methods = compare.method_names(names_in(options.methods))
    model, tokenizer = load(options)
    tokenized_prompts = tool.prompts(tokenizer, items, chat=options.chat, longest=context_of(model))
    out = console(err=options.json)
    more = f"; {len(items)} questions x {len(methods)} methods"
    _announce(out, model, options, tokenized_prompts, options.max_new_tokens, methods, more, tool.expected)
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
        table.add_row(
            c.method,
            f"{c.accuracy:.1%}",
            _difference(c.accuracy_difference, 100),
            f"{c.likelihood:.3f}",
            _difference(c.likelihood_difference),
            f"{c.seconds:.2f}",
            f"{c.kept:.0f}",
        )
    put(out, table)
    return DONE


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


def _difference(d: Any, scale: int = 1) -> str:
    if d is None:
        return ""
    digits = 1 if scale > 1 else 3
    value, low, high = (f"{scale * x:+.{digits}f}" for x in (d.value, d.low, d.high))
    return f"{value} [{low}, {high}]"
