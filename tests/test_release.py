"""Version, source distribution and files of a release."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from raising import raises

import quaddyn as qd
from quaddyn.robot import catalogue

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_version_is_that_of_the_installed_package() -> None:
    assert qd.__version__ == importlib.metadata.version("quaddyn")


VERSION = """
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
print(ProjectMetadata(".", PluginManager()).version)
"""


def test_version_follows_tags_and_has_a_value_without_them(tmp_path: Path) -> None:
    pytest.importorskip("hatch_vcs", reason="needs hatch-vcs, of the extra test")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    def git(*arguments: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *author, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def found() -> str:
        run = subprocess.run([sys.executable, "-c", VERSION], cwd=tmp_path, capture_output=True, encoding="utf-8")
        assert run.returncode == 0, run.stderr
        return run.stdout.strip()

    assert found() == "0.6.0.dev0"  # a downloaded archive
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    assert re.fullmatch(r"0\.6\.0\.dev1\+g\w+", found())  # a clone without tags
    git("tag", "v1.2.3")
    assert found() == "1.2.3"
    git("commit", "-q", "--allow-empty", "-m", "two")
    assert re.fullmatch(r"1\.2\.4\.dev1\+g\w+", found())


def test_conda_recipe_and_lock_file_have_the_dependencies_of_the_project() -> None:
    names = {re.split(r"[^\w-]", line, maxsplit=1)[0] for line in PROJECT["dependencies"]}
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    run = re.search(r"^  run:\n((?:    - .*\n)+)", recipe, re.MULTILINE)
    assert run is not None
    specifications = dict(line.strip("- ").split(" ", 1) for line in run[1].splitlines())
    conda = {"pin": "pinocchio-python", "meshcat": "meshcat-python"}
    for line in PROJECT["dependencies"]:
        name = re.split(r"[^\w-]", line, maxsplit=1)[0]
        assert specifications.pop(conda.get(name, name)) == line[len(name) :]
    assert specifications == {"python": PROJECT["requires-python"]}
    lock = (ROOT / "packaging" / "requirements.lock").read_text(encoding="utf-8")
    assert names <= set(re.findall(r"^([\w-]+)==", lock, re.MULTILINE))
    assert "://" not in lock and lock.count("--hash=sha256:") > len(names)


def test_release_workflow_builds_targets_that_exist() -> None:
    from quaddyn.compiler.prebuilt import TARGETS

    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    built = dict(re.findall(r"objects: (\S+), platform: (\S+)}", text))
    assert {each.strip('"') for each in built} == {*TARGETS, "0"}
    assert set(re.findall(r"platform: (\w+)}", text)) == {
        "manylinux_2_17_x86_64", "manylinux_2_17_aarch64", "macosx_11_0_arm64", "any",
    }  # fmt: skip
    assert "id-token: write" in text and "password" not in text.split("gh-action-pypi-publish")[1]
    scripts = re.findall(r"bash (packaging/\S+)", text)
    assert scripts and all((ROOT / script).is_file() for script in scripts)


def test_container_files_name_existing_files_and_extras() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    extras = re.search(r"-e '\.\[([\w,]+)\]'", container["postCreateCommand"])
    assert extras is not None and set(extras[1].split(",")) <= PROJECT["optional-dependencies"].keys()
    dockerfile = (ROOT / "packaging" / "Dockerfile").read_text(encoding="utf-8")
    assert all((ROOT / name).exists() for name in re.findall(r"^COPY ([^-\s]\S*)", dockerfile, re.MULTILINE))


def test_example_robots_installed_by_conda_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def not_installed(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", not_installed)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    find = catalogue.example_robot_folder.__wrapped__
    raises(qd.ModelError, r"example-robot-data, .* is not installed; install it with: pip install", find)
    (tmp_path / "share" / "example-robot-data" / "robots").mkdir(parents=True)
    assert find() == tmp_path / "share" / "example-robot-data" / "robots"
