"""Machine code is kept by what it follows from, in a folder of the user's own; without one everything still works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import quaddyn

PARTS = """
from quaddyn.compiling import compiled

@compiled()
def twice(x: float) -> float:
    return 2.0 * x

@compiled(inline=False)
def more(x: float) -> float:
    return twice(x) + 1.0
"""

WHOLE = """
from quaddyn.compiling import compiled, entry

from .parts import more, twice
from .slots import FIRST

@compiled()
def most(x: float) -> float:
    return more(x) + twice(FIRST)

@entry("a sum")
def f(x: float) -> float:
    return most(x)
"""

ASK = """
from package.whole import f
from quaddyn.compiling.units import Unit
print(f(1.0), Unit.of("package.whole").origin.source)
"""

STAND = """
import numpy as np
import quaddyn as qd
robot = qd.load("go2")
wbc, sim = qd.WholeBodyController(robot), qd.Simulation(robot)
wbc.warmup()
sim.warmup()
c = wbc.compute(qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv)))
assert c.status.ok, c.status
assert abs(sum(f[2] for f in c.forces.values()) - 9.81 * robot.mass) < 1e-6 * robot.mass
for _ in range(20):
    sim.step(c.tau)
assert sim.status == "solved"
"""


def run(script: str, cache: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    """A script in a process of its own, no cache in its home."""
    path = os.pathsep.join(map(str, (*paths, Path(quaddyn.__file__).parents[1])))
    env = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-c", script]
    return subprocess.run(
        command, env=env | {"QUADDYN_CACHE": cache}, capture_output=True, text=True, timeout=300.0, check=False
    )


class Package:
    """A small compiled package, its cache, and what it answers in a new process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder, folder / "cache"
        (folder / "package").mkdir()

    def answer(self, cache: str | None = None, **changed: str) -> str:
        files = {"__init__": "", "slots": "FIRST = 1.0\n", "parts": PARTS, "whole": WHOLE} | changed
        for name, text in files.items():
            (self.folder / "package" / f"{name}.py").write_text(text)
        done = run(ASK, str(self.cache) if cache is None else cache, self.folder)
        assert done.returncode == 0, done.stderr
        said = done.stderr.splitlines()
        assert len(said) == ("compiled" in done.stdout) and all("compiling a sum" in line for line in said)
        return done.stdout.strip()

    def kept(self) -> list[Path]:
        return sorted(self.cache.glob("*.bin"))


def code(file: bytes) -> bytes:
    """What a kept file holds, but for how long it took to make."""
    return file[file.index(b"\x7fELF") :]


@pytest.fixture
def package(tmp_path: Path) -> Package:
    return Package(tmp_path)


def test_what_is_kept_counts_as_long_as_all_that_it_calls_is_the_same(package: Package) -> None:
    """What a function calls may change, and where that is: it reaches the function, whose own file stays the same."""
    assert package.answer() == "5.0 compiled"
    assert package.answer() == "5.0 kept"
    assert package.answer(slots="FIRST = 2.0\n") == "7.0 compiled"
    moved = PARTS.replace("2.0 * x", "4.0 * x")
    assert package.answer(other=moved, parts="from .other import more, twice\n") == "9.0 compiled"
    assert package.answer() == "5.0 kept"
    assert len(package.kept()) == 3


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "exchanged"])
def test_damaged_files_are_made_again(package: Package, damage: str) -> None:
    assert package.answer() == "5.0 compiled"
    (file,) = package.kept()
    good = file.read_bytes()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    bad = {"cut": good[:-100], "flipped": bytes(flipped), "empty": b""}
    if damage == "exchanged":  # whole, but of other sources
        assert package.answer(slots="FIRST = 2.0\n") == "7.0 compiled"
        (other,) = (path for path in package.kept() if path != file)
        bad[damage] = other.read_bytes()
    file.write_bytes(bad[damage])
    assert package.answer() == "5.0 compiled"
    assert code(file.read_bytes()) == code(good)
    assert package.answer() == "5.0 kept"


def test_a_folder_that_others_may_write_to_is_not_used(package: Package) -> None:
    package.cache.mkdir()
    package.cache.chmod(0o777)
    assert package.answer() == "5.0 compiled"
    assert not package.kept()
    package.cache.chmod(0o700)
    assert package.answer() == "5.0 compiled"
    package.cache.chmod(0o770)  # now there is code that somebody may have put there
    assert package.answer() == "5.0 compiled"
    package.cache.chmod(0o700)
    assert package.answer() == "5.0 kept"


@pytest.mark.parametrize("place", ["", "wall/cache"])
def test_without_a_folder_every_process_compiles(package: Package, place: str) -> None:
    (package.folder / "wall").touch()  # a file: nobody makes a folder in it
    cache = str(package.folder / place) if place else ""
    assert package.answer(cache) == "5.0 compiled"
    assert package.answer(cache) == "5.0 compiled"


def test_a_robot_stands_and_what_is_compiled_says_one_line_each(tmp_path: Path) -> None:
    """Without a folder, too; and where everything is kept nothing is said."""
    for cache, said in (("", 3), (str(tmp_path / "cache"), 3), (str(tmp_path / "cache"), 0)):
        done = run(STAND, cache)
        assert done.returncode == 0, done.stderr
        lines = done.stderr.splitlines()
        assert len(lines) == len(set(lines)) == said
        assert all(re.fullmatch(r"quaddyn: compiling [a-z -]+ \.\.\. \d+\.\d s", line) for line in lines)


def test_every_entry_of_the_package_is_in_a_unit_that_wheels_can_carry() -> None:
    """What is found by its text is what the decorator has registered, once all of the package is imported."""
    script = """
import importlib, pkgutil, quaddyn
from quaddyn.compiling import shipping
from quaddyn.compiling.units import Unit
units = shipping.units()
for each in pkgutil.walk_packages(quaddyn.__path__, "quaddyn."):
    if not each.name.endswith("__main__"):
        importlib.import_module(each.name)
assert set(units) == set(Unit.every.values()) and len(units) > 3
assert len({unit.title for unit in units}) == len(units)
"""
    done = run(script, "")
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_objects_are_found_again_whatever_made_them(package: Package) -> None:
    """What is kept belongs to a version of llvmlite; what was shipped to none."""
    assert package.answer() == "5.0 compiled"
    script = """
from quaddyn.compiling import units
from package.whole import f
unit = units.Unit.of("package.whole")
before = unit.key("x86-64-v3"), unit.kept_key("x86-64-v3")
units.llvm_version = lambda: "0.99"
assert unit.key("x86-64-v3") == before[0] and unit.kept_key("x86-64-v3") != before[1]
assert len({unit.key(target) for target in ("x86-64-v3", "x86-64", "aarch64")}) == 3
print(f(1.0), unit.origin.source)
"""
    done = run(script, str(package.cache), package.folder)
    assert done.returncode == 0 and done.stdout == "5.0 compiled\n", done.stdout + done.stderr
