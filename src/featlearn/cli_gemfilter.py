"""`featlearn gemfilter`: calibrate, generate, score, longbench, bench, on a model of yours."""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro

from featlearn.cli import BAD, DONE, FAILED, CommandError, console, parse, print_json, subcommand, warn
from featlearn.cli_run import duration

T = TypeVar("T")

USAGE = "featlearn gemfilter calibrate|generate|score|longbench|bench MODEL ..."
ABOUT = """usage: featlearn gemfilter COMMAND MODEL ...

Long prompts: the first layers read all of it, their last queries pick the tokens on which the whole model runs.
MODEL is a name of `featlearn data list`, a Hugging Face hub id, a local folder or a .gguf file.

commands:
  calibrate  find the filter layer of a model and keep it for layer = auto
  generate   answer questions about a long text
  score      what filtering costs on your own questions, against the full model and other methods
  longbench  LongBench-format files of yours, or a generated mini set (--mini), by the official metrics
  bench      seconds and memory of each pass against the plain model

featlearn gemfilter COMMAND --help shows its flags.
"""


@dataclass(frozen=True)
class ModelOptions:
    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")] = ""
    """A name of `featlearn data list`, a hub id, a folder or a .gguf file."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """auto: float32 on a CPU, bfloat16 on a GPU."""
    device: str = "auto"
    """auto: the GPU where there is one."""
    json: bool = False
    """One JSON document on stdout; everything else goes to stderr."""


# --- what the commands share -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """Errors that the caller can put right become one line."""
    from featlearn.core import SettingError
    from featlearn.data import DataError

    try:
        yield
    except SettingError as e:
        raise CommandError(" ".join(str(e).split())) from None
    except DataError as e:
        setting = re.match(r"\w+ = ", str(e)) is not None  # else a file or the network
        raise CommandError(" ".join(str(e).split()), BAD if setting else FAILED) from e
    except ModuleNotFoundError as e:
        if e.name in ("transformers", "gguf", "accelerate"):
            raise CommandError(f"{e.name} is needed for this: pip install 'featlearn[llm]'") from None
        raise


def options_of(kind: type[T], args: Sequence[str], name: str, about: str) -> T:
    """The flags of a command; it needs a model, or the shape of one."""
    options: Any = parse(kind, args, f"featlearn gemfilter {name}", about)
    if not options.model and not getattr(options, "shape", ""):
        raise CommandError(f"which model? featlearn gemfilter {name} MODEL ... (featlearn gemfilter {name} --help)")
    return options


def whole_numbers(text: str, name: str) -> tuple[int, ...]:
    """ "1024,2048" as numbers."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise CommandError(f"{name} = {text} is not allowed: token counts; separate several by commas, 1024,2048")
    return tuple(map(int, parts))


def names_in(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def check_keep(keep: int | float) -> None:
    from featlearn.methods.gemfilter.selecting import count_of

    count_of(keep, 1000)


def check_new_tokens(count: int) -> None:
    if count < 1:
        raise CommandError(f"max-new-tokens = {count} is not allowed: at least 1; 32 is enough for short answers")


def load(options: ModelOptions) -> tuple[Any, Any]:
    """The model and its tokenizer."""
    from featlearn.data.models import chosen_device, load_model

    device = chosen_device(options.device)
    dtype = options.dtype
    if dtype == "auto":
        dtype = "bfloat16" if device.startswith("cuda") else "float32"
    return load_model(options.model, dtype=dtype, device=device)


def context_of(model: Any) -> int | None:
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)


def filter_layer(model: Any, layer: int | str, length: int) -> int:
    """The layer that is meant, checked for prompts of this length before anything runs."""
    from featlearn.methods.gemfilter.layouts import check_layer, layout_of
    from featlearn.tools.gemfilter.answer import filter_of

    found, _ = filter_of(model, layer)
    if layer == "auto":
        from featlearn.methods.gemfilter import recommended

        console(err=True).print(f"layer {found}: {recommended(model).source}", markup=False, soft_wrap=True)
    return check_layer(layout_of(model), model, found, length)


def expect(out: Any, speed: Any, expected: tuple[float, float], more: str = "") -> None:
    seconds, peak = expected
    out.print(
        f"expected: about {duration(seconds)} and {size(peak)} of memory (estimated from {speed.probe} tokens,"
        f" {speed.seconds:.2f} s){more}",
        markup=False,
        soft_wrap=True,
    )


def size(count: float | int | None) -> str:
    """Bytes for people."""
    if count is None:
        return "–"
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


@contextlib.contextmanager
def bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar with the time left, on stderr."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(err=True), transient=True) as shown:
        task = shown.add_task(label, total=None)

        def progress(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total)

        yield progress


def _cost(cost: Any) -> dict[str, Any]:
    return dataclasses.asdict(cost)


# --- calibrate -------------------------------------------------------------------------------------------------------


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
    from featlearn.core import Key
    from featlearn.tools.gemfilter import calibrate as tool

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
        print_json({"model": options.model, "layer": made.layer, "scoring": made.scoring, "keep": options.keep,
                    "prompts": len(prompts), "lengths": list(made.lengths), "layers": made.rows(),
                    "saved": str(made.path) if made.path else None,
                    "picture": str(picture) if picture else None})  # fmt: skip
        return DONE
    out.print(_calibration_table(made, len(prompts)))
    mean, error, _ = made.mean(made.scoring, made.layer)
    out.print(f"layer {made.layer}, {made.scoring} scoring: the earliest whose recall, {mean:.2f} (± {error:.2f}),"
              " is not below the best by more than one standard error", soft_wrap=True)  # fmt: skip
    if made.path:
        out.print(f"layer = auto takes it from now on: {made.path}", soft_wrap=True, markup=False)
    if picture:
        out.print(f"picture: {picture}", soft_wrap=True, markup=False)
    return DONE


def _calibration_table(made: Any, count: int) -> Any:
    from rich.table import Table

    table = Table("layer", title=f"needle recall (± standard error) and median distance, {count} prompts",
                  title_justify="left")  # fmt: skip
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


# --- generate --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GenerateOptions(ModelOptions):
    prompt_file: str = ""
    """The long text, UTF-8."""
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
    lean: bool = False
    """Pass one in chunks, in the memory of one layer's keys and values: for very long prompts."""
    chat: bool = True
    """Use the model's chat template."""


def generate_command(args: Sequence[str]) -> int:
    """Answer questions about a long text."""
    options = options_of(GenerateOptions, args, "generate", "Answer questions about a long text.")
    from featlearn.tools.gemfilter import answer as tool
    from featlearn.tools.gemfilter.files import text_of
    from featlearn.tools.gemfilter.speed import speed_of

    check_keep(options.keep)
    check_new_tokens(options.max_new_tokens)
    if not options.prompt_file:
        raise CommandError("prompt-file is missing: --prompt-file long.txt names the text")
    text = text_of(options.prompt_file)
    if not options.question or not all(q.strip() for q in options.question):
        raise CommandError("question is missing or empty: --question \"...\" asks about the text")  # fmt: skip
    if options.measure_loss and not options.question_blind:
        raise CommandError(
            "measure-loss = True is not allowed: it compares --question-blind with the usual way; give both"
        )
    model, tokenizer = load(options)
    choose: dict[str, Any] = {}
    if options.lean:
        from featlearn.methods.gemfilter import lean_select

        choose["choose"] = lean_select
    readings = tool.prompts(tokenizer, text, options.question, options.chat)
    for reading in readings:
        tool.check_prompt(tool.layout_of(model), model, reading.input_ids, reading.mask())
    layer = filter_layer(model, options.layer, max(r.input_ids.shape[1] for r in readings))
    out = console(err=options.json)
    speed = speed_of(model)
    setting: dict[str, Any] = {"keep": options.keep, "max_new_tokens": options.max_new_tokens}
    blind: dict[str, Any] = {"blind": options.question_blind, "measure_loss": options.measure_loss}
    expect(out, speed, tool.expected(speed, readings, layer=layer, **setting, **blind, lean=options.lean))
    with bar("questions") as progress:
        replies = tool.answer(
            model,
            tokenizer,
            text,
            options.question,
            layer=options.layer,
            chat=options.chat,
            protect=options.protect,
            progress=progress,
            **setting,
            **blind,
            **choose,
        )
    for message in dict.fromkeys(w for reply in replies for w in reply.warnings):
        warn(message)
    if options.json:
        print_json({"model": options.model, "keep": options.keep, "question_blind": options.question_blind,
                    "replies": [_reply_json(r, options.show_kept) for r in replies]})  # fmt: skip
        return DONE
    for reply in replies:
        _print_reply(out, reply, options.show_kept)
    return DONE


def _reply_json(reply: Any, kept: bool) -> dict[str, Any]:
    data = dataclasses.asdict(reply)
    if not kept:
        del data["kept_text"]
    return {**data, "share": reply.kept / reply.tokens}


def _print_reply(out: Any, reply: Any, kept: bool) -> None:
    out.print(f"\n{reply.question}", style="bold", markup=False)
    out.print(reply.text.strip(), markup=False, soft_wrap=True)
    out.print(f"  {reply.tokens} -> {reply.kept} tokens ({reply.kept / reply.tokens:.1%}), {reply.protected} protected,"
              f" layer {reply.layer}", soft_wrap=True)  # fmt: skip
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


# --- dispatch --------------------------------------------------------------------------------------------------------


def _compare(name: str) -> Callable[[Sequence[str]], int]:
    def call(args: Sequence[str]) -> int:
        from featlearn import cli_gemfilter_compare

        return getattr(cli_gemfilter_compare, name)(args)

    return call


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "calibrate": calibrate_command,
    "generate": generate_command,
    "score": _compare("score_command"),
    "longbench": _compare("longbench_command"),
    "bench": _compare("bench_command"),
}


def gemfilter_command(args: Sequence[str]) -> int:
    """Run one of the commands of `featlearn gemfilter`."""
    return subcommand("gemfilter", COMMANDS, args, ABOUT, USAGE, _one_line)
