"""The wheel stands on its own: built, installed in an empty environment, used away from the checkout."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_carries_robots_licence_and_type_marker(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {p.name for p in (ROOT / "robots").iterdir() if p.is_file()}
    assert {f"quaddyn/_robots/{name}" for name in ours} <= names
    assert "quaddyn/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "benchmarks/")) for name in names)


def test_installed_elsewhere_it_runs_the_demo_and_loads_the_catalogue(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=900, cwd=tmp_path)
    where = subprocess.run(
        [str(python), "-c", "import quaddyn; print(quaddyn.__file__)"], capture_output=True, text=True, cwd=tmp_path
    )
    assert str(environment) in where.stdout
    load_all = "import quaddyn as qd\nfor name in qd.CATALOGUE: qd.load(name)\nprint(len(qd.CATALOGUE))"
    loaded = subprocess.run([str(python), "-c", load_all], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert loaded.returncode == 0, loaded.stderr
    assert int(loaded.stdout) >= 30
    command = [str(environment / "bin" / "quaddyn"), "demo", "--headless"]
    demo = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "every check holds" in demo.stdout
