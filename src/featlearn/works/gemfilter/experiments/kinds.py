"""Many kinds of hidden sentence, one needle and one text for each: what GemFilter costs against the full cache.

The kinds of sentence are what is independent, and `gemfilter/needle` has four of them. Its rows tell how many a
comparison within five points needs (see its summary); here there are as many as that, none of which had a part in the
choice of layer, scoring or budget. Fixed before any row: the kinds, the lengths, the depths, the margin of five points,
and that each length is judged by itself, by kinds of sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from featlearn.core import SettingError
from featlearn.lab.experiment import Cost, Experiment, Rows, SummaryRow, TrialResult
from featlearn.report.plots import Picture
from featlearn.tasks.needle_kinds import KINDS
from featlearn.works.gemfilter.experiments import needle
from featlearn.works.gemfilter.experiments.needle import Trial, answered, maps_of, summary_of
from featlearn.works.gemfilter.experiments.prompts import OnReplies, check_window, needs
from featlearn.works.gemfilter.rows import FULL, ONE_RUN, OURS, SNAPKV, KindAnswer, Method

METHODS: tuple[Method, ...] = (FULL, OURS, SNAPKV, ONE_RUN)


@dataclass(frozen=True, kw_only=True)
class Config(OnReplies):
    """One needle of each kind at each length, for GemFilter and its rivals at one budget."""

    needles: tuple[int, ...] = (len(KINDS),)
    """Kinds of sentence, the first so many: one count for all lengths, or one for each."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_window(self.keep)
        if max(self.needles) > len(KINDS):
            raise SettingError("needles", self.needles, f"at most {len(KINDS)} kinds", "leave it out for all")
        if self.which != "reported":
            raise SettingError("which", self.which, "reported", "these kinds are no part of any choice")


def trials(config: Config) -> list[Trial]:
    """One trial per kind and length, kinds slowest: an interrupted run has all lengths of the kinds it did."""
    c = config
    return [
        Trial(
            model=c.model,
            haystack=c.haystack,
            length=n,
            depths=c.depths,
            needle=i,
            keep=c.keep,
            layer=c.layer,
            raw_layer=-1,
            protect_start=c.protect_start,
            chat=c.chat,
            which="kinds",
            max_new_tokens=c.max_new_tokens,
            dtype=c.dtype,
            device=c.device,
        )
        for i, n in c.pairs()
    ]


def run_trial(trial: Trial) -> TrialResult:
    """Ask for the needle of one kind at every depth, with every method."""
    return TrialResult(answered(trial, KindAnswer, METHODS))


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Means by length over kinds of sentence, and differences to the full cache."""
    return [replace(r, entry="") for r in summary_of(table.of(KindAnswer, allow_absent=True), METHODS)]


def draw(table: Rows) -> Mapping[str, Picture]:
    """Share of right answers over length and depth, one map per method."""
    maps = maps_of(table, METHODS)
    return dict(zip(("gemfilter.kinds",), maps.values(), strict=False))


def cost(trial: Trial) -> Cost:
    """Measured for SmolLM2 on one core: four replies and a prefill with a part that grows with the square."""
    n = trial.length
    return Cost(len(trial.depths) * (4 + n * 0.007 * (1 + n / 7000)), 1500 + n * 0.3)


EXPERIMENT = Experiment(
    id="gemfilter/kinds",
    title="Needles of many kinds of sentence: GemFilter beside the full cache",
    reproduces=(),
    Config=Config,
    presets={
        "smoke": Config(lengths=(512,), depths=(0.5,), keep=128, needles=(2,)),
        "small": Config(lengths=(1024,), depths=(0.5,), needles=(24,)),
        "paper": Config(lengths=(1024, 2048), depths=(0.1, 0.3, 0.5, 0.7, 0.9)),
    },
    trials=trials,
    run_trial=run_trial,
    needs=needs,
    summarise=summarise,
    draw=draw,
    deviations=needle.EXPERIMENT.deviations,
    cost=cost,
    rows=(KindAnswer,),
)
