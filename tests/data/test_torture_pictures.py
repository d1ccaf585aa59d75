"""Every odd picture that we could think of: each is read right, to the pixel, or says why not."""

import contextlib
import os
import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image
from torture import ALPHA8, BITS, BOMB, COLOUR, GIF2, GREY, HEIC, NAN, TURNS, chunk, cmyk, exif, png, ramp, saved, tiff

from featlearn.data import DataError
from featlearn.data.decoding import Scale, inspect, open_rgb, opened


def rgb_of(grey):
    return np.repeat(np.asarray(grey)[..., None], 3, -1)


def shares(values, white):
    return np.rint(np.asarray(values, dtype=np.float64) * 255 / white).astype(np.uint8)


def over_white(colour, alpha):
    return np.rint(colour * alpha[..., None] + 255.0 * (1 - alpha[..., None]))


# --- read right ------------------------------------------------------------------------------------------------------

DEEP, DEEP3 = ramp(np.uint16, 65535), ramp(np.uint16, 65535, 3)
TWELVE, TWELVE3 = ramp(np.uint16, 4095), ramp(np.uint16, 4095, 3)
ALPHA16 = ramp(np.uint16, 65535)[::-1]
PALETTE = np.arange(9 * 12, dtype=np.uint8).reshape(9, 12) % 4
COLOURS = np.array([[10, 20, 30], [200, 0, 0], [0, 200, 0], [255, 255, 255]], dtype=np.uint8)
PLTE = chunk(b"PLTE", COLOURS.tobytes())
FULL = np.array([[0, 51, 255]] * 4, dtype=np.uint8)


def packed_12(values):
    """Two values of 12 bits in three bytes."""
    a, b = values.reshape(-1, 2).T.astype(np.uint32)
    return np.stack([a >> 4, (a & 15) << 4 | b >> 8, b & 255], -1).astype(np.uint8).tobytes()


def interlaced():
    """A PNG of 16 bits in seven passes."""
    head = struct.pack(">IIBBBBB", 12, 9, 16, 2, 0, 0, 1)
    starts = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
    rows = b""
    for y, x, dy, dx in starts:
        for row in DEEP3[y::dy, x::dx].astype(">u2"):
            rows += b"\0" + row.tobytes() if row.size else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


INK = np.zeros((16, 16, 3), dtype=np.uint8)
INK[:8, :8], INK[:8, 8:], INK[8:, :8], INK[8:, 8:] = (0, 255, 255), (255, 255, 255), (0, 127, 127), (127, 127, 127)

TRNS = chunk(b"tRNS", struct.pack(">H", int(DEEP[4, 5])))
TRNS3 = chunk(b"tRNS", struct.pack(">HHH", *map(int, DEEP3[4, 5])))
ONE_CLEAR = np.ones((9, 12))
ONE_CLEAR[4, 5] = 0
LAB = np.stack([np.full((4, 4), v, np.uint8) for v in (255, 0, 0)], -1)
SIXTEEN = Scale(bits=16)
PREMULTIPLIED = np.stack([np.full((4, 4), v, np.uint8) for v in (100, 128)], -1)

READ = {
    "grey 8": (png(GREY, 0, 8), rgb_of(GREY)),
    "colour 8": (png(COLOUR, 2, 8), COLOUR),
    "grey 1": (png(BITS, 0, 1), rgb_of(255 * BITS)),
    "grey 2": (png(PALETTE, 0, 2), rgb_of(85 * PALETTE)),
    "grey 4": (png(PALETTE * 5, 0, 4), rgb_of(85 * PALETTE)),
    "grey 16": (png(DEEP, 0, 16), rgb_of(shares(DEEP, 65535))),
    "grey 16 of 255": (png(np.full((9, 12), 255), 0, 16), np.full((9, 12, 3), 1)),
    "grey 16 of 256": (png(np.full((9, 12), 256), 0, 16), np.full((9, 12, 3), 1)),
    "grey 16 of 300": (png(np.full((9, 12), 300), 0, 16), np.full((9, 12, 3), 1)),
    "grey 16 with a clear value": (png(DEEP, 0, 16, TRNS), over_white(rgb_of(shares(DEEP, 65535)), ONE_CLEAR)),
    "colour 16": (png(DEEP3, 2, 16), shares(DEEP3, 65535)),
    "colour 16 interlaced": (interlaced(), shares(DEEP3, 65535)),
    "colour 16 with a clear colour": (png(DEEP3, 2, 16, TRNS3), over_white(shares(DEEP3, 65535), ONE_CLEAR)),
    "12 bits in 16, grey": (png(TWELVE, 0, 16), rgb_of(shares(TWELVE, 4095)), Scale(bits=12)),
    "12 bits in 16, colour": (png(TWELVE3, 2, 16), shares(TWELVE3, 4095), Scale(bits=12)),
    "12 bits in 16, colour and alpha": (
        png(np.concatenate([TWELVE3, np.full((9, 12, 1), 65535)], -1), 6, 16),
        shares(TWELVE3, 4095),
        Scale(bits=12),
    ),
    "10 bits in 16": (png(ramp(np.uint16, 1023), 0, 16), rgb_of(shares(ramp(np.uint16, 1023), 1023)), Scale(bits=10)),
    "grey and alpha 8": (png(np.stack([GREY, ALPHA8], -1), 4, 8), over_white(rgb_of(GREY), ALPHA8 / 255)),
    "grey and alpha 16": (png(np.stack([DEEP, ALPHA16], -1), 4, 16), over_white(rgb_of(DEEP / 257), ALPHA16 / 65535)),
    "colour and alpha 8": (png(np.dstack([COLOUR, ALPHA8]), 6, 8), over_white(COLOUR, ALPHA8 / 255)),
    "colour and alpha 16": (png(np.dstack([DEEP3, ALPHA16]), 6, 16), over_white(DEEP3 / 257, ALPHA16 / 65535)),
    "palette": (png(PALETTE, 3, 2, PLTE), COLOURS[PALETTE]),
    "palette with bytes of transparency": (
        png(PALETTE, 3, 8, PLTE + chunk(b"tRNS", bytes([0, 51, 255]))),
        over_white(COLOURS[PALETTE], np.array([0, 0.2, 1, 1])[PALETTE]),
    ),
    "grey 8 with a clear value": (
        png(GREY, 0, 8, chunk(b"tRNS", struct.pack(">H", int(GREY[4, 5])))),
        over_white(rgb_of(GREY), ONE_CLEAR),
    ),
    **{
        f"grey {depth} with a clear value": (
            png(GREY % 2**depth, 0, depth, chunk(b"tRNS", struct.pack(">H", 1))),
            over_white(rgb_of(shares(GREY % 2**depth, 2**depth - 1)), GREY % 2**depth != 1),
        )
        for depth in (1, 2, 4)
    },
    "tiff 8": (tiff(GREY), rgb_of(GREY)),
    "tiff 8, white is 0": (tiff(GREY, photometric=0), rgb_of(255 - GREY)),
    "tiff 16, little endian": (tiff(DEEP), rgb_of(shares(DEEP, 65535))),
    "tiff 16, big endian": (tiff(DEEP, order=">"), rgb_of(shares(DEEP, 65535))),
    "tiff 16, white is 0": (tiff(DEEP, photometric=0), rgb_of(shares(65535 - DEEP, 65535))),
    "tiff 16, colour": (tiff(DEEP3, photometric=2), shares(DEEP3, 65535)),
    "tiff 16, colour, big endian": (tiff(DEEP3, photometric=2, order=">"), shares(DEEP3, 65535)),
    "tiff 16 with a sign": (tiff(ramp(np.int16, 32767), kind=2), rgb_of(shares(ramp(np.int16, 32767), 65535))),
    "tiff of 12 packed bits": (tiff(TWELVE, bits=12, packed=packed_12(TWELVE)), rgb_of(shares(TWELVE, 4095))),
    "tiff of 12 packed bits, whatever the set": (
        tiff(TWELVE, bits=12, packed=packed_12(TWELVE)),
        rgb_of(shares(TWELVE, 4095)),
        SIXTEEN,
    ),
    "tiff 32 whole": (tiff(ramp(np.uint32, 65535)), rgb_of(shares(DEEP, 65535)), SIXTEEN),
    "tiff 32 whole to the top": (
        tiff(ramp(np.uint32, 2**32 - 1)),
        rgb_of(shares(ramp(np.float64, 255), 255)),
        Scale(bits=32),
    ),
    "tiff float 0 to 1": (tiff(ramp(np.float32, 1), kind=3), rgb_of(shares(ramp(np.float64, 255), 255))),
    "tiff float, white is 0": (
        tiff(ramp(np.float32, 1), photometric=0, kind=3),
        rgb_of(shares(255 - ramp(np.float64, 255), 255)),
    ),
    "tiff float 0 to 255": (
        tiff(ramp(np.float32, 255), kind=3),
        rgb_of(shares(ramp(np.float64, 255), 255)),
        Scale(floats=(0.0, 255.0)),
    ),
    "tiff float -1 to 1": (
        tiff(ramp(np.float32, 2) - np.float32(1), kind=3),
        rgb_of(shares(ramp(np.float64, 255), 255)),
        Scale(floats=(-1.0, 1.0)),
    ),
    "tiff 16, deflated": (
        saved(Image.fromarray(DEEP), "TIFF", compression="tiff_deflate"),
        rgb_of(shares(DEEP, 65535)),
    ),
    "tiff with premultiplied alpha": (tiff(PREMULTIPLIED, tags=[(338, 1)]), np.full((4, 4, 3), 227)),
    "tiff in Lab": (tiff(LAB, photometric=8), np.full((4, 4, 3), 255)),
    "tiff in CMYK": (tiff(np.dstack([FULL * 0, FULL * 0, FULL * 0, FULL]), photometric=5), rgb_of(255 - FULL)),
    "jpeg in CMYK of Adobe": (cmyk(), INK),
    "jpeg in CMYK not inverted": (cmyk(adobe=False), INK),
    "pgm to 15": (b"P5 3 1 15\n" + bytes([0, 3, 15]), rgb_of([[0, 51, 255]])),
    "pgm to 1023": (b"P5 3 1 1023\n" + struct.pack(">3H", 0, 341, 1023), rgb_of([[0, 85, 255]])),
    "pgm to 1023, whatever the set": (
        b"P5 3 1 1023\n" + struct.pack(">3H", 0, 341, 1023),
        rgb_of([[0, 85, 255]]),
        Scale(bits=12),
    ),
    "pgm to 65535": (b"P5 3 1 65535\n" + struct.pack(">3H", 0, 21845, 65535), rgb_of([[0, 85, 255]])),
    "ppm in letters": (b"P3 2 1 255\n1 2 3 4 5 6\n", [[[1, 2, 3], [4, 5, 6]]]),
    "bmp": (saved(Image.fromarray(COLOUR), "BMP"), COLOUR),
    "webp": (saved(Image.fromarray(COLOUR), "WEBP", lossless=True), COLOUR),
    "webp that moves": (
        saved(
            Image.fromarray(COLOUR), "WEBP", lossless=True, save_all=True, append_images=[Image.fromarray(255 - COLOUR)]
        ),
        COLOUR,
    ),
    "gif that moves": (GIF2, rgb_of(GREY)),
    "png that moves": (
        saved(Image.fromarray(COLOUR), "PNG", save_all=True, append_images=[Image.fromarray(255 - COLOUR)]),
        COLOUR,
    ),
    "tiff of two pages": (
        saved(Image.fromarray(COLOUR), "TIFF", save_all=True, append_images=[Image.fromarray(255 - COLOUR)]),
        COLOUR,
    ),
    "one pixel": (png(np.array([[7]]), 0, 8), [[[7, 7, 7]]]),
}
for order, end in (("<", "little"), (">", "big")):  # libtiff brings the values in the order of the machine
    READ[f"tiff 16, colour, deflated, {end} endian"] = (tiff(DEEP3, 2, order=order, deflate=True), shares(DEEP3, 65535))
    READ[f"tiff 16, deflated, {end} endian"] = (tiff(DEEP, order=order, deflate=True), rgb_of(shares(DEEP, 65535)))
    READ[f"tiff float, deflated, {end} endian"] = (
        tiff(ramp(np.float32, 1), kind=3, order=order, deflate=True),
        rgb_of(shares(ramp(np.float64, 255), 255)),
    )
    for dtype in (np.int16, np.int32):
        READ[f"tiff {dtype.__name__}, deflated, {end} endian"] = (
            tiff(ramp(dtype, 30000), kind=2, order=order, deflate=True),
            rgb_of(shares(ramp(dtype, 30000), 65535)),
            SIXTEEN,
        )
for turn, viewed in TURNS.items():
    READ[f"png, orientation {turn}"] = (saved(Image.fromarray(COLOUR), "PNG", exif=exif(turn)), viewed(COLOUR))
    READ[f"png 16, orientation {turn}"] = (
        png(DEEP3, 2, 16, chunk(b"eXIf", exif(turn).removeprefix(b"Exif\0\0"))),
        viewed(shares(DEEP3, 65535)),
    )
    READ[f"tiff, orientation {turn}"] = (tiff(GREY, tags=[(274, turn)]), viewed(rgb_of(GREY)))
    READ[f"tiff 16, orientation {turn}"] = (
        tiff(DEEP, tags=[(274, turn)], order=">"),
        viewed(rgb_of(shares(DEEP, 65535))),
    )
    READ[f"tiff 16 colour, orientation {turn}"] = (
        tiff(DEEP3, photometric=2, tags=[(274, turn)]),
        viewed(shares(DEEP3, 65535)),
    )
    READ[f"webp, orientation {turn}"] = (
        saved(Image.fromarray(COLOUR), "WEBP", lossless=True, exif=exif(turn)),
        viewed(COLOUR),
    )


@pytest.mark.parametrize("name", READ)
def test_pixels_are_those_of_the_file(tmp_path, name):
    """To one in 255: roundings of alpha and of colour spaces differ by that; JPEG is allowed four."""
    data, expected, *scale = READ[name]
    (tmp_path / "x.png").write_bytes(data)  # whatever the suffix says
    found = np.asarray(open_rgb(tmp_path / "x.png", *scale)).astype(int)
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= (4 if "jpeg" in name else 1)


def test_orientation_of_a_photo(tmp_path):
    values = np.zeros((16, 24, 3), dtype=np.uint8)
    values[:8, :8] = 250
    for turn, viewed in TURNS.items():
        (tmp_path / "x.jpg").write_bytes(saved(Image.fromarray(values), "JPEG", quality=100, exif=exif(turn)))
        found = np.asarray(open_rgb(tmp_path / "x.jpg")).astype(int)
        assert np.abs(found - viewed(values)).max() < 9, turn


# --- named, for one file ---------------------------------------------------------------------------------------------

NAMED = {
    "0 bytes": (b"", "has 0 bytes"),
    "text": (b"hello", "no PNG, JPEG, TIFF, WebP, GIF, BMP or PNM by its content"),
    "png cut short": (png(COLOUR, 2, 8)[:-40], "truncated"),
    "jpeg cut short": (saved(Image.fromarray(np.tile(COLOUR, (9, 9, 1))), "JPEG")[:-900], "truncated"),
    "tiff cut short": (tiff(GREY)[:60], "damaged|read"),
    "png with a bad head": (png(COLOUR, 2, 8)[:20], "Truncated"),
    "png with a bad sum": (png(COLOUR, 2, 8).replace(b"IDAT", b"IDAX"), "cannot be read"),
    "gif cut short": (GIF2[:30], "cannot be read"),
    "heic": (HEIC, "HEIC, AVIF or a film"),
    "array": (b"\x93NUMPY\1\0" + bytes(60), "an archive, array or document"),
    "tiff of half floats": (tiff(ramp(np.float16, 1), kind=3), "a TIFF of a kind that is not read"),
    "tiff of colour floats": (tiff(ramp(np.float32, 1, 3), 2, 3), "a TIFF of a kind that is not read"),
    "tiff of doubles": (tiff(ramp(np.float64, 1), kind=3), "a TIFF of a kind that is not read"),
    "tiff 8 with a sign": (tiff(ramp(np.int8, 100), kind=2), "8 bits with a sign"),
    "tiff 16 below 0": (tiff(ramp(np.int16, 100) - np.int16(9), kind=2), "integers from -9 to 91"),
    "tiff 32, depth not stated": (tiff(ramp(np.uint32, 70000)), "32 bits do not say what is white: state the depth"),
    "tiff float below 0": (tiff(ramp(np.float32, 2) - np.float32(1), kind=3), "floats from -1 to 1, outside"),
    "tiff float above 1": (tiff(ramp(np.float32, 200), kind=3), "floats from 0 to 200, outside of the range"),
    "tiff float with nan": (tiff(NAN, kind=3), "1 values are not finite"),
    "above the depth": (
        png(np.full((9, 12), 5000), 0, 16),
        "integers from 5000 to 5000 where white is 4095",
        Scale(bits=12),
    ),
    "too large": (BOMB, "pixels"),
}


@pytest.mark.parametrize("name", NAMED)
def test_what_cannot_be_read_says_why(tmp_path, name):
    data, said, *scale = NAMED[name]
    (tmp_path / "x.png").write_bytes(data)
    with pytest.raises(DataError, match=said) as e:
        open_rgb(tmp_path / "x.png", *scale)
    assert str(e.value).startswith(f"{tmp_path / 'x.png'} cannot be read as an image (")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("kind", ["pipe", "folder", "gone", "loop", "socket"])
def test_names_that_are_no_files(tmp_path, kind):
    path = tmp_path / "x.png"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "socket":
        os.mknod(path, 0o140600)
    said = {
        "pipe": "is no regular file",
        "folder": "is a folder",
        "gone": "does not exist",
        "loop": "levels of symbolic",
        "socket": "is no regular file",
    }[kind]
    with pytest.raises(DataError, match=said):
        open_rgb(path)


def test_damaged_tiffs_write_nothing_to_stderr(tmp_path, capfd):
    """PIL warns of tags when it counts the pictures, and libtiff writes by itself."""
    whole = saved(Image.fromarray(np.tile(COLOUR, (5, 5, 1))), "TIFF", compression="tiff_adobe_deflate")
    at = whole.find(b"x\x9c")
    assert at >= 0
    pages = saved(Image.fromarray(COLOUR), "TIFF", save_all=True, append_images=[Image.fromarray(COLOUR)])
    damaged = [whole[: at + 20] + bytes(9) + whole[at + 29 :], *(pages[:-n] for n in range(324, 600, 20))]
    before = list(warnings.filters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i, data in enumerate(damaged):
            path = tmp_path / f"{i}.tif"
            path.write_bytes(data)
            with contextlib.suppress(DataError):
                open_rgb(path)
            inspect(path)
    assert [str(w.message) for w in caught] == []
    assert warnings.filters == before
    assert capfd.readouterr() == ("", "")


def test_warnings_of_others_are_heard_while_an_image_is_open(tmp_path):
    (tmp_path / "a.png").write_bytes(png(COLOUR, 2, 8))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with opened(tmp_path / "a.png"):
            warnings.warn("mine", stacklevel=1)
    assert [str(w.message) for w in caught] == ["mine"]
