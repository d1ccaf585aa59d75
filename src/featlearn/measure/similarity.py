"""How alike the features of two encoders are, how much of one source's variation lies where another's does, and how
cleanly classes lie in features: linear CKA, overlap of sources, nearest neighbours, a flat picture by t-SNE.

All take features of any encoder, one row an input, and compute in float64.
"""

import math
import warnings

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.core.check import checked
from featlearn.measure.checks import unit_rows

BLOCK = 2**24
"""Entries of a block of cosines."""


@checked(mixed=("y",))
def linear_cka(x: Float[Tensor, "n d"], y: Float[Tensor, "n k"], *, unbiased: bool = False) -> float:
    """Centred kernel alignment of two feature matrices of the same n inputs, with linear kernels.

        plain:     |Xc' Yc|_F^2 / (|Xc' Xc|_F |Yc' Yc|_F),   columns centred
        unbiased:  HSIC_1(K, L) / sqrt(HSIC_1(K, K) HSIC_1(L, L)),   K = X X', L = Y Y'

        HSIC_1 = [tr(K~ L~) + 1'K~1 1'L~1 / ((n - 1)(n - 2)) - 2 1'K~L~1 / (n - 2)] / (n (n - 3)),   K~, L~: diagonal 0

    Both are 1 for equal features, and unchanged by orthogonal maps, shifts and scales of either. The plain one lies in
    [0, 1]; it is drawn towards 1 by few inputs, so that independent features of d and k dimensions have about
    sqrt(d k) / n, and nearly 1 once n is below both: then it warns. The unbiased one is near 0 for independent features
    of any dimension; it can be a little below 0 or above 1. Nothing of size n x n is made.

    Shapes: x (n, d), y (n, k). Source: Kornblith et al. 2019, thesis sec. 7.3.2 (tradeoff.def_cka); HSIC_1 of Song et
    al. 2012. The thesis does not say which, nor how many inputs; the released code's default is the plain one.
    Errors: SettingError for fewer than 4 inputs, and for features that do not vary.

    Example:
        >>> x = torch.randn(200, 3, generator=Key("demo").torch())
        >>> round(linear_cka(x, 2 * x + 1), 6), linear_cka(x, torch.randn(200, 4), unbiased=True) < 0.2
        (1.0, True)
    """
    n = len(x)
    if n < 4:
        raise SettingError("x", f"of {n} inputs", "4 or more", "any two feature matrices of fewer look alike")
    x, y = _centred(x, "x"), _centred(y, "y")
    if not unbiased:
        if n <= min(x.shape[1], y.shape[1]):
            warnings.warn(
                f"plain CKA of {n} inputs in {x.shape[1]} and {y.shape[1]} dimensions is near 1 whatever the features: "
                "take more inputs, or unbiased=True",
                stacklevel=3,
            )
        return float((x.T @ y).square().sum() / ((x.T @ x).norm() * (y.T @ y).norm()))
    across, own_x, own_y = _hsic(x, y), _hsic(x, x), _hsic(y, y)
    for name, own in (("x", own_x), ("y", own_y)):
        if own <= 0:
            says = f"with an unbiased HSIC of {own:.2g} with itself"
            raise SettingError(name, says, "above 0", "the inputs are too few to tell its variation: take more")
    return across / math.sqrt(own_x * own_y)


def _centred(x: Tensor, name: str) -> Tensor:
    """In float64, of root mean square 1: CKA knows neither place nor scale."""
    x = x.double()
    c = x - x.mean(0)
    size = float(c.square().mean().sqrt())
    if size <= 1e-12 * float(x.abs().max().clamp_min(1e-300)):
        raise SettingError(name, "of equal rows", "features that vary", "a collapsed encoder is like nothing")
    return c / size


def _hsic(x: Tensor, y: Tensor) -> float:
    """HSIC_1 with linear kernels, by sums over features. Shifts of the features leave it as it is."""
    n = len(x)
    dx, dy = x.square().sum(1), y.square().sum(1)
    rows_x, rows_y = x @ x.sum(0) - dx, y @ y.sum(0) - dy  # K~ 1 and L~ 1
    trace = (x.T @ y).square().sum() - dx @ dy
    ends = rows_x.sum() * rows_y.sum() / ((n - 1) * (n - 2))
    return float((trace + ends - 2 / (n - 2) * (rows_x @ rows_y)) / (n * (n - 3)))


@checked()
def source_overlap(features: Float[Tensor, "n d"], source: Int[Tensor, " n"], k: int) -> Float[Tensor, "s s"]:
    """How much of what varies in one source's features lies in the k main directions of another's.

        O_ab = tr(V_b' C_a V_b) / tr(V_a' C_a V_a)

    C_a is the covariance of the features of source a, V_a its k leading eigenvectors (d, k). O is 1 on its diagonal and
    in [0, 1] beside it: 1 where the main directions of b hold as much of a as its own do, k/d or so for directions that
    have nothing to do with it. Rows and columns follow the numbers of the sources.

    Shapes: features (n, d), source (n) from 0 to s - 1 -> (s, s), float64.
    Source: ours, for thesis sec. 7.3.2 ("different tasks only share some features and each owns many private ones"),
    which looks at CKA alone.
    Errors: SettingError for k outside of 1..d, fewer than two sources, one of fewer than k + 1 rows, or one that does
    not vary.

    Example:
        >>> x = torch.tensor([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]])
        >>> source_overlap(x, torch.tensor([0, 0, 1, 1]), k=1).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    s = int(source.max()) + 1
    if int(source.min()) < 0 or s < 2:
        raise SettingError(
            "source", f"from {int(source.min())} to {s - 1}", "two sources or more, from 0", "number them"
        )
    if not 1 <= k <= features.shape[1]:
        raise SettingError("k", k, f"1 <= k <= d = {features.shape[1]}", "they are directions of the features")
    covariances, mains = [], []
    for a in range(s):
        x = features[source == a].double()
        if len(x) < k + 1:
            raise SettingError("source", f"with {len(x)} rows of {a}", f"k + 1 = {k + 1} rows or more", "lower k")
        x = _centred(x, f"features[source == {a}]")
        covariances.append(x.T @ x / len(x))
        mains.append(torch.linalg.eigh(covariances[-1]).eigenvectors[:, -k:])
    held = torch.stack([torch.stack([((v.T @ c) * v.T).sum() for v in mains]) for c in covariances])
    return (held / held.diagonal()[:, None]).clamp(0, 1)


@checked()
def knn_accuracy(
    train: Float[Tensor, "n d"],
    y_train: Int[Tensor, " n"],
    test: Float[Tensor, "m d"] | None = None,
    y_test: Int[Tensor, " m"] | None = None,
    *,
    k: int = 20,
) -> float:
    """Share of rows whose class is that of most of its k nearest neighbours by cosine; of a tie the closest.

    Without test rows each training row is judged by the others. A tie goes to the class whose neighbours have the
    larger sum of cosines.

    Shapes: train (n, d), y_train (n), test (m, d), y_test (m). Source: the check of tradeoff.figF_8, normalised
    features as in Figure F.8, which is a picture alone; k = 20 is ours.
    Errors: SettingError for k outside of the rows that there are, rows of length 0, negative labels, and a test set
    without labels.

    Example:
        >>> x = torch.tensor([[1.0, 0.1], [1.0, -0.1], [0.1, 1.0], [-0.1, 1.0]])
        >>> knn_accuracy(x, torch.tensor([0, 0, 1, 1]), k=1)
        1.0
    """
    if (test is None) != (y_test is None):
        raise SettingError("y_test", "alone" if test is None else "missing", "given with test", "give both or none")
    most = len(train) - (test is None)
    if not 1 <= k <= most:
        raise SettingError("k", k, f"1 to {most}, the other rows", "lower it")
    if int(y_train.min()) < 0:
        raise SettingError("y_train", int(y_train.min()), "class indices from 0", "number the classes from 0")
    known = unit_rows(train.double(), "train")
    asked, wanted = (known, y_train) if test is None else (unit_rows(test.double(), "test"), y_test)
    assert wanted is not None  # beside test
    classes, right = int(y_train.max()) + 1, 0
    block = max(BLOCK // len(known), 1)
    for start in range(0, len(asked), block):
        cosines = asked[start : start + block] @ known.T
        if test is None:
            rows = torch.arange(len(cosines), device=cosines.device)
            cosines[rows, start + rows] = -math.inf
        near = cosines.topk(k, dim=1)
        # a vote counts 4, a cosine at most 1: sums of cosines, at most k in size, decide between equal votes
        votes = torch.zeros(len(cosines), classes, dtype=torch.float64, device=cosines.device)
        votes.scatter_add_(1, y_train[near.indices], 4.0 * k + near.values)
        right += int((votes.argmax(1) == wanted[start : start + block]).sum())
    return right / len(asked)


@checked()
def tsne(features: Float[Tensor, "n d"], key: Key, *, perplexity: float = 30.0) -> Float[Tensor, "n 2"]:
    """Coordinates of a picture by t-SNE of normalised features, from scikit-learn, started from two main components.

    A picture to look at: distances between far groups and sizes of groups mean nothing. `cosine_silhouette` and
    `knn_accuracy` measure what it suggests.

    Shapes: features (n, d) -> (n, 2), float64. Source: thesis Figure F.8; its perplexity and its rows are not said.
    Errors: SettingError for a perplexity outside of (0, n), fewer than two features, and rows of length 0.

    Example:
        >>> tsne(torch.randn(20, 5), Key("demo"), perplexity=5.0).shape
        torch.Size([20, 2])
    """
    if not 0 < perplexity < len(features):
        raise SettingError("perplexity", perplexity, f"above 0 and below n = {len(features)}", "30 is usual")
    if features.shape[1] < 2 or len(features) < 3:
        raise SettingError(
            "features", tuple(features.shape), "three rows and two columns or more", "there is no picture"
        )
    from sklearn.manifold import TSNE

    u = unit_rows(features.detach().cpu().double(), "features").numpy()
    seed = key.seed % 2**32
    drawn = TSNE(2, perplexity=perplexity, init="pca", learning_rate="auto", random_state=seed).fit_transform(u)
    return torch.from_numpy(drawn).double()
