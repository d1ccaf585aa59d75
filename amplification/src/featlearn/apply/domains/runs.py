"""Leave one domain out: what runs there are, and one run. A run is a trial of the store, so that a second call does
only what is missing, and anything with `submit` can run them."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from featlearn.apply.domains.sources import Network, Source, loaded
from featlearn.apply.domains.sources import build as build_network
from featlearn.core import Key, SettingError
from featlearn.core.device import resolve
from featlearn.data.domains import DomainSet
from featlearn.lab.experiment import Cost, Experiment, Rows, SummaryRow, TrialResult
from featlearn.methods.domains import (
    VALIDATION,
    Evaluation,
    Part,
    Schedule,
    SearchDraw,
    Settings,
    algorithm,
    build,
    features_of,
    sample,
    split,
    train,
)
from featlearn.methods.domains.algorithms import MANY_DOMAINS, settings_of
from featlearn.methods.domains.training import SingleProcess
from featlearn.methods.nuclear_norm import stable_rank

TEST, ORACLE = "test", "oracle"
"""Four fifths of the held-out domain, which nothing selects on, and the fifth for selection that looks at it."""
FLOPS = {"cnn": 7.0e8, "resnet18": 1.1e10, "resnet50": 2.5e10}
"""Of one image and step, forward and back: cnn at 64 features wide and 32 x 32 pixels, ResNets at 224 x 224."""
RATES = {"cpu": 2.5e10, "cuda": 2e13}
"""Rough operations a second, for the expected time alone."""
STEP_SECONDS = 0.01
"""What a step takes beside them."""


def check_algorithms(names: Sequence[str], network: Network) -> None:
    """Errors: SettingError for none, the same one twice, an unknown one, or MIRO without pretrained weights."""
    if not names or len(set(names)) < len(names):
        raise SettingError("algorithm", tuple(names), "one or more different ones", "for example erm erm-nu")
    for name in names:
        if algorithm(name).base == "miro" and not network.weights:
            remedy = "give --weights: it keeps close to a pretrained network"
            raise SettingError("algorithm", name, "with pretrained weights", remedy)


def check_seeds(seeds: Sequence[int], search: int) -> None:
    """Errors: SettingError for seeds that are not different numbers from 0, and for fewer than one draw."""
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise SettingError("seeds", tuple(seeds), "different whole numbers from 0", "for example 0 1 2")
    if search < 1:
        raise SettingError("search", search, "1 or more", "1 runs the settings as they are")


@dataclass(frozen=True)
class Config:
    """Which runs: every algorithm x held-out domain x seed x draw.

    domains: names, of all; classes; channels; held_out: those to leave out, () for all of them; search: draws of the
    random search, of which the first has the settings as they are; device: auto, cpu, cuda.
    """

    source: Source
    domains: tuple[str, ...]
    classes: int
    channels: int
    algorithms: tuple[str, ...] = ("erm", "erm-nu")
    network: Network = field(default_factory=Network)
    schedule: Schedule = field(default_factory=Schedule)
    settings: Settings = field(default_factory=Settings)
    held_out: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)
    search: int = 1
    device: str = "auto"

    def __post_init__(self) -> None:
        check_algorithms(self.algorithms, self.network)
        check_seeds(self.seeds, self.search)
        for name in self.algorithms:
            chosen = algorithm(name)
            if chosen.base in MANY_DOMAINS and len(self.domains) < 3:
                remedy = f"{chosen.base} needs two to train on: use erm"
                raise SettingError("domains", len(self.domains), "at least 3", remedy)
        unknown = [d for d in self.held_out if d not in self.domains]
        if unknown or len(set(self.held_out)) < len(self.held_out):
            allowed = f"different ones of {', '.join(self.domains)}"
            raise SettingError("held_out", ", ".join(self.held_out), allowed, "leave it out for all of them")


@dataclass(frozen=True)
class Trial:
    """One run."""

    source: Source
    domains: int
    network: Network
    algorithm: str
    held_out: str
    seed: int
    draw: int
    schedule: Schedule
    settings: Settings
    device: str


def trials(config: Config) -> Sequence[Trial]:
    """Every run, one seed after the other. Draws differ by what `sample` draws from seed and draw alone, so that
    algorithms are compared at equal draws."""
    out = []
    for seed in config.seeds:
        for draw in range(config.search):
            for held_out in config.held_out or config.domains:
                for name in config.algorithms:
                    drawn = SearchDraw(config.settings, config.schedule.batch, config.schedule.rate)
                    if draw:
                        drawn = sample(drawn, algorithm(name), Key("domains/search") / seed / draw)
                    schedule = dataclasses.replace(config.schedule, batch=drawn.batch, rate=drawn.rate)
                    # those of other algorithms at their defaults: changing them is no new run of this one
                    own = {n: getattr(drawn.settings, n) for n in settings_of(algorithm(name))}
                    out.append(
                        Trial(
                            config.source,
                            len(config.domains),
                            config.network,
                            name,
                            held_out,
                            seed,
                            draw,
                            schedule,
                            Settings(**own),
                            config.device,
                        )
                    )
    return out


@dataclass(frozen=True)
class Division:
    """Rows of a seed: training parts, parts to watch by name."""

    training: list[Part]
    watch: dict[str, list[Part]]


def divide(found: DomainSet, held_out: str | None, seed: int) -> Division:
    """80 % of each training domain to train on and 20 % to validate on; of the held-out domain 80 % to test on and 20 %
    for oracle selection. Without a held-out domain the latter two are left out."""
    key = Key("domains/split") / seed
    training, watch = [], {VALIDATION: []}
    for domain in found.domains:
        inside, outside = split(domain, key)
        if domain.name == held_out:
            watch |= {TEST: [inside], ORACLE: [outside]}
        else:
            training.append(inside)
            watch[VALIDATION].append(outside)
    return Division(training, watch)


def run_trial(trial: Trial) -> TrialResult:
    """Train without the held-out domain; a row per evaluation and one for SWAD's average."""
    device = resolve(trial.device)
    found = loaded(trial.source, torch.get_num_threads())
    parts = divide(found, trial.held_out, trial.seed)
    key = Key("domains/run") / trial.seed / trial.held_out
    featurizer, head = build_network(trial.network, found.shape[0], len(found.labels), key)
    chosen = algorithm(trial.algorithm)
    example = parts.training[0].domain.inputs(parts.training[0].rows[:2], None)
    method = build(chosen, trial.settings, trial.schedule.steps, len(parts.training), featurizer, example)
    schedule = dataclasses.replace(trial.schedule, ahead=2 if trial.source.augment else 0)
    trained = train(
        featurizer,
        head,
        method.objective,
        parts.training,
        schedule,
        key=key,
        watch=parts.watch,
        average=method.average,
        extra=method.extra,
        processes=SingleProcess(device),
    )
    base = {
        "algorithm": trial.algorithm,
        "held_out": trial.held_out,
        "seed": trial.seed,
        "draw": trial.draw,
        "batch": trial.schedule.batch,
        "nuclear_weight": trial.settings.nuclear_weight if chosen.nuclear else 0.0,
    }
    rows = [_row(base, "step", e) for e in trained.evaluations]
    if trained.averaged_evaluation is not None and trained.window is not None:
        valley = {"swad_converged": trained.window.converged, "swad_first": trained.window.first + 1}
        rows.append(
            {**_row(base, "average", trained.averaged_evaluation), **valley, "swad_last": trained.window.last + 1}
        )
    trained.weights_into(featurizer, head, averaged=chosen.averaged)
    features = features_of(featurizer.to(device), parts.watch[TEST], trial.schedule.precision)
    rank = {
        "stable_rank": float(stable_rank(features)),
        "stable_rank_centred": float(stable_rank(features, centred=True)),
    }
    at = trained.best.step if trained.best and not chosen.averaged else None
    for row in rows:
        if row["kind"] == ("average" if chosen.averaged else "step") and at in (None, row["step"]):
            row |= rank
    return TrialResult(rows)


def _row(base: Mapping[str, Any], kind: str, found: Evaluation) -> dict[str, Any]:
    training = {"training_loss": found.training["loss"]} if "loss" in found.training else {}
    return {
        **base,
        "kind": kind,
        "step": found.step,
        "validation": found.accuracy[VALIDATION],
        "validation_loss": found.loss[VALIDATION],
        "test": found.accuracy[TEST],
        "oracle": found.accuracy[ORACLE],
        **training,
    }


def cost(trial: Trial) -> Cost:
    """Rough seconds: operations of one image and step, times images, over a usual rate."""
    cuda = torch.cuda.is_available() and trial.device != "cpu"
    images = trial.schedule.steps * trial.schedule.batch * (trial.domains - 1)
    flops = FLOPS.get(trial.network.backbone, FLOPS["resnet50"])
    if trial.network.backbone == "cnn":
        flops *= (trial.network.width / 64) ** 2 * (trial.source.size / 32) ** 2
    else:
        flops *= (trial.source.size / 224) ** 2
    return Cost(trial.schedule.steps * STEP_SECONDS + images * flops / RATES["cuda" if cuda else "cpu"], 1500.0)


def _no_summary(table: Rows) -> Sequence[SummaryRow]:  # noqa: ARG001
    return ()


def _no_pictures(table: Rows) -> Mapping[str, Any]:  # noqa: ARG001
    return {}


EXPERIMENT = Experiment(
    id="domains/evaluate",
    version=2,
    title="Leave one domain out, on data of yours",
    reproduces=(),
    Config=Config,
    presets={},
    trials=trials,
    run_trial=run_trial,
    summarise=_no_summary,
    draw=_no_pictures,
    cost=cost,
)
