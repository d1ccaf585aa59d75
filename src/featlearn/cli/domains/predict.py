"""`featlearn domains predict`: classes of images by a model that fit kept."""

import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from featlearn.cli._parse import parse
from featlearn.cli._show import bar, warn
from featlearn.cli.domains._shared import SHOWN, Depth, scale_of
from featlearn.errors import DONE, FAILED, CommandError


@dataclass(frozen=True)
class PredictOptions:
    images: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="IMAGES")] = ()
    """Files, or folders with images."""
    model: str = ""
    """File that `featlearn domains fit` wrote."""
    out: str = ""
    """File for the table, JSON if it ends in .json; stdout if left out."""
    replace: bool = False
    """Write over a file that is there."""
    all: bool = False
    """A column for the probability of each class."""
    depth: Depth = "auto"
    """Bits of white in images of more than 8 bits; auto: as the model was fitted, or as wide as each file
    where it was fitted with 8 alone."""
    float_range: tuple[float, float] | None = None
    """Black and white of floating point images; as the model was fitted if left out."""
    device: str = "auto"
    """auto: the GPU where there is one."""
    backbone: str = ""
    """MODULE:NAME of a model whose backbone is a module of yours: it is run."""
    json: bool = False
    """JSON in place of CSV."""


def predict_command(args: Sequence[str]) -> int:
    """Classes of images."""
    options = parse(PredictOptions, args, "featlearn domains predict", "Classes of images, as CSV or JSON.")
    if not options.model:
        raise CommandError("model is missing: --model model.pt names the file that `featlearn domains fit` wrote")
    from featlearn.apply.domains import models
    from featlearn.apply.files import check_target, keep
    from featlearn.core.device import resolve
    from featlearn.lab.submit import cores

    device = resolve(options.device)
    paths, left_out = models.listed(options.images)
    form = Path(options.out).suffix.lower()
    if form in (".parquet", ".html", ".tex", ".xlsx"):
        raise CommandError(f"out = {options.out} is not allowed: a name that ends in .csv or .json; choose one")
    target = check_target(options.out, options.replace, (options.model, *paths)) if options.out else None
    model = models.load(options.model, options.backbone)
    for line in (*left_out, *model.remarks):
        warn(line)
    with bar("images") as progress:
        scale = scale_of(options, model.preprocessing.scale)
        found = models.predict(model, paths, device=device, threads=cores(), progress=progress, scale=scale)
    text = _json_of(found, model) if options.json or form == ".json" else _csv_of(found, model, options.all)
    if target is not None:
        keep(target, encoded(text, "utf-8"))
    else:
        _to_stdout(text)
    for line in models.told_of(found):
        warn(line)
    bad = [p for p in found if p.error]
    for p in bad[:SHOWN]:
        warn(p.error)
    if bad:
        warn(f"{len(bad)} of {len(found)} files are no images; the others have their class")
    return FAILED if bad else DONE


def encoded(text: str, encoding: str) -> bytes:
    """Names of files as the bytes that they are; what the encoding does not have as escapes."""
    try:
        return text.encode(encoding, "surrogateescape")
    except UnicodeEncodeError:
        return b"".join(_one_encoded(c, encoding) for c in text)


def _one_encoded(c: str, encoding: str) -> bytes:
    try:
        return c.encode(encoding, "surrogateescape")
    except UnicodeEncodeError:
        return c.encode(encoding, "backslashreplace")


def _to_stdout(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        raw = getattr(sys.stdout, "buffer", None)
        if raw is not None:
            sys.stdout.flush()
            raw.write(encoded(text, encoding))
            raw.flush()
            return
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    sys.stdout.write(text)


def _csv_of(found: Sequence[Any], model: Any, every: bool) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    heads = ("path", "label", "probability")
    named = [f"probability of {name}" if name in heads else name for name in model.labels]
    writer.writerow([*heads, *(named if every else ())])
    for p in found:
        more = [f"{v:.6f}" for v in p.probabilities] if every else []
        writer.writerow([p.path, p.label, "" if p.error else f"{p.probability:.6f}", *more])
    return buffer.getvalue()


def _json_of(found: Sequence[Any], model: Any) -> str:
    import json

    rows = [
        {
            "path": p.path,
            "label": p.label or None,
            "probability": p.probability if p.label else None,
            "probabilities": dict(zip(model.labels, p.probabilities, strict=False)),
            "error": p.error or None,
            "remarks": list(p.remarks),
        }
        for p in found
    ]
    return json.dumps(rows, indent=1, allow_nan=False) + "\n"
