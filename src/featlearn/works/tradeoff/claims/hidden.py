"""The hidden representation data model, and Theorem 7.1: with l(t) = -t contrastive learning is PCA."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import COUNT, REAL, SHARE
from featlearn.lab.statement import Statement, control, equal
from featlearn.lab.uncertainty import Observation
from featlearn.tasks import InvariantFeatures

Array = np.ndarray
EXACT = 1e-12

# the data model ------------------------------------------------------------------------------------------------------

INVARIANT, SPURIOUS = (0.4, 0.3, 0.2, 0.1), (0.5, 0.3, 0.2)
SAMPLES, NEAR = 200_000, 0.005
"""A frequency of 200 000 samples has a standard deviation of at most 0.0011."""


def says_model(settings: None) -> Sequence[Statement]:
    """z = [z_R; z_U], z+ = [z_R; z_U+] with z_U+ a new draw from D_U, z- an independent copy of z; x = g(z)."""
    p, q = np.array(INVARIANT), np.array(SPURIOUS)
    same, apart = np.diag(p), np.outer(p, p)
    joint = np.einsum("r,u,v->ruv", p, q, q)
    kept = np.einsum("r,u,uv->ruv", p, q, np.eye(len(q)))
    z = np.outer(p, q)
    source = "Section 7.2, eq. (7.3)"
    named = (
        ("Pr[z_R, z_R+]", same, apart, "x+ of another z_R"),
        ("Pr[z_R, z_R-]", apart, same, "x- of the same z_R"),
        ("Pr[z_R, z_U, z_U+]", joint, kept, "x+ is x"),
        ("Pr[z_R+, z_U+]", z, np.full(z.shape, 1 / z.size), "a uniform z+"),
        ("Pr[z_R-, z_U-]", z, np.full(z.shape, 1 / z.size), "a uniform z-"),
    )
    return (
        *(
            equal(name, SHARE, v, source, margin=NEAR, axis="values", rival=rival, rival_says=says)
            for name, v, rival, says in named
        ),
        equal(
            "different inputs, none of them of two z_R",
            COUNT,
            float(z.size),
            "Section 7.2.1, (A1): z_R can be recovered from x",
            rival=float(p.size),
            rival_says="inputs do not show z_U",
        ),
    )


def sees_model(settings: None, key: Key) -> Mapping[str, Observation]:
    """Frequencies of what the library samples."""
    task = InvariantFeatures(invariant=INVARIANT, spurious=SPURIOUS)
    batches = task.triples(task.draw(key), SAMPLES, key / "samples")
    (r, u), (rp, up), (rm, um) = (b.hidden.T.numpy() for b in batches if b.hidden is not None)

    def share(*values: Array) -> Array:
        sizes = [len(INVARIANT) if i in (id(r), id(rp), id(rm)) else len(SPURIOUS) for i in map(id, values)]
        flat = np.ravel_multi_index(values, tuple(sizes))
        return np.bincount(flat, minlength=int(np.prod(sizes))).reshape(sizes) / SAMPLES

    x, value = batches[0].x.numpy(), np.ravel_multi_index((r, u), (len(INVARIANT), len(SPURIOUS)))
    _, first, back = np.unique(value, return_index=True, return_inverse=True)
    table = x[first]  # the input of each (z_R, z_U)
    different = len(np.unique(table, axis=0)) if (x == table[back]).all() else 0
    return {
        "Pr[z_R, z_R+]": share(r, rp),
        "Pr[z_R, z_R-]": share(r, rm),
        "Pr[z_R, z_U, z_U+]": share(r, u, up),
        "Pr[z_R+, z_U+]": share(rp, up),
        "Pr[z_R-, z_U-]": share(rm, um),
        "different inputs, none of them of two z_R": float(different),
    }


# Theorem 7.1 ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finite:
    """p (nr), q (nu): laws of z_R and z_U; phi (nr, nu, k): a representation; joint (nr, nu): a law of dependent ones;
    x (nr, nu, d): inputs; w (5, k, d): linear representations."""

    p: Array
    q: Array
    phi: Array
    joint: Array
    x: Array
    w: Array


def draw_finite(key: Key) -> Finite:
    """Four values of z_R, three of z_U, five outputs; inputs in six dimensions."""
    g = key.numpy()
    return Finite(
        g.dirichlet(np.ones(4)),
        g.dirichlet(np.ones(3)),
        g.normal(size=(4, 3, 5)),
        g.dirichlet(np.ones(12)).reshape(4, 3),
        g.normal(size=(4, 3, 6)),
        g.normal(size=(5, 2, 6)),
    )


def spread(weights: Array, points: Array) -> float:
    """E ||v - E v||^2 of points (n, d) with these weights (n)."""
    centre = weights @ points
    return float(weights @ ((points - centre) ** 2).sum(1))


def covariance(weights: Array, points: Array) -> Array:
    """(d, d)."""
    centred = points - weights @ points
    return centred.T @ (weights[:, None] * centred)


LOSS, REST, DEPENDENT = (
    "E l(phi(x)^T [phi(x+) - phi(x-)])",
    "the loss plus the variance of phi_zR",
    "the loss plus the variance of phi_zR, z_R and z_U dependent",
)
LINEAR, LEAST = "loss of five linear representations", "least loss of two orthonormal directions"


def says_pca(settings: Finite) -> Sequence[Statement]:
    """-E ||phi_zR - phi_0||^2 with phi_zR = E[phi(x) | z_R]; for linear phi -tr(W Cov(E[x | z_R]) W^T)."""
    s = settings
    smooth = np.einsum("u,ruk->rk", s.q, s.phi)
    all_ = np.outer(s.p, s.q).ravel()
    mean = np.einsum("u,rud->rd", s.q, s.x)
    cov, whole = covariance(s.p, mean), covariance(all_, s.x.reshape(-1, s.x.shape[-1]))
    raw = np.linalg.eigh(whole)[1][:, -2:]
    source = "Theorem 7.1"
    return (
        equal(
            LOSS,
            REAL,
            -spread(s.p, smooth),
            f"{source}, eq. (7.5)",
            margin=EXACT,
            rival=-spread(all_, s.phi.reshape(-1, s.phi.shape[-1])),
            rival_says="PCA of phi(x), not of what is smoothed over z_U",
        ),
        equal(
            REST,
            REAL,
            0.0,
            f"{source}; its proof draws z_U, z_U+ and z_U- apart from z_R",
            margin=EXACT,
            rival=control(DEPENDENT),
            rival_says="z_U depends on z_R",
        ),
        equal(
            LINEAR,
            REAL,
            -np.einsum("nki,ij,nkj->n", s.w, cov, s.w),
            f"{source}, linear phi",
            margin=1e-11,
            axis="representation",
            rival=-np.einsum("nki,ij,nkj->n", s.w, whole, s.w),
            rival_says="PCA of x, not of E[x | z_R]",
        ),
        equal(
            LEAST,
            REAL,
            -float(np.linalg.eigvalsh(cov)[-2:].sum()),
            f"{source}: linear PCA on E[x | z_R]",
            margin=1e-6,
            rival=-float(np.trace(raw.T @ cov @ raw)),
            rival_says="principal directions of x",
        ),
    )


def enumerated(joint: Array, phi: Array) -> float:
    """The loss with l(t) = -t: every z of law `joint` (nr, nu), z_U+ of its marginal law, and every z-."""
    marginal = joint.sum(0)
    total = 0.0
    for r, u in np.ndindex(joint.shape):
        for v in range(joint.shape[1]):
            for other, w in np.ndindex(joint.shape):
                weight = joint[r, u] * marginal[v] * joint[other, w]
                total -= weight * float(phi[r, u] @ (phi[r, v] - phi[other, w]))
    return total


def rest(joint: Array, phi: Array) -> float:
    """The loss plus E ||E[phi | z_R] - E phi||^2."""
    p = joint.sum(1)
    smooth = (joint[..., None] * phi).sum(1) / p[:, None]
    centre = (p[:, None] * smooth).sum(0)
    return enumerated(joint, phi) + float(sum(a * b for a, b in zip(p, ((smooth - centre) ** 2).sum(1), strict=True)))


def sees_pca(settings: Finite, key: Key) -> Mapping[str, Observation]:
    """By enumeration; the least loss by descent over orthonormal rows, whose loss is the same quadratic form."""
    s = settings
    law = s.p[:, None] * s.q
    # l(t) = -t makes the loss a quadratic form in W: its matrix from the losses of e_i e_j^T
    d = s.x.shape[-1]
    units = [
        [enumerated(law, s.x @ (np.eye(d)[[i]] + (i != j) * np.eye(d)[[j]]).T) for j in range(d)] for i in range(d)
    ]
    form = np.array(units)
    ones = np.diag(form)
    form = np.where(np.eye(d) > 0, form, (form - ones[:, None] - ones[None]) / 2)

    def loss(flat: Array) -> float:
        w = np.linalg.qr(flat.reshape(d, 2))[0]
        return float(np.einsum("ik,ij,jk->", w, form, w))

    start = key.numpy().normal(size=2 * d)
    return {
        LOSS: enumerated(law, s.phi),
        REST: rest(law, s.phi),
        DEPENDENT: rest(s.joint, s.phi),
        LINEAR: np.array([enumerated(law, s.x @ w.T) for w in s.w]),
        LEAST: float(minimize(loss, start, method="BFGS", options={"gtol": 1e-9}).fun),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="tradeoff.def_contrastive",
        entries=("tradeoff.def_contrastive",),
        says="A positive pair shares z_R and has two independent z_U; a negative is an independent sample.",
        statements=says_model,
        observe=sees_model,
    ),
    Claim(
        id="tradeoff.theorem7_1",
        entries=("tradeoff.theorem7_1",),
        says="With l(t) = -t the contrastive loss is minus the variance of phi_zR = E[phi(x) | z_R]; for linear phi it "
        "is linear PCA on E[x | z_R].",
        settings=draw_finite,
        statements=says_pca,
        observe=sees_pca,
    ),
)
