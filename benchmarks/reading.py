"""Reading and transforms of image files: featlearn.domains beside a plain DataLoader with torchvision v2, in turns.

    python benchmarks/reading.py                       # 2,000 JPEG of 500 x 400, two workers, five turns
    python benchmarks/reading.py --images 200 --workers 0 --repeats 2

Training: a crop, a flip and colours at random, normalised, in minibatches; evaluation: the whole picture at 224 x 224.
Both sides read the same files once a turn and start their processes anew. Given are images a second (medians), and the
seconds of ours over those of the plain loop: the median of the turns, and the least and the largest. With 0 workers
both read in this process, and its CPU time counts, which other work on the machine does not change.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _timing import machine, show

from featlearn.apply.domains.reading import prepared
from featlearn.core import Key
from featlearn.data.domains import FileDomain
from featlearn.data.pictures import Preprocessing
from featlearn.methods.domains import Part
from featlearn.methods.domains.training import minibatches_of_step

MEAN, STD = Preprocessing().mean, Preprocessing().std
KEY = Key("benchmarks/reading")
SIZE, BATCH, EVALUATED = 224, 32, 256


def drawn(folder: Path, images: int) -> list[Path]:
    """JPEG of 500 x 400: smooth colours with grain, about 90 kB each."""
    from PIL import Image

    (folder / "all").mkdir(parents=True, exist_ok=True)
    paths = [folder / "all" / f"{i:05}.jpg" for i in range(images)]
    for i, path in enumerate(paths):
        if not path.exists():
            draw = (KEY / i).numpy()
            coarse = Image.fromarray(draw.integers(0, 256, (12, 15, 3), dtype=np.uint8))
            smooth = np.asarray(coarse.resize((500, 400), Image.Resampling.BICUBIC)).astype(np.float32)
            grain = draw.normal(0, 12, (400, 500, 1)).astype(np.float32)
            Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8)).save(path, quality=90)
    return paths


def plain(folder: Path, workers: int, training: bool) -> int:
    """As a user writes it; how many images it read."""
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    ends = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    random = [
        v2.RandomResizedCrop(SIZE, scale=(0.7, 1.0)),
        v2.RandomHorizontalFlip(),
        v2.ColorJitter(0.3, 0.3, 0.3, 0.3),
        v2.RandomGrayscale(0.1),
    ]
    transform = v2.Compose([*(random if training else [v2.Resize((SIZE, SIZE))]), *ends])
    batch = BATCH if training else EVALUATED
    loader = DataLoader(ImageFolder(folder, transform), batch, shuffle=training, num_workers=workers)
    return sum(len(x) for x, _ in loader)


def ours(paths: Sequence[Path], workers: int, training: bool) -> int:
    """As `featlearn domains` reads while it trains, and while it evaluates."""
    n = len(paths)
    domain = FileDomain(
        "all", tuple(paths), torch.zeros(n, dtype=torch.int64), Preprocessing(SIZE, augment=True), max(workers, 1)
    )
    if not training:
        return sum(len(domain.inputs(rows, None)) for rows in torch.arange(n).split(EVALUATED))
    parts, steps = [Part(domain, torch.arange(n))], -(-n // BATCH)
    make = prepared(minibatches_of_step, parts, BATCH, steps, workers) or minibatches_of_step
    return sum(len(b.x) for step in range(steps) for b in make(parts, BATCH, step, KEY, 0, 1))


def rates(runs: Sequence[Callable[[], int]], repeats: int, clock: Callable[[], float]) -> list[list[float]]:
    """Seconds an image of each run in each turn, after one turn to warm up; the order turns round."""
    found: list[list[float]] = [[] for _ in runs]
    for turn in range(repeats + 1):
        for i in range(len(runs)) if turn % 2 else reversed(range(len(runs))):
            start = clock()
            images = runs[i]()
            if turn:
                found[i].append((clock() - start) / images)
    return found


def main() -> None:
    """Both kinds of reading, in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", help="where the pictures are kept; a temporary folder if left out")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    out: dict[str, Any] = {**machine("cpu"), "images": given.images, "workers": given.workers}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(given.folder or made)
        paths = drawn(folder, given.images)
        for what, training in (("training", True), ("evaluation", False)):
            runs = (partial(ours, paths, given.workers, training), partial(plain, folder, given.workers, training))
            mine, theirs = rates(runs, given.repeats, time.perf_counter if given.workers else time.process_time)
            over = sorted(a / b for a, b in zip(mine, theirs, strict=True))
            out |= {
                f"{what}: ours, images a second": round(1 / statistics.median(mine), 1),
                f"{what}: plain loop, images a second": round(1 / statistics.median(theirs), 1),
                f"{what}: seconds of ours over plain": round(statistics.median(over), 3),
                f"{what}: least and largest": [round(over[0], 3), round(over[-1], 3)],
            }
    show(out, given.json)


if __name__ == "__main__":
    main()
