"""The wheel is built, installed in an empty environment and used outside the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from quaddyn.compiler import prebuilt

ROOT = Path(__file__).resolve().parent.parent


def build_wheel(folder: Path, objects: str, platform: str = "") -> Path:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    env = os.environ | {"QUADDYN_BUILD_OBJECTS": objects, "QUADDYN_WHEEL_PLATFORM": platform}
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    assert path.name.endswith(f"-py3-none-{platform or 'any'}.whl")
    return path


def bare_environment(folder: Path, wheel: Path) -> Path:
    """The interpreter of a new environment with the wheel; dependencies are those of the test environment."""
    venv.create(folder)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=120, cwd=folder)
    (site,) = folder.glob("lib/python*/site-packages")
    needed = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (site / "needed.pth").write_text(needed, encoding="utf-8")
    return python


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"), "0")


@pytest.fixture(scope="module")
def wheel_with_machine_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with machine code."""
    return build_wheel(tmp_path_factory.mktemp("ready"), "1")


def test_wheel_contains_robots_license_and_type_marker(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {p.name for p in (ROOT / "robots").iterdir() if p.is_file()}
    assert {f"quaddyn/_robots/{name}" for name in ours} <= names
    assert {"quaddyn/py.typed", "quaddyn/exports/templates/ros2/drive.hpp"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "benchmarks/", "quaddyn/_objects", "hatch_build")) for name in names)


def processors(wheel: Path) -> list[int]:
    """The ELF number of the processor of each object in a wheel."""
    archive, found = zipfile.ZipFile(wheel), []
    for name in archive.namelist():
        if name.startswith("quaddyn/_objects/"):
            data = archive.read(name)
            found.append(int.from_bytes(data[data.index(b"\x7fELF") + 18 :][:2], "little"))
    return found


@pytest.mark.slow
def test_wheel_of_a_platform_has_machine_code_for_it_alone(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, "aarch64", "macosx_11_0_arm64")
    assert processors(wheel) == [183] * len(prebuilt.all_units())


@pytest.mark.slow
def test_wheel_with_machine_code_supports_both_processor_architectures(wheel_with_machine_code: Path) -> None:
    kinds = processors(wheel_with_machine_code)
    assert set(kinds) == {62, 183}  # x86-64, AArch64
    assert kinds.count(62) == kinds.count(183) == len(prebuilt.all_units())


TORQUE = """
import json
import numpy as np
import quaddyn as qd
from quaddyn.compiler.compilation_units import CompilationUnit
robot = qd.load("go2")
command = qd.WholeBodyController(robot).compute(qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv)))
origins = {unit.module: unit.origin.source for unit in CompilationUnit.registry.values() if unit.origin is not None}
print(json.dumps({"ok": command.status.ok, "from": qd.__file__, "origins": origins}))
"""


@pytest.mark.slow
def test_first_torque_compiles_nothing_with_installed_machine_code(
    wheel_with_machine_code: Path, tmp_path: Path
) -> None:
    """Dependencies are those of the test environment; the cache is empty."""
    environment, cache = tmp_path / "environment", tmp_path / "cache"
    python = bare_environment(environment, wheel_with_machine_code)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"QUADDYN_CACHE": str(cache)}

    def run(*command: str) -> Any:
        done = subprocess.run(
            [str(python), *command], capture_output=True, encoding="utf-8", timeout=120, cwd=tmp_path, env=env
        )
        assert done.returncode == 0 and not done.stderr, done.stderr
        return json.loads(done.stdout)

    torque = run("-c", TORQUE)
    assert torque["ok"] and Path(torque["from"]).is_relative_to(environment)
    assert torque["origins"] and set(torque["origins"].values()) == {"prebuilt"}
    assert not list(cache.glob("unit-*"))
    states = {unit["title"]: unit for unit in run("-m", "quaddyn", "doctor", "--json")["units"]}
    assert {unit["state"] for unit in states.values()} == {"prebuilt"}
    # Damaged files, and files that other users could have created, are not used.
    file = Path(states["contact solver"]["place"])
    file.write_bytes(file.read_bytes()[:-1])
    damaged = {unit["title"]: unit["state"] for unit in run("-m", "quaddyn", "doctor", "--json")["units"]}
    assert damaged.pop("contact solver") == "not yet" and set(damaged.values()) == {"prebuilt"}
    file.parent.chmod(0o777)
    assert {unit["state"] for unit in run("-m", "quaddyn", "doctor", "--json")["units"]} == {"not yet"}


LOAD_ALL = "import quaddyn as qd\nfor name in qd.CATALOGUE: qd.load(name)\nprint(qd.__file__, len(qd.CATALOGUE))"


def test_installed_wheel_loads_the_catalogue(wheel: Path, tmp_path: Path) -> None:
    """Dependencies are those of the test environment."""
    environment = tmp_path / "environment"
    python = bare_environment(environment, wheel)
    loaded = subprocess.run(
        [str(python), "-c", LOAD_ALL], capture_output=True, encoding="utf-8", cwd=tmp_path, timeout=120
    )
    assert loaded.returncode == 0, loaded.stderr
    where, count = loaded.stdout.split()
    assert Path(where).is_relative_to(environment) and int(count) >= 30


@pytest.mark.slow
def test_installed_wheel_with_dependencies_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=900, cwd=tmp_path)
    where = subprocess.run(
        [str(python), "-c", "import quaddyn; print(quaddyn.__file__)"],
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
    )
    assert str(environment) in where.stdout
    command = [str(environment / "bin" / "quaddyn"), "demo", "--headless"]
    demo = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=tmp_path, timeout=120)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "all checks passed" in demo.stdout
