"""The nuclear norm of a batch of features as a penalty for any training loop, and the stable rank."""

from collections.abc import Callable
from typing import Any, Literal, NoReturn, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError
from featlearn.errors import NotFiniteInput

Reduction = Literal["mean", "root", "sum"]
Method = Literal["auto", "svd", "gram", "newton-schulz"]

STEPS = 30
"""Newton-Schulz iterations: each multiplies a small squared singular value by 2.25, so that those from 1e-5 of the
Frobenius norm on have arrived."""


def nuclear_norm(
    features: Float[Tensor, "*e n d"],
    reduction: Reduction = "mean",
    method: Method = "auto",
) -> Float[Tensor, "*e"]:
    """Sum of the singular values of a feature matrix, rows = examples, to be added to a loss with a weight.

        ||F||_* = sum_i sigma_i(F);    loss = cross_entropy(head(F), y) + weight * nuclear_norm(F)

    Shapes: features (n, d), one row an example, or (e, n, d) for an ensemble; the result has the leading axis or none.
    Maps with more axes are flattened by the caller, `features.flatten(1)`.

    reduction: "sum" is the formula above; "mean" divides by the number of rows n; "root" by sqrt(n). They say how a
    weight moves with the batch. While n <= d and rows point in different directions, the sum grows like n and "mean"
    keeps a weight's meaning; once the rows repeat few directions (n much above the rank) the sum grows like sqrt(n)
    and "root" does, since ||F||_* / sqrt(n) tends to the trace of the square root of E f f'. A weight for "sum" is
    n times smaller than one for "mean".

    Gradient: U V' of the singular values that are not rounding, the subgradient of smallest norm, so that zeros,
    repeated rows and batches of low rank have finite gradients. It is differentiable once, and a second derivative is
    refused. One row alone: its length. As for most functions of torch, features are not to be changed in place between
    the call and `backward`. `torch.compile` breaks its graph here (the check for finite numbers asks the device), and
    transforms of torch.func do not apply.

    method: "svd" is exact. "gram" takes the eigenvalues of the smaller of F F' and F'F in float64. For both a singular
    value counts as rounding under max(n, d) eps of the largest (2e-4 at 2048 features of float32); while none is, value
    and gradient of float32 features are within 2e-4 of those in float64, relative. "newton-schulz" comes to the same by
    matrix products alone (STEPS of them), without the wait of a GPU for its host; singular values under 1e-5 of the
    Frobenius norm count with a part of their gradient, which they do not have with the others, and directions that are
    rounding of float32 keep up to 1 % of theirs: still a subgradient, not the smallest. "auto": "svd" for float64
    features, else "newton-schulz" on a GPU and "gram" elsewhere.

    Inside autocast, and for half precision, it computes and returns float32.

    The penalty alone can be made small without a change of rank: c F with head / c gives the same predictions and c
    times the penalty, and nothing of the cross entropy resists. Weight decay on the head, a head of fixed norm or a
    small number of steps closes that loophole; without one of them the weight acts on scale as much as on rank.

    Source: thesis ch. 6, equation 6.3 and its listing (nuclear.method_ermnu): that is "sum", uncentred features. The
    released code divides by the rows of the batch of all training domains ("mean") and starts after 100 steps.
    Errors: NotFiniteInput (a SettingError) for nan and infinity before any decomposition; SettingError for axes, an
    empty batch, reduction or method.

    Example:
        >>> nuclear_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]), "sum")
        tensor(7.)
    """
    _check(features, reduction, method)
    with torch.autocast(features.device.type, enabled=False):
        x = features if features.dtype == torch.float64 else features.float()
        n = features.shape[-2]
        scale = {"sum": 1.0, "mean": 1 / n, "root": n**-0.5}[reduction]
        return _NuclearNorm.apply(x, _chosen(method, x), scale)  # pyright: ignore[reportReturnType]


def stable_rank(
    features: Float[Tensor, "*e n d"], kind: Literal["usual", "reported"] = "usual", centred: bool = False
) -> Float[Tensor, "*e"]:
    """How many directions carry a feature matrix, in a number that moves continuously away from zero.

        usual: ||F||_F^2 / ||F||_2^2, between 1 and the rank, unchanged by c F
        reported: ||F||_F^2 / ||F||_2, which is c times larger for c F and not bounded by the rank

    Shapes: features (n, d) or (e, n, d); the result has the leading axis or none, without a gradient. A matrix of
    zeros has 0 (no limit exists there). centred: take each column's mean off first; features after a ReLU point into
    one orthant, and their mean alone brings the usual stable rank near 1.

    Source: thesis sec. 6.3.3 (nuclear.def_stable_rank, nuclear.fig6_5): our copy has no square below; what
    Figure 6.5 shows is not said.
    Errors: as `nuclear_norm`; SettingError for kind.

    Example:
        >>> stable_rank(10 * torch.eye(3)), stable_rank(10 * torch.eye(3), "reported")
        (tensor(3.), tensor(30.))
    """
    if kind not in ("usual", "reported"):
        raise SettingError("kind", repr(kind), "'usual' or 'reported'", "usual does not depend on the scale")
    _check(features, "sum", "auto")
    with torch.no_grad(), torch.autocast(features.device.type, enabled=False):
        x = features.detach().to(_exact(features))
        x = x - x.mean(-2, keepdim=True) if centred else x
        scale = x.abs().amax((-2, -1), keepdim=True)  # squares of tiny numbers would be zeros, of huge ones infinite
        scale = torch.where((scale > 0) & scale.isfinite(), scale, 1.0)
        gram = _gram_of(x / scale)
        _check_finite(features, gram)
        eigenvalues = torch.linalg.eigvalsh(gram).clamp(min=0)
        top = eigenvalues[..., -1]
        over = top if kind == "usual" else top.sqrt()
        rank = torch.where(top > 0, eigenvalues.sum(-1) / over.where(top > 0, 1.0), 0.0)
        rank = rank if kind == "usual" else rank * scale[..., 0, 0]
        return rank.to(features.dtype if features.dtype == torch.float64 else torch.float32)


# --- values and polar factors ----------------------------------------------------------------------------------------

Factors = tuple[Tensor, Tensor] | None
"""Two matrices whose product is the polar factor U V'; None where no gradient is wanted."""


class _NuclearNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, method: str, scale: float) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        value, factors = _DECOMPOSE[method](x, ctx.needs_input_grad[0])
        if factors is not None:
            # their product, as large as the features, is made when it is asked for and with the weight in it
            ctx.save_for_backward(x, *factors)
        ctx.scale = scale
        return (value * scale).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, left, right = ctx.saved_tensors
        with torch.no_grad(), torch.autocast(grad.device.type, enabled=False):  # a loop may call backward inside one
            weight = (grad * ctx.scale)[..., None, None]
            left, right = (left * weight, right) if left.numel() <= right.numel() else (left, right * weight)
            exact = torch.promote_types(left.dtype, right.dtype)
            polar = (left.to(exact) @ right.to(exact)).to(grad.dtype)
        return (_Once.apply(polar, x, grad) if torch.is_grad_enabled() else polar), None, None


class _Once(torch.autograd.Function):
    """The gradient as it is, in a graph that ends here: a second derivative without the norm's part would be wrong.

    torch's `once_differentiable` lets one pass where the incoming gradient is a constant, as in a sum of losses.
    """

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, x: Tensor, grad: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> NoReturn:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise SettingError(
            "features", "in a second derivative", "first derivatives of nuclear_norm", "use torch.linalg.svdvals there"
        )


def _svd(x: Tensor, gradient: bool) -> tuple[Tensor, Factors]:
    _check_finite(x, x)
    if not gradient:
        return torch.linalg.svdvals(x).sum(-1), None
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    kept = s > s[..., :1] * max(x.shape[-2:]) * torch.finfo(x.dtype).eps
    return s.sum(-1), (u * kept[..., None, :], vh)


def _gram(x: Tensor, gradient: bool) -> tuple[Tensor, Factors]:
    """The factor (F F')^(-1/2) F, or F (F'F)^(-1/2), in the precision of the features: its error is their rounding
    times the ratio of the largest to the smallest singular value that counts, as that of an SVD in this precision."""
    gram = _gram_of(x.to(_exact(x)))
    _check_finite(x, gram)
    eigenvalues, u = torch.linalg.eigh(gram)
    s = eigenvalues.clamp(min=0).sqrt()
    if not gradient:
        return s.sum(-1), None
    # What rounding left of a zero: that of the features, or that of squaring them in the Gram matrix.
    noise = max(max(x.shape[-2:]) * torch.finfo(x.dtype).eps, (max(x.shape[-2:]) * torch.finfo(gram.dtype).eps) ** 0.5)
    inverse = torch.where(s > s[..., -1:] * noise, 1 / s, 0.0)
    return s.sum(-1), _beside(((u * inverse[..., None, :]) @ u.mT).to(x.dtype), x)


def _newton_schulz(x: Tensor, gradient: bool) -> tuple[Tensor, Factors]:
    """Y -> sqrt(G / c) and Z -> its inverse together, c = tr G; |F|_* = sqrt(c) tr Y and the polar factor is
    Z F / sqrt(c), in float64: rounding of float32 in the directions of zeros would be blown up by Z."""
    gram = _gram_of(x.to(_exact(x)))
    c = gram.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    _check_finite(x, c)
    c = torch.where(c > 0, c, 1.0)  # of zeros everything stays zero
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    y, z = gram / c, eye.expand_as(gram)
    for _ in range(STEPS):
        t = 1.5 * eye - 0.5 * (z @ y)
        y, z = y @ t, t @ z
    value = (y.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None] * c.sqrt())[..., 0, 0]
    return value, _beside(z / c.sqrt(), x) if gradient else None


_DECOMPOSE: dict[str, Callable[[Tensor, bool], tuple[Tensor, Factors]]] = {
    "svd": _svd,
    "gram": _gram,
    "newton-schulz": _newton_schulz,
}


def _chosen(method: str, x: Tensor) -> str:
    if method != "auto":
        return method
    if x.dtype == torch.float64:
        return "svd"
    return "newton-schulz" if x.device.type == "cuda" else "gram"


def _exact(x: Tensor) -> torch.dtype:
    """float64 wherever the device has it: squaring in float32 would lose singular values under 3e-4 of the largest."""
    return torch.float32 if x.device.type == "mps" else torch.float64


def _beside(root: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The inverse root of the smaller Gram matrix on the side of the features where it belongs."""
    return (root, x) if x.shape[-2] <= x.shape[-1] else (x, root)


def _gram_of(w: Tensor) -> Tensor:
    return w @ w.mT if w.shape[-2] <= w.shape[-1] else w.mT @ w


# --- checks ----------------------------------------------------------------------------------------------------------


def _check(features: Tensor, reduction: str, method: str) -> None:
    if not isinstance(features, Tensor):
        found = f"a {type(features).__name__}"
        raise SettingError("features", found, "a torch tensor", "torch.as_tensor makes one")
    if features.ndim not in (2, 3) or 0 in features.shape:
        shape = f"a tensor of shape {tuple(features.shape)}"
        allowed = "(rows, features), or (e, rows, features), one or more of each"
        raise SettingError("features", shape, allowed, _remedy(features))
    if not features.is_floating_point():
        raise SettingError("features", f"a tensor of {features.dtype}", "floating point", "convert with .float()")
    if reduction not in get_args(Reduction):
        raise SettingError("reduction", repr(reduction), f"one of {', '.join(get_args(Reduction))}", "mean is usual")
    if method not in get_args(Method):
        raise SettingError("method", repr(method), f"one of {', '.join(get_args(Method))}", "auto chooses")


def _remedy(features: Tensor) -> str:
    if features.ndim < 2:
        return "one row alone is features[None]"
    if features.ndim > 3:
        return "flatten maps with features.flatten(1)"
    if features.shape[-2] == 0:
        return "a batch without rows has no norm: leave it out"
    return "take a layer that gives features" if features.shape[-1] == 0 else "an ensemble without members has no norm"


def _check_finite(features: Tensor, seen: Tensor) -> None:
    """One number is read from the device: it is finite if and only if all that went into it was. Details only then."""
    if bool(torch.isfinite(seen).all()):
        return
    bad = ~torch.isfinite(features)
    if not bad.any():
        raise NotFiniteInput(
            "features", "a tensor with values above 1e150", "numbers whose squares are finite", "scale it"
        )
    rows = int(bad.any(-1).sum())
    value = f"a tensor with {int(bad.sum())} of {bad.numel()} values nan or infinite"
    remedy = f"{rows} rows are affected: lower the learning rate or the weight"
    raise NotFiniteInput("features", value, "finite numbers", remedy)
