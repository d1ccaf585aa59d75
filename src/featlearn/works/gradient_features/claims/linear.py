"""Linear data: Lemmas B.25 to B.27."""

import math

import numpy as np
import torch
from scipy.stats import chi2

from featlearn.core import Key
from featlearn.lab.pending import Case, Claim, Evidence, Tables
from featlearn.measure.best_network import mean_loss
from featlearn.measure.gradient_features import membership, simplified_gradients
from featlearn.tasks import LinearData
from featlearn.works.gradient_features.setup import turned

Array = np.ndarray


def check_data(key: Key, tables: Tables) -> Evidence:
    """Definition: E[yx] = rho w*, margin, no correlation off w*."""
    task = LinearData(d=30, margin=0.4, rho=1.1, sigma=1.5)
    truth = task.draw(key / "truth")
    batch = task.sample(truth, 60_000, key / "data")
    mean = (batch.y[:, None] * batch.x).mean(0).numpy()
    star = truth.features[0].numpy()
    least = float((batch.y * (batch.x @ truth.features[0])).min())
    return Evidence(
        (
            Case(
                "E[y x] = rho w*",
                predict=1.1 * star,
                observe=mean,
                rival=0.4 * star,
                tolerance=6 * 1.6 / math.sqrt(60_000),
                rival_says="margin w*",
            ),
            Case("min y <w*, x>", predict=0.4, observe=least, rival=0.0, tolerance=1e-3, rival_says="0"),
        ),
        comment="The text asks for E[y P x] = 0 and glosses it as independence; this instance has both.",
    )


def check_feature(key: Key, tables: Tables) -> Evidence:
    """B.25 with its constants written out, and membership against a rotated direction and the other bias sign."""
    d, tau, n = 50, 0.75, 8000
    task = LinearData(d=d, margin=0.4, rho=2.0)
    truth = task.draw(key / "truth")
    batch = task.sample(truth, n, key / "data")
    x, y, star = batch.x.double(), batch.y.double(), truth.features[0].double()
    B1, B2 = float(x.norm(dim=1).mean()), float(x.square().sum(1).mean())
    w = torch.randn(150, d, generator=(key / "w").torch(), dtype=torch.float64)
    w = w[w.norm(dim=1) <= 2 * math.sqrt(d)]
    full = torch.full((len(w),), d**tau * B1, dtype=torch.float64)
    silent = 1 - (x @ w.T > -full).double().mean(0).numpy()
    e = math.sqrt(2 * B2) * d ** (0.25 - tau / 2)
    rho = float((y * (x @ star)).mean())
    mean = (y[:, None] * x).mean(0)
    low = torch.full((len(w),), 0.25 * math.sqrt(B2), dtype=torch.float64)  # a bias at which some samples are silent
    g, weak = simplified_gradients(w, -full, x, y), simplified_gradients(w, -low, x, y)
    share = 1 - (x @ w.T > -low).double().mean(0)
    off, limit = (weak - mean).norm(dim=1).numpy(), (B2 * share).sqrt().numpy()
    other = simplified_gradients(w, full, x, y)
    gammas = torch.tensor([0.01, 0.03, 0.05], dtype=torch.float64)
    directions = torch.stack([star, turned(truth.features[0], 20.0, key / "aside", truth.features)])
    found = membership(g, directions, gammas, rho / 2)
    wrong = membership(other, star[None], gammas, rho / 2)
    return Evidence(
        (
            Case(
                "Pr[||w|| <= 2 sqrt(d) sigma_w], d = 2, 10, 50",
                predict=np.full(3, 0.75),
                observe=chi2.cdf(4.0 * np.array([2, 10, 50]), [2, 10, 50]),
                rival=np.full(3, 0.9999),
                relation="at least",
                rival_says="0.9999",
            ),
            Case(
                "||G - rho w*|| <= sqrt(E||x||^2 Pr[silent]), a low bias",
                predict=limit,
                observe=off,
                rival=limit / 20,
                relation="at most",
                rival_says="a twentieth of it",
            ),
            Case(
                "||G|| >= rho - e at b = -d^tau B_x1 sigma_w",
                predict=rho - e,
                observe=float(g.norm(dim=1).min()),
                rival=rho + e,
                relation="at least",
                rival_says="rho + e",
            ),
            Case(
                "G = E[yx] where nobody is silent",
                predict=mean.numpy(),
                observe=g[0].numpy(),
                rival=0 * mean.numpy(),
                tolerance=1e-9,
                rival_says="0",
            ),
            Case(
                "membership of (w*, -1), gamma = .01, .03, .05",
                predict=np.full(3, 0.5),
                observe=found.low[0].numpy(),
                rival=np.ones(3),
                relation="at least",
                rival_says="certain",
            ),
            Case(
                "rotated by 20 degrees",
                predict=np.zeros(3),
                observe=found.share[1].numpy(),
                rival=found.share[0].numpy(),
                tolerance=0.0,
                rival_says="as often",
            ),
            Case(
                "(w*, +1): a bias that no sample reaches",
                predict=np.zeros(3),
                observe=wrong.share[0].numpy(),
                rival=found.share[0].numpy(),
                tolerance=0.0,
                rival_says="as often",
            ),
        ),
        comment=f"d = {d}, tau = {tau}: e = {e:.2f}, rho = {rho:.2f}; largest share of silent samples "
        f"{silent.max():.4f} under {2 * d ** (0.5 - tau):.2f}.",
    )


def check_network(key: Key, tables: Tables) -> Evidence:
    """B.26: two neurons without hinge loss; B.27: the algebra of its error."""
    task = LinearData(d=40, margin=0.4, rho=1.0)
    truth = task.draw(key / "truth")
    batch = task.sample(truth, 20_000, key / "data")
    x, y, star = batch.x.double(), batch.y.double(), truth.features[0].double()
    net = lambda v, c: c * (torch.relu(x @ v) - torch.relu(-(x @ v)))  # noqa: E731
    loss = mean_loss(net(star, 1 / 0.4), y, "hinge")
    tilted = mean_loss(net(turned(star.float(), 20.0, key / "aside", star[None].float()), 1 / 0.4), y, "hinge")
    small = mean_loss(net(star, 0.95 / 0.4), y, "hinge")
    rng = key.numpy()
    B1, B2, beta, rho, d = (rng.uniform(0.5, 3, 20) for _ in range(5))
    d, tau = 50 * d, rng.uniform(1, 3, 20)
    gamma = np.sqrt(B2) / (rho * d ** (tau / 2 - 0.25))
    product = 2 / beta * B1 * np.sqrt(2 * gamma)
    reported = B1 * B2**0.25 / (beta * np.sqrt(rho) * d ** (tau / 4 - 0.125))
    return Evidence(
        (
            Case(
                "hinge loss of g*",
                predict=0.0,
                observe=loss,
                rival=tilted,
                tolerance=1e-6,
                rival_says="w* rotated by 20 degrees",
            ),
            Case(
                "the same, second layer 5 % smaller",
                predict=0.0,
                observe=loss,
                rival=small,
                tolerance=1e-6,
                rival_says="that one",
            ),
            Case(
                "r B_a1 B_x1 sqrt(2 gamma) / reported first term",
                predict=np.full(20, 2 * math.sqrt(2)),
                observe=product / reported,
                rival=2 * math.sqrt(2) * d**0.125,
                tolerance=1e-9,
                rival_says="exponent tau/4 - 1/4 of d",
            ),
        ),
        comment="Biases are 0 in g*, so their sign -1 is a limit from below.",
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "gradient_features.definition_linear",
        entries=("gradient_features.definition_linear",),
        says="Linearly separable data with margin beta and mean signal rho.",
        check=check_data,
    ),
    Claim(
        "gradient_features.lemma_b25",
        entries=("gradient_features.lemma_b25",),
        says="(w*, -1) is a gradient feature of linear data with p = 1/2.",
        check=check_feature,
    ),
    Claim(
        "gradient_features.lemma_b26",
        entries=("gradient_features.lemma_b26", "gradient_features.theorem_b27"),
        says="Two neurons along +-w* have no hinge loss, and the framework's error follows.",
        check=check_network,
    ),
)
