"""The start with fixed signs."""

import math

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.nets import fixed_signs_init

KEY = Key("tests/initial")


def test_signs_scale_and_no_biases():
    net = fixed_signs_init(400, 50, KEY, omega=0.02)
    assert net.activation == "relu"
    assert net.w.shape == (1, 400, 50)
    assert int((net.a > 0).sum()) == 200
    torch.testing.assert_close(net.a.abs(), torch.full((1, 400), 0.05))
    assert net.b.abs().max() == 0
    assert float(net.w.std()) == pytest.approx(0.02, rel=0.025)  # 20 000 entries: 5 standard errors
    assert torch.equal(net.w, fixed_signs_init(400, 50, Key(KEY.path), omega=0.02).w)


def test_omega_scales_one_draw():
    one, two = (fixed_signs_init(4, 3, KEY, omega=o).w for o in (1.0, 0.5))
    torch.testing.assert_close(one, 2 * two)


@pytest.mark.parametrize(
    "m, d, omega, field",
    [(7, 3, 1.0, "m"), (0, 3, 1.0, "m"), (4, 0, 1.0, "d"), (4, 3, 0.0, "omega"), (4, 3, math.inf, "omega")],
)
def test_refused_in_one_line(m, d, omega, field):
    with pytest.raises(SettingError) as e:
        fixed_signs_init(m, d, KEY, omega=omega)
    assert e.value.field == field
    assert "\n" not in str(e.value)
