"""What a domain-generalisation algorithm minimises in one step: pure functions of two modules and their minibatches.

Each takes (featurizer, classifier, minibatches, state) and returns an Outcome; minibatches are one per training domain.
Settings are keywords, bound with `functools.partial`. What outlives a step (GroupDRO's shares, the step that annealing
counts, the key of random numbers) is in the State that comes in and in the one that goes out; the modules keep nothing.

    m domains; F the featurizer, w the classifier, R_e the mean cross entropy of the rows of domain e.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.core.check import check_fields, check_number
from featlearn.methods.nuclear_norm import Method, Reduction, nuclear_norm


@dataclass(frozen=True)
class Minibatch:
    """Rows of one domain: x (n, ...), class indices y (n)."""

    x: Shaped[Tensor, "n ..."]
    y: Int[Tensor, " n"]

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class State:
    """What an objective knows of earlier steps. step: how many there were; shares: GroupDRO's q (m), None at first."""

    key: Key
    step: int = 0
    shares: Float[Tensor, " m"] | None = None


@dataclass(frozen=True)
class Outcome:
    """One step of an objective.

    loss: what to minimise; state: for the next step; features (n, d): of all rows that went through the featurizer;
    parts: its terms, for the log; restart_optimizer: a penalty has just been switched on, so that momenta of before are
    of another scale and should be dropped.
    """

    loss: Float[Tensor, ""]
    state: State
    features: Float[Tensor, "n d"]
    parts: Mapping[str, Tensor] = field(default_factory=dict)
    restart_optimizer: bool = False


Objective = Callable[[nn.Module, nn.Module, Sequence[Minibatch], State], Outcome]


def _each(
    featurizer: nn.Module, classifier: nn.Module, minibatches: Sequence[Minibatch]
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Features of all rows in one pass, and features and logits of each domain."""
    features = featurizer(_all_x(minibatches))
    sizes = [len(b.y) for b in minibatches]
    return features, list(features.split(sizes)), list(classifier(features).split(sizes))


def _next(state: State, **changed: Any) -> State:
    return dataclasses.replace(state, step=state.step + 1, **changed)


def _risks(logits: Sequence[Tensor], minibatches: Sequence[Minibatch]) -> Tensor:
    return torch.stack([functional.cross_entropy(z, b.y) for z, b in zip(logits, minibatches, strict=True)])


def erm(featurizer: nn.Module, classifier: nn.Module, minibatches: Sequence[Minibatch], state: State) -> Outcome:
    """Empirical risk minimisation: mean cross entropy of all rows of all domains.

        (1 / n) sum_i CE(w F(x_i), y_i)

    Source: thesis sec. 6.2.2 (nuclear.method_ermnu).
    """
    features = featurizer(_all_x(minibatches))
    loss = functional.cross_entropy(classifier(features), torch.cat([b.y for b in minibatches]))
    return Outcome(loss, _next(state), features, {"risk": loss})


def mixup(
    featurizer: nn.Module,
    classifier: nn.Module,
    minibatches: Sequence[Minibatch],
    state: State,
    *,
    alpha: float = 0.2,
) -> Outcome:
    """Inter-domain mixup: each domain is mixed with another one, and the loss with it.

        x = l x_i + (1 - l) x_j,  l ~ Beta(alpha, alpha) per pair;  (1 / m) sum over pairs of
        l CE(w F(x), y_i) + (1 - l) CE(w F(x), y_j)

    The pairs are neighbours in a random cycle of the domains, of the length of the shorter one. All pairs go through
    the featurizer together; `features` are those of the mixed rows, which is what a nuclear norm then sees (the paper
    does not say, and the released code holds no mixup with nuclear norm).

    Source: table 6.2 (nuclear.table6_2) names it; formula of Yan et al. (2020) as in the benchmark's code.
    """
    check_number(alpha, "alpha", "a finite number above 0", "0.2 is usual; erm mixes nothing", above=True)
    _all_x(minibatches[:1])
    draw = (state.key / "mixup" / state.step).numpy()
    order = draw.permutation(len(minibatches))
    pairs = [(minibatches[i], minibatches[j]) for i, j in zip(order, [*order[1:], order[0]], strict=True)]
    shares = draw.beta(alpha, alpha, size=len(pairs))
    sizes = [min(len(a.y), len(b.y)) for a, b in pairs]
    mixed = [
        float(share) * a.x[:n] + (1 - float(share)) * b.x[:n]
        for (a, b), n, share in zip(pairs, sizes, shares, strict=True)
    ]
    features = featurizer(torch.cat(mixed))
    logits = classifier(features).split(sizes)
    risks = [
        float(share) * functional.cross_entropy(z, a.y[:n]) + (1 - float(share)) * functional.cross_entropy(z, b.y[:n])
        for z, (a, b), n, share in zip(logits, pairs, sizes, shares, strict=True)
    ]
    loss = torch.stack(risks).mean()
    return Outcome(loss, _next(state), features, {"risk": loss})


def coral(
    featurizer: nn.Module,
    classifier: nn.Module,
    minibatches: Sequence[Minibatch],
    state: State,
    *,
    weight: float = 1.0,
) -> Outcome:
    """CORAL: means and covariances of the features of each two domains are brought together.

        (1 / m) sum_e R_e + weight * 2 / (m (m - 1)) sum_{e < f}
            [ mean_k (mu_e - mu_f)_k^2 + mean_kl (C_e - C_f)_kl^2 ],   C with n - 1 below

    Source: tables 6.1, 6.3 (nuclear.table6_3) name it; Sun and Saenko (2016) in the form of the benchmark's code.
    Errors: SettingError for one domain, or a domain with one row (it has no covariance).
    """
    _several(minibatches, "CORAL")
    _two_rows(minibatches, "CORAL")
    features, parted, logits = _each(featurizer, classifier, minibatches)
    means = [f.mean(0) for f in parted]
    covariances = [(f - mu).T @ (f - mu) / (len(f) - 1) for f, mu in zip(parted, means, strict=True)]
    m = len(minibatches)
    apart = [
        (means[i] - means[j]).square().mean() + (covariances[i] - covariances[j]).square().mean()
        for i in range(m)
        for j in range(i + 1, m)
    ]
    risk, penalty = _risks(logits, minibatches).mean(), torch.stack(apart).mean()
    return Outcome(risk + weight * penalty, _next(state), features, {"risk": risk, "coral": penalty})


def irm(
    featurizer: nn.Module,
    classifier: nn.Module,
    minibatches: Sequence[Minibatch],
    state: State,
    *,
    weight: float = 100.0,
    anneal: int = 500,
) -> Outcome:
    """IRMv1: the classifier should be optimal in each domain, tested by the slope of the risk in a scale of the logits.

        (1 / m) sum_e R_e + lambda (1 / m) sum_e g_e g'_e,   lambda = 1 before step `anneal`, then weight
        g = d/ds mean CE(s z, y) at s = 1 = mean_i [ sum_c p_ic z_ic - z_i,y_i ]

    g_e and g'_e are of the even and the odd rows, so that their product is unbiased for the squared slope.

    Source: table 6.1 (nuclear.table6_1) names it; Arjovsky et al. (2019), the released code of which differentiates;
    here the slope is written out. The optimizer starts anew when the weight changes, as there.
    Errors: SettingError for a domain with one row.
    """
    _two_rows(minibatches, "IRM")
    features, _, logits = _each(featurizer, classifier, minibatches)
    products = []
    for z, batch in zip(logits, minibatches, strict=True):
        slope = (z.softmax(1) * z).sum(1) - z.gather(1, batch.y[:, None])[:, 0]
        products.append(slope[::2].mean() * slope[1::2].mean())
    risk, penalty = _risks(logits, minibatches).mean(), torch.stack(products).mean()
    loss = risk + (weight if state.step >= anneal else 1.0) * penalty
    return Outcome(loss, _next(state), features, {"risk": risk, "irm": penalty}, state.step == anneal)


def vrex(
    featurizer: nn.Module,
    classifier: nn.Module,
    minibatches: Sequence[Minibatch],
    state: State,
    *,
    weight: float = 10.0,
    anneal: int = 500,
) -> Outcome:
    """V-REx: equal risks in all domains.

        Rbar + lambda (1 / m) sum_e (R_e - Rbar)^2,   Rbar = (1 / m) sum_e R_e, lambda as in `irm`

    Source: table 6.1 (nuclear.table6_1) names it; Krueger et al. (2021) as in the benchmark's code.
    Errors: SettingError for one domain (the variance is then zero).
    """
    _several(minibatches, "VREx")
    features, _, logits = _each(featurizer, classifier, minibatches)
    risks = _risks(logits, minibatches)
    risk = risks.mean()
    penalty = (risks - risk).square().mean()
    loss = risk + (weight if state.step >= anneal else 1.0) * penalty
    return Outcome(loss, _next(state), features, {"risk": risk, "vrex": penalty}, state.step == anneal)


def group_dro(
    featurizer: nn.Module,
    classifier: nn.Module,
    minibatches: Sequence[Minibatch],
    state: State,
    *,
    eta: float = 0.01,
) -> Outcome:
    """GroupDRO: the domains with the larger risks count more, by exponentiated gradient.

        q_e <- q_e exp(eta R_e) / sum,  loss = sum_e q_e R_e with the new q (no gradient through q); q starts equal

    Source: table 6.1 (nuclear.table6_1) names it; Sagawa et al. (2019) as in the benchmark's code.
    """
    features, _, logits = _each(featurizer, classifier, minibatches)
    risks = _risks(logits, minibatches)
    old = torch.ones_like(risks) if state.shares is None else state.shares.to(risks)
    shares = old * (eta * risks.detach()).exp()
    shares = (shares / shares.sum()).detach()
    loss = shares @ risks
    return Outcome(loss, _next(state, shares=shares), features, {"risk": risks.mean(), "largest share": shares.max()})


class ChannelScales(nn.Module):
    """The variances of MIRO, v = softplus(b) + 1e-5 with one b per channel of each stage; they start at 0.1.

    stages: as `featurizer.stages` gives them, for the shapes; channels are axis 1.
    """

    def __init__(self, stages: Sequence[Tensor], start: float = 0.1) -> None:
        super().__init__()
        b = torch.tensor(start - 1e-5).expm1().log()
        self.b = nn.ParameterList([nn.Parameter(b.expand(s.shape[1]).clone().to(s.device)) for s in stages])

    def forward(self) -> list[Tensor]:
        """One vector of variances (c) per stage."""
        return [functional.softplus(b) + 1e-5 for b in self.b]


def miro(
    featurizer: nn.Module,
    classifier: nn.Module,
    minibatches: Sequence[Minibatch],
    state: State,
    *,
    pretrained: nn.Module,
    scales: nn.Module,
    weight: float = 0.1,
) -> Outcome:
    """MIRO: a lower bound on the information that the features keep about those of the pretrained network.

        erm + weight * sum_l mean[ (z_l - z0_l)^2 / v_l + log v_l ] / 2

    z_l, z0_l: output of stage l of the featurizer and of the frozen pretrained one; v_l: a learned variance per
    channel (`ChannelScales`, trained ten times faster than the network in the original). Both featurizers need
    `stages(x)`, which returns the outputs of their stages and last the features; those before the features count.

    Source: table 6.3 (nuclear.table6_3) names it; Cha et al. (2022) with the identity as mean encoder, as their code.
    Errors: SettingError for a featurizer without `stages`.
    """
    for name, module in (("featurizer", featurizer), ("pretrained", pretrained)):
        if not callable(getattr(module, "stages", None)):
            raise SettingError(name, type(module).__name__, "a module with stages(x)", "SmallCnn and ResNet have it")
    x, y = _all_x(minibatches), torch.cat([b.y for b in minibatches])
    *maps, features = featurizer.stages(x)  # pyright: ignore[reportCallIssue]
    with torch.no_grad():
        *maps_before, _ = pretrained.stages(x)  # pyright: ignore[reportCallIssue]
    terms = []
    for now, before, v in zip(maps, maps_before, scales(), strict=True):
        v = v.view(1, -1, *[1] * (now.ndim - 2))
        terms.append(((now - before).square() / v + v.log()).mean() / 2)
    risk = functional.cross_entropy(classifier(features), y)
    penalty = torch.stack(terms).sum()
    return Outcome(risk + weight * penalty, _next(state), features, {"risk": risk, "miro": penalty})


def with_nuclear_norm(
    objective: Objective,
    weight: float = 0.01,
    start: int = 101,
    reduction: Reduction = "mean",
    method: Method = "auto",
) -> Objective:
    """Any objective plus weight times the nuclear norm of its features.

        loss + weight * ||F(X)||_* / n   (reduction "mean"; see `nuclear_norm` for the others)

    F(X): the features of all rows of the step, all domains concatenated; domain labels are not used. `start`: the first
    step with the penalty, counted from 0; weight 0 leaves the objective as it is.

    Source: thesis eq. 6.3 (nuclear.method_ermnu), where the norm is not divided and acts from the first step; "mean"
    and start 101 are those of the released code, with which the weight 0.01 of the paper was used.
    Errors: SettingError for a negative weight or start.

    Example:
        >>> erm_nu = with_nuclear_norm(erm, weight=0.01)
        >>> minibatches = [Minibatch(torch.ones(4, 2), torch.tensor([0, 1, 0, 1]))]
        >>> sorted(erm_nu(nn.Linear(2, 3), nn.Linear(3, 2), minibatches, State(Key("demo"), step=101)).parts)
        ['nuclear norm', 'risk']
    """
    if not 0 <= weight < float("inf"):
        raise SettingError("nuclear weight", weight, "0 or more", "0.01 is the default; 0 leaves the penalty out")
    if start < 0:
        raise SettingError("nuclear start", start, "0 or more", "101 is that of the released code")
    if weight == 0:
        return objective

    def penalised(
        featurizer: nn.Module, classifier: nn.Module, minibatches: Sequence[Minibatch], state: State
    ) -> Outcome:
        outcome = objective(featurizer, classifier, minibatches, state)
        if state.step < start:
            return outcome
        norm = nuclear_norm(outcome.features, reduction, method)
        parts = {**outcome.parts, "nuclear norm": norm}
        return dataclasses.replace(outcome, loss=outcome.loss + weight * norm, parts=parts)

    return penalised


def _all_x(minibatches: Sequence[Minibatch]) -> Tensor:
    """Inputs of all domains; not their values: a step must not wait, and `train` sees what comes of them."""
    if not minibatches or not any(len(b.y) for b in minibatches):
        raise SettingError("minibatches", len(minibatches), "at least one with rows", "give one for each domain")
    return torch.cat([b.x for b in minibatches])


def _several(minibatches: Sequence[Minibatch], name: str) -> None:
    if len(minibatches) < 2:
        remedy = "use erm, or add a domain (one more is held out)"
        raise SettingError("training domains", len(minibatches), f"at least 2 for {name}", remedy)


def _two_rows(minibatches: Sequence[Minibatch], name: str) -> None:
    smallest = min(len(b.y) for b in minibatches)
    if smallest < 2:
        raise SettingError("batch", smallest, f"at least 2 rows a domain for {name}", "raise batch")
