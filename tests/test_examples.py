"""Examples are short, run without a display, give the stated result, and draw their pictures."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from expected_outputs import check_output
from raising import raises

import quaddyn as qd
from quaddyn.envs import VelocityTask

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

#: Conditions on the results of the examples.
SHOWN: dict[str, Callable[[Any], bool]] = {
    "arm_gravity_compensation": lambda drop: drop["weight compensated"] < 0.03 and drop["without"] > 0.3,
    "swing_leg_impedance": lambda error: error["before"] < 0.003 < error["hit"] and error["after"] < 0.003,
    "wall_pushing": lambda found: abs(found["force"] + 30.0) < 0.3 and found["off"] < 0.002,
    "own_task": lambda height: 0.07 < height < 0.085,
    "half_space_limit": lambda nearest: nearest["with the limit"] > -1e-4 and nearest["without"] < -0.02,
    "moving_obstacle": lambda nearest: nearest["with the limits"] > 0.0099 and nearest["without"] < -0.02,
    "squat_jump_land": lambda found: found["jump"] > 0.05 and found["flight"] > 0.1 and abs(found["end"] - 1.0) < 0.02,
    "jump_onto_a_step": lambda found: found["miss"] < 0.04 and abs(found["top"] - 1.0) < 0.05 and found["end"] > 0.95,
    "boxes": lambda found: found["mode"] == "moving" and found["distance"] > 1.5,
    "crocoddyl_plan": lambda found: (
        found["error"] < 0.02 < 0.12 < found["raised"] and found["base"] > 0.3 > 0.15 > found["base of torques alone"]
    ),
    "sdk_order": lambda same: same,
    "batch_dynamics": lambda found: found["largest"] > 30.0 and found["error"] < 1e-10,
    "identification_from_csv": lambda error: error["friction"] < 0.05 and error["torque"] < 0.1,
    "explain_infeasible": lambda outcome: outcome == {"task": "solved", "constraint": "infeasible"},
    "mppi": lambda found: found["MPPI"] < 30.0 < 90.0 < found["PD"] and found["speed"] > 0.5,
    "onnx_policy": lambda found: (
        2.0 * found["policy"] < found["constant targets"] > 0.05
        and not found["fault"]
        and found["fault of NaN"].startswith("command not a number")
    ),
    "ppo": lambda found: all(run["policy"] < 0.6 * run["standing"] for run in found),
    "two_plants": lambda way: way["Simulation"] > 0.005 and abs(way["Simulation"] / way["MujocoPlant"] - 1.0) < 0.1,
}
#: Examples that are long, or need packages of the nightly tests.
NIGHTLY = "mppi", "onnx_policy", "ppo"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_every_example_is_listed_short_and_has_a_picture() -> None:
    files = sorted(EXAMPLES.glob("*.py"))
    assert {file.stem for file in files} == set(SHOWN)
    assert len(files) + len(list(EXAMPLES.glob("*.ipynb"))) >= 12
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 150, file.name
        title, _, rest = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")
        assert title and rest, file.name
        assert (EXAMPLES / "pictures" / f"{file.stem}.png").read_bytes().startswith(b"\x89PNG"), file.name


@pytest.mark.parametrize("name", [pytest.param(x, marks=[pytest.mark.slow] * (x in NIGHTLY)) for x in sorted(SHOWN)])
def test_example_gives_the_stated_result(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    picture = tmp_path / "picture.png"
    with contextlib.redirect_stdout(io.StringIO()):
        found = module(name).main(str(picture))
    assert SHOWN[name](found), found
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_mppi_rejects_a_robot_that_is_no_quadruped() -> None:
    raises(SystemExit, r"--robot: expected four legs.*bolt", module("mppi").main, robot="bolt")


def test_onnx_policy_has_the_observations_of_the_velocity_task() -> None:
    example, task, rng = module("onnx_policy"), VelocityTask(1, "go2"), np.random.default_rng(0)
    q, v = task.robot.q_home.copy(), rng.normal(size=task.robot.nv)
    q[3:7] += rng.normal(size=4)
    q[3:7] /= np.linalg.norm(q[3:7])
    q[7:] += rng.normal(size=task.robot.nu)
    task.batch.reset(q=q, v=v)
    task.set_command(command := [0.3, -0.1, 0.2])
    action = np.zeros(task.robot.nu)
    assert example.observe(task.robot, q, v, command, action) == pytest.approx(task.observe()[0], abs=1e-5)


@pytest.mark.slow  # onnxruntime is a package of the nightly tests
def test_onnx_policy_reads_files_and_checks_their_sizes(tmp_path: Path) -> None:
    example, robot, rng = module("onnx_policy"), qd.load("solo12"), np.random.default_rng(0)
    controller, (weights, bias, x) = example.PolicyController(robot), (rng.normal(size=n) for n in ((48, 12), 12, 48))
    example.save_affine(tmp_path / "policy.onnx", weights, bias)
    controller.load(tmp_path / "policy.onnx")
    assert controller.policy(x) == pytest.approx(x @ weights + bias, abs=1e-4)
    example.save_affine(tmp_path / "wrong.onnx", weights[:45], bias)
    with pytest.raises(qd.QuaddynError, match=r"policy: expected .* \[\[48\], \[12\]\], got \[\[45\], .*wrong.onnx"):
        controller.load(tmp_path / "wrong.onnx")


def test_onnx_policy_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    raises(qd.QuaddynError, r"pip install 'quaddyn\[onnx\]'", module("onnx_policy").main)


NOTEBOOKS = sorted(file.stem for file in EXAMPLES.glob("*.ipynb"))


def code_cells(name: str) -> list[Any]:
    cells = json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_notebooks_are_short_and_begin_with_their_installation() -> None:
    """In Colab nothing is installed."""
    assert len(NOTEBOOKS) >= 5
    for name in NOTEBOOKS:
        first, *others = code_cells(name)
        assert first["source"] == ['%pip install -q "quaddyn[plot]"'] and not first["outputs"], name
        assert sum(len(cell["source"]) for cell in others) <= 60, name
        assert any("image/png" in output.get("data", {}) for cell in others for output in cell["outputs"]), name


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_reproduces_its_outputs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {"__name__": "notebook"}
    compared = 0
    for cell in code_cells(name)[1:]:
        *body, last = ast.parse("".join(cell["source"])).body
        exec(compile(ast.Module(body, []), "notebook", "exec"), session)
        stored = [output["data"]["text/plain"] for output in cell["outputs"] if "data" in output]
        if not isinstance(last, ast.Expr):
            exec(compile(ast.Module([last], []), "notebook", "exec"), session)
            continue
        value = eval(compile(ast.Expression(last.value), "notebook", "eval"), session)
        shown = "".join(stored[0]) if stored else ""
        if shown and not re.search("<|e-", shown):  # outputs with addresses or rounding residuals are not compared
            check_output(repr(value), shown)
            compared += 1
    assert compared >= 2
