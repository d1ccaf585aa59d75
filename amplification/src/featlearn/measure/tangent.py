"""How far a network left its linearisation: its tangent kernel, and how far two kernels on the same data are apart."""

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import checked


@checked()
def tangent_kernel(
    w: Float[Tensor, "e m d"],
    a: Float[Tensor, "e m"],
    x: Float[Tensor, "n d"],
    b: Float[Tensor, "e m"] | None = None,
) -> Float[Tensor, "e n n"]:
    """Empirical NTK of two-layer ReLU networks: inner products of the gradients of the output in all parameters.

    Formula: K(x, x') = sum_i relu(z_i) relu(z_i') + a_i^2 1[z_i > 0] 1[z_i' > 0] (<x, x'> + 1), z_i = <w_i, x> + b_i;
    the 1 is the bias's and goes where b is None (no bias is trained).
    Shapes: w (e, m, d), a and b (e, m), x (n, d) -> (e, n, n). Source: the kernel that xor_sgd.prior_rates and
    gradient_features.claim_xor_beyond_kernel compare with. Errors: `SettingError` for x that is not finite.

    Example:
        >>> tangent_kernel(torch.ones(1, 1, 1), torch.full((1, 1), 2.0), torch.tensor([[1.0], [3.0]]))
        tensor([[[ 5., 15.],
                 [15., 45.]]])
    """
    inner = x @ x.T if b is None else x @ x.T + 1
    kernels = []
    for i in range(len(w)):
        z = x @ w[i].T if b is None else x @ w[i].T + b[i]
        active = (z > 0).to(z.dtype)
        features = z * active
        kernels.append(features @ features.T + inner * ((active * a[i].square()) @ active.T))
    return torch.stack(kernels)


@checked(loose=("before", "after"), mixed=("before", "after"))
def kernel_drift(before: Float[Tensor, "*e n n"], after: Float[Tensor, "*e n n"]) -> Float[Tensor, "*e"]:
    """How far a kernel turned: 1 - <K, K'> / (||K|| ||K'||), 0 in the lazy regime whatever the scale, at most 1.

    Any Gram matrices on the same samples will do: the tangent kernel before and after training, or that of features.
    Shapes: (..., n, n), matrices of one ensemble or one alone -> (...). Errors: `SettingError` for a zero matrix.

    Example:
        >>> k = torch.tensor([[2.0, 0.0], [0.0, 0.0]])
        >>> float(kernel_drift(k, 3 * k)), float(kernel_drift(k, k.flip(0, 1)))
        (0.0, 1.0)
    """
    for name, kernel in (("before", before), ("after", after)):
        size = kernel.abs().amax((-2, -1))
        if not bool(((size > 0) & torch.isfinite(size)).all()):
            raise SettingError(name, "a kernel that is 0 or not finite", "one with a direction", "use other samples")
    before, after = (k / k.abs().amax((-2, -1), keepdim=True) for k in (before, after))
    dot = (before * after).sum((-2, -1))
    return 1 - dot / (before.square().sum((-2, -1)).sqrt() * after.square().sum((-2, -1)).sqrt())
