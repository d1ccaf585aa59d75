"""Without input structure: the statistical-query lower bound (Theorem 4), against a simulated adversary.

A query q(z, y) in [-1, 1] with tolerance t may be answered by any number within t of E[q]. Split q by the label:
E[q] = E[(q(z,1) + q(z,-1)) / 2] + E[r f_A] with r = (q(z,1) - q(z,-1)) / 2 and |r| <= 1. The adversary answers with
the first term as long as it may: that is false only for sets with |E[r f_A]| > t, and by Bessel they are at most 1/t^2.
After Q queries at least C(D,k) - Q/t^2 sets explain every answer, so what the learner says cannot suit them all.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linprog

from featlearn.core import Key
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import COUNT, POSITIVE, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, control, equal
from featlearn.lab.uncertainty import Observation
from featlearn.works.emergence.claims.lower_bounds import cube, mixture_weights, parities, parity, subsets, walsh

Array = np.ndarray
D, K = 16, 5
"""65536 inputs, 4368 parities; the bound is just above eight queries."""
LARGE = (100, 5)
"""Patterns of Table 1."""
QUERIES, TOLERANCE = 8, 1 / 8


@dataclass
class Adversary:
    """An oracle that answers with tolerance and keeps as many hidden sets possible as it can.

    masks (s): the concepts. alive, flipped (s): which of them explain every answer so far, with their labels and with
    the opposite ones. eliminated: how many each query cost.
    """

    masks: Int[Array, " s"]
    tolerance: float
    alive: Array = field(init=False)
    flipped: Array = field(init=False)
    eliminated: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.alive = np.ones(len(self.masks), dtype=bool)
        self.flipped = self.alive.copy()

    def ask(self, positive: Float[Array, " n"], negative: Float[Array, " n"]) -> float:
        """Answer to the query that is `positive` where y = 1 and `negative` where y = -1, over all 2^D inputs."""
        if max(np.abs(positive).max(), np.abs(negative).max()) > 1 + 1e-12:
            raise ValueError("a query takes values in [-1, 1]")
        signal = walsh((positive - negative) / 2)[self.masks]
        answer = float((positive + negative).mean() / 2)
        far = np.abs(signal) > self.tolerance
        if (self.alive & ~far).any():
            self.eliminated.append(int((self.alive & far).sum()))
            self.alive &= ~far
            self.flipped &= ~far
            return answer
        keep = np.flatnonzero(self.alive)[np.abs(signal[self.alive]).argmin()]  # cornered: tell the truth about one
        gone = self.alive & (np.abs(signal - signal[keep]) > self.tolerance)
        self.eliminated.append(int(gone.sum()))
        self.alive &= ~gone
        self.flipped &= np.abs(signal + signal[keep]) <= self.tolerance
        return answer + float(signal[keep])


def all_parities(z: Float[Array, "n D"], masks: Int[Array, " s"], signs: Float[Array, " s"]) -> Float[Array, " n"]:
    """sum_A signs_A f_A(z), by one inverse transform."""
    table = np.zeros(len(z))
    table[masks] = signs
    return walsh(table) * len(z)


Learner = Callable[[Adversary, Array, np.random.Generator, int], Array]


def _silent(oracle: Adversary, z: Array, rng: np.random.Generator, budget: int) -> Array:
    return np.ones(len(z))


def _vote(oracle: Adversary, z: Array, rng: np.random.Generator, budget: int) -> Array:
    """No query at all: the sign of the sum of all parities, slightly right about every one of them."""
    return np.where(all_parities(z, oracle.masks, np.ones(len(oracle.masks))) >= 0, 1.0, -1.0)


def _gradient(oracle: Adversary, z: Array, rng: np.random.Generator, budget: int) -> Array:
    """Gradients of random neurons, E[y z_j 1(0 < <w, z> + b < 1)]: a network's first step; votes with the answers."""
    score = np.zeros(len(z))
    for _ in range(budget):
        w, b = rng.normal(size=z.shape[1]) / math.sqrt(z.shape[1]), rng.normal() / 5
        j = rng.integers(z.shape[1])
        h = z @ w + b
        probe = z[:, j] * ((h > 0) & (h < 1))
        score += oracle.ask(probe, -probe) * probe
    return np.where(score + 1e-9 * z[:, 0] >= 0, 1.0, -1.0)


def _bundle(oracle: Adversary, z: Array, rng: np.random.Generator, budget: int) -> Array:
    """Asks for the sign of sums of 1/t^2 living parities: removes as many sets per query as can be done; then votes."""
    group = max(1, int(0.4 / oracle.tolerance**2))
    for _ in range(budget):
        living = np.flatnonzero(oracle.alive)
        chosen = rng.permutation(living)[:group]
        probe = np.sign(all_parities(z, oracle.masks[chosen], np.ones(len(chosen))))
        oracle.ask(probe, -probe)
    return np.where(all_parities(z, oracle.masks, oracle.alive.astype(float)) >= 0, 1.0, -1.0)


def _one_by_one(oracle: Adversary, z: Array, rng: np.random.Generator, budget: int) -> Array:
    """Asks about one parity after another and bets on one that is left."""
    for mask in rng.permutation(oracle.masks)[:budget]:
        probe = parity(z, int(mask))
        oracle.ask(probe, -probe)
    return parity(z, int(oracle.masks[np.flatnonzero(oracle.alive)[0]]))


LEARNERS: dict[str, Learner] = {
    "says nothing": _silent,
    "votes of all parities": _vote,
    "gradients of neurons": _gradient,
    "bundles": _bundle,
    "one by one": _one_by_one,
}


def krawtchouk(dim: int, size: int) -> list[int]:
    """sum_A f_A at inputs with 0, 1, ..., dim negative signs, exact integers."""
    return [
        sum((-1) ** i * math.comb(j, i) * math.comb(dim - j, size - i) for i in range(size + 1)) for j in range(dim + 1)
    ]


def vote_advantage(dim: int, size: int) -> float:
    """1/2 - error of the silent vote sign(sum_A f_A), the same for every A: E|sum_A f_A| / (2 C(D,k)), exact."""
    total = sum(math.comb(dim, j) * abs(v) for j, v in enumerate(krawtchouk(dim, size)))
    return total / (2 * math.comb(dim, size) * 2**dim)


def few_advantage(dim: int, size: int, most: int) -> float:
    """Worst advantage of "y = -1 iff at most `most` patterns are present" over all balanced P inside {1, ..., k}.

    Exact: minus sum_c y_c Pr[count in A = c, count in all <= most], as E y = 0.
    """
    joint = [
        math.comb(size, c) * sum(math.comb(dim - size, t) for t in range(most - c + 1)) / 2**dim
        for c in range(size + 1)
    ]
    worst = math.inf
    for pick in range(2**size):
        positive = [c for c in range(1, size + 1) if pick >> (c - 1) & 1]
        if sum(math.comb(size, c) for c in positive) == 2 ** (size - 1):
            worst = min(worst, -sum(joint[c] * (1 if c in positive else -1) for c in range(size + 1)))
    return worst


def any_advantage(dim: int, size: int) -> float:
    """Largest worst advantage, over all P inside {1, ..., k}, of an answer that depends on the number of present
    patterns alone, in [-1, 1]: a coin of that mean; a linear program over its dim + 1 values."""
    joint = np.array(
        [
            [math.comb(size, c) * math.comb(dim - size, t - c) / 2**dim if t >= c else 0.0 for t in range(dim + 1)]
            for c in range(size + 1)
        ]
    )
    labels = np.array([(-1.0, *y) for y in product((-1.0, 1.0), repeat=size)])
    limits = np.c_[-labels @ joint, np.full(len(labels), 2.0)]
    found = linprog(
        np.r_[np.zeros(dim + 1), -1.0], limits, np.zeros(len(labels)), bounds=[(-1, 1)] * (dim + 1) + [(None, None)]
    )
    return float((labels @ joint @ found.x[:-1]).min() / 2)


def first_order(structured: bool, z: Float[Array, "n D"], mask: int, tolerance: float) -> float:
    """Share of relevant patterns that the queries E[y z_j] find, exact up to an oracle that errs against the learner.

    With structure at p_o = 1/2 the truth is 1/2 on A and 0 elsewhere; without it 0 everywhere.
    """
    weights = mixture_weights(z, mask, 0.5) if structured else np.full(len(z), 1 / len(z))
    truth = (weights * parity(z, mask)) @ z
    relevant = np.array([bool(mask >> j & 1) for j in range(z.shape[1])])
    found = truth + np.where(relevant, -tolerance, tolerance) > 0.25
    return 0.0 if found[~relevant].any() else float(found[relevant].mean())


def statements(settings: None) -> tuple[Statement, ...]:
    """Theorem 4, its count, and what an answer without a query is worth."""
    count, large = math.comb(D, K), math.comb(*LARGE)
    totals = np.array([large, count, large, large], dtype=np.float64)
    advantage = "advantage without a query"
    return (
        equal(
            "largest |E[f_A f_B]|, A != B",
            SHARE,
            np.zeros(3),
            "Theorem 4, proof: parities of different sets are orthogonal",
            axis="D and k",
            margin=1e-12,
            rival=np.ones(3),
            rival_says="concepts whose sum runs over all patterns and not over A: all are equal",
        ),
        at_most(
            "sets lost a query, times tolerance^2",
            POSITIVE,
            1.0,
            "Bessel: at most 1/t^2 sets have |E[r f_A]| above t",
            axis="tolerance",
            margin=1e-12,
            form="derived",
        ),
        at_least(
            "sets that explain all answers",
            COUNT,
            count - QUERIES / TOLERANCE**2,
            "C(D,k) - Q/t^2",
            axis="learner",
            form="derived",
        ),
        at_least(
            "worst error where a label may be flipped",
            SHARE,
            0.5,
            "Theorem 4: no learner of so few queries beats 1/2 on all of the family, count 0 having either label",
            axis="learner",
            margin=1e-12,
            rival=control("worst error where no label is flipped"),
            rival_says="parities of one sign, as P inside {1, ..., k} leaves them",
        ),
        at_least(
            f"{advantage}, count 0 labelled -1",
            POSITIVE,
            totals**-3.0,
            "parities of one sign, or P inside {1, ..., k}: an answer without a query is better than 1/C(D,k)^3",
            axis="learner",
            rival=np.zeros(4),
            rival_says="none, as where count 0 may have either label",
            form="derived",
            of=advantage,
        ),
        at_most(
            advantage,
            POSITIVE,
            0.5 / np.sqrt(totals),
            "Bessel: the mean of E[h f_A]^2 over sets is at most 1/C(D,k)",
            axis="learner",
            form="derived",
        ),
        equal(
            "relevant patterns found by E[y z_j], with and without structure",
            SHARE,
            np.array([1.0, 0.0]),
            "E[y z_j] is 1/2 on A with structure at p_o = 1/2, and 0 everywhere without",
            axis="structure",
            rival=np.array([1.0, 1.0]),
            rival_says="that structure does not matter",
            form="derived",
        ),
    )


def observe(settings: None, key: Key) -> Mapping[str, Observation]:
    """Enumeration, a simulated adversary and exact advantages."""
    gram = []
    for dim, size in ((12, 3), (12, 5), (10, 5)):
        table = parities(cube(dim), subsets(dim, size))
        gram.append(float(np.abs(table.T @ table / len(table) - np.eye(table.shape[1])).max()))
    z, masks = cube(D), subsets(D, K)
    survivors, flipped, plain = [], [], []
    for name, learner in LEARNERS.items():
        oracle = Adversary(masks, TOLERANCE)
        guess = learner(oracle, z, (key / name).numpy(), QUERIES)
        error = (1 - walsh(guess)[masks]) / 2
        survivors.append(float(oracle.alive.sum()))
        plain.append(float(error[oracle.alive].max(initial=0)))
        flipped.append(max(plain[-1], float((1 - error[oracle.flipped]).max(initial=0))))
    cost = []
    for tolerance, group in ((0.999, 1), (0.499, 3), (0.3, 5), (0.2, 9), (0.125, 25), (0.05, 180)):
        chosen = (key / "cost" / group).numpy().permutation(masks)[:group]
        probe = np.sign(all_parities(z, chosen, np.ones(group)))
        oracle = Adversary(masks, tolerance)
        oracle.ask(probe, -probe)
        cost.append(oracle.eliminated[0] * tolerance**2)
    few = max(few_advantage(*LARGE, most) for most in range(20))
    found = [first_order(on, z, int(masks[7]), TOLERANCE) for on in (True, False)]
    return {
        "largest |E[f_A f_B]|, A != B": np.array(gram),
        "sets lost a query, times tolerance^2": np.array(cost),
        "sets that explain all answers": np.array(survivors),
        "worst error where a label may be flipped": np.array(flipped),
        "worst error where no label is flipped": np.array(plain),
        "advantage without a query": np.array(
            [vote_advantage(*LARGE), vote_advantage(D, K), few, any_advantage(*LARGE)]
        ),
        "relevant patterns found by E[y z_j], with and without structure": np.array(found),
    }


def premises(settings: None) -> tuple[Premise, ...]:
    """Fewer queries, of a larger tolerance, than the theorem asks for."""
    bound = 0.5 * math.comb(D, K) ** (1 / 3)
    return (
        Premise("queries and 1/tolerance below C(D,k)^(1/3)/2", max(QUERIES, 1 / TOLERANCE) < bound, f"{bound:.2f}"),
    )


CLAIMS = (
    Claim(
        id="emergence.theorem4",
        entries=("emergence.theorem4",),
        says="Learning all members of the family, whose labels are any function of the count, to error below 1/2 needs "
        "C(D,k)^(1/3)/2 statistical queries or that inverse tolerance.",
        statements=statements,
        observe=observe,
        premises=premises,
        remarks="The paper has labels by 'any binary function' of the count, and P inside [k]. Where count 0 may have "
        "either label, as a function of the count allows, the theorem holds with any threshold up to 1/2. For parities "
        "of one sign, or P inside {1, ..., k}, the threshold that holds is 1/2 - 0.54/sqrt(C(D,k)): without a query "
        "the vote of all parities, and some function of the number of present patterns, are right more often than "
        "1/2 + 1/C(D,k)^3. The four advantages are the vote on two sets of parities, and the least over all balanced "
        "P and over all P.",
    ),
)
