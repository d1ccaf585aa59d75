"""`featlearn adapt FILE --labels FILE`: linear probe, adapter and contrastive regularisation, with intervals."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from featlearn.cli._parse import check_count, parse
from featlearn.cli._show import bar, console, duration, print_json, show_table, warn
from featlearn.errors import DONE, CommandError

ABOUT = """Heads on embeddings of a model that stays as it is, from few labels: a linear probe (lp), an adapter that is
fine-tuned (ft), and one with contrastive regularisation (cr), judged on rows kept back. The best by validation is kept;
`featlearn adapt predict` uses it."""


@dataclass(frozen=True)
class AdaptOptions:
    embeddings: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="EMBEDDINGS")] = ""
    """A .npz or .npy file of (n, d), or of (n, views, d) with the plain view first."""
    labels: str = ""
    """One label a row: .npy, .npz, a .csv file with a column label, or text; empty where a row has none."""
    methods: tuple[Literal["lp", "ft", "cr"], ...] = ()
    """Which heads; all that the views allow if left out."""
    noise: float = 0.0
    """Make views of one embedding by Gaussian noise of this size; 1 is the size of a coordinate."""
    dropout: float = 0.0
    """Make views by setting this share of coordinates to 0."""
    epochs: int = 0
    """Passes over the training rows; 0: about 1500 steps, and five passes or more."""
    batch: int = 256
    """Rows a step."""
    rates: tuple[float, ...] = (0.2, 0.06)
    """Learning rates of ft, and of lp 20 times each; validation chooses."""
    weights: tuple[float, ...] = (0.1, 1.0)
    """Weights of the regulariser, as many as rates, each at the first rate; validation chooses."""
    temperature: float = 0.5
    """Of the contrastive loss."""
    hidden: int = 256
    """Units of the adapter."""
    test: float = 0.2
    """Share of the labels to judge on, class by class."""
    validation: float = 0.2
    """Share of the rest to choose settings on."""
    seeds: tuple[int, ...] = (0,)
    """Starts, orders and views; the rows stay the same."""
    threads: int = 0
    """Threads; 0: as torch chooses."""
    out: str = "head.pt"
    """File of the head."""
    replace: bool = False
    """Write over a file that is there."""
    json: bool = False
    """One JSON document on stdout; everything else goes to stderr."""


def fit_command(args: Sequence[str]) -> int:
    """Fit heads and keep the best."""
    options = parse(AdaptOptions, args, "featlearn adapt", ABOUT)
    for name, value in (("embeddings", options.embeddings), ("labels", options.labels)):
        if not value:
            raise CommandError(f"{name} is missing: featlearn adapt embeddings.npz --labels labels.csv")
    check_count("threads", options.threads, 0, "lets torch choose")
    from contextlib import nullcontext

    from featlearn.apply.adapt import files, heads
    from featlearn.apply.files import check_target
    from featlearn.data.names import shown
    from featlearn.lab.provenance import fixed_threads

    names = ("methods", "epochs", "batch", "rates", "weights", "temperature", "hidden", "noise", "dropout")
    names += ("test", "validation", "seeds")
    settings = heads.AdaptSettings(**{name: getattr(options, name) for name in names})
    target = check_target(options.out, options.replace, (options.embeddings, options.labels))
    found = files.read_embeddings(options.embeddings)
    labels = files.read_labels(options.labels, len(found.x))
    methods = heads.check_views(settings, found.x.shape[1])
    if not settings.methods and "cr" not in methods:
        warn("one view of each row: no contrastive regularisation; --noise 0.1 or --dropout 0.1 makes views")
    labelled = sum(bool(label) for label in labels)
    if labelled < len(labels):
        warn(f"{len(labels) - labelled} of {len(labels)} rows have no label and are left out")
    with fixed_threads(options.threads) if options.threads else nullcontext():
        expected = heads.seconds_expected(found, labelled, settings)
        if expected >= 10:
            warn(f"about {duration(expected)} for {len(settings.seeds)} seed(s)")
        start = time.monotonic()
        with bar("fits") as progress:
            result = heads.fit(found, labels, settings, progress=progress)
        seconds = time.monotonic() - start
    for method in result.diverged:
        warn(f"{heads.NAMES[method]} left the finite numbers at every setting and has no score: lower --rates")
    heads.save(result.head, target)
    trained, held, tested = result.rows
    if options.json:
        print_json(
            {
                "head": str(target),
                "method": result.head.method,
                "rows": {"trained": trained, "validation": held, "test": tested, "unlabelled": result.unlabelled},
                "accuracy": {
                    s.method: {"value": s.accuracy, "low": s.low, "high": s.high, "chosen": list(s.chosen)}
                    for s in result.scores
                },
                "differences": {
                    k: dict(zip(("value", "low", "high"), v, strict=True)) for k, v in result.differences.items()
                },
                "diverged": list(result.diverged),
                "seconds": round(seconds, 3),
            }
        )
        return DONE
    out = console()
    out.print(
        f"{trained} rows trained, {held} chose the settings, {tested} judged; {duration(seconds)}", soft_wrap=True
    )
    rows = [
        (heads.NAMES[s.method], f"{s.accuracy:.3f} [{s.low:.3f}, {s.high:.3f}]", " ".join(f"{c:g}" for c in s.chosen))
        for s in result.scores
    ]
    show_table(out, ("head", "test accuracy", "rate or weight"), rows)
    for name, (value, low, high) in result.differences.items():
        out.print(f"{name}: {100 * value:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}], paired", soft_wrap=True)
    out.print("95 % intervals over test rows; they say nothing of other starts or other splits", soft_wrap=True)
    kept = heads.NAMES[result.head.method]
    line = f"head: {shown(target)} ({kept}); featlearn adapt predict FILE --head {shown(target)}"
    out.print(line, markup=False, emoji=False, soft_wrap=True)
    return DONE
