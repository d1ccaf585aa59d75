"""The site: which pages and pictures it has, and their making."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from featlearn.errors import ReportError
from featlearn.lab.find import Run
from featlearn.lab.verdicts import Judged
from featlearn.report import claims as claim_pages
from featlearn.report import entry, folder, glossary, pages, pictures, results
from featlearn.report import runs as run_pages
from featlearn.report.context import Site, path
from featlearn.report.folder import MARKER, Stage, guard, staged
from featlearn.report.model import ClaimPage, ExperimentPage, as_claim_page
from featlearn.report.pictures import Drawn, Job, Made

__all__ = ["MARKER", "Built", "build", "page", "unchanged"]


@dataclass(frozen=True)
class Built:
    """What was written. index: the page to open; pages: how many; problems: what could not be drawn."""

    index: Path
    pages: int
    problems: tuple[str, ...] = ()


def unchanged(out: Path | str, inputs: str) -> Built | None:
    """The site that lies in `out`, if `build` made it from the same inputs and nobody touched its files since."""
    found = folder.unchanged(Path(out), inputs)
    return None if found is None else Built(Path(out) / "index.html", found)


def build(
    out: Path | str,
    works: Sequence[Any],
    experiments: Sequence[ExperimentPage],
    verdicts: Sequence[Judged | ClaimPage],
    progress: Callable[[int, int], None] | None = None,
    inputs: str = "",
    runs: Sequence[Run] = (),
) -> Built:
    """Write the whole site into `out`: an index, a page per work, entry, experiment and claim, pictures and CSV.

    Opens from disk without network. A file that would be the same is not written again, a picture that depends on
    nothing that has changed is not drawn again. Files of an earlier site of ours that this one no longer has are
    removed; pages written by `page` and files of anyone else stay. progress(done, pages) is called after each page.
    runs: the user's own, beside the latest one of each experiment: each has a page, and so has each sweep.
    inputs: a digest of all that is read, for `unchanged`.
    Errors, before anything is written: ReportError where `out` is a file, holds files we did not make, or two ids
    would share a file name.

    Example:
        >>> from featlearn.lab import inventory
        >>> build("site", [inventory.load("emergence")], [], []).index  # doctest: +SKIP
        PosixPath('site/index.html')
    """
    out = Path(out)
    claims = [as_claim_page(v) for v in verdicts]
    guard(out)
    swept = run_pages.sweeps(runs)
    jobs = {j.owner: j for j in map(_of_experiment, experiments) if j is not None}
    jobs |= {c.id: _of_claim(c.id, c.draw) for c in claims if c.draw is not None}
    jobs |= {j.owner: j for j in (_of_sweep(name, members) for name, members in swept.items())}
    # a page that `page` made with the pictures of the run stays: it needs the experiment's code, which is not run here
    own = [r for r in runs if folder.listed(out).files.get(path("run", r.manifest.hash)) != "page"]
    standing = folder.standing(out, jobs.values())
    drawing = pictures.drawing([j for j in jobs.values() if j.owner not in standing])
    with staged(out, "build") as stage, drawing as drawn:
        site = Site(works, experiments, claims, _into(stage, jobs, drawn, standing))
        if clash := site.clashes():
            raise ReportError(
                f"{clash[0]} is not allowed twice: two ids share this page; pass each id once, or rename one"
            )
        site.known = (
            set(site.pages()) | {path("run", r.manifest.hash) for r in runs} | {path("sweep", n) for n in swept}
        )
        todo: list[tuple[str, Callable[[], str]]] = []
        # what has no picture first: other processes draw meanwhile
        ordered = sorted(claims, key=lambda c: c.id in jobs)
        todo += [(path("claim", c.id), lambda c=c: claim_pages.claim(site, c)) for c in ordered]
        todo += [(path("work", w.id), lambda w=w: pages.work(site, w)) for w in works]
        todo += [(path("experiment", x.experiment.id), lambda x=x: results.experiment(site, x)) for x in experiments]
        # after the experiments, whose pictures they show
        todo += [(path("entry", e.id), lambda w=w, e=e: entry.entry(site, w, e)) for w in works for e in w.entries]
        todo += [(path("run", r.manifest.hash), lambda r=r: run_pages.run_page(site, r)) for r in own]
        todo += [(path("sweep", n), lambda n=n, ms=ms: run_pages.sweep_page(site, n, ms)) for n, ms in swept.items()]
        todo.append((glossary.PATH, glossary.page))
        todo.append(("index.html", lambda: pages.index(site, run_pages.listed(site, runs))))
        stage.put("style.css", _style())
        for i, (name, make) in enumerate(todo, start=1):
            stage.put(name, make().encode())
            if progress is not None:
                progress(i, len(todo))
        stage.pages, stage.inputs = len(todo), "" if site.problems else inputs
    return Built(out / "index.html", len(todo), tuple(site.problems))


def sweep(name: str, members: Sequence[Run], out: Path | str) -> Path:
    """Write the page of a sweep with its pictures into `out` and return its path. Errors: as `build`."""
    out = Path(out)
    guard(out)
    job = _of_sweep(name, members)
    with staged(out, "page") as stage:
        known = {p for p in folder.listed(out).files if p.endswith(".html") and (out / p).is_file()}
        site = Site([], [], [], _into(stage, {job.owner: job}, lambda _: pictures.made(job), {}), known)
        stage.put("style.css", _style())
        stage.put(path("sweep", name), run_pages.sweep_page(site, name, members).encode())
    return out / path("sweep", name)


def page(experiment_page: ExperimentPage, out: Path | str, works: Sequence[Any] = ()) -> tuple[Path, tuple[str, ...]]:
    """Write the page of one experiment, or of one run of it, with its pictures into `out`; its path, and what could not
    be drawn.

    Links only to pages that lie in `out` already. works: where what the paper says is taken from; empty leaves that
    out. Errors: as `build`.
    """
    out = Path(out)
    guard(out)
    run = experiment_page.run
    name = path("run", run) if run else path("experiment", experiment_page.experiment.id)
    job = _of_experiment(experiment_page)
    jobs = {job.owner: job} if job else {}
    with staged(out, "page") as stage:
        known = {p for p in folder.listed(out).files if p.endswith(".html") and (out / p).is_file()}
        made = _into(stage, jobs, lambda owner: pictures.made(jobs[owner]), {})
        site = Site(works, [experiment_page], [], made, known)
        stage.put("style.css", _style())
        stage.put(glossary.PATH, glossary.page().encode())
        stage.put(name, results.experiment(site, experiment_page).encode())
    return out / name, tuple(site.problems)


def _style() -> bytes:
    return files("featlearn.report").joinpath("style.css").read_bytes()


def _of_experiment(x: ExperimentPage) -> Job | None:
    e = x.experiment
    if not x.was_run:
        return None
    depends = pictures.key(e.draw, x.table, e.id, e.version, x.preset, x.provenance)
    return Job(e.id, f"run.{x.run}" if x.run else f"experiment.{e.id}", e.draw, x.table, depends)


def _of_claim(id_: str, draw: Callable[[], Any]) -> Job:
    """Drawn each time: the reported numbers that such a picture may show have no digest."""
    return Job(id_, f"claim.{id_}", _drawn, draw)


def _drawn(draw: Callable[[], Any]) -> Any:
    return draw()


def _of_sweep(name: str, members: Sequence[Run]) -> Job:
    depends = pictures.key(run_pages.sweep_pictures, [r.manifest for r in members], name)
    return run_pages.sweep_job(name, members, depends)


def _into(
    stage: Stage,
    jobs: Mapping[str, Job],
    drawn: Callable[[str], Sequence[Made]],
    standing: Mapping[str, Sequence[Drawn]],
) -> Callable[[str], Sequence[Drawn | str]]:
    """A function that gives the pictures of an owner once their files are on the stage."""

    def of(owner: str) -> Sequence[Drawn | str]:
        if owner not in jobs:
            return []
        if owner in standing:
            stage.stands(standing[owner])
            stage.keep(owner, jobs[owner].key, standing[owner])
            return standing[owner]
        out: list[Drawn | str] = []
        for found in drawn(owner):
            if isinstance(found, str):
                out.append(found)
                continue
            out.append(found[0])
            for kind, data in found[1].items():
                stage.put(f"{found[0].name}.{kind}", data)
        if not any(isinstance(o, str) for o in out):
            stage.keep(owner, jobs[owner].key, [o for o in out if not isinstance(o, str)])
        return out

    return of
