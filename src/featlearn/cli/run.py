"""`featlearn run`: flags from the experiment's Config, sweeps, progress, the table against the reported numbers."""

import contextlib
import dataclasses
import itertools
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

from featlearn.cli._parse import MOST, check_count, choose, flag, gathered, nearest, parse
from featlearn.cli._show import FEW, FEW_SECONDS, console, duration, few, print_json, put, trial_bar, warn
from featlearn.cli.data import bring
from featlearn.errors import (
    DONE,
    FAILED,
    INTERRUPTED,
    TERMINATED,
    CommandError,
    ReportError,
    RunError,
    StoreError,
    Terminated,
)

USAGE = "featlearn run EXPERIMENT [--preset smoke|small|paper] [settings]"


@dataclass(frozen=True)
class RunOptions:
    preset: str = "small"
    """Which settings to start from; every flag below changes one of them."""
    store: str = "runs"
    """Folder in which every finished trial is kept; a second run does only what is missing."""
    workers: int = 0
    """Processes; 0: one per core, or none beside this one for short runs. Rows do not depend on it."""
    threads: int = 1
    """Threads of one trial. Rows may depend on it in the last digit."""
    again: bool = False
    """Compute anew what other code has put into the store; everything, if all of it is by the code as it is."""
    sweep: Any = ()
    """field=a,b,c: one run for every value; several make the product. Items of a tuple are joined by +."""
    json: bool = False
    """One JSON document on stdout; everything else goes to stderr."""
    fetch: bool = False
    """Fetch data sets and models that the run needs and that are not here."""
    report: bool = True
    """Write the page of this experiment."""
    site: str = "site"
    """Folder of the page."""


def load_experiment(name: str) -> Any:
    """An experiment by id or by the path of a Python file; CommandError in one line."""
    from featlearn import works
    from featlearn.lab.load import last_line, load_source

    if name.endswith(".py"):
        try:
            return load_source(name)
        except RunError:
            raise
        except Exception as e:  # the user's own file: the place in it is what helps
            raise CommandError(f"{name} cannot be loaded: {last_line(e)}{_place(e, name)}") from e
    if name not in works.EXPERIMENTS:
        named = (
            [id_ for id_ in works.EXPERIMENTS if name in works.load_experiment(id_).reproduces] if "." in name else []
        )
        if len(named) == 1:
            return works.load_experiment(named[0])
        if named:
            raise CommandError(f"{name} is reproduced by {', '.join(named)}: name one of them")
        known = [*works.EXPERIMENTS]
        raise CommandError(
            f"no experiment {name!r}{nearest(name, known)}; `featlearn list` shows all, a file of your own ends in .py"
        )
    return works.load_experiment(name)


def _place(error: BaseException, name: str) -> str:
    import traceback

    here = Path(name).resolve()
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).resolve() == here]
    return f" ({name}, line {lines[-1]})" if lines else ""


def preset_name(args: Sequence[str], default: str) -> str:
    """The preset in `args`: its values are the defaults of all other flags, so it is needed first."""
    for i, word in enumerate(args):
        if word == "--preset" and i + 1 < len(args):
            return args[i + 1]
        if word.startswith("--preset="):
            return word.partition("=")[2]
    return default


def raw_kind(config: type, default: Any = None) -> type:
    """The Config without its own checks, so that the command line can hold values that it will refuse; its help shows
    only some of many values of `default`."""
    import tyro

    long = []
    for f in dataclasses.fields(config) if default is not None else ():
        value = getattr(default, f.name, None)
        if isinstance(value, tuple | list) and len(value) > FEW:
            hint = tyro.conf.arg(help_behavior_hint=f"(default: {few(value)})")
            own = dataclasses.field(
                default=f.default, default_factory=f.default_factory, init=f.init, kw_only=f.kw_only
            )
            long.append((f.name, Annotated[get_type_hints(config, include_extras=True)[f.name], hint], own))
    return dataclasses.make_dataclass(
        "Settings", long, bases=(config,), frozen=True, namespace={"__post_init__": lambda self: None}
    )


def _raw(kind: type, config: Any) -> Any:
    return kind(**{f.name: getattr(config, f.name) for f in dataclasses.fields(config) if f.init})


def build(kind: type, raw: Any) -> Any:
    """A config from raw values; CommandError with the one line of the check that refused it."""
    try:
        return kind(**{f.name: getattr(raw, f.name) for f in dataclasses.fields(kind) if f.init})
    except ValueError as e:
        raise CommandError(" ".join(str(e).split())) from None


def parse_run(experiment: Any, args: Sequence[str], name: str) -> tuple[RunOptions, Any, type]:
    """Run options and raw settings from the flags."""
    import tyro

    default = "small" if "small" in experiment.presets else next(iter(experiment.presets))
    preset = preset_name(args, default)
    if preset not in experiment.presets:
        raise CommandError(f"preset = {preset} is not allowed{choose(preset, list(experiment.presets))}")
    raw = raw_kind(experiment.Config, experiment.presets[preset])
    taken = {f.name for f in dataclasses.fields(RunOptions)} & {f.name for f in dataclasses.fields(raw)}
    if taken:
        raise CommandError(
            f"the Config of {experiment.id} has the field {sorted(taken)[0]}, a flag of `featlearn run`: rename it"
        )
    sweep = tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]]
    options = dataclasses.make_dataclass("Run", [("sweep", sweep, ())], bases=(RunOptions,), frozen=True)
    both = dataclasses.make_dataclass(
        "Both", [("run", tyro.conf.OmitArgPrefixes[options]), ("settings", tyro.conf.OmitArgPrefixes[raw])]
    )
    value: Any = parse(
        both,
        gathered(args, [flag(n) for n, hint in get_type_hints(raw).items() if get_origin(hint) is tuple]),
        f"featlearn run {name}",
        f"{experiment.title}\n\nPresets: {', '.join(experiment.presets)}; defaults below are those of {preset}.",
        both(options(preset=preset), _raw(raw, experiment.presets[preset])),
    )
    run = value.run
    flat = tuple(word for group in run.sweep for word in group)
    plain = {f.name: getattr(run, f.name) for f in dataclasses.fields(RunOptions)}
    return RunOptions(**{**plain, "sweep": flat}), value.settings, raw


def sweep_members(experiment: Any, raw_type: type, raw: Any, words: Sequence[str], prog: str) -> list[tuple[dict, Any]]:
    """(swept settings, config) for the product of all sweeps; every config is checked here, before any work."""
    import tyro

    names = [f.name for f in dataclasses.fields(experiment.Config)]
    axes: list[list[tuple[str, Any]]] = []
    for word in words:
        name, sign, values = word.partition("=")
        name = name.lstrip("-").replace("-", "_")
        if not sign or not values:
            raise CommandError(f"--sweep {word} is not allowed: field=a,b,c, for example --sweep {names[0]}=1,2")
        if name not in names:
            raise CommandError(f"--sweep {word}: no setting {name!r}{nearest(name, names)} ({prog} --help)")
        if any(name == axis[0][0] for axis in axes):
            raise CommandError(f"--sweep {name} is given twice: put all its values into one, {name}=a,b,c")
        axis = []
        for text in values.split(","):
            items = [t.capitalize() if t in ("true", "false") else t for t in text.split("+")]
            one = parse(raw_type, [flag(name), *items], prog, "", raw, config=(tyro.conf.FlagConversionOff,))
            value = getattr(one, name)
            if any(value == other for _, other in axis):
                raise CommandError(f"--sweep {word}: {name} = {text} is there twice; name each value once")
            axis.append((name, value))
        axes.append(axis)
    out = []
    for combination in itertools.product(*axes):
        setting = dict(combination)
        out.append((setting, build(experiment.Config, dataclasses.replace(raw, **setting))))
    return out


# --- running ---------------------------------------------------------------------------------------------------------


def run_command(args: Sequence[str]) -> int:
    """Run an experiment."""
    if not args or args[0] in ("-h", "--help"):
        parse(
            RunOptions,
            ["--help"] if args else [],
            "featlearn run EXPERIMENT",
            "Run an experiment (`featlearn list`"
            " names them) or a file of yours that defines EXPERIMENT. Its settings are flags too:"
            " featlearn run EXPERIMENT --help.",
        )
        raise CommandError(f"which experiment? {USAGE}; `featlearn list` shows all")
    name, args = args[0], list(args[1:])
    if name.startswith("-"):
        raise CommandError(f"the experiment comes first: {USAGE}")
    _fix_threads(args)
    experiment = load_experiment(name)
    options, raw, raw_type = parse_run(experiment, args, name)
    check_count("workers", options.workers, 0)
    check_count("threads", options.threads, 1)
    members = sweep_members(experiment, raw_type, raw, options.sweep, f"featlearn run {name}")
    command = shlex.join(["featlearn", "run", name, *args])

    try:
        return _run(experiment, options, members, command)
    except KeyboardInterrupt as e:
        what = "terminated" if isinstance(e, Terminated) else "interrupted"
        warn(f"{what}: finished trials are kept in {options.store}; to resume: {command}")
        return TERMINATED if isinstance(e, Terminated) else INTERRUPTED


def _fix_threads(args: Sequence[str]) -> None:
    """Thread counts for libraries that are not loaded yet; in a process that uses numpy already nothing is changed."""
    if "numpy" in sys.modules:
        return
    from featlearn.lab.submit import set_thread_variables

    following = [b for a, b in itertools.pairwise(args) if a == "--threads" and b.isdigit()]
    set_thread_variables(min(int(following[-1]), MOST) if following else 1)


def _run(experiment: Any, options: RunOptions, members: Sequence[tuple[dict, Any]], command: str) -> int:
    from featlearn.lab.execute import changes, plan, run
    from featlearn.lab.store import Store
    from featlearn.lab.submit import ProcessPool, cores

    store, preset = Store(options.store), experiment.presets[options.preset]
    again = "changed" if options.again else ""
    plans = [plan(experiment, config, store, again=again) for _, config in members]
    if again and not any(p.missing for p in plans):
        again = "all"
        plans = [plan(experiment, config, store, again=again) for _, config in members]
    changed = [changes(config, preset) for _, config in members]
    _check_devices(plans)
    bring(experiment, plans, options.fetch)
    missing, seconds = sum(len(p.missing) for p in plans), sum(p.seconds for p in plans)
    workers = options.workers or (1 if seconds < FEW_SECONDS else cores())
    workers = max(1, min(workers, max((len(p.missing) for p in plans), default=1)))
    out = console(err=options.json)
    _header(out, experiment, options, changed, members, plans, workers)

    start, reports, stopped = time.perf_counter(), [], None
    group = sweep_name(experiment, members)
    try:
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(ProcessPool(workers, options.threads)) if workers > 1 and missing else None
            for (setting, config), different, todo in zip(members, changed, plans, strict=True):
                with _bar(len(todo.missing), _words(setting) or experiment.id, workers) as progress:
                    report = run(
                        experiment,
                        config,
                        store=store,
                        submit=pool,
                        preset=options.preset,
                        changed=different,
                        sweep=setting,
                        group=group,
                        command=command,
                        progress=progress,
                        threads=options.threads,
                        again=again,
                        todo=todo if len(members) == 1 else None,  # an earlier member may have done some of it
                    )
                for warning in report.warnings:
                    warn(warning)
                reports.append(report)
    except (StoreError, RunError) as e:  # the workers are ended; what finished is shown before this is said
        if not reports:
            raise
        stopped = e
    elapsed = time.perf_counter() - start
    for report in reports:
        _troubles(report, options.store)
    members = members[: len(reports)]
    page = _page(experiment, options, members, reports, command) if options.report else None
    if options.json:
        print_json(document(experiment, options, members, reports, elapsed, page))
    else:
        _tables(out, members, reports)
        counts = totals(reports)
        out.print(
            f"{elapsed:.1f} s; trials: " + ", ".join(f"{n} {what}" for what, n in counts.items() if n or what == "ok")
        )
        if page:
            out.print(f"page: {page}", soft_wrap=True)
    if stopped is not None:
        raise stopped
    return FAILED if any(r.failed or r.broken for r in reports) else DONE


def sweep_name(experiment: Any, members: Sequence[tuple[dict, Any]]) -> str:
    """The name that the members of a sweep share, whatever their order; none for a single run."""
    from featlearn.lab.digest import text_digest
    from featlearn.lab.store import manifest_hash

    names = sorted(manifest_hash(experiment, config) for _, config in members)
    return text_digest(" ".join(names)) if len(names) > 1 else ""


def _check_devices(plans: Sequence[Any]) -> None:
    """Refuse, before any work, a GPU that this machine lacks; trials already done need none. Other names are for the
    experiment to judge, which may be a user's own."""
    wanted = {getattr(p.trials[i], "device", "") for p in plans for i in p.missing}
    for device in (d for d in wanted if isinstance(d, str) and d.startswith("cuda")):
        from featlearn.core.device import resolve

        resolve(device)


def _words(setting: Mapping[str, Any]) -> str:
    many = {k: f"({few(v)})" for k, v in setting.items() if isinstance(v, tuple | list) and len(v) > FEW}
    return ", ".join(f"{k} = {v}" for k, v in {**setting, **many}.items())


def _header(
    out: Any, experiment: Any, options: RunOptions, changed: Sequence[dict], members: Any, plans: Any, workers: int
) -> None:
    swept = {name for setting, _ in members for name in setting}
    fixed = {k: v for k, v in changed[0].items() if k not in swept}
    parts = [f"preset {options.preset}"]
    if fixed:
        parts.append(f"changed from the preset: {_words(fixed)}")
    if swept:
        parts.append(f"sweep of {', '.join(sorted(swept))}: {len(members)} runs")
    out.print(f"{experiment.id}: {experiment.title}", markup=False)
    out.print("; ".join(parts), markup=False, soft_wrap=True)
    total, missing = sum(len(p.trials) for p in plans), sum(len(p.missing) for p in plans)
    if not missing:
        out.print(f"{total} trials, all of them done before")
        return
    expected = sum(p.seconds_with(workers) for p in plans)
    done = f" ({total - missing} of {total} done before)" if missing < total else ""
    where = f"{workers} processes" if workers > 1 else "this process"
    out.print(
        f"{missing} trials{done}: about {duration(expected)} in {where},"
        f" up to {workers * max(p.mib for p in plans):.0f} MiB"
    )


@contextlib.contextmanager
def _bar(total: int, label: str, workers: int) -> Iterator[Any]:
    """A progress bar with time left on stderr; None where there is nothing to wait for."""
    if not total:
        yield None
        return
    with trial_bar(label) as show:

        def progress(done: int, total: int, left: float) -> None:
            left = left / workers if done == 0 else left
            show(done, total, "" if done == total else f"{duration(left)} left")

        yield progress


def _troubles(report: Any, store: str) -> None:
    for hash_, message in report.errors.items():
        status = "diverged" if hash_ in report.table.diverged else "failed"
        path = Path(store) / report.experiment / f"{hash_}.json"
        warn(f"trial {hash_} {status}: {message}" + (f" ({path})" if path.is_file() else ""))
    if report.broken:
        warn(report.broken)
    old = [h for h in report.table.diverged if h not in report.errors]
    if old:
        said = (
            "trial diverged in an earlier run and is" if len(old) == 1 else "trials diverged in an earlier run and are"
        )
        warn(f"{len(old)} {said} left out of the table")


def totals(reports: Sequence[Any]) -> dict[str, int]:
    """Trials by how they ended, over all runs."""
    return {what: sum(getattr(r, what) for r in reports) for what in ("ok", "diverged", "failed", "skipped")}


def summary_json(rows: Sequence[Any], sweep: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Summary rows as the JSON document holds them."""
    import math

    out = []
    for row in rows:
        data = dataclasses.asdict(row)
        for name in ("value", "low", "high"):
            data[name] = data[name] if math.isfinite(data[name]) else None
        out.append({**data, **({"sweep": dict(sweep)} if sweep else {})})
    return out


def document(experiment: Any, options: RunOptions, members: Any, reports: Any, seconds: float, page: Any) -> dict:
    """The JSON document of a run or of a sweep; config is that of the first member."""
    from featlearn.lab.trial import fields_of

    pairs = list(zip(members, reports, strict=True))
    return {
        "experiment": experiment.id,
        "preset": options.preset,
        "config": fields_of(members[0][1], "config"),
        "seconds": round(seconds, 3),
        "trials": totals(reports),
        "failures": [{"hash": h, "message": message} for r in reports for h, message in r.errors.items()],
        "warnings": [line for r in reports for line in r.warnings],
        "store": str(options.store),
        "summary": [row for (setting, _), r in pairs for row in summary_json(r.summary, setting)],
        "runs": [{"hash": r.hash, "sweep": dict(setting), "manifest": str(r.manifest)} for (setting, _), r in pairs],
        "page": str(page) if page else None,
    }


def _tables(out: Any, members: Any, reports: Any) -> None:
    for (setting, _), report in zip(members, reports, strict=True):
        if report.summary:
            against = "ours and reported, " if any(r.reported is not None for r in report.summary) else ""
            for table in fitting(report.summary, _words(setting) or f"{against}95 % intervals", out):
                put(out, table)
        else:
            out.print("no rows" + (f" at {_words(setting)}" if setting else ""))


def fitting(summary: Sequence[Any], title: str, out: Any) -> list[Any]:
    """One table of rows x metrics if the console is wide enough, else one table a metric: names are never cut."""
    from rich.measure import Measurement

    from featlearn.report.tables import wide

    whole = wide(summary, title).to_rich()
    if Measurement.get(out, out.options.update(max_width=10_000), whole).maximum <= out.width:
        return [whole]
    metrics = dict.fromkeys(r.metric for r in summary)
    return [wide([r for r in summary if r.metric == m], title).to_rich() for m in metrics]


def _page(experiment: Any, options: RunOptions, members: Any, reports: Any, command: str) -> Path | None:
    """The page of each run and of a sweep; one that cannot be written is a warning, the rows are safe."""
    from featlearn import works
    from featlearn.lab import inventory
    from featlearn.lab.find import runs
    from featlearn.lab.store import Store
    from featlearn.report.site import page, sweep

    store, site, path = Store(options.store), Path(options.site), None
    known = [inventory.load(w) for w in inventory.WORKS if w == experiment.id.split("/")[0]]
    plain = experiment.id in works.EXPERIMENTS and len(members) == 1
    try:
        for (_, config), report in zip(members, reports, strict=True):
            if report.table.rows:
                made = experiment_page(
                    experiment, config, options.preset, report.table, report.summary, store, command, report.records
                )
                own = not plain or config != experiment.presets[options.preset]
                path, problems = page(dataclasses.replace(made, run=report.hash if own else ""), site, known)
                for problem in problems:
                    warn(problem)
        group = sweep_name(experiment, members)
        if group:
            path = sweep(group, [r for r in runs(store, experiment.id) if group in r.manifest.sweeps], site)
    except ReportError as e:
        warn(f"no page was written: {e}")
        return None
    return path


def experiment_page(
    experiment: Any,
    config: Any,
    preset: str,
    table: Any,
    summary: Any,
    store: Any,
    command: str,
    known: Mapping[str, Any] | None = None,
) -> Any:
    """What the report needs to know of one run. known: records that were read already."""
    from featlearn.lab.execute import hashes_of
    from featlearn.lab.find import origin
    from featlearn.report.model import ExperimentPage

    where = origin(store, experiment.id, hashes_of(experiment, experiment.trials(config)), known)
    return ExperimentPage(experiment, config, preset, table, summary, command, where)
