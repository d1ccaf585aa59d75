"""A tiny data set, a local mirror that knows ranges, and the real MNIST where it is already present."""

import gzip
import hashlib
import http.server
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

from featlearn import data
from featlearn.data.catalogue import Dataset, File, Npm, Urls
from featlearn.data.download import cache_root

REAL_CACHE = cache_root()  # read before any test points FEATLEARN_DATA elsewhere


def idx(array: np.ndarray) -> bytes:
    return struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}i", *array.shape) + array.tobytes()


def tiny_files() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    return {
        "train-images-idx3-ubyte": idx(rng.integers(0, 256, (40, 28, 28), dtype=np.uint8)),
        "train-labels-idx1-ubyte": idx((np.arange(40) % 10).astype(np.uint8)),
        "t10k-images-idx3-ubyte": idx(rng.integers(0, 256, (20, 28, 28), dtype=np.uint8)),
        "t10k-labels-idx1-ubyte": idx((np.arange(20) % 10).astype(np.uint8)),
    }


@pytest.fixture
def tiny() -> dict[str, bytes]:
    return tiny_files()


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEATLEARN_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")


class Mirror:
    """Serves bytes by name from the loopback interface; `cut` closes the connection after so many bytes, once."""

    def __init__(self, content: dict[str, bytes]):
        self.content, self.asked, self.cut = content, [], {}
        self.ranges = True
        mirror = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path.lstrip("/")
                mirror.asked.append((name, self.headers.get("Range")))
                body = mirror.content.get(name)
                if body is None:
                    self.send_error(404)
                    return
                start = 0
                if mirror.ranges and self.headers.get("Range"):
                    start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
                    if start >= len(body):
                        self.send_error(416)
                        return
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(body) - start))
                self.end_headers()
                self.wfile.write(body[start : mirror.cut.pop(name, len(body))])

            def log_message(self, *args):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.server.server_port}/"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def mirror(tiny):
    server = Mirror({n + ".gz": gzip.compress(b, mtime=0) for n, b in tiny.items()})
    yield server
    server.close()


def make_entry(content: dict[str, bytes], *sources: Urls | Npm) -> Dataset:
    files = tuple(File(n, len(b), hashlib.sha256(b).hexdigest()) for n, b in content.items())
    return Dataset("mnist", "tiny", "none", files, sources)


@pytest.fixture
def entry():
    """The function that makes a registry entry of given contents and sources."""
    return make_entry


@pytest.fixture
def real_mnist(monkeypatch) -> Path:
    """Folder of the real MNIST; skips where it was never fetched."""
    monkeypatch.setenv("FEATLEARN_DATA", str(REAL_CACHE))
    try:
        data.find("mnist")
    except data.DataError:
        pytest.skip("MNIST is not in the cache; `featlearn data fetch mnist` brings it and this test then runs")
    return REAL_CACHE / "mnist"


@pytest.fixture
def real_cache(monkeypatch):
    """A function that turns to the real cache; it skips where the named data set was never fetched."""

    def turn(name: str) -> Path:
        monkeypatch.setenv("FEATLEARN_DATA", str(REAL_CACHE))
        try:
            data.find(name)
        except data.DataError:
            pytest.skip(f"{name} is not in the cache; `featlearn data fetch {name}` brings it and this test then runs")
        return REAL_CACHE / name

    return turn
