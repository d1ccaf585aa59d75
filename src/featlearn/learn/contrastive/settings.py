"""How to pretrain contrastively: the settings of five methods, each refused before any work where it cannot be."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from featlearn.core import SettingError

Method = Literal["simclr", "moco", "nnclr", "simsiam", "simcse"]
TEMPERATURES = {"simclr": 0.5, "moco": 0.1, "nnclr": 0.1, "simsiam": 1.0, "simcse": 0.05}
"""Of each method where none is given; SimSiam has none, and 1 stands for it."""
QUEUED = ("moco", "nnclr")
"""Methods that keep a queue of embeddings of earlier batches."""


@dataclass(frozen=True)
class Contrastive:
    """Settings of contrastive pretraining; the defaults are those of the thesis where it states them.

    method: simclr (the other images of the batch are negatives), moco (version 2: a queue of keys of a slow copy),
    nnclr (the nearest neighbour in a queue is the positive), simsiam (no negatives), simcse (the two views are two
    passes with dropout).
    epochs; batch: images a step, whose short rest in an epoch is left out: another order, other rest in the next.
    rate: of SGD with momentum for a batch of 256; the rate that is used is rate * batch / 256, after `warmup` epochs of
    a linear rise, and falls as a cosine to 0. weight_decay: of all weights.
    temperature: divides cosines; None: that of the method (TEMPERATURES). queue: embeddings of moco and nnclr.
    slow: the slow copy of moco moves by 1 - slow of the distance a step.
    head: "mlp" is the method's own projection head, "none" puts the loss on the features themselves. hidden: units of
    its hidden layers, 0 for as many as there are features. dim: of the embeddings.

    Source: thesis F.3.2 (SGD, cosine, 0.06, 5e-4, 0.9, batch 512, 800 epochs); the released code has queue 4096, slow
    0.99, temperature 0.1 for moco, scales the rate by batch / 256 and has no head for it (tradeoff.method_cr).
    Differs: rate 0.03 and 10 epochs of warm-up for nnclr and simsiam are the code's, not the text's, and no default
    here; simsiam's predictor follows the schedule, where its authors keep its rate constant.
    Errors: SettingError, one line, among others for temperature 0 and a batch of 1.

    Example:
        >>> Contrastive("moco").heat
        0.1
        >>> Contrastive(temperature=0.0)
        Traceback (most recent call last):
        featlearn.errors.SettingError: temperature = 0.0 is not allowed: above 0 and finite; ...
    """

    method: Method = "simclr"
    epochs: int = 800
    batch: int = 512
    rate: float = 0.06
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warmup: int = 0
    temperature: float | None = None
    queue: int = 4096
    slow: float = 0.99
    head: Literal["mlp", "none"] = "mlp"
    hidden: int = 0
    dim: int = 128

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise SettingError("method", repr(self.method), f"one of {', '.join(get_args(Method))}", "simclr is plain")
        if self.head not in ("mlp", "none"):
            raise SettingError("head", repr(self.head), "'mlp' or 'none'", "mlp is the method's own")
        if self.head == "none" and self.method in ("nnclr", "simsiam"):
            raise SettingError("head", "'none'", f"'mlp' for {self.method}", "its predictor stands behind a projection")
        for name, least, remedy in (
            ("epochs", 1, "800 is that of the paper"),
            ("batch", 2, "an image alone has no negatives and no statistics; 256 is usual"),
            ("warmup", 0, "0 starts at the full rate"),
            ("queue", 1, "4096 is that of the released code"),
            ("hidden", 0, "0 takes as many as there are features"),
            ("dim", 2, "embeddings are directions; 128 is usual"),
        ):
            if getattr(self, name) < least:
                raise SettingError(name, getattr(self, name), f"{least} or more", remedy)
        if self.warmup >= self.epochs and self.warmup:
            raise SettingError("warmup", self.warmup, f"below epochs = {self.epochs}", "it is a part of the epochs")
        if self.temperature is not None and not 0 < self.temperature < math.inf:
            remedy = f"it divides cosines: {TEMPERATURES[self.method]} is usual for {self.method}"
            raise SettingError("temperature", self.temperature, "above 0 and finite", remedy)
        if not 0 < self.rate < math.inf:
            raise SettingError("rate", self.rate, "above 0 and finite", "0.06 is that of the paper")
        if not 0 <= self.weight_decay < math.inf:
            raise SettingError("weight_decay", self.weight_decay, "0 or more", "5e-4 is that of the paper")
        for name, remedy in (("momentum", "0.9 is usual"), ("slow", "0.99 is that of the released code")):
            if not 0 <= getattr(self, name) < 1:
                raise SettingError(name, getattr(self, name), "in [0, 1)", remedy)

    @property
    def heat(self) -> float:
        """The temperature that is used."""
        return TEMPERATURES[self.method] if self.temperature is None else self.temperature

    def rate_at(self, step: int, steps_an_epoch: int) -> float:
        """The rate of a step, counted from 0: a linear rise over `warmup` epochs, then a cosine to 0.

        r(t) = r (t + 1) / T_w for t < T_w,   r (1 + cos(pi (t - T_w) / (T - T_w))) / 2 after;   r = rate batch / 256
        """
        top = self.rate * self.batch / 256
        first, last = self.warmup * steps_an_epoch, self.epochs * steps_an_epoch
        if step < first:
            return top * (step + 1) / first
        return top * (1 + math.cos(math.pi * (step - first) / (last - first))) / 2

    def candidates(self) -> int:
        """Among how many embeddings the loss looks for the positive; 0 for simsiam, which has no negatives."""
        return {
            "simclr": 2 * self.batch - 1,
            "moco": self.queue + 1,
            "nnclr": 2 * self.batch - 1,
            "simsiam": 0,
            "simcse": self.batch,
        }[self.method]

    def chance(self) -> float:
        """The loss of embeddings that say nothing: log(candidates), all cosines equal; 0 for simsiam, whose directions
        are then independent (its lowest, -1, is reached by a collapse)."""
        return math.log(self.candidates()) if self.candidates() else 0.0
