"""`featlearn domains fit` and `predict`: a model of yours, and what it says about images."""

import contextlib
import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from featlearn.cli import DONE, FAILED, CommandError, console, parse, print_json, warn
from featlearn.cli_domains import SHOWN, TrainOptions, cores, describe, options_of, planned, remark
from featlearn.cli_gemfilter import bar
from featlearn.cli_run import duration


@dataclass(frozen=True)
class FitOptions(TrainOptions):
    algorithm: str = "erm-nu"
    """One of them."""
    out: str = "model.pt"
    """File of the model."""
    replace: bool = False
    """Write over a file that is there."""
    held_out: str = ""
    """A domain to leave out of training."""
    seed: int = 0
    """Of the split, the start and the order of images."""
    accelerate: bool = False
    """One of the processes of `accelerate launch -m featlearn.cli domains fit ...`."""


def fit_command(args: Sequence[str]) -> int:
    """Train on all domains and keep the model."""
    options = options_of(FitOptions, args, "fit", "Train on all domains and keep the model.")
    from featlearn.data.names import shown
    from featlearn.methods.domains.training import Alone
    from featlearn.run.provenance import fixed_threads
    from featlearn.tools.domains import models
    from featlearn.tools.domains.sources import device_of

    if options.seed < 0:
        raise CommandError(f"seed = {options.seed} is not allowed: 0 or more")
    read = [name for name in (options.data, options.weights) if name]
    target = models.check_target(options.out, options.replace, read)
    plan = planned(options, (options.algorithm,), (options.seed,), least=1)
    team: Any = Alone(device_of(options.device))
    if options.accelerate:
        from featlearn.tools.domains.team import Accelerated

        team = Accelerated()
    out = console(err=options.json)
    if team.index == 0:
        remark(plan.found)
        describe(out, plan.found)
    with contextlib.ExitStack() as stack:
        if options.threads:
            stack.enter_context(fixed_threads(options.threads))
        progress = stack.enter_context(bar("steps")) if team.index == 0 else None
        model, trained = models.fit(
            plan.source, plan.found, plan.network, options.algorithm, plan.schedule, plan.settings,
            held_out=shown(options.held_out) or None, seed=options.seed, team=team, progress=progress,
        )  # fmt: skip
    if team.index:
        return DONE
    models.save(model, target)
    used = trained.averaged_evaluation or trained.best
    assert used is not None  # there is a validation part
    accuracy = dict(used.accuracy)
    if trained.window is not None and not trained.window.converged:
        warn(
            f"{options.algorithm}: the validation loss never stopped falling, so there is no valley, and the last "
            "segment of training alone is averaged; more --steps, or a lower --evaluate-every or --swad-converge"
        )
    if options.json:
        print_json({"model": str(target), "accuracy": accuracy, "seconds": round(trained.seconds, 3),
                    "remarks": list(plan.found.remarks), **model.about})  # fmt: skip
        return DONE
    told = ", ".join(f"{100 * v:.1f} % {name}" for name, v in accuracy.items())
    out.print(f"{told}, of step {used.step}; {duration(trained.seconds)}", soft_wrap=True)
    line = f"model: {shown(target)}; featlearn domains predict --model {shown(target)} IMAGES"
    out.print(line, markup=False, emoji=False, soft_wrap=True)
    return DONE


@dataclass(frozen=True)
class PredictOptions:
    images: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="IMAGES")] = ()
    """Files, or folders with images."""
    model: str = ""
    """File that `featlearn domains fit` wrote."""
    out: str = ""
    """File for the table; stdout if left out."""
    replace: bool = False
    """Write over a file that is there."""
    all: bool = False
    """A column for the probability of each class."""
    device: str = "auto"
    """auto: the GPU where there is one."""
    json: bool = False
    """JSON in place of CSV."""


def predict_command(args: Sequence[str]) -> int:
    """Classes of images."""
    options = parse(PredictOptions, args, "featlearn domains predict", "Classes of images, as CSV or JSON.")
    if not options.model:
        raise CommandError("model is missing: --model model.pt names the file that `featlearn domains fit` wrote")
    from featlearn.tools.domains import models
    from featlearn.tools.domains.sources import device_of

    device = device_of(options.device)
    paths, left_out = models.listed(options.images)
    target = models.check_target(options.out, options.replace, (options.model, *paths)) if options.out else None
    model = models.load(options.model)
    for line in left_out:
        warn(line)
    with bar("images") as progress:
        found = models.predict(model, paths, device=device, threads=cores(), progress=progress)
    text = _json_of(found, model) if options.json else _csv_of(found, model, options.all)
    if target is not None:
        models.keep(target, encoded(text, "utf-8"))
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
    writer.writerow(["path", "label", "probability", *(model.labels if every else ())])
    for p in found:
        more = [f"{v:.6f}" for v in p.probabilities] if every else []
        writer.writerow([p.path, p.label, "" if p.error else f"{p.probability:.6f}", *more])
    return buffer.getvalue()


def _json_of(found: Sequence[Any], model: Any) -> str:
    import json

    rows = [
        {"path": p.path, "label": p.label or None, "probability": p.probability if p.label else None,
         "probabilities": dict(zip(model.labels, p.probabilities, strict=False)), "error": p.error or None,
         "remarks": list(p.remarks)}
        for p in found
    ]  # fmt: skip
    return json.dumps(rows, indent=1, allow_nan=False) + "\n"
