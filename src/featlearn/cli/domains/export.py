"""`featlearn domains export`: a model for other programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from featlearn.cli._parse import parse
from featlearn.cli._show import console, print_json, warn
from featlearn.errors import DONE, CommandError

FORMS = (".onnx", ".safetensors")


@dataclass(frozen=True)
class ExportOptions:
    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")] = ""
    """File that `featlearn domains fit` wrote."""
    out: tuple[str, ...] = ()
    """Files to write, by their endings: .onnx (images in [0, 1] to logits and probabilities), .safetensors."""
    replace: bool = False
    """Write over files that are there."""
    backbone: str = ""
    """MODULE:NAME of a model whose backbone is a module of yours: it is run."""
    json: bool = False
    """One JSON document on stdout."""


def export_command(args: Sequence[str]) -> int:
    """A model for other programs."""
    about = "A model as ONNX or safetensors, checked against the model itself before it counts."
    options = parse(ExportOptions, args, "featlearn domains export", about)
    if not options.model or not options.out:
        raise CommandError("which model, into which file? featlearn domains export model.pt --out model.onnx")
    for name in options.out:
        if Path(name).suffix.lower() not in FORMS:
            raise CommandError(f"out = {name} is not allowed: a name that ends in {', '.join(FORMS)}; choose one")
    from featlearn.apply.domains import export, models
    from featlearn.apply.files import check_target

    targets = [check_target(name, options.replace, (options.model,)) for name in options.out]
    model = models.load(options.model, options.backbone)
    for line in model.remarks:
        warn(line)
    write = {".onnx": export.to_onnx, ".safetensors": export.to_safetensors}
    off = {str(path): write[path.suffix.lower()](model, path) for path in targets}
    if options.json:
        print_json({"model": options.model, "files": [{"path": p, "off": v} for p, v in off.items()]})
        return DONE
    out = console()
    for path, value in off.items():
        said = f"{path}: logits of the model to {value:.1g}" if value else f"{path}: logits of the model, bit for bit"
        out.print(said, markup=False, emoji=False, soft_wrap=True)
    return DONE
