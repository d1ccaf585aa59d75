"""Kernels, features and lower bounds of the ResNet work: faults that are planted, and rows made by hand."""

import dataclasses
from math import comb

import pytest
import torch

from featlearn.core import Key
from featlearn.kernels import arcsine, deep_nngp, deep_ntk, rbf, recursive
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import verdict_of
from featlearn.lab.table import Table
from featlearn.tasks import HierarchicalParity, SmoothComposite
from featlearn.works.resnet.claims import every_set, kernels, lower_bounds
from featlearn.works.resnet.rows import Learned, Share
from featlearn.works.resnet.setup import Cube, pivots, planted_groups

MODULES = (lower_bounds, every_set, kernels)
CLAIMS = {c.id: c for module in MODULES for c in module.CLAIMS}


def share(kernel, seed, good=0, **more):
    row = {"d": 40, "k": 6, "n": 3800, "alpha": 0.5, "drawn": 2000, "least": 0.25, "whole": True, **more}
    return Share(kernel=kernel, seed=seed, good=good, **row)


def learned(seed, risk=0.001, n=3800):
    return Learned(d=40, k=6, n=n, m=200, alpha=0.5, seed=seed, risk=risk, start=8.0)


def of_rows(shares, runs, n=3800):
    """The verdict on hand-made rows of two kernels and six networks."""
    tables = Table.of(Share, shares), Table.of(Learned, runs)
    return verdict_of(CLAIMS["resnet.theorem2"], Key("verify"), tables)


KERNEL_ROWS = [share(kernel, seed) for kernel in ("RBF", "NTK") for seed in range(3)]
NETWORK_ROWS = [learned(seed) for seed in range(6)]


def test_theorem_2_stands_or_falls_with_its_rows():
    assert of_rows(KERNEL_ROWS, NETWORK_ROWS).as_expected
    tables = Table.of(Share, KERNEL_ROWS), Table.of(Learned, NETWORK_ROWS)
    assert blind(CLAIMS["resnet.theorem2"], Key("verify"), tables) == []
    assert apart(CLAIMS["resnet.theorem2"], Key("apart"), tables) == []
    many = of_rows([share("RBF", 0, good=12), *KERNEL_ROWS[1:]], NETWORK_ROWS)
    assert many.findings[0].outcome == "contradicted"  # 12 of 2000: the upper limit passes 1 %


def test_without_a_network_that_learns_theorem_2_is_not_confirmed():
    verdict = of_rows(KERNEL_ROWS, [learned(seed, risk=0.02) for seed in range(6)])
    assert not verdict.as_expected
    assert verdict.findings[0].outcome != "confirmed"
    assert verdict.findings[1].outcome == "contradicted"
    assert not of_rows(KERNEL_ROWS, [learned(seed, risk=None) for seed in range(6)]).as_expected


def test_too_many_centres_and_spans_cut_short_leave_the_premise():
    wide = [share(r.kernel, r.seed, n=4000) for r in KERNEL_ROWS]
    assert of_rows(wide, [learned(seed, n=4000) for seed in range(6)]).scope == "premise unmet"
    assert of_rows([share("RBF", 0, whole=False), *KERNEL_ROWS[1:]], NETWORK_ROWS).scope == "premise unmet"
    assert of_rows(KERNEL_ROWS, [learned(seed, n=3000) for seed in range(6)]).scope == "premise unmet"


def test_limits_are_those_of_clopper_and_pearson():
    assert kernels.upper_limit(0, 2000) == pytest.approx(1 - 0.01 ** (1 / 2000))
    assert kernels.upper_limit(6, 6) == 1.0
    p = kernels.upper_limit(3, 50)
    assert sum(comb(50, j) * p**j * (1 - p) ** (50 - j) for j in range(4)) == pytest.approx(0.01)


def outcome(id_) -> str:
    return verdict_of(CLAIMS[id_], Key("verify")).reported


def test_planted_groups_fit_sixteen_sets_with_sixteen_functions():
    c = Cube(10, 5, 16)
    assert every_set.good_sets(planted_groups(c), c) == 16
    assert every_set.good_sets(planted_groups(Cube(10, 5, 15)), c) <= 14  # 16 (n - 1)/15, x_i being one of n
    assert len(pivots(planted_groups(c)).unique()) == 16


def test_risks_that_forget_the_product_are_contradicted(monkeypatch):
    plain = every_set.span_residuals
    monkeypatch.setattr(every_set, "span_residuals", lambda c, s, *, alpha: plain(c, s, alpha=alpha) - alpha**2)
    assert outcome("resnet.theorem3") == "contradicted"
    assert outcome("resnet.theorem2_every_set") == "contradicted"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("rbf", lambda x, y, *, bandwidth: rbf(x, y, bandwidth=2**0.5 * bandwidth)),
        ("arcsine", lambda x, y: torch.pi / 2 - arcsine(x, y)),
        ("deep_ntk", lambda x, y, *, bias_var: deep_ntk(x, y, bias_var=bias_var) - 1),
        ("deep_nngp", lambda x, y, *, bias_var: deep_nngp(x, y, layers=2, bias_var=bias_var)),
        ("recursive", lambda x, y, step, *, times: recursive(x, y, step, times=times + 1)),
    ],
)
def test_another_kernel_is_contradicted(monkeypatch, name, fault):
    monkeypatch.setattr(kernels, name, fault)
    assert outcome("resnet.kernels") == "contradicted"


def test_targets_of_other_signs_or_weights_are_contradicted(monkeypatch):
    plain = HierarchicalParity.composite
    monkeypatch.setattr(HierarchicalParity, "composite", lambda self, base: plain(self, base) / self.k**0.5)
    assert outcome("resnet.hard_instance") == "contradicted"
    whole = SmoothComposite.composite
    monkeypatch.setattr(SmoothComposite, "composite", lambda self, truth, base: whole(self, truth, base.abs()))
    assert outcome("resnet.corollary7_1") == "contradicted"


def test_coefficients_in_another_order_are_contradicted(monkeypatch):
    plain = lower_bounds.fourier_coefficients
    monkeypatch.setattr(lower_bounds, "fourier_coefficients", lambda values: plain(values).flip(0))
    assert outcome("resnet.lemmaD1") == "contradicted"


def test_rows_of_more_energy_break_the_rank(monkeypatch):
    pairs = torch.block_diag(*[torch.tensor([[0.0, -1.0], [-1.0, 0.0]], dtype=torch.float64)] * 60)
    monkeypatch.setattr(lower_bounds, "errors", lambda key: {"pairs": pairs})
    assert outcome("resnet.lemmaD2") == "contradicted"


def test_as_many_vectors_as_targets_tell_them_apart(monkeypatch):
    monkeypatch.setattr(lower_bounds, "searched", lambda n, r, key: torch.eye(n, dtype=torch.float64))
    assert outcome("resnet.lemmaD2") == "contradicted"


def test_a_gap_off_by_a_hundredth_is_contradicted():
    claim = CLAIMS["resnet.remarkD3"]

    def observe(settings, key):
        seen = dict(claim.observe(settings, key))
        return {**seen, lower_bounds.GAP: 1.01 * seen[lower_bounds.GAP]}

    assert verdict_of(dataclasses.replace(claim, observe=observe), Key("verify")).reported == "contradicted"
