"""Builds environments, from PyPI, of whole-body controllers that need other versions of Pinocchio.

TSID 1.10.0 crashes in its RobotWrapper on pin 4.1; it runs on pin 4.0.0.  Its shared library is published for one
Python version only, but does not depend on it: it is unpacked beside the bindings.  PlaCo 0.10.2 wants pin 3.8.  Hence
one virtual environment for each, `.venv-tsid` and `.venv-placo` at the top of the checkout, built once.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: What `python` builds for TSID.
TSID = "TSID 1.10.0 on pin 4.0.0"

#: Names of the rivals that `python` builds.
NAMES = ("tsid", "placo")


class UnavailableError(Exception):
    """The environment could not be built; the message says why."""


def python(name: str) -> Path:
    """Interpreter of a rival's environment, built when it is missing.

    Args:
        name: one of `NAMES`.

    Raises:
        UnavailableError: a package could not be had, or does not import.
    """
    home = ROOT / f".venv-{name}"
    interpreter = home / "bin" / "python"
    if not _imports(interpreter, name):
        print(f"building the environment of {name} in {home.name} ...", file=sys.stderr, flush=True)
        venv.create(home, with_pip=True, clear=True)
        {"tsid": _tsid, "placo": _placo}[name](interpreter)
        if not _imports(interpreter, name):
            raise UnavailableError(f"{name}: installed, but does not import")
    return interpreter


def _tsid(interpreter: Path) -> None:
    _pip(interpreter, "install", "pin==4.0.0", "numpy>=2,<3")
    _pip(interpreter, "install", "--no-deps", "tsid==1.10.0", "eiquadprog==1.3.2")
    with tempfile.TemporaryDirectory() as folder:
        wanted = ["--python-version", "314", "--only-binary=:all:"]
        _pip(interpreter, "download", "--no-deps", "-d", folder, *wanted, "libtsid==1.10.0")
        (wheel,) = Path(folder).glob("libtsid-*.whl")
        packages = next(interpreter.parents[1].glob("lib/python*/site-packages"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extract("cmeel.prefix/lib/libtsid.so", packages)


def _placo(interpreter: Path) -> None:
    _pip(interpreter, "install", "placo==0.10.2")


def _imports(interpreter: Path, name: str) -> bool:
    if not interpreter.exists():
        return False
    # pinocchio first: the bindings find its library through it
    code = f"import pinocchio, {name}"
    return subprocess.run([interpreter, "-c", code], capture_output=True, check=False).returncode == 0


def _pip(interpreter: Path, *arguments: str) -> None:
    done = subprocess.run(
        [interpreter, "-m", "pip", "-q", *arguments], capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        reason = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise UnavailableError(f"pip {arguments[0]} failed: {reason[0] if reason else done.stderr[-200:]}")
