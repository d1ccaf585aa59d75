"""What the two experiments on k-th power networks share: data of a trial, and what a trained network looks like."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.lab.estimate import interval
from featlearn.lab.experiment import SummaryRow
from featlearn.lab.row import column
from featlearn.measure import (
    coverage,
    data_margin,
    fit_cosine,
    frequency_share,
    half_power,
    live,
    phase_residual,
    top_frequency,
)
from featlearn.nets import PowerNetwork
from featlearn.tasks.modular_addition import check_points, decoder, theory_covers
from featlearn.works.fourier.setup import gamma_star

MARGINS = ("margin", "mean_margin")
PART = 2**20  # points decoded at once when all of them are judged
SHOWN = 6  # neurons in a picture


def check_pairs(k: tuple[int, ...], p: tuple[int, ...], **beside: tuple[object, ...]) -> None:
    """SettingError unless k, p and what stands beside them have one entry per network, and the theory covers each."""
    if not k:
        raise SettingError("k", k, "at least one network", "for example --k 3 --p 23")
    for name, values in (("p", p), *beside.items()):
        if len(values) != len(k):
            raise SettingError(name, values, f"{len(k)} values, one for each k = {k}", "pair them in order")
    for one_k, one_p in zip(k, p, strict=True):
        check_points(one_p, one_k)
        if one_k < 2 or one_p < 3 or one_p % 2 == 0:
            why = theory_covers(one_p, one_k)
            raise SettingError("k, p", f"{one_k}, {one_p}", "k of at least 2 and odd p of at least 3", f"{why}")


def summary_of(setting: str, rows: Sequence[Any], metric: str, entry: str, row: str = "Network") -> SummaryRow | None:
    """The mean of a column over the seeds that have it, with an interval inside what it can be; None without any.

    A margin over gamma* ends at 1, whatever three seeds scatter.
    """
    values = [getattr(r, metric) for r in rows if getattr(r, metric) is not None]
    if not values:
        return None
    q = column(type(rows[0]), metric).quantity
    mean, low, high = interval(values)
    top = max(1.0, mean) if metric in MARGINS else q.high
    return SummaryRow(
        setting, row, metric, mean, max(low, q.low), min(high, top), len(values), entry=entry, unit=q.unit
    )


def reported_width(k: int, p: int) -> int:
    """m = 2^(2k - 2) (p - 1), the reported number of neurons."""
    return 2 ** (2 * k - 2) * (p - 1)


def judged(net: PowerNetwork, index: Tensor) -> dict[str, float]:
    """Accuracy and normalised margins, over gamma*, on points given by flat indices."""
    decode, unit = decoder(net.p, net.k), gamma_star(net.k, net.p) * net.norm() ** (net.k + 1)
    least, mean, right = float("inf"), 0.0, 0.0
    for part in index.split(PART):
        found = data_margin(net, *decode(part))
        least = min(least, found.least)
        mean += found.mean * found.n / len(index)
        right += 100 * found.right * found.n / len(index)
    return {"margin": least / unit, "mean_margin": mean / unit, "acc": min(right, 100.0)}


def vectors(net: PowerNetwork) -> Tensor:
    """The k + 1 vectors of each neuron (m, k + 1, p), output last."""
    return torch.cat([net.u, net.w[:, None]], 1)


def structure(net: PowerNetwork) -> dict[str, Any]:
    """Live neurons, their spectra, phases and the frequencies they cover."""
    net = net.to(torch.float64).to("cpu")
    norms, both = net.neuron_norms(), vectors(net)
    alive = live(norms)
    power = half_power(both)[alive]
    share = power.sum(1).amax(-1) / power.sum((1, 2))
    tops = top_frequency(both)[alive]
    covered = coverage(top_frequency(net.w), net.p, alive)
    counts = covered.counts
    useful = tops[:, -1] > 0
    phase = phase_residual(net.u[alive], net.w[alive]).abs()[useful]
    least = int(counts.min())
    whole = norms.pow(net.k + 1)
    fits = fit_cosine(both[alive]).r2.amin(1)
    return {
        "live": 100 * float(alive.double().mean()),
        "held": 100 * min(float(whole[alive].sum() / whole.sum()), 1.0),
        "share": min(float(share.median()), 1.0),
        "share_low": min(float(share.quantile(0.05)), 1.0),
        "share_vectors": min(float(frequency_share(both[alive]).mean()), 1.0),
        "same": 100 * float((tops == tops[:, :1]).all(1).double().mean()),
        "phase": float(phase.median()) if len(phase) else None,
        "covered": 100 * float(covered.share),
        "most_over_least": float(counts.max()) / least if least else None,
        "cosine_low": min(float(fits.quantile(0.05)), 1.0),
    }


def picture_arrays(start: PowerNetwork, net: PowerNetwork, key: Key) -> dict[str, np.ndarray]:
    """Spectra of all neurons before and after, and the weights of a few live ones that only the key chooses."""
    before, after = vectors(start.to("cpu")), vectors(net.to("cpu"))
    alive = live(net.to("cpu").neuron_norms()).nonzero()[:, 0]
    chosen = alive[torch.randperm(len(alive), generator=key.torch())[:SHOWN]]
    return {
        "share_start": frequency_share(before[:, 0]).numpy(),
        "share_end": frequency_share(after[:, 0]).numpy(),
        "alive": alive.numpy(),
        "top": top_frequency(after[:, -1]).numpy(),
        "shown": after[chosen].numpy(),
    }
