"""Experiments on transformers for modular addition: smoke presets, what a row says, settings that are refused."""

import dataclasses

import numpy as np
import pytest
import torch

from featlearn import works
from featlearn.core import SettingError
from featlearn.lab.execute import run
from featlearn.lab.store import Store
from featlearn.measure.fourier import top_share_2d
from featlearn.works.fourier.experiments import attention, grokking, transformers
from featlearn.works.fourier.rows import DECAYED, EQUAL, REPORTED, START, SWAPPED, TRAINED, Arrival, Heads

IDS = ("fourier/attention", "fourier/grokking")
SMOKE = {id_: works.load_experiment(id_).presets["smoke"] for id_ in IDS}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    found = {}
    for id_ in IDS:
        store = Store(tmp_path_factory.mktemp("store"))
        found[id_] = run(works.load_experiment(id_), SMOKE[id_], store=store, preset="smoke")
    return found


@pytest.mark.parametrize("id_", IDS)
def test_smoke(id_, tables):
    experiment, report = works.load_experiment(id_), tables[id_]
    assert {"smoke", "small", "cpu", "paper"} <= set(experiment.presets)
    assert report.failed == 0, report.errors
    assert report.ok == len(experiment.trials(SMOKE[id_]))
    assert report.summary
    assert all(np.isfinite((r.value, r.low, r.high)).all() for r in report.summary)
    assert all(id_.split("/")[0] in key for key in experiment.draw(report.table))
    for preset in experiment.presets.values():
        assert all(experiment.cost(c).seconds > 0 for c in experiment.trials(preset))


def test_attention_rows_are_the_spectra_of_the_heads(tables):
    table = tables[IDS[0]].table
    trial = next(r["trial"] for r in table.rows if (r["kind"], r["readout"], r["seed"]) == ("learned", "last", 0))
    arrays, found = table.arrays[trial](), table.of(Heads).where(readout="last", seed=0)
    (row,), (start,) = (found.where(weights=w).rows for w in (TRAINED, START))
    four = arrays[f"top4 {TRAINED}"]
    assert row.top4 == pytest.approx(float(torch.from_numpy(four).median()), abs=1e-6)
    assert row.sparse == pytest.approx(100 * float((four > 0.8).mean()))
    heads = torch.from_numpy(arrays[f"heads {TRAINED}"]).double()
    assert top_share_2d(heads).numpy() == pytest.approx(four[: len(heads)], abs=1e-5)
    assert start.top4 != row.top4


def test_the_control_has_the_trained_embedding_and_the_other_weights_of_the_start():
    trial = attention.trials(SMOKE[IDS[0]])[0]
    start, trained, _ = transformers.train(trial, "fourier/attention")
    arrays = attention.run_trial(trial).arrays
    token = trained.net["token"].detach()[0]
    for h in range(2):
        part = slice(trial.head_dim * h, trial.head_dim * (h + 1))
        w_kq = start["key0"].detach()[0, :, part] @ start["query0"].detach()[0, :, part].T
        expected = (token @ w_kq @ token.T).numpy()
        assert np.allclose(arrays[f"heads {SWAPPED}"][h], expected, atol=1e-5)
    assert not np.allclose(arrays[f"heads {SWAPPED}"], arrays[f"heads {START}"], atol=1e-3)


def test_variants_of_grokking_have_their_settings():
    config = grokking.Config(steps=7, more_steps=9, more_rate=0.002)
    for trial in grokking.trials(config):
        reported = trial.variant == REPORTED
        assert (trial.rate, trial.decay, trial.steps) == ((1e-3, 1e-3, 7) if reported else (2e-3, 1.0, 9))
        assert trial.n_train == (4704 if trial.variant == EQUAL else 0)
    sizes = {c.p**c.k for c in grokking.trials(config) if c.variant == EQUAL}
    assert max(sizes) < 2 * min(sizes)
    assert {c.variant for c in grokking.trials(dataclasses.replace(config, variants=(DECAYED,)))} == {DECAYED}


def test_equal_data_trains_on_as_many_points(tables):
    rows = tables[IDS[1]].table.of(Arrival).where(variant=EQUAL).rows
    assert {r.n_train for r in rows} == {12}
    assert len({r.k for r in rows}) == 2


@pytest.fixture(scope="module")
def arrival(tables):
    one = tables[IDS[1]].table.of(Arrival).rows[0]

    def row(k, seed, train, test, steps=1000):
        return dataclasses.replace(one, k=k, seed=seed, train99=train, test99=test, steps=steps)

    return row


def test_trends_see_falls_of_lag_and_of_ratio_apart(arrival):
    """Lags 900, 450, 225 fall while ratios 10, 10, 10 do not; a run that never came counts as the longest."""
    rows = [arrival(k, s, 100 // 2 ** (k - 2), 1000 // 2 ** (k - 2)) for k in (2, 3, 4) for s in range(3)]
    found = grokking.trends(rows, 99)
    assert found["lag99"][0] == 1
    assert found["lag99"][1] < 0.01
    assert found["ratio99"] == (0.0, 1.0)
    late = [arrival(2, s, 100, None) for s in range(3)] + [arrival(3, s, 100, 500) for s in range(3)]
    assert grokking.trends(late, 99)["ratio99"][0] == 1
    assert grokking.trends([arrival(2, s, None, None) for s in range(3)], 99) == {}


def test_accuracy_that_is_lost_again_did_not_come():
    steps, seen = torch.tensor([0, 10, 20, 30]), torch.tensor([0.1, 0.99, 0.4, 0.99])
    assert grokking.stays(seen >= 0.95, steps) == 30
    assert grokking.stays(seen[:3] >= 0.95, steps[:3]) is None
    assert grokking.first(seen >= 0.95, steps) == 10
    assert grokking.first(seen >= 1.0, steps) is None


def test_censored_runs_are_counted_and_their_ratio_is_a_bound(tables):
    summary = tables[IDS[1]].summary
    rows = tables[IDS[1]].table.of(Arrival).rows
    for r in (r for r in summary if r.metric == "never99"):
        mine = [q for q in rows if q.variant == r.setting and f"k = {q.k}, p = {q.p}" == r.row]
        assert r.value == sum(q.test99 is None for q in mine if q.train99 is not None)
    assert any(r.metric == "ratio99 at least" for r in summary)


@pytest.mark.parametrize(
    "make, field",
    [
        (lambda: attention.Config(pairs=()), "pairs"),
        (lambda: attention.Config(pairs=((1, 5),)), "pairs"),
        (lambda: attention.Config(pairs=((2, 1),)), "p"),
        (lambda: attention.Config(readouts=("mean",)), "readouts"),
        (lambda: attention.Config(share=1.0), "share"),
        (lambda: attention.Config(share=0.001, pairs=((3, 5),)), "share"),
        (lambda: attention.Config(heads=0), "heads"),
        (lambda: attention.Config(rate=0.0), "rate"),
        (lambda: attention.Config(seeds=(0, 0)), "seeds"),
        (lambda: attention.Config(device="tpu"), "device"),
        (lambda: grokking.Config(pairs=((2, 5), (2, 7))), "pairs"),
        (lambda: grokking.Config(variants=("other",)), "variants"),
        (lambda: grokking.Config(equal_train=9409), "equal_train"),
        (lambda: grokking.Config(more_decay=-1.0), "more_decay"),
        (lambda: grokking.Config(share=0.999, pairs=((2, 5),)), "share"),
        (lambda: grokking.Config(readout="mean"), "readout"),
    ],
)
def test_refused_before_any_work(make, field):
    with pytest.raises(SettingError) as error:
        make()
    assert error.value.field == field
    assert "\n" not in str(error.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="until a machine without a GPU runs it")
def test_a_gpu_that_is_not_there_is_named():
    trial = dataclasses.replace(attention.trials(SMOKE[IDS[0]])[0], device="cuda")
    with pytest.raises(SettingError, match="device = 'cuda'"):
        attention.run_trial(trial)
