"""The empirical tangent kernel against autograd, and the angle between kernels."""

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.measure import kernel_drift, tangent_kernel

KEY = Key("tangent")


@pytest.mark.parametrize("biased", [True, False])
def test_kernel_equals_products_of_autograd_gradients(biased):
    gen = KEY.torch()
    w, a, b = (torch.randn(s, generator=gen, dtype=torch.float64) for s in ((2, 7, 4), (2, 7), (2, 7)))
    x = torch.randn(5, 4, generator=gen, dtype=torch.float64)
    got = tangent_kernel(w, a, x, b if biased else None)
    for i in range(2):
        own = [t[i].clone().requires_grad_() for t in ((w, a, b) if biased else (w, a))]
        rows = []
        for row in x:
            z = own[0] @ row + (own[2] if biased else 0)
            grads = torch.autograd.grad(own[1] @ torch.relu(z), own)
            rows.append(torch.cat([g.flatten() for g in grads]))
        jacobian = torch.stack(rows)
        torch.testing.assert_close(got[i], jacobian @ jacobian.T, atol=1e-10, rtol=0)


def test_drift_is_one_minus_the_cosine():
    gen = KEY.torch()
    k, other = (torch.randn(3, 4, 4, generator=gen, dtype=torch.float64) for _ in range(2))
    want = 1 - torch.nn.functional.cosine_similarity(k.flatten(1), other.flatten(1))
    torch.testing.assert_close(kernel_drift(k, other), want)
    torch.testing.assert_close(
        kernel_drift(1e-200 * k, 1e150 * k), torch.zeros(3, dtype=torch.float64), atol=1e-12, rtol=0
    )
    assert kernel_drift(k[0], other[0]).item() == pytest.approx(want[0].item())


@pytest.mark.parametrize("bad", [0.0, float("nan")])
def test_kernels_without_a_direction_and_bad_data_are_refused(bad):
    k = torch.eye(3)
    with pytest.raises(SettingError, match=r"^after = a kernel that is 0 or not finite"):
        kernel_drift(k, bad * k)
    x = torch.ones(3, 2)
    x[0, 0] = float("nan")
    with pytest.raises(SettingError, match=r"^x = 1 of 6 values not finite"):
        tangent_kernel(torch.ones(1, 2, 2), torch.ones(1, 2), x)
