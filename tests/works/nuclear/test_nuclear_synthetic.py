"""Two inputs with linear features: the gradient, the law by quadrature, where training with penalties ends."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.lab.experiment import Rows, TrialResult
from featlearn.lab.store import plain_rows
from featlearn.methods import nuclear_norm
from featlearn.tasks import Environments2d
from featlearn.works.nuclear.experiments import synthetic
from featlearn.works.nuclear.experiments.synthetic import (
    EXPERIMENT,
    Config,
    Members,
    Points,
    descend,
    joined,
    law,
    polar,
    run_trial,
    started,
    train_loss,
    trials,
)
from featlearn.works.nuclear.rows import DECAY_UNIT, ERM, FREE, NU, NUCLEAR_FREE, NUCLEAR_UNIT, PENALTIES, UNIT

QUICK = replace(EXPERIMENT.presets["smoke"], seeds=(7,))


def as_table(results: list[TrialResult]) -> Rows:
    rows = tuple({**row, "trial": str(i)} for i, r in enumerate(results) for row in plain_rows(r.rows))
    return Rows(rows, {str(i): (lambda a=r.arrays: a) for i, r in enumerate(results) if r.arrays})


@pytest.fixture(scope="module")
def quick() -> Rows:
    return as_table([run_trial(trial) for trial in trials(QUICK)])


def test_polar_is_the_subgradient_of_the_nuclear_norm():
    g = Key("tests/polar").torch()
    b = torch.randn(50, 2, 2, generator=g).double()
    b[1] = torch.outer(torch.tensor([1.0, 2.0]), torch.tensor([3.0, -1.0]))  # rank one: u v' alone
    b[2] = 0.0
    own = b.clone().requires_grad_()
    (grad,) = torch.autograd.grad(nuclear_norm(own, "sum", "svd").sum(), own)
    torch.testing.assert_close(polar(b.float()), grad.float(), atol=2e-6, rtol=0)
    assert float(torch.linalg.matrix_rank(polar(b.float())[1])) == 1


def reported_loss(a, head, x, y, weight):
    """The listing of section 6.2.2 with two classes: logits 0 and the head's, the norm of all features."""
    features = x @ a.mT
    score = features @ head
    loss = functional.cross_entropy(torch.stack([-score / 2, score / 2], 1), (y > 0).long())
    return loss + weight * torch.linalg.svdvals(features).sum()


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("nuclear, decay", [(0.0, 0.0), (0.2, 0.0), (0.0, 0.3), (0.1, 0.1)])
def test_descent_is_that_of_the_reported_loss(free, nuclear, decay):
    task = Environments2d(0.7)
    batch = task.sample(task.draw(Key("t")), 40, Key("tests/sample"))
    points = Points(batch.x * batch.y[:, None], torch.full((40,), 1 / 40))
    start = started(Key("tests/start"), 2, 1.0, free, [nuclear], [decay])
    end = descend(start, points, 0.5, 6)
    for i in range(2):
        a, head = (v[i].double().requires_grad_() for v in (start.a, start.head))
        for _ in range(6):
            loss = reported_loss(a, head, batch.x.double(), batch.y, nuclear / 40**0.5)
            da, dh = torch.autograd.grad(loss, (a, head))
            a = (a - 0.5 * (da + decay * a)).detach().requires_grad_()
            head = (head - 0.5 * free * (dh + decay * head)).detach().requires_grad_()
        torch.testing.assert_close(end.a[i].double(), a.detach(), atol=3e-6, rtol=0)
        torch.testing.assert_close(end.head[i].double(), head.detach(), atol=3e-6, rtol=0)


def test_penalised_members_come_last():
    parts = [started(Key("s"), 1, 1.0, False, [w], [0.0]) for w in (0.1, 0.0)]
    with pytest.raises(AssertionError, match="sort"):
        descend(joined(parts), law(0.7), 0.1, 1)
    assert descend(joined(parts[::-1]), law(0.7), 0.1, 1).a.shape == (2, 2, 2)


def test_quadrature_has_the_moments_of_the_law_and_its_loss():
    task, points = Environments2d(0.7), law(0.7)
    assert float(points.share.sum()) == pytest.approx(1, abs=1e-6)
    torch.testing.assert_close((points.z * points.share[:, None]).sum(0).double(), task.mean, atol=1e-6, rtol=0)
    second = (points.z * points.share[:, None]).mT @ points.z
    torch.testing.assert_close(second.double(), task.second_moments, atol=1e-6, rtol=0)
    member = Members(torch.eye(2)[None], torch.tensor([[4.0, -3.0]]), torch.ones(1).bool(), *[torch.zeros(1)] * 2)
    finer = law(0.7, 24)
    assert float(train_loss(member, points)) == pytest.approx(float(train_loss(member, finer)), abs=1e-6)


def test_methods_begin_at_the_same_starts(quick):
    first = {(r["row"], r["n"]): r["ood"] for r in quick.rows if r.get("step") == 0 and r["head"] == FREE}
    assert first[ERM, 100] == first[NU, 100]
    a, b = (started(Key("s"), 3, 1.0, False, w, [0.0, 0.0]) for w in ([0.0, 0.1], [0.2, 0.3]))
    assert torch.equal(a.a, b.a)
    assert torch.equal(a.a[:3], a.a[3:])
    assert torch.allclose(a.head.norm(dim=1), torch.ones(6))


def test_penalties_end_where_the_exact_solutions_are():
    """On the law: the squared norm goes to b = 0.4 from below, the nuclear norm to 0.11364."""
    config = replace(
        QUICK, n=(0,), steps=2, end_steps=1200, decay_unit=(0.03, 0.3, 1.0), nuclear=(0.03, 0.1, 0.3), starts=2
    )
    [trial] = trials(config)
    ends = {(r["row"], r["weight"]): r for r in plain_rows(run_trial(trial).rows) if "weight" in r}
    slopes = [ends[DECAY_UNIT, w]["slope"] for w in config.decay_unit]
    np.testing.assert_allclose(slopes, [0.2218, 0.3454, 0.3805], atol=2e-3)
    slopes = [ends[NUCLEAR_UNIT, w]["slope"] for w in config.nuclear]
    np.testing.assert_allclose(slopes, [0.0901, 0.1100, 0.1130], atol=2e-3)
    assert all(r["spread"] < 2e-3 for r in ends.values())
    free = ends[NUCLEAR_FREE, 0.3]
    assert free["head_norm"] > 1.5 * free["top"]  # a free head takes the scale over
    assert ends[NUCLEAR_UNIT, 0.3]["head_norm"] == pytest.approx(1)


def test_rows_are_exact_accuracies_of_directions(quick):
    for r in quick.rows:
        if "slope" in r and 0 <= r["slope"] <= 1 and r["spread"] < 1e-6:
            assert r["ood"] == pytest.approx(1 - 0.35 * r["slope"], abs=1e-5)
            assert r["id"] == pytest.approx(1 - 0.15 * r["slope"], abs=1e-5)
    paths = [r for r in quick.rows if "step" in r]
    assert {(r["row"], r["head"]) for r in paths} == {(m, h) for m in (ERM, NU) for h in (FREE, UNIT)}
    assert {r["step"] for r in paths} >= {0, 10, 30, 100, 120}
    assert all(r["ood_low"] <= r["ood"] <= r["ood_high"] for r in paths)
    assert {r["row"] for r in quick.rows if "weight" in r} == set(PENALTIES)


def test_near_counts_starts_at_the_print(monkeypatch):
    """Directions (1, b) with b = 0.686 have OOD accuracy 0.76."""
    [trial] = trials(replace(QUICK, n=(0,), scales=(1.0,)))
    b = torch.tensor([0.686, 0.686, 0.0, 2.0])
    a = torch.stack([torch.stack([torch.ones(4), b], 1), torch.zeros(4, 2)], 1)
    members = Members(a, torch.tensor([[1.0, 0.0]]).repeat(4, 1), torch.zeros(4).bool(), *[torch.zeros(4)] * 2)
    group = {"n": 0, "head": FREE, "scale": 1.0, "seed": 0}
    [erm] = synthetic.path_rows(members, law(0.7), trial, [{"row": ERM, **group}], 0)
    [nu] = synthetic.path_rows(members, law(0.7), trial, [{"row": NU, **group}], 0)
    assert (erm.near, nu.near) == (0.5, 0.0)
    assert erm.id == pytest.approx((2 * 0.8971 + 1 + 0.775) / 4, abs=1e-4)


def test_same_trial_same_rows(quick):
    torch.manual_seed(3)
    trial = trials(QUICK)[0]
    again = as_table([run_trial(trial)])
    assert again.rows == tuple(r for r in quick.rows if r["trial"] == "0")


def test_summary_and_pictures(quick):
    summary = synthetic.summarise(quick)
    reported = {r.row: r.reported for r in summary if r.reported is not None}
    assert reported == {ERM: 0.76, NU: 0.94}
    assert all((r.verdict == "reproduced") == (abs(r.value - r.reported) <= 0.02) for r in summary if r.reported)
    pictures = synthetic.draw(quick)
    assert set(pictures) >= set(EXPERIMENT.reproduces)
    assert len(pictures) == 5
    assert all(p.data and p.caption for p in pictures.values())
    assert len(pictures["nuclear.fig6_2"].data) == 800
    assert synthetic.draw(Rows(())) == {}


def test_the_first_seed_keeps_its_points():
    made = trials(Config())
    assert [c.pictures for c in made[:5]] == [True, False, False, False, False]
    assert {c.n for c in made} == {30, 100, 1000, 0}


@pytest.mark.parametrize(
    "field, value",
    [
        ("n", ()),
        ("n", (5, 5)),
        ("n", (-1,)),
        ("agree", 0.5),
        ("agree", 1.0),
        ("starts", 0),
        ("scales", ()),
        ("scales", (1.0, 0.1)),
        ("weight", 0.0),
        ("decay_unit", ()),
        ("decay_free", (0.1, 0.1)),
        ("nuclear", (0.2, 0.1)),
        ("rate", 0.0),
        ("steps", 0),
        ("end_rate", 2.0),
        ("end_steps", 0),
        ("seeds", ()),
        ("seeds", (1, 1)),
    ],
)
def test_wrong_settings_are_refused(field, value):
    with pytest.raises(SettingError) as error:
        replace(Config(), **{field: value})
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{field} = ")
