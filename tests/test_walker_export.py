"""The embedded and the exported walker against `LocomotionController`."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import controller_in_c as cc
import numpy as np
import pytest
from browser import require
from numpy.typing import NDArray
from raising import raises
from slow_parameters import NIGHT, others_slow

import quaddyn as qd
from quaddyn.compiler.compilation_units import CompilationUnit
from quaddyn.locomotion import FEET, GAITS, LocomotionController, LocomotionMode
from quaddyn.locomotion.embedded import embedded_walker
from quaddyn.locomotion.embedded.embedded_walker import make_embedded_walker
from quaddyn.locomotion.velocity_limits import allocate_gait_limits
from quaddyn.robot.inertial_update import with_inertials
from quaddyn.runtime import export_walker
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
