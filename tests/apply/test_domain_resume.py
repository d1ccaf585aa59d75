"""Training that is stopped and goes on: the numbers of the plain loop, bit by bit, wherever it was stopped."""

import copy
import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from colours import FAST, KEY, made, pictures_in
from torch import nn

from featlearn.apply.domains import models, runs, together
from featlearn.apply.domains.resumable import Checkpoint, train_resumable
from featlearn.apply.domains.runs import EXPERIMENT, VERSION, divide, run_trial, trials
from featlearn.core import Diverged
from featlearn.errors import StoreError
from featlearn.lab.trial import trial_hash
from featlearn.methods.domains import Schedule, Settings, algorithm, build, train
from featlearn.nets import backbone, linear_head

NAMES = ("erm-nu", "swad-nu", "irm", "group-dro", "mixup", "miro", "swad-miro-nu")
STEPS = Schedule(steps=12, batch=4, rate=0.01, evaluate_every=3)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return pictures_in(tmp_path_factory.mktemp("resume"))


class WithDropout(nn.Module):
    """A backbone that draws numbers of its own while it trains."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.drop, self.features = inner, nn.Dropout(0.3), inner.features

    def stages(self, x):
        *maps, last = self.inner.stages(x)
        return [*maps, self.drop(last)]

    def forward(self, x):
        return self.drop(self.inner(x))


def job(tree, name):
    """All that training needs, anew each time: extra modules learn in place."""
    found, _ = made(tree)
    parts = divide(found, "night", 0)
    featurizer = WithDropout(backbone("cnn", KEY / "net", 3, 8))
    head = linear_head(featurizer.features, 2, KEY / "head")
    settings = Settings(anneal=0.5, swad_converge=2, swad_tolerance=2)
    example = parts.training[0].domain.inputs(parts.training[0].rows[:2], None)
    method = build(algorithm(name), settings, STEPS.steps, 2, featurizer, example)
    words = {"key": KEY / "run", "watch": parts.watch, "average": method.average, "extra": method.extra}
    return (featurizer, head, method.objective, parts.training, STEPS), words


def same(one, other):
    assert one.evaluations == other.evaluations
    assert one.best == other.best
    assert one.window == other.window
    assert one.averaged_evaluation == other.averaged_evaluation
    for a, b in ((one.weights, other.weights), (one.averaged, other.averaged)):
        assert (a is None) == (b is None)
        for name in a or {}:
            assert torch.equal(a[name], b[name]), name


@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_plain_loop(tree, name):
    given, words = job(tree, name)
    again, more = job(tree, name)
    result = train_resumable(*again, **more)
    same(result.trained, train(*given, **words))
    for found, evaluation in zip(result.details, result.trained.evaluations, strict=True):
        n = sum(m.n for m in found["test"].values())
        assert sum(m.right for m in found["test"].values()) / n == evaluation.accuracy["test"]


class Stopped(Exception):
    pass


def stop_after(step):
    def progress(done, total):
        if done == step:
            raise Stopped

    return progress


@pytest.mark.parametrize("step", [1, 6, 7, 11])
@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_was_stopped_ends_as_if_it_had_not(tree, tmp_path, name, step):
    place = Checkpoint(tmp_path / "place.pt", "this run", seconds=0.0)
    given, words = job(tree, name)
    whole = train_resumable(*given, **words)
    last = whole.trained.evaluations[-1].step
    if step >= last:
        pytest.skip("SWAD ended it before")
    given, words = job(tree, name)
    with pytest.raises(Stopped):
        # progress is told before the place of its step is kept, so that one step is done again
        train_resumable(*given, **words, checkpoint=place, progress=stop_after(step + 1))
    again, more = job(tree, name)
    result = train_resumable(*again, **more, checkpoint=place)
    assert result.resumed == step
    same(result.trained, whole.trained)
    for found, expected in zip(result.details, whole.details, strict=True):
        for part in expected:
            for domain, m in expected[part].items():
                assert (found[part][domain].confusion == m.confusion).all()
                assert (found[part][domain].bins == m.bins).all()


def test_another_run_and_a_damaged_file_are_no_place_to_go_on_from(tree, tmp_path):
    place = Checkpoint(tmp_path / "place.pt", "this run", seconds=0.0)
    given, words = job(tree, "erm")
    with pytest.raises(Stopped):
        train_resumable(*given, **words, checkpoint=place, progress=stop_after(5))
    assert place.read()["step"] == 4
    assert dataclasses.replace(place, identity="another").read() is None
    (tmp_path / "half.pt").write_bytes((tmp_path / "place.pt").read_bytes()[:500])
    assert dataclasses.replace(place, path=tmp_path / "half.pt").read() is None
    assert dataclasses.replace(place, path=tmp_path / "none.pt").read() is None


def test_a_place_that_cannot_be_kept_does_not_end_the_run(tree, tmp_path):
    (tmp_path / "file").write_text("in the way")
    given, words = job(tree, "erm")
    place = Checkpoint(tmp_path / "file" / "place.pt", "this run", seconds=0.0)
    result = train_resumable(*given, **words, checkpoint=place)
    assert "cannot be written" in result.trouble
    assert len(result.trained.evaluations) == 4


def test_places_are_kept_now_and_then_alone(tree, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(Checkpoint, "write", lambda self, data: written.append(data["step"]))
    given, words = job(tree, "erm")
    train_resumable(*given, **words, checkpoint=Checkpoint(tmp_path / "p.pt", "x", seconds=1e9))
    assert written == [12]  # before the average and the record are made


# --- runs and fits -------------------------------------------------------------------------------------------------


def often(monkeypatch):
    """Places are kept after every step."""
    real = runs.checkpoint_of

    def at_once(*args):
        found = real(*args)
        return found and dataclasses.replace(found, seconds=0.0)

    monkeypatch.setattr(runs, "checkpoint_of", at_once)
    monkeypatch.setattr(models, "checkpoint_of", at_once)


def test_a_run_of_an_evaluation_goes_on_and_tidies_up(tree, tmp_path, monkeypatch):
    often(monkeypatch)
    _, config = made(tree, algorithms=("swad-nu",), held_out=("day",), schedule=STEPS)
    (trial,) = trials(config)
    whole = run_trial(trial)
    (trial,) = trials(dataclasses.replace(config, checkpoints=str(tmp_path / "places")))
    real, steps = runs.train_resumable, []

    def counted(after):
        def call(*args, **words):
            words["progress"] = lambda done, total: (steps.append(done), stop_after(after)(done, total))
            return real(*args, **words)

        return call

    monkeypatch.setattr(runs, "train_resumable", counted(6))
    with pytest.raises(Stopped):
        run_trial(trial)
    name = trial_hash(EXPERIMENT.id, VERSION, trial)
    assert [p.name for p in (tmp_path / "places").iterdir()] == [f"{name}.pt"]
    steps.clear()
    monkeypatch.setattr(runs, "train_resumable", counted(0))
    again = run_trial(trial)
    assert steps[0] == 6
    assert again.rows == whole.rows
    assert all((again.arrays[n] == whole.arrays[n]).all() for n in whole.arrays)
    assert list((tmp_path / "places").iterdir()) == []


def test_a_run_that_diverges_leaves_no_place(tree, tmp_path, monkeypatch):
    often(monkeypatch)
    schedule = Schedule(steps=60, batch=4, rate=1e30, evaluate_every=30)
    _, config = made(tree, algorithms=("erm",), held_out=("day",), schedule=schedule)
    (trial,) = trials(dataclasses.replace(config, checkpoints=str(tmp_path / "places")))
    with pytest.raises(Diverged):
        run_trial(trial)
    assert list((tmp_path / "places").iterdir()) == []


def test_a_fit_goes_on_where_it_was_stopped(tree, tmp_path, monkeypatch):
    often(monkeypatch)
    found, config = made(tree)
    given = (config.source, found, config.network, "erm-nu", dataclasses.replace(FAST, steps=8), Settings())
    whole, _ = models.fit(*given)
    place = str(tmp_path / "places")
    with pytest.raises(Stopped):
        models.fit(*given, checkpoints=place, progress=stop_after(5))
    other, result = models.fit(*given, checkpoints=place, seed=1)
    assert result.resumed == 0  # another fit
    again, result = models.fit(*given, checkpoints=place)
    assert result.resumed == 4
    assert torch.equal(again.head.weight, whole.head.weight)
    assert not torch.equal(other.head.weight, whole.head.weight)
    assert again.about["measures"] == whole.about["measures"]
    assert list((tmp_path / "places").iterdir()) == []


def test_a_process_that_is_killed_goes_on(tree, tmp_path):
    """kill -9 in the middle of a fit, and the same command again."""
    words = ["fit", "--data", str(tree), "--size", "8", "--width", "8", "--batch", "4", "--steps", "400", "--rate"]
    words += ["0.001", "--evaluate-every", "200", "--algorithm", "erm", "--device", "cpu", "--out", "m.pt"]
    program = """
        import dataclasses, os, signal, sys
        from featlearn.apply.domains import models, runs
        from featlearn.cli import main
        real, fit, kill = runs.checkpoint_of, models.fit, sys.argv.pop(1) == "kill"
        models.checkpoint_of = lambda *a: dataclasses.replace(real(*a), seconds=0.0)
        def mortal(*args, **words):
            def progress(done, total):
                if kill and done == 300:
                    os.kill(os.getpid(), signal.SIGKILL)
            return fit(*args, **{**words, "progress": progress})
        models.fit = mortal
        sys.exit(main(["domains", *sys.argv[1:]]))
    """

    def call(how):
        command = [sys.executable, "-c", textwrap.dedent(program), how, *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=dict(os.environ))

    assert call("kill").returncode == -signal.SIGKILL
    assert not (tmp_path / "m.pt").exists()
    done = call("live")
    assert done.returncode == 0, done.stderr
    assert "went on from step 299, where the same fit had been stopped" in done.stderr
    assert (tmp_path / "m.pt").exists()


def test_modules_that_are_given_stay_as_they_are(tree):
    given, words = job(tree, "erm")
    before = copy.deepcopy(given[0].state_dict())
    state = torch.get_rng_state()
    train_resumable(*given, **words)
    assert all(torch.equal(v, before[k]) for k, v in given[0].state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


class Two:
    """Two processes as threads of this one: gradients are averaged, numbers gathered."""

    device = torch.device("cpu")
    count = 2

    def __init__(self, index, barrier, slots):
        self.index, self.barrier, self.slots = index, barrier, slots

    def everyone(self, mine):
        self.slots[self.index] = mine
        self.barrier.wait(60)
        found = list(self.slots)
        self.barrier.wait(60)
        return found

    def gathered(self, values):
        return self.everyone(list(values))

    def gradients(self, parameters):
        learned = [p for p in parameters if p.grad is not None]
        both = self.everyone([p.grad.clone() for p in learned])
        for p, a, b in zip(learned, *both, strict=True):
            p.grad = (a + b) / 2


def in_two(tree, place, stop=None, name="erm"):
    """Both processes of a training; places in two files each."""
    barrier, slots = threading.Barrier(2), [None, None]
    found, config = made(tree)
    parts = divide(found, "night", 0)
    trial = dataclasses.replace(trials(config)[0], checkpoints=str(place))

    both = [(backbone("cnn", KEY / "net", 3, 8), linear_head(16, 2, KEY / "head")) for _ in range(2)]

    def one(index):
        processes, modules = Two(index, barrier, slots), both[index]
        checkpoint = runs.checkpoint_of("two", trial, one, str(place), processes)
        own = dataclasses.replace(checkpoint, own=dataclasses.replace(checkpoint.own, seconds=0.0))
        method = build(
            algorithm(name), Settings(), 12, 2, modules[0], parts.training[0].domain.inputs(torch.arange(2), None)
        )
        return train_resumable(
            *modules,
            method.objective,
            parts.training,
            STEPS,
            key=KEY / "run",
            watch=parts.watch,
            processes=processes,
            progress=stop_after(stop) if stop else None,
            checkpoint=own,
        )

    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(one, i) for i in range(2)]
        return [f.exception() or f.result() for f in waiting]


def test_several_processes_go_on_from_a_step_that_all_have(tree, tmp_path, monkeypatch):
    """They are stopped after 10 steps with places at 6 and 9; the file of one at 9 is lost: both go on from 6."""
    monkeypatch.setattr(together, "EVERY", 3)
    whole = in_two(tree, tmp_path / "whole", name="group-dro")
    assert torch.equal(whole[0].trained.weights["classifier.weight"], whole[1].trained.weights["classifier.weight"])
    place = tmp_path / "places"
    assert [type(x) for x in in_two(tree, place, stop=11, name="group-dro")] == [Stopped, Stopped]
    assert len(list(place.iterdir())) == 4
    steps = {p: torch.load(p, weights_only=True)["step"] for p in place.iterdir()}
    assert sorted(steps.values()) == [6, 6, 9, 9]
    next(p for p, step in steps.items() if step == 9).write_bytes(b"half")
    again = in_two(tree, place, name="group-dro")
    assert [r.resumed for r in again] == [6, 6]
    for a, b in zip(again, whole, strict=True):
        same(a.trained, b.trained)


def test_where_one_process_cannot_write_none_does(tree, tmp_path, monkeypatch):
    """The second one fails after three steps; the first one has written then, and never again."""
    monkeypatch.setattr(together, "EVERY", 3)
    written, real = [], together.SharedCheckpoint.write

    def write(self, data):
        if "1-of-2" in self.own.path.name:
            raise StoreError("the disk is full")
        written.append(data["step"])
        real(self, data)

    monkeypatch.setattr(together.SharedCheckpoint, "write", write)
    assert [r.trouble for r in in_two(tree, tmp_path / "places")] == ["", "the disk is full"]
    assert written == [3]


def test_several_processes_keep_the_step_that_they_went_on_from(tree, tmp_path, monkeypatch):
    """Until all have a later one: here they are stopped again after they have written one more."""
    monkeypatch.setattr(together, "EVERY", 3)
    place = tmp_path / "places"
    in_two(tree, place, stop=8)
    in_two(tree, place, stop=10)
    steps = sorted(torch.load(p, weights_only=True)["step"] for p in place.iterdir())
    assert steps == [6, 6, 9, 9]
