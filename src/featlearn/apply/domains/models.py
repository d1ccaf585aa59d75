"""Fit a model on all domains, keep it with all that prediction needs, and predict images with it."""

import io
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from featlearn.apply.domains import balance as balancing
from featlearn.apply.domains import identity
from featlearn.apply.domains.balance import Balance
from featlearn.apply.domains.measures import Details, against_majority, majority, total
from featlearn.apply.domains.resumable import Result
from featlearn.apply.domains.runs import Trial, check_algorithms, checkpoint_of, trained_on
from featlearn.apply.domains.sources import OWN, Network, Source
from featlearn.apply.domains.sources import build as build_network
from featlearn.apply.domains.splits import Division, Splitting, divide
from featlearn.apply.files import keep
from featlearn.core import Key, SettingError
from featlearn.data import listing, pictures
from featlearn.data.decoding import Scale, decode, rgb, unreadable_error
from featlearn.data.decoding import limits as limits_of
from featlearn.data.domains import DomainSet
from featlearn.data.inspection import DARK
from featlearn.data.names import some
from featlearn.data.pictures import Preprocessing
from featlearn.errors import DataError, Unreadable
from featlearn.lab.provenance import provenance
from featlearn.lab.store import now
from featlearn.lab.trial import fields_of
from featlearn.methods.domains import VALIDATION, Schedule, Settings, algorithm
from featlearn.methods.domains.algorithms import settings_of
from featlearn.methods.domains.training import Processes, SingleProcess
from featlearn.nets.backbones import not_finite, read_tensors

FORMAT = 3
"""2: what counts as white in images of more than 8 bits, and whether SWAD found a valley, are in the file. 3: backbones
of other libraries."""


@dataclass(frozen=True)
class Model:
    """A fitted model: featurizer and head in evaluation mode, names of its classes, how images become its inputs.

    channels: 3, or 1 for a model of grey 28 x 28 digits; about: where it came from, plain values; code, answer: of its
    backbone when it was fitted (`identity`), "" and () for one of featlearn; seen: marks of the images that it was
    trained on or chosen by, None where they are not known; remarks: what is not as when it was fitted, a line each.
    """

    featurizer: nn.Module
    head: nn.Module
    labels: tuple[str, ...]
    network: Network
    channels: int
    preprocessing: Preprocessing
    about: dict[str, Any]
    code: str = ""
    answer: tuple[float, ...] = ()
    seen: Tensor | None = None
    remarks: tuple[str, ...] = ()


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
    splitting: Splitting | None = None,
    balance: Balance = "none",
    checkpoints: str = "",
    command: str = "",
    processes: Processes | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Model, Result]:
    """Train on all domains but `held_out`; weights are those of the best validation accuracy, or SWAD's mean.

    checkpoints: a folder in which a fit keeps its place, "" for none; a fit of the same contents and settings goes on
    from there, one of several processes with as many, and removes it at its end. command: to be kept with the model.

    Errors: SettingError or DataError before anything is trained; Diverged.
    """
    check_algorithms((algorithm_name,), network)
    chosen = algorithm(algorithm_name)
    balancing.check(balance, chosen.base)
    if held_out is not None:
        found.domain(held_out)
    processes, splitting = processes or SingleProcess(), splitting or Splitting()
    parts = divide(found, held_out, seed, splitting)
    key = Key("domains/fit") / seed
    featurizer, head = build_network(network, found.shape[0], len(found.labels), key, found.shape[1])
    check_algorithms((algorithm_name,), network, featurizer)
    code = identity.code_of(network.backbone, featurizer)
    own = {n: getattr(settings, n) for n in settings_of(chosen)}
    trial = Trial(
        source,
        len(found.domains),
        network,
        algorithm_name,
        held_out or "",
        seed,
        0,
        schedule,
        Settings(**own),
        splitting,
        balance,
    )
    checkpoint = checkpoint_of("domains/fit", trial, fit, checkpoints, processes)
    result = trained_on(
        parts,
        chosen,
        settings,
        schedule,
        (featurizer, head),
        key,
        balance=balance,
        ahead=2 if source.augment else 0,
        workers=torch.get_num_threads(),
        processes=processes,
        progress=progress,
        checkpoint=checkpoint,
    )
    if checkpoint is not None:
        checkpoint.remove()
    trained = result.trained
    evaluation, details = result.chosen(chosen.averaged)
    about: dict[str, Any] = {
        "data": found.name,
        "fingerprint": found.fingerprint,
        "domains": list(found.names),
        "held_out": held_out,
        "algorithm": algorithm_name,
        "seed": seed,
        "step": evaluation.step,
        "validation": evaluation.accuracy[VALIDATION],
        **fields_of(trial),
        "measures": _measures(details, parts, found.labels),
        "command": command,
        "device": str(processes.device),
        "made": now(),
        "with": provenance(),
    }
    del about["source"]["fingerprint"], about["draw"], about["second"]
    about["held_out"] = held_out
    about["domains"] = list(found.names)
    about["settings"] = own
    about["network"] = {"backbone": network.backbone, **{k: v for k, v in about["network"].items() if k != "called"}}
    if trained.window is not None:  # evaluations counted from 1
        window = trained.window
        about["swad"] = {"converged": window.converged, "first": window.first + 1, "last": window.last + 1}
    preprocessing = replace(source.preprocessing(), size=found.shape[1], augment=False, scale=found.scale)
    plain = replace(network, weights="", weights_hash="", frozen=network.keeps_statistics)
    featurizer, head = featurizer.eval(), head.eval()
    answer = identity.answer_of(featurizer, found.shape[1]) if network.library else ()
    seen = _seen(parts)
    labels, channels = found.labels, found.shape[0]
    return Model(featurizer, head, labels, plain, channels, preprocessing, about, code, answer, seen), result


def marks(domain: Any, rows: Sequence[int]) -> list[int]:
    """Of each row 64 bits of the digest of its file, as a whole number; [] for domains without files."""
    twins = getattr(domain, "twins", ())
    return [int.from_bytes(bytes.fromhex(twins[i][:16]), "big", signed=True) for i in rows] if twins else []


def _seen(parts: Division) -> Tensor | None:
    """Marks of all images that train or select, in order; None where some have none."""
    used = [*parts.training, *parts.watch[VALIDATION]]
    found = [m for p in used for m in marks(p.domain, p.rows.tolist())]
    known = len(found) == sum(len(p.rows) for p in used)
    return torch.tensor(sorted(set(found)), dtype=torch.int64) if known else None


def _measures(details: Details, parts: Division, labels: Sequence[str]) -> dict[str, Any]:
    """How good a fit is: on each part, on each of its domains, and what the commonest class reaches."""
    usual = majority(parts.training, len(labels))
    out: dict[str, Any] = {}
    for name, by in details.items():
        whole = total(by.values())
        level, p = against_majority(whole, usual)
        domains = {d: m.as_json(labels) for d, m in by.items()}
        short = ("images", "accuracy", "balanced", "worst_class", "ece")
        out[name] = {
            **whole.as_json(labels),
            "majority": {"class": labels[usual], "accuracy": level, "p": p},
            "domains": {d: {n: m[n] for n in short} for d, m in domains.items()},
        }
    return out


def save(model: Model, path: str | Path) -> None:
    """Write a model as tensors and plain values, under a temporary name first; as safetensors by that ending.

    Errors: SettingError for the ending of another kind of file; StoreError in one line, with the file that the model is
    kept in instead.
    """
    check_name(path)
    if Path(path).suffix.lower() == SAFETENSORS:
        keep(Path(path), safetensors_of(model))
        return
    data = contents(model)
    data |= {k: {n: v.cpu() for n, v in getattr(model, k).state_dict().items()} for k in ("featurizer", "head")}
    data |= {} if model.seen is None else {"seen": model.seen}
    buffer = io.BytesIO()
    torch.save(data, buffer)
    keep(Path(path), buffer.getvalue())


def check_name(path: str | Path) -> None:
    """Errors: SettingError for a name under which no program would look for a model of ours."""
    if Path(path).suffix.lower() == ".onnx":
        remedy = "`featlearn domains export` writes .onnx from it"
        raise SettingError("out", path, f"a name that ends in .pt or {SAFETENSORS}", remedy)


def safetensors_of(model: Model) -> bytes:
    """The bytes of a .safetensors file, what is no tensor as JSON in its metadata."""
    from safetensors.torch import save as saved

    parts = (("featurizer", model.featurizer), ("head", model.head))
    tensors = {f"{p}.{k}": v.detach().cpu().contiguous().clone() for p, m in parts for k, v in m.state_dict().items()}
    tensors |= {} if model.seen is None else {"seen": model.seen}
    return saved(tensors, {METADATA: json.dumps(contents(model))})


def contents(model: Model) -> dict[str, Any]:
    """All that a file holds of a model besides its tensors, as plain values."""
    return {
        "format": FORMAT,
        "kind": "featlearn domains",
        "backbone": model.network.backbone,
        "width": model.network.width,
        "frozen": model.network.keeps_statistics,
        "probe": model.network.probe,
        "config": model.network.config,
        "channels": model.channels,
        "labels": list(model.labels),
        "size": model.preprocessing.size,
        "mean": list(model.preprocessing.mean),
        "std": list(model.preprocessing.std),
        "depth": model.preprocessing.scale.bits,
        "float_range": model.preprocessing.scale.floats and list(model.preprocessing.scale.floats),
        "about": model.about,
        "code": model.code,
        "answer": list(model.answer),
    }


def _read(path: str | Path) -> Any:
    """What `save` or `export.to_safetensors` wrote."""
    if Path(path).suffix.lower() != SAFETENSORS or not os.path.isfile(path):
        return read_tensors(path, "model")
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            plain = json.loads((file.metadata() or {}).get(METADATA, "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no mapping
    except (SafetensorError, OSError, ValueError) as why:
        remedy = f"export it anew ({' '.join(str(why).split())[:80]})"
        raise SettingError("model", path, "a whole file of safetensors", remedy) from None
    if not isinstance(plain, dict):
        return None
    parts = ("featurizer", "head")
    found = {p: {k.removeprefix(p + "."): v for k, v in tensors.items() if k.startswith(p + ".")} for p in parts}
    return {**plain, **found, **({"seen": tensors["seen"]} if "seen" in tensors else {})}


SAFETENSORS = ".safetensors"
FITTED = "the model was fitted"
"""In remarks on images that are read in another way than a plain one is."""
METADATA = "featlearn domains"
"""Under this name a .safetensors file has what is no tensor, as JSON."""


def load(path: str | Path, own: str = "") -> Model:
    """A model that `save` wrote, or that was exported to safetensors; only tensors and plain values are unpickled.

    own: the MODULE:NAME of a model whose backbone is the user's own. It is the user who names it: no file can say which
    code is run.

    Errors: SettingError, one line: no such file, another kind of file, one of a newer version, a module of the user's
    that is not named.
    """
    data = _read(path)
    if not isinstance(data, dict) or data.get("kind") != "featlearn domains":
        raise SettingError("model", path, "a file that `featlearn domains fit` wrote", "give the one of --out")
    if not isinstance(data.get("format"), int) or data["format"] > FORMAT:
        remedy = f"it has {data.get('format')}: update featlearn"
        raise SettingError("model", path, f"of format {FORMAT} or lower", remedy)
    missing = [name for name in _PARTS if name not in data]
    if missing:
        remedy = f"{', '.join(missing)} is missing: fit it anew"
        raise SettingError("model", path, "a whole file of `featlearn domains fit`", remedy)
    bad = not_finite(data["featurizer"] | {f"head.{k}": v for k, v in data["head"].items()})
    if bad:
        remedy = f"{len(bad)} are not, first {bad[0]}: fit it anew, at a lower rate"
        raise SettingError("model", path, "with finite tensors", remedy)
    probe, config = bool(data.get("probe")), str(data.get("config") or "")
    network = Network(data["backbone"], data["width"], frozen=data["frozen"], probe=probe, config=config)
    if network.library == OWN and own != network.backbone:
        remedy = f"name it yourself: --backbone {network.backbone} runs that code"
        raise SettingError("model", path, f"with a backbone of featlearn, not {network.backbone}", remedy)
    featurizer, head = build_network(network, data["channels"], len(data["labels"]), Key("domains/load"), data["size"])
    try:
        featurizer.load_state_dict(data["featurizer"])
        head.load_state_dict(data["head"])
    except RuntimeError as why:
        reason = " ".join(str(why).split())[:160]
        raise SettingError("model", path, "with the tensors of its backbone", f"fit it anew ({reason})") from None
    floats = data.get("float_range")
    scale = Scale(data.get("depth"), tuple(floats) if floats else None)
    preprocessing = Preprocessing(data["size"], tuple(data["mean"]), tuple(data["std"]), scale=scale)
    labels, channels = tuple(data["labels"]), data["channels"]
    code, answer = str(data.get("code") or ""), tuple(data.get("answer") or ())
    remarks = _other_code(network, featurizer.eval(), data["size"], code, answer)
    about, seen = data["about"], data.get("seen")
    return Model(
        featurizer, head.eval(), labels, network, channels, preprocessing, about, code, answer, seen, tuple(remarks)
    )


def _other_code(network: Network, featurizer: Any, size: int, code: str, answer: tuple[float, ...]) -> list[str]:
    """Whether a backbone is another one than it was fitted with."""
    name = network.backbone
    if answer and identity.apart(answer, identity.answer_of(featurizer, size)):
        what = f"{name} gives other features with the weights of this model than when it was fitted"
        return [f"{what}: its code has changed since, and what it answers is not what the model had learned"]
    if code and code != identity.code_of(name, featurizer):
        return [f"the code of {name} has changed since the model was fitted; its features of fixed images have not"]
    return []


_PARTS = "backbone width frozen channels labels size mean std about featurizer head".split()


@dataclass(frozen=True)
class Prediction:
    """Of one image: the likeliest class and the probabilities of all in the order of the labels; error: why there is
    none, "" otherwise; remarks: how it was read where that is not plain."""

    path: str
    label: str
    probability: float
    probabilities: tuple[float, ...]
    error: str = ""
    remarks: tuple[str, ...] = ()


def images_in(paths: Sequence[str | Path]) -> list[Path]:
    """Files as they are, and the images in folders by name. Errors: SettingError where there is nothing."""
    return listed(paths)[0]


def listed(paths: Sequence[str | Path]) -> tuple[list[Path], list[str]]:
    """(images of `images_in`, remarks on what is left out: hidden files, other kinds, links into nothing or back)."""
    found = listing.images_in(paths)
    if not found.images:
        why = "; ".join(found.remarks()[:2]) or "check them"
        raise SettingError("images", some(list(map(str, paths))) or "none", "files, or folders with images", why)
    return found.images, found.remarks()


def predict(
    model: Model,
    paths: Sequence[str | Path],
    *,
    device: torch.device | str = "cpu",
    batch: int = 64,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
    scale: Scale | None = None,
) -> list[Prediction]:
    """Predictions in the order of the paths. A file that is no image has its reason in place of a label.

    scale: what counts as white in images of more than 8 bits, in place of what the model was fitted with.

    Errors: SettingError for a model of coloured MNIST, whose inputs are no pictures.
    """
    if model.channels not in (1, 3):
        raise SettingError("model", f"of {model.channels} channels", "1 or 3", "only these can read image files")
    model.featurizer.to(device)
    model.head.to(device)
    out: list[Prediction] = []
    for start in range(0, len(paths), batch):
        chunk = paths[start : start + batch]
        found = pictures.mapped(lambda p: _input(model, p, scale or model.preprocessing.scale), chunk, threads)
        good = [x for x, _ in found if x is not None]
        rows = iter(_probabilities(model, torch.stack(good), device) if good else ())
        for path, (x, told) in zip(chunk, found, strict=True):
            if x is None:
                out.append(Prediction(str(path), "", 0.0, (), *told))
                continue
            row = next(rows).tolist()
            best = max(range(len(row)), key=row.__getitem__)
            out.append(Prediction(str(path), model.labels[best], row[best], tuple(row), remarks=tuple(told)))
        if progress:
            progress(min(start + batch, len(paths)), len(paths))
    return out


def _input(model: Model, path: str | Path, scale: Scale) -> tuple[Tensor | None, list[str]]:
    """(pixels, remarks) of an image, or (None, [why not])."""
    try:
        found = decode(path)
        picture = rgb(found, scale)
    except Unreadable as why:
        return None, [str(unreadable_error(path, why))]
    head, told = found.header, []
    if head.orientation > 1:
        told.append("turned or mirrored as its EXIF orientation says")
    if head.orientation == 0:
        told.append("its EXIF orientation is none and not followed")
    if head.frames > 1:
        told.append(f"the first of {head.frames} pictures")
    known = model.preprocessing.scale
    if head.kind == "integer" and found.fixed is None:
        other = f"{FITTED} with {known.bits or '8 alone'}"
        told.append(f"{head.bits} bits read as {scale.bits or head.bits}, {_as_fitted(known.bits, scale.bits, other)}")
    if head.kind == "float":
        low, high = limits_of(found, scale)
        other = (
            f"{FITTED} from {known.floats[0]:g} to {known.floats[1]:g}" if known.floats else f"{FITTED} without floats"
        )
        told.append(f"floats read from {low:g} to {high:g}, {_as_fitted(known.floats, scale.floats, other)}")
    if found.values is not None and not found.inverted:
        low, high = limits_of(found, scale)
        if (float(found.values.max()) - low) <= DARK * (high - low):
            told.append("no value above a sixteenth of white: nearly black as it is read")
    told += [f"image {what}" for what in ("with an alpha channel", "in CMYK", "in LAB") if what in head.traits]
    if model.channels == 1:
        picture = picture.convert("L").convert("RGB")
    return pictures.pixels(picture, model.preprocessing.size), told


def _as_fitted(known: Any, used: Any, other: str) -> str:
    return f"as {FITTED}" if known and known == used else other


def _probabilities(model: Model, values: Tensor, device: torch.device | str) -> Tensor:
    x = pictures.normalised(values, model.preprocessing) if model.channels == 3 else values[:, :1].float() / 255
    return probabilities_of(model, x, device)


def probabilities_of(model: Model, x: Tensor, device: torch.device | str = "cpu") -> Tensor:
    """Probabilities (n, classes) of inputs as the model takes them, on the CPU.

    Errors: SettingError for a model whose answer is no number."""
    model.featurizer.to(device)
    model.head.to(device)
    with torch.no_grad():
        found = functional.softmax(model.head(model.featurizer(x.to(device))), dim=1).cpu()
    if not bool(found.isfinite().all()):
        raise SettingError("model", "one that answers nan", "finite probabilities", "fit it anew, at a lower rate")
    return found


def told_of(found: Sequence[Prediction]) -> list[str]:
    """The remarks on all predictions: a line each, with the count and the first files."""
    by: dict[str, list[str]] = {}
    for p in found:
        for remark in p.remarks:
            by.setdefault(remark, []).append(p.path)
    return [f"{len(names)} of {len(found)} images: {remark}: {some(names)}" for remark, names in by.items()]


__all__ = [
    "DataError",
    "Model",
    "Prediction",
    "fit",
    "images_in",
    "listed",
    "load",
    "predict",
    "save",
    "told_of",
]
