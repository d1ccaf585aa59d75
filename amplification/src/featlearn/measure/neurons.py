"""Which clusters the neurons of a two-layer network stand for: cosines, captured clusters, moved features, boundaries.

For the weights of any two-layer network and any data with groups; the leading axis e counts networks. Nothing here
looks at how the network was trained. Centres, inputs and groups are shared by all networks or given one set each.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from featlearn.core import Predictor, SettingError
from featlearn.core.check import checked
from featlearn.measure.checks import unit_rows

BLOCK = 2**24  # entries of an (n, m) block of pre-activations


def _same_length(x: Tensor, group: Tensor) -> None:
    if x.shape[-2] != group.shape[-1]:
        raise SettingError("group", tuple(group.shape), f"one for each of n = {x.shape[-2]} samples", "label every row")


def _sets(e: int, data: Tensor, ndim: int, name: str) -> Iterator[Tensor]:
    """The data of every network: its own where there is one set each."""
    if data.ndim > ndim and len(data) not in (1, e):
        raise SettingError(name, tuple(data.shape), f"one set for all or one for each of e = {e}", "stack e sets")
    for i in range(e):
        yield data if data.ndim == ndim else data[i if len(data) > 1 else 0]


@checked(loose=("w", "centres"))
def cluster_cosines(
    w: Float[Tensor, "e m d"], centres: Float[Tensor, "c d"] | Float[Tensor, "#e c d"]
) -> Float[Tensor, "e m c"]:
    """Signed cosine of every neuron with every cluster centre: <w_j, mu> / (||w_j|| ||mu||).

    Shapes: w (e, m, d), centres (c, d) or (e, c, d) -> (e, m, c). Source: amplification.lemma4, amplification.lemma12.
    Errors: `SettingError` for neurons or centres of length 0 or not finite.

    Example:
        >>> cluster_cosines(torch.tensor([[[3.0, 4.0]]]), torch.eye(2))
        tensor([[[0.6000, 0.8000]]])
    """
    each = list(_sets(len(w), centres, 2, "centres"))
    return torch.matmul(unit_rows(w, "w"), unit_rows(torch.stack(each), "centres").transpose(1, 2))


def closest_cluster(
    w: Float[Tensor, "e m d"], centres: Float[Tensor, "c d"] | Float[Tensor, "#e c d"]
) -> tuple[Float[Tensor, "e m"], Int[Tensor, "e m"]]:
    """Largest cosine of a neuron with a centre, and which centre that is.

    Shapes: w (e, m, d), centres (c, d) or (e, c, d) -> two of (e, m). Errors as in `cluster_cosines`.

    Example:
        >>> closest_cluster(torch.tensor([[[3.0, 4.0]]]), torch.eye(2))[1]
        tensor([[1]])
    """
    best = cluster_cosines(w, centres).max(-1)
    return best.values, best.indices


@checked(signs=("labels",), loose=("w", "centres"), mixed=("a", "labels"))
def matching_neurons(
    w: Float[Tensor, "e m d"],
    a: Float[Tensor, "e m"],
    centres: Float[Tensor, "c d"] | Float[Tensor, "#e c d"],
    labels: Float[Tensor, " c"],
    least: float,
) -> Int[Tensor, "e m"]:
    """The sets J_mu as one index per neuron: the closest centre of the class that a_j votes for, if its cosine is at
    least `least`; else -1.

    Shapes: w (e, m, d), a (e, m), centres (c, d) or (e, c, d), labels (c) in +-1 -> (e, m).
    Source: amplification.lemma4, there with least = 1/(3 C0 sqrt d). Errors as in `cluster_cosines`.

    Example:
        >>> w, a = torch.tensor([[[1.0, 0.1], [-1.0, 0.1]]]), torch.ones(1, 2)
        >>> matching_neurons(w, a, torch.eye(2), torch.tensor([1.0, -1.0]), 0.5)
        tensor([[ 0, -1]])
    """
    cos = cluster_cosines(w, centres)
    cos = cos.masked_fill(a[..., None] * labels <= 0, -2.0)  # a neuron with a = 0 votes for no class
    best = cos.max(-1)
    return torch.where(best.values >= least, best.indices, -1)


@checked(mixed=("b",))
def gate_shares(
    w: Float[Tensor, "e m d"],
    x: Float[Tensor, "n d"] | Float[Tensor, "#e n d"],
    group: Int[Tensor, " n"] | Int[Tensor, "#e n"],
    clusters: int,
    b: Float[Tensor, "e m"] | None = None,
) -> Float[Tensor, "e m c"]:
    """Share of the samples of each cluster on which a neuron is active, <w_j, x> + b_j > 0; nan for an empty cluster.

    Shapes: w (e, m, d), x (n, d) or (e, n, d), group (n) or (e, n) in 0..clusters-1, b (e, m) -> (e, m, c).
    Errors: `SettingError` for x with values that are not finite and for groups outside 0..clusters-1.

    Example:
        >>> gate_shares(torch.ones(1, 1, 1), torch.tensor([[1.0], [-1.0], [2.0]]), torch.tensor([0, 0, 1]), 2)
        tensor([[[0.5000, 1.0000]]])
    """
    _same_length(x, group)
    if group.numel() and not 0 <= int(group.min()) <= int(group.max()) < clusters:
        found = f"{int(group.min())} to {int(group.max())}"
        raise SettingError("group", found, f"0 to {clusters - 1}", "number the clusters from 0")
    out = w.new_zeros(len(w), w.shape[1], clusters)
    each = zip(_sets(len(w), x, 2, "x"), _sets(len(w), group, 1, "group"), strict=True)
    step = max(1, BLOCK // w.shape[1])
    for i, (xi, gi) in enumerate(each):
        for at in range(0, len(xi), step):
            z = w[i] @ xi[at : at + step].T
            active = (z if b is None else z + b[i, :, None]) > 0
            out[i] += active.to(w) @ torch.nn.functional.one_hot(gi[at : at + step], clusters).to(w)
        out[i] /= torch.bincount(gi, minlength=clusters).to(w)
    return out


def captures(
    w: Float[Tensor, "e m d"],
    x: Float[Tensor, "n d"] | Float[Tensor, "#e n d"],
    group: Int[Tensor, " n"] | Int[Tensor, "#e n"],
    clusters: int,
    b: Float[Tensor, "e m"] | None = None,
) -> Bool[Tensor, "e m c"]:
    """Whether a neuron is active on every sample of a cluster (an empty cluster is captured by none).

    Shapes: as in `gate_shares`, and its errors. Source: amplification.captures (section 4.1).

    Example:
        >>> captures(torch.ones(1, 1, 1), torch.tensor([[1.0], [-1.0], [2.0]]), torch.tensor([0, 0, 1]), 2)
        tensor([[[False,  True]]])
    """
    return gate_shares(w, x, group, clusters, b) == 1


@checked(mixed=("b",))
def aligned(
    w: Float[Tensor, "e m d"],
    x: Float[Tensor, "n d"] | Float[Tensor, "#e n d"],
    group: Int[Tensor, " n"] | Int[Tensor, "#e n"],
    own: Int[Tensor, "e m"],
    opposite: Int[Tensor, " c"],
    b: Float[Tensor, "e m"] | None = None,
) -> Bool[Tensor, "e m"]:
    """Neuron alignment: active on every sample of its own cluster and on none of the opposite one.

    own: index of each neuron's cluster, as `matching_neurons` gives it; neurons with -1 are not aligned. The reported
    condition holds if all others are. Shapes: own (e, m), opposite (c), the rest as in `gate_shares` -> (e, m).
    Source: amplification.cond9 (Condition 9). Errors as in `gate_shares`.

    Example:
        >>> x, group = torch.tensor([[1.0], [-1.0]]), torch.tensor([0, 1])
        >>> aligned(torch.ones(1, 1, 1), x, group, torch.tensor([[0]]), torch.tensor([1, 0]))
        tensor([[True]])
    """
    share = gate_shares(w, x, group, len(opposite), b)
    index = own.clamp_min(0)
    on = share.gather(2, index[..., None])[..., 0]
    off = share.gather(2, opposite[index][..., None])[..., 0]
    return (own >= 0) & (on == 1) & (off == 0)


@checked(signs=("labels",), mixed=("a", "labels"))
def off_class_overlap(
    w: Float[Tensor, "e m d"],
    a: Float[Tensor, "e m"],
    centres: Float[Tensor, "c d"] | Float[Tensor, "#e c d"],
    labels: Float[Tensor, " c"],
) -> Float[Tensor, "e m"]:
    """max |<w_j, mu>| / |a_j| over the centres of the class that a_j votes against.

    Almost-orthogonality asks that it stays below 3 alpha, alpha the step size, for the neurons in the sets J_mu.
    Shapes: w (e, m, d), a (e, m), centres (c, d) or (e, c, d), labels (c) in +-1 -> (e, m).
    Source: amplification.cond10 (Condition 10). Errors: `SettingError` for a_j = 0, which votes for no class.

    Example:
        >>> off_class_overlap(torch.tensor([[[1.0, 0.5]]]), torch.ones(1, 1), torch.eye(2), torch.tensor([1.0, -1.0]))
        tensor([[0.5000]])
    """
    if bool((a == 0).any()):
        raise SettingError(
            "a", f"{int((a == 0).sum())} zeros", "second-layer weights with a sign", "drop those neurons"
        )
    each = torch.stack(list(_sets(len(w), centres, 2, "centres")))
    along = torch.matmul(w, each.transpose(1, 2)).abs()
    return along.masked_fill(a[..., None] * labels > 0, 0).amax(-1) / a.abs()


@checked(mixed=("b_before", "b_after"))
def feature_movement(
    before: Float[Tensor, "e m d"],
    after: Float[Tensor, "e m d"],
    x: Float[Tensor, "n d"] | Float[Tensor, "#e n d"],
    b_before: Float[Tensor, "e m"] | None = None,
    b_after: Float[Tensor, "e m"] | None = None,
) -> Float[Tensor, "e n"]:
    """How far the hidden features of each sample moved: ||relu(W' x) - relu(W x)|| / ||relu(W x)||.

    Shapes: before, after (e, m, d), x (n, d) or (e, n, d), biases (e, m) -> (e, n).
    Source: amplification.proposition2. Errors: `SettingError` for x with values that are not finite, and for samples on
    which no neuron was active before (their features were 0).

    Example:
        >>> w = torch.tensor([[[1.0], [2.0]]])
        >>> feature_movement(w, 3 * w, torch.tensor([[1.0]]))
        tensor([[2.]])
    """
    out = []
    for i, xi in enumerate(_sets(len(before), x, 2, "x")):
        parts = []
        for rows in xi.split(max(1, BLOCK // before.shape[1])):
            old, new = rows @ before[i].T, rows @ after[i].T
            old = torch.relu(old if b_before is None else old + b_before[i])
            new = torch.relu(new if b_after is None else new + b_after[i])
            norm = old.norm(dim=1)
            if bool((norm == 0).any()):
                says = f"{int((norm == 0).sum())} samples on which no neuron is active before"
                raise SettingError("x", says, "samples with features", "drop them: there is nothing to compare with")
            parts.append((new - old).norm(dim=1) / norm)
        out.append(torch.cat(parts))
    return torch.stack(out)


@dataclass(frozen=True)
class BoundaryGrid:
    """Scores on a plane. across, up: coordinates along the two directions (k). score: (k, k, o), rows going up."""

    across: Float[Tensor, " k"]
    up: Float[Tensor, " k"]
    score: Float[Tensor, "k k o"]


@checked()
def decision_grid(
    predictor: Predictor, plane: Float[Tensor, "2 d"], *, reach: float | int = 2.0, points: int = 101
) -> BoundaryGrid:
    """Scores of any predictor on the plane spanned by two directions, s plane_1 + t plane_2 for s, t in +-reach.

    The decision boundary is where the score is 0. Shapes: plane (2, d) -> score (k, k, o), k = points.
    Source: amplification.figure1. Errors: `SettingError` for a plane whose directions are dependent or not finite, for
    fewer than 2 points, and for a reach that is not above 0.

    Example:
        >>> grid = decision_grid(lambda x: x[:, :1], torch.eye(2), points=3)
        >>> grid.score[0, :, 0].tolist()
        [-2.0, 0.0, 2.0]
    """
    if points < 2:
        raise SettingError("points", points, "at least 2", "101 draw a smooth boundary")
    if not reach > 0:
        raise SettingError("reach", reach, "above 0", "2 shows clusters at distance 1")
    one, two = unit_rows(plane, "plane")
    if abs(float(one @ two)) > 1 - 1e-6:
        raise SettingError("plane", "two parallel directions", "independent directions", "give two that differ")
    at = torch.linspace(-float(reach), float(reach), points, dtype=plane.dtype, device=plane.device)
    up, across = torch.meshgrid(at, at, indexing="ij")
    score = predictor(torch.stack([across.flatten(), up.flatten()], 1) @ plane)
    return BoundaryGrid(at, at, score.reshape(points, points, -1))
