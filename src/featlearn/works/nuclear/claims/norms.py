"""The nuclear norm, the method as reported and as released, and the stable rank, as identities that can fail."""

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from featlearn.core import Key
from featlearn.lab.inventory import entry
from featlearn.lab.pending import Assumption, Case, Claim, Evidence
from featlearn.methods import nuclear_norm, stable_rank
from featlearn.methods.domains import Minibatch, State, erm, with_nuclear_norm

MATRICES = 200
"""Random matrices of the checks on norms."""


# --- nuclear norm ----------------------------------------------------------------------------------------------------


def matrices(key: Key, count: int = MATRICES) -> list[np.ndarray]:
    """Tall, wide, square and rank-deficient matrices of 2 to 9 rows and columns."""
    rng = key.numpy()
    found = []
    for i in range(count):
        n, d = (int(v) for v in rng.integers(2, 10, size=2))
        rank = min(n, d) if i % 2 else int(rng.integers(1, min(n, d) + 1))
        found.append(rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) * float(rng.uniform(0.2, 3)))
    return found


def check_norm(key: Key, tables: Any) -> Evidence:
    """Sum of singular values, its bounds, and its subgradient."""
    found = matrices(key / "matrices")
    s = [np.linalg.svd(m, compute_uv=False) for m in found]
    ours = np.array([float(nuclear_norm(torch.from_numpy(m), "sum")) for m in found])
    rank = np.array([int((v > 1e-9 * v[0]).sum()) for v in s])
    top, frobenius = np.array([v[0] for v in s]), np.array([np.linalg.norm(m) for m in found])
    exact = np.array([v.sum() for v in s])
    full = [m for m, v in zip(found, s, strict=True) if v[-1] > 0.1 * v[0]][:20]
    polar, slopes, finite, unit = [], [], [], []
    rng = (key / "directions").numpy()
    for m in full:
        x = torch.from_numpy(m).requires_grad_()
        (slope,) = torch.autograd.grad(nuclear_norm(x, "sum", "gram"), x)
        u, _, vt = np.linalg.svd(m, full_matrices=False)
        way, step = rng.standard_normal(m.shape), 1e-5
        up, down = (np.linalg.svd(m + e * way, compute_uv=False).sum() for e in (step, -step))
        polar.append((u @ vt).ravel())
        slopes.append(slope.numpy().ravel())
        unit.append(m.ravel() / np.linalg.norm(m))
        finite.append((float((up - down) / (2 * step)), float((u @ vt * way).sum())))
    finite = np.array(finite)
    return Evidence(
        (
            Case(
                "norm against the sum of singular values",
                predict=exact,
                observe=ours,
                rival=frobenius,
                tolerance=1e-9 * exact,
                rival_says="Frobenius norm",
            ),
            Case(
                "at most sigma_1 rank",
                predict=top * rank,
                observe=exact,
                rival=top * rank / 2,
                relation="at most",
                tolerance=1e-9,
                rival_says="half of it",
            ),
            Case(
                "at most sqrt(rank) Frobenius",
                predict=np.sqrt(rank) * frobenius,
                observe=exact,
                rival=frobenius,
                relation="at most",
                tolerance=1e-9,
                rival_says="the Frobenius norm itself",
            ),
            Case(
                "at least Frobenius",
                predict=frobenius,
                observe=exact,
                rival=np.sqrt(rank) * frobenius,
                relation="at least",
                tolerance=1e-9,
                rival_says="times sqrt(rank)",
            ),
            Case(
                "gradient U V' at full rank",
                predict=np.concatenate(polar),
                observe=np.concatenate(slopes),
                rival=np.concatenate(unit),
                tolerance=1e-5,
                rival_says="M / |M|_F",
            ),
            Case(
                "the same along random directions, finite differences",
                predict=finite[:, 0],
                observe=finite[:, 1],
                rival=1.001 * finite[:, 0],
                tolerance=1e-6 + 1e-6 * np.abs(finite[:, 0]),
                rival_says="a slope 0.1 % off",
            ),
        ),
        comment=f"{MATRICES} matrices, tall, wide and rank-deficient; {len(full)} of full rank for the gradient.",
    )


def check_envelope(key: Key, tables: Any) -> Evidence:
    """Below the rank on the unit ball, and no convex function below the rank is larger."""
    found = [m / np.linalg.svd(m, compute_uv=False)[0] for m in matrices(key / "matrices")]
    norm, rank, mixed, rebuilt = [], [], [], []
    for m in found:
        u, s, vt = np.linalg.svd(m, full_matrices=False)
        norm.append(s.sum())
        rank.append(int((s > 1e-9).sum()))
        # M is a mixture, with weights s_k - s_(k+1), of partial isometries of rank k, and of 0
        share = s - np.append(s[1:], 0.0)
        mixed.append(float(share @ np.arange(1, len(s) + 1)))
        mixture = sum(w * u[:, : k + 1] @ vt[: k + 1] for k, w in enumerate(share))
        rebuilt.append(float(np.abs(mixture - m).max()))
    isometries = [np.linalg.qr(m if m.shape[0] >= m.shape[1] else m.T)[0] for m in found[1::2]]
    equal = np.array([float(nuclear_norm(torch.from_numpy(q), "sum")) for q in isometries])
    ranks = np.array([float(min(q.shape)) for q in isometries])
    norm, rank = np.array(norm), np.array(rank, dtype=float)
    strict = np.array([v for m, v in zip(found, rank - norm, strict=True) if min(m.shape) > 1 and v > 1e-6])
    return Evidence(
        (
            Case(
                "norm on the unit ball, at most the rank",
                predict=rank,
                observe=norm,
                rival=rank * 0.7,
                relation="at most",
                tolerance=1e-9,
                rival_says="0.7 of the rank",
            ),
            Case(
                "equal to the rank where every singular value is 1",
                predict=ranks,
                observe=equal,
                rival=ranks - 1,
                tolerance=1e-9,
                rival_says="one less",
            ),
            Case(
                "share of other matrices strictly below",
                predict=1.0,
                observe=len(strict) / int((rank > 1).sum()),
                rival=0.9,
                tolerance=0.0,
                rival_says="some with equality",
            ),
            Case(
                "mean rank of a mixture that makes M, bound for any convex function below the rank",
                predict=norm,
                observe=mixed,
                rival=rank,
                tolerance=1e-9,
                rival_says="the rank of M",
            ),
            Case(
                "largest error of that mixture",
                predict=0.0,
                observe=max(rebuilt),
                rival=1.0,
                tolerance=1e-12,
                rival_says="1",
            ),
        ),
        comment="The mixture gives the tightest bound: g convex and below the rank has g(M) <= sum of weights times "
        "ranks = ||M||_*.",
    )


# --- method ----------------------------------------------------------------------------------------------------------


def check_method(key: Key, tables: Any) -> Evidence:
    """Equation 6.3 as run: what is added to the loss, its gradient, the Gram path, and the weight that acts."""
    g = (key / "data").torch()
    n, d, lam = 24, 40, 0.01
    featurizer, classifier = nn.Linear(12, d, dtype=torch.float64), nn.Linear(d, 3, dtype=torch.float64)
    for module in (featurizer, classifier):
        for p in module.parameters():
            p.data = torch.randn(p.shape, generator=g, dtype=torch.float64) / p.shape[-1] ** 0.5
    batches = [Minibatch(torch.randn(n, 12, generator=g, dtype=torch.float64), torch.arange(n) % 3) for _ in range(3)]
    state = State(key, step=0)
    plain = erm(featurizer, classifier, batches, state)
    values, x = {}, plain.features.detach()
    for reduction in ("sum", "mean"):
        objective = with_nuclear_norm(erm, lam, start=0, reduction=reduction)
        values[reduction] = float((objective(featurizer, classifier, batches, state).loss - plain.loss).detach())
    late = with_nuclear_norm(erm, lam)
    norm = float(np.linalg.svd(x.numpy(), compute_uv=False).sum())
    leaf = torch.randn(n, d, generator=g, dtype=torch.float64).requires_grad_()
    (slope,) = torch.autograd.grad(nuclear_norm(leaf, "sum"), leaf)
    u, _, vt = np.linalg.svd(leaf.detach().numpy(), full_matrices=False)
    wide = torch.randn(32, 2048, generator=g)
    gram, svd = (float(nuclear_norm(wide, "sum", method)) for method in ("gram", "svd"))
    said = entry("nuclear.method_ermnu").from_code["effective_lambda"]
    rows = 3 * 32
    return Evidence(
        (
            Case(
                "loss(lambda) - loss(0), summed form",
                predict=lam * norm,
                observe=values["sum"],
                rival=lam * norm / (3 * n),
                tolerance=1e-9,
                rival_says="divided by the rows",
            ),
            Case(
                "the same as the released code has it",
                predict=lam * norm / (3 * n),
                observe=values["mean"],
                rival=lam * norm,
                tolerance=1e-9,
                rival_says="not divided",
            ),
            Case(
                "first step of the released code's penalty",
                predict=[0.0, 1.0],
                observe=[
                    float(late(featurizer, classifier, batches, State(key, step=t)).loss > plain.loss)
                    for t in (100, 101)
                ],
                rival=[1.0, 1.0],
                rival_says="from the first step",
            ),
            Case(
                "gradient of the penalty: U V'",
                predict=(u @ vt).ravel(),
                observe=slope.numpy().ravel(),
                rival=(u @ vt).ravel() * 1.01,
                tolerance=1e-6,
                rival_says="1 % more",
            ),
            Case(
                "Gram path against the SVD, 32 x 2048 in float32",
                predict=svd,
                observe=gram,
                rival=svd * 1.001,
                tolerance=1e-4 * svd,
                rival_says="0.1 % more",
            ),
            Case(
                "weight that acts with lambda = 0.01 on 96 rows",
                predict=1.04e-4,
                observe=lam / rows,
                rival=lam / 32,
                tolerance=5e-7,
                rival_says="0.01 / 32",
            ),
        ),
        comment="Equation 6.3 has ||Phi(X)||_* alone. The released code divides it by the rows and starts at step "
        f"101; with this division lambda is {said}.",
    )


def check_loophole(key: Key, tables: Any) -> Evidence:
    """Scaling features down and the head up keeps the cross entropy and lowers the penalty at will."""
    g = (key / "data").torch()
    x, head = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((30, 8), (8, 4)))
    y = torch.arange(30) % 4
    scales = (2.0, 1.0, 0.1, 1e-3)
    entropy = [float(functional.cross_entropy(c * x @ (head / c), y)) for c in scales]
    norm = float(nuclear_norm(x, "sum"))
    penalty = np.array([float(nuclear_norm(c * x, "sum")) for c in scales])
    decayed = np.array([v + 0.5 * float((head / c).square().sum()) for v, c in zip(penalty, scales, strict=True)])
    return Evidence(
        (
            Case(
                "cross entropy with c Phi and head / c",
                predict=[entropy[1]] * 4,
                observe=entropy,
                rival=[float(functional.cross_entropy(c * x @ head, y)) for c in scales],
                tolerance=1e-9,
                rival_says="head left as it was",
            ),
            Case(
                "penalty: c times the norm",
                predict=norm * np.array(scales),
                observe=penalty,
                rival=[norm] * 4,
                tolerance=1e-9,
                rival_says="unchanged",
            ),
            Case(
                "penalty plus head decay: c = 1e-3 against c = 1, ratio",
                predict=10.0,
                observe=float(decayed[3] / decayed[1]),
                rival=1e9,
                relation="at least",
                tolerance=0.0,
                rival_says="a billion",
            ),
        ),
        comment="With a free head and no weight decay the penalty has infimum 0 at fixed predictions: the nuclear norm "
        "then limits scale and training time, not rank. Decay of the head or a head of fixed norm closes the loophole.",
    )


LISTING = "loss += self.{name} * norm"
"""The statement of the listing that names the weight."""


def compiles(text: str) -> float:
    """1 where Python accepts the text."""
    try:
        compile(text, "listing", "exec")
    except SyntaxError:
        return 0.0
    return 1.0


def check_listing(key: Key, tables: Any) -> Evidence:
    """The listing with a name for the weight that Python accepts."""
    return Evidence(
        (
            Case(
                "with another name for the weight it compiles",
                predict=1.0,
                observe=compiles(LISTING.format(name="weight")),
                rival=compiles(LISTING.format(name="lambda")),
                rival_says="with lambda, which is a keyword of Python",
            ),
        ),
        comment="The listing illustrates two lines; torch.svd, which it calls, is deprecated by now.",
    )


def check_batch(key: Key, tables: Any) -> Evidence:
    """'batch size > d', the premise of 6.2.2, at the batches that were trained on."""
    rows = np.array([3 * 32, 5 * 32, 3 * 64, 5 * 64])
    g = (key / "data").torch()
    rank = int(torch.linalg.matrix_rank(torch.randn(96, 2048, generator=g, dtype=torch.float64)))
    return Evidence(
        (
            Case(
                "rows with 32 per domain, 3 and 5 training domains",
                predict=[96, 160],
                observe=rows[:2],
                rival=[32, 32],
                rival_says="one domain alone",
            ),
            Case(
                "rank of 96 rows of 2048 independent features", predict=96, observe=rank, rival=2048, rival_says="2048"
            ),
        ),
        (Assumption("batch size > d", False, f"{rows.min()} to {rows.max()} rows, d = 2048"),),
        comment="With fewer rows than features the rank of a batch is at most its number of rows, whatever d is.",
    )


# --- stable rank -----------------------------------------------------------------------------------------------------


def check_stable_rank(key: Key, tables: Any) -> Evidence:
    """The usual form: between 1 and the rank, blind to scale."""
    found = [torch.from_numpy(m) for m in matrices(key / "matrices")]
    usual = np.array([float(stable_rank(m)) for m in found])
    rank = np.array([float(torch.linalg.matrix_rank(m)) for m in found])
    exact = np.array([float((s**2).sum() / s[0] ** 2) for s in (torch.linalg.svdvals(m) for m in found)])
    scaled = np.array([float(stable_rank(10 * m)) for m in found])
    reported = np.array([float(stable_rank(10 * m, "reported")) for m in found])
    return Evidence(
        (
            Case(
                "|M|_F^2 / |M|_2^2",
                predict=exact,
                observe=usual,
                rival=np.sqrt(exact),
                tolerance=1e-9,
                rival_says="its square root",
            ),
            Case(
                "at most the rank",
                predict=rank,
                observe=usual,
                rival=rank * 0.8,
                relation="at most",
                tolerance=1e-9,
                rival_says="0.8 of the rank",
            ),
            Case(
                "at least 1",
                predict=np.ones(len(usual)),
                observe=usual,
                rival=np.full(len(usual), 1.5),
                relation="at least",
                tolerance=1e-9,
                rival_says="1.5",
            ),
            Case(
                "of 10 M",
                predict=usual,
                observe=scaled,
                rival=reported,
                tolerance=1e-9,
                rival_says="|M|_F^2 / |M|_2, times 10",
            ),
        ),
        comment=f"{MATRICES} matrices.",
    )


def check_reported_rank(key: Key, tables: Any) -> Evidence:
    """The form in our copy, |M|_F^2 / |M|_2, under scaling."""
    m = 10 * torch.eye(3, dtype=torch.float64)
    found = [torch.from_numpy(v) for v in matrices(key / "matrices")]
    one, two = (np.array([float(stable_rank(c * v, "reported")) for v in found]) for c in (1.0, 2.0))
    return Evidence(
        (
            Case(
                "of 10 I_3: |M|_F^2 / |M|_2^2 and |M|_F^2 / |M|_2",
                predict=[3.0, 30.0],
                observe=[float(stable_rank(m)), float(stable_rank(m, "reported"))],
                rival=[30.0, 3.0],
                tolerance=1e-9,
                rival_says="the other way round",
            ),
            Case(
                "|M|_F^2 / |M|_2 of 2 M",
                predict=2 * one,
                observe=two,
                rival=one,
                tolerance=1e-9,
                rival_says="unchanged, as a rank is",
            ),
        ),
        comment="Our copy of 6.3.3 has |M|_2 without a square, which may have been lost in it, the text around being "
        "damaged: which form Figure 6.5 shows is open.",
    )


def check_lipschitz(key: Key, tables: Any) -> Evidence:
    """'Continuous and Lipschitz': |M|_F^2 / |M|_2 is, with constant min(m, n); the usual form is away from 0."""
    g = (key / "pairs").torch()
    k = 6
    a = torch.randn(300, 8, k, generator=g, dtype=torch.float64)
    b = a + torch.randn(300, 8, k, generator=g, dtype=torch.float64) * torch.logspace(-4, 0, 300)[:, None, None]
    # where the constant is reached up to 2: the first of equal singular values moves
    one, other = torch.eye(k, dtype=torch.float64), torch.eye(k, dtype=torch.float64)
    one[0, 0], other[0, 0] = 1.01, 1.02
    worst = float(((stable_rank(a, "reported") - stable_rank(b, "reported")).abs() / (a - b).norm(dim=(1, 2))).max())
    steep = float((stable_rank(one, "reported") - stable_rank(other, "reported")).abs() / 0.01)
    small = np.array([1.0, 1e-2, 1e-4])
    a, b = torch.eye(k, dtype=torch.float64), torch.eye(k, dtype=torch.float64)
    b[1:] *= 0.5
    usual = np.array([float((stable_rank(e * a) - stable_rank(e * b)).abs() / (e * (a - b).norm())) for e in small])
    return Evidence(
        (
            Case(
                "|M|_F^2 / |M|_2: difference over distance, at most min(m, n)",
                predict=k,
                observe=max(worst, steep),
                rival=k / 2,
                relation="at most",
                tolerance=1e-9,
                rival_says="half of that",
            ),
            Case(
                "|M|_F^2 / |M|_2^2: difference over distance times the size of the matrices",
                predict=usual[0],
                observe=usual * small,
                rival=usual,
                tolerance=1e-9,
                rival_says="one constant at every size",
            ),
        ),
        comment="The gradient of |M|_F^2 / |M|_2 has norm |M|_F^2 / |M|_2^2 <= min(m, n). The usual form is Lipschitz "
        "on matrices that stay away from 0, with a constant that goes with one over their size.",
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "nuclear.norm",
        entries=("nuclear.def_nuclear_norm",),
        says="The nuclear norm is the sum of singular values, between |M|_F and sqrt(rank) |M|_F, with gradient U V'.",
        check=check_norm,
    ),
    Claim(
        "nuclear.norm_envelope",
        entries=("nuclear.def_nuclear_norm",),
        says="On the unit ball of the operator norm it is the largest convex function below the rank.",
        check=check_envelope,
    ),
    Claim(
        "nuclear.method",
        entries=("nuclear.method_ermnu",),
        says="ERM-NU adds lambda ||Phi(X)||_* to the loss, with gradient lambda U V'; the released "
        "code divides by rows.",
        check=check_method,
    ),
    Claim(
        "nuclear.method_loophole",
        entries=("nuclear.method_ermnu",),
        says="With a free head and no weight decay the penalty has infimum 0 at fixed predictions.",
        check=check_loophole,
    ),
    Claim(
        "nuclear.method_listing",
        entries=("nuclear.method_ermnu",),
        says="The two lines of the listing are Python under another name for the weight than lambda.",
        check=check_listing,
    ),
    Claim(
        "nuclear.method_batch",
        entries=("nuclear.method_ermnu",),
        says="In the experiments a batch has fewer rows than features, so that its rank is at most its number of rows; "
        "the premise of the motivation, a batch size above d, is not met there.",
        check=check_batch,
        expected="assumptions unmet",
    ),
    Claim(
        "nuclear.stable_rank",
        entries=("nuclear.def_stable_rank",),
        says="|M|_F^2 / |M|_2^2 lies between 1 and the rank and does not depend on scale.",
        check=check_stable_rank,
    ),
    Claim(
        "nuclear.stable_rank_reported",
        entries=("nuclear.def_stable_rank",),
        says="|M|_F^2 / |M|_2, the form that our copy has, goes up with the scale of M, unlike |M|_F^2 / |M|_2^2.",
        check=check_reported_rank,
    ),
    Claim(
        "nuclear.stable_rank_lipschitz",
        entries=("nuclear.def_stable_rank",),
        says="'A continuous and Lipschitz function': |M|_F^2 / |M|_2 is, with constant min(m, n); the usual form is on "
        "matrices of one size.",
        check=check_lipschitz,
    ),
)
