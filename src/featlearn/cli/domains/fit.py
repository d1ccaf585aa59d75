"""`featlearn domains fit`: train on all domains and keep the model."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
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
    accelerate: bool = False
    """One of the processes of `accelerate launch -m featlearn.cli domains fit ...`."""


def fit_command(args: Sequence[str]) -> int:
    """Train on all domains and keep the model."""
    options = options_of(FitOptions, args, "fit", "Train on all domains and keep the model.")
    from featlearn.apply.domains import models
    from featlearn.apply.files import check_target
    from featlearn.core.device import resolve
    from featlearn.data.names import shown
    from featlearn.lab.provenance import fixed_threads
    from featlearn.methods.domains.training import SingleProcess

    if options.seed < 0:
        raise CommandError(f"seed = {options.seed} is not allowed: 0 or more")
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
        model, trained = models.fit(
            plan.source,
            plan.found,
            plan.network,
            options.algorithm,
            plan.schedule,
            plan.settings,
            held_out=shown(options.held_out) or None,
            seed=options.seed,
            processes=processes,
            progress=progress,
        )
    if processes.index:
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
    line = f"model: {shown(target)}; featlearn domains predict --model {shown(target)} IMAGES"
    out.print(line, markup=False, emoji=False, soft_wrap=True)
    return DONE
