"""Pictures of trained neurons on modular addition: weights with their interpolation, spectra, histograms."""

from collections.abc import Mapping

import numpy as np
import torch

from featlearn.measure import half_power, interpolate
from featlearn.report import style
from featlearn.report.plots import Picture


def neurons(arrays: Mapping[str, np.ndarray], k: int, p: int, points: str) -> Picture:
    """A row per neuron: points of one embedding with the curve through them, and its share of power by frequency."""
    shown = torch.from_numpy(arrays["shown"])[:, 0].double()
    n = len(shown)
    fig, data = style.figure(9, 0.9 + 1.35 * n), []
    fig.suptitle(f"k = {k}, p = {p}, trained on {points}", fontsize="medium")
    t = torch.linspace(0, p - 1, 12 * p, dtype=torch.float64)
    curve, power = interpolate(shown, t), half_power(shown)
    power = (power / power.sum(-1, keepdim=True)).numpy()
    with style.applied(9):
        axes = fig.subplots(n, 2, squeeze=False, sharex="col")
        for i, (left, right) in enumerate(axes):
            left.plot(t.numpy(), curve[i].numpy(), color=style.METHODS["Network"], lw=1.3)
            left.plot(range(p), shown[i].numpy(), "o", ms=3.2, color=style.METHODS["NTK"])
            right.bar(range(len(power[i])), power[i], color=style.METHODS["Network"], width=0.8)
            right.set_ylim(0, 1.05)
            left.set_ylabel("u_1(a)")
            data += [{"neuron": i, "a": a, "u": float(v)} for a, v in enumerate(shown[i])]
        axes[-1][0].set_xlabel("a")
        axes[-1][1].set_xlabel("frequency")
        axes[0][0].set_title("weights")
        axes[0][1].set_title("share of power")
    caption = (
        f"k = {k}, p = {p}, trained on {points}: first embedding of live neurons that a random key chose (points), the "
        "trigonometric curve through them, and the share of its power at each frequency."
    )
    return Picture(fig, caption, data=data)


def histograms(arrays: Mapping[str, np.ndarray], k: int, p: int, points: str) -> Picture:
    """Neurons by dominant frequency; largest share of power of their first embedding before and after training."""
    fig = style.figure(11, 3.7)
    fig.suptitle(f"k = {k}, p = {p}, trained on {points}", fontsize="medium")
    alive, top = arrays["alive"], arrays["top"][arrays["alive"]]
    counts = np.bincount(top, minlength=p // 2 + 1)[1:]
    bins = np.linspace(0, 1, 41)
    with style.applied(11):
        axes = fig.subplots(1, 3)
        axes[0].bar(np.arange(1, len(counts) + 1), counts, color=style.METHODS["Network"], width=0.8)
        axes[0].axhline(len(alive) / len(counts), color=style.REPORTED, lw=1.2, ls=":")
        axes[0].set(xlabel="dominant frequency", ylabel="live neurons", title="frequencies")
        for ax, name, values in (
            (axes[1], "at the start", arrays["share_start"]),
            (axes[2], "after training", arrays["share_end"][alive]),
        ):
            ax.hist(values, bins, color=style.METHODS["Network"])
            ax.set(xlim=(0, 1), xlabel="largest share of power", ylabel="neurons", title=name)
    caption = (
        f"k = {k}, p = {p}, trained on {points}: live neurons by dominant frequency of their output vector (dotted: an "
        "even share), and the share of power at the top frequency of their first embedding, before and after training."
    )
    data = [{"frequency": i + 1, "neurons": int(v)} for i, v in enumerate(counts)]
    return Picture(fig, caption, data=data)
