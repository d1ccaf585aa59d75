"""`featlearn gemfilter`: calibrate, generate, score, longbench and bench on a model of yours."""

from collections.abc import Callable, Sequence

from featlearn.cli._parse import later, subcommand

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


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    name: later(f"gemfilter.{name}") for name in ("calibrate", "generate", "score", "longbench", "bench")
}


def gemfilter_command(args: Sequence[str]) -> int:
    """Run one of the commands of `featlearn gemfilter`."""
    return subcommand("gemfilter", COMMANDS, args, ABOUT, USAGE)
