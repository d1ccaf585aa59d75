"""`featlearn domains show`: what a model was made from and how good it was."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from featlearn.cli._parse import parse
from featlearn.cli._show import console, print_json, show_table, warn
from featlearn.errors import DONE, CommandError


@dataclass(frozen=True)
class ShowOptions:
    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")] = ""
    """File that `featlearn domains fit` wrote."""
    backbone: str = ""
    """MODULE:NAME of a model whose backbone is a module of yours: it is run."""
    json: bool = False
    """One JSON document on stdout."""


def show_command(args: Sequence[str]) -> int:
    """What is known of a model."""
    about = "What a model was made from, with which settings, and how good it was on images that it had not seen."
    options = parse(ShowOptions, args, "featlearn domains show", about)
    if not options.model:
        raise CommandError("which model? featlearn domains show model.pt")
    from featlearn.apply.domains import models

    model = models.load(options.model, options.backbone)
    for line in model.remarks:
        warn(line)
    known = {
        **{"labels": list(model.labels), "channels": model.channels, "size": model.preprocessing.size},
        **dict(model.about),
    }
    if options.json:
        print_json({"model": options.model, **known})
        return DONE
    out = console()
    measures = known.pop("measures", {})
    for name, value in _flat(known):
        out.print(f"{name}: {value}", markup=False, emoji=False, soft_wrap=True)
    rows = []
    for part, m in measures.items():
        level = f"{100 * m['majority']['accuracy']:.1f}"
        rows += [(part, "all", *_numbers(m), level), *((part, d, *_numbers(x), "") for d, x in m["domains"].items())]
    if rows:
        heads = ("part", "domain", "images", "accuracy", "balanced", "worst class", "calibration error")
        show_table(out, (*heads, "commonest class"), rows, "in %, on images that were not trained on")
    return DONE


def _numbers(m: Mapping[str, Any]) -> list[str]:
    worst = m["worst_class"]
    shares = [f"{100 * m[n]:.1f}" for n in ("accuracy", "balanced")]
    return [str(m["images"]), *shares, f"{worst['class']}: {100 * worst['accuracy']:.1f}", f"{100 * m['ece']:.1f}"]


def _flat(known: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Names with dots, and values in one line each."""
    out: list[tuple[str, str]] = []
    for name, value in known.items():
        if isinstance(value, Mapping):
            out += _flat(value, f"{before}{name}.")
        elif value not in (None, "", [], ()):
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            out.append((before + name, f"{text:g}" if isinstance(text, float) else str(text)))
    return out
