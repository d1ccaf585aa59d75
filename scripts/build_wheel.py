"""Hook of the wheel's build: the catalog and the evidence, so that an installed copy says the same as a checkout.

hatchling calls it (`[tool.hatch.build.targets.wheel.hooks.custom]` in pyproject.toml). The catalog comes from importing
every experiment and claim. `make wheel` builds where they can be imported; an isolated build has none of the package's
dependencies, and an installed copy without a catalog makes its own when it is first asked.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NEEDED = ("torch", "numpy", "scipy", "sklearn", "jaxtyping")
PRINT_CATALOG = """
import json, pathlib, sys
from featlearn import catalog
catalog.evidence_root = lambda: pathlib.Path(sys.argv[1])  # an unpacked source archive is no git checkout
json.dump(catalog.make(), sys.stdout)
"""


class WheelHook(BuildHookInterface):
    """Adds evidence/ and catalog.json to a wheel; an editable install reads both from the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is written."""
        if version == "editable":
            return
        root = Path(self.root)
        for folder in sorted((root / "evidence").iterdir()):
            if folder.is_dir() and folder.name != "benchmarks":  # which `bench` reads, in a checkout
                build_data["force_include"][str(folder)] = f"featlearn/evidence/{folder.name}"
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            self.app.display_warning(f"no catalog in this wheel: {', '.join(missing)} not importable here")
            return
        self._scratch = tempfile.TemporaryDirectory()
        path = Path(self._scratch.name, "catalog.json")
        path.write_text(json.dumps(catalog_of(root), ensure_ascii=False), encoding="utf-8")
        build_data["force_include"][str(path)] = "featlearn/catalog.json"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the wheel is there."""
        if hasattr(self, "_scratch"):
            self._scratch.cleanup()


def catalog_of(root: Path) -> dict[str, Any]:
    """The catalog of the sources and the evidence in `root`, made in an interpreter of its own."""
    env = {**os.environ, "PYTHONPATH": str(root / "src")}
    words = [sys.executable, "-c", PRINT_CATALOG, str(root / "evidence")]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the catalog cannot be made: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)
