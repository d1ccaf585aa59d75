"""Train any PyTorch network and watch its first layer turn to the feature behind the labels."""

import torch

from featlearn.core import Key
from featlearn.measure.alignment import closest_cosine
from featlearn.tasks import ParityMix

key = Key("tour")
task = ParityMix(d=30, D=30, k=3)
truth = task.draw(key / "task")  # truth.features: the unit vectors that a learner should find
batch = task.sample(truth, 4000, key / "data")

net = torch.nn.Sequential(torch.nn.Linear(30, 100), torch.nn.ReLU(), torch.nn.Linear(100, 1))
start = key.torch()
for layer in (net[0], net[2]):
    torch.nn.init.normal_(layer.weight, std=0.1, generator=start)
    torch.nn.init.zeros_(layer.bias)

optimiser = torch.optim.SGD(net.parameters(), lr=2.0)
for step in range(201):
    if step % 50 == 0:
        cosine = closest_cosine(net[0].weight.detach()[None], truth.features[0])
        print(f"step {step:3d}  closest cosine {float(cosine):.3f}")
    loss = torch.nn.functional.soft_margin_loss(net(batch.x)[:, 0], batch.y)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
