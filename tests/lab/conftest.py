"""The toy experiment, loaded from its file as a user's would be."""

from pathlib import Path

import pytest

from featlearn.lab.load import load_source

TOY = str(Path(__file__).with_name("toy_experiment.py"))


@pytest.fixture(scope="session")
def toy():
    return load_source(TOY)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file under a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def snapshot():
    return contents
