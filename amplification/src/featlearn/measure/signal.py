"""Signal of neurons among four clusters +-mu_1 (label +1) and +-mu_2 (label -1): decomposition, margins, heavy mass.

Pure functions of the weights of any two-layer network and of any two orthogonal means. The work's network is
f(x) = (1/m) sum_i a_i relu(<w_i, x>); E over neurons is the mean over m. `scale` is the factor before the sum, 1 for an
ordinary network (and for the engine, which holds a_i / m).
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import checked


@checked()
def check_orthogonal_pair(means: Float[Tensor, "2 d"]) -> Float[Tensor, "2 d"]:
    """The two unit vectors mu_i / ||mu_i||: (2, d) -> (2, d).

    Errors: `SettingError` for means of no length, not finite, or not orthogonal (with their cosine).
    """
    if means.shape[0] != 2 or not torch.isfinite(means).all() or not means.norm(dim=1).all():
        raise SettingError("means", tuple(means.shape), "two finite vectors that are not zero", "one mean for a label")
    units = means / means.norm(dim=1, keepdim=True)
    cosine = float(units[0].double() @ units[1].double())
    if abs(cosine) > 1e-4:
        raise SettingError("means", f"cosine {cosine:.3g}", "orthogonal: |cosine| <= 1e-4", "orthogonalise them")
    return units


@dataclass(frozen=True)
class Parts:
    """A neuron in three orthogonal parts. sig, opp (e, m): coordinates along its own mean and the other one, signed.

    perp (e, m, d): the rest. ||w||^2 = sig^2 + opp^2 + ||perp||^2.
    """

    sig: Float[Tensor, "e m"]
    opp: Float[Tensor, "e m"]
    perp: Float[Tensor, "e m d"]

    @property
    def rest(self) -> Float[Tensor, "e m"]:
        """||w_perp + w_opp||: what a neuron of the largest margin would not have."""
        return (self.perp.square().sum(-1) + self.opp.square()).sqrt()


@checked(moves=True)
def signal_parts(w: Float[Tensor, "e m d"], a: Float[Tensor, "e m"], means: Float[Tensor, "2 d"]) -> Parts:
    """w = w_sig + w_opp + w_perp (Table 1 of the work, xor_sgd.decomposition).

    Formula: with u_i = mu_i / ||mu_i||, a neuron with a >= 0 has sig = <w, u_1>, opp = <w, u_2>; with a < 0 they are
    swapped, so that sig is along the mean whose label the neuron votes for. perp = w - sig u - opp u'.
    Shapes: w (e, m, d), a (e, m), means (2, d).
    Errors: `SettingError` for means that are not orthogonal.

    Example:
        >>> w = torch.tensor([[[3.0, 4.0, 12.0]]])
        >>> parts = signal_parts(w, -torch.ones(1, 1), torch.eye(3)[:2])
        >>> parts.sig.item(), parts.opp.item(), parts.perp.norm().item()
        (4.0, 3.0, 12.0)
    """
    units = check_orthogonal_pair(means.to(w))
    along = w @ units.T
    own = a >= 0
    first, second = along[..., 0], along[..., 1]
    return Parts(torch.where(own, first, second), torch.where(own, second, first), w - along @ units)


def _corners(means: Float[Tensor, "2 d"]) -> tuple[Float[Tensor, "4 d"], Float[Tensor, " 4"]]:
    """+mu_1, -mu_1, +mu_2, -mu_2 and their labels."""
    corners = torch.stack([means[0], -means[0], means[1], -means[1]])
    return corners, means.new_tensor([1.0, 1.0, -1.0, -1.0])


@checked(moves=True)
def cluster_margins(
    w: Float[Tensor, "e m d"], a: Float[Tensor, "e m"], means: Float[Tensor, "2 d"], *, scale: float = 1.0
) -> Float[Tensor, "e 4"]:
    """gamma_mu = y(mu) f(mu) at the centres +mu_1, -mu_1, +mu_2, -mu_2 (xor_sgd.margins).

    Formula: f(mu) = scale sum_i a_i max(<w_i, mu>, 0). Shapes: w (e, m, d), a (e, m), means (2, d) -> (e, 4).
    Errors: `SettingError` for means that are not orthogonal.

    Example:
        >>> w = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]])
        >>> cluster_margins(w, torch.tensor([[1.0, -1.0]]), torch.eye(2)).abs().tolist()
        [[1.0, 0.0, 2.0, 0.0]]
    """
    check_orthogonal_pair(means.to(w))
    corners, y = _corners(means.to(w))
    return scale * torch.einsum("em,emc->ec", a, torch.relu(w @ corners.T)) * y


@checked()
def loss_sizes(margins: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """g_mu = |l'(mu)| = 2 exp(-gamma) / (1 + exp(-gamma)) of l = 2 softplus(-y f); 1 at gamma = 0 (xor_sgd.margins).

    Shapes: (e, 4) -> (e, 4), or any other. The appendix of the work states it once without the factor 2.
    """
    return 2 * torch.sigmoid(-margins)


@dataclass(frozen=True)
class SignalHeavy:
    """How far networks are (zeta, H)-signal-heavy (Definition 4.2). heavy (e, m): S, all neurons of the first clause.

    heavy_margins (e, 4): those of the neurons of S whose signal points to that centre. outside (e): E[1(w not in S)
    ||w||^2]. mass (e): E||w||^2. second (e): E a^2. balanced (e): |a| <= ||w|| for all neurons. holds (e): all clauses.
    """

    heavy: Bool[Tensor, "e m"]
    heavy_margins: Float[Tensor, "e 4"]
    outside: Float[Tensor, " e"]
    mass: Float[Tensor, " e"]
    second: Float[Tensor, " e"]
    balanced: Bool[Tensor, " e"]
    holds: Bool[Tensor, " e"]


@checked(moves=True)
def signal_heavy(
    w: Float[Tensor, "e m d"], a: Float[Tensor, "e m"], means: Float[Tensor, "2 d"], *, zeta: float, H: float
) -> SignalHeavy:
    """The clauses of Definition 4.2 (xor_sgd.signal_heavy) with S as large as it can be.

    Formula: S = {exp(6 H) ||perp|| + ||opp|| <= zeta ||sig||}; E[1(w not in S) ||w||^2] <= zeta min_mu heavy margin;
    E||w||^2 <= E a^2 + zeta H <= 2 H; |a| <= ||w||; zeta <= exp(-10 H). The heavy margin of mu is
    E[1(w in S, <w_sig, mu> > 0) |a| relu(<w, mu>)] over neurons that vote for the label of mu: the paper leaves out
    y(mu), without which it is negative at +-mu_2.
    Shapes: w (e, m, d), a (e, m) with a in the reported form (not divided by m), means (2, d).
    Errors: `SettingError` for means that are not orthogonal, zeta <= 0 or H < 0.

    Example:
        >>> w = torch.tensor([[[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]]) * 0.7
        >>> found = signal_heavy(w, 0.7 * torch.tensor([[1.0, 1.0, -1.0, -1.0]]), torch.eye(2), zeta=1e-5, H=1.0)
        >>> bool(found.holds)
        True
    """
    if not zeta > 0:
        raise SettingError("zeta", zeta, "above 0", "0.1 is a coarse, 0.01 a fine scan")
    if H < 0:
        raise SettingError("H", H, "at least 0", "0 asks for ||perp|| + ||opp|| <= zeta ||sig||")
    parts = signal_parts(w, a, means)
    perp = parts.perp.norm(dim=-1)
    heavy = math.exp(6 * H) * perp + parts.opp.abs() <= zeta * parts.sig.abs()
    corners, y = _corners(means.to(w))
    toward = w @ corners.T  # (e, m, 4); <w_sig, mu> is <w, mu> where the neuron votes for the label of mu
    votes = (torch.where(a >= 0, 1.0, -1.0).to(w)[..., None] == y) & (toward > 0)
    counted = (heavy[..., None] & votes).to(w)
    margins = (counted * a.abs()[..., None] * torch.relu(toward)).mean(1)
    square, second = w.square().sum(-1), a.square().mean(1)
    outside, mass = (square * ~heavy).mean(1), square.mean(1)
    slack = 1 + 8 * torch.finfo(w.dtype).eps  # |a| = ||w|| at the start, up to rounding
    balanced = (a.abs() <= square.sqrt() * slack).all(1)
    clauses = (outside <= zeta * margins.min(1).values) & (mass <= second + zeta * H) & (second + zeta * H <= 2 * H)
    holds = clauses & balanced & (zeta <= math.exp(-10 * H))
    return SignalHeavy(heavy, margins, outside, mass, second, balanced, holds)


def heavy_mass(
    w: Float[Tensor, "e m d"], a: Float[Tensor, "e m"], means: Float[Tensor, "2 d"], *, zeta: float = 1.0
) -> Float[Tensor, " e"]:
    """Share of E||w||^2 on neurons with ||perp + opp|| <= zeta ||sig||: 1 for a network that is all signal.

    Shapes: w (e, m, d), a (e, m), means (2, d) -> (e). A network of zeros has 0. Errors: as `signal_parts`.
    """
    parts = signal_parts(w, a, means)
    square = w.square().sum(-1)
    total = square.sum(1)
    return (square * (parts.rest <= zeta * parts.sig.abs())).sum(1) / total.masked_fill(total == 0, 1)
