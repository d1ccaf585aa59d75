"""How well weights point along known features."""

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import checked


@checked(loose=("feature",), mixed=("outside",))
def cosines(
    w: Float[Tensor, "e m d"], feature: Float[Tensor, " d"], outside: Float[Tensor, "e m"] | None = None
) -> Float[Tensor, "e m"]:
    """Signed cosine of every neuron with one direction; a zero weight has cosine 0.

    Formula: <w_i, u> / (||u|| sqrt(||w_i||^2 + outside_i^2)). outside: norm of the part of the weight that lies outside
    the coordinates of w (training in a subspace), which data never see but a cosine does.
    Shapes: w (e, m, d), feature (d), outside (e, m) -> (e, m). Errors: `SettingError` for a feature of length 0.
    """
    size = feature.norm()
    if not bool((size > 0) & torch.isfinite(size)):
        raise SettingError("feature", f"of length {float(size):g}", "a direction", "give one that is not zero")
    peak = w.abs().amax(-1)
    if outside is not None:
        peak = peak.maximum(outside.abs())
    peak = peak.masked_fill(peak == 0, 1)  # dividing by it keeps squares of very small or large weights representable
    w = w / peak[..., None]
    norm2 = w.square().sum(-1)
    if outside is not None:
        norm2 = norm2 + (outside / peak).square()
    return (w @ (feature / size)) / norm2.sqrt().masked_fill(norm2 == 0, 1)


def closest_cosine(
    w: Float[Tensor, "e m d"], feature: Float[Tensor, " d"], outside: Float[Tensor, "e m"] | None = None
) -> Float[Tensor, " e"]:
    """max_i cos(w_i, u), signed: the metric "Cos Similarity" of the emergence tables.

    Shapes: w (e, m, d), feature (d), outside (e, m) as in `cosines` -> (e). Source: emergence.method_baselines.
    """
    return cosines(w, feature, outside).max(-1).values
