"""Three heads on embeddings: a linear probe, an adapter that is fine-tuned, and one with contrastive regularisation."""

import io
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from featlearn.apply.adapt.files import Embeddings
from featlearn.apply.files import keep
from featlearn.core import Diverged, Key, SettingError
from featlearn.data.names import shown, some
from featlearn.learn import Adaptation, Adapted, NoiseViews, StoredViews, fine_tune, label_split, linear_probe
from featlearn.learn.contrastive import Views, as_they_are
from featlearn.methods import contrastive_regulariser
from featlearn.nets import adapter
from featlearn.nets.backbones import not_finite, read_tensors

Method = Literal["lp", "ft", "cr"]
NAMES = {"lp": "linear probe", "ft": "fine-tuned adapter", "cr": "contrastive regularisation"}
FORMAT, KIND = 1, "featlearn adapt"
STEPS = 1500
"""Steps of training where no number of epochs is given."""
DRAWS = 2000
"""Bootstrap samples of a difference."""


@dataclass(frozen=True)
class AdaptSettings:
    """How heads are fitted and judged.

    methods: of lp, ft and cr; none given: all that the views allow. epochs: 0 for about STEPS steps, and at least
    five. rates: of ft, and 20 times each of the linear probe, one chosen by validation. weights: of cr, as many, at the
    first rate, one chosen by validation. noise, dropout: make views of the first stored one (`NoiseViews`); both 0: the
    stored views. test, validation: shares of the labelled rows, class by class, validation of what the test leaves.

    Errors: SettingError.
    """

    methods: tuple[Method, ...] = ()
    epochs: int = 0
    batch: int = 256
    rates: tuple[float, ...] = (0.2, 0.06)
    weights: tuple[float, ...] = (0.1, 1.0)
    temperature: float = 0.5
    hidden: int = 256
    noise: float = 0.0
    dropout: float = 0.0
    test: float = 0.2
    validation: float = 0.2
    seeds: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        unknown = [m for m in self.methods if m not in get_args(Method)]
        if unknown:
            raise SettingError("methods", unknown[0], "of lp, ft, cr", "leave it out for all")
        for name, least, remedy in (
            ("epochs", 0, "0 chooses"),
            ("batch", 2, "a row alone has no negatives; 256 is usual"),
            ("hidden", 1, "256 suits a CPU"),
        ):
            if getattr(self, name) < least:
                raise SettingError(name, getattr(self, name), f"{least} or more", remedy)
        for name in ("rates", "weights"):
            values = getattr(self, name)
            if not values or not all(0 < v < math.inf for v in values):
                raise SettingError(name, values, "one or more, above 0", "the defaults are a small search")
        if len(self.rates) != len(self.weights):
            remedy = "give as many of both: methods are compared after an equal search"
            raise SettingError("weights", self.weights, f"as many as rates, {len(self.rates)}", remedy)
        if not 0 < self.temperature < math.inf:
            raise SettingError("temperature", self.temperature, "above 0 and finite", "0.5 is usual")
        if self.noise != 0 or self.dropout != 0:
            NoiseViews(self.noise, self.dropout)
        for name in ("test", "validation"):
            if not 0 < getattr(self, name) < 1:
                raise SettingError(name, getattr(self, name), "in (0, 1)", "0.2 is usual")
        if not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) < len(self.seeds):
            raise SettingError("seeds", self.seeds, "different ones, 0 or more", "0 is the default")


@dataclass(frozen=True)
class Head:
    """A fitted head: `net` takes standardised embeddings (n, d) to scores (n, classes); labels: names of the classes.

    mean, scale: of each coordinate of the training rows. about: where it came from, plain values.
    """

    method: Method
    net: nn.Module
    labels: tuple[str, ...]
    mean: Float[Tensor, " d"]
    scale: Float[Tensor, " d"]
    hidden: int
    about: dict[str, Any]

    def probabilities(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n c"]:
        """Of each class (n, c), for embeddings (n, d) as they come."""
        with torch.no_grad():
            return torch.cat([self.net((part - self.mean) / self.scale).softmax(1) for part in x.split(4096)])


@dataclass(frozen=True)
class Score:
    """Of one method: accuracy on the test rows with a 95 % interval over them (Wilson), the settings that validation
    chose for each seed, and which test rows were right, as a mean over seeds (n)."""

    method: Method
    accuracy: float
    low: float
    high: float
    chosen: tuple[float, ...]
    right: Float[Tensor, " n"] = field(repr=False)


@dataclass(frozen=True)
class Result:
    """Scores by method, differences of pairs with 95 % bootstrap intervals over test rows, and the head to keep: that
    of the best validation accuracy on the first seed. rows: how many trained, validated and tested. diverged: methods
    without a score, since all their settings left the finite numbers on some seed."""

    scores: tuple[Score, ...]
    differences: dict[str, tuple[float, float, float]]
    head: Head
    rows: tuple[int, int, int]
    unlabelled: int
    diverged: tuple[Method, ...] = ()


def check_views(settings: AdaptSettings, views: int) -> tuple[Method, ...]:
    """The methods that are fitted. Errors: SettingError for cr on one stored view without noise or dropout."""
    made = settings.noise != 0 or settings.dropout != 0
    if "cr" in settings.methods and views < 2 and not made:
        remedy = "store (n, views, d), or ask for noise or dropout views: --noise 0.1"
        raise SettingError("methods", "cr with one view of each row", "two views or more", remedy)
    return settings.methods or (("lp", "ft", "cr") if views > 1 or made else ("lp", "ft"))


def fit(
    found: Embeddings,
    labels: Sequence[str],
    settings: AdaptSettings,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Fit heads on labelled embeddings, choose settings by validation, judge on rows that nothing was chosen on.

    Test, validation and training rows are the same for all methods and seeds; seeds are of starts, orders and views.
    ft and cr train the same adapter on the same views and steps. Rows with an empty label are left out.

    Source: thesis F.3.4 for foundation models, where hidden is 1024 and the regulariser SimCLR's with weight 1.
    Errors, before any training: SettingError for a class of fewer than three labels, which is named, fewer than two
    classes, another number of labels, and `check_views`. A setting whose training leaves the finite numbers is passed
    over; Diverged where no method is left.
    """
    methods = check_views(settings, found.x.shape[1])
    if len(labels) != len(found.x):
        raise SettingError("labels", len(labels), f"{len(found.x)}, one a row", "an empty one where there is none")
    named = [i for i, label in enumerate(labels) if label]
    classes = tuple(sorted({labels[i] for i in named}))
    if len(classes) < 2:
        raise SettingError("labels", f"of {len(classes)} class", "two classes or more", "label some of another")
    index = {label: c for c, label in enumerate(classes)}
    y = torch.tensor([index[labels[i]] for i in named])
    few = [c for c, m in enumerate(y.bincount().tolist()) if m < 3]
    if few:
        says = f"with {int((y == few[0]).sum())} of class {shown(classes[few[0]])!r}"
        remedy = "label more of it, or leave it out: one each trains, validates and tests"
        raise SettingError("labels", says, "three or more of each class", remedy)
    x = found.x[torch.tensor(named)]
    key = Key("adapt")
    rest, test = label_split(y, settings.test, key / "test")
    train, held = (rest[part] for part in label_split(y[rest], settings.validation, key / "validation"))
    mean, scale = _moments(x[train, 0])
    x = (x - mean) / scale
    views = _views(settings, x.shape[1])
    data = _Data(x, y, train, held, test, views, len(classes))
    tries = range(len(settings.rates))
    jobs: list[tuple[Method, int, int]] = [(m, s, i) for m in methods for s in settings.seeds for i in tries]
    fitted: dict[tuple[str, int], tuple[float, float, Adapted]] = {}
    for done, (method, seed, i) in enumerate(jobs):
        try:
            chosen, run = _one(data, settings, method, i, key / "seed" / seed)
        except Diverged:
            continue
        finally:
            if progress:
                progress(done + 1, len(jobs))
        accuracy = run.accuracy["validation"]
        if (method, seed) not in fitted or accuracy > fitted[method, seed][0]:
            fitted[method, seed] = accuracy, chosen, run
    gone: tuple[Method, ...] = tuple(m for m in methods if any((m, seed) not in fitted for seed in settings.seeds))
    left: tuple[Method, ...] = tuple(m for m in methods if m not in gone)
    if not left:
        raise Diverged(f"every head left the finite numbers at rates {settings.rates}: lower --rates")
    scores = []
    for method in left:
        runs = [fitted[method, seed] for seed in settings.seeds]
        right = torch.stack([_right(run, x[test, 0], y[test]) for _, _, run in runs]).double().mean(0)
        scores.append(Score(method, *wilson(right), tuple(chosen for _, chosen, _ in runs), right))
    pairs = [
        (a, b) for b in scores for a in scores if (a.method, b.method) in (("cr", "ft"), ("cr", "lp"), ("ft", "lp"))
    ]
    gaps = {f"{a.method} - {b.method}": bootstrap(a.right - b.right, key / "bootstrap") for a, b in pairs}
    best = max(left, key=lambda m: fitted[m, settings.seeds[0]][0])
    accuracy, chosen, run = fitted[best, settings.seeds[0]]
    about = {"embeddings": found.file, "validation": accuracy, "setting": chosen, "trained": len(train)}
    net = nn.Sequential(run.encoder, run.head).eval()
    head = Head(best, net, classes, mean, scale, settings.hidden, about)
    rows = (len(train), len(held), len(test))
    return Result(tuple(scores), gaps, head, rows, len(labels) - len(named), gone)


def seconds_expected(found: Embeddings, labelled: int, settings: AdaptSettings) -> float:
    """About how long `fit` takes: the products of its layers, at the speed of one such product here."""
    methods = check_views(settings, found.x.shape[1])
    d, h = found.x.shape[2], settings.hidden
    one, two = torch.zeros(256, d), torch.zeros(d, h)
    for _ in range(5):  # the first calls start threads
        _ = one @ two
    start, calls = time.perf_counter(), 0
    while calls < 5 or time.perf_counter() - start < 0.1:
        _, calls = one @ two, calls + 1
    speed = calls * 256 * d * h / max(time.perf_counter() - start, 1e-6)
    rows = labelled * (1 - settings.test) * (1 - settings.validation)
    passes = {"lp": 0.1, "ft": 1.0, "cr": 2.0}
    runs = len(settings.rates) * len(settings.seeds)
    # three products a layer, and about as much again for views, gathering and the optimiser
    return sum(passes[m] for m in methods) * runs * _epochs(settings, int(rows)) * rows * 6 * (d * h + h * h) / speed


@dataclass(frozen=True)
class _Data:
    x: Tensor
    y: Tensor
    train: Tensor
    held: Tensor
    test: Tensor
    views: Views
    classes: int


def _one(data: _Data, settings: AdaptSettings, method: Method, i: int, key: Key) -> tuple[float, Adapted]:
    """The setting that is tried, and its fit."""
    watch = {"validation": (data.x[data.held, 0], data.y[data.held])}
    y, epochs = data.y[data.train], _epochs(settings, len(data.train))
    if method == "lp":
        rate = 20 * settings.rates[i]
        how = Adaptation(epochs=epochs, batch=settings.batch, rate=rate, weight_decay=0.0)
        first = data.x[data.train, 0]
        return rate, linear_probe(nn.Identity(), first, y, how, key=key, watch=watch, classes=data.classes)
    rate = settings.rates[i] if method == "ft" else settings.rates[0]
    weight = settings.weights[i] if method == "cr" else 0.0
    stored = isinstance(data.views, StoredViews)
    run = fine_tune(
        adapter(data.x.shape[2], key / "adapter", settings.hidden),
        data.x[data.train] if stored else data.x[data.train, 0],
        y,
        Adaptation(epochs=epochs, batch=settings.batch, rate=rate),
        key=key,
        views=data.views,
        regulariser=lambda a, b: contrastive_regulariser(a, b, temperature=settings.temperature),
        weight=weight,
        watch=watch,
        classes=data.classes,
    )
    return (rate if method == "ft" else weight), run


def _views(settings: AdaptSettings, views: int) -> Views:
    if settings.noise != 0 or settings.dropout != 0:
        return NoiseViews(settings.noise, settings.dropout)
    return StoredViews() if views > 1 else as_they_are


def _epochs(settings: AdaptSettings, rows: int) -> int:
    return settings.epochs or max(5, math.ceil(STEPS * settings.batch / max(rows, 1)))


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and scale of each coordinate; coordinates that do not vary keep their size."""
    mean, scale = x.double().mean(0), x.double().std(0, unbiased=False)
    scale = torch.where(scale > 1e-6 * scale.max().clamp_min(1e-30), scale, 1.0)
    return mean.float(), scale.float()


def _right(run: Adapted, x: Tensor, y: Tensor) -> Bool[Tensor, " n"]:
    return run.logits(x).argmax(1) == y


def wilson(right: Float[Tensor, " n"]) -> tuple[float, float, float]:
    """(share, low, high): a share of n rows with its 95 % interval by Wilson, which is not empty at 0 and 1.

    (p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n),   z = 1.96

    Shapes: right (n), 0 or 1, or means of these over seeds. Example:
        >>> [round(v, 3) for v in wilson(torch.ones(20))]
        [1.0, 0.839, 1.0]
    """
    n, z = len(right), 1.959964
    p = float(right.double().mean())
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)
    return p, min(max(low, 0.0), p), max(min(high, 1.0), p)


def bootstrap(gaps: Float[Tensor, " n"], key: Key) -> tuple[float, float, float]:
    """(mean, low, high) of differences of n rows: 95 % percentile interval of DRAWS resamples of the rows.

    Shapes: gaps (n). Example:
        >>> bootstrap(torch.ones(10), Key("demo"))
        (1.0, 1.0, 1.0)
    """
    values, counts = np.unique(gaps.numpy(), return_counts=True)  # few values: a resample is a multinomial draw of them
    drawn = key.numpy().multinomial(len(gaps), counts / len(gaps), size=DRAWS)
    means = drawn @ values / len(gaps)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(gaps.double().mean()), float(low), float(high)


# --- files -----------------------------------------------------------------------------------------------------------


def save(head: Head, path: str | Path) -> None:
    """Write a head as tensors and plain values. Errors: StoreError in one line, with the file it is kept in instead."""
    buffer = io.BytesIO()
    data = {
        "kind": KIND,
        "format": FORMAT,
        "method": head.method,
        "labels": list(head.labels),
        "hidden": head.hidden,
        "mean": head.mean,
        "scale": head.scale,
        "about": head.about,
        "net": head.net.state_dict(),
    }
    torch.save(data, buffer)
    keep(Path(path), buffer.getvalue())


def load(path: str | Path) -> Head:
    """A head that `save` wrote; nothing but tensors and plain values is unpickled.

    Errors: SettingError, one line: no such file, another kind of file, a newer or damaged one.
    """
    data, told = read_tensors(path, "head"), shown(path)
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise SettingError("head", told, "a file that `featlearn adapt` wrote", "give the one of --out")
    if data.get("format") != FORMAT:
        raise SettingError("head", told, f"of format {FORMAT}", f"it has {data.get('format')}: update featlearn")
    missing = [name for name in ("method", "labels", "hidden", "mean", "scale", "about", "net") if name not in data]
    if missing:
        raise SettingError("head", told, "a whole file of `featlearn adapt`", f"{some(missing)} missing: fit it anew")
    d, classes, hidden = len(data["mean"]), len(data["labels"]), data["hidden"]
    linear = data["method"] == "lp"
    body = nn.Identity() if linear else adapter(d, Key("adapt/load"), hidden)
    with torch.random.fork_rng(devices=[]):
        net = nn.Sequential(body, nn.Linear(d if linear else hidden, classes))
    try:
        net.load_state_dict(data["net"])
    except RuntimeError as why:
        reason = " ".join(str(why).split())[:120]
        raise SettingError("head", told, "with the tensors of its layers", f"fit it anew ({reason})") from None
    bad = not_finite({**data["net"], "mean": data["mean"], "scale": data["scale"]})
    if bad:
        raise SettingError("head", told, "with finite tensors", f"{bad[0]} is not: fit it anew")
    mean, scale = data["mean"], data["scale"]
    return Head(data["method"], net.eval(), tuple(data["labels"]), mean, scale, hidden, data["about"])


def predict(head: Head, found: Embeddings) -> tuple[list[str], Float[Tensor, "n c"]]:
    """(label of each row, probabilities (n, c) in the order of the head's labels), of the first view of each row."""
    probabilities = head.probabilities(found.first)
    return [head.labels[i] for i in probabilities.argmax(1).tolist()], probabilities
