"""`featlearn domains fit`: train on all domains and keep the model."""

import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from featlearn.cli._show import bar, console, duration, print_json, warn
from featlearn.cli.domains._shared import TrainOptions, describe, options_of, planned, remark
from featlearn.errors import DONE, CommandError


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
    store: str = "runs"
    """Folder in which a fit that is stopped keeps its place, for the same command to go on from."""
    accelerate: bool = False
    """One of the processes of `accelerate launch -m featlearn.cli domains fit ...`."""


def fit_command(args: Sequence[str]) -> int:
    """Train on all domains and keep the model."""
    options = options_of(FitOptions, args, "fit", "Train on all domains and keep the model.")
    from featlearn.apply.domains import models
    from featlearn.apply.domains.runs import CHECKPOINTS
    from featlearn.apply.files import check_target
    from featlearn.core.device import resolve
    from featlearn.data.names import matched, shown
    from featlearn.lab.provenance import fixed_threads
    from featlearn.methods.domains.training import SingleProcess

    if options.seed < 0:
        raise CommandError(f"seed = {options.seed} is not allowed: 0 or more")
    models.check_name(options.out)
    read = [name for name in (options.data, options.weights) if name]
    target = check_target(options.out, options.replace, read)
    plan = planned(options, (options.algorithm,), (options.seed,), least=1)
    processes: Any = SingleProcess(resolve(options.device))
    if options.accelerate:
        from featlearn.apply.domains.distributed import Accelerated

        processes = Accelerated()
    out = console(err=options.json)
    if processes.index == 0:
        remark(plan.found)
        describe(out, plan.found)
    with contextlib.ExitStack() as stack:
        if options.threads:
            stack.enter_context(fixed_threads(options.threads))
        progress = stack.enter_context(bar("steps")) if processes.index == 0 else None
        model, result = models.fit(
            plan.source,
            plan.found,
            plan.network,
            options.algorithm,
            plan.schedule,
            plan.settings,
            held_out=matched(shown(options.held_out), plan.found.names) or None,
            seed=options.seed,
            splitting=plan.splitting,
            balance=options.balance,
            checkpoints=str(Path(options.store).absolute() / "domains" / "fit" / CHECKPOINTS),
            command=shown(shlex.join(["featlearn", "domains", "fit", *args])),
            processes=processes,
            progress=progress,
        )
    if processes.index:
        return DONE
    models.save(model, target)
    trained = result.trained
    used = trained.averaged_evaluation or trained.best
    assert used is not None  # there is a validation part
    accuracy = dict(used.accuracy)
    if trained.window is not None and not trained.window.converged:
        warn(
            f"{options.algorithm}: the validation loss never stopped falling, so there is no valley, and the last "
            "segment of training alone is averaged; more --steps, or a lower --evaluate-every or --swad-converge"
        )
    if result.trouble:
        warn(f"no place to go on from could be kept: {result.trouble}")
    if result.resumed:
        warn(f"went on from step {result.resumed}, where the same fit had been stopped")
    _tell_poor(model.about["measures"])
    if options.json:
        print_json(
            {
                "model": str(target),
                "accuracy": accuracy,
                "seconds": round(trained.seconds, 3),
                "remarks": list(plan.found.remarks),
                **model.about,
            }
        )
        return DONE
    told = ", ".join(f"{100 * v:.1f} % {name}" for name, v in accuracy.items())
    out.print(f"{told}, of step {used.step}; {duration(trained.seconds)}", soft_wrap=True)
    for name, m in model.about["measures"].items():
        worst, domain = m["worst_class"], min(m["domains"].items(), key=lambda item: item[1]["accuracy"])
        level = m["majority"]
        line = (
            f"{name}: balanced {_percent(m['balanced'])}, worst class {worst['class']} {_percent(worst['accuracy'])}, "
            f"worst domain {domain[0]} {_percent(domain[1]['accuracy'])}, calibration error {_percent(m['ece'])}; "
            f"always {level['class']}: {_percent(level['accuracy'])}"
        )
        out.print(line, markup=False, emoji=False, soft_wrap=True)
    line = f"model: {shown(target)}; featlearn domains predict --model {shown(target)} IMAGES"
    out.print(line, markup=False, emoji=False, soft_wrap=True)
    return DONE


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _tell_poor(measures: Any) -> None:
    """A model that guessing equals, or that cannot be told from it."""
    m = measures["validation"]
    level, n = m["majority"], m["images"]
    what = f"always answering {level['class']}: {100 * m['accuracy']:.1f} against {100 * level['accuracy']:.1f} %"
    if m["accuracy"] <= level["accuracy"]:
        warn(f"the model is no better than {what} of {n} validation images; lower --rate, take more --steps")
    elif level["p"] > 0.05:
        warn(f"{n} validation images do not tell the model from {what} (p = {level['p']:.2g}, exact)")
