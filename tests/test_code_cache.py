"""Cache of machine code: keys depend on all sources, it is private to the user, and the package works without it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from compiled_cache import fill_cache
from test_loops import four_bar

import quaddyn
from quaddyn.compiler import compilation_units, object_cache, prebuilt
from quaddyn.kernels import TickTerms, kernel_cache
from quaddyn.kernels.kernels import compile as compile_kernels

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
    """Runs a script in a new process with the given cache folder."""
    path = os.pathsep.join(map(str, (*paths, Path(quaddyn.__file__).parents[1])))
    env = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-c", script]
    return subprocess.run(
        command, env=env | {"QUADDYN_CACHE": cache}, capture_output=True, encoding="utf-8", timeout=300.0, check=False
    )


def compile_messages(done: subprocess.CompletedProcess[str]) -> int:
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(set(lines))
    assert all(re.fullmatch(r"quaddyn: compiling [a-z -]+ \.\.\. \d+\.\d s", line) for line in lines)
    return len(lines)


def test_compiling_prints_one_line_per_unit(tmp_path: Path) -> None:
    """If everything is cached, nothing is printed."""
    fill_cache(tmp_path / "cache", [unit for unit in prebuilt.all_units() if unit.title != "contact solver"])
    assert [compile_messages(run(STAND, str(tmp_path / "cache"))) for _ in range(2)] == [1, 0]


@pytest.mark.slow
def test_robot_stands_with_an_empty_or_missing_cache(tmp_path: Path) -> None:
    """The package also works without a cache folder."""
    cache = str(tmp_path / "cache")
    assert [compile_messages(run(STAND, place)) for place in ("", cache, cache)] == [3, 3, 0]


def test_every_compiled_entry_is_in_a_prebuilt_unit() -> None:
    """Units found in the source text equal those registered by the decorator when the whole package is imported."""
    script = """
import importlib, pkgutil, quaddyn
from quaddyn.compiler import prebuilt
from quaddyn.compiler.compilation_units import CompilationUnit
units = prebuilt.all_units()
for each in pkgutil.walk_packages(quaddyn.__path__, "quaddyn."):
    if not each.name.endswith("__main__"):
        importlib.import_module(each.name)
assert set(units) == set(CompilationUnit.registry.values()) and len(units) > 3
assert len({unit.title for unit in units}) == len(units)
"""
    done = run(script, "")
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_prebuilt_keys_do_not_depend_on_the_llvm_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of cached objects depend on the version of LLVM; keys of prebuilt objects do not."""
    unit, target = prebuilt.all_units()[0], "x86-64-v3"
    before = unit.source_key(target), unit.cache_key(target)
    monkeypatch.setattr(compilation_units, "llvm_version", lambda: "0.99")
    assert unit.source_key(target) == before[0] and unit.cache_key(target) != before[1]
    assert len({unit.source_key(each) for each in (target, "x86-64", "aarch64")}) == 3


# -- keys of kernels ---------------------------------------------------------------------------------------------------
def test_kernel_key_includes_every_module_that_generates_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources in the key include all modules of kernels, robots and compiler that run; loops use most of them."""
    robots = [quaddyn.load(four_bar()), quaddyn.load("two_link_leg")]
    monkeypatch.setattr(kernel_cache.object_cache, "load_object", lambda key: None)
    package, ran = Path(quaddyn.__file__).parent, set[str]()
    before = sys.getprofile()
    sys.setprofile(lambda frame, *_: ran.add(frame.f_code.co_filename))
    try:
        for robot in robots:
            compile_kernels(robot, ("rnea", "frame_drift"), frames=robot.frame_names[-1:])
            TickTerms(robot, robot.frame_names[-1:])
    finally:
        sys.setprofile(before)
    shaping = {Path(name) for name in ran if Path(name).is_relative_to(package)}
    assert {package / "robot" / "loops.py", package / "compiler" / "machine.py"} <= shaping
    assert shaping <= object_cache.sources(*(package / "kernels").glob("*.py"))


def test_kernel_key_changes_with_each_of_its_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    robot, edited, keys = quaddyn.load("two_link_leg"), [Path()], list[str]()
    digest = object_cache._digest
    monkeypatch.setattr(object_cache, "_digest", lambda file: digest(file) + "#" * (file == edited[0]))

    def forget() -> None:
        object_cache.fingerprint.cache_clear()
        kernel_cache._sources.cache_clear()

    def found(key: str) -> None:
        keys.append(key)
        raise LookupError

    def key_if_edited(file: Path) -> str:
        edited[0] = file
        forget()
        with pytest.raises(LookupError):
            compile_kernels(robot, "rnea")
        return keys[-1]

    monkeypatch.setattr(kernel_cache.object_cache, "load_object", found)
    package = Path(quaddyn.__file__).parent
    files = sorted(object_cache.sources(*(package / "kernels").glob("*.py")))
    of_files = {key_if_edited(file) for file in files}
    assert len(of_files) == len(files) > 50
    of_others = {key_if_edited(package / name) for name in ("viewer/animation.py", "wbc/tick_core.py")}
    assert len(of_others) == 1 and not of_others & of_files
    forget()
