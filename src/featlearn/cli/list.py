"""`featlearn list`: works, experiments, claims, presets and the last verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from featlearn.cli._parse import choose, parse
from featlearn.cli._show import console, print_json, show_table, warn
from featlearn.errors import DONE, CommandError


@dataclass(frozen=True)
class ListOptions:
    work: str = ""
    """Only this work."""
    json: bool = False
    """One JSON document."""
    runs: bool = False
    """The runs in your store instead: own experiments, changed settings, sweeps."""
    store: str = "runs"
    """Folder of your runs; its verdicts are newer than the ones that ship."""


def list_command(args: Sequence[str]) -> int:
    """Show works, experiments, claims."""
    from featlearn import catalog

    options = parse(ListOptions, args, "featlearn list", "Works, experiments, claims, presets and the last verdicts.")
    if options.runs:
        return _runs(options)
    if options.work:  # before the catalog, which takes its time to be made after a change
        from featlearn.lab.inventory import WORKS

        if options.work not in WORKS:
            raise CommandError(f"no work {options.work!r}{choose(options.work, WORKS)}")
    found = catalog.read(options.store)
    works = [
        {"id": w["id"], "entries": w["entries"], "covered": len(catalog.covered(found, w["id"])), "title": w["title"]}
        for w in found["works"]
        if options.work in ("", w["id"])
    ]
    experiments = [e for e in found["experiments"] if options.work in ("", e["id"].split("/")[0])]
    claims = [c for c in found["claims"] if options.work in ("", c["id"].split(".")[0])]
    entries = [e for e in found["entries"] if options.work in ("", e["id"].split(".")[0])]
    refused = [c["why"] for c in claims if c["damaged"]]
    if refused:
        warn(f"{refused[0]}" + (f" (and {len(refused) - 1} more)" if refused[1:] else ""))
    if options.json:
        print_json({"works": works, "experiments": experiments, "claims": claims, "entries": entries})
        return DONE
    out = console()
    rows = [(w["id"], w["title"], str(w["entries"]), str(w["covered"])) for w in works]
    show_table(out, ("work", "what", "entries", "covered"), rows, "Works")
    if experiments:
        rows = [(e["id"], e["title"], " ".join(e["presets"]), e["evidence"]) for e in experiments]
        show_table(out, ("experiment", "what", "presets", "evidence"), rows, "Experiments")
    if claims:
        show_table(
            out, ("claim", "says", "verdict"), [(c["id"], c["says"], verdict_words(c)) for c in claims], "Claims"
        )
    return DONE


def _runs(options: ListOptions) -> int:
    """The runs in a store, newest first."""
    from featlearn.lab.find import runs
    from featlearn.lab.store import Store

    if not Path(options.store).is_dir():
        raise CommandError(f"no folder {options.store}: give the one of your runs, --store DIR")
    found = [r for r in runs(Store(options.store)) if options.work in ("", r.manifest.experiment.split("/")[0])]
    if options.json:
        print_json({"runs": [run_json(r) for r in found]})
        return DONE
    out = console()
    for r in found:  # one line each and never cut: the name is there to be copied
        m = r.manifest
        what = f"{m.hash}  {m.started[:16].replace('T', ' ')}  {m.experiment}: {r.words}; {r.state}"
        out.print(what + "".join(f"; sweep {name}" for name in m.sweeps), soft_wrap=True, markup=False, highlight=False)
    if not found:
        out.print(f"no runs in {options.store}", markup=False)
    return DONE


def run_json(run: Any) -> dict[str, Any]:
    """A run as the JSON document holds it."""
    m = run.manifest
    return {
        "hash": m.hash,
        "experiment": m.experiment,
        "preset": m.preset,
        "changed": dict(m.changed),
        "sweep": dict(m.sweep),
        "sweeps": dict(m.sweeps),
        "trials": {"planned": len(m.trials), "there": run.there},
        "started": m.started,
        "seconds": m.seconds,
        "command": m.command,
        "manifest": str(run.path),
    }


def verdict_words(claim: Mapping[str, Any]) -> str:
    """A claim's verdict in a cell of the table: both faces and the scope, stale where it is."""
    words = claim["verdict"]
    if claim["corrected"]:
        words += f" as reported, {claim['corrected']} as corrected"
    if claim["scope"] != "as stated":
        words += f" ({claim['scope']})"
    if claim["stale"]:
        stale = claim["stale"]
        words += f" [{stale}]" if stale == "stale rows" else f" [stale: its {stale} changed]"
    return words if claim["expected"] == claim["verdict"] or claim["verdict"] == "not run" else f"{words} (!)"
