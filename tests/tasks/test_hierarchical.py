"""Parities of parities, against products written out."""

import jaxtyping
import pytest
import torch

from featlearn.core import Key
from featlearn.errors import SettingError
from featlearn.tasks import HierarchicalParity

KEY = Key("tests/hierarchical")


def test_targets_of_section_8_1_are_written_out():
    task = HierarchicalParity(beta=0.5)
    batch = task.sample(task.draw(KEY), 50, KEY / "data")
    for x, y in zip(batch.x, batch.y, strict=True):
        base = [x[2 * r] * x[2 * r + 1] for r in range(15)]
        composite = base[0] * base[1] * base[2] * base[3]
        for r in range(15):
            assert y[r] == pytest.approx(float(0.5 * base[r] + 0.3 * (-1) ** (r + 1) * composite), abs=1e-6)


def test_second_moments_are_those_of_the_formula():
    """E ||alpha G||^2 = k alpha^2 = 1.35 and E ||H||^2 = k (1 + alpha^2) = 16.35: F and G are orthogonal signs."""
    task = HierarchicalParity()
    truth = task.draw(KEY)
    batch = task.sample(truth, 20000, KEY / "many")
    assert task.threshold == pytest.approx(1.35)
    assert (task.alpha * task.composite(batch.hidden)).square().sum(1).mean().item() == pytest.approx(1.35, abs=1e-5)
    total = batch.y.square().sum(1)
    # the cross term 2 alpha <F, G> has mean 0 and standard deviation 2 alpha sqrt(k)
    assert total.mean().item() == pytest.approx(16.35, abs=5 * 0.6 * 15**0.5 / 20000**0.5)


@pytest.mark.parametrize("background", ["signs", "gaussian", "zero"])
def test_hard_instance_reads_drawn_coordinates_among_those_alive(background):
    task = HierarchicalParity.hard_instance(20, 3, alpha=0.5, live=8, background=background)
    truth = task.draw(KEY)
    assert truth.blocks.max() < 8
    batch = task.sample(truth, 400, KEY / "data")
    s = batch.x[:, truth.blocks[:, 0]] * 20**0.5
    torch.testing.assert_close(batch.y, s + 0.5 * s.prod(1, keepdim=True), atol=1e-5, rtol=0)
    rest = batch.x[:, 8:]
    assert {"signs": len(rest.unique()) == 2, "zero": not rest.any(), "gaussian": len(rest.unique()) > 1000}[background]
    drawn = {tuple(task.draw(KEY / i).blocks[:, 0].tolist()) for i in range(30)}
    assert len(drawn) > 10


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"d": 29}, "k \\* degree"),
        ({"top": 16}, "top"),
        ({"scale": 0.0}, "scale"),
        ({"live": 31}, "live"),
        ({"alpha": float("nan")}, "alpha"),
        ({"background": "noise"}, "background"),
        ({"degree": 0}, "degree"),
    ],
)
def test_what_does_not_fit_is_named(settings, field):
    with pytest.raises((SettingError, jaxtyping.TypeCheckError), match=field):
        HierarchicalParity(**settings)


def test_a_hard_instance_without_coordinates_is_refused_by_name():
    with pytest.raises((SettingError, jaxtyping.TypeCheckError), match=r"^d = 0"):
        HierarchicalParity.hard_instance(0, 1, alpha=0.5)
