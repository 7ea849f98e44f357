"""The embedded and the exported walker against `LocomotionController`."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import controller_in_c as cc
import numpy as np
import pinocchio as pin
import pytest
from browser import require
from numpy.typing import NDArray
from raising import raises
from slow_parameters import NIGHT, others_slow
from typer.testing import CliRunner
from wbc_elements import IN_PYTHON, check_that_every_kind_is_there, controller_of_every_kind

import quaddyn as qd
from quaddyn.cli import app
from quaddyn.compiler.compilation_units import CompilationUnit
from quaddyn.estimation import BaseEstimator
from quaddyn.locomotion import FEET, GAITS, LocomotionController, LocomotionMode
from quaddyn.locomotion.embedded import embedded_walker
from quaddyn.locomotion.embedded.embedded_walker import make_embedded_walker
from quaddyn.locomotion.velocity_limits import allocate_gait_limits
from quaddyn.robot.inertial_update import with_inertials
from quaddyn.runtime import (
    MotorCommand,
    PlantInterface,
    RobotServer,
    Safety,
    SharedMemory,
    SharedMemoryInterface,
    export_estimator,
    export_interface,
    export_program,
    export_safety,
    export_walker,
)
from quaddyn.runtime.simulated_interface import make_noisy_sensors
from quaddyn.simulation import Measurement, Simulation
from quaddyn.wbc import (
    ComTask,
    LinearConstraint,
    PostureTask,
    controller_c,
    export_c,
)
from quaddyn.wbc.constraints import TorqueLimits
from quaddyn.wbc.tasks.motion_parameters import motion_parameters
from quaddyn.wbc.tick_data import TickOutcome

Array = NDArray[np.float64]
DT = 2e-3


@dataclasses.dataclass
class RecordedTick:
    """Inputs of a tick, what was called before it, and the torques of `LocomotionController`."""

    q: Array
    v: Array
    velocity: tuple[float, float, float]
    measured: tuple[str, ...] | None
    call: str
    mode: LocomotionMode
    reason: str
    tau: Array


@pytest.fixture(scope="module")
def recordings() -> Callable[[str], list[RecordedTick]]:
    made: dict[str, list[RecordedTick]] = {}

    def record(name: str) -> list[RecordedTick]:
        if name not in made:
            made[name] = record_ticks(qd.load(name))
        return made[name]

    return record


def record_ticks(robot: qd.Robot) -> list[RecordedTick]:
    """Records a robot that lands, walks in two gaits, is pushed, lies down, stands up, walks with foot sensors, falls
    and tries to stand up again; times are in sqrt(l/g), forces in weights.  Its rotors have inertias that the model
    lacks."""
    dynamics, controller = qd.Dynamics(robot), LocomotionController(robot, dt=DT)
    p, trunk = controller.morphology, robot.bodies[0].name
    rotor = np.array([0.0, 0.0, 0.002 * p.mass * p.length**2])
    plant = qd.Simulation(with_inertials(robot, {}, dict.fromkeys(robot.actuated, rotor), said="test"), dt=DT)
    unit, weight, ticks = round(p.time_scale / DT), p.mass * p.gravity, list[RecordedTick]()
    start = np.array(robot.q_home)
    start[2] += 0.1 * p.length
    plant.reset(start, np.zeros(robot.nv))
    calls = {16: "pace", 24: "trot", 32: "lie_down", 44: "stand_up", 78: "stand_up"}
    pushes = {12: 0.2, 72: 3.0}
    for k in range(82 * unit):
        at, is_first = k // unit, k % unit == 0
        call = calls.get(at, "") if is_first else ""
        if call in GAITS:
            controller.gait = call
        elif call:
            getattr(controller, call)()
        if is_first and at in pushes:
            plant.push(trunk, pushes[at] * weight * np.array([0.0, 1.0, 0.0]), duration=0.5 * p.time_scale)
        velocity = (0.2 * p.speed_scale, 0.0, 0.3 / p.time_scale if at > 8 else 0.0) if 3 <= at else (0.0, 0.0, 0.0)
        measured = None
        if at >= 56:
            measured = tuple(foot for foot in FEET if plant.contact_forces.get(foot, np.zeros(3))[2] > 0.05 * weight)
        state = dynamics.update(plant.q, plant.v)
        command = controller.compute(state, velocity, measured_contacts=measured)
        ticks.append(
            RecordedTick(
                np.array(state.q), np.array(state.v), velocity, measured, call, command.mode, command.limit_reason,
                np.array(command.tau),
            )
        )  # fmt: skip
        plant.step(command.tau)
    assert max(controller.estimated_rotor_inertia.values()) > 0.5 * rotor[2]
    return ticks


class NativeWalker:
    """Embedded walker as machine code.

    Args:
        controller: controller to embed.
        entries: compiled functions by name.
        terms: function that computes the rigid-body terms.
    """

    def __init__(self, controller: LocomotionController, entries: Any, terms: Callable[..., Any]) -> None:
        self.walker, self._entries, self._terms = make_embedded_walker(controller._walking), entries, terms
        self._controller, self.tau = controller, np.zeros(controller.robot.nu)

    def tick(self, tick: RecordedTick) -> tuple[int, Array]:
        """Makes the recorded call, and computes a tick."""
        if tick.call in GAITS:
            limits = allocate_gait_limits()
            self._controller._quadruped.capability.velocity_limits.write_gait(limits, GAITS[tick.call])
            self._entries["select_gait"](self.walker, limits)
        elif tick.call:
            self._entries[tick.call](self.walker)
        contacts = np.array([] if tick.measured is None else [foot in tick.measured for foot in FEET], dtype=np.int64)
        self._terms(tick.q, tick.v, self.walker.wbc.data.terms.values)
        outcome = self._entries["walker_tick"](self.walker, tick.q, tick.v, np.array(tick.velocity), contacts, self.tau)
        return int(outcome), self.tau


class CWalker:
    """An exported walker as a library."""

    def __init__(self, controller: LocomotionController, folder: Path, *flags: str) -> None:
        self.source = export_walker(controller, folder, name="w")
        self.library = ctypes.CDLL(str(cc.compiled(folder, folder / "w.so", *flags)))
        self.tau = np.zeros(controller.robot.nu)
        self.library.w_size.restype = ctypes.c_size_t
        self.robot = ctypes.create_string_buffer(self.library.w_size())
        self.library.w_initialize(self.robot)
        self.library.w_limit_reason.restype = ctypes.c_char_p
        self.library.w_mode_name.restype = ctypes.c_char_p
        header = self.source.files["w.h"].splitlines()
        self.gaits = [line.split("W_GAIT_")[1].split(" ")[0].lower() for line in header if "W_GAIT_" in line]

    def terms(self, q: Array, v: Array, out: Array) -> None:
        """Computes the rigid-body terms."""
        self.library.w_terms(*(ctypes.c_void_p(x.ctypes.data) for x in (q, v, out)))

    def tick(self, tick: RecordedTick) -> tuple[int, Array]:
        """Makes the recorded call, and computes a tick."""
        if tick.call in GAITS:
            assert self.library.w_set_gait(self.robot, self.gaits.index(tick.call)) == 1
        elif tick.call:
            getattr(self.library, f"w_{tick.call}")(self.robot)
        feet = None if tick.measured is None else bytes(foot in tick.measured for foot in FEET)
        velocity = np.array(tick.velocity)
        outcome = self.library.w_tick(
            self.robot, *(ctypes.c_void_p(x.ctypes.data) for x in (tick.q, tick.v, velocity)), feet,
            ctypes.c_void_p(self.tau.ctypes.data),
        )  # fmt: skip
        return int(outcome), self.tau


@pytest.mark.parametrize("name", others_slow(("go2", "solo12", "anymal_c", "hyq", "b1"), {"go2"}))
def test_c_torques_equal_the_controller_and_are_bitwise_those_of_machine_code(
    name: str, recordings: Callable[[str], list[RecordedTick]], tmp_path: Path
) -> None:
    if cc.COMPILER is None:
        require("cc")
    robot, ticks = qd.load(name), recordings(name)
    c = CWalker(LocomotionController(robot, dt=DT), tmp_path, *cc.SAME_BITS)
    entries = CompilationUnit.of_module(embedded_walker.__name__).compile_uncached(contract=False)
    python, errors = NativeWalker(LocomotionController(robot, dt=DT), entries, c.terms), np.zeros(len(ticks))
    for k, tick in enumerate(ticks):
        outcome, tau = c.tick(tick)
        expected, ours = python.tick(tick)
        assert (outcome, tau.tobytes()) == (expected, ours.tobytes()), k
        mode = c.library.w_mode(c.robot)
        assert c.library.w_mode_name(mode).decode() == tick.mode.value, k
        assert c.library.w_limit_reason(c.robot).decode() == tick.reason, k
        errors[k] = np.abs(tau - tick.tau).max() / np.abs(tick.tau).max()
    # The controller's machine code has fused multiply-adds; at isolated ticks, rounding changes the optimum.
    assert np.quantile(errors, 0.9) < 1e-9 and errors.max() < 1e-3
    seen = {tick.mode for tick in ticks}
    assert seen >= {
        LocomotionMode.AIRBORNE, LocomotionMode.LANDING, LocomotionMode.RISING, LocomotionMode.STANDING,
        LocomotionMode.MOVING, LocomotionMode.LOWERING, LocomotionMode.LYING, LocomotionMode.FALLEN,
    }, seen  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["go2", "solo12", "anymal_c"])
def test_embedded_walker_has_the_torques_and_modes_of_the_controller(
    name: str, recordings: Callable[[str], list[RecordedTick]]
) -> None:
    controller = LocomotionController(qd.load(name), dt=DT)
    entries = {f.__name__: f for f in embedded_walker.FUNCTIONS}
    walker = NativeWalker(controller, entries, controller.wbc.solver.terms.compute)
    for k, tick in enumerate(recordings(name)):
        _, tau = walker.tick(tick)
        assert LocomotionMode.from_code(walker.walker.walker.walk.mode.mode) is tick.mode, k
        np.testing.assert_allclose(tau, tick.tau, atol=1e-9, err_msg=str(k))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["go2", "solo12"])
def test_random_and_invalid_ticks_under_sanitizers_keep_torques_within_limits(name: str, tmp_path: Path) -> None:
    controller = LocomotionController(qd.load(name), dt=DT)
    export_walker(controller, tmp_path, name="w")
    limits = ", ".join(map(repr, controller._quadruped.torque_limiter.max_torque.tolist()))
    text = Path(__file__).with_name("hostile_walker.c").read_text(encoding="utf-8")
    (tmp_path / "main.c").write_text(
        text.replace("LIMITS", limits).replace("UPPER", "W").replace("NAME", "w"), encoding="utf-8"
    )
    shutil.copy(cc.HOSTILE_NUMBERS, tmp_path)
    built = cc.compiled(tmp_path, tmp_path / "hostile", *cc.SANITIZED, program=tmp_path / "main.c")
    ticks = os.environ.get("QUADDYN_TICKS", "100000" if NIGHT else "5000")
    done = subprocess.run([str(built), ticks], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


def test_two_robots_in_one_program_are_independent_and_a_copy_continues(
    recordings: Callable[[str], list[RecordedTick]], tmp_path: Path
) -> None:
    if cc.COMPILER is None:
        require("cc")
    c, ticks = CWalker(LocomotionController(qd.load("go2"), dt=DT), tmp_path), recordings("go2")[:1500]
    alone = [c.tick(tick)[1].tobytes() for tick in ticks]
    first, second = (ctypes.create_string_buffer(len(c.robot)) for _ in range(2))
    for robot in (first, second):
        c.library.w_initialize(robot)
    lag = 700
    for k, tick in enumerate(ticks):
        c.robot = first
        assert c.tick(tick)[1].tobytes() == alone[k]
        if k >= lag:
            c.robot = second
            assert c.tick(ticks[k - lag])[1].tobytes() == alone[k - lag]
    c.robot = ctypes.create_string_buffer(second.raw, len(second))  # at another address
    for k in range(len(ticks) - lag, len(ticks)):
        assert c.tick(ticks[k])[1].tobytes() == alone[k]


@pytest.mark.slow
def test_different_robots_are_linked_into_one_program(tmp_path: Path) -> None:
    sources = [export_walker(LocomotionController(qd.load(n), dt=DT), tmp_path, name=n) for n in ("go2", "solo12")]
    (tmp_path / "main.c").write_text(
        '#include "go2.h"\n#include "solo12.h"\nint main(void)\n{\n'
        + "".join(
            f"    static {n} {n}_robot;\n    static const double {n}_rest[{n.upper()}_NV];\n"
            f"    double {n}_tau[{n.upper()}_NU];\n"
            for n in ("go2", "solo12")
        )
        + "    int outcome = 0;\n"
        + "".join(
            f"    {n}_initialize(&{n}_robot);\n"
            f"    outcome += {n}_tick(&{n}_robot, {n}_home, {n}_rest, {n}_rest, NULL, {n}_tau);\n"
            for n in ("go2", "solo12")
        )
        + "    return outcome;\n}\n"
    )
    assert {file for s in sources for file in s.files} <= {path.name for path in tmp_path.iterdir()}
    configure = ["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build")]  # those of the last one
    subprocess.run(configure, check=True, capture_output=True, timeout=60)
    built = cc.compiled(tmp_path, tmp_path / "two", program=tmp_path / "main.c")
    assert subprocess.run([str(built)]).returncode == 0


def test_controllers_that_need_python_are_rejected(tmp_path: Path) -> None:
    robot = qd.load("go2")
    for options, words in (
        ({"terrain": lambda x, y: 0.0 * x}, "terrain map"),
        ({"payload": "estimated"}, "payload"),
    ):
        with pytest.raises(qd.ArgumentError, match=f"controller: cannot be exported or run in a batch: .*{words}"):
            export_walker(LocomotionController(robot, dt=DT, **options), tmp_path)  # type: ignore[arg-type]
    controller = LocomotionController(robot, dt=DT)
    raises(qd.ArgumentTypeError, "expected a LocomotionController", export_walker, controller.wbc, tmp_path)
    raises(qd.ArgumentError, "name", export_walker, controller, tmp_path, name="1st")


def test_extreme_velocities_are_rejected_before_any_estimate_changes() -> None:
    robot = qd.load("go2")
    controller = LocomotionController(robot, dt=DT)
    entries = {f.__name__: f.python for f in embedded_walker.FUNCTIONS}
    walker = NativeWalker(controller, entries, controller.wbc.solver.terms.compute)
    home, rest, fast = np.array(robot.q_home), np.zeros(robot.nv), np.zeros(robot.nv)
    fast[7] = 1e100
    still = RecordedTick(home, rest, (0.0, 0.0, 0.0), FEET, "", LocomotionMode.STANDING, "", rest)
    first, tau = walker.tick(still)
    before = tau.copy()
    outcome, tau = walker.tick(dataclasses.replace(still, v=fast))
    assert first == TickOutcome.SOLVED and outcome == TickOutcome.INVALID_STATE and tau.tobytes() == before.tobytes()
    assert all(walker.tick(still)[0] == TickOutcome.SOLVED for _ in range(3))


def test_settings_that_the_export_would_lose_are_kept_or_rejected(tmp_path: Path) -> None:
    robot = qd.load("go2")
    slow_trot = dataclasses.replace(GAITS["trot"], period=2.6)
    controller = LocomotionController(robot, dt=DT, gait=slow_trot)
    controller.wbc.friction = 0.8
    controller.wbc.add(TorqueLimits(robot, scale=0.5, name="soft limits"), 1)
    source = export_walker(controller, tmp_path, name="wbc").files["wbc.c"]
    walker = make_embedded_walker(controller._walking)
    assert walker.walker.walk.friction.friction == 0.8
    assert walker.walker.motors.limits.tolist() == controller.wbc.tasks["torque"].limits.tolist()
    period = source.partition("gait_trot_timing_period[1] = {")[2].split(",")[0]
    assert float(period) == 2.6 * controller.morphology.time_scale
    cc.compiled(tmp_path, tmp_path / "wbc.so", "-O0")  # a prefix that is also the name of a part
    controller.wbc.contacts["FL"].friction = 0.2
    raises(qd.ArgumentError, "friction coefficients of their own", export_walker, controller, tmp_path)
    controller = LocomotionController(robot, dt=DT)
    state = qd.Dynamics(robot).update(np.array(robot.q_home), np.zeros(robot.nv))
    for measured in (FEET, (), (), (), ("FL",)):
        command = controller.compute(state, measured_contacts=measured)
    controller.reset()
    assert command.mode is LocomotionMode.LANDING
    exported = motion_parameters(make_embedded_walker(controller._walking).walker.walk.tasks.com, 3).weight
    assert exported.min() > 0.1  # a landing reduces the weight


def test_a_robot_whose_ground_is_lost_at_the_start_of_a_gait_stands_after_the_landing() -> None:
    robot = qd.load("go2")
    controller, dynamics = LocomotionController(robot, dt=DT), qd.Dynamics(robot)
    state = dynamics.update(np.array(robot.q_home), np.zeros(robot.nv))
    inputs = [(FEET, 0.0)] * 5 + [(FEET, 0.3)] * 5 + [((), 0.0)] * 20 + [(FEET, 0.0)] * 1500
    for measured, speed in inputs:
        command = controller.compute(state, (speed, 0.0, 0.0), measured_contacts=measured)
    assert command.mode is LocomotionMode.STANDING and command.contacts == FEET


# -- a whole controller as c99 ----------------------------------------------------------------------------------------
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


# -- programs in c that drive a robot in another process --------------------------------------------------------------
DT, SECONDS = 2e-3, 0.6


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Generated by the command line and built."""
    folder = tmp_path_factory.mktemp("program")
    done = CliRunner().invoke(app, ["codegen", "go2", "--target", "program", "--dt", str(DT), "--out", str(folder)])
    assert done.exit_code == 0, done.output
    return cc.compiled(folder, folder / "go2_drive", "-O0", program=folder / "main.c")


class Scene:
    """A plant behind shared memory that advances by one period for each command."""

    def __init__(self, robot, path):
        self.plant = Simulation(robot, dt=DT)
        memory = SharedMemory(path, robot.nu, len(robot.feet), create=True)
        self.server = RobotServer(PlantInterface(self.plant, sensors=make_noisy_sensors(robot)), memory, dt=DT)
        self.memory, self.states, self.seen = memory, [], 0

    def tick(self):
        """Advances one period if a new command has arrived, and returns whether it did."""
        found = self.memory.read_command()
        if found is None or found[0] == self.seen:
            return False
        self.seen = found[0]
        self.server.tick()
        self.states.append(np.array(self.plant.q))
        return True


def run_python_controller(robot, path):
    """Runs the Python equivalent of main.c."""
    scene, side, safety = Scene(robot, path), SharedMemoryInterface(robot, path), Safety(robot, dt=DT)
    estimator, wbc, dynamics = BaseEstimator(robot, dt=DT), qd.WholeBodyController(robot, dt=DT), qd.Dynamics(robot)
    brake, begun = MotorCommand.from_damping(safety.limit_arrays.fault_damping), None
    for _ in range(round(SECONDS / DT)):
        m, command = side.read(), brake
        if begun is None:
            begun = m.time if scene.states else None
            estimator.initialize_at_rest(m.position, m.accelerometer)
        if begun is not None:
            w = np.pi
            angle = 0.1 * np.sin(w * (m.time - begun))
            rate, change = 0.1 * w * np.cos(w * (m.time - begun)), -w * w * angle
            R = pin.rpy.rpyToMatrix(0.0, angle, 0.0)
            wbc.tasks.base.reference(R, [0.0, rate, 0.0], [0.0, change, 0.0])
            estimator.update(m.position, m.velocity, m.gyro, m.accelerometer, robot.feet)
            q, v = estimator.odometry()
            command = MotorCommand.from_torques(wbc.compute(dynamics.update(q, v)).tau)
        report = safety.filter_command(m, command)
        assert report.fault is None
        side.write(report.command)
        assert scene.tick()
    return np.array(scene.states)


def run_c_program(robot, program, path):
    """Runs the C program and returns the states and its final output."""
    scene = Scene(robot, path)
    driver = subprocess.Popen([str(program), str(path), str(SECONDS)], stdout=subprocess.PIPE, encoding="utf-8")
    try:
        limit = time.monotonic() + 120.0
        while driver.poll() is None and time.monotonic() < limit:
            if not scene.tick():
                time.sleep(2e-5)
        said, _ = driver.communicate(timeout=60.0)
    finally:
        driver.kill()
        driver.wait(60.0)
    assert driver.returncode == 0, said
    return np.array(scene.states), said


def test_program_has_a_build_file_for_cmake(program, tmp_path):
    command = ["cmake", "-S", str(program.parent), "-B", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def test_program_in_c_moves_the_robot_as_python_does(go2, program, tmp_path):
    ours, (states, said) = run_python_controller(go2, tmp_path / "python"), run_c_program(go2, program, tmp_path / "c")
    assert "no fault" in said and " 0 unsolved" in said
    pitch = [pin.rpy.matrixToRpy(pin.Quaternion(q[3:7].copy()).toRotationMatrix())[1] for q in states]
    assert max(pitch) > 0.08  # the base pitches
    np.testing.assert_allclose(states[: len(ours)], ours, atol=1e-5)


@pytest.mark.parametrize("gone", ["one motor", "all motors", "time"])
def test_program_in_c_detects_missing_sensors_and_stopped_time_as_python_does(go2, program, tmp_path, gone):
    """A NaN motor temperature masks no other motor; missing sensors and a stopped time are faults."""
    memory, up = SharedMemory(tmp_path / "ring", 12, 4, create=True), np.array([0.0, 0.0, 9.81])
    safety, rng, off = Safety(go2, dt=DT), np.random.default_rng(0), MotorCommand.zero(12)
    driver = subprocess.Popen([str(program), str(memory.path)], stdout=subprocess.DEVNULL)
    try:
        for k in range(40):
            heat = np.full(12, 40.0)
            if k >= 10 and gone == "all motors":
                heat[:] = np.nan
            elif k >= 10 and gone == "one motor":
                heat[0], heat[5] = np.nan, 150.0
            noise = 1e-3 * rng.standard_normal(3)
            time_ = DT * (min(k, 10) if gone == "time" else k)
            m = Measurement(time_, go2.q_home[7:], 1e-3 + np.zeros(12), noise, up + noise, temperature=heat)
            memory.write_reading(m)
            fault = safety.filter_command(m, off).fault
            limit = time.monotonic() + 120.0
            while ((found := memory.read_command()) is None or found[0] <= k) and time.monotonic() < limit:
                time.sleep(2e-5)
        said = memory.read_command()[2]
    finally:
        driver.kill()
        driver.wait(60.0)
        memory.close()
    assert fault is not None and not said.tau.any() and not said.stiffness.any() and (said.damping > 0.0).all()


def test_programs_reject_files_that_are_not_shared_memory_of_their_robot(program, tmp_path):
    (tmp_path / "else").write_bytes(bytes(4096))
    SharedMemory(tmp_path / "arm", 6, 0, create=True).close()
    SharedMemory(tmp_path / "good", 12, 4, create=True).close()
    for name, mode in (("group", 0o620), ("everybody", 0o666)):
        SharedMemory(tmp_path / name, 12, 4, create=True).close()
        (tmp_path / name).chmod(mode)
    (tmp_path / "link").symlink_to(tmp_path / "good")
    others = ["group", "everybody", "link"]
    if os.geteuid() == 0:
        SharedMemory(tmp_path / "stranger", 12, 4, create=True).close()
        os.chown(tmp_path / "stranger", 12345, -1)
        others.append("stranger")
    for path in ("missing", "else", "arm", *others):
        done = subprocess.run([str(program), str(tmp_path / path), "1"], capture_output=True, encoding="utf-8")
        assert done.returncode == 2 and "shared memory" in done.stderr


TWO_ROBOTS = """
#include <math.h>
#include <string.h>
#include "one.h"
#include "two.h"

int main(void)
{
    static one first, second, copy;
    static two filter, other;
    static const double joints[TWO_NU] = {HOME}, rest[TWO_NU];
    static double up[3] = {0.0, 0.0, 9.81}, q[4][TWO_NQ], v[TWO_NV];
    static const unsigned char standing[TWO_NF] = {1, 1, 1, 1};
    one_command command;
    one_reading reading = {joints, rest, rest, up, NULL, NULL, NULL};
    int failed = 0;
    one_initialize(&first);
    one_initialize(&second);
    memset(&command, 0, sizeof command);
    failed += one_tick(&first, &reading, &command, true, ONE_PERIOD, ONE_LINK_LOST) != ONE_LINK_LOST;
    copy = first;
    failed += one_tick(&copy, &reading, &command, true, ONE_PERIOD, 0) != ONE_LINK_LOST;
    failed += one_tick(&second, &reading, &command, true, ONE_PERIOD, 0) != 0;
    one_reset(&first);
    failed += one_tick(&first, &reading, &command, true, ONE_PERIOD, ONE_LINK_LOST) != ONE_LINK_LOST;
    two_initialize(&filter);
    two_initialize(&other);
    two_start(&filter, joints, up);
    two_odometry(&filter, q[0], v);
    two_start(&other, joints, up);
    up[0] = 1.0;
    two_update(&other, joints, rest, rest, up, standing, 1);
    two_odometry(&filter, q[1], v);
    two_odometry(&other, q[2], v);
    failed += memcmp(q[0], q[1], sizeof q[0]) != 0 || memcmp(q[0], q[2], sizeof q[0]) == 0;
    up[1] = NAN;
    two_update(&other, joints, rest, rest, up, standing, 1);
    two_odometry(&other, q[3], v);
    failed += memcmp(q[2], q[3], sizeof q[2]) != 0;
    return failed;
}
"""


def test_safety_layers_and_estimators_of_several_robots_are_independent(go2, tmp_path):
    export_safety(Safety(go2, dt=DT), tmp_path, name="one")
    export_estimator(BaseEstimator(go2, dt=DT), tmp_path, name="two")
    (tmp_path / "main.c").write_text(
        TWO_ROBOTS.replace("HOME", ", ".join(map(repr, go2.q_home[7:].tolist()))), encoding="ascii"
    )
    program = cc.compiled(tmp_path, tmp_path / "robots", *cc.SANITIZED, program=tmp_path / "main.c")
    assert subprocess.run([str(program)]).returncode == 0


def test_an_arm_has_an_interface_but_no_program(tmp_path):
    arm = qd.load("ur5")
    export_interface(arm, tmp_path, name="arm")
    assert cc.compiled(tmp_path, tmp_path / "arm.so")
    raises(qd.ArgumentError, "feet", export_program, qd.WholeBodyController(arm), tmp_path)
    for wrong in ("1st", "a b", ""):
        raises(qd.ArgumentError, "name", export_estimator, BaseEstimator(qd.load("go2")), tmp_path, name=wrong)
    raises(qd.ArgumentTypeError, "robot", export_interface, "ur5", tmp_path)


def test_program_in_c_walks_a_robot_in_another_process(go2, tmp_path):
    done = CliRunner().invoke(
        app, ["codegen", "go2", "--target", "walking_program", "--dt", str(DT), "--out", str(tmp_path / "source")]
    )
    assert done.exit_code == 0, done.output
    source = tmp_path / "source"
    program = cc.compiled(source, tmp_path / "drive", cc.SAME_BITS[0], program=source / "main.c")
    seconds = 300.0 if NIGHT else 3.0
    scene = Scene(go2, tmp_path / "memory")
    arguments = [str(program), str(tmp_path / "memory"), str(seconds), "0.4", "0.0", "0.2" if NIGHT else "0.0"]
    driver = subprocess.Popen(arguments, stdout=subprocess.PIPE, encoding="utf-8")
    weight, limit = go2.mass * 9.81, time.monotonic() + 120.0 + 10.0 * seconds
    try:
        while driver.poll() is None and time.monotonic() < limit:
            if not scene.tick():
                time.sleep(2e-5)
            elif len(scene.states) % 5000 == 1000:  # every ten seconds, beginning in the second one
                direction = 2.0 * len(scene.states)
                push = 0.15 * weight * np.array([np.cos(direction), np.sin(direction), 0.0])
                scene.plant.push(go2.bodies[0].name, push, duration=0.1)
        said, _ = driver.communicate(timeout=60.0)
    finally:
        driver.kill()
        driver.wait(60.0)
    assert driver.returncode == 0 and "no fault" in said and said.endswith("moving\n"), said
    states = np.array(scene.states)
    path = np.linalg.norm(np.diff(states[::50, :2], axis=0), axis=1).sum()
    assert path > 0.8 * 0.4 * (seconds - 1.5) and states[:, 2].min() > 0.2
