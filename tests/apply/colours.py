"""A tree of three domains of red and blue pictures, and what is planned on it."""

import dataclasses

from PIL import Image

from featlearn.apply.domains import sources
from featlearn.apply.domains.runs import Config
from featlearn.apply.domains.sources import Network, Source
from featlearn.core import Key
from featlearn.methods.domains import Schedule

KEY = Key("tests/tools/domains")
FAST = Schedule(steps=4, batch=4, rate=0.01, evaluate_every=2)


def pictures_in(root):
    """Three domains of red and blue pictures, ten of each."""
    draw = KEY.numpy()
    for d, domain in enumerate(("day", "dusk", "night")):
        for label, colour in (("blue", (20, 20, 200)), ("red", (200, 20, 20))):
            folder = root / "colours" / domain / label
            folder.mkdir(parents=True)
            for i in range(10):
                noisy = tuple(int(c / (1 + d) + draw.integers(0, 40)) for c in colour)
                Image.new("RGB", (8, 8), noisy).save(folder / f"{i}.png")
    return root / "colours"


def made(tree, **changed):
    source = Source(str(tree), size=8)
    found = sources.load(source)
    source = sources.with_fingerprint(source, found)
    config = Config(source, found.names, 2, 3, network=Network(width=8), schedule=FAST, seeds=(0,), device="cpu")
    return found, dataclasses.replace(config, **changed)
