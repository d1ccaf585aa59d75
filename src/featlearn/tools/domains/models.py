"""Fit a model on all domains, keep it with all that prediction needs, and predict images with it."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.data import pictures
from featlearn.data.catalogue import DataError
from featlearn.data.domains import DomainSet
from featlearn.data.pictures import Reading
from featlearn.methods.domains import VALIDATION, Schedule, Settings, Trained, algorithm, build, train
from featlearn.methods.domains.training import Alone, Team
from featlearn.nets import backbone, linear_head
from featlearn.nets.backbones import read_tensors
from featlearn.run.store import write_atomic
from featlearn.tools.domains.runs import divide
from featlearn.tools.domains.sources import Network, Source
from featlearn.tools.domains.sources import build as build_network

FORMAT = 1


@dataclass(frozen=True)
class Model:
    """A fitted model: featurizer and head in evaluation mode, names of its classes, how images become its inputs.

    channels: 3, or 1 for a model of grey 28 x 28 digits; about: where it came from, plain values.
    """

    featurizer: nn.Module
    head: nn.Module
    labels: tuple[str, ...]
    network: Network
    channels: int
    reading: Reading
    about: dict[str, Any]


def fit(
    source: Source,
    found: DomainSet,
    network: Network,
    algorithm_name: str,
    schedule: Schedule,
    settings: Settings,
    *,
    held_out: str | None = None,
    seed: int = 0,
    team: Team | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Model, Trained]:
    """Train on all domains but `held_out`; weights are those of the best accuracy on a fifth of each, or SWAD's mean.

    Errors: SettingError or DataError before anything is trained; Diverged.
    """
    chosen = algorithm(algorithm_name)
    if held_out is not None:
        found.domain(held_out)
    if chosen.base == "miro" and not network.weights:
        raise SettingError("algorithm", algorithm_name, "with pretrained weights", "give --weights")
    parts = divide(found, held_out, seed)
    key = Key("domains/fit") / seed
    featurizer, head = build_network(network, found.shape[0], len(found.labels), key)
    example = parts.training[0].domain.inputs(parts.training[0].rows[:2], None)
    method = build(chosen, settings, schedule.steps, len(parts.training), featurizer, example)
    schedule = replace(schedule, ahead=2 if source.augment else 0)
    trained = train(
        featurizer, head, method.objective, parts.training, schedule, key=key,
        watch=parts.watch, average=method.average, extra=method.extra, team=team or Alone(), progress=progress,
    )  # fmt: skip
    trained.weights_into(featurizer, head, averaged=chosen.averaged)
    evaluation = trained.averaged_evaluation if chosen.averaged else trained.best
    assert evaluation is not None  # there is a validation part, and an evaluation after the last step
    about = {
        "data": found.name, "fingerprint": found.fingerprint, "domains": list(found.names), "held_out": held_out,
        "algorithm": algorithm_name, "seed": seed, "step": evaluation.step,
        "validation": evaluation.accuracy[VALIDATION],
    }  # fmt: skip
    reading = Reading(found.shape[1])
    plain = replace(network, weights="")
    return Model(featurizer.eval(), head.eval(), found.labels, plain, found.shape[0], reading, about), trained


def check_target(path: str | Path, replace_it: bool) -> Path:
    """The path of a model to write, before anything is trained.

    Errors: SettingError for a file that is there already, a folder, or a folder that is not there.
    """
    path = Path(path).expanduser()
    if path.is_dir() or not path.parent.is_dir():
        raise SettingError("out", path, "a file in a folder that exists", "make the folder, or name the file")
    if path.exists() and not replace_it:
        raise SettingError("out", path, "a new file", "it is there already: --replace writes over it")
    return path


def save(model: Model, path: str | Path) -> None:
    """Write a model as tensors and plain values, under a temporary name first. Errors: StoreError in one line."""
    data = {
        "format": FORMAT,
        "kind": "featlearn domains",
        "backbone": model.network.backbone,
        "width": model.network.width,
        "frozen": model.network.frozen,
        "channels": model.channels,
        "labels": list(model.labels),
        "size": model.reading.size,
        "mean": list(model.reading.mean),
        "std": list(model.reading.std),
        "about": model.about,
        "featurizer": {k: v.cpu() for k, v in model.featurizer.state_dict().items()},
        "head": {k: v.cpu() for k, v in model.head.state_dict().items()},
    }
    buffer = io.BytesIO()
    torch.save(data, buffer)
    write_atomic(Path(path), buffer.getvalue())


def load(path: str | Path) -> Model:
    """A model that `save` wrote; nothing but tensors and plain values is unpickled.

    Errors: SettingError, one line: no such file, another kind of file, one of a newer version.
    """
    data = read_tensors(path, "model")
    if not isinstance(data, dict) or data.get("kind") != "featlearn domains":
        raise SettingError("model", path, "a file that `featlearn domains fit` wrote", "give the one of --out")
    if data["format"] > FORMAT:
        raise SettingError("model", path, f"of format {FORMAT} or lower", f"it has {data['format']}: update featlearn")
    network = Network(data["backbone"], data["width"], frozen=data["frozen"])
    featurizer = backbone(network.backbone, Key("domains/load"), data["channels"], network.width, network.frozen)
    head = linear_head(featurizer.features, len(data["labels"]), Key("domains/load"))
    featurizer.load_state_dict(data["featurizer"])
    head.load_state_dict(data["head"])
    reading = Reading(data["size"], tuple(data["mean"]), tuple(data["std"]))
    labels, channels = tuple(data["labels"]), data["channels"]
    return Model(featurizer.eval(), head.eval(), labels, network, channels, reading, data["about"])


@dataclass(frozen=True)
class Prediction:
    """Of one image: the likeliest class and the probabilities of all in the order of the labels; error: why there is
    none, "" otherwise."""

    path: str
    label: str
    probability: float
    probabilities: tuple[float, ...]
    error: str = ""


def images_in(paths: Sequence[str | Path]) -> list[Path]:
    """Files as they are, and the images in folders by name. Errors: SettingError where there is nothing."""
    out: list[Path] = []
    for path in map(Path, paths):
        inside = (p for p in path.rglob("*") if p.is_file() and p.suffix.lower() in pictures.SUFFIXES)
        out += sorted(inside) if path.is_dir() else [path]
    if not out:
        raise SettingError("images", " ".join(map(str, paths)) or "none", "files, or folders with images", "check them")
    return out


def predict(
    model: Model,
    paths: Sequence[str | Path],
    *,
    device: torch.device | str = "cpu",
    batch: int = 64,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Prediction]:
    """Predictions in the order of the paths. A file that is no image has its reason in place of a label.

    Errors: SettingError for a model of coloured MNIST, whose inputs are no pictures.
    """
    if model.channels not in (1, 3):
        raise SettingError("model", f"of {model.channels} channels", "1 or 3", "only these can read image files")
    model.featurizer.to(device)
    model.head.to(device)
    out: list[Prediction] = []
    for start in range(0, len(paths), batch):
        chunk = paths[start : start + batch]
        bad = dict(pictures.unreadable(chunk, threads))
        good = [p for i, p in enumerate(chunk) if i not in bad]
        rows = iter(_probabilities(model, good, threads, device) if good else ())
        for i, path in enumerate(chunk):
            if i in bad:
                out.append(Prediction(str(path), "", 0.0, (), bad[i]))
                continue
            row = next(rows).tolist()
            best = max(range(len(row)), key=row.__getitem__)
            out.append(Prediction(str(path), model.labels[best], row[best], tuple(row)))
        if progress:
            progress(min(start + batch, len(paths)), len(paths))
    return out


def _probabilities(model: Model, paths: Sequence[str | Path], threads: int, device: torch.device | str) -> Tensor:
    if model.channels == 3:
        x = pictures.read(paths, model.reading, threads=threads)
    else:
        grey = [pictures.pixels(pictures.open_rgb(p).convert("L").convert("RGB"), model.reading.size) for p in paths]
        x = torch.stack(grey)[:, :1].float() / 255
    with torch.no_grad():
        return functional.softmax(model.head(model.featurizer(x.to(device))), dim=1).cpu()


__all__ = ["DataError", "Model", "Prediction", "check_target", "fit", "images_in", "load", "predict", "save"]
