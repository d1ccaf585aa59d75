"""Algorithms by name, their settings, and the random search over these."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featlearn.core import Key, SettingError
from featlearn.methods.domains.adversarial import dann, domain_discriminator
from featlearn.methods.domains.averaging import Kind, SwadRule
from featlearn.methods.domains.objectives import (
    ChannelScales,
    Objective,
    coral,
    erm,
    group_dro,
    irm,
    miro,
    mixup,
    vrex,
    with_nuclear_norm,
)
from featlearn.methods.domains.sharpness import sharpness_aware

BASES = ("erm", "mixup", "coral", "irm", "vrex", "group-dro", "miro", "dann", "sam")
MANY_DOMAINS = ("mixup", "coral", "vrex", "group-dro", "dann")
"""Without a second training domain these are ERM and nothing else."""
MIRO_RATE = 10.0
"""The variances of MIRO learn this much faster than the network, as in its code."""


@dataclass(frozen=True)
class Algorithm:
    """base: one of BASES; nuclear: plus the nuclear norm; averaged: SWAD's mean of the weights."""

    base: str
    nuclear: bool = False
    averaged: bool = False

    @property
    def name(self) -> str:
        """As `algorithm` reads it: "erm", "erm-nu", "swad", "swad-nu", "swad-coral", ..."""
        base = () if self.averaged and self.base == "erm" else (self.base,)
        return "-".join(("swad",) * self.averaged + base + ("nu",) * self.nuclear)


def algorithm(name: str) -> Algorithm:
    """[swad-]BASE[-nu]; "swad" and "swad-nu" stand on erm.

    Errors: SettingError with the names there are.

    Example:
        >>> algorithm("swad-nu")
        Algorithm(base='erm', nuclear=True, averaged=True)
    """
    kinds = [Algorithm(base, nu, swad) for base in BASES for nu in (False, True) for swad in (False, True)]
    known = {kind.name: kind for kind in kinds}
    if name not in known:
        allowed = f"one of {', '.join(BASES)}, with -nu behind for the nuclear norm and swad- before for averaging"
        raise SettingError("algorithm", repr(name), allowed, "for example erm-nu, mixup-nu, swad, swad-nu, swad-coral")
    return known[name]


@dataclass(frozen=True)
class Settings:
    """Settings of the algorithms; only those of the chosen one have an effect.

    nuclear_weight: lambda of the paper, with the norm divided by the rows; nuclear_start, anneal: shares of all steps
    (0.02 and 0.1: steps 101 and 500 of 5001, as in the released code). The others are weights of their objectives.
    """

    nuclear_weight: float = 0.01
    nuclear_start: float = 0.02
    mixup_alpha: float = 0.2
    coral_weight: float = 1.0
    irm_weight: float = 100.0
    vrex_weight: float = 10.0
    anneal: float = 0.1
    dro_eta: float = 0.01
    miro_weight: float = 0.1
    swad_converge: int = 3
    swad_tolerance: int = 6
    swad_ratio: float = 0.3
    swad_rule: Kind = "valley"
    dann_weight: float = 1.0
    sam_rho: float = 0.05

    def __post_init__(self) -> None:
        for name in (
            "nuclear_weight",
            "coral_weight",
            "irm_weight",
            "vrex_weight",
            "dro_eta",
            "miro_weight",
            "dann_weight",
            "sam_rho",
        ):
            if not 0 <= getattr(self, name) < float("inf"):
                raise SettingError(name, getattr(self, name), "0 or more", "0 switches the penalty off")
        for name in ("nuclear_start", "anneal"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingError(name, getattr(self, name), "in [0, 1)", "it is a share of the steps")
        if not 0 < self.mixup_alpha < float("inf"):
            raise SettingError("mixup_alpha", self.mixup_alpha, "above 0", "0.2 is usual; erm mixes nothing")
        self.rule()

    def rule(self) -> SwadRule:
        """That of SWAD."""
        return SwadRule(self.swad_converge, self.swad_tolerance, self.swad_ratio, self.swad_rule)


@dataclass(frozen=True)
class SearchDraw:
    """What one member of a random search runs with. batch: rows a domain; rate: of Adam."""

    settings: Settings
    batch: int
    rate: float


def sample(draw: SearchDraw, chosen: Algorithm, key: Key) -> SearchDraw:
    """A member of the random search around `draw`: only settings of the chosen algorithm are drawn.

    The nuclear weight is 10^U(-2.5, 0), up to 1: the reported range ends at 10^-1.5, and on digits 0.01 is not told
    from 0 (nuclear/digits). As reported: the batch, 2^U(5, 6). As in the benchmark's code: alpha of mixup and the
    weight of CORAL 10^U(-1, 1), weights of IRM and V-REx 10^U(-1, 5), their annealing 10^U(0, 4) of 5001 steps, eta of
    GroupDRO 10^U(-3, -1), weight of DANN 10^U(-2, 2); MIRO's weight is one of 0.01, 0.1, 1, SAM's rho of 0.01, 0.02,
    0.05, 0.1. The rest, the rate too, stays, since the paper searches
    nothing else. Each setting has numbers of its own: drawing one more changes no other.

    Source: thesis sec. 6.3.2 (nuclear.method_ermnu). The released code never runs a search.
    """

    def ten_to(name: str, low: float, high: float) -> float:
        return float(10 ** (key / name).numpy().uniform(low, high))

    changed: dict[str, Any] = {}
    if chosen.nuclear:
        changed["nuclear_weight"] = ten_to("nuclear_weight", -2.5, 0.0)
    if chosen.base == "mixup":
        changed["mixup_alpha"] = ten_to("mixup_alpha", -1.0, 1.0)
    if chosen.base == "coral":
        changed["coral_weight"] = ten_to("coral_weight", -1.0, 1.0)
    if chosen.base in ("irm", "vrex"):
        changed[f"{chosen.base}_weight"] = ten_to(f"{chosen.base}_weight", -1.0, 5.0)
        changed["anneal"] = min(int(ten_to("anneal", 0.0, 4.0)) / 5001, 0.999)
    if chosen.base == "group-dro":
        changed["dro_eta"] = ten_to("dro_eta", -3.0, -1.0)
    if chosen.base == "miro":
        changed["miro_weight"] = float((key / "miro_weight").numpy().choice([0.01, 0.1, 1.0]))
    if chosen.base == "dann":
        changed["dann_weight"] = ten_to("dann_weight", -2.0, 2.0)
    if chosen.base == "sam":
        changed["sam_rho"] = float((key / "sam_rho").numpy().choice([0.01, 0.02, 0.05, 0.1]))
    batch = int(2 ** (key / "batch").numpy().uniform(5, 6))
    return replace(draw, settings=replace(draw.settings, **changed), batch=batch)


@dataclass(frozen=True)
class Method:
    """What `train` needs of an algorithm: objective, extra modules with the factor of their rate, rule of the mean."""

    objective: Objective
    extra: Sequence[tuple[nn.Module, float]] = ()
    average: SwadRule | None = None


def build(
    chosen: Algorithm,
    settings: Settings,
    steps: int,
    domains: int,
    featurizer: nn.Module,
    example: Float[Tensor, "..."],
    key: Key | None = None,
) -> Method:
    """The objective of an algorithm for `domains` training domains and `steps` steps.

    featurizer: as it is before training, of which MIRO keeps a frozen copy; example: one input or more (n, ...), for
    the shapes of its stages; key: of the start of DANN's discriminator. SAM is around all of the loss, the nuclear norm
    included.

    Errors: SettingError for algorithms of MANY_DOMAINS with one domain.
    """
    if chosen.base in MANY_DOMAINS and domains < 2:
        remedy = "use erm, or add a domain (one more is held out)"
        raise SettingError("training domains", domains, f"at least 2 for {chosen.base}", remedy)
    anneal, extra = round(settings.anneal * steps), []
    objectives: dict[str, Objective] = {
        "erm": erm,
        "mixup": partial(mixup, alpha=settings.mixup_alpha),
        "coral": partial(coral, weight=settings.coral_weight),
        "irm": partial(irm, weight=settings.irm_weight, anneal=anneal),
        "vrex": partial(vrex, weight=settings.vrex_weight, anneal=anneal),
        "group-dro": partial(group_dro, eta=settings.dro_eta),
    }
    objective: Objective = objectives.get(chosen.base, erm)
    if chosen.base == "miro":
        frozen = copy.deepcopy(featurizer).eval().requires_grad_(False)
        if not callable(getattr(frozen, "stages", None)):
            raise SettingError("featurizer", type(frozen).__name__, "a module with stages(x)", "SmallCnn has it")
        with torch.no_grad():
            scales = ChannelScales(frozen.stages(example)[:-1])  # pyright: ignore[reportCallIssue]
        extra.append((scales, MIRO_RATE))
        objective = partial(miro, pretrained=frozen, scales=scales, weight=settings.miro_weight)
    elif chosen.base == "dann":
        size = _features(featurizer, example)
        told_apart = domain_discriminator(size, domains, (key or Key("domains")) / "discriminator")
        extra.append((told_apart, 1.0))
        objective = partial(dann, discriminator=told_apart, weight=settings.dann_weight)
    if chosen.nuclear:
        start = math.ceil(settings.nuclear_start * steps)
        objective = with_nuclear_norm(objective, settings.nuclear_weight, start)
    if chosen.base == "sam":
        objective = sharpness_aware(objective, settings.sam_rho)
    return Method(objective, extra, settings.rule() if chosen.averaged else None)


def _features(featurizer: nn.Module, example: Tensor) -> int:
    """How many there are; modes and statistics of the featurizer stay."""
    like = next(featurizer.parameters(), example)
    with torch.no_grad():
        return copy.deepcopy(featurizer).eval()(example.to(like.device)).shape[1]


def settings_of(chosen: Algorithm) -> tuple[str, ...]:
    """Names of the settings that have an effect for an algorithm."""
    own = {
        "erm": (),
        "mixup": ("mixup_alpha",),
        "coral": ("coral_weight",),
        "irm": ("irm_weight", "anneal"),
        "vrex": ("vrex_weight", "anneal"),
        "group-dro": ("dro_eta",),
        "miro": ("miro_weight",),
        "dann": ("dann_weight",),
        "sam": ("sam_rho",),
    }[chosen.base]
    names = {*own, *(("nuclear_weight", "nuclear_start") if chosen.nuclear else ())}
    names |= {f.name for f in fields(Settings) if f.name.startswith("swad_")} if chosen.averaged else set()
    return tuple(f.name for f in fields(Settings) if f.name in names)
