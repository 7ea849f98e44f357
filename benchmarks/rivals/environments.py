"""Creates environments from PyPI for whole-body controllers that require other versions of Pinocchio.

TSID 1.10.0 crashes in its RobotWrapper with pin 4.1 and runs with pin 4.0.0.  Its shared library is published for one
Python version only, but does not depend on that version; it is extracted into the folder of the bindings.  PlaCo 0.10.2
requires pin 3.8.  Therefore each has a virtual environment, `.venv-tsid` and `.venv-placo` at the top of the checkout,
which is created once.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Versions in the environment of TSID.
TSID = "TSID 1.10.0 on pin 4.0.0"

#: Names of the controllers for which `python` creates an environment.
NAMES = ("tsid", "placo")


class UnavailableError(Exception):
    """An environment cannot be created; the message has the reason."""


def python(name: str) -> Path:
    """Returns the interpreter of a controller's environment, which is created if it is missing.

    Args:
        name: one of `NAMES`.

    Raises:
        UnavailableError: A package cannot be installed or imported.
    """
    folder = ROOT / f".venv-{name}"
    interpreter = folder / "bin" / "python"
    if not _imports(interpreter, name):
        print(f"creating the environment of {name} in {folder.name} ...", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        {"tsid": _install_tsid, "placo": _install_placo}[name](interpreter)
        if not _imports(interpreter, name):
            raise UnavailableError(f"{name}: the package was installed, but cannot be imported")
    return interpreter


def _install_tsid(interpreter: Path) -> None:
    """Installs TSID and its dependencies."""
    _run_pip(interpreter, "install", "pin==4.0.0", "numpy>=2,<3")
    _run_pip(interpreter, "install", "--no-deps", "tsid==1.10.0", "eiquadprog==1.3.2")
    with tempfile.TemporaryDirectory() as download_folder:
        options = ["--python-version", "314", "--only-binary=:all:"]
        _run_pip(interpreter, "download", "--no-deps", "-d", download_folder, *options, "libtsid==1.10.0")
        (wheel,) = Path(download_folder).glob("libtsid-*.whl")
        packages = next(interpreter.parents[1].glob("lib/python*/site-packages"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extract("cmeel.prefix/lib/libtsid.so", packages)


def _install_placo(interpreter: Path) -> None:
    """Installs PlaCo and its dependencies."""
    _run_pip(interpreter, "install", "placo==0.10.2")


def _imports(interpreter: Path, name: str) -> bool:
    """Returns whether an interpreter imports Pinocchio and a package."""
    if not interpreter.exists():
        return False
    # pinocchio is imported first, since its import makes its library available to the bindings
    code = f"import pinocchio, {name}"
    return subprocess.run([interpreter, "-c", code], capture_output=True, check=False).returncode == 0


def _run_pip(interpreter: Path, *arguments: str) -> None:
    """Runs pip in an environment; raises `UnavailableError` if it fails."""
    completed = subprocess.run(
        [interpreter, "-m", "pip", "-q", *arguments], capture_output=True, encoding="utf-8", check=False
    )
    if completed.returncode:
        reason = [line for line in completed.stderr.splitlines() if line.startswith("ERROR")]
        raise UnavailableError(f"pip {arguments[0]} failed: {reason[0] if reason else completed.stderr[-200:]}")
