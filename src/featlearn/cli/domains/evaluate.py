"""`featlearn domains evaluate`: hold each domain out in turn."""

import contextlib
import dataclasses
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from featlearn.cli._parse import check_count
from featlearn.cli._show import FEW_SECONDS, bar, console, duration, print_json, warn
from featlearn.cli.domains._shared import SHOWN, Plan, TrainOptions, describe, options_of, planned, remark
from featlearn.errors import DONE, FAILED


@dataclass(frozen=True)
class RunsOptions(TrainOptions):
    seeds: tuple[int, ...] = (0, 1, 2)
    """Of the split, the start and the order of images."""
    search: int = 1
    """Draws of the random search for each seed and held-out domain; the first has the settings as given."""
    held_out: tuple[str, ...] = ()
    """Domains to hold out; all of them, one after the other, if left out."""
    selection: Literal["training-domain", "leave-one-domain-out", "oracle"] = "training-domain"
    """training-domain: by a fifth of the domains trained on; leave-one-domain-out: by training domains that are held
    out in their turn, in runs of their own; oracle: by a fifth of the held-out one."""
    store: str = "runs"
    """Folder in which every finished run is kept; a second call does only what is missing."""


@dataclass(frozen=True)
class EvaluateOptions(RunsOptions):
    algorithm: tuple[str, ...] = ("erm", "erm-nu")
    """One or more."""
    workers: int = 0
    """Processes; 0: one a core, or one a GPU. Results do not depend on it."""
    out: tuple[str, ...] = ()
    """Files to write the results to, by their endings: .csv, .parquet (a row for each choice), .tex, .html, .json (all
    that --json prints)."""
    replace: bool = False
    """Write over files that are there."""


def config_of(options: RunsOptions, algorithms: Sequence[str], plan: Plan) -> Any:
    """The runs that are meant."""
    from featlearn.apply.domains.runs import CHECKPOINTS, ID, Config
    from featlearn.data.names import matched, shown

    return Config(
        plan.source,
        plan.found.names,
        len(plan.found.labels),
        plan.found.shape[0],
        tuple(algorithms),
        plan.network,
        plan.schedule,
        plan.settings,
        tuple(matched(shown(name), plan.found.names) for name in options.held_out),
        options.seeds,
        options.search,
        plan.splitting,
        options.balance,
        options.selection == "leave-one-domain-out",
        options.device,
        str(Path(options.store).absolute() / ID / CHECKPOINTS),
    )


def evaluate_command(args: Sequence[str]) -> int:
    """Hold each domain out in turn."""
    options = options_of(
        EvaluateOptions, args, "evaluate", "Hold each domain out in turn; a table with standard errors."
    )
    from featlearn import __version__
    from featlearn.apply.domains.results import results
    from featlearn.apply.domains.runs import EXPERIMENT
    from featlearn.apply.domains.scores import missing
    from featlearn.cli.domains._results import against_of, fits_of, show_reported, show_results, targets, write_results
    from featlearn.data.names import shown as printable
    from featlearn.lab.execute import plan as plan_of
    from featlearn.lab.execute import run
    from featlearn.lab.store import Store
    from featlearn.lab.submit import ProcessPool

    check_count("workers", options.workers, 0, "chooses")
    files = targets(options.out, options.replace, (options.data, options.weights))
    plan = planned(options, options.algorithm, options.seeds, least=2)
    config = config_of(options, options.algorithm, plan)
    out, store = console(err=options.json), Store(options.store)
    todo = plan_of(EXPERIMENT, config, store)
    workers, threads = _workers(options, todo)
    remark(plan.found)
    describe(out, plan.found)
    _announce(out, todo, workers)
    command = printable(shlex.join(["featlearn", "domains", "evaluate", *args]))
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ProcessPool(workers, threads)) if workers > 1 and todo.missing else None
        shown = stack.enter_context(bar("runs")) if todo.missing else None
        progress = (lambda done, total, left: shown(done, total)) if shown else None
        report = run(EXPERIMENT, config, store=store, submit=pool, command=command, progress=progress, threads=threads)
    for line in report.warnings:
        warn(line)
    for trial, line in report.errors.items():
        warn(f"run {trial}: {line}")
    gone = missing(todo.trials, todo.hashes, report.table)
    names = plan.found.names
    found = results(
        plan.found.name, plan.found.labels, names, todo.trials, todo.hashes, report.table, options.selection
    )
    chosen = [c for c, _ in found.chosen]
    fits = fits_of(options, found.best, plan.found)
    against = against_of(options, plan.found, found.scores, gone)
    document = {
        "data": plan.found.name,
        "domains": list(names),
        "labels": list(plan.found.labels),
        "sizes": {d.name: len(d.y) for d in plan.found.domains},
        "fingerprint": plan.found.fingerprint,
        "weights": plan.network.weights_hash,
        "flags": {n: v for n, v in dataclasses.asdict(options).items() if n not in ("json", "out", "replace")},
        "command": command,
        "version": __version__,
        "selection": options.selection,
        **found.as_json(),
        "fit": fits,
        "protocol": against,
        "missing": [dataclasses.asdict(m) for m in gone],
        "remarks": list(plan.found.remarks),
        "without_valley": [dataclasses.asdict(c) for c in chosen if not c.converged],
        "trials": {
            "ok": report.ok,
            "diverged": report.diverged,
            "failed": report.failed,
            "skipped": report.skipped,
        },
        "seconds": round(report.seconds, 3),
        "store": options.store,
    }
    if options.json:
        print_json(document)
    else:
        show_results(out, found, fits, options.search)
        if against:
            show_reported(out, against)
    write_results(files, found, document, [line_of(m) for m in gone])
    tell_poor(found.no_better(), len(chosen))
    tell_flat(chosen)
    _tell_missing(gone, len(todo.trials), command)
    if options.selection == "oracle" and not chosen and report.table.rows:
        what = "no held-out domain has rows for it (--split-column has no val there)"
        warn(f"oracle selection has nothing to go by: {what}; mark some val, or take --selection training-domain")
    return FAILED if report.failed or not chosen else DONE


def _workers(options: EvaluateOptions, todo: Any) -> tuple[int, int]:
    """Processes, and threads of each."""
    import torch

    from featlearn.core.device import resolve
    from featlearn.lab.submit import cores

    cuda = resolve(options.device).type == "cuda"
    wanted = options.workers or (torch.cuda.device_count() if cuda else 1 if todo.seconds < FEW_SECONDS else cores())
    workers = max(1, min(wanted, len(todo.missing)))
    return workers, options.threads or (max(1, cores() // workers) if cuda else 1)


def _announce(out: Any, todo: Any, workers: int) -> None:
    from featlearn.data.names import counted

    total, left = len(todo.trials), len(todo.missing)
    if not left:
        out.print(f"{counted(total, 'run')}, all of them done before" if total > 1 else "the run was done before")
        return
    done = f" ({total - left} of {total} done before)" if left < total else ""
    where = f"{workers} processes" if workers > 1 else "this process"
    out.print(
        f"{counted(left, 'run')}{done}: very roughly {duration(todo.seconds_with(workers))} in {where}", soft_wrap=True
    )


def _tell_missing(gone: Sequence[Any], total: int, command: str) -> None:
    if not gone:
        return
    diverged = sum(m.status == "diverged" for m in gone)
    if diverged < len(gone):
        warn(f"{len(gone)} of {total} runs are missing from the table; to run them: {command}")
    else:
        runs = "all runs" if diverged == total else f"{diverged} of {total} runs are missing from the table: they"
        warn(f"{runs} diverged, and would again: lower --rate, or the weight of a penalty")
    for m in gone[:SHOWN]:
        warn(f"  {line_of(m)}")
    if len(gone) > SHOWN:
        warn(f"  and {len(gone) - SHOWN} more")


def line_of(m: Any) -> str:
    """A missing run in one line."""
    status = {"missing": "not run"}.get(m.status, m.status)
    away = f"{m.held_out} and {m.second}" if m.second else m.held_out
    return f"{m.algorithm}, {away} held out, seed {m.seed}, draw {m.draw}: {status}"


def tell_poor(poor: Sequence[Any], total: int) -> None:
    """Choices that guessing equals."""
    if not poor:
        return
    runs = "; ".join(f"{c.algorithm}, {c.held_out} held out, seed {c.seed}" for c in poor[:SHOWN])
    more = f" and {len(poor) - SHOWN} more" if len(poor) > SHOWN else ""
    warn(f"{len(poor)} of {total} are no better than always answering the commonest class: {runs}{more}")


def tell_flat(found: Sequence[Any]) -> None:
    """Runs whose SWAD average is the last segment alone."""
    flat = [c for c in found if not c.converged]
    if not flat:
        return
    runs = [f"{c.algorithm}, {c.held_out} held out, seed {c.seed}" for c in flat[:SHOWN]]
    more = f" and {len(flat) - SHOWN} more" if len(flat) > SHOWN else ""
    warn(
        f"no valley in {len(flat)} of {len(found)} chosen runs, whose last segment alone is averaged: "
        f"{'; '.join(runs)}{more}; more --steps, or a lower --evaluate-every or --swad-converge"
    )
