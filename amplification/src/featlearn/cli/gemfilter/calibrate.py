"""`featlearn gemfilter calibrate`: which layer of a model filters."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from featlearn.cli._show import bar, console, print_json, put
from featlearn.cli.gemfilter._shared import (
    ModelOptions,
    check_keep,
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
    """JSONL of yours: {"context", "question", "answer"}, where the answer's words stand in the context."""
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
    save: bool = True
    """Keep the result for layer = auto."""
    picture: str = ""
    """PNG to write; by default beside the saved result."""


def calibrate_command(args: Sequence[str]) -> int:
    """Find the filter layer of a model."""
    options = options_of(CalibrateOptions, args, "calibrate", "Find the filter layer of a model.")
    from featlearn.apply.gemfilter import calibrate as tool
    from featlearn.core import Key

    check_keep(options.keep)
    lengths = whole_numbers(options.lengths, "lengths")
    if not options.prompts:
        tool.check_hidden(lengths, options.count)
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
    expect(out, speed, tool.expected(speed, prompts), f"; {len(prompts)} prompts")
    with bar("prompts") as progress:
        made = tool.calibrate(model, prompts, keep=options.keep, save=options.save, about=about, progress=progress)
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
                "saved": str(made.path) if made.path else None,
                "picture": str(picture) if picture else None,
            }
        )
        return DONE
    put(out, _calibration_table(made, len(prompts)))
    mean, error, _ = made.mean(made.scoring, made.layer)
    out.print(
        f"layer {made.layer}, {made.scoring} scoring: the earliest whose recall, {mean:.2f} (± {error:.2f}),"
        " is not below the best by more than one standard error",
        soft_wrap=True,
    )
    if made.path:
        out.print(f"layer = auto takes it from now on: {made.path}", soft_wrap=True, markup=False)
    if picture:
        out.print(f"picture: {picture}", soft_wrap=True, markup=False)
    return DONE


def _calibration_table(made: Any, count: int) -> Any:
    from rich.table import Table

    table = Table(
        "layer", title=f"needle recall (± standard error) and median distance, {count} prompts", title_justify="left"
    )
    for name in made.curves:
        table.add_column(f"{name} recall", justify="right")
        table.add_column(f"{name} distance", justify="right")
    table.add_column("")
    for row in made.rows():
        cells = [str(row["layer"])]
        for name in made.curves:
            if row["window"] is not None:
                cells += ["–", "–"]
            else:
                cells += [f"{row[f'recall_{name}']:.2f} ± {row[f'error_{name}']:.2f}", f"{row[f'distance_{name}']:.0f}"]
        note = f"sees {row['window']} tokens only" if row["window"] is not None else ""
        table.add_row(*cells, f"<- {made.scoring}" if row["layer"] == made.layer else note)
    return table
