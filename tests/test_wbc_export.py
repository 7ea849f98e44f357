"""A whole controller as C99: the same torques as in Python, bit for bit, without warnings and dynamic memory."""

import os
import re
import shutil
import subprocess

import controller_in_c as cc
import numpy as np
import pytest
from browser import require
from raising import raises
from slow_parameters import others_slow
from typer.testing import CliRunner
from wbc_elements import IN_PYTHON, check_that_every_kind_is_there, controller_of_every_kind

import quaddyn as qd
from quaddyn.cli import app
from quaddyn.wbc import (
    ComTask,
    LinearConstraint,
    PostureTask,
    controller_c,
    export_c,
)

TICKS = int(os.environ.get("QUADDYN_TICKS", "3000" if "QUADDYN_SLOW" in os.environ else "1000"))
#: CMake's build type; as in `cc.SAME_BITS`, in the nightly run that of users.
BUILD = "Release" if "QUADDYN_SLOW" in os.environ else "Debug"


@pytest.fixture(scope="module", autouse=True)
def compiler():
    """Skips the tests without a compiler, or fails if tools are required."""
    if cc.COMPILER is None:
        require("cc")


@pytest.mark.parametrize("name", others_slow(("go2", "solo8", "panda"), {"panda"}))
def test_c_gives_the_torques_of_python_bit_for_bit(name, tmp_path):
    twins = cc.ControllerPair(name, tmp_path, *cc.SAME_BITS)
    tally = twins.run_closed_loop(TICKS, 3)
    assert tally.different == 0, tally
    assert min(tally.outcomes.get(each, 0) for each in ("solved", "infeasible")) > TICKS // 50, tally
    assert tally.refused > 0
    twins.set_joint_friction("joint friction", 0.7, 0.1, 0.5)
    command = twins.tick(twins.robot.q_home, np.full(twins.robot.nv, 0.02), None)
    assert twins.c.array("acceleration", twins.robot.nv).tobytes() == command.acceleration.tobytes()
    assert (twins.c.number("violation"), twins.c.number("kkt")) == (command.status.violation, command.status.kkt)
    friction = twins.c.array("friction_torques", twins.robot.nu)
    assert friction.tobytes() == command.friction_torque.tobytes() and friction.any()
    if twins.c.contacts:
        shares = twins.c.array("shares", len(twins.c.contacts))
        assert shares.tolist() == list(twins.python.contact_activations.values())
        forces = twins.c.array("forces", len(twins.c.contacts), 6)
        for row, contact in zip(forces, twins.c.contacts, strict=True):
            wanted = command.forces.get(contact, np.zeros(6))
            assert row[: len(wanted)].tobytes() == wanted.tobytes()


def test_every_kind_of_task_contact_and_constraint_is_exported(tmp_path):
    twins = cc.ControllerPair("go2", tmp_path, *cc.SAME_BITS, make=controller_of_every_kind)
    tally = twins.run_closed_loop(TICKS // 10, 4)
    assert tally.different == 0, tally
    assert len(tally.outcomes) >= 2, tally
    check_that_every_kind_is_there(twins.python.tasks.values(), *IN_PYTHON)
    for direction in (np.zeros(3), np.full(3, 1e-160), np.full(3, 1e160)):
        assert twins.c.set("an_axis_reference", direction, None, None) == 0
        with pytest.raises(qd.ArgumentError, match="nonzero vector"):
            twins.python.tasks["an axis"].reference(direction)
    twins.python.tasks["object"].mass, twins.python.tasks["object"].com = 0.7, (0.0, -0.1, 0.1)
    assert twins.c.set("object_mass", np.array([0.7])) == twins.c.set("object_com", np.array([0.0, -0.1, 0.1])) == 1
    assert twins.c.set("object_mass", np.array([-0.1])) == twins.c.set("object_com", np.array([np.inf, 0.0, 0.0])) == 0
    twins.set_reference("an axis", np.array([2.0, 0.2, 0.0]))
    twins.tick(twins.robot.q_home, np.zeros(twins.robot.nv), None)
    assert twins.tally.different == 0


@pytest.mark.slow
def test_fused_multiply_add_changes_torques_only_by_rounding(tmp_path):
    twins = cc.ControllerPair("go2", tmp_path, "-O3", "-march=native", exact=False)
    tally = twins.run_closed_loop(1000, 7, calm=True)
    assert tally.outcomes == {"solved": 1000}
    assert 0.0 < tally.worst < 1e-9, tally


def test_c_setters_accept_the_same_values_as_python(tmp_path):
    robot = qd.load("go2")
    c = cc.ExportedController(qd.WholeBodyController(robot), tmp_path, "go2_wbc", *cc.SAME_BITS)
    three, skew = np.ones(3), np.ones(9)
    assert c.set("com_reference", three, None, None) == 1
    assert c.set("com_reference", np.array([0.0, np.nan, 0.0]), None, None) == 0
    assert c.set("com_reference", None, None, np.full(3, np.inf)) == 0
    assert c.set("base_reference", skew, None, None) == 0
    assert c.set("base_reference", np.eye(3), None, None) == 1
    assert c.set("com_gains", three, None) == 1
    assert c.set("com_gains", -three, None) == 0
    assert c.set("com_gains", three, -three) == 0
    assert c.set("torque_limits", np.full(12, -1.0)) == 0
    assert c.set("torque_limits", np.full(12, np.nan)) == 0
    assert c.set("friction", 4, 0.5) == c.set("friction", -1, 0.5) == c.set("friction", 0, -0.5) == 0
    assert c.set("friction", 0, float("nan")) == 0
    assert c.set("normal_force", 0, 3.0, 2.0) == c.set("normal_force", 4, 0.0, 2.0) == 0
    assert c.set("normal_force", 3, 0.0, float("inf")) == 1
    assert c.set("forces_reference", 4, three) == c.set("forces_reference", -1, None) == 0
    assert c.set("forces_reference", 3, three) == 1


def test_gains_take_effect_in_c_and_ticks_are_counted(tmp_path):
    twins = cc.ControllerPair("go2", tmp_path, *cc.SAME_BITS)
    home, rest = twins.robot.q_home, np.zeros(18)
    gains = np.array([10.0, 20.0, 30.0])
    twins.python.tasks["com"].gains(gains)
    assert twins.c.set("com_gains", gains, None) == 1
    twins.set_reference("com", home[:3] + 0.05)
    twins.tick(home, rest, None)
    twins.python.tasks["base"].gains(gains, 2.0 * gains)
    assert twins.c.set("base_gains", gains, 2.0 * gains) == 1
    twins.tick(home, 0.1 * np.ones(18), None)
    assert twins.tally.different == 0
    assert twins.c.library.go2_wbc_ticks(twins.c.memory) == 2
    assert twins.c.tick(np.full(19, np.nan), rest, None)[0] == 5
    assert twins.c.tick(2.0 * home, rest, None)[0] == 6  # a quaternion of length 2
    assert twins.c.library.go2_wbc_ticks(twins.c.memory) == 2


@pytest.mark.slow
def test_configured_controller_is_exported_with_its_settings(tmp_path):
    def make(robot):
        wbc = qd.WholeBodyController(robot, friction=0.3, ramp_time=0.0)
        wbc.tasks["com"].gains(50.0)
        wbc.tasks["posture"].weight = 0.2
        wbc.tasks["forces"].reference({"FL": np.array([0.0, 0.0, 30.0])})
        wbc.contacts["FR"].set_normal_force_bounds(3.0, 50.0)
        wbc.contacts["RL"].normal = (0.2, 0.1, 1.0)
        return wbc

    twins = cc.ControllerPair("go2", tmp_path, *cc.SAME_BITS, make=make)
    assert twins.run_closed_loop(500, 2).different == 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "make"), [("go2", controller_of_every_kind), ("panda", qd.WholeBodyController)])
def test_hostile_ticks_under_sanitizers_are_flagged_and_stay_finite(name, make, tmp_path):
    outcomes = cc.hostile(make(qd.load(name)), tmp_path, 600, *cc.SANITIZED)
    assert outcomes["not a number"] > 0 and outcomes["refused"] > 0 and outcomes["infeasible"] > 0


@pytest.mark.slow
def test_two_controllers_can_be_linked_into_one_program(tmp_path):
    robot = qd.load("go2")
    for name in ("one", "two"):
        export_c(qd.WholeBodyController(robot), tmp_path, name=name)
    program = tmp_path / "main.c"
    program.write_text(
        '#include "one.h"\n#include "two.h"\nint main(void)\n{\n    double a[12], b[12];\n'
        "    static const double v[18];\n"
        "    static one first, second;\n    static two other;\n"
        "    one_initialize(&first);\n    two_initialize(&other);\n    one_initialize(&second);\n"
        "    one_friction(&first, 0, 0.2);\n"
        "    int outcome = one_tick(&first, one_home, v, 0, a) + two_tick(&other, two_home, v, 0, b);\n"
        "    return outcome + one_tick(&second, one_home, v, 0, b) + (one_ticks(&second) != 1);\n}\n",
        encoding="utf-8",
    )
    assert subprocess.run([str(cc.compiled(tmp_path, tmp_path / "both", "-O0", program=program))]).returncode == 0


def test_codegen_writes_a_controller_that_cmake_builds_and_that_stands(tmp_path):
    result = CliRunner().invoke(app, ["codegen", "go2", "--target", "controller", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "memory:" in result.output and "go2_wbc.c" in result.output.replace("\n", "")
    if shutil.which("cmake") is None:
        require("cmake")
    for command in (["-B", "build", "-DCMAKE_C_FLAGS=-Werror", f"-DCMAKE_BUILD_TYPE={BUILD}"], ["--build", "build"]):
        done = subprocess.run(["cmake", *command], cwd=tmp_path, capture_output=True, encoding="utf-8")
        assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run([str(tmp_path / "build" / "go2_wbc_stand")], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout
    assert "outcome 0" in done.stdout
    torques = [float(line.split()[1]) for line in done.stdout.splitlines()[:12]]
    robot = qd.load("go2")
    command = qd.WholeBodyController(robot).compute(qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv)))
    assert np.abs(np.array(torques) - command.tau).max() < 1e-3
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 45 and max(map(len, readme.splitlines())) <= 120


def test_codegen_rejects_options_that_do_not_apply_to_controllers(tmp_path):
    for more in (["--single-precision"], ["--frame", "FL"], ["--friction"], ["--dt", "-1"]):
        result = CliRunner().invoke(app, ["codegen", "go2", "--target", "controller", "--out", str(tmp_path), *more])
        assert result.exit_code != 0
    assert CliRunner().invoke(app, ["codegen", "go2", "--dt", "0.002", "--out", str(tmp_path)]).exit_code != 0
    assert not list(tmp_path.iterdir())


class CustomElement(ComTask):
    """A custom element with its own `rows`."""

    def rows(self, *arguments):
        return super().rows(*arguments)


def test_custom_elements_and_invalid_names_are_rejected_by_name(tmp_path):
    robot = qd.load("go2")
    wbc = qd.WholeBodyController(robot, tasks=[[CustomElement(robot, "mine")], [PostureTask(robot)]])
    raises(qd.ArgumentError, "'mine' cannot be exported", export_c, wbc, tmp_path)
    wbc = qd.WholeBodyController(robot)
    wbc.add(LinearConstraint("rows", -1.0, 1.0, torque=np.eye(12)), 0)
    raises(qd.ArgumentError, "'rows'", controller_c, wbc)
    wbc = qd.WholeBodyController(robot, tasks=[[ComTask(robot, "a b"), PostureTask(robot, "a_b")]])
    raises(qd.ArgumentError, "the same identifier in C", controller_c, wbc)
    for name in ("", "2legs", "a-b", "é", "a" * 62, "double", "class", "main"):
        with pytest.raises(qd.ArgumentError, match="name"):
            controller_c(qd.WholeBodyController(robot), name=name)
    raises(qd.ArgumentError, "WholeBodyController", export_c, robot, tmp_path)
    assert not list(tmp_path.iterdir())


def test_exported_files_are_reproducible_and_ascii():
    robot = qd.load("go2")
    one, two = (controller_c(qd.WholeBodyController(robot)) for _ in range(2))
    assert one.files == two.files
    assert all(text.isascii() for text in one.files.values())
    sources = "".join(text for file, text in one.files.items() if file.endswith(".c") and file != "main.c")
    assert not re.search(r"\b(malloc|calloc|realloc|free|printf|fopen)\(", sources)
    assert set(re.findall(r"#include <(.*)>", sources)) <= {"math.h", "stddef.h", "string.h", "stdbool.h", "stdint.h"}
    assert sum(one.memory.values()) > 100_000


def test_export_does_not_change_the_controller():
    robot = qd.load("solo8")
    wbc, other = qd.WholeBodyController(robot), qd.WholeBodyController(robot)
    dynamics, v = qd.Dynamics(robot), np.zeros(robot.nv)
    for k in range(20):
        if k == 10:
            controller_c(wbc)
        s = dynamics.update(robot.q_home, v)
        feet = robot.feet[:3] if k > 5 else robot.feet
        assert wbc.compute(s, feet).tau.tobytes() == other.compute(s, feet).tau.tobytes()
