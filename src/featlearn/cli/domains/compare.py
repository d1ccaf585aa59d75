"""`featlearn domains compare`: two algorithms, paired over seeds and held-out domains."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from featlearn.cli._show import console, print_json, put, warn
from featlearn.cli.domains._shared import options_of, planned
from featlearn.cli.domains.evaluate import RunsOptions, _tell_missing, config_of, tell_flat
from featlearn.errors import DONE, FAILED, CommandError


@dataclass(frozen=True)
class CompareOptions(RunsOptions):
    first: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="A")] = ""
    """An algorithm that was evaluated with these flags."""
    second: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="B")] = ""
    """Another one."""
    workers: int = 0
    """Without effect: the flags of evaluate fit here as they are."""
    out: tuple[str, ...] = ()
    """Without effect, too: --json prints what there is."""
    replace: bool = False
    """Without effect, too."""


def compare_command(args: Sequence[str]) -> int:
    """Two algorithms, paired."""
    about = "Accuracy of B minus that of A, paired over seeds and held-out domains; trains nothing."
    options = options_of(CompareOptions, args, "compare", about)
    if not options.first or not options.second:
        raise CommandError("which two algorithms? featlearn domains compare erm erm-nu --data FOLDER")
    if options.out:
        warn(f"compare writes no file: --out {' '.join(options.out)} is that of evaluate; --json prints what there is")
    from featlearn.apply.domains.runs import EXPERIMENT
    from featlearn.apply.domains.scores import choices, compare, missing, shared_draws
    from featlearn.lab.execute import hashes_of
    from featlearn.lab.store import Store

    plan = planned(options, (options.first, options.second), options.seeds, least=2, decode=False)
    config = config_of(options, (options.first, options.second), plan)
    trials = EXPERIMENT.trials(config)
    hashes = hashes_of(EXPERIMENT, trials)
    table = Store(options.store).table_of(EXPERIMENT.id, hashes)
    gone = missing(trials, hashes, table)
    domains = config.held_out or plan.found.names
    chosen = choices(shared_draws(table, gone), options.selection, plan.found.names)
    found = compare(chosen, options.first, options.second, domains)
    command = f"featlearn domains evaluate --algorithm {options.first} {options.second} with the same flags"
    if not found:
        near = _tell_nearest(options, trials)
        raise CommandError(f"{options.store} holds no pair of runs of these two{near}; to run them: {command}", FAILED)
    if options.json:
        print_json(
            {
                "first": options.first,
                "second": options.second,
                "selection": options.selection,
                "differences": [dataclasses.asdict(d) for d in found],
                "without_valley": [dataclasses.asdict(c) for c in chosen if not c.converged],
                "missing": [dataclasses.asdict(m) for m in gone],
            }
        )
    else:
        _print_differences(console(), options, found)
    alone = [m for m in gone if m.status != "diverged"]
    if options.search > 1 and alone:
        warn("only draws that both have are chosen among")
    tell_flat(chosen)
    _tell_missing(gone, len(trials), command)
    return DONE


def _tell_nearest(options: CompareOptions, trials: Sequence[Any]) -> str:
    """What tells the runs that there are from those that are meant."""
    from featlearn.apply.domains.nearest import nearest
    from featlearn.apply.domains.runs import EXPERIMENT
    from featlearn.lab.store import Store

    records = Store(options.store).records(EXPERIMENT.id)
    found = [(name, nearest(records, trials, name)) for name in (options.first, options.second)]
    told = [near.told() if near else f"it has no run of {name} at all" for name, near in found]
    return f" ({'; '.join(told)})" if records else " (it holds none at all)"


def _print_differences(out: Any, options: CompareOptions, found: Sequence[Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    title = (
        f"accuracy of {options.second} minus {options.first} in points, 95 % interval; {options.selection} selection"
    )
    table = Table("held out", "pairs", "difference", "from", "to", title=title, title_justify="left")
    last = found[-1]
    for d in found:
        one = d.n < 2
        table.add_row(Text(d.domain), str(d.n), f"{100 * d.mean:+.1f}", *(("–", "–") if one else _ends(d.low, d.high)))
    put(out, table)
    out.print(f"{options.selection} selection; {last.n} pairs of seed and held-out domain", soft_wrap=True)
    if last.by_seed is not None:
        low, high = _ends(*last.by_seed[1:])
        out.print(
            f"seeds alone counted as independent (each the mean over domains): {100 * last.by_seed[0]:+.1f},"
            f" {low} to {high}",
            soft_wrap=True,
        )


def _ends(low: float, high: float) -> tuple[str, str]:
    return f"{100 * low:+.1f}", f"{100 * high:+.1f}"
