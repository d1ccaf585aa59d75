"""Where our own code stands beside a well-kept library it says the same: SWAD's mean, statistics of batch norm, ECE."""

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn

from featlearn.apply.domains.measures import BINS, Measures
from featlearn.core import Key
from featlearn.methods.domains.averaging import Mean, refresh_statistics

KEY = Key("tests/domain_beside_libraries")


def network():
    return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def test_the_mean_of_weights_is_that_of_swa_utils():
    """Step by step; in segments, which swa_utils does not have, too."""
    net, draw = network(), KEY.torch()
    theirs, ours, whole, segment = AveragedModel(net), Mean(), Mean(), Mean()
    for step in range(1, 13):
        with torch.no_grad():
            for p in net.parameters():
                p += 0.1 * torch.randn(p.shape, generator=draw)
        theirs.update_parameters(net)
        ours.add(net.state_dict())
        segment.add(net.state_dict())
        if step in (3, 8, 12):
            whole.add(segment.weights, segment.count)
            segment = Mean()
    for name, p in theirs.module.named_parameters():
        torch.testing.assert_close(ours.weights[name], p.data)
        torch.testing.assert_close(whole.weights[name], p.data)
    assert whole.count == 12


def test_statistics_made_anew_are_those_of_update_bn():
    ours, theirs = network(), network()
    theirs.load_state_dict(ours.state_dict())
    batches = (3 * torch.randn(6, 20, 5, generator=KEY.torch()) + 1).unbind()
    refresh_statistics(ours, batches)
    update_bn(batches, theirs)
    assert torch.equal(ours[1].running_mean, theirs[1].running_mean)
    assert torch.equal(ours[1].running_var, theirs[1].running_var)


def test_calibration_is_that_of_torchmetrics():
    metrics = pytest.importorskip("torchmetrics", reason="torchmetrics is not installed: pip install it runs this")
    draw = (KEY / "probabilities").torch()
    p = torch.randn(500, 4, generator=draw).mul(2).softmax(1)
    y = torch.multinomial(p.sqrt(), 1, generator=draw)[:, 0]
    whole = Measures.of(p, y)
    ece = metrics.CalibrationError(task="multiclass", num_classes=4, n_bins=BINS)(p, y)
    assert whole.ece == pytest.approx(float(ece), abs=1e-5)
    assert whole.ece > 0.05
    balanced = metrics.Accuracy(task="multiclass", num_classes=4, average="macro")(p, y)
    assert whole.balanced == pytest.approx(float(balanced), abs=1e-6)
    confusion = metrics.ConfusionMatrix(task="multiclass", num_classes=4)(p, y)
    assert whole.confusion.tolist() == confusion.tolist()
