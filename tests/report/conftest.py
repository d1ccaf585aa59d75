"""Canned values, importable by the tests of this folder."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import canned


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The site of the canned work, built once."""
    from featlearn.report import site

    out = tmp_path_factory.mktemp("report") / "site"
    return site.build(out, [canned.work()], [canned.experiment_page()], canned.verdicts())
