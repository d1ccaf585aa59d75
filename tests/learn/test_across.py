"""Two processes with half of each batch are one with the whole: losses, gradients, statistics, queues, weights."""

import os
import socket
import subprocess
import sys

import across_worker as worker
import pytest
import torch
from torch import nn

from featlearn.core import SettingError
from featlearn.learn.contrastive import pretrain_across
from featlearn.learn.contrastive.whole_batch import CpuSyncBatchNorm, OneProcess, Together, synchronised

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What each of two processes found that Accelerate joined over gloo."""
    out = tmp_path_factory.mktemp("two")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = {
        **os.environ,
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    env |= {"ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": "", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, worker.__file__, str(out)]
    running = [
        subprocess.Popen(
            command,
            env={**env, "RANK": str(i), "LOCAL_RANK": str(i)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for i in range(2)
    ]
    try:
        said = [p.communicate(timeout=500)[0] for p in running]
    finally:
        for p in running:
            p.kill()
    assert [p.returncode for p in running] == [0, 0], said[0][-1500:]
    return [torch.load(out / f"process{i}.pt") for i in range(2)], sorted(p.name for p in out.iterdir())


@pytest.fixture(scope="module")
def one():
    return worker.everything(OneProcess(CPU))


def close(mine, other, atol):
    assert mine.keys() == other.keys()
    for name, value in mine.items():
        torch.testing.assert_close(value, other[name], atol=atol, rtol=1e-4, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.slow
@pytest.mark.parametrize("method", worker.METHODS)
def test_loss_gradient_and_statistics_are_those_of_the_whole_batch(method, one, two):
    unset = ("num_batches", "bank_ptr")  # lightly leaves the pointer of a queue of length 0 as memory was
    wanted = {k: v for k, v in one[method]["step"].items() if not any(name in k for name in unset)}
    for found in two[0]:
        step = {k: v for k, v in found[method]["step"].items() if not any(name in k for name in unset)}
        close(step, wanted, atol=1e-5)
        assert float(sum(v.abs().sum() for k, v in step.items() if k.startswith("encoder"))) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("method", worker.METHODS)
def test_the_whole_run_is_that_of_one_process(method, one, two):
    for found in two[0]:
        torch.testing.assert_close(found[method]["trace"], one[method]["trace"], atol=1e-4, rtol=1e-3)
        close(found[method]["encoder"], one[method]["encoder"], atol=1e-4)
        close(found[method]["projection"], one[method]["projection"], atol=1e-4)
    assert all(torch.equal(v, two[0][1][method]["encoder"][k]) for k, v in two[0][0][method]["encoder"].items())


@pytest.mark.slow
def test_one_process_alone_writes_the_checkpoint(two):
    assert two[1] == ["process0.pt", "process1.pt", "run.pt"]


def test_halves_that_do_not_know_of_each_other_differ(one):
    """The tolerances above could fail: gradients of two halves on their own, averaged, are none of these."""
    for method in worker.METHODS:
        halves = [worker.gradients(method, OneProcess(CPU), slice(i, i + 4)) for i in (0, 4)]
        wanted = one[method]["step"]
        off = max(
            float((0.5 * (halves[0][k] + halves[1][k]) - v).abs().max())
            for k, v in wanted.items()
            if k.startswith("encoder")
        )
        assert off > 1e-3, method


def test_batches_that_processes_cannot_share_are_refused():
    three = type("Three", (OneProcess,), {"count": 3})(CPU)
    assert isinstance(three, Together)
    with pytest.raises(SettingError, match="batch = 8 is not allowed: a multiple of 3 processes, two images each"):
        pretrain_across(worker.encoder(), worker.images(), worker.settings("byol"), key=worker.KEY, processes=three)
    eight = type("Eight", (OneProcess,), {"count": 8})(CPU)
    with pytest.raises(SettingError, match="batch = 8 is not allowed: a multiple of 8"):
        pretrain_across(worker.encoder(), worker.images(), worker.settings("byol"), key=worker.KEY, processes=eight)


def test_batch_norm_that_is_kept_in_evaluation_mode_stays():
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Sequential(nn.BatchNorm2d(3, affine=False), nn.BatchNorm1d(2).eval()))
    before = net.state_dict()
    made = synchronised(net, CPU)
    assert [type(m).__name__ for m in (made[0], *made[1])] == ["CpuSyncBatchNorm", "CpuSyncBatchNorm", "BatchNorm1d"]
    assert made.state_dict().keys() == before.keys()
    assert all(made.state_dict()[k].data_ptr() == v.data_ptr() for k, v in before.items() if v.ndim)
    assert isinstance(synchronised(nn.BatchNorm1d(3), CPU), CpuSyncBatchNorm)
    x = torch.randn(5, 3)
    plain = nn.BatchNorm1d(3).eval()
    assert torch.equal(synchronised(nn.BatchNorm1d(3), CPU).eval()(x), plain(x))


def test_on_gpus_it_is_that_of_torch():
    made = synchronised(nn.Sequential(nn.BatchNorm2d(3), nn.BatchNorm1d(3).eval()), torch.device("cuda"))
    assert isinstance(made[0], nn.SyncBatchNorm)
    assert isinstance(made[1], nn.BatchNorm1d)
