"""Dictionary-learning tasks: a label counts which hidden patterns are present in a linear mixture.

Common recipe: hidden bits phit in {0,1}^D, a dictionary M (d, D), relevant patterns A (k of D), label +1 iff the number
of present relevant patterns is in P; the input is x = (M phit - E[M phit]) / st with the single scalar
st^2 = sum_j Var(phit_j) (plus d sigma_z^2 with input noise), so that E||x||^2 = 1 for an orthonormal dictionary.

Source: definitions of the emergence work (emergence.definition_data, _parity_mix, _no_structure, _interval, _general).

Coordinates. With an orthonormal dictionary every method here sees only <w, x> with w projected on the span of M, so all
training may take place in the D pattern coordinates, where M is the identity (`coordinates="pattern"`, the default);
`coordinates="input"` draws a random M with orthonormal columns in R^d. Weights outside the span never meet data.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from featlearn.core import Batch, Key, SettingError, Truth
from featlearn.core.check import checked


@dataclass(frozen=True)
class PatternTruth(Truth):
    """A member of the family.

    features (1, d): the unit vector along wstar = sum_{j in A} M_j. dictionary (d, D). relevant (k): the set A.
    positive (k+1): whether a count of present relevant patterns gives label +1. mean (D): E phit. scale: st.
    gamma: E[y phit_j] - E[y] E[phit_j] for j in A, averaged over A where it differs; for unbalanced ParityMix the
    class-weighted (E[phit_j | +1] - E[phit_j | -1]) / 2 of the general setting.
    """

    dictionary: Float[Tensor, "d D"]
    relevant: Int[Tensor, " k"]
    positive: Bool[Tensor, " kp1"]
    mean: Float[Tensor, " D"]
    scale: float
    gamma: float


def random_subset(D: int, k: int, key: Key) -> Int[Tensor, " k"]:
    """A uniformly random k-subset of range(D), sorted."""
    return torch.randperm(D, generator=key.torch())[:k].sort().values


def orthonormal_dictionary(d: int, D: int, key: Key) -> Float[Tensor, "d D"]:
    """Random (d, D) matrix with orthonormal columns: QR of a Gaussian, signs fixed so that it is Haar distributed."""
    q, r = torch.linalg.qr(torch.randn(d, D, generator=key.torch(), dtype=torch.float64))
    return (q * r.diagonal().sign()).float()


def incoherent_dictionary(d: int, D: int, key: Key) -> Float[Tensor, "d D"]:
    """Random (d, D) matrix with unit columns; inner products are about N(0, 1/d)."""
    m = torch.randn(d, D, generator=key.torch(), dtype=torch.float64)
    return (m / m.norm(dim=0)).float()


def tilted_dictionary(d: int, D: int, key: Key) -> Float[Tensor, "d D"]:
    """Unit columns that all lean to one direction, so that every inner product is exactly 1 / (16 D).

    The largest coherence mu / sqrt(d) that the general setting of the emergence work admits (lemma 36).
    """
    q = orthonormal_dictionary(d, D + 1, key).double()
    c = 1 / (16 * D)
    return ((1 - c) ** 0.5 * q[:, :D] + c**0.5 * q[:, D:]).float()


def _dictionary(d: int, D: int, coordinates: str, key: Key) -> Float[Tensor, "d D"]:
    if coordinates == "pattern":
        return torch.eye(D)
    if coordinates == "input":
        return orthonormal_dictionary(d, D, key)
    if coordinates == "tilted":
        return tilted_dictionary(d, D, key)
    return incoherent_dictionary(d, D, key)


def _truth(
    dictionary: Tensor, relevant: Tensor, positive: Tensor, mean: Tensor, scale: Tensor | float, gamma: Tensor | float
) -> PatternTruth:
    star = dictionary[:, relevant].sum(dim=1)
    return PatternTruth((star / star.norm())[None], dictionary, relevant, positive, mean, float(scale), float(gamma))


def mix(truth: PatternTruth, phit: Float[Tensor, "n D"], sigma_z: float, key: Key) -> Float[Tensor, "n d"]:
    """Normalised inputs of hidden bits: (M (phit - E phit) + sigma_z noise) / st."""
    x = (phit - truth.mean) / truth.scale
    if truth.dictionary.shape[0] != phit.shape[1] or not torch.equal(truth.dictionary, torch.eye(phit.shape[1])):
        x = x @ truth.dictionary.T
    if sigma_z:
        x = x + (sigma_z / truth.scale) * torch.randn(x.shape, generator=key.torch())
    return x


def _check_space(truth: PatternTruth, d: int) -> None:
    if len(truth.dictionary) != d:
        found = f"a dictionary of shape {tuple(truth.dictionary.shape)}"
        raise SettingError("truth", found, f"(d, D) with d = {d}", "draw it from this task")


def _check_sizes(d: int, D: int, k: int, coordinates: str) -> None:
    if coordinates not in ("pattern", "input", "incoherent", "tilted"):
        raise SettingError("coordinates", coordinates, "pattern, input, incoherent or tilted", "choose one of them")
    if d < 1:
        raise SettingError("d", d, "a positive input dimension", "set d >= 1")
    if D < 1:
        raise SettingError("D", D, "a positive number of patterns", "set D >= 1")
    if not 1 <= k <= D:
        raise SettingError("k", k, f"1 <= k <= D = {D}", "lower k or raise D")
    least = D + 1 if coordinates == "tilted" else D
    if d < least and coordinates != "incoherent":
        raise SettingError(
            "d", d, f"at least {least} (D = {D}, dictionary {coordinates})", f"set d >= {least} or lower D"
        )


@dataclass(frozen=True)
class ParityMix:
    """Sparse parity inside a mixture that betrays the relevant block (emergence.definition_parity_mix).

    With probability p_o all bits are fair coins; else the relevant block is all-zero or all-one with equal chance and
    every other bit is 1 with probability p_o / (2 - 2 p_o), so each background pattern has marginal p_o.
    y = +1 iff an odd number of relevant patterns is present. structure=False: all bits are fair coins
    (emergence.definition_no_structure). negative_share: share of class -1, by class-conditional sampling.
    coordinates: see the module; "incoherent" draws unit columns that are only nearly orthogonal, "tilted" unit columns
    of equal coherence 1 / (16 D). sigma_z: input noise.

    Where paper and exact value differ: for p_o != 1/2 two background patterns share the mixture index, so their
    covariance p_o (1 - 2 p_o)^2 / (4 (1 - p_o)) is not zero and the family's independence (A2) holds only at p_o = 1/2.

    Example:
        >>> task = ParityMix(d=20, D=10, k=3)
        >>> truth = task.draw(Key("demo"))
        >>> task.sample(truth, 5, Key("demo/data")).x.shape
        torch.Size([5, 10])
    """

    d: int = 500
    D: int = 100
    k: int = 5
    p_o: float = 0.5
    structure: bool = True
    negative_share: float = 0.5
    coordinates: str = "pattern"
    sigma_z: float = 0.0

    def __post_init__(self) -> None:
        _check_sizes(self.d, self.D, self.k, self.coordinates)
        if self.k % 2 == 0:
            raise SettingError("k", self.k, "odd (an all-present block must have odd parity)", f"try k = {self.k + 1}")
        if not 0 < self.p_o <= 0.5:
            raise SettingError("p_o", self.p_o, "in (0, 1/2]", "a background pattern is present at most half the time")
        if not 0 < self.negative_share < 1:
            raise SettingError("negative_share", self.negative_share, "in (0, 1)", "0.5 is balanced")
        if self.sigma_z < 0:
            raise SettingError("sigma_z", self.sigma_z, "at least 0", "0 means no input noise")
        if self.sigma_z and self.coordinates == "pattern" and self.d > self.D:
            # noise outside the span of the patterns reaches the weights there, so the D coordinates do not suffice
            raise SettingError("sigma_z", self.sigma_z, "0 in pattern coordinates", 'set coordinates = "input"')

    def draw(self, key: Key) -> PatternTruth:
        """A random relevant set and dictionary, with population mean, scale and gamma in closed form."""
        relevant = random_subset(self.D, self.k, key / "relevant")
        dictionary = _dictionary(self.d, self.D, self.coordinates, key / "dictionary")
        p_plus = 1 - self.negative_share
        # given y, a fair parity block still has fair marginals (k >= 2); the all-or-none block follows y exactly
        fair = 1.0 if not self.structure else self.p_o
        if self.k == 1:
            fair = 0.0
        on = torch.full((self.D,), self.p_o if self.structure else 0.5)
        on[relevant] = fair / 2 + (1 - fair) * p_plus
        var = (on * (1 - on)).double().sum() + dictionary.shape[0] * self.sigma_z**2
        gamma = (1 - fair) / 2  # (E[phit_j | y=+1] - E[phit_j | y=-1]) / 2
        positive = torch.arange(self.k + 1) % 2 == 1
        return _truth(dictionary, relevant, positive, on, var.sqrt(), gamma)

    @checked(sizes=("D", "k"))
    def sample(self, truth: PatternTruth, n: int, key: Key) -> Batch:
        """n independent samples; group is 0 for the fair component and 1 for the all-or-none component."""
        _check_space(truth, self.D if self.coordinates == "pattern" else self.d)
        g = (key / "patterns").torch()
        plus = torch.rand(n, generator=g) >= self.negative_share
        fair = torch.rand(n, generator=g) < (self.p_o if self.structure else 1.0)
        off_rate = self.p_o / (2 - 2 * self.p_o)
        rate = torch.where(fair, 0.5, off_rate)
        phit = (torch.rand(n, self.D, generator=g) < rate[:, None]).float()
        block = (torch.rand(n, self.k, generator=g) < 0.5).float()
        wrong = (block.sum(1) % 2 == 1) != plus
        block[:, -1] = torch.where(wrong, 1 - block[:, -1], block[:, -1])  # uniform given its parity
        block = torch.where(fair[:, None], block, plus[:, None].float())
        phit[:, truth.relevant] = block
        y = torch.where(plus, 1.0, -1.0)
        return Batch(mix(truth, phit, self.sigma_z, key / "noise"), y, phit, (~fair).long())


def binomial_pmf(k: int, p: float) -> Float[Tensor, " kp1"]:
    """Probabilities of 0..k successes of k trials, float64."""
    i = torch.arange(k + 1, dtype=torch.float64)
    n = torch.tensor(float(k), dtype=torch.float64)
    log_choose = torch.lgamma(n + 1) - torch.lgamma(i + 1) - torch.lgamma(n - i + 1)
    on, off = torch.tensor([p, 1 - p], dtype=torch.float64)
    return torch.exp(log_choose + torch.xlogy(i, on) + torch.xlogy(n - i, off))


@dataclass(frozen=True)
class Interval:
    """Label +1 iff t1 <= (number of present relevant patterns) <= t2; independent bits (emergence.definition_interval).

    Relevant patterns are present with probability p_relevant, others with 1/2; structure=False makes all 1/2.
    The classes are not balanced (A0 of the family does not hold): Pr[y=+1] = 0.585 with structure and 0.049 without at
    the reported sizes, and gamma stays positive without structure.
    """

    d: int = 500
    D: int = 100
    k: int = 30
    t1: int = 20
    t2: int = 30
    p_relevant: float = 2 / 3
    structure: bool = True
    coordinates: str = "pattern"

    def __post_init__(self) -> None:
        _check_sizes(self.d, self.D, self.k, self.coordinates)
        if not 0 <= self.t1 <= self.t2 <= self.k:
            raise SettingError("t1, t2", (self.t1, self.t2), f"0 <= t1 <= t2 <= k = {self.k}", "reorder or lower them")
        if not 0 < self.p_relevant < 1:
            raise SettingError("p_relevant", self.p_relevant, "in (0, 1)", "2/3 is the reported value")

    @property
    def _p(self) -> float:
        return self.p_relevant if self.structure else 0.5

    def positive_rate(self) -> float:
        """Pr[y = +1], a binomial sum."""
        return float(binomial_pmf(self.k, self._p)[self.t1 : self.t2 + 1].sum())

    def draw(self, key: Key) -> PatternTruth:
        """A random relevant set and dictionary, with exact binomial moments."""
        relevant = random_subset(self.D, self.k, key / "relevant")
        dictionary = _dictionary(self.d, self.D, self.coordinates, key / "dictionary")
        p = self._p
        mean = torch.full((self.D,), 0.5)
        mean[relevant] = p
        count = torch.arange(self.k + 1, dtype=torch.float64)
        y = torch.where((count >= self.t1) & (count <= self.t2), 1.0, -1.0).double()
        pmf = binomial_pmf(self.k, p)
        gamma = (pmf * y * count).sum() / self.k - (pmf * y).sum() * p
        scale = (self.k * p * (1 - p) + (self.D - self.k) / 4) ** 0.5
        return _truth(dictionary, relevant, y > 0, mean, scale, gamma)

    @checked(sizes=("D", "k"))
    def sample(self, truth: PatternTruth, n: int, key: Key) -> Batch:
        """n independent samples."""
        _check_space(truth, self.D if self.coordinates == "pattern" else self.d)
        phit = (torch.rand(n, self.D, generator=(key / "patterns").torch()) < truth.mean).float()
        count = phit[:, truth.relevant].sum(1).long()
        y = torch.where(truth.positive[count], 1.0, -1.0)
        return Batch(mix(truth, phit, 0.0, key / "noise"), y, phit, None)


@dataclass(frozen=True)
class HiddenTruth(PatternTruth):
    """As PatternTruth, with codes (c, k) the bit vectors of the relevant block and code_labels (c) their labels."""

    codes: Float[Tensor, "c k"]
    code_labels: Float[Tensor, " c"]


@dataclass(frozen=True)
class HiddenCodes:
    """The relevant block is one of 2 * per_class random bit vectors, each with a fixed label (emergence.figure15).

    A generalisation of the all-or-none component of ParityMix to more than two codes; background bits are fair coins.
    `features` is the direction of E[y x], the first-order signal. The paper writes x = M phit; we normalise as
    elsewhere.
    """

    d: int = 500
    D: int = 250
    k: int = 50
    per_class: int = 50
    coordinates: str = "pattern"

    def __post_init__(self) -> None:
        _check_sizes(self.d, self.D, self.k, self.coordinates)
        if self.per_class < 1:
            raise SettingError("per_class", self.per_class, "at least 1", "50 is the reported value")

    def draw(self, key: Key) -> HiddenTruth:
        """Random codes and labels; mean and scale are exact for the drawn codes."""
        relevant = random_subset(self.D, self.k, key / "relevant")
        dictionary = _dictionary(self.d, self.D, self.coordinates, key / "dictionary")
        codes = (torch.rand(2 * self.per_class, self.k, generator=(key / "codes").torch()) < 0.5).float()
        labels = torch.cat([torch.ones(self.per_class), -torch.ones(self.per_class)])
        mean = torch.full((self.D,), 0.5)
        mean[relevant] = codes.mean(0)
        signal = (labels[:, None] * codes).mean(0)
        if not signal.any():  # both classes have the same mean code: happens only for very short or very few codes
            raise SettingError("k", self.k, "long enough for E[y x] != 0", "raise k or draw with another key")
        direction = dictionary[:, relevant] @ signal
        base = _truth(
            dictionary,
            relevant,
            torch.zeros(self.k + 1, dtype=torch.bool),
            mean,
            (mean * (1 - mean)).double().sum().sqrt(),
            signal.abs().mean(),
        )
        return HiddenTruth(
            (direction / direction.norm())[None],
            dictionary,
            relevant,
            base.positive,
            mean,
            base.scale,
            base.gamma,
            codes,
            labels,
        )

    @checked(sizes=("D", "k"))
    def sample(self, truth: HiddenTruth, n: int, key: Key) -> Batch:
        """n independent samples; group is the index of the code."""
        _check_space(truth, self.D if self.coordinates == "pattern" else self.d)
        g = (key / "patterns").torch()
        which = torch.randint(len(truth.codes), (n,), generator=g)
        phit = (torch.rand(n, self.D, generator=g) < 0.5).float()
        phit[:, truth.relevant] = truth.codes[which]
        return Batch(mix(truth, phit, 0.0, key / "noise"), truth.code_labels[which], phit, which)
