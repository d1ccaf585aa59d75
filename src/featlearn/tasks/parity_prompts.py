"""Sparse parities in context: two signs seen through an orthonormal dictionary, and tasks that prefer some of them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from featlearn.core import Batch, Key, SettingError
from featlearn.core.check import check_number, checked
from featlearn.tasks.parities import Coordinates, ParityTruth
from featlearn.tasks.patterns import orthonormal_dictionary


@dataclass(frozen=True)
class ParityPrompts:
    """y = phi_i phi_j of an ordered pair (i, j), x = G phi: the samples of one member are the examples of a prompt.

    The pair is uniform on the ordered pairs of the first k signs (S_1) with probability 1 - p_T, and uniform on all
    others (S_2) with probability p_T. (phi_i, phi_j) is (1, 1), (1, -1), (-1, 1), (-1, -1) with probability
    1/4 + gamma, 1/4, 1/4, 1/4 - gamma, so that E[y phi] = 2 gamma (e_i + e_j); other signs are fair.
    features (1, d): (G_i + G_j) / sqrt(2). coordinates: "pattern" takes G = I, "input" a random orthonormal G. Members
    that share a dictionary come from `tasks`. Source: thesis, section 5.5 (icl_scale.definition_parity_task), which
    asks for gamma > 0; 0 is the parity that nothing betrays.

    Errors: `SettingError` for k outside [2, d], gamma outside [0, 1/4], p_T outside [0, 1/2), and p_T > 0 at k = d.

    Example:
        >>> task = ParityPrompts(d=8, k=2, gamma=0.1)
        >>> batch = task.sample(task.draw(Key("demo")), 16, Key("demo/examples"))
        >>> batch.x.shape, batch.y.shape
        (torch.Size([16, 8]), torch.Size([16]))
    """

    d: int = 8
    k: int = 2
    gamma: float = 0.1
    p_T: float = 0.01
    coordinates: Coordinates = "input"

    def __post_init__(self) -> None:
        if not 2 <= self.k <= self.d:
            raise SettingError("k", self.k, f"in 2..d = {self.d}", "a task needs two of the important signs")
        check_number(self.gamma, "gamma", "in [0, 1/4]", "1/4 - gamma is a probability")
        check_number(self.p_T, "p_T", "in [0, 1/2)", "it is the share of less important tasks")
        if self.gamma > 0.25:
            raise SettingError("gamma", self.gamma, "in [0, 1/4]", "1/4 - gamma is a probability")
        if self.p_T >= 0.5:
            raise SettingError("p_T", self.p_T, "in [0, 1/2)", "it is the share of less important tasks")
        if self.k == self.d and self.p_T > 0:
            raise SettingError("p_T", self.p_T, "0 at k = d", "all pairs are important there; lower k")
        if self.coordinates not in ("pattern", "input"):
            raise SettingError("coordinates", self.coordinates, "pattern or input", "choose one of them")

    def draw(self, key: Key) -> ParityTruth:
        """A random pair and, in input coordinates, a random dictionary."""
        return self.member(self._pairs(key, 1)[0], self._dictionary(key))

    def tasks(self, key: Key, number: int) -> tuple[ParityTruth, ...]:
        """So many members that share one dictionary, as the prompts of one model do."""
        if number < 1:
            raise SettingError("number", number, "at least 1", "it is a number of tasks")
        dictionary = self._dictionary(key)
        return tuple(self.member(pair, dictionary) for pair in self._pairs(key, number))

    def _dictionary(self, key: Key) -> Tensor:
        return (
            torch.eye(self.d)
            if self.coordinates == "pattern"
            else orthonormal_dictionary(self.d, self.d, key / "dictionary")
        )

    def _pairs(self, key: Key, number: int) -> Tensor:
        """So many ordered pairs of signs (number, 2)."""
        pairs = torch.cartesian_prod(torch.arange(self.d), torch.arange(self.d))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        important, g = (pairs < self.k).all(1), (key / "pairs").torch()
        rare = torch.rand(number, generator=g) < self.p_T
        weights = torch.where(rare[:, None], ~important, important).float()
        return pairs[torch.multinomial(weights, 1, generator=g)[:, 0]]

    def member(self, pair: Tensor, dictionary: Tensor) -> ParityTruth:
        """The task of an ordered pair (2) of signs, counted from 0, under a dictionary (d, d).

        Errors: SettingError for a pair of one sign with itself or beyond d.
        """
        i, j = (int(one) for one in pair)
        if i == j or not 0 <= min(i, j) <= max(i, j) < self.d:
            raise SettingError("pair", (i, j), f"two different ones of 0..{self.d - 1}", "a parity has two signs")
        features = (dictionary[:, i] + dictionary[:, j])[None] / 2**0.5
        return ParityTruth(features, torch.tensor([[i, j]]), dictionary)

    @checked(sizes=("d",))
    def sample(self, truth: ParityTruth, n: int, key: Key) -> Batch:
        """n independent samples; hidden is phi, group 0 for a task of S_1 and 1 for one of S_2."""
        g, dictionary = key.torch(), truth.dictionary
        phi = torch.randint(0, 2, (n, self.d), generator=g).to(dictionary.dtype) * 2 - 1
        u, pair = torch.rand(n, generator=g), truth.blocks[0]
        first = torch.where(u < 0.5 + self.gamma, 1.0, -1.0)
        alike = (u < 0.25 + self.gamma) | (u >= 0.75 + self.gamma)
        y = torch.where(alike, 1.0, -1.0).to(phi.dtype)
        phi[:, pair[0]] = first.to(phi.dtype)
        phi[:, pair[1]] = phi[:, pair[0]] * y
        group = torch.full((n,), int(pair.max() >= self.k))
        return Batch(phi if self.coordinates == "pattern" else phi @ dictionary.T, y, phi, group)
