"""Provenance: which checkout a copy of the package belongs to, if any."""

import importlib.util
import shutil

import pytest

from featlearn.lab import provenance


@pytest.mark.parametrize(
    "folder, git, inside", [("src", True, True), ("src", False, False), ("site-packages", True, False)]
)
def test_only_a_checkout_of_its_own_counts(tmp_path, folder, git, inside):
    """An installed copy may lie inside somebody else's repository."""
    lab = tmp_path / folder / "featlearn" / "lab"
    lab.mkdir(parents=True)
    copy = shutil.copy(provenance.__file__, lab)
    if git:
        (tmp_path / ".git").mkdir()
    spec = importlib.util.spec_from_file_location("copy_of_provenance", copy)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.checkout() == (tmp_path if inside else None)
