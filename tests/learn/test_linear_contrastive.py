"""Contrastive pretraining of linear maps: the projection against a solver, steps by hand, and what is refused."""

import math

import pytest
import torch
from scipy.optimize import minimize

from featlearn.core import Key, SettingError
from featlearn.errors import NotFiniteInput
from featlearn.learn import fit_linear_contrastive, project_gram

KEY = Key("tests/linear_contrastive")


def normal(*shape, name="x"):
    return torch.randn(*shape, generator=(KEY / name).torch(), dtype=torch.float64)


@pytest.mark.parametrize("budget", [0.7, 2, 2.9, 9.0])
def test_projection_is_the_nearest_matrix_of_the_set(budget):
    g = normal(6, 6) + torch.diag(torch.linspace(0.3, 3, 6).double())
    found = project_gram(g, budget)
    values, vectors = torch.linalg.eigh((g + g.T) / 2)
    start = values.clamp(0, 1).numpy() * min(1.0, budget / max(float(values.clamp(0, 1).sum()), 1e-9)) * 0.9
    room = {"type": "ineq", "fun": lambda v: budget - v.sum()}
    made = minimize(
        lambda v: ((v - values.numpy()) ** 2).sum(),
        start,
        bounds=[(0, 1)] * 6,
        constraints=[room],
        method="SLSQP",
        options={"ftol": 1e-15},
    )
    nearest = (vectors * torch.from_numpy(made.x)) @ vectors.T
    torch.testing.assert_close(found, nearest, atol=1e-5, rtol=0)


def test_what_is_in_the_set_stays():
    g = torch.diag(torch.tensor([0.9, 0.2, 0.0]))
    torch.testing.assert_close(project_gram(g, 2.0), g)


def test_steps_are_those_of_autograd():
    batches = [(normal(5, 3, name=f"a{i}"), normal(5, 3, name=f"b{i}")) for i in range(4)]
    found = fit_linear_contrastive(lambda i: batches[i], budget=1.5, steps=3, rate=0.7, temperature=2.0)
    g, mean, kept = 0.5 * torch.eye(3).double(), batches[0][0].mean(0), []
    for x, positive in batches[:3]:
        point = g.clone().requires_grad_()
        t = torch.einsum("ni,ij,nj->n", x, point, positive - mean)
        (slope,) = torch.autograd.grad(torch.log1p(torch.exp(-t / 2)).mean(), point)
        g = project_gram(g - 0.7 * (slope + slope.T) / 2, 1.5)
        kept.append(g)
        mean = x.mean(0)
    torch.testing.assert_close(found, (kept[1] + kept[2]) / 2)


@pytest.mark.parametrize(
    "change", [{"budget": 0.0}, {"steps": 1}, {"rate": -1.0}, {"temperature": 0.0}, {"rate": math.nan}]
)
def test_settings_that_cannot_be_are_refused(change):
    settings = {"budget": 1.0, "steps": 4, "rate": 0.1, **change}
    with pytest.raises(SettingError, match=f"^{next(iter(change))} = "):
        fit_linear_contrastive(lambda i: (normal(4, 2), normal(4, 2)), **settings)


def test_pairs_that_are_not_finite_are_refused():
    with pytest.raises(NotFiniteInput):
        fit_linear_contrastive(lambda i: (normal(4, 2) * math.inf, normal(4, 2)), budget=1.0, steps=4, rate=0.1)
    with pytest.raises(NotFiniteInput):
        fit_linear_contrastive(
            lambda i: (normal(4, 2) * (math.inf if i == 2 else 1), normal(4, 2)), budget=1.0, steps=4, rate=0.1
        )
