"""What the commands of `featlearn domains` share: flags, the plan they come to, remarks."""

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from featlearn.cli._parse import check_count, given, parse
from featlearn.cli._show import warn
from featlearn.errors import CommandError

T = TypeVar("T")


Depth = Literal["auto", "8", "10", "12", "14", "16", "24", "32"]
SEARCHED = 32, 64
"""From which to below which batch `methods.domains.sample` draws."""
SHOWN = 10
"""How many missing runs are listed."""


@dataclass(frozen=True)
class DataOptions:
    data: str = ""
    """A folder of domain/class/image, a .csv file (path, label, domain), or a name such as rotated-mnist."""
    skip_unreadable: bool = False
    """Leave out files that are no images, instead of refusing the data."""
    merge_case: bool = False
    """Labels that differ by case alone are one class."""
    per_domain: int | None = None
    """Images of each domain of the MNIST sets; all of them if left out."""
    size: int = 0
    """Height and width in pixels; 0: what the backbone is made for, 64 for cnn, 28 for the MNIST sets."""
    depth: Depth = "auto"
    """Bits of white in images of more than 8 bits; auto: 8, 12 or 16, by the range of the whole set."""
    float_range: tuple[float, float] | None = None
    """Black and white of floating point images; 0 1 or 0 255 by the range of the whole set if left out."""
    json: bool = False
    """One JSON document on stdout; everything else goes to stderr."""


@dataclass(frozen=True)
class TrainOptions(DataOptions):
    protocol: Literal["", "dg-nu", "domainbed"] = ""
    """For PACS, VLCS, OfficeHome, TerraIncognita, DomainNet: all flags as the released code has them, but for those
    that are given."""
    backbone: str = "cnn"
    """cnn: four convolutions, for small images or a CPU; resnet18, resnet50; timm/NAME, torchvision/NAME, clip/FOLDER
    or clip/HUB-ID; MODULE:NAME, a module of yours."""
    weights: str = ""
    """File of pretrained weights, as torchvision or torch.save wrote it, or of a backbone of your own; "pretrained", or
    a version such as IMAGENET1K_V1, for those that the library has."""
    probe: bool = False
    """A linear probe: the head alone learns, on features as they are."""
    width: int = 64
    """Channels of cnn; it gives twice as many features."""
    batch_norm: Literal["auto", "frozen", "learned"] = "auto"
    """Statistics of batch norm; auto: frozen with --weights, learned without, as given for a module of yours. Nothing
    else is frozen."""
    augment: Literal["auto", "yes", "no"] = "auto"
    """Random crops, flips and colours; auto: for all but cnn."""
    split: Literal["stratified", "random"] = "stratified"
    """stratified: a fifth of each class validates, and images of the same bytes stay together; random: a fifth of all,
    as the benchmark does."""
    group: str = ""
    """Column of the .csv file (subject, site, camera) whose rows stay together when domains are split."""
    split_column: str = ""
    """Column of the .csv file that says train, val or test of each row, in place of a split."""
    balance: Literal["none", "weights", "batches"] = "none"
    """Classes of very different sizes: weights in the loss, or batches that hold all classes alike."""
    steps: int = 5001
    """Steps of training."""
    batch: int = 0
    """Images a domain and step; 0: 64 for cnn, 32 for the others."""
    rate: float = 0.0
    """Learning rate of Adam; 0: 5e-5 for a pretrained backbone, 1e-3 for cnn, a random start and a linear probe."""
    weight_decay: float = 0.0
    """Of Adam."""
    evaluate_every: int = 300
    """Steps between evaluations."""
    evaluate_from: int = 0
    """A step after which there is an evaluation; 1: after steps 1, 101, 201, ..., as the released code."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the forward pass."""
    device: str = "auto"
    """auto: the GPU where there is one."""
    threads: int = 0
    """Threads of one run, also to decode images; 0: one on a CPU (fit: all), the share of the cores on a GPU."""
    nuclear_weight: float = 0.01
    """Lambda of -nu, of the nuclear norm over the rows of the batch. 0.01 is published for ResNet-50; no good default
    is known for other networks (docs/domains.md), so search up to 1."""
    nuclear_start: float = 0.02
    """Share of the steps before -nu sets in."""
    mixup_alpha: float = 0.2
    """Of mixup."""
    coral_weight: float = 1.0
    """Of coral."""
    irm_weight: float = 100.0
    """Of irm, after annealing."""
    vrex_weight: float = 10.0
    """Of vrex, after annealing."""
    anneal: float = 0.1
    """Share of the steps before irm and vrex have their weight."""
    dro_eta: float = 0.01
    """Of group-dro."""
    miro_weight: float = 0.1
    """Of miro."""
    swad_converge: int = 3
    """Evaluations without improvement that begin the average."""
    swad_tolerance: int = 6
    """Evaluations above the threshold that end it."""
    swad_ratio: float = 0.3
    """The threshold is this much above the loss where it began."""
    swad_rule: Literal["valley", "paper", "released"] = "valley"
    """Which part of the valley is averaged: as docs/domains.md says, as the paper has it, or as its released code."""
    dann_weight: float = 1.0
    """Of dann, of the gradient that is turned round."""
    sam_rho: float = 0.05
    """Of sam: how far it looks."""


def options_of(kind: type[T], args: Sequence[str], name: str, about: str) -> T:
    """The flags of a command; --data is needed."""
    options: Any = parse(kind, args, f"featlearn domains {name}", about)
    if not options.data:
        raise CommandError(f"data is missing: --data FOLDER names it (featlearn domains {name} --help)")
    return with_preset(options, given(args)) if getattr(options, "protocol", "") else options


def with_preset(options: Any, stated: Collection[str]) -> Any:
    """The flags of --protocol in place of those that are not stated."""
    from featlearn.apply.domains.protocols import benchmark_of, domains_in, preset

    wanted = preset(options.protocol, benchmark_of(domains_in(options.data), options.data))
    flags = {f.name for f in dataclasses.fields(options)} - set(stated)
    if "backbone" in stated and options.backbone != wanted["backbone"]:
        flags -= {"weights", "batch_norm"}
    return dataclasses.replace(options, **{n: v for n, v in wanted.items() if n in flags})


def scale_of(options: Any, known: Any) -> Any:
    """What counts as white: as the flags state it, or as a model knows it."""
    from featlearn.data.decoding import Scale

    bits = known.bits if options.depth == "auto" else int(options.depth)
    return Scale(bits, options.float_range or known.floats)


@dataclass(frozen=True)
class Plan:
    """What flags come to: the data, and everything with its automatic values filled in."""

    found: Any
    source: Any
    network: Any
    schedule: Any
    settings: Any
    splitting: Any


def source_of(options: DataOptions, backbone: str = "cnn", augment: str = "auto") -> Any:
    """Where the images come from, automatic values filled in."""
    from featlearn.apply.domains.libraries import IMAGENET_MEAN, IMAGENET_STD, inputs_of
    from featlearn.apply.domains.sources import Source
    from featlearn.data.decoding import Scale
    from featlearn.data.mnist_domains import NAMES

    mnist = options.data in NAMES
    made_for = inputs_of(backbone)
    size = options.size or (28 if mnist else 64 if backbone == "cnn" else made_for.size)
    usual = (made_for.mean, made_for.std) == (IMAGENET_MEAN, IMAGENET_STD)
    wanted = (backbone != "cnn" and not mnist) if augment == "auto" else augment == "yes"
    scale = scale_of(options, Scale())
    if wanted and mnist:
        raise CommandError(f"augment = yes is not allowed for {options.data}, which is not augmented; leave it out")
    return Source(
        options.data,
        size,
        wanted,
        options.per_domain,
        options.skip_unreadable,
        options.merge_case,
        depth=scale.bits,
        float_range=scale.floats,
        mean=None if usual else made_for.mean,
        std=None if usual else made_for.std,
    )


def planned(
    options: TrainOptions, algorithms: Sequence[str], seeds: Sequence[int], least: int, decode: bool | None = None
) -> Plan:
    """Everything checked, before any work: algorithms, settings and weights first, then the data."""
    from featlearn.apply.domains import balance, sources, splits
    from featlearn.apply.domains.runs import check_algorithms, check_seeds
    from featlearn.core import Key
    from featlearn.core.device import resolve
    from featlearn.lab.submit import cores
    from featlearn.methods.domains import Schedule, Settings, algorithm

    check_count("threads", options.threads, 0, "chooses")
    small = options.backbone == "cnn"
    network = sources.Network(options.backbone, options.width, options.weights, probe=options.probe)
    tuned = network.pretrained or network.library == "clip"
    schedule = Schedule(
        options.steps,
        options.batch or (64 if small else 32),
        options.rate or (5e-5 if tuned and not small and not options.probe else 1e-3),
        options.weight_decay,
        options.evaluate_every,
        options.precision,
        evaluate_from=options.evaluate_from,
    )
    settings = Settings(**{f.name: getattr(options, f.name) for f in dataclasses.fields(Settings)})
    if small and options.batch_norm != "auto":
        raise CommandError(f"batch_norm = {options.batch_norm} is not allowed for cnn, which has none; leave it out")
    frozen = {"auto": None, "frozen": True, "learned": False}[options.batch_norm]
    source = source_of(options, options.backbone, options.augment)
    network = sources.with_hash(dataclasses.replace(network, frozen=frozen), source.size)
    check_algorithms(algorithms, network)
    for name in algorithms:
        balance.check(options.balance, algorithm(name).base)
    check_seeds(seeds, getattr(options, "search", 1))
    resolve(options.device)
    found = sources.load(source, cores(), least, None if options.skip_unreadable else decode)
    splitting = splits.checked(splits.Splitting(options.split, options.group, options.split_column), found)
    if least > 1:
        splits.check_trains(splitting, found, getattr(options, "held_out", ()))
    if least > 1 or getattr(options, "held_out", ""):
        found = dataclasses.replace(found, remarks=(*found.remarks, *splits.shared(splitting, found)))
    key = Key("domains/check")
    featurizer, _ = sources.build(network, found.shape[0], len(found.labels), key, found.shape[1])
    check_algorithms(algorithms, network, featurizer)
    if not options.rate and network.library == "own" and not (options.probe or options.weights):
        learns = any(p.requires_grad for p in featurizer.parameters())
        schedule = dataclasses.replace(schedule, rate=5e-5 if learns else 1e-3)
        of = "as for pretrained weights: a random start needs more" if learns else "for a head on frozen features"
        warn(f"{options.backbone}: nothing says whether it is pretrained; the rate is {schedule.rate:g}, {of} (--rate)")
    if options.batch and getattr(options, "search", 1) > 1 and not SEARCHED[0] <= schedule.batch < SEARCHED[1]:
        batch = f"from {SEARCHED[0]} to {SEARCHED[1] - 1} whatever --batch is: {schedule.batch} is that of draw 0 alone"
        warn(f"--search draws batches {batch}")
    if not small and not options.probe:
        _tell_start(options, network)
    if options.probe and not network.pretrained:
        warn(f"a linear probe of {options.backbone} with random weights: --weights gives it pretrained ones")
    _tell_few_evaluations(options, algorithms, schedule)
    return Plan(found, sources.with_fingerprint(source, found), network, schedule, settings, splitting)


def _tell_start(options: TrainOptions, network: Any) -> None:
    """What a network starts from, and what becomes of its batch norm."""
    name = options.backbone
    if network.library in ("clip", "own"):
        return
    if options.weights and network.keeps_statistics:
        warn(f"batch norm of {name} keeps the statistics of {options.weights} (--batch-norm learned lets them follow)")
    elif not options.weights:
        norm = "batch norm is frozen at mean 0 and variance 1" if network.keeps_statistics else "its batch norm learns"
        warn(f"{name} starts from random weights, far below what pretrained ones (--weights) reach: {norm}")


def _tell_few_evaluations(options: TrainOptions, algorithms: Sequence[str], schedule: Any) -> None:
    """SWAD cannot find a valley in fewer evaluations than begin one."""
    from featlearn.methods.domains import algorithm

    names = [name for name in algorithms if algorithm(name).averaged]
    count = -(-schedule.steps // schedule.evaluate_every)
    if names and count < options.swad_converge:
        warn(
            f"{', '.join(names)}: {count} evaluations are too few to find a valley (--swad-converge "
            f"{options.swad_converge}), and the last segment alone will be averaged; lower --evaluate-every"
        )


def remark(found: Any) -> None:
    """What is odd about the data, a line each on stderr."""
    for line in found.remarks:
        warn(line)


def describe(out: Any, found: Any) -> None:
    """Domains and their sizes."""
    sizes = ", ".join(f"{d.name} {len(d.y)}" for d in found.domains)
    line = f"{found.name}: {len(found.labels)} classes; {sizes} images"
    out.print(line, markup=False, emoji=False, soft_wrap=True)


def command_of(name: str, options: Any, kind: type, **changed: Any) -> str:
    """The command line with the values of `options` that are flags of `kind` and not its defaults, and `changed`."""
    import shlex

    from featlearn.data.names import shown

    words = ["featlearn", "domains", name]
    for f in dataclasses.fields(kind):
        value = changed.get(f.name, getattr(options, f.name, f.default))
        if f.name == "json" or (value == f.default and f.name not in changed):
            continue
        flag = "--" + f.name.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else "--no-" + flag[2:])
        else:
            words += [flag, *map(_word, value if isinstance(value, tuple) else (value,))]
    return shown(shlex.join(words))


def _word(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)
