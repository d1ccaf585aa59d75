"""Pattern tasks: closed forms against enumeration of all bit vectors, samplers against the enumerated distribution.

Statistical checks use fixed keys. Means are compared within 5 standard errors (a false alarm has probability 6e-7 a
number, below 1e-4 for this file); whole distributions by a chi-square test that fails below p = 1e-6.
"""

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
import torch
from scipy.stats import binom, chisquare

from featlearn.core import Key, SettingError
from featlearn.tasks import HiddenCodes, Interval, ParityMix
from featlearn.tasks.patterns import (
    binomial_pmf,
    incoherent_dictionary,
    mix,
    orthonormal_dictionary,
    random_subset,
    tilted_dictionary,
)

KEY = Key("tests/patterns")
F32 = 2e-6  # tasks compute in float32; closed forms differ from neighbours (another p_o, k or share) by more than 1e-3


def bit_table(D: int) -> np.ndarray:
    return np.array(list(product([0, 1], repeat=D)))


def parity_table(task: ParityMix, A) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bits (c, D), labels (c) and probabilities (2, c) by component, literally from the recipe of the inventory.

    The reported law has balanced classes within each component; another share reweights the classes.
    """
    bits, inside = bit_table(task.D), np.isin(np.arange(task.D), A)
    odd = bits[:, inside].sum(1) % 2 == 1
    y = np.where(odd, 1.0, -1.0)
    p_o = task.p_o if task.structure else 1.0
    fair = np.full(len(bits), 0.5**task.D)
    off = task.p_o / (2 - 2 * task.p_o)
    background = np.prod(np.where(bits[:, ~inside] == 1, off, 1 - off), axis=1)
    block = bits[:, inside].sum(1)
    together = 0.5 * ((block == 0) | (block == task.k)) * background
    weight = np.where(odd, (1 - task.negative_share) / 0.5, task.negative_share / 0.5)
    return bits, y, np.stack([p_o * fair * weight, (1 - p_o) * together * weight])


PARITIES = [
    ParityMix(d=6, D=6, k=3),
    ParityMix(d=6, D=6, k=3, p_o=0.25),
    ParityMix(d=6, D=6, k=5, p_o=0.1),
    ParityMix(d=6, D=6, k=3, structure=False),
    ParityMix(d=6, D=6, k=3, p_o=0.25, negative_share=0.8),
    ParityMix(d=6, D=6, k=3, structure=False, negative_share=0.3),
    ParityMix(d=6, D=6, k=1, p_o=0.25, negative_share=0.3),
    ParityMix(d=9, D=6, k=3, p_o=0.4, coordinates="input"),
]


def named(task) -> str:
    return ",".join(f"{k}={v}" for k, v in vars(task).items() if v != getattr(type(task), k, None))


@pytest.mark.parametrize("task", PARITIES, ids=named)
def test_parity_closed_forms_equal_enumeration(task):
    truth = task.draw(KEY)
    bits, y, parts = parity_table(task, truth.relevant)
    p = parts.sum(0)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert p @ y == pytest.approx(1 - 2 * task.negative_share, abs=1e-12)
    mean = p @ bits
    np.testing.assert_allclose(truth.mean.numpy(), mean, atol=F32)
    assert truth.scale**2 == pytest.approx((mean * (1 - mean)).sum(), rel=F32)
    alpha = np.where(y > 0, 0.5 / (1 - task.negative_share), 0.5 / task.negative_share)
    signal = (p * alpha * y) @ bits
    inside = np.isin(np.arange(task.D), truth.relevant)
    np.testing.assert_allclose(signal, np.where(inside, truth.gamma, 0.0), atol=1e-12)
    x = mix(truth, torch.from_numpy(bits).float(), 0.0, KEY).double().numpy()
    assert p @ (x**2).sum(1) == pytest.approx(1, abs=F32)
    np.testing.assert_allclose(p @ x, 0, atol=F32)
    star = truth.dictionary[:, truth.relevant].sum(1).double().numpy()
    np.testing.assert_allclose((p * alpha * y) @ x, truth.gamma / truth.scale * star, atol=F32)
    np.testing.assert_allclose(truth.features[0], star / np.linalg.norm(star), atol=F32)


@pytest.mark.parametrize("task", PARITIES, ids=named)
def test_parity_sampler_follows_the_recipe(task):
    """Counts of 100 000 samples over all (component, bits) cells against the enumerated probabilities."""
    truth, n = task.draw(KEY), 100_000
    batch = task.sample(truth, n, KEY / "sample")
    _, _, parts = parity_table(task, truth.relevant)
    code = (batch.hidden.long() @ (2 ** torch.arange(task.D - 1, -1, -1))).numpy()
    counts = np.bincount(batch.group.numpy() * 2**task.D + code, minlength=2 * 2**task.D)
    expect = parts.flatten() * n
    assert counts[expect == 0].sum() == 0  # nothing outside the support, as a broken all-or-none block would be
    common = expect >= 5
    rare = ~common & (expect > 0)
    observed, wanted = list(counts[common]), list(expect[common])
    if rare.any():
        observed, wanted = [*observed, counts[rare].sum()], [*wanted, expect[rare].sum()]
    assert chisquare(observed, wanted).pvalue > 1e-6


@pytest.mark.parametrize("task", PARITIES, ids=named)
def test_parity_labels_and_inputs_come_from_the_hidden_bits(task):
    truth = task.draw(KEY)
    batch = task.sample(truth, 2000, KEY / "labels")
    count = batch.hidden[:, truth.relevant].sum(1).long()
    assert torch.equal(batch.y, torch.where(count % 2 == 1, 1.0, -1.0))
    assert torch.equal(truth.positive[count], batch.y > 0)
    assert set(batch.hidden.unique().tolist()) == {0.0, 1.0}
    back = (batch.x @ truth.dictionary) * truth.scale + truth.mean
    torch.testing.assert_close(back, batch.hidden, atol=1e-5, rtol=0)
    if task.structure:
        block = batch.hidden[batch.group == 1][:, truth.relevant]
        assert torch.equal(block, (batch.y[batch.group == 1] > 0)[:, None].float().expand_as(block))
    else:
        assert not batch.group.any()


def five_sigma(values: torch.Tensor, expect) -> None:
    """Column means within 5 standard errors of the expected value (plus float32 rounding: ||x||^2 can be constant)."""
    values = values.double()
    error = values.std(0) / len(values) ** 0.5
    z = ((values.mean(0) - expect).abs() - F32) / error.clamp_min(1e-30)
    assert z.max() < 5, f"z = {z.max()}"


@pytest.mark.parametrize("structure", [True, False])
def test_first_order_signal_at_the_reported_size(structure):
    """d = 500, D = 100, k = 5, p_o = 1/2: E[y x] = gamma / st on the block with structure, nothing without."""
    task = ParityMix(structure=structure)
    truth = task.draw(KEY / "printed")
    batch = task.sample(truth, 40_000, KEY / "reported/sample")
    expect = torch.zeros(100, dtype=torch.float64)
    if structure:
        assert (truth.scale, truth.gamma) == (5.0, 0.25)  # reported values of the inventory
        expect[truth.relevant] = 0.25 / 5
    assert truth.scale == 5.0
    five_sigma(batch.y[:, None] * batch.x, expect)
    five_sigma(batch.x, 0.0)
    five_sigma(batch.x.square().sum(1, keepdim=True), 1.0)
    five_sigma(batch.y[:, None], 0.0)
    if not structure:
        assert truth.gamma == 0


def test_removing_structure_changes_only_the_block_at_half():
    """At p_o = 1/2 the background is a fair coin either way."""
    with_, without = ParityMix(d=9, D=9, k=3), ParityMix(d=9, D=9, k=3, structure=False)
    a, b = (t.sample(t.draw(KEY), 50, KEY / "same").hidden for t in (with_, without))
    outside = [j for j in range(9) if j not in with_.draw(KEY).relevant.tolist()]
    assert torch.equal(a[:, outside], b[:, outside])
    assert not torch.equal(a, b)


@pytest.mark.parametrize("p_o", [0.5, 0.25, 0.1])
def test_background_patterns_are_correlated_unless_p_o_is_half(p_o):
    """Cov = p_o (1 - 2 p_o)^2 / (4 (1 - p_o)): 0.0208 at 1/4, so independence holds at 1/2 only."""
    task = ParityMix(d=6, D=6, k=3, p_o=p_o)
    truth = task.draw(KEY)
    formula = p_o * (1 - 2 * p_o) ** 2 / (4 * (1 - p_o))
    if p_o == 0.25:
        assert formula == pytest.approx(0.0208, abs=5e-5)
    bits, _, parts = parity_table(task, truth.relevant)
    p = parts.sum(0)
    i, j = [c for c in range(6) if c not in truth.relevant.tolist()][:2]
    centred = bits - p @ bits
    assert p @ (centred[:, i] * centred[:, j]) == pytest.approx(formula, abs=1e-12)
    hidden = task.sample(truth, 200_000, KEY / "cov").hidden - truth.mean
    five_sigma((hidden[:, i] * hidden[:, j])[:, None], formula)
    assert p @ (centred[:, i] * centred[:, truth.relevant[0]]) == pytest.approx(0, abs=1e-12)


def test_class_share():
    """20 000 samples, 10 000 times the share within 5 s.e.; alpha-weighted signal is gamma for every share."""
    for share in (0.1, 0.5, 0.9):
        task = ParityMix(d=20, D=20, k=3, negative_share=share)
        truth = task.draw(KEY)
        batch = task.sample(truth, 20_000, KEY / "share")
        five_sigma((batch.y < 0).float()[:, None], share)
        alpha = torch.where(batch.y > 0, 0.5 / (1 - share), 0.5 / share)
        expect = torch.zeros(20, dtype=torch.float64)
        expect[truth.relevant] = truth.gamma / truth.scale
        five_sigma((alpha * batch.y)[:, None] * batch.x, expect)
        five_sigma(batch.x, 0.0)
        five_sigma(batch.x.square().sum(1, keepdim=True), 1.0)


def test_input_noise_takes_its_share_of_the_norm():
    """st^2 = sum Var + d sigma_z^2, and what is left after removing the signal has variance sigma_z^2 / st^2."""
    task = ParityMix(d=15, D=10, k=3, p_o=0.3, coordinates="input", sigma_z=0.4)
    truth = task.draw(KEY)
    var = truth.mean * (1 - truth.mean)
    assert truth.scale**2 == pytest.approx(float(var.double().sum()) + 15 * 0.16, rel=F32)
    batch = task.sample(truth, 40_000, KEY / "noise")
    five_sigma(batch.x.square().sum(1, keepdim=True), 1.0)
    noise = batch.x - mix(truth, batch.hidden, 0.0, KEY)
    five_sigma(noise, 0.0)
    five_sigma(noise.square(), 0.16 / truth.scale**2)
    outside = noise - noise @ truth.dictionary @ truth.dictionary.T
    assert outside.norm(dim=1).min() > 0.01  # noise lies outside the span too: pattern coordinates would lose it


@pytest.mark.parametrize("structure, exact", [(True, False), (False, True)])
def test_norm_with_an_incoherent_dictionary_and_noise(structure, exact):
    """E||x||^2 = 1 + sum_{j != l} <M_j, M_l> Cov_jl / st^2: the reported st leaves the cross terms out."""
    task = ParityMix(d=5, D=8, k=3, p_o=0.25, structure=structure, coordinates="incoherent", sigma_z=0.2)
    truth = task.draw(KEY)
    bits, _, parts = parity_table(task, truth.relevant)
    p = parts.sum(0)
    centred = bits - p @ bits
    covariance = (centred * p[:, None]).T @ centred
    gram = (truth.dictionary.T @ truth.dictionary).double().numpy()
    expect = ((gram * covariance).sum() + 5 * 0.04) / truth.scale**2
    assert abs(expect - 1) < F32 if exact else abs(expect - 1) > 0.02
    batch = task.sample(truth, 200_000, KEY / "incoherent")
    five_sigma(batch.x.square().sum(1, keepdim=True), expect)


# interval labels ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "structure, rate, gamma, scale", [(True, 0.58476, 0.0680068, 4.91596), (False, 0.0493686, 0.0186544, 5.0)]
)
def test_interval_numbers_of_the_inventory(structure, rate, gamma, scale):
    """Reported sizes, against exact rational arithmetic to 1e-6 and against the digits that the inventory gives."""
    task = Interval(structure=structure)
    truth = task.draw(KEY)
    p = Fraction(2, 3) if structure else Fraction(1, 2)
    pmf = [comb(30, c) * p**c * (1 - p) ** (30 - c) for c in range(31)]
    plus = sum(pmf[20:])
    signal = sum(q * (1 if c >= 20 else -1) * c for c, q in enumerate(pmf)) / 30 - (2 * plus - 1) * p
    assert task.positive_rate() == pytest.approx(float(plus), abs=1e-9)
    assert truth.gamma == pytest.approx(float(signal), abs=1e-9)
    assert truth.scale**2 == pytest.approx(float(30 * p * (1 - p) + Fraction(70, 4)), rel=1e-9)
    assert task.positive_rate() == pytest.approx(rate, abs=5e-6)
    assert truth.gamma == pytest.approx(gamma, abs=5e-8)
    assert truth.scale == pytest.approx(scale, abs=5e-6)
    assert truth.gamma > 0.01  # first-order signal stays even without structure


INTERVALS = [
    Interval(d=7, D=7, k=4, t1=2, t2=3),
    Interval(d=7, D=7, k=4, t1=3, t2=4, p_relevant=0.8),
    Interval(d=9, D=7, k=4, t1=2, t2=4, structure=False, coordinates="input"),
]


@pytest.mark.parametrize("task", INTERVALS, ids=named)
def test_interval_equals_enumeration(task):
    truth, n = task.draw(KEY), 100_000
    bits, inside = bit_table(task.D), np.isin(np.arange(task.D), truth.relevant)
    rate = np.where(inside, task.p_relevant if task.structure else 0.5, 0.5)
    p = np.prod(np.where(bits == 1, rate, 1 - rate), axis=1)
    count = bits[:, inside].sum(1)
    y = np.where((count >= task.t1) & (count <= task.t2), 1.0, -1.0)
    assert p @ (y > 0) == pytest.approx(task.positive_rate(), abs=1e-12)
    signal = (p * y) @ bits - (p @ y) * rate
    np.testing.assert_allclose(signal, np.where(inside, truth.gamma, 0), atol=1e-12)
    x = mix(truth, torch.from_numpy(bits).float(), 0.0, KEY).double().numpy()
    assert p @ (x**2).sum(1) == pytest.approx(1, abs=F32)
    star = truth.dictionary[:, truth.relevant].sum(1).double().numpy()
    np.testing.assert_allclose((p * y) @ x, truth.gamma / truth.scale * star, atol=F32)
    batch = task.sample(truth, n, KEY / "interval")
    code = (batch.hidden.long() @ (2 ** torch.arange(task.D - 1, -1, -1))).numpy()
    assert chisquare(np.bincount(code, minlength=len(bits)), p * n).pvalue > 1e-6
    assert np.array_equal(batch.y.numpy(), y[code])
    np.testing.assert_allclose(batch.x, x[code], atol=F32)


@pytest.mark.parametrize("k, p", [(1, 0.5), (30, 2 / 3), (7, 0.0), (7, 1.0), (300, 0.01)])
def test_binomial_probabilities(k, p):
    np.testing.assert_allclose(binomial_pmf(k, p).numpy(), binom.pmf(np.arange(k + 1), k, p), rtol=1e-11, atol=1e-300)


# hidden codes ---------------------------------------------------------------------------------------------------------


def test_hidden_codes_equal_enumeration_over_the_codes():
    task = HiddenCodes(d=12, D=9, k=6, per_class=4, coordinates="input")
    truth, n = task.draw(KEY), 80_000
    assert truth.codes.shape == (8, 6)
    assert truth.code_labels.tolist() == [1.0] * 4 + [-1.0] * 4
    assert set(truth.codes.unique().tolist()) == {0.0, 1.0}
    mean = np.full(9, 0.5)
    mean[truth.relevant] = truth.codes.numpy().mean(0)
    np.testing.assert_allclose(truth.mean.numpy(), mean, atol=F32)
    assert truth.scale**2 == pytest.approx((mean * (1 - mean)).sum(), rel=F32)
    signal = (truth.code_labels[:, None] * truth.codes).mean(0)
    assert truth.gamma == pytest.approx(float(signal.abs().mean()), rel=F32)
    batch = task.sample(truth, n, KEY / "codes")
    assert torch.equal(batch.hidden[:, truth.relevant], truth.codes[batch.group])
    assert torch.equal(batch.y, truth.code_labels[batch.group])
    assert chisquare(np.bincount(batch.group.numpy(), minlength=8)).pvalue > 1e-6
    outside = [j for j in range(9) if j not in truth.relevant.tolist()]
    five_sigma(batch.hidden[:, outside], 0.5)
    first_order = truth.dictionary[:, truth.relevant] @ signal / truth.scale
    five_sigma(batch.y[:, None] * batch.x, first_order.double())
    torch.testing.assert_close(truth.features[0], first_order / first_order.norm())
    five_sigma(batch.x.square().sum(1, keepdim=True), 1.0)


def test_codes_are_fair_bits():
    codes = HiddenCodes(d=300, D=300, k=200, per_class=100).draw(KEY).codes
    five_sigma(codes.reshape(-1, 1), 0.5)
    assert len(codes.unique(dim=0)) == 200


def test_codes_without_first_order_signal_are_refused_instead_of_dividing_by_zero():
    """One bit, one code a class: both classes draw the same code half of the time."""
    task, refused = HiddenCodes(d=1, D=1, k=1, per_class=1), 0
    for i in range(40):
        try:
            truth = task.draw(KEY / "short" / i)
        except SettingError as error:
            refused += 1
            assert str(error) == "k = 1 is not allowed: long enough for E[y x] != 0; raise k or draw with another key"  # noqa: PT017
        else:
            assert truth.features.abs().item() == 1
    assert 5 < refused < 35  # 40 fair coins leave this range with probability below 2e-6


# dictionaries and subsets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d, D", [(5, 5), (30, 10), (3, 1)])
def test_orthonormal_dictionary(d, D):
    m = orthonormal_dictionary(d, D, KEY)
    torch.testing.assert_close(m.T @ m, torch.eye(D), atol=1e-6, rtol=0)
    assert m.shape == (d, D)


def test_orthonormal_dictionary_is_uniform_over_directions():
    """Without fixing signs QR makes the first entry negative always. 400 matrices, means and squares within 5 s.e."""
    m = torch.stack([orthonormal_dictionary(3, 2, KEY / "haar" / i) for i in range(400)]).flatten(1)
    five_sigma(m, 0.0)
    five_sigma(m.square(), 1 / 3)


def test_incoherent_dictionary_has_unit_columns_and_small_inner_products():
    """Inner products of 20 000 pairs have mean 0 and variance 1/d within 5 s.e. (pairs are pairwise independent)."""
    m = incoherent_dictionary(50, 201, KEY).double()
    torch.testing.assert_close(m.norm(dim=0), torch.ones(201).double(), atol=1e-6, rtol=0)
    inner = (m.T @ m)[tuple(torch.triu_indices(201, 201, 1))][:, None]
    five_sigma(inner, 0.0)
    five_sigma(inner.square(), 1 / 50)


@pytest.mark.parametrize("d, D", [(11, 10), (30, 10), (4, 1)])
def test_tilted_dictionary_has_equal_coherence(d, D):
    """Every inner product is 1 / (16 D): the neighbours 1 / (8 D) and 1 / (16 D + 1) are off by more than 3e-5."""
    m = tilted_dictionary(d, D, KEY).double()
    c = 1 / (16 * D)
    gram = torch.full((D, D), c, dtype=torch.float64)
    gram.fill_diagonal_(1)
    torch.testing.assert_close(m.T @ m, gram, atol=1e-6, rtol=0)


def test_random_subset_is_uniform_sorted_and_without_repeats():
    draws = [tuple(random_subset(5, 2, KEY / "subset" / i).tolist()) for i in range(3000)]
    assert all(a < b for a, b in draws)
    counts = np.unique([5 * a + b for a, b in draws], return_counts=True)[1]
    assert len(counts) == 10
    assert chisquare(counts).pvalue > 1e-6
    assert random_subset(4, 4, KEY).tolist() == [0, 1, 2, 3]


def test_relevant_set_does_not_depend_on_coordinates():
    """So that a run in pattern coordinates and one in input space are about the same member of the family."""
    inner, outer = (ParityMix(d=30, D=10, k=3, coordinates=c) for c in ("pattern", "input"))
    a, b = inner.draw(KEY), outer.draw(KEY)
    assert torch.equal(a.relevant, b.relevant)
    one, two = inner.sample(a, 40, KEY / "s"), outer.sample(b, 40, KEY / "s")
    assert torch.equal(one.hidden, two.hidden)
    torch.testing.assert_close(two.x @ b.dictionary, one.x, atol=1e-6, rtol=0)


# refused settings -----------------------------------------------------------------------------------------------------

WRONG = [
    (ParityMix, {"d": 50}, "d", "50", "at least .*100", "set d >= 100 or lower D"),
    (ParityMix, {"d": 100, "coordinates": "tilted"}, "d", "100", "at least 101", "set d >= 101 or lower D"),
    (ParityMix, {"d": 0, "coordinates": "incoherent"}, "d", "0", "a positive input dimension", "set d >= 1"),
    (ParityMix, {"D": 0}, "D", "0", "a positive number of patterns", "set D >= 1"),
    (ParityMix, {"k": 4}, "k", "4", "odd", "try k = 5"),
    (ParityMix, {"k": 101}, "k", "101", "1 <= k <= D = 100", "lower k or raise D"),
    (ParityMix, {"k": 0}, "k", "0", "1 <= k <= D = 100", "lower k or raise D"),
    (ParityMix, {"p_o": 0.0}, "p_o", "0.0", r"in \(0, 1/2\]", "a background pattern"),
    (ParityMix, {"p_o": 0.6}, "p_o", "0.6", r"in \(0, 1/2\]", "a background pattern"),
    (ParityMix, {"p_o": float("nan")}, "p_o", "nan", r"in \(0, 1/2\]", "a background pattern"),
    (ParityMix, {"negative_share": 0.0}, "negative_share", "0.0", r"in \(0, 1\)", "0.5 is balanced"),
    (ParityMix, {"negative_share": 1.0}, "negative_share", "1.0", r"in \(0, 1\)", "0.5 is balanced"),
    (ParityMix, {"sigma_z": -1.0}, "sigma_z", "-1.0", "at least 0", "0 means no input noise"),
    (ParityMix, {"sigma_z": 0.1}, "sigma_z", "0.1", "0 in pattern coordinates", 'set coordinates = "input"'),
    (ParityMix, {"coordinates": "polar"}, "coordinates", "polar", "pattern, input", "choose one"),
    (Interval, {"d": 50}, "d", "50", "at least .*100", "set d >= 100 or lower D"),
    (Interval, {"k": 101}, "k", "101", "1 <= k <= D = 100", "lower k or raise D"),
    (Interval, {"t1": 25, "t2": 20}, "t1, t2", r"\(25, 20\)", "0 <= t1 <= t2 <= k = 30", "reorder or lower them"),
    (Interval, {"t2": 31}, "t1, t2", r"\(20, 31\)", "0 <= t1 <= t2 <= k = 30", "reorder or lower them"),
    (Interval, {"t1": -1}, "t1, t2", r"\(-1, 30\)", "0 <= t1 <= t2 <= k = 30", "reorder or lower them"),
    (Interval, {"p_relevant": 1.0}, "p_relevant", "1.0", r"in \(0, 1\)", "2/3 is the reported value"),
    (Interval, {"coordinates": "polar"}, "coordinates", "polar", "pattern, input", "choose one"),
    (HiddenCodes, {"d": 200}, "d", "200", "at least .*250", "set d >= 250 or lower D"),
    (HiddenCodes, {"k": 251}, "k", "251", "1 <= k <= D = 250", "lower k or raise D"),
    (HiddenCodes, {"per_class": 0}, "per_class", "0", "at least 1", "50 is the reported value"),
]


@pytest.mark.parametrize("task, settings, field, value, allowed, remedy", WRONG)
def test_wrong_settings_are_refused_by_field_value_range_and_remedy(task, settings, field, value, allowed, remedy):
    with pytest.raises(SettingError, match=rf"^{field} = {value} is not allowed: {allowed}.*; {remedy}") as info:
        task(**settings)
    assert "\n" not in str(info.value)


@pytest.mark.parametrize(
    "task, settings",
    [
        (ParityMix, {"d": 100}),
        (ParityMix, {"k": 99}),
        (ParityMix, {"k": 1}),
        (ParityMix, {"p_o": 0.5}),
        (ParityMix, {"d": 20, "coordinates": "incoherent"}),
        (ParityMix, {"d": 101, "coordinates": "tilted"}),
        (ParityMix, {"d": 100, "sigma_z": 0.1}),
        (Interval, {"t1": 0, "t2": 30}),
        (Interval, {"t1": 20, "t2": 20}),
        (HiddenCodes, {"k": 250}),
    ],
)
def test_settings_at_the_edge_of_the_range_are_taken(task, settings):
    made = task(**settings)
    truth = made.draw(KEY)
    assert torch.isfinite(made.sample(truth, 3, KEY).x).all()
