"""`featlearn domains`: check, evaluate, compare, fit, predict, on images of yours from several domains."""

import contextlib
import dataclasses
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import tyro

from featlearn.cli import BAD, DONE, FAILED, CommandError, console, parse, print_json, subcommand, warn
from featlearn.cli_gemfilter import bar
from featlearn.cli_run import FEW_SECONDS, duration

T = TypeVar("T")

USAGE = "featlearn domains check|evaluate|compare|fit|predict ..."
ABOUT = """usage: featlearn domains COMMAND ...

Domain generalisation: train on some domains (photos, sketches, cameras, hospitals), be right on one never seen.
--data is a folder of domain/class/image, a .csv file with the columns path, label, domain, or one of
rotated-mnist, colored-mnist, rotated-fashion-mnist, colored-fashion-mnist.
Algorithms: erm, mixup, coral, irm, vrex, group-dro, miro; with -nu behind for nuclear-norm regularisation, and swad- in
front for weight averaging: erm-nu, mixup-nu, swad, swad-nu, swad-coral, ...

commands:
  check     look at the data: domains, classes, what is odd
  evaluate  hold each domain out in turn: a table with standard errors; resumes where it was stopped
  compare   two algorithms, paired over seeds and held-out domains
  fit       train on all domains and keep the model
  predict   classes of images by a model that fit kept

featlearn domains COMMAND --help shows its flags.
"""
SHOWN = 10
"""How many missing runs are listed."""


@dataclass(frozen=True)
class DataOptions:
    data: str = ""
    """A folder of domain/class/image, a .csv file (path, label, domain), or a name such as rotated-mnist."""
    skip_unreadable: bool = False
    """Leave out files that are no images, instead of refusing the data."""
    merge_case: bool = False
    """Labels that differ by case alone are one class."""
    per_domain: int | None = None
    """Images of each domain of the MNIST sets; all of them if left out."""
    size: int = 0
    """Height and width in pixels; 0: 224 for a ResNet, 64 for cnn, 28 for the MNIST sets."""
    json: bool = False
    """One JSON document on stdout; everything else goes to stderr."""


@dataclass(frozen=True)
class TrainOptions(DataOptions):
    backbone: Literal["cnn", "resnet18", "resnet50"] = "cnn"
    """cnn: four convolutions, for small images or a CPU; ResNets need torchvision."""
    weights: str = ""
    """File of pretrained weights, as torchvision or torch.save wrote it."""
    width: int = 64
    """Channels of cnn; it gives twice as many features."""
    freeze: bool = True
    """Batch norm of a ResNet keeps its statistics."""
    augment: Literal["auto", "yes", "no"] = "auto"
    """Random crops, flips and colours; auto: for ResNets."""
    steps: int = 5001
    """Steps of training."""
    batch: int = 0
    """Images a domain and step; 0: 32 for a ResNet, 64 for cnn."""
    rate: float = 0.0
    """Learning rate of Adam; 0: 5e-5 for a ResNet, 1e-3 for cnn."""
    weight_decay: float = 0.0
    """Of Adam."""
    evaluate_every: int = 300
    """Steps between evaluations."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the forward pass."""
    device: str = "auto"
    """auto: the GPU where there is one."""
    threads: int = 0
    """Threads of one run, also to decode images; 0: one on a CPU (fit: all), the share of the cores on a GPU."""
    nuclear_weight: float = 0.01
    """Lambda of -nu, of the nuclear norm over the rows of the batch."""
    nuclear_start: float = 0.02
    """Share of the steps before -nu sets in."""
    mixup_alpha: float = 0.2
    """Of mixup."""
    coral_weight: float = 1.0
    """Of coral."""
    irm_weight: float = 100.0
    """Of irm, after annealing."""
    vrex_weight: float = 10.0
    """Of vrex, after annealing."""
    anneal: float = 0.1
    """Share of the steps before irm and vrex have their weight."""
    dro_eta: float = 0.01
    """Of group-dro."""
    miro_weight: float = 0.1
    """Of miro."""
    swad_converge: int = 3
    """Evaluations without improvement that begin the average."""
    swad_tolerance: int = 6
    """Evaluations above the threshold that end it."""
    swad_ratio: float = 0.3
    """The threshold is this much above the loss where it began."""


# --- what the commands share -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """Errors that the caller can put right become one line."""
    from featlearn.core import Diverged, SettingError
    from featlearn.data import DataError
    from featlearn.run.cells import CellError
    from featlearn.run.execute import RunError
    from featlearn.run.store import StoreError

    try:
        yield
    except (SettingError, DataError, CellError, RunError) as e:
        raise CommandError(" ".join(str(e).split()), BAD) from e
    except (StoreError, Diverged) as e:
        raise CommandError(" ".join(str(e).split()), FAILED) from e


def options_of(kind: type[T], args: Sequence[str], name: str, about: str) -> T:
    """The flags of a command; --data is needed."""
    options: Any = parse(kind, args, f"featlearn domains {name}", about)
    if not options.data:
        raise CommandError(f"data is missing: --data FOLDER names it (featlearn domains {name} --help)")
    return options


@dataclass(frozen=True)
class Plan:
    """What flags come to: the data, and everything with its automatic values filled in."""

    found: Any
    source: Any
    network: Any
    schedule: Any
    settings: Any


def source_of(options: DataOptions, backbone: str = "cnn", augment: str = "auto") -> Any:
    """Where the images come from, automatic values filled in."""
    from featlearn.data.mnist_domains import NAMES
    from featlearn.tools.domains.sources import Source

    mnist = options.data in NAMES
    size = options.size or (28 if mnist else 64 if backbone == "cnn" else 224)
    wanted = (backbone != "cnn" and not mnist) if augment == "auto" else augment == "yes"
    if wanted and mnist:
        raise CommandError(f"augment = yes is not allowed for {options.data}, which is not augmented; leave it out")
    return Source(options.data, size, wanted, options.per_domain, options.skip_unreadable, options.merge_case)


def planned(options: TrainOptions, least: int, decode: bool | None = None) -> Plan:
    """Everything checked, before any work: data, backbone, weights, settings."""
    from featlearn.core import Key
    from featlearn.methods.domains import Schedule, Settings
    from featlearn.tools.domains import sources

    if options.threads < 0:
        raise CommandError(f"threads = {options.threads} is not allowed: 1 or more; 0 chooses")
    small = options.backbone == "cnn"
    schedule = Schedule(
        options.steps, options.batch or (64 if small else 32), options.rate or (1e-3 if small else 5e-5),
        options.weight_decay, options.evaluate_every, options.precision,
    )  # fmt: skip
    settings = Settings(**{f.name: getattr(options, f.name) for f in dataclasses.fields(Settings)})
    network = sources.with_hash(
        sources.Network(options.backbone, options.width, options.weights, frozen=options.freeze)
    )
    sources.device_of(options.device)
    source = source_of(options, options.backbone, options.augment)
    found = sources.load(source, cores(), least, None if options.skip_unreadable else decode)
    sources.build(network, found.shape[0], len(found.labels), Key("domains/check"))
    if not small and not options.weights:
        warn(f"{options.backbone} starts from random weights: far below what pretrained ones (--weights FILE) reach")
    return Plan(found, sources.with_fingerprint(source, found), network, schedule, settings)


def cores() -> int:
    """Of this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def remark(found: Any) -> None:
    """What is odd about the data, a line each on stderr."""
    for line in found.remarks:
        warn(line)


def describe(out: Any, found: Any) -> None:
    """Domains and their sizes."""
    sizes = ", ".join(f"{d.name} {len(d.y)}" for d in found.domains)
    out.print(f"{found.name}: {len(found.labels)} classes; {sizes} images", markup=False, soft_wrap=True)


# --- check -----------------------------------------------------------------------------------------------------------


def check_command(args: Sequence[str]) -> int:
    """Look at the data."""
    options = options_of(DataOptions, args, "check", "Domains and classes of the data, and what is odd about it.")
    from featlearn.tools.domains.sources import load

    found = load(source_of(options), cores(), least=1)
    counts = {d.name: [int((d.y == i).sum()) for i in range(len(found.labels))] for d in found.domains}
    remark(found)
    if options.json:
        print_json({"data": found.name, "labels": list(found.labels), "domains": counts,
                    "remarks": list(found.remarks), "fingerprint": found.fingerprint})  # fmt: skip
        return DONE
    from rich.table import Table

    out = console()
    describe(out, found)
    table = Table("class", *found.names, title="images of each class and domain", title_justify="left")
    for i, label in enumerate(found.labels):
        table.add_row(label, *(str(counts[d][i] or "–") for d in found.names))
    out.print(table)
    return DONE


# --- evaluate --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunsOptions(TrainOptions):
    seeds: tuple[int, ...] = (0, 1, 2)
    """Of the split, the start and the order of images."""
    search: int = 1
    """Trials of the random search for each seed and held-out domain; the first has the settings as given."""
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
    from featlearn.tools.domains.runs import Config

    return Config(
        plan.source, plan.found.names, len(plan.found.labels), plan.found.shape[0], tuple(algorithms), plan.network,
        plan.schedule, plan.settings, options.held_out, options.seeds, options.search, options.device,
    )  # fmt: skip


def evaluate_command(args: Sequence[str]) -> int:
    """Hold each domain out in turn."""
    options = options_of(
        EvaluateOptions, args, "evaluate", "Hold each domain out in turn; a table with standard errors."
    )
    from featlearn.run.execute import plan as plan_of
    from featlearn.run.execute import run
    from featlearn.run.store import Store
    from featlearn.run.submit import process_pool
    from featlearn.tools.domains.runs import EXPERIMENT
    from featlearn.tools.domains.scores import choices, missing, scores

    if options.workers < 0:
        raise CommandError(f"workers = {options.workers} is not allowed: 1 or more; 0 chooses")
    plan = planned(options, least=2)
    config = config_of(options, options.algorithm, plan)
    out, store = console(err=options.json), Store(options.store)
    todo = plan_of(EXPERIMENT, config, store)
    workers, threads = _workers(options, todo)
    remark(plan.found)
    describe(out, plan.found)
    _announce(out, todo, workers)
    command = shlex.join(["featlearn", "domains", "evaluate", *args])
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(process_pool(workers, threads)) if workers > 1 and todo.missing else None
        shown = stack.enter_context(bar("runs")) if todo.missing else None
        progress = (lambda done, total, left: shown(done, total)) if shown else None
        report = run(EXPERIMENT, config, store=store, submit=pool, command=command, progress=progress, threads=threads)
    for line in report.warnings:
        warn(line)
    for cell, line in report.errors.items():
        warn(f"run {cell}: {line}")
    gone = missing(todo.cells, todo.hashes, report.table)
    found = scores(todo.cells, choices(report.table, options.selection))
    if options.json:
        print_json({"data": plan.found.name, "selection": options.selection, "scores": [_score_json(s) for s in found],
                    "missing": [dataclasses.asdict(m) for m in gone], "remarks": list(plan.found.remarks),
                    "cells": {"ok": report.ok, "diverged": report.diverged, "failed": report.failed,
                              "skipped": report.skipped},
                    "seconds": round(report.seconds, 3), "store": options.store})  # fmt: skip
    else:
        for table in _score_tables(found, options.selection, out):
            out.print(table)
    _tell_missing(gone, len(todo.cells), command)
    return FAILED if report.failed else DONE


def _workers(options: EvaluateOptions, todo: Any) -> tuple[int, int]:
    """Processes, and threads of each."""
    import torch

    from featlearn.tools.domains.sources import device_of

    cuda = device_of(options.device).type == "cuda"
    wanted = options.workers or (torch.cuda.device_count() if cuda else 1 if todo.seconds < FEW_SECONDS else cores())
    workers = max(1, min(wanted, len(todo.missing)))
    return workers, options.threads or (max(1, cores() // workers) if cuda else 1)


def _announce(out: Any, todo: Any, workers: int) -> None:
    total, left = len(todo.cells), len(todo.missing)
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

    algorithms, domains = (list(dict.fromkeys(getattr(s, n) for s in found)) for n in ("algorithm", "domain"))
    by = {(s.algorithm, s.domain): s for s in found}
    title = f"accuracy on the held-out domain in %, mean ± standard error over seeds; {selection} selection"

    def make(columns: Sequence[str]) -> Any:
        table = Table("algorithm", title=title, title_justify="left")
        for domain in columns:
            table.add_column(domain, justify="right")
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
    return f"{100 * score.mean:.1f}{error}{part}"


def _tell_missing(gone: Sequence[Any], total: int, command: str) -> None:
    if not gone:
        return
    warn(f"{len(gone)} of {total} runs are missing from the table; to run them: {command}")
    for m in gone[:SHOWN]:
        status = {"missing": "not run"}.get(m.status, m.status)
        warn(f"  {m.algorithm}, {m.held_out} held out, seed {m.seed}, trial {m.trial}: {status}")
    if len(gone) > SHOWN:
        warn(f"  and {len(gone) - SHOWN} more")


# --- compare ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompareOptions(RunsOptions):
    first: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="A")] = ""
    """An algorithm that was evaluated with these flags."""
    second: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="B")] = ""
    """Another one."""
    workers: int = 0
    """Without effect: the flags of evaluate fit here as they are."""


def compare_command(args: Sequence[str]) -> int:
    """Two algorithms, paired."""
    about = "Accuracy of B minus that of A, paired over seeds and held-out domains; trains nothing."
    options = options_of(CompareOptions, args, "compare", about)
    if not options.first or not options.second:
        raise CommandError("which two algorithms? featlearn domains compare erm erm-nu --data FOLDER")
    from featlearn.run.execute import hashes_of
    from featlearn.run.store import Store
    from featlearn.tools.domains.runs import EXPERIMENT
    from featlearn.tools.domains.scores import choices, compare, missing

    plan = planned(options, least=2, decode=False)
    config = config_of(options, (options.first, options.second), plan)
    cells = EXPERIMENT.cells(config)
    hashes = hashes_of(EXPERIMENT, cells)
    table = Store(options.store).table_of(EXPERIMENT.id, hashes)
    gone = missing(cells, hashes, table)
    domains = options.held_out or plan.found.names
    found = compare(choices(table, options.selection), options.first, options.second, domains)
    command = f"featlearn domains evaluate --algorithm {options.first} {options.second} with the same flags"
    if not found:
        raise CommandError(f"{options.store} holds no pair of runs of these two; to run them: {command}", FAILED)
    if options.json:
        print_json({"first": options.first, "second": options.second, "selection": options.selection,
                    "differences": [dataclasses.asdict(d) for d in found],
                    "missing": [dataclasses.asdict(m) for m in gone]})  # fmt: skip
    else:
        _print_differences(console(), options, found)
    _tell_missing(gone, len(cells), command)
    return DONE


def _print_differences(out: Any, options: CompareOptions, found: Sequence[Any]) -> None:
    from rich.table import Table

    title = (
        f"accuracy of {options.second} minus {options.first} in points, 95 % interval; {options.selection} selection"
    )
    table = Table("held out", "pairs", "difference", "from", "to", title=title, title_justify="left")
    last = found[-1]
    for d in found:
        one = d.n < 2
        table.add_row(d.domain, str(d.n), f"{100 * d.mean:+.1f}", *(("–", "–") if one else _ends(d.low, d.high)))
    out.print(table)
    out.print(f"{options.selection} selection; {last.n} pairs of seed and held-out domain", soft_wrap=True)
    if last.by_seed is not None:
        low, high = _ends(*last.by_seed[1:])
        out.print(f"seeds alone counted as independent (each the mean over domains): {100 * last.by_seed[0]:+.1f},"
                  f" {low} to {high}", soft_wrap=True)  # fmt: skip


def _ends(low: float, high: float) -> tuple[str, str]:
    return f"{100 * low:+.1f}", f"{100 * high:+.1f}"


# --- dispatch --------------------------------------------------------------------------------------------------------


def _model(name: str) -> Callable[[Sequence[str]], int]:
    def call(args: Sequence[str]) -> int:
        from featlearn import cli_domains_model

        return getattr(cli_domains_model, name)(args)

    return call


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "check": check_command,
    "evaluate": evaluate_command,
    "compare": compare_command,
    "fit": _model("fit_command"),
    "predict": _model("predict_command"),
}


def domains_command(args: Sequence[str]) -> int:
    """Run one of the commands of `featlearn domains`."""
    return subcommand("domains", COMMANDS, args, ABOUT, USAGE, _one_line)
