"""Handwritten digits as domain/class/image: plain, inverted, coloured, edges; and turned, a style apart.

    python digit_styles.py digits --each 20

Each picture of MNIST stands in one style alone.
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from featlearn.core import Key
from featlearn.data import mnist

STYLES = ("plain", "inverted", "coloured", "edges")
UNSEEN = "turned"


def styled(grey: Image.Image, style: str, draw: np.random.Generator) -> Image.Image:
    """A white digit on black in one of the styles."""
    if style == "inverted":
        return grey.point(lambda v: 255 - v)
    if style == "edges":
        return grey.filter(ImageFilter.FIND_EDGES)
    if style == "turned":
        return grey.rotate(float(draw.uniform(30, 60)), Image.Resampling.BICUBIC)
    if style == "coloured":
        share = np.asarray(grey)[..., None] / 255
        ink, paper = draw.integers(128, 256, 3), draw.integers(0, 100, 3)
        return Image.fromarray((share * ink + (1 - share) * paper).round().astype(np.uint8))
    return grey


def write(folder: Path, each: int, key: Key) -> None:
    """`each` pictures of every digit and style; those of UNSEEN beside, in a folder of that name."""
    images = mnist(digits=tuple(range(10)))
    for digit in range(10):
        rows = (images.y == digit).nonzero()[:, 0]
        rows = rows[(key / digit).numpy().permutation(len(rows))]
        for s, style in enumerate((*STYLES, UNSEEN)):
            place = (folder / style if style != UNSEEN else folder.with_name(UNSEEN) / UNSEEN) / str(digit)
            place.mkdir(parents=True, exist_ok=True)
            for i, row in enumerate(rows[s * each : (s + 1) * each].tolist()):
                values = (255 * images.x[row]).round().byte().view(28, 28).numpy()
                styled(Image.fromarray(values), style, (key / style / digit / i).numpy()).save(place / f"{i:03}.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--each", type=int, default=20, help="pictures of every digit and style")
    given = parser.parse_args()
    write(given.folder, given.each, Key("digit-styles"))
