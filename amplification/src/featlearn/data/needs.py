"""What trials read of the catalogue, looked for before any of them runs."""

from collections.abc import Sequence
from typing import Any

from featlearn.data.catalogue import dataset
from featlearn.data.download import find
from featlearn.errors import DataUnavailable


def lacking(trials: Sequence[Any], experiment: Any) -> tuple[str, ...]:
    """Names that some of the trials need and that are not here whole, each once. Sizes are looked at, contents not.

    Errors: DataError for a name that the catalogue does not have.
    """
    names = dict.fromkeys(name for trial in trials for name in experiment.needs(trial))
    return tuple(name for name in names if not _is_whole(name))


def check_needs(trials: Sequence[Any], experiment: Any) -> None:
    """Errors: DataUnavailable for what some of the trials need and is not here, with the command that brings it."""
    gone = lacking(trials, experiment)
    if gone:
        commands = " && ".join(f"featlearn data fetch {name}" for name in gone)
        verb = "is" if len(gone) == 1 else "are"
        raise DataUnavailable(f"{experiment.id} needs {' and '.join(gone)}, which {verb} not here: {commands}")


def _is_whole(name: str) -> bool:
    data = dataset(name)
    try:
        found = find(data)
    except DataUnavailable:
        return False
    return all(found[f.name].suffix == ".gz" or found[f.name].stat().st_size == f.bytes for f in data.files)
