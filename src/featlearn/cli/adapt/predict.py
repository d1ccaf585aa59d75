"""`featlearn adapt predict FILE --head FILE`: classes of embeddings by a head that was kept."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from featlearn.cli._parse import parse
from featlearn.cli.domains.predict import _to_stdout as to_stdout
from featlearn.cli.domains.predict import encoded
from featlearn.errors import DONE, CommandError


@dataclass(frozen=True)
class PredictOptions:
    embeddings: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="EMBEDDINGS")] = ""
    """A .npz or .npy file of (n, d), or of (n, views, d), of which the first view counts."""
    head: str = ""
    """File that `featlearn adapt` wrote."""
    out: str = ""
    """File for the table; stdout if left out."""
    replace: bool = False
    """Write over a file that is there."""
    all: bool = False
    """A column for the probability of each class."""
    json: bool = False
    """JSON in place of CSV."""


def predict_command(args: Sequence[str]) -> int:
    """Classes of embeddings."""
    options = parse(PredictOptions, args, "featlearn adapt predict", "Classes of embeddings, as CSV or JSON.")
    for name, value in (("embeddings", options.embeddings), ("head", options.head)):
        if not value:
            raise CommandError(f"{name} is missing: featlearn adapt predict embeddings.npz --head head.pt")
    from featlearn.apply.adapt import files, heads
    from featlearn.apply.files import check_target, keep

    read = (options.embeddings, options.head)
    target = check_target(options.out, options.replace, read) if options.out else None
    head = heads.load(options.head)
    found = files.read_embeddings(options.embeddings, len(head.mean))
    labels, probabilities = heads.predict(head, found)
    rows = probabilities.tolist()
    best = [max(row) for row in rows]
    if options.json:
        document = [
            {"row": i, "label": label, "probability": p, "probabilities": dict(zip(head.labels, row, strict=True))}
            for i, (label, p, row) in enumerate(zip(labels, best, rows, strict=True))
        ]
        text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    else:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(["row", "label", "probability", *(head.labels if options.all else ())])
        for i, (label, p, row) in enumerate(zip(labels, best, rows, strict=True)):
            writer.writerow([i, label, f"{p:.6f}", *([f"{v:.6f}" for v in row] if options.all else ())])
        text = buffer.getvalue()
    if target is not None:
        keep(target, encoded(text, "utf-8"))
    else:
        to_stdout(text)
    return DONE
