"""Wheels with machine code: `QUADDYN_BUILD_OBJECTS=1 python -m build --wheel` puts in that of all compiled parts.

Without it a wheel needs nothing but hatchling to be built, and what is compiled is made at first use, in seconds, and
kept.  With it the package is imported while it is built, so what it needs at run time is asked for then.  A wheel stays
one for every machine: objects are data, looked up by processor, and compiled where there is none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def wanted() -> bool:
    """Whether objects were asked for."""
    return os.environ.get("QUADDYN_BUILD_OBJECTS", "0") not in ("", "0")


class ObjectsHook(BuildHookInterface[Any]):
    """Compiles into a folder of its own, which becomes ``quaddyn/_objects`` of the wheel."""

    PLUGIN_NAME = "custom"
    folder: str | None = None

    def dependencies(self) -> list[str]:
        """What the build environment needs beyond hatchling."""
        return list(self.metadata.core.dependencies) if wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, if asked to; a checkout that is installed to be edited has nothing to ship."""
        if version == "editable" or not wanted():
            return
        self.folder = tempfile.mkdtemp(prefix="quaddyn-objects-")
        path = os.pathsep.join(filter(None, (self.root, os.environ.get("PYTHONPATH"))))
        subprocess.run(
            [sys.executable, "-m", "quaddyn.compiler.prebuilt", self.folder],
            env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=sys.stderr,
            check=True,
        )
        for file in sorted(Path(self.folder).iterdir()):
            file.chmod(0o644)
            build_data["force_include"][str(file)] = f"quaddyn/_objects/{file.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing behind."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
