"""What trials read of the catalogue, looked for before any of them runs."""

import importlib.util
from collections.abc import Sequence
from typing import Any

from featlearn.data.catalogue import dataset
from featlearn.data.download import find
from featlearn.data.folder_sets import folder_sets, needed
from featlearn.errors import DataUnavailable

PACKAGES = ("transformers", "gguf")
"""What language models are read with: of the extra `llm`."""


def lacking(trials: Sequence[Any], experiment: Any) -> tuple[str, ...]:
    """Names that some of the trials need and that are not here whole, each once. Sizes are looked at, contents not.

    Errors: DataError for a name that the catalogue does not have.
    """
    names = dict.fromkeys(name for trial in trials for name in experiment.needs(trial))
    return tuple(name for name in names if not _is_whole(name))


def check_packages(trials: Sequence[Any], experiment: Any) -> None:
    """Errors: DataUnavailable for packages that language models of the trials are read with and that are not here."""
    absent = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if absent and any(_is_model(name) for trial in trials for name in experiment.needs(trial)):
        verb = "is" if len(absent) == 1 else "are"
        what = f"{' and '.join(absent)}, which {verb} not installed"
        raise DataUnavailable(f"{experiment.id} needs {what}: pip install 'featlearn[llm]'")


def check_needs(trials: Sequence[Any], experiment: Any) -> None:
    """Errors: DataUnavailable for what some of the trials need and is not here, with the command that brings it, or
    with where it is to be had if it comes as a folder of the user's; packages come first."""
    check_packages(trials, experiment)
    gone = lacking(trials, experiment)
    yours = [name for name in gone if name in folder_sets()]
    if yours:
        raise DataUnavailable(f"{experiment.id}: {needed(folder_sets()[yours[0]])}")
    if gone:
        commands = " && ".join(f"featlearn data fetch {name}" for name in gone)
        verb = "is" if len(gone) == 1 else "are"
        raise DataUnavailable(f"{experiment.id} needs {' and '.join(gone)}, which {verb} not here: {commands}")


def _is_whole(name: str) -> bool:
    if name in folder_sets():
        return folder_sets()[name].place.is_dir()
    data = dataset(name)
    try:
        found = find(data)
    except DataUnavailable:
        return False
    return all(found[f.name].suffix == ".gz" or found[f.name].stat().st_size == f.bytes for f in data.files)


def _is_model(name: str) -> bool:
    return name not in folder_sets() and any(f.name.endswith(".gguf") for f in dataset(name).files)
