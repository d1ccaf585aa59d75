"""SWAD by three rules, each against a transcription on 300 noisy curves."""

import math
from types import SimpleNamespace

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.methods.domains import PaperSwad, ReleasedSwad, Settings, Swad, SwadRule, swad_of, window

KEY = Key("tests/valleys")
STEPS = (1, 3, 2)
"""Steps of a segment, in turn: means that count steps differ from means that count segments."""
SHAPES = [(3, 6, 0.3), (3, 6, 0.2), (1, 1, 0.0), (2, 5, 0.1), (5, 2, 0.2), (3, 3, 0.05), (4, 9, 0.5)]


def curve(i):
    """A loss that falls, stays and rises again, with noise; some rise late, some never, some at once."""
    draw = (KEY / "curve" / i).numpy()
    n = int(draw.integers(1, 40))
    bottom, slope, rise = draw.uniform(0, 30), draw.uniform(0, 0.3), draw.uniform(0, 0.1)
    return [0.5 + slope * max(bottom - k, 0) + rise * max(k - bottom, 0) + 0.1 * draw.random() for k in range(n)]


def followed(losses, rule):
    """(swad, its window, its mean) after segments of unlike length whose weights are 0, 1, 2, ... by step."""
    swad, step = swad_of(rule), 0
    for k, loss in enumerate(losses):
        for _ in range(STEPS[k % 3]):
            swad.step({"w": torch.tensor([float(step)], dtype=torch.float64)})
            step += 1
        swad.evaluated(loss)
    return swad, swad.finish(), float(swad.weights()["w"])


def steps_of(k):
    first = sum(STEPS[j % 3] for j in range(k))
    return list(range(first, first + STEPS[k % 3]))


def papers(losses, c, t, ratio):
    """Algorithm 1 line by line, an iteration an evaluation: (t_s, t_e)."""
    start, end, limit = 0, len(losses) - 1, None
    for i in range(len(losses)):
        if limit is None:
            if i - c + 1 >= 0 and losses[i - c + 1] == min(losses[i - j] for j in range(c)):
                start = i - c + 1
                limit = (1 + ratio) / c * sum(losses[i - j] for j in range(c))
        elif i - t + 1 >= 0 and limit < min(losses[i - j] for j in range(t)):
            end = i - t
            break
    return start, end, limit is not None


def releaseds(losses, c, t, ratio):
    """Numbers of segments as the two queues of the code hand them to its mean."""
    taken, begin, limit, dead = [], None, math.inf, False
    for j in range(len(losses)):
        recent, smooth = list(range(max(0, j - c + 1), j + 1)), list(range(max(0, j - t + 1), j + 1))
        if begin is None:
            if len(recent) == c and all(losses[recent[0]] <= losses[i] for i in recent):
                begin, limit = recent[0], (1 + ratio) * sum(losses[i] for i in recent) / c
                if t < c:
                    taken += recent[1 : 1 + c - t]
                if t > c:
                    some, skip = smooth[: t - c + 1], 0
                    for place, i in enumerate(some):
                        if losses[i] > limit:
                            skip = place + 1
                    taken += some[skip + 1 :]
            continue
        if smooth[0] < begin:
            continue
        if all(losses[i] > limit for i in smooth):
            dead = True
            break
        taken.append(smooth[0])
    if begin is None:
        return [len(losses) - 1]
    rest = [] if dead else list(range(max(0, len(losses) - t), len(losses)))[1:]
    while rest and any(losses[i] <= limit for i in rest):
        taken.append(rest.pop(0))
    return taken or [begin]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_rule_of_the_paper(shape):
    differ = 0
    for i in range(300):
        losses, rule = curve(i), SwadRule(*shape, kind="paper")
        swad, found, mean = followed(losses, rule)
        first, last, converged = papers(losses, *shape)
        assert isinstance(swad, PaperSwad)
        assert (found.first, found.last, found.converged) == (first, last, converged)
        steps = [s for k in range(first, last + 1) for s in steps_of(k)]
        assert mean == pytest.approx(sum(steps) / len(steps), rel=1e-9, abs=1e-9)
        usual = window(losses, SwadRule(*shape))
        differ += (usual.first, usual.last) != (first, last)
        if converged:
            assert usual.first == first
            assert usual.threshold == pytest.approx(found.threshold)
    assert (differ > 0) == (shape[1] > 1)  # where one evaluation ends the valley, training ends with it


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_rule_of_the_released_code(shape):
    """Segments count as one each, some more than once."""
    repeats, before = 0, 0
    for i in range(300):
        losses, rule = curve(i), SwadRule(*shape, kind="released")
        swad, found, mean = followed(losses, rule)
        taken = releaseds(losses, *shape)
        assert isinstance(swad, ReleasedSwad)
        assert swad.taken == taken
        assert (found.first, found.last) == (min(taken), max(taken))
        means = [sum(steps_of(k)) / len(steps_of(k)) for k in taken]
        assert mean == pytest.approx(sum(means) / len(means), rel=1e-9, abs=1e-9)
        repeats += len(set(taken)) < len(taken)
        before += found.converged and min(taken) < papers(losses, *shape)[0]
    if shape[1] > shape[0]:
        assert repeats > 20
        assert before > 5


def test_the_released_rule_by_hand():
    """k = 3; segments 1 and 2 of the three before it come in, and 3 once more when it is the oldest of six."""
    losses = [2.0, 1.2, 1.1, 1.0, 1.05, 1.1, 1.2, 1.3, 1.2, 1.3]
    swad, found, _ = followed(losses, SwadRule(3, 6, 0.3, "released"))
    assert found.threshold == pytest.approx(1.3 * 3.15 / 3)
    assert swad.taken == [2, 3, 3, 4, 5, 6, 7, 8, 9]
    valley, _, _ = followed(losses, SwadRule(3, 6, 0.3))
    assert type(valley) is Swad


@pytest.mark.parametrize("kind", ["valley", "paper", "released"])
def test_a_rule_goes_on_where_it_was_stopped(kind):
    for i in range(40):
        losses, rule = curve(i), SwadRule(3, 6, 0.3, kind)
        _, expected, mean = followed(losses, rule)
        at, swad, step = len(losses) // 2, swad_of(rule), 0
        for k, loss in enumerate(losses):
            if k == at:
                kept, swad = swad.state(), swad_of(rule)
                swad.go_on(kept, torch.device("cpu"))
            for _ in range(STEPS[k % 3]):
                swad.step({"w": torch.tensor([float(step)], dtype=torch.float64)})
                step += 1
            swad.evaluated(loss)
        assert swad.finish() == expected
        assert float(swad.weights()["w"]) == mean


def test_few_segments_are_kept():
    for kind in ("paper", "released"):
        swad = swad_of(SwadRule(3, 4, 0.3, kind))
        for k in range(50):
            swad.step({"w": torch.tensor([float(k)])})
            swad.evaluated(50.0 - k)
            assert len(swad._queue) <= 4


def test_other_rules_are_refused():
    with pytest.raises(SettingError, match="one of valley, paper, released"):
        SwadRule.__post_init__(SimpleNamespace(kind="code"))
    assert Settings(swad_rule="released").rule() == SwadRule(kind="released")
