"""One run on turned or coloured digits with one domain held out: its settings, its data and what is measured."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.core.device import resolve
from featlearn.data import digits
from featlearn.data.domains import DomainSet, TensorDomain
from featlearn.data.mnist_domains import ANGLES, FLIPS, colored_mnist, rotated_mnist
from featlearn.lab.experiment import Cost, TrialResult
from featlearn.methods import nuclear_norm, stable_rank
from featlearn.methods.domains import VALIDATION, Algorithm, Schedule, Settings, build, features_of, split, train
from featlearn.methods.domains.training import SingleProcess
from featlearn.nets import backbone, linear_head
from featlearn.works._settings import check_counts, check_ladders, check_positive, check_seeds
from featlearn.works.nuclear.rows import Run

ROTATED, COLORED = "rotated", "colored"
TEST = "test"
NAMES = {ROTATED: tuple(f"{a}" for a in ANGLES), COLORED: ("+90%", "+80%", "-90%")}
"""Domains of each kind: angles in degrees, and how often the colour agrees with the label."""
Images = Literal["mnist", "digits"]


@dataclass(frozen=True)
class Trial:
    """One run. kind: ROTATED or COLORED; base: an algorithm without the nuclear norm; weight: of the nuclear norm by
    the rows of a step; per_domain: images of each domain, None for all."""

    images: str
    kind: str
    held_out: str
    base: str
    weight: float
    per_domain: int | None
    size: int
    width: int
    steps: int
    batch: int
    rate: float
    evaluate_every: int
    device: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class Config:
    """Tables 6.1 to 6.3 and Figures 6.4 and 6.5 on turned and coloured digits."""

    images: Images = "mnist"
    """MNIST (`featlearn data fetch mnist` brings it), or scikit-learn's 8 x 8 digits."""
    rotated: tuple[str, ...] = NAMES[ROTATED]
    """Angles to hold out, one at a time, of 0, 15, ..., 75 degrees."""
    colored: tuple[str, ...] = NAMES[COLORED]
    """Domains to hold out where the colour agrees with the label +90%, +80% or -90% of the time."""
    bases: tuple[str, ...] = ("erm", "mixup", "coral")
    """What the nuclear norm is added to: erm (and SWAD with it), mixup; coral stands beside SWAD without it."""
    weights: tuple[float, ...] = (0.01, 0.1, 0.3, 1.0)
    """Weights of the nuclear norm by the rows of a step, at the step size `rate`: one of them is chosen."""
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3, 1e-2)
    """Step sizes without the nuclear norm, one of which is chosen: as many as weights, and `rate` among them."""
    per_domain: int | None = None
    """Images of each domain; None for all, 70000 in all domains together."""
    size: int = 28
    """Pixels of an edge: 28, or 14 or 7 by means of squares."""
    width: int = 64
    """Channels of the first convolution; there are twice as many features."""
    steps: int = 5001
    """Steps."""
    batch: int = 64
    """Rows of each training domain in a step."""
    rate: float = 1e-3
    """Step size of Adam with the nuclear norm."""
    evaluate_every: int = 300
    """Steps between evaluations, which are the candidates of validation and the segments of SWAD."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """A start, a split and an order of images each."""
    device: str = "cpu"
    """cpu or cuda."""

    def __post_init__(self) -> None:
        check(self)


def check(config: Config) -> None:
    """Refuse settings of a run that cannot be."""
    check_counts(config, "steps", "evaluate_every")
    check_positive(config, "rate")
    check_seeds(config.seeds)
    check_ladders(config, "weights", "rates")
    if len(config.rates) != len(config.weights) or config.rate not in config.rates:
        allowed = f"{len(config.weights)} of them, {config.rate:g} (`rate`) among them"
        raise SettingError("rates", config.rates, allowed, "both methods choose among as many candidates")
    known = ("erm", "mixup", "coral")
    if not config.bases or len(set(config.bases)) < len(config.bases) or not set(config.bases) <= set(known):
        raise SettingError("bases", config.bases, f"different ones of {', '.join(known)}", "swad comes with erm")
    sizes = (8,) if config.images == "digits" else (7, 14, 28)
    if config.size not in sizes:
        raise SettingError("size", config.size, f"one of {sizes} for {config.images}", "28 is that of the MNIST files")
    if config.width < 8 or config.width % 8:
        raise SettingError("width", config.width, "a multiple of 8", "64 is that of the benchmark, 16 suits a CPU")
    if config.batch < 2:
        raise SettingError("batch", config.batch, "2 or more", "64 is that of the benchmark")
    if config.per_domain is not None and config.per_domain < 10:
        raise SettingError("per_domain", config.per_domain, "10 or more", "leave it out for all images")
    for kind in (ROTATED, COLORED):
        chosen = getattr(config, kind)
        if len(set(chosen)) < len(chosen) or not set(chosen) <= set(NAMES[kind]):
            allowed = f"different ones of {', '.join(NAMES[kind])}"
            raise SettingError(kind, " ".join(chosen) or "()", allowed, "they are held out, one at a time")
    if not config.rotated and not config.colored:
        raise SettingError(
            "rotated, colored", "()", "at least one domain to hold out", f"for instance {NAMES[ROTATED][-1]}"
        )


@lru_cache(maxsize=1)
def domains(images: str, kind: str, per_domain: int | None, size: int) -> DomainSet:
    """The domains of a kind; those of MNIST are read from the cache. The last set is kept for the next run.

    Errors: DataError with the command that fetches them.
    """
    if images == "mnist":
        return (rotated_mnist if kind == ROTATED else colored_mnist)(per_domain=per_domain, size=size)
    parts = [digits(tuple(range(10)), part) for part in ("train", "test")]
    x, y = torch.cat([p.x for p in parts]).view(-1, 1, 8, 8), torch.cat([p.y for p in parts])
    key = Key("nuclear/domains") / kind
    order = torch.from_numpy((key / "order").numpy().permutation(len(y)))
    found = []
    for i, name in enumerate(NAMES[kind]):
        own = order[i :: len(NAMES[kind])][:per_domain]
        if kind == ROTATED:
            inputs, target = turned(x[own], ANGLES[i]), y[own]
        else:
            g = (key / name).torch()
            target = (y[own] < 5).long() ^ (torch.rand(len(own), generator=g) < 0.25).long()
            colour = target ^ (torch.rand(len(own), generator=g) < FLIPS[i]).long()
            inputs = x[own] * functional.one_hot(colour, 2)[:, :, None, None]
        found.append(TensorDomain(name, inputs, target))
    labels = tuple("0123456789") if kind == ROTATED else ("5-9", "0-4")
    return DomainSet(f"{kind}-digits", tuple(found), labels, (found[0].x.shape[1], 8, 8))


def turned(x: Float[Tensor, "n 1 h w"], angle: int) -> Float[Tensor, "n 1 h w"]:
    """Images turned against the clock by bilinear interpolation, black outside."""
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    turn = torch.tensor([[c, -s, 0.0], [s, c, 0.0]]).expand(len(x), 2, 3)
    return functional.grid_sample(x, functional.affine_grid(turn, list(x.shape), False), align_corners=False)


def run(trial: Trial) -> TrialResult:
    """Train once without the held-out domain; a row for the weights that validation selects and one for SWAD's mean.

    Both come from the same training: SWAD's window ends where the validation loss leaves the valley, but training goes
    on. The start, the split and the order of images depend on the seed and the held-out domain alone, so runs of
    different weights are pairs.
    """
    resolve(trial.device)
    found = domains(trial.images, trial.kind, trial.per_domain, trial.size)
    key = Key("nuclear/digits") / trial.images / trial.kind / trial.held_out / trial.seed
    parts, watch = [], {VALIDATION: []}
    for domain in found.domains:
        inside, outside = split(domain, Key("nuclear/split") / trial.images / trial.kind / trial.seed)
        if domain.name == trial.held_out:
            watch[TEST] = [inside, outside]
        else:
            parts.append(inside)
            watch[VALIDATION].append(outside)
    featurizer = backbone("cnn", key / "featurizer", found.shape[0], trial.width)
    head = linear_head(featurizer.features, len(found.labels), key / "head")
    evaluations = -(-trial.steps // trial.evaluate_every)
    settings = Settings(nuclear_weight=trial.weight, swad_tolerance=max(6, evaluations + 1))
    chosen = Algorithm(trial.base, nuclear=trial.weight > 0, averaged=True)
    example = parts[0].domain.inputs(parts[0].rows[:2], None)
    method = build(chosen, settings, trial.steps, len(parts), featurizer, example)
    schedule = Schedule(trial.steps, trial.batch, trial.rate, evaluate_every=trial.evaluate_every)
    trained = train(
        featurizer,
        head,
        method.objective,
        parts,
        schedule,
        key=key,
        watch=watch,
        average=method.average,
        processes=SingleProcess(torch.device(trial.device)),
    )
    assert trained.best is not None
    assert trained.averaged_evaluation is not None
    assert trained.window is not None
    rows = []
    for averaged, at in ((False, trained.best), (True, trained.averaged_evaluation)):
        trained.weights_into(featurizer, head, averaged=averaged)
        features = features_of(featurizer.to(trial.device), watch[TEST])
        featurizer.cpu()
        with torch.no_grad():
            predicted = head.cpu()(features).argmax(1)
        rows.append(
            Run(
                data=f"{trial.kind} {trial.images}",  # pyright: ignore[reportArgumentType]
                held_out=trial.held_out,
                row=Algorithm(trial.base, averaged=averaged).name,  # pyright: ignore[reportArgumentType]
                rate=trial.rate,
                weight=trial.weight,
                seed=trial.seed,
                step=at.step,
                validation=at.accuracy[VALIDATION],
                test=at.accuracy[TEST],
                rule=ruled(predicted, torch.cat([p.domain.inputs(p.rows, None) for p in watch[TEST]])),
                norm=float(nuclear_norm(features, "mean")),
                rank=float(stable_rank(features)),
                rank_centred=float(stable_rank(features, centred=True)),
                reported=float(stable_rank(features, "reported")),
            )
        )
    return TrialResult(rows)


def ruled(predicted: Int[Tensor, " n"], images: Float[Tensor, "n c h w"]) -> float:
    """Largest share of predictions that a rule gives which sees the colour (the brightest channel) alone.

    Example:
        >>> images = torch.eye(2)[[0, 0, 1, 1]][:, :, None, None]
        >>> ruled(torch.tensor([1, 1, 0, 1]), images)
        0.75
    """
    colour = images.flatten(2).sum(2).argmax(1)
    return sum(int(predicted[colour == c].bincount().max()) for c in colour.unique()) / len(predicted)


def needs(trial: Trial) -> tuple[str, ...]:
    """What of `featlearn data` a run reads."""
    return ("mnist",) if trial.images == "mnist" else ()


def cost(trial: Trial) -> Cost:
    """From measured seconds on one core, and rough ones on a GPU."""
    kinds = len(NAMES[trial.kind])
    images = trial.per_domain or 70000 // kinds
    evaluations = -(-trial.steps // trial.evaluate_every) + 1
    seen = trial.steps * trial.batch * (kinds - 1) + evaluations * images * (1 + 0.2 * (kinds - 1)) / 3
    flops = seen * 7e8 * (trial.width / 64) ** 2 * (trial.size / 28) ** 2
    if trial.device != "cpu":
        return Cost(10 + trial.steps * 8e-3 + flops / 2e13, 3000)
    return Cost(1.5 + trial.steps * 6e-3 + flops / 3.5e10, 700)
