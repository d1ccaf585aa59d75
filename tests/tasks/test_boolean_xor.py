"""XOR on the cube: exact identities of its clusters, fair signs, any basis."""

import jaxtyping
import numpy as np
import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.tasks import BooleanXor
from featlearn.tasks.boolean_xor import signs

KEY = Key("tests/boolean_xor")


@pytest.mark.parametrize("basis", ["standard", "random"])
@pytest.mark.parametrize("pair", [(0, 1), (4, 2)])
def test_samples_are_cluster_centres_plus_orthogonal_noise(basis, pair):
    task = BooleanXor(d=7, pair=pair, basis=basis)
    truth = task.draw(KEY)
    batch = task.sample(truth, 500, KEY / "x")
    x, means = batch.x.double(), truth.means.double()
    torch.testing.assert_close(means @ means.T, 2 * torch.eye(2).double(), atol=1e-5, rtol=0)
    centres = torch.stack([means[0], -means[0], means[1], -means[1]])[batch.group]
    z = x @ means.T @ means / 2
    torch.testing.assert_close(z, centres, atol=1e-5, rtol=0)  # the plane of the means holds the centre and no more
    torch.testing.assert_close((x - centres).square().sum(1), torch.full((500,), 5.0).double(), atol=1e-4, rtol=0)
    assert torch.equal(batch.y, torch.where(batch.group < 2, 1.0, -1.0))
    s = x if truth.basis is None else x @ truth.basis.double()
    torch.testing.assert_close(s.abs(), torch.ones_like(s), atol=1e-5, rtol=0)
    torch.testing.assert_close(-s[:, pair[0]] * s[:, pair[1]], batch.y.double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(batch.hidden.double(), s[:, list(pair)], atol=1e-5, rtol=0)


def test_signs_are_fair_and_independent_and_no_bit_is_lost():
    """40000 rows: a mean has standard error 0.005, a product of two columns too; 5 sigma over 9 + 36 of them."""
    x = signs(40_000, 9, KEY)
    assert set(x.unique().tolist()) == {-1.0, 1.0}
    assert x.shape == (40_000, 9)
    moment = x.T @ x / len(x) - torch.eye(9)
    assert x.mean(0).abs().max() < 0.025
    assert moment.abs().max() < 0.025
    raw = np.frombuffer(KEY.numpy().bytes(45_000), dtype=np.uint8)
    assert np.array_equal(np.unpackbits(raw).reshape(40_000, 9), (x.numpy() > 0).astype(np.uint8))


def test_each_cluster_has_a_quarter():
    task = BooleanXor(d=5)
    group = task.sample(task.draw(KEY), 40_000, KEY / "groups").group
    share = group.bincount(minlength=4) / len(group)
    assert (share - 0.25).abs().max() < 0.011  # 5 standard errors


@pytest.mark.parametrize(
    "field, value", [("d", 1), ("pair", (1, 1)), ("pair", (0, 32)), ("pair", (0,)), ("basis", "skew")]
)
def test_wrong_settings_are_refused(field, value):
    # while testing, annotations refuse what is no pair and no basis before the task itself does
    with pytest.raises((SettingError, jaxtyping.TypeCheckError), match=field):
        BooleanXor(**{field: value})
