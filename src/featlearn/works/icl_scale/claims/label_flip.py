"""How examples are written and how many labels are inverted, against the sample that the thesis shows."""

from collections.abc import Mapping, Sequence

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import COUNT, SHARE
from featlearn.lab.statement import Statement, equal
from featlearn.lab.uncertainty import Observation
from featlearn.tasks.demonstrations import Template, drawn, flipped

SOURCE = "section 5.6, Experimental setup"
QUERY = "it \u2019s a charming and often affecting journey"
DEMONSTRATIONS = (("show us a good time", "positive"), ("as dumb and cheesy", "negative"))
WRITTEN = (
    "sentence: show us a good time\nThe answer is {}.\n\nsentence: as dumb and cheesy\nThe answer is {}.\n\n"
    f"sentence: {QUERY}\nThe answer is"
)
"""The sample evaluation for SST-2 when M = 2, its two labels left out; the page breaks the last sentence."""
GRID = tuple((m, rate / 20) for m in (2, 5, 16, 31) for rate in range(21))
LABELS = tuple(int(i % 3 > 0) for i in range(120))


def says_prompts(settings: None) -> Sequence[Statement]:
    """The sample letter by letter; round(rate M) labels inverted, at 100 % all of them; the query as it is."""
    asked = [m * rate for m, rate in GRID]
    return (
        equal(
            "sample for SST-2, letter by letter",
            COUNT,
            np.array([float(ord(c)) for c in WRITTEN.format("positive", "negative")]),
            SOURCE,
            axis="letter",
            rival=np.array([float(ord(c)) for c in WRITTEN.format("negative", "positive")]),
            rival_says="the two labels exchanged",
        ),
        equal(
            "labels inverted of M",
            COUNT,
            np.array([float(round(n)) for n in asked]),
            f"{SOURCE}: an escalating percentage of in-context example labels",
            axis="M and rate",
            form="derived",
            rival=np.array([float(np.floor(n)) if n != round(n) else n + 1 for n in asked]),
            rival_says="rounded down; one more where there is nothing to round",
        ),
        equal(
            "labels inverted at 100 %, of M",
            SHARE,
            1.0,
            f"{SOURCE}: every positive exemplar is now labelled negative",
            rival=0.5,
            rival_says="labels drawn anew",
        ),
        equal(
            "prompts that end in the query, whatever is inverted",
            SHARE,
            1.0,
            f"{SOURCE}: the evaluation sample labels remain consistent",
            rival=0.0,
            rival_says="a query that changes",
        ),
    )


def sees_prompts(settings: None, key: Key) -> Mapping[str, Observation]:
    """What the experiment's template, draws and flips make."""
    template, counts, ends = Template(), [], []
    sample = np.frombuffer(template.prompt(DEMONSTRATIONS, QUERY).encode("utf-32-le"), dtype="<u4")
    for m, rate in GRID:
        shown = drawn(LABELS, m, 4, key / m)
        true = [LABELS[i] for i in shown.demonstrations]
        given = flipped(true, rate, shown.order)
        counts.append(float(sum(a != b for a, b in zip(true, given, strict=True))))
        words = [(f"text {i}", DEMONSTRATIONS[y][1]) for i, y in zip(shown.demonstrations, given, strict=True)]
        ends.append(template.prompt(words, QUERY).endswith(f"\n\nsentence: {QUERY}\nThe answer is"))
    return {
        "sample for SST-2, letter by letter": sample.astype(float),
        "labels inverted of M": np.array(counts),
        "labels inverted at 100 %, of M": float(
            np.mean([count / m for (m, rate), count in zip(GRID, counts, strict=True) if rate == 1])
        ),
        "prompts that end in the query, whatever is inverted": float(np.mean(ends)),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="icl_scale.method_label_flip",
        entries=("icl_scale.method_label_flip",),
        says="Examples are written as sentence and answer; a given share of the labels in the prompt is inverted, that "
        "of the query is not.",
        statements=says_prompts,
        observe=sees_prompts,
        remarks="Whether a percentage is an exact count or a chance for each label is not said; here it is a count.",
    ),
)
