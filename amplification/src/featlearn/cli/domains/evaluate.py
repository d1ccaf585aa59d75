"""`featlearn domains evaluate`: hold each domain out in turn."""

import contextlib
import dataclasses
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from featlearn.cli._parse import check_count
from featlearn.cli._show import FEW_SECONDS, bar, console, duration, print_json, put, warn
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
    selection: Literal["training-domain", "oracle"] = "training-domain"
    """training-domain: by a fifth of the domains trained on; oracle: by a fifth of the held-out one."""
    store: str = "runs"
    """Folder in which every finished run is kept; a second call does only what is missing."""


@dataclass(frozen=True)
class EvaluateOptions(RunsOptions):
    algorithm: tuple[str, ...] = ("erm", "erm-nu")
    """One or more."""
    workers: int = 0
    """Processes; 0: one a core, or one a GPU. Results do not depend on it."""


def config_of(options: RunsOptions, algorithms: Sequence[str], plan: Plan) -> Any:
    """The runs that are meant."""
    from featlearn.apply.domains.runs import Config
    from featlearn.data.names import shown

    return Config(
        plan.source,
        plan.found.names,
        len(plan.found.labels),
        plan.found.shape[0],
        tuple(algorithms),
        plan.network,
        plan.schedule,
        plan.settings,
        tuple(map(shown, options.held_out)),
        options.seeds,
        options.search,
        options.device,
    )


def evaluate_command(args: Sequence[str]) -> int:
    """Hold each domain out in turn."""
    options = options_of(
        EvaluateOptions, args, "evaluate", "Hold each domain out in turn; a table with standard errors."
    )
    from featlearn.apply.domains.runs import EXPERIMENT
    from featlearn.apply.domains.scores import choices, missing, scores
    from featlearn.lab.execute import plan as plan_of
    from featlearn.lab.execute import run
    from featlearn.lab.store import Store
    from featlearn.lab.submit import ProcessPool

    check_count("workers", options.workers, 0, "chooses")
    plan = planned(options, options.algorithm, options.seeds, least=2)
    config = config_of(options, options.algorithm, plan)
    out, store = console(err=options.json), Store(options.store)
    todo = plan_of(EXPERIMENT, config, store)
    workers, threads = _workers(options, todo)
    remark(plan.found)
    describe(out, plan.found)
    _announce(out, todo, workers)
    command = shlex.join(["featlearn", "domains", "evaluate", *args])
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
    chosen = choices(report.table, options.selection)
    found = scores(todo.trials, chosen)
    if options.json:
        print_json(
            {
                "data": plan.found.name,
                "selection": options.selection,
                "scores": [_score_json(s) for s in found],
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
        )
    else:
        for table in _score_tables(found, options.selection, out):
            put(out, table)
    tell_flat(chosen)
    _tell_missing(gone, len(todo.trials), command)
    return FAILED if report.failed else DONE


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
    total, left = len(todo.trials), len(todo.missing)
    if not left:
        out.print(f"{total} runs, all of them done before")
        return
    done = f" ({total - left} of {total} done before)" if left < total else ""
    where = f"{workers} processes" if workers > 1 else "this process"
    out.print(f"{left} runs{done}: very roughly {duration(todo.seconds_with(workers))} in {where}", soft_wrap=True)


def _score_json(score: Any) -> dict[str, Any]:
    return {**dataclasses.asdict(score), "values": {str(k): v for k, v in score.values.items()}}


def _score_tables(found: Sequence[Any], selection: str, out: Any) -> list[Any]:
    """One table, or one a domain where it would be too wide for the console."""
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    algorithms, domains = (list(dict.fromkeys(getattr(s, n) for s in found)) for n in ("algorithm", "domain"))
    by = {(s.algorithm, s.domain): s for s in found}
    title = f"accuracy on the held-out domain in %, mean ± standard error over seeds; {selection} selection"

    flat = any(s.without_valley for s in found)
    caption = "* SWAD found no valley in some runs and averaged their last segment alone" if flat else None

    def make(columns: Sequence[str]) -> Any:
        table = Table("algorithm", title=title, title_justify="left", caption=caption, caption_justify="left")
        for domain in columns:
            table.add_column(Text(domain), justify="right")
        for name in algorithms:
            table.add_row(name, *(_percent(by[name, d]) for d in columns))
        return table

    whole = make(domains)
    fits = Measurement.get(out, out.options.update(max_width=10_000), whole).maximum <= out.width
    return [whole] if fits else [make([d]) for d in domains]


def _percent(score: Any) -> str:
    if score.mean is None:
        return "–"
    error = "" if score.error is None else f" ± {100 * score.error:.1f}"
    part = f" ({len(score.values)} of {score.expected})" if len(score.values) < score.expected else ""
    return f"{100 * score.mean:.1f}{error}{part}{' *' if score.without_valley else ''}"


def _tell_missing(gone: Sequence[Any], total: int, command: str) -> None:
    if not gone:
        return
    warn(f"{len(gone)} of {total} runs are missing from the table; to run them: {command}")
    for m in gone[:SHOWN]:
        status = {"missing": "not run"}.get(m.status, m.status)
        warn(f"  {m.algorithm}, {m.held_out} held out, seed {m.seed}, draw {m.draw}: {status}")
    if len(gone) > SHOWN:
        warn(f"  and {len(gone) - SHOWN} more")


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
