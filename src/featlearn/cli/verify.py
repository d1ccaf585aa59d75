"""`featlearn verify`: check claims, say what each inventory entry of a work came to."""

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tyro

from featlearn.cli._errors import DONE, FAILED, CommandError
from featlearn.cli._parse import nearest, parse
from featlearn.cli._show import console, print_json, warn


@dataclass(frozen=True)
class VerifyOptions:
    what: tyro.conf.Positional[str]
    """A work (emergence) or the id of one claim (emergence.lemma5)."""
    json: bool = False
    """One JSON document on stdout."""
    store: str = "runs"
    """Folder of your runs: claims read their rows there or in the committed evidence, and verdicts go there."""


def verify_command(args: Sequence[str]) -> int:
    """Check the claims of a work, or one claim."""
    options = parse(
        VerifyOptions, args, "featlearn verify", "Check the claims of a work, or one claim. Claims never train."
    )
    from featlearn import catalog
    from featlearn.lab.store import StoreError

    claims, whole = claims_of(options.what)
    store = catalog.layers(options.store)
    try:
        judged = check(claims, tables_of(store), store, options.json)
    except StoreError as e:
        raise CommandError(str(e), FAILED) from e
    if options.json:
        print_json([_row(v, e) for v, e in judged])
    else:
        _show(options.what, judged, store if whole else None)
    return DONE if all(v.as_expected and not e for v, e in judged) else FAILED


def claims_of(what: str) -> tuple[tuple[Any, ...], bool]:
    """The claims of a work or the one of that id, and whether it is a whole work; CommandError with the nearest."""
    from featlearn import works
    from featlearn.lab import inventory

    work = what.partition(".")[0]
    if work not in works.WITH_CLAIMS:
        if work in inventory.WORKS and "." not in what:
            return (), True  # a work without claims: everything is "not run"
        raise CommandError(f"no work or claim {what!r}{nearest(what, inventory.WORKS)}; `featlearn list` shows all")
    claims = works.load_claims(work)
    if what == work:
        return claims, True
    found = tuple(c for c in claims if c.id == what)
    if not found:
        raise CommandError(f"no claim {what!r}{nearest(what, [c.id for c in claims])}; `featlearn list` shows all")
    return found, False


def tables_of(store: Any) -> Callable[[str], Any]:
    """Experiment id -> Table of its latest complete run: preset paper, else cpu, else small, in any layer; or None."""
    from featlearn import works
    from featlearn.lab.find import latest_complete

    def tables(id_: str) -> Any:
        found = latest_complete(works.load_experiment(id_), store)
        return None if found is None else found.table

    return tables


def check(claims: Sequence[Any], tables: Callable[[str], Any], store: Any, quiet: bool) -> list[tuple[Any, str]]:
    """(verdict, error) of every claim, each written as soon as it is known. A check that breaks is "not run"."""
    from featlearn.core import Key
    from featlearn.lab.execute import last_line
    from featlearn.lab.pending import Evidence, Verdict, verify
    from featlearn.lab.pending_verdicts import write_verdict

    out = []
    err = console(err=True)
    with err.status("") as status:
        for n, claim in enumerate(claims, start=1):
            status.update(f"{n}/{len(claims)} {claim.id}")
            start, error = time.perf_counter(), ""
            try:
                verdict = verify(claim, Key("verify"), tables)
            except Exception as e:
                error = traceback.format_exc()
                why = f"the check broke: {last_line(e)}"
                verdict = Verdict(claim, "not run", why, Evidence(not_run=why), time.perf_counter() - start)
            path = write_verdict(store, verdict, error)
            if error:
                warn(f"{claim.id}: {verdict.why} (traceback in {path})")
            out.append((verdict, error))
    return out


def _row(verdict: Any, error: str) -> dict[str, Any]:
    from featlearn.lab.pending_verdicts import NUMBERS, numbers_of

    cases = verdict.evidence.cases
    numbers = [numbers_of(c) for c in cases]
    return {
        "id": verdict.claim.id,
        "entries": list(verdict.claim.entries),
        "verdict": verdict.verdict,
        "expected": verdict.claim.expected,
        "why": verdict.why,
        "cases": [c.name for c in cases],
        **{name: [n[name] for n in numbers] for name in NUMBERS},
        "seconds": round(verdict.seconds, 3),
        "error": error,
    }


def coverage(work: str, judged: Sequence[tuple[Any, str]], store: Any) -> list[tuple[str, str, str]]:
    """(entry, verdict, by) for every inventory entry of a work.

    By the claims that cover it; else by the experiment that reproduces it (how many reported numbers, or the command
    that runs it); else "not run".
    """
    from featlearn.lab import inventory

    measured = reproduced(work, store)
    out = []
    for entry in inventory.load(work).entries:
        found = [v for v, _ in judged if entry.id in v.claim.entries]
        verdicts = ", ".join(dict.fromkeys(v.verdict for v in found))
        by = ", ".join(v.claim.id for v in found)
        out.append((entry.id, verdicts, by) if found else (entry.id, *measured.get(entry.id, ("not run", ""))))
    return out


def reproduced(work: str, store: Any) -> dict[str, tuple[str, str]]:
    """Entry -> (how many of its reported numbers were reproduced, the rows), from the experiments of a work."""
    from featlearn import works
    from featlearn.lab.execute import summary_of
    from featlearn.lab.find import latest_complete

    out: dict[str, tuple[str, str]] = {}
    for id_ in works.EXPERIMENTS:
        if id_.split("/")[0] != work:
            continue
        experiment = works.load_experiment(id_)
        found = latest_complete(experiment, store)
        summary = () if found is None else summary_of(experiment, found.table)
        for entry in experiment.reproduces:
            reported = [r for r in summary if r.entry == entry and r.reported is not None]
            good = sum(r.verdict == "reproduced" for r in reported)
            if found is None:
                state = ("not run", f"featlearn run {id_}")
            elif reported:
                state = (f"{good} of {len(reported)} reproduced", f"{id_}@{found.preset}")
            else:
                state = ("run", f"{id_}@{found.preset}")
            if out.get(entry, ("not run",))[0] in ("not run", "run"):
                out[entry] = state
    return out


def _show(what: str, judged: Sequence[tuple[Any, str]], whole: Any) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    table = Table(
        "claim",
        "verdict",
        "expected",
        "why",
        title=None if whole is None else f"Claims of {what}",
        title_justify="left",
    )
    for v, error in judged:
        style = "green" if v.as_expected and not error else "bold red"
        table.add_row(v.claim.id, Text(v.verdict, style=style), v.claim.expected, Text(v.why))
    if judged:
        out.print(table)
    if whole is not None:
        table = Table("entry", "verdict", "by", title="Coverage", title_justify="left")
        for entry, verdicts, by in coverage(what, judged, whole):
            table.add_row(entry, Text(verdicts, style="dim" if verdicts == "not run" else ""), by)
        out.print(table)
    different = [v.claim.id for v, e in judged if e or not v.as_expected]
    ended = f"; not as expected: {', '.join(different)}" if different else ", all as expected" if judged else ""
    out.print(f"{len(judged)} claims{ended}", markup=False)


__all__ = ["VerifyOptions", "check", "claims_of", "coverage", "reproduced", "tables_of", "verify_command"]
