"""Files made byte by byte, whose pixels are known: PNG, TIFF and PNM of any depth, and pictures with EXIF."""

import io
import struct
import zlib
from itertools import product

import numpy as np
from PIL import Image


def ramp(dtype=np.uint8, top=255, channels=None):
    """A picture 9 high and 12 wide whose values tell each place, up to `top`: (9, 12) or (9, 12, channels)."""
    base = np.arange(9 * 12).reshape(9, 12) / (9 * 12 - 1)
    if channels:
        base = np.stack([base, base[::-1], base[:, ::-1], base.T.reshape(9, 12)][:channels], -1)
    values = base * top
    return (np.rint(values) if np.issubdtype(dtype, np.integer) else values).astype(dtype)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(values, colour, depth, extra=b""):
    """values (h, w) or (h, w, channels); colour: 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA."""
    h, w = values.shape[:2]
    if depth < 8:
        rows = [np.packbits(np.unpackbits(r.astype(np.uint8)[:, None], axis=1)[:, 8 - depth :].ravel()) for r in values]
    else:
        rows = list(values.astype(">u2" if depth == 16 else np.uint8))
    data = zlib.compress(b"".join(b"\0" + r.tobytes() for r in rows))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + extra + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def tiff(values, photometric=1, kind=1, bits=None, tags=(), order="<", packed=None, deflate=False):
    """values (h, w) or (h, w, samples); photometric: 0 white is 0, 1 black is 0, 2 RGB, 5 CMYK, 8 Lab; kind: 1 whole
    numbers, 2 with a sign, 3 floats; tags: more of (number, value)."""
    h, w = values.shape[:2]
    samples = 1 if values.ndim == 2 else values.shape[2]
    bits = bits or 8 * values.dtype.itemsize
    data = packed if packed is not None else values.astype(values.dtype.newbyteorder(order)).tobytes()
    data = zlib.compress(data) if deflate else data
    fixed = [
        (256, w),
        (257, h),
        (259, 8 if deflate else 1),
        (262, photometric),
        (273, 8),
        (277, samples),
        (278, h),
        (279, len(data)),
    ]
    entries = [(tag, 4, 1, struct.pack(order + "I", v)) for tag, v in [*fixed, *tags] if tag in (273, 279)]
    entries += [(tag, 3, 1, struct.pack(order + "HH", v, 0)) for tag, v in [*fixed, *tags] if tag not in (273, 279)]
    count = len(entries) + 2
    after, blobs = 8 + len(data) + 2 + 12 * count + 4, b""
    for tag, value in ((258, bits), (339, kind)):
        packed_values = struct.pack(f"{order}{samples}H", *[value] * samples)
        if samples > 2:
            entries.append((tag, 3, samples, struct.pack(order + "I", after + len(blobs))))
            blobs += packed_values
        else:
            entries.append((tag, 3, samples, packed_values.ljust(4, b"\0")))
    out = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8 + len(data)) + data
    out += struct.pack(order + "H", count)
    out += b"".join(struct.pack(order + "HHI", tag, form, n) + raw for tag, form, n, raw in sorted(entries))
    return out + struct.pack(order + "I", 0) + blobs


def saved(image, kind, **words):
    """What PIL writes."""
    out = io.BytesIO()
    image.save(out, kind, **words)
    return out.getvalue()


def exif(orientation):
    found = Image.Exif()
    found[0x0112] = orientation
    return found.tobytes()


TURNS = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: np.rot90(a, 2).swapaxes(0, 1),
    8: lambda a: np.rot90(a),
}
"""What a viewer does to the stored picture for each orientation of EXIF."""


def cmyk(adobe=True):
    """A JPEG in CMYK, inverted as those of Adobe are and marked so, or neither."""
    ink = np.zeros((16, 16, 4), dtype=np.uint8)
    ink[:, :8, 0], ink[8:, :, 3] = 255, 128
    ink = ink if adobe else 255 - ink
    data = saved(Image.frombytes("CMYK", (16, 16), ink.tobytes()), "JPEG", quality=100, subsampling=0)
    if adobe:
        return data
    start = data.index(b"\xff\xee")
    return data[:start] + data[start + 2 + struct.unpack(">H", data[start + 2 : start + 4])[0] :]


GREY, COLOUR = ramp(), ramp(channels=3)
ALPHA8 = np.linspace(0, 255, 9 * 12).reshape(9, 12).astype(np.uint8)
BITS = (np.arange(9 * 12).reshape(9, 12) % 3 == 0).astype(np.uint8)
GIF2 = saved(Image.fromarray(GREY), "GIF", save_all=True, append_images=[Image.fromarray(255 - GREY)])
NAN = ramp(np.float32, 1)
NAN[3, 3] = np.nan
HEIC = b"\0\0\0\x18ftypheic" + bytes(40)
BOMB = png(GREY, 0, 8)
BOMB = BOMB[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 0, 0, 0, 0)) + BOMB[33:]


def deep(top, i=0):
    """A PNG of 16 bits with values up to `top`, another one for each i."""
    values = ramp(np.uint16, top)
    values[0, 1] = i
    return png(values, 0, 16)


def pets(root):
    """photo and sketch, each with three cats and three dogs, all different."""
    for (i, domain), (k, label), j in product(enumerate(("photo", "sketch")), enumerate(("cat", "dog")), range(3)):
        place = root / "pets" / domain / label
        place.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (12, 10), (100 + 50 * i, 10 + 20 * j, 200 * k)).save(place / f"{j}.png")
    return root / "pets"


def put(tree, data, name="x.png", domain="photo", label="cat"):
    """One more file."""
    path = tree / domain / label / name
    path.write_bytes(data)
    return path
