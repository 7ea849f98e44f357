"""Programs in C that drive a robot in another process: the same motion as the same controller in Python."""

import os
import subprocess
import time

import controller_in_c as cc
import numpy as np
import pinocchio as pin
import pytest
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli.app import app
from quaddyn.estimation import BaseEstimator
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
)
from quaddyn.runtime.simulated_interface import make_noisy_sensors
from quaddyn.simulation import Measurement, Simulation

DT, SECONDS = 2e-3, 0.6


@pytest.fixture(scope="module")
def go2():
    return qd.load("go2")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Written by the command that users call, and built."""
    folder = tmp_path_factory.mktemp("program")
    done = CliRunner().invoke(app, ["codegen", "go2", "--target", "program", "--dt", str(DT), "--out", str(folder)])
    assert done.exit_code == 0, done.output
    return cc.compiled(folder, folder / "go2_drive", "-O0", program=folder / "main.c")


class Scene:
    """A plant behind shared memory, whose period passes when a command has come."""

    def __init__(self, robot, path):
        self.plant = Simulation(robot, dt=DT)
        memory = SharedMemory(path, robot.nu, len(robot.feet), create=True)
        self.server = RobotServer(PlantInterface(self.plant, sensors=make_noisy_sensors(robot)), memory, dt=DT)
        self.memory, self.states, self.seen = memory, [], 0

    def tick(self):
        """Whether there was a command for it."""
        found = self.memory.read_command()
        if found is None or found[0] == self.seen:
            return False
        self.seen = found[0]
        self.server.tick()
        self.states.append(np.array(self.plant.q))
        return True


def run_python_controller(robot, path):
    """What main.c does."""
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
    """The states, and what the program says in the end."""
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


def test_program_in_c_moves_the_robot_as_python_does(go2, program, tmp_path):
    ours, (states, said) = run_python_controller(go2, tmp_path / "python"), run_c_program(go2, program, tmp_path / "c")
    assert "no fault" in said and " 0 unsolved" in said
    pitch = [pin.rpy.matrixToRpy(pin.Quaternion(q[3:7].copy()).toRotationMatrix())[1] for q in states]
    assert max(pitch) > 0.08  # it nods
    np.testing.assert_allclose(states[: len(ours)], ours, atol=1e-5)


@pytest.mark.parametrize("gone", ["one motor", "all motors", "time"])
def test_program_in_c_detects_missing_sensors_and_stopped_time_as_python_does(go2, program, tmp_path, gone):
    """A motor's temperature that is NaN hides no other's, sensors that go are a fault, and so is time that stands."""
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


def test_an_arm_has_an_interface_but_no_program(tmp_path):
    arm = qd.load("ur5")
    export_interface(arm, tmp_path, name="arm")
    assert cc.compiled(tmp_path, tmp_path / "arm.so")
    with pytest.raises(qd.ArgumentError, match="feet"):
        export_program(qd.WholeBodyController(arm), tmp_path)
    for wrong in ("1st", "a b", ""):
        with pytest.raises(qd.ArgumentError, match="name"):
            export_estimator(BaseEstimator(qd.load("go2")), tmp_path, name=wrong)
    with pytest.raises(qd.ArgumentTypeError, match="robot"):
        export_interface("ur5", tmp_path)
