"""The safety layer: faults put into the readings of a trot are named, and end in damping, in time."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from compiling_c import COMPILER, FLAGS

import quaddyn as qd
from quaddyn.compiling import interpreted, quietly
from quaddyn.runtime import MotorCommand, Safety, SafetyLimits, export_safety
from quaddyn.runtime.faults import CODES
from quaddyn.runtime.safety_checks import CONTROLLER_FAILED, CONTROLLER_LATE, LINK_LOST, STOPPED
from quaddyn.simulation import Encoders, FootSensors, Imu, Measurement, Sensors, Simulation

DT, BEGIN = 2e-3, 150  # the fault comes with this tick
Trot = list[tuple[Measurement, np.ndarray]]


@pytest.fixture(scope="module")
def go2() -> qd.Robot:
    return qd.load("go2")


@pytest.fixture(scope="module")
def trot(go2: qd.Robot) -> Trot:
    """Readings of noisy sensors while a Go2 trots, and the torques that it trots with."""
    plant, dyn, walker = Simulation(go2, dt=DT), qd.Dynamics(go2), qd.LocomotionController(go2, dt=DT)
    sensors = Sensors(
        go2,
        np.random.default_rng(0),
        encoders=Encoders(position_noise=3e-4, velocity_noise=0.05, torque_noise=0.2),
        imu=Imu(gyro_noise=0.02, accelerometer_noise=0.2),
        feet=FootSensors(noise=1.0),
    )
    out = []
    for tick in range(700):
        reading = sensors.read(plant)
        tau = walker.compute(dyn.update(plant.q, plant.v), (0.6, 0.0, 0.3)).tau
        if tick >= 200:
            out.append((reading, tau))
        plant.step(tau)
    return out


def after(change: Callable[[Measurement, int], Measurement]) -> Callable[[Trot], Trot]:
    """From `BEGIN` on; the change is given how many ticks ago that was."""
    return lambda trot: [(change(m, k - BEGIN) if k >= BEGIN else m, tau) for k, (m, tau) in enumerate(trot)]


def stuck(*names: str, at: object = slice(None)) -> Callable[[Trot], Trot]:
    """Entries of readings that stay what they were."""

    def change(trot: Trot) -> Trot:
        kept, out = trot[BEGIN][0], []
        for k, (m, tau) in enumerate(trot):
            for name in names if k >= BEGIN else ():
                value = getattr(m, name).copy()
                value[at] = getattr(kept, name)[at]
                m = replace(m, **{name: value})
            out.append((m, tau))
        return out

    return change


def with_entry(name: str, at: object, value: object) -> Callable[[Trot], Trot]:
    def change(m: Measurement, k: int) -> Measurement:
        array = getattr(m, name).copy()
        array[at] = value
        return replace(m, **{name: array})

    return after(change)


def spins(m: Measurement, k: int) -> Measurement:
    """A joint that turns faster than it may, as position and velocity agree."""
    position, velocity = m.position.copy(), m.velocity.copy()
    position[1], velocity[1] = m.position[1] + 34.0 * DT * (k + 0.5), m.velocity[1] + 34.0
    return replace(m, position=position, velocity=velocity)


def rolls(m: Measurement, k: int) -> Measurement:
    """The robot falls over sideways, as gyroscope and accelerometer agree."""
    c, s = np.cos(3.0 * DT * k), np.sin(3.0 * DT * k)
    R = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    return replace(m, gyro=m.gyro + np.array([3.0, 0.0, 0.0]), accelerometer=R.T @ m.accelerometer)


def shifts(m: Measurement, k: int) -> Measurement:
    position = m.position.copy()
    position[2] += 2.0 * DT * k  # slowly towards the stop, at -0.84
    velocity = m.velocity.copy()
    velocity[2] += 2.0
    return replace(m, position=position, velocity=velocity)


def stalls(trot: Trot) -> Trot:
    return [(trot[BEGIN][0] if BEGIN <= k < BEGIN + 25 else m, tau) for k, (m, tau) in enumerate(trot)]


def commands(value: float) -> Callable[[Trot], Trot]:
    return lambda trot: [(m, np.full(12, value) if k >= BEGIN else tau) for k, (m, tau) in enumerate(trot)]


CALF = 2
ORDER = np.arange(12)[::-1]
SWAP = np.array([3, 4, 5, 0, 1, 2, 6, 7, 8, 9, 10, 11])
FLIP = np.where(np.arange(12) == CALF, -1.0, 1.0)
HEAT = np.full(12, 40.0)

#: Fault: what happens to readings or commands, the fault that is to be named, and within which time [s].
FAULTS: dict[str, tuple[Callable[[Trot], Trot], str, float]] = {
    "stuck encoder": (stuck("position", "velocity", at=CALF), "encoder frozen", 0.06),
    "stuck position": (stuck("position", at=CALF), "encoder contradicts itself", 0.25),
    "stuck velocity": (stuck("velocity", at=CALF), "encoder contradicts itself", 0.2),
    "encoder counts backwards": (
        after(lambda m, k: replace(m, position=FLIP * m.position, velocity=FLIP * m.velocity)),
        "encoder jumps",
        DT,
    ),
    "velocity of other sign": (
        after(lambda m, k: replace(m, velocity=FLIP * m.velocity)), "encoder contradicts itself", 0.2
    ),
    "velocity doubled": (
        after(lambda m, k: replace(m, velocity=2.0 * m.velocity)), "encoder contradicts itself", 0.3
    ),
    "encoder slips": (
        after(lambda m, k: replace(m, position=m.position + 0.3 * (np.arange(12) == 4))), "encoder jumps", DT
    ),
    "swapped legs": (
        after(lambda m, k: replace(m, position=m.position[SWAP], velocity=m.velocity[SWAP])), "encoder jumps", DT
    ),
    "wrong order": (
        after(lambda m, k: replace(m, position=m.position[ORDER], velocity=m.velocity[ORDER])), "encoder jumps", DT
    ),
    "NaN position": (with_entry("position", CALF, np.nan), "reading not a number", DT),
    "infinite velocity": (with_entry("velocity", CALF, np.inf), "reading not a number", DT),
    "NaN torque": (with_entry("torque", CALF, np.nan), "reading not a number", DT),
    "NaN gyroscope": (with_entry("gyro", 1, np.nan), "reading not a number", DT),
    "reading of another shape": (after(lambda m, k: replace(m, position=m.position[:3])), "reading not a number", DT),
    "frozen IMU": (stuck("gyro", "accelerometer"), "gyroscope frozen", 0.06),
    "frozen accelerometer": (stuck("accelerometer"), "accelerometer frozen", 0.06),
    "gyroscope drifts": (
        after(lambda m, k: replace(m, gyro=m.gyro + np.array([0.0, 1.2, 0.0]))), "IMU contradicts itself", 0.7
    ),
    "falls over": (after(rolls), "tilted", 0.5),
    "stall of 50 ms": (stalls, "stale reading", 0.014),
    "joint beyond its stop": (after(shifts), "position limit", 0.8),
    "joint too fast": (after(spins), "velocity limit", 0.012),
    "torque beyond the limit": (with_entry("torque", CALF, 60.0), "torque limit", 0.012),
    "motor gives nothing": (
        after(lambda m, k: replace(m, torque=m.torque * (np.arange(12) != CALF))), "motor does not follow", 0.4
    ),
    "hot motor": (after(lambda m, k: replace(m, temperature=HEAT + k)), "temperature limit", 0.1),
    "NaN command": (commands(np.nan), "command not a number", DT),
    "infinite command": (commands(np.inf), "command not a number", DT),
}  # fmt: skip


def run(safety: Safety, trot: Trot) -> list[object]:
    """Reports of all ticks; torques are within limits at every one."""
    effort, out = safety.allowed.effort, []
    for k, (m, tau) in enumerate(trot):
        with np.errstate(invalid="ignore"):
            report = safety.examine(m, MotorCommand.torques(tau), now=DT * k)
        given = report.command.checked(12)
        if m.position.shape == m.velocity.shape == (12,) and np.isfinite([m.position, m.velocity]).all():
            assert (np.abs(given.torque_at(m.position, m.velocity)) <= effort * (1.0 + 1e-12)).all()
        out.append(report)
    return out


def test_a_trot_goes_through_untouched(go2: qd.Robot, trot: Trot) -> None:
    safety = Safety(go2, dt=DT)
    first = run(safety, trot[:1])  # begins from nothing, which the rate of torques is for
    cuts, reports = safety.cuts, first + run(safety, trot[1:])
    assert all(r.fault is None for r in reports) and safety.cuts == cuts
    assert all(np.allclose(r.command.tau, tau) for r, (_, tau) in zip(reports[1:], trot[1:], strict=True))
    assert all(r.feet.all() for r in reports)


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named_and_ends_in_damping(name: str, go2: qd.Robot, trot: Trot) -> None:
    change, wanted, within = FAULTS[name]
    reports = run(Safety(go2, dt=DT), change(trot))
    assert all(r.fault is None for r in reports[:BEGIN])
    first = next((k for k, r in enumerate(reports) if r.fault is not None), len(reports))
    assert first < len(reports), "not found"
    fault = reports[first].fault
    assert fault.name == wanted, str(fault)
    assert (first - BEGIN + 1) * DT <= within + 1e-9
    assert np.isclose(fault.time, DT * first) and fault.code == CODES[wanted]
    assert all(r.fault is fault for r in reports[first:])  # latched
    for r in reports[first:]:
        assert not r.command.tau.any() and not r.command.stiffness.any() and (r.command.damping > 0.0).all()


def test_power_has_a_limit(go2: qd.Robot, trot: Trot) -> None:
    usual = max(np.maximum(m.torque * m.velocity, 0.0).sum() for m, _ in trot)
    assert run(Safety(go2, dt=DT, limits=SafetyLimits(power=1.1 * usual)), trot)[-1].fault is None
    fault = run(Safety(go2, dt=DT, limits=SafetyLimits(power=0.2 * usual)), trot)[-1].fault
    assert fault.name == "power limit" and fault.joint is None and "W in all" in fault.reason


@pytest.mark.parametrize("value", [np.nan, 37.0])
def test_a_foot_that_is_not_to_be_believed_is_left_out_and_the_robot_goes_on(
    go2: qd.Robot, trot: Trot, value: float
) -> None:
    reports = run(Safety(go2, dt=DT), with_entry("foot_forces", 1, value)(trot))
    assert all(r.fault is None for r in reports)
    assert reports[BEGIN - 1].feet.all() and reports[BEGIN + 30].feet.tolist() == [True, False, True, True]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (CONTROLLER_FAILED, "controller failed"),
        (CONTROLLER_LATE, "controller late"),
        (LINK_LOST, "link lost"),
        (STOPPED, "stopped"),
    ],
)
def test_what_others_find_is_latched_too(go2: qd.Robot, trot: Trot, code: int, name: str) -> None:
    safety = Safety(go2, dt=DT)
    run(safety, trot[:20])
    safety.raise_fault(code, "ZeroDivisionError: division by zero")
    safety.raise_fault(STOPPED, "too late")
    fault = run(safety, trot[20:22])[0].fault
    assert fault.name == name and "division by zero" in fault.reason
    safety.reset()
    assert run(safety, trot[22:24])[-1].fault is None


def test_commands_are_cut_at_limits_and_not_beyond(go2: qd.Robot, trot: Trot) -> None:
    m, effort = replace(trot[0][0], velocity=np.zeros(12)), go2.effort_limits
    safety = Safety(go2, dt=DT, limits=SafetyLimits(stiffness=100.0, rate=effort / 5e-3))
    wild = MotorCommand.follow(m.position + 3.0, m.velocity, np.full(12, 500.0), np.full(12, 1.0))
    reports = [safety.examine(replace(m, time=0.1 + DT * k), wild) for k in range(5)]
    torques = np.array([r.command.torque_at(m.position, m.velocity) for r in reports])
    assert np.allclose(torques[0], 0.4 * effort)  # the whole of it in 5 ms, from nothing
    assert np.allclose(torques[-1], effort) and not reports[0].command.stiffness.any()
    assert safety.cuts["gain"] == 60 and safety.cuts["torque rate"] == 24 and reports[-1].fault is None

    mild = MotorCommand.follow(m.position + 0.1, m.velocity, np.full(12, 500.0), np.full(12, 1.0))
    given = Safety(go2, dt=DT, limits=SafetyLimits(stiffness=100.0)).examine(m, mild).command
    assert (given.stiffness == 100.0).all() and np.allclose(given.torque_at(m.position, m.velocity), 10.0)
    # Numbers that cancel no more.
    wild = MotorCommand(np.full(12, -1e300), np.full(12, 1e290), np.zeros(12), np.full(12, 1e10), np.zeros(12))
    given = Safety(go2, dt=DT).examine(m, wild).command
    assert (np.abs(given.torque_at(m.position, m.velocity)) <= effort).all()

    at_stop = replace(m, position=np.where(np.arange(12) == CALF, go2.upper_position_limits[CALF], m.position))
    safety = Safety(go2, dt=DT)
    assert safety.examine(at_stop, MotorCommand.torques(np.full(12, 5.0))).command.tau.tolist()[1:4] == [5.0, 0.0, 5.0]
    fast = replace(m, velocity=np.where(np.arange(12) == 1, 0.95 * go2.velocity_limits[1], 0.0))
    given = Safety(go2, dt=DT, limits=SafetyLimits(rate=1e6)).examine(fast, MotorCommand.torques(effort)).command.tau
    assert np.isclose(given[1], 0.5 * effort[1]) and np.allclose(np.delete(given, 1), np.delete(effort, 1))


def test_damping_is_no_more_than_motors_can(go2: qd.Robot, trot: Trot) -> None:
    safety = Safety(go2, dt=DT, limits=SafetyLimits(brake=50.0))
    safety.raise_fault(STOPPED, "")
    m = replace(trot[0][0], velocity=np.linspace(-20.0, 20.0, 12))
    given = safety.examine(m, MotorCommand.torques(np.zeros(12))).command
    assert np.allclose(given.torque_at(m.position, m.velocity)[[0, -1]], [go2.effort_limits[0], -go2.effort_limits[-1]])


def test_machine_code_agrees_with_its_python(go2: qd.Robot, trot: Trot) -> None:
    change = FAULTS["gyroscope drifts"][0]
    short = change(trot)[BEGIN - 10 : BEGIN + 15]
    compiled = run(Safety(go2, dt=DT, limits=SafetyLimits(drift=1e-3)), short)
    with interpreted():
        plain = run(Safety(go2, dt=DT, limits=SafetyLimits(drift=1e-3)), short)
    assert compiled[-1].fault.name == plain[-1].fault.name == "IMU contradicts itself"
    assert np.isclose(compiled[-1].fault.time, plain[-1].fault.time)


def test_a_fixed_arm_needs_no_imu() -> None:
    arm = qd.load("ur5")
    safety, position, velocity = Safety(arm, dt=DT), np.zeros(6), np.full(6, 0.3)
    for k in range(60):
        m = Measurement(DT * k, position + velocity * DT * k, velocity + 1e-6 * k, np.zeros(3), np.zeros(3))
        assert safety.examine(m, MotorCommand.torques(np.zeros(6))).fault is None


def test_limits_that_are_none_are_refused(go2: qd.Robot) -> None:
    for wrong in ({"effort": -1.0}, {"speed": np.ones(3)}, {"tilt": np.nan}, {"stale": 0.0}):
        with pytest.raises(qd.ArgumentError, match=next(iter(wrong))):
            Safety(go2, dt=DT, limits=SafetyLimits(**wrong))
    for wrong in ({"dt": 0.0}, {"imu": 2.0 * np.eye(3)}, {"limits": {"tilt": 1.0}}):
        with pytest.raises(qd.ArgumentError, match=next(iter(wrong))):
            Safety(go2, **({"dt": DT} | wrong))
    with pytest.raises(qd.ArgumentError, match="name"):
        export_safety(Safety(go2, dt=DT), "unused", name="2 legs")
    with pytest.raises(qd.ArgumentError, match="code"):
        Safety(go2, dt=DT).raise_fault(CODES["tilted"], "")


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("name", ["swapped legs", "gyroscope drifts", "joint too fast"])
def test_c_does_the_same(name: str, go2: qd.Robot, trot: Trot, c_library: ctypes.CDLL) -> None:
    """Exported, compiled by a C compiler, fed the same readings: the same torques and the same fault, tick by tick."""

    class Reading(ctypes.Structure):
        _fields_ = [(n, ctypes.c_void_p) for n in ("q", "v", "gyro", "accelerometer", "torque", "feet", "heat")]

    trot = FAULTS[name][0](trot)[BEGIN - 30 :]
    c_library.go2_safety_reset()
    safety, last = Safety(go2, dt=DT), None
    c_library.go2_safety_name.restype = ctypes.c_char_p
    c_library.go2_safety_tick.argtypes = (
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_bool, ctypes.c_double, ctypes.c_int
    )  # fmt: skip
    for (m, tau), report in zip(trot, run(safety, trot), strict=True):
        parts = m.position, m.velocity, m.gyro, m.accelerometer, m.torque, m.foot_forces
        kept = [np.ascontiguousarray(part) for part in parts]
        reading = Reading(*(part.ctypes.data for part in kept), None)
        command = np.zeros((5, 12))
        command[0] = tau
        elapsed = DT if last is None else m.time - last
        code = c_library.go2_safety_tick(ctypes.byref(reading), command.ctypes.data, last != m.time, elapsed, 0)
        last = m.time
        given = report.command
        assert np.allclose(command, [given.tau, given.position, given.velocity, given.stiffness, given.damping])
        assert code == (0 if report.fault is None else report.fault.code)
    assert c_library.go2_safety_name(code).decode() == report.fault.name
    joint = c_library.go2_safety_joint()
    assert (None if joint < 0 else go2.actuated[joint]) == report.fault.joint


@pytest.fixture(scope="module")
def c_library(go2: qd.Robot, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    import subprocess

    folder = tmp_path_factory.mktemp("safety")
    with quietly():
        export_safety(Safety(go2, dt=DT), folder, name="go2_safety")
    sources = [str(folder / f"go2_safety{part}.c") for part in ("", "_core")]
    out = folder / "safety.so"
    subprocess.run([COMPILER, *FLAGS, "-O1", "-shared", "-fPIC", "-o", str(out), *sources, "-lm"], check=True)
    return ctypes.CDLL(str(out))
