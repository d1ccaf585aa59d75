"""Clusters of weight directions: spherical k-means, cosine silhouette, and a flat picture by multidimensional scaling.

Only directions count here: every vector is divided by its length first.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.core.check import checked
from featlearn.measure.checks import unit_rows


@dataclass(frozen=True)
class Clusters:
    """Result of spherical k-means. centres: unit vectors (k, d). labels: nearest centre of each direction (m).

    mean_cosine: average cosine of a direction with its centre, the quantity that was maximised.
    """

    centres: Float[Tensor, "k d"]
    labels: Int[Tensor, " m"]
    mean_cosine: float


def unit(directions: Float[Tensor, "m d"], name: str = "directions") -> Float[Tensor, "m d"]:
    """Each row divided by its length, in float64: (m, d) -> (m, d).

    Errors: SettingError for rows that are zero or not finite: they have no direction.
    """
    return unit_rows(directions.detach().cpu().double(), name)


@checked()
def best_cosine(weights: Float[Tensor, "e m d"], targets: Float[Tensor, "c d"]) -> Float[Tensor, "e c"]:
    """max_i cos(w_i, c) for every target c: how well the best neuron covers it (the check of emergence.figure16).

    A zero weight has cosine 0. Shapes: weights (e, m, d), targets (c, d); result (e, c).
    Errors: SettingError for a target of length 0.
    """
    if not bool(targets.any(1).all()):
        raise SettingError("targets", "a row of length 0", "rows with a direction", "drop it: nothing points there")
    w = weights / weights.norm(dim=-1, keepdim=True).clamp_min(1e-30)
    return (w @ (targets / targets.norm(dim=1, keepdim=True)).T).max(1).values


@checked(loose=("directions",))
def spherical_kmeans(
    directions: Float[Tensor, "m d"], k: int, key: Key, *, restarts: int = 10, steps: int = 100
) -> Clusters:
    """k unit centres and an assignment that maximise sum_i <u_i, c_(i)>, u_i = w_i / ||w_i||.

    Alternates assignment to the centre of largest cosine and centre = normalised sum of its members, from `restarts`
    starts (k-means++ with dissimilarity 1 - cos); the best end is returned, so this is a local optimum of few. An empty
    cluster takes the direction that is worst covered.

    Source: the check of emergence.figure17 (spherical 2-means of neuron directions); the paper has pictures only.
    Errors: SettingError for k outside 1..m and for rows without a direction.

    Example:
        >>> w = torch.tensor([[1.0, 0.1], [2.0, -0.1], [-1.0, 0.0]])
        >>> spherical_kmeans(w, 2, Key("demo")).labels.bincount().sort().values.tolist()
        [1, 2]
    """
    u = unit(directions)
    if not 1 <= k <= len(u):
        raise SettingError("k", k, f"1 <= k <= m = {len(u)}", "there cannot be more clusters than directions")
    generator = key.torch()
    best: Clusters | None = None
    for _ in range(restarts):
        found = _lloyd(u, _spread_start(u, k, generator), steps)
        if best is None or found.mean_cosine > best.mean_cosine:
            best = found
    if best is None:
        raise SettingError("restarts", restarts, "at least 1", "10 is the default")
    return best


def _spread_start(u: Tensor, k: int, generator: torch.Generator) -> Tensor:
    chosen = [int(torch.randint(len(u), (1,), generator=generator))]
    while len(chosen) < k:
        far = (1 - u @ u[chosen].T).min(1).values.clamp_min(0) + 1e-12  # never all zero, so that duplicates are allowed
        chosen.append(int(torch.multinomial(far, 1, generator=generator)))
    return u[chosen]


def _lloyd(u: Tensor, centres: Tensor, steps: int) -> Clusters:
    k, labels = len(centres), torch.full((len(u),), -1)
    for _ in range(steps):
        cos = u @ centres.T
        new = cos.argmax(1)
        worst = cos.max(1).values.argsort().tolist()
        for empty in set(range(k)) - set(new.tolist()):
            # the worst covered direction that is not alone in its cluster
            moved = next(i for i in worst if int((new == new[i]).sum()) > 1)
            new[moved] = empty
        if torch.equal(new, labels):
            break
        labels = new
        sums = torch.zeros_like(centres).index_add_(0, labels, u)
        norm = sums.norm(dim=1, keepdim=True)
        centres = torch.where(norm > 1e-12, sums / norm.clamp_min(1e-12), centres)  # opposite members: keep the old one
    return Clusters(centres, labels, float((u * centres[labels]).sum(1).mean()))


@checked(loose=("directions",))
def cosine_silhouette(directions: Float[Tensor, "m d"], labels: Int[Tensor, " m"]) -> float:
    """Mean silhouette with dissimilarity 1 - cos: 1 for tight far clusters, 0 for none, below 0 for wrong ones.

    Per direction (b - a) / max(a, b): a the mean dissimilarity to the others of its cluster, b to the nearest other
    cluster; alone in a cluster counts 0.

    Errors: SettingError for fewer than 2 clusters or as many as directions (no silhouette exists).
    """
    from sklearn.metrics import silhouette_score

    u = unit(directions)
    count = len(labels.unique())
    if not 2 <= count <= len(u) - 1:
        raise SettingError("labels", f"{count} clusters", f"2 to m - 1 = {len(u) - 1} clusters", "cluster them first")
    return float(silhouette_score(u.numpy(), labels.cpu().numpy(), metric="cosine"))


@checked(empty=("stars",), loose=("directions", "stars"), moves=True)
def mds(
    directions: Float[Tensor, "m d"], stars: Float[Tensor, "s d"], key: Key, *, steps: int = 200
) -> Float[Tensor, "m_plus_s 2"]:
    """Directions and stars laid out in the plane so that distances approach 1 - cos: neurons first, then stars.

    Metric multidimensional scaling: minimises sum_(i<j) (|z_i - z_j| - (1 - cos(w_i, w_j)))^2 by majorisation (SMACOF),
    from the classical (Torgerson) layout plus a jitter of 1e-6 from `key`, which parts coincident points. The result is
    centred at 0 and turned so that the first star lies on the positive horizontal axis (without stars: principal axes).

    Source: emergence.method_mds. The paper embeds the "cosine similarity matrix" and leaves the transform to a
    dissimilarity and the kind of scaling open; 1 - cos and metric scaling are our reading.
    Errors: SettingError for fewer than 3 points or rows without a direction.

    Example:
        >>> mds(torch.randn(20, 5), torch.eye(5)[:1], Key("demo")).shape
        torch.Size([21, 2])
    """
    u = torch.cat([unit(directions), unit(stars, "stars")])
    if len(u) < 3:
        raise SettingError("directions", f"{len(u)} points with stars", "at least 3", "two points need no picture")
    apart = (1 - u @ u.T).clamp_min(0).fill_diagonal_(0)
    apart = ((apart + apart.T) / 2).numpy()
    start = _classical(apart)
    z = _majorise(apart, start + 1e-6 * key.numpy().standard_normal(start.shape), steps)
    if len(stars):
        x, y = z[len(directions)]
        r = max(float(np.hypot(x, y)), 1e-12)
        z = z @ (np.array([[x, -y], [y, x]]) / r)
    return torch.from_numpy(z).float()


def _classical(apart: np.ndarray) -> np.ndarray:
    """Torgerson's layout: the two leading eigenvectors of the doubly centred -D^2/2, signs by their largest entry."""
    from scipy.linalg import eigh

    squared = apart**2
    gram = -0.5 * (squared - squared.mean(0) - squared.mean(1)[:, None] + squared.mean())
    n = len(gram)
    values, vectors = eigh(gram, subset_by_index=[n - 2, n - 1])
    z = (vectors * np.sqrt(values.clip(0)))[:, ::-1]
    return z * np.sign(z[np.abs(z).argmax(0), [0, 1]] + 1e-300)


def _majorise(apart: np.ndarray, z: np.ndarray, steps: int, tolerance: float = 1e-6) -> np.ndarray:
    """SMACOF with unit weights: z <- B(z) z / n, B_ij = -apart_ij / |z_i - z_j| off the diagonal, rows summing to 0.

    Written out because in float32 it is about three times faster than scikit-learn's at 600 points; a test compares
    the two. Stops when a step lowers the stress by less than `tolerance` of it.
    """
    n, before = len(z), np.inf
    apart, z = apart.astype(np.float32), z.astype(np.float32)  # a picture needs no more, and it halves the traffic
    for _ in range(steps):
        across, up = z[:, :1] - z[:, 0], z[:, 1:] - z[:, 1]  # differences: exact for close points, unlike a Gram matrix
        distance = np.square(across, out=across)
        distance += np.square(up, out=up)
        np.sqrt(distance.clip(1e-12, None, out=distance), out=distance)
        stress = float(np.square(distance - apart).sum())
        if before - stress < tolerance * stress:
            break
        before = stress
        ratio = np.divide(apart, distance, out=distance)
        np.fill_diagonal(ratio, 0)
        z = (ratio.sum(1)[:, None] * z - ratio @ z) / n
    return z
