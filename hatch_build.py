"""Build hook that adds machine code of all compiled functions to wheels.

    QUADDYN_BUILD_OBJECTS=1 python -m build --wheel
    QUADDYN_BUILD_OBJECTS=aarch64 QUADDYN_WHEEL_PLATFORM=macosx_11_0_arm64 python -m build --wheel

Without QUADDYN_BUILD_OBJECTS the build needs only the build backend, and functions are compiled at first use.  "1" adds
machine code for every target of `quaddyn.compiler.prebuilt`; names of targets, separated by commas, add it for these.
The package is imported during the build, which therefore needs its dependencies.  QUADDYN_WHEEL_PLATFORM is the
platform in the name of the wheel; by default the wheel is for any platform, since machine code is looked up by
processor, and compiled at first use where there is none.
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


def requested_targets() -> list[str] | None:
    """Returns the targets to compile for, empty for all of them, or None if no machine code is requested."""
    value = os.environ.get("QUADDYN_BUILD_OBJECTS", "0")
    if value in ("", "0"):
        return None
    return [] if value == "1" else value.split(",")


class ObjectsHook(BuildHookInterface[Any]):
    """Hook that compiles into a temporary folder, which becomes ``quaddyn/_objects`` of the wheel."""

    PLUGIN_NAME = "custom"
    folder: str | None = None

    def dependencies(self) -> list[str]:
        """Returns the packages that the build environment needs beyond those of pyproject.toml."""
        return [] if requested_targets() is None else list(self.metadata.core.dependencies)

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles if requested, and names the platform; an editable installation has no machine code."""
        targets = requested_targets()
        if version == "editable" or targets is None:
            return
        if platform := os.environ.get("QUADDYN_WHEEL_PLATFORM"):
            build_data["pure_python"], build_data["tag"] = False, f"py3-none-{platform}"
        self.folder = tempfile.mkdtemp(prefix="quaddyn-objects-")
        path = os.pathsep.join(filter(None, (self.root, os.environ.get("PYTHONPATH"))))
        subprocess.run(
            [sys.executable, "-m", "quaddyn.compiler.prebuilt", self.folder, *targets],
            env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=sys.stderr,
            check=True,
        )
        for file in sorted(Path(self.folder).iterdir()):
            file.chmod(0o644)
            build_data["force_include"][str(file)] = f"quaddyn/_objects/{file.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes the temporary folder."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
