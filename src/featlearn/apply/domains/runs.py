"""Leave one domain out: what runs there are, and one run. A run is a trial of the store, so that a second call does
only what is missing, and anything with `submit` can run them."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from featlearn.apply.domains import balance as balancing
from featlearn.apply.domains.balance import Balance, balanced_minibatches, class_weights
from featlearn.apply.domains.measures import Details, Measures, majority, share_of, total
from featlearn.apply.domains.reading import prepared
from featlearn.apply.domains.resumable import Checkpoint, Keeps, Result, train_resumable
from featlearn.apply.domains.sources import Network, Source, loaded
from featlearn.apply.domains.sources import build as build_network
from featlearn.apply.domains.splits import ORACLE as ORACLE
from featlearn.apply.domains.splits import SECOND, Division, Splitting
from featlearn.apply.domains.splits import TEST as TEST
from featlearn.apply.domains.splits import divide as divide
from featlearn.apply.domains.together import Gathering, SharedCheckpoint
from featlearn.core import Diverged, Key, SettingError
from featlearn.core.device import resolve
from featlearn.lab.digest import code_digest
from featlearn.lab.experiment import Cost, Experiment, Rows, SummaryRow, TrialResult
from featlearn.lab.trial import NOTE, trial_hash
from featlearn.methods.domains import (
    VALIDATION,
    Algorithm,
    Evaluation,
    Objective,
    Schedule,
    SearchDraw,
    Settings,
    algorithm,
    build,
    features_of,
    sample,
)
from featlearn.methods.domains.algorithms import MANY_DOMAINS, settings_of
from featlearn.methods.domains.training import Processes, SingleProcess, minibatches_of_step
from featlearn.methods.nuclear_norm import stable_rank

ID, VERSION = "domains/evaluate", 4
OF_FEATURES = ("coral", "miro", "dann")
"""What these add to the cross entropy depends on the features alone."""
CHECKPOINTS = "checkpoints"
"""Folder beside the records in which runs keep their place."""
FLOPS = {"cnn": 7.0e8, "resnet18": 1.1e10, "resnet50": 2.5e10}
"""Of one image and step, forward and back: cnn at 64 features wide and 32 x 32 pixels, ResNets at 224 x 224."""
RATES = {"cpu": 2.5e10, "cuda": 2e13}
"""Rough operations a second, for the expected time alone."""
STEP_SECONDS = 0.01
"""What a step takes beside them."""


def check_algorithms(names: Sequence[str], network: Network, featurizer: Any = None) -> None:
    """featurizer: of the network, where it is made already.

    Errors: SettingError for none, the same one twice, an unknown one, MIRO without pretrained weights or without maps
    of stages, and for what asks something of features that do not learn."""
    frozen = featurizer is not None and not any(p.requires_grad for p in featurizer.parameters())
    if not names or len(set(names)) < len(names):
        raise SettingError("algorithm", tuple(names), "one or more different ones", "for example erm erm-nu")
    for name in names:
        chosen = algorithm(name)
        if chosen.base == "miro" and not network.pretrained:
            remedy = "give --weights: it keeps close to a pretrained network"
            raise SettingError("algorithm", name, "with pretrained weights", remedy)
        if chosen.base == "miro" and featurizer is not None and not hasattr(featurizer, "stages"):
            remedy = f"{network.backbone} gives features alone: take another algorithm, or timm/NAME"
            raise SettingError("algorithm", name, "with a backbone that has maps of its stages", remedy)
        if (network.probe or frozen) and (chosen.nuclear or chosen.base in OF_FEATURES):
            why = "a linear probe leaves" if network.probe else f"all of {network.backbone} is frozen, which leaves"
            remedy = f"{why} the features as they are: take erm, irm, vrex, group-dro or mixup"
            raise SettingError("algorithm", name, "one that asks nothing of the features", remedy)


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
    random search, of which the first has the settings as they are; balance: of classes; second: also runs without a
    second domain, for selection by it; device: auto, cpu, cuda; checkpoints: a folder, "" for none.
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
    splitting: Splitting = field(default_factory=Splitting)
    balance: Balance = "none"
    second: bool = False
    device: str = field(default="auto", metadata=NOTE)
    checkpoints: str = field(default="", metadata=NOTE)

    def __post_init__(self) -> None:
        check_algorithms(self.algorithms, self.network)
        check_seeds(self.seeds, self.search)
        for name in self.algorithms:
            chosen = algorithm(name)
            balancing.check(self.balance, chosen.base)
            least = (3 if chosen.base in MANY_DOMAINS else 2) + self.second
            if len(self.domains) < least:
                remedy = f"{chosen.base} needs two to train on: use erm" if chosen.base in MANY_DOMAINS else ""
                remedy = "leave-one-domain-out selection holds two out: use training-domain" if self.second else remedy
                raise SettingError("domains", len(self.domains), f"at least {least}", remedy or "add one")
        unknown = [d for d in self.held_out if d not in self.domains]
        if unknown or len(set(self.held_out)) < len(self.held_out):
            allowed = f"different ones of {', '.join(self.domains)}"
            raise SettingError("held_out", ", ".join(self.held_out), allowed, "leave it out for all of them")


@dataclass(frozen=True)
class Trial:
    """One run. second: another domain that is held out, "" for none; device and checkpoints are notes: a run is the
    same wherever it is done."""

    source: Source
    domains: int
    network: Network
    algorithm: str
    held_out: str
    seed: int
    draw: int
    schedule: Schedule
    settings: Settings
    splitting: Splitting = field(default_factory=Splitting)
    balance: Balance = "none"
    second: str = ""
    device: str = field(default="auto", metadata=NOTE)
    checkpoints: str = field(default="", metadata=NOTE)


def trials(config: Config) -> Sequence[Trial]:
    """Every run, one seed after the other. Draws differ by what `sample` draws from seed and draw alone, so that
    algorithms are compared at equal draws."""
    held_out = config.held_out or config.domains
    away = [(name, "") for name in held_out]
    if config.second:  # each two once, since either of them can select for the other
        pairs = [(a, b) for i, a in enumerate(config.domains) for b in config.domains[i + 1 :]]
        away += [pair for pair in pairs if set(pair) & set(held_out)]
    out = []
    for seed in config.seeds:
        for draw in range(config.search):
            for first, second in away:
                for name in config.algorithms:
                    drawn = SearchDraw(config.settings, config.schedule.batch, config.schedule.rate)
                    if draw:
                        drawn = sample(drawn, algorithm(name), Key("domains/search") / seed / draw)
                    # those of other algorithms at their defaults: changing them is no new run of this one
                    own = {n: getattr(drawn.settings, n) for n in settings_of(algorithm(name))}
                    out.append(
                        Trial(
                            config.source,
                            len(config.domains),
                            config.network,
                            name,
                            first,
                            seed,
                            draw,
                            dataclasses.replace(config.schedule, batch=drawn.batch, rate=drawn.rate),
                            Settings(**own),
                            config.splitting,
                            config.balance,
                            second,
                            config.device,
                            config.checkpoints,
                        )
                    )
    return out


def trained_on(
    parts: Division,
    chosen: Algorithm,
    settings: Settings,
    schedule: Schedule,
    modules: tuple[Any, torch.nn.Linear],
    key: Key,
    *,
    balance: Balance = "none",
    ahead: int = 0,
    workers: int = 0,
    processes: Processes | None = None,
    progress: Any = None,
    checkpoint: Keeps | None = None,
) -> Result:
    """Train featurizer and head by an algorithm on the training parts, and load into them what is selected.

    ahead: batches that a thread makes beforehand; workers: processes that do so instead, where there are files to read.
    """
    featurizer, head = modules
    example = parts.training[0].domain.inputs(parts.training[0].rows[:2], None)
    method = build(chosen, settings, schedule.steps, len(parts.training), featurizer, example, key / "method")
    objective: Objective = method.objective
    if balance == "weights":
        objective = balancing.weighted(objective, class_weights(parts.training, head.out_features))
    make = balanced_minibatches if balance == "batches" else minibatches_of_step
    reader = prepared(make, parts.training, schedule.batch, schedule.steps, workers)
    try:
        result = train_resumable(
            featurizer,
            head,
            objective,
            parts.training,
            dataclasses.replace(schedule, ahead=0 if reader else ahead),
            key=key,
            watch=parts.watch,
            average=method.average,
            extra=method.extra,
            processes=processes,
            progress=progress,
            checkpoint=checkpoint,
            batches=reader or make,
        )
    except Diverged:
        if checkpoint is not None:  # it would diverge again
            checkpoint.remove()
        raise
    result.trained.weights_into(featurizer, head, averaged=chosen.averaged)
    return result


def checkpoint_of(name: str, trial: Trial, code: Callable[..., Any], folder: str, processes: Processes) -> Keeps | None:
    """Where a run keeps its place; None without a folder, and for one of several processes that cannot tell each other
    its step. code: what it runs, so that other code does not go on from there."""
    if not folder or (processes.count > 1 and not isinstance(processes, Gathering)):
        return None
    own = trial_hash(name, VERSION, trial)
    kind = processes.device.type
    identity = f"{own} {code_digest(code)} {kind} {torch.__version__} {torch.get_num_threads()}"
    if isinstance(processes, Gathering) and processes.count > 1:
        which = f"{processes.index} of {processes.count}"
        path = Path(folder) / f"{own}.{which.replace(' ', '-')}.pt"
        return SharedCheckpoint(Checkpoint(path, f"{identity} {which}"), processes)
    return Checkpoint(Path(folder) / f"{own}.pt", identity)


def run_trial(trial: Trial) -> TrialResult:
    """Train without the held-out domain; a row per evaluation and one for SWAD's average.

    Arrays, in the order of the rows: who is taken for whom among the images tested on, and the bins of their
    probabilities."""
    device = resolve(trial.device)
    found = loaded(trial.source, torch.get_num_threads())
    parts = divide(found, trial.held_out, trial.seed, trial.splitting, trial.second)
    key = Key("domains/run") / trial.seed / trial.held_out
    key = key / trial.second if trial.second else key
    modules = build_network(trial.network, found.shape[0], len(found.labels), key, found.shape[1])
    chosen = algorithm(trial.algorithm)
    processes = SingleProcess(device)
    checkpoint = checkpoint_of(ID, trial, run_trial, trial.checkpoints, processes)
    result = trained_on(
        parts,
        chosen,
        trial.settings,
        trial.schedule,
        modules,
        key,
        balance=trial.balance,
        ahead=2 if trial.source.augment else 0,
        workers=torch.get_num_threads(),
        processes=processes,
        checkpoint=checkpoint,
    )
    trained = result.trained
    usual = majority(parts.training, len(found.labels))
    base = {
        "algorithm": trial.algorithm,
        "held_out": trial.held_out,
        "second": trial.second,
        "seed": trial.seed,
        "draw": trial.draw,
        "batch": trial.schedule.batch,
        "nuclear_weight": trial.settings.nuclear_weight if chosen.nuclear else 0.0,
        "classes": len(found.labels),
        "majority": share_of(parts.watch[TEST], usual),
        "validation_majority": share_of(parts.watch[VALIDATION], usual),
    }
    rows = [_row(base, "step", e, d) for e, d in zip(trained.evaluations, result.details, strict=True)]
    every = [*result.details]
    if result.averaged is not None and trained.averaged_evaluation is not None and trained.window is not None:
        valley = {"swad_converged": trained.window.converged, "swad_first": trained.window.first + 1}
        valley["swad_last"] = trained.window.last + 1
        rows.append({**_row(base, "average", trained.averaged_evaluation, result.averaged), **valley})
        every.append(result.averaged)
    tested = [total(d[TEST].values()) for d in every]
    rows = [{**row, "place": i} for i, row in enumerate(rows)]
    features = features_of(modules[0].to(device), parts.watch[TEST], trial.schedule.precision)
    rank = {
        "stable_rank": float(stable_rank(features)),
        "stable_rank_centred": float(stable_rank(features, centred=True)),
    }
    at = trained.best.step if trained.best and not chosen.averaged else None
    for row in rows:
        if row["kind"] == ("average" if chosen.averaged else "step") and at in (None, row["step"]):
            row |= rank
    if checkpoint is not None:
        checkpoint.remove()
    arrays = {
        "confusion": np.stack([m.confusion for m in tested]).astype(np.int32),
        "bins": np.stack([m.bins for m in tested]),
    }
    return TrialResult(rows, arrays)


def _row(base: Mapping[str, Any], kind: str, found: Evaluation, details: Details) -> dict[str, Any]:
    training = {"training_loss": found.training["loss"]} if "loss" in found.training else {}
    test, validation = (total(details[name].values()) for name in (TEST, VALIDATION))
    return {
        **base,
        "kind": kind,
        "step": found.step,
        "validation": found.accuracy[VALIDATION],
        "validation_loss": found.loss[VALIDATION],
        "validation_balanced": validation.balanced,
        "test": found.accuracy[TEST],
        **_told(test),
        "oracle": found.accuracy.get(ORACLE),
        **({"second_accuracy": found.accuracy[SECOND]} if SECOND in found.accuracy else {}),
        **training,
    }


def _told(test: Measures) -> dict[str, Any]:
    worst, recall = test.worst
    return {
        "images": test.n,
        "test_balanced": test.balanced,
        "test_worst_class": recall,
        "worst_class": worst,
        "test_ece": test.ece,
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
    id=ID,
    version=VERSION,
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
