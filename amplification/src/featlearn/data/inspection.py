"""What is odd about a set of images: one rule for what counts as white, and remarks with counts and examples."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

from featlearn.data.decoding import Facts, Scale, inspect
from featlearn.data.names import SHOWN, shown, some
from featlearn.errors import DataError

DECODED = 20000
"""Up to so many files are decoded when a set is loaded; of more only the beginning is looked at."""
DARK = 1 / 16
"""Images whose largest value is no more than this share of white are remarked where a whole domain is like that."""
SMALL, LONG = 8, 8
"""Sides in pixels below which an image is remarked, and the ratio of sides above which."""
_SUFFIXES = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "MPO": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png", ".apng"),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
    "BMP": (".bmp", ".dib"),
    "DIB": (".bmp", ".dib"),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
    "GIF": (".gif",),
}


def inspected(paths: Sequence[Path], threads: int, pixels: bool) -> list[Facts]:
    """Facts of each file. Without pixels, those whose values are wider than a byte are decoded all the same, up to
    DECODED of them, evenly spread: the rule for the set needs their range."""

    def mapped(work: Any, items: Sequence[Any]) -> list[Any]:
        if threads <= 1 or len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, items))

    facts = mapped(lambda p: inspect(p, pixels), list(paths))
    if not pixels:
        wide = [i for i, f in enumerate(facts) if f.header is not None and f.header.kind != "byte"]
        stride = max(1, -(-len(wide) // DECODED))
        chosen = wide[::stride]
        for i, found in zip(chosen, mapped(inspect, [paths[i] for i in chosen]), strict=True):
            facts[i] = found
    return facts


def told_troubles(facts: Sequence[Facts], total: int, hint: str = "") -> tuple[str, str]:
    """(what is wrong with the files that cannot be read, remedy): counts by reason, with the first names of each.

    hint: where those that are not there were looked for.
    """
    bad = [f for f in facts if f.trouble is not None]
    gone = [f for f in bad if f.trouble is not None and f.trouble.kind == "does not exist"]
    rest = [f for f in bad if f.trouble is not None and f.trouble.kind != "does not exist"]
    parts = []
    if gone:
        verb = "does" if len(gone) == 1 else "do"
        first = ", ".join(shown(f.path) for f in gone[:SHOWN]) + (", ..." if len(gone) > SHOWN else "")
        where = f" ({hint})" if hint else ""
        parts.append(f"{len(gone)} of {total} files {verb} not exist: {first}{where}")
    if rest:
        told = ", ".join(f"{shown(f.path)} ({f.trouble})" for f in rest[:SHOWN])
        kinds = Counter(f.trouble.kind for f in rest if f.trouble is not None)
        more = ""
        if len(rest) > SHOWN:
            more = f", ...: {', '.join(f'{n} {_plural(kind, n)}' for kind, n in kinds.most_common())}"
        parts.append(f"{len(rest)} of {total} images cannot be read: {told}{more}")
    remedy = "check the paths" if gone and not rest else "replace or remove them"
    return "; ".join(parts), remedy


def _plural(kind: str, n: int) -> str:
    if n == 1:
        return kind
    return kind.replace("is ", "are ", 1).replace("has ", "have ", 1).replace("are a folder", "are folders")


def decide(facts: Sequence[Facts], domains: Sequence[str], stated: Scale) -> tuple[Scale, list[str]]:
    """What counts as white in all of these images, and what to say about it; what `stated` leaves open is decided by
    the range over the whole set, never by that of one picture.

    Integers wider than a byte: 8 bits if none is above 255, 12 up to 4095, else 16. Floats: 0 to 1 if none is outside
    of it, else 0 to 255. Files that state their white themselves (12-bit TIFF, PGM) are read by that.

    Errors: DataError, one line, for values below 0, not finite, beyond what is stated, or that fit none of these.
    """
    known = [(f, d) for f, d in zip(facts, domains, strict=True) if f.high is not None and f.header is not None]
    integers = [(f, d) for f, d in known if f.header is not None and f.header.kind == "integer" and f.fixed is None]
    floats = [(f, d) for f, d in known if f.header is not None and f.header.kind == "float"]
    bits, told = stated.bits, []
    if integers:
        bits, said = _bits([f for f, _ in integers], stated.bits, len(facts))
        told.append(said + _by_domain(integers))
    limits = stated.floats
    if floats:
        limits, said = _range([f for f, _ in floats], stated.floats, len(facts))
        told.append(said + _by_domain(floats))
    return Scale(bits, limits), told


def _ends(facts: Sequence[Facts]) -> tuple[float, float]:
    lows, highs = [f.low for f in facts if f.low is not None], [f.high for f in facts if f.high is not None]
    return min(lows), max(highs)


def _bits(facts: Sequence[Facts], stated: int | None, total: int) -> tuple[int, str]:
    low, high = _ends(facts)
    widths = sorted({f.header.bits for f in facts if f.header is not None})
    what = f"{len(facts)} of {total} images hold integers of {' and '.join(map(str, widths))} bits"
    first = shown(facts[0].path)
    negative = [f for f in facts if f.low is not None and f.low < 0]
    if negative:
        raise DataError(
            f"{what}, {len(negative)} of them with values below 0, down to {low:.0f}: "
            f"{some([f.path for f in negative])}; save them without a sign"
        )
    bits = stated or next((b for b in (8, 12, 16) if high < 2**b), 0)
    over = [f for f in facts if f.high is not None and f.high >= 2**bits]
    if over:
        above = f"{len(over)} of them with values above {2 ** (bits or 16) - 1}, up to {high:.0f}"
        remedy = "state the depth that holds them (depth, --depth), or save them as 16 bits"
        raise DataError(f"{what}, {above}: {some([f.path for f in over])}; {remedy}")
    how = "as stated" if stated else "by the range of the whole set; --depth states another"
    needed = int(high).bit_length()
    how += f" ({needed} hold them all)" if 8 < needed < bits else ""
    return (
        bits,
        f"{what}, from {low:.0f} to {high:.0f}, first {first}: read as {bits} bits (white is {2**bits - 1}), {how}",
    )


def _range(facts: Sequence[Facts], stated: tuple[float, float] | None, total: int) -> tuple[tuple[float, float], str]:
    what = f"{len(facts)} of {total} images hold floats"
    infinite = [f for f in facts if not f.finite]
    if infinite:
        names = some([f.path for f in infinite])
        raise DataError(f"{what}, {len(infinite)} of them with nan or infinity: {names}; replace or remove them")
    low, high = _ends(facts)
    plausible = (0.0, 1.0) if high <= 1 else (0.0, 255.0)
    limits = stated or plausible
    outside = [
        f for f in facts if f.low is not None and f.high is not None and (f.low < limits[0] or f.high > limits[1])
    ]
    odd = stated is None and 1 < high < 16
    if outside or odd:
        names = some([f.path for f in outside or facts])
        fits = f"outside of {limits[0]:g} to {limits[1]:g}" if outside else "of neither 0 to 1 nor 0 to 255"
        remedy = "state black and white (float_range, --float-range 0 2), or save them as 0 to 1"
        raise DataError(f"{what}, from {low:.6g} to {high:.6g}, {len(outside or facts)} {fits}: {names}; {remedy}")
    how = "as stated" if stated else "by the range of the whole set; --float-range states another"
    first = shown(facts[0].path)
    return (
        limits,
        f"{what}, from {low:.6g} to {high:.6g}, first {first}: {limits[0]:g} is black and {limits[1]:g} white, {how}",
    )


def _by_domain(found: Sequence[tuple[Facts, str]]) -> str:
    """Largest values of each domain, where there are several."""
    highs: dict[str, float] = {}
    for f, domain in found:
        highs[domain] = max(highs.get(domain, 0.0), f.high or 0.0)
    return f" (largest value: {', '.join(f'{d} {v:.6g}' for d, v in sorted(highs.items()))})" if len(highs) > 1 else ""


def remarks(facts: Sequence[Facts], domains: Sequence[str], scale: Scale) -> list[str]:
    """A line for each kind of image that is not plainly what it seems: counts, and the first of them."""
    known = [(f, f.header) for f in facts if f.header is not None]
    out, total = [], len(facts)

    def say(found: Sequence[Facts], what: str) -> None:
        if found:
            out.append(f"{len(found)} of {total} images {what}: {some([f.path for f in found])}")

    odd = ("with an alpha channel", "without colour", "in CMYK", "in LAB")
    kinds = {what: sum(what in h.traits for _, h in known) for what in odd}
    told = ", ".join(f"{n} {what}" for what, n in kinds.items() if n)
    if told:
        out.append(f"of {total} images {told}: read as RGB, transparent as white")
    say([f for f, h in known if h.orientation > 1], "are turned or mirrored as their EXIF orientation says")
    say([f for f, h in known if h.orientation == 0], "have an EXIF orientation that is none and are read as they are")
    several = [(f, h) for f, h in known if h.frames > 1]
    most = max((h.frames for _, h in several), default=0)
    say([f for f, _ in several], f"hold several pictures, up to {most}, and only the first is read")
    say([f for f, h in known if "profile" in h.traits], "carry a colour profile other than sRGB, which is not applied")
    say(
        [f for f, h in known if f.path.suffix.lower() not in _SUFFIXES.get(h.format, ())],
        "are of another format than their suffix says and are read by their content",
    )
    say([f for f, h in known if min(h.size) < SMALL], f"are smaller than {SMALL} pixels on a side and are enlarged")
    say(
        [f for f, h in known if max(h.size) > LONG * min(h.size) >= LONG * SMALL],
        f"are more than {LONG} times as long as wide and are squeezed into a square",
    )
    dark = {i for i, f in enumerate(facts) if f.high is not None and f.high <= DARK * _white(f, scale)}
    groups: dict[tuple[str, str], set[int]] = {}
    for i, (f, domain) in enumerate(zip(facts, domains, strict=True)):
        if f.header is not None and f.high is not None:
            groups.setdefault((domain, f.header.kind), set()).add(i)
    whole = sorted(i for group in groups.values() if len(group) > 1 and group <= dark for i in group)
    zeros = [
        i
        for i in sorted(dark - set(whole))
        if facts[i].header is not None and facts[i].high == 1 != _white(facts[i], scale)
    ]
    say([facts[i] for i in whole], "are all that their domains have of their depth, and nearly black as they are read")
    say([facts[i] for i in zeros], "hold no values but 0 and 1 and are black as they are read")
    return out


def _white(f: Facts, scale: Scale) -> float:
    if f.header is None or f.header.kind == "byte":
        return 255.0
    if f.header.kind == "float":
        return (scale.floats or (0.0, 1.0))[1]
    return float(f.fixed or 2 ** (scale.bits or f.header.bits) - 1)


def twins(facts: Sequence[Facts], digests: Sequence[bytes], places: Sequence[tuple[str, str]]) -> list[str]:
    """Remarks on files that hold the same picture: under several labels, in several domains, or twice in one place.

    digests: of each file's content, b"" where it is alone; places: (domain, label) of each.
    """
    groups: dict[bytes, list[int]] = {}
    for i, digest in enumerate(digests):
        if digest:
            groups.setdefault(digest, []).append(i)
    kinds: dict[str, list[str]] = {"labels": [], "domains": [], "place": []}
    for group in groups.values():
        if len({os.path.normpath(facts[i].path) for i in group}) < 2:  # one file listed twice is remarked by itself
            continue
        labels, domains = {places[i][1] for i in group}, {places[i][0] for i in group}
        kind = "labels" if len(labels) > 1 else "domains" if len(domains) > 1 else "place"
        by = [next(members) for _, members in groupby(group, key=lambda i: places[i])]
        two = by[:2] if len(by) > 1 else group[:2]
        kinds[kind].append(" = ".join(shown(facts[i].path) for i in two))
    out = []
    for kind, what in (
        ("labels", "stand under several labels"),
        ("domains", "stand in several domains; what is tested can be what was trained on"),
        ("place", "stand twice in one class of one domain; one copy can train and the other validate"),
    ):
        found = kinds[kind]
        if found:
            more = ", ..." if len(found) > SHOWN else ""
            out.append(f"{len(found)} pictures of the same content {what}: {', '.join(found[:SHOWN])}{more}")
    return out


SPLITS = frozenset(
    (
        "train training tr test testing te val valid validation dev eval evaluation full all fold split crossval "
        "crossvalidation holdout heldout unlabeled unlabelled trainval"
    ).split()
)
"""Names of folders that part a set, as VLCS has between domain and class; without case, signs and numbers."""


def is_split(name: str) -> bool:
    """Whether a name is one of SPLITS, a number behind it or not."""
    plain = re.sub(r"[\W_\d]", "", name.casefold())
    return plain in SPLITS or re.sub(r"(set|split|data|images?|fold)s?$", "", plain) in SPLITS


def split_names(
    labels: Sequence[str], domains: Sequence[str], nested: Mapping[str, set[str]] | None = None
) -> list[str]:
    """Remarks on domains or some labels that are named like splits.

    nested: of labels that hold folders alone, the names of these. Errors: DataError where the classes are splits, which
    a model would learn to tell apart: all are named so, or the folders of one are named like other classes or like the
    folders of another split. A class `train` among vehicles is none.
    """
    found = [label for label in labels if is_split(label)]
    below = {n: {part.casefold() for part in (nested or {}).get(n, ())} for n in found}
    if len(found) == len(labels) and (len(found) > 1 or any(below.values())):
        wrong = found
    else:
        others = {label.casefold() for label in labels} - {n.casefold() for n in found}
        wrong = [n for n in found if below[n] & others.union(*(below[m] for m in found if m != n))]
    if wrong:
        raise DataError(
            f"the classes {', '.join(wrong)} are splits and no classes; is the data domain/split/class/image? "
            "Give domain/class/image, or a .csv file with the columns path, label, domain"
        )
    out = []
    for n in found:
        if below[n]:
            inner = some(sorted((nested or {})[n]))
            told = f"class {n} is named like a split and holds folders alone: {inner}"
            out.append(f"{told}; if it is one, a .csv file names the classes")
    if len(found) > 1:
        out.append(f"{len(found)} of {len(labels)} classes are named like splits: {some(found)}")
    parts = [domain for domain in domains if is_split(domain)]
    if len(parts) > 1 or (parts and len(parts) == len(domains)):
        out.append(
            f"{len(parts)} of {len(domains)} domains are named like splits and are taken as domains: {some(parts)}"
        )
    return out
