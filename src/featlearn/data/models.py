"""Language models: bundled ones by name, the user's by folder, GGUF file or hub id."""

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from featlearn.core.device import resolve
from featlearn.data import checkpoints
from featlearn.data.catalogue import registry
from featlearn.data.download import cache_root, fetch, find
from featlearn.errors import DataError, DataUnavailable

BUNDLED = ("smollm2-135m", "gemma3-270m")
DTYPES = ("float32", "float16", "bfloat16", "float64")
CONVERTED = "converted-1"
"""Folder beside a GGUF file with its weights in 32 bits: reading that takes half a second, converting 40."""


def load_model(name: str, *, dtype: str = "float32", device: str = "cpu") -> tuple[Any, Any]:
    """A causal language model in evaluation mode, and its tokenizer.

    name: a bundled model (fetched when it is not here yet: its licence is shown then), a folder as `save_pretrained`
    writes it, a .gguf file, or a hub id. dtype: one of DTYPES; device: cpu, cuda, cuda:1, ...,
    or auto for the GPU where there is one.

    Weights of a GGUF file are converted to floating point; those of a bundled model are kept converted beside it.

    Loading is strict: tensors that are missing, left over, of another shape or not finite are refused by name, and a
    name that looks like a path is never looked up on the network.

    Errors, before any work where possible: SettingError for a device; DataError for a missing extra, an unknown dtype,
    a folder without a model, a damaged checkpoint, and for whatever transformers cannot load, in one line.

    Example:
        >>> model, tokenizer = load_model("smollm2-135m")
    """
    place = check_model(name, dtype, device)
    source, gguf = (None, None) if name in BUNDLED else _users(name)
    transformers = _transformers()
    if source is None:
        source = _bundled(name, transformers)
    with _quiet(transformers):
        tokenizer, model = checkpoints.load(transformers, source, gguf, getattr(torch, dtype), name)
    if name == "smollm2-135m":
        _digits_apart(tokenizer)
    return model.to(place).eval(), tokenizer


def check_model(name: str, dtype: str = "float32", device: str = "cpu") -> torch.device:
    """The device that is meant; loads nothing. Errors: for a model, type or device that `load_model` would refuse."""
    if dtype not in DTYPES:
        raise DataError(f"dtype = {dtype!r} is not allowed: one of {', '.join(DTYPES)}; float32 suits a CPU")
    place = resolve(device)
    if name not in BUNDLED:
        _users(name)
    return place


def _digits_apart(tokenizer: Any) -> None:
    """Cut text before and after every digit first, as the pre-tokenizer "smollm" that the GGUF file names does.

    transformers 5.24 reads that name as the one of GPT-2. The vocabulary holds no token of two digits or of a space and
    a digit, so that what differs is white space before a digit: two line ends there are one token, not two.
    """
    from tokenizers import pre_tokenizers

    steps = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)


def is_here(name: str) -> bool:
    """Whether a bundled model can be loaded without a download."""
    with contextlib.suppress(DataError):
        find(name)
        return True
    return False


def _transformers() -> Any:
    try:
        import accelerate  # noqa: F401  transformers needs both to read a GGUF file
        import gguf  # noqa: F401
        import transformers
    except ImportError as why:
        raise DataUnavailable(f"language models need the package {why.name}: pip install 'featlearn[llm]'") from None
    return transformers


def _users(name: str) -> tuple[str, str | None]:
    """What `from_pretrained` takes for a path or a hub id, and the GGUF file in it."""
    path = Path(name)
    with contextlib.suppress(RuntimeError):  # no such user
        path = path.expanduser()
    try:
        there = bool(name) and path.exists()
    except (OSError, ValueError):  # too long, or with a null byte
        there = False
    if there:
        _transformers()
        return checkpoints.local(name, path)
    if checkpoints.looks_local(name):
        known = ", ".join(n for n in registry() if n in BUNDLED)
        raise DataError(f"model = {name!r} is neither there nor known: {known}, a folder, a .gguf file or a hub id")
    return name, None


def _bundled(name: str, transformers: Any) -> str:
    """The folder with a bundled model's converted weights; of several processes one fetches and converts."""
    folder = cache_root() / name / CONVERTED
    if not (is_here(name) and _is_converted(folder)):
        try:
            with _alone(name):
                _fetch_and_convert(name, folder, transformers)
        except OSError as why:
            reason = why.strerror or str(why)
            raise DataUnavailable(
                f"{name} cannot be written to {folder} ({reason}); free some space or set FEATLEARN_DATA elsewhere"
            ) from None
    return str(folder)


def _is_converted(folder: Path) -> bool:
    return (folder / "config.json").is_file()


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """Wait until no other process fetches or converts this model, and say so."""
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    lock = FileLock(root / f".{name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        print(f"featlearn: waiting for another process that prepares {name}", file=sys.stderr)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _fetch_and_convert(name: str, folder: Path, transformers: Any) -> None:
    if not is_here(name):
        entry = registry()[name]
        print(f"featlearn: fetching {name}, {entry.size_mib:.0f} MiB; licence: {entry.licence}", file=sys.stderr)
        fetch(name)
    if not _is_converted(folder):
        [path] = find(name).values()
        print(f"featlearn: converting {path.name} once, about a minute", file=sys.stderr)
        with _quiet(transformers):
            tokenizer, model = checkpoints.load(transformers, str(path.parent), path.name, torch.float32, name)
        _keep(model, tokenizer, folder)


def _keep(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a model as `save_pretrained` does, under a temporary name first."""
    from safetensors.torch import save_file

    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        tied = {k for k in getattr(model, "_tied_weights_keys", None) or () if model.config.tie_word_embeddings}
        weights = {k: v.contiguous() for k, v in model.state_dict().items() if k not in tied}
        save_file(weights, work / "model.safetensors", metadata={"format": "pt"})
        config = model.config.to_dict()
        config.pop("quantization_config", None)
        config["dtype"] = "float32"
        config["architectures"] = [type(model).__name__]  # other programs look there for the class
        (work / "config.json").write_text(json.dumps(config, indent=1))
        model.generation_config.save_pretrained(work)
        tokenizer.save_pretrained(work)
        work.chmod(0o755)  # mkdtemp makes folders for one user only; a cache may be shared
        os.replace(work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """No progress bars or remarks of transformers, one thread at a time; what the user had set comes back."""
    with checkpoints.ONE_AT_A_TIME:
        logging = transformers.utils.logging
        level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            yield
        finally:
            logging.set_verbosity(level)
            if bars:
                logging.enable_progress_bar()


quiet = _quiet  # for other rooms; the digests of committed rows hold its first name
