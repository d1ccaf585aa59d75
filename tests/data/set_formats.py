"""Tiny sets in the formats in which they are published: each writer fills a folder and says what is in it."""

import gzip
import io
import pickle
import struct
from pathlib import Path

import numpy as np
import scipy.io
from PIL import Image

DRAW = np.random.default_rng(0)


def colours(n: int, edge: int = 32) -> np.ndarray:
    """Bytes (n, 3, edge, edge)."""
    return DRAW.integers(0, 256, (n, 3, edge, edge), dtype=np.uint8)


def greys(n: int) -> np.ndarray:
    """Bytes (n, 28, 28)."""
    return DRAW.integers(0, 256, (n, 28, 28), dtype=np.uint8)


class Python2(pickle._Pickler):
    """Writes as cPickle of Python 2 did with protocol 2, in which the batches of CIFAR and ImageNet32 are kept."""

    dispatch = dict(pickle._Pickler.dispatch)  # noqa: RUF012

    def save_text(self, obj):
        data = obj.encode() if isinstance(obj, str) else obj
        self.write(b"U" + bytes([len(data)]) if len(data) < 256 else b"T" + struct.pack("<i", len(data)))
        self.write(data)
        self.memoize(obj)

    dispatch[str] = dispatch[bytes] = save_text


def python2(value) -> bytes:
    out = io.BytesIO()
    Python2(out, 2).dump(value)
    return out.getvalue().replace(b"numpy._core", b"numpy.core")  # names end at a line end: no length changes


def idx(array: np.ndarray) -> bytes:
    return struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}i", *array.shape) + array.tobytes()


def _png(path: Path, image: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image.transpose(1, 2, 0)).save(path)


def cifar10_python(root: Path, dump=python2) -> dict:
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    names = [f"class {i}" for i in range(10)]
    (folder / "batches.meta").write_bytes(dump({"num_cases_per_batch": 4, "label_names": names, "num_vis": 3072}))
    parts = {}
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        x, y = colours(4), DRAW.integers(0, 10, 4).tolist()
        held = {"batch_label": name, "labels": y, "data": x.reshape(4, -1), "filenames": [f"{i}.png" for i in range(4)]}
        (folder / name).write_bytes(dump(held))
        parts[name] = x, y
    train = [parts[f"data_batch_{i}"] for i in range(1, 6)]
    return {"train": tuple(np.concatenate(part) for part in zip(*train, strict=True)), "test": parts["test_batch"]}


def cifar10_binary(root: Path) -> dict:
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    (folder / "batches.meta.txt").write_text("\n".join(f"class {i}" for i in range(10)) + "\n\n")
    parts = {}
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        x, y = colours(3), DRAW.integers(0, 10, 3)
        rows = np.concatenate([y[:, None].astype(np.uint8), x.reshape(3, -1)], 1)
        (folder / f"{name}.bin").write_bytes(rows.tobytes())
        parts[name] = x, y
    train = [parts[f"data_batch_{i}"] for i in range(1, 6)]
    return {"train": tuple(np.concatenate(part) for part in zip(*train, strict=True)), "test": parts["test_batch"]}


def cifar100_python(root: Path, coarse: bool = False) -> dict:
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    names = {"fine_label_names": [f"fine {i}" for i in range(100)]}
    names["coarse_label_names"] = [f"coarse {i}" for i in range(20)]
    (folder / "meta").write_bytes(python2(names))
    out = {}
    for split, n in (("train", 6), ("test", 3)):
        x, fine = colours(n), DRAW.integers(0, 100, n).tolist()
        above = [v // 5 for v in fine]
        held = {"filenames": ["a"] * n, "batch_label": split, "fine_labels": fine, "coarse_labels": above}
        (folder / split).write_bytes(python2({**held, "data": x.reshape(n, -1)}))
        out[split] = x, above if coarse else fine
    return out


def cifar100_binary(root: Path) -> dict:
    folder = root / "cifar-100-binary"
    folder.mkdir(parents=True)
    for kind, n in (("fine", 100), ("coarse", 20)):
        (folder / f"{kind}_label_names.txt").write_text("".join(f"{kind} {i}\n" for i in range(n)))
    out = {}
    for split, n in (("train", 5), ("test", 2)):
        x, fine = colours(n), DRAW.integers(0, 100, n)
        rows = np.concatenate([np.stack([fine // 5, fine], 1).astype(np.uint8), x.reshape(n, -1)], 1)
        (folder / f"{split}.bin").write_bytes(rows.tobytes())
        out[split] = x, fine
    return out


def svhn(root: Path) -> dict:
    root.mkdir(parents=True, exist_ok=True)
    out = {}
    for split, n in (("train", 12), ("test", 5)):
        x, y = colours(n), (np.arange(n) % 10 + 1).astype(np.uint8)
        scipy.io.savemat(
            root / f"{split}_32x32.mat", {"X": x.transpose(2, 3, 1, 0), "y": y[:, None]}, do_compression=True
        )
        out[split] = x, y % 10
    return out


def emnist_letters(root: Path) -> dict:
    folder = root / "EMNIST" / "raw"
    folder.mkdir(parents=True)
    (folder / "emnist-letters-mapping.txt").write_text("".join(f"{i} {64 + i} {96 + i}\n" for i in range(1, 27)))
    out = {}
    for split, n in (("train", 30), ("test", 7)):
        x, y = greys(n), (np.arange(n) % 26 + 1).astype(np.uint8)
        for part, array in (("images-idx3", x.transpose(0, 2, 1)), ("labels-idx1", y)):
            name = f"emnist-letters-{split}-{part}-ubyte"
            data = idx(np.ascontiguousarray(array))
            (folder / name).write_bytes(data) if split == "train" else (folder / f"{name}.gz").write_bytes(
                gzip.compress(data)
            )
        out[split] = x[:, None], y - 1
    return out


def kmnist_idx(root: Path) -> dict:
    folder = root / "KMNIST" / "raw"
    folder.mkdir(parents=True)
    out = {}
    for split, start, n in (("train", "train", 20), ("test", "t10k", 10)):
        x, y = greys(n), (np.arange(n) % 10).astype(np.uint8)
        for part, array in (("images-idx3", x), ("labels-idx1", y)):
            (folder / f"{start}-{part}-ubyte.gz").write_bytes(gzip.compress(idx(array)))
        out[split] = x[:, None], y
    return out


def kmnist_npz(root: Path) -> dict:
    root.mkdir(parents=True, exist_ok=True)
    out = {}
    for split, n in (("train", 20), ("test", 10)):
        x, y = greys(n), (np.arange(n) % 10).astype(np.uint8)
        np.savez_compressed(root / f"kmnist-{split}-imgs.npz", x)
        np.savez_compressed(root / f"kmnist-{split}-labels.npz", y)
        out[split] = x[:, None], y
    return out


def imagenet32(root: Path, npz: bool = False) -> dict:
    out = {}
    for split, folder, names in (
        ("train", "Imagenet32_train", [f"train_data_batch_{i}" for i in range(1, 11)]),
        ("val", "Imagenet32_val", ["val_data"]),
    ):
        place = root / (f"{folder}_npz" if npz else folder)
        place.mkdir(parents=True)
        parts = []
        for name in names:
            x, y = colours(2), DRAW.integers(1, 1001, 2)
            held = {"data": x.reshape(2, -1), "labels": y if npz else y.tolist()}
            if npz:
                np.savez(place / f"{name}.npz", **held)
            else:
                mean = {"mean": x.reshape(2, -1).mean(0)} if split == "train" else {}
                (place / name).write_bytes(pickle.dumps({**held, **mean}, protocol=4))
            parts.append((x, y - 1))
        out[split] = tuple(np.concatenate(part) for part in zip(*parts, strict=True))
    return out


def cinic10(root: Path) -> dict:
    out = {}
    for split in ("train", "valid", "test"):
        x, y = colours(6), np.arange(6) // 2
        for i, image in enumerate(x):
            _png(root / "CINIC-10" / split / ("airplane", "bird", "cat")[y[i]] / f"cifar10-{split}-{i}.png", image)
        out[split] = x, y
    return out


def tiny_imagenet(root: Path) -> dict:
    """PNG files named .JPEG: what is in them is exact, and they are read by their content."""
    base = root / "tiny-imagenet-200"
    ids = ("n01443537", "n01629819", "n01641577")
    x, y = colours(6, 64), np.arange(6) // 2
    for i, image in enumerate(x):
        path = base / "train" / ids[y[i]] / "images" / f"{ids[y[i]]}_{i}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.transpose(1, 2, 0)).save(path, format="PNG")
        (base / "train" / ids[y[i]] / f"{ids[y[i]]}_boxes.txt").write_text(f"{path.name}\t0\t0\t63\t63\n")
    held, classes = colours(4, 64), np.array([2, 0, 1, 2])
    (base / "val" / "images").mkdir(parents=True)
    lines = []
    for i, image in enumerate(held):
        Image.fromarray(image.transpose(1, 2, 0)).save(base / "val" / "images" / f"val_{i}.JPEG", format="PNG")
        lines.append(f"val_{i}.JPEG\t{ids[classes[i]]}\t0\t0\t62\t62\n")
    (base / "val" / "val_annotations.txt").write_text("".join(lines))
    return {"train": (x, y), "val": (held, classes)}


def gtsrb(root: Path, torchvision: bool = False) -> dict:
    """Pictures of 32 x 32, which the published ones need not be: at that size they are not resized."""
    base = root / "gtsrb" / "GTSRB" if torchvision else root / "GTSRB"
    train = base / ("Training" if torchvision else "Final_Training/Images")
    x, y = colours(86), np.arange(86) // 2
    for i, image in enumerate(x):
        _png(train / f"{y[i]:05}" / f"{i % 2:05}_00000.ppm", image)
        (train / f"{y[i]:05}" / f"GT-{y[i]:05}.csv").write_text("Filename;Width\n")
    held, classes = colours(4), np.array([42, 0, 7, 1])
    lines = ["Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId"]
    for i, image in enumerate(held):
        _png(base / "Final_Test" / "Images" / f"{i:05}.ppm", image)
        lines.append(f"{i:05}.ppm;32;32;5;5;27;27;{classes[i]}")
    table = base.parent if torchvision else base
    (table / "GT-final_test.csv").write_text("\n".join(lines) + "\n")
    return {"train": (x, y), "test": (held, classes)}


FORMATS = {
    "cifar10": (cifar10_python, cifar10_binary),
    "cifar100": (cifar100_python, cifar100_binary),
    "cifar100-coarse": (lambda root: cifar100_python(root, coarse=True),),
    "svhn": (svhn,),
    "emnist-letters": (emnist_letters,),
    "kmnist": (kmnist_idx, kmnist_npz),
    "imagenet32": (imagenet32, lambda root: imagenet32(root, npz=True)),
    "cinic10": (cinic10,),
    "tiny-imagenet": (tiny_imagenet,),
    "gtsrb": (gtsrb, lambda root: gtsrb(root, torchvision=True)),
}
"""Writers of each set, one a format."""
