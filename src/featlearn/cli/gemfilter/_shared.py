"""What the commands of `featlearn gemfilter` share: the model and its flags, checks, and what is expected."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import tyro

from featlearn.cli._parse import parse
from featlearn.cli._show import console, duration, size
from featlearn.errors import CommandError

T = TypeVar("T")


@dataclass(frozen=True)
class ModelOptions:
    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")] = ""
    """A name of `featlearn data list`, a hub id, a folder or a .gguf file."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """auto: float32 on a CPU, bfloat16 on a GPU."""
    device: str = "auto"
    """auto: the GPU where there is one."""
    device_map: str = ""
    """In place of --device: auto, balanced, ..., or a JSON object of modules and devices, as Transformers has it."""
    revision: str = ""
    """Branch, tag or commit of a hub id."""
    attn_implementation: str = ""
    """sdpa, eager, flash_attention_2, ...: how Transformers computes attention."""
    quantization: Literal["", "4bit", "8bit"] = ""
    """Weights in so many bits, by bitsandbytes."""
    json: bool = False
    """One JSON document on stdout; everything else goes to stderr."""


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


def check_inputs(**paths: str) -> None:
    """The standard input can be read once: refuse it in two places, and a terminal, which would wait without a word."""
    named = [name.replace("_", "-") for name, path in paths.items() if path == "-"]
    if len(named) > 1:
        raise CommandError(f"{named[1]} = - is not allowed beside {named[0]} = -: the standard input is read once")
    if named and sys.stdin is not None and sys.stdin.isatty():
        raise CommandError(f"{named[0]} = - is not allowed here: nothing is piped in; cat FILE | featlearn ...")


def check_keep(keep: int | float) -> None:
    from featlearn.methods.gemfilter.given import count_of

    count_of(keep, 1000)


def check_new_tokens(count: int) -> None:
    if count < 1:
        raise CommandError(f"max-new-tokens = {count} is not allowed: at least 1; 32 is enough for short answers")


def load(options: ModelOptions) -> tuple[Any, Any]:
    """The model and its tokenizer."""
    from featlearn.core.device import resolve
    from featlearn.data.loading import load_model

    device_map = _device_map(options)
    device = str(resolve(options.device))
    dtype = options.dtype
    if dtype == "auto":
        dtype = "bfloat16" if device.startswith("cuda") else "float32"
    more = {name: getattr(options, name) or None for name in ("revision", "attn_implementation", "quantization")}
    where = {"device": device} if device_map is None else {"device_map": device_map}
    return load_model(options.model, dtype=dtype, **where, **more)


def _device_map(options: ModelOptions) -> Any:
    """A name as it is, a JSON object read, None where there is none."""
    if not options.device_map:
        return None
    if options.device != "auto":
        raise CommandError(f"device = {options.device} is not allowed beside --device-map: leave one of them out")
    if not options.device_map.startswith("{"):
        return options.device_map
    try:
        return json.loads(options.device_map)
    except ValueError as e:
        what = f"device-map = {options.device_map[:40]} is not allowed"
        raise CommandError(f"{what}: a name, or a JSON object of modules and devices ({e})") from None


def context_of(model: Any) -> int | None:
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)


def filter_layer(model: Any, layer: int | str, length: int) -> int:
    """The layer that is meant, checked for prompts of this length before anything runs."""
    from featlearn.apply.gemfilter.answer import filter_of
    from featlearn.methods.gemfilter.layouts import check_layer, layout_of

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
