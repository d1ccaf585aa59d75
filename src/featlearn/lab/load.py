"""Loading experiments from a module or a file, alike in every process."""

import hashlib
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any

from featlearn.errors import RunError
from featlearn.lab.experiment import Experiment


def load_source(source: str) -> Experiment:
    """The EXPERIMENT of a module name or of a Python file.

    A file is loaded once under a name made of its path, in this process and alike in every worker.
    """
    module = _load_file(Path(source)) if source.endswith(".py") else importlib.import_module(source)
    found = getattr(module, "EXPERIMENT", None)
    if not isinstance(found, Experiment):
        raise RunError(f"{source} has no EXPERIMENT of type Experiment: end it with EXPERIMENT = Experiment(...)")
    return found


def _load_file(path: Path) -> Any:
    path = path.resolve()
    if not path.is_file():
        raise RunError(f"{path} does not exist: give the path of a Python file that defines EXPERIMENT")
    name = f"featlearn_file_{path.stem}_{hashlib.blake2b(str(path).encode(), digest_size=6).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before execution: dataclasses and pickle look classes up by it
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def source_of(experiment: Experiment) -> str:
    """The module name or file path from which another process can load this experiment; else RunError."""
    parts = (experiment.Config, experiment.trials, experiment.run_trial, experiment.summarise)  # some may be shared
    for name in dict.fromkeys(getattr(part, "__module__", "") for part in parts):
        module = sys.modules.get(name)
        if module is None or getattr(module, "EXPERIMENT", None) is not experiment:
            continue
        if name.startswith("featlearn_file_"):
            return str(Path(str(module.__file__)).resolve())
        if name != "__main__":
            return name
    raise RunError(
        f"{experiment.id} cannot be found by other processes: put it into a file of its own as EXPERIMENT and load it"
        " with featlearn.lab.load_source(path), or run it without submit"
    )


def last_line(error: BaseException) -> str:
    """An exception in one line."""
    return " ".join("".join(traceback.format_exception_only(error)).split())


def where_raised(error: BaseException) -> str:
    """An exception in one line, with the file and line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return last_line(error) + place
