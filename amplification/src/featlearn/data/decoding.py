"""Image files as RGB pictures, by what each file says of itself and one rule for what counts as white."""

import ctypes
import hashlib
import math
import os
import stat
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from featlearn.core import SettingError
from featlearn.data.names import shown
from featlearn.errors import DataError, Unreadable

FORMATS = ("JPEG", "PNG", "PPM", "BMP", "DIB", "TIFF", "WEBP", "GIF")
"""Formats of PIL that are tried, whatever the suffix: none of them runs another program."""
UPRIGHT = 1
_ORIENTATION = 0x0112
_FILTERS = threading.Lock()
_WITHIN: list[Any] = []
"""Filters of warnings belong to the process: the first of several threads changes them, the last brings them back."""
_LOW_BYTES = {
    f"{mode};16{order}": f"{mode};16{other}"
    for mode in ("RGB", "RGBA")
    for order, other in (("L", "B"), ("B", "L"), ("N", "B" if sys.byteorder == "little" else "L"))
}
"""PIL keeps the upper byte of each colour; read in the other byte order, it keeps the lower one."""
_NATIVE = {"F;32BF": "F;32NF", "I;32BS": "I;32NS", "I;16BS": "I;16NS"}
"""libtiff brings compressed values in the order of the machine; PIL would turn those of a big-endian file once more."""


@dataclass(frozen=True)
class Scale:
    """What counts as white in a whole set, beyond bytes.

    bits: white is 2^bits - 1 in integers wider than a byte; None: as wide as the file holds them, which 32 bits do not
    say. floats: black and white of floating point images; None: 0 and 1. Values outside are refused, never clipped.

    Example:
        >>> Scale(bits=12, floats=(0.0, 255.0)).bits
        12
    """

    bits: int | None = None
    floats: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.bits is not None and not 2 <= self.bits <= 32:
            raise SettingError("depth", self.bits, "2 to 32 bits", "12 and 16 are usual; auto looks at the whole set")
        if self.floats is not None:
            low, high = self.floats
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise SettingError("float_range", self.floats, "black below white, both finite", "0 1 is usual")


@dataclass
class Decoded:
    """A picture as its file holds it: bytes as a PIL image, or wider values (h, w) or (h, w, 3).

    alpha: (h, w) in [0, 1] of wide values; fixed: white as the file itself states it; inverted: 0 is white.
    """

    header: "Header"
    image: Any = None
    values: Any = None
    alpha: Any = None
    fixed: int | None = None
    inverted: bool = False


@dataclass
class Header:
    """What a file says before its pixels. kind: "byte", "integer" or "float"; bits: of a value; orientation: as EXIF
    counts it, 0 for one that it does not know; frames: pictures in the file; traits: what is to be remarked."""

    format: str
    mode: str
    size: tuple[int, int]
    kind: str = "byte"
    bits: int = 8
    orientation: int = UPRIGHT
    frames: int = 1
    traits: set[str] = field(default_factory=set)


@contextmanager
def _without_warnings_of_pil() -> Iterator[None]:
    """PIL warns of nothing, those of others are heard; a picture that is too large is an error."""
    from PIL import Image

    with _FILTERS:
        _WITHIN.append(_WITHIN[0] if _WITHIN else warnings.catch_warnings())
        if len(_WITHIN) == 1:
            _WITHIN[0].__enter__()
            warnings.filterwarnings("ignore", module=r"PIL(\.|$)")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
    try:
        yield
    finally:
        with _FILTERS:
            given = _WITHIN.pop()
            if not _WITHIN:
                given.__exit__(None, None, None)


@cache
def _silence_libtiff() -> None:
    """libtiff writes to stderr what PIL raises anyway; where PIL has it inside of itself, it goes on writing."""
    from PIL import Image

    with suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(Image.core.__file__)
        library.TIFFSetErrorHandler(None)
        library.TIFFSetWarningHandler(None)


@contextmanager
def opened(path: str | Path) -> Iterator[Any]:
    """The PIL image of a file, its pixels not yet decoded. Errors: Unreadable."""
    from PIL import Image

    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise Unreadable("does not exist") from None
    except (OSError, ValueError) as why:
        raise Unreadable("cannot be opened", _reason(why, path)) from None
    if stat.S_ISDIR(found.st_mode):
        raise Unreadable("is a folder")
    if not stat.S_ISREG(found.st_mode):  # opening a pipe would wait for ever
        raise Unreadable("is no regular file")
    if not found.st_size:
        raise Unreadable("has 0 bytes")
    try:
        with open(path, "rb") as f, _without_warnings_of_pil(), Image.open(f, formats=FORMATS) as image:
            if image.format == "TIFF":
                _silence_libtiff()
            yield image
    except Unreadable:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as why:
        raise Unreadable("is too large", _reason(why, path)) from None
    except Image.UnidentifiedImageError:
        raise Unreadable(*_unknown(path)) from None
    except PermissionError as why:
        raise Unreadable("cannot be opened", _reason(why, path)) from None
    # the decoders of PIL raise these, and struct.error, on files that are cut short or malformed
    except (OSError, ValueError, SyntaxError, EOFError, KeyError, IndexError, TypeError, MemoryError) as why:
        reason = _reason(why, path)
        cut = any(word in reason.lower() for word in ("truncat", "not enough", "too short", "premature", "incomplete"))
        raise Unreadable("is cut short" if cut else "is damaged", reason) from None
    except Exception as why:
        if type(why).__name__ not in ("error", "DecompressionBombWarning") and not isinstance(why, Warning):
            raise
        raise Unreadable("is damaged", _reason(why, path)) from None


def _reason(why: BaseException, path: str | Path) -> str:
    text = " ".join(str(why).split()).replace(repr(str(path)), "it").replace(str(path), "it")
    return shown(text.encode("utf-8", "backslashreplace").decode())[:120] or type(why).__name__


def _unknown(path: str | Path) -> tuple[str, str]:
    with open(path, "rb") as f:
        head = f.read(16)
    if head.startswith((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")):
        return "is of a kind that is not read", "a TIFF of a kind that is not read; save it as 8 or 16 bits"
    for start, what in ((b"\x89PNG", "PNG"), (b"\xff\xd8\xff", "JPEG"), (b"GIF8", "GIF"), (b"BM", "BMP")):
        if head.startswith(start):
            return "is damaged", f"the header of its {what} is damaged"
    if head[4:8] == b"ftyp":
        return "is of a kind that is not read", "HEIC, AVIF or a film by its content; convert it to PNG or JPEG"
    if head.startswith((b"PK\3\4", b"\x1f\x8b", b"\x93NUMPY", b"%PDF", b"\0\0\0\x0cjP  ")):
        return "is of a kind that is not read", "an archive, array or document by its content; convert it"
    return "is no image", "no PNG, JPEG, TIFF, WebP, GIF, BMP or PNM by its content"


def header(image: Any, whole: bool = True) -> Header:
    """What an opened image says of itself. whole: it will be decoded, so that marks behind the pixels count too."""
    found = Header(image.format or "", image.mode, image.size)
    tags = getattr(image, "tag_v2", None)
    if image.mode == "F":
        found.kind, found.bits = "float", 32
    elif image.mode.startswith("I"):
        found.kind, found.bits = "integer", 16
        if image.format == "TIFF":
            found.bits = int(_tag(tags, 258, 16))
    elif any(";16" in str(mode) for mode in _rawmodes(image)):
        found.kind, found.bits = "integer", 16
    if image.format == "TIFF":
        stated = _tag(tags, _ORIENTATION, UPRIGHT)
        found.orientation = stated if 1 <= stated <= 8 else 0
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        found.traits.add("with an alpha channel")
    elif image.mode in ("1", "L", "F") or image.mode.startswith("I"):
        found.traits.add("without colour")
    if image.mode in ("CMYK", "LAB"):
        found.traits.add(f"in {image.mode}")
    profile = image.info.get("icc_profile") or b""
    if profile and b"sRGB" not in profile and b"s\0R\0G\0B" not in profile:
        found.traits.add("profile")
    if whole:
        found.frames = int(getattr(image, "n_frames", 1))
    return found


def _tag(tags: Any, number: int, default: int) -> int:
    value = tags.get(number, default) if tags is not None else default
    value = value[0] if isinstance(value, tuple) and value else value
    return value if isinstance(value, int) else default


def _rawmodes(image: Any) -> list[str]:
    return [str(t[3][0] if isinstance(t[3], tuple) else t[3]) for t in image.tile if t[3]]


def decode(path: str | Path) -> Decoded:
    """A file decoded in full, upright by its EXIF orientation. Errors: Unreadable."""
    with opened(path) as image:
        head = header(image)
        rawmodes, tags = _rawmodes(image), getattr(image, "tag_v2", None)
        fixed = None
        if image.format == "PPM" and head.kind == "integer" and image.tile[0][3] not in ("I;16B", ("L", 65535)):
            fixed = 65535  # PIL has scaled them by the largest value that the file states
        if head.kind == "integer" and head.bits < 16:
            fixed = 2**head.bits - 1
        signed = image.format == "TIFF" and _tag(tags, 339, 1) == 2
        if signed and head.kind == "byte":
            raise Unreadable("is of a kind that is not read", "8 bits with a sign; save it without one")
        inverted = image.format == "TIFF" and head.kind != "byte" and _tag(tags, 262, 1) == 0
        image.tile = [_with_rawmode(t, _NATIVE) if t[0] == "libtiff" else t for t in image.tile]
        image.load()
        clear = image.info.get("transparency")
        if image.format == "PNG" and isinstance(clear, int) and rawmodes in (["L;2"], ["L;4"]):
            top = 3 if rawmodes == ["L;2"] else 15
            image.info["transparency"] = (clear & top) * (255 // top)  # PIL has scaled the pixels alone
        upright = _upright(image, head)
        if head.kind == "byte":
            if image.mode == "CMYK" and image.format == "JPEG" and "adobe" not in image.info:
                from PIL import ImageChops

                upright = ImageChops.invert(upright)  # PIL takes all to be inverted, as those of Adobe are
            return Decoded(head, image=upright)
        if upright.mode in ("RGB", "RGBA", "CMYK"):
            return _wide_colour(path, upright, head, rawmodes)
        values = np.array(upright)
        if head.bits == 32 and head.kind == "integer" and not signed:
            values = values.astype(np.int32).view(np.uint32)
        alpha = (values != clear).astype(np.float64) if isinstance(clear, int) else None
        return Decoded(head, values=values, alpha=alpha, fixed=fixed, inverted=inverted)


def _upright(image: Any, head: Header) -> Any:
    """The picture turned as EXIF says, which is noted; TIFF is turned by PIL while it decodes."""
    from PIL.Image import Transpose as T

    turns = {2: T.FLIP_LEFT_RIGHT, 3: T.ROTATE_180, 4: T.FLIP_TOP_BOTTOM, 5: T.TRANSPOSE, 6: T.ROTATE_270}
    turns |= {7: T.TRANSVERSE, 8: T.ROTATE_90}
    stated = _orientation(image, head)
    return image.transpose(turns[stated]) if stated in turns else image


def _orientation(image: Any, head: Header) -> int:
    """What EXIF still asks for, 0 for what is no orientation; `head` keeps the first that it is told."""
    try:
        stated = image.getexif().get(_ORIENTATION, UPRIGHT)
    except Exception:  # EXIF that is no EXIF: PIL raises whatever its parsers do
        stated = 0
    stated = stated if stated in range(1, 9) else 0
    if head.orientation == UPRIGHT:
        head.orientation = stated
    return stated


def _wide_colour(path: str | Path, upper: Any, head: Header, rawmodes: list[str]) -> Decoded:
    """Colours of 16 bits: their upper bytes are there, the lower ones are read in a second pass."""
    high = np.asarray(upper)
    if upper.mode == "CMYK":
        head.kind = "byte"
        return Decoded(head, image=upper)
    low = high  # where the lower byte cannot be had: 257 times the upper one, off by less than one in 255
    with opened(path) as image:
        wanted = {mode: _LOW_BYTES.get(mode) for mode in rawmodes}
        if rawmodes == ["LA;16B"]:
            image._mode = "RGBA"
            wanted = {"LA;16B": "RGBA"}  # four bytes: upper and lower of grey, upper and lower of alpha
        if all(wanted.values()):
            image.tile = [_with_rawmode(t, wanted) for t in image.tile]
            image.info.pop("transparency", None)
            image.load()
            low = np.asarray(_upright(image, Header("", "", (0, 0))))
    if rawmodes == ["LA;16B"]:
        values = np.repeat(low[..., :1].astype(np.uint16) * 256 + low[..., 1:2], 3, axis=2)
        alpha = (low[..., 2].astype(np.uint16) * 256 + low[..., 3]) / 65535
        return Decoded(head, values=values, alpha=alpha)
    whole = high.astype(np.uint16) * 256 + low
    alpha = whole[..., 3] / 65535 if whole.shape[2] == 4 else None
    clear = upper.info.get("transparency")
    if isinstance(clear, tuple) and alpha is None:
        alpha = (whole != np.array(clear, dtype=np.uint16)).any(axis=2).astype(np.float64)
    return Decoded(head, values=whole[..., :3], alpha=alpha)


def _with_rawmode(tile: Any, wanted: dict[str, Any]) -> Any:
    mode = tile[3][0] if isinstance(tile[3], tuple) else tile[3]
    args = (wanted.get(mode, mode), *tile[3][1:]) if isinstance(tile[3], tuple) else wanted.get(mode, mode)
    return tile._replace(args=args) if hasattr(tile, "_replace") else (*tile[:3], args)


def rgb(found: Decoded, scale: Scale) -> Any:
    """The RGB picture of what was decoded: grey fills the three channels, what is transparent shows white.

    Errors: Unreadable for values that `scale` does not reach.
    """
    from PIL import Image

    if found.values is None:
        return _rgb_of_bytes(found.image)
    low, high = limits(found, scale)
    values = found.values.astype(np.float64)
    if not np.isfinite(values).all():
        raise Unreadable("has values that are not finite", f"{int((~np.isfinite(values)).sum())} values are not finite")
    if values.min() < low or values.max() > high:
        raise Unreadable(
            "has values out of range", _out_of_range(found, float(values.min()), float(values.max()), high)
        )
    share = (values - low) / (high - low)
    share = 1 - share if found.inverted else share
    if found.alpha is not None:
        alpha = found.alpha if share.ndim == 2 else found.alpha[..., None]
        share = alpha * share + (1 - alpha)
    picture = np.rint(255 * share).astype(np.uint8)
    return Image.fromarray(picture).convert("RGB")


def limits(found: Decoded, scale: Scale) -> tuple[float, float]:
    """Black and white of wide values. Errors: Unreadable for 32 bits without a stated depth."""
    if found.header.kind == "float":
        return scale.floats or (0.0, 1.0)
    if found.fixed is not None:
        return 0.0, float(found.fixed)
    bits = scale.bits or found.header.bits
    if bits == 32 and scale.bits is None:
        raise Unreadable("has 32 bits", "32 bits do not say what is white: state the depth, or save it with 16")
    return 0.0, float(2**bits - 1)


def _out_of_range(found: Decoded, low: float, high: float, white: float) -> str:
    if found.header.kind == "float":
        return f"floats from {low:.6g} to {high:.6g}, outside of the range; state it (float_range, --float-range)"
    return f"integers from {low:.0f} to {high:.0f} where white is {white:.0f}; state the depth (depth, --depth)"


def _rgb_of_bytes(image: Any) -> Any:
    from PIL import Image

    if image.mode == "LAB":
        from PIL import ImageCms

        try:
            lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
            return ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB")
        except (ImportError, ImageCms.PyCMSError):  # PIL without littlecms
            raise Unreadable("is of a kind that is not read", "in Lab, which this PIL cannot convert") from None
    if image.mode == "La":
        image = image.convert("LA")
    if image.mode in ("RGBA", "LA", "PA", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def open_rgb(path: str | Path, scale: Scale | None = None) -> Any:
    """The image in a file as an RGB picture of PIL, fully decoded, upright by its EXIF orientation.

    Grey fills the three channels; whatever is transparent shows white; the first picture of several is read. Bytes are
    taken as they are, wider values by `scale`, never by the picture's own range.

    Errors: DataError, one line, for a file that is not there, not a complete image, or has values beyond white.

    Example:
        >>> open_rgb("scan.tif", Scale(bits=12)).mode  # doctest: +SKIP
        'RGB'
    """
    try:
        return rgb(decode(path), scale or Scale())
    except Unreadable as why:
        raise unreadable_error(path, why) from None
    except (OSError, ValueError, MemoryError) as why:
        raise unreadable_error(path, Unreadable("is damaged", _reason(why, path))) from None


def unreadable_error(path: str | Path, why: Unreadable) -> DataError:
    """The reason as one line with the name."""
    if why.kind == "does not exist":
        return DataError(f"{shown(path)} does not exist; check the path")
    return DataError(f"{shown(path)} cannot be read as an image ({why}); replace it or leave it out")


@dataclass(frozen=True)
class Facts:
    """What inspecting a file found: header, smallest and largest value where they were looked at, a digest of the
    pixels where they were decoded; trouble: why it cannot be read, None otherwise; finite: no nan and no infinity."""

    path: Path
    header: Header | None = None
    low: float | None = None
    high: float | None = None
    fixed: int | None = None
    finite: bool = True
    digest: bytes = b""
    trouble: Unreadable | None = None


def inspect(path: Path, pixels: bool = True) -> Facts:
    """Facts of a file; pixels False leaves them undecoded, so that only the beginning of the file is read."""
    try:
        if not pixels:
            with opened(path) as image:
                head = header(image, whole=False)
                if image.format != "PNG" or "exif" in image.info:  # PNG can have it behind the pixels
                    _orientation(image, head)
                return Facts(path, head)
        found = decode(path)
        if found.values is None:
            picture = _rgb_of_bytes(found.image)
            shape = picture.size
            high = float(max(v for _, v in picture.getextrema()))
            content, low, finite = picture.tobytes(), 0.0, True
        else:
            finite = bool(np.isfinite(found.values).all())
            low, high = float(found.values.min()), float(found.values.max())
            shape = found.values.shape
            content = found.values.tobytes()
        size = f"{shape}{found.header.kind}".encode()
        digest = hashlib.sha1(size, usedforsecurity=False)
        digest.update(content)
        return Facts(path, found.header, low, high, found.fixed, finite, digest.digest())
    except Unreadable as why:
        return Facts(path, trouble=why)
    except (OSError, ValueError) as why:
        return Facts(path, trouble=Unreadable("is damaged", _reason(why, path)))
