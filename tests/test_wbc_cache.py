"""Where numba can write its cache nowhere, everything is compiled in memory, and nothing else changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import quaddyn

PIECES = """
from quaddyn.hierarchy.jit import inner, outlined

@inner
def twice(x):
    return 2.0 * x

@outlined("f8(f8)")
def more(x):
    return twice(x) + 1.0
"""

PARTS = f"""{PIECES}
import numpy as np
from quaddyn.hierarchy.jit import entry, jit

@entry
def summed(a):
    s = 0.0
    for i in range(a.shape[0]):
        s += more(a[i])
    return s

@jit
def grown(n):
    return np.ones(n)

assert summed(np.arange(3.0)) == 9.0 and grown(2).sum() == 2.0
"""

TICK = """
import numpy as np
import quaddyn as qd
robot = qd.load("go2")
wbc = qd.WholeBodyController(robot)
wbc.warmup()
c = wbc.compute(qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv)))
assert c.status.ok and c.status.path == "compiled", c.status
assert abs(sum(f[2] for f in c.forces.values()) - 9.81 * robot.mass) < 1e-6 * robot.mass
"""


def run(script: str, folder: Path, package: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    """`script` as a module in `folder` with no place for a cache: every folder one may be put in is a file."""
    (folder / "script.py").write_text(script)
    wall = folder / "wall"
    for blocked in (wall, folder / "__pycache__"):
        blocked.touch()
    places = ("NUMBA_CACHE_DIR", "HOME", "XDG_CACHE_HOME", "APPDATA", "LOCALAPPDATA")
    env = os.environ | dict.fromkeys(places, str(wall)) | {"PYTHONPATH": str(package), "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-c", "import script"]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=timeout, check=False)


def test_without_a_place_for_a_cache_all_kinds_of_compiled_functions_work(tmp_path: Path) -> None:
    done = run(PARTS, tmp_path, Path(quaddyn.__file__).parents[1], 100.0)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.skipif("QUADDYN_SLOW" not in os.environ, reason="compiles everything: a minute; QUADDYN_SLOW=1 runs it")
def test_without_a_place_for_a_cache_a_tick_is_computed(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for file in Path(quaddyn.__file__).parent.rglob("*.py"):
        to = copy / file.relative_to(Path(quaddyn.__file__).parents[1])
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(file.read_bytes())
        (to.parent / "__pycache__").touch()  # a file: nothing can be written into it, by root either
    source = Path(quaddyn.__file__).parents[1] / "robots"
    if source.is_dir():
        (copy / "robots").symlink_to(source)
    folder = tmp_path / "work"
    folder.mkdir()
    done = run(TICK, folder, copy, 900.0)
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) <= 1 and "compiling" in done.stderr
    assert not list(copy.rglob("*.nb[ic]"))


WHOLE = """
from quaddyn.hierarchy.jit import entry, outlined

from .parts import more, twice
from .slots import FIRST

@outlined("f8(f8)")
def most(x):
    return more(x) + twice(FIRST)

@entry
def f(x):
    return most(x)
"""


def test_what_is_cached_counts_as_long_as_all_that_it_calls_is_the_same(tmp_path: Path) -> None:
    """What a function calls may change, and where that is: it reaches the function, whose own file stays the same."""
    package = tmp_path / "package"
    package.mkdir()
    files = {"__init__": "", "slots": "FIRST = 1.0\n", "parts": PIECES, "whole": WHOLE}
    command = [sys.executable, "-c", "from package.whole import f; print(f(1.0), sum(f.stats.cache_hits.values()))"]
    paths = os.pathsep.join((str(tmp_path), str(Path(quaddyn.__file__).parents[1])))
    env = os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("NUMBA_CACHE_DIR", None)

    def answer(**changed: str) -> str:
        for name, text in (files | changed).items():
            file = package / f"{name}.py"
            if not file.exists() or file.read_text() != text:
                file.write_text(text)
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120.0, check=False)
        return done.stdout.strip() or done.stderr

    assert answer() == "5.0 0"
    assert answer() == "5.0 1"  # out of the cache
    assert answer(slots="FIRST = 2.0\n") == "7.0 0"
    moved = PIECES.replace("2.0 * x", "4.0 * x")
    assert answer(other=moved, parts="from .other import more, twice\n") == "9.0 0"
    assert answer() == "5.0 0"
