"""`featlearn domains score`: a model on labelled images."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from featlearn.cli._parse import parse
from featlearn.cli._show import bar, console, print_json, show_table, warn
from featlearn.cli.domains._shared import SHOWN, Depth, describe, remark, scale_of
from featlearn.errors import DONE, FAILED, CommandError

ENDINGS = (".csv", ".parquet", ".html")


@dataclass(frozen=True)
class ScoreOptions:
    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")] = ""
    """File that `featlearn domains fit` wrote."""
    data: str = ""
    """Labelled images: a folder of domain/class/image, a .csv file (path, label, domain), or a name."""
    out: tuple[str, ...] = ()
    """Files to write, by their endings: .csv, .parquet (a row an image), .html (a page)."""
    replace: bool = False
    """Write over files that are there."""
    skip_unreadable: bool = False
    """Leave out files that are no images, instead of refusing the data."""
    merge_case: bool = False
    """Labels that differ by case alone are one class."""
    per_domain: int | None = None
    """Images of each domain of the MNIST sets; all of them if left out."""
    depth: Depth = "auto"
    """Bits of white in images of more than 8 bits; auto: as the model was fitted, or by the range of the whole set
    where it was fitted with 8 alone."""
    float_range: tuple[float, float] | None = None
    """Black and white of floating point images; as the model was fitted if left out."""
    device: str = "auto"
    """auto: the GPU where there is one."""
    backbone: str = ""
    """MODULE:NAME of a model whose backbone is a module of yours: it is run."""
    json: bool = False
    """One JSON document on stdout; everything else goes to stderr."""


def score_command(args: Sequence[str]) -> int:
    """How good a model is on labelled images."""
    about = "A model on labelled images: accuracy of each domain and class, calibration, and what guessing reaches."
    options = parse(ScoreOptions, args, "featlearn domains score", about)
    if not options.model or not options.data:
        raise CommandError("which model, on which images? featlearn domains score model.pt --data FOLDER")
    from featlearn.apply.domains import models, scoring, sources
    from featlearn.core.device import resolve
    from featlearn.lab.submit import cores

    files = _targets(options)
    device = resolve(options.device)
    model = models.load(options.model, options.backbone)
    scale = scale_of(options, model.preprocessing.scale)
    source = sources.Source(
        options.data,
        model.preprocessing.size,
        False,
        options.per_domain,
        options.skip_unreadable,
        options.merge_case,
        depth=scale.bits,
        float_range=scale.floats,
        mean=model.preprocessing.mean,
        std=model.preprocessing.std,
    )
    found = sources.load(source, cores(), least=1, held=False)
    out = console(err=options.json)
    remark(found)
    describe(out, found)
    with bar("images") as progress:
        scored = scoring.score(
            model, found, device=device, threads=cores(), progress=progress, case=not options.merge_case
        )
    rows = scored.as_json(model.labels)
    if options.json:
        print_json({"model": options.model, "data": found.name, "domains": rows, "remarks": scored.remarks})
    else:
        _show(out, rows)
    _write(files, scored, model, found.name)
    for line in scored.remarks:
        warn(line)
    _tell_poor(rows)
    for line in scored.errors[:SHOWN]:
        warn(line)
    if scored.errors:
        n = len(scored.errors)
        warn(f"{n} files are no images and in no number" if n > 1 else "1 file is no image and in no number")
    return FAILED if scored.errors else DONE


def _targets(options: ScoreOptions) -> list[Path]:
    from featlearn.apply.files import check_target
    from featlearn.cli.domains._results import targets

    for name in options.out:
        if Path(name).suffix.lower() not in ENDINGS:
            raise CommandError(f"out = {name} is not allowed: a name that ends in {', '.join(ENDINGS)}; choose one")
    targets([n for n in options.out if n.endswith(".parquet")], True, ())
    return [check_target(name, options.replace, (options.model, options.data)) for name in options.out]


def _show(out: Any, rows: dict[str, Any]) -> None:
    table = []
    for name, m in rows.items():
        worst, level = m["worst_class"], m["commonest"]
        table.append(
            (
                name,
                str(m["images"]),
                f"{100 * m['accuracy']:.1f} [{100 * m['low']:.1f}, {100 * m['high']:.1f}]",
                f"{100 * m['balanced']:.1f}",
                f"{worst['class']}: {100 * worst['accuracy']:.1f}",
                f"{100 * m['ece']:.1f}",
                f"{level['class']}: {100 * level['accuracy']:.1f}",
            )
        )
    heads = ("domain", "images", "accuracy", "balanced", "worst class", "calibration error", "commonest class")
    show_table(out, heads, table, "in %; intervals of 95 %, exact, images counted as independent")


def _tell_poor(rows: dict[str, Any]) -> None:
    for name, m in rows.items():
        level = m["commonest"]
        if m["accuracy"] <= level["accuracy"]:
            warn(
                f"on {name} the model is no better than always answering {level['class']}: "
                f"{100 * m['accuracy']:.1f} against {100 * level['accuracy']:.1f} %"
            )


def _write(files: Sequence[Path], scored: Any, model: Any, data: str) -> None:
    from featlearn.apply.domains.page import score_page
    from featlearn.apply.files import keep
    from featlearn.cli.domains.predict import encoded
    from featlearn.report import export

    for path in files:
        if path.suffix.lower() == ".html":
            text = score_page(data, scored, model.labels, scored.remarks, model.about)
            keep(path, text.encode())
            continue
        rows = [dataclasses.asdict(s) for s in scored.images]
        if path.suffix.lower() == ".csv":
            keep(path, encoded(export.csv_text(rows), "utf-8"))
        else:
            plain = [r | {"path": r["path"].encode("utf-8", "backslashreplace").decode()} for r in rows]
            export.write(plain, path, "parquet", overwrite=True)
