"""Which frequencies do embeddings use? Here those of a small network; put rows of your checkpoint in their place."""

import torch

from featlearn.core import Key
from featlearn.learn import PowerSchedule, fit_power
from featlearn.measure import coverage, frequency_share, live, random_share, top_frequency
from featlearn.nets import power_init
from featlearn.tasks.modular_addition import decoder

p, key = 13, Key("tour")
start = power_init(48, 2, p, key / "start")
run = fit_power(start, torch.arange(p * p), decoder(p, 2), key / "batches", PowerSchedule(steps=800, batch=None))
for name, net in (("start", start), ("end", run.net)):
    embeddings = net.u[:, 0]  # (neurons, p): the last axis is the number
    alive = live(net.neuron_norms())
    used = coverage(top_frequency(embeddings), p, alive)
    share = float(frequency_share(embeddings[alive]).median())
    print(f"{name:5}  share of power at one frequency {share:.2f} (noise {random_share(p):.2f})", end="  ")
    print(f"neurons of each frequency {used.counts.tolist()}")
