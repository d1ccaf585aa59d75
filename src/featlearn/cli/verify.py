"""`featlearn verify`: check claims, and say what each statement and each inventory entry came to."""

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import tyro

from featlearn.cli._parse import nearest, parse
from featlearn.cli._show import console, print_json, show_table, status, warn
from featlearn.errors import DONE, FAILED, CommandError

if TYPE_CHECKING:
    from featlearn.lab.experiment import Rows
    from featlearn.lab.store import Store
    from featlearn.lab.verdicts import Judged, JudgedStatement


@dataclass(frozen=True)
class VerifyOptions:
    what: tyro.conf.Positional[str]
    """A work (emergence), a claim (emergence.lemma5) or an entry of the inventory (fourier.theorem4_9)."""
    json: bool = False
    """One JSON document on stdout."""
    store: str = "runs"
    """Folder of your runs: claims read their rows there or in the committed evidence, and verdicts go there."""
    results: str = ""
    """Result file of `featlearn domains evaluate --protocol ... --out FILE.json`: its verdict on nuclear.tableE_1
    (VLCS), 2 (PACS), 3 (OfficeHome), 4 (TerraIncognita) or 5 (DomainNet); nothing is written."""


def verify_command(args: Sequence[str]) -> int:
    """Check the claims of a work, of an entry, or one claim."""
    about = "Check the claims of a work, of an entry, or one claim. Claims never train."
    options = parse(VerifyOptions, args, "featlearn verify", about)
    if options.results:
        return verify_results(options)
    from featlearn import catalog

    claims, whole = claims_of(options.what)
    store = catalog.layers(options.store)
    judged = [*check(claims, catalog.tables_of(store), store)]
    if options.json:
        from featlearn.lab.verdicts import as_json

        print_json([as_json(v) for v in judged])
    else:
        show(judged)
        if whole:
            show_entries(options.what, judged, store)
        elif waits := waits_of(options.what):
            console().print(f"{options.what}: data needed: {waits}", markup=False, emoji=False, soft_wrap=True)
    return DONE if all(v.as_expected for v in judged) else FAILED


def verify_results(options: VerifyOptions) -> int:
    """What a run of the user's says of a table of accuracies on photographs."""
    import dataclasses

    from featlearn.apply.domains.verdicts import FIRST, table_verdict

    found = table_verdict(options.what, options.results)
    if options.json:
        print_json({**dataclasses.asdict(found), "says": found.says})
        return DONE if found.outcome == "reproduced" else FAILED
    out = console()
    under = f" under {found.protocol}" if found.protocol else ""
    out.print(f"{found.entry}, {found.benchmark}{under}: {found.says}", markup=False, emoji=False, soft_wrap=True)
    rows = []
    for r in found.numbers:
        ends = f" [{r.low:.1f}, {r.high:.1f}]" if r.n > 1 else ""
        within = "" if r.tolerance is None else f" ± {r.tolerance:.1f}"
        said = f"accuracy of {r.row}, {r.metric}"
        rows.append((said, f"{r.value:.1f}{ends}", f"{r.reported:.1f}{within}", r.verdict, r.entry))
    if rows:
        title = "in %: mean over seeds and its 95 % interval, and the reported number with what it may be off by"
        show_table(out, ("statement", "found", "reported", "outcome", "entry"), rows, title)
    for line in (*found.why[FIRST:], *found.notes):
        out.print(f"not as in {found.protocol or 'a protocol'}: {line}", markup=False, emoji=False, soft_wrap=True)
    out.print(f"by {options.results} as it states itself; committed evidence stays as it is", soft_wrap=True)
    return DONE if found.outcome == "reproduced" else FAILED


def claims_of(what: str) -> tuple[tuple[Any, ...], bool]:
    """The claims of a work, of an entry or the one of that id, and whether it is a whole work; CommandError with the
    nearest."""
    from featlearn import works
    from featlearn.lab import inventory

    work = what.partition(".")[0]
    if work not in works.WITH_CLAIMS:
        if work in inventory.WORKS and "." not in what:
            return (), True  # a work without claims: everything is "not run"
        raise CommandError(f"no work or claim {what!r}{nearest(what, inventory.WORKS)}; `featlearn list` shows all")
    claims: tuple[Any, ...] = works.load_claims(work)
    if what == work:
        return claims, True
    found = tuple(c for c in claims if c.id == what) or tuple(c for c in claims if what in c.entries)
    if found:
        return found, False
    entries = [e.id for e in inventory.load(work).entries]
    if what in entries:
        runs = [x for x in works.EXPERIMENTS if what in works.load_experiment(x).reproduces]
        remedy = f"`featlearn run {runs[0]}` reproduces it" if runs else "nothing checks it yet"
        raise CommandError(f"{what} has no claim; {remedy}")
    known = [c.id for c in claims] + entries
    raise CommandError(f"no claim or entry {what!r}{nearest(what, known)}; `featlearn list` shows all")


def waits_of(what: str) -> str:
    """The data that an entry of the inventory waits for, with the commands; "" for others, and for claims."""
    from featlearn.lab import inventory

    entries = inventory.load(what.partition(".")[0]).entries
    return next((e.waits for e in entries if e.id == what), "")


def check(claims: Sequence[Any], tables: "Callable[[str], Rows | None]", store: "Store") -> "Iterator[Judged]":
    """The verdict on every claim, each written as soon as it is known. A check that breaks is "not run"."""
    from featlearn.core import Key
    from featlearn.lab import verdicts
    from featlearn.lab.claim import broken
    from featlearn.lab.load import last_line

    with status() as say:
        for n, claim in enumerate(claims, start=1):
            say(f"{n}/{len(claims)} {claim.id}")
            start = time.perf_counter()
            try:
                found = verdicts.check(claim, Key("verify"), tables)
            except Exception as e:
                why = f"the check broke: {last_line(e)}"
                found = verdicts.judged(broken(claim, "not run", why, traceback.format_exc()))
            found = replace(found, seconds=round(time.perf_counter() - start, 3))
            path = verdicts.write(store, found)
            if found.error:
                warn(f"{claim.id}: {found.why} (traceback in {path})")
            yield found


SIGN = {"equal": "=", "at most": "≤", "at least": "≥", "between": "from"}


def show(judged: "Sequence[Judged]") -> None:
    """A few lines for each claim: its verdict, and of each statement what was predicted, found, and the rival."""
    from rich.padding import Padding
    from rich.text import Text

    out = console()
    for v in judged:
        faces = f"{v.verdict} as reported, {v.corrected} as corrected" if v.corrected else v.verdict
        scope = ("" if v.scope == "as stated" else f", {v.scope}") + (", stale rows" if v.stale_rows else "")
        style = "bold" if v.as_expected else "bold red"
        out.print(
            Text(f"{v.id}: {faces}{scope}{'' if v.as_expected else ' (not as expected)'}", style=style), soft_wrap=True
        )
        if v.stale_rows:
            again = "; ".join(f"featlearn run {r} --again" for r in v.reads)
            out.print(Text(f"  its rows were made by other code, so it covers nothing: {again}"), soft_wrap=True)
        if not v.statements and v.why:
            out.print(Padding(Text(v.why), (0, 0, 0, 2)))
        for s in v.statements:
            came = f"{s.outcome}{'' if s.as_expected else f' (expected: {s.expect})'}"
            out.print(Padding(Text(f"{came}: {line(s)}"), (0, 0, 0, 2)))
        if v.statements:
            out.print(Text(f"  page: claim/{v.id}.html of the site that `featlearn report` makes", style="dim"))
    different = [v.id for v in judged if not v.as_expected]
    ended = f"; not as expected: {', '.join(different)}" if different else ", all as expected" if judged else ""
    out.print(f"{len(judged)} claim{'s' * (len(judged) != 1)}{ended}", markup=False, soft_wrap=True)


def line(s: "JudgedStatement") -> str:
    """One statement: name, relation and value, what was observed, the rival."""
    upper = f" to {s.upper:.5g}" if s.upper is not None else ""
    margin = f" ± {s.margin:.2g}" if s.margin else ""
    said = f"{s.name} {SIGN[s.relation]} {span(s.value)}{upper}{margin} {s.unit}".rstrip()
    seen = f"observed {span(s.observed)}"
    if len(s.observed) == 1 and (s.low[0], s.high[0]) != (s.observed[0], s.observed[0]):
        ends = ["open" if e is None else f"{e:.5g}" for e in (s.low[0], s.high[0])]
        seen += f" [{ends[0]}, {ends[1]}]"
    if s.kept != s.of:
        seen += f", {s.kept} of {s.of} elements"
    rival = f"; rival {span(s.rival)} ({s.rival_says})" if s.rival else ""
    weak = f"; {s.why}" if s.outcome not in ("confirmed", "contradicted") else ""
    return f"{said}; {seen}{rival}{weak}"


def span(values: Sequence[float]) -> str:
    """One number, or the least and the largest of several; nothing where no element meets the premise."""
    if not values:
        return "nothing"
    low, high = min(values), max(values)
    return f"{low:.5g}" if low == high else f"{low:.5g} .. {high:.5g} ({len(values)})"


def show_entries(work: str, judged: "Sequence[Judged]", store: "Store") -> None:
    """The one verdict of every entry of a work."""
    from rich.text import Text

    from featlearn import works
    from featlearn.lab import inventory
    from featlearn.lab.coverage import entry_state
    from featlearn.lab.find import latest_complete, reproductions

    runs = []
    for id_ in works.EXPERIMENTS:
        if id_.split("/")[0] == work:
            experiment = works.load_experiment(id_)
            runs += reproductions(experiment, latest_complete(experiment, store))
    rows: list[tuple[str | Text, ...]] = []
    for e in inventory.load(work).entries:
        found = entry_state(e.id, judged, runs, reasons=e.reasons, waits=e.waits)
        style = "dim" if found.verdict == "not run" else ""
        by = ", ".join(found.by) or found.why
        rows.append((e.id, Text(found.verdict, style=style), found.scope, "yes" if found.covered else "no", by))
    show_table(console(), ("entry", "verdict", "scope", "covered", "by"), rows, "Entries")
