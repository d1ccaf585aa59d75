"""Ranks against noise: planted rows, one step of training written out, the excess against prompts, what is refused."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from mutation import CHECKOUT

from featlearn.core import Key, SettingError, Truth
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import verdict_of
from featlearn.lab.experiment import Rows
from featlearn.lab.find import latest_complete
from featlearn.lab.store import Store
from featlearn.lab.table import Table
from featlearn.nets import optimal_attention, optimal_matrix, population_loss
from featlearn.tasks import RegressionPrompts
from featlearn.works.icl_scale.claims import trained as claims
from featlearn.works.icl_scale.experiments import rank_noise
from featlearn.works.icl_scale.rows import FREE, RESTRICTED, Answered, Trained
from featlearn.works.icl_scale.setup import VARIANCES, Instance, exact_loss

TRAINING, ANGLES, MAP = claims.CLAIMS
KEY = Key("tests/rank_noise")


def layers(left=0.002, angle=1.0):
    return Table.of(
        Trained,
        [
            Trained(
                form=form, rank=r, n=20, steps=9, seed=s, start=2.0 + s / 10, end=left * 2, even=0.0,
                angle=None if r == 6 else angle + s / 10,
            )
            for form in (RESTRICTED, FREE)
            for r in (1, 5, 6)
            for s in range(4)
        ],
    )  # fmt: skip


def loss_of(signal, m, noise, rank):
    """Exact, by quadrature."""
    w = (np.arange(6) < signal).astype(float)
    p = Instance(np.array(VARIANCES), np.eye(6), w, 20, m, rank, noise)
    return exact_loss(p, optimal_matrix(torch.from_numpy(p.covariance), 20, rank).numpy())


LOSSES = {
    (k, m, s, r): loss_of(k, m, s, r) for k in (2, 6) for m in (4, 16, 64) for s in (0.0, 2.0, 8.0) for r in range(7)
}


def answers(trained=lambda place: 1.0, closed=lambda place: 1.0):
    return Table.of(
        Answered,
        [
            Answered(
                signal=p[0], m=p[1], noise=p[2], rank=p[3], n=20, seed=s,
                loss=v * (1 + 0.01 * (s - 1)) * trained(p), optimal=v * (1 + 0.01 * (s - 1)) * closed(p),
            )
            for p, v in LOSSES.items()
            for s in range(3)
        ],
    )  # fmt: skip


def outcomes(claim, *tables):
    return [f.outcome for f in verdict_of(claim, Key("verify"), tables).findings]


def test_layers_at_the_optimum_agree():
    for claim in (TRAINING, ANGLES):
        assert outcomes(claim, layers()) == ["confirmed"]
        assert blind(claim, Key("verify"), (layers(),)) == []
        assert apart(claim, Key("verify"), (layers(),)) == []


def test_layers_that_took_another_direction_are_seen():
    assert outcomes(TRAINING, layers(left=1.1 * claims.cheapest_slip())) == ["contradicted"]
    assert outcomes(ANGLES, layers(angle=85.0)) == ["contradicted"]


def test_no_matrix_with_turned_columns_has_less_than_the_least_excess():
    lam, n, g = np.array(VARIANCES), 20, Key("tests/turned").numpy()
    t = (1 + 1 / n) * lam + lam.sum() / n
    best, gain = lam / np.sqrt(t), lam**2 / t / 2
    for r, size in itertools.product((1, 2, 3, 4, 5), (0.01, 0.3, 3.0)):
        for _ in range(40):
            columns = np.vstack([np.eye(r), size * g.normal(size=(6 - r, r)) * g.integers(0, 2, size=(6 - r, r))])
            turned = np.linalg.qr(columns)[0]
            angle = np.degrees(np.arccos(min(np.linalg.svd(turned[:r])[1].min(), 1.0)))
            scaled = np.linalg.qr(np.sqrt(t * lam)[:, None] * columns)[0]
            left = np.sum((np.diag(best) - scaled @ scaled.T * best) ** 2) / 2 - gain[r:].sum()
            assert left >= claims.least_excess(np.array([r]), np.array([n]), np.array([angle]))[0] - 1e-9


def test_exact_losses_agree_with_the_law_and_its_best_rank():
    assert outcomes(MAP, answers()) == ["confirmed"] * 3
    assert blind(MAP, Key("verify"), (answers(),)) == []
    assert apart(MAP, Key("verify"), (answers(),)) == []


def test_layers_that_fare_otherwise_are_seen():
    worse = answers(trained=lambda p: 1.2 if p == (2, 4, 0.0, 3) else 1.0)
    assert outcomes(MAP, worse) == ["confirmed", "contradicted", "confirmed"]
    robust = answers(trained=lambda p: 0.05 if p[3] == 6 else 1.0)
    assert outcomes(MAP, robust)[2] == "contradicted"
    assert outcomes(MAP, answers(closed=lambda p: 1.2))[0] == "contradicted"


def smoke(**changed):
    config = dataclasses.replace(rank_noise.EXPERIMENT.presets["smoke"], **changed)
    return [row for trial in rank_noise.trials(config) for row in rank_noise.run_trial(trial).rows]


@pytest.fixture(scope="module")
def few():
    """Rows of a short run."""
    return smoke(steps=60)


def test_training_falls_and_the_table_and_picture_have_every_arm(few):
    trained = [r for r in few if isinstance(r, Trained)]
    assert {(r.form, r.rank) for r in trained} == {(RESTRICTED, 1), (RESTRICTED, 6), (FREE, 1)}
    assert all(r.end < r.start for r in trained)
    assert all(r.even == 0 for r in trained if r.form == RESTRICTED)
    rows = Rows(tuple(dataclasses.asdict(r) for r in few))
    shown = rank_noise.summarise(rows)
    assert sum(s.metric == "best rank" for s in shown) == 8
    (picture,) = rank_noise.draw(rows).values()
    assert len(picture.figure.axes) == 5  # the bar of colours is one
    assert {d["theorem"] for d in picture.data} == {0, 2}


def test_rank_zero_answers_zero_and_the_closed_form_has_the_exact_loss(few):
    answered = [r for r in few if isinstance(r, Answered)]
    assert all(r.loss == r.optimal for r in answered if r.rank == 0)
    large = smoke(ranks=(2,), free_ranks=(), steps=1, prompts=40_000, seeds=(3,))
    for r in large:
        if isinstance(r, Answered):
            assert r.optimal == pytest.approx(LOSSES[r.signal, r.m, r.noise, 2], rel=0.1)


def test_the_excess_is_the_loss_on_prompts_less_the_least():
    """Of a layer with all weights at random, even part included."""
    trial = rank_noise.trials(rank_noise.Config(ranks=(3,), free_ranks=(3,), seeds=(1,)))[1]
    keys = [KEY / 1]
    net, task = rank_noise._start(trial, keys), RegressionPrompts(variances=VARIANCES, examples=20)
    truth = task.draw(KEY)
    with torch.no_grad():
        for p in net.parameters():
            p *= 2
    ((odd, even),) = rank_noise._excess(net, trial, [truth], keys)
    batch = task.sample(truth, 100_000, KEY / "prompts")
    with torch.no_grad():
        loss = (net(batch.x)[0] - batch.y).square() / 2
    c = task.covariance(truth)
    best = float(population_loss(optimal_matrix(c, 20, 3)[None], c, 20))
    assert even > 0.01
    assert odd + even + best == pytest.approx(
        float(loss.mean()), abs=5 * float(loss.std()) / 100_000**0.5 + 0.05 * even
    )


def test_answers_that_do_not_turn_with_the_labels_are_all_excess():
    """Those of a layer with 0 for w22_PV and w21_KQ."""
    trial = rank_noise.trials(rank_noise.Config(ranks=(3,), free_ranks=(3,), seeds=(1,)))[1]
    net, task = rank_noise._start(trial, [KEY]), RegressionPrompts(variances=VARIANCES, examples=20)
    truth = task.draw(KEY)
    with torch.no_grad():
        net.value[:, -1, -1], net.key[..., -1] = 0, 0
    ((odd, even),) = rank_noise._excess(net, trial, [truth], [KEY])
    x = task.sample(truth, 20_000, KEY / "prompts").x
    assert even == pytest.approx(float(net(x).detach().square().mean()) / 2, rel=0.1)
    lam = np.array(VARIANCES)
    assert odd == pytest.approx(float((lam**2 / (21 / 20 * lam + lam.sum() / 20) / 2)[:3].sum()), rel=1e-5)


def test_weights_outside_of_the_form_stay_zero():
    trial = rank_noise.trials(rank_noise.Config(ranks=(2,), free_ranks=(), steps=3, seeds=(1,)))[0]
    task, keys = RegressionPrompts(variances=VARIANCES, examples=20), [KEY / 1]
    truth, net = task.draw(KEY), rank_noise._start(trial, keys)
    before = [p.detach().clone() for p in net.parameters()]
    rank_noise.train(net, trial, [truth], keys)
    for p, old, kept in zip(net.parameters(), before, rank_noise._kept(net), strict=True):
        assert not (p.detach() * (1 - kept)).any()
        assert bool(((p.detach() - old) * kept).abs().sum() > 0)


def test_the_angle_is_that_of_the_columns():
    truth = Truth(torch.eye(6))
    c = torch.diag(torch.tensor(VARIANCES))
    assert rank_noise.angle(optimal_matrix(c, 20, 3), truth, 3) == pytest.approx(0.0, abs=1e-3)
    turned = torch.zeros(6, 6)
    turned[0, 0], turned[4, 1] = 1.0, 0.5
    assert rank_noise.angle(turned, truth, 2) == pytest.approx(90.0)


def test_the_picture_has_the_best_rank_of_the_theorem():
    for k, m, s in {p[:3] for p in LOSSES}:
        want = min(range(7), key=lambda r: LOSSES[k, m, s, r])
        assert rank_noise.predicted_rank(k, m, s, 20) == want


def test_the_closed_form_is_where_training_would_end():
    trial = rank_noise.trials(rank_noise.Config(ranks=(3,), free_ranks=(), seeds=(1,)))[0]
    task = RegressionPrompts(variances=VARIANCES, examples=20)
    truth = task.draw(KEY)
    ((odd, even),) = rank_noise._excess(optimal_attention(task.covariance(truth), 20, 3), trial, [truth], [KEY])
    assert odd + even == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"ranks": (7,)}, "ranks"),
        ({"ranks": (2, 1)}, "ranks"),
        ({"ranks": ()}, "ranks"),
        ({"free_ranks": (0,)}, "free_ranks"),
        ({"m": (0, 4)}, "m"),
        ({"noise": (-1.0,)}, "noise"),
        ({"noise": (1.0, 0.0)}, "noise"),
        ({"noise": (float("nan"),)}, "noise"),
        ({"n": 0}, "n"),
        ({"rate": 0.0}, "rate"),
        ({"seeds": ()}, "seeds"),
    ],
)
def test_impossible_settings_are_refused(settings, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        rank_noise.Config(**settings)


def test_layers_with_all_weights_trained_are_counted_in_the_remarks_as_the_rows_have_them():
    store = Store("runs-that-are-not-there", below=[CHECKOUT / "evidence"])
    free = latest_complete(rank_noise.EXPERIMENT, store, ("cpu",)).table.of(Trained).where(form=FREE).rows
    there = [r for r in free if r.end <= 0.01 * r.start]
    words = TRAINING.remarks
    assert f"{len(free) - len(there)} of {len(free)} layers miss 1 %" in words
    assert f"up to {100 * max(r.end / r.start for r in free):.0f} % of the excess" in words
    counts = [sum(r.rank == rank for r in there) for rank in range(1, 7)]
    assert f"{', '.join(map(str, counts[:-1]))} and {counts[-1]} of 20" in words
    assert all(f.statement.form == "derived" for f in verdict_of(TRAINING, KEY, [layers()]).findings)
