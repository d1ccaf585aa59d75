"""The session in docs/researcher.md, from a killed sweep to a table, as a user types it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(not shutil.which("timeout"), reason="the session uses timeout(1) of the GNU tools")
def test_the_session_of_the_documentation(tmp_path):
    text = (ROOT / "docs/researcher.md").read_text(encoding="utf-8")
    (session,) = re.findall(r'```sh title="session"\n(.*?)```', text, re.DOTALL)
    shutil.copy(ROOT / "docs/examples/one_step.py", tmp_path)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "featlearn").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m featlearn.cli "$@"\n')
    (bin_ / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    for path in bin_.iterdir():
        path.chmod(0o755)
    env = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", session], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert len(list(tmp_path.glob("runs/mine/one_step/*.run.json"))) == 4
    assert len(list(tmp_path.glob("tables/*.summary.tex"))) == 1
    assert len(list(tmp_path.glob("site/sweep/*.html"))) == 1
    assert done.stdout.count("done; sweep ") == 4  # lines of `list --runs`
    assert "difference" in done.stdout
