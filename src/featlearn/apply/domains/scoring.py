"""A fitted model on labelled images: how good it is there, domain by domain, and image by image."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from featlearn.apply.domains.measures import Measures, against_majority, total
from featlearn.apply.domains.models import FITTED, Model, Prediction, marks, predict, probabilities_of, told_of
from featlearn.apply.domains.sources import ALL as ALL
from featlearn.core import SettingError
from featlearn.data.domains import DomainSet, FileDomain
from featlearn.data.names import matched, shown, some


@dataclass(frozen=True)
class Scored:
    """One image. path: "" for those of the MNIST sets, which have none; probability: of the predicted class."""

    path: str
    domain: str
    label: str
    predicted: str
    probability: float


@dataclass(frozen=True)
class ModelScore:
    """measures: by domain, and of all together under ALL; images: in the order of domains and paths; errors: why
    files could not be read, which are in no number; remarks: what the numbers do not say."""

    measures: dict[str, Measures]
    images: list[Scored]
    errors: list[str]
    remarks: list[str]

    def as_json(self, labels: Sequence[str]) -> dict[str, dict[str, Any]]:
        """By domain all measures, the exact 95 % interval of the accuracy (Clopper and Pearson; images count as
        independent), chance, and what always answering the class that is commonest there reaches."""
        from scipy.stats import binomtest

        out = {}
        for name, m in self.measures.items():
            commonest = int(m.confusion.sum(1).argmax())
            level, p = against_majority(m, commonest)
            ends = binomtest(m.right, m.n).proportion_ci(method="exact")
            out[name] = {
                **m.as_json(labels),
                "low": float(ends.low),
                "high": float(ends.high),
                "chance": 1 / len(labels),
                "commonest": {"class": labels[commonest], "accuracy": level, "p": p},
            }
        return out


def score(
    model: Model,
    found: DomainSet,
    *,
    device: torch.device | str = "cpu",
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
    case: bool = True,
) -> ModelScore:
    """Predict labelled images and compare. Files are read as `predict` reads them, those of more than 8 bits by the
    rule of the whole set (`found.scale`). Labels are matched by name, whatever its Unicode form; case: as written.

    Errors: SettingError, before any prediction, for labels that the model does not know, and for channels that it does
    not take.
    """
    names = [matched(label, model.labels, case) for label in found.labels]
    unknown = [label for label, name in zip(found.labels, names, strict=True) if name not in model.labels]
    if unknown:
        remedy = f"{len(unknown)} of {len(found.labels)} are not: {some(unknown)}; rename them, or leave them out"
        raise SettingError("labels", found.name, f"among those of the model ({some(list(model.labels))})", remedy)
    place = torch.tensor([model.labels.index(name) for name in names])
    done, n = 0, sum(len(d.y) for d in found.domains)
    measures: dict[str, Measures] = {}
    images: list[Scored] = []
    errors: list[str] = []
    every: list[Prediction] = []
    for domain in found.domains:
        start = done
        if isinstance(domain, FileDomain):
            told = (lambda i, _, start=start: progress(start + i, n)) if progress else None
            read = predict(model, domain.paths, device=device, threads=threads, progress=told, scale=found.scale)
            every += read
            good = torch.tensor([i for i, p in enumerate(read) if not p.error], dtype=torch.int64)
            errors += [p.error for p in read if p.error]
            p = torch.tensor([read[i].probabilities for i in good.tolist()]).view(len(good), len(model.labels))
            paths = [str(domain.paths[i]) for i in good.tolist()]
        else:
            good = torch.arange(len(domain.y))
            if found.shape[0] != model.channels:
                allowed = f"{model.channels} channels, as the model was fitted"
                raise SettingError("data", f"{found.name}, of {found.shape[0]} channels", allowed, "give images alike")
            p = torch.cat([probabilities_of(model, domain.inputs(rows, None), device) for rows in good.split(256)])
            paths = [""] * len(good)
        y = place[domain.y[good]]
        done += len(domain.y)
        if not len(good):
            continue
        measures[domain.name] = Measures.of(p, y)
        guess = p.argmax(1)
        images += sorted(
            (
                Scored(path, domain.name, model.labels[c], model.labels[g], float(row[g]))
                for path, c, g, row in zip(paths, y.tolist(), guess.tolist(), p, strict=True)
            ),
            key=lambda s: s.path,
        )
    if not measures:
        raise SettingError("data", shown(found.name), "images that can be read", "none of them can")
    return ModelScore({**measures, ALL: total(measures.values())}, images, errors, _remarks(model, found, names, every))


def _remarks(model: Model, found: DomainSet, names: Sequence[str], read: Sequence[Prediction]) -> list[str]:
    about = model.about
    out = [*model.remarks, *(line for line in told_of(read) if FITTED in line)]
    here = [m for d in found.domains for m in marks(d, range(len(d.y)))]
    used = set() if model.seen is None else set(model.seen.tolist())
    known = bool(used) and bool(here)
    again = sum(m in used for m in here)
    both = sorted({d for d in about.get("domains", ()) if d != about.get("held_out")} & set(found.names))
    if again:
        of = "all of these" if again == len(here) else f"{again} of these {len(here)}"
        out.append(f"the model was trained on {of} images, or chosen by them: this is no measure of new ones")
    elif not known and found.fingerprint and found.fingerprint == about.get("fingerprint"):
        out.append("the model was fitted on these very data: this is no measure of new images")
    elif both:
        alike = ": no file is the same, but are the images others?" if known else "; are the images others?"
        out.append(f"domains of these names were trained on: {some(both)}{alike}")
    lacking = [label for label in model.labels if label not in names]
    if lacking:
        out.append(f"{len(lacking)} classes of the model have no image here: {some(lacking)}")
    return out
