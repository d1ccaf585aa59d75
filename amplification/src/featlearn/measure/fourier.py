"""Fourier measures of weights on the numbers 0..p-1: power by frequency, cosine fits, phases, coverage, grokking delay.

For any matrix with an axis of p tokens or numbers, of a network trained here or of a checkpoint; p odd or even. A
frequency is one bin of the half spectrum 0..p//2, which holds the power of +j and of -j, so that the shares of a
vector sum to 1 and a cosine has share 1. (The formula as reported with the work runs over all p bins of the full
transform, where a cosine has share 1/2: fourier.method_max_normalised_power.)
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import checked


def _scaled(w: Tensor, axes: int = 1) -> tuple[Tensor, Tensor]:
    """w over a power of two for each vector (matrix), which rounds nothing, and that power: squares stay in range.

    Half precision is widened because transforms do not have it.
    """
    w = w if w.dtype == torch.float64 else w.float()
    last = tuple(range(-axes, 0))
    peak = w.detach().abs().amax(last, keepdim=True)
    scale = torch.where(peak > 0, peak / (2 * torch.frexp(peak).mantissa), 1.0)
    return w / scale, scale[(..., *[0] * axes)]


def _spectrum(w: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """rfft along an axis, which becomes the last one, and the power of two that multiplies it."""
    if not -w.ndim <= axis < w.ndim:
        raise SettingError("axis", axis, f"an axis of shape {tuple(w.shape)}", "-1 is the last")
    w, scale = _scaled(w.movedim(axis, -1))
    return torch.fft.rfft(w), scale


def _relative(w: Tensor, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """Spectrum and power (..., f) of each vector up to a power of two, and that power."""
    spectrum, scale = _spectrum(w, axis)
    p = w.shape[axis]
    return spectrum, _fold(spectrum.abs().square() / p, p), scale


def _fold(power: Tensor, p: int) -> Tensor:
    """Adds to bins 1.. of a half spectrum (..., p//2 + 1) the power of their negatives; 0 and p/2 are their own."""
    both = power.new_full((p // 2 + 1,), 2.0)
    both[0] = 1.0
    if p % 2 == 0:
        both[-1] = 1.0
    return power * both


@checked()
def half_power(w: Float[Tensor, "..."], *, axis: int = -1) -> Float[Tensor, "... f"]:
    """Power by frequency: |w^(j)|^2 / p with the power of +j and -j added, w^(j) = sum_a w(a) exp(-2 pi i j a / p).

    Bins sum to |w|^2 (Parseval); they are squares, and those of float32 weights below 1e-23 are 0: give float64.
    Shares, frequencies and fits (below) do not depend on the size of weights.
    Shapes: w (..., p), or p at `axis` -> (..., f), f = p//2 + 1 bins from the constant up.
    Source: fourier.method_max_normalised_power. Errors: `SettingError` for values that are not finite.

    Example:
        >>> half_power(torch.tensor([1.0, -1.0, 1.0, -1.0]))
        tensor([0., 0., 4.])
    """
    _, power, scale = _relative(w, axis)
    return power * scale[..., None] * scale[..., None]


def _bins(w: Tensor, constant: bool, axis: int) -> Tensor:
    _, power, _ = _relative(w, axis)
    if not constant:
        if power.shape[-1] < 2:
            raise SettingError("p", w.shape[axis], "at least 2 numbers", "one number has no frequency but 0")
        power = power[..., 1:]
    return power


@checked()
def frequency_share(w: Float[Tensor, "..."], *, constant: bool = True, axis: int = -1) -> Float[Tensor, "..."]:
    """Largest share of a vector's power at one frequency: 1 for a cosine, `random_share(p)` for noise; NaN for zeros.

    constant: whether the mean counts, as a bin and in the total. Shapes: w (..., p) -> (...).
    Source: fourier.method_max_normalised_power (captions of Figures 4.2, C.2, C.4). Errors as in `half_power`.

    Example:
        >>> frequency_share(torch.tensor([[1.0, -1.0, 1.0, -1.0], [1.0, 0.0, 0.0, 0.0]]))
        tensor([1.0000, 0.5000])
    """
    power = _bins(w, constant, axis)
    return power.amax(-1) / power.sum(-1)


@checked()
def top_frequency(w: Float[Tensor, "..."], *, constant: bool = True, axis: int = -1) -> Int[Tensor, "..."]:
    """The frequency that holds most of a vector's power, 0..p//2; -1 for a vector of zeros.

    constant: whether frequency 0 competes. Shapes: w (..., p) -> (...), so (m, p) -> (m). Errors as in `half_power`.

    Example:
        >>> top_frequency(torch.tensor([[1.0, -1.0, 1.0, -1.0], [0.0, 0.0, 0.0, 0.0]]))
        tensor([ 2, -1])
    """
    power = _bins(w, constant, axis)
    best = power.argmax(-1) + (0 if constant else 1)
    return torch.where(power.sum(-1) > 0, best, -1)


@dataclass(frozen=True)
class Coverage:
    """Which frequencies are used. counts: neurons of each frequency 1..p//2 (..., f); share of them with any (...)."""

    counts: Int[Tensor, "... f"]
    share: Float[Tensor, "..."]


@checked(empty=("top", "alive"))
def coverage(top: Int[Tensor, "... m"], p: int, alive: Bool[Tensor, "... m"] | None = None) -> Coverage:
    """How many of the frequencies 1..p//2 dominate at least one neuron, with the count of neurons for each.

    top: `top_frequency` of the neurons; those at 0 and -1 count for none. alive: neurons to count, all if None.
    Shapes: top (..., m), alive (..., m) -> counts (..., f) with f = p//2, share (...), so (m) -> (f).
    Source: fourier.theorem4_9 (every frequency is used), fourier.figure4_2.
    Errors: `SettingError` for p < 2 and frequencies above p//2.

    Example:
        >>> found = coverage(torch.tensor([1, 3, 3]), 7)
        >>> found.counts.tolist(), round(float(found.share), 2)
        ([1, 0, 2], 0.67)
    """
    if p < 2:
        raise SettingError("p", p, "at least 2", "one number has no frequency but 0")
    if top.numel() and int(top.max()) > p // 2:
        raise SettingError(
            "top", int(top.max()), f"frequencies up to p//2 = {p // 2}", "give the period of the weights"
        )
    kept = top.clamp_min(0).long()
    if alive is not None:
        kept = kept * alive  # frequency 0 is cut off below
    counts = torch.zeros(*top.shape[:-1], p // 2 + 1, dtype=torch.long, device=top.device)
    counts = counts.scatter_add(-1, kept, torch.ones_like(kept))[..., 1:]
    return Coverage(counts, (counts > 0).float().mean(-1))


def _at(spectrum: Tensor, frequency: Tensor) -> Tensor:
    """Coefficients (...) of a half spectrum (..., f) at one frequency each."""
    index = frequency.expand(spectrum.shape[:-1])[..., None]
    return spectrum.gather(-1, index)[..., 0]


def _check_frequency(frequency: Tensor, p: int) -> None:
    if frequency.numel() and not 0 <= int(frequency.min()) <= int(frequency.max()) <= p // 2:
        found = f"{int(frequency.min())} to {int(frequency.max())}"
        raise SettingError("frequency", found, f"0 to p//2 = {p // 2}", "vectors of zeros have none: drop them")


def _wrap(angle: Tensor) -> Tensor:
    """Angles in (-pi, pi]."""
    return math.pi - torch.remainder(math.pi - angle, 2 * math.pi)


@checked(mixed=("u", "w"))
def phase_residual(
    u: Float[Tensor, "... k p"], w: Float[Tensor, "... p"], frequency: Int[Tensor, "..."] | None = None
) -> Float[Tensor, "..."]:
    """sum_j theta_uj - theta_w in (-pi, pi], theta the phase of a vector's cosine cos(theta + 2 pi zeta a / p).

    0 for neurons that attain the maximum margin. frequency: zeta of each neuron, by default the strongest of w apart
    from the constant. Shapes: u (..., k, p), w (..., p), frequency (...) -> (...). NaN where w has no frequency but 0.
    Source: fourier.theorem4_9 (third point), fourier.lemma4_10. Errors: `SettingError` for values not finite and
    frequencies outside 0..p//2.

    Example:
        >>> a = 2 * torch.pi * torch.arange(5) / 5
        >>> u, w = torch.stack([(0.2 + a).cos(), (0.3 + a).cos()]), (0.4 + a).cos()
        >>> round(float(phase_residual(u, w)), 4)
        0.1
    """
    if u.shape[-1] != w.shape[-1]:
        raise SettingError("w", f"{w.shape[-1]} values", f"as many as u, {u.shape[-1]}", "both are over the p numbers")
    one, other = _spectrum(u, -1)[0], _spectrum(w, -1)[0]
    if frequency is None:
        frequency = top_frequency(w, constant=False)
        none = frequency < 0
        frequency = frequency.clamp_min(0)
    else:
        _check_frequency(frequency, w.shape[-1])
        none = torch.zeros_like(frequency, dtype=torch.bool)
    phases = _at(one, frequency[..., None]).angle().sum(-1)
    return _wrap(phases - _at(other, frequency).angle()).masked_fill(none, math.nan)


@dataclass(frozen=True)
class Cosine:
    """mean + amplitude cos(phase + 2 pi frequency a / p) for each vector (...); r2: share of its variance."""

    amplitude: Float[Tensor, "..."]
    frequency: Int[Tensor, "..."]
    phase: Float[Tensor, "..."]
    mean: Float[Tensor, "..."]
    r2: Float[Tensor, "..."]


@checked()
def fit_cosine(w: Float[Tensor, "... p"], frequency: Int[Tensor, "..."] | None = None) -> Cosine:
    """The cosine of one frequency that is closest to each vector in least squares, beside a constant.

    frequency: default the best one. A constant vector has amplitude 0, frequency -1, phase and r2 NaN.
    Shapes: w (..., p), frequency (...) -> fields (...). Source: fourier.figure4_1, fourier.lemma4_10.
    Errors: `SettingError` for values not finite, frequencies outside 1..p//2 and p < 2.

    Example:
        >>> fit = fit_cosine(1 + 3 * (0.5 + 2 * torch.pi * 2 * torch.arange(7) / 7).cos())
        >>> round(float(fit.amplitude), 3), int(fit.frequency), round(float(fit.phase), 3), round(float(fit.r2), 3)
        (3.0, 2, 0.5, 1.0)
    """
    p = w.shape[-1]
    best = top_frequency(w, constant=False) if frequency is None else frequency
    if frequency is not None:
        _check_frequency(frequency, p)
        if frequency.numel() and int(frequency.min()) == 0:
            raise SettingError("frequency", 0, f"1 to p//2 = {p // 2}", "the constant is fitted anyway")
    spectrum, power, size = _relative(w, -1)
    # rounding leaves a trace of every frequency in a constant vector
    flat = power[..., 1:].sum(-1) <= (p * torch.finfo(power.dtype).eps) ** 2 * power.sum(-1)
    index = best.clamp_min(0)
    hat, scale = _at(spectrum, index), torch.where(index * 2 == p, 1.0, 2.0).to(power)
    r2 = _at(power, index) / power[..., 1:].sum(-1)
    return Cosine(
        (hat.abs() * scale / p * size).masked_fill(flat, 0.0),
        best.masked_fill(flat, -1),
        hat.angle().masked_fill(flat, math.nan),
        spectrum[..., 0].real / p * size,
        r2.masked_fill(flat, math.nan),
    )


@checked(moves=True)
def interpolate(w: Float[Tensor, "... p"], t: Float[Tensor, " n"]) -> Float[Tensor, "... n"]:
    """The trigonometric polynomial through w(0), ..., w(p-1) at real t, of period p.

    For even p the highest frequency enters as a cosine, the smoothest choice. Shapes: w (..., p), t (n) -> (..., n).
    Source: fourier.figure4_1 (the curves through the points). Errors: `SettingError` for values not finite.

    Example:
        >>> sine = torch.tensor([0.0, 1.0, 0.0, -1.0])
        >>> [round(v, 4) for v in interpolate(sine, torch.tensor([1.0, 1.5, 5.0])).tolist()]
        [1.0, 0.7071, 1.0]
    """
    p = w.shape[-1]
    spectrum, scale = _spectrum(w, -1)
    real = spectrum.real.dtype
    turns = torch.arange(p // 2 + 1, device=w.device, dtype=real)[:, None] * (2 * math.pi / p) * t.to(real)
    weight = _fold(torch.ones(p // 2 + 1, device=w.device, dtype=real), p)[:, None] / p
    return (spectrum.real @ (weight * turns.cos()) - spectrum.imag @ (weight * turns.sin())) * scale[..., None]


def power_2d(a: Float[Tensor, "... q p"], *, centre: bool = False) -> Float[Tensor, "... q f"]:
    """Power by two-dimensional frequency, |A^(i, j)|^2 / (q p) with conjugate pairs (i, j), (-i, -j) counted once.

    Bins sum to |A|_F^2. Row i stands for frequency i or i - q, column j for 0..p//2; in columns that are their own
    conjugates (0 and, for even p, p/2) the pair stands at the smaller row and the other is 0.
    centre: remove the mean of every row and column first. Shapes: a (..., q, p) -> (..., q, f), f = p//2 + 1.
    Source: fourier.figure4_3. Errors: `SettingError` for values not finite.

    Example:
        >>> int((power_2d(torch.eye(3)) > 1e-6).sum())
        2
    """
    power, scale = _relative_2d(a, centre)
    return power * scale[..., None, None] * scale[..., None, None]


@checked()
def _relative_2d(a: Float[Tensor, "... q p"], centre: bool) -> tuple[Tensor, Tensor]:
    """`power_2d` of each matrix up to the square of a power of two, and that power."""
    q, p = a.shape[-2:]
    a, scale = _scaled(a, 2)
    if centre:
        a = a - a.mean(-1, keepdim=True)
        a = a - a.mean(-2, keepdim=True)
    power = _fold(torch.fft.rfft2(a).abs().square() / (q * p), p)
    for column in [0] if p % 2 else [0, p // 2]:
        own = power[..., column].clone()
        own[..., 1 : (q + 1) // 2] *= 2  # of a pair i and q - i in this column the first takes both
        own[..., q // 2 + 1 :] = 0
        power[..., column] = own
    return power, scale


def top_share_2d(a: Float[Tensor, "... q p"], n: int = 4, *, centre: bool = True) -> Float[Tensor, "..."]:
    """Share of a matrix's power in its n strongest two-dimensional frequencies (conjugate pairs); NaN for zeros.

    A product of cosines cos(x) cos(y) has two of them, one cosine cos(x + y) has one. Shapes: a (..., q, p) -> (...).
    Source: fourier.figure4_3. Errors: `SettingError` unless 1 <= n <= (q p) // 2 + 1 and all values are finite.

    Example:
        >>> x = (2 * torch.pi * torch.arange(5) / 5).cos()
        >>> round(float(top_share_2d(x[:, None] * x, 1)), 4), round(float(top_share_2d(x[:, None] * x, 2)), 4)
        (0.5, 1.0)
    """
    power = _relative_2d(a, centre)[0].flatten(-2)
    q, p = a.shape[-2:]
    if not 1 <= n <= q * p // 2 + 1:
        raise SettingError("n", n, f"1 to {q * p // 2 + 1} frequencies of a matrix {q} x {p}", "4 is usual")
    return power.topk(n, dim=-1).values.sum(-1) / power.sum(-1)


def top_frequency_2d(a: Float[Tensor, "... q p"], *, centre: bool = True) -> Int[Tensor, "... 2"]:
    """The strongest two-dimensional frequency (i, j) of each matrix: i in -q/2..q/2 along columns, j in 0..p//2 along
    rows.

    Shapes: a (..., q, p) -> (..., 2). Source: fourier.figure4_3. Errors as in `power_2d`.

    Example:
        >>> angle = 2 * torch.pi * torch.arange(7) / 7
        >>> top_frequency_2d((3 * angle[:, None] - 2 * angle).cos()).tolist()
        [-3, 2]
    """
    flat = _relative_2d(a, centre)[0].flatten(-2).argmax(-1)
    q, bins = a.shape[-2], a.shape[-1] // 2 + 1
    row = flat // bins
    return torch.stack([torch.where(row > q // 2, row - q, row), flat % bins], -1)


@checked()
def live(norms: Float[Tensor, "... m"], share: float | int = 0.05) -> Bool[Tensor, "... m"]:
    """Whether a neuron's norm is at least `share` of the largest in its network; none is where all are 0.

    Shapes: norms (..., m) -> the same, so (e, m) for e networks.
    Errors: `SettingError` for a share outside (0, 1], norms that are negative or not finite.

    Example:
        >>> live(torch.tensor([1.0, 0.05, 0.01]))
        tensor([ True,  True, False])
    """
    if not 0 < share <= 1:
        raise SettingError("share", share, "in (0, 1]", "0.05 keeps neurons with 5 % of the largest norm")
    if bool((norms < 0).any()):
        raise SettingError("norms", float(norms.min()), "at least 0", "give norms, not weights")
    largest = norms.amax(-1, keepdim=True)
    return (norms >= share * largest) & (largest > 0)


def _check_power(power: Tensor) -> None:
    if bool((power < 0).any()):
        raise SettingError("power", float(power.min()), "at least 0", "give squares, as `half_power` does")


@checked()
def participation(power: Float[Tensor, "... f"]) -> Float[Tensor, "..."]:
    """Effective number of frequencies (sum P)^2 / sum P^2: 1 for a cosine, f for equal powers; NaN for zeros.

    Shapes: power (..., f) -> (...), so (m, f) -> (m).
    Errors: `SettingError` for powers that are negative or not finite.

    Example:
        >>> participation(torch.tensor([[0.0, 1.0, 0.0], [2.0, 2.0, 2.0]]))
        tensor([1.0000, 3.0000])
    """
    _check_power(power)
    share = power / power.sum(-1, keepdim=True)
    return 1 / share.square().sum(-1)


@checked()
def gini(power: Float[Tensor, "... f"]) -> Float[Tensor, "..."]:
    """Gini coefficient of a spectrum: 0 for equal powers, 1 - 1/f for one frequency; NaN for zeros.

    sum_{i, j} |P_i - P_j| / (2 f sum P). Shapes: power (..., f) -> (...), so (m, f) -> (m).
    Errors as in `participation`.

    Example:
        >>> gini(torch.tensor([[0.0, 1.0, 0.0, 0.0], [2.0, 2.0, 2.0, 2.0]]))
        tensor([0.7500, 0.0000])
    """
    _check_power(power)
    f = power.shape[-1]
    rank = torch.arange(1, f + 1, device=power.device, dtype=power.dtype)
    return ((2 * rank - f - 1) * power.sort(-1).values).sum(-1) / (f * power.sum(-1))


def random_share(p: int, *, constant: bool = True) -> float:
    """Mean of `frequency_share` over Gaussian vectors of length p: what weights have before training.

    Up to scale the powers are independent: chi^2 with 2 degrees of freedom for a pair +-j, with 1 for the constant and
    for p/2. Their sum S is independent of the shares, so E[max share] = E[max] / E[S], and
    E[max] = integral of 1 - prod F over (0, inf). Without the constant and for odd p that is H_n / n, n = (p-1)/2, H_n
    the harmonic number. Shapes: a number. Source: fourier.method_max_normalised_power (baselines 0.265, 0.159, 0.092).
    Errors: `SettingError` for p < 2.

    Example:
        >>> round(random_share(97), 4)
        0.092
    """
    if p < 2:
        raise SettingError("p", p, "at least 2", "one number has no frequency but 0")
    pairs, ones = (p - 1) // 2, int(constant) + (p % 2 == 0)
    # substitution x = y^2 takes the square-root start of the chi^2 with 1 degree; F is 1 to rounding at the end
    y, weight = _gauss_legendre(400, 0.0, math.sqrt(2 * math.log(p) + 80))
    below = (-torch.expm1(-y.square() / 2)) ** pairs * torch.erf(y / math.sqrt(2)) ** ones
    return float((weight * 2 * y * (1 - below)).sum()) / (2 * pairs + ones)


def _gauss_legendre(n: int, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Nodes and weights (n) of the rule that is exact for polynomials of degree 2 n - 1 on (low, high)."""
    j = torch.arange(1, n, dtype=torch.float64)
    beside = j / (4 * j * j - 1).sqrt()
    nodes, vectors = torch.linalg.eigh(torch.diag(beside, 1) + torch.diag(beside, -1))
    return (high - low) * (nodes + 1) / 2 + low, (high - low) * vectors[0].square()


@dataclass(frozen=True)
class GrokkingDelay:
    """Steps from the first good training accuracy to the first good test accuracy, for each run (...).

    train, test: the first step at or above the threshold, NaN where it never came. delay: test - train; where the test
    accuracy never came, `censored` is True and delay is the time waited, which the true one exceeds. NaN, not censored,
    where the training accuracy never came: nothing began to wait.
    """

    train: Float[Tensor, "..."]
    test: Float[Tensor, "..."]
    delay: Float[Tensor, "..."]
    censored: Bool[Tensor, "..."]


@checked(empty=("train_accuracy", "test_accuracy", "steps"), moves=True)
def grokking_delay(
    train_accuracy: Float[Tensor, "... t"],
    test_accuracy: Float[Tensor, "... t"],
    steps: Shaped[Tensor, " t"],
    threshold: float | int = 0.99,
) -> GrokkingDelay:
    """Delay between learning the training points and the test points, with censoring when the second never came.

    Shapes: accuracies (..., t) at steps (t) -> fields (...). A test accuracy that comes first gives a negative delay.
    Source: fourier.figure4_4.
    Errors: `SettingError` for a threshold outside (0, 1], accuracies outside [0, 1], steps that do not increase or are
    too many or few.

    Example:
        >>> train, test = torch.tensor([0.1, 1.0, 1.0, 1.0]), torch.tensor([0.1, 0.1, 0.2, 1.0])
        >>> found = grokking_delay(train, test, torch.tensor([0, 100, 200, 300]))
        >>> float(found.delay), bool(found.censored)
        (200.0, False)
    """
    if not 0 < threshold <= 1:
        raise SettingError("threshold", threshold, "in (0, 1]", "0.99 is usual")
    if len(steps) == 0 or len(steps) != train_accuracy.shape[-1]:
        allowed = f"one for each of {train_accuracy.shape[-1]} accuracies, at least one"
        raise SettingError("steps", f"{len(steps)} steps", allowed, "give the step of every evaluation")
    if test_accuracy.shape[-1] != train_accuracy.shape[-1]:
        allowed = f"as many as train_accuracy, {train_accuracy.shape[-1]}"
        raise SettingError(
            "test_accuracy", f"{test_accuracy.shape[-1]} evaluations", allowed, "evaluate both sides at once"
        )
    if test_accuracy.shape != train_accuracy.shape:
        allowed = f"{tuple(train_accuracy.shape)} as train_accuracy"
        raise SettingError("test_accuracy", tuple(test_accuracy.shape), allowed, "evaluate both sides of every run")
    if bool((steps[1:] <= steps[:-1]).any()):
        raise SettingError("steps", "not increasing", "steps in order", "sort them with their accuracies")
    for name, accuracy in (("train_accuracy", train_accuracy), ("test_accuracy", test_accuracy)):
        if accuracy.numel() and not 0 <= float(accuracy.min()) <= float(accuracy.max()) <= 1:
            found = f"{float(accuracy.min()):g} to {float(accuracy.max()):g}"
            raise SettingError(name, found, "shares in [0, 1]", "divide per cent by 100")
    at = steps.to(train_accuracy.device, torch.float64)
    train, test = (_first(a >= threshold, at) for a in (train_accuracy, test_accuracy))
    censored = test.isnan() & ~train.isnan()
    return GrokkingDelay(train, test, torch.where(censored, at[-1], test) - train, censored)


def _first(reached: Tensor, at: Tensor) -> Tensor:
    """The step (...) of the first True along the last axis, NaN without one."""
    first = at[reached.int().argmax(-1)]
    return first.masked_fill(~reached.any(-1), math.nan)
