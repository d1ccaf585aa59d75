"""`featlearn gemfilter generate`: answers from the kept tokens of a long prompt."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tyro

from featlearn.cli._show import bar, console, print_json, size, warn
from featlearn.cli.gemfilter._shared import (
    ModelOptions,
    check_inputs,
    check_keep,
    check_new_tokens,
    expect,
    filter_layer,
    load,
    options_of,
)
from featlearn.errors import DONE, CommandError


def _cost(cost: Any) -> dict[str, Any]:
    return dataclasses.asdict(cost)


@dataclass(frozen=True)
class GenerateOptions(ModelOptions):
    prompt_file: str = ""
    """The long text, UTF-8; - reads the standard input."""
    question: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """What to ask about it; give it several times to ask several questions."""
    keep: int | float = 1024
    """Tokens to keep, or a share such as 0.05."""
    layer: int | Literal["auto"] = "auto"
    """Filter layer from 0; auto: the calibrated or the known one."""
    max_new_tokens: int = 64
    """Length of a reply."""
    question_blind: bool = False
    """Select once without a question, for all questions."""
    measure_loss: bool = False
    """With --question-blind: answer both ways and compare."""
    show_kept: bool = False
    """Print the tokens that were kept."""
    protect: bool = True
    """Keep the start token and the question whatever their score."""
    read_once: bool = True
    """Pass one reads the text once for several questions, in the memory of the filter's layers of the cache."""
    chunked_prefill: bool = False
    """Pass one in chunks, in the memory of one layer's keys and values: for very long prompts."""
    chat: bool = True
    """Use the model's chat template."""
    system: str = ""
    """System prompt of the template."""
    turns: str = ""
    """JSONL of earlier turns: {"role": "user" or "assistant", "content": ...}."""
    template: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Arguments of the template, name=value, such as enable_thinking=false; give it several times for several."""
    stream: bool = False
    """Print replies as they come."""


def generate_command(args: Sequence[str]) -> int:
    """Answer questions about a long text."""
    options = options_of(GenerateOptions, args, "generate", "Answer questions about a long text.")
    from featlearn.apply.gemfilter import answer as tool
    from featlearn.apply.gemfilter.files import text_of
    from featlearn.apply.gemfilter.speed import speed_of

    check_keep(options.keep)
    check_new_tokens(options.max_new_tokens)
    if not options.prompt_file:
        raise CommandError("prompt-file is missing: --prompt-file long.txt names the text")
    check_inputs(prompt_file=options.prompt_file, turns=options.turns)
    text = text_of(options.prompt_file)
    if not options.question or not all(q.strip() for q in options.question):
        raise CommandError('question is missing or empty: --question "..." asks about the text')
    if options.measure_loss and not options.question_blind:
        raise CommandError(
            "measure-loss = True is not allowed: it compares --question-blind with the usual way; give both"
        )
    if options.stream and options.json:
        raise CommandError("stream = True is not allowed: --json prints one document at the end; leave one of them out")
    chat = _chat(options)
    model, tokenizer = load(options)
    choose: dict[str, Any] = {}
    if options.chunked_prefill:
        from featlearn.methods.gemfilter import select_chunked

        choose["choose"] = select_chunked
    tokenized_prompts = tool.prompts(tokenizer, text, options.question, chat)
    for tokenized in tokenized_prompts:
        tool.check_prompt(tool.layout_of(model), model, tokenized.input_ids, tokenized.mask())
    layer = filter_layer(model, options.layer, max(r.input_ids.shape[1] for r in tokenized_prompts))
    out = console(err=options.json)
    speed = speed_of(model)
    setting: dict[str, Any] = {"keep": options.keep, "max_new_tokens": options.max_new_tokens}
    blind: dict[str, Any] = {"blind": options.question_blind, "measure_loss": options.measure_loss}
    once = options.read_once and not options.question_blind and not options.chunked_prefill
    how = {
        "chunked_prefill": options.chunked_prefill,
        "shared": once and tool.shares(model, tokenized_prompts, options.keep),
    }
    expect(out, speed, tool.expected(speed, tokenized_prompts, layer=layer, **setting, **blind, **how))
    with bar("questions") as progress:
        replies = tool.answer(
            model,
            tokenizer,
            text,
            options.question,
            layer=options.layer,
            chat=chat,
            protect=options.protect,
            read_once=options.read_once,
            streamer=tool.printer(tokenizer) if options.stream else None,
            progress=progress,
            **setting,
            **blind,
            **choose,
        )
    for message in dict.fromkeys(w for reply in replies for w in reply.warnings):
        warn(message)
    if options.json:
        print_json(
            {
                "model": options.model,
                "keep": options.keep,
                "question_blind": options.question_blind,
                "replies": [_reply_json(r, options.show_kept) for r in replies],
            }
        )
        return DONE
    for reply in replies:
        _print_reply(out, reply, options.show_kept)
    return DONE


def _chat(options: GenerateOptions) -> Any:
    """What the flags say of the template: False, or a Chat."""
    from featlearn.apply.gemfilter.files import lines_of
    from featlearn.tasks.chat import Chat

    given = [n for n in ("system", "turns", "template") if getattr(options, n)]
    if not options.chat:
        if given:
            raise CommandError(f"{given[0]} is not allowed with --no-chat: there is no template to put it in")
        return False
    template = {}
    for pair in options.template:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise CommandError(f"template = {pair} is not allowed: name=value, such as enable_thinking=false")
        try:
            template[name] = json.loads(value)
        except ValueError:
            template[name] = value
    turns = tuple(data for _, data in lines_of(options.turns, "turns")) if options.turns else ()
    return Chat(template, options.system, turns)


def _reply_json(reply: Any, kept: bool) -> dict[str, Any]:
    data = dataclasses.asdict(reply)
    if not kept:
        del data["kept_text"]
    return {**data, "share": reply.kept / reply.tokens}


def _print_reply(out: Any, reply: Any, kept: bool) -> None:
    out.print(f"\n{reply.question}", style="bold", markup=False)
    out.print(reply.text.strip(), markup=False, soft_wrap=True)
    out.print(
        f"  {reply.tokens} -> {reply.kept} tokens ({reply.kept / reply.tokens:.1%}), {reply.protected} protected,"
        f" layer {reply.layer}",
        soft_wrap=True,
    )
    passes = (("pass one", reply.first), ("pass two", reply.second))
    told = [f"{name} {c.seconds:.2f} s, peak {size(c.peak_bytes)}" for name, c in passes if c.tokens]
    out.print("  " + "; ".join(told), soft_wrap=True)
    if reply.loss:
        loss = reply.loss
        out.print(f"  with the question known: {loss.aware.strip()}", markup=False, soft_wrap=True)
        out.print(
            f"  log-likelihood of that reply per token: {loss.likelihood_aware:.3f} on its own tokens,"
            f" {loss.likelihood_blind:.3f} on the question-blind ones; words in common (F1) {loss.agreement:.2f}",
            soft_wrap=True,
        )
    if kept:
        out.print(reply.kept_text, style="dim", markup=False, soft_wrap=True)
